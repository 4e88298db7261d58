"""The rules, by subject. :func:`rules` loads them all."""

from __future__ import annotations

from collections.abc import Mapping

from tantamount.rules.library import arithmetic, choices, einsums, layout, moves, products, sums
from tantamount.rules.rule import RULES, Rule

__all__ = ["rules"]

_SOURCES = (arithmetic, layout, products, sums, choices, moves, einsums)  # importing them registers their rules


def rules() -> Mapping[str, Rule]:
    """Every rule by name."""
    return RULES
