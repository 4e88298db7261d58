"""Numbers and sizes that a program computes: counts, sizes of tensors, their arithmetic.

A number taken out of a tensor is a 0-d tensor that promotes as Python's numbers do (``weak``), so that arithmetic with
it is arithmetic of tensors. Where a *size* is needed it is known in an execution only (``Builder.concrete``), and so is
the number of elements that a mask selects (``Builder.nonzero``): elsewhere the node's value is unknown.
"""

from __future__ import annotations

from tantamount.ir.types import DType, Kind
from tantamount.ops.algebra import Scalar, Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions import elementwise, indexing, logic, reduction
from tantamount.ops.table import Layout, Operand, Scalars, operator

__all__ = ["columns_of", "number_of", "stop_unless"]

_NUMBERS = "numbers"


# ---------------------------------------------------------------------------------------------- out of tensors
def _weak(b: Builder, x: Tensor) -> Tensor:
    """A number: only its kind takes part in promotion."""
    dtype = {Kind.BOOL: DType.BOOL, Kind.INT: DType.INT64, Kind.FLOAT: b.default}.get(x.dtype.kind)
    if dtype is None or x.rank:
        raise ShapeProblem(f"a number of type {x.type}")
    return Tensor((), dtype, b.cast(x, dtype).value, weak=True)


@operator("aten.item.default", "aten._local_scalar_dense.default", category=_NUMBERS)
def item(b: Builder, self: Tensor) -> Tensor:
    """the only element of self, as a number"""
    return _weak(b, b.reshape(self, ()))


@operator("aten.sym_size.int", category=_NUMBERS)
def sym_size(b: Builder, self: Tensor, dim: int) -> Tensor:
    """the size of self along dim, as a number"""
    k = b.dim(self, dim)
    if not self.rank:
        raise ShapeProblem(f"dimension {dim} of a tensor with 0 dimensions")
    return b.number(self.shape[k])


@operator("aten.sym_numel.default", category=_NUMBERS)
def sym_numel(b: Builder, self: Tensor) -> Tensor:
    """the number of elements of self, as a number"""
    count = 1
    for size in self.shape:
        count *= size
    return b.number(count)


# ---------------------------------------------------------------------------------------------- arithmetic of numbers
def number_of(b: Builder, x: Operand) -> Tensor:
    """A number as a 0-d tensor; a tensor as it is."""
    return x if isinstance(x, Tensor) else b.number(x)


def stop_unless(b: Builder, x: Tensor) -> None:
    """The program stops where an element of x is false or 0: whole numbers are divided by 1 where it is true and by 0
    elsewhere."""
    true = b.cast(b.cast(x, DType.BOOL), DType.INT64)
    b.function("floor_divide", true, true, floating=False)


@operator("operator.add", category=_NUMBERS)
def add(b: Builder, a: Operand, c: Operand) -> Tensor:
    """a + c, of numbers"""
    return _weak(b, elementwise.add(b, number_of(b, a), c))


@operator("operator.sub", category=_NUMBERS)
def sub(b: Builder, a: Operand, c: Operand) -> Tensor:
    """a - c, of numbers"""
    return _weak(b, elementwise.sub(b, number_of(b, a), c))


@operator("operator.mul", category=_NUMBERS)
def mul(b: Builder, a: Operand, c: Operand) -> Tensor:
    """a * c, of numbers"""
    return _weak(b, elementwise.mul(b, number_of(b, a), c))


@operator("operator.truediv", category=_NUMBERS)
def truediv(b: Builder, a: Operand, c: Operand) -> Tensor:
    """a / c, of numbers"""
    return _weak(b, elementwise.div(b, number_of(b, a), c))


@operator("operator.floordiv", category=_NUMBERS)
def floordiv(b: Builder, a: Operand, c: Operand) -> Tensor:
    """floor(a / c), of numbers"""
    return _weak(b, elementwise.floor_divide(b, number_of(b, a), c))


@operator("operator.mod", category=_NUMBERS)
def mod(b: Builder, a: Operand, c: Operand) -> Tensor:
    """a - c * floor(a / c), of numbers"""
    return _weak(b, elementwise.remainder(b, number_of(b, a), c))


@operator("operator.neg", category=_NUMBERS)
def neg(b: Builder, a: Operand) -> Tensor:
    """-a, of a number"""
    return _weak(b, elementwise.neg(b, number_of(b, a)))


@operator("operator.eq", category=_NUMBERS)
def eq(b: Builder, a: Operand, c: Operand) -> Tensor:
    """a = c, of numbers"""
    return _weak(b, b.equal(a, c))


@operator("operator.ne", category=_NUMBERS)
def ne(b: Builder, a: Operand, c: Operand) -> Tensor:
    """not (a = c), of numbers"""
    return _weak(b, b.not_(b.equal(a, c)))


@operator("operator.lt", category=_NUMBERS)
def lt(b: Builder, a: Operand, c: Operand) -> Tensor:
    """a < c, of numbers"""
    return _weak(b, b.less(a, c))


@operator("operator.gt", category=_NUMBERS)
def gt(b: Builder, a: Operand, c: Operand) -> Tensor:
    """c < a, of numbers"""
    return _weak(b, b.less(c, a))


@operator("operator.le", category=_NUMBERS)
def le(b: Builder, a: Operand, c: Operand) -> Tensor:
    """not (c < a), of numbers"""
    return _weak(b, b.not_(b.less(c, a)))


@operator("operator.ge", category=_NUMBERS)
def ge(b: Builder, a: Operand, c: Operand) -> Tensor:
    """not (a < c), of numbers"""
    return _weak(b, b.not_(b.less(a, c)))


@operator("operator.and_", category=_NUMBERS)
def and_(b: Builder, a: Operand, c: Operand) -> Tensor:
    """a and c, of booleans"""
    return _weak(b, logic.bitwise_and(b, number_of(b, a), c))


@operator("operator.or_", category=_NUMBERS)
def or_(b: Builder, a: Operand, c: Operand) -> Tensor:
    """a or c, of booleans"""
    return _weak(b, logic.bitwise_or(b, number_of(b, a), c))


@operator("torch.sym_max", category=_NUMBERS)
def sym_max(b: Builder, a: Operand, c: Operand) -> Tensor:
    """max(a, c), of numbers"""
    return _weak(b, b.maximum(a, c))


@operator("torch.sym_min", category=_NUMBERS)
def sym_min(b: Builder, a: Operand, c: Operand) -> Tensor:
    """min(a, c), of numbers"""
    return _weak(b, b.minimum(a, c))


@operator("torch.sym_not", category=_NUMBERS)
def sym_not(b: Builder, a: Operand) -> Tensor:
    """not a, of a boolean"""
    return _weak(b, b.not_(number_of(b, a)))


@operator("torch.sym_float", category=_NUMBERS)
def sym_float(b: Builder, a: Operand) -> Tensor:
    """a, as a float"""
    return _weak(b, b.cast(number_of(b, a), b.default))


@operator("torch.sym_int", category=_NUMBERS)
def sym_int(b: Builder, a: Operand) -> Tensor:
    """a without its fraction"""
    return _weak(b, b.cast(number_of(b, a), DType.INT64))


@operator("torch.sym_sum", category=_NUMBERS)
def sym_sum(b: Builder, args: Scalars) -> Tensor:
    """the sum of numbers"""
    total = b.number(0)
    for value in args:
        total = b.add(total, value)
    return _weak(b, total)


# ---------------------------------------------------------------------------------------------- what masks select
def columns_of(b: Builder, mask: Tensor) -> list[Tensor]:
    """The places where the mask holds: one line of indices for every dimension of it."""
    places = b.nonzero(mask)
    return [b.select(places, 1, k) for k in range(mask.rank)]


@operator("aten.nonzero.default", "aten.argwhere.default", category=_NUMBERS)
def nonzero(b: Builder, self: Tensor) -> Tensor:
    """the places of the elements that are not zero, row-major, one row each"""
    return b.nonzero(self)


@operator("aten.nonzero_numpy.default", "aten.where.default", category=_NUMBERS)
def nonzero_columns(b: Builder, self: Tensor) -> tuple[Tensor, ...]:
    """the places of the elements that are not zero, one tensor for every dimension"""
    return tuple(columns_of(b, self))


@operator("aten.nonzero_static.default", category=_NUMBERS)
def nonzero_static(b: Builder, self: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """the first `size` places of elements that are not zero, row-major, then rows of fill_value"""
    if size < 0:
        raise ShapeProblem(f"{size} places")
    flat = b.reshape(b.cast(self, DType.BOOL), (-1,))
    number = b.sub(reduction.cumsum(b, flat, 0), 1)  # which of the places found this is
    hits = b.and_(b.equal(b.unsqueeze(b.iota(size), 1), number), b.expand(flat, (size, flat.shape[0])))
    count = b.cast(hits, DType.INT64)  # [k, place]: the place is the k-th
    columns: list[Tensor] = []
    for k, n in enumerate(self.shape):
        line = b.reshape(b.iota(n), [n if j == k else 1 for j in range(self.rank)])
        columns.append(b.contract("kp,p->k", count, b.reshape(b.expand(line, self.shape), (-1,))))
    if not columns:
        return b.full((size, 0), 0, DType.INT64)
    found = b.cast(b.sum(count, (1,), keepdim=True), DType.BOOL)
    return b.where(found, b.stack(columns, 1), b.number(fill_value, DType.INT64))


@operator("aten.masked_select.default", category=_NUMBERS)
def masked_select(b: Builder, self: Tensor, mask: Tensor) -> Tensor:
    """the elements where the mask holds, row-major"""
    if mask.dtype is not DType.BOOL:
        raise ShapeProblem(f"a mask {mask.type}")
    x, chosen = b.broadcast(self, mask)
    (places,) = columns_of(b, b.reshape(chosen, (-1,)))
    return b.gather(b.reshape(x, (-1,)), [places])


# ---------------------------------------------------------------------------------------------- counts and repetitions
@operator("aten.bincount.default", category=_NUMBERS)
def bincount(b: Builder, self: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """y[v] = how many elements are v (the sum of their weights), up to the largest element"""
    if self.rank != 1 or self.dtype.kind is not Kind.INT or minlength < 0:
        raise ShapeProblem(f"counts of {self.type} with minlength {minlength}")
    if weights is not None and weights.shape != self.shape:
        raise ShapeProblem(f"weights {weights.type} for {self.type}")
    size = minlength
    if self.shape[0]:
        size = max(size, int(b.concrete(b.amax(self))) + 1)
    if weights is None:
        return b.scatter(b.full((size,), 0, DType.INT64), [self], b.number(1, DType.INT64), True)
    dtype = weights.dtype if weights.dtype in (DType.FLOAT32, DType.FLOAT64) else DType.FLOAT64
    return b.scatter(b.full((size,), 0, dtype), [self], b.cast(weights, dtype), True)


@operator("tantamount.counts.default", category=_NUMBERS)
def counts(b: Builder, x: Tensor, weights: Tensor | None, minlength: int) -> Tensor:
    """y[v] = how many elements are v (the sum of their weights); that all are below minlength has to be shown"""
    if x.rank != 1 or x.dtype not in (DType.INT32, DType.INT64) or minlength < 1:
        raise ShapeProblem(f"counts of {x.type} up to {minlength}")
    if weights is not None and (weights.shape != x.shape or weights.dtype not in (DType.FLOAT32, DType.FLOAT64)):
        raise ShapeProblem(f"weights {weights.type} for {x.type}")
    dtype = DType.INT64 if weights is None else weights.dtype
    places = b.cast(b.equal(b.unsqueeze(x, 1), b.iota(minlength)), dtype)
    found = b.sum(places if weights is None else b.mul(places, b.unsqueeze(weights, 1)), (0,))
    outside = b.or_(b.less(x, 0), b.less(minlength - 1, x))
    stop_unless(b, b.not_(outside))
    return found


def _repeated(b: Builder, repeats: Tensor, output_size: int | None) -> Tensor:
    """The entry that every place of the result repeats: the number of entries that end at or before it."""
    if repeats.rank != 1 or repeats.dtype not in (DType.INT32, DType.INT64):
        raise ShapeProblem(f"repeats {repeats.type}")
    ends = reduction.cumsum(b, repeats, 0)
    size = int(b.concrete(b.sum(repeats))) if output_size is None else output_size
    before = b.not_(b.less(b.unsqueeze(b.iota(size), 1), ends))
    return b.cast(b.sum(before, (1,)), repeats.dtype)


@operator("aten.repeat_interleave.Tensor", category=_NUMBERS)
def repeat_interleave(b: Builder, repeats: Tensor, *, output_size: int | None = None) -> Tensor:
    """i, repeats[i] times, for every i in order; output_size is the sum of repeats"""
    return _repeated(b, repeats, output_size)


@operator("aten.repeat_interleave.self_Tensor", category=_NUMBERS)
def repeat_interleave_self(
    b: Builder, self: Tensor, repeats: Tensor, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """self[i] along dim, repeats[i] times, for every i in order; without a dim, of the flattened tensor"""
    x = b.reshape(self, (-1,)) if dim is None else self
    k = 0 if dim is None else b.dim(x, dim)
    if not x.rank:
        raise ShapeProblem(f"repeats of {self.type}, which has no dimensions")
    if repeats.shape in ((), (1,)):
        repeats = b.expand(repeats, (x.shape[k],))
    if repeats.shape != (x.shape[k],):
        raise ShapeProblem(f"repeats {repeats.type} of {x.type} along dimension {k}")
    return indexing.index_select(b, x, k, _repeated(b, repeats, output_size))


# ---------------------------------------------------------------------------------------------- distinct elements
def _runs(b: Builder, row: Tensor) -> tuple[Tensor, Tensor]:
    """The first element of every run of equal elements, and the number of the run that each element is in."""
    n = row.shape[0]
    first = b.full((min(n, 1),), True, DType.BOOL)
    if n > 1:
        first = b.concat([first, b.not_(b.equal(b.slice(row, 0, 1), b.slice(row, 0, 0, n - 1)))], 0)
    (places,) = columns_of(b, first)
    return b.gather(row, [places]), b.sub(reduction.cumsum(b, first, 0), 1)


def _counted(b: Builder, run: Tensor, count: int) -> Tensor:
    return b.scatter(b.full((count,), 0, DType.INT64), [run], b.number(1, DType.INT64), True)


@operator("aten.unique_consecutive.default", category=_NUMBERS)
def unique_consecutive(
    b: Builder, self: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """one element of every run of equal ones in the flattened tensor, each element's run, and their lengths"""
    if dim is not None:
        raise ShapeProblem(f"distinct slices along dimension {dim}")
    values, run = _runs(b, b.reshape(self, (-1,)))
    empty = b.full((0,), 0, DType.INT64)
    inverse = b.reshape(run, self.shape) if return_inverse else empty
    return values, inverse, _counted(b, run, values.shape[0]) if return_counts else empty


@operator("aten._unique2.default", category=_NUMBERS)
def unique(
    b: Builder, self: Tensor, sorted: Layout = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """the distinct elements in order, the number among them of each element, and how often they occur"""
    flat = b.reshape(self, (-1,))
    row, order = reduction.sort_stable(b, flat, stable=True, dim=0)
    values, run = _runs(b, row)
    empty = b.full((0,), 0, DType.INT64)
    inverse = empty
    if return_inverse:
        back = reduction.sorting_order(b, order, 0, False, True)
        inverse = b.reshape(b.gather(run, [back]), self.shape)
    return values, inverse, _counted(b, run, values.shape[0]) if return_counts else empty


# ---------------------------------------------------------------------------------------------- routing
@operator("megatron.sinkhorn.default", "megatron.sinkhorn", category=_NUMBERS)
def sinkhorn(b: Builder, cost: Tensor, tol: Scalar = 0.0001) -> Tensor:
    """exp(cost) scaled to equal sums of rows and of columns, up to tol: an opaque function of the whole matrix"""
    if cost.rank != 2 or not cost.dtype.is_float or not isinstance(tol, (int, float)):
        raise ShapeProblem(f"Sinkhorn scaling of {cost.type} with tolerance {tol}")
    size = cost.shape[0] * cost.shape[1]
    row = b.reshape(cost, (size,))
    (scaled,) = b.rows("sinkhorn", [row], 0, (*cost.shape, tol), [(size, cost.dtype)])
    return b.reshape(scaled, cost.shape)
