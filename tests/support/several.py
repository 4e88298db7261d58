"""Many small cases as few tests: each test costs a thousandth of a second that its case does not take."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["case", "grouped"]

_Case = TypeVar("_Case")


@contextmanager
def case(name: object) -> Generator[None]:
    """A failure inside says which of the cases it is."""
    try:
        yield
    except Exception as problem:
        problem.add_note(f"case: {name}")
        raise


def grouped(cases: Iterable[_Case], key: Callable[[_Case], str]) -> Mapping[str, list[_Case]]:
    """The cases by what ``key`` says, in their order."""
    found: dict[str, list[_Case]] = {}
    for one in cases:
        found.setdefault(key(one), []).append(one)
    return found
