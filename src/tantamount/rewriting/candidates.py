"""Rules that a comparison lacks: pieces of two programs that agree in values, written down as rules, with evidence.

A candidate says that a piece of the first program is the piece of the second. Sizes become symbols where the rule then
still holds; what is known of the sign of an input becomes its condition, where it does not hold without. It is known as
well as any rule (:mod:`tantamount.rewriting.evidence`): proved, it may be used at once; tested, it is shown to the
user, who may give it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tantamount.correspond.alignment import align
from tantamount.effort import Effort, Grown, Stopped, stopping
from tantamount.errors import TantamountError
from tantamount.ir.job import Job, UserRule
from tantamount.ir.relation import Sign
from tantamount.limits import Limits
from tantamount.proof.proof import Options, prove
from tantamount.refinement import Refinement
from tantamount.rewriting.evidence import Evidence, Standing, evidence_of
from tantamount.rewriting.pieces import Open, Piece
from tantamount.rewriting.settle import TESTED, with_rules
from tantamount.rewriting.written import HEADER, Sizes, read_rule, rule_text, size_symbols
from tantamount.verdict import Verdict

__all__ = ["Candidate", "candidates", "with_candidates"]

_WORTH = (Standing.PROVED, Standing.TESTED)


@dataclass(frozen=True)
class Candidate:
    """A rule, its table in a file of rules, what is known of it, the piece that it was made of with its conditions, and
    all pairs of tensors (first, second) that it is about."""

    rule: UserRule
    text: str
    evidence: Evidence
    piece: Piece
    holds: tuple[str, ...]
    places: tuple[tuple[str, str], ...] = ()


@dataclass
class _Search:
    """The rules that were written so far, by what they say; ``None``: one that does not hold."""

    limits: Limits
    effort: Effort
    known: dict[str, Candidate | None] = field(default_factory=dict[str, "Candidate | None"])
    tried: int = 0

    def of(self, piece: Piece) -> Candidate | None:
        """The candidate that a pair is."""
        said = _said(piece, Sizes(), ())
        if said is None:
            return None
        if said not in self.known:
            self.tried += 1
            self.known[said] = None if self.effort.exceeds("rule_pieces", self.tried) else self._written(piece)
        found = self.known[said]
        if found is not None:
            found = self.known[said] = replace(found, places=(*found.places, (piece.first, piece.second)))
        return found

    def _written(self, piece: Piece) -> Candidate | None:
        """The best candidate: proved before tested, all sizes before one, without a condition before with one."""
        found: list[Candidate] = []
        conditions = tuple(f"{name} {'>' if sign is Sign.POSITIVE else '>='} 0" for name, sign in piece.signs.items())
        for holds in dict.fromkeys(((), conditions)):
            for sizes in (size_symbols(piece.left), Sizes()):
                candidate = self._one(piece, sizes, holds, f"piece_{self.tried}")
                if candidate is not None and candidate.evidence.standing is Standing.PROVED:
                    return candidate
                found += [] if candidate is None else [candidate]
            if found:
                break
        return found[0] if found else None

    def backwards(self, found: Candidate) -> Iterator[Candidate]:
        """The rule from right to left, where it was tested, too, and its left side was defined wherever its right side
        was."""
        piece = found.piece
        if found.evidence.standing is not Standing.TESTED or {n.name for n in piece.right.inputs} != {
            n.name for n in piece.left.inputs
        }:
            return
        turned = replace(piece, left=piece.right, right=piece.left)
        sizes = size_symbols(piece.left) if found.rule.sides.sizes.symbols else Sizes()
        one = self._one(turned, sizes, found.holds, f"{found.rule.name}_back")
        if one is not None and not one.evidence.first_only:
            yield replace(one, places=found.places)

    def _one(self, piece: Piece, sizes: Sizes, holds: tuple[str, ...], name: str) -> Candidate | None:
        text = _said(piece, sizes, holds, name)
        if text is None:
            return None
        try:
            rule = read_rule(text, name, self.limits)
            evidence = evidence_of(rule, self.limits, self.effort)
        except (TantamountError, ArithmeticError):  # at other sizes the pieces may be no programs
            return None
        return Candidate(rule, text, evidence, piece, holds) if evidence.standing in _WORTH else None


def with_candidates(
    found: Refinement,
    job: Job,
    again: Callable[[Job], Refinement],
    *,
    limits: Limits,
    effort: Effort,
    strict: bool = False,
) -> Refinement:
    """The report, or that on a job rewritten by rules that were found here, where these are proved and make a proof.
    Rules that are only tested make none: the report shows them (``rules`` is a file of them), for the user to give."""
    if found.verdict is not Verdict.UNKNOWN or found.stopped or found.refused or job.at is not None:
        return found
    try:
        with stopping(effort):
            return _completed(found, job, again, limits, effort, strict)
    except Stopped:
        return found


def _completed(
    found: Refinement, job: Job, again: Callable[[Job], Refinement], limits: Limits, effort: Effort, strict: bool
) -> Refinement:
    forth, back = candidates(job, limits, effort)
    every = [one for one in (forth, back) if one]
    for chosen in every:
        known = {one.rule.name: one.evidence for one in chosen}
        rules = [one.rule for one in chosen]
        settled = with_rules(
            found, job, rules, again, limits=limits, effort=effort, accept_tested=False, strict=strict, known=known
        )
        if settled.verdict is Verdict.PROVED:
            return replace(settled, notes=(*settled.notes, *map(_shown, _used(settled, chosen))))
        if settled.refused == (TESTED,):
            return _offered(found, _used(settled, chosen), _ENOUGH)
    tested = [one for one in forth if one.evidence.standing is Standing.TESTED]
    return _offered(found, tested, _NOT_ENOUGH) if tested else found


def _used(found: Refinement, every: Sequence[Candidate]) -> list[Candidate]:
    return [one for one in every if any(note.startswith(f"rule {one.rule.name} ") for note in found.notes)]


def _offered(found: Refinement, every: Sequence[Candidate], note: str) -> Refinement:
    """The report with rules that the user may look at, and give."""
    text = HEADER + "".join(f"\n# {_about(one)}\n{one.text}" for one in every)
    return replace(found, notes=(*found.notes, note, *map(_shown, every)), rules=text)


_ENOUGH = (
    "pieces of the programs agree on all tests and are not proved to be equal; nothing else is missing. Look at these "
    "rules: saved in a file (`--save-rules FILE`), `--rules FILE --accept-tested` takes them as they are"
)
_NOT_ENOUGH = (
    "pieces of the programs agree on all tests and are not proved to be equal; with these rules, more would still be "
    "missing"
)


def _shown(one: Candidate) -> str:
    return f"{_about(one)}\n{one.text.rstrip()}"


def _about(one: Candidate) -> str:
    first, second = one.places[0]
    more = f", and {len(one.places) - 1} more pairs" if len(one.places) > 1 else ""
    return f"{one.rule.name}: {first} of the first program and {second} of the second{more}; {one.evidence.text}"


def candidates(job: Job, limits: Limits, effort: Effort) -> tuple[tuple[Candidate, ...], tuple[Candidate, ...]]:
    """The candidates of a job on one rank, in the order of the second program: from the first program's piece to the
    second's, and those of them that were only tested from the second's to the first's (where the second's piece is the
    one whose definedness is not seen). Effort bounds how many are looked at, and how long they may be."""
    try:
        with effort.watching(effort.bounds.rule_steps):
            proof = prove(job, Options(cut=True, align=align, limits=limits, effort=effort))
            pairs = Open(proof)
    except Grown:
        effort.hit("rule_steps")
        return (), ()
    search = _Search(limits, effort)
    for piece in pairs.pieces():
        if search.of(piece) is not None:
            pairs.take(piece)
    forth = tuple(one for one in search.known.values() if one is not None)
    return forth, tuple(one for each in forth for one in search.backwards(each))


def _said(piece: Piece, sizes: Sizes, holds: tuple[str, ...], name: str = "piece") -> str | None:
    """The table that a piece is; ``None`` where it cannot be written."""
    try:
        return rule_text(name, piece.left, piece.right, sizes, holds)
    except TantamountError:
        return None
