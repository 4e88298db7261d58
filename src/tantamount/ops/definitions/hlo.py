"""HLO instructions on elements, layout and sums. Operands never broadcast and never change type by themselves: what
does not fit exactly is refused."""

from __future__ import annotations

from collections.abc import Callable
from string import ascii_letters

from tantamount.ir.types import DType, Kind
from tantamount.ops.algebra import Scalar, Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions import activation, elementwise, logic, reduction
from tantamount.ops.definitions.in_place import require_float
from tantamount.ops.table import Integers, operator

__all__ = ["combine", "reduce_over"]

_HLO = "hlo"


def _alike(*xs: Tensor) -> None:
    """HLO has no broadcasting and no promotion."""
    if len({x.type for x in xs}) > 1:
        raise ShapeProblem("operands of one type where these are given: " + ", ".join(str(x.type) for x in xs))


def _signed(x: Tensor) -> Tensor:
    if x.dtype is DType.BOOL or x.dtype.label.startswith("u"):
        raise ShapeProblem(f"an operand of type {x.dtype} where a signed number is needed")
    return x


# ---------------------------------------------------------------------------------------------- one operand
def _unary(opcode: str, meaning: str, compute: Callable[[Builder, Tensor], Tensor], signed: bool = False) -> None:
    """An instruction on one float tensor (``signed``: or one of signed integers)."""

    def define(b: Builder, operand: Tensor) -> Tensor:
        return compute(b, _signed(operand) if signed else require_float(operand))

    define.__doc__ = meaning
    operator(f"hlo.{opcode}", category=_HLO)(define)


_unary("abs", "|operand|", elementwise.absolute, signed=True)
_unary("negate", "-operand", elementwise.neg, signed=True)
_unary("sign", "-1, 0 or 1, as operand is negative, zero or positive", elementwise.sign, signed=True)
_unary("floor", "the largest whole number that is at most operand", elementwise.floor)
_unary("ceil", "-floor(-operand)", elementwise.ceil)
_unary("round-nearest-even", "the nearest whole number, halves to the even one", elementwise.rounded)
_unary("exponential", "exp(operand)", elementwise.exp)
_unary("exponential-minus-one", "exp(operand) - 1", elementwise.expm1)
_unary("log", "log(operand)", elementwise.log)
_unary("log-plus-one", "log(1 + operand)", elementwise.log1p)
_unary("logistic", "1 / (1 + exp(-operand))", activation.sigmoid)
_unary("tanh", "tanh(operand)", activation.tanh)
_unary("cosine", "cos(operand)", elementwise.cos)
_unary("sine", "sin(operand)", elementwise.sin)
_unary("tan", "sin(operand) / cos(operand)", elementwise.tan)
_unary("sqrt", "operand ** (1/2)", elementwise.sqrt)
_unary("rsqrt", "operand ** (-1/2)", elementwise.rsqrt)
_unary("erf", "erf(operand)", elementwise.erf)
_unary("reduce-precision", "operand: rounding is the identity over the reals", lambda b, x: x)


@operator("hlo.not", category=_HLO)
def negation(b: Builder, operand: Tensor) -> Tensor:
    """not operand; of integers: -operand - 1"""
    return logic.bitwise_not(b, operand)


@operator("hlo.convert", category=_HLO)
def convert(b: Builder, operand: Tensor, dtype: DType) -> Tensor:
    """operand in another element type: floats keep their value, integers get it truncated, pred is `operand != 0`"""
    return b.cast(operand, dtype)


@operator("hlo.constant", category=_HLO)
def constant(b: Builder, value: Scalar, *, shape: Integers, dtype: DType) -> Tensor:
    """value, everywhere"""
    return b.full(shape, value, dtype)


# ---------------------------------------------------------------------------------------------- two and three operands
def _binary(opcode: str, meaning: str, compute: Callable[[Builder, Tensor, Tensor], Tensor]) -> None:
    def define(b: Builder, lhs: Tensor, rhs: Tensor) -> Tensor:
        _alike(lhs, rhs)
        return compute(b, lhs, rhs)

    define.__doc__ = meaning
    operator(f"hlo.{opcode}", category=_HLO)(define)


def _numbers(compute: Callable[[Builder, Tensor, Tensor], Tensor]) -> Callable[[Builder, Tensor, Tensor], Tensor]:
    def checked(b: Builder, lhs: Tensor, rhs: Tensor) -> Tensor:
        if lhs.dtype is DType.BOOL:
            raise ShapeProblem("arithmetic on pred")
        return b.cast(compute(b, lhs, rhs), lhs.dtype)

    return checked


def _quotient(b: Builder, lhs: Tensor, rhs: Tensor) -> Tensor:
    """Integers round towards zero."""
    return b.div(lhs, rhs) if lhs.dtype.is_float else elementwise.div_mode(b, lhs, rhs, rounding_mode="trunc")


_binary("add", "lhs + rhs", _numbers(elementwise.add))
_binary("subtract", "lhs - rhs", _numbers(elementwise.sub))
_binary("multiply", "lhs * rhs", _numbers(elementwise.mul))
_binary("divide", "lhs / rhs; of integers: rounded towards zero", _numbers(_quotient))
_binary("remainder", "lhs - rhs * trunc(lhs / rhs): the sign is that of lhs", _numbers(elementwise.fmod))
_binary("power", "lhs ** rhs, both variable", _numbers(elementwise.pow_tensor))
_binary("maximum", "max(lhs, rhs); of pred: or", elementwise.maximum)
_binary("minimum", "min(lhs, rhs); of pred: and", elementwise.minimum)
_binary("and", "lhs and rhs, bit by bit", logic.bitwise_and)
_binary("or", "lhs or rhs, bit by bit", logic.bitwise_or)
_binary("xor", "exactly one of lhs and rhs, bit by bit", logic.bitwise_xor)

_DIRECTIONS: dict[str, Callable[[Builder, Tensor, Tensor], Tensor]] = {
    "EQ": logic.eq,
    "NE": logic.ne,
    "LT": logic.lt,
    "LE": logic.le,
    "GT": logic.gt,
    "GE": logic.ge,
}


@operator("hlo.compare", category=_HLO)
def compare(b: Builder, lhs: Tensor, rhs: Tensor, *, direction: str) -> Tensor:
    """lhs = rhs (EQ), lhs != rhs (NE), lhs < rhs (LT), lhs <= rhs (LE), lhs > rhs (GT), lhs >= rhs (GE)"""
    _alike(lhs, rhs)
    if direction not in _DIRECTIONS:
        raise ShapeProblem(f"the direction {direction}")
    return _DIRECTIONS[direction](b, lhs, rhs)


@operator("hlo.select", category=_HLO)
def select(b: Builder, pred: Tensor, on_true: Tensor, on_false: Tensor) -> Tensor:
    """on_true where pred holds, else on_false; pred may be one truth value for all"""
    _alike(on_true, on_false)
    if pred.rank and pred.shape != on_true.shape:
        raise ShapeProblem(f"a predicate {pred.type} for {on_true.type}")
    return b.where(pred, on_true, on_false)


@operator("hlo.select-or-nan", category=_HLO)
def select_or_nan(b: Builder, pred: Tensor, operand: Tensor, *, holds: bool) -> Tensor:
    """operand where pred holds (or where it does not), elsewhere undefined: operand / pred"""
    if pred.dtype is not DType.BOOL or (pred.rank and pred.shape != operand.shape):
        raise ShapeProblem(f"a predicate {pred.type} for {operand.type}")
    condition = b.cast(pred if holds else b.not_(pred), require_float(operand).dtype)
    return b.mul(operand, b.power(condition, -1))


@operator("hlo.clamp", category=_HLO)
def clamp(b: Builder, min: Tensor, operand: Tensor, max: Tensor) -> Tensor:
    """minimum(maximum(operand, min), max); the bounds may be single numbers"""
    for bound in (min, max):
        if bound.dtype is not operand.dtype or bound.shape not in ((), operand.shape):
            raise ShapeProblem(f"a bound {bound.type} for {operand.type}")
    if operand.dtype.is_float:
        return elementwise.clamp(b, operand, min, max)
    raised = b.where(b.less(operand, min), min, operand)  # choices, as for integers everywhere (elementwise.clamp)
    return b.where(b.less(max, raised), max, raised)


# ---------------------------------------------------------------------------------------------- layout
@operator("hlo.iota", category=_HLO)
def iota(b: Builder, *, dimension: int, shape: Integers, dtype: DType) -> Tensor:
    """the index along one dimension"""
    if not 0 <= dimension < len(shape) or dtype is DType.BOOL:
        raise ShapeProblem(f"iota along dimension {dimension} of {dtype}{list(shape)}")
    line = b.iota(shape[dimension], dtype)
    return b.expand(b.reshape(line, [size if k == dimension else 1 for k, size in enumerate(shape)]), shape)


@operator("hlo.broadcast", category=_HLO)
def broadcast(b: Builder, operand: Tensor, *, dimensions: Integers = (), shape: Integers) -> Tensor:
    """y[i] = operand[i at dimensions]: dimension k of the operand is dimension dimensions[k] of the result"""
    fits = len(dimensions) == operand.rank == len({*dimensions}) and all(0 <= d < len(shape) for d in dimensions)
    if not fits or any(shape[d] != size for d, size in zip(dimensions, operand.shape, strict=True)):
        raise ShapeProblem(f"{operand.type} broadcast to dimensions {list(dimensions)} of {list(shape)}")
    order = sorted(range(operand.rank), key=lambda k: dimensions[k])
    lines = b.permute(operand, order)
    return b.expand(b.reshape(lines, [size if d in dimensions else 1 for d, size in enumerate(shape)]), shape)


@operator("hlo.reshape", category=_HLO)
def reshape(b: Builder, operand: Tensor, *, shape: Integers) -> Tensor:
    """the same elements in row-major order, whatever the layouts"""
    return b.reshape(operand, shape)


@operator("hlo.bitcast", category=_HLO)
def bitcast(b: Builder, operand: Tensor, *, shape: Integers, operand_order: Integers, result_order: Integers) -> Tensor:
    """the same elements in the order of memory; the orders list dimensions from major to minor"""
    if sorted(result_order) != list(range(len(shape))) or sorted(operand_order) != list(range(operand.rank)):
        raise ShapeProblem(f"orders {list(operand_order)} and {list(result_order)} for {operand.type}, {list(shape)}")
    memory = b.reshape(b.permute(operand, operand_order), [shape[k] for k in result_order])
    return b.permute(memory, sorted(range(len(shape)), key=result_order.__getitem__))


@operator("hlo.transpose", category=_HLO)
def transpose(b: Builder, operand: Tensor, *, dimensions: Integers) -> Tensor:
    """dimension k of the result is dimension dimensions[k] of the operand"""
    return b.permute(operand, dimensions)


@operator("hlo.reverse", category=_HLO)
def reverse(b: Builder, operand: Tensor, *, dimensions: Integers) -> Tensor:
    """the elements in reverse order along the given dimensions"""
    return b.flip(operand, dimensions) if dimensions else operand


@operator("hlo.concatenate", category=_HLO)
def concatenate(b: Builder, operands: tuple[Tensor | None, ...], *, dimension: int) -> Tensor:
    """the operands one after the other along one dimension"""
    xs = [x for x in operands if x is not None]
    if len(xs) != len(operands) or len({(x.dtype, x.rank) for x in xs}) != 1 or not xs[0].rank:
        raise ShapeProblem("concatenation of " + ", ".join(str(x.type) for x in xs))
    return b.concat(xs, dimension)


@operator("hlo.slice", category=_HLO)
def slice_(
    b: Builder, operand: Tensor, *, start_indices: Integers, limit_indices: Integers, strides: Integers
) -> Tensor:
    """operand[start:limit:stride] in every dimension"""
    if not len(start_indices) == len(limit_indices) == len(strides) == operand.rank:
        raise ShapeProblem(f"{len(start_indices)} slices of {operand.type}")
    out = operand
    for k, (start, limit, stride) in enumerate(zip(start_indices, limit_indices, strides, strict=True)):
        if not 0 <= start <= limit <= operand.shape[k] or stride < 1:
            raise ShapeProblem(f"the slice [{start}:{limit}:{stride}] of dimension {k} of {operand.type}")
        out = b.slice(out, k, start, limit, stride)
    return out


@operator("hlo.pad", category=_HLO)
def pad(
    b: Builder, operand: Tensor, padding_value: Tensor, *, low: Integers, high: Integers, interior: Integers
) -> Tensor:
    """padding_value before, after and between the elements; negative widths cut off, after padding in between"""
    if padding_value.rank or padding_value.dtype is not operand.dtype:
        raise ShapeProblem(f"a padding value {padding_value.type} for {operand.type}")
    if not len(low) == len(high) == len(interior) == operand.rank or min(interior, default=0) < 0:
        raise ShapeProblem(f"the padding {low}, {high}, {interior} of {operand.type}")
    out = operand

    def padded(x: Tensor, k: int, before: int, after: int) -> Tensor:
        def block(width: int) -> list[Tensor]:
            return [b.expand(padding_value, (*x.shape[:k], width, *x.shape[k + 1 :]))] if width > 0 else []

        return b.concat([*block(before), x, *block(after)], k)

    for k in range(operand.rank):
        size = out.shape[k]
        if interior[k] and size > 1:
            spread = padded(b.unsqueeze(out, k + 1), k + 1, 0, interior[k])
            merged = b.reshape(spread, (*out.shape[:k], size * (interior[k] + 1), *out.shape[k + 1 :]))
            out = b.slice(merged, k, 0, size + (size - 1) * interior[k])
        cut_low, cut_high = max(0, -low[k]), max(0, -high[k])
        if cut_low + cut_high > out.shape[k]:
            raise ShapeProblem(f"the padding {low[k]}_{high[k]}_{interior[k]} of dimension {k} of {operand.type}")
        out = padded(b.slice(out, k, cut_low, out.shape[k] - cut_high), k, max(0, low[k]), max(0, high[k]))
    return out


# ---------------------------------------------------------------------------------------------- sums
@operator("hlo.dot", category=_HLO)
def dot(
    b: Builder,
    lhs: Tensor,
    rhs: Tensor,
    *,
    lhs_contracting_dims: Integers = (),
    rhs_contracting_dims: Integers = (),
    lhs_batch_dims: Integers = (),
    rhs_batch_dims: Integers = (),
    dtype: DType,
) -> Tensor:
    """sum of lhs * rhs over the contracting dimensions; the result has batch, free lhs, free rhs dimensions"""
    for x, dims in ((lhs, (*lhs_batch_dims, *lhs_contracting_dims)), (rhs, (*rhs_batch_dims, *rhs_contracting_dims))):
        if len({*dims}) != len(dims) or any(not 0 <= d < x.rank for d in dims):
            raise ShapeProblem(f"dimensions {list(dims)} of {x.type}")
    if len(lhs_contracting_dims) != len(rhs_contracting_dims) or len(lhs_batch_dims) != len(rhs_batch_dims):
        raise ShapeProblem("as many dimensions of the left operand as of the right one")
    kinds = {lhs.dtype.kind, rhs.dtype.kind, dtype.kind}
    if len(kinds) != 1 or Kind.BOOL in kinds or lhs.rank + rhs.rank > len(ascii_letters):
        raise ShapeProblem(f"a dot of {lhs.type} and {rhs.type} with results {dtype}")
    left = list(ascii_letters[: lhs.rank])
    right = list(ascii_letters[lhs.rank : lhs.rank + rhs.rank])
    for a, c in zip((*lhs_batch_dims, *lhs_contracting_dims), (*rhs_batch_dims, *rhs_contracting_dims), strict=True):
        right[c] = left[a]
    batch = [left[d] for d in lhs_batch_dims]
    shared = {left[d] for d in (*lhs_batch_dims, *lhs_contracting_dims)}
    result = [*batch, *(x for x in left if x not in shared), *(x for x in right if x not in shared)]
    return b.cast(b.contract(f"{''.join(left)},{''.join(right)}->{''.join(result)}", lhs, rhs), dtype)


def reduce_over(b: Builder, x: Tensor, dims: Integers, kind: str) -> Tensor:
    """The reduction over ``dims`` (not empty, sizes not 0); ``kind`` is the opcode of its computation."""
    alone = [k for k in dims if x.shape[k] == 1]  # nothing is combined along these
    if alone:
        left = [k - sum(j < k for j in alone) for k in dims if k not in alone]
        x, dims = b.squeeze(x, alone), tuple(left)
    if not dims:
        return x
    if kind == "maximum" or (kind == "or" and x.dtype is DType.BOOL):
        return reduction.amax(b, x, dims)
    if kind == "minimum" or (kind == "and" and x.dtype is DType.BOOL):
        return reduction.amin(b, x, dims)
    if kind not in ("add", "multiply") or x.dtype is DType.BOOL:
        raise ShapeProblem(f"a reduction of {x.dtype} by {kind}")
    if kind == "add":
        return b.cast(b.sum(x, dims), x.dtype)
    for k in sorted(dims, reverse=True):
        x = b.cast(reduction.prod_dim(b, x, k), x.dtype)
    return x


def combine(b: Builder, x: Tensor, y: Tensor, kind: str) -> Tensor:
    """The computation of a reduction, on two tensors."""
    if kind in ("maximum", "minimum"):
        return (elementwise.maximum if kind == "maximum" else elementwise.minimum)(b, x, y)
    if kind in ("and", "or") and x.dtype is DType.BOOL:
        return (b.and_ if kind == "and" else b.or_)(x, y)
    if kind not in ("add", "multiply") or x.dtype is DType.BOOL:
        raise ShapeProblem(f"a reduction of {x.dtype} by {kind}")
    return (b.add if kind == "add" else b.mul)(x, y)


@operator("hlo.reduce", category=_HLO)
def reduce(b: Builder, operand: Tensor, init_value: Tensor | None = None, *, dimensions: Integers, kind: str) -> Tensor:
    """the elements along the dimensions, and init_value, combined by kind: add, multiply, maximum, minimum, and, or"""
    if init_value is not None and (init_value.rank or init_value.dtype is not operand.dtype):
        raise ShapeProblem(f"an initial value {init_value.type} for {operand.type}")
    dims = b.dims(operand, dimensions) if dimensions else ()
    if any(operand.shape[k] == 0 for k in dims):
        if init_value is None:
            raise ShapeProblem(f"a reduction of no elements of {operand.type} without an initial value")
        return b.expand(init_value, tuple(size for k, size in enumerate(operand.shape) if k not in dims))
    found = reduce_over(b, operand, dims, kind) if dims else operand
    return found if init_value is None else combine(b, found, init_value, kind)
