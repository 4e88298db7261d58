"""Numbers and nested lists as short text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, cast

__all__ = ["is_zero", "number", "pair", "shape_of", "shortened", "sparse"]


def number(value: object, digits: int | None = None) -> str:
    """A number in as few digits as identify it, or in at most ``digits``; anything else as Python shows it."""
    if not isinstance(value, float):
        return repr(value)
    if digits is not None:
        return f"{value:.{digits}g}"
    short = f"{value:.9g}"
    return short if float(short) == value else f"{value:.17g}"


def pair(one: object, other: object) -> tuple[str, str]:
    """Two numbers in as few digits, but at least six, as tell them apart."""
    for digits in (6, 9, 12):
        shown = number(one, digits), number(other, digits)
        if shown[0] != shown[1]:
            return shown
    return number(one), number(other)


def is_zero(value: object) -> bool:
    """True if a number or every number in nested lists is 0."""
    items = _items(value)
    return all(map(is_zero, items)) if items is not None else value == 0


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


def shortened(value: object, limit: int = 3, whole: int = 12, digits: int | None = None) -> str:
    """Nested lists as text: all elements if there are at most ``whole``, else the first ``limit`` of every list."""
    size = 1
    for length in shape_of(value):
        size *= length
    return _shown(value, size if size <= whole else limit, digits)


def sparse(value: object, whole: int = 12, most: int = 6, digits: int | None = None) -> str | None:
    """Nested lists by the few elements that are not as all others are, ``0 but [2, 4] = 1``; ``None`` if there are more
    than ``most`` of these, or no more than ``whole`` elements."""
    elements = [*_elements(value)]
    if len(elements) <= whole:
        return None
    (usual, _), *_ = Counter(element for _, element in elements).most_common(1)
    others = [(place, element) for place, element in elements if element != usual]
    if len(others) > most:
        return None
    shown = [f"[{', '.join(map(str, place))}] = {number(element, digits)}" for place, element in others]
    return f"{number(usual, digits)} but {', '.join(shown)}" if shown else f"{number(usual, digits)} everywhere"


def _elements(value: object, place: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Any]]:
    items = _items(value)
    if items is None:
        yield place, value
        return
    for k, item in enumerate(items):
        yield from _elements(item, (*place, k))


def _shown(value: object, limit: int, digits: int | None) -> str:
    items = _items(value)
    if items is None:
        return number(value, digits)
    parts = [_shown(item, limit, digits) for item in items[:limit]]
    rest = ["..."] if len(items) > limit else []
    return f"[{', '.join([*parts, *rest])}]"
