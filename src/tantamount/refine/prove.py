"""One job from start to verdict."""

from __future__ import annotations

import resource
import time

from tantamount.ir.job import Job
from tantamount.limits import Limits, limits_from_environment
from tantamount.refine.assumptions import gather_assumptions
from tantamount.refine.cover import relate
from tantamount.refine.localise import find_mismatch
from tantamount.refine.outputs import check_outputs
from tantamount.refine.sides import Progress, run_sides
from tantamount.refine.witness import search
from tantamount.verdict import Report, Statistics, Verdict, worst

__all__ = ["refine"]


def refine(
    job: Job,
    *,
    strict: bool = False,
    fold: bool | None = None,
    progress: Progress | None = None,
    limits: Limits | None = None,
) -> Report:
    """Whether the implementation refines the specification, output by output.

    ``strict`` refuses assumptions other than real arithmetic; ranks are mesh axes where their graphs are isomorphic,
    unless ``fold`` is ``False``. ``progress(phase, done, total)`` is told of every node.
    ``limits`` (default: those of the environment) bound what is executed in search of a counterexample.
    Raises :class:`UserError` if the job contradicts itself or the ranks' collectives do not match."""
    clock = _Clock()
    sides = run_sides(job, fold, progress, clock.lap)
    store, inputs = sides.store, sides.inputs
    specification, implementation = sides.specification, sides.implementation
    outputs = check_outputs(store, job, specification, implementation)
    clock.lap("outputs")
    relations = relate(store, job, specification, implementation)
    clock.lap("relation")
    failing = [output for output in outputs if output.verdict is not Verdict.PROVED]
    mismatch = find_mismatch(store, job, specification, implementation, relations, failing) if failing else None
    clock.lap("localise")
    counterexample, notes = None, ()
    if failing:
        bounds = limits if limits is not None else limits_from_environment()
        outputs, counterexample, notes = search(store, job, outputs, inputs, specification, implementation, bounds)
    clock.lap("witness")
    assumptions = gather_assumptions(store, job, inputs, specification, implementation)
    verdict = worst(output.verdict for output in outputs)
    refused: tuple[str, ...] = ()
    if strict and verdict is Verdict.PROVED:
        refused = tuple(dict.fromkeys(a.name for a in assumptions if a.name != "real-arithmetic"))
        if refused:
            verdict = Verdict.UNKNOWN
    statistics = Statistics(
        specification_nodes=len(job.specification.nodes),
        implementation_nodes=sum(len(graph.nodes) for graph in job.implementation),
        ranks=len(job.implementation),
        folded=sides.folded,
        atoms=len(store.atoms),
        terms=sum(len(x) for atom in store.atoms for x in atom.arguments),
        seconds=clock.seconds,
        peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )
    return Report(
        job=job.path,
        verdict=verdict,
        outputs=outputs,
        outputs_total=len(job.specification.outputs),
        assumptions=assumptions,
        relations=tuple(relations.values()),
        mismatch=mismatch,
        counterexample=counterexample,
        statistics=statistics,
        notes=notes,
        refused=refused,
    )


class _Clock:
    """CPU seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.process_time()

    def lap(self, phase: str) -> None:
        now = time.process_time()
        self.seconds[phase] = now - self._last
        self._last = now
