"""Megatron-Core models as they are, built and captured on a CPU, with what Megatron knows of where parameters are.

    specification, ranks = tantamount.capture_megatron(build, tensor=2, sequence=True)
    print(tantamount.refine(specification, ranks))

``build(sizes)`` makes the model. Needs ``megatron-core`` beside PyTorch, and neither CUDA, Apex nor Transformer Engine.
"""

from tantamount.capture.torch.megatron.gradients import reduce_gradients
from tantamount.capture.torch.megatron.pairs import capture_megatron
from tantamount.capture.torch.megatron.sizes import Sizes

__all__ = ["Sizes", "capture_megatron", "reduce_gradients"]
