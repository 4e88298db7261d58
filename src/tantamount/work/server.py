"""A process that answers questions over pipes, started again when it dies.

The other side is any command, in any environment, that speaks frames on its standard input and output: a length of four
bytes, that many bytes of JSON, then the arrays that the JSON's ``arrays`` counts, each as a length and a file in
NumPy's npy format. Neither side sends objects: what arrives is numbers and text.
"""

from __future__ import annotations

import io
import json
import os
import select
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tantamount.work.pool import Lost

__all__ = ["Answer", "Server", "read_frame", "write_frame"]

Array = NDArray[Any]
_LENGTH = struct.Struct("<I")
_LARGEST = 1 << 30


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a server: a header and arrays."""

    header: Mapping[str, Any]
    arrays: tuple[Array, ...] = ()


@dataclass
class Server:
    """A command that is started when it is first asked. ``command``: its words; ``environment``: variables beyond those
    of this process. After ``asked`` answers more than ``most`` it is started afresh, so that what leaks is given
    back."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    most: int = 2000
    _process: subprocess.Popen[bytes] | None = None
    _errors: BinaryIO | None = None
    _answered: int = 0
    starts: int = 0

    def ask(self, header: Mapping[str, Any], arrays: Sequence[Array], seconds: float) -> Answer | Lost:
        """The answer to a question; :class:`Lost` if the process ended or took more than ``seconds``, which kills
        it."""
        if self._process is not None and (self._process.poll() is not None or self._answered >= self.most):
            self.close()
        process = self._process or self._start()
        until = time.monotonic() + seconds
        try:
            write_frame(process.stdin, header, arrays)
            found = read_frame(process.stdout, until)
        except TimeoutError:
            told = self._told()
            self._kill()
            return Lost(-signal.SIGKILL, so_far=told, overdue=True)
        except (OSError, EOFError, ValueError):
            process.wait()
            told, code = self._told(), process.returncode
            self.close()
            return Lost(code, so_far=told)
        self._answered += 1
        return found

    def _start(self) -> subprocess.Popen[bytes]:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        self._process = subprocess.Popen(
            list(self.command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            env={**os.environ, **self.environment}, start_new_session=True,
        )  # fmt: skip
        self._answered = 0
        self.starts += 1
        return self._process

    def _told(self) -> str:
        """The end of what the process wrote to its standard error."""
        if self._errors is None:
            return ""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - 4000))
        return self._errors.read().decode(errors="replace")

    def _kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # its own session: compilers start compilers
            self._process.wait()
        self.close()

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
            try:
                process.wait(2)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._errors is not None:
            self._errors.close()
            self._errors = None


def write_frame(stream: Any, header: Mapping[str, Any], arrays: Sequence[Array]) -> None:
    """Write one frame."""
    body = json.dumps({**header, "arrays": len(arrays)}).encode()
    parts = [_LENGTH.pack(len(body)), body]
    for array in arrays:
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        parts += [_LENGTH.pack(buffer.tell()), buffer.getvalue()]
    stream.write(b"".join(parts))
    stream.flush()


def read_frame(stream: Any, until: float = float("inf")) -> Answer:
    """Read one frame. Raises :class:`EOFError` where there is none, :class:`TimeoutError` if it takes longer than
    ``until``, :class:`ValueError` for what is no frame."""

    def take(count: int) -> bytes:
        found = b""
        while len(found) < count:
            left = until - time.monotonic()
            if not select.select([stream], [], [], None if until == float("inf") else max(0.0, left))[0]:
                raise TimeoutError
            part = os.read(stream.fileno(), count - len(found))
            if not part:
                raise EOFError
            found += part
        return found

    def block() -> bytes:
        (length,) = _LENGTH.unpack(take(_LENGTH.size))
        if length > _LARGEST:
            raise ValueError(f"a block of {length} bytes")
        return take(length)

    header = json.loads(block())
    arrays = tuple(np.load(io.BytesIO(block()), allow_pickle=False) for _ in range(int(header.pop("arrays"))))
    return Answer(header, arrays)
