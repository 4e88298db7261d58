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

__all__ = ["DIFFERENT_SEEDS", "SAME_NAME", "SAME_SEED", "Assumptions", "Job"]

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


@dataclass(frozen=True)
class Job:
    """``implementation`` has one graph per rank (one and the same object where ranks run one program). ``inputs`` has a
    relation for every specification input that the implementation's are related to (the reader of job files demands
    all; of one without, nothing is known); ``outputs`` an expectation for every specification output to check.
    ``sizes``: the size symbols that the graphs are written with, and ``at`` gives the job at some sizes; without
    symbols there is neither. ``record``, of a job that is no file: ``job``, its table, and ``graphs``, those that it
    names as documents."""

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
