"""Updates that are made from the gradients of other parameters: no relation tells two gradients of one shape apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.plans import verified, write_plan
from tantamount.plan.own_updates import own_updates
from tantamount.plan.read import read_plan
from tantamount.verdict import Verdict

Edit = Callable[[dict[str, Any]], None]


def _step(rows: int) -> str:
    return f"""
        data: float32[{rows}, 6]
        w: float32[6, 4]
        u: float32[6, 4]
        d_y: float32[{rows}, 4]
        a = mm(data, w)
        b = mm(data, u)
        y = mul(a, b)
        d_a = mul(d_y, b)
        d_b = mul(d_y, a)
        s = aten.t.default(data)
        d_w = mm(s, d_a)
        d_u = mm(s, d_b)
        -> y, d_w, d_u
    """


_REDUCED = """
    d_w: float32[6, 4]
    d_u: float32[6, 4]
    g_w = {0}
    g_u = {1}
    p = mul(g_w, g_w)
    q = mul(g_u, g_u)
    o = add(p, q)
    squares = aten.sum.default(o)
    -> g_w, g_u, squares
"""
_UPDATED = """
    w: float32[6, 4]
    u: float32[6, 4]
    g_w: float32[6, 4]
    g_u: float32[6, 4]
    factor: float32[]
    lr: float32[]
    f = mul(factor, lr)
    c = mul(g_w, f)
    e = mul(g_u, f)
    new_w = sub(w, c)
    new_u = sub(u, e)
    -> new_w, new_u
"""
# Two parameters of one shape in the first piece.
TWO: Mapping[str, str] = {
    "first.spec": _step(16), "first": _step(4),
    "first_reduce.spec": _REDUCED.format("mul(d_w, 1)", "mul(d_u, 1)"),
    "first_reduce": _REDUCED.format('all_reduce(d_w, "sum", "dp")', 'all_reduce(d_u, "sum", "dp")'),
    "first_update.spec": _UPDATED, "first_update": _UPDATED,
}  # fmt: skip


def _plan(folder: Path, edit: Edit | None = None) -> Path:
    def two(table: dict[str, Any]) -> None:
        parts, sums = table["part"], {"microbatch": 'Partial("sum")', "dp": 'Partial("sum")'}
        parts["first"]["parameters"]["u"] = "d_u"
        parts["first"]["inputs"]["u"] = "Replicate()"
        parts["first"]["outputs"]["d_u"] = sums
        parts["first_reduce"]["inputs"]["d_u"] = {"dp": 'Partial("sum")'}
        parts["first_update"]["updates"]["new_u"] = "u"
        if edit is not None:
            edit(table)

    return write_plan(folder, edit=two, more=TWO)


def test_two_parameters_of_one_shape(tmp_path: Path) -> None:
    report = verified(_plan(tmp_path))
    assert report.verdict is Verdict.PROVED, report.text()


WRONG: dict[str, tuple[Edit, list[str]]] = {
    "the update takes another gradient": (
        lambda t: t["part"]["first_update"].update(takes={"g_u": "g_w"}),
        ["the new value of u is made from the gradient of w, and not from that of u"],
    ),
    "gradients of each other": (
        lambda t: t["part"]["first"].update(parameters={"w": "d_u", "u": "d_w"}),
        ["the new value of w is made from the gradient of u, and not from that of w",
         "the new value of u is made from the gradient of w, and not from that of u"],
    ),
    "new values for each other": (
        lambda t: t["part"]["first_update"].update(updates={"new_w": "u", "new_u": "w"}),
        ["the new value of u is made from the gradient of w, and not from that of u",
         "the new value of w is made from the gradient of u, and not from that of w"],
    ),
    "reduced gradients for each other": (
        lambda t: t["part"]["first_reduce"].update(gives={"g_w": "g_u", "g_u": "g_w", "squares": "squares"}),
        ["the new value of w is made from the gradient of u, and not from that of w",
         "the new value of u is made from the gradient of w, and not from that of u"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_an_update_that_is_made_from_another_gradient_is_refuted(case: str, tmp_path: Path) -> None:
    edit, words = WRONG[case]
    path = _plan(tmp_path, edit)
    report = verified(path)
    assert report.verdict is Verdict.REFUTED
    assert [joint.problem for joint in report.joints if joint.problem] == words
    assert [joint.problem for joint in own_updates(read_plan(path))] == words
