"""Every sample call of an operator with one argument replaced by odd ones: what a definition must refuse, or define."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tantamount.errors import Unsupported, UserError
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor, TypesOnly
from tantamount.ops.builder import Builder
from tantamount.ops.execute import apply
from tantamount.ops.table import lookup
from tantamount.samples.operators.calls import Operand
from tantamount.samples.operators.table import SAMPLES
from tantamount.sizes.symbolic import Space

__all__ = ["Call", "odd_calls", "problem_of"]

INTEGERS = (0, 1, -1, 2, 3, 7, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63), (1 << 64) - 1)
FLOATS = (0.0, 0.5, -1.5, float("inf"), float("-inf"), 1e300, 5e-324)
SHAPES = ((), (0,), (1,), (2, 2, 2, 2), (0, 3), (1 << 40,), (1 << 31, 1 << 31))
SYMBOLS = tuple(change(Space({"K": 3}).symbols["K"]) for change in (lambda k: k, lambda k: 2 * k - 5, lambda k: k / 2))
DTYPES = (DType.BOOL, DType.INT64, DType.UINT8, DType.FLOAT16, DType.COMPLEX64)


@dataclass(frozen=True)
class Call:
    """A call whose tensors have types only."""

    target: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def odd_calls() -> Iterator[Call]:
    """Some 58,000 calls: of every operator and kinds of arguments one sample, each argument replaced by odd ones."""
    seen: set[tuple[Any, ...]] = set()
    for sample in SAMPLES:
        args, kwargs = tuple(map(_typed, sample.args)), {key: _typed(value) for key, value in sample.kwargs.items()}
        key = sample.target, *map(type, args), *((name, type(value)) for name, value in kwargs.items())
        if key in seen:
            continue
        seen.add(key)
        for k, arg in enumerate(args):
            for odd in _instead_of(arg):
                yield Call(sample.target, (*args[:k], odd, *args[k + 1 :]), kwargs)
        for name in kwargs:
            for odd in _instead_of(kwargs[name]):
                yield Call(sample.target, args, {**kwargs, name: odd})


def problem_of(call: Call) -> BaseException | None:
    """What the call raises that is neither an error of the user's nor something that is not supported."""
    try:
        apply(lookup(call.target, ""), call.target, call.args, call.kwargs, Builder(TypesOnly(), "node"), "node")
    except (UserError, Unsupported):
        return None
    except Exception as problem:
        return problem
    return None


def _typed(value: Any) -> Any:
    if isinstance(value, Operand):
        return Tensor(value.shape, value.dtype, None)
    return tuple(map(_typed, value)) if isinstance(value, tuple) else value


def _instead_of(value: Any) -> Iterator[Any]:
    if isinstance(value, Tensor):
        yield from (Tensor(shape, value.dtype, None) for shape in SHAPES)
        yield from (Tensor(value.shape, dtype, None) for dtype in DTYPES)
        yield from (1, 0.5, float("inf"), None)
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, (int, float)):
        yield from (*INTEGERS, *FLOATS, *SYMBOLS, None, True, (value,))
    elif isinstance(value, tuple):
        yield from ((), value + value, value[:-1], value * 40)
        for k, item in enumerate(value):
            yield from ((*value[:k], odd, *value[k + 1 :]) for odd in _instead_of(item))
    elif isinstance(value, str):
        yield from ("", "sum", "x" * 100)
    elif value is None:
        yield from (0, 1, -1, (0,), (), 0.5, float("inf"), 1 << 40, True, SYMBOLS[0])
    elif isinstance(value, DType):
        yield from (DType.BOOL, DType.INT8, DType.COMPLEX128, DType.FLOAT64)
