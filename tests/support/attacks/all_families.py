"""Every family."""

from __future__ import annotations

from support.attacks import domains, masks, narrow, states, ties, windows
from support.attacks.judge import Family

__all__ = ["FAMILIES"]

FAMILIES: tuple[Family, ...] = tuple(one for part in (ties, masks, narrow, domains, states, windows) for one in part.FAMILIES)
