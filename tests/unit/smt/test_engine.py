"""The second engine on small jobs: right ones, wrong twins, and what it must not conclude."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from support.jobs import job_files, typed_graph
from tantamount.answers import refine
from tantamount.capture.job import read_job
from tantamount.effort import Effort
from tantamount.errors import Unsupported, UserError
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Expectation, InputRelation
from tantamount.report.json_report import as_job
from tantamount.smt.engine import Compared, compare
from tantamount.verdict import Verdict

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
EQUAL = Verdict.EQUAL_REDUCED


def pair(specification: str, implementation: str) -> Job:
    """The job of two programs on one device with the same inputs and outputs."""
    first, second = typed_graph(specification), typed_graph(implementation)
    inputs = {node.name: InputRelation(node.name, (), text="Replicate()") for node in first.inputs}
    outputs = {output.name: Expectation(output.name, (), text="Replicate()") for output in first.outputs}
    return Job("pair", first, (second,), Mesh(), inputs, outputs)


def compared(specification: str, implementation: str) -> Compared:
    return compare(pair(specification, implementation), Effort())


def equal(specification: str, implementation: str) -> bool:
    return all(output.equal for output in compared(specification, implementation).outputs)


def reason(specification: str, implementation: str) -> str:
    (output,) = compared(specification, implementation).outputs
    return output.reason


def test_exponents_that_are_no_products_are_functions() -> None:
    head = "x: float32[2]\ne = aten.exp.default(x)\np = aten.pow.Tensor_Scalar(e, {0})\n"
    first = head + "q = add(p, x)\ny = mul(q, 2)\n-> y"
    second = head + "a = mul(p, 2)\nb = mul(x, 2)\ny = add(a, b)\n-> y"
    assert equal(first.format(0.1), second.format(0.1))
    assert not equal(first.format(0.1), second.format(0.10000000149011612))


# ------------------------------------------------------------------------------------------------ pairs of programs
ATTENTION = """
    q: float32[2, 3]
    k: float32[4, 3]
    v: float32[4, 2]
    kt = t(k)
    s = mm(q, kt)
"""
EMBEDDED = """
    w: float32[4, 2]
    i: int64[3]
    a = slice(w, 0, 0, 2)
    b = slice(w, 0, 2, 4)
    low = lt(i, 2)
    high = ge(i, 2)
    i0 = masked_fill(i, high, 0)
    j = sub(i, 2)
    i1 = masked_fill(j, low, 0)
    p = embedding(a, i0)
    q = embedding(b, i1)
    m0 = unsqueeze(high, 1)
    m1 = unsqueeze(low, 1)
    p0 = masked_fill(p, m0, 0)
    q0 = masked_fill(q, m1, 0)
    z = add(p0, q0)
    -> z
"""
SQUARE = """
    x: float32[3]
    y: float32[3]
    a = mul(x, x)
    b = mul(x, y)
    c = mul(b, 2)
    d = mul(y, y)
    e = add(a, c)
    z = add(e, d)
    -> z
"""
RIGHT = {
    "distributed": ("x: float32[3]\ny: float32[3]\na = add(x, y)\nz = mul(a, a)\n-> z", SQUARE),
    "variance": (
        "x: float32[4]\nm = mean(x)\nd = sub(x, m)\ns = mul(d, d)\nz = mean(s)\n-> z",
        "x: float32[4]\nm = mean(x)\nx2 = mul(x, x)\ns = mean(x2)\nm2 = mul(m, m)\nz = sub(s, m2)\n-> z",
    ),
    "softmax": (
        ATTENTION + "p = softmax(s, 1, False)\nz = mm(p, v)\n-> z",
        ATTENTION + "e = aten.exp.default(s)\nt1 = sum_dims(e, [1], True)\nn = mm(e, v)\nz = div(n, t1)\n-> z",
    ),
    "chosen": (
        "x: float32[3]\nc: bool[3]\nz0 = aten.where.self(c, x, x)\nz = mul(z0, 2)\n-> z",
        "x: float32[3]\nc: bool[3]\nz = add(x, x)\n-> z",
    ),
    "clamped": ("x: float32[3]\nz = relu(x)\n-> z", "x: float32[3]\nc = lt(x, 0)\nz = masked_fill(x, c, 0)\n-> z"),
    "embedded": ("w: float32[4, 2]\ni: int64[3]\nz = embedding(w, i)\n-> z", EMBEDDED),
}
WRONG = {
    "distributed": ("mul(b, 2)", "mul(b, 3)"),
    "variance": ("sub(s, m2)", "add(s, m2)"),
    "softmax": ("[1], True", "[0], True"),
    "chosen": ("add(x, x)", "mul(x, x)"),
    "clamped": ("lt(x, 0)", "lt(x, 1)"),
    "embedded": ("j = sub(i, 2)", "j = sub(i, 1)"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right(name: str) -> None:
    found = compared(*RIGHT[name])
    assert all(output.equal for output in found.outputs), found.outputs
    assert not found.undecided


@pytest.mark.parametrize("name", RIGHT)
def test_its_wrong_twin(name: str) -> None:
    specification, implementation = RIGHT[name]
    before, after = WRONG[name]
    assert before in implementation
    if name == "softmax":
        implementation = implementation.replace(
            "t1 = sum_dims(e, [1], True)", "t0 = sum_dims(e, [0], True)\nt1 = sum(t0)"
        )
    else:
        implementation = implementation.replace(before, after)
    assert not equal(specification, implementation)


def test_an_implementation_must_be_defined_where_the_specification_is() -> None:
    plain = "x: float32[3]\ny: float32[3]\nz = add(x, y)\n-> z"
    quotient = "x: float32[3]\ny: float32[3]\na = mul(x, y)\nb = div(a, y)\nz = add(b, y)\n-> z"
    assert "not shown to be defined" in reason(plain, quotient)
    assert equal(quotient.replace("mul(x, y)", "add(x, 1)"), quotient.replace("mul(x, y)", "add(x, 1)"))
    chosen = "x: float32[3]\nc = lt(x, 0)\nl = aten.log.default(x)\nz = masked_fill(l, c, 0)\n-> z"
    assert "other values" in reason(chosen, "x: float32[3]\nz = aten.log.default(x)\n-> z")


def test_equal_values_at_random_points_are_not_enough() -> None:
    tiny = "x: float32[1]\nz = add(x, 1e-14)\n-> z"
    assert "not shown to be equal" in reason("x: float32[1]\nz = add(x, 0)\n-> z", tiny)


def test_indices_of_the_implementation_must_be_in_range() -> None:
    specification = "x: float32[4]\ni: int64[2]\nz = aten.index.Tensor(x, [i])\n-> z"
    assert equal(specification, specification)
    free = "x: float32[4]\ni: int64[2]\na = aten.index.Tensor(x, [i])\nb = mul(a, 0)\nz = mul(b, 0)\n-> z"
    zero = "x: float32[4]\ni: int64[2]\nz = zeros([2])\n-> z"
    assert "index may be out of range" in reason(zero, free)


def test_a_choice_by_an_index_says_nothing_of_what_is_not_chosen() -> None:
    """A gather of quotients is finite though a divisor that it does not take may be 0."""
    chosen = "x: float32[2]\ni: int64[1]\nq = aten.reciprocal.default(x)\nz = aten.index.Tensor(q, [i])\n-> z"
    assert equal(chosen, chosen)
    more = chosen.replace("\n-> z", "\nr = mul(q, x)\ns = sum(r)\nt1 = sub(s, 2)\ny = add(z, t1)\n-> z=y")
    assert "not shown to be defined" in reason(chosen, more)


def test_a_disjunction_as_a_condition() -> None:
    masked = "x: float32[3]\na: bool[3]\nb: bool[3]\n{}\nz = masked_fill(x, c, 0)\n-> z"
    either = masked.format("c = bitwise_or(a, b)")
    twice = "x: float32[3]\na: bool[3]\nb: bool[3]\np = masked_fill(x, a, 0)\nz = masked_fill(p, b, 0)\n-> z"
    assert equal(either, twice)
    assert not equal(masked.format("c = aten.bitwise_and.Tensor(a, b)"), twice)


def test_rows_are_functions_of_their_rows() -> None:
    order = "x: float32[3]\nv, i = aten.sort.default(x)\ns = mul(v, 2)\n-> s"
    assert equal(order, order.replace("mul(v, 2)", "add(v, v)"))
    assert not equal(order, order.replace("sort.default(x)", "sort.default(x, 0, True)"))
    assert not equal(order, order.replace("v, i", "y, i").replace("mul(v, 2)", "mul(x, 2)"))


def test_random_numbers_are_not_shared() -> None:
    drop = "x: float32[3]\nz, k = native_dropout(x, 0.5, True)\n-> z"
    with pytest.raises(Unsupported, match="does not say"):
        equal(drop, drop)
    empty = "x: float32[3]\ne = aten.empty.memory_format([3])\nz = add(x, e)\n-> z"
    assert not equal(empty, empty)


# ------------------------------------------------------------------------------------------------ whole jobs
def test_a_job_and_its_wrong_twin() -> None:
    right = refine(read_job(EXAMPLES / "mlp_tp2/job.toml"), engine="smt")
    assert (right.verdict, right.exit_code) == (EQUAL, 3)
    assert right.elementwise is not None
    assert right.elementwise.sizes == {6: (3,)}
    assert right.elementwise.elements == right.elementwise.by_expression == 24
    assert "elements    24 compared: 24 the same expression, 0 equal by z3" in str(right)
    assert "EQUAL AT REDUCED SHAPES" in str(right)
    assert as_job(right)["engine"] == "smt"
    wrong = refine(read_job(EXAMPLES / "mlp_tp2/wrong.toml"), engine="smt")
    assert (wrong.verdict, wrong.exit_code) == (Verdict.REFUTED, 1)
    assert wrong.counterexample is not None


def test_equal_at_small_sizes_is_no_proof(tmp_path: Path) -> None:
    """x[i] and x[2 * i], summed over a size that is reduced: at its own size they differ."""
    spec = "x: float32[12, 5]\na = slice(x, 0, 0, 6)\nz = sum_dims(a, [0])\n-> z"
    impl = "x: float32[12, 5]\na = slice(x, 0, 0, 12, 2)\nz = sum_dims(a, [0])\n-> z"
    tables = '[inputs]\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"'
    job = read_job(job_files(tmp_path, spec, [impl], tables, {}, {}))
    assert refine(job).verdict is Verdict.REFUTED
    assert refine(job, engine="smt").verdict in (Verdict.REFUTED, EQUAL)  # never PROVED
    one = "x: float32[{}, 5]\nz = slice(x, 0, 0, {}, {})\n-> z"  # of one element there is no difference
    assert equal(one.format(1, 1, 1), one.format(1, 1, 2))
    assert not equal(one.format(4, 2, 1), one.format(4, 4, 2))


SUMS: Mapping[str, str] = {
    "spec": "x: float32[4, 6]\nw: float32[6, 3]\nz = mm(x, w)\n-> z",
    "rank": 'x: float32[4, 3]\nw: float32[3, 3]\np = mm(x, w)\nz = all_reduce(p, "sum", "tp")\n-> z',
}
SHARDED = '[inputs]\nx = "Shard(1)"\nw = "Shard(0)"\n[outputs]\nz = "{}"'


@pytest.mark.parametrize(
    ("rank", "expected", "verdict"),
    [
        (SUMS["rank"], "Replicate()", EQUAL),
        (SUMS["rank"], "infer", EQUAL),
        (SUMS["rank"].replace("(p, ", "(p, ").replace('"sum"', '"avg"'), "Replicate()", Verdict.REFUTED),
        (SUMS["rank"].replace('z = all_reduce(p, "sum", "tp")', "z = mul(p, 1)"), "Partial('sum')", EQUAL),
    ],
)
def test_ranks(tmp_path: Path, rank: str, expected: str, verdict: Verdict) -> None:
    tables = SHARDED.format(expected)
    job = read_job(job_files(tmp_path, SUMS["spec"], [rank, rank], tables, {"tp": 2}, {"tp": ("tp",)}))
    assert refine(job, engine="smt").verdict is verdict


@pytest.mark.parametrize("shape", ["3", ""], ids=["vector", "number"])
def test_partial_inputs_are_the_whole_minus_the_others(shape: str, tmp_path: Path) -> None:
    spec = f"x: float32[{shape}]\nz = mul(x, 2)\n-> z"
    rank = f'x: float32[{shape}]\ny = all_reduce(x, "sum", "tp")\nz = mul(y, 2)\n-> z'
    tables = '[inputs]\nx = "Partial(\'sum\')"\n[outputs]\nz = "Replicate()"'
    job = read_job(job_files(tmp_path, spec, [rank, rank], tables, {"tp": 2}, {"tp": ("tp",)}))
    assert refine(job, engine="smt").verdict is EQUAL
    wrong = rank.replace("mul(y, 2)", "mul(x, 4)")
    job = read_job(job_files(tmp_path, spec, [wrong, wrong], tables, {"tp": 2}, {"tp": ("tp",)}))
    assert refine(job, engine="smt").verdict is Verdict.REFUTED


def test_limits_and_names() -> None:
    with pytest.raises(UserError, match="engine-unknown"):
        refine(pair(*RIGHT["chosen"]), engine="z3")
    stopped = refine(pair(*RIGHT["variance"]), engine="smt", timeout=1e-6)
    assert stopped.verdict is Verdict.UNKNOWN
    assert stopped.stopped == "limit-timeout"
