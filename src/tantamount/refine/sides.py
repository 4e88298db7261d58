"""Both programs in the calculus, from one set of inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tantamount.calculus.atoms import Store
from tantamount.ir.job import Job
from tantamount.refine.inputs import Inputs, build_inputs
from tantamount.refine.ranks import Run, foldable, run_implementation, run_specification

__all__ = ["Progress", "Sides", "run_sides"]

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Sides:
    """The inputs of both programs and every value of theirs, over one store. ``folded``: ranks are mesh axes."""

    store: Store
    inputs: Inputs
    specification: Run
    implementation: Run
    folded: bool


def run_sides(
    job: Job, fold: bool | None = None, progress: Progress | None = None, lap: Callable[[str], None] = lambda _: None
) -> Sides:
    """Ranks are mesh axes if their graphs are isomorphic and ``fold`` is not ``False``;
    ``lap`` is told the name of every phase that ends. Raises :class:`UserError` as :func:`tantamount.refine.refine`."""
    store = Store()
    folded = fold is not False and foldable(job.implementation)
    inputs = build_inputs(store, job, by_rank=not folded)
    if folded and any(node.name not in inputs.stacked for node in job.implementation[0].inputs):
        folded = False
        store = Store()
        inputs = build_inputs(store, job, by_rank=True)
    lap("inputs")
    specification = run_specification(store, job, inputs, progress)
    lap("specification")
    implementation = run_implementation(store, job, inputs, specification, folded, progress)
    lap("implementation")
    return Sides(store, inputs, specification, implementation, folded)
