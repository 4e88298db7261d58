"""The findings about a job while it is looked at, and the report on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tantamount.clock import Clock
from tantamount.effort import Effort, Stopped
from tantamount.ir.job import Job
from tantamount.proof import Progress, Proof
from tantamount.proof.assumptions import arithmetic_assumptions
from tantamount.proof.lemmas import InPieces
from tantamount.refinement.result import Refinement, accepted, limits_hit, statistics, up_to
from tantamount.verdict import Assumption, Counterexample, Mismatch, OutputReport, Relation, Verdict, worst

if TYPE_CHECKING:
    from tantamount.execution.plans import Plan
    from tantamount.refinement.one_piece import Executed

__all__ = ["LESS", "LONG", "MANY_RANKS", "SHARE", "State"]

LONG = 300  # nodes of a specification from which on a proof is tried with cuts, too
MANY_RANKS = 16  # more are executed as a few first, where something is wrong
LESS = 1.5  # CPU seconds that looking for a repair may take less than the bound says
_TIMES = 3  # the proof is what an answer is to take at most, beside the bound on it
SHARE = 10  # of the time of comparing outputs is what writing down what was proved so far may take, one of so many


@dataclass
class State:
    """The findings about a job so far. ``outputs`` are those that something is known of; ``assumptions`` are what those
    that are proved rest on, gathered before they are called proved here."""

    job: Job
    strict: bool
    effort: Effort
    so_far: Callable[[Refinement], None]
    cut_from: int = LONG
    accept: Collection[str] = ()  # the approximations that are allowed
    plan: Plan | None = None  # to execute the job by, where there is one
    clock: Clock = field(default_factory=Clock)
    proof: Proof | None = None
    pieces: InPieces | None = None
    outputs: dict[str, OutputReport] = field(default_factory=dict[str, OutputReport])
    assumptions: tuple[Assumption, ...] = ()
    mismatch: Mismatch | None = None
    counterexample: Counterexample | None = None
    notes: tuple[str, ...] = ()
    stopped: Stopped | None = None
    was_executed: bool = False  # before anything was proved of the whole
    executed: Executed | None = None  # the result, if it refutes what is not proved
    at: str = "before anything was proved"
    proof_seconds: float = 0.0  # CPU seconds that the proof of the right program takes, as far as they are known
    grown_seconds: float = 0.0  # that were spent in vain, for forms grew
    _made: Callable[[], InPieces] | None = None  # how to make the report on the pieces that are done
    _kept: float = 0.0  # when what is known of pieces was written down last, by the monotonic clock
    _cost: float = 0.0  # seconds that it took

    def noting(self, progress: Progress | None) -> Progress:
        """The progress, which also says where the work was when it was stopped."""

        def note(phase: str, done: int, total: int) -> None:
            self.effort.check()
            self.at = f"in the {phase}, at tensor {done} of {total}"
            if progress is not None:
                progress(phase, done, total)

        return note

    def forms_grow(self) -> None:
        """Forms seem to grow. What was spent so far on the whole is nothing that the proof of the right program takes,
        if it is cut from now on."""
        self.grown_seconds = self._proving() - self.clock.seconds.get("pieces", 0.0)

    def is_run(self, proof: Proof) -> None:
        """The programs are in the calculus, which took about as long as in the right program."""
        self.proof_seconds = self._proving() - (self.grown_seconds if proof.cuts is not None else 0.0)

    def _proving(self) -> float:
        return sum(took for phase, took in self.clock.seconds.items() if phase not in ("witness", "localise"))

    def more_seconds(self) -> float:
        """The CPU seconds that looking for a repair may take beyond the bound that says so: half of what was spent, or
        less, so that the answer stays below its own bound. Following what was found, and comparing forms after that,
        may take as much as looking for it."""
        bounds, spent = self.effort.bounds, sum(self.clock.seconds.values())
        left = bounds.answer_seconds + _TIMES * self.proof_seconds - spent - bounds.doubtful_seconds
        more = left / 2 - bounds.repair_seconds
        if more >= spent / 2:
            return spent / 2
        self.effort.hit("answer_seconds")
        return max(more, -LESS)

    def know(self, proof: Proof, outputs: Sequence[OutputReport]) -> None:
        """More is known of some outputs, by a proof."""
        known = {name for name, output in self.outputs.items() if output.verdict is Verdict.PROVED}
        more = any(output.verdict is Verdict.PROVED and output.name not in known for output in outputs)
        if self.effort.limited and (more or proof is not self.proof):
            self.assumptions = proof.assumptions()  # first: what is proved without them is not known yet
        self.proof = proof
        self.outputs = {**self.outputs, **{output.name: output for output in outputs}}
        if self.effort.limited:
            self.so_far(self.report())

    def keep_pieces(self, found: InPieces) -> None:
        """Keep the statements of the proofs of pieces about outputs, and what they rest on, as known."""
        self.pieces, self._made = found, None
        rest = (one for one in found.assumptions if one.name != "real-arithmetic")  # pieces may lack what is simplified
        self.assumptions = (*arithmetic_assumptions(self.job), *rest)
        self.outputs = {output.name: output for output in found.outputs}

    def forget_pieces(self) -> None:
        """A proof in pieces came to no end: what it says is not mixed with that of another proof."""
        self.pieces, self.assumptions, self.outputs, self._made = None, (), {}, None

    def know_pieces_now(self) -> None:
        """The work is stopped: what the pieces that are done say is known."""
        if self._made is not None:
            self.keep_pieces(self._made())

    def know_pieces(self, make: Callable[[], InPieces]) -> None:
        """More pieces are proved. Writing down what that says takes a share of the time at most."""
        self._made = make
        begun = time.monotonic()
        if begun - self._kept >= SHARE * self._cost:
            self.keep_pieces(make())
            self._made = make
            self.so_far(self.report())
            self._kept = time.monotonic()
            self._cost = self._kept - begun

    def report(self) -> Refinement:
        """The report on what is known."""
        job, stop = self.job, self.stopped
        outputs = tuple(
            self.outputs.get(output.name) or self.unknown(output.name)
            for output in job.specification.outputs
            if output.name in job.outputs
        )
        assumptions = (*self.assumptions, *up_to(job))
        found = worst(output.verdict for output in outputs)
        verdict, refused = accepted(found, assumptions, self.strict, ("real-arithmetic",), job, self.accept)
        return Refinement(
            job=job.path,
            verdict=verdict,
            outputs=outputs,
            outputs_total=len(job.specification.outputs),
            assumptions=assumptions,
            relations=self._relations(),
            mismatch=self.mismatch,
            counterexample=self.counterexample,
            statistics=statistics(job, self._proofs(), self.clock.seconds),
            notes=(*self.notes, *(() if stop is None else (f"{stop} {self.at}: what is known so far",))),
            refused=refused,
            limits=limits_hit(self.effort, stop),
            stopped="" if stop is None else stop.limit,
            subject=job,
            proof=self.proof if stop is None else None,
            in_pieces=self.pieces is not None,
            lemmas=() if self.pieces is None else self.pieces.instances,
        )

    def _relations(self) -> tuple[Relation, ...]:
        if self.pieces is not None:
            return self.pieces.relations
        return () if self.proof is None else tuple(self.proof.known_relations().values())

    def _proofs(self) -> tuple[Proof, ...]:
        if self.pieces is not None:
            return self.pieces.proofs
        return () if self.proof is None else (self.proof,)

    def unknown(self, name: str) -> OutputReport:
        """The report on an output of which nothing is known."""
        why = f"{self.stopped} {self.at}" if self.stopped is not None else "not looked at so far"
        return OutputReport(name, Verdict.UNKNOWN, None, self.job.outputs[name].text, why)
