"""Numbers and nested lists as short text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

__all__ = ["number", "shape_of", "shortened"]


def number(value: object) -> str:
    """A number in as few digits as identify it; anything else as Python shows it."""
    if not isinstance(value, float):
        return repr(value)
    short = f"{value:.9g}"
    return short if float(short) == value else f"{value:.17g}"


def _items(value: object) -> Sequence[Any] | None:
    return cast(Sequence[Any], value) if isinstance(value, (list, tuple)) else None


def shape_of(value: object) -> tuple[int, ...]:
    """The shape of nested lists (of their first elements, where they are ragged)."""
    shape: list[int] = []
    while (items := _items(value)) is not None:
        shape.append(len(items))
        if not items:
            break
        value = items[0]
    return tuple(shape)


def shortened(value: object, limit: int = 3, whole: int = 12) -> str:
    """Nested lists as text: all elements if there are at most ``whole``, else the first ``limit`` of every list."""
    size = 1
    for length in shape_of(value):
        size *= length
    return _shown(value, size if size <= whole else limit)


def _shown(value: object, limit: int) -> str:
    items = _items(value)
    if items is None:
        return number(value)
    parts = [_shown(item, limit) for item in items[:limit]]
    rest = ["..."] if len(items) > limit else []
    return f"[{', '.join([*parts, *rest])}]"
