"""Programs that XLA's partitioner cut for a 2 x 2 mesh, against the same function on one device (made by
``tests/data/hlo/make.py``), and mutants of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tantamount import read_job
from tantamount.answers import refine
from tantamount.errors import UserError
from tantamount.verdict import Report, Verdict

DATA = Path(__file__).resolve().parents[1] / "data" / "hlo" / "ranks.json"
CASES = {case["name"]: case for case in json.loads(DATA.read_text(encoding="utf-8")) if "specification" in case}


def verdict_of(folder: Path, case: Mapping[str, Any], change: Callable[[str], str] = str) -> Report:
    text = "\n".join(case["text"])
    (folder / "spec.hlo").write_text("\n".join(case["specification"]))
    (folder / "impl.hlo").write_text(change(text))
    inputs = "\n".join(f"parameter{k} = {json.dumps(placements)}" for k, placements in enumerate(case["inputs"]))
    axes = ", ".join(f"{axis} = {size}" for axis, size in case["mesh"].items())
    (folder / "job.toml").write_text(
        f'format = "job/1"\n[spec]\ngraph = "spec.hlo"\n[impl]\ngraph = "impl.hlo"\nmesh = {{ {axes} }}\n'
        f"[inputs]\n{inputs}\n[outputs]\noutput0 = {json.dumps(case['output'])}\n"
    )
    return refine(read_job(folder / "job.toml"))


@pytest.mark.parametrize("name", CASES)
def test_what_the_partitioner_made_is_proved(name: str, tmp_path: Path) -> None:
    report = verdict_of(tmp_path, CASES[name])
    assert report.verdict is Verdict.PROVED
    (output,) = report.outputs
    assert output.relation is not None
    assert output.relation.expression == f"[{', '.join(CASES[name]['output'])}]"


MUTANTS = [
    ("mlp", "replica_groups={{0,1},{2,3}}", "replica_groups={{0,2},{1,3}}"),
    ("mlp", "replica_groups={{0,1},{2,3}}", "replica_groups={{0,1,2,3}}"),
    ("mlp", "replica_groups={{0,1},{2,3}}", "replica_groups={{0},{1},{2},{3}}"),
    ("mlp", "all-reduce(%dot.1), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, "
     "to_apply=%add.clone", "copy(%dot.1)"),
    ("mlp_sequence", "{{0,0},{1,2},{2,1},{3,3}}", "{{0,0},{1,1},{2,2},{3,3}}"),
    ("mlp_sequence", "dimensions={0}, use_global", "dimensions={1}, use_global"),
    ("mean_square", "constant(24)", "constant(12)"),
    ("softmax_sharded", "add(%reduce_sum", "maximum(%reduce_sum"),
    ("softmax_sharded", "exponential(", "tanh("),
    ("attention", "direction=GE", "direction=GT"),
    ("attention", "constant(2)", "constant(4)"),
    ("normal", "constant(1e-05)", "constant(1e-06)"),
    ("cache", "dynamic-update-slice(%param, %param.1", "dynamic-update-slice(%param, %param.2"),
    ("reverse", "dimensions={0}", "dimensions={1}"),
    ("outer_sum", "add(%", "subtract(%"),
    ("transposed", "{1,2},{2,1}", "{1,1},{2,2}"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new"), MUTANTS, ids=lambda text: text[:30])
def test_a_mutant_is_never_proved(name: str, old: str, new: str, tmp_path: Path) -> None:
    text = "\n".join(CASES[name]["text"])
    assert old in text
    try:
        report = verdict_of(tmp_path, CASES[name], lambda text: text.replace(old, new))
    except UserError:
        return  # shapes that do not fit any more
    assert report.verdict in (Verdict.REFUTED, Verdict.UNKNOWN)
