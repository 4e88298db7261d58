"""The committed examples: readable as jobs, and their graphs point at lines that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from tantamount import read_job, verify_plan
from tantamount.answers import refine
from tantamount.capture.readers import read_graph
from tantamount.verdict import Verdict

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize("job", sorted(EXAMPLES.glob("*/*.toml")), ids=lambda job: f"{job.parent.name}/{job.stem}")
def test_every_example_is_a_valid_job(job: Path) -> None:
    read = read_job(job)
    assert set(read.outputs) == {output.name for output in read.specification.outputs}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/*.json")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_source_positions_point_at_the_code_beside_the_graph(path: Path) -> None:
    calls = [node for node in read_graph(path).nodes if node.op == "call"]
    assert calls
    for node in calls:
        assert node.source is not None
        line = (path.parent / node.source.file).read_text().splitlines()[node.source.line - 1]
        assert node.source.text
        assert node.source.text in line


def test_the_plan_of_8192_ranks() -> None:
    folder = EXAMPLES / "plans" / "llama3_405b"
    assert verify_plan(folder / "plan.toml").verdict is Verdict.PROVED
    (wrong,) = (part for part in verify_plan(folder / "wrong.toml").parts if part.verdict is not Verdict.PROVED)
    assert (wrong.part, wrong.verdict) == ("layer60", Verdict.REFUTED)
    assert wrong.mismatch is not None
    assert wrong.mismatch.hint == "sum instead of avg in all_reduce_1"


def test_pairs_of_neighbours_for_pairs_of_halves() -> None:
    """The place is where the pairs are made, be it that nothing made of them has a counterpart."""
    found = refine(read_job(EXAMPLES / "attention" / "wrong.toml")).mismatch
    assert found is not None
    assert found.implementation_operator == "aten.unbind.int"
    assert "slices 8, 10, 12, 14 along dimension 2" in found.headline
