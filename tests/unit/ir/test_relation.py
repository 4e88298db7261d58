"""The relation language: parsed, printed, refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tantamount.errors import UserError
from tantamount.ir.relation import (
    Arranged,
    Concat,
    Expression,
    Partial,
    Permute,
    RankTensor,
    Replicate,
    Reshape,
    Shard,
    Slice,
    Sum,
    rank_tensors,
)
from tantamount.ir.relation_text import parse_equalities, parse_relation
from tantamount.limits import Limits

LIMITS = Limits()


@pytest.mark.parametrize(
    ("text", "relation"),
    [
        ("Replicate()", Replicate()),
        ("Shard(0)", Shard(0)),
        ("Shard(dim=-1)", Shard(-1)),
        ("Partial()", Partial("sum")),
        ('Partial("avg")', Partial("avg")),
        ("Partial('max')", Partial("max")),
        ("rank(0)", RankTensor(0)),
        (' rank( 3 ,"a b" ) ', RankTensor(3, "a b")),
        ("rank(0)[0:768]", Slice(RankTensor(0), ((0, 768, 1),))),
        ("rank(0)[:, -8:, ::2]", Slice(RankTensor(0), ((None, None, 1), (-8, None, 1), (None, None, 2)))),
        ("concat(rank(0), rank(1), dim=-1)", Concat((RankTensor(0), RankTensor(1)), -1)),
        ("sum(rank(0), rank(1),)", Sum((RankTensor(0), RankTensor(1)))),
        ("transpose(rank(0), 0, 1)", Arranged("transpose", RankTensor(0), (0, 1))),
        ("permute(rank(0), (1, 0))", Permute(RankTensor(0), (1, 0))),
        ("reshape(rank(0)[0:2], [2, -1])", Reshape(Slice(RankTensor(0), ((0, 2, 1),)), (2, -1))),
        ("(rank(0))[1:2][0:1]", Slice(Slice(RankTensor(0), ((1, 2, 1),)), ((0, 1, 1),))),
    ],
)
def test_parse(text: str, relation: Expression) -> None:
    assert parse_relation(text, "x", LIMITS) == relation
    assert parse_relation(str(relation), "x", LIMITS) == relation


@pytest.mark.parametrize(
    ("text", "found", "needed"),
    [
        ("", "the end", "rank(i)"),
        ("Replicate", "the end", "'('"),
        ("Replicate() extra", "'extra'", "the end"),
        ("Shard()", "')'", "a dimension"),
        ("Shard(1.5)", "'1.5'", "a dimension"),
        ('Partial("median")', "reduction 'median'", "sum, avg, max, min"),
        ("rank(-1)", "rank -1", "from 0 on"),
        ("rank(0)[3]", "']'", "i:i+1"),
        ("rank(0)[...]", "character '.'", "characters"),
        ("rank(0)[::-1]", "step -1", "1 or more"),
        ("rank(0)[::0]", "step 0", "1 or more"),
        ("concat(rank(0), rank(1))", "')'", "dim=<number>"),
        ("concat(dim=0)", "'dim'", "rank(i)"),
        ("concat(Shard(0), dim=0)", "Shard inside an expression", "a placement alone"),
        ("__import__('os')", "function '__import__'", "rank(i)"),
        ("rank(0) + rank(1)", "character '+'", "characters"),
        ("rank(0).T", "character '.'", "characters"),
        ("rank(__class__)", "'__class__'", "a rank number"),
        ('rank(0, "a)', "character '\"'", "strings closed"),
        ("rank(0, '\\')", 'character "\'"', "strings closed"),
        pytest.param("rank(" + "9" * 5000 + ")", "5000 digits", "a rank number", id="digits"),
        ("permute(rank(0), 1, 0)", "'1'", "a list of integers"),
        ("lambda: 0", "function 'lambda'", "rank(i)"),
    ],
)
def test_syntax_errors(text: str, found: str, needed: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_relation(text, "job.toml: [inputs]: x", LIMITS)
    error = caught.value
    assert error.code == "relation-syntax"
    assert error.place == "job.toml: [inputs]: x"
    assert found in error.found
    assert needed in error.needed


def test_error_shows_the_place_inside_the_text() -> None:
    with pytest.raises(UserError, match=r"at character 9: 'rank\(0\)\[' >>> 'a:b\]'"):
        parse_relation("rank(0)[a:b]", "x", LIMITS)


@pytest.mark.parametrize(
    "text",
    ["(" * 100_000, "transpose(" * 100_000, "rank(0)" + "[0:1]" * 100_000],
    ids=["parentheses", "calls", "slices"],
)
def test_deep_nesting_is_a_limit_not_a_crash(text: str) -> None:
    with pytest.raises(UserError, match="nesting"):
        parse_relation(text, "x", LIMITS)


def test_long_expression_is_a_limit() -> None:
    with pytest.raises(UserError) as caught:
        parse_relation("rank(0)", "x", Limits(expression_length=6))
    assert caught.value.code == "limit-expression-length"


def test_equalities() -> None:
    pairs = parse_equalities('rank(0) == rank(1) == rank(2, "b")', "x", LIMITS)
    assert pairs == ((RankTensor(0), RankTensor(1)), (RankTensor(1), RankTensor(2, "b")))


@pytest.mark.parametrize("text", ["rank(0)", "rank(0) ==", "rank(0) = rank(1)", "sum(rank(0)) == rank(1)", ""])
def test_bad_equalities(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_equalities(text, "x", LIMITS)
    assert caught.value.code == "relation-syntax"


def test_rank_tensors_in_order() -> None:
    expression = parse_relation('concat(rank(1)[0:1], transpose(rank(0, "b"), 0, 1), rank(1), dim=0)', "x", LIMITS)
    assert not isinstance(expression, (Replicate, Shard, Partial))
    assert list(rank_tensors(expression)) == [RankTensor(1), RankTensor(0, "b"), RankTensor(1)]


_INTEGER = st.integers(-9, 9)
_BOUND = st.tuples(st.none() | _INTEGER, st.none() | _INTEGER, st.integers(1, 4))
_LEAF = st.builds(RankTensor, st.integers(0, 99), st.none() | st.text(st.characters(codec="utf-8"), max_size=5))


def _grow(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    parts = st.lists(inner, min_size=1, max_size=3).map(tuple)
    integers = st.lists(_INTEGER, max_size=3).map(tuple)
    return (
        st.builds(Slice, inner, st.lists(_BOUND, min_size=1, max_size=3).map(tuple))
        | st.builds(Concat, parts, _INTEGER)
        | st.builds(Sum, parts)
        | st.builds(Arranged, st.just("transpose"), inner, st.tuples(_INTEGER, _INTEGER))
        | st.builds(Arranged, st.just("unflatten"), inner, st.tuples(_INTEGER, integers))
        | st.builds(Permute, inner, integers)
        | st.builds(Reshape, inner, integers)
    )


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.recursive(_LEAF, _grow, max_leaves=8))
def test_print_and_parse_round_trip(expression: Expression) -> None:
    assert parse_relation(str(expression), "x", LIMITS) == expression


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.text("rankcotsumhpedi()[]:,=-0123456789 \"'\\.%#", max_size=40) | st.text(max_size=20))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with suppress(UserError):
        assert str(parse_relation(text, "x", LIMITS))
