"""Tables and literals that are rounded values of what the other program computes, and those that are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.jobs import typed_graph
from tantamount.answers import compare
from tantamount.comparison.rounded_constants import with_closed_forms
from tantamount.comparison.rounding import bounded_constants
from tantamount.ir.graph import reading
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Expectation, InputRelation
from tantamount.verdict import Verdict

ROWS, HALF = 6, 4
ROPE = """
x: float32[6, 4]
n = aten.arange.start_step(0, 8, 2, dtype=float32)
e = div(n, 8)
p = aten.pow.Scalar(BASE, e)
f = aten.reciprocal.default(p)
i = aten.arange.default(6, dtype=float32)
r = unsqueeze(i, 1)
a = mul(r, f)
c = aten.cos.default(a)
y = mul(x, c)
-> y
"""
COMPUTED = ROPE.replace("BASE", "10000.0")


def cosines(base: float = 10000.0, rows: int = ROWS, dtype: type[np.floating] = np.float32) -> np.ndarray:
    """The table, computed in a dtype."""
    frequencies = (1 / dtype(base) ** (np.arange(0, 2 * HALF, 2).astype(dtype) / dtype(2 * HALF))).astype(dtype)
    return np.cos((np.arange(rows).astype(dtype)[:, None] * frequencies).astype(dtype)).astype(dtype)


def recorded(table: np.ndarray, more: str = "y = mul(x, c)\n-> y", dtype: str = "float32") -> str:
    data = "[" + ", ".join(repr(float(value)) for value in table.reshape(-1)) + "]"
    return f"x: float32[6, 4]\nc = constant {dtype}[{', '.join(map(str, table.shape))}] {data}\n{more}"


def job_of(first: str, second: str) -> Job:
    graphs = typed_graph(first), typed_graph(second)
    inputs = {node.name: InputRelation(node.name, ()) for node in graphs[0].inputs}
    return Job("constants", graphs[0], (graphs[1],), Mesh(), inputs, {"y": Expectation("y", (), text="Replicate()")})


def assumed(first: str, second: str) -> list[str]:
    answer = compare(job_of(first, second))
    assert answer.proved
    return [one.text for one in answer.assumptions if one.name == "rounded-constants"]


def test_a_table_is_the_closed_form_that_the_other_program_computes() -> None:
    (told,) = assumed(COMPUTED, recorded(cosines()))
    assert told.startswith(
        "constants stand for what they round: c_recorded is c of the first program, from which it differs by"
    )
    assert len(assumed(recorded(cosines()), COMPUTED)) == 1


def test_a_longer_table_of_which_rows_are_used() -> None:
    assert len(assumed(COMPUTED, recorded(cosines(rows=9), "s = slice(c, 0, 0, 6)\ny = mul(x, s)\n-> y"))) == 1


def test_a_table_of_cosines_and_sines() -> None:
    both = COMPUTED.replace("y = mul(x, c)", "s = aten.sin.default(a)\nz = mul(x, c)\ny = mul(z, s)")
    exact = np.arange(ROWS)[:, None] * (10000.0 ** -(np.arange(0, 8, 2) / 8))
    table = np.concatenate([np.cos(exact), np.sin(exact)], 1).astype(np.float32)
    use = "k = slice(c, 1, 0, 4)\ns = slice(c, 1, 4, 8)\nz = mul(x, k)\ny = mul(z, s)\n-> y"
    assert len(assumed(both, recorded(table, use))) == 1


OFF = cosines().copy()
OFF[3, 2] += np.float32(1e-4)


@pytest.mark.parametrize(
    ("what", "table", "dtype"),
    [
        ("another base", cosines(10010.0), "float32"),
        ("a base that differs in the fifth digit", cosines(10001.0), "float32"),
        ("one entry is off", OFF, "float32"),
        ("a factor", cosines() * np.float32(1.0001), "float32"),
        ("shifted by one row", cosines(rows=7)[1:], "float32"),
        ("half precision", cosines().astype(np.float16).astype(np.float32), "float16"),
        ("rounded to half precision", cosines().astype(np.float16).astype(np.float32), "float32"),
    ],
)
def test_a_table_of_something_else_stays(what: str, table: np.ndarray, dtype: str) -> None:
    cast = "d = aten._to_copy.default(c, dtype=float32)\ny = mul(x, d)\n-> y"
    job = job_of(COMPUTED, recorded(table, cast, dtype))
    assert with_closed_forms(job) == (job, ()), what


SLOPES = """
x: float32[6, 4]
n = aten.arange.start(1, 5, dtype=int32)
b = aten.full.default([], 0.7071067811865476, dtype=float32)
s = aten.pow.Tensor_Tensor(b, n)
a = mul(x, s)
y = SCALED
-> y
"""


@pytest.mark.parametrize(
    ("scaled", "factor", "taken"),
    [("div(a, 5.656854249492381)", 32**-0.5, True), ("mul(a, 0.3)", 0.3, True), ("mul(a, 0.3)", 0.3001, False)],
)
def test_a_table_of_slopes_with_the_scale_in_it(scaled: str, factor: float, taken: bool) -> None:
    """vLLM's Falcon: its slopes of ALiBi are divided by the root of the head size, which the other program does to what
    it computes of them. Another scale is told apart."""
    slopes = (np.float32(0.5**0.5) ** np.arange(1, 5, dtype=np.float32) * np.float32(factor)).astype(np.float32)
    computed = SLOPES.replace("SCALED", scaled)
    answer = compare(job_of(computed, recorded(slopes)))
    assert answer.proved is taken
    if taken:
        (told,) = [one.text for one in answer.assumptions if one.name == "rounded-constants"]
        assert f"is s {'/ 5.6568' if scaled[0] == 'd' else '* 0.3'}" in told
        assert compare(job_of(recorded(slopes), computed)).proved


@pytest.mark.parametrize("base", [0.7071067811865476, 3.3, 1e-3])
def test_bounds_hold_for_powers(base: float) -> None:
    """Of a base that float32 rounds, and exponents that are tensors."""
    found = bounded_constants(
        typed_graph(SLOPES.replace("0.7071067811865476", repr(base)).replace("SCALED", "mul(a, 2)"))
    )
    exact = np.array([base**k for k in range(1, 5)])
    single = (np.float32(base) ** np.arange(1, 5, dtype=np.float32)).astype(np.float64)
    assert np.allclose(found["s"].value, exact, rtol=1e-12)
    assert (np.abs(single - exact) <= found["s"].error).all()
    assert (found["s"].error <= 1e-5 * exact).all()


def test_bounds_hold_for_long_tables() -> None:
    long = COMPUTED.replace("arange.default(6", "arange.default(8192")
    long = long.replace("y = mul(x, c)", "s = slice(c, 0, 0, 6)\ny = mul(x, s)")
    bounded = bounded_constants(typed_graph(long))["c"]
    off = np.abs(cosines(rows=8192).astype(np.float64) - bounded.value)
    assert (off <= bounded.error).all()
    assert off.max() > 1e-5  # half a unit in the last place is not the criterion
    assert bounded.error.max() < 0.02


EPS = "x: float32[4]\na = add(x, LITERAL)\ny = aten.sigmoid.default(a)\n-> y"


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("1e-06", "9.999999974752427e-07", True),
        ("2.8284271247461903", "2.8284270763397217", True),
        ("0.7978845608028654", "0.7978845608", True),
        ("1e-06", "1e-05", False),
        ("1.0000012", "1.000001", False),
        ("1e-06", "1.0000001e-06", False),
        ("0.7978845608028654", "0.7979", False),
        ("0.1", "0.10000000149011613", False),
        ("2.8284271247461903", "-2.8284270763397217", False),
    ],
)
def test_literals(one: str, other: str, equal: bool) -> None:
    first, second = EPS.replace("LITERAL", one), EPS.replace("LITERAL", other)
    for job in (job_of(first, second), job_of(second, first)):
        _, told = with_closed_forms(job)
        assert [assumption.name for assumption in told] == (["rounded-constants"] if equal else [])
    assert compare(job_of(first, second)).proved is equal
    assert not compare(job_of(first, second), strict=True).proved


@pytest.mark.parametrize(
    ("literal", "use", "other", "taken"),
    [
        (
            "2.82842708",
            "y = div(x, b)",
            "s = aten.full.default([], 8.0)\nr = aten.sqrt.default(s)\ny = div(x, r)",
            True,
        ),
        ("2.82842", "y = div(x, b)", "s = aten.full.default([], 8.0)\nr = aten.sqrt.default(s)\ny = div(x, r)", False),
        ("0.797884583", "y = mul(x, b)", 'y = aten.gelu.default(x, approximate="tanh")', True),
        ("-1.59576917", "y = mul(x, b)", 'y = aten.gelu.default(x, approximate="tanh")', True),
        ("1.59577", "y = mul(x, b)", 'y = aten.gelu.default(x, approximate="tanh")', False),
        ("0.797884583", "y = mul(x, b)", "y = aten.gelu.default(x)", False),
        ("0.79788", "y = mul(x, b)", 'y = aten.gelu.default(x, approximate="tanh")', False),
    ],
)
def test_literals_of_hlo_that_are_roots(literal: str, use: str, other: str, taken: bool) -> None:
    """JAX computes the root of a head size while it traces: what is left is a number of 32 bits."""
    made = f"c = hlo.constant({literal}, shape=[], dtype=float32)\nb = hlo.broadcast(c, dimensions=[], shape=[6, 4])"
    job = job_of(f"x: float32[6, 4]\n{made}\n{use}\n-> y", f"x: float32[6, 4]\n{other}\n-> y")
    changed, told = with_closed_forms(job)
    assert [assumption.name for assumption in told] == (["rounded-constants"] if taken else [])
    exact = "sqrt" in {node.target.split(".")[1] for node in changed.specification.nodes if node.op == "call"}
    assert exact == (taken and "gelu" in other)
    assert compare(job).proved is (taken and "gelu" not in other)


@pytest.mark.parametrize(("number", "holds"), [(1.5957691216057308, True), (1.5957691669464111, True), (1.5957, False)])
def test_gelu_by_a_sigmoid(number: float, holds: bool) -> None:
    """``x sigmoid(2 (2/pi)^(1/2) (x + 0.044715 x^3))``, in all digits and in float32."""
    made = "a = mul(x, x)\nb = mul(a, x)\nc = mul(b, 0.044715)\nd = add(x, c)"
    job = job_of(
        'x: float32[6]\ny = aten.gelu.default(x, approximate="tanh")\n-> y',
        f"x: float32[6]\n{made}\ne = mul(d, {number})\nf = aten.sigmoid.default(e)\ny = mul(x, f)\n-> y",
    )
    assert compare(job).proved is holds


@pytest.mark.parametrize(("number", "holds"), [(0.3989422804014327, True), (0.39894, False)])
def test_the_slope_of_gelu_by_its_density(number: float, holds: bool) -> None:
    made = (
        "a = mul(x, x)\nb = mul(a, -0.5)\nc = aten.exp.default(b)\ne = mul(c, %s)\nf = mul(x, e)\n"
        "r = aten.full.default([], 2.0)\ns = aten.sqrt.default(r)\nu = div(x, s)\nh = aten.erf.default(u)\n"
        "p = add(h, 1)\nq = mul(p, 0.5)\nw = add(q, f)\ny = mul(d, w)\n-> y"
    )
    given = "d: float32[6]\nx: float32[6]\n"
    job = job_of(f"{given}y = aten.gelu_backward.default(d, x)\n-> y", given + made % number)
    assert compare(job).proved is holds


@pytest.mark.parametrize(("number", "holds"), [(-9.210340371976184, True), (-9.2103404, False), (-9.21034, False)])
def test_powers_by_exponentials(number: float, holds: bool) -> None:
    """``10000 ** (-x / 4)`` is ``exp(-log(10000) x / 4)``, whose logarithm Python computed."""
    job = job_of(
        "x: float32[6]\na = div(x, -4)\ny = aten.pow.Scalar(10000.0, a)\n-> y",
        f"x: float32[6]\na = mul(x, {number})\nb = div(a, 4)\ny = aten.exp.default(b)\n-> y",
    )
    assert compare(job).proved is holds


CANCELLED = """
x: float32[6, 4]
n = constant float32[4] [0.1, 0.2, 0.3, 0.4]
f = add(n, 1e8)
c = sub(f, 1e8)
y = mul(x, c)
-> y
"""
TURNED = CANCELLED.replace("f = add(n, 1e8)\nc = sub(f, 1e8)", "f = mul(n, 1e9)\nc = aten.sin.default(f)")


def test_small_numbers_beside_a_large_one_that_cancel_are_no_table() -> None:
    program = CANCELLED.replace("0.1, 0.2, 0.3, 0.4", "1000.0, 3.7, 2.1, 0.5")
    pair = program, recorded(np.array([1000.0, -40.0, 40.0, -30.0]))
    assert with_closed_forms(job_of(*pair))[1] == ()
    assert compare(job_of(*pair)).verdict is Verdict.REFUTED


@pytest.mark.parametrize("program", [CANCELLED, TURNED])
def test_a_form_that_may_be_off_by_anything_is_no_table(program: str) -> None:
    table = recorded(np.array([0.5, -0.25, 0.7, 0.1]))
    for pair in ((program, table), (table, program)):
        assert with_closed_forms(job_of(*pair))[1] == ()
        assert compare(job_of(*pair)).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("dtype", "verdict"),
    [("float32", Verdict.PROVED), ("float64", Verdict.REFUTED), ("complex128", Verdict.REFUTED)],
)
def test_a_literal_that_is_used_in_float64_is_exact(dtype: str, verdict: Verdict) -> None:
    program = f"x: {dtype}[6, 4]\nz = mul(x, NUMBER)\nd = sub(z, x)\ny = mul(d, 1e8)\n-> y"
    assert compare(job_of(*(program.replace("NUMBER", n) for n in ("1.00000001", "1.0")))).verdict is verdict


def test_a_literal_that_float64_is_compared_with_is_exact() -> None:
    """The result is a boolean, and differs at 9.9999999e-07."""
    program = "x: float64[6]\ny = aten.gt.Scalar(x, NUMBER)\n-> y"
    pair = (program.replace("NUMBER", n) for n in ("1e-06", "9.999999974752427e-07"))
    assert not compare(job_of(*pair)).proved


def test_a_program_that_writes_both_literals_tells_them_apart() -> None:
    """In float32 these differ in eager, too: 1/3 with seven digits is another number of 32 bits."""
    program = "x: float32[6]\na = mul(x, NUMBER)\nb = mul(x, 0.3333333333333333)\nc = sub(a, b)\ny = mul(c, 1e8)\n-> y"
    pair = (program.replace("NUMBER", n) for n in ("0.3333333", "0.3333333333333333"))
    assert compare(job_of(*pair)).verdict is Verdict.REFUTED


def test_a_node_that_is_called_as_one_that_is_made_stays_itself() -> None:
    """What reads it read the number that stands for the constant, once that was computed under its name."""
    program = """
        x: float32[6, 4]
        z = mul(x, 2.0)
        c = constant float32[] [1.7320507764816284]
        w = mul(x, c)
        y = add(w, z)
        -> y
    """
    one = """
        x: float32[6, 4]
        n = aten.full.default([], 3.0)
        r = aten.pow.Tensor_Scalar(n, 0.5)
        w = mul(x, r)
        y = add(w, n)
        -> y
    """
    job = job_of(one, program)
    rank = job.implementation[0]
    (constant,) = (node.name for node in rank.nodes if node.op == "constant")
    names = {"z": f"{constant} base"}
    nodes = tuple(replace(reading(node, names), name=names.get(node.name, node.name)) for node in rank.nodes)
    wrong = replace(job, implementation=(replace(rank, nodes=nodes),))
    assert not compare(wrong).proved  # 3 is not 2 x
