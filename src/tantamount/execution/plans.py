"""Both programs on the same numbers: leaves are drawn, the inputs of both sides follow from them, both sides run.

The input relation is checked again on the arrays, so that a mistake in the forms of the inputs cannot hide here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any
from zlib import crc32

import numpy as np

from tantamount.calculus.atoms import Store
from tantamount.calculus.evaluate import Evaluator
from tantamount.calculus.forms import Form
from tantamount.errors import InternalError, TantamountError, Unsupported, UserError
from tantamount.execution.arrays import comparisons
from tantamount.execution.leaves import Leaf, LeafName, Leaves, Pool, Scale, draw_leaves
from tantamount.ir.graph import Graph
from tantamount.ir.job import SAME_NAME, Job
from tantamount.ir.types import DType, Kind, Shape
from tantamount.limits import Limits
from tantamount.ops.algebra import Law, Number
from tantamount.ops.classes import RankClass, rank_classes
from tantamount.ops.functions import Ties
from tantamount.proof.draws import DRAWN, law_of
from tantamount.proof.inputs import Inputs
from tantamount.proof.run import RanksRun, SpecificationRun
from tantamount.semantics.draws import sample
from tantamount.semantics.interpret import Constants, Evaluation, interpret, interpret_ranks, random_constants
from tantamount.semantics.reference import STOPS, Array, IntegerOverflow, Masks
from tantamount.semantics.stacked import interpret_stacked
from tantamount.semantics.survey import survey
from tantamount.semantics.tape import Tape

__all__ = [
    "LITTLE", "Execution", "Given", "Leaf", "Leaves", "NotExecuted", "Plan", "Scale", "TooLarge", "draw", "execute",
    "executed_on", "given", "plan_execution",
]  # fmt: skip

_SOURCES = ("input", "implementation input", "free input")
_INTEGERS = 4  # integers of unknown use are drawn below this
_WIDE = 1 << 17  # and, every other time, up to this
LITTLE = 1 << 13  # elements of a node: fewer take no longer than finding out which operator to apply
_UNDEFINED = "undefined-integer"
_STAND_INS = (  # for such numbers, beside 0: of -inf, inf and NaN, which processors tell apart or do not
    ((1 << 40) + 1, -(1 << 40) - 1, 5),
    (-(1 << 31), -(1 << 31), -(1 << 31)),
    (-(1 << 31), (1 << 31) - 1, 0),
    (-(1 << 61), 1 << 61, -(1 << 61)),
)
_EXACT = (*STOPS, "undefined-comparison", _UNDEFINED, "unfit", "double-write", "inexact", "doubtful")


class NotExecuted(TantamountError):
    """Raised where the two programs cannot both be executed; the text says why, in one clause."""


class TooLarge(NotExecuted):
    """Both programs together exceed the limits of what is executed."""


class _Unpaired(TantamountError):
    """A dropout whose mask the proof does not know of."""


@dataclass
class Tapes:
    """The primitives of the programs of a plan, once they were executed: of the specification, of ranks executed one by
    one, and of ranks executed as one. ``flagged``: an execution of ranks as one did not say whose its flags are.
    ``classes``: of the ranks, once they are asked for. ``executed``: what was executed on inputs that are looked at
    again, by their seeds and scales."""

    specification: Tape = field(default_factory=Tape)
    ranks: Tape = field(default_factory=Tape)
    together: Tape = field(default_factory=Tape)
    flagged: bool = False
    classes: Sequence[RankClass] | None = None
    executed: dict[tuple[int, Scale], tuple[Leaves, Execution | None]] = field(default_factory=dict[Any, Any])


@dataclass(frozen=True)
class Plan:
    """The inputs and masks that executing a job takes. ``work`` counts element operations of one execution of both
    sides, ``elements`` those of all its tensors; ``paired`` is True if every mask of the implementation is a known part
    of the specification's, or only one side has any (else nothing is dropped); ``proved``: there is a proof, which says
    what other draws of the implementation are; ``together``: the tensors are so small that ranks of one program are
    executed as one."""

    job: Job
    store: Store
    inputs: Inputs
    specification: SpecificationRun
    implementation: RanksRun
    leaves: tuple[Leaf, ...]
    work: int
    paired: bool
    pool: Pool
    jumps: bool
    elements: int = 0
    together: bool = False
    proved: bool = True
    tapes: Tapes = field(default_factory=Tapes, init=False)  # its own, of this job: not those of what it is made of

    @property
    def classes(self) -> Sequence[RankClass]:
        """The classes of ranks that run one program, up to numbers."""
        if self.tapes.classes is None:
            self.tapes.classes = rank_classes(self.job.implementation, self.job.mesh)
        return self.tapes.classes


@dataclass(frozen=True)
class Given:
    """The values that one execution of both programs starts from: inputs of the specification and of every rank,
    constants that graphs do not record, and fresh masks for the dropouts of a rank (``None``: of the specification)."""

    specification: Mapping[str, Array]
    ranks: Sequence[Mapping[str, Array]]
    constants: Constants
    masks: Callable[[int | None], Masks]


@dataclass(frozen=True)
class Execution:
    """The values of all nodes, and of the specification's inputs."""

    inputs: Mapping[str, Array]
    specification: Evaluation
    ranks: list[Evaluation]
    reached: bool = False

    @property
    def in_reals(self) -> bool:
        """No overflow: the values are those of the reals, up to rounding."""
        return not any("overflow" in side.left_range for side in (self.specification, *self.ranks))

    @property
    def underflow(self) -> bool:
        return any("underflow" in side.left_range for side in (self.specification, *self.ranks))

    @property
    def tied(self) -> bool:
        """Some operator chose among equal elements, as PyTorch does not promise."""
        return any(flag.what == "tie" for side in (self.specification, *self.ranks) for flag in side.flags)

    @property
    def within_assumptions(self) -> bool:
        """The specification's indices are in range, none of its discrete values comes from an undefined one, and no
        output of the implementation depends on a whole number that an infinity became."""
        return not self.reached and not any(flag.what in (*_EXACT, "from-end") for flag in self.specification.flags)


def plan_execution(
    store: Store, job: Job, inputs: Inputs, specification: SpecificationRun, implementation: RanksRun, limits: Limits
) -> Plan:
    """Raises :class:`TooLarge` beyond the limits ``witness_elements`` and ``witness_work``."""
    groups = {name: job.mesh.group_size(name) for name in job.mesh.groups}
    if implementation.fresh_draws:
        raise NotExecuted(
            f"it is not clear which random numbers of the specification {implementation.fresh_draws[0]} draws"
        )
    try:
        ours = survey(job.specification)
        known: dict[int, Any] = {}
        for graph in job.implementation:
            if id(graph) not in known:
                known[id(graph)] = survey(graph, groups)
    except Unsupported as problem:
        raise NotExecuted(problem.reason) from None
    theirs = [known[id(graph)] for graph in job.implementation]
    elements = ours.kept + ours.largest + sum(s.kept + s.largest for s in theirs)
    work = ours.work + sum(s.work for s in theirs)
    for count, limit, what, name in (
        (elements, limits.witness_elements, "tensor elements", "witness_elements"),
        (work, limits.witness_work, "element operations", "witness_work"),
    ):
        if count > limit:
            raise TooLarge(
                f"executing both programs takes {count:.2g} {what}, more than {limit:.2g} (limit {name}; "
                f"raise it with TANTAMOUNT_LIMIT_{name.upper()}=<number>)"
            )
    bounds: dict[str, int] = {}
    for s in theirs:
        for name, bound in s.index_bounds.items():
            bounds[name] = min(bound, bounds.get(name, bound))
    leaves: list[Leaf] = []
    for atom in store.atoms:
        if atom.op != "leaf" or atom.attributes[0] not in _SOURCES or atom.shape is None:
            continue
        source: str = atom.attributes[0]
        name: Any = atom.attributes[1]
        kind = Kind.BOOL if atom.facts.boolean else Kind.INT if atom.facts.integer else Kind.FLOAT
        plain = name if isinstance(name, str) else str(name[0])
        bound = (ours.index_bounds if source == "input" else bounds).get(plain)
        span = atom.facts.span or (0 if atom.facts.nonnegative else -_WIDE, _WIDE)
        span = span if bound is None else None
        sides = (ours,) if source == "input" else theirs
        special = sorted({n for side in sides for n in side.special.get(plain, ())}, key=lambda n: (abs(n), n))
        special = store.effort.first("drawn_integers", special)
        least = max(1, _INTEGERS if bound is None else bound)
        ordered = max((side.ordered[plain] for side in sides if plain in side.ordered), default=None)
        leaf, real = (source, name), kind is Kind.FLOAT
        leaves.append(
            Leaf(
                leaf,
                atom.shape,
                kind,
                least,
                span,
                tuple(special),
                atom.facts.rounded,
                real and atom.facts.nonnegative,
                ordered if atom.shape else None,
            )
        )
    one_sided = not implementation.drops or not specification.dropouts  # then no masks belong together
    paired = (job.assume.dropout and not implementation.fresh_masks) or one_sided
    sides = (ours, *theirs)
    pool = Pool.of((number for side in sides for number in side.numbers), store.effort)
    jumps = any(side.jumps for side in sides) or any(leaf.kind is not Kind.FLOAT for leaf in leaves)
    together = work <= 2 * LITTLE * sum(len(graph.nodes) for graph in (job.specification, *job.implementation))
    return Plan(
        job, store, inputs, specification, implementation, tuple(leaves), work, paired, pool, jumps, elements, together
    )


def draw(plan: Plan, seed: int, scale: Scale) -> dict[LeafName, Array]:
    """Random leaves; the same for the same seed and scale."""
    return draw_leaves(plan.leaves, plan.pool, seed, scale)


def executed_on(plan: Plan, seed: int, scale: Scale, *, keep: bool = False) -> tuple[Leaves, Execution | None]:
    """Random leaves, and both programs on them; see :func:`draw` and :func:`execute`. ``keep``: the next who asks for
    the same gets what was computed."""
    found = plan.tapes.executed.pop((seed, scale), None)
    if found is None:
        leaves = draw(plan, seed, scale)
        found = leaves, execute(plan, leaves, seed)
    if keep:
        plan.tapes.executed[seed, scale] = found
    return found


def execute(
    plan: Plan, leaves: Leaves, seed: int, ties: Ties = Ties.USUAL, noise: int = 0, stacked: bool = False
) -> Execution | None:
    """Both programs on these leaves, with one of the choices that operators may make among equal elements, and with
    other rounding errors for every ``noise`` but 0; ``None`` if the numbers leave the range of exact integers.
    ``stacked``: ranks that run one program are executed as one however large they are, and flags are those of all.

    Raises :class:`NotExecuted` where the reference interpreter cannot, :class:`InternalError` if the inputs of the two
    sides do not satisfy the job's relation."""
    plan.store.effort.check()
    try:
        return _execute(plan, leaves, seed, ties, noise, stacked)
    except _Unpaired:
        return execute(replace(plan, paired=False), leaves, seed, ties, noise, stacked)
    except IntegerOverflow:
        return None
    except Unsupported as problem:
        raise NotExecuted(problem.reason) from None
    except UserError as problem:
        raise NotExecuted(f"{problem.place}: {problem.found}, needed {problem.needed}") from None


def given(plan: Plan, leaves: Leaves, seed: int) -> Given:
    """The inputs that both programs are run on."""
    job = plan.job
    values = {**leaves, **_drawn_leaves(plan, seed)}
    evaluator = Evaluator(plan.store, values)
    specification = {
        node.name: _typed(job.specification, node.name, evaluator.form(plan.inputs.specification[node.name]))
        for node in job.specification.inputs
    }
    stacked = {name: evaluator.form(form) for name, form in plan.inputs.stacked.items()}
    ranks: list[dict[str, Array]] = []
    for rank, graph in enumerate(job.implementation):
        here: dict[str, Array] = {}
        for node in graph.inputs:
            if node.name in stacked:
                value = stacked[node.name][job.mesh.coordinates(rank)]
            else:
                value = evaluator.form(plan.inputs.locals[rank, node.name])
            here[node.name] = _typed(graph, node.name, value)
        ranks.append(here)
    _check_relations(job, specification, ranks)
    return Given(specification, ranks, _constants(job, seed), lambda rank: _masks(plan, evaluator, rank))


def _execute(plan: Plan, leaves: Leaves, seed: int, ties: Ties, noise: int, stacked: bool) -> Execution:
    job, graph = plan.job, plan.job.specification
    on = given(plan, leaves, seed)
    masks = [on.masks(rank) for rank in range(len(on.ranks))]
    expected = interpret(
        graph,
        on.specification,
        seed=seed,
        constants=on.constants,
        masks=on.masks(None),
        ties=ties,
        noise=noise,
        tape=plan.tapes.specification,
    )
    if _undefined(expected) and not _reached(
        [graph], [expected],
        lambda numbers: [
            interpret(
                graph, on.specification, seed=seed, constants=on.constants, masks=on.masks(None), ties=ties,
                noise=noise, undefined=numbers,
            )
        ],
    ):  # fmt: skip
        expected = replace(expected, flags=tuple(flag for flag in expected.flags if flag.what != _UNDEFINED))
    actual: list[Evaluation] | None = None
    if stacked or (plan.together and not plan.tapes.flagged):
        actual = interpret_stacked(
            job.implementation, job.mesh, on.ranks, seed=seed, constants=on.constants, ties=ties, noise=noise,
            masks=on.masks, tape=plan.tapes.together, classes=plan.classes,
        )  # fmt: skip
        if actual is not None and not stacked and any(one.flags for one in actual):
            actual = None  # whose they are is asked for
            plan.tapes.flagged = True
    if actual is None:
        actual = interpret_ranks(
            job.implementation, job.mesh, on.ranks, seed=seed, constants=on.constants, masks=masks, ties=ties,
            noise=noise, tape=plan.tapes.ranks,
        )  # fmt: skip
    for program, values in ((graph, expected), *zip(job.implementation, actual, strict=True)):
        _require_held(program, values)
    reached = any(map(_undefined, actual)) and _reached(
        job.implementation, actual,
        lambda numbers: interpret_ranks(
            job.implementation, job.mesh, on.ranks, seed=seed, constants=on.constants,
            masks=[on.masks(rank) for rank in range(len(on.ranks))], ties=ties, noise=noise, undefined=numbers,
        ),
    )  # fmt: skip
    return Execution(on.specification, expected, actual, reached)


def _undefined(values: Evaluation) -> bool:
    """True if an infinity or a NaN became a whole number."""
    return any(flag.what == _UNDEFINED for flag in values.flags)


def _reached(
    graphs: Sequence[Graph],
    found: Sequence[Evaluation],
    again: Callable[[tuple[int, int, int]], Sequence[Evaluation]],
) -> bool:
    """True if outputs of programs may depend on whole numbers that infinities became: ``again`` executes them with
    others instead. Where outputs are the same whatever stands for them (buckets of distances, of which those of 0 are
    replaced), they say nothing of what a processor makes of them."""
    kinds = {flag.what for values in found for flag in values.flags}
    for numbers in _STAND_INS:
        try:
            others = again(numbers)
        except (IntegerOverflow, Unsupported):
            return True
        if {flag.what for values in others for flag in values.flags} != kinds:
            return True
        for graph, one, other in zip(graphs, found, others, strict=True):
            pairs = ((one.array(output.node), other.array(output.node)) for output in graph.outputs)
            if not all(np.array_equal(x, y, equal_nan=True) for x, y in pairs):
                return True
    return False


def _require_held(graph: Graph, values: Evaluation) -> None:
    """Raise :class:`IntegerOverflow` for a number that its type of 32 bits does not hold: that there is none is
    assumed, and what is found beyond is none of the program's results."""
    for node in graph.nodes:
        if node.type is None or node.type.dtype not in (DType.INT32, DType.UINT32):
            continue
        value, (low, high) = values.values_by_node.get(node.name), node.type.dtype.bounds
        if isinstance(value, np.ndarray) and value.size and (value.min() < low or value.max() > high):
            raise IntegerOverflow(f"{node.name} beyond {node.type.dtype.label}")


def _typed(graph: Graph, name: str, value: Array) -> Array:
    type_ = graph.by_name[name].type
    if type_ is None or not type_.dtype.is_integral:
        return value
    return value != 0 if type_.dtype.kind is Kind.BOOL else np.asarray(np.rint(value), dtype=np.int64)


def _check_relations(job: Job, specification: Mapping[str, Array], ranks: list[dict[str, Array]]) -> None:
    for name, whole in specification.items():
        if name not in job.inputs:
            continue
        for c in comparisons(whole, job.inputs[name], job.mesh, lambda rank, tensor: ranks[rank][tensor]):
            if np.array_equal(c.wanted, c.found):  # as all are that move elements: much cheaper than the next question
                continue
            if not np.allclose(c.wanted, c.found, rtol=1e-12, atol=1e-12):
                raise InternalError(f"the inputs drawn for {name} do not satisfy {job.inputs[name].text}")


def _constants(job: Job, seed: int) -> Constants:
    assumed = job.assume.constants
    if assumed is None:
        return None
    if assumed == SAME_NAME:
        return random_constants([job.specification, *job.implementation], seed)
    value = Fraction(assumed)
    return int(value) if value.denominator == 1 else float(value)


# ------------------------------------------------------------------------------------------------ random numbers
def _drawn_leaves(plan: Plan, seed: int) -> dict[LeafName, Array]:
    """The numbers of all draws that the proof knows of."""
    found: dict[LeafName, Array] = {}
    for atom in plan.store.atoms:
        if atom.op == "leaf" and atom.attributes[0] in DRAWN and atom.shape is not None:
            kind, name = atom.attributes
            generator = np.random.default_rng([seed, 0xD0, crc32(repr(name).encode())])
            drawn = sample(law_of(name), generator, atom.shape, coarse=seed % 3 == 2)
            found[kind, name] = np.asarray(drawn, dtype=np.float64)
    return found


def _masks(plan: Plan, evaluator: Evaluator, rank: int | None) -> Masks:
    """The draws of the specification (``rank`` is ``None``) or of a rank, by site.

    Where some mask of the implementation is not a known part of the specification's, every element is kept, on both
    sides: a draw that is possible whatever belongs together."""
    calls: dict[str, int] = {}

    def mask(site: str, ordinal: int, shape: Shape, p: Number | Law) -> Array | None:
        position = calls[site] = calls.get(site, -1) + 1
        if not isinstance(p, Law) and not plan.paired:
            return np.full(shape, float(p) < 1)
        if not plan.proved:
            raise NotExecuted(f"it is not clear which random numbers {site} draws")
        if rank is None:
            known, where = plan.specification.masks.get(f"specification {site}"), ()
        else:
            known, where = plan.implementation.mask(rank, site)
        value = _pick(known, position, evaluator, shape, where)
        if isinstance(p, Law):
            return value
        if value is None:
            raise _Unpaired("a dropout without a counterpart")
        return value != 0

    return mask


def _pick(
    known: list[Form] | None, position: int, evaluator: Evaluator, shape: Shape, where: tuple[int, ...]
) -> Array | None:
    if known is None or position >= len(known):
        return None
    value = evaluator.form(known[position])[where]
    return value if value.shape == shape else None
