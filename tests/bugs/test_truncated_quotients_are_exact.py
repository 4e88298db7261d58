"""Executions rounded x * (1 / y) towards 0 for quotients of integers: 49 * (1 / 49) is less than 1 in float64, and
under other rounding errors so is 3 * (1 / 3). Remainders came out wrong, and a difference at a multiple of the divisor
was taken for one of rounding: a wrong program was UNKNOWN."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.decided import Pair, check
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.definitions.elementwise import div_mode
from tantamount.semantics.noisy import Noisy
from tantamount.semantics.reference import Reference


@pytest.mark.parametrize("reference", [Reference(), Noisy(noise=1)])
def test_quotients_of_integers_towards_zero_are_exact(reference: Reference) -> None:
    x = np.array([49, -49, 48, -48, 98, 0, 3, -3], dtype=np.int64)
    for divisor in (49, -49, 3):
        b = Builder(reference)
        y = b.full(x.shape, divisor, DType.INT64)
        found = div_mode(b, Tensor(x.shape, DType.INT64, x), y, rounding_mode="trunc").value
        assert found.tolist() == [int(n / divisor) if n % divisor else n // divisor for n in x.tolist()]


def test_a_wrong_remainder_without_inputs_is_refuted(tmp_path: Path) -> None:
    wrong = Pair(
        "",
        "i = aten.arange.default(5); r = aten.fmod.Scalar(i, 3); -> r",
        "i = aten.arange.default(5); r = mul(i, 1); -> r",
        "REFUTED",
    )
    check(wrong, tmp_path)
