"""The errors of the whole project; every layer may import this module, it imports nothing of ours.

Three kinds, never mixed up:

* :class:`UserError`: a file, a job or an option is wrong. Exit code 2. The text is designed: place, found, needed,
  next step.
* :class:`Unsupported`: the input is right, but an engine cannot express it. It leads to ``UNKNOWN``, never to success.
* :class:`InternalError`: our own bug. Exit code 4.
"""

from __future__ import annotations

__all__ = ["DataDependent", "InternalError", "TantamountError", "Unsupported", "UserError"]


class TantamountError(Exception):
    """Base of every error that this package raises on purpose."""


class UserError(TantamountError):
    """Something the user gave us is wrong.

    ``code`` is a stable short name such as ``graph-unknown-node``; ``place`` says where (file, node, key);
    ``found`` and ``needed`` are what is there and what should be; ``hint`` is the next step.
    """

    def __init__(self, code: str, *, place: str, found: str, needed: str, hint: str = "") -> None:
        self.code = code
        self.place = place
        self.found = found
        self.needed = needed
        self.hint = hint
        super().__init__(str(self))

    def within(self, place: str) -> UserError:
        """The same error with an outer place put in front: ``job.toml: [inputs] x: ...``."""
        outer = f"{place}: {self.place}" if self.place else place
        return UserError(self.code, place=outer, found=self.found, needed=self.needed, hint=self.hint)

    def __str__(self) -> str:
        lines = [f"error[{self.code}] {self.place}", f"  found:  {self.found}", f"  needed: {self.needed}"]
        if self.hint:
            lines.append(f"  help:   {self.hint}")
        return "\n".join(lines)


class Unsupported(TantamountError):
    """The input is valid but outside what an engine can express; ``reason`` is one clause for the verdict's text."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class DataDependent(Unsupported):
    """A size or an attribute is decided by the data, so that it is known in an execution only."""


class InternalError(TantamountError):
    """An invariant of ours does not hold: a bug in this package."""
