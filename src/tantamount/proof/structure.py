"""Programs that are the same up to names: found before any normal form is made.

Every node of either program gets a number: of an input, that of its form (so that the relation between the inputs of
both programs decides which are one); of a recorded constant, that of its value; of a call, that of its operator, its
attributes and its operands' numbers; of a copy, that of what is copied. The operands of a commutative operator have no
order. Nodes with one number have
one value, whatever the inputs are and whether or not that is a number: one function of one set of operands. So where
every output that is asked for has the number of the tensor that is expected to be it, each number can be a fresh tensor
of which nothing more needs to be known.

No number has what is no function of its operands (its definition asks for something fresh: random numbers, memory that
is not written, the mask of a dropout), what data decide the size of, what differs between the ranks of a class, and
what communicates with other ranks; nor what is computed from any of these. Where the k-th masks of both programs are
assumed to be the same, the k-th dropouts of one tensor have one number.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tantamount.calculus.atoms import Store, ValueFacts
from tantamount.calculus.forms import Form, leaf_form
from tantamount.errors import DataDependent, TantamountError
from tantamount.ir.graph import Argument, Graph, Node, Ref, references
from tantamount.ir.job import SAME_NAME, Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Expectation, Partial, RankTensor, Replicate
from tantamount.ir.types import DType, Shape
from tantamount.ops.algebra import Number, Tensor, TypesOnly, Value
from tantamount.ops.builder import Builder
from tantamount.ops.calls import COUNTS, operator_of
from tantamount.ops.classes import RankClass, differs
from tantamount.ops.execute import Environment, Result, constant_type, run_node
from tantamount.ops.keys import Unkeyed, call_key
from tantamount.proof.inputs import Inputs
from tantamount.proof.sharing import Shared, on_all_ranks

__all__ = ["Same", "Watching", "same_programs"]

SOURCE = "same"  # the kind of leaf that a number is
# Operators whose result is their operand, where it has the same type: what they say beside it is where memory is.
_COPIES = frozenset({
    "aten._to_copy.default", "aten.alias.default", "aten.clone.default", "aten.detach.default",
    "aten.lift_fresh.default", "aten.lift_fresh_copy.default",
})  # fmt: skip


@dataclass(frozen=True)
class Same:
    """The values of the nodes that both programs have: of the specification's, and of each class's by its leader."""

    specification: Mapping[str, Result]
    implementation: Mapping[int, Mapping[str, Result]]


class Watching(TypesOnly):
    """Types only; ``fresh`` once a definition has asked for what is no function of its operands; and how many masks of
    dropouts it has asked for."""

    fresh = False
    masks = 0

    def unknown(self, shape: Shape, dtype: DType, site: str) -> Value:
        self.fresh = True

    def mask(self, like: Value, shape: Shape, p: Number, site: str) -> Value:
        self.masks += 1

    def lost(self, shape: Shape | None, problem: DataDependent) -> Value:
        self.fresh = True


@dataclass(frozen=True, slots=True)
class _Type:
    """The types of a call's results; whether it asks for something fresh, and for how many masks of dropouts."""

    result: Result
    fresh: bool
    masks: int


@dataclass(slots=True)
class _Numbers:
    """The numbers of values, and the types of what has each."""

    shared: Shared
    job: Job
    numbers: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    results: list[Result] = field(default_factory=list[Result])
    drawn: set[int] = field(default_factory=set[int])  # of dropouts
    _types: dict[Hashable, _Type] = field(default_factory=dict[Hashable, "_Type"])

    def of(self, graph: Graph, given: Mapping[str, Form | None], ranks: RankClass | None = None) -> dict[str, int]:
        """The numbers of a program's nodes, of those that have one. ``ranks``: the class that runs it (``None``: the
        specification)."""
        graphs = [] if ranks is None else [self.job.implementation[rank] for rank in ranks.ranks]
        found: dict[str, int] = {}
        masks: int | None = 0 if self.job.assume.dropout else None  # how many were asked for; None: it is not known
        for node in graph.nodes:
            try:
                alone = None if differs(node, graphs) else self._alone(graph, node, ranks is None)
                if alone is not None:
                    found[node.name], more = self._number(graph, alone, given, found, masks)
                    masks = None if masks is None else masks + more
                    continue
            except Unkeyed:
                pass
            if node.op == "call":
                masks = None
        return found

    def _number(
        self, graph: Graph, node: Node, given: Mapping[str, Form | None], found: Mapping[str, int], masks: int | None
    ) -> tuple[int, int]:
        """The number of a node, and how many masks of dropouts it asks for; ``masks`` were asked for before it."""
        if node.op == "input":
            form = given.get(node.name)
            if form is None or node.type is None:
                raise Unkeyed
            here: Result = Tensor(node.type.shape, node.type.dtype, None)
            return self._known((node.op, self.shared.number(form), node.type), here), 0
        if node.op == "constant":
            return self._constant(graph, node), 0
        same = self._copied(node, found)
        if same is not None:
            return same, 0
        key = call_key(graph, node, lambda name: _of(found, name))
        if _unordered(graph, node):
            key = (*key[:3], frozenset(key[3:]))
        number = self.numbers.get(key)
        if number is not None:
            return number, 0
        type_ = self._type(graph, node, found)
        if type_.fresh or (type_.masks and masks is None):
            raise Unkeyed
        if type_.masks:
            key = (*key, "mask", masks)
        number = self._known(key, type_.result)
        if type_.masks:
            self.drawn.add(number)
        return number, type_.masks

    def _copied(self, node: Node, found: Mapping[str, int]) -> int | None:
        """The number of the operand of a call that gives its operand, element by element; ``None`` of any other."""
        operand = node.args[0] if node.target in _COPIES and len(node.args) == 1 else None
        number = found.get(operand.name) if isinstance(operand, Ref) else None
        value = None if number is None else self.results[number]
        if not isinstance(value, Tensor) or value.weak or node.type is None:
            return None
        return number if (value.shape, value.dtype) == (node.type.shape, node.type.dtype) else None

    def _alone(self, graph: Graph, node: Node, specification: bool) -> Node | None:
        """The node, if it concerns no other rank; of a collective whose group is one rank, without the group's name,
        which both programs have chosen for themselves."""
        if node.op != "call" or node.target == "getitem":
            return node
        row = operator_of(graph, node)
        if row.group_parameter is None:
            return node
        bound: dict[str, Argument] = dict(row.signature.bind(*node.args, **node.kwargs).arguments)
        group, mesh = bound.get(row.group_parameter), self.job.mesh
        known = isinstance(group, str) and group in mesh.groups and mesh.group_size(group) == 1
        if row.peer_parameter is not None or not (specification or known):
            return None
        return replace(node, args=(), kwargs=bound | {row.group_parameter: ""})

    def _known(self, key: Hashable, result: Result) -> int:
        number = self.numbers.setdefault(key, len(self.results))
        if number == len(self.results):
            self.results.append(result)
        return number

    def _constant(self, graph: Graph, node: Node) -> int:
        type_ = constant_type(graph, node)
        here = Tensor(type_.shape, type_.dtype, None)
        recorded, assumed = graph.constants.get(node.target), self.job.assume.constants
        if recorded is not None:
            return self._known(("recorded", recorded), here)
        if assumed is None:
            raise Unkeyed
        what = node.target if assumed == SAME_NAME else None
        return self._known(("assumed", what, type_), here)

    def _type(self, graph: Graph, node: Node, found: Mapping[str, int]) -> _Type:
        """The types of a call's results."""

        def operand(name: str) -> Hashable:
            return self._key_of(self.results[_of(found, name)])

        key = call_key(graph, node, operand)
        known = self._types.get(key)
        if known is None:
            known = self._types[key] = self._typed(graph, node, found)
        return known

    def _key_of(self, result: Result) -> Hashable:
        if isinstance(result, Tensor):
            return result.shape, result.dtype, result.weak
        return tuple(map(self._key_of, result)) if isinstance(result, tuple) else None

    def _typed(self, graph: Graph, node: Node, found: Mapping[str, int]) -> _Type:
        operands: Environment = {name: self.results[_of(found, name)] for name in references(node)}
        watching = Watching()
        try:
            result = run_node(graph, node, Builder(watching, node.name), operands, _no_constant, None)
        except TantamountError:
            return _Type(None, True, 0)
        return _Type(result, watching.fresh or not isinstance(result, (Tensor, tuple)), watching.masks)


def _no_constant(graph: Graph, node: Node, builder: Builder) -> Tensor:
    raise Unkeyed


def _of(found: Mapping[str, int], name: str) -> int:
    number = found.get(name)
    if number is None:
        raise Unkeyed
    return number


def _unordered(graph: Graph, node: Node) -> bool:
    """True if a call has two tensors for all of its arguments, and they can be exchanged."""
    if node.kwargs or len(node.args) != 2 or node.target == "getitem":
        return False
    return all(isinstance(a, Ref) for a in node.args) and operator_of(graph, node).facts.commutative


def same_programs(store: Store, job: Job, inputs: Inputs, classes: Sequence[RankClass], shared: Shared) -> Same | None:
    """The nodes that both programs have, if every output that the job asks about is one of them on every rank, where
    the job expects it; else ``None``. For programs whose sizes are numbers."""
    if job.at is not None or job.specification.sizes.symbols or not job.outputs:
        return None
    if not all(_whole(expectation, job.mesh) for expectation in job.outputs.values()):
        return None
    if any(node.target == COUNTS for node in job.specification.nodes):
        return None  # that it has the size of its capture has to be shown: a program may have asked for that alone
    numbers = _Numbers(shared, job)
    theirs: dict[int, dict[str, int]] = {}
    for one in classes:
        graph = job.implementation[one.leader]
        given: dict[str, Form | None] = {}
        for node in graph.inputs:
            held = inputs.held(store, job.mesh, one, node.name)
            given[node.name] = shared.bare(held, len(one.mesh.sizes))
        found = theirs[one.leader] = numbers.of(graph, given, one)
        if not all(_nodes(graph, expectation, found) for expectation in job.outputs.values()):
            return None  # where most jobs end
    ours = numbers.of(job.specification, inputs.specification)
    for output in job.specification.outputs:
        expectation = job.outputs.get(output.name)
        if expectation is None:
            continue
        for one in classes:
            found = theirs[one.leader]
            nodes = _nodes(job.implementation[one.leader], expectation, found)
            if ours.get(output.node) not in {found[node] for node in nodes}:
                return None
    return _values(store, job, numbers, ours, theirs, classes)


def _nodes(graph: Graph, expectation: Expectation, numbers: Mapping[str, int]) -> list[str]:
    """The nodes that an expectation may be about, of those that have numbers."""
    if expectation.infer:
        return [output.node for output in graph.outputs if output.node in numbers]
    wanted = expectation.name
    if isinstance(expectation.expression, RankTensor):
        wanted = expectation.expression.name or wanted
    name = next((output.node for output in graph.outputs if output.name == wanted), wanted)
    return [name] if name in numbers else []


def _whole(expectation: Expectation, mesh: Mesh) -> bool:
    """True if an expectation says that a rank's tensor is all of the specification's."""
    if expectation.problem or expectation.equal:
        return False
    if expectation.placements is None:
        return mesh.world_size == 1 and (expectation.infer or isinstance(expectation.expression, RankTensor))
    return all(
        isinstance(p, Replicate) or (size == 1 and not isinstance(p, Partial))
        for p, size in zip(expectation.placements, mesh.sizes, strict=True)
    )


def _values(
    store: Store,
    job: Job,
    numbers: _Numbers,
    ours: Mapping[str, int],
    theirs: Mapping[int, Mapping[str, int]],
    classes: Sequence[RankClass],
) -> Same:
    """A leaf for every number that is a call's, under the name of the first node of the specification that has it. A
    dropout is computed as ever, with the masks that are assumed to be the same."""
    graph = job.specification
    first: dict[int, str] = {}
    for name, number in ours.items():
        first.setdefault(number, name)
    leaves: dict[int, Result] = {}
    for number, name in first.items():
        if number not in numbers.drawn and _may_be_leaf(graph, graph.by_name[name]):
            leaves[number] = _leaf(store, name, numbers.results[number])
    implementation: dict[int, Mapping[str, Result]] = {}
    for one in classes:
        prefix = tuple(one.mesh.sizes)
        spread = {number: on_all_ranks(result, prefix) for number, result in leaves.items()}
        implementation[one.leader] = _by_name(job.implementation[one.leader], theirs[one.leader], spread)
    return Same(_by_name(graph, ours, leaves), implementation)


def _by_name(graph: Graph, numbers: Mapping[str, int], leaves: Mapping[int, Result]) -> dict[str, Result]:
    return {
        name: leaves[number]
        for name, number in numbers.items()
        if number in leaves and _may_be_leaf(graph, graph.by_name[name])
    }


def _may_be_leaf(graph: Graph, node: Node) -> bool:
    """True of what a program computes for itself: calls, but neither the items of results nor collectives."""
    return node.op == "call" and node.target != "getitem" and operator_of(graph, node).group_parameter is None


def _leaf(store: Store, name: str, result: Result) -> Result:
    def one(tensor: Tensor | None, k: int) -> Tensor | None:
        if tensor is None:
            return None
        stored = tensor.type.stored
        atom = store.leaf(SOURCE, (name, k), stored.shape, ValueFacts.of(stored.dtype.kind))
        store.leaves.computed.add(atom)
        return replace(tensor, value=leaf_form(atom, stored.shape))

    if isinstance(result, tuple):
        return tuple(one(tensor, k) for k, tensor in enumerate(result))
    return one(result, 0) if isinstance(result, Tensor) else result
