"""Causal context parallelism with PyTorch's ``context_parallel`` and its load balancing, forward and backward.

Under a causal mask the last positions attend to most. So every rank has two chunks of the sequence, one from the front
and one from the back: of four chunks, rank 0 has the first and the last. Keys and values go round; what a rank need not
compute, it skips. In the broken twin the sequence is dealt out in chunks, but load balancing is off: what a rank has is
taken for neighbouring positions.

    python examples/causal_context_parallel.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._attention import _cp_options, set_rotate_method

import tantamount as tt

BATCH, HEADS, SIZE = 1, 2, 4
CHUNK, LOCAL = 2, 4  # positions: of a chunk, and of a rank


def attention(q: Tensor, k: Tensor, v: Tensor, grad: Tensor) -> dict[str, Tensor]:
    """The result, and the gradients of what ``grad`` is the gradient of the result of."""
    y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    of_q, of_k, of_v = torch.autograd.grad(y, (q, k, v), grad)
    return {"y": y.detach(), "of q": of_q, "of k": of_k, "of v": of_v}


def ranks_attention(mesh: DeviceMesh):
    def run(q: Tensor, k: Tensor, v: Tensor, grad: Tensor) -> dict[str, Tensor]:
        with context_parallel(mesh, buffers=[torch.empty(LOCAL * mesh.size())], buffer_seq_dims=[0]):
            return attention(q, k, v, grad)

    return run


def tensors(length: int) -> list[Tensor]:
    shape = (BATCH, HEADS, length, SIZE)
    return [*(torch.randn(shape, requires_grad=True) for _ in range(3)), torch.randn(shape)]


def chunks(ranks: int) -> str:
    """Where the ranks have the sequence: their first chunks in order, then their second ones from the last rank on."""
    front = [f"rank({rank})[:, :, 0:{CHUNK}]" for rank in range(ranks)]
    back = [f"rank({rank})[:, :, {CHUNK}:{LOCAL}]" for rank in reversed(range(ranks))]
    return f"concat({', '.join(front + back)}, dim=2)"


def check(*, ranks: int = 2, broken: bool = False) -> tt.Report:
    def build(_: int):
        mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("cp",))
        set_rotate_method("alltoall")
        _cp_options.enable_load_balance = not broken
        return ranks_attention(mesh), tensors(LOCAL)

    return tt.refine(
        tt.capture(attention, tensors(LOCAL * ranks)),
        tt.capture_ranks(build, ranks, mesh={"cp": ranks}),
        inputs={name: chunks(ranks) for name in ("q", "k", "v", "grad")},
        outputs={name: chunks(ranks) for name in ("y", "of q", "of k", "of v")},
    )


if __name__ == "__main__":
    report = check()  # or check(ranks=4), check(ranks=8)
    print(report)
    report.raise_if_not_proved()
    print(check(broken=True))
