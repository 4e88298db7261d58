"""The subject that a certificate is about: its job and its graphs as they are now, and every claim as an expectation of
a job."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from tantamount.capture.fields import Place
from tantamount.capture.files import read_text
from tantamount.capture.fx_json import parse_graph
from tantamount.capture.job import job_of, read_job
from tantamount.capture.relations import Side, read_expectation
from tantamount.certificate.digests import digest_of, digest_of_file
from tantamount.certificate.document import Certificate, Claimed
from tantamount.certificate.lemmas import replay
from tantamount.errors import UserError
from tantamount.ir.graph import Graph, Output
from tantamount.ir.job import Job
from tantamount.ir.relation import Expectation, RankTensor, with_tensors
from tantamount.ir.types import TensorType
from tantamount.limits import Limits
from tantamount.ops.algebra import Tensor
from tantamount.ops.calls import operator_of
from tantamount.ops.check import check_graph
from tantamount.ops.declare import DECLARED

__all__ = ["Claims", "NODE", "Subject", "declared_operators", "graph_names", "job_table", "open_subject", "read_claims"]

NODE = "%"  # before the name of a node that becomes an output, so that it is checked like one


@dataclass(frozen=True)
class Subject:
    """The job, what does not agree with the certificate (one sentence each), and the path of the job."""

    job: Job
    changed: tuple[str, ...]
    path: str


@dataclass(frozen=True)
class Claims:
    """A job of which every claim is an expectation. ``outputs``, ``relations`` and ``lemmas`` (with the sentences that
    say of what) are names of its outputs; ``wrong`` says which claims are none, one sentence each; ``tensors``: all of
    the specification's, by node."""

    job: Job
    outputs: tuple[str, ...]
    relations: tuple[str, ...]
    tensors: tuple[str, ...]
    wrong: tuple[str, ...]
    lemmas: Mapping[str, str]


def open_subject(certificate: Certificate, job: Path | None, allow_outside: bool, limits: Limits) -> Subject:
    """The job of a certificate: ``job`` if given, else the one that it names or has. Raises :class:`UserError`."""
    if certificate.job is not None and job is None:
        return _embedded(certificate, limits)
    path = _path(certificate, job, allow_outside)
    read = read_job(path, allow_outside=allow_outside, limits=limits)
    if read.approximations:  # what is executed here would be their strict forms
        needed = "a job without approximations: a certificate says what is proved of the programs that run"
        raise UserError("job-approximate", place=str(path), found="a table [approximate]", needed=needed)
    changed = [] if digest_of_file(path, limits) == certificate.job_digest else [f"{path} is another job"]
    names = graph_names(job_table(path, limits))
    if set(names) != set(certificate.graphs):
        changed.append(f"the job has the graphs {', '.join(names)}, the certificate {', '.join(certificate.graphs)}")
    for name in names:
        if name in certificate.graphs and digest_of_file(path.parent / name, limits) != certificate.graphs[name]:
            changed.append(f"{path.parent / name} is another graph")
    return Subject(read, tuple(changed), str(path))


def declared_operators(job: Job) -> list[str]:
    """The operators of a job's graphs that were declared in Python."""
    found: dict[str, None] = {}
    for graph in {id(graph): graph for graph in (job.specification, *job.implementation)}.values():
        for node in graph.nodes:
            if node.op == "call" and node.target != "getitem" and node.target not in graph.operators:
                row = operator_of(graph, node)
                if row.category == DECLARED:
                    found.setdefault(row.name)
    return sorted(found)


def _path(certificate: Certificate, job: Path | None, allow_outside: bool) -> Path:
    if job is not None:
        return job
    folder = Path(certificate.path).parent
    path = folder / certificate.job_path
    try:
        outside = not path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError) as problem:
        raise UserError(
            "certificate-job", place=certificate.path, found=f"{certificate.job_path} ({problem})", needed="a path"
        ) from None
    if outside and not allow_outside:
        raise UserError(
            "certificate-job", place=certificate.path, found=f"the job {certificate.job_path}, outside its folder",
            needed="the job of the certificate", hint="say where the job is: --job JOB",
        )  # fmt: skip
    return path


def _embedded(certificate: Certificate, limits: Limits) -> Subject:
    document = dict(certificate.job or {})
    changed = [] if digest_of(document) == certificate.job_digest else ["the job in the certificate is another one"]
    graphs: dict[str, Graph] = {}
    for name, digest in certificate.graphs.items():
        if name not in certificate.documents:
            raise UserError(
                "certificate-graph", place=f"{certificate.path}: graphs: {name}", found="a hash", needed="the graph"
            )
        content = certificate.documents[name]
        if digest_of(content) != digest:
            changed.append(f"the graph {name} in the certificate is another one")
        graphs[name] = parse_graph(json.dumps(content), f"{certificate.path}: {name}", limits)
    if set(graph_names(document)) != set(graphs):
        changed.append(f"the job has the graphs {', '.join(graph_names(document))}, there are {', '.join(graphs)}")
    return Subject(job_of(document, graphs, certificate.path), tuple(changed), certificate.path)


def job_table(path: Path, limits: Limits) -> dict[str, Any]:
    """The table of a job file that was read before."""
    return tomllib.loads(read_text(path, limits))


def graph_names(document: Mapping[str, Any]) -> list[str]:
    """The graphs that a job (which was read before) names, once each."""
    implementation = cast("Mapping[str, Any]", document["impl"])
    given = implementation["graphs"] if "graphs" in implementation else [implementation["graph"]]
    return list(dict.fromkeys([str(document["spec"]["graph"]), *map(str, given)]))


# ---------------------------------------------------------------------------------------------- claims
def read_claims(certificate: Certificate, job: Job, limits: Limits) -> Claims:
    """Every claim of a certificate about this job, as an expectation. Raises :class:`UserError` for relations that are
    none; one that does not fit its tensors is wrong."""
    groups = {name: job.mesh.group_size(name) for name in job.mesh.groups}
    whole = _types(job.specification, None)
    of_graph = {id(graph): _types(graph, groups) for graph in job.implementation}
    types = [of_graph[id(graph)] for graph in job.implementation]
    outputs = [
        {o.name: found[o.node] for o in g.outputs if o.node in found}
        for g, found in zip(job.implementation, types, strict=True)
    ]
    nodes = {output.name: output.node for output in job.specification.outputs}
    place = Place("job", certificate.path, limits)  # relations are those of jobs, and so are their errors
    wrong: list[str] = []
    expected: dict[str, Expectation] = {}

    def read(claimed: Claimed, type_: TensorType | None, side: Side) -> Expectation | None:
        at = place.at(claimed.tensor)
        if claimed.relation == "infer":
            raise at.wrong('"infer"', "a relation")
        try:
            found = read_expectation(claimed.tensor, type_, claimed.relation, at, side)
        except UserError as problem:
            if problem.code.endswith(("unknown-output", "unknown-rank")):
                wrong.append(f"{claimed.tensor}: {problem.found}")
                return None
            raise
        if found.problem:
            wrong.append(f"{claimed.tensor} = {found.text} does not fit: {found.problem}")
            return None
        return found

    side = Side("output", outputs, job.implementation, job.mesh)
    for claimed in certificate.outputs:
        asked = job.outputs.get(claimed.tensor)
        if asked is None:
            wrong.append(f"{claimed.tensor} is no output that the job checks")
        elif claimed.expectation != asked.text:
            wrong.append(f"the job asks for {claimed.tensor} = {asked.text}, the certificate for {claimed.expectation}")
        else:
            found = read(claimed, whole.get(nodes[claimed.tensor]), side)
            if found is not None and not asked.infer and not _same(found, asked):
                wrong.append(
                    f"the job asks for {claimed.tensor} = {asked.text} of {asked.name}, the certificate says otherwise"
                )
            if found is not None:
                expected[claimed.tensor] = found if asked.infer else asked
    missing = [name for name in job.outputs if name not in {claimed.tensor for claimed in certificate.outputs}]
    wrong += [f"nothing about the output {name}" for name in missing]
    if certificate.outputs_total != len(job.specification.outputs):
        wrong.append(f"{len(job.specification.outputs)} outputs, the certificate says {certificate.outputs_total}")
    relations: dict[str, Expectation] = {}
    side = Side("output", types, job.implementation, job.mesh)
    for claimed in certificate.relations:
        if claimed.tensor not in whole:
            wrong.append(f"{claimed.tensor} is no tensor of the specification")
            continue
        found = read(claimed, whole[claimed.tensor], side)
        if found is not None:
            relations[claimed.tensor] = found
    named = [claimed.tensor for claimed in certificate.relations] + [*certificate.unrelated]
    if sorted(named) != sorted(whole):
        strange = sorted(set(named) ^ set(whole))
        wrong.append(
            f"relations and unrelated tensors are not the specification's tensors, once each: {', '.join(strange[:5])}"
        )
    gives: dict[tuple[int, int], Expectation] = {}
    lemmas: dict[str, str] = {}
    claims = {NODE + name: (name, relation) for name, relation in relations.items()}

    def claim(what: str, claimed: Claimed) -> Expectation | None:
        found = read(claimed, whole[claimed.tensor], side) if claimed.tensor in whole else None
        if found is None or found.placements is None:
            wrong.append(f"{what} is no placement of a tensor of the implementation")
            return None
        key = f"{NODE}{len(lemmas)}{NODE}{claimed.tensor}"
        lemmas[key], claims[key] = what, (claimed.tensor, found)
        return found

    for i, instance in enumerate(certificate.instances):
        for k, claimed in enumerate(instance.gives):
            found = claim(f"what instance {i} of the lemmas gives of {claimed.tensor}", claimed)
            if found is not None:
                gives[i, k] = found
    problems, equal = replay(job, certificate.instances, gives)
    wrong += problems
    for one in equal:
        claim(one.what, one.claimed)
    return Claims(
        _extended(job, expected, claims),
        tuple(expected),
        tuple(NODE + name for name in relations),
        tuple(whole),
        tuple(wrong),
        lemmas,
    )


def _same(a: Expectation, b: Expectation) -> bool:
    return (a.name, a.placements, a.expression, a.equal) == (b.name, b.placements, b.expression, b.equal)


def _types(graph: Graph, groups: Mapping[str, int] | None) -> dict[str, TensorType]:
    values = check_graph(graph, groups)
    return {name: value.type.stored for name, value in values.items() if isinstance(value, Tensor)}


def _extended(job: Job, outputs: Mapping[str, Expectation], relations: Mapping[str, tuple[str, Expectation]]) -> Job:
    """The job with a further output for every claim about a tensor, by the name of that output."""
    used: dict[int, dict[str, None]] = {}

    def use(term: RankTensor, name: str) -> RankTensor:
        node = term.name or name
        used.setdefault(id(job.implementation[term.rank]), {}).setdefault(node)
        return RankTensor(term.rank, NODE + node)

    expected = dict(outputs)
    for output, (_, relation) in relations.items():
        expression = (
            None
            if relation.expression is None
            else with_tensors(relation.expression, lambda t, n=relation.name: use(t, n))
        )
        a, b = (
            tuple(with_tensors(pair[k], lambda t, n=relation.name: use(t, n)) for pair in relation.equal)
            for k in range(2)
        )
        equal = tuple(zip(a, b, strict=True))
        if relation.placements is not None:
            for rank in range(len(job.implementation)):
                use(RankTensor(rank), relation.name)
        expected[output] = replace(relation, name=NODE + relation.name, expression=expression, equal=equal)
    done: dict[int, Graph] = {}
    for graph in job.implementation:
        if id(graph) not in done:
            done[id(graph)] = _with_outputs(graph, {NODE + node: node for node in used.get(id(graph), ())})
    return replace(
        job,
        specification=_with_outputs(job.specification, {output: tensor for output, (tensor, _) in relations.items()}),
        implementation=tuple(done[id(graph)] for graph in job.implementation),
        outputs=expected,
    )


def _with_outputs(graph: Graph, nodes: Mapping[str, str]) -> Graph:
    return replace(graph, outputs=(*graph.outputs, *(Output(name, node) for name, node in nodes.items())))
