"""The functions of the table have values, and no exceptions, at every number that float64 has."""

from __future__ import annotations

import numpy as np
import pytest

from tantamount.ops.functions import FUNCTIONS

TINY, EPS, HUGE = np.nextafter(0, 1), np.finfo(np.float64).eps, np.finfo(np.float64).max
EDGES = (0.0, TINY, EPS, EPS / 4, 0.5, 1 - EPS / 2, 1.0, 1 + EPS, 2.0, 9.0, 2.0**53, HUGE, np.inf)
ODD = np.array([*EDGES, *(-x for x in EDGES), np.nan])


@pytest.mark.parametrize("name", [name for name, known in FUNCTIONS.items() if known.arity == 1])
def test_every_number_has_a_value(name: str) -> None:
    """erfinv asked for a quantile of 1, which 1 - EPS / 2 was rounded to."""
    with np.errstate(all="ignore"):
        found = np.asarray(FUNCTIONS[name].evaluate(ODD))
        assert found.shape == ODD.shape
        one_by_one = [np.asarray(FUNCTIONS[name].evaluate(np.array([x])))[0] for x in ODD]
    np.testing.assert_array_equal(found, np.array(one_by_one))


def test_the_inverse_of_erf() -> None:
    torch = pytest.importorskip("torch", reason="the values are PyTorch's own")
    x = ODD[np.abs(ODD) < 1]
    found = FUNCTIONS["erfinv"].evaluate(x)
    np.testing.assert_allclose(found, torch.from_numpy(x).erfinv().numpy(), rtol=1e-12)
