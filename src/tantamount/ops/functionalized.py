"""``auto_functionalized`` and ``auto_functionalized_v2``: PyTorch's wrappers around operators that overwrite operands.

The wrapper's node has values, no memory: it runs the inner operator on copies and returns ``(returns..., overwritten
operands' new values...)``. Version 2 takes the *bases* of the overwritten operands, each operand as a view of one of
them (the whole base, a slice, or strides), and returns the bases' new values instead.

The inner operator's definition says which parameters it overwrites (``mutates``) and returns their new values after its
own results, so both wrappers follow from it. What the description of a view does not settle is refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any, cast

from tantamount.errors import UserError
from tantamount.ir.graph import Argument
from tantamount.ir.types import Shape
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.table import Integers, Operator, Tensors, invoke

__all__ = ["is_wrapper", "unwrapped", "wrapper"]

_FIRST = ("auto_functionalized", "higher_order.auto_functionalized", "torch.ops.higher_order.auto_functionalized")
_SECOND = tuple(f"{name}_v2" for name in _FIRST)


def is_wrapper(target: str) -> bool:
    """Is it a call of ``auto_functionalized``, of either version?"""
    return target in _FIRST or target in _SECOND


def unwrapped(target: str, args: Sequence[Argument]) -> str:
    """The operator that a call applies: what a wrapper wraps, else the target itself."""
    return args[0] if is_wrapper(target) and args and isinstance(args[0], str) else target


def wrapper(inner: Operator, target: str, kwargs: Mapping[str, Argument], place: str) -> Operator:
    """The operator that a wrapper around ``inner`` is. Raises :class:`UserError` if it overwrites nothing or is a
    collective."""
    if not inner.mutates or inner.group_parameter is not None:
        what = "a collective" if inner.mutates else "which overwrites none of its operands"
        raise UserError(
            "operator-wrapper", place=place, found=f"{target} of {inner.name}, {what}",
            needed="an operator that is defined with the operands that it overwrites",
        )  # fmt: skip
    if any(key in kwargs for _, other in inner.other_names for key in (other, f"_{other}_base_index")):
        inner = inner.renamed
    return _first(inner, target) if target in _FIRST else _second(inner, target, tuple(kwargs))


# ---------------------------------------------------------------------------------------------- version 1
@lru_cache(maxsize=256)
def _first(inner: Operator, target: str) -> Operator:
    def define(b: Builder, op: str, /, **kwargs: Any) -> tuple[Tensor | None, ...]:
        returned, written = _run(inner, b, kwargs)
        return (*returned, *written)

    return _synthetic(inner, target, define, dict(inner.signature.parameters), {})


def _run(
    inner: Operator, b: Builder, kwargs: Mapping[str, Any]
) -> tuple[tuple[Tensor | None, ...], tuple[Tensor | None, ...]]:
    """The results of the inner operator (``None`` alone, if nothing), and the new values of what it overwrites."""
    result = invoke(inner, b, kwargs)
    values = cast(tuple[Tensor | None, ...], result if isinstance(result, tuple) else (result,))
    count = len(inner.mutates)
    returned, written = values[: len(values) - count], values[len(values) - count :]
    for name, value in zip(inner.mutates, written, strict=True):
        old = kwargs[name]
        if (None if old is None else old.type) != (None if value is None else value.type):
            raise ShapeProblem(f"a result {value and value.type} written into {name}: {old and old.type}")
    return returned or (None,), written


def _synthetic(
    inner: Operator,
    target: str,
    define: Any,
    parameters: Mapping[str, inspect.Parameter],
    annotations: Mapping[str, Any],
    assumes: tuple[str, ...] = (),
) -> Operator:
    """The wrapper as a row of the table: the inner operator's name, then parameters that are all keywords."""
    hints = {**inspect.get_annotations(inner.define, eval_str=True), **annotations}
    kind = inspect.Parameter.POSITIONAL_ONLY
    define.__signature__ = inspect.Signature(
        [
            inspect.Parameter("_builder", kind),
            inspect.Parameter("_mutable_op", kind),
            *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters.values()),
        ]
    )
    define.__annotations__ = {"_mutable_op": str, **{name: hints[name] for name in parameters}}
    define.__doc__ = f"{inner.name} on copies: its results, then the new values of {', '.join(inner.mutates)}"
    known = (*inner.assumes, *assumes)
    return Operator((target,), inner.category, define, (), known, inner.requires, opaque=inner.opaque)


# ---------------------------------------------------------------------------------------------- version 2
@lru_cache(maxsize=256)
def _second(inner: Operator, target: str, given: tuple[str, ...]) -> Operator:
    """``given``: the names of the node's arguments, which decide how each view is described."""
    parameters = {name: p for name, p in inner.signature.parameters.items() if name not in inner.mutates}
    annotations: dict[str, Any] = {}
    strided = False
    for name in inner.mutates:
        described = {f"_{name}_base_index": int | None}
        if f"_{name}_alias" in given:
            described |= {f"_{name}_alias": bool}
        elif f"_{name}_storage_offset" in given:
            described |= {
                f"_{name}_size": Integers, f"_{name}_stride": Integers, f"_{name}_storage_offset": int,
            }  # fmt: skip
            strided = True
        elif f"_{name}_slice_dim" in given:
            described |= {f"_{name}_slice_dim": int, f"_{name}_slice_start": int, f"_{name}_slice_end": int}
        annotations |= described
    annotations["_all_bases"] = Tensors
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters |= {name: inspect.Parameter(name, keyword) for name in annotations}

    def define(b: Builder, op: str, /, **kwargs: Any) -> tuple[Tensor | None, ...]:
        bases: list[Tensor | None] = list(kwargs["_all_bases"])
        views = {name: _view(b, name, kwargs, bases) for name in inner.mutates}
        _check_disjoint([view for view in views.values() if view is not None])
        operands = {name: None if view is None else view.read(b, bases) for name, view in views.items()}
        plain = {name: value for name, value in kwargs.items() if name in inner.parameters}
        returned, written = _run(inner, b, {**plain, **operands})
        for view, value in zip(views.values(), written, strict=True):
            if view is not None and value is not None:
                bases[view.base] = view.write(b, bases, value)
        return (*returned, *bases)

    text = f"the bases of views that {inner.name} overwrites are contiguous"
    return _synthetic(inner, target, define, parameters, annotations, (text,) if strided else ())


@dataclass(frozen=True, slots=True)
class _View:
    """A box of a base that is reshaped to ``grid`` (row-major): from ``start`` on, ``size`` elements in each dimension;
    then its dimensions in the order ``order``, the others (of size 1) dropped, in the shape ``shape``."""

    base: int
    grid: Shape
    start: Shape
    size: Shape
    order: tuple[int, ...]
    shape: Shape

    def read(self, b: Builder, bases: Sequence[Tensor | None]) -> Tensor:
        x = b.reshape(_base(bases, self.base), self.grid)
        for k, (start, size) in enumerate(zip(self.start, self.size, strict=True)):
            x = b.slice(x, k, start, start + size)
        rest = tuple(k for k in range(len(self.grid)) if k not in self.order)
        return b.reshape(b.permute(x, (*self.order, *rest)), self.shape)

    def write(self, b: Builder, bases: Sequence[Tensor | None], value: Tensor) -> Tensor:
        """The base with ``value`` at the places of the view."""
        base = _base(bases, self.base)
        rest = tuple(k for k in range(len(self.grid)) if k not in self.order)
        moved = (*self.order, *rest)
        placed = b.reshape(value, tuple(self.size[k] for k in moved))
        placed = b.permute(placed, tuple(sorted(range(len(moved)), key=moved.__getitem__)))
        return b.reshape(_replaced(b, b.reshape(base, self.grid), placed, self.start, 0), base.shape)


def _replaced(b: Builder, x: Tensor, value: Tensor, start: Shape, k: int) -> Tensor:
    """``x`` with ``value`` as its box from ``start`` on, in the dimensions from ``k`` on (equal in those before)."""
    if k == x.rank:
        return value
    stop = start[k] + value.shape[k]
    inside = _replaced(b, b.slice(x, k, start[k], stop), value, start, k + 1)
    return b.concat([b.slice(x, k, 0, start[k]), inside, b.slice(x, k, stop)], k)


def _base(bases: Sequence[Tensor | None], index: int) -> Tensor:
    base = bases[index] if 0 <= index < len(bases) else None
    if base is None:
        raise ShapeProblem(f"base {index} of {len(bases)}")
    return base


def _view(b: Builder, name: str, kwargs: Mapping[str, Any], bases: Sequence[Tensor | None]) -> _View | None:
    """The operand ``name`` as a view of its base; ``None`` if it was not given."""
    index = kwargs[f"_{name}_base_index"]
    if index is None:
        return None
    shape = _base(bases, index).shape
    everything = tuple(range(len(shape)))
    if f"_{name}_storage_offset" in kwargs:
        size, stride = kwargs[f"_{name}_size"], kwargs[f"_{name}_stride"]
        return _strided(index, prod(shape), size, stride, kwargs[f"_{name}_storage_offset"])
    if f"_{name}_slice_dim" not in kwargs:
        return _View(index, shape, (0,) * len(shape), shape, everything, shape)
    dim, start, stop = (kwargs[f"_{name}_slice_{part}"] for part in ("dim", "start", "end"))
    if not (0 <= dim < len(shape) and 0 <= start <= stop <= shape[dim]):
        raise ShapeProblem(f"the slice {start}:{stop} of dimension {dim} of {_base(bases, index).type}")
    starts = tuple(start if k == dim else 0 for k in everything)
    sizes = tuple(stop - start if k == dim else size for k, size in enumerate(shape))
    return _View(index, shape, starts, sizes, everything, sizes)


def _strided(base: int, total: int, size: Shape, stride: Shape, offset: int) -> _View:
    """The elements ``offset + sum(i_k * stride_k)`` of a contiguous base as a box: the base is cut at the strides, each
    of which must divide the next larger one, and no index may run over the next larger stride."""
    problem = ShapeProblem(f"a view with sizes {size}, strides {stride}, offset {offset} of {total} elements")
    if len(size) != len(stride) or offset < 0 or min(size, default=1) < 1:
        raise problem
    dims = sorted((k for k in range(len(size)) if size[k] > 1), key=lambda k: -stride[k])
    steps = [total, *(stride[k] for k in dims), 1]
    if min(steps) < 1 or any(outer % inner for outer, inner in pairwise(steps)):
        raise problem
    grid = tuple(outer // inner for outer, inner in pairwise(steps))
    starts: list[int] = []
    for step in steps[1:]:
        digit, offset = divmod(offset, step)
        starts.append(digit)
    sizes = (*(size[k] for k in dims), 1)
    if any(start + length > limit for start, length, limit in zip(starts, sizes, grid, strict=True)):
        raise problem
    order = tuple(dims.index(k) for k in range(len(size)) if size[k] > 1)
    return _View(base, grid, tuple(starts), sizes, order, size)


def _check_disjoint(views: Sequence[_View]) -> None:
    """Two operands that overwrite one place have no single new value."""
    for k, a in enumerate(views):
        for other in views[:k]:
            if a.base != other.base:
                continue
            apart = a.grid == other.grid and any(
                s + n <= t or t + m <= s for s, n, t, m in zip(a.start, a.size, other.start, other.size, strict=True)
            )
            if not apart:
                raise ShapeProblem(f"overwritten operands that are views of one base (number {a.base}) and may overlap")
