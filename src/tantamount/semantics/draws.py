"""Random numbers of the laws that operators draw from, for executions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tantamount.ops.algebra import Law

__all__ = ["sample"]

_LARGEST = 1 << 61  # what executions can still add
_COARSE = 4  # parts of 1: numbers of which some are equal, and some the ends of the support


def sample(law: Law, generator: np.random.Generator, shape: tuple[int, ...], coarse: bool = False) -> Any:
    """An array of numbers of a law. ``coarse``: multiples of a quarter, so that some are equal and some are at the ends
    of the support, as they may be."""
    if law.name == "kept":
        return np.asarray(generator.random(shape) >= float(law.parameter))
    if law.name == "below":
        most = min(int(law.parameter), _LARGEST)
        return np.asarray(generator.integers(0, most, shape), dtype=np.int64)
    if law.name == "counts":
        return np.asarray(generator.poisson(2.0, shape), dtype=np.int64)
    if law.name == "unit":
        found = np.asarray(generator.random(shape))
        return np.floor(found * _COARSE) / _COARSE if coarse else found
    if law.name == "exponential":
        found = np.maximum(np.asarray(generator.standard_exponential(shape)), np.finfo(np.float64).tiny)
        return np.ceil(found * _COARSE) / _COARSE if coarse else found
    draw = generator.standard_normal if law.name == "normal" else generator.standard_cauchy
    found = np.asarray(draw(shape))
    return np.round(found * _COARSE) / _COARSE if coarse else found
