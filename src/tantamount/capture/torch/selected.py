"""Rows that data select (``x[mask]``, ``nonzero``, ``masked_select``) as whole tensors beside the mask.

How many rows a mask selects is known in executions only. What a program does to each of them by itself it may as well
do to all rows, selected or not, if sums over rows leave out those that are not, and what is written back is written
where the mask is true. Such a program is rewritten here into one whose sizes are all known; every other use of rows
that data select is refused by name, and so is a program that returns them.
"""

# pyright: basic
from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch import Tensor, fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from tantamount.capture.torch.whole_rows import (
    RULES,
    Given,
    Mask,
    Rows,
    Size,
    Whole,
    expression,
    handles,
    refused,
    special,
)

__all__ = ["with_whole_rows"]

aten = torch.ops.aten


def with_whole_rows(module: fx.GraphModule, first: fx.GraphModule, environment: ShapeEnv) -> Callable[..., Any]:
    """A function that computes what a functional graph computes, in which every tensor has a size that is known.

    ``first`` is the graph that was recorded before it, ``environment`` what the sizes of both are known in. Calling the
    function raises :class:`UserError` for a use of selected rows that is neither row by row, nor a sum over them, nor
    writes them back, and for a program that stops for some numbers of rows."""

    def run(*arguments: Any) -> Any:
        whole = Whole(module)
        found = whole.run(*arguments)
        _check_sizes(environment, _later(first, module), whole.are_same)
        return found

    return run


def _check_sizes(environment: ShapeEnv, later: Mapping[Any, Any], same: Callable[[Any, Any], bool]) -> None:
    """Raise :class:`UserError` if a program stops for some numbers of rows. ``later`` has the symbols of the functional
    graph by those of the graph before it, ``same`` says which of them are the number of rows of one mask."""
    checks = [check.expr for some in environment.deferred_runtime_asserts.values() for check in some]
    for check in (*checks, *(guard.expr for guard in environment.guards)):
        if not (isinstance(check, sympy.Eq) and same(*(later.get(side, side) for side in check.args))):
            raise refused(f"a program that stops unless {check}")


def _later(first: fx.GraphModule, second: fx.GraphModule) -> dict[Any, Any]:
    """The symbols of a graph by those of the graph that it was recorded from: both run the same operators in the same
    order. Nothing if they do not select the same number of times."""
    before, after = _selecting(first), _selecting(second)
    if [target for target, _ in before] != [target for target, _ in after]:
        return {}
    return {old: new for (_, old), (_, new) in zip(before, after, strict=True)}


def _selecting(module: fx.GraphModule) -> list[tuple[Any, Any]]:
    """The operators of a graph after which a size has a new symbol, with it, in order."""
    found: dict[Any, Any] = {}
    for node in module.graph.nodes:
        for leaf in pytree.tree_leaves(node.meta.get("val")):
            for size in leaf.shape if isinstance(leaf, Tensor) else ():
                if isinstance(size, torch.SymInt) and expression(size).is_Symbol:
                    found.setdefault(expression(size), str(node.target).removesuffix("_.default"))
    return [(target, symbol) for symbol, target in found.items()]


# ----------------------------------------------------------------------------------------------- selecting
@handles(aten.nonzero.default)
def _nonzero(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    if not isinstance(args[0], Tensor):
        raise refused("nonzero of selected rows")
    shape = tuple(args[0].shape)
    mask = whole.mask_of(n, 0, args[0], _origin(n.args[0]))
    position = torch.arange(mask.rows)
    columns = [position // math.prod(shape[k + 1 :]) % size for k, size in enumerate(shape)]
    return Rows(torch.stack(columns, 1), 0, mask, tuple(range(len(shape))))


@handles(aten.masked_select.default)
def _masked_select(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    if any(special(arg) for arg in args):
        raise refused("masked_select of selected rows")
    values, truth = torch.broadcast_tensors(args[0], args[1])
    mask = whole.mask_of(n, 0, truth, _origin(n.args[1]) if truth.shape == args[1].shape else n)
    return Rows(values.reshape(-1), 0, mask)


@handles(aten.index.Tensor)
def _index(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    values, indices = args
    places = [k for k, index in enumerate(indices) if index is not None]
    if isinstance(values, Rows):
        if any(special(index) for index in indices) or values.dim >= places[0] or _has_masks(indices):
            raise refused("an element of every selected row")
        return whole.made(n, aten.index.Tensor(values.data, indices), values.mask)
    first = places[0]
    if len(places) == 1 and isinstance(indices[first], Tensor):
        truth = indices[first]
        source = _origin(n.args[1][first])  # type: ignore[index]
        mask = whole.mask_of(n, first, truth, source)
        return Rows(_joined(values, first, mask), first, mask)
    mask, dim = _one_mask(indices), whole.dim_of(n.meta["val"])
    if _are_positions(values, indices, places, mask):
        return Rows(_joined(values, first, mask), first, mask)
    if dim is None:
        raise refused("an index of selected rows")
    return whole.made(n, aten.index.Tensor(values, [_filled(index) for index in indices]), mask)


def _joined(values: Tensor, first: int, mask: Mask) -> Tensor:
    """A tensor whose dimensions from ``first`` on, those of a mask, are one."""
    rest = values.shape[first + len(mask.shape) :]
    if tuple(values.shape[first : first + len(mask.shape)]) != mask.shape:
        raise refused("rows of a tensor by a mask of other sizes")
    return values.reshape([*values.shape[:first], mask.rows, *rest])


def _has_masks(indices: Sequence[Any]) -> bool:
    return any(isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in indices)


def _are_positions(values: Tensor, indices: Sequence[Any], places: Sequence[int], mask: Mask) -> bool:
    """True if indices are where a mask is true, for every dimension of the mask, in the sizes of the tensor."""
    first = places[0]
    columns = [getattr(indices[place], "coordinates", None) for place in places]
    return (
        list(places) == list(range(first, first + len(mask.shape)))
        and columns == [(k,) for k in range(len(mask.shape))]
        and tuple(values.shape[first : first + len(places)]) == mask.shape
    )


def _are_beside(values: Tensor, indices: Sequence[Any], places: Sequence[int], written: Any) -> bool:
    """True if selected rows are added where the numbers beside them say, other numbers than where they came from: rows
    that are not selected add 0, in the first place."""
    columns = [indices[place] for place in places]
    if not isinstance(written, Rows) or not all(isinstance(one, Rows) and one.data.dim() == 1 for one in columns):
        return False
    mask = _one_mask([written, *columns])
    together = list(places) == list(range(places[0], places[0] + len(places)))
    whole = written.data.dim() == values.dim() - len(places) + 1 and written.dim == places[0]
    return together and whole and not _are_positions(values, indices, places, mask)


def _one_mask(values: Sequence[Any]) -> Mask:
    masks = [value.mask for value in values if isinstance(value, Rows)]
    if not masks or any(mask is not masks[0] for mask in masks):
        raise refused("rows of several masks together")
    return masks[0]


def _filled(value: Any) -> Any:
    """Indices that are in range for rows that are not selected, too."""
    return value.kept() if isinstance(value, Rows) else value


def _origin(value: Any) -> Any:
    """How a value of a graph is computed: nodes whose values are the same, whatever the inputs, have the same."""
    if isinstance(value, list | tuple):
        return tuple(_origin(item) for item in value)
    if not isinstance(value, fx.Node) or value.op != "call_function":
        return value
    if value.target in (aten.detach.default, aten.alias.default, aten.clone.default):
        return _origin(value.args[0])
    tags = getattr(value.target, "tags", ())
    if torch.Tag.nondeterministic_seeded in tags or not (
        torch.Tag.pointwise in tags or value.target is operator.getitem
    ):
        return value
    named = tuple((key, _origin(item)) for key, item in sorted(value.kwargs.items()))
    return value.target, _origin(value.args), named


# ------------------------------------------------------------------------------------------------ writing
@handles(aten.index_put.default)
def _index_put(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    values, indices, written = args[:3]
    accumulate = len(args) > 3 and args[3]
    places = [k for k, index in enumerate(indices) if index is not None]
    first = places[0]
    if isinstance(values, Rows):
        raise refused("a write to selected rows")
    if accumulate and _are_beside(values, indices, places, written):
        return aten.index_put.default(values, [_filled(index) for index in indices], written.kept(), True)
    if len(places) == 1 and isinstance(indices[first], Tensor) and indices[first].dtype == torch.bool:
        mask = whole.selects(_origin(n.args[1][first]))  # type: ignore[index]
    elif (mask := _one_mask(indices)) and not _are_positions(values, indices, places, mask):
        mask = None
    if isinstance(written, Rows) and written.mask is not mask:
        raise refused("a write of selected rows to other places than they came from")
    if mask is None:
        raise refused("a write to places that selected rows say")
    sizes = [*values.shape[:first], mask.rows, *values.shape[first + len(mask.shape) :]]
    new = (written.data if isinstance(written, Rows) else written).expand(sizes).reshape(values.shape)
    here = mask.along(first, len(sizes)).expand(sizes).reshape(values.shape)
    return torch.where(here, values + new if accumulate else new, values)


@handles(aten.index_add.default)
def _index_add(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    values, dim, index, source = args
    if not isinstance(index, Rows) or not isinstance(source, Rows) or index.mask is not source.mask:
        raise refused("index_add of selected rows to places that are not theirs")
    dim = dim % values.dim()
    if source.dim != dim:
        raise refused("index_add along another dimension than that of the rows")
    if _are_positions(values, [None] * dim + [index], [dim], index.mask):
        return torch.add(values, source.kept(), **kwargs)
    return aten.index_add.default(values, dim, index.kept(), source.kept(), **kwargs)


@handles(aten.scatter_add.default)
def _scatter_add(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    """Rows that are not selected add 0, in the first place."""
    values, dim, index, source = args
    if not isinstance(values, Tensor) or not isinstance(index, Rows) or not isinstance(source, Rows):
        raise refused("scatter_add of selected rows to places that are not theirs")
    _one_mask([index, source])
    if {index.dim, source.dim} != {dim % values.dim()}:
        raise refused("scatter_add along another dimension than that of the rows")
    return aten.scatter_add.default(values, dim, index.kept(), source.kept())


@handles(aten.masked_scatter.default)
def _masked_scatter(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    values, truth, source = args
    mask = whole.selects(_origin(n.args[1]))
    if not isinstance(source, Rows) or source.mask is not mask or source.data.dim() != 1 or values.shape != truth.shape:
        raise refused("masked_scatter of other elements than the mask selects")
    return torch.where(truth, source.data.reshape(values.shape), values)


# ------------------------------------------------------------------------------------------------ sizes
@handles(aten.sym_size.int)
def _size(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    return Size(args[0].mask)


@handles(aten.sym_numel.default)
def _numel(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    return Size(args[0].mask, args[0].data.numel() // args[0].mask.rows if args[0].mask.rows else 1)


@handles(operator.mul)
def _times(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    size, other = args if isinstance(args[0], Size) else args[::-1]
    if not isinstance(size, Size) or type(other) is not int:
        raise refused("a number made of how many rows there are")
    return replace(size, times=size.times * other)


# ------------------------------------------------------------------------------------------------ row by row
@handles("pointwise")
def _row_by_row(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    """An operator that makes each row of its results of that row of its operands: on whole rows it is the same."""
    given = pytree.tree_leaves((args, kwargs), is_leaf=special)
    rows = [value for value in given if isinstance(value, Rows)]
    if torch.Tag.nondeterministic_seeded in n.target.tags:  # type: ignore[union-attr]
        raise refused(f"{n.target}: draws for every selected row")
    mask = _one_mask(rows) if rows else next(value.mask for value in given if isinstance(value, Size))
    if any(value.mask is not mask for value in given if isinstance(value, Size)):
        raise refused(f"{n.target} of numbers of rows of two masks")
    if n.target not in _WITHOUT_FAILING and all(not value.data.is_floating_point() for value in rows):
        args = [value.kept(1) if isinstance(value, Rows) else value for value in args]
    plain = [_plain(value, mask) for value in args]
    named = {key: _plain(value, mask) for key, value in kwargs.items()}
    result = whole.made(n, _with_tensors(n.target, [*args, *kwargs.values()])(*plain, **named), mask)
    own = pytree.tree_leaves(n.meta["val"])
    for one, value in zip(own, pytree.tree_leaves(result, is_leaf=special), strict=True):
        data = value.data if isinstance(value, Rows) else value
        if isinstance(value, Rows) is not bool(rows) or data.dtype != one.dtype:
            raise refused(str(n.target))
    return result


RULES.update(dict.fromkeys((
    aten.floor_divide.default, aten.remainder.Tensor, aten.remainder.Scalar, aten.fmod.Tensor, aten.div.Tensor_mode,
    aten._to_copy.default,
), _row_by_row))  # fmt: skip


def _plain(value: Any, mask: Mask) -> Any:
    """An argument of an operator on whole rows; a size within a list is that of a dimension."""
    if isinstance(value, list | tuple):
        return [item.data if isinstance(item, Rows) else _whole_size(item, mask) for item in value]
    return value.data if isinstance(value, Rows) else value.count if isinstance(value, Size) else value


def _with_tensors(target: Any, given: Sequence[Any]) -> Any:
    """The overload of an operator that takes a tensor where it is given the number of rows."""
    if not any(isinstance(value, Size) for value in given):
        return target
    packet, overload = target.overloadpacket, target._overloadname
    name = overload.replace("Scalar", "Tensor")
    if not overload.startswith(("Scalar", "Tensor")) or not hasattr(packet, name):
        raise refused(f"{target} of how many rows there are")
    return getattr(packet, name)


# Of whole numbers, these have a value whatever they are given; others (a division by 0) stop the program. Rows that
# are not selected must not: such operators get ones in their place.
_WITHOUT_FAILING = frozenset((
    aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.neg.default, aten.abs.default, aten.where.self,
    aten.eq.Tensor, aten.ne.Tensor, aten.lt.Tensor, aten.le.Tensor, aten.gt.Tensor, aten.ge.Tensor, aten.eq.Scalar,
    aten.ne.Scalar, aten.lt.Scalar, aten.le.Scalar, aten.gt.Scalar, aten.ge.Scalar, aten.bitwise_and.Tensor,
    aten.bitwise_or.Tensor, aten.bitwise_xor.Tensor, aten.bitwise_not.default, aten.logical_and.default,
    aten.logical_or.default, aten.logical_not.default, aten.minimum.default, aten.maximum.default, aten.clamp.default,
    aten.masked_fill.Scalar,
))  # fmt: skip


@handles(
    aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten.expand.default, aten.permute.default,
    aten.transpose.int, aten.t.default, aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims,
    aten.clone.default, aten.detach.default, aten.alias.default, aten.zeros_like.default, aten.ones_like.default,
    aten.full_like.default,
)  # fmt: skip
def _rearranged(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    """Views that leave the rows as they are, one after the other."""
    rows = args[0]
    if not isinstance(rows, Rows):
        if n.target is aten.expand.default and isinstance(rows, Tensor):  # the gradient of a sum over rows
            mask = next(size.mask for size in args[1] if isinstance(size, Size))
            sizes = [_whole_size(size, mask) for size in args[1]]
            return whole.made(n, rows.expand(sizes), mask)
        raise refused(str(n.target))
    dim = whole.dim_of(n.meta["val"])
    if dim is None or (
        n.target in _REGROUP and math.prod(rows.data.shape[: rows.dim]) != math.prod(n.meta["val"].shape[:dim])
    ):
        raise refused(f"{n.target} across selected rows")
    sizes = [_whole_sizes(arg, rows.mask) for arg in args[1:]]
    target: Any = n.target
    made = whole.made(n, target(rows.data, *sizes, **kwargs), rows.mask)
    return replace(made, coordinates=rows.coordinates) if n.target in _SAME else made


_REGROUP = (aten.view.default, aten.reshape.default, aten._unsafe_view.default)
_SAME = (aten.clone.default, aten.detach.default, aten.alias.default)


def _whole_sizes(value: Any, mask: Mask) -> Any:
    return [_whole_size(size, mask) for size in value] if isinstance(value, list | tuple) else _whole_size(value, mask)


def _whole_size(size: Any, mask: Mask) -> Any:
    if not isinstance(size, Size):
        return size
    if size.mask is not mask or size.times != 1:
        raise refused("a size made of how many rows there are")
    return mask.rows


@handles(aten.unbind.int)
def _unbind(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    rows, dim = args[0], (*args, 0)[1] % args[0].data.dim()
    if dim == rows.dim:
        raise refused("selected rows one by one")
    made = whole.made(n, aten.unbind.int(rows.data, dim), rows.mask)
    return [replace(one, coordinates=(k,)) if rows.coordinates else one for k, one in enumerate(made)]


@handles(operator.getitem)
def _item(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    return args[0][args[1]]


@handles(aten.select.int)
def _select(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    rows, dim, index = args[0], args[1] % args[0].data.dim(), args[2]
    if dim == rows.dim or special(index):
        raise refused("one of the selected rows")
    made = whole.made(n, aten.select.int(rows.data, dim, index), rows.mask)
    return replace(made, coordinates=(index % len(rows.coordinates),)) if rows.coordinates else made


def _beside(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    """Operators that mix the elements along a dimension: rows must be along another one."""
    dims = _argument(n, args, kwargs, "dim")
    rows = next(value for value in pytree.tree_leaves(args, is_leaf=special) if isinstance(value, Rows))
    chosen = list(dims) if isinstance(dims, list | tuple) else [dims]
    if not chosen or None in chosen or rows.dim in {dim % rows.data.dim() for dim in chosen}:
        raise refused(f"{n.target} across selected rows")
    return _row_by_row(whole, n, args, kwargs)


def _argument(n: fx.Node, args: list[Given], kwargs: dict[str, Given], name: str) -> Any:
    for k, parameter in enumerate(n.target._schema.arguments):  # type: ignore[union-attr]
        if parameter.name == name:
            return args[k] if k < len(args) else kwargs.get(name, parameter.default_value)
    raise KeyError(name)


RULES.update(dict.fromkeys((
    aten._softmax.default, aten._log_softmax.default, aten._softmax_backward_data.default, aten.topk.default,
    aten._log_softmax_backward_data.default, aten.slice.Tensor, aten.slice_backward.default, aten.cat.default,
    aten.sort.default, aten.max.dim, aten.min.dim, aten.argmax.default, aten.argmin.default, aten.cumsum.default,
    aten.split.Tensor, aten.split_with_sizes.default, aten.amax.default, aten.amin.default,
), _beside))  # fmt: skip


@handles(aten.native_layer_norm.default)
def _layer_norm(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    if not isinstance(args[0], Rows) or args[0].dim >= args[0].data.dim() - len(args[1]) or any(map(special, args[1])):
        raise refused(f"{n.target} across selected rows")
    return _row_by_row(whole, n, args, kwargs)


@handles(aten.embedding.default)
def _embedding(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    if not isinstance(args[0], Tensor):
        raise refused("a table of selected rows")
    return whole.made(n, aten.embedding.default(args[0], args[1].kept(), *args[2:], **kwargs), args[1].mask)


@handles(aten.index_select.default)
def _index_select(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    values, dim, index = args
    if isinstance(values, Rows) and isinstance(index, Tensor) and dim % values.data.dim() != values.dim:
        return whole.made(n, aten.index_select.default(values.data, dim, index), values.mask)
    if not isinstance(values, Tensor) or not isinstance(index, Rows):
        raise refused(f"{n.target} of selected rows")
    if _are_positions(values, [None] * (dim % values.dim()) + [index], [dim % values.dim()], index.mask):
        return Rows(values, dim % values.dim(), index.mask)
    return whole.made(n, aten.index_select.default(values, dim, index.kept()), index.mask)


@handles(aten.gather.default)
def _gather(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    values, dim, index = args
    if isinstance(values, Tensor) and isinstance(index, Rows) and index.dim == dim % values.dim():
        return whole.made(n, aten.gather.default(values, dim, index.kept(), **kwargs), index.mask)
    if not isinstance(values, Rows) or not isinstance(index, Rows) or dim % values.data.dim() == values.dim:
        raise refused(f"{n.target} across selected rows")
    if index.dim != values.dim:
        raise refused(f"{n.target} of rows that do not stand beside each other")
    return whole.made(n, aten.gather.default(values.data, dim, index.kept(), **kwargs), _one_mask([values, index]))


@handles(aten.nll_loss_forward.default, aten.nll_loss_backward.default)
def _nll_loss(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    """Rows that are not selected have a label that is ignored."""
    at = n.target is aten.nll_loss_backward.default
    scores, target = args[at], args[at + 1]
    ignored = _argument(n, args, kwargs, "ignore_index")
    if not isinstance(scores, Rows) or not isinstance(target, Rows) or scores.dim or scores.data.dim() != 2:
        raise refused(f"{n.target} of rows with labels that are not theirs")
    mask = _one_mask([scores, target])
    plain = [value.data if isinstance(value, Rows) else value for value in args]
    plain[at + 1] = target.kept(ignored)
    return whole.made(n, n.target(*plain, **kwargs), mask)  # type: ignore[operator]


@handles(
    aten.full.default, aten.zeros.default, aten.ones.default, aten.empty.memory_format, aten.new_zeros.default,
    aten.new_ones.default, aten.new_full.default,
)  # fmt: skip
def _filled_with(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    given = pytree.tree_leaves(args, is_leaf=special)
    mask = next(value.mask for value in given if isinstance(value, Rows | Size))
    plain = [arg.data if isinstance(arg, Rows) else _whole_sizes(arg, mask) for arg in args]
    return whole.made(n, n.target(*plain, **kwargs), mask)  # type: ignore[operator]


# ------------------------------------------------------------------------------------------- sums over rows
@handles(aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim)
def _total(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    rows = args[0]
    if not isinstance(rows, Rows):
        raise refused(str(n.target))
    rank = rows.data.dim()
    dims = [dim % rank for dim in (args[1] if len(args) > 1 and args[1] else range(rank))]
    if rows.dim not in dims:
        return _row_by_row(whole, n, args, kwargs)
    keepdim = args[2] if len(args) > 2 else kwargs.pop("keepdim", False)
    total = torch.sum(rows.kept(), dims, keepdim, **kwargs)
    if n.target in (aten.sum.default, aten.sum.dim_IntList):
        return total
    return total / Size(rows.mask, math.prod(rows.data.shape[dim] for dim in dims if dim != rows.dim)).count


@handles(aten.mm.default, aten.bmm.default)
def _product(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    """A product of matrices: row by row, or a sum over the rows of both."""
    a, b = args
    rank = len(n.meta["val"].shape)
    left, right = getattr(a, "dim", None) if isinstance(a, Rows) else None, b.dim if isinstance(b, Rows) else None
    if left == rank - 1 or right == rank - 2:
        if left != rank - 1 or right != rank - 2:
            raise refused("a product over selected rows of one factor only")
        _one_mask([a, b])
        return n.target(a.kept(), b.kept())  # type: ignore[operator]
    return _row_by_row(whole, n, args, kwargs)


@handles(aten.addmm.default)
def _sum_and_product(whole: Whole, n: fx.Node, args: list[Given], kwargs: dict[str, Given]) -> Any:
    bias, a, b = args
    if isinstance(b, Rows) or (isinstance(a, Rows) and a.dim) or isinstance(bias, Rows):
        raise refused("a product over selected rows")
    return _row_by_row(whole, n, args, kwargs)
