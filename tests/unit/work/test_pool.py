"""Work in processes of its own: order, crashes, kills, interruption, and no orphans."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from support import pieces
from support.interruptions import heed_interruptions
from support.pieces import piece, telling
from tantamount.work.pool import Lost, run_all


def test_results_come_in_order_whatever_ends_first() -> None:
    assert list(run_all(piece, [0.3, 0.0, "a", 0.1], 2)) == [0.3, 0.0, "a", 0.1]
    assert list(run_all(piece, [], 2)) == []


def test_a_crash_a_kill_and_an_exit_lose_one_piece_each() -> None:
    found = list(run_all(piece, ["a", "crash", "kill", "exit", "raise", "b"], 2))
    assert found == ["a", Lost(-signal.SIGABRT), Lost(-signal.SIGKILL), Lost(7), Lost(1), "b"]
    assert [str(one) for one in found[1:4]] == ["killed by SIGABRT", "killed by SIGKILL", "ended with exit code 7"]


def test_a_piece_that_takes_too_long_is_ended_and_what_it_told_is_kept() -> None:
    start = time.monotonic()
    done, lost = run_all(telling, ["quick", "slow"], 2, tells=True, seconds=3.0)
    assert done == "quick"
    assert lost == Lost(-signal.SIGKILL, so_far="slow so far", overdue=True)
    assert time.monotonic() - start < 20


def test_every_piece_has_a_process_of_its_own() -> None:
    found = set(run_all(piece, ["pid"] * 3, 1))
    assert len(found) == 3
    assert os.getpid() not in found


def test_who_runs_is_told() -> None:
    seen: list[tuple[int, list[object]]] = []

    def watch(done: int, running: Sequence[object]) -> None:
        seen.append((done, list(running)))

    list(run_all(piece, ["a", "b", "c"], 1, watch=watch))
    assert seen == [(0, ["a"]), (1, ["b"]), (2, ["c"])]


def test_never_more_than_the_workers_that_are_asked_for() -> None:
    most = 0

    def watch(_: int, running: Sequence[object]) -> None:
        nonlocal most
        most = max(most, len(running))

    list(run_all(piece, [0.05] * 5, 3, watch=watch))
    assert most == 3


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def until(condition: object, seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


def test_closing_the_iterator_ends_the_workers(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    results = run_all(piece, ["a", (str(file), 600)], 2)
    assert next(results) == "a"
    assert until(lambda: file.exists() and file.read_text())
    results.close()  # type: ignore[attr-defined]
    assert not alive(int(file.read_text()))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_the_process_that_started_it(tmp_path: Path, how: signal.Signals) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    started = subprocess.Popen(
        [sys.executable, pieces.__file__, str(tmp_path)], env=environment, preexec_fn=heed_interruptions
    )
    files = [tmp_path / name for name in "ab"]
    assert until(lambda: all(file.exists() and file.read_text() for file in files))
    pids = [int(file.read_text()) for file in files]
    assert all(map(alive, pids))
    started.send_signal(how)
    started.wait(20)
    assert started.returncode == (130 if how is signal.SIGINT else -how)
    assert until(lambda: not any(map(alive, pids)))
