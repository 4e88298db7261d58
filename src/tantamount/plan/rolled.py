"""A plan read off a job that does not name it: which ranks are stages of one pipeline, and how many microbatches
their programs write out one after the other. Both are seen in the structure of the programs alone, as proofs see it
(:mod:`tantamount.proof.stages`, :mod:`tantamount.proof.microbatches`)."""

from __future__ import annotations

from dataclasses import dataclass

from tantamount.ir.job import Job
from tantamount.proof.copies import blocks
from tantamount.proof.microbatches import as_ranks
from tantamount.proof.stages import as_one_program

__all__ = ["Rolled", "rolled"]


@dataclass(frozen=True)
class Rolled:
    """How many ``stages`` a job's ranks are, and how many ``microbatches`` they work on; 1 where none are seen."""

    stages: int
    microbatches: int


def rolled(job: Job) -> Rolled:
    """The stages and microbatches of a job."""
    one = as_one_program(job)
    base = job if one is None else one.job
    stages = job.mesh.world_size // base.mesh.world_size
    written = blocks([job.specification])  # the specification adds up over microbatches, too
    if written:
        return Rolled(stages, max(block.count for block in written.values()))
    folded = as_ranks(base)
    return Rolled(stages, 1 if folded is None else folded.job.mesh.world_size // base.mesh.world_size)
