"""The loss that balances experts: what it is, and that it is proved where ranks have parts of rows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tantamount.effort import Effort
from tantamount.errors import UserError
from tantamount.plan.prove import part_checker
from tantamount.plan.read import read_plan
from tantamount.plan.wiring import joints_of
from tantamount.refinement.job import refine_job
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")

from tantamount.capture.torch.llama.balance import Balance, balanced  # noqa: E402
from tantamount.capture.torch.llama.experts import ExpertShape, expert_layer  # noqa: E402
from tantamount.capture.torch.llama.fit import check  # noqa: E402
from tantamount.capture.torch.llama.model import Shape, loss  # noqa: E402
from tantamount.capture.torch.llama.plan import write_plan  # noqa: E402
from tantamount.capture.torch.llama.ranks import Ranks  # noqa: E402
from tantamount.capture.torch.llama.spread import Degrees  # noqa: E402
from tantamount.capture.torch.llama.steps import head_step, layer_step  # noqa: E402

closely = part_checker(partial(refine_job, doubtful=True, effort=Effort(0.05)))  # words are not what is tested here
GROUPED = ExpertShape(1, 8, 2, 6, 4, 2, 4, kv_heads=2, head=4)
BASE = Degrees(dp=1, tp=2, pp=1, microbatches=2, batch=4, seq=4, optimizer="sgd", aux_loss=0.01, cp=2, sp=True)


def test_it_is_the_published_formula() -> None:
    """Of a row of T tokens with N experts, K of them chosen: alpha times the sum over i of f_i P_i."""
    torch.manual_seed(0)
    rows, seq, experts, count, alpha = 3, 5, 6, 2, 0.5
    scores = torch.rand(rows, seq, experts, dtype=torch.float64).softmax(-1)
    best = scores.topk(count, -1).indices
    chosen = torch.zeros_like(scores).scatter(-1, best, 1.0)

    def published(scores: Any, best: Any) -> float:
        tokens = len(scores)
        f = [experts / (count * tokens) * sum(i in set(row.tolist()) for row in best) for i in range(experts)]
        return alpha * sum(f[i] * float(scores[:, i].sum()) / tokens for i in range(experts))

    wanted = sum(published(scores[k], best[k]) for k in range(rows)) / rows
    found = balanced(scores, chosen, count, Balance(alpha, rows * seq), Ranks())
    assert float(found) == pytest.approx(wanted)
    whole = balanced(scores, chosen, count, Balance(alpha, rows * seq, "batch"), Ranks())
    assert float(whole) == pytest.approx(published(scores.flatten(0, 1), best.flatten(0, 1)))


def test_gradients_that_pass_from_part_to_part_are_those_of_the_whole_loss() -> None:
    torch.manual_seed(1)
    shape = replace(GROUPED, balance=Balance(0.5, 8))
    w = {name: torch.randn(sizes) / 4 for name, sizes in shape.expert_layer().items()}
    ends = {"norm": torch.randn(8), "output": torch.randn(6, 8)}
    x, labels = torch.randn(2, 4, 8), torch.randint(0, 6, (2, 4))
    leaf = {name: value.clone().requires_grad_() for name, value in w.items()}
    y, own = expert_layer(x, leaf, shape, Ranks())
    assert own is not None
    whole = loss(y, labels, ends, 8, Ranks()) + own
    wanted = dict(zip(leaf, torch.autograd.grad(whole, tuple(leaf.values())), strict=True))
    layer, head = layer_step(shape, Ranks(), {}, {}, False), head_step(8, Ranks(), {}, {})
    given = {"x": x, "before": torch.zeros(()), **w}
    there = layer(**given, d_y=torch.zeros_like(x), d_extra=torch.zeros(()))
    last = head(x=there["y"], before=there["extra"], labels=labels, **ends)
    back = layer(**given, d_y=last["d_x"], d_extra=last["d_before"])
    torch.testing.assert_close(last["loss"], whole.detach())
    for name, gradient in wanted.items():
        torch.testing.assert_close(back[f"d_{name}"], gradient)


def test_ranks_with_parts_of_rows_are_proved(tmp_path: Path) -> None:
    """What is wrong where they use their own counts: benchmarks/plan_ways.py."""
    plan = read_plan(write_plan(tmp_path, "rows", GROUPED, replace(BASE, sp=False, tp=1)))
    assert closely(plan.parts["moe"]).verdict is Verdict.PROVED


def test_fractions_of_the_batch_are_declared_approximate(tmp_path: Path) -> None:
    over = replace(BASE, aux_over="batch", dp=2, batch=8)
    plan = read_plan(write_plan(tmp_path, "batch", GROUPED, over))
    (declared,) = plan.approximations
    assert (declared.name, declared.part) == ("balance", "moe")
    assert declared.text.endswith("along microbatch and dp and cp and tp")
    assert not [joint for joint in joints_of(plan) if joint.problem]
    for name in ("moe", "head", "embedding"):
        assert closely(plan.parts[name]).verdict is Verdict.PROVED, name


@pytest.mark.parametrize(
    ("shape", "degrees"),
    [
        (Shape(1, 8, 2, 2, 4, 6), {}),
        (GROUPED, {"aux_loss": -1.0}),
        (GROUPED, {"aux_over": "token"}),
        (GROUPED, {"aux_over": "batch", "sized": True}),
    ],
)
def test_what_cannot_be_is_refused(shape: Any, degrees: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        check(shape, replace(BASE, **degrees))
