"""Modules in the style of those that nnScaler generates, written by us: two linear layers, over tp and dp, and as a
pipeline of two stages with two microbatches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

__all__ = ["MODEL", "pipeline", "tensor_parallel", "write_modules"]

MODEL = """
import torch
from torch import nn
import torch.nn.functional as F


class Tiny(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.a, self.b = nn.Linear(3, width, bias=False), nn.Linear(width, 3, bias=False)

    def forward(self, data):
        h = F.silu(self.a(data["x"]))
        return (self.b(h) - data["y"]).pow(2).sum()


def with_sample():
    return Tiny(), {"x": torch.zeros(2, 3), "y": torch.zeros(2, 3)}
"""

_HEAD = """
from typing import *
import torch
import nnscaler
import _operator

runtime_version = '0.8'


class GenModel(nnscaler.runtime.module.ParallelModule):
    use_scheduler = {scheduled}
    nmicros_per_scheduler_step = {microbatches}
    rank = {rank}

    def __init__(self, init_params=True, *, async_op=False, max_bucket_size_bytes=None, zero_use_reduce_scatter=False):
        super().__init__()
"""


def _parameter(attribute: str, name: str, shape: tuple[int, int], box: tuple[tuple[int, int], tuple[int, int]]) -> str:
    own = tuple(stop - start for start, stop in box)
    cut = ", ".join(f"slice({start}, {stop}, None)" for start, stop in box)
    return f"""
        self.register_parameter('{attribute}', torch.nn.Parameter(torch.empty({own}, dtype=torch.float32)))
        self.add_full_map('{attribute}', 1, True, '{name}', {shape}, ({cut}), 1)
"""


def tensor_parallel(rank: int) -> str:
    """Rank of dp 2 x tp 2: the first layer cut by rows, the second by columns, gradients reduced over dp."""
    tp, first = rank % 2, rank // 2 * 2
    half = (2 * tp, 2 * tp + 2)
    others = [tp, tp + 2]
    return (
        _HEAD.format(scheduled=False, microbatches=1, rank=rank)
        + f"        self.init_group(ranks={others})\n        self.init_group(ranks={[first, first + 1]})\n"
        + _parameter("a_weight_1", "a.weight", (4, 3), (half, (0, 3)))
        + _parameter("b_weight_2", "b.weight", (3, 4), ((0, 3), half))
        + f"""
        self.wreducer9 = nnscaler.runtime.adapter.Reducer(ranks={others}, reduce_op='sum', {_SETTINGS})
        self.wreducer9.add_param(self.a_weight_1)
        self.wreducer9.add_param(self.b_weight_2)
        self.add_reducer(self.wreducer9)
        self._post_init(init_params)

    def segment{10 + tp}(self, data_1):
        # File "tiny.py", line 13, in forward,  h = F.silu(self.a(data["x"]))
        x_2 = _operator.getitem(data_1, 'x')
        x_2 = nnscaler.runtime.adapter.nn.identity_allreduce(x_2, ranks={[first, first + 1]})
        linear_3 = torch.nn.functional.linear(x_2, self.a_weight_1, bias=None)
        silu_4 = torch.nn.functional.silu(linear_3, inplace=False)
        del linear_3
        # File "tiny.py", line 14, in forward,  return (self.b(h) - data["y"]).pow(2).sum()
        linear_5 = torch.nn.functional.linear(silu_4, self.b_weight_2, bias=None)
        linear_6 = nnscaler.runtime.adapter.nn.allreduce_identity(linear_5, ranks={[first, first + 1]})
        y_7 = _operator.getitem(data_1, 'y')
        sub_8 = torch.sub(linear_6, y_7, alpha=1)
        pow_9 = torch.pow(sub_8, 2)
        sum_10 = torch.sum(pow_9)
        return sum_10

    def reducer9(self):
        self.wreducer9.sync_grads()
        return

    def _forward_impl(self, *args, **kwargs):
        raise NotImplementedError("not generated")


def _train_step(model, dataloader_1):
    _ = None
    model.zero_grad()
    data_1 = next(*(dataloader_1, ))
    sum_10 = nnscaler.runtime.executor.fexecute('segment', model.segment{10 + tp}, *(data_1, ), requires_grad=True)
    _ = nnscaler.runtime.executor.backward('segment', (), (sum_10, ), (None, ))
    sum_10 = sum_10.detach()
    _ = nnscaler.runtime.executor.aexecute(model.reducer9, *(), requires_grad=False)
    return sum_10
"""
    )


_SETTINGS = "async_op=async_op, zero=False, zero_ngroups=1"
_STAGE = (
    """
    def segment1(self, data_1):
        x_2 = _operator.getitem(data_1, 'x')
        linear_3 = torch.nn.functional.linear(x_2, self.a_weight_1, bias=None)
        silu_4 = torch.nn.functional.silu(linear_3, inplace=False)
        return silu_4

    def adapter2(self, silu_4):
        _ = nnscaler.runtime.adapter.move(silu_4, shape=(2, 4), dtype=torch.float32, src=0, dst=1)
        return

    def adapter3(self):
        gsilu_4 = nnscaler.runtime.adapter.move((), shape=(2, 4), dtype=torch.float32, src=1, dst=0)
        return gsilu_4

    def adapter4(self):
        sum_10 = nnscaler.runtime.adapter.move((), shape=(), dtype=torch.float32, src=1, dst=0)
        return sum_10


def _train_step(model, dataloader_1):
    _ = None
    nnscaler.flags.RuntimeFlag.skip_zero_grad = False
    model.zero_grad()
    data_1 = next(*(dataloader_1, ))
    silu_4 = nnscaler.runtime.executor.fexecute('s1', model.segment1, *(data_1, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter2, *(silu_4, ), requires_grad=False)
    data_2 = next(*(dataloader_1, ))
    silu_5 = nnscaler.runtime.executor.fexecute('s1', model.segment1, *(data_2, ), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter2, *(silu_5, ), requires_grad=False)
    gsilu_4 = nnscaler.runtime.executor.aexecute(model.adapter3, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    _ = nnscaler.runtime.executor.backward('s1', (), (silu_4, ), (gsilu_4, ))
    gsilu_5 = nnscaler.runtime.executor.aexecute(model.adapter3, *(), requires_grad=False)
    nnscaler.flags.RuntimeFlag.skip_reducer = False
    _ = nnscaler.runtime.executor.backward('s1', (), (silu_5, ), (gsilu_5, ))
    sum_10 = nnscaler.runtime.executor.aexecute(model.adapter4, *(), requires_grad=True)
    sum_11 = nnscaler.runtime.executor.aexecute(model.adapter4, *(), requires_grad=True)
    return sum_10, sum_11
""",
    """
    def adapter2(self):
        silu_4 = nnscaler.runtime.adapter.move((), shape=(2, 4), dtype=torch.float32, src=0, dst=1)
        return silu_4

    def segment5(self, silu_4, data_1):
        linear_5 = torch.nn.functional.linear(silu_4, self.b_weight_2, bias=None)
        y_7 = _operator.getitem(data_1, 'y')
        sub_8 = torch.sub(linear_5, y_7, alpha=1)
        pow_9 = torch.pow(sub_8, 2)
        sum_10 = torch.sum(pow_9)
        return sum_10

    def adapter3(self, gsilu_4):
        _ = nnscaler.runtime.adapter.move(gsilu_4, shape=(2, 4), dtype=torch.float32, src=1, dst=0)
        return

    def adapter4(self, sum_10):
        _ = nnscaler.runtime.adapter.move(sum_10, shape=(), dtype=torch.float32, src=1, dst=0)
        return sum_10


def _train_step(model, dataloader_1):
    _ = None
    nnscaler.flags.RuntimeFlag.skip_zero_grad = False
    model.zero_grad()
    silu_4 = nnscaler.runtime.executor.aexecute(model.adapter2, *(), requires_grad=True)
    data_1 = next(*(dataloader_1, ))
    sum_10 = nnscaler.runtime.executor.fexecute('s5', model.segment5, *(silu_4, data_1, ), requires_grad=True)
    nnscaler.flags.RuntimeFlag.skip_reducer = True
    gsilu_4 = nnscaler.runtime.executor.backward('s5', (silu_4, ), (sum_10, ), (None, ))
    sum_10 = sum_10.detach()
    silu_5 = nnscaler.runtime.executor.aexecute(model.adapter2, *(), requires_grad=True)
    _ = nnscaler.runtime.executor.aexecute(model.adapter3, *(gsilu_4, ), requires_grad=False)
    data_2 = next(*(dataloader_1, ))
    sum_11 = nnscaler.runtime.executor.fexecute('s5', model.segment5, *(silu_5, data_2, ), requires_grad=True)
    nnscaler.flags.RuntimeFlag.skip_reducer = False
    gsilu_5 = nnscaler.runtime.executor.backward('s5', (silu_5, ), (sum_11, ), (None, ))
    sum_11 = sum_11.detach()
    _ = nnscaler.runtime.executor.aexecute(model.adapter3, *(gsilu_5, ), requires_grad=False)
    sum_10 = nnscaler.runtime.executor.aexecute(model.adapter4, *(sum_10, ), requires_grad=True)
    sum_11 = nnscaler.runtime.executor.aexecute(model.adapter4, *(sum_11, ), requires_grad=True)
    return sum_10, sum_11
""",
)


def pipeline(rank: int) -> str:
    """Stage of a pipeline of two, 1F1B with two microbatches."""
    held = (
        _parameter("a_weight_1", "a.weight", (4, 3), ((0, 4), (0, 3)))
        if rank == 0
        else _parameter("b_weight_2", "b.weight", (3, 4), ((0, 3), (0, 4)))
    )
    return _HEAD.format(scheduled=True, microbatches=2, rank=rank) + held + _STAGE[rank]


def write_modules(
    folder: Path, module: Callable[[int], str], ranks: int, edits: Mapping[int, tuple[str, str]] | None = None
) -> Path:
    """Write ``model.py`` and the modules of all ranks, a text replaced by another in some; the folder."""
    folder.mkdir(exist_ok=True)
    (folder / "tiny_model.py").write_text(MODEL)
    for rank in range(ranks):
        text = module(rank)
        if edits and rank in edits:
            old, new = edits[rank]
            assert old in text
            text = text.replace(old, new)
        (folder / f"gencode{rank}.py").write_text(text)
    return folder
