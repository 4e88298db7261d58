"""Literals that stand for -inf in an attention mask, and those that do not."""

from __future__ import annotations

import pytest

from support.jobs import typed_graph
from tantamount.answers import compare
from tantamount.comparison.mask_literals import with_masks_of_infinity
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Expectation, InputRelation
from tantamount.refinement import refine_job

KEEP = """
s: float32[3, 3]
o = aten.ones.default([3, 3], dtype=bool)
k = aten.tril.default(o)
"""
INFINITE = KEEP + "z = aten.scalar_tensor.default(0.0)\nl = aten.scalar_tensor.default(-inf)\n"
INFINITE += "m = aten.where.self(k, z, l)\nx = add(s, m)\ny = aten._softmax.default(x, -1, False)\n-> y"


def masked(literal: str, more: str = "x = add(s, m)\ny = aten._softmax.default(x, -1, False)\n-> y") -> str:
    return INFINITE.replace("-inf", literal).partition("x = add")[0] + more


def proved(first: str, second: str) -> tuple[bool, list[str]]:
    """Whether two programs are equal once literals are what they stand for, and the assumptions that this takes."""
    graphs = typed_graph(first), typed_graph(second)
    inputs = {node.name: InputRelation(node.name, ()) for node in graphs[0].inputs}
    outputs = {"y": Expectation("y", (), text="Replicate()")}
    job, assumed = with_masks_of_infinity(Job("masks", graphs[0], (graphs[1],), Mesh(), inputs, outputs))
    return refine_job(job).proved, [one.name for one in assumed]


@pytest.mark.parametrize("literal", ["-3.4028234663852886e+38", "-1e9", "-10000.0"])
def test_a_literal_that_masks_is_infinity(literal: str) -> None:
    assert proved(masked(literal), INFINITE) == (True, ["mask-literals"])
    assert proved(INFINITE, masked(literal)) == (True, ["mask-literals"])


def test_strict_takes_literals_for_what_they_are() -> None:
    graphs = typed_graph(masked("-1e9")), typed_graph(INFINITE)
    relations = {"inputs": {"s": InputRelation("s", ())}, "outputs": {"y": Expectation("y", (), text="Replicate()")}}
    job = Job("masks", graphs[0], (graphs[1],), Mesh(), **relations)
    assert compare(job).proved
    assert not compare(job, strict=True).proved


def test_two_literals_are_both_infinity() -> None:
    assert proved(masked("-1e9"), masked("-1e4")) == (True, ["mask-literals"])


SELECTED = KEEP + "n = aten.logical_not.default(k)\nx = aten.masked_fill.Scalar(s, n, -1e9)\n"
SELECTED += "y = aten._softmax.default(x, -1, False)\n-> y"
SCALED = masked("-1e9", "u = add(s, m)\nx = mul(u, 0.5)\ny = aten._softmax.default(x, -1, False)\n-> y")
HALF = INFINITE.replace("x = add(s, m)", "h = mul(s, 0.5)\nx = add(h, m)")


def test_masked_fill_and_factors_are_followed() -> None:
    assert proved(SELECTED, INFINITE) == (True, ["mask-literals"])
    assert proved(SCALED, HALF) == (True, ["mask-literals"])


SHIFTED = (
    "x = add(s, m)\nc = aten.cat.default([x, s], -1)\n{}\nt = sub(c, v)\ny = aten._softmax.default(t, -1, False)\n-> y"
)
GREATEST = {
    "max": "g = aten.max.dim(c, -1, True)\nv = getitem(g, 0)",
    "amax": "v = aten.amax.default(c, [1], True)",
}


@pytest.mark.parametrize("greatest", GREATEST.values(), ids=GREATEST)
def test_rows_are_joined_and_less_their_greatest_element(greatest: str) -> None:
    """As attention with sinks has it: more scores in each row, and nothing is left of what is subtracted."""
    plain = INFINITE.partition("x = add")[0]
    shifted = SHIFTED.format(greatest)
    unshifted = "x = add(s, m)\nc = aten.cat.default([x, s], -1)\ny = aten._softmax.default(c, -1, False)\n-> y"
    for second in (plain + shifted, plain + unshifted):
        assert proved(masked("-1e9", shifted), second) == (True, ["mask-literals"])


SOFTMAX = "y = aten._softmax.default(x, -1, False)\n-> y"
READ = "x = add(s, m)\np = aten._softmax.default(x, -1, False)\ny = add(p, m)\n-> y"
COLUMNS = "x = add(s, m)\nf = aten.slice.Tensor(x, 0, 0, 2)\ny = aten._softmax.default(f, 0, False)\n-> y"
FULLY = masked("-1e9").replace("aten.tril.default(o)", "aten.tril.default(o, -1)")
SOFT = "l = aten.scalar_tensor.default(-100.0)"


@pytest.mark.parametrize(
    ("what", "program"),
    [
        ("a row is fully masked", FULLY),
        ("the literal is small", masked("-1e9").replace("l = aten.scalar_tensor.default(-1e9)", SOFT)),
        ("a factor makes it small", SCALED.replace("mul(u, 0.5)", "mul(u, 1e-8)")),
        ("a factor is negative", SCALED.replace("mul(u, 0.5)", "mul(u, -0.5)")),
        ("something else reads it", masked("-1e9", READ)),
        ("it is an output", masked("-1e9", "y = add(s, m)\n-> y")),
        ("along columns, of which one is masked", masked("-1e9", COLUMNS)),
        ("not a softmax", masked("-1e9", "x = add(s, m)\ny = aten.sigmoid.default(x)\n-> y")),
        ("the greatest of columns", masked("-1e9", SHIFTED.format("v = aten.amax.default(c, [0], True)"))),
        ("the least is subtracted", masked("-1e9", SHIFTED.format("v = aten.amin.default(c, [1], True)"))),
        ("its place is read", masked("-1e9", SHIFTED.format(
            "g = aten.max.dim(c, -1, True)\nv = getitem(g, 0)\nj = getitem(g, 1)").replace("-> y", "-> y, j"))),
        ("the greatest is read again", masked("-1e9", SHIFTED.format(GREATEST["max"]).replace("-> y", "-> y, v"))),
        ("it is less than the greatest", masked("-1e9", SHIFTED.format(GREATEST["amax"]).replace("(c, v)", "(v, c)"))),
        ("a softmax of columns", masked("-1e9", SHIFTED.format(GREATEST["amax"]).replace("(t, -1,", "(t, 0,"))),
        ("it is subtracted", masked("-1e9", f"x = sub(s, m)\n{SOFTMAX}")),
    ],
)  # fmt: skip
def test_a_literal_that_does_more_than_mask_stays(what: str, program: str) -> None:
    graph = typed_graph(program)
    inputs = {"s": InputRelation("s", ())}
    job = Job("masks", graph, (graph,), Mesh(), inputs, {"y": Expectation("y", (), text="Replicate()")})
    changed, assumed = with_masks_of_infinity(job)
    assert not assumed, what
    assert changed is job


DATA = f"s: float32[3, 3]\nm: float32[3, 3]\nd = mul(m, -10000.0)\nx = add(s, d)\n{SOFTMAX}"
CHOSEN = f"s: float32[3, 3]\nc: bool[3, 3]\nx = aten.masked_fill.Scalar(s, c, -1e9)\n{SOFTMAX}"


@pytest.mark.parametrize("program", [DATA, CHOSEN])
def test_a_mask_that_inputs_decide_may_mask_whole_rows(program: str) -> None:
    graph = typed_graph(program)
    inputs = {node.name: InputRelation(node.name, ()) for node in graph.inputs}
    job = Job("masks", graph, (graph,), Mesh(), inputs, {"y": Expectation("y", (), text="Replicate()")})
    assert with_masks_of_infinity(job) == (job, ())


OF_HLO = """
s: float32[3, 3]
i = hlo.iota(dimension=0, shape=[3, 3], dtype=int32)
j = hlo.iota(dimension=1, shape=[3, 3], dtype=int32)
k = hlo.compare(i, j, direction="GE")
c = hlo.constant(-3.40282347e+38, shape=[], dtype=float32)
b = hlo.broadcast(c, dimensions=[], shape=[3, 3])
x = hlo.select(k, s, b)
low = hlo.constant(-inf, shape=[], dtype=float32)
least = hlo.broadcast(low, dimensions=[], shape=[3])
r = hlo.reduce(x, dimensions=[1], kind="maximum")
g = hlo.maximum(least, r)
w = hlo.broadcast(g, dimensions=[0], shape=[3, 3])
d = hlo.subtract(x, w)
e = hlo.exponential(d)
t = hlo.reduce(e, dimensions=[1], kind="add")
v = hlo.broadcast(t, dimensions=[0], shape=[3, 3])
y = hlo.divide(e, v)
-> y
"""


def test_a_softmax_that_jax_has_written_out() -> None:
    assert proved(INFINITE, OF_HLO) == (True, ["mask-literals"])
    assert proved(OF_HLO, INFINITE) == (True, ["mask-literals"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("w = hlo.broadcast(g, dimensions=[0]", "w = hlo.broadcast(g, dimensions=[1]"),  # another row's greatest
        ("low = hlo.constant(-inf", "low = hlo.constant(0.0"),  # not the greatest of the row
        ("y = hlo.divide(e, v)", "z = hlo.divide(e, v)\ny = hlo.add(z, d)"),  # more than the exponential reads it
        ("y = hlo.divide(e, v)", "z = hlo.divide(e, v)\ny = hlo.add(z, x)"),
        ('direction="GE"', 'direction="GT"'),  # a row without an element
        ("x, dimensions=[1], kind", "x, dimensions=[0], kind"),
        ("-3.40282347e+38", "-100.0"),
    ],
)
def test_what_is_no_softmax_of_masked_scores_stays(old: str, new: str) -> None:
    assert OF_HLO.replace(old, new) != OF_HLO
    assert proved(OF_HLO.replace(old, new), INFINITE) == (False, [])


@pytest.mark.parametrize(
    "joined", ["x = add(a, b)", "h = mul(a, 1)\ng = mul(h, 1)\nx = add(b, g)", "x = aten.cat.default([a, b], 1)"]
)
def test_literals_that_mask_a_row_together(joined: str) -> None:
    """Every literal is on its way to the softmax before its rows are looked at."""
    masks = "j = aten.arange.default(2)\nk = aten.eq.Scalar(j, 0)\nl = aten.eq.Scalar(j, 1)\n"
    both = "k = aten.full.default([2], True)\nl = aten.full.default([2], True)\n"
    fill = "a = aten.masked_fill.Scalar(s, k, -1e9)\nb = aten.masked_fill.Scalar(t, l, -1e9)\n"
    softmax = "y = aten._softmax.default(x, 1, False)\n-> y"
    start = both if "cat" in joined else masks
    graph = typed_graph(f"s: float32[3, 2]\nt: float32[3, 2]\n{start}{fill}{joined}\n{softmax}")
    inputs = {node.name: InputRelation(node.name, ()) for node in graph.inputs}
    job = Job("masks", graph, (graph,), Mesh(), inputs, {"y": Expectation("y", (), text="Replicate()")})
    assert with_masks_of_infinity(job)[1] == ()
