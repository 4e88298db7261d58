"""Tensors recognised by their values."""

from __future__ import annotations

import numpy as np
import pytest

from tantamount.correspond.values import windows
from tantamount.effort import Effort


@pytest.mark.parametrize(
    ("whole", "part", "count"),
    [
        ((4, 6), (2, 6), 2),
        ((4, 6), (2, 3), 4),
        ((4, 6), (0, 6), 0),
        ((4,), (0,), 0),
        ((0, 6), (0, 6), 1),
        ((0,), (4,), 0),
    ],
)
def test_windows_are_equal_blocks_and_of_nothing_there_are_none(
    whole: tuple[int, ...], part: tuple[int, ...], count: int
) -> None:
    found = list(windows(Effort(), np.zeros(whole), part))
    assert len(found) == count
    assert all(value.shape == part for _, value in found)
