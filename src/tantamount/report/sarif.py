"""The result as SARIF 2.1.0 (OASIS, 2020), for code review: one result for every job that is not proved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import quote

from tantamount.report.annotations import Annotation, annotate
from tantamount.report.lines import printable, printable_rows
from tantamount.report.outcomes import ENVIRONMENT, INTERNAL, Outcome, worst_exit
from tantamount.report.places import Location
from tantamount.verdict import DIFFERENCES

__all__ = ["as_text"]

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_BASE = "SRCROOT"

# Kinds of differences and verdicts, as rules. What is not here is a rule without a description of its own.
_RULES = {
    **DIFFERENCES,
    "refuted": "The implementation does not refine the specification",
    "unknown": "Neither a proof nor a counterexample was found",
    "vacuous": "Nothing was checked",
    "equal-at-reduced-shapes": "The second engine found every element equal at small sizes, which proves nothing",
}
_OTHERS = "A job, a graph or an option is wrong"


def as_text(outcomes: Sequence[Outcome], root: Path, version: str) -> str:
    """The whole file. Paths are relative to ``root`` (``originalUriBaseIds``) where the files are in it; the primary
    place of a result is the implementation's, related ones are the specification's and the job's."""
    annotations = [*annotate(outcomes, root)]
    rules = sorted({one.rule for one in annotations})
    code = worst_exit(outcome.exit_code for outcome in outcomes)
    run = {
        "tool": {"driver": {"name": "Tantamount", "version": version, "rules": [_rule(rule) for rule in rules]}},
        "invocations": [{"executionSuccessful": code not in (INTERNAL, ENVIRONMENT), "exitCode": code}],
        "originalUriBaseIds": {_BASE: {"uri": root.as_uri().rstrip("/") + "/"}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, rules.index(one.rule)) for one in annotations],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(rule: str) -> dict[str, Any]:
    text = {"text": f"{_RULES.get(rule, _OTHERS)}."}
    return {"id": rule, "shortDescription": text, "fullDescription": text, "help": text}


def _result(one: Annotation, rule: int) -> dict[str, Any]:
    links = "".join(f"\n{label}: [{place}]({number})" for number, (label, place) in enumerate(_shown(one), 1))
    # the same remark has the same fingerprint in every run, whatever its line and the values of its counterexample
    identity = "\n".join((one.job, one.rule, one.location.path)).encode(errors="backslashreplace")
    return {
        "ruleId": one.rule,
        "ruleIndex": rule,
        "level": "error" if one.error else "warning",
        "message": {"text": _message(f"{one.headline}\n{one.text}") + links},
        "locations": [_location(one.location)],
        "relatedLocations": [
            {"id": number, **_location(place), "message": {"text": _message(label)}}
            for number, (label, place) in enumerate(one.related, 1)
        ],
        "partialFingerprints": {"tantamount/v1": hashlib.sha256(identity).hexdigest()},
    }


def _shown(one: Annotation) -> list[tuple[str, str]]:
    """Labels and places as texts of links; a bracket would end them."""
    return [(_message(label), printable(str(place)).translate(_BRACKETS)) for label, place in one.related]


_BRACKETS = str.maketrans({"[": r"\[", "]": r"\]", "\\": r"\\"})


def _message(text: str) -> str:
    """Plain text in which nothing is taken for a link."""
    return printable_rows(text).replace("](", "] (")


def _location(place: Location) -> dict[str, Any]:
    artifact = {"uri": _uri(place.path)}
    if ":" not in artifact["uri"]:
        artifact["uriBaseId"] = _BASE
    return {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": max(place.line, 1)}}}


def _uri(path: str) -> str:
    """A path with slashes as a URI: absolute ones with the scheme ``file``."""
    if PurePosixPath(path).is_absolute():
        return "file://" + quote(path, errors="backslashreplace")
    if PureWindowsPath(path).is_absolute():
        return "file:///" + quote(path, safe="/:", errors="backslashreplace")
    return quote(path, errors="backslashreplace")
