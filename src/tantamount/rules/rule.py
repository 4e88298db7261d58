"""Rules: a pattern, what its instances are equal to, and the examples on which that is proved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tantamount.errors import UserError
from tantamount.rules.terms import Leaf, Part, Term, Variable

__all__ = ["RULES", "Build", "Example", "Match", "Rule", "rule"]


@dataclass(frozen=True)
class Match:
    """An instance of a pattern: tensors and attributes by the names of its holes, and a source of random choices for
    parameters that the right side has and the left side has not."""

    tensors: Mapping[str, Leaf]
    attributes: Mapping[str, Any]
    random: Random
    root: Leaf | None = None  # the whole term as a tensor, where its type is known

    def __getattr__(self, name: str) -> Any:
        if name in self.tensors:
            return self.tensors[name]
        if name in self.attributes:
            return self.attributes[name]
        raise AttributeError(name)


Build = Callable[[Match], "Part | None"]


@dataclass(frozen=True)
class Example:
    """A typed instance. ``shapes``: by variable, sizes as symbols (``"M N"``), products of symbols or numbers;
    ``attributes``: by hole, where a text stands for a size (``"M*N"``), or is the equation of an Einstein sum.
    ``dtype``: of every variable that ``dtypes`` does not list. ``seed`` of the random choices."""

    shapes: Mapping[str, str]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    dtype: str = "float32"
    dtypes: Mapping[str, str] = field(default_factory=dict[str, str])
    seed: int = 0


@dataclass(frozen=True)
class Rule:
    """``pattern = build(match)`` wherever ``build`` gives a term and not ``None``.

    ``about`` is the equation in mathematics. ``kinds``: the kinds of element types of the result to which it applies
    (``f`` floats, ``i`` integers, ``b`` booleans). ``share`` of its instances are used: rules that apply everywhere
    would take all the room. ``origin``: whose rule it is. ``integers``: why it holds for integers that wrap around,
    if that does not follow from its operators."""

    name: str
    pattern: Term | Variable
    build: Build
    about: str
    examples: tuple[Example, ...]
    kinds: str = "fi"
    share: float = 1.0
    origin: str = ""
    integers: str = ""


RULES: dict[str, Rule] = {}


def rule(
    name: str,
    pattern: Term | Variable,
    about: str,
    examples: Iterable[Example],
    *,
    kinds: str = "fi",
    share: float = 1.0,
    origin: str = "",
    integers: str = "",
    into: dict[str, Rule] | None = None,
) -> Callable[[Build], Build]:
    """Register a function that builds the right side. Raises :class:`UserError` for a name that there is already, and
    for a rule without examples, for which nothing could be proved."""

    def register(build: Build) -> Build:
        found = tuple(examples)
        table = RULES if into is None else into
        if name in table or not found:
            raise UserError(
                "rule-definition",
                place=f"rule {name}",
                found="a rule of that name" if name in table else "a rule without examples",
                needed="a name of its own, and at least one example",
            )
        table[name] = Rule(name, pattern, build, about, found, kinds, share, origin, integers)
        return build

    return register
