"""Both programs of a job in the calculus, from one set of inputs, and what is proved of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tantamount.calculus.atoms import Store
from tantamount.calculus.calculus import Calculus
from tantamount.effort import Effort, Grown
from tantamount.ir.job import Job
from tantamount.limits import Limits, limits_from_environment
from tantamount.ops.classes import rank_classes
from tantamount.proof.assumptions import gather_assumptions
from tantamount.proof.cover import relate
from tantamount.proof.cuts import Align, Cuts
from tantamount.proof.inputs import Inputs, build_inputs
from tantamount.proof.outputs import check_outputs
from tantamount.proof.ranks import run_implementation
from tantamount.proof.run import RanksRun, SpecificationRun
from tantamount.proof.sharing import Shared
from tantamount.proof.specification import run_specification
from tantamount.proof.structure import same_programs
from tantamount.verdict import Assumption, OutputReport, Relation, Verdict

__all__ = ["Options", "Progress", "Proof", "nothing_of", "prove"]

Progress = Callable[[str, int, int], None]
_STEPS = 50  # of the calculus that a tensor takes on average as long as forms do not grow
_GROWN = 4_000  # steps beyond these from which on forms grow
_MORE = 6  # times as many are allowed with cuts, and in a short program without
_DOUBTED = 10  # steps that a tensor takes on average from which on it is asked whether the programs differ
_LONG = 300  # nodes of a specification that is long


def _unheard(_: object) -> None:
    """Tells nobody."""


def _unknown(_: bool) -> bool:
    """False: nothing is known."""
    return False


@dataclass(frozen=True)
class Options:
    """The ways in which a job may be proved.

    ``fold``: ranks whose graphs are isomorphic are mesh axes (``None``: yes, but the caller may try again without);
    ``cut``: both programs go on from fresh tensors where they agree (``None``: if forms grow); ``align`` says which
    tensors seem to agree, without which nothing is cut; ``limits`` (default: those of the environment) bound what is
    executed for that, ``effort`` bounds every search; ``progress(phase, done, total)`` is told of every node, ``lap``
    the name of every phase that ends, ``so_far``, of a proof in pieces, how to make the report on those that are done
    (where time or memory are limited). ``refuted`` is asked where forms seem to grow: if all is known to be wrong,
    there is no proof. It is told whether it is early, so that finding out should take little."""

    fold: bool | None = None
    cut: bool | None = None
    align: Align | None = None
    limits: Limits = field(default_factory=limits_from_environment)
    effort: Effort = field(default_factory=Effort)
    progress: Progress | None = None
    lap: Callable[[str], None] = _unheard
    so_far: Callable[[Callable[[], Any]], None] = _unheard
    refuted: Callable[[bool], bool] = _unknown

    def silent(self) -> Options:
        """The same, for a proof that is part of another one: nobody is told how far it is."""
        return replace(self, progress=None, lap=_unheard, so_far=_unheard, refuted=_unknown)


@dataclass
class Proof:
    """The inputs of both programs and every value of theirs, over one store; what was checked so far. ``steps``: those
    that computing the values took."""

    job: Job
    options: Options
    store: Store
    inputs: Inputs
    specification: SpecificationRun
    implementation: RanksRun
    shared: Shared
    cuts: Cuts | None = None
    steps: int = 0
    _relations: dict[str, Relation] | None = None

    @property
    def folded(self) -> bool:
        """True if all ranks were run as one, as mesh axes."""
        return self.implementation.folded

    def check(
        self, *, expand: bool = True, only: Collection[str] | None = None, infer: bool = True
    ) -> tuple[OutputReport, ...]:
        """A report for every output that the job asks about (of ``only`` those, if given). ``expand``: products are
        multiplied out where forms differ, which can take long if they differ for a reason. ``infer``: where an
        expectation does not hold, it is looked for what does."""
        return check_outputs(
            self.store, self.job, self.specification, self.implementation, expand=expand, only=only, infer=infer
        )

    def check_twice(self) -> tuple[OutputReport, ...]:
        """A report for every output; products are multiplied out only for those that are not proved without."""
        return self.check_again(self.check(expand=False))

    def check_again(self, outputs: tuple[OutputReport, ...]) -> tuple[OutputReport, ...]:
        """These reports, with products multiplied out for the outputs that are not proved."""
        failing = [output.name for output in outputs if output.verdict is not Verdict.PROVED]
        better = {output.name: output for output in self.check(only=failing)} if failing else {}
        return tuple(better.get(output.name, output) for output in outputs)

    def relations(self) -> dict[str, Relation]:
        """The relation of every specification tensor that has one, by node name."""
        if self._relations is None:
            self._relations = relate(self.store, self.job, self.specification, self.implementation)
        return self._relations

    def known_relations(self) -> Mapping[str, Relation]:
        """The relations that :meth:`relations` has found; empty if it was not asked."""
        return self._relations or {}

    def assumptions(self) -> tuple[Assumption, ...]:
        """Every assumption that this proof used, in a fixed order."""
        return gather_assumptions(self.store, self.job, self.inputs, self.specification, self.implementation)


def prove(job: Job, options: Options | None = None, before: Proof | None = None) -> Proof:
    """Both programs in the calculus. Where forms grow without cuts, the programs are cut from the first node on.
    ``before``: a proof without cuts of a job that has the same inputs, relations and assumptions, and another
    implementation: what was computed for it is not computed again, and its store is the one of this proof, too. Raises
    :class:`UserError` if relations contradict each other or the ranks' collectives or messages do not match, and
    :class:`Grown` where forms grow and ``options.refuted`` says that no proof is needed."""
    how = options if options is not None else Options()
    if how.cut is not None or how.align is None:
        return _prove(job, how, before=before)
    long = len(job.specification.nodes) >= _LONG
    try:
        with how.effort.watching(_GROWN if long else _MORE * _GROWN):
            return _prove(job, replace(how, cut=False, progress=_allowing(how, _GROWN, _DOUBTED, True)), how, before)
    except Grown:
        how.lap("specification")
    if how.refuted(True):
        raise Grown
    cut = replace(how, cut=True, progress=_allowing(how, _MORE * _GROWN, _STEPS, False))
    if long:
        return _prove(job, cut, how)
    try:
        with how.effort.watching(_MORE * _GROWN):
            return _prove(job, cut, how)
    except Grown:  # with cuts, too: what both programs compute alike is shared in one without
        how.lap("specification")
        if how.refuted(False):
            raise
        return _prove(job, replace(how, cut=False), how)


def nothing_of(job: Job, options: Options, relations: Mapping[str, Relation]) -> Proof:
    """A proof of a job of which nothing is computed; ``relations`` are known from elsewhere."""
    store = Calculus(options.effort)
    inputs = build_inputs(store, job)
    ranks = RanksRun(job.mesh, classes=rank_classes(job.implementation, job.mesh))
    return Proof(job, options, store, inputs, SpecificationRun(), ranks, Shared(store), _relations=dict(relations))


def _allowing(how: Options, most: int, each: int, early: bool) -> Progress:
    """The progress, which allows as many steps for every node as it takes on average where forms do not grow. Where
    they seem to, from ``most`` steps and ``each`` for every node on, it asks once whether the programs differ; then it
    raises :class:`Grown`."""
    begun, nodes, asked = how.effort.steps, 0, False

    def note(phase: str, done: int, total: int) -> None:
        nonlocal nodes, asked
        how.effort.allow(_STEPS)
        nodes += 1
        if not asked and how.effort.steps - begun > most + each * nodes:
            asked = True
            if how.effort.aside(lambda: how.refuted(early)):
                raise Grown
        if how.progress is not None:
            how.progress(phase, done, total)

    return note


def _prove(job: Job, how: Options, asked: Options | None = None, before: Proof | None = None) -> Proof:
    """Both programs in the calculus, cut or not. ``asked``: the options that the proof is known by."""
    begun = how.effort.steps
    store = Calculus(how.effort) if before is None else before.store
    classes = rank_classes(job.implementation, job.mesh, how.fold is not False)
    inputs = build_inputs(store, job)
    how.lap("inputs")
    shared = Shared(store) if before is None else before.shared
    parts = how.cut and asked is None  # who asks for cuts asks for parts
    same = None if parts else same_programs(store, job, inputs, classes, shared)
    how.lap("structure")
    specification = run_specification(store, job, inputs, shared, same, how.progress)
    names = [node.name for node in job.specification.nodes]
    cuts: Cuts | None = None
    if same is None and how.align is not None and how.cut:
        aligned = how.align(store, job, inputs, classes, how.limits)
        how.lap("alignment")
        cuts = Cuts(store, job, specification, classes, aligned) if aligned else None
    if cuts is None:
        specification.finish(names)
    else:
        specification.assume_indices()
        how.lap("specification")
    implementation = run_implementation(store, job, inputs, specification, classes, shared, same, how.progress, cuts)
    how.lap("implementation")
    specification.finish(names)
    how.lap("specification")
    steps = how.effort.steps - begun
    return Proof(job, asked or how, store, inputs, specification, implementation, shared, cuts, steps)
