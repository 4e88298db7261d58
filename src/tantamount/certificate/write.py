"""Writing the certificate of a proof."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tantamount.capture.job import read_job
from tantamount.certificate.digests import digest_of, digest_of_file
from tantamount.certificate.document import FORMAT, sealed
from tantamount.certificate.subject import declared_operators, graph_names, job_table
from tantamount.errors import InternalError, UserError
from tantamount.ir.job import Job
from tantamount.ir.relation import Expectation, Partial, Placement, Replicate, Shard
from tantamount.ir.relation_text import parse_relation
from tantamount.limits import Limits, limits_from_environment
from tantamount.ops.algebra import Tensor
from tantamount.ops.check import check_graph
from tantamount.verdict import Instance, OutputReport, Relation, Report
from tantamount.writing import write_file

__all__ = ["certificate_of", "save_certificate"]


def certificate_of(report: Report, job: Job | None, beside: Path | None = None) -> dict[str, Any]:
    """The certificate of a PROVED report on a job (format ``tantamount-certificate/1``). ``beside``: the folder that
    the job's path is relative to (default: the current one).

    Raises :class:`UserError` if nothing was proved, and if the job's files are no longer what they were."""
    if not report.proved or job is None:
        found = f"the verdict {report.verdict.value}" if job is not None else "a report without its job"
        raise UserError("certificate-verdict", place=report.job, found=found, needed="the verdict PROVED")
    if job.approximations:
        raise UserError(
            "job-approximate", place=report.job, found="a verdict up to approximations",
            needed="a job without any: a certificate says what is proved of the programs that run",
        )  # fmt: skip
    if job.at is not None:
        raise UserError(
            "certificate-sizes", place=report.job, found="a job with size symbols", needed="sizes that are numbers",
            hint="a certificate is checked by execution, at the sizes that its job has",
        )  # fmt: skip
    limits = limits_from_environment()
    source = _embedded(job) if job.record is not None else _files(job, beside or Path(), limits)
    tensors = [name for name, value in check_graph(job.specification, None).items() if isinstance(value, Tensor)]
    relations = {relation.tensor: _entry(relation) for relation in report.relations}
    return sealed(
        {
            "format": FORMAT,
            "made_by": f"tantamount {version('tantamount')}",
            "verdict": report.verdict.value,
            **source,
            "operators": declared_operators(job),
            "outputs": [_output(job, output) for output in report.outputs],
            "outputs_total": report.outputs_total,
            "relations": [{"tensor": name, "relation": relations[name]} for name in tensors if name in relations],
            "unrelated": [name for name in tensors if name not in relations],
            "assumptions": [{"name": a.name, "text": a.text, "places": list(a.places)} for a in report.assumptions],
            "lemmas": [_instance(instance) for instance in report.lemmas],
        }
    )


def save_certificate(report: Report, job: Job | None, path: Path) -> None:
    """Write the certificate, whole or not at all. Raises :class:`UserError` as :func:`certificate_of`."""
    write_file(path, json.dumps(certificate_of(report, job, path.parent), indent=1) + "\n")


# ---------------------------------------------------------------------------------------------- what it is about
def _files(job: Job, beside: Path, limits: Limits) -> dict[str, Any]:
    """The hashes of the job's files, which must still be what was proved."""
    path = Path(job.path)
    digest, table = digest_of_file(path, limits), job_table(path, limits)
    graphs = {name: {"sha256": digest_of_file(path.parent / name, limits)} for name in graph_names(table)}
    if read_job(path, allow_outside=True, limits=limits) != job:
        raise UserError(
            "certificate-changed", place=job.path, found="a job or graphs that are not those of the proof",
            needed="files that have not changed since they were read",
        )  # fmt: skip
    return {"job": {"path": os.path.relpath(path, beside), "sha256": digest}, "graphs": graphs}


def _embedded(job: Job) -> dict[str, Any]:
    record: Mapping[str, Any] = job.record or {}
    graphs = {name: {"sha256": digest_of(content), "document": content} for name, content in record["graphs"].items()}
    return {"job": {"document": record["job"], "sha256": digest_of(record["job"])}, "graphs": graphs}


def _instance(instance: Instance) -> dict[str, Any]:
    inputs, nodes = instance.specification
    held, calls = instance.implementation
    return {
        "lemma": instance.lemma,
        "specification": {"inputs": [*inputs], "nodes": [*nodes], "equal": dict(instance.equal)},
        "implementation": {"inputs": [*held], "nodes": [*calls]},
        "gives": [{"tensor": relation.tensor, "relation": _entry(relation)} for relation in instance.gives],
    }


# ---------------------------------------------------------------------------------------------- relations
def _output(job: Job, output: OutputReport) -> dict[str, Any]:
    asked = job.outputs[output.name]
    if not asked.infer:
        relation: Any = _expected(asked)
    elif output.relation is not None:
        relation = _entry(output.relation)
    else:
        raise InternalError(f"the output {output.name} is proved without a relation")
    return {"tensor": output.name, "expectation": asked.text, "relation": relation}


def _expected(asked: Expectation) -> dict[str, Any]:
    out: dict[str, Any] = {"name": asked.name}
    if asked.placements is not None:
        out["placement"] = _placements(asked.placements)
    else:
        out["relation"] = str(asked.expression)
    if asked.equal:
        out["equal"] = [f"{a} == {b}" for a, b in asked.equal]
    return out


def _placements(placements: Sequence[Placement]) -> str | list[str]:
    texts = [str(p) for p in placements]
    return texts if len(texts) > 1 else texts[0] if texts else "Replicate()"


def _entry(relation: Relation) -> dict[str, Any]:
    """The relation in the language of jobs."""
    text = relation.exact or relation.expression
    name = {"name": relation.implementation} if relation.implementation else {}
    if text.startswith("["):
        return {**name, "placement": text[1:-1].split(", ")}
    read = parse_relation(text, f"relation of {relation.tensor}", Limits())
    if isinstance(read, (Replicate, Shard, Partial)):
        return {**name, "placement": str(read)}
    return {**name, "relation": text}
