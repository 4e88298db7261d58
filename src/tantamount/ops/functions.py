"""Functions that the primitives ``function`` (pointwise) and ``rows`` (whole rows) may name, and their facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import copysign, erf, exp, inf, nan, pi, sqrt
from typing import TYPE_CHECKING, Any
from zlib import crc32

from tantamount.ir.types import DType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:

    class _NumPy:
        """NumPy, imported when one of its functions is used: proofs read this table, executions use it."""

        def __getattr__(self, name: str) -> Any:
            import numpy

            return getattr(numpy, name)

    np = _NumPy()

__all__ = [
    "BY_COMPARISONS", "CHOOSING", "DISTINCT_IN_A_ROW", "FITTING", "FUNCTIONS", "MODULI", "POSITIONS_IN_A_ROW",
    "ROUNDINGS", "ROW_FUNCTIONS", "STAND_IN_FEATURES", "Function", "Ties", "evaluate_rows", "rounded_by", "tied_rows",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Function:
    """A pointwise function. ``evaluate`` takes float64 or int64 arrays; ``integer``: its values are whole numbers;
    ``fixes_integers``: it is the identity on whole numbers; ``nonnegative``: its values always are;
    ``even``/``odd``: f(-x) = f(x), f(-x) = -f(x); ``commutative`` for two operands; ``at_zero``: its exact value at 0;
    ``growing``: x <= y gives f(x) <= f(y); ``keeps_sign``: f(x) is positive, 0 and negative where x is;
    ``limits``: its values at minus and at plus infinity, if they are whole numbers;
    ``largest``: what is no further from 0 has a number for its value, if that is not so of all numbers.
    """

    evaluate: Callable[..., Any]
    arity: int = 1
    integer: bool = False
    fixes_integers: bool = False
    nonnegative: bool = False
    even: bool = False
    odd: bool = False
    commutative: bool = False
    at_zero: int | None = None
    growing: bool = False
    keeps_sign: bool = False
    largest: float = inf
    limits: tuple[int, int] | None = None


def _numpy(name: str) -> Callable[..., Any]:
    """NumPy's function of that name."""

    def evaluate(*xs: Any) -> Any:
        return getattr(np, name)(*xs)

    return evaluate


def _erf(x: Any) -> Any:
    return np.vectorize(erf, otypes=[np.float64])(x)


def _inverse_erf(y: float) -> float:
    """From the normal distribution's quantile at the smaller half (1 - |y| is not rounded): erf(x) = 2 Phi(x sqrt 2)
    - 1, and one Newton step."""
    if not -1 < y < 1:
        return nan
    from statistics import NormalDist  # here: few programs need it, and it imports much

    x = copysign(NormalDist().inv_cdf((1 - abs(y)) / 2), y) / sqrt(2)
    return x - (erf(x) - y) * sqrt(pi) / 2 * exp(x * x)


def _erfinv(x: Any) -> Any:
    return np.vectorize(_inverse_erf, otypes=[np.float64])(x)


def _pi_times(x: Any) -> Any:
    return np.pi * x


def _sign(x: Any) -> Any:
    where: Any = np.where
    return where(np.isnan(x), np.zeros_like(x), np.sign(x))  # of a NaN it is 0, too


def _integer_pow(x: Any, y: Any) -> Any:
    inverse = np.where(np.abs(x) == 1, np.where(y % 2 == 0, 1, x), 0)
    return np.where(y < 0, inverse, np.power(x, np.maximum(y, 0)))


def _modulo(size: int, low: int = 0) -> Function:
    """The number that is an integer modulo ``size``, among ``low, ..., low + size - 1``."""

    def evaluate(x: Any) -> Any:
        return np.mod(x - low, size) + low

    return Function(evaluate, integer=True, nonnegative=low >= 0, at_zero=0)


def _float8(mantissa: int, least: int, largest: float, beyond: float) -> Function:
    """The nearest number of a float type of 8 bits (of two, the one with an even last digit), with ``mantissa`` binary
    digits after the first, exponents from ``least``, and ``beyond`` for what is rounded to more than ``largest``."""

    def evaluate(given: Any) -> Any:
        x: NDArray[np.float64] = np.asarray(given, dtype=np.float64)
        exponent: NDArray[np.int64] = np.frexp(np.where(np.isfinite(x), x, 0.0))[1].astype(np.int64) - 1
        step = np.exp2((np.maximum(exponent, least) - mantissa).astype(np.float64))
        found = np.round(x / step) * step
        found = np.where(np.abs(found) > largest, np.copysign(beyond, x), found)
        return np.where(np.isinf(x), np.copysign(beyond, x), found)

    return Function(evaluate, odd=True, at_zero=0, growing=True, largest=inf if beyond == largest else largest)


_NARROW = tuple(dtype for dtype in DType if dtype.is_narrow)
MODULI: dict[str, int] = {f"modulo_{bits}": bits for bits in (8, 16)}  # name -> bits
FITTING: dict[str, tuple[int, int]] = {f"fit_{dtype}": dtype.bounds for dtype in _NARROW}  # name -> least, greatest

ROUNDINGS: dict[DType, str] = {  # names of functions by the type that they round to
    dtype: f"round_{dtype.label}" for dtype in (DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2)
}

FUNCTIONS: dict[str, Function] = {
    ROUNDINGS[DType.FLOAT8_E4M3FN]: _float8(3, -6, 448.0, 448.0),
    ROUNDINGS[DType.FLOAT8_E5M2]: _float8(2, -14, 57344.0, inf),
    "sin": Function(_numpy("sin"), odd=True, at_zero=0),
    "cos": Function(_numpy("cos"), even=True, at_zero=1),
    "atan": Function(_numpy("arctan"), odd=True, at_zero=0, growing=True, keeps_sign=True),
    "atan2": Function(_numpy("arctan2"), arity=2),
    "asinh": Function(_numpy("arcsinh"), odd=True, at_zero=0, growing=True, keeps_sign=True),
    "tanh": Function(_numpy("tanh"), odd=True, at_zero=0, growing=True, keeps_sign=True, limits=(-1, 1)),
    "erfinv": Function(_erfinv, odd=True, at_zero=0, growing=True, keeps_sign=True),
    "isnan": Function(
        _numpy("isnan"), integer=True, nonnegative=True, limits=(0, 0)
    ),  # 0 or 1, in the type of its operand
    "erf": Function(_erf, odd=True, at_zero=0, growing=True, keeps_sign=True, limits=(-1, 1)),
    "pi_times": Function(
        _pi_times, odd=True, at_zero=0, growing=True, keeps_sign=True
    ),  # pi * x: how definitions write the constant pi
    "abs": Function(_numpy("abs"), even=True, nonnegative=True, at_zero=0),
    "sign": Function(_sign, integer=True, odd=True, at_zero=0, growing=True, keeps_sign=True, limits=(-1, 1)),
    "floor": Function(_numpy("floor"), integer=True, fixes_integers=True, at_zero=0, growing=True),
    "trunc": Function(_numpy("trunc"), integer=True, fixes_integers=True, odd=True, at_zero=0, growing=True),
    "round": Function(
        _numpy("round"), integer=True, fixes_integers=True, odd=True, at_zero=0, growing=True
    ),  # halves to the even neighbour
    "pow": Function(_numpy("power"), arity=2),  # x ** y, both operands variable
    "integer_pow": Function(_integer_pow, arity=2, integer=True),  # of integers; x ** -1 is 1 / x rounded towards 0
    "floor_divide": Function(_numpy("floor_divide"), arity=2, integer=True),  # floor(x / y) of integers
    "gcd": Function(_numpy("gcd"), arity=2, integer=True, nonnegative=True, commutative=True),  # of integers
    "bitwise_and": Function(_numpy("bitwise_and"), arity=2, integer=True, commutative=True),  # of integers
    "bitwise_or": Function(_numpy("bitwise_or"), arity=2, integer=True, commutative=True),
    "bitwise_xor": Function(_numpy("bitwise_xor"), arity=2, integer=True, commutative=True),
    **{name: _modulo(1 << bits) for name, bits in MODULI.items()},
    # the identity on what a type holds; undefined elsewhere (here: some number that it holds)
    **{name: _modulo(high - low + 1, low) for name, (low, high) in FITTING.items()},
}


def rounded_by(name: str, x: Any) -> Any:
    """The nearest numbers, none of which is infinite, that the type of a rounding has."""
    known = FUNCTIONS[name]
    return np.asarray(known.evaluate(np.clip(x, -known.largest, known.largest)), dtype=np.float64)


_STEPS = 10_000


def _sinkhorn(x: Any, attributes: tuple[Any, ...]) -> tuple[Any, ...]:
    """``attributes = (rows, columns, tolerance)``. Scaling as Megatron-LM's router does it, until a step changes the
    columns' factors by less than the tolerance on average; undefined where that takes too long."""
    rows, columns, tolerance = (*map(int, attributes[:2]), float(attributes[2]))
    cost = np.exp(np.asarray(x, dtype=np.float64).reshape(-1, rows, columns))
    out = np.empty_like(cost)
    for k, matrix in enumerate(cost):
        before, out[k] = np.ones(columns), nan
        for _ in range(_STEPS):
            factors = 1 / (rows * (matrix @ before + 1e-8))
            after = 1 / (columns * (factors @ matrix + 1e-8))
            change, before = np.abs(before - after), after
            if not change.mean() > tolerance:
                out[k] = before * matrix * factors[:, np.newaxis]
                break
    return (out.reshape(np.shape(x)),)


def _matrix_exp(x: Any, attributes: tuple[Any, ...]) -> tuple[Any, ...]:
    """``attributes = (n,)``. The exponential of n x n matrices, row by row: the squares of that of a part so small that
    few terms of the series are enough."""
    (n,) = attributes
    matrix: NDArray[np.float64] = np.asarray(x, dtype=np.float64).reshape(*np.shape(x)[:-1], n, n)
    size = float(np.max(np.abs(matrix), initial=0.0)) * n
    halvings = int(np.ceil(np.log2(size))) + 4 if 1 / 16 < size < inf else 0
    part = matrix / 2.0**halvings
    term = found = np.broadcast_to(np.eye(n), matrix.shape)
    for k in range(1, 14):
        term = term @ part / k
        found = found + term
    for _ in range(halvings):
        found = found @ found
    return (found.reshape(np.shape(x)),)


def _argsort(x: Any, attributes: tuple[Any, ...]) -> tuple[Any, ...]:
    """``attributes = (descending,)``. Positions in sorted order; equal elements keep their order."""
    (descending,) = attributes
    if not descending:
        return (np.argsort(x, axis=-1, kind="stable"),)
    backwards = np.argsort(np.flip(x, -1), axis=-1, kind="stable")  # no -x, which the least integer does not have
    return (np.flip(x.shape[-1] - 1 - backwards, -1),)


def _order(x: Any, attributes: tuple[Any, ...], last: bool = False) -> tuple[Any, ...]:
    """``attributes = (descending, count, operator, ...)``. Positions in sorted order, of which the first ``count`` are
    used; equal elements in the order that ``operator`` chooses: here by position, or (``last``) backwards."""
    descending = attributes[0]
    if not last:
        return _argsort(x, (descending,))
    (found,) = _argsort(np.flip(x, -1), (descending,))
    return (x.shape[-1] - 1 - found,)


def _unsorted_keys(x: Any, attributes: tuple[Any, ...], last: bool = False) -> tuple[Any, ...]:
    """``attributes = (descending, count, operator, ...)``. What an operator puts the ``count`` first elements in order
    by, where it promises none: here their positions."""
    return (_order(x, attributes, last)[0][..., : int(attributes[1])],)


def _running_place(x: Any, attributes: tuple[Any, ...], last: bool = True) -> tuple[Any, ...]:
    """``attributes = (operator, ...)``. The place of the greatest element up to each position: the last such place, or
    the first."""
    size = int(x.shape[-1])
    top = np.maximum.accumulate(x, axis=-1)
    if last:
        return (np.maximum.accumulate(np.where(x == top, np.arange(size), 0), axis=-1),)
    before = np.concatenate([np.full((*x.shape[:-1], 1), -np.inf), top[..., :-1]], axis=-1)
    return (np.maximum.accumulate(np.where(x > before, np.arange(size), 0), axis=-1),)


def _searched(row: Any, wanted: Any, attributes: tuple[Any, ...]) -> tuple[Any, ...]:
    """``attributes = (right,)``. The place that a bisection finds for each number in a row that need not be sorted, as
    PyTorch bisects it. The last element of ``row`` is not looked at: places go from 0 to the number of those before."""
    (right,) = attributes
    size = int(row.shape[-1]) - 1
    low, high = np.zeros(np.shape(wanted), np.int64), np.full(np.shape(wanted), size, np.int64)
    for _ in range(size.bit_length()):
        middle = low + (high - low) // 2
        value = np.take_along_axis(row, np.minimum(middle, size), axis=-1)
        below = ~(value > wanted) if right else ~(value >= wanted)
        low, high = np.where((low < high) & below, middle + 1, low), np.where((low < high) & ~below, middle, high)
    return (low,)


# f(*operands, attributes) -> results: float64 or int64 arrays with equal shapes but for the last axis, along which the
# function acts; it returns one array per result (with another size there, if need be).
ROW_FUNCTIONS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "argsort": _argsort,
    "order": _order,
    "unsorted_keys": _unsorted_keys,
    "running_place": _running_place,
    "searched": _searched,
    "sinkhorn": _sinkhorn,
    "matrix_exp": _matrix_exp,
}

DISTINCT_IN_A_ROW = frozenset({"argsort", "order"})  # no value occurs twice in a row of the result
BY_COMPARISONS = frozenset({"argsort", "order"})  # of rows whose elements compare alike: the same
POSITIONS_IN_A_ROW = DISTINCT_IN_A_ROW | {"running_place", "searched"}  # every value is a position in the row


class Ties(Enum):
    """The choice among several equal elements, of functions whose choice PyTorch does not promise. Every operator's
    choice is its own: what rests on one is true under all of these, or not true at all."""

    USUAL = "as PyTorch does on small rows of a CPU"
    REVERSED = "the other way round"
    MIXED = "usual for half of the operators, the other way round for the others"


# Row functions that choose among equal elements as nothing promises. Their attributes name the operator that
# chooses and its arguments: another operator, or the same with other arguments, may choose otherwise.
CHOOSING = frozenset({"order", "unsorted_keys", "running_place"})


def tied_rows(name: str, x: Any, attributes: tuple[Any, ...]) -> int:
    """The number of rows in which a function of :data:`CHOOSING` has a choice that its result shows."""
    if name == "running_place":
        top = np.maximum.accumulate(x, axis=-1)
        return int(np.count_nonzero(np.any(x[..., 1:] == top[..., :-1], axis=-1)))
    ranked = np.sort(x, axis=-1)
    ranked = np.flip(ranked, -1) if attributes[0] else ranked
    tied = ranked[..., 1:] == ranked[..., :-1]
    return int(np.count_nonzero(np.any(tied[..., : int(attributes[1])], axis=-1)))


STAND_IN_FEATURES = 8  # of a stand-in: numbers that it computes of every row


def evaluate_rows(
    name: str, xs: Sequence[Any], attributes: tuple[Any, ...], results: Sequence[int], ties: Ties = Ties.USUAL
) -> tuple[Any, ...]:
    """The value of the primitive ``rows``: that of the function of this name, or of a stand-in if there is none."""
    known = ROW_FUNCTIONS.get(name)
    if known is None:
        return _stand_in(name, xs, attributes, results)
    if name in CHOOSING and ties is not Ties.USUAL:
        reversed_ = ties is Ties.REVERSED or crc32(repr((name, attributes)).encode()) % 2
        return known(*xs, attributes, name != "running_place") if reversed_ else known(*xs, attributes)
    return known(*xs, attributes)


def _stand_in(name: str, xs: Sequence[Any], attributes: tuple[Any, ...], results: Sequence[int]) -> tuple[Any, ...]:
    """A fixed smooth function in place of one that nothing is known of: different for every name and attribute, bounded
    (also at infinities), and sensitive to every element and to its position.

    ``sin(sum over k, i of w[k, i] arctan(x_k[i] + p[k, i]))``, mixed with other weights for every element of a result;
    weights are pseudo-random. Element j of a result does not depend on how many elements there are."""
    seed = crc32(repr((name, attributes)).encode())
    features: Any = np.zeros(())
    for k, x in enumerate(xs):
        count = int(x.shape[-1])
        generator = np.random.default_rng((seed, 0, k))
        weights: Any = generator.standard_normal((count, STAND_IN_FEATURES)) / max(count, 1) ** 0.5
        phases: Any = generator.standard_normal(count)
        features = features + np.arctan(np.asarray(x, dtype=np.float64) + phases) @ weights
    features = np.sin(features + np.arange(1.0, 1.0 + STAND_IN_FEATURES))
    return tuple(
        features @ np.random.default_rng((seed, 1, k)).standard_normal((size, STAND_IN_FEATURES)).T
        for k, size in enumerate(results)
    )
