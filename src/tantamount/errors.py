"""The errors of the whole project; every layer may import this module, it imports nothing of ours.

Four kinds, never mixed up:

* :class:`UserError`: a file, a job or an option is wrong. Exit code 2. The text is designed: place, found, needed,
  next step.
* :class:`Unsupported`: the input is right, but an engine cannot express it. It leads to ``UNKNOWN``, never to success.
* :class:`EnvironmentFault`: the machine gives out: memory, disk, file descriptors. Exit code 5.
* :class:`InternalError`: our own bug. Exit code 4.

What messages echo comes from untrusted files, so it is cut here, for all of them.
"""

from __future__ import annotations

import errno

__all__ = [
    "DataDependent", "EnvironmentFault", "InternalError", "TantamountError", "Unsupported", "UserError", "cut",
    "environment_fault",
]  # fmt: skip

LONGEST = 2000  # characters of one part of a message: more than any that a person wrote on purpose


def cut(text: str, longest: int = LONGEST) -> str:
    """The text, or its beginning and end if it is longer than ``longest`` characters, and how much was left out."""
    if len(text) <= longest:
        return text
    head, tail = longest * 2 // 3, longest // 4
    return f"{text[:head]} ...({len(text) - head - tail} more characters)... {text[-tail:]}"


class TantamountError(Exception):
    """Base of every error that this package raises on purpose."""


class _Designed(TantamountError):
    """An error with a text of five parts, each cut to a length that can be read.

    ``code`` is a stable short name such as ``graph-unknown-node``; ``place`` says where (file, node, key);
    ``found`` and ``needed`` are what is there and what should be; ``hint`` is the next step.
    """

    def __init__(self, code: str, *, place: str, found: str, needed: str, hint: str = "") -> None:
        self.code = code
        self.place = cut(place)
        self.found = cut(found)
        self.needed = cut(needed)
        self.hint = cut(hint)
        super().__init__(str(self))

    def __str__(self) -> str:
        lines = [f"error[{self.code}] {self.place}", f"  found:  {self.found}", f"  needed: {self.needed}"]
        if self.hint:
            lines.append(f"  help:   {self.hint}")
        return "\n".join(lines)


class UserError(_Designed):
    """Something the user gave us is wrong."""

    def within(self, place: str) -> UserError:
        """The same error with an outer place put in front: ``job.toml: [inputs] x: ...``."""
        outer = f"{place}: {self.place}" if self.place else place
        return UserError(self.code, place=outer, found=self.found, needed=self.needed, hint=self.hint)


class EnvironmentFault(_Designed):
    """The machine did not let us finish: nothing is said about the programs."""


class Unsupported(TantamountError):
    """The input is valid but outside what an engine can express; ``reason`` is one clause for the verdict's text."""

    def __init__(self, reason: str) -> None:
        self.reason = cut(reason)
        super().__init__(self.reason)


class DataDependent(Unsupported):
    """A size or an attribute is decided by the data, so that it is known in an execution only."""


class InternalError(TantamountError):
    """An invariant of ours does not hold: a bug in this package."""


# ---------------------------------------------------------------------------------------------- faults of the machine
_SCARCE = {
    errno.EMFILE: "file descriptors", errno.ENFILE: "file descriptors", errno.ENOMEM: "memory",
    errno.EAGAIN: "processes, threads or memory", errno.ENOSPC: "space", errno.EDQUOT: "space", errno.EFBIG: "space",
}  # fmt: skip
_BROKEN = (errno.EIO, errno.EROFS, errno.ESTALE, errno.EBADF, errno.EPIPE, errno.ENXIO, errno.ENODEV, errno.ETXTBSY)
_NOTHING = "nothing was proved or refuted"


def environment_fault(problem: BaseException, place: str, *, every: bool = False) -> EnvironmentFault | None:
    """The fault of the machine that an exception speaks of; ``None`` if it says nothing about it.

    With ``every``, any :class:`OSError` is the machine's: of an exception that nobody expected. Without, only those
    that no other name or file would have avoided (no space, no descriptors, no memory, a broken device)."""
    if isinstance(problem, EnvironmentFault):
        return problem
    if isinstance(problem, MemoryError):
        return EnvironmentFault(
            "environment-memory", place=place, found="no memory left",
            needed=f"more memory, or smaller programs; {_NOTHING}",
            hint="several jobs need less memory with --workers 1",
        )  # fmt: skip
    if isinstance(problem, RuntimeError) and "can't start new thread" in str(problem):
        problem = OSError(errno.EAGAIN, "no new thread can be started")
    if isinstance(problem, ImportError) and every:
        return EnvironmentFault(
            "environment-import", place=place, found=f"{type(problem).__name__}: {problem}",
            needed="an installation whose modules can all be read",
            hint="if it is complete, the process may have had no file descriptors left (ulimit -n)",
        )  # fmt: skip
    if isinstance(problem, SystemError) and every:  # what C code makes of failed allocations
        problem = OSError(f"the interpreter failed: {problem}")
    if not isinstance(problem, OSError):
        return None
    name = f" ({problem.filename})" if problem.filename is not None else ""
    found = f"{problem.strerror or problem or type(problem).__name__}{name}"
    if problem.errno in _SCARCE:
        return EnvironmentFault(
            "environment-scarce", place=place, found=found, needed=f"more {_SCARCE[problem.errno]}; {_NOTHING}",
            hint="several jobs need less of everything with --workers 1",
        )  # fmt: skip
    if every or problem.errno in _BROKEN:
        return EnvironmentFault(
            "environment-system", place=place, found=found,
            needed=f"a system call that does not fail; {_NOTHING}",
            hint="is the working directory still there, and are files and devices in order?",
        )  # fmt: skip
    return None
