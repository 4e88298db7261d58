"""Certificates of pipelines with microbatches: each stage is another program, and every rank is executed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.certificates import checked, checked_for
from support.training_steps import Steps, training_step_files
from tantamount import read_job, refine
from tantamount.proof.simplified import simplified

Content = dict[str, Any]
HOW = Steps(layers=2, pp=2, mb=6)


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A pipeline that is proved as one program, and its certificate."""
    folder = tmp_path_factory.mktemp("pipeline")
    job = training_step_files(folder, HOW)
    read = read_job(job)
    assert simplified(read)
    assert max(len(graph.nodes) for graph in read.programs) >= 300
    report = refine(read)
    certificate = folder / "proved.json"
    report.save_certificate(certificate)
    return job, certificate


def test_a_pipeline_is_accepted(proved: tuple[Path, Path]) -> None:
    found = checked(proved, lambda _: None)
    assert found.exit_code == 0, found.problems
    assert len(json.loads(proved[1].read_text())["relations"]) > 50


def test_microbatches_in_another_order_are_rejected(proved: tuple[Path, Path]) -> None:
    """A tensor of the specification is said to be its microbatches, one after the other, of which two are exchanged."""

    def exchanged(content: Content) -> None:
        for relation in content["relations"]:
            text = relation["relation"].get("relation", "")
            parts = re.findall(r'rank\(\d+, "\w+"\)', text)
            if text.startswith(f"concat({parts[0]}, " if parts else "concat(rank(") and len(set(parts)) == HOW.mb:
                relation["relation"]["relation"] = (
                    text.replace(parts[0], "?").replace(parts[1], parts[0]).replace("?", parts[1])
                )
                return
        raise AssertionError

    found = checked(proved, exchanged)
    assert found.exit_code == 1
    assert any("relation" in problem for problem in found.problems), found.problems


def test_the_certificate_of_another_pipeline_is_rejected(tmp_path: Path, proved: tuple[Path, Path]) -> None:
    """Updates with another learning rate, under the certificate of the right one with its own hashes."""
    wrong = training_step_files(tmp_path, HOW, rank=lambda text: text.replace("0.125", "0.25"))
    found = checked_for(wrong, proved[1])
    assert found.exit_code == 1
    assert any("new_" in problem for problem in found.problems), found.problems
