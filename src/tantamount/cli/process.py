"""The environment of a process that runs a command: streams that may fail, and interruptions.

A result that could not be written to stdout is a fault of the environment (exit code 5). What is written to stderr is
a courtesy: where nobody can read it, exit codes are what they are. Neither ever raises.
"""

from __future__ import annotations

import atexit
import errno
import io
import os
import select
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["INTERRUPTED", "Interruption", "Output", "leave_on_interrupt", "open_streams"]

INTERRUPTED = 130


class Output(io.RawIOBase):
    """The file descriptor of stdout or stderr, which takes everything. ``problem`` is why something was not written,
    if something was not; a reader that went away (``| head``) is no problem."""

    def __init__(self, descriptor: int, problem: OSError | None) -> None:
        self._descriptor = descriptor
        self._broken = problem
        self.problem: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, b: Buffer, /) -> int:
        data = memoryview(b)
        while self._broken is None:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:
                select.select([], [self._descriptor], [])
            except OSError as problem:
                self._broken = problem
        if self._broken.errno != errno.EPIPE:
            self.problem = self._broken
        return len(data)


def open_streams() -> tuple[Output, Output] | None:
    """Put streams that do not fail in the place of stdout and stderr; ``None``, and nothing is done, where they are no
    longer the process's own (tests)."""
    if sys.stdout is not sys.__stdout__ or sys.stderr is not sys.__stderr__:
        return None
    problems = [_closed(descriptor) for descriptor in (0, 1, 2)]
    out, error = Output(1, problems[1]), Output(2, problems[2])
    sys.stdout, sys.stderr = _text(out, sys.stdout), _text(error, sys.stderr)
    return out, error


def _closed(descriptor: int) -> OSError | None:
    """The problem with a descriptor that is closed; it becomes one of nothing, so that no file is given its number and
    is then written to by mistake."""
    try:
        os.fstat(descriptor)
    except OSError as problem:
        try:
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != descriptor:
                os.dup2(nothing, descriptor)
                os.close(nothing)
        except OSError:
            pass  # no descriptors are left: nobody will be given this one either
        return problem
    return None


def _text(raw: Output, old: TextIO | None) -> TextIO:
    encoding, errors = (old.encoding, old.errors) if old is not None else ("utf-8", None)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=raw.isatty() or raw.fileno() == 2)


class Interruption:
    """SIGINT raises ``KeyboardInterrupt`` and is remembered in ``came``: one that is raised where Python must ignore
    exceptions (finalisers) is not lost. A SIGINT that is ignored (``nohup``) stays so."""

    def __init__(self) -> None:
        self.came = False
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._raise)

    def _raise(self, number: int, frame: FrameType | None) -> None:
        if self.came:  # again: whoever asks twice does not want to wait for what is being tidied
            os._exit(INTERRUPTED)
        self.came = True
        raise KeyboardInterrupt


def leave_on_interrupt() -> None:
    """From here on SIGINT ends the process at once: all is written, and there is nothing to tidy. The last milliseconds
    of the interpreter, in which it would bring back the system's own way, ignore it."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _leave)
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)
