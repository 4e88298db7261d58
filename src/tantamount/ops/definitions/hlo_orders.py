"""HLO instructions that put elements in order, choose the extreme ones, or look at windows; branches."""

from __future__ import annotations

from fractions import Fraction

from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions import elementwise, functions, orders, reduction
from tantamount.ops.definitions.hlo import reduce_over
from tantamount.ops.definitions.in_place import require_float
from tantamount.ops.table import Integers, operator

__all__: list[str] = []

_HLO = "hlo"
_MOST_PIECES = 256  # of a window that leaves the tensor, one by one


@operator("hlo.is-finite", category=_HLO, assumes=(functions.FINITE,))
def is_finite(b: Builder, operand: Tensor) -> Tensor:
    """operand is neither infinite nor no number"""
    return functions.isfinite(b, require_float(operand))


@operator("hlo.cbrt", category=_HLO)
def cbrt(b: Builder, operand: Tensor) -> Tensor:
    """sign(operand) |operand| ** (1/3)"""
    x = require_float(operand)
    return b.mul(elementwise.sign(b, x), b.power(elementwise.absolute(b, x), Fraction(1, 3)))


@operator("hlo.sort", category=_HLO)
def sort(b: Builder, keys: Tensor, operand: Tensor, *, dimension: int, descending: bool) -> Tensor:
    """operand in the order of keys along dimension; equal keys keep their order"""
    if keys.shape != operand.shape or not 0 <= dimension < keys.rank:
        raise ShapeProblem(f"{operand.type} in the order of {keys.type} along dimension {dimension}")
    if 0 in keys.shape:
        return operand
    order = reduction.sorting_order(b, keys, dimension, descending, stable=True)
    return reduction.take_along(b, operand, dimension, order)


def _first(b: Builder, operand: Tensor, k: int, largest: bool) -> Tensor:
    if not operand.rank or not 0 < k <= operand.shape[-1]:
        raise ShapeProblem(f"the {k} first elements along the last dimension of {operand.type}")
    order = reduction.sorting_order(b, operand, -1, largest, stable=True)
    return b.slice(order, operand.rank - 1, 0, k)


@operator("hlo.topk-values", category=_HLO)
def topk_values(b: Builder, operand: Tensor, *, k: int, largest: bool) -> Tensor:
    """the k greatest (least) elements along the last dimension, in order"""
    return reduction.take_along(b, operand, -1, _first(b, operand, k, largest))


@operator("hlo.topk-places", category=_HLO)
def topk_places(b: Builder, operand: Tensor, *, k: int, largest: bool, dtype: DType) -> Tensor:
    """the positions of the k greatest (least) elements along the last dimension, the first ones of equal elements"""
    return b.cast(_first(b, operand, k, largest), dtype)


@operator("hlo.extreme-value", category=_HLO)
def extreme_value(b: Builder, operand: Tensor, *, dimension: int, kind: str) -> Tensor:
    """the greatest (maximum) or least (minimum) element along dimension"""
    _require_extreme(operand, dimension, kind)
    return reduce_over(b, operand, (dimension,), kind)


@operator("hlo.extreme-place", category=_HLO)
def extreme_place(b: Builder, operand: Tensor, *, dimension: int, kind: str, dtype: DType) -> Tensor:
    """the first position of the greatest (maximum) or least (minimum) element along dimension"""
    _require_extreme(operand, dimension, kind)
    found = (reduction.argmax if kind == "maximum" else reduction.argmin)(b, operand, dimension)
    return b.cast(found, dtype)


def _require_extreme(operand: Tensor, dimension: int, kind: str) -> None:
    if kind not in ("maximum", "minimum") or not 0 <= dimension < operand.rank or not operand.shape[dimension]:
        raise ShapeProblem(f"the {kind} of {operand.type} along dimension {dimension}")


@operator("hlo.choose", category=_HLO)
def choose(b: Builder, index: Tensor, branches: tuple[Tensor | None, ...]) -> Tensor:
    """branches[index], the last one if there is no such branch; of a pred, the first one if it holds"""
    xs = [x for x in branches if x is not None]
    if index.rank or len(xs) != len(branches) or len({x.type for x in xs}) != 1 or index.dtype.is_float:
        raise ShapeProblem(f"a choice by {index.type} among " + ", ".join(str(x.type) for x in xs))
    if index.dtype is DType.BOOL and len(xs) != 2:
        raise ShapeProblem(f"a choice by pred among {len(xs)} branches")
    out = xs[-1]
    for k in range(len(xs) - 2, -1, -1):
        here = index if index.dtype is DType.BOOL else b.equal(index, k)
        out = b.where(b.expand(here, out.shape), xs[k], out)
    return out


# ---------------------------------------------------------------------------------------------- windows
@operator("hlo.reduce-window", category=_HLO)
def reduce_window(
    b: Builder, operand: Tensor, *, size: Integers, stride: Integers, low: Integers, high: Integers, kind: str
) -> Tensor:
    """every window's elements combined by kind: size of them from start - low on, for every stride-th start

    log-add-exp is `log(exp(a) + exp(b))`, in running windows alone.
    """
    if not len(size) == len(stride) == len(low) == len(high) == operand.rank:
        raise ShapeProblem(f"a window of {len(size)} dimensions for {operand.type}")
    if min((*size, *stride), default=1) < 1 or min((*low, *high), default=0) < 0:
        raise ShapeProblem(f"a window of sizes {list(size)}, strides {list(stride)}, padding {list(low)}, {list(high)}")
    if kind == "log-add-exp":
        return _running_logarithm(b, operand, size, stride, low, high)
    out = operand
    for k in range(operand.rank):
        out = _along(b, out, k, (size[k], stride[k], low[k], high[k]), kind)
    return out


def _running_logarithm(
    b: Builder, x: Tensor, size: Integers, stride: Integers, low: Integers, high: Integers
) -> Tensor:
    """The logarithms of running sums of exponentials along one dimension, from its beginning or from its end."""
    windows = list(zip(size, stride, low, high, strict=True))
    along = [k for k, window in enumerate(windows) if window != (1, 1, 0, 0)]
    n = x.shape[along[0]] if len(along) == 1 else 0
    if len(along) != 1 or windows[along[0]] not in ((n, 1, n - 1, 0), (n, 1, 0, n - 1)):
        raise ShapeProblem(f"logarithms of sums in windows of sizes {list(size)}, padding {list(low)}, {list(high)}")
    (k,) = along
    turned = x if low[k] else b.flip(x, (k,))
    total = orders.logcumsumexp(b, turned, k)
    return total if low[k] else b.flip(total, (k,))


def _along(b: Builder, x: Tensor, k: int, window: tuple[int, int, int, int], kind: str) -> Tensor:
    """The windows along dimension k: combining is associative, and what is beyond the tensor changes nothing."""
    size, stride, low, high = window
    n = x.shape[k]
    count = (n + low + high - size) // stride + 1
    if n + low + high < size or not n:
        raise ShapeProblem(f"a window of {size} along dimension {k} of {x.type}")
    if (size, stride) == (1, 1) and not low and not high:
        return x
    if (low, high) == (0, 0):
        ends = (count - 1) * stride + 1
        windows = b.concat([b.unsqueeze(b.slice(x, k, t, t + ends, stride), x.rank) for t in range(size)], x.rank)
        return reduce_over(b, windows, (x.rank,), kind)
    if kind == "add" and stride == 1 and size == n and (low, high) in ((n - 1, 0), (0, n - 1)):
        turned = x if low else b.flip(x, (k,))
        total = b.cast(reduction.cumsum(b, turned, k), x.dtype)
        return total if low else b.flip(total, (k,))
    if count > _MOST_PIECES:
        raise ShapeProblem(f"{count} windows that leave the tensor along dimension {k}, more than {_MOST_PIECES}")
    pieces: list[Tensor] = []
    for first in range(-low, count * stride - low, stride):
        start, stop = max(first, 0), min(first + size, n)
        if stop <= start:
            raise ShapeProblem(f"a window beyond dimension {k} of {x.type}")
        pieces.append(b.unsqueeze(reduce_over(b, b.slice(x, k, start, stop), (k,), kind), k))
    return b.concat(pieces, k)
