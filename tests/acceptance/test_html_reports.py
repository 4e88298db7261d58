"""Pages of real jobs: what a reader sees on opening them. The screenshots are for people to look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.browser import SIZE, browser, opened
from tantamount import read_job
from tantamount.answers import refine

JOBS = [
    "jobs/gpt_tp2_l1/job",
    "jobs/bug9_missing_layernorm_allreduce/job",
    "bugs/ad07_rowwise_bias/bug",
    "bugs/ent05_kln_grad_sp/bug",
    "bugs/em01_internlm2_split_qkv/bug",
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.mark.parametrize("job", JOBS)
def test_a_stranger_sees_the_problem(chromium: Any, shared: Path, tmp_path: Path, job: str) -> None:
    report = refine(read_job(shared / f"{job}.toml"))
    path = tmp_path / "report.html"
    report.save(path)
    for scheme in ("light", "dark"):
        with opened(chromium, path, scheme) as window:
            window.screenshot(f"{job.split('/')[1]}-{scheme}")
            assert window.ready < 3000
            assert window.page.inner_text(".verdict") == report.verdict.value
            assert window.boxes("h1")[0]["height"] < 100  # a sentence, not a page
            if report.mismatch is None:
                assert not window.boxes(".culprit")
                assert len(window.boxes(".matched")) > 20
                continue
            said = (report.mismatch.headline or report.mismatch.difference).splitlines()[0]
            assert window.page.inner_text("h1") == said.replace("site-packages/", "")  # paths as libraries are known
            left, right = window.boxes(".node.culprit > .body")
            assert left["x"] + left["width"] < SIZE["width"] * 0.4 < right["x"]
            assert abs(left["y"] + left["height"] / 2 - right["y"] - right["height"] / 2) < 3
            assert right["y"] + right["height"] < SIZE["height"] - 20
            assert all(box["height"] > 10 for box in window.boxes(".card .formula"))
