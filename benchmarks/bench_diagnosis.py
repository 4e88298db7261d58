"""Is the line named that is wrong, and in the right words? Generated mistakes in captured programs.

    python benchmarks/bench_diagnosis.py --write-cases DIR --cases 300 --seed 1 [--families NAME ...]
    python benchmarks/bench_diagnosis.py --judge DIR [--workers 16] [--only CLASS] [--numbers N ...] [--json FILE]

``--write-cases`` writes right programs and mistakes to a folder (``mistaken_programs.py``): files, and what
examples and ``layered_programs.py`` capture where their frameworks are installed. ``--judge`` judges a folder in
several processes; it needs no framework, only what ``refine`` does.

A mistake (``samples/mutants/mistakes.py``) knows what was done where. Of each that is REFUTED the table says

exact      the report names the line: the operator that was changed, or one at which the same mistake may as well be put
           right, in the sense that the change of *one line there* that the report proposes makes the job PROVED. Nobody
           can tell from a program which of two such lines its author got wrong. ``other``: how many of them are
           exact in this second sense only.
block      at most four edges of the data flow away; ``elsewhere``: further; ``nowhere``: no place at all, or no end.
words      the kind of difference is one that describes the mistake.
hints      a change is proposed; it was followed, and the job *refined* once more. ``wrong``: it is not PROVED then.
           ``unlike``: it is, but the change is another than taking back what was done.
s, /proof  CPU seconds of the answer, and how many times those of proving the program without the mistake. ``over``: how
           many took more than ten seconds and three times the proof.

``--leave-one-out`` answers every case once more without what decided it, the kind of change and the way of accounting
for it, and says of each how many cases it decided, and how many of these come out worse without it: another place that
is less exact, no words, or no hint. What earns nothing is not worth its lines.

Even seeds, and 21, are kept for figures that are published: whoever changes the diagnosis looks at other odd ones only.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from mistaken_programs import FAMILIES, Case, program_in, read_cases, write_cases

from tantamount.diagnosis import following, hints, localise
from tantamount.diagnosis.edits import Edit, EditKind
from tantamount.diagnosis.hints import Hint, followed
from tantamount.diagnosis.kinds import KINDS
from tantamount.diagnosis.values import Values
from tantamount.errors import UserError
from tantamount.ir.graph import Graph, references
from tantamount.ir.job import Job
from tantamount.refinement.job import refine_job
from tantamount.samples.mutants.edits import NotAProgram
from tantamount.samples.mutants.mistakes import Mistake, distances
from tantamount.verdict import Mismatch, Report, Verdict

BLOCK = 4  # edges
EXACT, NEAR, ELSEWHERE, NOWHERE = "exact", "block", "elsewhere", "nowhere"
LATE = "late"
TIMES, SECONDS = 3.0, 10.0  # the bound on an answer: seconds, and times the proof


@dataclass(frozen=True)
class Row:
    """One mistake and what was said of it."""

    job: str
    kind: str
    what: str
    place: str
    said: str
    words: bool
    hint: str
    headline: str
    seconds: float
    proof: float
    at: bool = False  # the place is that of the mistake, whatever a hint says
    proved: bool = False  # once the hint is followed
    decided: tuple[str, ...] = ()  # what found it: kind of change, way of accounting
    named: str = ""  # the operator

    @property
    def wrong(self) -> bool:
        """A hint with which the job is not proved."""
        return bool(self.hint) and not self.proved

    @property
    def unlike(self) -> bool:
        """A hint that is another change than taking back what was done."""
        return bool(self.hint) and not (self.at and self.words)

    @property
    def score(self) -> tuple[int, bool, bool]:
        """The more, the better."""
        return ([ELSEWHERE, NEAR, EXACT].index(self.place) if self.place in (NEAR, EXACT) else 0, self.words,
                bool(self.hint))  # fmt: skip


_ATTEMPTS = [name for name in vars(Values) if name in (
    "_beside", "_rows", "_addend", "_summands", "_operator", "_by_operand", "_unreached",
    "_chosen", "_by_window", "_zero",
)] + ["_attribute"]  # fmt: skip


class _Heard:
    """What the diagnosis says of its own work: the last account, what found it, and the last hint that was tried."""

    def __init__(self) -> None:
        self.decided: list[str] = []
        self.headline = ""
        self.hint: tuple[Job, Hint] | None = None
        self._account, self._proved_with = localise.account, following.proved_with
        self._proved_in_pieces_with = hints.proved_in_pieces_with
        localise.account, following.proved_with = self.account, self.proved_with  # type: ignore[assignment]
        hints.proved_in_pieces_with = self.proved_in_pieces_with  # type: ignore[assignment]
        for name in _ATTEMPTS:
            setattr(Values, name, self._noting(name, getattr(Values, name)))

    def _noting(self, name: str, attempt: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any) -> Any:
            if name in without:
                return "" if name == "_zero" else None
            found = attempt(*args)
            if found:
                self.decided.append(name)
            return found

        return noted

    def account(self, matches: Any, edit: Edit, c: Any, job: Job) -> Any:
        self.decided = [edit.kind.name]
        found = self._account(matches, edit, c, job)
        self.headline = found.headline
        return found

    def proved_with(self, job: Job, hint: Hint, *more: Any) -> bool:
        self.hint = (job, hint)
        return self._proved_with(job, hint, *more)

    def proved_in_pieces_with(self, job: Job, hint: Hint, *more: Any, **others: Any) -> bool:
        self.hint = (job, hint)
        return self._proved_in_pieces_with(job, hint, *more, **others)

    def forget(self) -> None:
        self.decided, self.headline, self.hint = [], "", None


without: set[str] = set()  # names of kinds and attempts that are switched off
heard = _Heard()
for one, row in list(KINDS.items()):

    def find(matches: Any, c: Any, one: EditKind = one, row: Any = row) -> Any:
        return iter(()) if one.name in without else row.find(matches, c)

    KINDS[one] = replace(row, find=find)  # type: ignore[index]


class _Late(BaseException):
    """The time limit; no ``Exception``, so that nobody catches it by accident."""


def within(seconds: float, work: Callable[[], Report]) -> Report | None:
    """The result, or ``None`` after that many CPU seconds."""

    def stop(signum: int, frame: object) -> None:
        raise _Late

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return work()
    except _Late:
        return None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def called(graph: Graph, name: str) -> str:
    """A node, or the one of which it is one of several results: the line is the same."""
    while name in graph.by_name and graph.by_name[name].target == "getitem":
        name = next(iter(references(graph.by_name[name])))
    return name


def placed(job: Job, mistake: Mistake, found: Mismatch) -> str:
    """How near the named place is to the mistake."""
    graph = job.implementation[min(mistake.ranks)]
    places = [*mistake.places, *(called(graph, name) for name in mistake.places)]
    away = distances(graph, places).get(found.implementation)
    return ELSEWHERE if away is None or away > BLOCK else EXACT if away == 0 else NEAR


def judged(name: str, mistake: Mistake, proof: float, seconds: float) -> Row | str:
    """What is said of a mistake; for what is none, the verdict on it."""
    try:
        job = mistake.build()
    except (NotAProgram, UserError) as problem:
        return f"no valid job: {problem}"
    heard.forget()
    start = time.process_time()
    report = within(seconds, lambda: refine_job(job))
    spent = time.process_time() - start
    row = partial(Row, name, mistake.kind.name, mistake.what, proof=proof, seconds=spent)
    if report is None:
        return row(NOWHERE, LATE, False, "", "")
    if report.verdict is not Verdict.REFUTED:
        return report.verdict.name
    found = report.mismatch
    if found is None:
        return row(NOWHERE, "", False, "", "")
    words = found.kind in mistake.kind.kinds
    decided = tuple(heard.decided) if found.headline == heard.headline else ("forms",)
    place = placed(job, mistake, found)
    proved = bool(found.hint) and is_proved(found.hint)
    exact = place == EXACT or (proved and one_line())
    return row(
        EXACT if exact else place, found.kind, words, found.hint, found.headline, at=place == EXACT, proved=proved,
        decided=decided, named=found.implementation or "",
    )  # fmt: skip


def is_proved(text: str) -> bool:
    """True if the job is proved once the hint that was tried last is followed."""
    if heard.hint is None or heard.hint[1].text != text:
        return text.startswith("it would be proved if")  # a relation: it was proved to find it
    return refine_job(followed(*heard.hint)).verdict is Verdict.PROVED


def one_line() -> bool:
    """True if the hint that was tried last changes one line, be it on several ranks."""
    return heard.hint is not None and len({name for _, name in heard.hint[1].lines or ()}) == 1


# ------------------------------------------------------------------------------------------------ folders of cases
@dataclass(frozen=True)
class Judged:
    """What is said of the ``number``-th case: a row, or the verdict on what is no mistake; and ``again``, the row
    without each of what decided it."""

    number: int
    row: Row | str
    again: tuple[tuple[str, Row], ...] = ()


def proved(folder: Path, name: str) -> float:
    """The CPU seconds of proving a program; infinite where it is not proved."""
    start = time.process_time()
    verdict = refine_job(program_in(folder, name)).verdict
    return time.process_time() - start if verdict is Verdict.PROVED else math.inf


def judged_case(folder: Path, number: int, proof: float, seconds: float, leave_out: bool) -> Judged:
    """What is said of one case. A fault of the program is a place that is not named."""
    case = next(one for one in read_cases(folder) if one.number == number)
    try:
        row = judged(case.program, case.mistake, proof, seconds)
        if isinstance(row, str) or row.decided == ("forms",) or not leave_out:
            return Judged(number, row)
        again: list[tuple[str, Row]] = []
        for one in dict.fromkeys(row.decided):
            without.add(one)
            other = judged(case.program, case.mistake, proof, seconds)
            without.discard(one)
            if isinstance(other, Row):
                again.append((one, other))
        return Judged(number, row, tuple(again))
    except Exception:
        text = traceback.format_exc().strip().splitlines()[-1]
        kind, what = case.mistake.kind.name, case.mistake.what
        return Judged(number, Row(case.program, kind, what, NOWHERE, "crash", False, "", text, 0.0, proof))


def judge(options: argparse.Namespace) -> list[Judged]:
    """What is said of the cases of a folder, each as it is known."""
    folder: Path = options.judge
    cases = {one.number: one for one in read_cases(folder)}
    if options.only:
        cases = {n: one for n, one in cases.items() if one.mistake.kind.name == options.only}
    if options.numbers:
        cases = {n: cases[n] for n in options.numbers}
    os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"))  # of the workers
    found: list[Judged] = []
    with ProcessPoolExecutor(options.workers, get_context("spawn")) as pool:
        names = list(dict.fromkeys(one.program for one in cases.values()))
        proofs = dict(zip(names, pool.map(partial(proved, folder), names), strict=True))
        for name, seconds in proofs.items():
            print(
                f"{name}: proved in {seconds:.2f} s" if seconds < math.inf else f"{name}: is not proved as it is",
                flush=True,
            )
        work = [
            pool.submit(judged_case, folder, n, proofs[one.program], options.seconds, options.leave_one_out)
            for n, one in cases.items()
            if proofs[one.program] < math.inf
        ]
        for done in as_completed(work):
            one = done.result()
            found.append(one)
            print("\n".join(said(one, cases[one.number])), flush=True)
    return sorted(found, key=lambda one: one.number)


def said(one: Judged, case: Case) -> Iterator[str]:
    """A case in two lines."""
    row = one.row
    if isinstance(row, str):
        yield f"{one.number:>4} {row[:60]} {case.program} {case.mistake.kind.name}: {case.mistake.what}"
        return
    yield f"{one.number:>4} {row.place:<10}{row.said:<11}{row.seconds:6.2f} s {row.job} {row.kind}: {row.what}"
    yield f"     at {row.named}: {row.headline[:300]} | {row.hint} | {' '.join(row.decided)}"


def table(rows: Sequence[Row]) -> list[str]:
    """The score, kind by kind."""
    lines = [
        f"{'':<18}{'of':>5}{EXACT:>8}{'(other)':>9}{NEAR:>7}{ELSEWHERE:>11}{NOWHERE:>9}{'words':>7}{'hints':>7}{'wrong':>7}"
        f"{'unlike':>8}{'s':>7}{'/proof':>8}{'over':>6}"
    ]
    kinds: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        kinds[row.kind].append(row)
    for kind, some in [*sorted(kinds.items()), ("all", list(rows))]:
        at = Counter(row.place for row in some)
        middle = sorted(row.seconds for row in some)[len(some) // 2] if some else 0.0
        ratio = max((row.seconds / max(row.proof, 1e-3) for row in some), default=0.0)
        lines.append(
            f"{kind:<18}{len(some):>5}{at[EXACT]:>8}"
            f"{sum(row.place == EXACT and not row.at for row in some):>9}"
            f"{at[NEAR]:>7}{at[ELSEWHERE]:>11}{at[NOWHERE]:>9}"
            f"{sum(row.words for row in some):>7}{sum(bool(row.hint) for row in some):>7}"
            f"{sum(row.wrong for row in some):>7}{sum(row.unlike for row in some):>8}{middle:>7.1f}{ratio:>8.1f}"
            f"{sum(row.seconds > SECONDS + TIMES * row.proof for row in some):>6}"
        )
    return lines


def earned(again: Sequence[tuple[Row, str, Row]]) -> list[str]:
    """What each kind of change and each way of accounting decided, and how many cases are worse without it."""
    lines = [f"{'without':<18}{'decided':>9}{'worse':>7}{'place':>7}{'words':>7}{'hint':>6}"]
    for name in [one.name for one in EditKind] + _ATTEMPTS:
        pairs = [(row.score, other.score) for row, one, other in again if one == name]
        worse = [sum(a[k] > b[k] for a, b in pairs) for k in range(3)]
        total = sum(a > b for a, b in pairs)
        lines.append(f"{name:<18}{len(pairs):>9}{total:>7}{worse[0]:>7}{worse[1]:>7}{worse[2]:>6}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write-cases", type=Path, metavar="DIR", help="a folder for programs and mistakes")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--families", nargs="*", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--judge", type=Path, metavar="DIR", help="a folder that was written before")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", default="", help="one class of mistakes")
    parser.add_argument("--numbers", nargs="*", type=int, help="some cases")
    parser.add_argument("--leave-one-out", action="store_true", help="what every kind of change earns")
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU seconds for one answer")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.write_cases is not None:
        write_cases(options.write_cases, options.cases, options.seed, options.families)
    if options.judge is None:
        return
    found = judge(options)
    rows = [one.row for one in found if isinstance(one.row, Row)]
    print("\n".join(["", *table(rows)]))
    others = Counter(one.row.split(":")[0] for one in found if isinstance(one.row, str))
    print("not counted:", ", ".join(f"{count} {verdict}" for verdict, count in sorted(others.items())) or "none")
    if options.leave_one_out:
        again = [(one.row, name, other) for one in found if isinstance(one.row, Row) for name, other in one.again]
        print("\n".join(["", *earned(again)]))
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
