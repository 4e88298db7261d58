"""Is the line named that is wrong, and in the right words? Generated mistakes in captured programs.

    python benchmarks/bench_diagnosis.py --mutants 4 --seed 1 [--only CLASS] [--json FILE] [--leave-one-out] [JOB ...]

A JOB is a job file or one of ``examples/``: what the ``check`` of a script would refine is the program. Without any:
those of ``FAMILIES``, as far as they are there.

A mistake (``samples/mutants/mistakes.py``) knows what was done where. Of each that is REFUTED the table says

exact      the report names the line: the operator that was changed, or one at which the same mistake may as well be put
           right, in the sense that the change of *one line there* that the report proposes makes the job PROVED. Nobody
           can tell from a program which of two such lines its author got wrong. ``other``: how many of them are
           exact in this second sense only.
block      at most four edges of the data flow away; ``elsewhere``: further; ``nowhere``: no place at all, or no end.
words      the kind of difference is one that describes the mistake.
hints      a change is proposed; it was followed, and the job *refined* once more. ``wrong``: it is not PROVED then.
           ``unlike``: it is, but the change is another than taking back what was done.
s, /proof  CPU seconds of the answer, and how many times those of proving the program without the mistake.

``--leave-one-out`` answers every case once more without what decided it, the kind of change and the way of accounting
for it, and says of each how many cases it decided, and how many of these come out worse without it: another place that
is less exact, no words, or no hint. What earns nothing is not worth its lines.

Even seeds are kept for figures that are published: whoever changes the diagnosis looks at odd ones only.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import tantamount
from tantamount import read_job
from tantamount.diagnosis import localise
from tantamount.diagnosis.edits import Edit, EditKind
from tantamount.diagnosis.hints import Hint, followed
from tantamount.diagnosis.kinds import KINDS
from tantamount.diagnosis.values import Values
from tantamount.errors import UserError
from tantamount.ir.graph import Graph, Ref, references
from tantamount.ir.job import Job
from tantamount.refinement.job import job_of, refine_job
from tantamount.samples.mutants.edits import NotAProgram, changed
from tantamount.samples.mutants.mistakes import Mistake, distances, mistakes
from tantamount.verdict import Mismatch, Report, Verdict

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "jobs"
EXAMPLES = ROOT / "examples"
FAMILIES: dict[str, tuple[Path, ...]] = {
    "Megatron": (SHARED / "gpt_tp2_l1", SHARED / "gpt_tp2_l2", SHARED / "gpt_tp4_l1", EXAMPLES / "gpt_tp2"),
    "transformers": (SHARED / "hf_llama_tp2_train",),
    "torchtitan-like": (
        EXAMPLES / "fsdp2_tensor_parallel.py", EXAMPLES / "training_step.py", EXAMPLES / "tensor_parallel.py",
        EXAMPLES / "sequence_parallel.py", EXAMPLES / "loss_parallel.py", EXAMPLES / "fsdp2.py", EXAMPLES / "hsdp.py",
        EXAMPLES / "data_parallel.py", Path(__file__).with_name("eight_layers.py"),
    ),
    "JAX": (EXAMPLES / "jax_shard_map.py", EXAMPLES / "jax_sharding.py"),
    "vLLM": (SHARED / "qwen2_tp2",),
    "HLO": (SHARED / "llama_hlo_tp2_l1", SHARED / "llama_hlo_tp4_l1", SHARED / "llama_hlo_tp2_l4"),
}  # fmt: skip
BLOCK = 4  # edges
EXACT, NEAR, ELSEWHERE, NOWHERE = "exact", "block", "elsewhere", "nowhere"
LATE = "late"


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
        self._account, self._proved_with = localise.account, localise.proved_with
        localise.account, localise.proved_with = self.account, self.proved_with  # type: ignore[assignment]
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

    def forget(self) -> None:
        self.decided, self.headline, self.hint = [], "", None


without: set[str] = set()  # names of kinds and attempts that are switched off
heard = _Heard()
for one, row in list(KINDS.items()):

    def find(matches: Any, c: Any, one: EditKind = one, row: Any = row) -> Any:
        return iter(()) if one.name in without else row.find(matches, c)

    KINDS[one] = replace(row, find=find)  # type: ignore[index]


def _own_half(job: Job) -> Job:
    """Rank 1 takes its own half of the logits' gradient."""
    return changed(job, frozenset([1]), "clone_11", lambda _, node: (replace(node, args=(Ref("getitem_5"),)),))


# captures that are wrong, and what is right
_REPAIRED: dict[str, Callable[[Job], Job]] = {"hf_llama_tp2_train": _own_half}


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


def programs(path: Path) -> Iterator[tuple[str, Job]]:
    """The job of a file, or those that a script would refine, with their names."""
    if path.suffix != ".py":
        path = path / "job.toml" if path.is_dir() else path
        name = path.parent.name
        yield name, _REPAIRED.get(name, lambda job: job)(read_job(path))
        return
    found: list[Job] = []

    def kept(*args: Any, **kwargs: Any) -> None:
        found.append(job_of(*args, **kwargs))

    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")  # before JAX is used
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is no script")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    before, tantamount.refine = tantamount.refine, kept
    try:
        module.check()
    finally:
        tantamount.refine = before
    for job in found:
        yield path.stem, job


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


def judged(name: str, mistake: Mistake, proof: float, seconds: float) -> Row | None:
    """What is said of a mistake; ``None`` if it is none (no valid job, or none that changes an output)."""
    try:
        job = mistake.build()
    except (NotAProgram, UserError):
        return None
    heard.forget()
    start = time.process_time()
    try:
        report = within(seconds, lambda: refine_job(job))
    except UserError:
        return None
    spent = time.process_time() - start
    if report is None:
        return Row(name, mistake.kind.name, mistake.what, NOWHERE, LATE, False, "", "", spent, proof)
    if report.verdict is not Verdict.REFUTED:
        return None
    found = report.mismatch
    if found is None:
        return Row(name, mistake.kind.name, mistake.what, NOWHERE, "", False, "", "", spent, proof)
    words = found.kind in mistake.kind.kinds
    decided = tuple(heard.decided) if found.headline == heard.headline else ("forms",)
    place = placed(job, mistake, found)
    proved = bool(found.hint) and is_proved(found.hint)
    exact = place == EXACT or (proved and one_line())
    return Row(
        name, mistake.kind.name, mistake.what, EXACT if exact else place, found.kind, words, found.hint, found.headline,
        spent, proof, place == EXACT, proved, decided,
    )  # fmt: skip


def is_proved(text: str) -> bool:
    """True if the job is proved once the hint that was tried last is followed."""
    if heard.hint is None or heard.hint[1].text != text:
        return text.startswith("it would be proved if")  # a relation: it was proved to find it
    return refine_job(followed(*heard.hint)).verdict is Verdict.PROVED


def one_line() -> bool:
    """True if the hint that was tried last changes one line, be it on several ranks."""
    return heard.hint is not None and len({name for _, name in heard.hint[1].lines or ()}) == 1


def survey(
    path: Path, count: int, seed: int, seconds: float, only: str, again: list[tuple[Row, str, Row]] | None = None
) -> list[Row]:
    """The rows of one file."""
    return [row for name, job in programs(path) for row in of_job(name, job, count, seed, seconds, only, again)]


def of_job(
    name: str, job: Job, count: int, seed: int, seconds: float, only: str, again: list[tuple[Row, str, Row]] | None
) -> list[Row]:
    """The rows of one job; ``again`` gets those without what decided them."""
    start = time.process_time()
    if refine_job(job).verdict is not Verdict.PROVED:
        print(f"{name}: is not proved as it is", file=sys.stderr)
        return []
    proof = time.process_time() - start
    print(f"{name}: proved in {proof:.2f} s", flush=True)
    found: list[Row] = []
    todo = [one for one in mistakes(job, seed) if not only or one.kind.name == only]
    for mistake in todo:
        if len(found) >= count:
            break
        row = judged(name, mistake, proof, seconds)
        if row is not None:
            found.append(row)
            print(f"{row.place:<10}{row.said:<11}{row.seconds:6.2f} s {name} {row.kind}: {row.what}")
            print(f"          {row.headline[:300]} | {row.hint} | {' '.join(row.decided)}", flush=True)
            for one in dict.fromkeys(row.decided) if again is not None and row.decided != ("forms",) else ():
                without.add(one)
                other = judged(name, mistake, proof, seconds)
                without.discard(one)
                if other is not None and again is not None:
                    again.append((row, one, other))
    return found


def table(rows: Sequence[Row]) -> list[str]:
    """The score, kind by kind."""
    lines = [
        f"{'':<18}{'of':>5}{EXACT:>8}{'(other)':>9}{NEAR:>7}{ELSEWHERE:>11}{NOWHERE:>9}{'words':>7}{'hints':>7}{'wrong':>7}"
        f"{'unlike':>8}{'s':>7}{'/proof':>8}"
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
    parser.add_argument("jobs", nargs="*", type=Path)
    parser.add_argument("--families", nargs="*", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--leave-one-out", action="store_true", help="what every kind of change earns")
    parser.add_argument("--mutants", type=int, default=10, help="of each job")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU seconds for one answer")
    parser.add_argument("--only", default="", help="one class of mistakes")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    again: list[tuple[Row, str, Row]] | None = [] if options.leave_one_out else None
    rows: list[Row] = []
    for path in options.jobs or [path for name in options.families for path in FAMILIES[name] if path.exists()]:
        rows += survey(path, options.mutants, options.seed, options.seconds, options.only, again)
    print("\n".join(["", *table(rows)]))
    if again is not None:
        print("\n".join(["", *earned(again)]))
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
