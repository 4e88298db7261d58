"""How much the tests take of what they could: a part, the same every time, or everything.

``make test`` takes the part, in which every kind of case occurs. ``benchmarks/bench_tests.py`` runs the tests that use
this module again, with everything (``TANTAMOUNT_TESTS=all``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

__all__ = ["EVERYTHING", "cases", "count"]

EVERYTHING = os.environ.get("TANTAMOUNT_TESTS") == "all"
_Case = TypeVar("_Case")


def count(part: int, everything: int) -> int:
    """How many random cases to draw. The first ``part`` of them are the same in both."""
    return everything if EVERYTHING else part


def cases(part: Iterable[_Case], more: Iterable[_Case]) -> list[_Case]:
    """The cases to run: a part, with one of every kind; and more of these kinds, where everything is asked for."""
    return [*part, *(more if EVERYTHING else ())]
