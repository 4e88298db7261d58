"""Reading the mesh of a plan: its axes and groups, further layouts of the ranks of a stage, and what stages with
different numbers of ranks send each other. All of it is untrusted."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

from tantamount.capture.fields import Fields, Place, shown
from tantamount.ir.mesh import Mesh
from tantamount.plan.parts import COPY, DEFAULT, TIED, WORLD, Messages, Runs, Term

__all__ = ["Meshes", "read_meshes", "read_terms"]

Groups = dict[str, tuple[str, ...]]
_TERM = re.compile(r"\s*(\d{1,9})(?:\[(\d{1,9})/(\d{1,9})\])?\s*")


@dataclass(frozen=True)
class Meshes:
    """The mesh of the ranks, the name of its pipeline axis, that of the microbatches with their number; the ``layouts``
    of a stage's ranks, the mesh's own among them; ``messages`` between layouts; the number of pipelines, each with a
    copy of the model; and that of all ranks, where stages have different numbers of them (otherwise 0). ``symbols`` are
    the size symbols of programs for the rows that they are given and for those of the whole batch, ``last`` the rows
    that a rank has in the last microbatch, if they are fewer. ``apart``: copies of a piece have degrees of their own,
    so that no mesh has all of them."""

    whole: Mesh
    pipeline: str
    axis: str
    microbatches: int
    layouts: Mapping[str, Mesh]
    messages: Mapping[tuple[str, str], Messages] = field(default_factory=dict[tuple[str, str], Messages])
    pipelines: int = 1
    world: int = 0
    symbols: tuple[str, str] | None = None
    last: int | None = None
    apart: bool = False

    def of(self, runs: Runs, layout: str = DEFAULT, copies: int = 1) -> Mesh:
        """The mesh of a part of some kind: a part that runs for a piece knows of other stages those that have a copy,
        if there are several pipelines, one that runs for a shared parameter those that have one of its ``copies``."""
        if runs is Runs.ONCE:
            if self.world:
                return Mesh({WORLD: self.world}, {WORLD: (WORLD,)})
            return Mesh(self.whole.axes, _within(self.whole.groups, self.whole.axes))
        axes: dict[str, int] = dict(self.layouts[layout].axes)
        if runs is Runs.PASS:
            axes = {self.axis: self.microbatches, **axes}
        if runs is Runs.PIECE and self.pipelines > 1 and not self.apart:
            axes = {COPY: self.pipelines, **axes}
        if runs is Runs.TIED:
            axes = {TIED: copies, **axes}
        added = {axis: (axis,) for axis in (COPY, TIED) if axis in axes}
        return Mesh(axes, {**added, **_within(self.layouts[layout].groups, axes)})

    def ranks(self, layout: str) -> int:
        """The ranks that a stage has by a layout."""
        return self.layouts[layout].world_size

    def refuse(self, top: Fields, name: str, what: str) -> None:
        """Raise :class:`~tantamount.errors.UserError` if an axis has a name that is ``what``."""
        if any(name in mesh.axes for mesh in (self.whole, *self.layouts.values())) or name == self.axis:
            raise top.at("[mesh]").wrong(f"an axis {name}", f"another name: it is {what}", code="axis")


def _within(groups: Mapping[str, tuple[str, ...]], axes: Collection[str]) -> Groups:
    return {name: spanned for name, spanned in groups.items() if set(spanned) <= set(axes)}


def read_meshes(top: Fields) -> Meshes:
    """The meshes of a plan's table. Raises :class:`~tantamount.errors.UserError` for one that says none."""
    keys = ("axes", "groups", "pipeline", "layouts", "messages")
    fields = Fields.of(top.get("mesh"), top.at("[mesh]"), keys, ("axes",))
    axes, groups = _axes(fields)
    pipeline = fields.at("pipeline").string(fields.values.get("pipeline", ""))
    if pipeline and pipeline not in axes:
        raise fields.at("pipeline").wrong(shown(pipeline), f"one of {', '.join(axes)}", code="unknown-axis")
    known = ("microbatches", "axis", "rows", "batch", "last")
    data = Fields.of(top.values.get("data", {}), top.at("[data]"), known)
    count = data.at("microbatches").integer(data.values.get("microbatches", 1), 1, 1 << 20, "a number from 1 on")
    axis = data.at("axis").name(data.values.get("axis", "microbatch"))
    if axis in axes or axis in groups or axis == COPY:  # groups may span the copies, and never the microbatches
        raise data.at("axis").wrong(
            shown(axis), f"a name that no axis or group of the mesh has, nor {COPY}", code="axis"
        )
    layouts = {DEFAULT: Mesh({name: size for name, size in axes.items() if name != pipeline}, groups)}
    ranks = count * layouts[DEFAULT].world_size  # of the largest job of a part: that of a pass
    data.place.limits.check("ranks", ranks, data.place.text, "ranks of a stage times microbatches")
    outer = fields.at("layouts")
    for name, value in outer.table(fields.values.get("layouts", {}), "a table of layouts").items():
        own = Fields.of(value, outer.at(outer.name(name, "a layout's name")), ("axes", "groups"), ("axes",))
        more, spans = _axes(own)
        if name == DEFAULT or {axis, pipeline} & {*more, *spans}:
            found = DEFAULT if name == DEFAULT else f"an axis or group {axis if axis in {*more, *spans} else pipeline}"
            raise own.place.wrong(found, "a name that nothing else has", code="axis")
        layouts[name] = Mesh(more, spans)
        own.place.limits.check(
            "ranks", count * layouts[name].world_size, own.place.text, "ranks of a stage times microbatches"
        )
    messages = {(found.source, found.target): found for found in _messages(fields, layouts)}
    symbols: tuple[str, str] | None = None
    if {"rows", "batch", "last"} & data.values.keys():
        symbols = (data.at("rows").name(data.get("rows")), data.at("batch").name(data.get("batch")))
    last = data.at("last").integer(data.get("last"), 1, 1 << 31, "rows, from 1 on") if "last" in data else None
    if last is not None and count == 1:
        raise data.at("last").wrong("one microbatch", "two at least, of which the last is smaller", code="rows")
    return Meshes(Mesh(axes, groups), pipeline, axis, count, layouts, messages, symbols=symbols, last=last)


_MOST = 1 << 31  # ranks along an axis


def _axes(fields: Fields) -> tuple[dict[str, int], Groups]:
    """The axes of a mesh, and its groups, those of single axes among them."""
    place = fields.at("axes")
    axes: dict[str, int] = {}
    for name, size in place.table(fields.get("axes"), "a table of sizes such as { pp = 4, dp = 2 }").items():
        axes[place.name(name, "an axis name")] = place.at(name).integer(size, 1, _MOST, f"a size from 1 to {_MOST}")
    place.limits.check("ranks", prod(axes.values()), place.text, "ranks")
    groups: Groups = {name: (name,) for name in axes}
    outer = fields.at("groups")
    for name, value in outer.table(fields.values.get("groups", {}), "a table of process groups").items():
        spanned = tuple(outer.at(name).string(axis) for axis in outer.at(name).list(value, "a list of axes"))
        if len(set(spanned)) < len(spanned) or not set(spanned) <= {*axes, COPY}:
            needed = f"different axes, of {', '.join(axes)}"
            raise outer.at(name).wrong(", ".join(map(shown, spanned)), needed, code="unknown-axis")
        groups[outer.name(name, "a group's name")] = spanned
    return axes, groups


def _messages(fields: Fields, layouts: Mapping[str, Mesh]) -> Iterator[Messages]:
    """The messages between stages of two layouts."""
    outer = fields.at("messages")
    seen: set[tuple[str, str]] = set()
    for k, value in enumerate(outer.list(fields.values.get("messages", []), "a list of tables")):
        own = Fields.of(value, outer.at(str(k)), ("from", "to", "ranks", "dim"), ("ranks",))
        ends: list[str] = []
        for key in ("from", "to"):
            ends.append(own.at(key).string(own.values.get(key, DEFAULT)))
            if ends[-1] not in layouts:
                raise own.at(key).wrong(shown(ends[-1]), f"one of {', '.join(layouts)}", code="unknown-layout")
        source, target = ends
        if layouts[source].world_size == layouts[target].world_size or (source, target) in seen:
            found = f"messages from {source} to {target}" + (", again" if (source, target) in seen else "")
            raise own.place.wrong(found, "messages between different numbers of ranks, each once", code="messages")
        seen.add((source, target))
        texts = own.at("ranks").list(own.get("ranks"), "a text for every rank, such as '0', '0[1/2]', '0+1'")
        if len(texts) != layouts[target].world_size:
            needed = f"{layouts[target].world_size}, one for each rank of {target}"
            raise own.at("ranks").wrong(f"{len(texts)} texts", needed, code="messages")
        terms = tuple(read_terms(own.at("ranks"), text, layouts[source].world_size) for text in texts)
        yield Messages(source, target, terms, own.at("dim").integer(own.values.get("dim", 0), 0, 63, "a dimension"))


def read_terms(place: Place, value: object, ranks: int) -> tuple[Term, ...]:
    """The terms that a rank is sent, of ranks below ``ranks``: ``0``, ``0[1/2]``, ``0+1``. Raises
    :class:`~tantamount.errors.UserError` for what says nothing of that kind."""
    found: list[Term] = []
    for text in (str(value) if isinstance(value, int) else place.string(value)).split("+"):
        matched = _TERM.fullmatch(text)
        rank, part, count = (int(x or 0) for x in matched.groups()) if matched else (0, 0, 0)
        if matched is None or rank >= ranks or (matched[3] is not None and part >= count):
            needed = f"a rank below {ranks}, or a part of what it has, such as 0[1/2], or several with a +"
            raise place.wrong(shown(value), needed, code="messages")
        found.append((rank, part, max(1, count)))
    return tuple(found)
