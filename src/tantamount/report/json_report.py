"""The report as JSON, schema ``tantamount-report/1`` (docs/report-json.md)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tantamount.errors import InternalError
from tantamount.ir.graph import Source
from tantamount.report.outcomes import INTERNAL, USAGE, Failure
from tantamount.verdict import (
    Counterexample,
    Elementwise,
    LimitHit,
    Mismatch,
    OutputReport,
    Relation,
    Report,
    Statistics,
)

__all__ = ["SCHEMA", "as_document", "as_error", "as_job", "as_text"]

SCHEMA = "tantamount-report/1"


def as_document(jobs: Sequence[Mapping[str, Any]], *, exit_code: int, version: str) -> dict[str, Any]:
    """The whole file: one entry of :func:`as_job` or :func:`as_error` per job, in the order of the command line."""
    tool = {"name": "tantamount", "version": version}
    return {"schema": SCHEMA, "tool": tool, "exit_code": exit_code, "jobs": [dict(job) for job in jobs]}


def as_job(report: Report) -> dict[str, Any]:
    """The entry of a job that has a verdict."""
    return {
        "job": report.job,
        "verdict": report.verdict.value,
        "exit_code": report.exit_code,
        "outputs_checked": len(report.outputs),
        "outputs_total": report.outputs_total,
        "not_compared": list(report.not_compared),
        "outputs": [_output(output) for output in report.outputs],
        "assumptions": [{"name": one.name, "text": one.text, "places": list(one.places)} for one in report.assumptions],
        "refused": list(report.refused),
        "mismatch": _mismatch(report.mismatch) if report.mismatch is not None else None,
        "counterexample": _counterexample(report.counterexample) if report.counterexample is not None else None,
        "relations": [_relation(relation) for relation in report.relations],
        "notes": list(report.notes),
        "limits": [_limit(hit) for hit in report.limits],
        "stopped": report.stopped,
        "statistics": _statistics(report.statistics),
        "engine": "calculus" if report.elementwise is None else "smt",
        "elementwise": None if report.elementwise is None else _elementwise(report.elementwise),
    }


def as_error(failed: Failure) -> dict[str, Any]:
    """The entry of a job without a verdict: the input was wrong (exit code 2), or we were (4), or the machine gave out
    (5)."""
    if failed.exit_code != INTERNAL:
        error = {
            "kind": "user" if failed.exit_code == USAGE else "environment",
            "code": failed.code,
            "place": failed.place,
            "found": failed.found,
            "needed": failed.needed,
            "hint": failed.hint,
        }
    else:
        kind, _, text = failed.found.partition(": ")
        error = {"kind": "internal", "type": kind, "text": text}
    return {"job": failed.job, "exit_code": failed.exit_code, "error": error}


def as_text(document: Mapping[str, Any]) -> str:
    """The document as indented JSON text with a final newline."""
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _value(value: object) -> Any:
    """Numbers and nested lists as JSON; what JSON has no number for as in graph files (``{"float": "inf"}``)."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, complex):
        return {"complex": [_value(value.real), _value(value.imag)]}
    if isinstance(value, (list, tuple)):
        return [_value(item) for item in cast(Sequence[object], value)]
    raise InternalError(f"a value of type {type(value).__name__} in a report")


def _source(source: Source | None) -> dict[str, Any] | None:
    if source is None:
        return None
    return {"file": source.file, "line": source.line, "function": source.function, "text": source.text}


def _relation(relation: Relation) -> dict[str, Any]:
    return {
        "tensor": relation.tensor,
        "expression": relation.expression,
        "implementation": relation.implementation,
        "source": _source(relation.source),
    }


def _output(output: OutputReport) -> dict[str, Any]:
    return {
        "name": output.name,
        "verdict": output.verdict.value,
        "expectation": output.expectation,
        "relation": _relation(output.relation) if output.relation is not None else None,
        "reason": output.reason,
        "notes": list(output.notes),
    }


def _mismatch(mismatch: Mismatch) -> dict[str, Any]:
    near: dict[str, Any] | None = None
    if mismatch.implementation:
        near = {
            "node": mismatch.implementation,
            "operator": mismatch.implementation_operator,
            "rank": mismatch.rank,
            "source": _source(mismatch.implementation_source),
        }
    return {
        "specification": {
            "node": mismatch.specification,
            "operator": mismatch.operator,
            "source": _source(mismatch.specification_source),
        },
        "implementation": near,
        "difference": mismatch.difference,
        "equations": list(mismatch.equations),
        "headline": mismatch.headline,
        "hint": mismatch.hint,
        "kind": mismatch.kind,
    }


def _counterexample(found: Counterexample) -> dict[str, Any]:
    return {
        "output": found.output,
        "element": list(found.element),
        "expected": _value(found.expected),
        "actual": _value(found.actual),
        "rank": found.rank,
        "seed": found.seed,
        "sizes": {str(old): list(new) for old, new in found.sizes.items()},
        "inputs": {name: _value(value) for name, value in found.inputs.items()},
    }


def _limit(hit: LimitHit) -> dict[str, Any]:
    return {"name": hit.name, "allowed": hit.allowed, "needed": hit.needed, "count": hit.count}


def _elementwise(found: Elementwise) -> dict[str, Any]:
    return {
        "sizes": {str(old): list(new) for old, new in found.sizes.items()},
        "unreduced": found.unreduced,
        "elements": found.elements,
        "by_expression": found.by_expression,
        "by_solver": found.by_solver,
        "undecided": found.undecided,
        "stages": [{"rank": rank, "node": node, "elements": count} for rank, node, count in found.stages],
        "questions": found.questions,
        "renamed": found.renamed,
        "terms": found.terms,
        "conditions": [
            {"size": one.size, "condition": one.condition, "broken": list(one.broken)} for one in found.conditions
        ],
    }


def _statistics(found: Statistics) -> dict[str, Any]:
    return {
        "specification_nodes": found.specification_nodes,
        "implementation_nodes": found.implementation_nodes,
        "ranks": found.ranks,
        "folded": found.folded,
        "atoms": found.atoms,
        "terms": found.terms,
        "seconds": dict(found.seconds),
        "peak_memory_bytes": found.peak_memory_bytes,
        "classes": found.classes,
        "rules": dict(found.rules),
    }
