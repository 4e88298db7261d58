"""Writing and adding at computed places: against evaluation, in one normal form for the whole and its shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.calculus import Workbench
from support.jobs import job_files
from tantamount.answers import refine
from tantamount.calculus.writes import written
from tantamount.capture.job import read_job
from tantamount.errors import Unsupported
from tantamount.ir.types import DType
from tantamount.ops.definitions.indexing import from_end
from tantamount.verdict import Verdict

INT = DType.INT64


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([(6, 1), (3, 2), (2, 3)]), st.sampled_from([1, -2]), st.booleans(), st.integers(0, 3))
def test_what_is_taken_off_at_distinct_places(rows: tuple[int, int], factor: int, reshaped: bool, seed: int) -> None:
    """``x[i, t_i] = factor * x[i, t_i] - u_i``, rows being one axis or two, is what it says, and for factor 1 it is
    ``x - [t == v] u``, t counted from the end where it is negative."""
    w = Workbench()
    shaped, column = w.input("x", *rows, 5), w.input("t", *rows, dtype=INT)
    x, t, u = w.b.reshape(shaped, (6, 5)), w.b.reshape(column, (6,)), w.input("u", 6)
    if reshaped:
        x = w.b.add(x, 1)
    places = (w.b.iota(6), t)
    less = w.b.sub(w.b.mul(w.aten("aten.index.Tensor", x, places), factor), u)
    found = w.aten("aten.index_put.default", x, places, less)
    data = w.data(seed)
    expected = data["x"].reshape(6, 5) + reshaped
    at = (np.arange(6), data["t"].reshape(6))
    expected[at] = factor * expected[at] - data["u"]
    assert np.allclose(w.value(found, data), expected)
    if factor == 1:
        hit = w.b.equal(w.b.unsqueeze(from_end(w.b, t, 5), 1), w.b.unsqueeze(w.b.iota(5), 0))
        assert w.same(found, w.b.sub(x, w.b.mul(w.b.cast(hit, DType.FLOAT32), w.b.unsqueeze(u, 1))))


def test_added_sums_stay_factors() -> None:
    """What is added at computed places is not multiplied out: the normal form of nested sums would be exponential."""
    w = Workbench()
    ids = w.input("ids", 6, dtype=INT)
    g = w.input("g", 6, 4)
    for k in range(6):
        g = w.b.mul(w.b.add(w.b.add(g, w.input(f"a{k}", 6, 4)), w.input(f"b{k}", 6, 4)), w.input(f"c{k}", 6, 4))
    added = w.aten("aten.embedding_dense_backward.default", g, ids, 4, -1, False)
    (piece,) = added.value.pieces
    assert len(piece[1]) == 1
    data = w.data(1)
    expected = np.zeros((4, 4))
    np.add.at(expected, data["ids"], w.value(g, data))
    assert np.allclose(w.value(added, data), expected)


ADDED = {
    "scatter_add": "y = aten.scatter_add.default(x, 0, {k}, z)",
    "index_add": "y = aten.index_add.default(x, 0, {k}, z)",
    "index_put": "y = aten.index_put.default(x, [{k}], z, True)",
    "embedding_dense_backward": "e = aten.embedding_dense_backward.default(z, {k}, 5, -1, False)\ny = add(x, e)",
}


@pytest.mark.parametrize("name", ADDED)
@pytest.mark.parametrize(("index", "proved"), [("ids", False), ("k", True)])
def test_indices_of_writes_must_be_in_range(tmp_path: Path, name: str, index: str, proved: bool) -> None:
    """Adding zeros at an unknown place changes no element, and fails where the place does not exist."""
    row = ", 2" if name == "embedding_dense_backward" else ""
    head = f"x: float32[5{row}]\nids: int64[3]\n"
    body = f"z = aten.zeros.default([3{row}])\nk = aten.clamp.default(ids, 0, 4)\n" + ADDED[name].format(k=index)
    path = job_files(
        tmp_path, head + "y = aten.add.Tensor(x, 0)\n-> y", [head + body + "\n-> y"],
        '[inputs]\ndefault = "Replicate()"', {}, {},
    )  # fmt: skip
    assert (refine(read_job(path)).verdict is Verdict.PROVED) == proved


def _table(w: Workbench, size: int, cuts: list[int], lines: list[tuple[int, int]]) -> Any:
    """Integers that are ``slope * i + start`` between the cuts, by comparisons."""
    i = w.b.iota(size)
    found = w.b.full((size,), 0, INT)
    for cut, (slope, start) in zip([0, *cuts], lines, strict=True):
        found = w.b.where(w.b.less(i, cut), found, w.b.add(w.b.mul(i, slope), start))
    return found


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_writes_at_numbers_whoever_comes_last(data: Any) -> None:
    """Tables of numbers written at tables of numbers: as NumPy does if equal writes meet, and otherwise not settled."""
    size, count = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 7))
    cuts = sorted(data.draw(st.lists(st.integers(1, count), max_size=2, unique=True)))
    slopes = st.sampled_from([0, 0, 1, 1, -1, 2])
    line = st.tuples(slopes, st.integers(-2, 9))
    places = [data.draw(line) for _ in range(len(cuts) + 1)]
    values = [data.draw(st.tuples(st.sampled_from([0, 0, 1, 3]), st.integers(0, 2))) for _ in range(len(cuts) + 1)]
    w = Workbench()
    x, index, source = w.input("x", size, dtype=INT), _table(w, count, cuts, places), _table(w, count, cuts, values)
    at, what = (w.value(t, {}).astype(int) for t in (index, source))
    found = written(w.store, x.value, index.value, source.value, 0)
    wanted = dict(zip(at.tolist(), what.tolist(), strict=True))
    settles = all(0 <= k < size for k in wanted) and all(wanted[k] == v for k, v in zip(at, what, strict=True))
    if found is None:
        assert not settles or any(slope not in (0, 1) for slope, _ in places) or any(s for s, _ in values)
        return
    assert settles
    given_data = w.data(3)
    expected = given_data["x"].copy()
    for k, v in wanted.items():
        expected[k] = v
    assert np.array_equal(w.value(found, given_data), expected)


@pytest.mark.parametrize(("first", "proved"), [(0, True), (1, False)])
def test_where_documents_begin(tmp_path: Path, first: int, proved: bool) -> None:
    """A table that is filled at ends of documents, and at one place after all others by everybody else."""
    body = (
        "x: float32[64]\ni = aten.arange.default(64)\n"
        f"eq = aten.eq.Scalar(i, {first})\nn = aten.full_like.default(i, 64)\n"
        "at = aten.where.self(eq, i, n)\nf = aten.full.default([128], 7, dtype=int64)\n"
        "t = aten.scatter.src(f, 0, at, at)\nj = aten.slice.Tensor(t, 0, 0, 1)\n"
        "y = aten.index.Tensor(x, [j])\n-> y"
    )
    spec = "x: float32[64]\ny = aten.slice.Tensor(x, 0, 0, 1)\n-> y"
    path = job_files(tmp_path, spec, [body], '[inputs]\ndefault = "Replicate()"', {}, {})
    assert (refine(read_job(path)).verdict is Verdict.PROVED) == proved


@pytest.mark.parametrize("experts", [2, 4])
def test_results_of_experts_are_added_as_tokens_are_counted(experts: int) -> None:
    """Tokens are 8 x 4, one after the other for each expert: what is added up has the axes of tokens, also where there
    are as many experts as one of these axes is long, so that other neighbours make the number of tokens."""
    w = Workbench()
    x = w.input("x", experts, 8, 4, 3)
    scores = w.b.sum(w.b.mul(x, x), (3,), keepdim=True)  # no table of numbers
    flat = w.b.reshape(w.b.mul(x, scores), (experts * 32, 3))
    rows = w.b.reshape(w.b.expand(w.b.iota(32), (experts, 32)), (experts * 32,))
    zeros = w.aten("aten.zeros.default", (32, 3))
    found = w.aten("aten.index_add.default", zeros, 0, rows, flat)
    assert w.same(found, w.b.reshape(w.b.sum(w.b.mul(x, scores), (0,)), (32, 3)))


@pytest.mark.parametrize("off", [0, 1])
@pytest.mark.parametrize("slots", [[5], [9, 2], [2, 3, 8, 9, 10], [11, 0, 6, 5]])
def test_slots_are_blocks_and_places_in_them(slots: list[int], off: int) -> None:
    """Rows written at slots of a cache that is seen as rows are those written at ``slot // 4`` and ``slot % 4``; at
    other places they are not, and what is written is what NumPy writes."""
    w = Workbench()
    x, cache = w.input("x", len(slots), 2), w.input("cache", 3, 4, 2)
    rows = w.b.reshape(cache, (12, 2))
    flat = w.b.scatter(rows, [w.b.table(slots, (len(slots),), INT), None], x, accumulate=False)
    blocks, places = [slot // 4 for slot in slots], [(slot + off) % 4 for slot in slots]
    at = [w.b.table(numbers, (len(slots),), INT) for numbers in (blocks, places)]
    found = w.b.scatter(cache, [*at, None], x, accumulate=False)
    assert w.equivalent(found, w.b.reshape(flat, (3, 4, 2))) is (off == 0)
    data = w.data(off)
    expected = data["cache"].copy()
    expected[blocks, places] = data["x"]
    assert np.array_equal(w.value(found, data), expected)


def test_places_that_meet_are_not_distinct() -> None:
    w = Workbench()
    x, cache = w.input("x", 3, 2), w.input("cache", 3, 4, 2)
    block, place = (w.b.table(numbers, (3,), INT) for numbers in ([0, 1, 0], [2, 2, 2]))
    with pytest.raises(Unsupported, match="two writes might meet"):
        w.b.scatter(cache, [block, place, None], x, accumulate=False)
