"""Pictures of jobs: normal forms as text, and which tensors are related."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

from support.jobs import job_files
from tantamount import read_job
from tantamount.answers import Answer, refine
from tantamount.proof import picture as drawing
from tantamount.verdict import Picture, Verdict

WHOLE = """
    x: float32[4, 6]
    w: float32[6, 8]
    h = mm(x, w)
    c = aten.clone.default(h)
    y = relu(c)
    -> y
"""
RANK = """
    a: float32[4, 6]
    b: float32[6, 4]
    p = mm(a, b)
    q = aten.clone.default(p)
    r = aten.clone.default(q)
    y = relu(r)
    -> y
"""
TABLES = """
[inputs]
x = { name = "a", placement = "Replicate()" }
w = { name = "b", placement = "Shard(1)" }
[outputs]
y = "Shard(1)"
"""


def checked(folder: Path, whole: str = WHOLE, rank: str = RANK, tables: str = TABLES) -> Answer:
    return refine(read_job(job_files(folder, whole, [rank, rank], tables, {"tp": 2}, {"tp": ("tp",)})))


def picture(folder: Path, **job: str) -> Picture:
    report = checked(folder, **job)
    found = report.picture()
    assert found is not None
    return found


def test_forms_of_ranks_are_functions_of_the_mesh(tmp_path: Path) -> None:
    made = picture(tmp_path)
    assert made.specification.forms["h"] == "h[i, j] = sum[a<6](x[i, a] w[a, j])"
    (side,) = made.implementation
    assert side.ranks == (0, 1)
    assert side.forms["p"] == "p[i, j] = sum[a<6](x[i, a] w[a, 4tp+j])"
    assert side.forms["b"] == "b[i, j] = w[i, 4tp+j]"


def test_every_box_of_a_form_has_its_line_and_long_ones_are_cut(tmp_path: Path) -> None:
    whole = WHOLE.replace("y = relu(c)", "y = aten.cat.default([h, c, c], 0)")
    rank = RANK.replace("y = relu(r)", "y = aten.cat.default([p, q, q], 0)")
    made = picture(tmp_path, whole=whole, rank=rank)
    lines = made.specification.forms["y"].splitlines()
    assert lines[0].startswith("y[i, j] = sum[a<6](x[i, a] w[a, j])   for i in 0..4")
    assert [line.rpartition("   for ")[2] for line in lines] == ["i in 0..4", "i in 4..8", "i in 8..12"]


def test_steps_are_paired_by_operator_and_order(tmp_path: Path) -> None:
    links = {(link.specification, link.implementation): link.relation for link in picture(tmp_path).links}
    assert links == {
        ("x", "a"): "Replicate()",
        ("w", "b"): "Shard(1)",
        ("h", "p"): "Shard(1)",
        ("c", "q"): "Shard(1)",
        ("h", "r"): "Shard(1)",  # one copy more than the specification makes: any tensor of its value will do
        ("y", "y"): "Shard(1)",
    }


def test_what_is_not_related_has_no_link(tmp_path: Path) -> None:
    made = picture(tmp_path, rank=RANK.replace("y = relu(r)", "y = aten.sigmoid.default(r)"))
    assert {link.specification for link in made.links} == {"x", "w", "h", "c"}
    assert made.outputs == {"y": ("y", ("y",))}


def test_programs_of_different_ranks_are_drawn_once_each(tmp_path: Path) -> None:
    first = "x: float32[4]\n h = relu(x)\n s = aten.mul.Tensor(h, h)\n -> h, s"
    second = "x: float32[4]\n h = aten.sigmoid.default(x)\n -> h"
    whole = "x: float32[4]\n h = relu(x)\n g = aten.sigmoid.default(x)\n -> h, g"
    tables = '[inputs]\nx = "Replicate()"\n[outputs]\nh = "rank(0)"\ng = \'rank(1, "h")\'\n'
    files = job_files(tmp_path, whole, [first, second], tables, {"pp": 2}, {})
    report = refine(read_job(files))
    assert report.verdict is Verdict.PROVED
    made = report.picture()
    assert made is not None
    assert [side.ranks for side in made.implementation] == [(0,), (1,)]
    links = {(link.specification, link.program, link.implementation) for link in made.links}
    assert links == {("x", 0, "x"), ("x", 1, "x"), ("h", 0, "h"), ("g", 1, "h")}
    assert made.outputs == {"h": ("h", ("h", None)), "g": ("g", (None, "h"))}


def test_a_verdict_does_not_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "show_polynomial", lambda *_: pytest.fail("a form was rendered"))
    assert checked(tmp_path).verdict is Verdict.PROVED


def test_a_report_without_its_picture_is_the_same_report(tmp_path: Path) -> None:
    report = checked(tmp_path)
    for other in (copy.copy(report), pickle.loads(pickle.dumps(report))):
        assert other == report
        assert other.text() == report.text()
    assert pickle.loads(pickle.dumps(report)).picture() is None
