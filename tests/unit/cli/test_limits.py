"""``--effort``, ``--timeout`` and ``--memory``: what reaches the prover, and jobs whose process has to be ended."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from support.reports import proved, unknown
from tantamount.effort import Effort, Stopped
from tantamount.verdict import Report, Verdict
from tantamount.work import pool

from .conftest import CommandLine


def test_options_reach_the_prover(command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, object]] = []

    def refine(job: str, *, strict: bool, progress: object, **more: object) -> Report:
        given.append(more)
        return proved(job)

    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)  # this process is that of the tests
    monkeypatch.setattr(sys.modules["tantamount.answers"], "refine", refine)  # the stand-in that ``command`` put there
    command("refine", "job.toml")
    command("refine", "job.toml", "--effort", "high")
    command("refine", "job.toml", "--timeout", "7", "--memory", "900")
    assert given[0] == {}
    high, limited = (one["effort"] for one in given[1:])
    assert isinstance(high, Effort)
    assert (high.factor, high.seconds) == (16, None)
    assert isinstance(limited, Effort)
    assert (limited.seconds, limited.megabytes) == (7, 900)


@pytest.mark.parametrize("option", [["--effort", "much"], ["--timeout", "0"], ["--memory", "-3"]])
def test_what_is_no_limit_is_refused_before_anything_is_read(command: CommandLine, option: list[str]) -> None:
    done = command("refine", "job.toml", *option)
    assert done.exit_code == 2
    assert "error[effort-value]" in done.stderr
    assert command.calls == []


def test_a_file_that_takes_too_long_to_read_is_unknown(command: CommandLine) -> None:
    command.answers = {"job.toml": Stopped("limit-timeout", "3 s")}
    done = command("refine", "job.toml")
    assert done.exit_code == 3
    assert "UNKNOWN  job.toml   limit-timeout was hit (3 s) while it was read" in done.stdout


@pytest.mark.parametrize(
    ("option", "lost", "name"),
    [
        (["--timeout", "3"], pool.Lost(-9, overdue=True), "limit-timeout was hit (3 s)"),
        (["--memory", "50"], pool.Lost(-9), "limit-memory was hit (50 MB)"),
    ],
)
def test_a_process_that_had_to_be_ended_keeps_what_it_told(
    command: CommandLine, monkeypatch: pytest.MonkeyPatch, option: list[str], lost: pool.Lost, name: str
) -> None:
    def ended(so_far: object) -> Callable[..., Iterator[object]]:
        def run(work: object, paths: Sequence[Path], workers: int, **_: object) -> Iterator[object]:
            yield pool.Lost(lost.exit_code, so_far=so_far, overdue=lost.overdue)

        return run

    monkeypatch.setattr(pool, "run_all", ended(None))
    done = command("refine", "job.toml", *option)
    assert done.exit_code == 3
    assert f"{name} and the process had to be ended" in done.stdout
    known = unknown("job.toml")
    monkeypatch.setattr(pool, "run_all", ended(known))
    done = command("refine", "job.toml", *option)
    assert done.exit_code == 3
    assert known.verdict is Verdict.UNKNOWN
    assert name in done.stdout
    assert known.outputs[0].name in done.stdout


def test_a_process_that_is_lost_without_a_limit_is_a_failure(
    command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(work: object, paths: Sequence[Path], workers: int, **_: object) -> Iterator[object]:
        yield from (pool.Lost(-9) for _ in paths)

    monkeypatch.setattr(pool, "run_all", run)
    assert command("refine", "a.toml", "b.toml").exit_code == 5
