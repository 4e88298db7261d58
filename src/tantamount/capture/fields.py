"""Typed access to untrusted JSON and TOML values: every wrong type is a :class:`UserError` that says where it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import NamedTuple, TypeGuard, cast

from tantamount.errors import UserError
from tantamount.limits import Limits
from tantamount.sizes.domain import NO_SIZES, Domain

__all__ = ["Fields", "Place", "is_integer", "is_plain", "nearest", "shown"]

_CANDIDATES = 2000  # suggestions are a courtesy: never search further


def nearest(name: str, known: Iterable[str]) -> str:
    """Known names to suggest for an unknown one: ``nearest: a, b``, or nothing if nothing is known."""
    some = list(islice(known, _CANDIDATES))
    near = get_close_matches(name[:_CANDIDATES], some, n=3) or some[:5]
    return f"nearest: {', '.join(near)}" if near else ""


def shown(value: object) -> str:
    """A value for a message: short, printable, no matter what it is."""
    if isinstance(value, dict):
        count = len(cast("dict[object, object]", value))
        return f"a table with {count} {'key' if count == 1 else 'keys'}"
    if isinstance(value, list):
        return f"a list of {len(cast('list[object]', value))}"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) >= 1 << 200:  # Python prints no more than some thousand digits
        return f"an integer of {value.bit_length()} bits"
    text = ascii(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 60 else text[:57] + "..."


def is_integer(value: object) -> TypeGuard[int]:
    """An integer that is not a boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_plain(value: object, limits: Limits) -> TypeGuard[str]:
    """A name that needs no closer look: of printable ASCII characters, and within the limit."""
    return isinstance(value, str) and 0 < len(value) <= limits.string_length and value.isascii() and value.isprintable()


class Place(NamedTuple):
    """The place of a value in a file (``text``), the kind of file (``kind``: ``graph`` or ``job``), the limits, and the
    size symbols that may occur. Places are made for every value and looked at where one is wrong, so that their text
    is put together only then."""

    kind: str
    key: str
    limits: Limits
    domain: Domain = NO_SIZES
    above: Place | None = None

    @property
    def text(self) -> str:
        """``file: node add_1: args[0]``."""
        return self.key if self.above is None else f"{self.above.text}: {self.key}"

    def at(self, key: str) -> Place:
        """The place of a part."""
        return Place(self.kind, key, self.limits, self.domain, self)

    def wrong(self, found: object, needed: str, *, code: str = "field", hint: str = "") -> UserError:
        """``found`` is a text if it comes from us, else wrap it with :func:`shown`."""
        return UserError(f"{self.kind}-{code}", place=self.text, found=str(found), needed=needed, hint=hint)

    def table(self, value: object, needed: str = "a table") -> dict[str, object]:
        if not isinstance(value, dict):
            raise self.wrong(shown(value), needed)
        return cast("dict[str, object]", value)

    def list(self, value: object, needed: str = "a list") -> list[object]:
        if not isinstance(value, list):
            raise self.wrong(shown(value), needed)
        return cast("list[object]", value)

    def string(self, value: object, needed: str = "a string") -> str:
        """Any text within the limit; no lone surrogates, which are not text."""
        if not isinstance(value, str):
            raise self.wrong(shown(value), needed)
        if len(value) > self.limits.string_length:
            self.limits.check("string_length", len(value), self.text, "characters in one string")
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise self.wrong(shown(value), "text (half of a surrogate pair is none)")
        return value

    def name(self, value: object, needed: str = "a name") -> str:
        """A non-empty string without control characters."""
        text = self.string(value, needed)
        if not text or not text.isprintable():
            raise self.wrong(shown(text), f"{needed}: not empty, printable characters only")
        return text

    def integer(self, value: object, low: int, high: int, needed: str) -> int:
        if not is_integer(value) or not low <= value <= high:
            raise self.wrong(shown(value), needed)
        return value


@dataclass(frozen=True, slots=True)
class Fields:
    """One table and its place."""

    values: dict[str, object]
    place: Place

    @staticmethod
    def of(value: object, place: Place, known: Iterable[str], required: Iterable[str] = ()) -> Fields:
        """Raises :class:`UserError` if it is no table, has a key that is not known, or lacks a required one."""
        table = place.table(value)
        names = tuple(known)
        for key in table:
            if key not in names:
                raise place.wrong(f"key {shown(key)}", f"one of {', '.join(names)}", code="unknown-key")
        for key in required:
            if key not in table:
                raise place.wrong(f"no {key!r}", f"the key {key!r}", code="missing-key")
        return Fields(table, place)

    def at(self, key: str) -> Place:
        return self.place.at(key)

    def names(self, key: str) -> tuple[str, ...]:
        """The list of names under a key; none without the key."""
        place = self.at(key)
        return tuple(place.name(item) for item in place.list(self.values.get(key, []), "a list of names"))

    def name(self, key: str, needed: str) -> str:
        """The non-empty, printable string under a key."""
        value = self.values.get(key)
        if is_plain(value, self.place.limits):  # most are: no place is needed
            return value
        return self.at(key).name(value, needed)

    def get(self, key: str) -> object:
        return self.values.get(key)

    def __contains__(self, key: str) -> bool:
        return key in self.values
