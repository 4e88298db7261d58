"""Reading plans of format ``plan/1``: TOML, with the graphs of the parts beside it. All of it is untrusted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, cast

from tantamount.capture.documents import parse_toml
from tantamount.capture.fields import Fields, Place, nearest, shown
from tantamount.capture.files import read_text
from tantamount.capture.job import GraphFiles, declared_operators, job_of
from tantamount.capture.orders import Order, in_order
from tantamount.capture.readers import READERS
from tantamount.ir.graph import Graph
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Shard
from tantamount.limits import Limits, limits_from_environment
from tantamount.ops.check import with_types
from tantamount.plan.actions import Schedule
from tantamount.plan.families import Family, Rows
from tantamount.plan.names import check_names
from tantamount.plan.orders import plain, read_order
from tantamount.plan.parts import COPY, DEFAULT, TIED, Part, Piece, Plan, Runs, Stream, Summand, in_pipeline
from tantamount.plan.read_approximate import approximations_of
from tantamount.plan.read_copies import COPY_OF, Copies, added_up, read_copies, read_summands, with_claims, with_shares
from tantamount.plan.read_mesh import Meshes, read_meshes
from tantamount.plan.read_schedule import read_schedule, with_ends

__all__ = ["FORMAT", "read_plan"]

FORMAT = "plan/1"
_TOP = (
    "format", "name", "mesh", "data", "model", "schedule", "finish", "symbols", "ops", "assume", "part", "approximate",
)  # fmt: skip
_OF_ALL = ("kind", "spec", "impl", "inputs", "outputs")
_OF_KIND = {
    Runs.PASS: ("before", "after", "parameters", "frozen", "data", "results", "layout", "carried", "symbols", "names"),
    Runs.PIECE: ("of", "takes", "gives", "updates", "state", "layout"),
    Runs.ONCE: ("takes", "sums", "gives"),
    Runs.TIED: ("of", "takes", "sums", "gives", "updates", "state", "layout"),
}
_RUN = re.compile(r"(?P<part>.+?)(?:\s*\*\s*(?P<times>\d{1,7}))?")
_OWNED = re.compile(r"(?P<part>.+?)(?:\s+(?P<first>\d{1,7})(?:\s*-\s*(?P<last>\d{1,7}))?)?")


def read_plan(path: str | Path, *, limits: Limits | None = None) -> Plan:
    """The plan in a TOML file, the graphs of its parts read and checked, every relation fitted to its tensors.

    Raises :class:`~tantamount.errors.UserError` for everything that is wrong with the file itself; what is wrong with
    the plan that it describes (a stage that nobody owns, a relation that does not fit at a joint) is for
    :func:`tantamount.plan.verify.verify`."""
    limits = limits or limits_from_environment()
    path = Path(path)
    place = Place("plan", str(path), limits)
    top = Fields.of(
        parse_toml(read_text(path, limits), place), place, (*_TOP, "assumed"), ("format", "mesh", "model", "part")
    )
    if top.get("format") != FORMAT:
        raise top.at("format").wrong(shown(top.get("format")), f'"{FORMAT}"', code="format")
    return _Reader(path, top).plan()


class _Reader:
    def __init__(self, path: Path, top: Fields) -> None:
        self.path, self.top = path, top
        self.limits = top.place.limits
        job_place = Place("job", str(path), self.limits)
        operators = declared_operators(Fields.of(dict(top.values), job_place, (*_TOP, "assumed")))
        self.files = GraphFiles(path.parent, False, self.limits, operators, {}, READERS)
        self.rows: Rows | None = None  # known from the first part with size symbols
        self.copies = Copies()

    def plan(self) -> Plan:
        top = self.top
        meshes = read_meshes(top)
        schedule, called = read_schedule(
            Fields.of(
                top.values.get("schedule", {"name": "gpipe"}), top.at("[schedule]"),
                ("name", "chunks", "table", "devices", "owners", "pipelines"),
            ),
            self.path.parent, meshes.whole.axes.get(meshes.pipeline, 1), meshes.microbatches,
        )  # fmt: skip
        meshes = replace(meshes, pipelines=len(schedule.chains))
        if meshes.pipelines > 1:
            meshes.refuse(top, COPY, "that of the pipelines")
        outer = top.at("[part]")
        commas = next((name for name in outer.table(top.get("part")) if "," in name), None)
        if commas is not None:  # parts have further jobs, under names with commas
            raise outer.wrong(shown(commas), "names without commas")
        tables = {outer.name(name, "a part's name"): outer.at(name).table(value)
                  for name, value in outer.table(top.get("part"), "a table of parts").items()}  # fmt: skip
        tables, self.copies = read_copies(outer, tables, meshes.pipelines)
        meshes = self._apart(meshes) if self.copies.of else meshes
        shared = {name for name, value in tables.items() if value.get("kind") == Runs.TIED.value}
        whole = {name for name, value in tables.items() if value.get("kind") == Runs.ONCE.value}
        layouts = {name: self._layout(name, value, tables, meshes) for name, value in tables.items()}
        first = sorted(tables, key=lambda name: tables[name].get("kind", Runs.PASS.value) != Runs.PASS.value)
        parts = {
            name: self._part(name, tables[name], meshes, layouts[name]) for name in first if name not in shared | whole
        }
        passes = [name for name, part in parts.items() if part.runs is Runs.PASS and not part.base]
        for name, part in parts.items():
            if part.runs is Runs.PIECE and part.of not in passes:
                place = top.at(f"[part.{name}]").at("of")
                hint = nearest(part.of, passes)
                raise place.wrong(shown(part.of), "a part of kind pass", code="unknown-part", hint=hint)
        model = Fields.of(top.get("model"), top.at("[model]"), ("pieces", "stages", "tied"), ("pieces",))
        pieces = tuple(self._pieces(model, parts))
        stages = self._stages(model, parts, pieces)
        schedule, stages = self._copied(model, schedule, stages)
        schedule = with_ends(schedule)
        tied = self._tied(model, parts, meshes)
        for name in shared:  # who has copies is known now
            copies = {
                owner: len({schedule.owners[s] for s, own in enumerate(stages) if s < len(schedule.owners)
                            and any(piece.part in members for piece in own)})
                for owner, members in tied.items()
            }  # fmt: skip
            parts[name] = self._part(name, tables[name], meshes, layouts[name], copies)
        ranks = tuple(self._ranks(schedule, stages, parts, meshes))
        even = set(ranks) <= {(meshes.ranks(DEFAULT),)}
        meshes = replace(meshes, world=0 if even else sum(map(max, ranks)))
        for name in whole:  # of how many ranks the stages have, too
            parts[name] = self._part(name, tables[name], meshes, DEFAULT)
        approximations = tuple(approximations_of(self.top, parts, meshes.axis))
        finish = Fields.of(top.values.get("finish", {}), top.at("[finish]"), ("reduce", "update"))
        reduce, update = (self._order(finish, key, parts) for key in ("reduce", "update"))
        along = {part.of for part in parts.values() if part.meets and (part.base or part.name) in reduce}
        parts = with_shares(parts, (*reduce, *update), tied)
        if self.copies.of:
            parts = with_claims(parts, (*reduce, *update), meshes.pipelines)
        meets = [stage for stage, own in enumerate(stages) if any(piece.part in along for piece in own)]
        schedule = replace(schedule, meets=frozenset(meets))
        symbols = self._numbers(parts, tied)
        return Plan(
            path=str(self.path),
            name=top.at("name").name(top.get("name")) if "name" in top else self.path.stem,
            mesh=meshes.whole, pipeline=meshes.pipeline, microbatches=meshes.microbatches, axis=meshes.axis,
            parts={name: parts[name] for name in tables}, pieces=pieces, stages=stages, tied=tied,
            schedule=schedule, schedule_name=called,
            reduce=reduce, update=update,
            ranks=ranks, messages=meshes.messages, symbols=symbols,
            approximations=approximations, assumed=top.names("assumed"),
        )  # fmt: skip

    def _numbers(self, parts: Mapping[str, Part], tied: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
        """Numbers that are the same everywhere: what a part makes, keeps or replaces is none."""
        place = self.top.at("symbols")
        names = self.top.names("symbols")
        for part in parts.values():
            held = (*part.parameters, *part.parameters.values(), *part.frozen, *part.carried, *part.state)
            for name in names:
                if name in held or name in part.gives.values() or name in part.updates.values() or name in tied:
                    raise place.wrong(
                        f"{shown(name)}, which {part.name} has or gives", "names of numbers that are given"
                    )
        return names

    def _apart(self, meshes: Meshes) -> Meshes:
        """The meshes of a plan whose copies have degrees of their own, of which it may say less than of others."""
        top = self.top
        refused = {
            "[data]": "rows" if meshes.symbols else "",
            "[model]": "tied" if "tied" in top.at("[model]").table(top.get("model")) else "",
            "[assume]": "dropout" if "dropout" in top.at("[assume]").table(top.values.get("assume", {})) else "",
            "[approximate]": "approximations" if "approximate" in top else "",
        }
        for table, what in refused.items():
            if what:
                needed = f"none of it, where copies ({', '.join(self.copies.of)}) have degrees of their own"
                raise top.at(table).wrong(what, needed, code="copies")
        return replace(meshes, apart=True)

    # ------------------------------------------------------------------------------------------ parts
    def _layout(self, name: str, value: Mapping[str, object], tables: Mapping[str, object], meshes: Meshes) -> str:
        """The layout of a part: the one that it names, or that of the pieces that it runs for."""
        place = self.top.at(f"[part.{name}]")
        of = value.get("of")
        default = tables.get(self.copies.beside(name, of)) if isinstance(of, str) else None
        said = value.get("layout", cast("Mapping[str, object]", default or {}).get("layout", DEFAULT))
        if not isinstance(said, str) or said not in meshes.layouts:
            known = ", ".join(meshes.layouts)
            raise place.at("layout").wrong(shown(said), f"a layout of [mesh]: {known}", code="unknown-layout")
        return said

    def _ranks(
        self, schedule: Schedule, stages: Sequence[Sequence[Piece]], parts: Mapping[str, Part], meshes: Meshes
    ) -> Iterator[tuple[int, ...]]:
        """The numbers of ranks of every device, one for each of those that layouts of its pieces have."""
        found: list[set[int]] = [set() for _ in schedule.devices]
        for chain_number, chain in enumerate(schedule.chains):
            here = in_pipeline(parts, chain_number)
            for stage in chain.stages:
                own = stages[stage] if stage < len(stages) else ()
                found[schedule.owners[stage]] |= {meshes.ranks(here[piece.part].layout) for piece in own}
        for counts in found:
            yield tuple(sorted(counts)) or (meshes.ranks(DEFAULT),)

    def _part(
        self, name: str, value: object, meshes: Meshes, layout: str, copies: Mapping[str, int] | None = None
    ) -> Part:
        place = self.top.at(f"[part.{name}]")
        kind = place.table(value).get("kind", Runs.PASS.value)
        runs = next((runs for runs in Runs if runs.value == kind), None)
        if runs is None:
            raise place.at("kind").wrong(shown(kind), f"one of {', '.join((*(runs.value for runs in Runs), COPY_OF))}")
        fields = Fields.of(value, place, (*_OF_ALL, *_OF_KIND[runs]), ("spec", "impl"))
        of = fields.at("of").name(fields.get("of")) if runs in (Runs.PIECE, Runs.TIED) else ""
        if runs is Runs.TIED and of not in (copies or {}):
            known = ", ".join(copies or {}) or "none"
            raise fields.at("of").wrong(shown(of), f"a shared parameter of [model] tied: {known}", code="unknown-part")
        mesh = meshes.of(runs, layout, max(1, (copies or {}).get(of, 1)))
        fields, summands = read_summands(fields, self.copies, name, runs, mesh.world_size)
        taken, given = (self._orders(fields, key, mesh, meshes.axis) for key in ("inputs", "outputs"))
        without = self.copies.without.get(name, ())
        job, family = self._job(fields, mesh, meshes, taken, given, summands, without)
        base, pipelines = self.copies.of.get(name, ""), self.copies.pipelines.get(name, ())
        inputs, outputs = tuple(job.inputs), tuple(job.outputs)

        def mapping(key: str, known: Sequence[str]) -> dict[str, str]:
            outer = fields.at(key)
            found = {k: outer.at(k).name(v) for k, v in outer.table(fields.values.get(key, {})).items()}
            _known(found, known, outer)
            return found

        if runs is Runs.PASS:
            parameters = mapping("parameters", inputs)
            _known(parameters.values(), outputs, fields.at("parameters"))
            frozen, data, results = (fields.names(key) for key in ("frozen", "data", "results"))
            symbols = fields.names("symbols")
            templates = mapping("names", (*parameters, *frozen))
            check_names(templates, (*parameters, *frozen), fields.at("names"))
            _known(frozen + data + symbols, inputs, place)
            _known(results, outputs, place)
            carried = mapping("carried", inputs)
            _known(carried.values(), outputs, fields.at("carried"))
            if carried and family is None:
                needed = "size symbols: what is carried from one microbatch to the next is that of one"
                raise fields.at("carried").wrong("programs for one number of rows", needed, code="rows")
            _without_order((*carried, *symbols), taken, fields.at("inputs"))
            _without_order(tuple(carried.values()), given, fields.at("outputs"))
            if family is not None:
                others = frozenset(inputs) - frozenset(data)
                family = replace(family, carried=tuple(carried.values())).of_others(others)
                job = family.at(family.rows.alike, family.rows.each)
            for tensor, order, relation in (
                *((one, order, job.inputs[one]) for one, order in taken.items()),
                *((one, order, job.outputs[one]) for one, order in given.items()),
            ):
                rows = dict(zip(mesh.names, relation.placements or (), strict=False)).get(meshes.axis)
                if isinstance(rows, Shard) and rows.dim == order.dim:  # moves must know of no rows
                    raise place.at(tensor).wrong(str(order), "an order of blocks of another dimension than the rows")
            return Part(
                name, runs, _of_others(job, data), before=self._streams(fields, "before", inputs, outputs),
                after=self._streams(fields, "after", outputs, inputs), parameters=parameters, frozen=frozen, data=data,
                results=results, layout=layout, symbols=symbols, carried=carried, names=templates,
                taken_as=taken, given_as=given, base=base, pipelines=pipelines, **_classes(family),
            )  # fmt: skip
        members = self._members(fields, inputs) if runs is Runs.TIED else {}
        family = None if family is None else family.of_others(frozenset(inputs))
        sums, updates = {} if members else mapping("sums", inputs), mapping("updates", outputs)
        whole = dict.fromkeys(summands[x].tensor if x in summands else x for x in inputs)
        stated = {x: x for x in whole if x not in sums and x not in members} | mapping("takes", [*whole])
        takes = {x: stated[x] for x in inputs if x in stated and x not in summands}
        summands = {x: replace(one, tensor=stated[one.tensor]) for x, one in summands.items()}
        gives = {x: x for x in outputs if x not in updates} | mapping("gives", outputs)
        return Part(
            name, runs, _of_others(job, ()), of=of, takes=takes, sums=sums, gives=gives, updates=updates,
            state=fields.names("state"), members=members, layout=layout, family=family,
            taken_as=taken, given_as=given, summands=summands, base=base,
            pipelines=pipelines,
        )  # fmt: skip

    def _members(self, fields: Fields, inputs: Sequence[str]) -> dict[str, dict[str, str]]:
        """Of a part for a shared parameter, the tensors of the parts that share it whose sums its inputs are."""
        outer = fields.at("sums")
        found: dict[str, dict[str, str]] = {}
        for tensor, value in outer.table(fields.values.get("sums", {})).items():
            place = outer.at(tensor)
            found[tensor] = {place.name(part): place.at(part).name(name) for part, name in place.table(value).items()}
        _known(found, inputs, outer)
        return found

    def _tied(self, model: Fields, parts: Mapping[str, Part], meshes: Meshes) -> dict[str, dict[str, str]]:
        """Parameters that several pieces share."""
        outer = model.at("tied")
        found: dict[str, dict[str, str]] = {}
        seen: set[tuple[str, str]] = set()
        for name, value in outer.table(model.values.get("tied", {}), "a table of shared parameters").items():
            place = outer.at(outer.name(name, "a name for the parameter"))
            found[name] = {}
            for part, parameter in place.table(value, "a table { part = parameter }").items():
                self._passes(part, parts, place)
                _known([parameter], tuple(parts[part].parameters), place.at(part))
                if (part, str(parameter)) in seen:
                    raise place.at(part).wrong(shown(parameter), "a parameter that is shared once", code="tied")
                seen.add((part, str(parameter)))
                found[name][part] = str(parameter)
        if found:
            meshes.refuse(self.top, TIED, "that of the copies")
        return found

    def _streams(self, fields: Fields, key: str, forward: Sequence[str], backward: Sequence[str]) -> dict[str, Stream]:
        outer = fields.at(key)
        found: dict[str, Stream] = {}
        for name, value in outer.table(fields.values.get(key, {})).items():
            place = outer.at(name)
            ends = [place.name(value)] if isinstance(value, str) else [place.name(x) for x in place.list(value)]
            if not 1 <= len(ends) <= 2:
                raise place.wrong(f"{len(ends)} names", "a tensor, or a list of it and its gradient")
            _known(ends[:1], forward, place)
            _known(ends[1:], backward, place)
            found[name] = Stream(ends[0], ends[1] if len(ends) > 1 else None)
        return found

    def _job(
        self, fields: Fields, mesh: Mesh, meshes: Meshes, taken: Mapping[str, Order], given: Mapping[str, Order],
        summands: Mapping[str, Summand], without: Sequence[str],
    ) -> tuple[Job, Family | None]:  # fmt: skip
        """The part as a job: its programs, and relations by axis; and the same for other numbers of rows."""
        place, virtual = fields.place, meshes.axis
        files = Place("job", place.text, self.limits)
        graphs: dict[str, Graph] = {"spec": self.files.graph(fields.get("spec"), files.at("spec"))}
        names = self._programs(fields, mesh, virtual, graphs, files)
        for graph in graphs.values():
            if graph.groups or graph.ranks is not None:
                found = f"{graph.path}, which names ranks by their numbers"
                raise place.wrong(found, "programs whose process groups have names", code="part-groups")
        graphs = _typed(graphs, mesh)
        whole = added_up(graphs["spec"], summands, place.at("inputs"))
        _known(without, [output.name for output in whole.outputs], fields.at("without"))
        graphs["spec"] = in_order(whole, taken, given, place)
        document: dict[str, object] = {
            "format": "job/1",
            "spec": {"graph": "spec"},
            "impl": {
                **({"graph": names[0]} if len(graphs) == 2 else {"graphs": names}),
                "mesh": dict(mesh.axes),
                "groups": {name: list(axes) for name, axes in mesh.groups.items()},
            },
            "inputs": self._relations(fields, "inputs", [node.name for node in whole.inputs], mesh),
            "outputs": self._relations(fields, "outputs", [o.name for o in whole.outputs], mesh, without),
        }
        document |= {key: self.top.get(key) for key in ("ops", "assume") if key in self.top}
        if not any(graph.sizes.symbols for graph in graphs.values()):
            if meshes.last is not None and virtual in mesh.axes:
                raise place.wrong("programs for one number of rows", "size symbols: microbatches differ", code="rows")
            return job_of(document, graphs, place.text), None
        family = replace(self._family(place, document, graphs, mesh, meshes), apart=whole)
        return family.at(family.rows.alike, family.rows.each), family

    def _family(
        self, place: Place, document: dict[str, object], graphs: dict[str, Graph], mesh: Mesh, meshes: Meshes
    ) -> Family:
        """The part with its size symbols, which are those that [data] names. The rows of the plan's batch are those
        for which the programs were written: every part must agree."""
        found = sorted({symbol.name for graph in graphs.values() for symbol in graph.sizes.symbols})
        if meshes.symbols is None or not set(found) <= set(meshes.symbols) or len(set(meshes.symbols)) < 2:
            needed = "the two symbols that [data] names: `rows` of a program, and those of the whole `batch`"
            raise place.wrong(f"the size symbols {', '.join(found)}", needed, code="rows")
        rows, batch = meshes.symbols
        if meshes.axis not in mesh.axes and rows in found:
            raise place.wrong(f"the size symbol {rows}", f"{batch} alone, after the microbatches", code="rows")
        hints = {name: {s.label: s.hint for s in graph.sizes.symbols} for name, graph in graphs.items()}
        own = [hint[rows] for name, hint in hints.items() if name != "spec" and rows in hint]
        whole = {hint[batch] for hint in hints.values() if batch in hint} | {h for h in [hints["spec"].get(rows)] if h}
        if self.rows is None and own and len(whole) == 1:
            (total,) = whole
            last = meshes.last if meshes.last is not None else own[0]
            known = Rows(rows, batch, total, meshes.microbatches, own[0], last)
            if last <= own[0] and known.ranks * ((known.microbatches - 1) * own[0] + last) == total:
                self.rows = known
        if self.rows is None or whole - {self.rows.whole} or set(own) - {self.rows.each}:
            text = f"{' or '.join(map(str, sorted(whole)))} rows, of which a rank has {' or '.join(map(str, own))}"
            needed = f"one number of rows in all parts, which {meshes.microbatches} microbatches have together"
            raise place.wrong(text, needed, code="rows")
        return Family(document, graphs, place.text, meshes.axis if meshes.axis in mesh.axes else "", self.rows)

    def _programs(self, fields: Fields, mesh: Mesh, virtual: str, graphs: dict[str, Graph], files: Place) -> list[str]:
        """The name of every rank's program, whose graphs are added to ``graphs``."""
        value = fields.get("impl")
        if not isinstance(value, dict):
            graphs["impl"] = self.files.graph(value, files.at("impl"))
            return ["impl"] * mesh.world_size
        place = fields.at("impl")
        table = cast("dict[str, object]", value)
        if len(table) != 1:
            raise place.wrong(
                f"{len(table)} axes", "one program, or a table { axis = [a program for each coordinate] }"
            )
        ((axis, listed),) = table.items()
        programs = place.list(listed, "a list of programs")
        axes = axis.split("+")
        if any(one not in mesh.axes or one == virtual for one in axes) or len(set(axes)) < len(axes):
            known = ", ".join(name for name in mesh.axes if name != virtual)
            raise place.wrong(shown(axis), f"one of {known}: ranks may run different programs", code="unknown-axis")
        sizes = [mesh.axes[one] for one in axes]
        if len(programs) != prod(sizes):
            raise place.wrong(f"{len(programs)} programs", f"{prod(sizes)}, one for each coordinate along {axis}")
        for k, name in enumerate(programs):
            graphs[f"impl {k}"] = self.files.graph(name, files.at(f"impl: {axis} {k}"))
        positions = [mesh.names.index(one) for one in axes]
        numbers: list[int] = []
        for rank in range(mesh.world_size):
            number = 0
            for position, size in zip(positions, sizes, strict=True):
                number = number * size + mesh.coordinates(rank)[position]
            numbers.append(number)
        return [f"impl {number}" for number in numbers]

    def _relations(
        self, fields: Fields, key: str, tensors: Sequence[str], mesh: Mesh, without: Sequence[str] = ()
    ) -> dict[str, object]:
        outer = fields.at(key)
        stated = outer.table(fields.values.get(key, {}), "a table of relations")
        _known([name for name in stated if name != "default"], tensors, outer)
        found: dict[str, object] = {}
        for tensor in (one for one in tensors if one not in without):
            if tensor not in stated and "default" not in stated:
                raise outer.wrong(
                    f"nothing about {tensor}", "a relation for every tensor, or a default", code="relation"
                )
            found[tensor] = _relation(stated.get(tensor, stated.get("default")), outer.at(tensor), mesh)
        return found

    def _orders(self, fields: Fields, key: str, mesh: Mesh, virtual: str) -> dict[str, Order]:
        """The orders in which ranks have blocks of tensors, by the tensor."""
        outer = fields.at(key)
        sizes = {axis: size for axis, size in mesh.axes.items() if axis != virtual}
        found: dict[str, Order] = {}
        for tensor, value in outer.table(fields.values.get(key, {})).items():
            place = outer.at(tensor)
            table = cast("dict[str, object]", value) if isinstance(value, dict) else dict[str, object]()
            if virtual in mesh.axes and plain(table.get(virtual)) != table.get(virtual):
                needed = "an order of blocks along axes of ranks: rows are in theirs"
                raise place.at(virtual).wrong(shown(table[virtual]), needed, code="relation")
            order = read_order(table, sizes, place)
            if order is not None and tensor == "default":
                raise place.wrong(str(order), "an order of blocks for a tensor that is named")
            if order is not None:
                found[tensor] = order
        return found

    # ------------------------------------------------------------------------------------------ model
    def _pieces(self, model: Fields, parts: Mapping[str, Part]) -> Iterator[Piece]:
        place = model.at("pieces")
        numbers: dict[str, int] = {}
        for text in _listed(model.get("pieces"), place):
            found = _RUN.fullmatch(text.strip())
            part = found["part"] if found else text
            self._passes(part, parts, place)
            for _ in range(int(found["times"] or 1) if found else 1):
                numbers[part] = numbers.get(part, -1) + 1
                place.limits.check("values", sum(numbers.values()), place.text, "pieces")
                yield Piece(part, numbers[part])

    def _stages(
        self, model: Fields, parts: Mapping[str, Part], pieces: tuple[Piece, ...]
    ) -> tuple[tuple[Piece, ...], ...]:
        if "stages" not in model:
            return (pieces,)
        place = model.at("stages")
        return tuple(
            tuple(piece for text in _listed(value, place.at(str(s))) for piece in self._owned(text, place, parts))
            for s, value in enumerate(place.list(model.get("stages"), "a list of stages"))
        )

    def _copied(
        self, model: Fields, schedule: Schedule, stages: tuple[tuple[Piece, ...], ...]
    ) -> tuple[Schedule, tuple[tuple[Piece, ...], ...]]:
        """The pieces of all stages, where only those of the first pipeline are listed; and the schedule, which says
        what stages have copies of the same pieces."""
        first, *others = schedule.chains
        if not others:
            return schedule, stages
        own = dict(enumerate(stages))
        if len(stages) == len(first.stages) < len(schedule.owners):
            if sorted(first.stages) != list(range(len(stages))) or any(len(c.stages) != len(stages) for c in others):
                found = "the stages of the first pipeline alone"
                raise model.at("stages").wrong(
                    found, f"a text for each of {len(schedule.owners)} stages", code="stages"
                )
            own |= {copy: own[of] for chain in others for copy, of in zip(chain.stages, first.stages, strict=True)}
        alike = all(
            len(chain.stages) == len(first.stages)
            and all(own.get(a) == own.get(b) for a, b in zip(chain.stages, first.stages, strict=True))
            for chain in others
        )
        copies = {c: of for chain in others for c, of in zip(chain.stages, first.stages, strict=True)} if alike else {}
        return replace(schedule, copies=copies), tuple(own[stage] for stage in sorted(own))

    def _owned(self, text: str, place: Place, parts: Mapping[str, Part]) -> Iterator[Piece]:
        if text.strip() in parts:
            self._passes(text.strip(), parts, place)
            yield Piece(text.strip(), 0)
            return
        found = _OWNED.fullmatch(text.strip())
        part = found["part"] if found else text
        self._passes(part, parts, place)
        first = int(found["first"] or 0) if found else 0
        last = int(found["last"] or first) if found else first
        if last < first or last - first >= self.limits.values:
            raise place.wrong(shown(text), "a piece, such as 'layer 3', or a run of them, such as 'layer 3-7'")
        yield from (Piece(part, number) for number in range(first, last + 1))

    def _passes(self, part: str, parts: Mapping[str, Part], place: Place) -> None:
        known = [name for name, found in parts.items() if found.runs is Runs.PASS and not found.base]
        if part not in known:
            raise place.wrong(shown(part), "parts of kind pass", code="unknown-part", hint=nearest(part, known))

    def _order(self, finish: Fields, key: str, parts: Mapping[str, Part]) -> tuple[str, ...]:
        place = finish.at(key)
        names = finish.names(key)
        known = [name for name, found in parts.items() if found.runs is not Runs.PASS and not found.base]
        for name in names:
            if name not in known:
                raise place.wrong(
                    shown(name), "parts of kind piece or once", code="unknown-part", hint=nearest(name, known)
                )
        return names


def _typed(graphs: Mapping[str, Graph], mesh: Mesh) -> dict[str, Graph]:
    """The programs of a part with the types of all that they give, which joints compare; one graph stays one."""
    sizes = {group: mesh.group_size(group) for group in mesh.groups}
    done: dict[tuple[int, bool], Graph] = {}
    for name, graph in graphs.items():
        key = id(graph), name == "spec"
        done[key] = done[key] if key in done else with_types(graph, None if name == "spec" else sizes)
    return {name: done[id(graph), name == "spec"] for name, graph in graphs.items()}


def _classes(family: Family | None) -> dict[str, Any]:
    """The further jobs of a pass, beside what it does with the microbatches of one size."""
    if family is None:
        return {}
    rows = family.rows
    steps = dict.fromkeys((rows.each, rows.last)) if family.carried else ()
    found: dict[str, Any] = {"family": family, "steps": tuple(family.step(number) for number in steps)}
    if rows.uneven:
        found |= {"kept": family.axis, "smaller": family.at(1, rows.last), "divided": family.divided()}
    return found


def _relation(value: object, place: Place, mesh: Mesh) -> object:
    """A relation as ``job/1`` has it: ``"Replicate()"`` or ``{ dp = "Shard(0)", name = "x" }``; an axis that is not
    named has replicas."""
    if value == "Replicate()":
        return ["Replicate()"] * len(mesh.names)
    table = place.table(value, '"Replicate()", or a table of placements such as { dp = "Shard(0)" }')
    for key in table:
        if key != "name" and key not in mesh.axes:
            raise place.wrong(shown(key), f"name, or one of {', '.join(mesh.axes)}", code="unknown-axis")
    placements = [place.at(axis).string(plain(table.get(axis, "Replicate()"))) for axis in mesh.names]
    return {"name": place.at("name").name(table["name"]), "placement": placements} if "name" in table else placements


def _listed(value: object, place: Place) -> list[str]:
    """Texts: a list of them, or one with commas; none in an empty one, as a stage without pieces is written."""
    if value == "":
        return []
    items = value.split(",") if isinstance(value, str) else place.list(value, "a list of texts, or one with commas")
    return [place.name(cast("object", item)).strip() for item in items]


def _of_others(job: Job, data: Sequence[str]) -> Job:
    """The job of a part, all inputs of which but the data are what other parts compute."""
    computed = frozenset(job.inputs) - frozenset(data)
    return replace(job, specification=replace(job.specification, computed=computed))


def _without_order(names: Sequence[str], orders: Mapping[str, Order], place: Place) -> None:
    """Raise :class:`UserError` for an order of blocks of what is carried to the next microbatch, or of a number."""
    for name in names:
        if name in orders:
            needed = "no order of blocks for what is carried, nor for numbers"
            raise place.at(name).wrong(str(orders[name]), needed, code="relation")


def _known(names: object, known: Sequence[str], place: Place) -> None:
    for name in cast("Sequence[str]", names):
        if name not in known:
            raise place.wrong(
                shown(name), "tensors of the part's specification", code="unknown-tensor", hint=nearest(name, known)
            )
