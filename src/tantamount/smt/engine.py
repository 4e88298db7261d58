"""Both programs, element by element: terms, what was shown equal on the way, outputs.

The specification runs once, every rank in lock step. A tensor of a rank whose elements have the values of elements of
the specification at random points is a stage: each element is compared, by expression first, then by z3, and what is
equal goes on as the specification's element. So what is asked about a later tensor is about the operators between, not
about the whole program. What random points propose, nothing rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tantamount.effort import Effort
from tantamount.errors import Unsupported
from tantamount.ir.graph import Graph, Node
from tantamount.ir.job import SAME_NAME, Job
from tantamount.ir.layouts import layouts
from tantamount.ir.relation import Expectation
from tantamount.ir.types import Kind, TensorType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import Result, constant_type, recorded_constant, run
from tantamount.ops.lockstep import run_ranks
from tantamount.ops.relations import Pair, pairs
from tantamount.semantics.survey import survey
from tantamount.smt.arithmetic import scaled
from tantamount.smt.inputs import Inputs, build_inputs
from tantamount.smt.interpretation import Array, Elements, array_of
from tantamount.smt.knowledge import Knowledge, conditions_in, required
from tantamount.smt.separation import separated
from tantamount.smt.solver import Solver, load_z3
from tantamount.smt.terms import Condition, Element, Table, Term, exact_number, whole
from tantamount.smt.values import Values

__all__ = ["Compared", "Output", "Stage", "compare"]

_LONG = 6  # terms of a sum of the specification from which on it is one summand of others
_CANDIDATES = 2  # elements of the specification with the values of one of a rank that are asked about


@dataclass(frozen=True, slots=True)
class Stage:
    """A tensor of a rank with elements that z3 showed to be those of the specification: how many."""

    rank: int
    node: str
    elements: int


@dataclass(frozen=True, slots=True)
class Output:
    """One output: ``equal`` where every element was shown to be; else ``reason``, one clause, and ``differs`` if some
    have other values at random points. ``relation`` is the expectation, or the placements that were found."""

    name: str
    equal: bool
    relation: str
    reason: str = ""
    differs: bool = False
    elements: int = 0


@dataclass(frozen=True)
class Compared:
    """The result of a comparison. Elements of outputs are settled ``by_expression`` (of these in stages ``staged``:
    replaced by the specification's on the way), or ``by_solver``; ``renamed`` questions were another one with other
    names. ``assumed``: where the specification is assumed to be defined, with what for; ``indices`` that are in
    range."""

    outputs: tuple[Output, ...]
    stages: tuple[Stage, ...] = ()
    by_expression: int = 0
    by_solver: int = 0
    undecided: int = 0
    questions: int = 0
    renamed: int = 0
    terms: int = 0
    assumed: tuple[str, ...] = ()
    indices: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    dropouts: int = 0
    restricted: tuple[str, ...] = ()
    contradictory: bool = False


def compare(job: Job, effort: Effort) -> Compared:
    """Both programs at the sizes of the job, element by element. Raises :class:`Unsupported` for what has no terms, and
    :class:`UserError` where z3 is not installed or the ranks' collectives do not match."""
    z3 = load_z3()
    groups = {name: job.mesh.group_size(name) for name in job.mesh.groups}
    surveys = {id(graph): survey(graph, groups) for graph in job.implementation}
    ours = survey(job.specification)
    work = ours.work + sum(surveys[id(graph)].work for graph in job.implementation)
    if effort.exceeds("smt_work", work):
        raise Unsupported(f"executing both programs with terms takes {work:.2g} element operations")
    bounds = dict(ours.index_bounds)
    for found in surveys.values():
        for name, bound in found.index_bounds.items():
            bounds.setdefault(name, bound)
    return _Comparison(job, effort, z3, Table(), Values(bounds)).compared()


@dataclass
class _Comparison:
    job: Job
    effort: Effort
    z3: object
    table: Table
    values: Values
    pool: dict[Term, None] = field(default_factory=dict[Term, None])  # elements of the specification's tensors
    by_value: dict[tuple[int, ...], list[Term]] = field(default_factory=dict[tuple[int, ...], "list[Term]"])
    settled: dict[Term, Element] = field(default_factory=dict[Term, Element])
    stages: dict[tuple[int, str], int] = field(default_factory=dict[tuple[int, str], int])
    constants: dict[str, None] = field(default_factory=dict[str, None])
    masks: list[dict[Element, Term | None]] = field(default_factory=list["dict[Element, Term | None]"])
    lost: dict[Condition, str] = field(default_factory=dict[Condition, str])

    def compared(self) -> Compared:
        job, table = self.job, self.table
        inputs = build_inputs(table, job)
        specification = self._specification(inputs)
        wholes = {
            output.name: self._tensor(specification[output.node], output.name)
            for output in job.specification.outputs
            if output.name in job.outputs
        }
        self.knowledge = Knowledge(table, self._assumed(wholes.values()))
        self.solver = Solver(self.z3, self.knowledge, self.effort, equalities=inputs.equalities)
        contradictory = not self._possible(inputs)
        table.forgive()
        ranks = [Elements(table, rank, "rank", self._mask) for rank in range(job.mesh.world_size)]
        environments = run_ranks(
            job.implementation, job.mesh, ranks, inputs.ranks, constant=self._constant, each=self._replaced
        )
        for on in ranks:
            self._note(on.ranges, "")
        self._note(table.lost, "")
        problem = self._undefined(self.lost)
        outputs = [self._output(name, whole, environments, problem) for name, whole in wholes.items()]
        return Compared(
            outputs=tuple(output for output, _ in outputs),
            stages=tuple(Stage(rank, node, count) for (rank, node), count in self.stages.items()),
            by_expression=sum(counts[0] for _, counts in outputs),
            by_solver=sum(counts[1] for _, counts in outputs),
            undecided=sum(counts[2] for _, counts in outputs),
            questions=self.solver.questions,
            renamed=self.solver.tally.renamed,
            terms=len(table),
            assumed=self._told("nonzero", "nonnegative", "positive"),
            indices=self._told("range"),
            constants=tuple(self.constants),
            dropouts=len(self.masks),
            restricted=tuple(inputs.restricted),
            contradictory=contradictory,
        )

    # ------------------------------------------------------------------------------------------- the specification
    def _specification(self, inputs: Inputs) -> Mapping[str, Result]:
        on = Elements(self.table, 0, "specification", self._first_mask)
        sites: dict[Condition, str] = {}

        def each(node: Node, result: Result) -> Result:
            self.effort.check()
            for condition in on.ranges:
                sites.setdefault(condition, node.name)
            return _mapped(result, self._entered)

        found = run(self.job.specification, on, inputs.specification, constant=self._constant, each=each)
        self.ranges = sites
        return found

    def _entered(self, x: Element) -> Element:
        """An element of the specification, cut where it is a long sum, entered in the pool."""
        if type(x) is not Term:
            return x
        if x.op == "sum" and len(x.args[1]) > _LONG:
            x = self.table.cut(x)
            self.settled[x.args[0]] = x
        if x not in self.pool:
            self.pool[x] = None
            if x.op != "var":
                for key in self.values.signature(x):
                    self.by_value.setdefault(key, []).append(x)
        return x

    def _assumed(self, wholes: Iterable[Tensor]) -> dict[Condition, str]:
        """The conditions without which some output that is checked is not finite, and the ranges of indices."""
        found = dict.fromkeys(required(x for whole in wholes for x in whole.value.flat), "")
        return {**dict.fromkeys(found, ""), **self.ranges}

    def _possible(self, inputs: Inputs) -> bool:
        """True if what is assumed holds at one of a few random points."""
        points = [True] * self.values.points
        for condition in self.knowledge.assumed:
            for k, value in enumerate(self.values.of(condition.term)):
                points[k] = points[k] and _met(condition, value)
        return any(points)

    def _told(self, *kinds: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(site for c, site in self.knowledge.assumed.items() if c.kind in kinds))

    # ------------------------------------------------------------------------------------------- constants and masks
    def _constant(self, graph: Graph, node: Node, builder: Builder) -> Tensor:
        assumed = self.job.assume.constants
        if node.target in graph.constants or assumed is None:
            return recorded_constant(graph, node, builder)
        self.constants[node.target] = None
        type_ = constant_type(graph, node)
        stored = type_.stored
        count = _count(stored)
        if assumed == SAME_NAME:
            kind = stored.dtype.kind
            items: list[Element] = [
                self.table.variable(
                    ("constant", node.target, str(type_), k), integer=kind is not Kind.FLOAT, boolean=kind is Kind.BOOL
                )
                for k in range(count)
            ]
        else:
            items = [exact_number(assumed)] * count
        return Tensor(type_.shape, type_.dtype, array_of(items, stored.shape))

    def _first_mask(self, number: int, like: Array) -> Array:
        """The masks of the specification: each element belongs to the number that it drops."""
        known: dict[Element, Term | None] = {}
        out: list[Element] = []
        for k, x in enumerate(like.flat):
            mine = self.table.variable(("mask", number, k), integer=True, boolean=True)
            known[x] = mine if x not in known else None
            out.append(mine)
        self.masks.append(known)
        return array_of(out, like.shape)

    def _mask(self, number: int, like: Array) -> Array:
        """The masks of a rank: parts of those of the specification."""
        if not self.job.assume.dropout:
            raise Unsupported("dropout of the implementation, where the job does not say `same mask`")
        if number >= len(self.masks):
            raise Unsupported("a dropout of the implementation without a counterpart")
        known = self.masks[number]
        out: list[Element] = []
        for x in like.flat:
            mine = known.get(x)
            if mine is None:
                raise Unsupported("a dropout of numbers that the specification's does not have, or has twice")
            out.append(mine)
        return array_of(out, like.shape)

    # ------------------------------------------------------------------------------------------- the ranks
    def _replaced(self, rank: int, node: Node, result: Result) -> Result:
        """A node's result, with elements that were shown to be the specification's replaced by these."""
        self.effort.check()
        self._note(self.table.lost, node.name)
        self.table.lost.clear()
        before = self.solver.tally.solver
        found = _mapped(result, self._known)
        count = self.solver.tally.solver - before
        if count:
            self.stages[rank, node.name] = self.stages.get((rank, node.name), 0) + count
        return found

    def _known(self, b: Element) -> Element:
        """The element of the specification, or the multiple of one, that ``b`` was shown to be, or ``b``."""
        if type(b) is not Term or b in self.pool:
            return b
        found = self.settled.get(b)
        if found is None:
            found = self.settled[b] = self._sought(b)
        return found

    def _sought(self, b: Term) -> Element:
        candidates = dict.fromkeys(a for key in self.values.signature(b) for a in self.by_value.get(key, ()))
        tried = 0
        for a in candidates:
            factor = self.values.multiple(a, b)
            if factor is None:
                continue
            wanted = scaled(self.table, whole(factor), a)
            if self.solver.equal(wanted, b, self.pool) and not self._undefined(
                conditions_in(b), (a,), infinities=False
            ):
                return wanted
            tried += 1
            if tried == _CANDIDATES:
                break
        return b

    def _note(self, found: Mapping[Condition, str], site: str) -> None:
        for condition, at in found.items():
            self.lost.setdefault(condition, at or site)

    def _undefined(
        self, conditions: Mapping[Condition, object], where: Sequence[Element] = (), *, infinities: bool = True
    ) -> str:
        """A text that says where something was not shown to be defined, at the places of the elements ``where``; empty
        if there is no such place."""
        more = required(where, infinities=infinities)
        for condition, site in conditions.items():
            if not self.knowledge.holds(condition, more) and not self.solver.holds(condition):
                at = f" at {site}" if site else ""
                return f"the implementation was not shown to be defined{at}: {_TEXT[condition.kind]}"
        return ""

    # ------------------------------------------------------------------------------------------- outputs
    def _tensor(self, result: Result, name: str) -> Tensor:
        if not isinstance(result, Tensor):
            raise Unsupported(f"{name} is not one tensor")
        return result

    def _output(
        self, name: str, whole: Tensor, environments: Sequence[Mapping[str, Result]], problem: str
    ) -> tuple[Output, tuple[int, int, int]]:
        wanted = self.job.outputs[name]
        if wanted.problem:
            return Output(name, False, wanted.text, wanted.problem, differs=True), (0, 0, 0)
        options = self._layouts(name, wanted, whole, environments) if wanted.infer else [wanted]
        best: tuple[Output, tuple[int, int, int]] | None = None
        for one in options:
            try:
                sides = list(self._pairs(whole, one, environments))
            except (Unsupported, ValueError) as unfit:
                best = best or (Output(name, False, one.text, f"shapes do not fit: {unfit}"), (0, 0, 0))
                continue
            if wanted.infer and any(self.values.same(a, b) is False for a, b in _elements(sides)):
                continue
            best = self._elements(name, one, sides, problem)
            if best[0].equal:
                break
        return best or (Output(name, False, "infer", "no placement has its values"), (0, 0, 0))

    def _layouts(
        self, name: str, wanted: Expectation, whole: Tensor, environments: Sequence[Mapping[str, Result]]
    ) -> list[Expectation]:
        """The placements of an output of that name that its shape on the ranks allows."""
        held = environments[0].get(self._node(0, name))
        if not isinstance(held, Tensor):
            return []
        found = layouts(whole.shape, self.job.mesh.sizes, local=held.shape, partial=True)
        return [replace(wanted, name=name, placements=one, text=_shown(one)) for one in found]

    def _node(self, rank: int, name: str) -> str:
        return next((o.node for o in self.job.implementation[rank].outputs if o.name == name), name)

    def _pairs(
        self, whole: Tensor, wanted: Expectation, environments: Sequence[Mapping[str, Result]]
    ) -> Iterable[Pair]:
        def held(rank: int, name: str) -> Array:
            return self._tensor(environments[rank][self._node(rank, name)], name).value

        on = Elements(self.table, 0, "relation")
        value: Array = whole.value
        for pair in pairs(on, value, value.shape, wanted, self.job.mesh, held):
            if pair.wanted.shape != pair.found.shape:
                raise Unsupported(f"shape {list(pair.found.shape)} where {list(pair.wanted.shape)} is needed")
            yield pair

    def _elements(
        self, name: str, wanted: Expectation, sides: Sequence[Pair], problem: str
    ) -> tuple[Output, tuple[int, int, int]]:
        same = solved = open_ = 0
        reason = ""
        differs = False
        done: dict[tuple[Element, Element], str | None] = {}
        for side in sides:
            for a, b in zip(side.wanted.flat, map(self._known, side.found.flat), strict=True):
                if a is b or (type(a) is not Term and type(b) is not Term and a == b):
                    same += 1
                    continue
                if (a, b) not in done:
                    done[a, b] = self._differing(a, b)
                why = done[a, b]
                if why is None and wanted.equal:  # of two tensors of ranks neither is the specification's
                    why = self._undefined(conditions_in(a)) or None
                if why is None:
                    solved += 1
                    continue
                open_ += 1
                reason = reason or f"{why} ({side.where})"
                differs = differs or self.values.same(a, b) is False
        counts = (same, solved, open_)
        if not reason and problem:
            reason = problem
        if not reason and not sum(counts):
            reason = "the output has no elements"
        return Output(name, not reason, wanted.text, reason, differs, sum(counts)), counts

    def _equal(self, a: Element, b: Element) -> bool:
        """True if two elements were shown to be equal, as they are or part by part."""
        if self.solver.equal(a, b, self.pool):
            return True
        parts = separated(self.table, a, b)
        return bool(parts) and all(self.solver.equal(x, y, self.pool) for x, y in parts)

    def _differing(self, a: Element, b: Element) -> str | None:
        """``None`` if an element was shown to be equal wherever the specification's is finite; else why not."""
        if type(a) is float:
            return None if type(b) is float and a == b else "the specification is infinite there"
        if type(b) is float:
            return "the implementation is infinite there"
        if self.values.same(a, b) is False:
            return "elements have other values"
        if not self._equal(a, b):
            return "elements have equal values at random points, and were not shown to be equal"
        return self._undefined(conditions_in(b), (a,)) or None


_TEXT = {
    "nonzero": "a divisor may be 0",
    "nonnegative": "a root may be of a negative number",
    "positive": "a root or logarithm may be of a number that is not positive",
    "finite": "a maximum may be over nothing",
    "range": "an index may be out of range",
    "defined": "a function may be undefined",
    "never": "an undefined number is used",
}


def _met(condition: Condition, value: float) -> bool:
    if condition.kind == "range":
        return 0 <= value < condition.size
    return {"nonzero": value != 0, "nonnegative": value >= 0, "positive": value > 0}.get(condition.kind, True)


def _elements(sides: Iterable[Pair]) -> Iterable[tuple[Element, Element]]:
    for side in sides:
        yield from zip(side.wanted.flat, side.found.flat, strict=True)


def _mapped(result: Result, change: Callable[[Element], Element]) -> Result:
    """A node's result with every element changed."""
    if isinstance(result, tuple):
        return tuple(_changed(x, change) if isinstance(x, Tensor) else x for x in result)
    return _changed(result, change) if isinstance(result, Tensor) else result


def _changed(tensor: Tensor, change: Callable[[Element], Element]) -> Tensor:
    items = [change(x) for x in tensor.value.flat]
    return replace(tensor, value=array_of(items, tensor.value.shape))


def _count(type_: TensorType) -> int:
    count = 1
    for size in type_.shape:
        count *= size
    return count


def _shown(placements: Collection[object]) -> str:
    items = [str(one) for one in placements]
    return items[0] if len(items) == 1 else f"[{', '.join(items)}]" if items else "Replicate()"
