"""Two convolutions, forward and backward: sharded over samples, and over channels; and wrong in one place."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.amount import cases
from support.jobs import job_files
from tantamount import read_job
from tantamount.answers import refine
from tantamount.verdict import Report, Verdict

CONV = "aten.convolution.default"
BACK = "aten.convolution_backward.default"
FIRST, SECOND = "[1, 1], [1, 1], [1, 1], False, [0, 0]", "[2, 2], [1, 1], [1, 1], False, [0, 0]"


def network(samples: int, hidden: int, total: str = "", change: str = "", weights: str = "") -> str:
    """A step of one rank; what follows the three partial results is ``total``, ``change`` and ``weights``."""
    return f"""
x: float32[{samples}, 4, 8, 8]
w1: float32[{hidden}, 4, 3, 3]
b1: float32[{hidden}]
w2: float32[4, {hidden}, 3, 3]
dy: float32[{samples}, 4, 2, 2]
c = {CONV}(x, w1, b1, {FIRST}, 1)
h = relu(c)
p = aten.avg_pool2d.default(h, [2, 2])
y_ = {CONV}(p, w2, None, {SECOND}, 1)
y = {total or "aten.alias.default(y_)"}
dp, dw2_, none = {BACK}(dy, p, w2, None, {SECOND}, 1, [True, True, False])
dh = aten.avg_pool2d_backward.default(dp, h, [2, 2], [2, 2], [0, 0], False, True, None)
dc = aten.threshold_backward.default(dh, h, 0)
dx_, dw1_, db1_ = {BACK}(dc, x, w1, [{hidden}], {FIRST}, 1, [True, True, True])
dx = {change or "aten.alias.default(dx_)"}
dw1 = {weights.replace("it", "dw1_") or "aten.alias.default(dw1_)"}
dw2 = {weights.replace("it", "dw2_") or "aten.alias.default(dw2_)"}
db1 = {weights.replace("it", "db1_") or "aten.alias.default(db1_)"}
-> y, dx, dw1, dw2, db1
"""


def reduced(name: str) -> str:
    return f'all_reduce({name}, "sum", "tp")'


WHOLE = network(4, 6)
SAMPLES = network(2, 6, weights=reduced("it"))
CHANNELS = network(4, 3, total=reduced("y_"), change=reduced("dx_"))
PLACES = {
    SAMPLES: '[inputs]\nx = "Shard(0)"\ndy = "Shard(0)"\ndefault = "Replicate()"\n'
    '[outputs]\ny = "Shard(0)"\ndx = "Shard(0)"\ndefault = "Replicate()"',
    CHANNELS: '[inputs]\nw1 = "Shard(0)"\nb1 = "Shard(0)"\nw2 = "Shard(1)"\ndefault = "Replicate()"\n'
    '[outputs]\ndw1 = "Shard(0)"\ndb1 = "Shard(0)"\ndw2 = "Shard(1)"\ndefault = "Replicate()"',
}


def judged(folder: Path, implementation: str, second: str | None, tables: str, fold: bool | None = None) -> Report:
    path = job_files(folder, WHOLE, [implementation, second or implementation], tables, {"tp": 2}, {"tp": ("tp",)})
    return refine(read_job(path), fold=fold)


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("implementation", [SAMPLES, CHANNELS], ids=["samples", "channels"])
def test_shards_are_proved(tmp_path: Path, implementation: str, fold: bool) -> None:
    report = judged(tmp_path, implementation, None, PLACES[implementation], fold)
    assert report.verdict is Verdict.PROVED, str(report)
    assert {a.name for a in report.assumptions} <= {"real-arithmetic"}


# a place in the graph, and what is wrong there
WRONG = [
    (f"x, w1, b1, {FIRST}, 1", "x, w1, b1, [1, 1], [2, 2], [2, 2], False, [0, 0], 1"),
    (f"{CONV}(x, w1, b1, {FIRST}, 1)", f"{CONV}(bordered, w1, b1, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)"),
    (f"{CONV}(p, w2, None, {SECOND}", f"{CONV}(p, w2, None, [2, 2], [2, 2], [2, 2], False, [0, 0]"),
    (f"{BACK}(dy, p, w2", f"{BACK}(dy, c_pooled, w2"),
    ("[2, 2], [2, 2], [0, 0], False, True, None)", "[2, 2], [2, 2], [0, 0], False, True, 3)"),
    ("threshold_backward.default(dh, h, 0)", "threshold_backward.default(dh, h, 1)"),
]


WAYS = {"samples": (SAMPLES, True), "channels": (CHANNELS, False)}  # wrong on all ranks, or on the second one only
_EACH = [(way, *wrong) for k, wrong in enumerate(WRONG) for way in list(WAYS)[:: 1 - 2 * (k % 2)]]  # by turns first


@pytest.mark.parametrize(("way", "old", "new"), cases(_EACH[::2], _EACH[1::2]))
def test_wrong_attributes_are_refuted(tmp_path: Path, way: str, old: str, new: str) -> None:
    implementation, both = WAYS[way]
    extra = {"y_ =": "c_pooled = aten.avg_pool2d.default(c, [2, 2])", "c =": "bordered = pad(x, [1, 1, 1, 1], 1.0)"}
    given = implementation
    for line, before in extra.items():
        given = given.replace(f"\n{line}", f"\n{before}\n{line}")
    assert old in given
    wrong = given.replace(old, new)
    report = judged(tmp_path, wrong if both else given, wrong, PLACES[implementation])
    assert report.verdict is Verdict.REFUTED, str(report)
    assert report.counterexample is not None


@pytest.mark.parametrize(
    ("way", "name"),
    cases([("samples", "dw1"), ("channels", "dx")], [("samples", "dw2"), ("samples", "db1"), ("channels", "y")]),
)
def test_missing_sums_are_refuted(tmp_path: Path, way: str, name: str) -> None:
    implementation = WAYS[way][0]
    sum_ = reduced(f"{name}_")
    assert sum_ in implementation
    wrong = implementation.replace(sum_, f"aten.alias.default({name}_)")
    report = judged(tmp_path, wrong, None, PLACES[implementation])
    assert report.verdict is Verdict.REFUTED
    assert {output.name for output in report.outputs if output.verdict is not Verdict.PROVED} == {name}


def test_zeros_written_around_are_padding(tmp_path: Path) -> None:
    """One rank writes the zeros of the padding itself."""
    old = f"c = {CONV}(x, w1, b1, {FIRST}, 1)"
    new = f"z = pad(x, [1, 1, 1, 1], 0.0)\nc = {CONV}(z, w1, b1, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)"
    report = judged(tmp_path, SAMPLES, SAMPLES.replace(old, new), PLACES[SAMPLES])
    assert report.verdict is Verdict.PROVED, str(report)
