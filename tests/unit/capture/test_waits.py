"""Collectives that are waited for: computing beside them is fine; reading what they write, or overwriting what they
send, is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import graph_of
from tantamount.capture.graph_document import graph_document
from tantamount.capture.programs import write_document
from tantamount.capture.readers import read_graph
from tantamount.capture.waits import check_waits
from tantamount.errors import UserError

WAIT = "_c10d_functional.wait_tensor.default"
IN_PLACE = "_c10d_functional.all_reduce_.default"
S, I = 's = all_reduce(x, "sum", "tp")', f's = {IN_PLACE}(x, "sum", "tp")'
END = f"w = {WAIT}(s)", "y = add(v, w)"
T = "t = aten.t.default(x)"


def text(*lines: str) -> str:
    return "\n".join(("x: float32[4, 4]", "u: float32[4, 4]", *lines, "-> y"))


@pytest.mark.parametrize(
    "lines",
    [
        (S, "v = mm(u, u)", *END),  # overlapped
        (S, "v = mm(x, u)", *END),  # it only reads x
        (
            's = all_reduce(x, "sum", "tp")',
            "t = aten.t.default(s)",
            f"w = {WAIT}(s)",
            "y = add(t, w)",
        ),  # seen, read later
        (S, "t = aten.t.default(s)", f"w = {WAIT}(t)", "y = add(s, w)"),
        (I, f"w = {WAIT}(s)", "y = add(x, w)"),
        (S, f"w = {WAIT}(s)", "v = aten.add_.Tensor(x, u)", "y = add(v, w)"),
        (S, "v = aten.add_.Tensor(u, x)", *END),
        (S, "y = add(s, u)"),  # nothing is waited for: synchronous
    ],
)
def test_what_may_be_done_before_the_wait(lines: tuple[str, ...]) -> None:
    check_waits(graph_of(text(*lines)))


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ((S, "v = mm(s, u)", *END), "read"),
        ((S, "t = aten.t.default(s)", "v = mm(t, u)", *END), "read"),
        ((S, 'r = all_reduce(s, "sum", "dp")', f"w = {WAIT}(r)", "y = mul(w, 1)"), "read"),
        # of one it waits, of the other never
        ((S, f"w = {WAIT}(s)", 'r = all_reduce(u, "sum", "tp")', "y = add(w, r)"), "read"),
        (('y = all_reduce(x, "sum", "tp")', 'r = all_reduce(u, "sum", "tp")', f"w = {WAIT}(r)"), "read"),
        ((I, "v = mm(x, u)", *END), "read"),
        ((T, I, "v = mm(t, u)", *END), "read"),
        ((S, "v = aten.add_.Tensor(x, u)", *END), "overwritten"),
        # a copy, perhaps, reads; and perhaps it is none
        ((S, "t = aten.reshape.default(s, [16])", f"w = {WAIT}(s)", "y = mul(t, 1)"), "read"),
        (("c = aten.contiguous.default(x)", S.replace("x", "c"), "v = aten.add_.Tensor(x, u)", *END), "overwritten"),
        ((T, S, "v = aten.zero_.default(t)", *END), "overwritten"),
    ],
)  # fmt: skip
def test_races_are_refused(lines: tuple[str, ...], what: str) -> None:
    with pytest.raises(UserError) as raised:
        check_waits(graph_of(text(*lines)))
    assert raised.value.code == "capture-race"
    assert f"{what} before the program has waited for it" in str(raised.value)


def test_messages_and_several_results_are_waited_for_one_by_one() -> None:
    many = "_c10d_functional.all_reduce_coalesced.default"
    lines = (f's = {many}([x, u], "sum", "tp")', "a = getitem(s, 0)", "b = getitem(s, 1)", f"v = {WAIT}(a)")
    check_waits(graph_of(text(*lines, f"w = {WAIT}(b)", "y = add(v, w)")))
    with pytest.raises(UserError, match="read before"):
        check_waits(graph_of(text(*lines, "y = add(v, b)")))
    got = '_c10d_functional.irecv.default(u, 0, 0, "pp")'
    check_waits(graph_of(text(f"r = {got}", f"w = {WAIT}(r)", "y = add(u, w)")))
    with pytest.raises(UserError, match="read before"):
        check_waits(graph_of(text(f"r = {got}", "v = mm(u, x)", f"w = {WAIT}(r)", "y = add(v, w)")))
    sent = '_c10d_functional.isend.default(u, 0, 0, "pp")'
    with pytest.raises(UserError, match="overwritten before"):
        check_waits(graph_of(text(f"r = {sent}", "v = aten.add_.Tensor(u, x)", f"w = {WAIT}(r)", "y = mul(v, 1)")))


def test_files_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "race.json.gz"
    lines = (S, "v = mm(s, u)", *END)
    write_document(path, graph_document(graph_of(text(*lines))))
    with pytest.raises(UserError) as raised:
        read_graph(path)
    assert raised.value.code == "capture-race"
