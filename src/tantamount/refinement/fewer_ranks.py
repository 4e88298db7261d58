"""A wrong job of many ranks that run one program: it is explained on a few of them.

What is refuted on the smaller mesh is refuted of the job if one execution on its own mesh shows it, too; what is only
refuted there is not. Words are those of the smaller mesh, and told only if they are the same on another one: a factor
that is the number of ranks is another there. See docs/design/reduced-shapes.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from tantamount.execution.reduced import differing, planned
from tantamount.ir.job import Job
from tantamount.ops.classes import rank_classes
from tantamount.proof import Options
from tantamount.reduction import long_axes, shortened
from tantamount.refinement.result import Refinement
from tantamount.verdict import Counterexample, Mismatch, OutputReport, Verdict

__all__ = ["OnFewer", "on_fewer_ranks"]

_NUMBER = re.compile(r"(?<![\w.:])\d")  # but of a name, or of a line
# Ranks along an axis that is made short, and on the whole mesh (stages are not made fewer). Factors of two are common
# in programs that are right: with two ranks they look like means.
_SHORT = ((3, 32), (5, 16), (2, 32))


@dataclass(frozen=True)
class OnFewer:
    """``outputs``: the reports on the job's outputs; the rest is what the smaller mesh shows of those that are
    refuted."""

    outputs: tuple[OutputReport, ...]
    counterexample: Counterexample | None
    mismatch: Mismatch
    notes: tuple[str, ...]


def on_fewer_ranks(
    job: Job, outputs: tuple[OutputReport, ...], options: Options, refine: Callable[[Job], Refinement]
) -> OnFewer | None:
    """The explanation of a job whose ``outputs`` are not all proved; ``None`` if no axis is long, or if none of them is
    refuted on fewer, or one that is differs there only. ``refine`` gives the verdict on another job."""
    axes = long_axes(rank_classes(job.implementation, job.mesh))
    open_ = [one.name for one in outputs if one.verdict is not Verdict.PROVED]
    if not axes:
        return None
    return options.effort.trying(lambda: _explained(job, axes, outputs, open_, options, refine))


def _explained(
    job: Job,
    axes: list[str],
    outputs: tuple[OutputReport, ...],
    open_: list[str],
    options: Options,
    refine: Callable[[Job], Refinement],
) -> OnFewer | None:
    whole = planned(job, options)  # first: what is too large to be executed is not refuted by what is smaller
    found = [(shortened(job, axes, options.effort, ranks), most) for ranks, most in _SHORT]
    meshes = [one for one, most in found if one.mesh.world_size <= min(most, job.mesh.world_size - 1)]
    if not meshes:
        return None
    small, *others = meshes
    first = refine(small)
    wrong = {one.name: one for one in first.outputs if one.verdict is Verdict.REFUTED and one.name in open_}
    if first.mismatch is None or not wrong or differing(whole, [*wrong]) != [*wrong]:
        return None
    second = next((refine(other).mismatch for other in others if other.mesh != small.mesh), None)
    shorter = {axis: (n, m) for axis, n in job.mesh.axes.items() if n != (m := small.mesh.axes[axis])}
    sizes = ", ".join(f"{axis} {n} -> {m}" for axis, (n, m) in shorter.items())
    counterexample = first.counterexample
    if counterexample is not None:
        changed = {n: (m,) for n, m in shorter.values()}
        counterexample = replace(counterexample, sizes={**changed, **counterexample.sizes})
    note = (
        f"executed on its own mesh, too, and explained on a smaller one, whose ranks are those that are named: {sizes}"
    )
    merged = tuple(wrong.get(one.name, one) for one in outputs)
    return OnFewer(merged, counterexample, _common(first.mismatch, second), (*first.notes, note))


def _common(one: Mismatch, other: Mismatch | None) -> Mismatch:
    """The words that two meshes share, or that name no number where there is one mesh only; of others only the place is
    left."""
    words = (one.headline, one.difference, one.hint)
    if (
        not any(map(_NUMBER.search, words))
        if other is None
        else words == (other.headline, other.difference, other.hint)
    ):
        return one
    at = f" ({one.implementation_source})" if one.implementation_source else ""
    told = f"{one.implementation or one.specification}{at} is the first that is not what the specification has there"
    if other is not None and one.headline == other.headline:
        difference = one.difference if one.difference == other.difference else ""
        return replace(one, difference=difference, hint="", equations=())
    return replace(one, headline=told, difference="", hint="", equations=())
