"""One comparison from two programs to a verdict: what is assumed beyond a refinement is added, printed, or refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from tantamount.comparison.decided import with_decided_comparisons
from tantamount.comparison.far_apart import far_apart
from tantamount.comparison.mask_literals import with_masks_of_infinity
from tantamount.comparison.one_sided import one_sided
from tantamount.comparison.other_weights import with_other_weights
from tantamount.comparison.programs import Pair
from tantamount.comparison.rounded_constants import with_closed_forms
from tantamount.comparison.softplus import without_thresholds
from tantamount.comparison.words import as_given, in_words_of_two
from tantamount.comparison.written_masks import with_masks_as_bands
from tantamount.effort import Effort
from tantamount.errors import UserError
from tantamount.ir.job import Job, UserRule
from tantamount.limits import Limits, limits_from_environment
from tantamount.proof import Progress
from tantamount.refinement import Refinement, refine_job
from tantamount.verdict import Assumption, Verdict

__all__ = ["ACCEPTABLE", "GUESSED", "UNPAIRED", "Comparing", "compare_pair"]

GUESSED = "relation-guessed"
UNPAIRED = "outputs-unpaired"
ACCEPTABLE = (GUESSED, UNPAIRED)  # what a verdict may rest on only if the user has said so

_CUT_FROM = 12  # nodes: two ways of writing one thing meet at what both compute
_SHOWN = 4  # guesses that are printed with the assumption

_Rewrite = Callable[[Job], tuple[Job, tuple[Assumption, ...]]]
_REWRITES: tuple[_Rewrite, ...] = (
    with_masks_of_infinity,
    with_masks_as_bands,
    with_closed_forms,
    with_decided_comparisons,
    without_thresholds,
)


@dataclass(frozen=True)
class Comparing:
    """The settings of a comparison of two programs. ``strict`` refuses every assumption but real arithmetic, ``accept``
    names those of :data:`ACCEPTABLE` that the verdict may rest on. ``progress``, ``limits``, ``effort`` and ``so_far``
    are those of :func:`tantamount.refinement.refine_job`, ``rules`` and ``accept_tested`` those of
    :func:`tantamount.refine`. Raises :class:`UserError` for an unknown name in
    ``accept``."""

    strict: bool = False
    accept: Collection[str] = ()
    progress: Progress | None = None
    limits: Limits | None = None
    effort: Effort = field(default_factory=Effort)
    so_far: Callable[[Refinement], None] | None = None
    rules: Sequence[UserRule] = ()
    accept_tested: bool = False

    def __post_init__(self) -> None:
        unknown = [name for name in self.accept if name not in ACCEPTABLE]
        if unknown:
            raise UserError(
                "command-line", place="--accept", found=unknown[0], needed=f"one of {', '.join(ACCEPTABLE)}",
                hint="other assumptions are printed with the verdict; --strict refuses them",
            )  # fmt: skip


def compare_pair(pair: Pair, how: Comparing) -> Refinement:
    """The verdict on two programs. Raises :class:`UserError` for a job of several ranks."""
    job = pair.job
    if len(job.implementation) != 1:
        raise UserError(
            "compare-ranks", place=job.path, found=f"{len(job.implementation)} ranks",
            needed="one program on each side", hint=f"tantamount refine {job.path}",
        )  # fmt: skip
    rewritten, assumed = (job, ()) if how.strict else _rewritten(job)

    def one(job: Job) -> Refinement:
        found = refine_job(
            job,
            strict=how.strict,
            progress=how.progress,
            limits=how.limits,
            effort=how.effort,
            cut_from=_CUT_FROM,
            so_far=None if how.so_far is None else _told(how.so_far, assumed, pair, how),
        )
        return _without_stand_ins(job, found)

    found = one(rewritten)
    if how.rules:
        from tantamount.rewriting.settle import with_rules

        found = with_rules(
            found, rewritten, how.rules, one, limits=how.limits or limits_from_environment(), effort=how.effort,
            accept_tested=how.accept_tested, strict=how.strict,
        )  # fmt: skip
    if found.verdict is Verdict.UNKNOWN:
        from tantamount.rewriting.candidates import with_candidates

        limits = how.limits or limits_from_environment()
        found = with_candidates(found, rewritten, one, limits=limits, effort=how.effort, strict=how.strict)
    answer = with_other_weights(_answer(found, assumed, pair, how), pair, lambda equal: compare_pair(equal, how))
    apart = far_apart(pair, how.effort) if answer.verdict is Verdict.PROVED else ""
    return replace(answer, notes=(*answer.notes, apart)) if apart else answer


def _told(
    so_far: Callable[[Refinement], None], assumed: tuple[Assumption, ...], pair: Pair, how: Comparing
) -> Callable[[Refinement], None]:
    return lambda found: so_far(_answer(found, assumed, pair, how))


def _rewritten(job: Job) -> tuple[Job, tuple[Assumption, ...]]:
    """The job with what its literals stand for, and the assumptions that they do; without what would call a node as
    another one is called."""
    assumed: list[Assumption] = []
    for rewrite in _REWRITES:
        changed, more = rewrite(job)
        if all(len(graph.by_name) == len(graph.nodes) for graph in (changed.specification, *changed.programs)):
            job = changed
            assumed += more
    return job, tuple(assumed)


def _without_stand_ins(job: Job, found: Refinement) -> Refinement:
    """The answer on a job, UNKNOWN in place of REFUTED where an opaque operator that only one program calls decides."""
    if found.verdict is not Verdict.REFUTED:
        return found
    alone = one_sided(job, [one.name for one in found.outputs if one.verdict is Verdict.REFUTED])
    if not alone:
        return found
    note = (
        f"one program only calls {', '.join(alone)}, so that nothing is refuted: what it computes is not "
        "known, and another function stood in for it in the execution of both; a rule may say what it is"
    )
    return replace(found, verdict=Verdict.UNKNOWN, notes=(*found.notes, note))


def _answer(found: Refinement, assumed: tuple[Assumption, ...], pair: Pair, how: Comparing) -> Refinement:
    """The report in words of two programs, with what it rests on beyond a refinement; a verdict on guesses that nobody
    accepted is none."""
    more = [*pair.assumptions, *assumed]
    if pair.guessed:
        pairs = ", ".join(f"{name} ({why})" for name, why in list(pair.guessed.items())[:_SHOWN])
        rest = f" and {len(pair.guessed) - _SHOWN} more" if len(pair.guessed) > _SHOWN else ""
        text = f"inputs correspond that nobody related, by names, shapes and order: {pairs}{rest}"
        more.append(Assumption(GUESSED, text, tuple(pair.guessed)))
    alone = str(pair.unpaired)
    if pair.unpaired.doubtful:
        text = f"outputs of names of their own need not be equal, and are not compared: {alone}"
        more.append(Assumption(UNPAIRED, text, (*pair.unpaired.first, *pair.unpaired.second)))
        alone = ""
    notes = (*pair.notes, *([f"not compared: {alone}"] if alone else []), *found.notes)
    given = (pair.job.specification, pair.job.implementation[0])
    found = replace(found, mismatch=None if found.mismatch is None else as_given(found.mismatch, *given))
    report = in_words_of_two(
        replace(
            found, assumptions=(*found.assumptions, *more), notes=notes, weights=pair.weights,
            not_compared=(*pair.unpaired.first, *pair.unpaired.second),
        )
    )  # fmt: skip
    if how.strict and more and report.verdict in (Verdict.PROVED, Verdict.UNKNOWN):
        refused = dict.fromkeys((*found.refused, *(one.name for one in more)))
        proved = report.verdict is Verdict.PROVED or found.refused
        return replace(report, verdict=Verdict.UNKNOWN, refused=tuple(refused) if proved else ())
    if report.verdict is Verdict.PROVED and pair.unpaired.doubtful and UNPAIRED not in how.accept:
        one, other = pair.unpaired.first[0], pair.unpaired.second[0]
        note = (
            f"PROVED of the outputs that are compared; `--accept {UNPAIRED}` takes these, and "
            f'`--output \'{one}={{ name = "{other}", placement = "Replicate()" }}\'` says which belong together'
        )
        report = replace(report, verdict=Verdict.UNKNOWN, refused=(UNPAIRED,), notes=(*report.notes, note))
    if not pair.guessed or GUESSED in how.accept or found.verdict not in (Verdict.PROVED, Verdict.REFUTED):
        return report
    note = (
        f"{found.verdict.value} if the guessed relations of inputs hold; `--accept {GUESSED}` takes them as they are, "
        "loaders or relations say what holds"
    )
    refused = (*report.refused, GUESSED)
    return replace(report, verdict=Verdict.UNKNOWN, refused=refused, notes=(*report.notes, note))
