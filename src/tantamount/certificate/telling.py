"""What a check found, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tantamount.certificate.check import Checked, Step
from tantamount.certificate.residues import FIELDS

__all__ = ["lines"]

_SHOWN = 8
_ORDER = "the order of the reals"


def lines(checked: Checked, *, verbose: bool = False) -> Iterator[str]:
    """The result line by line; ``verbose`` adds every tensor."""
    if checked.problems:
        yield f"REJECTED  {checked.certificate}   {checked.problems[0]}"
        yield from _some(checked.problems[1:], verbose)
        return
    if checked.unchecked:
        yield f"NOT CHECKED  {checked.certificate}   {checked.unchecked[0]}"
        yield from _some(checked.unchecked[1:], verbose)
        yield "  nothing contradicts the certificate, and not all of it could be checked: that is no acceptance"
        return
    steps = (*checked.outputs, *checked.relations)
    yield f"ACCEPTED  {checked.certificate}   about {checked.job}"
    yield f"  {_count(len(checked.outputs), 'output')} on every rank, and {_count(len(checked.relations), 'relation')}"
    if checked.unrelated:
        yield f"  {_count(checked.unrelated, 'tensor')} without a relation: nothing is claimed of them"
    yield from _exact([step for step in steps if step.exactly])
    yield from _floats([step for step in steps if not step.exactly], verbose)
    sizes = ", ".join(f"{old} -> {' or '.join(map(str, new))}" for old, new in sorted(checked.shapes.items()))
    yield f"  executed at reduced sizes: {sizes}" if sizes else "  executed at the job's own sizes"
    yield f"  assumptions, found again in the programs: {', '.join(checked.assumptions)}"
    for note in checked.notes:
        yield f"  {note}"
    if verbose:
        for step in steps:
            how = f"exact ({step.exact} inputs, degree {step.degree})" if step.exactly else "float64"
            yield f"    {step.name.removeprefix('%')}: {how}, float64 on {step.floats} inputs"
    yield "  This is evidence on random inputs at these sizes, by code that did not find the proof: not the proof."


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _some(texts: Sequence[str], verbose: bool) -> Iterator[str]:
    shown = texts if verbose else texts[:_SHOWN]
    yield from (f"  {text}" for text in shown)
    if len(texts) > len(shown):
        yield f"  and {len(texts) - len(shown)} more (-v shows them)"


def _exact(steps: Sequence[Step]) -> Iterator[str]:
    if not steps:
        return
    chance = max(_chance(step) for step in steps)
    bound = (
        f"a false one passes with a chance below {chance:.0e}" if chance < 0.5 else "no bound: degrees are too large"
    )
    yield f"  in exact arithmetic: {len(steps)}; {bound}"
    replaced = sorted({name for step in steps for name in step.replaced} - {_ORDER})
    if replaced:
        yield f"    with functions of which only equality of arguments is used: {', '.join(replaced)}"
    if any(_ORDER in step.replaced for step in steps):
        count = sum(_ORDER in step.replaced for step in steps)
        yield f"    {count} of them with maxima in a random order of the field: the bound is for the orders drawn"


def _chance(step: Step) -> float:
    """Schwartz and Zippel: degree over the size of the field, once for every input."""
    out = 1.0
    for of in FIELDS[: step.exact]:
        out *= min(1.0, step.degree / of.q)
    return out


def _floats(steps: Sequence[Step], verbose: bool) -> Iterator[str]:
    if not steps:
        return
    yield f"  in float64 only: {len(steps)} (a small difference could hide)"
    shown = steps if verbose else steps[:_SHOWN]
    for step in shown:
        yield f"    {step.name.removeprefix('%')}: {step.why}"
    if len(steps) > len(shown):
        yield f"    and {len(steps) - len(shown)} more (-v shows them)"
