"""vLLM's mixtures of experts, as they run on a CPU: with the kernel that vLLM chooses, and weights packed for it.

vLLM packs the weights of experts when all is loaded. Here they stay as its loaders fill them, and each forward pass
packs them, by vLLM's own function: what the kernel makes of a parameter is then part of the program.
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

from tantamount.errors import UserError

__all__ = ["packing", "with_kernels_of_experts"]

_WEIGHTS = ("w13_weight", "w2_weight")


def _experts(modules: Iterable[Any]) -> list[Any]:
    return [one for one in modules if hasattr(getattr(one, "quant_method", None), "moe_kernel")]


def with_kernels_of_experts(modules: Iterable[Any]) -> None:
    """Choose the kernel of every layer of experts, which vLLM does after it has loaded them."""
    for layer in _experts(modules):
        method = layer.quant_method
        if not hasattr(method, "_init_moe_kernel"):
            raise UserError(
                "capture-vllm", place=f"the experts of {getattr(layer, 'layer_name', type(layer).__name__)}",
                found=type(method).__name__, needed="experts whose weights are not quantised",
            )  # fmt: skip
        method._init_moe_kernel(layer)


@contextmanager
def packing(modules: Iterable[Any]) -> Generator[None]:
    """Layers of experts with their weights packed; afterwards they are as before."""
    layers = _experts(modules)
    kept = [{name: layer._parameters[name] for name in _WEIGHTS} for layer in layers]
    biases = [layer.w13_bias for layer in layers if hasattr(layer, "w13_bias")]
    unpadded = [bias.data for bias in biases]
    try:
        for layer in layers:
            layer.quant_method.moe_kernel.fused_experts.process_weights_after_loading(layer)
        yield
    finally:
        for layer, weights in zip(layers, kept, strict=True):
            layer._parameters.update(weights)
        for bias, data in zip(biases, unpadded, strict=True):
            bias.data = data
