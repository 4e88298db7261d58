"""The forms of one side of a job, as far as they are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Union

from tantamount.calculus import forms
from tantamount.calculus.atoms import Store
from tantamount.calculus.forms import Form
from tantamount.calculus.records import with_undefined
from tantamount.calculus.symbolic import Obligation, Trace
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Partial, Placement
from tantamount.ir.types import Shape
from tantamount.ops.algebra import Law, Tensor
from tantamount.ops.classes import RankClass
from tantamount.ops.execute import Environment, Result
from tantamount.proof.placements import collapse, local, stack

__all__ = ["Draw", "RanksRun", "Run", "SpecificationRun"]


@dataclass(frozen=True, slots=True)
class Draw:
    """One draw of the specification: into the image of what (a dropout: of what was dropped), the law, the leaf."""

    like: Form | None
    shape: Shape
    law: Law
    atom: int


@dataclass
class SpecificationRun:
    """The values of the specification's nodes, each computed when it is asked for (``demand``).

    ``failures`` says why the value of a node is not known (nodes that need it are not known either); ``undecided`` are
    those of them where data decide a size. ``random`` are the nodes that draw numbers, in the order of the program;
    ``dropouts`` are its dropouts, ``draws`` its other draws by their laws, ``masks`` the forms of both by site;
    ``constants`` the places of constants that the graph does not record."""

    values: dict[str, Result] = field(default_factory=dict[str, Result])
    failures: dict[str, str] = field(default_factory=dict[str, str])
    undecided: dict[str, None] = field(default_factory=dict[str, None])
    traces: list[Trace] = field(default_factory=list[Trace])
    constants: dict[str, str] = field(default_factory=dict[str, str])
    masks: dict[str, list[Form]] = field(default_factory=dict[str, list[Form]])
    dropouts: list[Draw] = field(default_factory=list[Draw])
    draws: dict[Law, list[Draw]] = field(default_factory=dict[Law, "list[Draw]"])
    random: tuple[str, ...] = ()
    demand: Callable[[str], None] = lambda _: None  # computes the value of a node that has not been computed yet
    again: Callable[[str, Environment], Result] = lambda name, given: None  # the value of a node for other operands
    assume_indices: Callable[[], None] = lambda: None  # notes what is assumed of indices, ahead of their use

    def finish(self, names: Iterable[str]) -> None:
        """Compute what nobody has asked for so far."""
        for name in names:
            self.demand(name)


@dataclass
class RanksRun:
    """The values of the implementation's nodes, of all ranks.

    Every class of ranks has an environment (``classes`` and ``environments`` go together): forms that are stacked over
    the ranks of the class, per node, and also under the names of outputs. ``failures``, ``undecided`` and ``constants``
    as those of a :class:`SpecificationRun`; ``masks`` of draws by class and site, ``fresh_masks`` and ``fresh_draws``
    the sites of those dropouts, and of those other draws, that should have a counterpart in the specification and have
    none."""

    mesh: Mesh
    classes: Sequence[RankClass] = ()
    environments: list[Environment] = field(default_factory=list[Environment])
    failures: dict[str, str] = field(default_factory=dict[str, str])
    undecided: dict[str, None] = field(default_factory=dict[str, None])
    traces: list[Trace] = field(default_factory=list[Trace])
    constants: dict[str, str] = field(default_factory=dict[str, str])
    masks: dict[str, list[Form]] = field(default_factory=dict[str, list[Form]])
    fresh_masks: list[str] = field(default_factory=list[str])
    fresh_draws: list[str] = field(default_factory=list[str])
    drops: bool = False  # whether there is any dropout
    open_obligations: tuple[tuple[int, ...], list[Obligation]] | None = None  # with the state that it was found in
    _places: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    _stacked: dict[str, Form | None] = field(default_factory=dict[str, "Form | None"])
    _local: dict[tuple[str, int], Form] = field(default_factory=dict[tuple[str, int], Form])
    _collapsed: dict[tuple[str, tuple[str, ...]], Form] = field(default_factory=dict[tuple[str, tuple[str, ...]], Form])

    @property
    def folded(self) -> bool:
        """True if all ranks are one class."""
        return len(self.classes) == 1

    def label(self, ranks: RankClass) -> str:
        """A prefix that tells the sites of a class apart from those of other classes, and of single ranks."""
        if self.folded:
            return ""
        return f"rank {ranks.leader} " if len(ranks.ranks) == 1 else f"ranks like {ranks.leader} "

    def place(self, rank: int) -> tuple[int, int]:
        """The number of the rank's class, and its own number there."""
        if not self._places:
            found = ((k, j, member) for k, one in enumerate(self.classes) for j, member in enumerate(one.ranks))
            self._places.update((member, (k, j)) for k, j, member in found)
        return self._places[rank]

    def mask(self, rank: int, site: str) -> tuple[list[Form] | None, tuple[int, ...]]:
        """The masks of the dropouts at one site, of the rank or of its class, and where the rank is in them; ``None``
        where they are not known."""
        alone = self.masks.get(f"rank {rank} {site}")
        if alone is not None or not self.classes:
            return alone, ()
        number, position = self.place(rank)
        one = self.classes[number]
        return self.masks.get(f"{self.label(one)}{site}"), one.mesh.coordinates(position)

    def stacked(self, store: Store, name: str) -> Form | None:
        """The values of one node on all ranks, stacked, if every rank has it with one shape; else ``None``."""
        if name not in self._stacked:
            self._stacked[name] = self._stack(store, name)
        return self._stacked[name]

    def collapsed(self, store: Store, name: str, placements: Sequence[Placement]) -> Form | None:
        """The stacked values of one node with the mesh axes that are ``Partial`` reduced; ``None`` as of
        :meth:`stacked`. Other placements do not matter, so what was reduced for one whole is there for others."""
        stacked = self.stacked(store, name)
        kinds = tuple(p.reduction if isinstance(p, Partial) else "" for p in placements)
        if stacked is None or not any(kinds):
            return stacked
        if (name, kinds) not in self._collapsed:
            self._collapsed[name, kinds] = collapse(store, stacked, placements, self.mesh.sizes)
        return self._collapsed[name, kinds]

    def _stack(self, store: Store, name: str) -> Form | None:
        """Axes between classes come first in the stack of the classes' forms, then those inside."""
        found = [value for each in self.environments if isinstance(value := each.get(name), Tensor)]
        if len(found) != len(self.environments) or len({value.shape for value in found}) != 1:
            return None
        inside = self.classes[0].mesh.axes
        order = sorted(range(len(self.mesh.sizes)), key=lambda k: self.mesh.names[k] in inside)
        between = [self.mesh.sizes[k] for k in order[: len(order) - len(inside)]]
        form = stack(store, [value.value for value in found], between)
        rest = range(len(order), len(form.dims))
        move = [*map(order.index, range(len(order))), *rest]
        undefined = None if form.undefined is None else forms.permute(store, form.undefined, move)
        return with_undefined(forms.permute(store, form, move), undefined)

    def local(self, store: Store, rank: int, name: str) -> Form | None:
        """The value of a node on one rank, if it is known; else ``None``."""
        key = (name, rank)
        if key not in self._local:
            number, position = self.place(rank)
            value = self.environments[number].get(name) if self.environments else None
            if not isinstance(value, Tensor):
                return None
            self._local[key] = local(store, value.value, self.classes[number].mesh, position)
        return self._local[key]


Run = Union[SpecificationRun, RanksRun]
