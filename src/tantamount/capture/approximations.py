"""Reading the approximations that a job declares; the implementation gets the strict form in the place of each.

A plan's table (:mod:`tantamount.plan.read_approximate`) names a part, a job's has none; the kinds that are about the
gradients that come back from other parts are a plan's alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tantamount.capture.alike import drifting
from tantamount.capture.fields import Fields, shown
from tantamount.capture.strict import KINDS, NotThat, strict_job
from tantamount.errors import UserError
from tantamount.ir.job import Approximation, Job

__all__ = ["check_accepted", "with_strict_forms"]

_OF_PLANS = ("truncated-gradient", "stale-gradient")


def with_strict_forms(job: Job, top: Fields) -> Job:
    """The job with the strict form in the place of what its table ``[approximate]`` declares, and with the names of
    these. Raises :class:`UserError` for what is not as it is declared, and where ranks should have something alike that
    each would make for itself."""
    outer = top.at("[approximate]")
    table = outer.table(top.values.get("approximate", {}), "a table of approximations")
    if table and job.sizes.symbols:
        needed = "programs of one size where something is approximate"
        raise outer.wrong(f"size symbols {', '.join(map(str, job.sizes.symbols))}", needed, code="approximate")
    for name, expected in job.outputs.items() if table else ():
        if expected.placements is None or expected.equal:
            needed = "placements, which say what ranks have alike, of every output where something is approximate"
            raise outer.wrong(f"{name} = {expected.text or 'any relation'}", needed, code="approximate")
    found: list[Approximation] = []
    for name, value in table.items():
        place = outer.at(outer.name(name, "a name"))
        fields = Fields.of(value, place, ("kind", "nodes", "over"), ("kind", "nodes"))
        kind, nodes, over = fields.at("kind").name(fields.get("kind")), fields.names("nodes"), fields.names("over")
        if kind not in KINDS:
            hint = "gradients that are approximate are declared in a plan: docs/plan.md" if kind in _OF_PLANS else ""
            raise fields.at("kind").wrong(shown(kind), f"one of {', '.join(KINDS)}", hint=hint)
        known = set(over) <= job.mesh.axes.keys() and len(set(over)) == len(over)
        if (kind == "restricted-choice") == bool(over) or not known or not nodes:
            axes = ", ".join(job.mesh.axes)
            needed = f"nodes, and for a local-statistic axes of {axes}, for a restricted-choice none"
            raise place.wrong(f"nodes {', '.join(nodes)} over {', '.join(over)}", needed, code="approximate")
        try:
            for why in drifting(job, nodes, job.mesh.names, job.outputs):
                raise NotThat(why)
            job = strict_job(job, kind, nodes, over)
        except NotThat as problem:
            raise fields.at("nodes").wrong(str(problem), f"a {kind}", code="approximate") from None
        where = f" of the rows of a rank along {' and '.join(over)}" if over else ""
        found.append(Approximation(name, f"{kind} ({', '.join(nodes)}){where}"))
    return replace(job, approximations=tuple(found))


def check_accepted(accept: Collection[str], declared: Sequence[str], path: str) -> None:
    """Raise :class:`UserError` for an approximation that is accepted and that the file at ``path`` does not declare."""
    for name in accept:
        if name not in declared:
            needed = f"an approximation that {path} declares: {', '.join(declared) or 'there is none'}"
            raise UserError("command-line", place="--accept", found=name, needed=needed)
