"""What is zero where the gradients that come to a rank are: never more than is."""

from __future__ import annotations

import pytest

from support.jobs import typed_graph
from tantamount.ir.mesh import Mesh
from tantamount.plan.vanishing import vanishing

AXES = {"cp": 2, "tp": 2}
MESH = Mesh(AXES, {name: (name,) for name in AXES} | {"all": ("cp", "tp")})
ALL_TO_SOME = '_c10d_functional.all_reduce_coalesced.default([z, x], "sum", "tp")'


def _found(*lines: str) -> set[str]:
    text = "\n".join(("z: float32[4, 4]", "x: float32[4, 4]", *lines))
    graph = typed_graph(f"{text}\n-> {lines[-1].split(' = ')[0]}", {**AXES, "all": 4})
    (found,) = vanishing([graph], {"z"}, "cp", MESH)
    return found


@pytest.mark.parametrize(
    "line",
    [
        "mm(z, x)", "mul(x, z)", "aten.t.default(z)", "add(z, z)", "cat([z, z], 0)", 'all_reduce(z, "sum", "tp")',
        "aten.div.Tensor(z, x)", "aten.silu_backward.default(z, x)", "aten.sub.Tensor(z, 0)",
        "aten.masked_fill.Scalar(z, x, 0)",
    ],
)  # fmt: skip
def test_what_is_zero(line: str) -> None:
    if "masked_fill" in line:
        lines = ("m = aten.lt.Scalar(x, 1)", f"y = {line.replace('x,', 'm,')}")
    else:
        lines = (f"y = {line}",)
    assert "y" in _found(*lines)


@pytest.mark.parametrize(
    "line",
    [
        "add(z, x)", "add(z, 1)", "aten.add.Tensor(z, other=x)", "cat([z, x], 0)", "aten.div.Tensor(x, z)",
        "aten.cos.default(z)", "aten.silu_backward.default(x, z)", 'all_reduce(z, "sum", "cp")',
        'all_reduce(z, "sum", "all")', 'all_reduce(x, "sum", "tp")', "aten.exp.default(z)", "sub(x, z)",
    ],
)  # fmt: skip
def test_what_need_not_be(line: str) -> None:
    assert "y" not in _found(f"y = {line}")


@pytest.mark.parametrize(
    "lines",
    [
        ("r = aten.reciprocal.default(z)", "y = mul(z, r)"),  # 1
        ("y = aten.div.Tensor(z, z)",),
        ("d = add(z, x)", "e = sub(d, x)", "y = aten.div.Tensor(z, e)"),
        ("d = mul(z, x)", "y = aten.div.Tensor(z, d)"),
        ("r = aten.reciprocal.default(z)", "y = mm(r, z)"),
    ],
)
def test_quotients_of_what_vanishes_need_not(lines: tuple[str, ...]) -> None:
    assert "y" not in _found(*lines)


def test_one_of_several_that_are_exchanged_is_not_enough() -> None:
    assert not {"s", "y"} & _found(f"s = {ALL_TO_SOME}", "y = getitem(s, 1)")


def test_what_another_rank_puts_in_counts() -> None:
    """Ranks of tp that run different programs: what one adds up with the other is zero if both are."""
    texts = [f'z: float32[4]\nx: float32[4]\ns = all_reduce({name}, "sum", "tp")\n-> s' for name in "zx"]
    found = vanishing([typed_graph(text, AXES) for text in texts], {"z"}, "cp", MESH)
    assert [("s" in names) for names in found] == [False, False]
