"""Certificates as files of format ``tantamount-certificate/1`` (docs/certificates.md): JSON, read with distrust."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tantamount.capture.documents import parse_json
from tantamount.capture.fields import Fields, Place, shown
from tantamount.capture.files import read_text
from tantamount.certificate.digests import digest_of
from tantamount.limits import Limits
from tantamount.verdict import Assumption

__all__ = ["FORMAT", "Certificate", "Claimed", "read_certificate", "sealed"]

FORMAT = "tantamount-certificate/1"
_TOP = (
    "format", "made_by", "verdict", "job", "graphs", "operators", "outputs", "outputs_total", "relations", "unrelated",
    "assumptions", "lemmas", "sha256",
)  # fmt: skip
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Claimed:
    """That a tensor of the specification is made of the implementation's in the way that ``relation`` says: an entry of
    a job's [outputs]. ``expectation``, of an output: what the job asked for."""

    tensor: str
    relation: Any
    expectation: str = ""


@dataclass(frozen=True)
class ClaimedInstance:
    """That a piece of both programs is an instance of a lemma: of each side the names of what it reads, and of its
    nodes. ``equal``: tensors of the specification, each of which equals another one; ``gives``: what it hands on."""

    lemma: int
    specification: tuple[tuple[str, ...], tuple[str, ...]]
    implementation: tuple[tuple[str, ...], tuple[str, ...]]
    equal: Mapping[str, str]
    gives: tuple[Claimed, ...]


@dataclass(frozen=True)
class Certificate:
    """The claims of a certificate file. ``job_path`` is relative to the certificate (empty: ``job`` is the job itself);
    ``graphs`` are hashes by the names that the job uses, ``documents`` the graphs themselves where they are embedded;
    ``operators`` those that were declared in Python, which the checker must be given as well. ``digest``: the hash of
    the content; ``intact``: whether the file says the same."""

    path: str
    job_path: str
    job: Mapping[str, Any] | None
    job_digest: str
    graphs: Mapping[str, str]
    documents: Mapping[str, Any]
    operators: tuple[str, ...]
    outputs: tuple[Claimed, ...]
    outputs_total: int
    relations: tuple[Claimed, ...]
    unrelated: tuple[str, ...]
    assumptions: tuple[Assumption, ...]
    instances: tuple[ClaimedInstance, ...]
    digest: str
    intact: bool


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with its own hash."""
    return {**content, "sha256": digest_of({key: value for key, value in content.items() if key != "sha256"})}


def read_certificate(path: Path, limits: Limits) -> Certificate:
    """The certificate in a file. Raises :class:`UserError` for everything that is not as the format says."""
    place = Place("certificate", str(path), limits)
    content: Any = parse_json(read_text(path, limits), place)
    top = Fields.of(content, place, _TOP, _TOP)
    if top.get("format") != FORMAT:
        raise top.at("format").wrong(shown(top.get("format")), f'"{FORMAT}"', code="format")
    if top.get("verdict") != "PROVED":
        raise top.at("verdict").wrong(shown(top.get("verdict")), '"PROVED": nothing else is certified')
    top.at("made_by").string(top.get("made_by"))
    job = Fields.of(top.get("job"), top.at("job"), ("path", "document", "sha256"), ("sha256",))
    if ("path" in job) == ("document" in job):
        raise job.place.wrong("both or neither of `path` and `document`", "one of them")
    graphs: dict[str, str] = {}
    documents: dict[str, Any] = {}
    for name, value in top.at("graphs").table(top.get("graphs")).items():
        fields = Fields.of(value, top.at("graphs").at(shown(name)), ("sha256", "document"), ("sha256",))
        graphs[name] = _digest(fields)
        if "document" in fields:
            documents[name] = fields.get("document")
    digest = _own_digest(cast("dict[str, Any]", content), place)
    return Certificate(
        str(path),
        job.at("path").name(job.get("path")) if "path" in job else "",
        job.at("document").table(job.get("document")) if "document" in job else None,
        _digest(job),
        graphs,
        documents,
        _names(top, "operators"),
        tuple(_claimed(top, "outputs", ("tensor", "relation", "expectation"))),
        top.at("outputs_total").integer(top.get("outputs_total"), 0, 1 << 40, "a number of outputs"),
        tuple(_claimed(top, "relations", ("tensor", "relation"))),
        _names(top, "unrelated"),
        tuple(_assumptions(top)),
        tuple(_instances(top)),
        digest,
        digest == _digest(top),
    )


def _own_digest(content: dict[str, Any], place: Place) -> str:
    try:
        return sealed(content)["sha256"]
    except RecursionError:
        raise place.limits.exceeded("nesting", "JSON nested too deeply to hash", place.text) from None


def _digest(fields: Fields) -> str:
    text = fields.at("sha256").string(fields.get("sha256"))
    if len(text) != 64 or not set(text) <= _HEX:
        raise fields.at("sha256").wrong(shown(text), "64 hexadecimal digits")
    return text


def _names(top: Fields, key: str) -> tuple[str, ...]:
    place = top.at(key)
    return tuple(place.name(item) for item in place.list(top.get(key)))


def _instances(top: Fields) -> list[ClaimedInstance]:
    place = top.at("lemmas")
    entries = place.list(top.get("lemmas"))
    place.limits.check("nodes", len(entries), place.text, "instances of lemmas")
    keys = ("lemma", "specification", "implementation", "gives")
    found: list[ClaimedInstance] = []
    for number, entry in enumerate(entries):
        fields = Fields.of(entry, place.at(str(number)), keys, keys)
        known = ("inputs", "nodes")
        ours = Fields.of(fields.get("specification"), fields.at("specification"), (*known, "equal"), (*known, "equal"))
        theirs = Fields.of(fields.get("implementation"), fields.at("implementation"), known, known)
        equal = ours.at("equal").table(ours.get("equal"))
        found.append(
            ClaimedInstance(
                fields.at("lemma").integer(fields.get("lemma"), 0, number, "the number of a lemma"),
                (_names(ours, "inputs"), _names(ours, "nodes")),
                (_names(theirs, "inputs"), _names(theirs, "nodes")),
                {name: ours.at("equal").name(other) for name, other in equal.items()},
                tuple(_claimed(fields, "gives", ("tensor", "relation"), once=False)),
            )
        )
    return found


def _claimed(top: Fields, key: str, known: tuple[str, ...], once: bool = True) -> list[Claimed]:
    place = top.at(key)
    entries = place.list(top.get(key))
    place.limits.check("nodes", len(entries), place.text, "relations")
    found: list[Claimed] = []
    for number, entry in enumerate(entries):
        fields = Fields.of(entry, place.at(str(number)), known, known)
        expectation = fields.at("expectation").string(fields.get("expectation")) if "expectation" in fields else ""
        found.append(Claimed(fields.at("tensor").name(fields.get("tensor")), fields.get("relation"), expectation))
    names = [claimed.tensor for claimed in found]
    if once and len(set(names)) < len(names):
        raise place.wrong("a tensor twice", "one relation for each tensor")
    return found


def _assumptions(top: Fields) -> list[Assumption]:
    place = top.at("assumptions")
    found: list[Assumption] = []
    for number, entry in enumerate(place.list(top.get("assumptions"))):
        fields = Fields.of(entry, place.at(str(number)), ("name", "text", "places"), ("name", "text", "places"))
        at = fields.at("places")
        places = tuple(at.string(item) for item in at.list(fields.get("places")))
        name, text = (fields.at(key).string(fields.get(key)) for key in ("name", "text"))
        found.append(Assumption(name, text, places))
    return found
