"""Tokens of the two small languages that we read ourselves: clean expressions and the text form of graphs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

__all__ = ["Cursor", "SyntaxProblem", "Token", "quote"]

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
      | (?P<comment>\#)
      | (?P<ref>%(?:[A-Za-z_][A-Za-z0-9_.]*|"(?:[^"\\]|\\.)*"))
      | (?P<float>-?(?:[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)|-inf\b)
      | (?P<integer>-?[0-9]+)
      | (?P<name>[A-Za-z_][A-Za-z0-9_.]*)
      | (?P<string>"(?:[^"\\]|\\.)*"|'[^'\\]*')
      | (?P<symbol>==|->|[()\[\],=:])""",
    re.VERBOSE,
)
_LONGEST_NUMBER = 64


class SyntaxProblem(Exception):
    """Text that is not of the language: ``found`` at character ``position`` where ``needed`` should be."""

    def __init__(self, found: str, needed: str, position: int) -> None:
        self.found = found
        self.needed = needed
        self.position = position
        super().__init__(f"{found} at character {position + 1}, needed {needed}")


@dataclass(frozen=True, slots=True)
class Token:
    """``kind`` is ``ref``, ``float``, ``integer``, ``name``, ``string``, ``symbol``, ``comment`` or ``end``."""

    kind: str
    text: str
    position: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text if len(self.text) <= 40 else self.text[:40] + "...")


def quote(text: str) -> str:
    """A string literal of both languages."""
    return json.dumps(text)


def _unquote(token: Token, text: str) -> str:
    if text.startswith("'"):
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        raise SyntaxProblem(f"string {text[:40]}", "a string with JSON escapes", token.position) from None


def _tokens(text: str) -> Iterator[Token]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise SyntaxProblem(
                f"character {text[position]!r}", "an expression's characters (strings closed)", position
            )
        kind = match.lastgroup or ""
        if kind == "comment":
            yield Token("comment", text[position + 1 :], position)
            position = len(text)
            break
        if kind != "space":
            yield Token(kind, match.group(), position)
        position = match.end()
    yield Token("end", "", position)


class Cursor:
    """A position in a token sequence. Methods that consume raise :class:`SyntaxProblem` if another token is there."""

    def __init__(self, text: str, most: int | None = None) -> None:
        """Raises :class:`SyntaxProblem` if the text has more than ``most`` tokens."""
        self._tokens = list(islice(_tokens(text), None if most is None else most + 1))
        if self._tokens[-1].kind != "end":
            raise SyntaxProblem(f"more than {most} words", "fewer (limit values)", self._tokens[-1].position)
        self._next = 0

    @property
    def token(self) -> Token:
        return self._tokens[self._next]

    def problem(self, needed: str) -> SyntaxProblem:
        return SyntaxProblem(str(self.token), needed, self.token.position)

    def take(self, kind: str, needed: str) -> Token:
        token = self.token
        if token.kind != kind:
            raise self.problem(needed)
        self._next += 1
        return token

    def at(self, text: str, kind: str = "symbol") -> bool:
        """Is the next token this symbol (or this name)?"""
        return self.token.kind == kind and self.token.text == text

    def followed_by(self, text: str) -> bool:
        """Is the token after the next one this symbol?"""
        after = self._tokens[min(self._next + 1, len(self._tokens) - 1)]
        return after.kind == "symbol" and after.text == text

    def accept(self, text: str, kind: str = "symbol") -> bool:
        """Consume the symbol (or name) if it is next."""
        if self.at(text, kind):
            self._next += 1
            return True
        return False

    def expect(self, text: str, kind: str = "symbol") -> None:
        if not self.accept(text, kind):
            raise self.problem(repr(text))

    def integer(self, needed: str = "an integer") -> int:
        token = self.take("integer", needed)
        if len(token.text) > _LONGEST_NUMBER:
            raise SyntaxProblem(f"an integer of {len(token.text)} digits", needed, token.position)
        return int(token.text)

    def string(self, needed: str = "a string") -> str:
        token = self.take("string", needed)
        return _unquote(token, token.text)

    def reference(self) -> str:
        """The name of ``%name`` or ``%"any name"``."""
        token = self.take("ref", "a node such as %mm")
        body = token.text[1:]
        return _unquote(token, body) if body.startswith('"') else body

    def finish(self) -> None:
        """Nothing may be left."""
        self.take("end", "the end")
