"""A sweep of ``tantamount compare``: one comparison for every combination of switches, in processes of their own."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from tantamount.cli import terminal
from tantamount.cli.checking import GRACE, allow, load, lost, stopped
from tantamount.cli.code_read import code_read
from tantamount.cli.comparing import Request, compared
from tantamount.cli.exits import explain
from tantamount.cli.process import INTERRUPTED
from tantamount.cli.results import Results
from tantamount.cli.runners import runner
from tantamount.cli.sweep_folder import SweepFolder, Told, as_label, told
from tantamount.effort import MEMORY, Stopped
from tantamount.report import text
from tantamount.report.lines import Line
from tantamount.report.outcomes import Failure, Outcome, failure, worst_exit
from tantamount.verdict import Verdict
from tantamount.writing import check_writable, make_folder

__all__ = ["Sweep", "compare_all", "page_by_label", "run_sweep"]


@dataclass(frozen=True, slots=True)
class Sweep:
    """All that the comparisons of a sweep have in common: the options of :func:`tantamount.compare`, among them
    ``timeout`` (seconds) and ``memory`` (megabytes) of each, the files of ``operators``, by label the ``pages``
    that are written, and the ``folder`` that has what is done."""

    options: Mapping[str, Any]
    operators: tuple[Path, ...] = ()
    pages: Mapping[str, Path] = field(default_factory=dict[str, Path])
    folder: SweepFolder | None = None

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
    names = [as_label(label) for label in labels]
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
    """The exit code of a sweep, whose verdicts are printed as they come and written in the end: those that its folder
    has already are not asked for again. An interruption goes through, once it is told and written what was not done."""
    known = {label: found for label, request in requests if (found := _known(request, label, sweep)) is not None}
    outcomes = compare_all([one for one in requests if one[0] not in known], sweep, workers, ray)
    rows: list[Told] = []
    try:
        for label, _ in requests:
            if label in known:
                rows.append(known[label])
                _tell(rows[-1], results, "   (done before)")
                continue
            outcome = next(outcomes)
            rows.append(told(outcome, verbose=verbose))
            if isinstance(outcome, Failure):
                explain(outcome, verbose=verbose)
            else:
                _tell(rows[-1], results, lines=text.render(outcome, verbose=verbose))
    except KeyboardInterrupt:
        _interrupted(rows, requests, sweep, results)
        raise
    results.write_entries([row.entry for row in rows], code := worst_exit(row.exit_code for row in rows))
    return code


def _known(request: Request, label: str, sweep: Sweep) -> Told | None:
    """The comparison as an earlier run left it, with its page if there is to be one."""
    if sweep.folder is None or not sweep.pages.get(label, sweep.folder.path).exists():
        return None
    return sweep.folder.read(request, label)


def _tell(row: Told, results: Results, more: str = "", lines: Sequence[Line] = ()) -> None:
    if results.text:
        terminal.out(f"{row.verdict:8} {row.label}{more}\n")
        if row.verdict != Verdict.PROVED.value:
            terminal.lines(lines) if lines else terminal.out(row.text)


def _interrupted(rows: list[Told], requests: Sequence[tuple[str, Request]], sweep: Sweep, results: Results) -> None:
    """Tell and write what was done, and that the rest was not."""
    done = len(rows)
    for label, request in requests[done:]:
        found = _known(request, label, sweep)  # it ended before one that is listed above it
        done += found is not None
        rows.append(found or told(_not_done(label, sweep)))
        if found is not None:
            _tell(found, results)
        elif results.text:
            terminal.out(f"NOT DONE {label}\n")
    if results.text:
        terminal.out(f"{done} of {len(requests)} were compared: {_go_on(sweep)}\n")
    results.write_entries([row.entry for row in rows], INTERRUPTED)


def _not_done(label: str, sweep: Sweep) -> Failure:
    return Failure(
        job=label,
        exit_code=INTERRUPTED,
        code="sweep-interrupted",
        place=label,
        found="not compared: the sweep was interrupted before",
        needed="a sweep that comes to its end",
        hint=_go_on(sweep),
    )


def _go_on(sweep: Sweep) -> str:
    if sweep.folder is None:
        return "with --out DIR, what is done is kept, and the same command goes on"
    return f"the same command goes on with what {sweep.folder.path} has"


def _work(item: tuple[str, Request], *, sweep: Sweep) -> Outcome:
    label, request = item
    began = time.time()
    try:
        load(sweep.operators)
        if sweep.memory is not None:
            allow(sweep.memory)
        answer = compared(request, **sweep.options)
        if label in sweep.pages:  # here, where both programs still are
            answer.save(sweep.pages[label])
        named = replace(answer, job=label)
        if sweep.folder is not None:
            sweep.folder.write(request, told(named), code_read(began))
        return named
    except Exception as problem:
        if isinstance(problem, MemoryError) and sweep.memory is not None:
            return stopped(label, Stopped(MEMORY, f"{sweep.memory} MB"), "while it was compared")
        return failure(label, problem, f"while comparing {label}")
