"""Graphs need not record the types of what they compute. At joints a tensor without a type was compared as if it had
none: a right plan was REFUTED (``a rank has None``), and one whose second rank sends bfloat16 was PROVED."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from support.plans import PROGRAMS, verified, write_plan
from tantamount.verdict import Verdict

REDUCED = 'y = all_reduce(part, "sum", "tp")'
OTHER = PROGRAMS["layer"].replace(
    REDUCED, REDUCED.replace("y =", "u =") + "\ny = aten._to_copy.default(u, dtype=bfloat16)"
)


def _forget(folder: Path, programs: Collection[str], forgotten: Callable[[Any, set[str]], bool]) -> None:
    """Leave types out of programs that were written."""
    for name in programs:
        path = folder / f"{name}.json.gz"
        document = json.loads(gzip.decompress(path.read_bytes()))
        given = {output["node"] for output in document["outputs"]}
        for node in document["nodes"]:
            if node["op"] == "call_function" and forgotten(node, given):
                del node["shape"], node["dtype"]
        path.write_bytes(gzip.compress(json.dumps(document).encode()))


@pytest.mark.parametrize("programs", [["layer"], ["layer.spec"], PROGRAMS])
@pytest.mark.parametrize("all_", [False, True])
def test_types_are_those_that_operators_give(programs: Collection[str], all_: bool, tmp_path: Path) -> None:
    path = write_plan(tmp_path)
    _forget(tmp_path, programs, lambda node, given: all_ or node["name"] in given)
    report = verified(path)
    assert report.verdict is Verdict.PROVED, report.text()
    (hidden, *_) = (joint for joint in report.joints if joint.tensor == "gradient of hidden")
    assert hidden.relation == "Shard(0) over microbatch and dp, Replicate() over tp"


@pytest.mark.parametrize("forgotten", [False, True])
def test_ranks_that_have_another_type_without_a_record_of_it_are_seen(forgotten: bool, tmp_path: Path) -> None:
    def edit(table: dict[str, Any]) -> None:
        table["part"]["layer"]["impl"] = {"tp": ["layer.json.gz", "layer.other.json.gz"]}

    path = write_plan(tmp_path, {}, edit, {"layer.other": OTHER})
    _forget(tmp_path, ["layer.other"], lambda node, given: forgotten and node["name"] in given)
    report = verified(path)
    assert report.verdict is Verdict.UNKNOWN, report.text()
    (problem,) = (joint.problem for joint in report.joints if joint.problem)
    assert problem == "y of layer is float32 on some ranks and bfloat16 on others"
