"""Streams that may fail, and interruptions."""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
from collections.abc import Iterator

import pytest

from support.interruptions import heed_interruptions
from support.pieces import piece
from tantamount.cli.process import Interruption, Output
from tantamount.work import pool


def test_output_goes_to_the_descriptor() -> None:
    reader, writer = os.pipe()
    output = Output(writer, None)
    assert (output.write(b"text"), os.read(reader, 10), output.problem) == (4, b"text", None)


def test_what_cannot_be_written_is_kept_as_a_problem_and_never_raised() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    output = Output(full, None)
    assert output.problem is None
    assert [output.write(b"text"), output.write(b"more")] == [4, 4]
    assert output.problem is not None
    assert output.problem.strerror == "No space left on device"


def test_a_reader_that_went_away_is_no_problem() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    output = Output(writer, None)
    assert (output.write(b"text"), output.problem) == (4, None)


def test_a_closed_descriptor_is_a_problem_only_if_something_is_written() -> None:
    output = Output(99, OSError(9, "Bad file descriptor"))
    assert output.problem is None
    output.write(b"text")
    assert output.problem is not None


@pytest.fixture
def handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    heed_interruptions()
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("handler")
def test_an_interruption_is_raised_and_remembered() -> None:
    interruption = Interruption()
    assert not interruption.came
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert interruption.came


@pytest.mark.usefixtures("handler")
def test_an_interruption_that_is_ignored_stays_so() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interruption = Interruption()
    signal.raise_signal(signal.SIGINT)
    assert not interruption.came


def test_a_process_that_may_open_no_files_starts_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (20, 20))
    found = list(pool.run_all(piece, ["a", "b"], 2))
    assert [str(one) for one in found] == ["not started (a process may have 20 open files, and 32 are needed)"] * 2


def test_what_processes_share_may_find_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of processes takes no notice of an ImportError, and ended in a traceback at a MemoryError."""

    def none(_: str) -> None:
        raise MemoryError

    monkeypatch.delitem(sys.modules, "tantamount.cli.preloaded", raising=False)
    monkeypatch.setattr(importlib, "import_module", none)
    with pytest.raises(ImportError, match="no room"):
        __import__("tantamount.cli.preloaded")
