"""Samples of views, joins and factories."""

from __future__ import annotations

from dataclasses import replace

from tantamount.ir.graph import Device, Setting
from tantamount.samples.operators.calls import F32, F64, I32, I64, B, Sample, call, f, i, m

__all__ = ["SAMPLES"]

_STRIDED, _CONTIGUOUS, _CPU = Setting("strided"), Setting("contiguous_format"), Device("cpu")


def _both(name: str, overload: str, *args: object) -> list[Sample]:
    """A view and the variant that copies."""
    return [call(f"{name}.{overload}", *args), call(f"{name}_copy.{overload}", *args)]


_COPIES: list[Sample] = [
    *[
        call(f"{name}.default", f(2, 3))
        for name in ("detach", "alias", "alias_copy", "detach_copy", "lift", "lift_fresh", "lift_fresh_copy")
    ],
    call("positive.default", f(2, 3)),
    call("clone.default", f(2, 3)),
    call("clone.default", f(2, 3), memory_format=_CONTIGUOUS),
    call("contiguous.default", i(2, 3)),
    call("copy.default", f(2, 3), f(3, dtype=F64)),
    call("copy.default", f(2, 3), i()),
    call("copy.default", i(3), f(3)),
    call("copy_.default", f(2, 3), f(2, 1), False),
    call("copy_.default", i(2, 3), f(3)),
    call("_to_copy.default", f(3)),
    call("_to_copy.default", f(3), dtype=F64, device=_CPU),
    call("_to_copy.default", f(2, 3), dtype=I64, layout=_STRIDED, non_blocking=True),
    call("_to_copy.default", f(2, 3), dtype=B),
    call("_to_copy.default", m(3), dtype=F32),
    call("_to_copy.default", i(3), dtype=I32),
    call("_to_copy.default", i(3), dtype=B),
    call("to.dtype", f(3), F64),
    call("to.dtype", f(3), I32, False, True),
    call("to.dtype_layout", f(3), dtype=F64, layout=_STRIDED, device=_CPU),
    call("to.device", f(3), _CPU, F64),
    call("to.other", f(3), i(2)),
    call("type_as.default", i(3), f(2)),
]

_SHAPES: list[Sample] = [
    *_both("view", "default", f(2, 6), (3, -1)),
    call("view.default", f(2, 3), (6,)),
    call("view.default", f(), (1, 1)),
    call("view.default", f(2, 0), (0, 5)),
    call("_unsafe_view.default", f(2, 6), (4, 3)),
    call("reshape.default", f(2, 6), (-1,)),
    call("_reshape_alias.default", f(2, 6), (3, 4), (4, 1)),
    call("view_as.default", f(2, 6), f(3, 4)),
    call("reshape_as.default", f(2, 6), i(12)),
    call("view.dtype", f(2), F32),
    call("flatten.using_ints", f(2, 3, 4)),
    call("flatten.using_ints", f(2, 3, 4), 1, -1),
    call("flatten.using_ints", f(2, 3, 4), 0, 1),
    call("flatten.using_ints", f()),
    call("unflatten.int", f(2, 6), 1, (3, -1)),
    call("unflatten.int", f(2, 6), -1, (2, 3)),
    *_both("squeeze", "default", f(1, 2, 1)),
    *_both("squeeze", "dim", f(1, 2, 1), -1),
    *_both("squeeze", "dim", f(1, 2, 1), 1),
    *_both("squeeze", "dims", f(1, 2, 1), (0, 1)),
    *_both("unsqueeze", "default", f(2, 3), 0),
    *_both("unsqueeze", "default", f(2, 3), -1),
    call("unsqueeze.default", f(), 0),
    *_both("expand", "default", f(2, 1), (2, 3)),
    *_both("expand", "default", f(1, 3), (4, -1, 3)),
    call("expand.default", f(), (2, 3)),
    call("expand_as.default", f(3), i(2, 3)),
    *_both("t", "default", f(2, 3)),
    call("t.default", f(3)),
    call("t.default", f()),
    call("numpy_T.default", f(2, 3)),
    call("mT.default", f(2, 3, 4)),
    *_both("transpose", "int", f(2, 3, 4), 0, -1),
    call("transpose.int", f(2, 3), 1, 1),
    call("swapaxes.default", f(2, 3, 4), 0, 1),
    *_both("permute", "default", f(2, 3, 4), (2, 0, 1)),
    call("permute.default", f(2, 3, 4), (-1, 0, 1)),
    call("movedim.int", f(2, 3, 4), 0, -1),
    call("movedim.int", f(2, 3, 4), 2, 0),
    call("movedim.intlist", f(2, 3, 4, 5), (0, 1), (-1, 0)),
    call("flip.default", f(2, 3), (0,)),
    call("flip.default", i(2, 3), (0, -1)),
    call("roll.default", f(2, 5), (2,), (1,)),
    call("roll.default", f(2, 5), (-1, 7), (0, 1)),
    call("roll.default", f(2, 5), (3,)),
]

_PARTS: list[Sample] = [
    *_both("slice", "Tensor", f(2, 5), 1, 1, 4),
    call("slice.Tensor", f(2, 5), 1, 0, 9223372036854775807, 2),
    call("slice.Tensor", f(2, 5), -1, -3, -1),
    call("slice.Tensor", f(5, 2), 0, 4, 2),
    call("slice.Tensor", f(5, 2)),
    *_both("narrow", "default", f(2, 5), 1, 1, 3),
    call("narrow.default", f(2, 5), -1, -2, 2),
    *_both("select", "int", f(2, 3), 0, 1),
    call("select.int", f(2, 3), -1, -1),
    *_both("diagonal", "default", f(3, 4)),
    call("diagonal.default", f(3, 4), 1),
    call("diagonal.default", f(2, 3, 4), -1, 1, 2),
    call("diagonal.default", f(2, 3, 4), 0, 2, 0),
    *[
        sample
        for name in ("split.Tensor", "unsafe_split.Tensor", "split_copy.Tensor")
        for sample in (call(name, f(5, 2), 2), call(name, f(2, 6), 3, -1))
    ],
    call("split.sizes", f(5, 2), (1, 4)),
    *[
        sample
        for name in ("split_with_sizes", "split_with_sizes_copy", "unsafe_split_with_sizes")
        for sample in (call(f"{name}.default", f(5, 2), (2, 3)), call(f"{name}.default", f(2, 5), (1, 0, 4), 1))
    ],
    *[
        sample
        for name in ("chunk", "unsafe_chunk")
        for sample in (call(f"{name}.default", f(5, 2), 3), call(f"{name}.default", f(2, 7), 4, 1))
    ],
    *_both("unbind", "int", f(3, 2)),
    call("unbind.int", f(3, 2), -1),
]

_JOINS: list[Sample] = [
    *[
        sample
        for name in ("cat", "concat", "concatenate")
        for sample in (call(f"{name}.default", (f(2, 3), f(1, 3))), call(f"{name}.default", (f(2, 3), i(2, 2)), -1))
    ],
    call("cat.default", (f(0), f(2, 3), f(1, 3))),
    call("stack.default", (f(2, 3), f(2, 3))),
    call("stack.default", (f(2), i(2), f(2, dtype=F64)), -1),
    call("constant_pad_nd.default", f(2, 3), (1, 2)),
    call("constant_pad_nd.default", f(2, 3), (0, 1, 2, 0), 1.5),
    call("constant_pad_nd.default", f(2, 3), (-1, 1), float("-inf")),
    call("constant_pad_nd.default", i(3), (1, 1), 7),
    call("pad.default", f(2, 3), (1, 2)),
    call("pad.default", f(2, 3), (1, 2), "constant", 0.5),
    call("repeat.default", f(2, 3), (2, 2)),
    call("repeat.default", f(3), (2, 1, 2)),
    call("repeat.default", f(), (3,)),
    call("tile.default", f(2, 3), (2,)),
    call("tile.default", f(3), (2, 2)),
    call("repeat_interleave.self_int", f(2, 3), 2, 1),
    call("repeat_interleave.self_int", f(2, 3), 2),
    call("repeat_interleave.self_int", f(2, 3), 3, -2, output_size=6),
    call("slice_scatter.default", f(5, 2), f(3, 2), 0, 1, 4),
    call("slice_scatter.default", f(2, 5), f(2, 5), 1, 0, 9223372036854775807),
    call("slice_scatter.default", f(2, 5), f(2, 3), 1, 0, 5, 2),
    call("slice_scatter.default", f(2, 6), f(2, 2), -1, 1, 6, 3),
    call("slice_scatter.default", f(5), f(1), 0, 3, 5, 4),
    call("slice_scatter.default", f(4, 2), f(2, 2), 0, -2),
    call("select_scatter.default", f(2, 3), f(3), 0, 1),
    call("select_scatter.default", f(2, 3), f(2), -1, -1),
]


def _unwritten(sample: Sample) -> Sample:
    return replace(sample, values=False)


_FACTORIES: list[Sample] = [
    *[
        sample
        for name in ("zeros", "ones")
        for sample in (
            call(f"{name}.default", (2, 3)),
            call(f"{name}.default", (), dtype=I32, device=_CPU, pin_memory=False),
            call(f"{name}.default", (2,), dtype=B, layout=_STRIDED),
            call(f"{name}_like.default", f(2, 3)),
            call(f"{name}_like.default", f(2, 3), dtype=I64, memory_format=Setting("preserve_format")),
            call(f"new_{name}.default", f(2, 3, dtype=F64), (3,)),
            call(f"new_{name}.default", i(2), (3, 2), dtype=F32),
        )
    ],
    call("full.default", (2, 3), 0.5),
    call("full.default", (2,), 3),
    call("full.default", (2,), True),
    call("full.default", (2,), 1, dtype=F64),
    call("full.default", (2,), 1.5, dtype=I64),
    call("full.default", (2, 2), float("-inf")),
    call("full_like.default", f(2, 3), 2),
    call("full_like.default", i(2, 3), 2),
    call("full_like.default", i(2, 3), 0.5, dtype=F32),
    call("new_full.default", f(2), (3,), 2),
    call("scalar_tensor.default", 2),
    call("scalar_tensor.default", float("-inf"), dtype=F64),
    call("scalar_tensor.default", 2, dtype=I64),
    call("fill.Scalar", f(2, 3), 2),
    call("fill.Scalar", i(2, 3), 2),
    call("fill.Tensor", f(2, 3), i()),
    call("fill_.Scalar", f(2, 3), 0.5),
    call("fill_.Tensor", f(2, 3), f(dtype=F64)),
    call("zero.default", f(2, 3)),
    call("zero_.default", i(2, 3)),
    _unwritten(call("empty.memory_format", (2, 3))),
    _unwritten(call("empty.memory_format", (2, 3), dtype=I64, memory_format=_CONTIGUOUS)),
    _unwritten(call("empty_like.default", i(2, 3))),
    _unwritten(call("empty_like.default", i(2, 3), dtype=F64)),
    _unwritten(call("new_empty.default", f(2, dtype=F64), (3,))),
    _unwritten(call("empty_strided.default", (2, 3), (3, 1))),
    _unwritten(call("new_empty_strided.default", i(2), (2, 3), (1, 2))),
    call("arange.default", 4),
    call("arange.default", 4.5),
    call("arange.default", 4, dtype=F32),
    call("arange.default", 0),
    call("arange.start", 2, 5),
    call("arange.start", 0, 1.5, dtype=F64),
    call("arange.start", -2, 2, dtype=I32),
    call("arange.start_step", 0, 7, 2),
    call("arange.start_step", 5, 0, -2),
    call("arange.start_step", 0, 1, 0.1),
    call("arange.start_step", 0, 1.1, 0.1, dtype=F64),
    call("linspace.default", 0, 1, 5),
    call("linspace.default", -1.5, 2, 4, dtype=F64),
    call("linspace.default", 3, 4, 1),
    call("eye.default", 3),
    call("eye.m", 2, 3, dtype=I64),
    call("tril.default", f(3, 4)),
    call("tril.default", i(2, 3, 3), 1),
    call("tril.default", m(3, 3), -1),
    call("triu.default", f(3, 4)),
    call("triu.default", f(3, 3), -1),
    call("triu.default", m(3, 3), 1),
]

SAMPLES: tuple[Sample, ...] = (*_COPIES, *_SHAPES, *_PARTS, *_JOINS, *_FACTORIES)
