"""Reading jobs of format ``job/1``: TOML. Graphs are read and type-checked, relations fitted to their tensors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import isfinite, prod
from pathlib import Path
from typing import Protocol, cast

from tantamount.capture.approximations import with_strict_forms
from tantamount.capture.documents import parse_toml
from tantamount.capture.expectations import with_expectations
from tantamount.capture.fields import Fields, Place, is_integer, nearest, shown
from tantamount.capture.files import read_text
from tantamount.capture.readers import READERS, Reader, conversion, endings, named, read_graph
from tantamount.capture.relations import Side, read_expectation, read_input
from tantamount.capture.rules import rules_of
from tantamount.capture.size_symbols import narrowed
from tantamount.capture.spelled_groups import check_alone, with_groups
from tantamount.errors import UserError
from tantamount.ir.graph import ANY_ARGUMENTS, CustomOperator, Graph
from tantamount.ir.job import DIFFERENT_SEEDS, SAME_NAME, SAME_SEED, Assumptions, Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Expectation, InputRelation
from tantamount.ir.types import TensorType
from tantamount.limits import Limits, limits_from_environment
from tantamount.ops.algebra import Tensor
from tantamount.ops.check import check_graph
from tantamount.ops.custom import custom_operator
from tantamount.ops.groups import with_one_name_per_group
from tantamount.ops.table import table
from tantamount.sizes.domain import Domain, SizeProblem

__all__ = ["GraphFiles", "Unresolved", "declared_operators", "job_of", "joined_sizes", "read_job", "read_unresolved"]

_FORMAT = "job/1"
_TOP = ("format", "spec", "impl", "inputs", "outputs", "expect", "assume", "ops", "symbols", "rules", "approximate")
_DROPOUT = "same mask"


def is_job(path: str | Path, limits: Limits | None = None) -> bool:
    """True for a TOML file that says that it is a job. Raises :class:`UserError` for a file that cannot be read."""
    limits = limits or limits_from_environment()
    path = Path(path)
    place = Place("plan", str(path), limits)
    return place.table(parse_toml(read_text(path, limits), place)).get("format") == "job/1"


def read_job(
    path: str | Path, *, allow_outside: bool = False, limits: Limits | None = None, readers: Sequence[Reader] = READERS
) -> Job:
    """The job in a TOML file, with its graphs read and checked, and every relation resolved.

    ``allow_outside`` lets the job name graphs outside its own folder. ``limits`` default to those of the environment,
    ``readers`` are the formats that graphs may have.
    Raises :class:`UserError` for everything that is wrong with the job, its graphs, or the fit of the two.
    """
    limits = limits or limits_from_environment()
    path = Path(path)
    place = Place("job", str(path), limits)
    table = place.table(parse_toml(read_text(path, limits), place))
    if table.get("format") == "plan/1":  # before its keys are looked at, which a job does not have
        hint = f"a plan: tantamount plan verify {path}"
        raise place.at("format").wrong('"plan/1"', f'"{_FORMAT}"', code="format", hint=hint)
    top = Fields.of(table, place, _TOP, ("format", "spec", "impl"))
    if top.get("format") != _FORMAT:
        raise top.at("format").wrong(shown(top.get("format")), f'"{_FORMAT}"', code="format")
    files = GraphFiles(path.parent, allow_outside, limits, declared_operators(top), {}, readers)
    job = _resolved(top, files, str(path))
    if "rules" not in top:
        return job
    return replace(job, rules=rules_of(top.get("rules"), top.at("[rules]"), files))


@dataclass(frozen=True)
class Unresolved:
    """The programs of a job whose relations may be incomplete. ``listed``: what it relates already, as written."""

    specification: Graph
    implementation: tuple[Graph, ...]
    mesh: Mesh
    listed: Mapping[str, object]


def read_unresolved(path: str | Path, *, allow_outside: bool = False, limits: Limits | None = None) -> Unresolved:
    """The programs of a job as :func:`read_job` reads them, without its relations."""
    limits = limits or limits_from_environment()
    path = Path(path)
    place = Place("job", str(path), limits)
    top = Fields.of(parse_toml(read_text(path, limits), place), place, _TOP, ("format", "spec", "impl"))
    if "approximate" in top:
        needed = "no approximations where the relations of two programs are looked for"
        raise top.at("[approximate]").wrong("a table", needed, code="approximate")
    files = GraphFiles(path.parent, allow_outside, limits, declared_operators(top), {}, READERS)
    specification = _specification(top, files)
    implementation, mesh = _implementation(top, files)
    outer = top.at("[inputs]")
    listed = outer.table(top.values.get("inputs", {}), "a table of relations")
    return Unresolved(specification, implementation, mesh, listed)


def job_of(
    document: Mapping[str, object], graphs: Mapping[str, Graph], name: str = "<job>", *, partial: bool = False
) -> Job:
    """The job in a table such as TOML would give, about graphs that are at hand under the names that it uses.

    ``partial``: inputs may be left without a relation; nothing is known of them then. Raises :class:`UserError` as
    :func:`read_job` does; ``name`` is the job's in messages."""
    limits = limits_from_environment()
    place = Place("job", name, limits)
    top = Fields.of(dict(document), place, _TOP, ("format", "spec", "impl"))
    operators = declared_operators(top)
    found = {key: replace(graph, operators=operators) if operators else graph for key, graph in graphs.items()}
    return _resolved(top, _AtHand(found), name, partial)


def _resolved(top: Fields, files: _Graphs, name: str, partial: bool = False) -> Job:
    specification = _specification(top, files)
    implementation, mesh = _implementation(top, files)
    assume = _assumptions(top, mesh)
    spec_types = _types(specification, None)
    implementation = with_one_name_per_group(implementation, mesh)
    sizes = {group: mesh.group_size(group) for group in mesh.groups}
    distinct = {id(graph): graph for graph in implementation}
    rank_types = {key: _types(graph, sizes) for key, graph in distinct.items()}
    types = [rank_types[id(graph)] for graph in implementation]
    inputs = _inputs(top, spec_types, Side("input", [item.inputs for item in types], implementation, mesh), partial)
    held = Side("output", [item.outputs for item in types], implementation, mesh, [item.unsized for item in types])
    outputs = _outputs(top, spec_types, held)
    if "expect" in top:
        place = top.at("[[expect]]")
        specification, more = with_expectations(top.get("expect"), place, specification, spec_types.outputs, held)
        outputs.update(more)
        _types(specification, None)
    job = Job(name, specification, implementation, mesh, inputs, outputs, assume)
    domain = joined_sizes((specification, *distinct.values()), name)
    if "symbols" in top and not isinstance(files, _Resized):
        domain = narrowed(domain, top.get("symbols"), top.at("[symbols]"))
    if "approximate" in top:
        return with_strict_forms(replace(job, sizes=domain), top)
    if not domain.symbols:
        return job

    def at(values: Mapping[str, int]) -> Job:
        return _resolved(top, _Resized(files, values, {}), name, partial)

    return replace(job, sizes=domain, at=at)


def joined_sizes(graphs: Iterable[Graph], name: str) -> Domain:
    """The sizes for which every program was captured."""
    domain = Domain()
    try:
        for graph in graphs:
            domain = domain.joined(graph.sizes)
    except SizeProblem as problem:
        raise UserError(
            "job-sizes", place=name, found=f"size symbols that differ: {problem}",
            needed="programs captured with example inputs of the same sizes",
        ) from None  # fmt: skip
    return domain


# ---------------------------------------------------------------------------------------------- graphs
class _Graphs(Protocol):
    def graph(self, value: object, place: Place) -> Graph:
        """The graph that a job names."""
        ...


@dataclass(frozen=True)
class _AtHand:
    """Graphs by the names that a job uses for them."""

    graphs: Mapping[str, Graph]

    def graph(self, value: object, place: Place) -> Graph:
        name = place.name(value, "the name of a graph")
        if name not in self.graphs:
            raise place.wrong(name, f"one of {', '.join(self.graphs)}", code="graph-path")
        return self.graphs[name]


@dataclass(frozen=True)
class _Resized:
    """Graphs at some sizes; ``done`` by what they were."""

    files: _Graphs
    values: Mapping[str, int]
    done: dict[int, Graph]

    def graph(self, value: object, place: Place) -> Graph:
        graph = self.files.graph(value, place)
        if id(graph) not in self.done:
            self.done[id(graph)] = graph.at(self.values)
        return self.done[id(graph)]


@dataclass(frozen=True)
class GraphFiles:
    """The graphs read so far, by path, and the folder that they may come from."""

    folder: Path
    allow_outside: bool
    limits: Limits
    operators: Mapping[str, CustomOperator]
    read: dict[Path, Graph]
    readers: Sequence[Reader]
    by_name: dict[str, Graph] = field(default_factory=dict[str, Graph])  # of thousands of ranks most name one file

    def graph(self, value: object, place: Place) -> Graph:
        name = place.name(value, "the path of a graph file")
        if name in self.by_name:
            return self.by_name[name]
        if named(name, self.readers) is None:
            needed = f"a graph file: {endings(self.readers)}"
            raise place.wrong(name, needed, code="graph-format", hint=conversion(name))
        path = self.folder / name
        try:
            real = path.resolve()
            outside = not real.is_relative_to(self.folder.resolve())
        except (OSError, RuntimeError, ValueError) as problem:  # a loop of links, a path that cannot be
            raise place.wrong(f"{name} ({problem})", "the path of a graph file", code="graph-path") from None
        if outside and not self.allow_outside:
            raise place.wrong(
                f"{name}, outside the job's folder", "a path inside the job's folder", code="graph-outside",
                hint="put a copy of it into the folder; a job that you trust may name others with --allow-outside",
            )  # fmt: skip
        if real not in self.read:
            self.read[real] = replace(read_graph(path, self.limits, self.readers), operators=self.operators)
        self.by_name[name] = self.read[real]
        return self.read[real]


def _specification(top: Fields, files: _Graphs) -> Graph:
    fields = Fields.of(top.get("spec"), top.at("[spec]"), ("graph",), ("graph",))
    graph = files.graph(fields.get("graph"), fields.at("graph"))
    check_alone(graph, fields.at("graph"))
    return graph


def _implementation(top: Fields, files: _Graphs) -> tuple[tuple[Graph, ...], Mesh]:
    fields = Fields.of(top.get("impl"), top.at("[impl]"), ("graph", "graphs", "mesh", "groups"), ("mesh",))
    mesh = _mesh(fields)
    if ("graph" in fields) == ("graphs" in fields):
        found = "both `graph` and `graphs`" if "graph" in fields else "neither `graph` nor `graphs`"
        raise fields.place.wrong(found, "`graphs`, one per rank, or `graph`, one program for all ranks")
    if "graph" in fields:
        graph = files.graph(fields.get("graph"), fields.at("graph"))
        return (graph,) * mesh.world_size, with_groups(mesh, (graph,), fields.at("mesh"))
    place = fields.at("graphs")
    names = place.list(fields.get("graphs"), "a list of paths, one per rank")
    if len(names) != mesh.world_size:
        axes = " x ".join(f"{axis}={size}" for axis, size in mesh.axes.items()) or "{}"
        raise place.wrong(
            f"{len(names)} graphs for the mesh {axes}", f"{mesh.world_size}, one per rank", code="mesh-size",
            hint="one program that every rank runs is given as `graph`",
        )  # fmt: skip
    graphs = tuple(files.graph(name, place) for name in names)
    recorded = [graph.rank for graph in graphs]
    if None not in recorded and recorded != list(range(len(graphs))) and set(recorded) == set(range(len(graphs))):
        raise place.wrong(f"files of ranks {recorded}", "files in rank order", code="rank-order")
    return graphs, with_groups(mesh, graphs, fields.at("mesh"))


def _mesh(fields: Fields) -> Mesh:
    place = fields.at("mesh")
    axes: dict[str, int] = {}
    for name, size in place.table(fields.get("mesh"), "a table of axis sizes such as { dp = 2, tp = 4 }").items():
        axis = place.name(name, "an axis name")
        axes[axis] = place.at(axis).integer(size, 1, 1 << 31, "a size from 1 on")
    place.limits.check("ranks", prod(axes.values()), place.text, "ranks")
    groups: dict[str, tuple[str, ...]] = {}
    outer = fields.at("groups")
    for name, spanned in outer.table(fields.values.get("groups", {}), "a table of process groups").items():
        group = outer.name(name, "a process-group name")
        groups[group] = _group_axes(spanned, axes, outer.at(group))
    return Mesh(axes, groups)


def _group_axes(value: object, axes: Mapping[str, int], place: Place) -> tuple[str, ...]:
    spanned = [
        place.string(axis, "an axis name") for axis in place.list(value, "a list of mesh axes, [] for this rank alone")
    ]
    for axis in spanned:
        if axis not in axes:
            known = f"one of {', '.join(axes)}" if axes else "[]: the mesh has no axes"
            raise place.wrong(f"mesh axis {shown(axis)}", known, code="unknown-axis")
        if spanned.count(axis) > 1:
            raise place.wrong(f"axis {axis} twice", "distinct axes")
    return tuple(spanned)


@dataclass(frozen=True)
class _Types:
    """The types of a graph's inputs and outputs by name; relations see complex tensors as pairs of real numbers."""

    inputs: Mapping[str, TensorType]
    outputs: Mapping[str, TensorType]
    unsized: frozenset[str] = frozenset()  # outputs whose types data decide


def _types(graph: Graph, groups: Mapping[str, int] | None) -> _Types:
    values = check_graph(graph, groups)
    inputs = {node.name: node.type.stored for node in graph.inputs if node.type is not None}
    results = {output.name: values[output.node] for output in graph.outputs}
    sized = {name: value.type.stored for name, value in results.items() if isinstance(value, Tensor)}
    return _Types(inputs, sized, frozenset(results) - frozenset(sized))


# ---------------------------------------------------------------------------------------------- relations
def _entries(top: Fields, key: str, known: Collection[str], what: str) -> dict[str, object]:
    """One table, its keys checked against the specification's tensors; ``default`` is kept."""
    place = top.at(f"[{key}]")
    entries = place.table(top.values.get(key, {}))
    for name in entries:
        if name != "default" and name not in known:
            raise place.wrong(
                f"{shown(name)}, which is no {what} of the specification",
                f"names of its {what}s, or default", code=f"unknown-{what}",
                hint=nearest(name, known),
            )  # fmt: skip
    return entries


def _inputs(top: Fields, types: _Types, side: Side, partial: bool) -> dict[str, InputRelation]:
    entries = _entries(top, "inputs", types.inputs, "input")
    place = top.at("[inputs]")
    relations: dict[str, InputRelation] = {}
    for name, type_ in types.inputs.items():
        if name not in entries and "default" not in entries:
            if partial:
                continue
            raise place.wrong(
                f"nothing about the specification input {name}: {type_}",
                "a relation for every input, or a default",
                code="input-missing",
            )
        where = place.at(name if name in entries else f"default, for {name}")
        relations[name] = read_input(name, type_, entries.get(name, entries.get("default")), where, side)
    return relations


def _outputs(top: Fields, types: _Types, side: Side) -> dict[str, Expectation]:
    names = [*types.outputs, *sorted(types.unsized)]
    if "outputs" not in top:
        return {name: Expectation(name) for name in names}
    entries = _entries(top, "outputs", names, "output")
    place = top.at("[outputs]")
    expectations: dict[str, Expectation] = {}
    for name in names:
        if name in entries or "default" in entries:
            where = place.at(name if name in entries else f"default, for {name}")
            value = entries.get(name, entries.get("default"))
            expectations[name] = read_expectation(name, types.outputs.get(name), value, where, side)
    return expectations


# ---------------------------------------------------------------------------------------------- the rest
def _assumptions(top: Fields, mesh: Mesh) -> Assumptions:
    fields = Fields.of(top.values.get("assume", {}), top.at("[assume]"), ("constants", "dropout"))
    seeds: tuple[tuple[str, str], ...] = ()
    if "dropout" in fields and fields.get("dropout") != _DROPOUT:
        seeds = _seeds(fields.get("dropout"), fields.at("dropout"), mesh)
    return Assumptions(_constant_assumption(fields), "dropout" in fields, seeds)


def _seeds(value: object, place: Place, mesh: Mesh) -> tuple[tuple[str, str], ...]:
    """The statements, as pairs of axis and word, about the random generators along mesh axes."""
    known = (SAME_SEED, DIFFERENT_SEEDS)
    if not isinstance(value, dict) or not value:
        raise place.wrong(
            shown(cast("object", value)),
            f'"{_DROPOUT}", a table of mesh axes such as {{ tp = "{SAME_SEED}" }}, or no such key',
        )
    table = place.table(cast("object", value), "a table of mesh axes")
    for axis, said in table.items():
        if axis not in mesh.axes:
            raise place.at(axis).wrong(shown(axis), f"a mesh axis: {', '.join(mesh.axes) or 'there is none'}")
        if said not in known:
            raise place.at(axis).wrong(shown(said), " or ".join(f'"{one}"' for one in known))
    return tuple((axis, str(said)) for axis, said in table.items())


def _constant_assumption(fields: Fields) -> Fraction | str | None:
    if "constants" not in fields:
        return None
    value = fields.get("constants")
    if value == SAME_NAME:
        return SAME_NAME
    if is_integer(value) and abs(value) < 1 << 64:
        return Fraction(value)
    if isinstance(value, float) and isfinite(value):
        return Fraction(repr(value))
    raise fields.at("constants").wrong(shown(value), f'a finite number or "{SAME_NAME}"')


def declared_operators(top: Fields) -> dict[str, CustomOperator]:
    """The operators of [ops]: read, and compiled once so that what is wrong with them is said here."""
    outer = top.at("[ops]")
    operators: dict[str, CustomOperator] = {}
    for key, value in outer.table(top.values.get("ops", {}), "a table of operators").items():
        name = outer.name(key, "an operator's name")
        fields = Fields.of(value, outer.at(name), ("args", "is", "labels", "mutates", "ignores", "dtypes"))
        if ("is" in fields) == ("labels" in fields) or ("is" in fields and "args" not in fields):
            raise fields.place.wrong(
                f"keys {', '.join(fields.values) or 'none'}", "`args` and `is` (a definition), or `labels` (opaque)"
            )
        if name in table():
            raise outer.wrong(
                f"the operator {name}, which is known", "operators that the table does not have",
                code="known-operator", hint=f"`tantamount ops {name}` shows its definition",
            )  # fmt: skip
        text = {k: fields.at(k).string(fields.get(k)) for k in ("args", "is", "labels") if k in fields}
        mutates, ignores, dtypes = (_names(fields, key) for key in ("mutates", "ignores", "dtypes"))
        args, definition = text.get("args", ANY_ARGUMENTS), text.get("is", "")
        declared = CustomOperator(name, args, definition, text.get("labels", ""), mutates, ignores, dtypes)
        try:
            custom_operator(declared)
        except UserError as problem:
            raise problem.within(outer.text) from None
        operators[name] = declared
    return operators


def _names(fields: Fields, key: str) -> tuple[str, ...]:
    place = fields.at(key)
    return tuple(place.string(item) for item in place.list(fields.values.get(key, []), "a list of names"))
