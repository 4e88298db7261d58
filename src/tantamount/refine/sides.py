"""Both programs in the calculus, from one set of inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tantamount.calculus.atoms import Store
from tantamount.ir.job import Job
from tantamount.limits import Limits, limits_from_environment
from tantamount.ops.classes import rank_classes
from tantamount.reduction import Reduction
from tantamount.refine.alignment import align
from tantamount.refine.cuts import Cuts
from tantamount.refine.inputs import Inputs, build_inputs
from tantamount.refine.ranks import run_implementation
from tantamount.refine.run import Run
from tantamount.refine.specification import run_specification

__all__ = ["Progress", "Sides", "run_sides"]

Progress = Callable[[str, int, int], None]
_LONG = 300  # nodes of a specification from which on cutting pays


@dataclass(frozen=True)
class Sides:
    """The inputs of both programs and every value of theirs, over one store. ``reduction``: the job at smaller shapes,
    if it was needed."""

    store: Store
    inputs: Inputs
    specification: Run
    implementation: Run
    reduction: Reduction | None = None

    @property
    def folded(self) -> bool:
        """Whether all ranks were run as one, as mesh axes."""
        return self.implementation.folded


def run_sides(
    job: Job,
    fold: bool | None = None,
    progress: Progress | None = None,
    lap: Callable[[str], None] = lambda _: None,
    cut: bool | None = None,
    limits: Limits | None = None,
) -> Sides:
    """Ranks are mesh axes where their graphs are isomorphic and ``fold`` is not ``False``; the programs are cut where
    they agree if they are long, or as ``cut`` says. ``lap`` is told the name of every phase that ends. Raises
    :class:`UserError` as :func:`tantamount.refine.refine`."""
    store = Store()
    classes = rank_classes(job.implementation, job.mesh, fold is not False)
    inputs = build_inputs(store, job)
    lap("inputs")
    specification = run_specification(store, job, inputs, progress)
    names = [node.name for node in job.specification.nodes]
    cuts: Cuts | None = None
    reduction: Reduction | None = None
    if cut or (cut is None and len(names) >= _LONG):
        aligned, reduction = align(store, job, inputs, limits if limits is not None else limits_from_environment())
        lap("alignment")
        cuts = Cuts(store, job, specification, aligned) if aligned else None
    if cuts is None:
        specification.finish(names)
    else:
        specification.assume_indices()
        lap("specification")
    implementation = run_implementation(store, job, inputs, specification, classes, progress, cuts)
    lap("implementation")
    specification.finish(names)
    lap("specification")
    return Sides(store, inputs, specification, implementation, reduction)
