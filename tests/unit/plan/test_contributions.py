"""Gradients of context parallelism that lack what other ranks contribute, or have that of an earlier run: the right
ones are proved up to that, and whatever else is wrong is refused or refuted."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from support.jobs import typed_graph
from support.plans import verified
from tantamount.capture.graph_document import graph_document
from tantamount.capture.programs import write_document
from tantamount.capture.strict import NotThat, group_along
from tantamount.errors import UserError
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Expectation, Partial, Replicate
from tantamount.plan.contributions import whole_job
from tantamount.plan.read import read_plan
from tantamount.plan.result import PlanReport
from tantamount.verdict import Verdict

AXES = {"dp": 2, "cp": 2}
PROGRAMS = {
    "mix.spec": """
        x: float32[8, 4, 3]
        p: float32[8, 4, 4]
        d_y: float32[8, 4, 3]
        y = aten.bmm.default(p, x)
        pt = aten.transpose.int(p, 1, 2)
        d_x = aten.bmm.default(pt, d_y)
        -> y, d_x
    """,
    "last.spec": """
        x: float32[8, 4, 3]
        q = mul(x, x)
        loss = aten.sum.default(q)
        d_x = mul(x, 2)
        -> loss, d_x
    """,
    "last": """
        x: float32[2, 2, 3]
        q = mul(x, x)
        loss = aten.sum.default(q)
        d_x = mul(x, 2)
        -> loss, d_x
    """,
}
MIX = """
    x: float32[2, 2, 3]
    p: float32[2, 2, 4]
    d_y: float32[2, 2, 3]
    late: float32[2, 2, 3]
    later: float32[2, 2, 3]
    xt = aten.transpose.int(x, 0, 1)
    g = all_gather(xt, 2, "cp")
    all = aten.transpose.int(g, 0, 1)
    y = aten.bmm.default(p, all)
    pt = aten.transpose.int(p, 1, 2)
    t = aten.bmm.default(pt, d_y)
    {own}
    {rest}
    -> {outputs}
"""
OWN = "own = aten.slice.Tensor(t, 1, {first}, {end})"
TRUNCATED = "d_x = mul(own, 1)"
OTHERS = """tt = aten.transpose.int(t, 0, 1)
    s = reduce_scatter(tt, "sum", 2, "cp")
    st = aten.transpose.int(s, 0, 1)"""
STALE = OTHERS + "\n    new = sub(st, own)\n    d_x = add(own, late)"
LATE = {"kind": "stale-gradient", "state": {"late": "new"}}


def written(folder: Path, own: str, rest: str, outputs: str = "y, d_x", **declared: Any) -> Path:
    """A plan of two pieces, the first of which mixes positions; its path."""
    programs = dict(PROGRAMS)
    for rank in range(2):
        at = own.replace("{first}", str(2 * rank)).replace("{end}", str(2 * rank + 2)).replace("{rank}", str(rank))
        there = rest.replace("{rank}", str(rank))
        programs[f"mix.{rank}"] = MIX.replace("{own}", at).replace("{rest}", there).replace("{outputs}", outputs)
    for name, text in programs.items():
        write_document(folder / f"{name}.json.gz", graph_document(typed_graph(text, AXES)))
    rows = {"microbatch": "Shard(0)", "dp": "Shard(0)", "cp": "Shard(1)"}
    loss = dict.fromkeys(rows, 'Partial("sum")')
    mix = {
        "spec": "mix.spec.json.gz", "impl": {"cp": ["mix.0.json.gz", "mix.1.json.gz"]}, "data": ["x", "p"],
        "after": {"h": ["y", "d_y"]}, "results": ["d_x"], "inputs": {"default": rows}, "outputs": {"default": rows},
    }  # fmt: skip
    last = {
        "spec": "last.spec.json.gz", "impl": "last.json.gz", "before": {"h": ["x", "d_x"]}, "results": ["loss"],
        "inputs": {"default": rows}, "outputs": {"loss": loss, "d_x": rows},
    }  # fmt: skip
    keys = {"kind": "truncated-gradient", "part": "mix", "nodes": ["own"], "over": ["cp"], **declared}
    document = {
        "format": "plan/1", "name": "mixed", "mesh": {"axes": AXES}, "data": {"microbatches": 2},
        "model": {"pieces": ["mix", "last"]}, "part": {"mix": mix, "last": last}, "approximate": {"other": keys},
    }  # fmt: skip
    (folder / "plan.toml").write_text(tomli_w.dumps(document))
    return folder / "plan.toml"


def told(*args: Any, **declared: Any) -> PlanReport:
    """The verdict on such a plan."""
    return verified(written(*args, **declared))


def test_a_gradient_without_what_others_contribute(tmp_path: Path) -> None:
    report = told(tmp_path, OWN, TRUNCATED)
    assert (report.verdict, report.exit_code) == (Verdict.PROVED, 3), report.text()
    assert "truncated-gradient (own) without what other ranks along cp contribute" in report.text()
    parts = OWN.replace("aten.slice.Tensor(t, 1, {first}, {end})", "getitem(both, {rank})")
    split = f"both = aten.split.Tensor(t, 2, 1)\n    {parts}"
    assert told(tmp_path, split, TRUNCATED).verdict is Verdict.PROVED


def test_a_gradient_with_what_others_contributed_before(tmp_path: Path) -> None:
    report = told(tmp_path, OWN, STALE, "y, d_x, new", **LATE)
    assert (report.verdict, report.exit_code) == (Verdict.PROVED, 3), report.text()
    assert [part.part for part in report.parts] == ["mix", "mix, other", "last"]
    assert "with what other ranks along cp contributed when it ran before" in report.text()


@pytest.mark.parametrize(
    ("own", "rest", "why"),
    [
        ("own = aten.slice.Tensor(t, 1, 0, 2)", TRUNCATED, "part 0 of t on ranks 1 of cp"),  # of the first rank
        ("own = aten.slice.Tensor(t, 1, 1, 3)", TRUNCATED, "not one of 2 equal parts"),
        ("own = aten.slice.Tensor(t, 1, 0, 4, 2)", TRUNCATED, "not one of 2 equal parts"),
        ("own = mul(t, 0)", "z = aten.slice.Tensor(own, 1, 0, 2)\n    d_x = mul(z, 1)", "not one of"),
        # forward: what a rank has of the sum over positions of others
        ("w = aten.bmm.default(pt, x)\n    own = aten.slice.Tensor(w, 1, {first}, {end})", TRUNCATED, "vanish"),
        # what ranks add and others take away is seen in the sum of no strict form
        ("e = add(t, {rank})\n    own = aten.slice.Tensor(e, 1, {first}, {end})", TRUNCATED, "vanish"),
        # it has what other ranks contribute in it
        ('b = all_reduce(t, "sum", "cp")\n    own = aten.slice.Tensor(b, 1, {first}, {end})', TRUNCATED, "other ranks"),
        (
            'b = all_reduce(t, "sum", "cp")\n    c = mul(b, t)\n    own = aten.slice.Tensor(c, 1, {first}, {end})',
            TRUNCATED, "other ranks",
        ),
    ],
)  # fmt: skip
def test_what_is_not_the_own_part_of_a_contribution_is_refused(own: str, rest: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as raised:
        told(tmp_path, own, rest)
    assert raised.value.code == "plan-approximate"
    assert why in str(raised.value)


@pytest.mark.parametrize(
    "rest",
    [
        "d_x = mul(own, 2)",  # something else is wrong as well
        "d_x = mul(own, 0)",  # the own part is dropped, too
        "d_x = add(own, late)",  # with something of which nothing is known
    ],
)
def test_nothing_but_the_contributions_of_others_may_be_missing(rest: str, tmp_path: Path) -> None:
    report = told(tmp_path, OWN, rest)
    assert report.parts[0].verdict is Verdict.REFUTED, report.text()


@pytest.mark.parametrize(
    ("rest", "outputs", "state", "why"),
    [
        # stale by two: what is left is what was given
        (STALE.replace("late)", "later)"), "y, d_x, later", {"later": "later"}, "depends on what an earlier run left"),
        (STALE.replace("late)", "later)"), "y, d_x, late, new", {"later": "late", "late": "new"}, "one by one"),
        # it is added up over all runs
        (STALE + "\n    new2 = add(new, late)", "y, d_x, new2", {"late": "new2"}, "a part of new2"),
        (STALE, "y, d_x, new", {"d_y": "new"}, "which the specification knows of"),
        (STALE, "y, d_x, new", {"nothing": "new"}, "which is no input"),
        (STALE, "y, d_x, new", {"late": "other"}, "does not give"),
    ],
)
def test_what_an_earlier_run_left_must_be_of_the_last_one(
    rest: str, outputs: str, state: dict[str, str], why: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as raised:
        told(tmp_path, OWN, rest, outputs, **{**LATE, "state": state})
    assert raised.value.code == "plan-approximate"
    assert why in str(raised.value)


def test_state_that_is_given_on_from_run_to_run_is_no_contribution(tmp_path: Path) -> None:
    """Stale by two, of which only the younger is declared."""
    rest = STALE.replace("late)", "later)")
    report = told(tmp_path, OWN, rest, "y, d_x, late, new", **{**LATE, "state": {"later": "late"}})
    assert report.verdict is not Verdict.PROVED


@pytest.mark.parametrize(
    ("rest", "part"),
    [
        # the own part comes late, too
        (STALE.replace("sub(st, own)", "mul(st, 1)").replace("add(own, late)", "mul(late, 1)"), "mix"),
        (STALE.replace("sub(st, own)", "mul(st, 1)"), "mix, other"),  # it is counted twice
        (STALE.replace("sub(st, own)", "mul(st, 0)"), "mix, other"),  # nothing is left for the next run
        (STALE.replace("add(own, late)", "sub(own, late)"), "mix"),
    ],
)
def test_what_is_late_must_be_what_others_contribute(rest: str, part: str, tmp_path: Path) -> None:
    report = told(tmp_path, OWN, rest, "y, d_x, new", **LATE)
    assert report.verdict is Verdict.REFUTED, report.text()
    assert part in [found.part for found in report.parts if found.verdict is Verdict.REFUTED]


def test_ranks_must_not_drift_apart(tmp_path: Path) -> None:
    """Something that all ranks of cp must have alike depends on what they miss, if only as a product with zero."""
    job = read_plan(written(tmp_path, OWN, TRUNCATED)).parts["mix"].job
    rest = "d_x = mul(own, 1)\n    n = mul(own, 0)\n    none = aten.sum.default(n)"
    graphs = [
        typed_graph(
            MIX.format(own=OWN.format(first=2 * k, end=2 * k + 2), rest=rest, outputs="y, d_x, none"),
            AXES,
        )
        for k in range(2)
    ]
    asked = {**job.outputs, "none": Expectation("none", (Replicate(),) * 3)}
    wrong = replace(job, implementation=tuple(graphs[rank % 2] for rank in range(8)), outputs=asked)
    with pytest.raises(NotThat, match="alike"):
        whole_job(wrong, ["own"], "cp", ["d_y"])
    rest = (
        'd_x = mul(own, 1)\n    w = all_gather(own, 2, "cp")\n    a = aten.sum.default(w)\n    none = mul(a, {factor})'
    )
    graphs = [
        typed_graph(
            MIX.format(
                own=OWN.format(first=2 * k, end=2 * k + 2), rest=rest.format(factor=k + 1), outputs="y, d_x, none"
            ),
            AXES,
        )
        for k in range(2)
    ]
    gathered = replace(wrong, implementation=tuple(graphs[rank % 2] for rank in range(8)))
    with pytest.raises(NotThat, match="ways of their own"):
        whole_job(gathered, ["own"], "cp", ["d_y"])
    shard = replace(wrong, outputs={**asked, "none": Expectation("none", (Partial("sum"),) * 3)})
    assert whole_job(shard, ["own"], "cp", ["d_y"]).implementation[0].by_name["own"].target == "aten.transpose.int"


@pytest.mark.parametrize(
    "declared",
    [
        {"over": ["microbatch"]},
        {"over": ["dp", "cp"]},
        {"part": "last", "nodes": ["d_x"]},
        {"state": {"late": "new"}},
        {"kind": "stale-gradient"},
        {"nodes": ["nothing"]},
    ],
)
def test_declarations_that_say_something_else_are_refused(declared: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UserError) as raised:
        told(tmp_path, OWN, TRUNCATED, **declared)
    assert raised.value.code == "plan-approximate"


BESIDE = {
    "the others' with the wrong sign": "new = sub(st, own)\n    d_x = sub(own, new)",
    "the others' many times": "new = sub(st, own)\n    h = mul(new, 100)\n    d_x = add(own, h)",
    "twice its own": "n2 = mul(own, 2)\n    d_x = sub(n2, st)",
}


@pytest.mark.parametrize("rest", BESIDE.values(), ids=BESIDE)
def test_what_others_contribute_has_no_other_part(tmp_path: Path, rest: str) -> None:
    """With the sum in the place of the own part all of these are right."""
    with pytest.raises(UserError, match="gradients of other ranks along cp"):
        verified(written(tmp_path, OWN, f"{OTHERS}\n    {rest}"))


@pytest.mark.parametrize("factor", ["mul(q, 5)", "mul(q, late)"])
def test_what_an_earlier_run_left_is_not_drawn_on(tmp_path: Path, factor: str) -> None:
    rest = STALE.replace("d_x = add(own, late)", f"e = add(own, late)\n    q = sub(late, new)\n    r = {factor}")
    with pytest.raises(UserError, match="gradients of other ranks along cp"):
        verified(written(tmp_path, OWN, f"{rest}\n    d_x = add(e, r)", "y, d_x, new", **LATE))


def test_what_is_left_has_the_type_of_what_is_given(tmp_path: Path) -> None:
    rest = f"{STALE}\n    other = aten._to_copy.default(new, dtype=bfloat16)"
    with pytest.raises(UserError, match="not of the type of late"):
        verified(written(tmp_path, OWN, rest, "y, d_x, other", **{**LATE, "state": {"late": "other"}}))


def test_what_stands_in_the_place_of_a_node_takes_no_name_of_another_one(tmp_path: Path) -> None:
    """A group of the plan's that is called as the one that is made would be another one in the proof, and so would a
    node: there ``d_x`` is half of what it should be."""
    mesh = Mesh({"dp": 2, "cp": 2}, {"strict+cp": ("dp", "cp")})
    name, more = group_along(mesh, ("cp",))
    assert more.groups == {"strict+cp": ("dp", "cp"), name: ("cp",)}
    taken = "own_sum = aten.transpose.int(x, 0, 1)\n    " + OWN
    halved = "u = aten.transpose.int(own_sum, 0, 1)\n    b = add(own, u)\n    d_x = mul(b, 0.5)"
    path = written(tmp_path, taken, halved)
    for rank in range(2):
        file = tmp_path / f"mix.{rank}.json.gz"
        file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()).replace(b"own_sum", b"own.sum")))
    with pytest.raises(UserError, match=r"own\.sum of .*, a name that is needed"):
        read_plan(path)
