"""The result of a check as text: the command line's, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import floor, log10

from tantamount.certificate.check import Checked
from tantamount.certificate.compare import Step

__all__ = ["render"]

_SHOWN = 8
_ORDER = "the order of the reals"


def render(checked: Checked, *, verbose: bool = False) -> Iterator[str]:
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
    yield from _exact(steps, checked.sampled)
    yield from _floats([step for step in steps if not step.exactly], verbose)
    sizes = ", ".join(f"{old} -> {' or '.join(map(str, new))}" for old, new in sorted(checked.shapes.items()))
    yield f"  executed at reduced sizes: {sizes}" if sizes else "  executed at the job's own sizes"
    yield f"  assumptions, found again in the programs: {', '.join(checked.assumptions)}"
    for note in checked.notes:
        yield f"  {note}"
    if verbose:
        for step in steps:
            yield f"    {step.name.removeprefix('%')}: {_how(step)}, float64 on {step.floats} inputs"
    yield "  This is evidence on the inputs drawn, at these sizes, by code that did not find the proof: not the proof."


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _some(texts: Sequence[str], verbose: bool) -> Iterator[str]:
    shown = texts if verbose else texts[:_SHOWN]
    yield from (f"  {text}" for text in shown)
    if len(texts) > len(shown):
        yield f"  and {len(texts) - len(shown)} more (-v shows them)"


def _how(step: Step) -> str:
    if not step.exactly:
        return "not in exact arithmetic"
    bound = "" if step.chance is None else f", degree {step.degree}, chance below {_power(step.chance)}"
    return f"exact on {step.exact} inputs{bound}"


def _power(chance: float) -> str:
    """A power of ten that is not smaller."""
    return f"1e{floor(log10(chance)) + 1}"


def _exact(steps: Sequence[Step], sampled: int) -> Iterator[str]:
    """Lines about the claims that held in exact arithmetic: claims of which the chance to hold by accident is bounded,
    and others."""
    exact = [step for step in steps if step.exactly]
    constant = [step for step in exact if step.constant]
    bounded = [chance for step in exact if (chance := step.chance) is not None]
    other = [step for step in exact if not step.constant and step.chance is None]
    if bounded:
        chance = _power(max(bounded))
        yield f"  rational in real inputs: {len(bounded)}; a false one passes with a chance below {chance}"
    if constant:
        yield f"  the same for all inputs: {len(constant)}, evaluated in exact arithmetic"
    if not other:
        return
    yield f"  in exact arithmetic, without a bound: {len(other)}, sampled {_times(other, sampled)}"
    replaced = sorted({name for step in other for name in step.replaced} - {_ORDER})
    if replaced:
        yield f"    with functions of which only equality of arguments is used: {', '.join(replaced)}"
    if any(_ORDER in step.replaced for step in other):
        count = sum(_ORDER in step.replaced for step in other)
        yield f"    {count} of them with maxima in a random order of the field"


def _times(steps: Sequence[Step], sampled: int) -> str:
    """The number of times that claims were compared, in exact arithmetic and in float64, as text."""
    least, most = (f(step.floats for step in steps) for f in (min, max))
    floats = f"{least}" if least == most else f"{least} to {most}"
    return f"{min(step.exact for step in steps)} times exactly, {floats} times in float64" + (
        f" ({sampled} on boundary values)" if sampled else ""
    )


def _floats(steps: Sequence[Step], verbose: bool) -> Iterator[str]:
    if not steps:
        return
    least, most = (f(step.floats for step in steps) for f in (min, max))
    times = f"{least}" if least == most else f"{least} to {most}"
    yield f"  in float64 only: {len(steps)}, sampled {times} times (a small difference could hide)"
    shown = steps if verbose else steps[:_SHOWN]
    for step in shown:
        yield f"    {step.name.removeprefix('%')}: {step.why}"
    if len(steps) > len(shown):
        yield f"    and {len(steps) - len(shown)} more (-v shows them)"
