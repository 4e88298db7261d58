"""The committed examples: readable as jobs, and their graphs point at lines that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from tantamount import read_job
from tantamount.capture.readers import read_graph

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
