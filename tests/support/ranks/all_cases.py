"""Importing this fills the table."""

from support.ranks import collectives, hooks, sameness, states
from support.ranks.cases import CASES

__all__ = ["CASES", "collectives", "hooks", "sameness", "states"]
