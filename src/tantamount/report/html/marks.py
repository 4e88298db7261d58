"""Two formulas with the stretches marked in which they differ."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

__all__ = ["Marked", "marks"]

Marked = tuple[tuple[str, bool], ...]  # pieces of a text, and whether the other text lacks them
_TOKENS = re.compile(r"\w+(?:\.\w+)*|\s+|[^\w\s]")
_MOST = 1500  # tokens: comparing takes quadratic time


def marks(one: str, other: str) -> tuple[Marked, Marked]:
    """Both texts in pieces. Formulas that have little in common are not marked at all: it would show nothing."""
    a, b = _TOKENS.findall(one), _TOKENS.findall(other)
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    if not a or not b or max(len(a), len(b)) > _MOST or matcher.ratio() < 0.4:
        return ((one, False),), ((other, False),)
    left: list[tuple[str, bool]] = []
    right: list[tuple[str, bool]] = []
    for kind, i, j, k, n in matcher.get_opcodes():
        left.append(("".join(a[i:j]), kind != "equal"))
        right.append(("".join(b[k:n]), kind != "equal"))
    return tuple(piece for piece in left if piece[0]), tuple(piece for piece in right if piece[0])
