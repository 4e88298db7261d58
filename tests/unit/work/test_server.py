"""A process that answers questions, and what becomes of it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tantamount.work.pool import Lost
from tantamount.work.server import Answer, Server

SCRIPT = """
import os, sys, time
sys.path[:0] = {path!r}
from tantamount.work.server import read_frame, write_frame
while True:
    try:
        question = read_frame(sys.stdin.buffer)
    except EOFError:
        break
    what = question.header["what"]
    if what == "die":
        print("about to", file=sys.stderr, flush=True)
        os._exit(7)
    if what == "sleep":
        time.sleep(60)
    if what == "nonsense":
        sys.stdout.buffer.write(b"\\xff" * 8); sys.stdout.buffer.flush(); os._exit(0)
    write_frame(sys.stdout.buffer, {{"process": os.getpid()}}, [array * 2 for array in question.arrays])
"""


@pytest.fixture
def server(tmp_path: Path) -> Server:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(path=sys.path))
    return Server([sys.executable, str(script)], most=3)


def test_arrays_go_there_and_back(server: Server) -> None:
    arrays = [
        np.arange(6, dtype=np.int8).reshape(2, 3),
        np.array(1.5, np.float16),
        np.zeros((0, 2), np.bool_).astype(np.float32),
    ]
    found = server.ask({"what": "double"}, arrays, 30)
    server.close()
    assert isinstance(found, Answer)
    for before, after in zip(arrays, found.arrays, strict=True):
        assert after.dtype == before.dtype
        assert np.array_equal(after, before * 2)


def test_a_process_that_dies_is_lost_and_another_answers(server: Server) -> None:
    lost = server.ask({"what": "die"}, [], 30)
    assert isinstance(lost, Lost)
    assert lost.exit_code == 7
    assert "about to" in lost.so_far
    assert isinstance(server.ask({"what": "double"}, [], 30), Answer)
    assert server.starts == 2
    server.close()


def test_a_process_that_takes_too_long_is_killed(server: Server) -> None:
    server.ask({"what": "double"}, [], 30)
    lost = server.ask({"what": "sleep"}, [], 0.2)
    assert isinstance(lost, Lost)
    assert lost.overdue
    assert isinstance(server.ask({"what": "double"}, [], 30), Answer)
    server.close()


def test_what_is_no_frame_is_a_loss(server: Server) -> None:
    assert isinstance(server.ask({"what": "nonsense"}, [], 30), Lost)
    server.close()
