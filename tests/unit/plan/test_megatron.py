"""The plan of a step of Megatron-Core (``tests/frameworks/megatron_plans.py`` has written it, with Megatron's own
functions): proved, and refuted where something is taken away. 2 x 2 x 2 ranks, interleaved, sequence parallel."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tantamount.answers import verify_plan
from tantamount.errors import UserError
from tantamount.plan.read import read_plan
from tantamount.plan.result import PlanReport
from tantamount.verdict import Verdict

PLAN = Path(__file__).parent / "megatron"
Graph = dict[str, Any]


def changed(folder: Path, files: str, change: Callable[[Graph], None]) -> PlanReport:
    """The verdict on the plan with the graphs changed that ranks run for a part."""
    shutil.copytree(PLAN, folder)
    for path in folder.glob(files):
        graph: Graph = json.loads(gzip.decompress(path.read_bytes()))
        change(graph)
        path.write_bytes(gzip.compress(json.dumps(graph).encode()))
    return verify_plan(folder / "plan.toml")


def without_collective(name: str, which: int) -> Callable[[Graph], None]:
    def change(graph: Graph) -> None:
        found = [node for node in graph["nodes"] if name in node["target"]]
        found[which] |= {"target": "aten.clone.default", "args": found[which]["args"][:1], "kwargs": {}}

    return change


def test_a_step_of_megatron_is_proved() -> None:
    report = verify_plan(PLAN / "plan.toml")
    assert report.verdict is Verdict.PROVED, report.text()
    assert report.mesh == {"pp": 2, "dp": 2, "tp": 2}
    assert {part.part: part.count for part in report.parts}["layer"] == 8
    assert {a.name for a in report.assumptions} <= {
        "domain", "real-arithmetic", "index-range", "finite-joints", "rounded-literals", "as-stated"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("part", "which"),
    [("layer_reduce", 1), ("norm", 0)],
    ids=["gradients of norms over tensor-parallel ranks", "squares over stages and tensor-parallel ranks"],
)
def test_a_collective_less_is_refuted(part: str, which: int, tmp_path: Path) -> None:
    files = f"{part}.json.gz" if part == "norm" else f"{part}.tp*.json.gz"
    report = changed(tmp_path / "plan", files, without_collective("all_reduce", which))
    assert report.verdict is Verdict.REFUTED, report.text()
    assert {found.part for found in report.parts if found.verdict is Verdict.REFUTED} == {part}


def test_microbatches_that_are_exchanged(tmp_path: Path) -> None:
    shutil.copytree(PLAN, tmp_path / "plan")
    path = tmp_path / "plan" / "plan.toml"
    text = path.read_text()
    assert text.count("{0SEND_F0} 0F1 {0SEND_F1 2RECV_F0}") == 1
    path.write_text(text.replace("{0SEND_F0} 0F1 {0SEND_F1 2RECV_F0}", "0F1 {0SEND_F1} {0SEND_F0 2RECV_F0}"))
    report = verify_plan(path)
    assert report.verdict is Verdict.REFUTED
    assert "1RECV_F0 gets 0SEND_F1 of device 0" in report.schedule[0]


def test_embedding_and_loss_may_count_as_layers() -> None:
    """Megatron's ``account_for_..._in_pipeline_split``: the first and the last stage have a layer less."""
    pytest.importorskip("torch")
    from tantamount.capture.torch.megatron.settings import settings_of

    sizes = {
        "num_layers": 6, "hidden_size": 8, "num_attention_heads": 2, "seq_length": 4, "padded_vocab_size": 8,
        "micro_batch_size": 1, "global_batch_size": 4, "pipeline_model_parallel_size": 2,
        "virtual_pipeline_model_parallel_size": 2, "untie_embeddings_and_output_weights": True,
    }  # fmt: skip
    both = {"account_for_embedding_in_pipeline_split": True, "account_for_loss_in_pipeline_split": True}
    assert settings_of({**sizes, **both}).layers == (1, 2, 2, 1)
    with pytest.raises(UserError, match="6 layers"):
        settings_of(sizes)


def test_programs_by_two_axes(tmp_path: Path) -> None:
    """One for every pair of coordinates, the last axis that is named running fastest."""
    shutil.copytree(PLAN, tmp_path / "plan")
    path = tmp_path / "plan" / "plan.toml"
    names = ["layer_reduce.tp0.json.gz", "layer_reduce.tp1.json.gz"]
    listed = "".join(f'    "{name}",\n' for name in names)
    text = path.read_text(encoding="utf-8")
    assert text.count(f"tp = [\n{listed}]") == 1
    for axes, order in (("dp+tp", (0, 1, 1, 0)), ("tp+dp", (0, 1, 1, 1))):
        both = "".join(f'    "{names[k]}",\n' for k in order)
        path.write_text(text.replace(f"tp = [\n{listed}]", f'"{axes}" = [\n{both}]'), encoding="utf-8")
        job = read_plan(path).parts["layer_reduce"].job
        for rank, graph in enumerate(job.implementation):
            at = dict(zip(job.mesh.names, job.mesh.coordinates(rank), strict=True))
            first, last = axes.split("+")
            assert graph.path.endswith(names[order[2 * at[first] + at[last]]])
