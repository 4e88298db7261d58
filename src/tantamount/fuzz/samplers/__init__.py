"""Samplers: each draws one call of an operator on operands of a draft, or finds that there are none.

A sampler is a row of :data:`SAMPLERS`: the operator, how often it is tried, and a function that makes the call.
"""

from __future__ import annotations

from tantamount.fuzz.samplers import layout, numbers, sums
from tantamount.fuzz.samplers.registry import SAMPLERS, Sampler

__all__ = ["SAMPLERS", "SOURCES", "Sampler"]

SOURCES = (layout, numbers, sums)  # importing them registers their samplers
