"""A job: what to prove, read and resolved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar, Union

from tantamount.ir.graph import Graph
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Expectation, InputRelation
from tantamount.sizes.domain import NO_SIZES, Domain

__all__ = ["DIFFERENT_SEEDS", "SAME_NAME", "SAME_SEED", "Approximation", "Assumptions", "Job", "UserRule"]

T = TypeVar("T")

SAME_NAME = "same name, same value"  # constants: unrecorded constants of one name have one (unknown) value everywhere

SAME_SEED, DIFFERENT_SEEDS = "same seed", "different seeds"


@dataclass(frozen=True, slots=True)
class Assumptions:
    """The assumptions that the user lets us make. ``constants``: the value of every unrecorded constant, or
    :data:`SAME_NAME`; ``None``: nothing. ``dropout``: draws of ranks are parts of the specification's (``same mask``);
    ``seeds``: mesh axes along which the ranks' random generators are known, with :data:`SAME_SEED` or
    :data:`DIFFERENT_SEEDS`."""

    constants: Union[Fraction, str, None] = None
    dropout: bool = False
    seeds: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Approximation:
    """Something that ranks compute otherwise than one device would, and are meant to: ``text`` says what, in words. The
    implementation has its strict form, so that a proof is up to it."""

    name: str
    text: str


@dataclass(frozen=True)
class Job:
    """``implementation`` has one graph per rank (one and the same object where ranks run one program). ``inputs`` has a
    relation for every specification input that the implementation's are related to (the reader of job files demands
    all; of one without, nothing is known); ``outputs`` an expectation for every specification output to check.
    ``sizes``: the size symbols that the graphs are written with, and ``at`` gives the job at some sizes; without
    symbols there is neither. ``record``, of a job that is no file: ``job``, its table, and ``graphs``, those that it
    names as documents. ``rules`` are those that its user gives, to be used where a proof needs them. ``counted`` are
    the axes of the mesh for each of whose coordinates the specification has something: it has no form on fewer.
    ``approximations`` are declared, and their strict forms are in the implementation. ``larger``, of a job that is
    another one on fewer ranks or at smaller sizes, is that one, of whose numbers people are told."""

    path: str
    specification: Graph
    implementation: tuple[Graph, ...]
    mesh: Mesh
    inputs: Mapping[str, InputRelation]
    outputs: Mapping[str, Expectation]
    assume: Assumptions = Assumptions()
    record: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    sizes: Domain = NO_SIZES
    at: Callable[[Mapping[str, int]], Job] | None = field(default=None, compare=False)
    rules: tuple[UserRule, ...] = ()
    counted: frozenset[str] = frozenset()
    approximations: tuple[Approximation, ...] = ()
    larger: Job | None = field(default=None, compare=False, repr=False)

    @cached_property
    def programs(self) -> tuple[Graph, ...]:
        """The different programs of the ranks: in the order of the first ranks that run them."""
        return tuple(dict(zip(map(id, self.implementation), self.implementation, strict=True)).values())

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The number of every rank's program, of :attr:`programs`."""
        number = {id(graph): k for k, graph in enumerate(self.programs)}
        return tuple(map(number.__getitem__, map(id, self.implementation)))

    def on_ranks(self, each: Sequence[T]) -> tuple[T, ...]:
        """One item for every rank, given those that belong to every one of the :attr:`programs`."""
        return tuple(map(each.__getitem__, self.numbers))


Native = Callable[[Mapping[str, Any]], tuple[Any, Any, float]]


@dataclass(frozen=True)
class UserRule:
    """A rule that a user gives: for all real inputs that satisfy its conditions, both sides are the same tensor.

    ``sides`` has the left side as the specification and the right side as the implementation, on one rank, of the same
    inputs; its size symbols and the conditions on them are for which sizes the rule is meant. ``holds``, if given, is a
    graph over some of the inputs, whose only output, a boolean tensor, says where the rule applies: all of its elements
    must be true. ``guarded`` are the sides with 0 for both results where it does not. ``native`` executes both sides
    as they were given (arrays by the names of inputs to both results, and the precision of their element type), where
    that is more than what their graphs say: kernels."""

    name: str
    sides: Job
    guarded: Job
    holds: Graph | None = None
    native: Native | None = field(default=None, compare=False, repr=False)
