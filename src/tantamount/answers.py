"""The objects that users of the Python interface get: reports that can show and save themselves.

The layer above proofs, reports and certificates; the command line and the pytest plugin stand on it, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tantamount.effort import Effort, effort_of
from tantamount.errors import UserError
from tantamount.ir.job import Job, UserRule
from tantamount.limits import Limits, limits_from_environment
from tantamount.proof import Progress
from tantamount.refinement import Captured, Refinement, job_of, refine_differing, refine_job, whole_proof
from tantamount.verdict import Picture, Verdict
from tantamount.writing import write_file

if TYPE_CHECKING:
    from tantamount.plan.flat import Generated
    from tantamount.plan.parts import Part, Plan
    from tantamount.plan.result import PartReport, PlanReport
    from tantamount.plan.verify import CheckPart

__all__ = ["ENGINES", "Answer", "NotProved", "check_engine", "compare", "refine", "verify_part", "verify_plan"]

ENGINES = ("calculus", "smt")


@dataclass(frozen=True)
class Answer(Refinement):
    """A report that can show and save itself. What it keeps of the proof for that is not pickled."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "proof": None, "subject": None}

    def __str__(self) -> str:
        return self.text().rstrip("\n")

    def text(self, *, verbose: bool = False) -> str:
        """The report as the command line prints it; ``verbose`` as its option of that name."""
        from tantamount.report.text import text

        return text(self, verbose=verbose)

    def picture(self) -> Picture | None:
        """Both programs with what was found about their tensors, to be drawn; ``None`` if no single proof is behind
        this report, or the report was pickled. What was proved in pieces is proved as a whole for it."""
        from tantamount.proof.picture import draw_picture

        proof = whole_proof(self)
        return None if proof is None else draw_picture(proof)

    def raise_if_not_proved(self) -> Answer:
        """This report if everything is proved; else raise :class:`NotProved`, whose text is the report."""
        if not self.proved:
            raise NotProved(self)
        return self

    def certificate(self) -> dict[str, Any]:
        """The certificate that ``tantamount check`` checks (docs/certificates.md). Raises :class:`UserError` unless all
        is proved."""
        from tantamount.certificate.write import certificate_of

        return certificate_of(self, self.subject)

    def save_certificate(self, path: str | Path) -> None:
        """Write the certificate. Raises :class:`UserError` unless all is proved and the file can be written."""
        from tantamount.certificate.write import save_certificate

        save_certificate(self, self.subject, Path(path))

    def save(self, path: str | Path) -> None:
        """Write the report: ``.json`` (tantamount-report/1), ``.html`` or ``.txt``. Raises :class:`UserError`."""
        from tantamount.report.saving import save

        save(self, Path(path), self.picture)


class NotProved(AssertionError):
    """Raised where a proof was wanted. ``report`` has the whole answer."""

    def __init__(self, report: Answer) -> None:
        super().__init__(str(report))
        self.report = report


def refine(
    job: Job | Captured,
    implementation: object = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    assume: Mapping[str, Any] | None = None,
    strict: bool = False,
    fold: bool | None = None,
    progress: Progress | None = None,
    limits: Limits | None = None,
    effort: str | float | Effort = "normal",
    timeout: float | None = None,
    memory: int | None = None,
    so_far: Callable[[Answer], None] | None = None,
    engine: str = "calculus",
    rules: Sequence[UserRule | str | Path] = (),
    accept_tested: bool = False,
    accept: Collection[str] = (),
) -> Answer:
    """Prove that the implementation refines the specification, output by output, or show where it does not.

    Either ``refine(job)``, or ``refine(specification, implementation)`` with captured programs; then ``inputs`` and
    ``outputs`` state relations (``{"layers.*.up.weight": "Shard(0)"}``) where the capture does not know them, and
    ``assume`` what a job's ``[assume]`` would.
    ``strict`` refuses assumptions other than real arithmetic; ranks are mesh axes where their graphs are isomorphic,
    unless ``fold`` is ``False`` (or that proves nothing, and one by one they can be proved).
    ``progress(phase, done, total)`` is told of every node.
    ``limits`` (default: those of the environment) bound what is executed in search of a counterexample, ``effort``
    every other search: ``low``, ``normal``, ``high``, or how many times the normal effort. After ``timeout`` seconds,
    or when this process holds more than ``memory`` megabytes, the verdict on what is not proved by then is UNKNOWN;
    ``so_far`` is told the answer as it would be if the work ended now, whenever more is proved under such a limit.
    Of programs with size symbols, all sizes are meant (docs/symbolic-sizes.md).
    ``engine="smt"`` asks the second engine (docs/design/smt.md): all elements at reduced shapes, by z3. It never says
    PROVED, and does not read ``strict``, ``fold``, ``progress`` and ``so_far``.
    ``rules`` are used beside those of the job (:func:`rule`, or files of them; docs/rules.md) where there is no proof
    without; with ``accept_tested``, a proof may rest on rules that are only tested. ``accept`` names approximations
    that the job declares and that are allowed; what is proved up to others is UNKNOWN.
    Raises :class:`UserError` if the job contradicts itself or the ranks' collectives do not match."""
    subject = job_of(job, implementation, inputs=inputs, outputs=outputs, assume=assume)
    if accept:
        from tantamount.capture.approximations import check_accepted

        check_accepted(accept, [one.name for one in subject.approximations], subject.path)
    spent = effort if isinstance(effort, Effort) else effort_of(effort, timeout, memory)
    if check_engine(engine) == "smt":
        from tantamount.refinement.second import refine_elementwise

        return _answer(refine_elementwise(subject, limits=limits, effort=spent))

    def one(subject: Job) -> Refinement:
        return refine_job(
            subject,
            strict=strict,
            fold=fold,
            progress=progress,
            limits=limits,
            effort=spent,
            so_far=None if so_far is None else partial(_tell, so_far),
            accept=accept,
        )

    given = _rules(subject, rules)
    found = one(subject)
    if given:
        from tantamount.rewriting.settle import with_rules

        bounds = limits if limits is not None else limits_from_environment()
        found = with_rules(
            found, subject, given, one, limits=bounds, effort=spent, accept_tested=accept_tested, strict=strict
        )
    return _answer(found)


def _rules(job: Job, rules: Sequence[UserRule | str | Path]) -> tuple[UserRule, ...]:
    """The rules of a job, and those that are given beside it, which may be in files. Raises :class:`UserError` for two
    of one name."""
    found = list(job.rules)
    for one in rules:
        if isinstance(one, UserRule):
            found.append(one)
        else:
            from tantamount.capture.rule_files import load_rules

            found += load_rules(one)
    names = [one.name for one in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError("job-rule", place=f"rule {twice}", found="two rules of that name", needed="a name for each")
    return tuple(found)


def compare(
    first: object,
    second: object = None,
    *,
    inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    loaders: Sequence[Any] | None = None,
    checkpoint: Mapping[str, Sequence[int]] | None = None,
    relations: Mapping[str, Any] | str | Path | Sequence[str | Path] | None = None,
    outputs: Mapping[str, Any] | None = None,
    save_relations: str | Path | None = None,
    accept: Collection[str] = (),
    strict: bool = False,
    progress: Progress | None = None,
    limits: Limits | None = None,
    effort: str | float | Effort = "normal",
    timeout: float | None = None,
    memory: int | None = None,
    rules: Sequence[UserRule | str | Path] = (),
    accept_tested: bool = False,
    save_rules: str | Path | None = None,
) -> Answer:
    """Prove that two implementations of one model compute the same, or show the operator where they part.

    ``compare(a, b, inputs=(tokens,), loaders=(load_a, load_b))`` takes two PyTorch models, example inputs for both (a
    tuple of arguments, a dict of keywords, or a list of two such), and what fills each from a checkpoint:
    ``load(model, tensors)``, or ``None`` where the checkpoint is the model's own state dict. ``checkpoint`` has the
    shapes of its tensors by name (default: of that state dict). How weights correspond is found by running the loaders
    (docs/compare.md). ``compare(a, b)`` takes captured or read programs, ``compare(job)`` the two programs and the
    relations of a job on one rank.
    ``relations`` and ``outputs`` say how inputs and outputs of the first are made of those of the second, as a job
    does; without loaders, inputs that they leave out are guessed from names and shapes, and the verdict is UNKNOWN
    unless ``accept`` has ``"relation-guessed"``. Outputs are paired by name; where both programs have others, what is
    proved is UNKNOWN unless ``accept`` has ``"outputs-unpaired"``. ``save_relations`` names a file that what was found
    is written to, ``relations`` may name such a file, or three or more of smaller models of the same kind, from which
    those of these sizes follow: no loader is run then. ``save_rules`` names
    a file for the rules that a proof lacks, if pieces of both programs agree in values and are not proved to be equal:
    nothing is written otherwise. The other arguments are those of :func:`refine`. Raises :class:`UserError`."""
    from tantamount.comparison import Comparing, compare_pair, pair_to_compare
    from tantamount.comparison.relation_files import save_relations as save_file

    pair = pair_to_compare(first, second, inputs, loaders, checkpoint, relations, outputs)
    if pair.job.approximations:
        raise UserError(
            "job-approximate", place=pair.job.path, found="approximations, of two implementations",
            needed="refine, whose verdict is up to them",
        )  # fmt: skip
    if save_relations is not None:
        if not pair.document:
            raise UserError(
                "compare-relations", place=str(save_relations), found="a job", needed="two programs",
                hint="the relations of a job are in it",
            )  # fmt: skip
        save_file(Path(save_relations), pair.document)
    spent = effort if isinstance(effort, Effort) else effort_of(effort, timeout, memory)
    how = Comparing(strict=strict, accept=accept, progress=progress, limits=limits, effort=spent,
                    rules=_rules(pair.job, rules), accept_tested=accept_tested)  # fmt: skip
    answer = _answer(compare_pair(pair, how))
    if save_rules is not None and answer.rules:
        write_file(Path(save_rules), answer.rules)
    return answer


def check_engine(name: str) -> str:
    """The name of an engine. Raises :class:`UserError` for any other, and for ``smt`` where z3 is not installed."""
    if name not in ENGINES:
        raise UserError("engine-unknown", place="engine", found=repr(name[:40]), needed=" or ".join(ENGINES))
    if name == "smt":
        from tantamount.smt.solver import load_z3

        load_z3()
    return name


def _tell(so_far: Callable[[Answer], None], found: Refinement) -> None:
    so_far(_answer(found))


def _answer(found: Refinement) -> Answer:
    return Answer(**{field.name: getattr(found, field.name) for field in fields(found)})


def verify_plan(
    plan: Plan | str | Path,
    *,
    model: object = None,
    data: Sequence[str] = (),
    finish: object = None,
    accept: Collection[str] = (),
    limits: Limits | None = None,
    effort: str | float | Effort = "normal",
    timeout: float | None = None,
    memory: int | None = None,
    told: Callable[[str, int, int], None] | None = None,
    together: Callable[[Path, Sequence[Part]], Iterable[PartReport]] | None = None,
    engine: str = "calculus",
) -> PlanReport:
    """The verdict on a training plan (docs/plan.md): the path of a ``plan/1`` file or of its folder, or one that was
    read; a folder of modules that nnScaler generated; or a job, all of whose ranks are one part.

    For generated modules, ``model`` is the model of one device: ``FILE.py:NAME`` or ``MODULE:NAME`` (which runs that
    code), or a PyTorch module with a sample of one microbatch, as a tuple; ``data`` says what a sample is
    (``ids=int64[2,8]``) where the model does not, ``finish`` what follows the step that was generated: an object with
    ``optimizer(parameters)``, ``gradients(parameters)`` and ``rank_gradients(parameters, rank)``, or where to find what
    makes one. ``accept`` names declared approximations that are allowed.
    ``effort``, ``timeout`` and ``memory`` as in :func:`refine`, for all parts together; ``told(part, done, total)`` is
    told of every part before it is looked at. ``together(path, parts)`` may prove the parts of a ``plan/1`` file
    elsewhere. ``engine="smt"``: parts are compared by the second engine, as in :func:`refine`; joints, stages and
    schedule are looked at as ever. Raises :class:`UserError` for a file that is wrong."""
    from tantamount.capture.job import is_job, read_job
    from tantamount.capture.nnscaler.modules import is_generated
    from tantamount.plan.counts import microbatches_of
    from tantamount.plan.files import plan_file
    from tantamount.plan.flat import verify_generated, verify_job
    from tantamount.plan.parts import Plan
    from tantamount.plan.read import read_plan
    from tantamount.plan.verify import verify

    spent = effort if isinstance(effort, Effort) else effort_of(effort, timeout, memory)
    question = partial(refine, limits=limits, effort=spent, engine=check_engine(engine))
    apart: Callable[[Sequence[Part]], Iterable[PartReport]] | None = None
    if not isinstance(plan, Plan):
        path = Path(plan)
        generated = is_generated(path)
        path = path if generated else plan_file(path)
        apart = None if together is None else partial(together, path)
        if together is not None and (generated or is_job(path, limits)):
            raise UserError(
                "command-line", place="--workers, --ray", found=f"{path}, which is no plan/1 file",
                needed="a plan of parts, which processes can share",
            )  # fmt: skip
        if generated:
            return verify_generated(_generated(path, model, data, finish, limits), question)
        if is_job(path, limits):
            job = read_job(path, limits=limits)
            return verify_job(job, partial(question, accept=[one.name for one in job.approximations]), accept)
        plan = read_plan(path, limits=limits)
    report = verify(plan, _part_checker(engine, spent, limits), told, accept, apart)
    if report.verdict is not Verdict.PROVED:
        return report
    begun = time.process_time()
    right, sentence = microbatches_of(plan, question, {assumption.name for assumption in report.assumptions})
    if not sentence:
        return report
    seconds = {**report.seconds, "other numbers": time.process_time() - begun}
    if right:
        return replace(report, holds=(*report.holds, sentence), seconds=seconds)
    note = f"not shown for other numbers of microbatches: {sentence}"
    return replace(report, notes=(*report.notes, note), seconds=seconds)


def _part_checker(engine: str, effort: Effort, limits: Limits | None) -> CheckPart:
    """The function that checks a part by an engine."""
    if engine == "smt":
        from tantamount.plan.second import elementwise_checker

        return elementwise_checker(partial(refine, limits=limits, effort=effort, engine=engine), effort)
    from tantamount.correspond.alignment import align
    from tantamount.plan.prove import part_checker

    closely = partial(refine_job, limits=limits, effort=effort, doubtful=True)
    return part_checker(closely, effort, partial(refine_differing, limits=limits, effort=effort), align)


def verify_part(
    plan: str | Path,
    name: str,
    *,
    effort: str = "normal",
    timeout: float | None = None,
    memory: int | None = None,
    engine: str = "calculus",
) -> PartReport:
    """The report on one part of a ``plan/1`` file, as :func:`verify_plan` has it, with the CPU ``seconds`` it took.
    Raises :class:`UserError` for a file that is wrong."""
    from tantamount.plan.read import read_plan

    spent = effort_of(effort, timeout, memory)
    part = next(one for part in read_plan(plan).parts.values() for one in part.classes() if one.name == name)
    check = _part_checker(check_engine(engine), spent, None)
    begun = time.process_time()
    found = check(part)
    return replace(found, seconds=time.process_time() - begun)


def _generated(path: Path, model: object, data: Sequence[str], finish: object, limits: Limits | None) -> Generated:
    """The plan of a folder of generated modules."""
    from tantamount.capture.nnscaler.layout import mesh_of, unit_of
    from tantamount.capture.nnscaler.modules import read_folder
    from tantamount.capture.nnscaler.steps import follow
    from tantamount.capture.nnscaler.together import said_of_runtime
    from tantamount.limits import limits_from_environment
    from tantamount.plan.flat import Generated

    modules = read_folder(path, limits or limits_from_environment())
    steps = follow(modules)
    unit = unit_of(modules) if steps.ranks else len(modules)
    mesh = mesh_of(modules, unit).axes if steps.ranks else {"rank": unit}

    def job() -> Job:
        from tantamount.capture import generated_job

        return generated_job(modules, steps, model, data)

    def after() -> Job:
        from tantamount.capture import finish_job

        return finish_job(modules, model, data, finish)

    more = max((len(rank.results) for rank in steps.ranks), default=1) - 1
    notes = (f"of what the step returns, the loss is compared; {more} more is not",) if more > 0 else ()
    stages = {event.function for rank in steps.ranks for event in rank.events if event.kind == "forward"}
    return Generated(
        path=str(path), name=path.name, kind=f"nnScaler {modules[0].version}", mesh=mesh,
        microbatches=modules[0].microbatches, stages=max(len(stages), 1), calls=steps.count, wrong=steps.wrong,
        unknown=steps.unknown, assumptions=said_of_runtime(modules, unit), job=job if steps.ranks else None,
        finish=None if finish is None else after, notes=notes,
    )  # fmt: skip
