"""Plans from schedules of ``torch.distributed.pipelining``: the step is proved, and what is wrong with it is found."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import Any

import pytest

from tantamount.answers import verify_plan
from tantamount.errors import UserError
from tantamount.plan.mutants import plan_mutants, write_mutant
from tantamount.plan.read import read_plan
from tantamount.plan.result import PlanReport
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B  # noqa: E402

from tantamount.capture.torch.pipelining import plan, plan_of_schedule  # noqa: E402
from tantamount.capture.torch.pipelining.orders import order_of  # noqa: E402
from tantamount.capture.torch.pipelining.steps import norm_step  # noqa: E402
from tantamount.capture.torch.training.alike import structure_of  # noqa: E402


class Layer(nn.Module):
    def __init__(self, size: int = 4) -> None:
        super().__init__()
        self.up = nn.Linear(size, size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.sin(self.up(x))


def loss(found: Tensor, wanted: Tensor) -> Tensor:
    return ((found - wanted) ** 2).mean()


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


def written(folder: Path, schedule: Any, **more: Any) -> Path:
    """The plan of two stages of two layers, on two devices."""
    with torch.device("meta"):
        stages = [[Layer(), Layer()], [Layer(), Layer()]]
    given: dict[str, Any] = {"microbatches": 2, "mesh": {"pp": 2}, "stages": stages, "loss": loss, **more}
    return plan_of_schedule(
        schedule, batch=torch.empty(4, 4), target=torch.empty(4, 4), optimizer=sgd, folder=folder, **given
    )


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("pipeline"), Schedule1F1B)


def with_table(right: Path, folder: Path, *rows: str) -> PlanReport:
    """The verdict on the plan with another schedule: a CSV file, as the front end takes it over."""
    shutil.copytree(right.parent, folder)
    (folder / "given.csv").write_text("\n".join(",".join(row.split()) for row in rows))
    table = order_of(folder / "given.csv", 2, 2, None, None).written(folder)
    text = (folder / "plan.toml").read_text()
    start = text.index("[schedule]")
    end = text.index("\n[", start)
    (folder / "plan.toml").write_text(f'{text[:start]}[schedule]\ntable = "{table["table"]}"\n{text[end:]}')
    return verify_plan(folder / "plan.toml")


def test_a_pipeline_is_proved_and_layers_that_are_alike_are_captured_once(right: Path) -> None:
    report = verify_plan(right)
    assert report.verdict is Verdict.PROVED, report.text()
    counts = {part.part: part.count for part in report.parts if not part.part.endswith(("reduce", "update"))}
    assert [a.text for a in report.assumptions if a.name == "as-stated"] == [
        "a stage calls the modules that it is listed with, one after the other, and nothing else"
    ]
    assert counts == {"Layer": 1, "Layer2": 2, "Layer3": 1}  # the first, those between, the one with the loss
    assert len(list(right.parent.glob("*.json.gz"))) <= 12


@pytest.mark.parametrize("scaled", [False, True])
def test_a_sum_is_not_divided_by_the_number_of_microbatches(scaled: bool, tmp_path: Path) -> None:
    """``scale_grads`` of a schedule, as trainers that divide by the number of tokens set it."""

    def total(found: Tensor, wanted: Tensor) -> Tensor:
        return ((found - wanted) ** 2).sum()

    report = verify_plan(written(tmp_path, ScheduleGPipe, loss=total, reduction="sum", scale_grads=scaled))
    assert report.verdict is (Verdict.REFUTED if scaled else Verdict.PROVED), report.text()
    wrong = {part.part for part in report.parts if part.verdict is Verdict.REFUTED}
    assert all(part.endswith("_reduce") for part in wrong)


PLAIN = ("0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0REDUCE_GRAD",
         "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1REDUCE_GRAD")  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (("0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"), ""),
        (PLAIN, ""),
        (("0F0 0F1 0B0", "1F0 1B0 1F1 1B1"), "device 0: 0B1 is missing"),
        (("0F0 0F1 0B0 0B1", "1F0 1F1 1B1"), "device 1: 1B0 is missing"),
        ((PLAIN[0].replace("0SEND_F0 0F1 0SEND_F1", "0F1 0SEND_F1 0SEND_F0"), PLAIN[1]), "1RECV_F0 gets 0SEND_F1"),
        (
            (PLAIN[0].replace("0RECV_B1 0B1 0REDUCE_GRAD", "0REDUCE_GRAD 0RECV_B1 0B1"), PLAIN[1]),
            "the gradient of 0B1 comes after the reduction of stage 0",
        ),
    ],
)
def test_tables(right: Path, tmp_path: Path, rows: tuple[str, ...], problem: str) -> None:
    report = with_table(right, tmp_path / "plan", *rows)
    assert report.verdict is (Verdict.REFUTED if problem else Verdict.PROVED), report.text()
    assert not problem or problem in report.schedule[0]
    assert all(part.verdict is Verdict.PROVED for part in report.parts)


def test_orders_are_what_schedules_do() -> None:
    """Single-stage schedules are run; the table that ``Schedule1F1B`` keeps for pictures has the last stage begin with
    microbatch 1."""
    found = order_of(Schedule1F1B, 2, 2, 3, loss)
    assert found.recorded
    assert [row for row in found.rows[1] if "F" in row][:2] == ["{1RECV_F0}", "1F0"]
    assert "{0SEND_F1 0RECV_B0}" in found.rows[0]
    assert found.rows[0][-2:] == ("0REDUCE_GRAD", "0UPDATE")
    flooded = order_of(ScheduleGPipe, 2, 2, 3, loss)
    assert [cell for cell in flooded.rows[1] if cell[1] in "FB"] == ["1F0", "1F1", "1F2", "1B0", "1B1", "1B2"]
    with_messages = order_of(ScheduleInterleaved1F1B, 2, 4, 4, loss)
    assert {"0F0", "0SEND_F0", "2REDUCE_GRAD", "2UPDATE"} <= set(with_messages.rows[0])


@pytest.mark.parametrize(
    ("schedule", "stages", "count", "found"),
    [
        (Schedule1F1B, 4, 2, "4 stages on 2 devices"),
        (Schedule1F1B, 2, None, "no number of microbatches"),
        (dict, 2, 2, "dict"),
        ("nowhere.csv", 2, 2, "No such file"),
        (ScheduleInterleaved1F1B, 4, 5, "ScheduleInterleaved1F1B"),
    ],
)
def test_schedules_that_are_refused(schedule: Any, stages: int, count: int | None, found: str) -> None:
    with pytest.raises(UserError) as caught:
        order_of(schedule, 2, stages, count, loss)
    assert caught.value.code == "plan-schedule"
    assert found in caught.value.found


def test_a_weight_of_two_pieces_is_refused(tmp_path: Path) -> None:
    with torch.device("meta"):
        first, second = Layer(), Layer()
    second.up.weight = first.up.weight
    with pytest.raises(UserError, match="a parameter of two pieces"):
        written(tmp_path, Schedule1F1B, stages=[first, second])


def test_structures() -> None:
    with torch.device("meta"):
        a, b, wide = Layer(), Layer(), Layer(6)
    assert structure_of(a) == structure_of(b)
    assert structure_of(a) != structure_of(wide)
    for change in (
        lambda m: setattr(m, "scale", 2.0),
        lambda m: m.eval(),
        lambda m: m.up.weight.requires_grad_(False),
        lambda m: m.register_forward_hook(lambda *_: None),
        lambda m: setattr(m, "gate", torch.ones(2)),
        lambda m: m.up.register_parameter("bias", m.up.weight),
    ):
        changed = Layer()
        changed.to("meta")
        change(changed)
        assert structure_of(changed) != structure_of(a)


def test_the_table_is_kept_as_it_was_given(right: Path, tmp_path: Path) -> None:
    with_table(right, tmp_path / "plan", *PLAIN)
    kept = list(csv.reader((tmp_path / "plan" / "schedule.csv").open()))
    assert kept == [[*row.split(), f"{device}UPDATE"] for device, row in enumerate(PLAIN)]
    plan = read_plan(tmp_path / "plan" / "plan.toml")
    assert plan.schedule.rendezvous is False
    mutant = write_mutant(next(plan_mutants(plan)), tmp_path / "plan" / "plan.toml", tmp_path / "mutant")
    assert read_plan(mutant).schedule.rendezvous is False


def test_detours_are_taken_out_and_nothing_else() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    from tantamount.capture.torch.training.rewriting import without_detours

    aten = torch.ops.aten

    def run(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        there = aten.slice_scatter(torch.empty(6), aten.copy(aten.slice(y, 0, 0, 3), x), 0, 3, 6)
        wide = aten.copy(torch.empty(2, 3), x)
        cast = aten.copy(torch.empty(3, dtype=torch.float64), x)
        return aten.slice(there, 0, 3, 6), aten.slice(there, 0, 2, 5), wide, cast

    given = torch.rand(3), torch.rand(6)
    traced = make_fx(run)(*given)
    without_detours(traced.graph)
    traced.recompile()
    nodes = {node.name: node for node in traced.graph.nodes}
    output = next(node for node in traced.graph.nodes if node.op == "output")
    first, second, wide, cast = output.args[0]
    assert first is nodes["x_1"]
    assert second.target is aten.slice.Tensor
    assert wide.target is cast.target is aten.copy.default
    found = traced(*given)
    assert torch.equal(found[0], given[0])
    assert [x.shape for x in found] == [(3,), (3,), (2, 3), (3,)]


@pytest.mark.parametrize("right", [True, False])
def test_gradients_are_clipped_by_the_norm_over_all_stages(right: bool, tmp_path: Path, monkeypatch: Any) -> None:
    if not right:  # a stage sees its own gradients only
        monkeypatch.setattr(plan, "norm_step", lambda most, _: norm_step(most, None))
    report = verify_plan(written(tmp_path, Schedule1F1B, max_norm=1.0))
    wrong = [part.part for part in report.parts if part.verdict is not Verdict.PROVED]
    assert (report.verdict, wrong) == ((Verdict.PROVED, []) if right else (Verdict.REFUTED, ["norm"])), report.text()
