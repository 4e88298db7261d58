"""The forms of one side of a job, as far as they are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tantamount.calculus.atoms import Store
from tantamount.calculus.forms import Form
from tantamount.calculus.symbolic import Trace
from tantamount.ir.mesh import Mesh
from tantamount.ir.types import Shape
from tantamount.ops.algebra import Number, Tensor
from tantamount.ops.execute import Result
from tantamount.refine.placements import local, stack

__all__ = ["Dropout", "Run"]


@dataclass(frozen=True, slots=True)
class Dropout:
    """One dropout of the specification: what was dropped, and the mask's leaf."""

    like: Form
    shape: Shape
    p: Number
    atom: int


@dataclass
class Run:
    """The forms of one side. ``values`` holds stacked forms (or, for the specification, plain ones) per node; for an
    implementation run rank by rank, ``by_rank`` holds one environment per rank instead (with outputs under their names,
    too). ``failures`` says why the value of a node is not known; nodes that need it are not known either."""

    mesh: Mesh
    values: dict[str, Result] = field(default_factory=dict[str, Result])
    by_rank: list[dict[str, Result]] | None = None
    failures: dict[str, str] = field(default_factory=dict[str, str])
    undecided: dict[str, None] = field(default_factory=dict[str, None])  # failures because data decide a size
    traces: list[Trace] = field(default_factory=list[Trace])
    dropouts: list[Dropout] = field(default_factory=list[Dropout])
    fresh_masks: list[str] = field(default_factory=list[str])
    masks: dict[str, list[Form]] = field(default_factory=dict[str, list[Form]])  # of dropouts, by rank and site
    constants: dict[str, str] = field(default_factory=dict[str, str])
    custom: dict[tuple[str, int], Form] = field(default_factory=dict[tuple[str, int], Form])
    random: tuple[str, ...] = ()  # nodes that draw numbers, in order
    demand: Callable[[str], None] = lambda _: None  # computes the value of a node that has not been computed yet
    assume_indices: Callable[[], None] = lambda: None  # notes what is assumed of indices, ahead of their use

    def finish(self, names: Iterable[str]) -> None:
        """Compute what nobody has asked for so far."""
        for name in names:
            self.demand(name)

    def stacked(self, store: Store, name: str) -> Form | None:
        """What all ranks hold of one node, if every rank has it with one shape."""
        if self.by_rank is None:
            value = self.values.get(name)
            return value.value if isinstance(value, Tensor) else None
        found = [environment.get(name) for environment in self.by_rank]
        tensors = [value for value in found if isinstance(value, Tensor)]
        if len(tensors) != len(found) or len({t.shape for t in tensors}) != 1:
            return None
        return stack(store, [t.value for t in tensors], self.mesh)

    def local(self, store: Store, rank: int, name: str) -> Form | None:
        """What one rank holds of a node."""
        if self.by_rank is not None:
            value = self.by_rank[rank].get(name)
            return value.value if isinstance(value, Tensor) else None
        key = (name, rank)
        if key not in self.custom:
            value = self.values.get(name)
            if not isinstance(value, Tensor):
                return None
            self.custom[key] = local(store, value.value, self.mesh, rank)
        return self.custom[key]
