"""Expressions that are found at three small sizes, at a real one."""

from __future__ import annotations

import pytest

from tantamount.correspond.index_maps import expression_of, numbered
from tantamount.correspond.lifting import Sample, lifted
from tantamount.ir.relation import Expression
from tantamount.ir.types import Shape

np = pytest.importorskip("numpy")


def fused(width: int, heads: int, *, part: int = 0, swapped: bool = False) -> Sample:
    """Queries, keys or values in a matrix of all three, head by head, stored as (in, out)."""
    shapes = {"qkv": (width, 3 * width)}
    numbers = np.arange(3 * width * width).reshape(width, heads, 3, width // heads)
    own = numbers[:, :, part].reshape(width, width).T
    if swapped:
        own = own[::-1]
    found = expression_of(np.ascontiguousarray(own), numbered(shapes))
    assert found is not None
    return Sample(found, (width, width), shapes)


def at(samples: list[Sample], width: int) -> Expression | None:
    shapes: dict[str, Shape] = {"qkv": (width, 3 * width)}
    return lifted(samples, (width, width), shapes)


@pytest.mark.parametrize("part", range(3))
def test_three_sizes_give_the_fourth(part: int) -> None:
    samples = [fused(heads * 4, heads, part=part) for heads in (2, 3, 5)]
    assert at(samples, 28) == fused(28, 7, part=part).expression  # heads of one size, so that their number grows
    samples = [fused(2 * size, 2, part=part) for size in (3, 4, 5)]
    assert at(samples, 22) == fused(22, 2, part=part).expression


def test_two_sizes_are_not_enough() -> None:
    samples = [fused(heads * 4, heads) for heads in (2, 3)]
    assert at(samples, 28) is None
    assert at([*samples, samples[0]], 28) is None


def test_explanations_that_differ_are_none() -> None:
    """Heads of one size at two of the sizes, and twice as many of another size at the third."""
    assert at([fused(8, 2), fused(12, 3), fused(20, 2)], 28) is None


def test_other_tensors_and_layouts_are_none() -> None:
    whole = [Sample(f.expression, f.shape, f.shapes) for f in (fused(8, 2), fused(12, 3))]
    other = fused(20, 5, part=1)
    assert at([*whole, other], 28) is None
    renamed = Sample(expression_of(np.arange(9).reshape(3, 3), numbered({"w": (3, 3)})), (3, 3), {"w": (3, 3)})  # type: ignore[arg-type]
    assert at([*whole, renamed], 28) is None


def test_a_size_that_did_not_change_says_nothing_of_one_that_does() -> None:
    def rows(width: int) -> Sample:
        shapes = {"w": (8, width)}
        found = expression_of(np.arange(8 * width).reshape(8, width)[:4], numbered(shapes))
        assert found is not None
        return Sample(found, (4, width), shapes)

    samples = [rows(width) for width in (3, 4, 5)]
    assert lifted(samples, (4, 100), {"w": (8, 100)}) is not None
    assert lifted(samples, (6, 100), {"w": (12, 100)}) is None  # four rows, or half of them
