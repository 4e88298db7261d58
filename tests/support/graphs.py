"""Small graph and job files, as JSON values that a test can break."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Json = Any

ONE_RANK = """
format = "job/1"
[spec]
graph = "spec.json"
[impl]
graph = "impl.json"
mesh = {}
[inputs]
default = "Replicate()"
[outputs]
default = "Replicate()"
"""
"""The job of two graphs, ``spec.json`` and ``impl.json``, of the same inputs and outputs."""


def ref(name: str) -> Json:
    return {"node": name}


def placeholder(name: str, shape: Sequence[int] = (2, 3), dtype: str = "float32") -> Json:
    fields = {"name": name, "op": "placeholder", "target": name, "args": [], "kwargs": {}}
    return fields | {"shape": list(shape), "dtype": dtype}


def call(
    name: str,
    target: str,
    args: Sequence[Json],
    shape: Sequence[int] | None = (2, 3),
    dtype: str | None = "float32",
    **kwargs: Json,
) -> Json:
    fields = {"name": name, "op": "call_function", "target": target, "args": list(args), "kwargs": kwargs}
    return fields | {"shape": None if shape is None else list(shape), "dtype": dtype if shape is not None else None}


def returns(*args: Json) -> Json:
    return {"name": "output", "op": "output", "target": "output", "args": [list(args)], "kwargs": {}}


def graph(*nodes: Json, **top: Json) -> Json:
    """A graph file; ``x + x`` if no nodes are given."""
    default = [placeholder("x"), call("y", "aten.add.Tensor", [ref("x"), ref("x")]), returns(ref("y"))]
    return {"format": "fx-nodes/1", "rank": None, "nodes": list(nodes) or default} | top


def write(path: Path, value: Json) -> Path:
    """Write JSON (compressed if the name says so); text and bytes as they are."""
    data = value if isinstance(value, bytes) else (value if isinstance(value, str) else json.dumps(value)).encode()
    compress = path.suffix == ".gz" and not isinstance(value, bytes)
    path.write_bytes(gzip.compress(data, mtime=0) if compress else data)
    return path


def write_job(folder: Path, job: str, graphs: Mapping[str, Json]) -> Path:
    """A job beside its graphs."""
    for name, value in graphs.items():
        write(folder / name, value)
    return write(folder / "job.toml", job)
