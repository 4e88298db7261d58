"""Captured programs, and the job that a pair of them makes. No PyTorch here: captures can be saved and read without."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

import tomli_w

from tantamount.capture.job import job_of, joined_sizes
from tantamount.capture.stated import stated
from tantamount.errors import UserError
from tantamount.ir.graph import Graph, Output, references
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.text import format_graph
from tantamount.ir.types import TensorType
from tantamount.ops.algebra import Tensor
from tantamount.ops.check import check_graph
from tantamount.writing import make_folder, write_file

__all__ = ["Program", "Ranks", "job_document", "save_job", "write_document"]


@dataclass(frozen=True)
class Program:
    """The captured program of one device or one rank. ``document`` is its graph as ``fx-nodes/1``, ``graph`` the same
    one read and checked. ``aliases``: other names of an input (tied weights); ``values``: digests of what buffers and
    single whole numbers were when they were captured."""

    graph: Graph
    document: Mapping[str, Any]
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    values: Mapping[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        return format_graph(self.graph)

    def against(
        self,
        implementation: object,
        *,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        assume: Mapping[str, Any] | None = None,
    ) -> Job:
        """The job that ``implementation`` refines this program (see :func:`job_document`)."""
        if not isinstance(implementation, Program | Ranks):
            raise UserError(
                "capture-pair", place="refine", found=f"an implementation of type {type(implementation).__name__}",
                needed="what capture or capture_ranks returned",
            )  # fmt: skip
        joined_sizes((self.graph, *(program.graph for program in _programs(implementation))), "refine")
        document = job_document(self, implementation, inputs, outputs, assume)
        programs = _named(_with_unchanged(self, implementation), implementation)
        job = job_of(document, {name: program.graph for name, program in programs.items()}, "captured programs")
        graphs = {name: program.document for name, program in programs.items()}
        return replace(job, record={"job": document, "graphs": graphs})


def _named(specification: Program, implementation: Ranks | Program) -> dict[str, Program]:
    """The programs by the names that their job uses."""
    found = {"spec.json.gz": specification}
    for name, program in zip(_names(implementation), _programs(implementation), strict=True):
        found.setdefault(name, program)
    return found


def _names(implementation: Ranks | Program) -> tuple[str, ...]:
    """The name of every rank's program: ranks that run the same one share that of the first."""
    known: dict[str, str] = {}
    return tuple(
        known.setdefault(json.dumps({**program.document, "rank": None}), f"rank{rank}.json.gz")
        for rank, program in enumerate(_programs(implementation))
    )


def _programs(implementation: Ranks | Program) -> tuple[Program, ...]:
    return (implementation,) if isinstance(implementation, Program) else implementation.programs


def _with_unchanged(specification: Program, implementation: Ranks | Program) -> Program:
    """The specification with the state that it leaves as it is among its outputs, where a rank changes that state."""
    outputs = {output.name for output in specification.graph.outputs}
    inputs = [node.name for node in specification.graph.inputs]
    changed = {output.name for program in _programs(implementation) for output in program.graph.outputs}
    added = [name for name in inputs if f"new {name}" in changed - outputs]
    if not added:
        return specification
    graph = replace(
        specification.graph,
        outputs=(*specification.graph.outputs, *(Output(f"new {name}", name) for name in added)),
    )
    document = dict(specification.document)
    document["outputs"] = [*document["outputs"], *({"name": f"new {name}", "node": name} for name in added)]
    return replace(specification, graph=graph, document=document)


def save_job(
    folder: str | Path,
    specification: Program,
    implementation: Ranks | Program,
    *,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    assume: Mapping[str, Any] | None = None,
    partial: bool = False,
) -> Path:
    """Write the graphs and ``job.toml`` to a folder (made if need be); the path of the job. Ranks that run the same
    program have one file. Files appear whole or not at all; those of an earlier job are replaced. ``partial`` leaves
    out inputs whose place is not known, for ``tantamount suggest`` and an editor to complete, instead of raising
    :class:`UserError`."""
    document = job_document(specification, implementation, inputs, outputs, assume, partial=partial)
    target = Path(folder)
    make_folder(target)
    for name, program in _named(_with_unchanged(specification, implementation), implementation).items():
        write_document(target / name, program.document)
    write_file(target / "job.toml", tomli_w.dumps(document))
    return target / "job.toml"


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """A graph as ``fx-nodes/1``, compressed; equal graphs give equal files."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    write_file(path, gzip.compress(text.encode(), mtime=0))


@dataclass(frozen=True)
class Ranks:
    """The captured programs of all ranks. ``inputs`` and ``outputs`` are relations that the capture knows (those of
    DTensors), as a job writes them; a name may be missing."""

    programs: tuple[Program, ...]
    mesh: Mesh
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    outputs: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        """The mesh, and every distinct program under the ranks that run it."""
        axes = " x ".join(f"{axis} {size}" for axis, size in self.mesh.axes.items()) or "one device"
        runners: dict[str, list[int]] = {}
        for rank, name in enumerate(_names(self)):
            runners.setdefault(name, []).append(rank)
        plural = "" if len(runners) == 1 else "s"
        parts = [f"{len(self.programs)} ranks ({axes}), {len(runners)} distinct program{plural}"]
        for ranks in runners.values():
            parts.append(f"\nrank {_spans(ranks)}\n{self.programs[ranks[0]]}")
        return "\n".join(parts)


def _spans(numbers: Sequence[int]) -> str:
    """Ascending numbers as ``0-3, 6``."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def job_document(
    specification: Program,
    implementation: Ranks | Program,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    assume: Mapping[str, Any] | None = None,
    *,
    partial: bool = False,
) -> dict[str, Any]:
    """The job (as TOML would have it) that the implementation refines the specification.

    Relations come from ``inputs`` and ``outputs`` (names or patterns such as ``layers.*.qkv.weight``; values as a job
    writes them, or PyTorch's own ``Shard(1)``, one or one per mesh axis), else from what the capture recorded; an input
    that every rank has in the specification's shape is replicated, unless it is a buffer or a single whole number with
    other values. Gradients and new values of state lie as the state does, on every rank that computes with it; state
    that the specification leaves as it is must stay so. Raises :class:`UserError` that lists every input whose place is
    not known, and for state that some ranks leave as it was."""
    if isinstance(implementation, Program):
        implementation = Ranks((implementation,), Mesh())
    pair = _Pair(_with_unchanged(specification, implementation), implementation)
    chosen_inputs = pair.inputs(stated(inputs or {}, "inputs"), partial=partial)
    chosen_outputs = pair.outputs(stated(outputs or {}, "outputs"), chosen_inputs)
    document: dict[str, Any] = {
        "format": "job/1",
        "spec": {"graph": "spec.json.gz"},
        "impl": {
            "graphs": list(_names(implementation)),
            "mesh": dict(implementation.mesh.axes),
            "groups": {name: list(axes) for name, axes in implementation.mesh.groups.items()},
        },
        "inputs": chosen_inputs,
        "outputs": chosen_outputs,
    }
    if assume:
        document["assume"] = dict(assume)
    return document


@dataclass(frozen=True)
class _Pair:
    specification: Program
    implementation: Ranks

    def inputs(self, given: dict[str, Any], *, partial: bool) -> dict[str, Any]:
        wanted = {node.name: node.type for node in self.specification.graph.inputs if node.type is not None}
        _check_patterns(given, wanted, "inputs")
        found: dict[str, Any] = {}
        unknown: list[str] = []
        for name, type_ in wanted.items():
            relation = _match(given, name)
            other = "" if relation is not None else self._other_value(name)
            if relation is None and not other:
                relation = self._known(self.implementation.inputs, name, type_, self._rank_inputs())
            if relation is None:
                unknown.append(other or self._unknown(name, type_))
            else:
                found[name] = relation
        if unknown and not partial:
            more = f"; and {len(unknown) - 8} more" if len(unknown) > 8 else ""
            held = [name for name in self._rank_inputs()[0] if name not in wanted]
            extra = f". Rank 0 has {', '.join(held[:8])}, which the specification has not" if held else ""
            raise UserError(
                "capture-relation", place="refine",
                found="inputs whose place in the implementation is not known: " + "; ".join(unknown[:8]) + more + extra,
                needed='a relation for each, such as inputs={"layers.*.up.weight": "Shard(0)"}',
                hint="DTensor placements are read by themselves; plain tensors of another shape need a word",
            )  # fmt: skip
        return found

    def outputs(self, given: dict[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
        values = check_graph(self.specification.graph, None)
        wanted = {
            output.name: value.type
            for output in self.specification.graph.outputs
            if isinstance(value := values[output.node], Tensor)
        }
        _check_patterns(given, wanted, "outputs")
        ranks = self._rank_outputs()
        found: dict[str, Any] = {}
        for name, type_ in wanted.items():
            relation = _match(given, name)
            if relation is None:
                self._check_everywhere(name, ranks)
                relation = self._known(self.implementation.outputs, name, type_, ranks)
            if relation is None:
                relation = self._as_state(name, ranks, inputs)
            found[name] = "infer" if relation is None else relation
        return found

    def _check_everywhere(self, name: str, ranks: Sequence[Mapping[str, TensorType]]) -> None:
        """A gradient or new value of state must be left by every rank that computes with the state: what lacks it goes
        on with the old value."""
        label = self._counterpart(name, ranks)
        kind, _, state = (label or "").partition(" ")
        if label is None or kind not in _OF_STATE:
            return
        programs = self.implementation.programs
        lacking = [
            rank
            for rank, program in enumerate(programs)
            if label not in ranks[rank] and any(state in references(node) for node in program.graph.nodes)
        ]
        if lacking:
            raise UserError(
                "capture-relation", place=f"output {name}",
                found=f"none on rank {', '.join(map(str, lacking))}, which computes with {state}; others leave one",
                needed="one on every rank that uses it, or a relation in outputs that says which rank counts",
            )  # fmt: skip

    def _as_state(self, name: str, ranks: Sequence[Mapping[str, TensorType]], inputs: Mapping[str, Any]) -> Any:
        """The relation of a gradient or new value that ranks hold in the shape of the state itself: that of the state.
        What only *some* relation fits would hide a sum over ranks that is missing."""
        kind, _, state = name.partition(" ")
        relation = inputs.get(state)
        if kind not in _OF_STATE or relation is None or '"' in str(relation) or "Partial" in str(relation):
            return None
        table = cast("dict[str, Any]", relation if isinstance(relation, dict) else {})
        held = str(table.get("name", state))
        label = f"{kind} {held}"
        if any(tensors.get(label) != own.get(held) for tensors, own in zip(ranks, self._rank_inputs(), strict=True)):
            return None
        if table:
            return {**table, "name": label}
        return cast("Any", relation)

    def _other_value(self, name: str) -> str:
        """Says so where a buffer (or number) that no relation is known of holds other values on some rank."""
        label = self._counterpart(name, self._rank_inputs())
        if label is None or label in self.implementation.inputs:
            return ""
        wanted = self.specification.values.get(name)
        values = [program.values.get(label) for program in self.implementation.programs]
        expected = next((value for value in (wanted, *values) if value is not None), None)
        differing = [rank for rank, value in enumerate(values) if value not in (None, expected)]
        if not differing:
            return ""
        whose = "on rank 0" if wanted is None else "in the specification"
        return f"{name}, which holds other values on rank {differing[0]} than {whose}"

    def _known(
        self, recorded: Mapping[str, Any], name: str, type_: TensorType, ranks: Sequence[Mapping[str, TensorType]]
    ) -> Any:
        if name in recorded:
            return recorded[name]
        label = self._counterpart(name, ranks)
        if label is None:
            return None
        if label in recorded:
            relation = recorded[label]
            return relation if label == name else _renamed(relation, label)
        holders = [rank for rank, tensors in enumerate(ranks) if label in tensors]
        if any(ranks[rank][label].shape != type_.shape for rank in holders):
            return None
        if len(holders) == len(ranks):
            return "Replicate()" if label == name else {"name": label, "placement": "Replicate()"}
        terms = [f"rank({rank}, {_quoted(label)})" for rank in holders]
        relation = {"relation": terms[0]}
        return {**relation, "equal": [" == ".join(terms)]} if len(terms) > 1 else relation

    def _counterpart(self, name: str, ranks: Sequence[Mapping[str, TensorType]]) -> str | None:
        """The name under which ranks have the tensor: its own, or another name of a tied weight."""
        prefix, _, rest = name.rpartition(" ")
        names = [rest, *self.specification.aliases.get(rest, ())]
        for program in self.implementation.programs:
            names += [first for first, others in program.aliases.items() if rest in others]
        for candidate in names:
            label = f"{prefix} {candidate}".strip()
            if any(label in tensors for tensors in ranks):
                return label
        return None

    def _rank_inputs(self) -> list[dict[str, TensorType]]:
        return [
            {node.name: node.type for node in program.graph.inputs if node.type is not None}
            for program in self.implementation.programs
        ]

    def _rank_outputs(self) -> list[dict[str, TensorType]]:
        sizes = {group: self.implementation.mesh.group_size(group) for group in self.implementation.mesh.groups}
        found: list[dict[str, TensorType]] = []
        for program in self.implementation.programs:
            values = check_graph(program.graph, sizes)
            found.append(
                {
                    output.name: value.type
                    for output in program.graph.outputs
                    if isinstance(value := values[output.node], Tensor)
                }
            )
        return found

    def _unknown(self, name: str, type_: TensorType) -> str:
        ranks = self._rank_inputs()
        label = self._counterpart(name, ranks)
        if label is None:
            return f"{name}: {type_}, on no rank"
        local = next(tensors[label] for tensors in ranks if label in tensors)
        return f"{name}: {type_}, {list(local.shape)} on a rank"


_OF_STATE = ("grad", "new")  # how names of gradients and new values begin


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _renamed(relation: Any, label: str) -> Any:
    """A relation as a job writes it, about a tensor of another name."""
    if isinstance(relation, dict):
        return {"name": label, **cast("dict[str, Any]", relation)}
    return {"name": label, "placement": relation}


def _match(given: Mapping[str, Any], name: str) -> Any:
    """The relation given for a name: under the name itself, else under the first pattern that matches. In the ``name``
    of a relation a ``*`` stands for what the pattern's ``*`` matched: ``{"optimizer:*": {"name": "shard:*", ...}}``."""
    if name in given:
        return given[name]
    for pattern, relation in given.items():
        if fnmatchcase(name, pattern):
            table = cast("dict[str, Any]", relation if isinstance(relation, dict) else {})
            if "*" in str(table.get("name", "")):
                matched = re.fullmatch("(.*)".join(re.escape(part) for part in pattern.split("*")), name)
                renamed = str(table["name"])
                for part in matched.groups() if matched else ():
                    renamed = renamed.replace("*", part, 1)
                return {**table, "name": renamed}
            return cast("Any", relation)
    return None


def _check_patterns(given: Mapping[str, Any], wanted: Mapping[str, object], what: str) -> None:
    for pattern in given:
        if not any(name == pattern or fnmatchcase(name, pattern) for name in wanted):
            raise UserError(
                "capture-relation", place=f"{what}[{pattern!r}]", found="a pattern that matches nothing",
                needed=f"one of the specification's {what}: {', '.join(list(wanted)[:12])}",
            )  # fmt: skip
