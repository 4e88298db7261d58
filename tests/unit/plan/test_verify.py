"""Whole training plans: what is right is PROVED, and what is wrong is not, with its place in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import sleep
from types import SimpleNamespace
from typing import Any

import pytest

from support.plan_run import run_plan
from support.plans import PROGRAMS, document, verified, write_plan
from tantamount.answers import refine, verify_plan
from tantamount.effort import Effort
from tantamount.errors import UserError
from tantamount.limits import Bounds, Limits
from tantamount.plan import prove as prove_module
from tantamount.plan.read import read_plan
from tantamount.plan.wiring import joints_of
from tantamount.verdict import Verdict

Edit = Callable[[dict[str, Any]], None]


def test_a_right_plan_is_proved_and_says_what_it_stands_for(tmp_path: Path) -> None:
    report = verified(write_plan(tmp_path))
    assert report.verdict is Verdict.PROVED, report.text(verbose=True)
    assert report.exit_code == 0
    assert [one.places for one in report.assumptions if one.name == "finite-joints"] == [("norm: factor",)]
    layer = next(part for part in report.parts if part.part == "layer")
    assert (layer.count, layer.ranks) == (3, 4)
    assert layer.nodes == 15 * 3 * 4 * 2  # calls, layers, ranks of a stage, microbatches
    assert {output.name: output.expectation for output in layer.outputs}["d_a"] == (
        '[Partial("sum"), Partial("sum"), Shard(1)]'
    )
    between = [joint for joint in report.joints if joint.tensor == "gradient of hidden"]
    assert [joint.count for joint in between] == [1, 2, 1]
    text = report.text(verbose=True)
    assert "8 ranks (pp 2 x dp 2 x tp 2), 2 microbatches, 5 pieces on 2 stages, 1f1b" in text
    assert "gradient of hidden: last: d_x -> layer: d_y: Shard(0) over microbatch and dp, Replicate() over tp" in text
    assert json.loads(json.dumps(report.document()))["verdict"] == "PROVED"


def test_any_number_of_microbatches_ranks_and_stages(tmp_path: Path) -> None:
    def alone(table: dict[str, Any]) -> None:
        table["mesh"]["axes"] |= {"pp": 1}
        table["data"]["microbatches"] = 2
        del table["model"]["stages"]

    assert verified(write_plan(tmp_path, {}, alone)).verdict is Verdict.PROVED

    def chunks(table: dict[str, Any]) -> None:
        table["schedule"] = {"name": "interleaved", "chunks": 2}
        table["model"]["stages"] = ["first", "layer 0", "layer 1", "layer 2, last"]

    assert verified(write_plan(tmp_path, {}, chunks)).verdict is Verdict.PROVED


def _missing(reduction: str, kept: str) -> tuple[str, str]:
    return reduction, f"mul({kept}, 1)"


WRONG_PARTS = {
    "backward": ("layer", _missing('all_reduce(share, "sum", "tp")', "share"), "a sum over tp", "d_x"),
    "data parallel": ("layer_reduce", _missing('all_reduce(d_b, "sum", "dp")', "d_b"), "a sum over dp", "g_b"),
    "wrong group": ("layer_reduce", ('all_reduce(d_b, "sum", "dp")', 'all_reduce(d_b, "sum", "tp")'), "g_b", "g_b"),
    "scaled by microbatches": ("last", ("div.Tensor(x, 32)", "div.Tensor(x, 16)"), "2 times too large", "d_x"),
    "norm of one stage": ("norm", _missing('all_reduce(total, "sum", "pp")', "total"), "a sum over pp", "factor"),
    "norm counts replicas": (
        "first_reduce",
        ("squares = aten.sum.default(p)", 'own = aten.sum.default(p)\nsquares = all_reduce(own, "sum", "tp")'),
        "applies all_reduce, and the specification does not", "squares",
    ),
    "wrong sign": ("layer_update", ("new_b = sub(b, cb)", "new_b = add(b, cb)"), "", "new_b"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_PARTS)
def test_a_wrong_part_is_refuted_with_its_place(tmp_path: Path, case: str) -> None:
    part, change, words, output = WRONG_PARTS[case]
    report = verified(write_plan(tmp_path, {part: change}))
    assert report.verdict is Verdict.REFUTED, report.text()
    wrong = [found for found in report.parts if found.verdict is not Verdict.PROVED]
    assert [found.part for found in wrong] == [part]
    assert output in {found.name for found in wrong[0].outputs if found.verdict is Verdict.REFUTED}
    assert wrong[0].counterexample is not None
    assert wrong[0].mismatch is not None
    assert words in f"{wrong[0].mismatch.headline} {wrong[0].mismatch.difference}"
    assert f"  {part}" in report.text()


def test_what_parts_pass_on_is_a_number_or_that_is_assumed(tmp_path: Path) -> None:
    """A layer that masks what is large with minus infinity, of which the loss makes 0, and a rank NaN."""
    names = {"layer.spec": "y = mm(r, b)", "layer": 'y = all_reduce(part, "sum", "tp")'}
    masked = "\nm = aten.gt.Scalar(v, 1000)\ny = masked_fill(v, m, -inf)"
    changes = {name: (text, f"v{text[1:]}{masked}") for name, text in names.items()}
    changes["last.spec"] = ("q = mul(x, x)", "q = aten.exp.default(x)")
    changes["last"] = ("q = mul(x, x)", "e = aten.exp.default(x)\nz = mul(x, 0.0)\nq = add(e, z)")
    report = verified(write_plan(tmp_path, changes))
    assert report.verdict is Verdict.PROVED
    (found,) = [one for one in report.assumptions if one.name == "finite-joints"]
    assert found.places == ("layer: y", "norm: factor")


def _stages(*stages: str) -> Edit:
    return lambda table: table["model"].update(stages=list(stages))


def _devices(first: str, second: str) -> Edit:
    return lambda table: table.update(schedule={"devices": [first, second]})


LATER = "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1REDUCE_GRAD 1UPDATE"
WRONG_ORDER: dict[str, tuple[Edit, str]] = {
    "twice": (_stages("first, layer 0-1", "layer 1-2, last"), "layer 1 is owned by stages 0 and 1"),
    "nobody": (_stages("first, layer 0", "layer 2, last"), "layer 1 is owned by no stage"),
    "one too many": (_stages("first, layer 0", "layer 1-3, last"), "layer 3, which the model does not have"),
    "order": (_stages("first, layer 1", "layer 0, layer 2, last"), "layer 1 comes where layer 0 should be"),
    "stages": (_stages("first", "layer 0-2", "last"), "the plan has 3 stages, its schedule 2"),
    "microbatches swapped": (
        _devices("0F0 0F1 0SEND_F1 0SEND_F0 0RECV_B0 0B0 0RECV_B1 0B1 0REDUCE_GRAD 0UPDATE", LATER),
        "1RECV_F0 gets 0SEND_F1",
    ),
    "early reduction": (
        _devices("0F0 0SEND_F0 0RECV_B0 0B0 0REDUCE_GRAD 0F1 0SEND_F1 0RECV_B1 0B1 0UPDATE", LATER),
        "the gradient of 0B1 comes after the reduction",
    ),
    "a microbatch too few": (
        _devices("0F0 0SEND_F0 0RECV_B0 0B0 0F1 0SEND_F1 0RECV_B1 0REDUCE_GRAD 0UPDATE", LATER), "0B1 is missing",
    ),
    "update too soon": (
        _devices("0F0 0SEND_F0 0RECV_B0 0B0 0F1 0SEND_F1 0RECV_B1 0B1 0REDUCE_GRAD 0UPDATE",
                 LATER.replace("1SEND_B1 1REDUCE_GRAD 1UPDATE", "1REDUCE_GRAD 1UPDATE 1SEND_B1")),
        "1SEND_B1 comes after an update",
    ),
    "updates alone": (
        _devices("0F0 0SEND_F0 0RECV_B0 0B0 0F1 0SEND_F1 0RECV_B1 0B1 0UPDATE", LATER.replace("1REDUCE_GRAD ", "")),
        "first_reduce has no place in the schedule",
    ),
    "two that add to one gradient": (
        _devices("0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0RECV_B1 {0B0 0B1} 0REDUCE_GRAD 0UPDATE", LATER),
        "add to the same gradients",
    ),
    "the norm among reductions": (
        lambda table: table.update(finish={"reduce": ["first_reduce", "layer_reduce", "norm"],
                                           "update": ["first_update", "layer_update"]}),
        "norm waits for other stages",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_ORDER)
def test_wrong_stages_and_schedules_are_refuted(tmp_path: Path, case: str) -> None:
    edit, words = WRONG_ORDER[case]
    report = verified(write_plan(tmp_path, {}, edit))
    assert report.verdict is Verdict.REFUTED
    assert any(words in problem for problem in (*report.ownership, *report.schedule)), report.text()


def _part(name: str, key: str, **values: Any) -> Edit:
    def edit(table: dict[str, Any]) -> None:
        table["part"][name].setdefault(key, {}).update(values)

    return edit


def _finish(**lists: list[str]) -> Edit:
    return lambda table: table["finish"].update(lists)


WRONG_JOINTS: dict[str, tuple[dict[str, tuple[str, str]], Edit, str]] = {
    "gradients that are still sums": (
        {"layer_reduce": _missing('all_reduce(d_b, "sum", "dp")', "d_b")},
        _part("layer_reduce", "inputs", d_b={"tp": "Shard(0)"}),
        'the ranks have Partial("sum") over dp, Shard(0) over tp, but Replicate() over dp, Shard(0) over tp is taken',
    ),
    "a stream that nobody takes": (
        {}, _part("layer", "after", other=["y"]), "the output y of layer is 2 things to the plan",
    ),
    "a gradient that nobody gives": (
        {}, lambda table: table["part"]["last"].update(before={"hidden": ["x"]}),
        "layer takes a gradient of hidden that last does not give",
    ),
    "a gradient that nobody reduces": (
        {}, _finish(reduce=["layer_reduce"]), "nothing takes d_w of first",
    ),
    "a parameter that nobody updates": (
        {}, _finish(update=["norm", "layer_update"]), "nothing updates w of first",
    ),
    "used before it is made": (
        {}, _finish(update=["first_update", "norm", "layer_update"]), "nothing before it gives on every stage",
    ),
    "updated twice": (
        {}, _finish(update=["norm", "first_update", "layer_update", "first_update"]), "w is replaced twice",
    ),
    "another gradient": (
        {}, lambda table: table["part"]["layer"].update(parameters={"a": "d_b", "b": "d_a"}),
        "d_b has the shape of another tensor than a",
    ),
    "a part that never runs": ({}, _finish(update=["first_update", "layer_update"]), "norm is a part that never runs"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_JOINTS)
def test_parts_that_do_not_fit_are_not_proved(tmp_path: Path, case: str) -> None:
    programs, edit, words = WRONG_JOINTS[case]
    report = verified(write_plan(tmp_path, programs, edit))
    assert report.verdict is Verdict.REFUTED
    assert all(part.verdict is Verdict.PROVED for part in report.parts)
    assert any(words in joint.problem for joint in report.joints), report.text()


def test_new_parameters_must_be_held_as_the_old_ones_were(tmp_path: Path) -> None:
    """An update that leaves shards where replicas were is right by itself, and the next iteration is wrong."""

    def edit(table: dict[str, Any]) -> None:
        table["part"]["first_update"] |= {
            "inputs": {"default": "Replicate()", "w": {"tp": "Shard(0)"}, "g_w": {"tp": "Shard(0)"}},
            "outputs": {"default": {"tp": "Shard(0)"}},
        }

    halves = {"first_update": ("float32[6, 4]", "float32[3, 4]")}
    report = verified(write_plan(tmp_path, halves, edit))
    assert report.verdict is Verdict.REFUTED
    problems = {joint.tensor: joint.problem for joint in report.joints if joint.problem}
    assert problems["new w"].startswith("the ranks have Replicate() over dp, Shard(0) over tp")
    assert set(problems) == {"w", "g_w", "new w"}


def test_what_goes_forward_may_not_depend_on_what_comes_back(tmp_path: Path) -> None:
    more = ("y = mm(r, b)", "u = mm(r, b)\ny = add(u, d_y)")
    local = ('y = all_reduce(part, "sum", "tp")', 'u = all_reduce(part, "sum", "tp")\ny = add(u, d_y)')
    report = verified(write_plan(tmp_path, {"layer.spec": more, "layer": local}))
    assert report.verdict is Verdict.REFUTED
    assert any("y of layer goes forward, and depends on d_y" in joint.problem for joint in report.joints)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("-> y, d_a, d_b, d_x", "-> y, d_a, d_b, d_x, h"), "also gives h"),
        (("d_x = all_reduce(share", "z = aten.mul_.Tensor(a, 2)\nd_x = all_reduce(share"), "overwrites its input a"),
    ],
)
def test_what_a_part_leaves_behind_is_not_ignored(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    """Microbatches would not be alike: the second finds what the first has changed."""
    report = verified(write_plan(tmp_path, {"layer": change}))
    assert report.verdict is not Verdict.PROVED
    assert any(words in joint.problem for joint in report.joints), report.text()


def test_two_inputs_that_a_program_takes_for_one_are_not_proved(tmp_path: Path) -> None:
    """What holds where two parameters are equal says nothing of those of the plan."""
    spec = {"first.spec": ("d_y: float32[16, 4]", "v: float32[6, 4]\nd_y: float32[16, 4]")}

    def edit(table: dict[str, Any]) -> None:
        first = table["part"]["first"]
        first["frozen"] = ["v"]
        first["inputs"]["v"] = {"name": "w"}

    report = verified(write_plan(tmp_path, spec, edit))
    assert report.verdict is Verdict.UNKNOWN
    assert {part.part for part in report.parts if part.verdict is not Verdict.PROVED} == {"first"}
    assert any("two inputs of first are one tensor" in joint.problem for joint in report.joints)


REDUCED = 'y = all_reduce(part, "sum", "tp")'
OTHER_DTYPES = {
    "y": (REDUCED, REDUCED.replace("y =", "u =") + "\ny = aten._to_copy.default(u, dtype=bfloat16)"),
    "d_y": ("d_y: float32[4, 4]", "d_y: float64[4, 4]"),
}


@pytest.mark.parametrize("tensor", OTHER_DTYPES)
def test_ranks_whose_programs_have_other_dtypes_are_not_proved(tensor: str, tmp_path: Path) -> None:
    """Every part is right by itself; the second rank sends bfloat16 to one that waits for float32."""
    text = PROGRAMS["layer"].replace(*OTHER_DTYPES[tensor])
    if tensor == "d_y":
        text = text.replace("h = mm(x, a)", "e = aten._to_copy.default(d_y, dtype=float32)\nh = mm(x, a)")
        text = text.replace("mm(rt, d_y)", "mm(rt, e)").replace("mm(d_y, bt)", "mm(e, bt)")

    def edit(table: dict[str, Any]) -> None:
        table["part"]["layer"]["impl"] = {"tp": ["layer.json.gz", "layer.other.json.gz"]}

    report = verified(write_plan(tmp_path, {}, edit, {"layer.other": text}))
    assert report.verdict is Verdict.UNKNOWN, report.text()
    (problem,) = (joint.problem for joint in report.joints if joint.problem)
    assert problem.startswith(f"{tensor} of layer is float32 on some ranks and ")


def test_what_couples_microbatches_is_not_proved(tmp_path: Path) -> None:
    """Statistics of a microbatch's own rows are not those of the batch."""
    spec = ("y = mm(data, w)", "n = aten.mean.dim(data, [0], True)\nc = sub(data, n)\ny = mm(c, w)")
    report = verified(write_plan(tmp_path, {"first.spec": spec, "first": spec}))
    assert report.verdict is Verdict.REFUTED
    assert [part.part for part in report.parts if part.verdict is not Verdict.PROVED] == ["first"]


# ---------------------------------------------------------------------------------------------- bad files
def _set(*path: str, value: object) -> Edit:
    def edit(table: dict[str, Any]) -> None:
        for key in path[:-1]:
            table = table[key]
        table[path[-1]] = value

    return edit


BAD = {
    "comma": (lambda table: table["part"].update({"first, rows apart": table["part"]["first"]}), "plan-field"),
    "format": (_set("format", value="plan/2"), "plan-format"),
    "key": (_set("modell", value={}), "plan-unknown-key"),
    "mesh": (_set("mesh", "axes", "dp", value=0), "plan-field"),
    "pipeline": (_set("mesh", "pipeline", value="stages"), "plan-unknown-axis"),
    "axis": (_set("data", "axis", value="dp"), "plan-axis"),
    "an axis that groups may span": (_set("data", "axis", value="copy"), "plan-axis"),
    "ranks": (_set("data", "microbatches", value=1 << 20), "limit-ranks"),
    "kind": (_set("part", "norm", "kind", value="twice"), "plan-field"),
    "part": (_set("model", "pieces", value=["first", "layr * 3", "last"]), "plan-unknown-part"),
    "piece": (_set("model", "stages", value=["norm"]), "plan-unknown-part"),
    "of a part": (_set("part", "layer_reduce", "of", value="layr"), "plan-unknown-part"),
    "finish": (_set("finish", "reduce", value=["layer"]), "plan-unknown-part"),
    "tensor": (_set("part", "layer", "parameters", value={"a": "d_q"}), "plan-unknown-tensor"),
    "placement axis": (_set("part", "layer", "inputs", "a", value={"pp": "Shard(0)"}), "plan-unknown-axis"),
    "placement": (_set("part", "layer", "inputs", "a", value={"tp": "Shrd(0)"}), "relation-syntax"),
    "no relation": (_set("part", "last", "inputs", value={}), "plan-relation"),
    "shape": (_set("part", "layer", "inputs", "a", value="Replicate()"), "job-relation-shape"),
    "a gradient as a number": (_set("symbols", value=["lr", "d_w"]), "plan-field"),
    "a number that a part gives": (_set("symbols", value=["lr", "factor"]), "plan-field"),
    "outside": (_set("part", "layer", "impl", value="../layer.json"), "job-graph-outside"),
    "programs": (_set("part", "layer", "impl", value={"tp": ["layer.json.gz"]}), "plan-field"),
    "programs by microbatch": (_set("part", "layer", "impl", value={"microbatch": ["a", "b"]}), "plan-unknown-axis"),
    "schedule": (_set("schedule", value={"name": "2f2b"}), "plan-schedule"),
    "schedules": (_set("schedule", value={"name": "1f1b", "devices": []}), "plan-field"),
    "table": (_set("schedule", value={"table": "../x.csv"}), "plan-outside"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_an_error_with_a_place(tmp_path: Path, case: str) -> None:
    edit, code = BAD[case]
    path = write_plan(tmp_path, {}, edit)
    with pytest.raises(UserError) as raised:
        read_plan(path)
    assert raised.value.code == code
    assert str(path) in raised.value.place or "schedule" in raised.value.place


def test_a_smaller_form_that_is_another_program_refutes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number of one program that was taken for a size, and made smaller, while that of the other was not."""
    (tmp_path / "wrong").mkdir()
    right = read_plan(write_plan(tmp_path)).parts["last"]
    wrong = read_plan(write_plan(tmp_path / "wrong", {"last": ("(x, 32)", "(x, 16)")})).parts["last"]
    checked = prove_module.part_checker(refine)
    monkeypatch.setattr(prove_module, "_smaller", lambda *_: (wrong.job, "made smaller"))
    assert checked(wrong).verdict is Verdict.REFUTED
    assert checked(right).verdict is Verdict.PROVED


def test_what_no_smaller_form_has_is_looked_at_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number of the program that is no size, but looked like one: smaller, it is right."""
    (tmp_path / "wrong").mkdir()
    right = read_plan(write_plan(tmp_path)).parts["last"]
    wrong = read_plan(write_plan(tmp_path / "wrong", {"last": ("(x, 32)", "(x, 16)")})).parts["last"]
    monkeypatch.setattr(prove_module, "_smaller", lambda *_: (right.job, "made smaller"))
    found = prove_module.part_checker(refine)(wrong)
    assert found.verdict is Verdict.REFUTED
    assert found.counterexample is not None
    effort = Effort(bounds=replace(Bounds(), part_elements=0))
    assert prove_module.part_checker(refine, effort)(wrong).verdict is Verdict.UNKNOWN
    assert effort.hits["part_elements"].bound == 0


def test_a_part_with_too_many_ranks_is_not_looked_at_closely_and_it_is_said(tmp_path: Path) -> None:
    job = read_plan(write_plan(tmp_path, {"last": ("(x, 32)", "(x, 16)")})).parts["last"]
    effort = Effort(bounds=replace(Bounds(), part_ranks=0))
    found = prove_module.part_checker(refine, effort)(job)
    assert found.verdict is Verdict.UNKNOWN
    assert found.notes == ("no form of it on 0 ranks or fewer was found (limit-part-ranks)",)
    assert effort.hits["part_ranks"].bound == 0


def test_the_time_for_a_part_is_bounded_and_it_is_said(tmp_path: Path) -> None:
    job = read_plan(write_plan(tmp_path)).parts["last"].job
    proof: Any = SimpleNamespace(job=job, check=lambda **_: sleep(5))
    effort = Effort(bounds=replace(Bounds(), part_seconds=0))
    found = prove_module._with_effort(proof, {}, effort)
    assert found.keys() == job.outputs.keys()
    assert {output.reason for output in found.values()} == {"limit-part-seconds was hit (0 s)"}
    assert "part_seconds" in effort.hits


def test_nothing_is_known_after_no_time(tmp_path: Path) -> None:
    report = verify_plan(write_plan(tmp_path), timeout=1e-6)
    assert report.verdict is Verdict.UNKNOWN
    assert all(part.verdict is Verdict.UNKNOWN for part in report.parts)


def test_the_table_is_new_each_time() -> None:
    assert document() is not document()


def test_a_page_has_stages_time_line_parts_and_joints(tmp_path: Path) -> None:
    from tantamount.plan.page import plan_page

    page = plan_page(verified(write_plan(tmp_path)))
    assert page.startswith("<!doctype html>")
    assert page.count("<svg") == 1
    for text in ('<span class="PROVED">PROVED</span> small', "layer 1-2, last", "Holds as well for every number of"):
        assert text in page
    (tmp_path / "wrong").mkdir()
    part, change, words, _ = WRONG_PARTS["backward"]
    page = plan_page(verified(write_plan(tmp_path / "wrong", {part: change}, lambda t: t.update(name="<b>"))))
    assert words in page
    assert "&lt;b&gt;" in page
    assert "<b>" not in page


def test_what_other_parts_compute_is_known_from_what_the_data_loader_gives(tmp_path: Path) -> None:
    plan = read_plan(write_plan(tmp_path))
    assert plan.parts["first"].job.specification.computed == {"w", "d_y"}
    assert plan.parts["layer"].job.specification.computed == {"x", "a", "b", "d_y"}


def test_the_second_engine_compares_every_part(tmp_path: Path) -> None:
    right = verify_plan(write_plan(tmp_path), engine="smt")
    assert right.verdict is Verdict.EQUAL_REDUCED, right.text()
    assert right.exit_code == 3
    assert {part.verdict for part in right.parts} == {Verdict.EQUAL_REDUCED}
    assert "elements: " in right.text()
    wrong = verify_plan(write_plan(tmp_path, dict([WRONG_PARTS["backward"][:2]])), engine="smt")
    assert wrong.verdict is Verdict.REFUTED, wrong.text()
    (bad,) = [part for part in wrong.parts if part.verdict is not Verdict.EQUAL_REDUCED]
    assert bad.part == "layer"
    assert bad.counterexample is not None


def _scaled(table: dict[str, Any]) -> None:
    table["symbols"] = ["lr", "scale"]
    table["part"]["last"]["symbols"] = ["scale"]
    table["part"]["last"]["inputs"]["scale"] = "Replicate()"


_LOSS = ("d_x = aten.div.Tensor(x, 32)", "scale: float32[]\nm = aten.div.Tensor(x, 32)\nd_x = mul(m, scale)")
_LESS = ("f = mul(factor, lr)", "scale: float32[]\nf1 = mul(factor, lr)\nf = div(f1, scale)")
SCALED = dict.fromkeys(("last.spec", "last"), _LOSS) | {
    f"{part}_update{side}": _LESS for part in ("first", "layer") for side in (".spec", "")
}


def test_a_loss_scale_is_a_number_of_passes_and_updates(tmp_path: Path) -> None:
    assert verified(write_plan(tmp_path, SCALED, _scaled)).verdict is Verdict.PROVED
    forgotten = {**SCALED, "layer_update": (_LESS[0], _LESS[1].replace("div(f1, scale)", "mul(f1, 1)"))}
    report = verified(write_plan(tmp_path, forgotten, _scaled))
    assert [part.part for part in report.parts if part.verdict is Verdict.REFUTED] == ["layer_update"]

    def unnamed(table: dict[str, Any]) -> None:
        _scaled(table)
        table["symbols"] = ["lr"]

    report = verified(write_plan(tmp_path, SCALED, unnamed))
    assert report.verdict is not Verdict.PROVED
    assert "last takes scale, which nothing before it gives" in report.text()

    def cut(table: dict[str, Any]) -> None:
        _scaled(table)
        table["part"]["last"]["inputs"]["scale"] = {"dp": 'Partial("sum")'}

    assert verified(write_plan(tmp_path, SCALED, cut)).verdict is not Verdict.PROVED


def test_the_limit_of_ranks_is_about_the_largest_job_of_a_part(tmp_path: Path) -> None:
    """8 ranks on 2 stages, 2 microbatches: the job of a pass has 8."""
    path = write_plan(tmp_path)
    assert read_plan(path, limits=Limits(ranks=8)).mesh.world_size == 8
    more = write_plan(tmp_path, edit=lambda table: table["data"].update(microbatches=3))
    with pytest.raises(UserError, match="12 ranks of a stage times microbatches"):
        read_plan(more, limits=Limits(ranks=8))


def test_a_reduction_of_another_kind_is_told_at_the_reduction(tmp_path: Path) -> None:
    """And not at the gradient that it is given, of which ranks have summands, as the plan says."""
    report = verified(write_plan(tmp_path, {"layer_reduce": ('"sum", "dp"', '"max", "dp"')}))
    (part,) = (part for part in report.parts if part.verdict is Verdict.REFUTED)
    assert part.part == "layer_reduce"
    assert part.mismatch is not None
    assert part.mismatch.operator != "input", report.text()
    assert "stands where" not in report.text()


HALVES = """
    r = aten.reshape.default(pa, [4, 2, 4])
    s = aten.sum.dim_IntList(r, [0, 2])
    squares = aten.amax.default(s, [0])
    -> g_a, g_b, squares
"""


def test_maxima_of_pieces_do_not_add_up_to_a_maximum(tmp_path: Path) -> None:
    """Of every piece the greater half of the squares, which one of two ranks of tp has. Each adds up what it has of its
    pieces, and the greater sum is not the sum of what is greater."""
    most = 'Partial("max")'
    first = "\n".join(PROGRAMS["layer_reduce.spec"].splitlines()[:6])
    more = {
        "layer_reduce.spec": first + HALVES,
        "layer_reduce": "\n".join([*PROGRAMS["layer_reduce"].splitlines()[:6], "    squares = aten.sum.default(pa)",
                                   "    -> g_a, g_b, squares"]),
        "norm": PROGRAMS["norm"].replace("e = add(all, 1)", 'top = all_reduce(all, "max", "tp")\n    e = add(top, 1)'),
    }  # fmt: skip

    def edit(table: dict[str, Any]) -> None:
        parts = table["part"]
        parts["layer_reduce"]["outputs"]["squares"] = {"tp": most}
        parts["first_reduce"]["outputs"] = {"g_w": "Replicate()", "squares": {"tp": most}}
        parts["norm"]["inputs"] = {"total": {"pp": 'Partial("sum")', "tp": most}}

    path = write_plan(tmp_path, None, edit, more)
    report = verified(path)
    assert {part.verdict for part in report.parts} == {Verdict.PROVED}
    assert report.verdict is Verdict.UNKNOWN
    assert "sums of maxima are no maxima of sums" in report.text()
    assert max(run_plan(read_plan(path)).values()) > 1e-5

    def greatest(table: dict[str, Any]) -> None:
        table["part"]["first"]["outputs"]["d_w"] = {"microbatch": 'Partial("sum")', "dp": most}

    (joint,) = (joint for joint in joints_of(read_plan(write_plan(tmp_path, None, greatest))) if not joint.wrong)
    assert joint.target == "accumulation"
