"""Approximations that a plan declares, and other plans that hold as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.plans import verified, write_plan
from tantamount.errors import UserError
from tantamount.plan.counts import repeated
from tantamount.plan.read import read_plan
from tantamount.plan.verify import verify
from tantamount.verdict import Verdict

CENTRED = ("y = mm(data, w)", "n = aten.mean.dim(data, [0], True)\nc = sub(data, n)\ny = mm(c, w)")


def _declared(name: str = "statistics", **keys: Any) -> Any:
    found = {"kind": "local-statistic", "part": "first", "nodes": ["n"], "over": ["microbatch", "dp"], **keys}
    return lambda table: table.update(approximate={name: {key: value for key, value in found.items() if value}})


def test_statistics_of_the_own_rows_are_proved_up_to_that(tmp_path: Path) -> None:
    report = verified(write_plan(tmp_path, {"first.spec": CENTRED, "first": CENTRED}, _declared()))
    assert report.verdict is Verdict.PROVED, report.text()
    assert report.exit_code == 3
    assert report.text().startswith("PROVED up to statistics  small")
    assert "statistics, first: local-statistic (n) of the rows of a rank along microbatch and dp" in report.text()
    assert report.document()["approximations"][0]["accepted"] is False


def test_an_accepted_approximation_is_exit_code_0(tmp_path: Path) -> None:
    from tantamount.answers import refine
    from tantamount.plan.prove import part_checker

    plan = read_plan(write_plan(tmp_path, {"first.spec": CENTRED, "first": CENTRED}, _declared()))
    found = verify(plan, part_checker(refine), accept=["statistics"])
    assert (found.verdict, found.exit_code, found.refused) == (Verdict.PROVED, 0, ())
    with pytest.raises(UserError, match="statistcs"):
        verify(plan, part_checker(refine), accept=["statistics", "statistcs"])


@pytest.mark.parametrize(
    "wrong",
    [
        ("c = sub(data, n)", "c = add(data, n)"),  # something else is wrong as well
        ("n = aten.mean.dim(data, [0], True)", "n = aten.sum.dim_IntList(data, [0], True)"),
    ],
)
def test_nothing_else_may_be_wrong(wrong: tuple[str, str], tmp_path: Path) -> None:
    local = (CENTRED[0], CENTRED[1].replace(*wrong))
    report = verified(write_plan(tmp_path, {"first.spec": CENTRED, "first": local}, _declared()))
    assert report.verdict is Verdict.REFUTED
    assert [part.part for part in report.parts if part.verdict is not Verdict.PROVED] == ["first"]


def test_not_over_all_axes_is_not_that_approximation(tmp_path: Path) -> None:
    edit = _declared(over=["microbatch"])
    report = verified(write_plan(tmp_path, {"first.spec": CENTRED, "first": CENTRED}, edit))
    assert report.verdict is Verdict.REFUTED


def test_a_choice_that_is_restricted(tmp_path: Path) -> None:
    """Rows whose first number is large are left out by every rank, and not by one device."""
    local = (
        "y = mm(data, w)",
        "f = aten.slice.Tensor(data, 1, 0, 1)\nm = aten.lt.Scalar(f, 2)\ny0 = mm(data, w)\ny = mul(y0, m)",
    )
    keys = {"kind": "restricted-choice", "nodes": ["m"], "over": None}
    report = verified(write_plan(tmp_path, {"first": local}, _declared("nodes", **keys)))
    assert report.verdict is Verdict.PROVED, report.text()
    assert report.exit_code == 3
    (tmp_path / "strict").mkdir()
    assert verified(write_plan(tmp_path / "strict", {"first": local})).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"kind": "close-enough"}, "plan-field"),
        ({"part": "frist"}, "plan-unknown-part"),
        ({"nodes": ["y"]}, "plan-approximate"),
        ({"nodes": ["nothing"]}, "plan-approximate"),
        ({"over": ["pp"]}, "plan-approximate"),
        ({"over": ["microbatch", "dp", "dp"]}, "plan-approximate"),
        ({"over": None}, "plan-approximate"),
        ({"kind": "restricted-choice", "over": None}, "plan-approximate"),
    ],
)
def test_what_is_no_such_approximation_is_refused(keys: dict[str, Any], code: str, tmp_path: Path) -> None:
    path = write_plan(tmp_path, {"first.spec": CENTRED, "first": CENTRED}, _declared(**keys))
    with pytest.raises(UserError) as raised:
        read_plan(path)
    assert raised.value.code == code


SQUARES = ('own = add(sa, sb)\n        squares = all_reduce(own, "sum", "tp")', "q = add(pa, pb)\nsquares = sum(q)")
MASKED = "f = aten.slice.Tensor(h, 1, 0, 1)\nm = aten.lt.Scalar(f, 2)\np0 = mm(r, b)\npart = mul(p0, m)"


def test_what_ranks_have_alike_does_not_rest_on_what_each_finds_for_itself(tmp_path: Path) -> None:
    """Squares of a rank's own columns, and gradients by masks of its own columns: factors and parameters that all ranks
    of tp have would come apart."""
    squares = _declared(part="layer_reduce", nodes=["squares"], over=["tp"])
    with pytest.raises(UserError, match="ranks along tp make squares each for itself") as raised:
        read_plan(write_plan(tmp_path, {"layer_reduce": SQUARES}, squares))
    assert raised.value.code == "plan-approximate"
    after = 'y = all_reduce(part, "sum", "tp")'
    masked = _declared(kind="restricted-choice", part="layer", nodes=["m"], over=None)
    (tmp_path / "before").mkdir()
    read_plan(write_plan(tmp_path / "before", {"layer": ("part = mm(r, b)", MASKED)}, masked))  # and then added up
    late = MASKED.replace("p0 = mm(r, b)\npart = mul(p0, m)", f"part = mm(r, b)\n{after.replace('y', 'y0', 1)}")
    (tmp_path / "after").mkdir()
    with pytest.raises(UserError, match="ranks along tp make y each for itself"):
        read_plan(write_plan(tmp_path / "after", {"layer": (f"part = mm(r, b)\n        {after}",
                                                            f"{late}\ny = mul(y0, m)")}, masked))  # fmt: skip


def test_what_all_have_makes_no_difference_and_neither_do_results(tmp_path: Path) -> None:
    def edit(table: dict[str, Any]) -> None:
        table["part"]["last"]["outputs"]["loss"] = "Replicate()"
        _declared(part="last", nodes=["t"])(table)

    report = verified(write_plan(tmp_path, {}, edit))
    assert (report.verdict, report.exit_code) == (Verdict.PROVED, 3), report.text()
    (tmp_path / "choice").mkdir()
    choice = ("q = mul(x, x)", "m = aten.lt.Scalar(x, 2)\nx0 = mul(x, m)\nq = mul(x0, x)")
    keys = {"kind": "restricted-choice", "part": "last", "nodes": ["m"], "over": None}
    report = verified(write_plan(tmp_path / "choice", {"last": choice}, _declared(**keys)))
    assert (report.verdict, report.exit_code) == (Verdict.PROVED, 3), report.text()


# ---------------------------------------------------------------------------------------------- numbers of layers
def _layers(*pieces: str, stages: list[str]) -> Any:
    return lambda table: table["model"].update(pieces=["first", *pieces, "last"], stages=stages)


def test_blocks_that_are_repeated() -> None:
    assert repeated(list("abcbcbd")) == [(("a",), 1), (("b", "c"), 2), (("b",), 1), (("d",), 1)]
    assert repeated(["x", *["y"] * 126, "z"]) == [(("x",), 1), (("y",), 126), (("z",), 1)]
    assert repeated([]) == []


@pytest.mark.parametrize("count", [2, 3, 7])
def test_the_sentence_about_layers_holds_for_explicit_counts(count: int, tmp_path: Path) -> None:
    stages = ["first, layer 0", f"layer 1-{count - 1}, last"]
    report = verified(write_plan(tmp_path, {}, _layers(f"layer * {count}", stages=stages)))
    assert report.verdict is Verdict.PROVED
    (sentence,) = report.holds
    assert sentence.startswith(f"for every number of layer >= 1, here {count}")


def _in_turns(*pieces: str) -> Any:
    """Layers in turns: one gives gradients' counterparts whole, the other wants them as they are; what is different is
    the name of the stream."""

    def edit(table: dict[str, Any]) -> None:
        part = table["part"]
        part["other"] = {**part["layer"], "before": {"odd": ["x", "d_x"]}}
        part["layer"] = {**part["layer"], "after": {"odd": ["y", "d_y"]}}
        for name in ("layer_reduce", "layer_update"):
            new = name.replace("layer", "other")
            part[new] = {**part[name], "of": "other"}
            for order in table["finish"].values():
                order[:] = [x for old in order for x in ((old, new) if old == name else (old,))]
        texts = {"layer": 0, "other": 0}
        named: list[str] = []
        for piece in pieces:
            named.append(f"{piece} {texts[piece]}")
            texts[piece] += 1
        table["model"].update(
            pieces=["first", *pieces, "last"],
            stages=[f"first, {named[0]}", ", ".join([*named[1:], "last"])],
        )

    return edit


def test_layers_in_turns_hold_for_pairs_only(tmp_path: Path) -> None:
    """Right for 4 layers and wrong for 5: what is said of 4 is about pairs."""
    four = verified(write_plan(tmp_path, {}, _in_turns("layer", "other", "layer", "other")))
    assert four.verdict is Verdict.PROVED, four.text()
    assert [sentence.split(",")[0:2] for sentence in four.holds] == [["for every number of (layer", " other) >= 1"]]
    (tmp_path / "five").mkdir()
    five = verified(write_plan(tmp_path / "five", {}, _in_turns("layer", "other", "layer", "other", "layer")))
    assert five.verdict is Verdict.REFUTED
    assert five.holds == ()
