"""Operations of an e-graph and the types that they give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Union

from tantamount.errors import InternalError, TantamountError
from tantamount.ir.graph import Argument, Graph, Node, Ref
from tantamount.ir.types import DType, Kind, TensorType
from tantamount.ops.algebra import Tensor, TypesOnly
from tantamount.ops.builder import Builder
from tantamount.ops.execute import run_node
from tantamount.rules.terms import entries

__all__ = ["HOLE", "Operation", "ResultType", "Types", "defined_type", "filled", "plain_type"]

ResultType = Union[TensorType, tuple[TensorType, ...]]


class _Hole:
    """The place of an operand in the arguments of an operation."""

    def __repr__(self) -> str:
        return "_"


HOLE = _Hole()


@dataclass(frozen=True, eq=False, slots=True)
class Operation:
    """An operator with its attributes; operands are holes, filled from the left. One object for equal ones. Of an input
    or constant, ``leaf`` is its node."""

    target: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    leaf: Node | None = None


@dataclass
class Types:
    """The types that operations give; what takes long is found once, and shared between e-graphs.
    ``accepts(target, operands, result)`` may refuse a call that the operator would take: a backend lacks it."""

    accepts: Callable[[str, tuple[ResultType, ...], ResultType], bool] | None = None
    known: dict[Any, ResultType | None] = field(default_factory=dict[Any, "ResultType | None"])
    most: int = 50_000

    def of(self, operation: Operation, operands: tuple[ResultType, ...], key: str) -> ResultType | None:
        """The type of a call, ``None`` where the operator refuses the operands."""
        if operation.target == "getitem":
            (several,), index = operands, int(operation.args[1])
            found = several[index] if isinstance(several, tuple) else None
        else:
            found = plain_type(operation, operands)
        if found is None:
            entry = (key, operands)
            if entry not in self.known:
                if len(self.known) >= self.most:
                    self.known.clear()
                self.known[entry] = defined_type(operation, operands)
            found = self.known[entry]
        if found is not None and self.accepts is not None and not self.accepts(operation.target, operands, found):
            return None
        return found


_STUB = Graph((), ())


def defined_type(operation: Operation, operands: tuple[ResultType, ...]) -> ResultType | None:
    """The type of a call by the operator's definition; ``None`` where it refuses the operands."""

    def value(type_: ResultType) -> Any:
        if isinstance(type_, tuple):
            return tuple(value(item) for item in type_)
        return Tensor(type_.shape, type_.dtype, None)

    if operation.target == "getitem":
        (several,), index = operands, int(operation.args[1])
        return several[index] if isinstance(several, tuple) else None
    names = iter(range(len(operands)))
    environment = {f"o{k}": value(type_) for k, type_ in enumerate(operands)}
    args, kwargs = filled(operation, lambda: Ref(f"o{next(names)}"))
    try:
        result = run_node(
            _STUB, Node("n", "call", operation.target, args, kwargs), Builder(TypesOnly()), environment, _none, None
        )
    except TantamountError:
        return None
    if isinstance(result, Tensor):
        return result.type
    if isinstance(result, tuple):
        return tuple(item.type for item in result if isinstance(item, Tensor))
    return None


def _none(graph: Graph, node: Node, builder: Builder) -> Tensor:
    raise InternalError("a constant inside an operation")


def filled(operation: Operation, operand: Callable[[], Any]) -> tuple[tuple[Argument, ...], dict[str, Argument]]:
    """The arguments with what ``operand()`` gives in place of each hole, from the left."""

    args = tuple([_filled(item, operand) for item in operation.args])
    if not operation.kwargs:
        return args, {}
    return args, {key: _filled(item, operand) for key, item in operation.kwargs.items()}


def _filled(item: Any, operand: Callable[[], Any]) -> Any:
    if item is HOLE:
        return operand()
    inner = entries(item)
    return item if inner is None or not _has_hole(inner) else tuple([_filled(entry, operand) for entry in inner])


def _has_hole(items: tuple[Any, ...]) -> bool:
    return HOLE in items or any(isinstance(item, tuple) and _has_hole(entries(item) or ()) for item in items)


# ---------------------------------------------------------------------------------------------- the commonest calls
def plain_type(operation: Operation, operands: tuple[ResultType, ...]) -> ResultType | None:
    """The type of the commonest calls, which running their definitions gives, too, in ten times the time; ``None`` for
    all others."""
    row = _PLAIN.get(operation.target)
    if row is None:
        return None
    for type_ in operands:
        if not isinstance(type_, TensorType) or type_.dtype.is_complex or len(type_.shape) > 8:
            return None
        for size in type_.shape:
            if type(size) is not int:
                return None
    args: tuple[Any, ...] = operation.args
    if operation.kwargs:
        if operation.target != _CAST or len(operation.kwargs) != 1 or "dtype" not in operation.kwargs:
            return None
        args = (*args, operation.kwargs["dtype"])
    return row(args, operands)


_CAST = "aten._to_copy.default"
Plain = Callable[[tuple[Any, ...], tuple[Any, ...]], Union[ResultType, None]]


def _same(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> ResultType | None:
    return types[0] if len(args) == 1 and types[0].dtype is not DType.BOOL else None


def _not(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> ResultType | None:
    return types[0] if len(args) == 1 and types[0].dtype is DType.BOOL else None


def _together(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> TensorType | None:
    """Two numbers or tensors of numbers of one type, broadcast."""
    first = types[0]
    if len(args) != 2 or first.dtype is DType.BOOL:
        return None
    if len(types) == 1:  # a whole number takes any type of numbers
        return first if args[0] is HOLE and type(args[1]) is int else None
    if first.dtype is not types[1].dtype:
        return None
    if first.shape == types[1].shape:
        return first
    a, b = types[0].shape, types[1].shape
    if len(a) < len(b):
        a, b = b, a
    padded = (*(1,) * (len(a) - len(b)), *b)
    shape = tuple([n if m == 1 else m for n, m in zip(a, padded, strict=True)])
    if any(n not in (1, k) or m not in (1, k) for n, m, k in zip(a, padded, shape, strict=True)):
        return None
    return TensorType(shape, first.dtype)


def _compared(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> ResultType | None:
    found = _together(args, types)
    return None if found is None else TensorType(found.shape, DType.BOOL)


def _permuted(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> ResultType | None:
    order = entries(args[1]) if len(args) == 2 else None
    shape = types[0].shape
    if order is None or sorted(order) != list(range(len(shape))):
        return None
    return TensorType(tuple([shape[int(k)] for k in order]), types[0].dtype)


def _reshaped(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> ResultType | None:
    shape = entries(args[1]) if len(args) == 2 else None
    if shape is None or not all(type(n) is int and n > 0 for n in shape) or prod(shape) != prod(types[0].shape):
        return None
    return TensorType(shape, types[0].dtype)


def _dimension(args: tuple[Any, ...], rank: int) -> int | None:
    """The second argument, if it is one of the ``rank`` dimensions, counted from the front."""
    dim = args[1] if len(args) > 1 else None
    return dim if type(dim) is int and 0 <= dim < rank else None


def _with(type_: TensorType, dim: int, *sizes: int) -> TensorType:
    """The type with other sizes in place of one dimension's."""
    return TensorType((*type_.shape[:dim], *sizes, *type_.shape[dim + 1 :]), type_.dtype)


def _sliced(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> ResultType | None:
    dim = _dimension(args, len(types[0].shape))
    if dim is None or len(args) != 5 or not all(type(n) is int for n in args[2:]):
        return None
    start, stop, step = args[2:]
    if not (0 <= start <= stop <= types[0].shape[dim] and step >= 1):
        return None
    return _with(types[0], dim, -((start - stop) // step))


def _joined(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> ResultType | None:
    dim, first = _dimension(args, len(types[0].shape)), types[0]
    if dim is None or len(args) != 2:
        return None
    for type_ in types:
        if type_.dtype is not first.dtype or len(type_.shape) != len(first.shape):
            return None
        if type_.shape[:dim] != first.shape[:dim] or type_.shape[dim + 1 :] != first.shape[dim + 1 :]:
            return None
    return _with(first, dim, sum([int(type_.shape[dim]) for type_ in types]))


def _split(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> ResultType | None:
    sizes = entries(args[1]) if len(args) == 3 else None
    dim = _dimension(args[1:], len(types[0].shape))
    if sizes is None or dim is None or not all(type(n) is int and n >= 0 for n in sizes):
        return None
    return tuple([_with(types[0], dim, n) for n in sizes]) if sum(sizes) == types[0].shape[dim] else None


def _unsqueezed(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> ResultType | None:
    dim = _dimension(args, len(types[0].shape) + 1)
    if dim is None or len(args) != 2:
        return None
    return TensorType((*types[0].shape[:dim], 1, *types[0].shape[dim:]), types[0].dtype)


def _squeezed(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> ResultType | None:
    dim = _dimension(args, len(types[0].shape))
    if dim is None or len(args) != 2:
        return None
    return _with(types[0], dim) if types[0].shape[dim] == 1 else types[0]


def _dimensions(args: tuple[Any, ...], rank: int) -> set[int] | None:
    """The second argument as a set, if it has one or more different dimensions, counted from the front."""
    dims = entries(args[1]) if len(args) > 1 else None
    if not dims or not all(type(k) is int and 0 <= k < rank for k in dims) or len({*dims}) != len(dims):
        return None
    return {*dims}


def _flipped(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> ResultType | None:
    return types[0] if len(args) == 2 and _dimensions(args, len(types[0].shape)) else None


def _reduced(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> TensorType | None:
    shape = types[0].shape
    dims = _dimensions(args, len(shape))
    if dims is None or len(args) != 3 or type(args[2]) is not bool or 0 in shape or types[0].dtype is DType.BOOL:
        return None
    kept = [1 if k in dims else size for k, size in enumerate(shape) if args[2] or k not in dims]
    return TensorType(tuple(kept), types[0].dtype)


def _summed(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> ResultType | None:
    found = _reduced(args, types)
    return TensorType(found.shape, DType.INT64) if found is not None and found.dtype.kind is Kind.INT else found


def _cast(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> ResultType | None:
    if len(args) != 2 or not isinstance(args[1], DType) or args[1].is_complex:
        return None
    return TensorType(types[0].shape, args[1])


def _product(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> ResultType | None:
    """Of two matrices, or of as many in two batches."""
    if len(args) != 2 or len(types) != 2 or types[0].dtype is not types[1].dtype or not types[0].dtype.is_float:
        return None
    a, b = types[0].shape, types[1].shape
    if len(a) != len(b) or a[:-2] != b[:-2] or a[-1] != b[-2]:
        return None
    return TensorType((*a[:-1], b[-1]), types[0].dtype)


def _mm(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> ResultType | None:
    return _product(args, types) if len(types[0].shape) == 2 else None


def _bmm(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> ResultType | None:
    return _product(args, types) if len(types[0].shape) == 3 else None


def _summed_up(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> ResultType | None:
    found = types[0]
    if len(args) != 2 or _dimension(args, len(found.shape)) is None or found.dtype is DType.BOOL or 0 in found.shape:
        return None
    return TensorType(found.shape, DType.INT64) if found.dtype.kind is Kind.INT else found


def _padded(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> ResultType | None:
    widths, shape = entries(args[1]) if len(args) == 3 else None, [*types[0].shape]
    if widths is None or len(widths) % 2 or len(widths) > 2 * len(shape) or types[0].dtype is DType.BOOL:
        return None
    if type(args[2]) is not int or args[2] or not all(type(n) is int and n >= 0 for n in widths):
        return None
    for k in range(len(widths) // 2):
        shape[-1 - k] += widths[2 * k] + widths[2 * k + 1]
    return TensorType(tuple(shape), types[0].dtype)


def _expanded(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> ResultType | None:
    shape, old = entries(args[1]) if len(args) == 2 else None, types[0].shape
    if shape is None or len(shape) < len(old) or not all(type(n) is int and n > 0 for n in shape):
        return None
    if any(n not in (1, m) for n, m in zip(old, shape[len(shape) - len(old) :], strict=True)):
        return None
    return TensorType(shape, types[0].dtype)


def _selected(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> ResultType | None:
    dim = _dimension(args, len(types[0].shape))
    if dim is None or len(args) != 3 or type(args[2]) is not int or not 0 <= args[2] < types[0].shape[dim]:
        return None
    return _with(types[0], dim)


def _chosen(args: tuple[Any, ...], types: tuple[TensorType, ...]) -> ResultType | None:
    """Of three tensors of one shape."""
    if len(types) != 3 or types[0].dtype is not DType.BOOL or types[1] != types[2]:
        return None
    return types[1] if types[0].shape == types[1].shape else None


_PLAIN: dict[str, Plain] = {
    "aten.neg.default": _same, "aten.abs.default": _same, "aten.relu.default": _same, "aten.logical_not.default": _not,
    "aten.add.Tensor": _together, "aten.sub.Tensor": _together, "aten.mul.Tensor": _together,
    "aten.maximum.default": _together, "aten.minimum.default": _together, "aten.eq.Tensor": _compared,
    "aten.ne.Tensor": _compared, "aten.lt.Tensor": _compared, "aten.le.Tensor": _compared, "aten.gt.Tensor": _compared,
    "aten.ge.Tensor": _compared, "aten.permute.default": _permuted, "aten.reshape.default": _reshaped,
    "aten.slice.Tensor": _sliced, "aten.cat.default": _joined, "aten.split_with_sizes.default": _split,
    "aten.unsqueeze.default": _unsqueezed, "aten.squeeze.dim": _squeezed, "aten.flip.default": _flipped,
    "aten.amax.default": _reduced, "aten.amin.default": _reduced, "aten.sum.dim_IntList": _summed, _CAST: _cast,
    "aten.mm.default": _mm, "aten.bmm.default": _bmm, "aten.cumsum.default": _summed_up,
    "aten.constant_pad_nd.default": _padded, "aten.expand.default": _expanded, "aten.select.int": _selected,
    "aten.where.self": _chosen,
}  # fmt: skip
