"""A sweep of ``tantamount compare``: one comparison for every combination of switches, in processes of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tantamount.cli import terminal
from tantamount.cli.checking import GRACE, allow, load, lost, stopped
from tantamount.cli.comparing import Request, compared
from tantamount.cli.exits import explain
from tantamount.cli.results import Results
from tantamount.cli.runners import runner
from tantamount.effort import MEMORY, Stopped
from tantamount.report import text
from tantamount.report.outcomes import Failure, Outcome, failure, worst_exit
from tantamount.verdict import Verdict
from tantamount.writing import check_writable, make_folder

if TYPE_CHECKING:
    pass

__all__ = ["Sweep", "compare_all", "page_by_label", "run_sweep"]

_NO_NAME = re.compile(r"[^\w.]+")  # what no name of a file should have


@dataclass(frozen=True, slots=True)
class Sweep:
    """All that the comparisons of a sweep have in common: the options of :func:`tantamount.compare`, among them
    ``timeout`` (seconds) and ``memory`` (megabytes) of each, the files of ``operators``, and by label the ``pages``
    that are written."""

    options: Mapping[str, Any]
    operators: tuple[Path, ...] = ()
    pages: Mapping[str, Path] = field(default_factory=dict[str, Path])

    @property
    def timeout(self) -> float | None:
        return self.options.get("timeout")

    @property
    def memory(self) -> int | None:
        return self.options.get("memory")


def compare_all(
    requests: Sequence[tuple[str, Request]], sweep: Sweep, workers: int | None, ray: str | None = None
) -> Iterator[Outcome]:
    """The outcome of every request, by whose label it is named, in the order given: a report, or what went wrong with
    it, which stops no other. ``workers`` run at a time (default: one for every core); ``ray``: the address of the
    cluster that has them."""
    from tantamount.work import pool

    with terminal.queue(len(requests)) as display:

        def watch(done: int, running: Sequence[tuple[str, Request]]) -> None:
            display.show(done, [label for label, _ in running])

        outcomes = runner(ray)(
            partial(_work, sweep=sweep),
            requests,
            workers or (pool.cores() if ray is None else None),
            watch=watch,
            seconds=None if sweep.timeout is None else sweep.timeout + GRACE,
            preload=("tantamount.cli.preloaded",),
        )
        for (label, _), outcome in zip(requests, outcomes, strict=True):
            with display.paused():
                if isinstance(outcome, pool.Lost):
                    yield lost(label, outcome, sweep.timeout, sweep.memory)
                else:
                    yield outcome


def page_by_label(out: Path | None, labels: Sequence[str]) -> dict[str, Path]:
    """The pages of a sweep in the folder ``out``, which is made if it is not there, named after what was chosen. Raises
    :class:`UserError` if they could not be written in the end."""
    if out is None:
        return {}
    make_folder(out)
    names = ["-".join(_NO_NAME.split(label)).strip("-") or "page" for label in labels]
    unique = [f"{name}-{k}" if names.count(name) > 1 else name for k, name in enumerate(names)]
    pages = {label: out / f"{name}.html" for label, name in zip(labels, unique, strict=True)}
    for page in pages.values():
        check_writable(page, "--html")
    return pages


def run_sweep(
    requests: Sequence[tuple[str, Request]],
    sweep: Sweep,
    workers: int | None,
    ray: str | None,
    results: Results,
    *,
    verbose: bool = False,
) -> int:
    """The exit code of a sweep, whose verdicts are printed as they come and written in the end."""
    outcomes: list[Outcome] = []
    for outcome in compare_all(requests, sweep, workers, ray):
        if isinstance(outcome, Failure):
            explain(outcome, verbose=verbose)
        elif results.text:
            terminal.out(f"{outcome.verdict.value:8} {outcome.job}\n")
            if outcome.verdict is not Verdict.PROVED:
                terminal.lines(text.render(outcome, verbose=verbose))
        outcomes.append(outcome)
    results.write(outcomes)
    return worst_exit(outcome.exit_code for outcome in outcomes)


def _work(item: tuple[str, Request], *, sweep: Sweep) -> Outcome:
    label, request = item
    try:
        load(sweep.operators)
        if sweep.memory is not None:
            allow(sweep.memory)
        answer = compared(request, **sweep.options)
        if label in sweep.pages:  # here, where both programs still are
            answer.save(sweep.pages[label])
        return replace(answer, job=label)
    except Exception as problem:
        if isinstance(problem, MemoryError) and sweep.memory is not None:
            return stopped(label, Stopped(MEMORY, f"{sweep.memory} MB"), "while it was compared")
        return failure(label, problem, f"while comparing {label}")
