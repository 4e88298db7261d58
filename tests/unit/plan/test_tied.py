"""Parameters that several pieces share: one gradient, counted once, and one update of all copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.jobs import typed_graph
from support.plans import GROUPS, PROGRAMS, document, update, verified, write_plan
from tantamount.capture.graph_document import graph_document
from tantamount.capture.programs import write_document
from tantamount.errors import UserError
from tantamount.plan.read import read_plan
from tantamount.verdict import Verdict

_COUNTED = """
    d: float32[4, 4]
    both = all_reduce(d, "sum", "tied")
    g = all_reduce(both, "sum", "dp")
    p = mul(g, g)
    own = aten.sum.default(p)
    squares = all_reduce(own, "sum", "tp")
    -> g, squares
"""
# All layers, on two stages, share `a`; `b` is their own.
SHARED: Mapping[str, str] = {
    "layer_reduce.spec": """
        d_b: float32[8, 4]
        g_b = mul(d_b, 1)
        pb = mul(g_b, g_b)
        squares = aten.sum.default(pb)
        -> g_b, squares
    """,
    "layer_reduce": """
        d_b: float32[4, 4]
        g_b = all_reduce(d_b, "sum", "dp")
        pb = mul(g_b, g_b)
        own = aten.sum.default(pb)
        squares = all_reduce(own, "sum", "tp")
        -> g_b, squares
    """,
    "word_reduce.spec": "d: float32[4, 8]\ng = mul(d, 1)\np = mul(g, g)\nsquares = aten.sum.default(p)\n-> g, squares",
    "word_reduce": _COUNTED,
    "word_reduce.other": _COUNTED.replace("squares = all_reduce", "s = all_reduce").replace(
        "-> g", "squares = mul(s, 0)\n    -> g"
    ),
    "word_update.spec": update("p", "g", "[4, 8]"),
    "word_update": update("p", "g", "[4, 4]"),
    "layer_update.spec": update("p", "g", "[8, 4]"),
    "layer_update": update("p", "g", "[4, 4]"),
}
Edit = Callable[[dict[str, Any]], None]


def _plan(folder: Path, edit: Edit | None = None) -> Path:
    def shared(table: dict[str, Any]) -> None:
        _share(table)
        if edit is not None:
            edit(table)

    return write_plan(folder, edit=shared, more=SHARED, groups={**GROUPS, "tied": 2})


def _share(table: dict[str, Any]) -> None:
    """Make ``a`` of all layers one parameter."""
    parts = table["part"]
    a, b = {"tp": "Shard(1)"}, {"tp": "Shard(0)"}
    parts["layer_reduce"] |= {
        "inputs": {"d_b": {"dp": 'Partial("sum")', **b}}, "outputs": {"g_b": b, "squares": "Replicate()"},
    }  # fmt: skip
    parts["layer_update"] |= {
        "takes": {"p": "b", "g": "g_b"}, "updates": {"new_p": "b"}, "outputs": {"new_p": b},
        "inputs": {"p": b, "g": b, "default": "Replicate()"},
    }  # fmt: skip
    parts["word_reduce"] = {
        "kind": "tied", "of": "word", "spec": "word_reduce.spec.json.gz",
        "impl": {"tied": ["word_reduce.json.gz", "word_reduce.other.json.gz"]},
        "sums": {"d": {"layer": "d_a"}}, "inputs": {"d": {"tied": 'Partial("sum")', "dp": 'Partial("sum")', **a}},
        "outputs": {"g": a, "squares": {"tied": 'Partial("sum")'}},
    }  # fmt: skip
    parts["word_update"] = {
        "kind": "tied", "of": "word", "spec": "word_update.spec.json.gz", "impl": "word_update.json.gz",
        "takes": {"p": "word"}, "updates": {"new_p": "word"}, "outputs": {"new_p": a},
        "inputs": {"p": a, "g": a, "default": "Replicate()"},
    }  # fmt: skip
    table["model"]["tied"] = {"word": {"layer": "a"}}
    table["finish"]["update"] = ["word_reduce", "norm", "first_update", "layer_update", "word_update"]


def test_a_parameter_that_all_layers_share(tmp_path: Path) -> None:
    report = verified(_plan(tmp_path))
    assert report.verdict is Verdict.PROVED, report.text()
    assert {"sum of d_a", "sum of squares", "new word"} <= {joint.tensor for joint in report.joints}
    assert report.holds == ()  # with another number of layers there would be other copies


def test_a_norm_that_counts_every_copy_is_refuted(tmp_path: Path) -> None:
    report = verified(_plan(tmp_path, lambda table: table["part"]["word_reduce"].update(impl="word_reduce.json.gz")))
    assert report.verdict is Verdict.REFUTED
    (wrong,) = [part for part in report.parts if part.verdict is not Verdict.PROVED]
    assert wrong.part == "word_reduce"
    assert [output.name for output in wrong.outputs if output.verdict is Verdict.REFUTED] == ["squares"]


def _both(table: dict[str, Any]) -> None:
    """Every copy has the whole sum of squares, and says so."""
    table["part"]["word_reduce"] |= {"impl": "word_reduce.json.gz", "outputs": {"g": {"tp": "Shard(1)"},
                                                                               "squares": "Replicate()"}}  # fmt: skip


def _alone(table: dict[str, Any]) -> None:
    """Each layer reduces and updates its own copy."""
    original = document()["part"]
    for name in ("layer_reduce", "layer_update"):
        table["part"][name] = original[name]
    del table["model"]["tied"], table["part"]["word_reduce"], table["part"]["word_update"]
    table["model"]["tied"] = {"word": {"layer": "a"}}
    table["finish"]["update"] = ["norm", "first_update", "layer_update"]


WRONG: dict[str, tuple[Edit, str]] = {
    "the norm has both copies": (_both, "squares of word is Replicate() over its copies, each of which would be"),
    "no update": (lambda t: t["finish"]["update"].remove("word_update"), "nothing updates a of layer"),
    "no norm": (
        lambda t: t["part"]["word_reduce"].update(gives={"squares": "lost"}), "word has no squares",
    ),
    "before the norm": (
        lambda t: t["finish"].update(update=["word_reduce", "first_update", "norm", "layer_update", "word_update"]),
        "which nothing before it gives on every stage",
    ),
    "one copy is one summand": (
        lambda t: t["part"]["word_reduce"].update(sums={"d": {"first": "d_w"}}), "word is shared by others",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refuted(case: str, tmp_path: Path) -> None:
    edit, words = WRONG[case]
    report = verified(_plan(tmp_path, edit))
    assert report.verdict is not Verdict.PROVED
    assert any(words in joint.problem for joint in report.joints), report.text()


def test_a_copy_that_is_updated_alone_is_refuted(tmp_path: Path) -> None:
    path = _plan(tmp_path, _alone)
    for name in ("layer_reduce", "layer_update"):
        for kind in (name, f"{name}.spec"):
            write_document(tmp_path / f"{kind}.json.gz", graph_document(typed_graph(PROGRAMS[kind], GROUPS)))
    problems = [joint.problem for joint in verified(path).joints if joint.problem]
    assert "layer_update takes g_a of layer alone, which is one summand of the gradient of word" in problems
    assert "squares of layer is one summand of the gradient of word" in problems
    assert "layer_update replaces a of layer alone, which is word, and has other copies" in problems


# Each layer reduces its own summand over dp first, as Megatron does: then copies are added up.
def _more(program: str, shape: str, call: str) -> str:
    """A reduction that gives ``g_a`` as well."""
    return SHARED[program].replace("d_b:", f"d_a: float32{shape}\nd_b:").replace("-> ", f"g_a = {call}\n-> g_a, ")


FIRST: Mapping[str, str] = {
    "layer_reduce.spec": _more("layer_reduce.spec", "[4, 8]", "mul(d_a, 1)"),
    "layer_reduce": _more("layer_reduce", "[4, 4]", 'all_reduce(d_a, "sum", "dp")'),
    **{name: SHARED[name].replace('all_reduce(both, "sum", "dp")', "mul(both, 1)")
       for name in ("word_reduce", "word_reduce.other")},
}  # fmt: skip


def _first(table: dict[str, Any]) -> None:
    parts = table["part"]
    a, sums = {"tp": "Shard(1)"}, {"dp": 'Partial("sum")'}
    parts["layer_reduce"]["inputs"]["d_a"] = {**sums, **a}
    parts["layer_reduce"]["outputs"]["g_a"] = a
    parts["word_reduce"] |= {"sums": {"d": {"layer": "g_a"}}, "inputs": {"d": {"tied": 'Partial("sum")', **a}}}


def _reduced_first(
    folder: Path, changes: Mapping[str, tuple[str, str]] | None = None, edit: Edit | None = None
) -> Path:
    def shared(table: dict[str, Any]) -> None:
        _share(table)
        _first(table)
        if edit is not None:
            edit(table)

    return write_plan(folder, changes, shared, {**SHARED, **FIRST}, {**GROUPS, "tied": 2})


def test_summands_may_be_reduced_before_they_are_added_up(tmp_path: Path) -> None:
    """That was REFUTED: a layer that takes its own summand was thought to take it for the gradient."""
    report = verified(_reduced_first(tmp_path))
    assert report.verdict is Verdict.PROVED, report.text()
    assert "layer_reduce, summands" in {part.part for part in report.parts}
    assert {"sum of g_a", "d_a"} <= {joint.tensor for joint in report.joints}


LOST: Edit = lambda t: t["part"]["word_reduce"].update(  # noqa: E731
    sums={"d": {"layer": "d_a"}}, inputs={"d": {"tied": 'Partial("sum")', "dp": 'Partial("sum")', "tp": "Shard(1)"}}
)
BAD_SUMMANDS: dict[str, tuple[dict[str, tuple[str, str]], Edit | None, str]] = {
    "squares of summands": (
        {"layer_reduce.spec": ("squares = aten.sum.default(pb)", "pa = mul(d_a, d_a)\nsa = sum(pa)\nsb = sum(pb)\n"
                               "squares = add(sa, sb)")},
        None, "squares of layer is one summand of the gradient of word",
    ),
    "squared before they are added up": ({"layer_reduce.spec": ("g_a = mul(d_a, 1)", "g_a = mul(d_a, d_a)")}, None, ""),
    "reduced for nothing": (
        {f"word_reduce{one}": ("g = mul(both, 1)", 'g = all_reduce(both, "sum", "dp")') for one in ("", ".other")},
        LOST, "nothing takes g_a of layer",
    ),
    "counted with others": (
        {}, lambda t: t["part"]["norm"].update(sums={"total": "g_a"}), "g_a of layer is one summand of the gradient",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_SUMMANDS)
def test_summands_are_nothing_but_summands(case: str, tmp_path: Path) -> None:
    changes, edit, words = BAD_SUMMANDS[case]
    report = verified(_reduced_first(tmp_path, changes, edit))
    assert report.verdict is Verdict.REFUTED, report.text()
    assert not words or any(words in joint.problem for joint in report.joints), report.text()
    claims = {part.part: part.verdict for part in report.parts if part.part.endswith("summands")}
    assert claims == {"layer_reduce, summands": Verdict.REFUTED if "squar" in case else Verdict.PROVED}


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (lambda t: t["model"].update(tied={"word": {"layer": "x"}}), "plan-unknown-tensor"),
        (lambda t: t["model"].update(tied={"word": {"layer": "a"}, "other": {"layer": "a"}}), "plan-tied"),
        (lambda t: t["part"]["word_reduce"].update(of="world"), "plan-unknown-part"),
        (lambda t: t["mesh"].update(axes={"pp": 2, "tied": 2, "tp": 2}), "plan-unknown-axis"),
    ],
)
def test_bad_files(edit: Edit, code: str, tmp_path: Path) -> None:
    path = _plan(tmp_path, edit)
    with pytest.raises(UserError) as raised:
        read_plan(path)
    assert raised.value.code == code
