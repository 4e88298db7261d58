"""Every family."""

from __future__ import annotations

from support.attacks import cases, counts, domains, learned, masks, narrow, quantised, states, ties, windows
from support.attacks.judge import Family

__all__ = ["FAMILIES"]

_PARTS = (ties, masks, narrow, domains, states, windows, cases, learned, quantised, counts)

FAMILIES: tuple[Family, ...] = tuple(family for part in _PARTS for family in part.FAMILIES)
