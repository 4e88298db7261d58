"""JSON and TOML texts from untrusted files as values: what reading them costs is bounded before they are read."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import NoReturn, cast

from tantamount.capture.fields import Place, shown

__all__ = ["parse_json", "parse_toml"]

# A key, in a chain of keys with dots; strings and comments, so that what is inside them is not taken for one. A string
# without its end is read up to where it would have to end, so that no part of the text is looked at twice.
_TOML = re.compile(
    r'"""(?:\\[\s\S]|[^\\"]|"(?!""))*+(?:""")?'
    r"|'''(?:[^']|'(?!''))*+(?:''')?"
    r'|"(?:\\.|[^"\\\n])*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+"
    r"|[A-Za-z0-9_+-]++"
    r"|(?P<dot>[ \t]*+\.[ \t]*+)"
    r"|(?P<other>[ \t]++|[\s\S])"
)


def parse_json(text: str, place: Place) -> object:
    """The value of a JSON text. Raises :class:`UserError` for text that is not JSON, keys that occur twice in one
    object, not-a-number and infinity, nesting that is too deep, and the limit ``values``."""
    _check_values(text, place)
    try:
        return cast(object, json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_distinct))
    except json.JSONDecodeError as problem:
        found = f"{problem.msg} at line {problem.lineno}, column {problem.colno}"
        raise place.wrong(
            found, "JSON", code="json", hint="the file is cut off or not JSON" if problem.pos >= len(text) else ""
        ) from None
    except RecursionError:
        raise place.limits.exceeded("nesting", "JSON nested too deeply to read", place.text) from None
    except ValueError as problem:  # ours, or an integer with too many digits
        raise place.wrong(
            str(problem)[:200], 'plain JSON with finite numbers (infinity is {"float": "inf"})', code="json"
        ) from None


def parse_toml(text: str, place: Place) -> object:
    """The value of a TOML text. Raises :class:`UserError` for text that is not TOML, keys and values that are nested
    too deeply, and the limit ``values``."""
    _check_values(text, place)
    # The reader takes time with the square of a key's parts.
    place.limits.check("nesting", max(_parts_of_keys(text), default=0), place.text, "keys with dots inside one another")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise place.wrong(str(problem)[:200], "TOML", code="toml") from None
    except RecursionError:
        raise place.limits.exceeded("nesting", "TOML nested too deeply to read", place.text) from None
    except ValueError as problem:  # an integer with too many digits
        raise place.wrong(str(problem)[:200], "TOML with numbers of a sensible size", code="toml") from None


def _check_values(text: str, place: Place) -> None:
    """Values are apart by commas and brackets (and in TOML by lines, which have fewer)."""
    count = sum(text.count(mark) for mark in ",[{=")
    place.limits.check("values", count, place.text, "commas, brackets and equals signs, each of which may be a value")


def _parts_of_keys(text: str) -> Iterator[int]:
    """The number of parts of every chain of keys with dots."""
    parts = 1
    for found in _TOML.finditer(text):
        if found["dot"] is not None:
            parts += 1
        elif found["other"] is not None:
            yield parts
            parts = 1
    yield parts


class _BadJson(ValueError):
    """Valid to Python's JSON reader, but not to us."""


def _refuse_constant(text: str) -> NoReturn:
    raise _BadJson(f"the literal {text}")


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise _BadJson(f"the key {shown(twice)} twice in one object")
    return table
