"""Certificates and what is wrong with corrupted ones: of bytes, and of meaning with every hash computed anew."""

from __future__ import annotations

import gzip
import json
import random
import shutil
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from tantamount import read_job
from tantamount.answers import refine
from tantamount.certificate.check import Checked, check_certificate
from tantamount.certificate.digests import digest_of_file
from tantamount.certificate.document import sealed
from tantamount.correspond.alignment import align
from tantamount.errors import UserError
from tantamount.limits import Limits
from tantamount.proof import Options, prove
from tantamount.proof.outputs import check_outputs
from tantamount.semantics.interpret import interpret, random_inputs
from tantamount.semantics.survey import index_bounds
from tantamount.verdict import Verdict

__all__ = [
    "Corrupted",
    "Kept",
    "checked",
    "checked_for",
    "keep",
    "of_bytes",
    "of_meaning",
    "rejected",
    "reseal",
    "verify",
]


@dataclass(frozen=True)
class Kept:
    """A proved job in a folder of its own, with its certificate."""

    name: str
    job: Path
    certificate: Path

    @property
    def content(self) -> dict[str, Any]:
        return json.loads(self.certificate.read_text())

    @property
    def graphs(self) -> list[Path]:
        return [self.job.parent / name for name in self.content["graphs"]]


@dataclass(frozen=True)
class Corrupted:
    """What was done, and the files that came of it."""

    what: str
    kept: Kept


def keep(job: Path, folder: Path) -> Kept | None:
    """The job copied and proved; ``None`` if it is not PROVED."""
    report = refine(read_job(job))
    if report.verdict is not Verdict.PROVED:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    for path in job.parent.iterdir():
        if path.is_file() and path.name.endswith((".toml", ".json", ".json.gz", ".hlo", ".hlo.gz")):
            shutil.copy(path, folder / path.name)
    kept = Kept(f"{job.parent.name}/{job.stem}", folder / job.name, folder / "certificate.json")
    refine(read_job(kept.job)).save_certificate(kept.certificate)
    return kept


def verify(kept: Kept) -> Checked:
    return check_certificate(kept.certificate)


def rejected(kept: Kept) -> str:
    """Why the certificate is rejected; empty if it is accepted or only not checked."""
    try:
        found = verify(kept)
    except UserError as problem:
        return f"{problem.code}: {problem.found}"
    return found.problems[0] if found.problems else ""


def _copy(kept: Kept, folder: Path) -> Kept:
    shutil.copytree(kept.job.parent, folder)
    return Kept(kept.name, folder / kept.job.name, folder / kept.certificate.name)


def reseal(kept: Kept, change: Callable[[dict[str, Any]], object] = lambda content: None) -> None:
    """The certificate changed, with the hashes of everything as it is now."""
    content = kept.content
    change(content)
    limits = Limits()
    content["job"]["sha256"] = digest_of_file(kept.job, limits)
    table = tomllib.loads(kept.job.read_text())
    given = table["impl"].get("graphs", [table["impl"].get("graph")])
    names = dict.fromkeys([table["spec"]["graph"], *given])
    content["graphs"] = {name: {"sha256": digest_of_file(kept.job.parent / name, limits)} for name in names}
    kept.certificate.write_text(json.dumps(sealed(content)))


def checked(proved: tuple[Path, Path], change: Callable[[dict[str, Any]], object]) -> Checked:
    """The check of a job's certificate with a change, whose hash is right again."""
    job, certificate = proved
    content = json.loads(certificate.read_text())
    change(content)
    forged = certificate.with_name("forged.json")
    forged.write_text(json.dumps(sealed(content)))
    return check_certificate(forged, job=job)


def checked_for(job: Path, certificate: Path) -> Checked:
    """The check of another job's certificate for this one, with the hashes of its files."""
    content = json.loads(certificate.read_text())
    content["job"]["sha256"] = digest_of_file(job, Limits())
    for name in content["graphs"]:
        content["graphs"][name]["sha256"] = digest_of_file(job.parent / name, Limits())
    forged = job.with_name("forged.json")
    forged.write_text(json.dumps(sealed(content)))
    return check_certificate(forged, job=job)


# ------------------------------------------------------------------------------------------------ bytes
def of_bytes(kept: Kept, folder: Path, seed: int) -> Corrupted:
    """One byte of a graph, of the job or of the certificate changed to another printable one, so that the content is
    another."""
    chance = random.Random(seed)
    copy = _copy(kept, folder)
    path = chance.choice([*copy.graphs, copy.job, copy.certificate])
    packed = path.suffix == ".gz"
    data = bytearray(gzip.decompress(path.read_bytes()) if packed else path.read_bytes())
    comments = {k for line in _comments(bytes(data)) for k in line} if path.suffix == ".toml" else set[int]()
    at = chance.choice([k for k, byte in enumerate(data) if chr(byte).isalnum() and k not in comments])
    before = data[at]
    data[at] = ord(chance.choice([c for c in "0123456789abcdefxyz" if ord(c) != before]))
    path.write_bytes(gzip.compress(bytes(data), mtime=0) if packed else bytes(data))
    return Corrupted(f"byte {at} of {path.name}: {chr(before)!r} to {chr(data[at])!r}", copy)


def _comments(data: bytes) -> Iterator[range]:
    """Where comments of a job are: they say nothing."""
    start = 0
    for line in data.splitlines(keepends=True):
        if b"#" in line:
            yield range(start + line.index(b"#"), start + len(line))
        start += len(line)


# ------------------------------------------------------------------------------------------------ meaning
def of_meaning(kept: Kept, folder: Path, seed: int, bug: Path | None = None) -> Iterator[Corrupted]:
    """Wrong certificates with right hashes, one of a kind: a relation, a placement, an assumption, a graph."""
    chance = random.Random(seed)
    number = [0]

    def fresh() -> Kept:
        number[0] += 1
        return _copy(kept, folder / str(number[0]))

    for kind in (_relations, _assumptions, _placements, _graphs):
        yield from islice(kind(kept, fresh, chance), 1)
    if bug is not None:
        copy = fresh()
        table = tomllib.loads(bug.read_text())
        for path in bug.parent.iterdir():
            if path.name.endswith((".json", ".json.gz")):
                shutil.copy(path, copy.job.parent / path.name)
        copy.job.write_text(tomli_w.dumps(table))
        reseal(copy)
        yield Corrupted("the implementation is the one with the bug", copy)


def _values(kept: Kept) -> dict[str, Any]:
    """Every tensor of the specification on a random input."""
    job = read_job(kept.job)
    inputs = random_inputs(job.specification, 7, index_bounds(job.specification))
    constants = 0.5 if job.assume.constants is not None else None
    return dict(interpret(job.specification, inputs, constants=constants))


def _relations(kept: Kept, fresh: Callable[[], Kept], chance: random.Random) -> Iterator[Corrupted]:
    """A tensor is given the relation of another one that has the same shape and other values; or Partial for
    Replicate."""
    entries = kept.content["relations"]
    values = _values(kept)
    for k, entry in chance.sample([*enumerate(entries)], len(entries)):
        own = values.get(entry["tensor"])
        if not isinstance(own, np.ndarray) or own.size < 2:
            continue
        for j in range(len(entries) - 1, -1, -1):
            other = values.get(entries[j]["tensor"])
            if (
                isinstance(other, np.ndarray)
                and (other.shape, other.dtype) == (own.shape, own.dtype)
                and not np.allclose(own, other, rtol=1e-3, atol=1e-3, equal_nan=True)
            ):
                copy = fresh()

                def change(content: dict[str, Any], k: int = k, j: int = j) -> None:
                    content["relations"][k]["relation"] = content["relations"][j]["relation"]

                reseal(copy, change)
                yield Corrupted(f"{entry['tensor']} has the relation of {entries[j]['tensor']}", copy)
                break


def _assumptions(kept: Kept, fresh: Callable[[], Kept], chance: random.Random) -> Iterator[Corrupted]:
    """One is removed, changed, or added."""
    listed = kept.content["assumptions"]
    k = chance.randrange(len(listed))
    made = {"name": "domain", "text": "where a value of the implementation is not 0", "places": ["no such node"]}
    restricted = {
        "name": "input-restriction",
        "text": "the relation restricts the specification: x is 0",
        "places": ["x"],
    }

    def changed(content: dict[str, Any]) -> None:
        content["assumptions"][k]["text"] += ", and weights are 0"

    ways: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
        (f"the assumption {listed[k]['name']} removed", lambda content: content["assumptions"].pop(k)),
        (f"the assumption {listed[k]['name']} changed", changed),
        ("the assumption domain added", lambda content: content["assumptions"].append(made)),
        ("the assumption input-restriction added", lambda content: content["assumptions"].append(restricted)),
    ]
    what, change = chance.choice(ways)
    copy = fresh()
    reseal(copy, change)
    yield Corrupted(what, copy)


def _placements(kept: Kept, fresh: Callable[[], Kept], chance: random.Random) -> Iterator[Corrupted]:
    """Another placement of an input or output of the job with which it is not proved."""
    table = tomllib.loads(kept.job.read_text())
    entries = [(part, name) for part in ("inputs", "outputs") for name in table.get(part, {})]
    for part, name in chance.sample(entries, len(entries)):
        value = table[part][name]
        for other in ("Replicate()", "Shard(0)", "Shard(1)", "Partial()"):
            if not isinstance(value, str) or other == value:
                continue
            copy = fresh()
            copy.job.write_text(tomli_w.dumps({**table, part: {**table[part], name: other}}))
            if _proved(copy.job) is not False:
                continue

            def change(content: dict[str, Any], part: str = part, name: str = name, other: str = other) -> None:
                for entry in content["outputs"]:
                    if part == "outputs" and name in (entry["tensor"], "default"):
                        entry["expectation"] = other
                        entry["relation"] = {"name": entry["tensor"], "placement": other}

            reseal(copy, change)
            yield Corrupted(f"{part}: {name} = {other} instead of {value}", copy)


_SWAPS = {
    "aten.add.Tensor": "aten.sub.Tensor", "aten.sub.Tensor": "aten.add.Tensor", "aten.mul.Tensor": "aten.add.Tensor",
    "aten.relu.default": "aten.abs.default", "aten.gelu.default": "aten.relu.default",
    "aten.exp.default": "aten.sin.default", "aten.div.Tensor": "aten.mul.Tensor",
    "aten.sin.default": "aten.cos.default", "aten.cos.default": "aten.sin.default",
    "aten.neg.default": "aten.abs.default",
}  # fmt: skip


def _graphs(kept: Kept, fresh: Callable[[], Kept], chance: random.Random) -> Iterator[Corrupted]:
    """An operator or a number of an implementation's graph is another one, with which the job is not proved."""
    table = tomllib.loads(kept.job.read_text())
    given = table["impl"].get("graphs", [table["impl"].get("graph")])
    for name in dict.fromkeys(given):
        if not name.endswith((".json", ".json.gz")):
            continue
        document = _read(kept.job.parent / name)
        for k, node in chance.sample([*enumerate(document["nodes"])], len(document["nodes"])):
            for changed in _mutants(node):
                copy = fresh()
                nodes = [*document["nodes"][:k], changed, *document["nodes"][k + 1 :]]
                _write(copy.job.parent / name, {**document, "nodes": nodes})
                if _proved(copy.job) is not False:
                    continue
                reseal(copy)
                yield Corrupted(f"{name}: {node['name']}: {changed['target']}{changed['args']}", copy)


def _proved(path: Path) -> bool | None:
    """Whether all outputs are proved; ``None`` if it is no job."""
    try:
        job = read_job(path)
        sides = prove(job, Options(align=align))
        reports = check_outputs(sides.store, job, sides.specification, sides.implementation, expand=False)
    except UserError:
        return None
    return all(report.verdict is Verdict.PROVED for report in reports)


def _mutants(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if node.get("target") in _SWAPS:
        yield {**node, "target": _SWAPS[node["target"]]}
    for k, argument in enumerate(node.get("args", [])):
        if isinstance(argument, float):
            yield {**node, "args": [*node["args"][:k], argument * 1.5, *node["args"][k + 1 :]]}


def _read(path: Path) -> Any:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def _write(path: Path, content: Any) -> None:
    data = json.dumps(content).encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
