"""What loaders do to numbered checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
import pytest

from tantamount.correspond.numbering import Floats, Source, loads, source_of

SHAPES = {"a": (4, 6), "b": (6,)}


def source(function: Callable[[Mapping[str, Floats]], Floats]) -> Source:
    """The source of what a loader makes of a checkpoint with tensors ``a`` and ``b``."""
    return source_of(loads(lambda checkpoint: {"p": np.array(function(checkpoint))}, SHAPES), "p")


@pytest.mark.parametrize(
    ("function", "expression", "factor", "shift"),
    [
        (lambda c: c["a"].T, 'permute(rank(0, "a"), [1, 0])', 1, 0),
        (lambda c: 1 + c["b"], 'rank(0, "b")', 1, 1),
        (lambda c: c["a"] * 3 + 0.25, 'rank(0, "a")', 3, Fraction(1, 4)),
        (lambda c: c["a"] / 8, 'rank(0, "a")', Fraction(1, 8), 0),
        (lambda c: c["a"].astype(np.float32).astype(np.float64), 'rank(0, "a")', 1, 0),
        (lambda c: -2 * c["a"][:2] + 3, 'rank(0, "a")[0:2, 0:6]', -2, 3),
    ],
)
def test_multiples_of_single_elements(
    function: Callable[[Mapping[str, Floats]], Floats], expression: str, factor: Fraction, shift: Fraction
) -> None:
    found = source(function)
    assert (str(found.expression), found.factor, found.shift) == (expression, factor, shift)
    assert found.exact is ((factor, shift) == (1, 0))


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda c: c["a"] + c["b"], "not multiples of single elements"),
        (lambda c: np.maximum(c["a"], c["a"][::-1]), "not multiples of single elements"),
        (lambda c: c["a"] * c["a"], "not multiples of single elements"),
        (lambda c: np.abs(c["a"]), "not multiples of single elements"),
        (lambda c: np.maximum(c["a"], 0), "not multiples of single elements"),
        (lambda c: np.round(c["a"]), "not multiples of single elements"),
        (lambda c: np.clip(c["a"], -100, 100), "not multiples of single elements"),
        (lambda c: np.tanh(c["b"] / 10), "not multiples of single elements"),
        (lambda c: (c["b"] + 5000).astype(np.float16).astype(np.float64), "not multiples"),
        (lambda c: np.where(c["a"].sum() > 0, c["a"], np.nan), "infinite or NaN"),
        (lambda c: np.concatenate([c["b"], 2 * c["b"]]), "different multiples"),
        (lambda c: np.ones(6), "nothing of the checkpoint is loaded"),
        (lambda c: np.concatenate([2 * c["b"][:4], np.ones(2)]), "2 of its 6 elements are not loaded"),
        (lambda c: np.concatenate([c["b"][:2], 2 * c["b"][:2], np.ones(2)]), "2 of its 6 elements are not loaded"),
    ],
)
def test_what_is_no_layout_is_said_to_be_none(function: Callable[[Mapping[str, Floats]], Floats], problem: str) -> None:
    found = source(function)
    assert found.expression is None
    assert problem in found.problem


def test_elements_that_are_not_loaded_are_of_a_tensor_of_their_own() -> None:
    found = source(lambda c: np.concatenate([c["b"][:4], np.ones(2)]))
    assert found.rest == "p before loading"
    assert str(found.expression) == 'concat(rank(0, "b")[0:4], rank(0, "p before loading")[4:6], dim=0)'
    assert found.problem == "2 of its 6 elements are not loaded"
    assert found.sources is not None
    assert (found.sources < 0).tolist() == [False] * 4 + [True] * 2


def test_two_elements_that_are_swapped_are_seen() -> None:
    def swapped(checkpoint: Mapping[str, Floats]) -> Floats:
        p = checkpoint["b"].copy()
        p[1], p[4] = p[4], p[1]
        return p

    found = source(swapped)
    assert found.sources is not None
    assert found.sources.tolist() == [24, 28, 26, 27, 25, 29]
