"""Rewrite rules with one number more or less, judged by execution: none that is PROVED for all sizes may differ.

Every whole number and every size among the attributes of the right side of a rule is changed by one, in both
directions. What is then PROVED is executed at several sizes on random inputs.

python benchmarks/mutate_rules.py FOLDER [--only NAME ...] [--seconds 5]
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tantamount.capture.job import read_job
from tantamount.errors import TantamountError
from tantamount.ir.job import Job
from tantamount.ir.types import Kind
from tantamount.refinement import refine_job
from tantamount.semantics.interpret import interpret
from tantamount.sizes.search import varied_sizes


def _changed(value: Any, step: int) -> Iterator[Any]:
    """The value with one number in it changed, for each of them."""
    if isinstance(value, dict):
        if set(value) == {"size"}:
            yield {"size": f"{value['size']} + {step}" if step > 0 else f"{value['size']} - {-step}"}
        else:
            for key, inner in value.items():
                if key not in ("node", "dtype"):
                    yield from ({**value, key: new} for new in _changed(inner, step))
    elif isinstance(value, list):
        for k, inner in enumerate(value):
            yield from ([*value[:k], new, *value[k + 1 :]] for new in _changed(inner, step))
    elif type(value) is int:
        yield value + step


def mutants(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Graphs with one number changed, and which; shapes are computed anew."""
    untyped = {"shape": None, "dtype": None}
    bare = [node if node["op"] == "placeholder" else {**node, **untyped} for node in document["nodes"]]
    for k, node in enumerate(bare):
        if node["op"] != "call_function":
            continue
        for step in (-1, 1):
            for key in ("args", "kwargs"):
                for new in _changed(node[key], step):
                    nodes = [*bare[:k], {**node, key: new}, *bare[k + 1 :]]
                    yield f"{node['name']} {json.dumps(new)[:80]}", {**document, "nodes": nodes}


def differs(job: Job) -> str:
    """Sizes at which the two programs give different results on random inputs; empty if none were found."""
    for k, sizes in enumerate(varied_sizes(job.sizes, 6)):
        generator = np.random.default_rng(k)
        try:
            here = job.at(sizes) if job.at is not None else job
            for _ in range(3):
                given: dict[str, Any] = {}
                for node in here.specification.inputs:
                    assert node.type is not None
                    shape = node.type.shape
                    number = generator.integers(-9, 10, shape)
                    whole = node.type.dtype.kind is not Kind.FLOAT
                    given[node.name] = number if whole else number + generator.standard_normal(shape)
                ours, theirs = (interpret(g, given) for g in (here.specification, here.implementation[0]))
                for a, b in zip(here.specification.outputs, here.implementation[0].outputs, strict=True):
                    x, y = np.asarray(ours[a.node]), np.asarray(theirs[b.node])
                    if x.shape != y.shape or not np.allclose(x, y, equal_nan=True):
                        return str(sizes)
        except TantamountError:
            continue
    return ""


def _late(*_: object) -> None:
    raise TimeoutError


def main() -> int:
    """Exits with 1 if a mutant that differs is PROVED."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    signal.signal(signal.SIGPROF, _late)
    counts: Counter[str] = Counter()
    wrong = 0
    for folder in sorted(path for path in options.folder.iterdir() if (path / "symbolic.toml").exists()):
        if folder.name.endswith("_wrong") or (options.only and not any(map(folder.name.startswith, options.only))):
            continue
        there = folder / "symbolic" if (folder / "symbolic").is_dir() else folder
        pattern = "{}.json" if (there / "spec.json").exists() else "{}.symbolic.json"
        spec, impl = (json.loads((there / pattern.format(side)).read_text()) for side in ("spec", "impl"))
        job = (
            'format = "job/1"\n[spec]\ngraph = "l.json"\n[impl]\ngraphs = ["r.json"]\nmesh = {}\n'
            '[inputs]\ndefault = "Replicate()"\n[outputs]\ny = "Replicate()"\n'
        )
        for what, document in mutants(impl):
            with tempfile.TemporaryDirectory() as place:
                (Path(place) / "l.json").write_text(json.dumps(spec))
                (Path(place) / "r.json").write_text(json.dumps(document))
                (Path(place) / "job.toml").write_text(job)
                signal.setitimer(signal.ITIMER_PROF, options.seconds)
                try:
                    read = read_job(Path(place) / "job.toml")
                    verdict = refine_job(read).verdict.value
                except TimeoutError:
                    verdict = "TIMEOUT"
                except TantamountError as problem:
                    verdict = type(problem).__name__
                finally:
                    signal.setitimer(signal.ITIMER_PROF, 0)
                if verdict == "PROVED":
                    found = differs(read)
                    wrong += bool(found)
                    verdict = "FALSE PROVED" if found else "PROVED, and equal"
                    print(f"{folder.name}: {what}: {verdict} {found}", flush=True)
                elif verdict in ("UNKNOWN", "TIMEOUT", "InternalError"):
                    print(f"{folder.name}: {what}: {verdict}", flush=True)
                counts[verdict] += 1
    for verdict, count in counts.most_common():
        print(f"{verdict:18} {count}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
