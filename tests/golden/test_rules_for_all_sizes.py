"""Rewrite rules with sizes that are symbols: proved for all of them, whatever they were at capture; wrong ones refuted.

Benchmarks have more of them (``benchmarks/support/sized_rules.py``); these are instances of what used to go wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.graphs import call, graph, placeholder, ref, write_job
from tantamount import Report, Verdict, read_job
from tantamount.answers import refine

pytest.importorskip("z3", reason="the extra smt: sizes that a proof leaves over are found by a solver")

EVERYTHING = '[inputs]\ndefault = "Replicate()"\n[outputs]\ny = "Replicate()"\n'


def size(text: str) -> Any:
    return {"size": text}


def _graph(nodes: Sequence[Any], hints: Mapping[str, int], conditions: Sequence[str]) -> Any:
    symbols = {name: {"hint": hint, "min": 1} for name, hint in hints.items()}
    sizes = {"symbols": symbols, "conditions": list(conditions)}
    return graph(*nodes, sizes=sizes, outputs=[{"name": "y", "node": "y"}])


def _refine(
    folder: Path, left: Sequence[Any], right: Sequence[Any], hints: Mapping[str, int], conditions: Sequence[str] = ()
) -> Report:
    job = 'format = "job/1"\n[spec]\ngraph = "l.json"\n[impl]\ngraphs = ["r.json"]\nmesh = {}\n' + EVERYTHING
    graphs = {"l.json": _graph(left, hints, conditions), "r.json": _graph(right, hints, conditions)}
    return refine(read_job(write_job(folder, job, json.loads(json.dumps(graphs)))))


A, B, C = (placeholder(name, ["r", n]) for name, n in (("A", "x"), ("B", "y"), ("C", "z")))  # type: ignore[list-item]
LEFT = [
    A, B, C, call("p", "aten.cat.default", [[ref("A"), ref("B")], 1], ["r", "x + y"]),  # type: ignore[list-item]
    call("y", "aten.cat.default", [[ref("p"), ref("C")], 1], ["r", "x + y + z"]),  # type: ignore[list-item]
]  # fmt: skip


def _right(first: str, second: str) -> list[Any]:
    sizes = {"A": "x", "B": "y", "C": "z"}
    return [
        A, B, C,
        call("p", "aten.cat.default", [[ref(first), ref(second)], 1], ["r", f"{sizes[first]} + {sizes[second]}"]),  # type: ignore[list-item]
        call("y", "aten.cat.default", [[ref("A"), ref("p")], 1], ["r", "x + y + z"]),  # type: ignore[list-item]
    ]  # fmt: skip


@pytest.mark.parametrize("hints", [(3, 3, 5, 7), (2, 6, 3, 3), (1, 1, 1, 1)])
def test_parts_of_any_sizes_make_one_proof(tmp_path: Path, hints: tuple[int, ...]) -> None:
    """It took one proof for every ratio of two sizes, 24 of them, and then gave up; or it said that the sizes must be
    what they were at capture."""
    report = _refine(tmp_path, LEFT, _right("B", "C"), dict(zip("rxyz", hints, strict=True)))
    assert report.verdict is Verdict.PROVED, str(report)
    assert [a.text for a in report.assumptions if a.name.startswith("sizes")] == [
        "for all sizes with r >= 1, x >= 1, y >= 1, z >= 1"
    ]
    assert not report.notes


def test_parts_in_another_order_are_refuted(tmp_path: Path) -> None:
    report = _refine(tmp_path, LEFT, _right("C", "B"), {"r": 3, "x": 3, "y": 5, "z": 7})
    assert report.verdict is Verdict.REFUTED, str(report)


def _window(start: str) -> list[Any]:
    x = placeholder("A", ["n"])  # type: ignore[list-item]
    return [x, call("y", "aten.slice.Tensor", [ref("A"), 0, size(start), size(f"{start} + c")], ["c"])]  # type: ignore[list-item]


def test_offsets_that_differ_above_the_least_sizes_are_refuted(tmp_path: Path) -> None:
    """At s = t = 1 they are equal, and only the smallest sizes were tried."""
    hints = {"n": 9, "c": 2, "s": 1, "t": 1, "u": 1}
    conditions = ["s + t + u + c <= n"]
    report = _refine(tmp_path, _window("s - 1"), _window("s + t - 2"), hints, conditions)
    assert report.verdict is Verdict.REFUTED, str(report)
    assert "n = " in str(report)


def _strided(start: int) -> list[Any]:
    return [
        placeholder("A", ["n"]),  # type: ignore[list-item]
        call("p", "aten.slice.Tensor", [ref("A"), 0, size("s"), size("s + 2*c - 1")], ["2*c - 1"]),  # type: ignore[list-item]
        call("y", "aten.slice.Tensor", [ref("p"), 0, start, size("2*c - 1"), 2], ["c"]),  # type: ignore[list-item]
    ]


def test_every_second_of_an_odd_number(tmp_path: Path) -> None:
    """A slice of 2c - 1 elements with step 2 was refused: 1 - 2c divided by 2 did not come out even."""
    direct = [
        placeholder("A", ["n"]),  # type: ignore[list-item]
        call("y", "aten.slice.Tensor", [ref("A"), 0, size("s"), size("s + 2*c - 1"), 2], ["c"]),  # type: ignore[list-item]
    ]
    hints, conditions = {"n": 9, "c": 2, "s": 1}, ["s + 2*c - 1 <= n"]
    report = _refine(tmp_path, _strided(0), direct, hints, conditions)
    assert report.verdict is Verdict.PROVED, str(report)


def _clamped(update: str, low: int) -> list[Any]:
    """What is read where it was written, at a start that is known when the program runs."""
    i = placeholder("i", [], "int64")
    a, b = placeholder("A", ["n"]), placeholder("B", ["c"])  # type: ignore[list-item]
    return [
        a, b, i, call("s", "aten.clamp.default", [ref("i"), low, size("n - c")], [], "int64"),
        call("r", "aten.arange.default", [size("c")], ["c"], "int64"),  # type: ignore[list-item]
        call("t", "aten.add.Tensor", [ref("r"), ref("s")], ["c"], "int64"),  # type: ignore[list-item]
        call("p", "aten.index_put.default", [ref("A"), [ref("t")], ref(update)], ["n"]),  # type: ignore[list-item]
        call("y", "aten.index_select.default", [ref("p"), 0, ref("t")], ["c"]),  # type: ignore[list-item]
    ]  # fmt: skip


def test_what_is_written_at_a_clamped_start_is_read_there(tmp_path: Path) -> None:
    hints, conditions = {"n": 9, "c": 2}, ["c <= n"]
    copied = [placeholder("A", ["n"]), placeholder("B", ["c"]), placeholder("i", [], "int64"),  # type: ignore[list-item]
              call("y", "aten.clone.default", [ref("B")], ["c"])]  # type: ignore[list-item]  # fmt: skip
    report = _refine(tmp_path, _clamped("B", 0), copied, hints, conditions)
    assert report.verdict is Verdict.PROVED, str(report)
    other = [*copied[:3], call("y", "aten.slice.Tensor", [ref("A"), 0, 0, size("c")], ["c"])]  # type: ignore[list-item]
    assert _refine(tmp_path, _clamped("B", 0), other, hints, conditions).verdict is Verdict.REFUTED


def _nodes(*lines: tuple[str, str, list[Any], list[Any]]) -> list[Any]:
    return [placeholder("A", ["n"]), *(call(name, f"aten.{op}", args, shape) for name, op, args, shape in lines)]  # type: ignore[list-item]


def _in_turn(first: str, second: str) -> list[Any]:
    """Elements of a row and zeros in turn, without the last one."""
    return [
        *_nodes(
            ("f", "flip.default", [ref("A"), [0]], ["n"]),
            ("z", "zeros_like.default", [ref("A")], ["n"]),
            ("p", "stack.default", [[ref(first), ref(second)], 1], ["n", 2]),
            ("q", "view.default", [ref("p"), [size("2*n")]], ["2*n"]),
            ("r", "slice.Tensor", [ref("q"), 0, 0, size("2*n - 1")], ["2*n - 1"]),
        )
    ]


def test_zeros_between_any_number_of_elements(tmp_path: Path) -> None:
    """They took a box for each, and there are n."""
    done = call("y", "aten.flip.default", [ref("r"), [0]], ["2*n - 1"])  # type: ignore[list-item]
    same = call("y", "aten.clone.default", [ref("r")], ["2*n - 1"])  # type: ignore[list-item]
    left = [*_in_turn("A", "z"), done]
    assert _refine(tmp_path, left, [*_in_turn("f", "z"), same], {"n": 3}).verdict is Verdict.PROVED
    assert _refine(tmp_path, left, [*_in_turn("A", "z"), same], {"n": 3}).verdict is Verdict.REFUTED


def test_running_sums_of_a_row_turned_round(tmp_path: Path) -> None:
    left = _nodes(
        ("p", "flip.default", [ref("A"), [0]], ["n"]),
        ("q", "cumsum.default", [ref("p"), 0], ["n"]),
        ("y", "flip.default", [ref("q"), [0]], ["n"]),
    )
    right = _nodes(
        ("s", "sum.dim_IntList", [ref("A"), [0], True], [1]),
        ("c", "cumsum.default", [ref("A"), 0], ["n"]),
        ("d", "sub.Tensor", [ref("s"), ref("c")], ["n"]),
        ("y", "add.Tensor", [ref("d"), ref("A")], ["n"]),
    )
    report = _refine(tmp_path, left, right, {"n": 3})
    assert report.verdict is Verdict.PROVED, str(report)
    assert not [a for a in report.assumptions if a.name == "sizes-covered"]
    wrong = [*right[:-1], call("y", "aten.clone.default", [ref("d")], ["n"])]  # type: ignore[list-item]
    assert _refine(tmp_path, left, wrong, {"n": 3}).verdict is Verdict.REFUTED


def test_a_concatenation_of_one_and_of_many(tmp_path: Path) -> None:
    """Where b is 1, it is the number: a sum over b elements is one of them."""
    a, b = placeholder("A", ["a"]), placeholder("B", ["b"])  # type: ignore[list-item]
    left = [
        a, b, call("p", "aten.cat.default", [[ref("A"), ref("B")], 0], ["a + b"]),  # type: ignore[list-item]
        call("y", "aten.cumsum.default", [ref("p"), 0], ["a + b"]),  # type: ignore[list-item]
    ]  # fmt: skip

    def apart(total: str) -> list[Any]:
        return [
            a, b, call("s", "aten.sum.dim_IntList", [ref(total), [0], True], [1]),
            call("c", "aten.cumsum.default", [ref("A"), 0], ["a"]),  # type: ignore[list-item]
            call("d", "aten.cumsum.default", [ref("B"), 0], ["b"]),  # type: ignore[list-item]
            call("e", "aten.add.Tensor", [ref("d"), ref("s")], ["b"]),  # type: ignore[list-item]
            call("y", "aten.cat.default", [[ref("c"), ref("e")], 0], ["a + b"]),  # type: ignore[list-item]
        ]  # fmt: skip

    report = _refine(tmp_path, left, apart("A"), {"a": 2, "b": 3})
    assert report.verdict is Verdict.PROVED, str(report)
    assert not [one for one in report.assumptions if one.name == "sizes-covered"]
    assert _refine(tmp_path, left, apart("B"), {"a": 2, "b": 3}).verdict is Verdict.REFUTED


def test_multiples_of_a_size_are_taken_out_of_quotients(tmp_path: Path) -> None:
    """``floor((i + 3 m) / m) = floor(i / m) + 3``"""

    def shifted(steps: int, more: int) -> list[Any]:
        return [
            placeholder("A", ["n", "m"]),  # type: ignore[list-item]
            call("i", "aten.arange.default", [size("n")], ["n"], "int64"),  # type: ignore[list-item]
            call("p", "aten.add.Tensor", [ref("i"), size(f"{steps}*m")], ["n"], "int64"),  # type: ignore[list-item]
            call("q", "aten.floor_divide.default", [ref("p"), size("m")], ["n"], "int64"),  # type: ignore[list-item]
            call("y", "aten.add.Tensor", [ref("q"), more], ["n"], "int64"),  # type: ignore[list-item]
        ]

    assert _refine(tmp_path, shifted(3, 0), shifted(2, 1), {"n": 4, "m": 2}).verdict is Verdict.PROVED
    assert _refine(tmp_path, shifted(3, 0), shifted(2, 2), {"n": 4, "m": 2}).verdict is Verdict.REFUTED


def test_quotients_of_one_block_or_of_blocks_of_one(tmp_path: Path) -> None:
    """``floor(i / a)`` for i below ``a b`` is never b, also where a or b is 1: there is no axis to split then."""

    def found(last: float) -> list[Any]:
        return [
            placeholder("A", ["a", "b"]),  # type: ignore[list-item]
            call("i", "aten.arange.default", [size("a*b")], ["a*b"], "int64"),  # type: ignore[list-item]
            call("q", "aten.floor_divide.default", [ref("i"), size("a")], ["a*b"], "int64"),  # type: ignore[list-item]
            call("e", "aten.eq.Scalar", [ref("q"), size("b")], ["a*b"], "bool"),  # type: ignore[list-item]
            call("s", "aten.sum.default", [ref("e")], [], "int64"),
            call("y", "aten.add.Tensor", [ref("s"), last], [], "int64"),
        ]

    zero = [
        placeholder("A", ["a", "b"]),  # type: ignore[list-item]
        call("i", "aten.arange.default", [size("a*b")], ["a*b"], "int64"),  # type: ignore[list-item]
        call("e", "aten.lt.Scalar", [ref("i"), 0], ["a*b"], "bool"),  # type: ignore[list-item]
        call("y", "aten.sum.default", [ref("e")], [], "int64"),
    ]
    assert _refine(tmp_path, found(0), zero, {"a": 5, "b": 11}).verdict is Verdict.PROVED
    assert _refine(tmp_path, found(1), zero, {"a": 5, "b": 11}).verdict is Verdict.REFUTED
