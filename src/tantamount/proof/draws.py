"""The correspondence of the draws of ranks with those of the specification: masks of dropouts, and other random
numbers.

Where the job says so (``dropout = "same mask"``), the k-th dropout of a rank is the specification's k-th, and the k-th
draw from any other law its k-th draw from that law. The rank has the part of it that the relation between the tensors
selects which they are drawn into: a shard its own part, a copy the same numbers as the other copies.

Of a mesh axis the job may say more, namely what the random generators of its ranks do. *Different seeds*: what two
ranks draw has nothing in common; so shards have their parts, and copies have numbers of their own. *The same seed*:
both draw the same numbers; so copies are alike, and so are shards, which then do not have their parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tantamount.calculus.affine import Coordinate, Index, fixed, substitute, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.compare import locate
from tantamount.calculus.comparisons import interval
from tantamount.calculus.forms import Box, Form, axes_of, leaf_form
from tantamount.calculus.symbolic import Drawn, facts_of
from tantamount.calculus.terms import single
from tantamount.ir.job import DIFFERENT_SEEDS, SAME_SEED, Job
from tantamount.ir.types import Shape
from tantamount.ops.algebra import Law
from tantamount.ops.classes import RankClass
from tantamount.proof.run import Draw, RanksRun, SpecificationRun

__all__ = ["DRAWN", "Peers", "law_of", "rank_draws", "specification_draws"]

Places = Sequence[tuple[Box, Index]]  # of the pieces of a draw, where each lies in the specification's
DRAWN = ("mask", "draw")  # the sources of leaves that are drawn


def _leaf(store: Store, law: Law, key: object, shape: Shape) -> int:
    return store.leaf("mask" if law.name == "kept" else "draw", (law, key), shape, facts_of(law))


def law_of(name: tuple[Law, object]) -> Law:
    """The law that the leaf of this name is drawn from."""
    return name[0]


def specification_draws(store: Store, run: SpecificationRun) -> Callable[[Drawn], Form]:
    """The draws of the specification: a leaf each."""

    def draw(drawn: Drawn) -> Form:
        atom = _leaf(store, drawn.law, drawn.ordinal, drawn.shape)
        known = run.dropouts if drawn.law.name == "kept" else run.draws.setdefault(drawn.law, [])
        known.append(Draw(drawn.like, drawn.shape, drawn.law, atom))
        form = leaf_form(atom, drawn.shape)
        run.masks.setdefault(drawn.site, []).append(form)
        return form

    return draw


@dataclass
class Peers:
    """The draws of ranks that are not run as one, by law, ordinal and the class's leader."""

    known: dict[tuple[object, int, int], Form] = field(default_factory=dict[tuple[object, int, int], Form])
    places: dict[tuple[object, int, int], Places] = field(default_factory=dict[tuple[object, int, int], Places])


def rank_draws(
    store: Store, job: Job, run: RanksRun, specification: SpecificationRun, ranks: RankClass, peers: Peers
) -> Callable[[Drawn], Form]:
    """The draws of a class of ranks: parts of the specification's where the job says that they are, else their own."""
    drawing = _Drawing(store, job, run, specification, ranks, peers)

    def draw(drawn: Drawn) -> Form:
        run.drops = run.drops or drawn.law.name == "kept"
        form = drawing.paired(drawn) if job.assume.dropout else None
        if form is None:
            if job.assume.dropout:
                (run.fresh_masks if drawn.law.name == "kept" else run.fresh_draws).append(drawn.site)
            form = leaf_form(drawing.own(drawn), drawn.shape)
        run.masks.setdefault(drawn.site, []).append(form)
        return form

    return draw


@dataclass(frozen=True)
class _Drawing:
    store: Store
    job: Job
    run: RanksRun
    specification: SpecificationRun
    ranks: RankClass
    peers: Peers

    def own(self, drawn: Drawn) -> int:
        """A leaf that has nothing in common with any other."""
        return _leaf(self.store, drawn.law, (drawn.site, drawn.ordinal, drawn.shape), drawn.shape)

    def paired(self, drawn: Drawn) -> Form | None:
        """The form of a draw that belongs to one of the specification; ``None`` if none does, or it is not clear
        which part."""
        counterpart = self._counterpart(drawn)
        if counterpart is None or counterpart.law != drawn.law:
            return None
        places = self._places(counterpart, drawn)
        if places is None:
            return None
        dims = axes_of(drawn.shape) if drawn.like is None else drawn.like.dims
        form = Form(dims, tuple((box, single(counterpart.atom, index)) for box, index in places))
        seeds = dict(self.job.assume.seeds)
        if not seeds:
            return form
        return self._seeded(drawn, counterpart, form, places, seeds)

    def _counterpart(self, drawn: Drawn) -> Draw | None:
        def known() -> Sequence[Draw]:
            ours = self.specification
            return ours.dropouts if drawn.law.name == "kept" else ours.draws.get(drawn.law, [])

        for name in self.specification.random:
            if drawn.ordinal < len(known()):
                break
            self.specification.demand(name)
        return known()[drawn.ordinal] if drawn.ordinal < len(known()) else None

    def _places(self, whole: Draw, drawn: Drawn) -> Places | None:
        """The places where the draw lies in the specification's: by what both are drawn into, or all of it if there is
        nothing on one of the sides and the shapes are equal."""
        count = len(self.ranks.mesh.sizes)
        if whole.like is None or drawn.like is None:
            if drawn.shape[count:] != whole.shape:
                return None
            if drawn.like is not None and drawn.like.dims != axes_of(drawn.shape):
                return None
            form = Form(axes_of(drawn.shape), ())
            index = tuple(form.coordinate(d) for d in range(count, len(form.dims)))
            return [(tuple((0, size) for size in form.sizes), index)]
        like = drawn.like
        if not like.pieces:
            return None
        alone = self.ranks.mesh.world_size == 1
        if (
            alone
            and whole.like.pieces == like.pieces
            and [*filter(None, whole.like.dims)] == [*filter(None, like.dims)]
        ):
            # the same tensor, whatever its values tell
            index = tuple(whole.like.coordinate(d) for d in range(len(whole.like.dims)))
            return [(box, index) for box, _ in like.pieces]
        return locate(self.store, whole.like, like, unique=True)

    # -- seeds
    def _seeded(self, drawn: Drawn, whole: Draw, form: Form, places: Places, seeds: Mapping[str, str]) -> Form | None:
        """The form under what is said of the generators along mesh axes."""
        key = (drawn.law if drawn.law.name != "kept" else "kept", drawn.ordinal)
        self.peers.places[*key, self.ranks.leader] = places
        inside = self.ranks.mesh.names
        for axis, said in seeds.items():  # the same numbers as the first rank along the axis
            if said != SAME_SEED:
                continue
            if axis in inside:
                own = self._axes(form, axis)
                if any(box[v] != (0, form.sizes[v]) for box, _ in places for v in own):
                    return None
                places = [(box, _at_first(index, own)) for box, index in places]
            elif (first := self._peer(axis, 0)) is not None:
                known = self.peers.known.get((*key, first))
                if known is None or known.shape != form.shape:
                    return None
                self.peers.known[*key, self.ranks.leader] = known
                return known
        pieces = [(box, single(whole.atom, index)) for box, index in places]
        found: Form | None = Form(form.dims, tuple(pieces))
        for axis, said in seeds.items():
            if said == DIFFERENT_SEEDS and found is not None:
                found = self._apart(drawn, axis, found, places, key, seeds)
        if found is not None:
            self.peers.known[*key, self.ranks.leader] = found
        return found

    def _apart(
        self, drawn: Drawn, axis: str, form: Form, places: Places, key: tuple[object, int], seeds: Mapping[str, str]
    ) -> Form | None:
        """The form where ranks along an axis have nothing in common: their parts, if these do not meet, else numbers of
        their own but on the first rank."""
        if axis not in self.ranks.mesh.names:
            here = self.job.mesh.coordinates(self.ranks.leader)[self.job.mesh.names.index(axis)]
            for before in range(here):
                other = self._peer(axis, before)
                theirs = None if other is None else self.peers.places.get((*key, other))
                if theirs is None:
                    return None
                if _meet(places, theirs):
                    return self._own_along(drawn, form, places, seeds)
            return form
        own = self._axes(form, axis)
        if all(_disjoint_along(index, box, own) for box, index in places):
            return form
        if len(own) > 1 or any(box[v] != (0, form.sizes[v]) for box, _ in places for v in own):
            return None
        if any(v in dict(c.parts) for _, index in places for c in index for v in own):
            return None
        fresh = self._own_along(drawn, form, places, seeds)
        (v,) = own
        first = tuple((_cut(box, v, 0, 1), x) for box, x in form.pieces)
        rest = tuple((_cut(box, v, 1, form.sizes[v]), x) for box, x in fresh.pieces)
        return Form(form.dims, (*first, *rest))

    def _own_along(self, drawn: Drawn, form: Form, places: Places, seeds: Mapping[str, str]) -> Form:
        """Numbers that only the ranks share which have the same seed, or of which nothing is said and which hold the
        same part."""
        coordinates = [form.coordinate(d) for d in range(len(form.dims))]
        for k, name in enumerate(self.ranks.mesh.names):
            own = self._axes(form, name)
            said = seeds.get(name)
            alike = not any(v in dict(c.parts) for _, index in places for c in index for v in own)
            if said == SAME_SEED or (said is None and alike):
                coordinates[k] = fixed(0)
        x = single(self.own(drawn), tuple(coordinates))
        return Form(form.dims, tuple((box, x) for box, _ in form.pieces))

    def _axes(self, form: Form, axis: str) -> list[int]:
        """The axes of the form that a folded mesh axis is."""
        k = self.ranks.mesh.names.index(axis)
        before = sum(len(dim) for dim in form.dims[:k])
        return [*range(before, before + len(form.dims[k]))]

    def _peer(self, axis: str, coordinate: int) -> int | None:
        """The leader of the class at this coordinate along an axis that is not folded; ``None`` if it is this one."""
        mesh = self.job.mesh
        at = list(mesh.coordinates(self.ranks.leader))
        k = mesh.names.index(axis)
        if at[k] == coordinate:
            return None
        at[k] = coordinate
        return mesh.rank(tuple(at))


def _cut(box: Box, v: int, low: int, high: int) -> Box:
    return (*box[:v], (low, high), *box[v + 1 :])


def _at_first(index: Index, axes: Sequence[int]) -> Index:
    first: dict[int, Coordinate] = {v: fixed(0) for v in axes}
    most = max((v for c in index for v, _ in c.parts), default=-1)
    keep = {v: variable(v) for v in range(most + 1) if v not in first}
    return tuple(substitute(c, {**keep, **first}) for c in index)


def _disjoint_along(index: Index, box: Box, axes: Sequence[int]) -> bool:
    """True if places at different coordinates along the axes never meet: along some dimension, one step along the axes
    is further than all else goes."""
    for c in index:
        parts = dict(c.parts)
        steps = sorted((abs(parts[v]), box[v][1] - box[v][0]) for v in axes if v in parts)
        rest = interval(Coordinate(tuple(p for p in c.parts if p[0] not in axes), 0), box, ())
        if rest is None or len(steps) < sum(box[v][1] - box[v][0] > 1 for v in axes):
            continue
        reach = rest[1] - rest[0]
        for step, count in steps:
            if step <= reach:
                break
            reach += step * (count - 1)
        else:
            return True
    return False


def _meet(some: Places, others: Places) -> bool:
    """False only if no place of the one is a place of the other."""
    for box, index in some:
        for other, at in others:
            spans = [(interval(x, box, ()), interval(y, other, ())) for x, y in zip(index, at, strict=True)]
            if not any(a is not None and b is not None and (a[1] < b[0] or b[1] < a[0]) for a, b in spans):
                return True
    return False
