"""Relations of parameters, found by running loaders on checkpoints of numbers.

A loader is a function that fills the parameters of a model from the tensors of a checkpoint. It is run on a checkpoint
of zeros, one of ones, one in which every element is another whole number, and two of random numbers of both signs and
many sizes. If ``p = a c[k] + b`` for an element ``p`` of a parameter and an element ``c[k]`` of the checkpoint, the
first two say what ``a`` and ``b`` are, the third which ``k``, and the others must agree: a sum of two elements, an
absolute value, a maximum, or a rounding to whole numbers does not. Random numbers have 8 significant bits, so that a
cast to a shorter floating-point type, which is the identity over the reals, changes none. No name and no shape takes
part.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tantamount.correspond.index_maps import Numbers, Whole, expression_of, numbered
from tantamount.ir.relation import Expression
from tantamount.ir.types import Shape

__all__ = ["Floats", "Loader", "Loads", "RUNS", "Source", "loads", "parameter_of_rest", "source_of", "sources_of"]

_BEFORE = " before loading"

Floats = NDArray[np.float64]
Loader = Callable[[Mapping[str, Floats]], Mapping[str, Floats]]
"""From the tensors of a checkpoint to the parameters of a model, by name."""

_NUMBERINGS = 3
RUNS = _NUMBERINGS + 2
"""The number of checkpoints that a loader is run on: zeros, ones, whole numbers, random ones."""
_ULPS = 4  # that a product and a sum in float64 may be off, in units of the last place


@dataclass(frozen=True)
class Loads:
    """The parameters that a loader made of every checkpoint: of zeros, of ones, and of ``numbers``, each of which gives
    the element with number k the value ``numbers[...][k]``; the first one's are k + 1."""

    wholes: tuple[Whole, ...]
    zeros: Mapping[str, Floats]
    ones: Mapping[str, Floats]
    numbers: tuple[Floats, ...]
    runs: tuple[Mapping[str, Floats], ...]


@dataclass(frozen=True)
class Source:
    """The origin of a parameter: ``factor * expression + shift``, element by element. Without an expression, why there
    is none, and whether no element of it depends on the checkpoint (``absent``). ``rest``: where some elements do not,
    the name in the expression of a tensor of the parameter's shape, which they are elements of and which may be
    anything. ``sources``: the number of the checkpoint's element behind each element; -1 where there is none."""

    expression: Expression | None
    factor: Fraction = Fraction(1)
    shift: Fraction = Fraction(0)
    problem: str = ""
    absent: bool = False
    rest: str = ""
    sources: Numbers | None = None

    @property
    def exact(self) -> bool:
        """True if the parameter is made of elements of the checkpoint as they are."""
        return self.expression is not None and (self.factor, self.shift) == (1, 0)


def loads(loader: Loader, shapes: Mapping[str, Shape], seed: int = 0) -> Loads:
    """The parameters that a loader makes of the checkpoints with tensors of these shapes; what the loader raises is
    passed on."""
    wholes = numbered(shapes)
    total = wholes[-1].stop if wholes else 0
    random = np.random.default_rng(seed)
    numbers = [np.arange(1, total + 1, dtype=np.float64)]
    for _ in range(_NUMBERINGS - 1):
        digits = random.integers(128, 256, total) * random.choice([-1.0, 1.0], total)
        numbers.append(np.ldexp(digits, random.integers(-14, 10, total)))

    def run(values: Floats) -> Mapping[str, Floats]:
        return loader({w.name: values[w.start : w.stop].reshape(w.shape) for w in wholes})

    return Loads(
        wholes, run(np.zeros(total)), run(np.ones(total)), tuple(numbers), tuple(run(values) for values in numbers)
    )


def sources_of(found: Loads, taken: Iterable[str] = ()) -> dict[str, Source]:
    """The source of every parameter that the loader's model has; tensors that nothing is loaded into have none of the
    names ``taken``: those of another model may hold other numbers."""
    names = frozenset(taken)
    return {name: source_of(found, name, names) for name in found.zeros}


def source_of(found: Loads, name: str, taken: frozenset[str] = frozenset()) -> Source:
    """The source of one parameter; ``taken`` as in :func:`sources_of`."""
    shift = found.zeros[name]
    factor = found.ones[name] - shift
    values = [run[name] for run in found.runs]
    everything: Sequence[NDArray[Any]] = [shift, factor, *values]
    if not all(np.isfinite(x).all() for x in everything):
        return Source(None, problem="the loader makes it infinite or NaN of some numbers")
    if not values[0].size:
        return Source(None, problem="it has no elements", absent=True)
    constant = (factor == 0) & np.logical_and.reduce([value == shift for value in values])
    if constant.all():
        return Source(None, problem="nothing of the checkpoint is loaded into it", absent=True)
    loaded = ~constant
    with np.errstate(all="ignore"):
        numbers = np.where(factor != 0, (values[0] - shift) / np.where(factor == 0, 1, factor), 0)
    index = np.rint(numbers).astype(np.int64) - 1
    inside = (index >= 0) & (index < len(found.numbers[0])) & (factor != 0)
    missing = int(constant.sum())
    unsaid = f"{missing} of its {constant.size} elements are not loaded" if missing else ""
    if not inside[loaded].all() or not all(
        _near((factor * number[np.where(inside, index, 0)])[loaded], shift[loaded], value[loaded])
        for number, value in zip(found.numbers, values, strict=True)
    ):
        return Source(None, problem=unsaid or "its elements are not multiples of single elements of the checkpoint")
    index = np.where(loaded, index, -1)
    ways = len(np.unique(factor[loaded])), len(np.unique(shift[loaded]))
    a, b = (Fraction(float(x[loaded][0])) for x in (factor, shift))
    if ways != (1, 1) or (missing and (a, b) != (1, 0)):
        problem = unsaid or "its elements are different multiples of elements of the checkpoint"
        return Source(None, problem=problem, sources=index)
    rest = _free(name + _BEFORE, taken.union(whole.name for whole in found.wholes)) if missing else ""
    expression = _expression(index, found.wholes, rest)
    if expression is None:
        problem = unsaid or "its elements are those of the checkpoint in an order without a pattern"
        return Source(None, a, b, problem, sources=index)
    return Source(expression, a, b, unsaid, rest=rest, sources=index)


def parameter_of_rest(name: str) -> str:
    """The parameter that a tensor, by its name, is the rest of, which nothing is loaded into; empty if of none."""
    return name.rstrip("'").removesuffix(_BEFORE) if name.rstrip("'").endswith(_BEFORE) else ""


def _expression(index: Numbers, wholes: Sequence[Whole], rest: str) -> Expression | None:
    """The expression of the elements with some numbers; what has none is of the tensor ``rest``, at its own place."""
    if not rest:
        return expression_of(index, wholes)
    own = Whole(rest, index.shape, wholes[-1].stop if wholes else 0)
    places = np.arange(index.size).reshape(index.shape) + own.start
    return expression_of(np.where(index < 0, places, index), (*wholes, own))


def _free(name: str, taken: Container[str]) -> str:
    """A name like this one that is not taken."""
    while name in taken:
        name += "'"
    return name


def _near(multiple: Floats, shift: Floats, value: Floats) -> bool:
    """True if ``multiple + shift`` is a value, but for the rounding of the product, the sum, and the difference that
    gave the factor."""
    off = np.abs(multiple + shift - value)
    exact = (shift == 0) & (multiple == value)
    return bool((exact | (off <= _ULPS * np.spacing(np.abs(multiple) + np.abs(shift)))).all())
