"""Plans of models, captured with PyTorch: what is written verifies, and what a bug makes of it does not."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tantamount.answers import verify_plan
from tantamount.capture.readers import read_graph
from tantamount.errors import UserError
from tantamount.ir.graph import Graph
from tantamount.ir.text import format_graph
from tantamount.plan.mutants import plan_mutants, write_mutant
from tantamount.plan.read import read_plan
from tantamount.verdict import Verdict

pytest.importorskip("torch")

SIZES = {"layers": 3, "hidden": 8, "heads": 2, "kv_heads": 2, "ffn": 4, "vocab": 6}
DEGREES = {"dp": 2, "tp": 2, "pp": 2, "microbatches": 2, "batch": 4, "seq": 3, "optimizer": "adamw"}


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plan of a small Llama; whoever changes it takes a copy of its folder."""
    from tantamount.capture import new_plan  # pyright: ignore[reportAttributeAccessIssue]

    return new_plan("llama", SIZES, DEGREES, tmp_path_factory.mktemp("llama"))


def test_a_llama_is_proved(llama: Path) -> None:
    report = verify_plan(llama)
    assert report.verdict is Verdict.PROVED, report.text()
    assert {part.part: part.count for part in report.parts}["layer_update"] == 3
    assert "new m_q" in {joint.tensor for joint in report.joints}


def test_programs_for_any_number_of_rows(tmp_path: Path) -> None:
    """They are, at other sizes, what is captured at these."""
    from tantamount.capture.torch.llama.model import Shape
    from tantamount.capture.torch.llama.plan import others_of, parts_of, write_part
    from tantamount.capture.torch.llama.spread import Degrees

    shape, degrees = Shape(**SIZES), Degrees(**{**DEGREES, "tp": 1, "batch": 10, "sized": True})
    assert (degrees.rows, degrees.last) == (3, 2)

    def written(name: str, degrees: Degrees) -> list[Graph]:
        part = next(part for part in parts_of(shape, degrees) if part.name == "head")
        others = others_of(shape, degrees, ["head"])["head"] if degrees.sized else None
        (tmp_path / name).mkdir()
        table = write_part(tmp_path / name, part, others)
        return [read_graph(tmp_path / name / table[key]) for key in ("spec", "impl")]

    sized = written("sized", degrees)
    assert [{s.name: s.hint for s in graph.sizes.symbols} for graph in sized] == [
        {"batch": 10, "rows": 10}, {"batch": 10, "rows": 3},
    ]  # fmt: skip
    at = written("at", replace(degrees, batch=16, sized=False))
    for graph, rows, there in zip(sized, (16, 4), at, strict=True):
        assert format_graph(graph.at({"rows": rows, "batch": 16})) == format_graph(there)
    assert sized[0].sizes.conditions == ()


def test_a_sum_that_is_missing_in_the_backward_pass_is_found(llama: Path, tmp_path: Path) -> None:
    """What one `all_reduce` less does to a layer, at the line where it is missing."""
    folder = tmp_path / "plan"
    shutil.copytree(llama.parent, folder)
    path = folder / "layer.json.gz"
    graph: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    reductions = [node for node in graph["nodes"] if "all_reduce" in node["target"]]
    assert len(reductions) == 4  # twice in each direction
    reductions[2] |= {"target": "aten.clone.default", "args": reductions[2]["args"][:1], "kwargs": {}}
    path.write_bytes(gzip.compress(json.dumps(graph).encode()))
    plan = read_plan(folder / "plan.toml")
    from tantamount.answers import refine
    from tantamount.plan.prove import part_checker

    found = part_checker(refine)(plan.parts["layer"])
    assert found.verdict is Verdict.REFUTED
    assert found.mismatch is not None
    assert "a sum over tp" in f"{found.mismatch.headline} {found.mismatch.difference}"
    assert found.mismatch.specification_source is not None
    assert found.mismatch.specification_source.file.endswith("llama/model.py")
    proved = {output.name for output in found.outputs if output.verdict is Verdict.PROVED}
    assert proved == {"y", "d_gate", "d_up", "d_down"}


def test_a_layer_with_experts_is_proved(tmp_path: Path) -> None:
    """Latent attention, and routed and shared experts, cut over the ranks of tp; its tensors fit its neighbours'."""
    from tantamount.answers import refine
    from tantamount.capture.torch.llama.experts import ExpertShape
    from tantamount.capture.torch.llama.plan import Degrees, write_plan
    from tantamount.plan.prove import part_checker
    from tantamount.plan.wiring import joints_of

    shape = ExpertShape(1, 8, 2, 6, 8, 2, 4, latent=(6, 5, 4, 2, 3), shared=1, groups=4, chosen_groups=2, scale=2.5)
    degrees = Degrees(dp=1, tp=2, pp=1, microbatches=2, batch=4, seq=3, optimizer="sgd")
    plan = read_plan(write_plan(tmp_path / "plan", "experts", shape, degrees))
    report = part_checker(refine)(plan.parts["moe"])
    assert report.verdict is Verdict.PROVED, report
    assert {"d_router", "d_egate", "d_sdown", "d_kvb"} <= {output.name for output in report.outputs}
    assert not [joint for joint in joints_of(plan) if joint.problem]
    assert plan.parts["moe"].frozen == ("bias",)


@pytest.mark.parametrize(
    ("model", "sizes", "degrees", "code"),
    [
        ("gpt", {}, {}, "plan-model"),
        ("llama", {"layers": 2}, {}, "plan-model"),
        ("llama", SIZES, {"optimizer": "lion"}, "plan-model"),
        ("deepseek-v3-671b", {"kv_heads": 8}, {}, "plan-model"),
        ("deepseek-v3-671b", {}, {"tp": 3}, "plan-sizes"),
        ("qwen3-moe-30b", {}, {"tp": 8}, "plan-sizes"),
        ("llama", SIZES, {"tp": 3}, "plan-sizes"),
        ("llama", SIZES, {"batch": 5}, "plan-sizes"),
        ("llama", SIZES, {"pp": 4}, "plan-sizes"),
    ],
)
def test_sizes_that_cannot_be(
    model: str, sizes: dict[str, int], degrees: dict[str, Any], code: str, tmp_path: Path
) -> None:
    from tantamount.capture import new_plan  # pyright: ignore[reportAttributeAccessIssue]

    with pytest.raises(UserError) as raised:
        new_plan(model, sizes, {**DEGREES, **degrees}, tmp_path / "out")
    assert raised.value.code == code
    assert not (tmp_path / "out").exists()


def test_a_layer_of_real_size_on_few_ranks_is_refuted_with_the_microbatch(tmp_path: Path) -> None:
    """Sizes are made smaller where no axis of the mesh is."""
    from tantamount.capture import new_plan  # pyright: ignore[reportAttributeAccessIssue]

    plan = new_plan("llama3-8b", {"layers": 4}, {**DEGREES, "batch": 8, "seq": 4096}, tmp_path / "plan")
    kinds = (m for m in plan_mutants(read_plan(plan), 0) if m.kind == "communication missing" and m.place == "layer")
    report = verify_plan(write_mutant(next(kinds), plan, tmp_path / "wrong"))
    (part,) = (part for part in report.parts if part.part == "layer")
    assert part.verdict is Verdict.REFUTED, report.text()
    assert part.mismatch is not None
    assert "microbatch" in part.where
    assert f"({part.where}) holds" in report.text()
