"""Names of parameters in the whole model: which stage has which, and that none has two owners."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.plans import verified, write_plan
from tantamount.errors import UserError
from tantamount.plan.names import name_of
from tantamount.plan.read import read_plan
from tantamount.plan.show import described
from tantamount.verdict import Verdict

LAYER = {"a": "layers.{i}.a", "b": "layers.{i}.b"}
FIRST = {"w": "embed.w"}


def _named(layer: dict[str, str] = LAYER, first: dict[str, str] = FIRST, more: Any = None) -> Callable[[Any], None]:
    def edit(table: dict[str, Any]) -> None:
        table["part"]["layer"]["names"] = layer
        table["part"]["first"]["names"] = first
        if more is not None:
            more(table)

    return edit


def test_a_template_stands_for_the_names_of_all_pieces() -> None:
    assert name_of("layers.{i}.q", 7) == "layers.7.q"
    assert name_of("layers.{i+3}.q", 7) == "layers.10.q"
    assert name_of("embed.w", 0) == "embed.w"


def test_reports_say_which_stage_has_which_parameter(tmp_path: Path) -> None:
    path = write_plan(tmp_path, edit=_named())
    report = verified(path)
    assert report.verdict is Verdict.PROVED, report.text()
    assert report.names == (
        (0, "embed.w"), (0, "layers.0.a"), (0, "layers.0.b"), (1, "layers.{1-2}.a"), (1, "layers.{1-2}.b"),
    )  # fmt: skip
    assert "    stage 1: layers.{1-2}.a, layers.{1-2}.b" in report.text(verbose=True)
    assert report.document()["parameters"][0] == {"stage": 0, "name": "embed.w"}
    assert "    parameters embed.w, layers.0.a, layers.0.b" in described(read_plan(path))


@pytest.mark.parametrize(
    ("layer", "first", "problem"),
    [
        ({**LAYER, "b": "layers.{i}.a"}, FIRST, "layers.0.a is b of layer 0, and a of layer 0"),
        ({**LAYER, "b": "b"}, FIRST, "b is b of layer 1, and b of layer 0"),  # no number: all layers have it
        (LAYER, {"w": "layers.2.a"}, "layers.2.a is a of layer 2, and w of first 0"),
        ({**LAYER, "b": "layers.{i+1}.a"}, FIRST, "layers.1.a is a of layer 1, and b of layer 0"),
        (LAYER, {"w": "layers.{i+4}.w"}, "layers.3 has no parameters, layers.4 has"),
    ],
)
def test_two_owners_and_gaps_are_refuted(
    layer: dict[str, str], first: dict[str, str], problem: str, tmp_path: Path
) -> None:
    report = verified(write_plan(tmp_path, edit=_named(layer, first)))
    assert report.verdict is Verdict.REFUTED
    assert problem in report.ownership


@pytest.mark.parametrize(
    ("layer", "code"),
    [
        ({"a": "layers.{i}.a"}, "plan-parameter-names"),  # nothing for b
        ({**LAYER, "b": "layers.{i}.{i}"}, "plan-parameter-names"),
        ({**LAYER, "b": "layers.{k}.b"}, "plan-parameter-names"),
        ({**LAYER, "x": "x"}, "plan-unknown-tensor"),
    ],
)
def test_names_that_are_none_are_refused(layer: dict[str, str], code: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as raised:
        read_plan(write_plan(tmp_path, edit=_named(layer)))
    assert raised.value.code == code


def test_a_shared_parameter_may_have_one_name_or_several(tmp_path: Path) -> None:
    """Pieces that share a parameter, and two that do not."""
    from tantamount.plan.names import wrong_names

    plan = read_plan(write_plan(tmp_path, edit=_named(first={"w": "layers.0.a"})))
    assert [*wrong_names(plan)] == ["layers.0.a is a of layer 0, and w of first 0"]
    from dataclasses import replace

    shared = replace(plan, tied={"word": {"first": "w", "layer": "a"}})
    assert [*wrong_names(shared)] == []
    apart = replace(plan, tied={"word": {"first": "w"}, "other": {"layer": "a"}})
    assert len([*wrong_names(apart)]) == 1
