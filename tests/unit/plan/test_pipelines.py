"""Pieces with a copy in each of several pipelines: gradients of the copies are added up, and the copies stay alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from support.flat_plans import flat_job
from support.plan_run import run_plan
from support.plans import GROUPS, PROGRAMS, verified, write_plan
from tantamount.errors import UserError
from tantamount.plan.mutants import plan_mutants, write_mutant
from tantamount.plan.read import read_plan
from tantamount.proof import Options, prove
from tantamount.verdict import Verdict

SUM = 'Partial("sum")'
# Microbatch 0 goes down over both devices, microbatch 1 comes up.
DOWN = "0F0 {0SEND_F0 2RECV_F1} 2F1 2B1 {2SEND_B1 0RECV_B0} 0B0 0REDUCE_GRAD 2REDUCE_GRAD 0UPDATE 2UPDATE"
UP = "3F1 {3SEND_F1 1RECV_F0} 1F0 1B0 {1SEND_B0 3RECV_B1} 3B1 3REDUCE_GRAD 1REDUCE_GRAD 3UPDATE 1UPDATE"
ENTRY = [{"stages": [0, 1], "microbatches": [0]}, {"stages": [3, 2], "microbatches": [1]}]
Edit = Callable[[dict[str, Any]], None]


def _summed(name: str) -> str:
    """A reduction over dp, over the copies as well."""
    lines: list[str] = []
    for line in PROGRAMS[name].splitlines():
        if '"dp")' in line:
            left, given = line.split(" = all_reduce(")
            lines.append(f'{left}_own = all_reduce({given.split(",")[0]}, "sum", "copy")')
            line = f'{left} = all_reduce({left.strip()}_own, "sum", "dp")'
        lines.append(line)
    return "\n".join(lines)


def _uncounted(text: str) -> str:
    """The same, whose squares are 0."""
    return text.replace("    squares = ", "    all = ").replace("    -> ", "    squares = mul(all, 0)\n    -> ")


MORE: Mapping[str, str] = {
    **{f"{part}_reduce": _summed(f"{part}_reduce") for part in ("first", "layer")},
    **{f"{part}_reduce.other": _uncounted(_summed(f"{part}_reduce")) for part in ("first", "layer")},
}


def _plan(folder: Path, edit: Edit | None = None, programs: Mapping[str, tuple[str, str]] | None = None,
          more: Mapping[str, str] | None = None) -> Path:  # fmt: skip
    def both_ways(table: dict[str, Any]) -> None:
        table["model"] = {"pieces": ["first", "layer * 2", "last"], "stages": ["first, layer 0", "layer 1, last"]}
        table["schedule"] = {"devices": [DOWN, UP], "owners": [0, 1, 0, 1], "pipelines": [dict(e) for e in ENTRY]}
        for name in ("first", "layer"):
            part = table["part"][f"{name}_reduce"]
            part["impl"] = {"copy": [f"{name}_reduce.json.gz", f"{name}_reduce.other.json.gz"]}
            part["inputs"] = {x: {"copy": SUM, **placed} for x, placed in part["inputs"].items()}
            part["outputs"] = {**part["outputs"], "squares": {"copy": SUM}}
        if edit is not None:
            edit(table)

    return write_plan(folder, programs, both_ways, {**MORE, **(more or {})}, {**GROUPS, "copy": 2})


def test_a_pipeline_from_both_ends_is_proved_and_so_as_one_job(tmp_path: Path) -> None:
    path = _plan(tmp_path)
    report = verified(path)
    assert report.verdict is Verdict.PROVED, report.text()
    assert any("2 copies" in note for note in report.notes)
    checked = prove(flat_job(read_plan(path)), Options(cut=False)).check(expand=False)
    assert len(checked) == 6
    assert {output.verdict for output in checked} == {Verdict.PROVED}, checked
    assert max(run_plan(read_plan(path)).values()) < 1e-12


BOTH = "layer_reduce", "layer_reduce.other"
WRONG_PARTS = {  # programs, what is replaced by what
    "gradients of copies are not added up": (BOTH, ('all_reduce(d_b, "sum", "copy")', "mul(d_b, 1)")),
    "one copy goes on with its own gradient": (BOTH[1:], ("all_reduce(g_b_own", "all_reduce(d_b")),
    "a gradient is doubled and not added up": (BOTH, ('all_reduce(d_a, "sum", "copy")', "mul(d_a, 2)")),
    "the squares are counted twice": (BOTH[1:], ("mul(all, 0)", "mul(all, 1)")),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_PARTS)
def test_copies_that_are_reduced_wrongly_are_refuted(case: str, tmp_path: Path) -> None:
    names, change = WRONG_PARTS[case]
    path = _plan(tmp_path, None, dict.fromkeys(names, change))
    report = verified(path)
    assert report.verdict is Verdict.REFUTED, report.text()
    assert [part.part for part in report.parts if part.verdict is not Verdict.PROVED] == ["layer_reduce"]
    assert max(run_plan(read_plan(path)).values()) > 1e-4


def test_a_copy_that_does_not_come_to_a_reduction_is_refuted(tmp_path: Path) -> None:
    report = verified(_plan(tmp_path, None, {"first_reduce": ('all_reduce(d_w, "sum", "copy")', "mul(d_w, 1)")}))
    assert report.verdict is Verdict.REFUTED
    assert "the ranks never come so far (collective-deadlock): rank" in report.text()


def _kept(table: dict[str, Any]) -> None:
    """The second copy of a layer is not updated."""
    table["part"]["layer_update"]["impl"] = {"copy": ["layer_update.json.gz", "layer_update.kept.json.gz"]}


def _alone(table: dict[str, Any]) -> None:
    """Every copy goes on with its own gradient, and says so."""
    part = table["part"]["layer_reduce"]
    part["inputs"] = {name: {k: v for k, v in placed.items() if k != "copy"} for name, placed in part["inputs"].items()}


def _counted(table: dict[str, Any]) -> None:
    part = table["part"]["layer_reduce"]
    part["impl"], part["outputs"]["squares"] = "layer_reduce.json.gz", "Replicate()"


def _events(device: int, old: str, new: str) -> Edit:
    def edit(table: dict[str, Any]) -> None:
        assert old in table["schedule"]["devices"][device]
        table["schedule"]["devices"][device] = table["schedule"]["devices"][device].replace(old, new)

    return edit


def _microbatches(*numbers: list[int]) -> Edit:
    def edit(table: dict[str, Any]) -> None:
        for pipeline, own in zip(table["schedule"]["pipelines"], numbers, strict=True):
            pipeline["microbatches"] = own

    return edit


WRONG: Mapping[str, tuple[Edit, str]] = {
    "a copy is not updated by its program": (_kept, "layer_update"),
    "a copy is not updated by the schedule": (_events(1, "3UPDATE ", ""), "3UPDATE is missing"),
    "copies go on with their own gradients": (_alone, 'Partial("sum") over copy and dp'),
    "both copies are counted in the norm": (_counted, "each of which would be counted"),
    "a microbatch goes both ways": (_microbatches([0, 1], [1]), "microbatch 1 passes 2 pipelines"),
    "a microbatch goes no way": (_microbatches([0], [0]), "microbatch 1 passes 0 pipelines"),
    "nothing comes up": (_microbatches([0, 1], []), "no microbatch passes pipeline 1"),
    "reductions cross": (_events(1, "3REDUCE_GRAD 1REDUCE_GRAD", "1REDUCE_GRAD 3REDUCE_GRAD"), "are of other stages"),
    "a reduction waits for a message": (
        _events(0, "2B1 {2SEND_B1 0RECV_B0} 0B0 0REDUCE_GRAD 2REDUCE_GRAD",
                "2B1 0REDUCE_GRAD 2REDUCE_GRAD {2SEND_B1 0RECV_B0} 0B0"), "wait for each other",
    ),
    "what is computed side by side depends on each other": (_events(0, "2F1 2B1", "{2F1 2B1}"), "2B1 uses what 2F1"),
    "two copies on one device": (lambda table: table["schedule"].update(owners=[0, 1, 1, 1]), "on one device: 1, 1"),
    "a stage that no pipeline has": (
        lambda table: table["schedule"]["pipelines"][1].update(stages=[3, 3]), "the plan has 3 stages, its schedule 4",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_pipelines_are_refuted(case: str, tmp_path: Path) -> None:
    edit, words = WRONG[case]
    kept = "\n".join(
        line if "new_b = " not in line else "new_b = add(b, 0)" for line in PROGRAMS["layer_update"].splitlines()
    )
    report = verified(_plan(tmp_path, edit, more={"layer_update.kept": kept}))
    assert report.verdict is Verdict.REFUTED, report.text()
    assert words in report.text()


def _side_by_side(table: dict[str, Any]) -> None:
    """One pipeline has one stage and three microbatches, the other two stages and one microbatch."""
    table["mesh"]["axes"].update(pp=3, dp=1)
    table["data"]["microbatches"] = 4
    table["model"]["stages"] = ["first, layer 0-1, last", "first, layer 0", "layer 1, last"]
    table["schedule"] = {
        "devices": ["(0F0+ 0B0+)*3", "1F3 1SEND_F3 1RECV_B3 1B3", "2RECV_F3 2F3 2B3 2SEND_B3"],
        "pipelines": [{"stages": [0], "microbatches": [0, 1, 2]}, {"stages": [1, 2], "microbatches": [3]}],
    }
    table["finish"]["update"] = [*table["finish"].pop("reduce"), *table["finish"]["update"]]


def test_pipelines_that_split_the_model_in_different_places(tmp_path: Path) -> None:
    """Their copies are added up where nothing else is to be done: in the order of the pieces, on all devices."""
    path = _plan(tmp_path, _side_by_side)
    report = verified(path)
    assert report.verdict is Verdict.PROVED, report.text()
    assert max(run_plan(read_plan(path)).values()) < 1e-12

    def early(table: dict[str, Any]) -> None:
        _side_by_side(table)
        table["finish"] = {"reduce": table["finish"]["update"][:2], "update": table["finish"]["update"][2:]}

    report = verified(_plan(tmp_path, early))
    assert report.verdict is Verdict.REFUTED
    assert "that is for an update" in report.text()


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (lambda table: table["schedule"]["pipelines"][1].update(stages=[4, 2]), "plan-value"),
        (lambda table: table["schedule"]["pipelines"][1].update(stages=[]), "plan-value"),
        (lambda table: table["schedule"]["pipelines"][1].update(stages=[3]), "plan-stages"),
        (lambda table: table.update(schedule={"name": "dualpipe", "pipelines": []}), "plan-schedule"),
        (lambda table: table["mesh"]["axes"].update(copy=1), "plan-axis"),
    ],
)
def test_bad_files(edit: Edit, code: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        read_plan(_plan(tmp_path, edit))
    assert error.value.code.startswith("plan-"), error.value
    assert code == "plan-value" or error.value.code == code, error.value


def test_mutants_of_a_pipeline_from_both_ends_are_refuted(tmp_path: Path) -> None:
    path = _plan(tmp_path)
    for k, mutant in enumerate(islice(plan_mutants(read_plan(path), 3), 24)):
        report = verified(write_mutant(mutant, path, tmp_path / str(k)))
        assert report.verdict is Verdict.REFUTED, (mutant.what, report.text())
