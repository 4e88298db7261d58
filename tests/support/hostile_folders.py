"""Corrupted plans, generated modules, findings, ONNX models and certificates with lemmas, each answered as the command
that reads it answers: the functions return its exit code, or raise what it would report."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np

from support.equal_layers import layered_files
from support.generated_plans import pipeline, tensor_parallel, write_modules
from support.hostile import corrupted_bytes, corrupted_json, corrupted_toml, in_folder, packed, zipped
from support.onnx_models import model, node, tensor
from support.plans import write_plan
from tantamount.answers import compare, refine, verify_plan
from tantamount.capture.job import read_job
from tantamount.capture.readers import read_graph
from tantamount.certificate.check import check_certificate
from tantamount.certificate.document import sealed
from tantamount.fuzz.triage import page, rows
from tantamount.limits import Limits

__all__ = ["findings", "lemmas", "modules", "onnx", "plans"]


def plans(rng: random.Random, folder: Path) -> int:
    """A plan/1 folder with its TOML or one of its programs corrupted, by type or by bytes."""
    files = dict(_written(write_plan))
    if rng.random() < 0.5:
        files["plan.toml"] = corrupted_toml(files["plan.toml"].decode(), rng).encode("utf-8", "surrogatepass")
    else:
        name = rng.choice(sorted(files))
        if rng.random() < 0.5 or not name.endswith(".gz"):
            files[name] = corrupted_bytes(files[name], rng)
        else:
            files[name] = zipped(packed(corrupted_json(json.loads(gzip.decompress(files[name])), rng)))
    in_folder(folder, files)
    report = verify_plan(folder / "plan.toml")
    report.text()
    json.dumps(report.document())
    return report.exit_code


def modules(rng: random.Random, folder: Path) -> int:
    """Modules in the style of nnScaler's with some tokens or bytes of one changed."""
    ranks, how = rng.choice(((4, tensor_parallel), (2, pipeline)))
    files = dict(_written(lambda at: write_modules(at, how, ranks), (how.__name__,)))
    name = f"gencode{rng.randrange(ranks)}.py"
    if rng.random() < 0.7:
        files[name] = corrupted_toml(files[name].decode(), rng).encode("utf-8", "surrogatepass")
    else:
        files[name] = corrupted_bytes(files[name], rng)
    in_folder(folder, files)
    report = verify_plan(folder, model=f"{folder / 'tiny_model.py'}:with_sample")
    report.text()
    return report.exit_code


def findings(rng: random.Random, folder: Path) -> int:
    """A campaign's findings, one of which is corrupted."""
    for k in range(2):
        data: object = {
            "format": "tantamount-finding/1", "signature": "planted wrong all sum:float32", "backend": "planted",
            "kind": "wrong", "level": "all", "message": "1.0 where 2.0 is expected\nat (0, 0)", "title": "sum is wrong",
            "seed": 5, "case": k, "versions": {"planted": "1"}, "machine": "Linux", "python": "3.11",
            "inputs": {"x": [[1.0, 2.0]]}, "expected": [3.0], "bounds": [0.0],
        }  # fmt: skip
        text = packed(corrupted_json(data, rng) if k and rng.random() < 0.7 else data)
        (folder / f"f{k}").mkdir()
        (folder / f"f{k}" / "finding.json").write_bytes(
            corrupted_bytes(text, rng) if k and rng.random() < 0.5 else text
        )
    page(rows(folder))
    return 0


def onnx(rng: random.Random, folder: Path) -> int:
    """An ONNX model with some bytes changed, against the one that it was."""
    right = _network()
    in_folder(folder, {"a.onnx": right, "b.onnx": corrupted_bytes(right, rng)})
    graphs = [read_graph(folder / name, Limits()) for name in ("a.onnx", "b.onnx")]
    report = compare(*graphs, accept=("relation-guessed",))
    report.text()
    return report.exit_code


def lemmas(rng: random.Random, folder: Path) -> int:
    """A certificate whose proof has lemmas, changed by type or bytes, and sealed again most of the time."""
    files = dict(_written(_with_lemmas))
    if rng.random() < 0.2:
        files["cert.json"] = corrupted_bytes(files["cert.json"], rng)
    else:
        document = json.loads(files["cert.json"])
        key = rng.choice([key for key in document if key in ("lemmas", "relations", "assumptions")] or ["format"])
        broken = {**document, key: corrupted_json(document[key], rng)}
        with contextlib.suppress(ValueError, RecursionError, TypeError):
            broken = sealed(broken)
        files["cert.json"] = packed(broken)
    in_folder(folder, files)
    return check_certificate(folder / "cert.json").exit_code


def _with_lemmas(folder: Path) -> None:
    refine(read_job(layered_files(folder, 18))).save_certificate(folder / "cert.json")


_known: dict[tuple[str, ...], Mapping[str, bytes]] = {}


def _written(write: Callable[[Path], object], key: tuple[str, ...] = ()) -> Mapping[str, bytes]:
    """The files that a function writes into a folder; written once for every name and key."""
    name = (write.__name__, *key)
    if name not in _known:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder))
            _known[name] = {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}
    return _known[name]


@cache
def _network() -> bytes:
    nodes = [
        node("MatMul", ["x", "w"], ["h"]),
        node("Add", ["h", "b"], ["a"]),
        node("Relu", ["a"], ["r"]),
        node("Reshape", ["r", "shape"], ["s"]),
        node("Softmax", ["s"], ["p"], axis=-1),
        node("Transpose", ["p"], ["t"], perm=[1, 0]),
        node("ReduceMean", ["t", "axes"], ["y"], keepdims=0),
    ]
    tensors = [
        tensor("w", np.arange(12, dtype=np.float32).reshape(3, 4) / 8),
        tensor("b", np.ones(4, dtype=np.float32), listed=True),
        tensor("shape", np.array([4, -1])),
        tensor("axes", np.array([1])),
    ]
    return model(nodes, [("x", [2, 3])], ["y"], tensors)
