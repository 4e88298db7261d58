"""Equal layers once: a long job proved piece by piece, and equal pieces by one proof.

Both programs are cut at the same number of places. A piece of a job is a job: the nodes between two cuts on both
sides, the tensors that they read from earlier pieces as inputs, of which the proofs of those pieces say how they are
related. It is proved for all values of its inputs, so for those that they have. Two pieces with the same key, which
has everything that such a proof can depend on but names, are one lemma. docs/design/lemmas.md argues that this is
sound. What does not fit is not proved here: there is no answer then, and the job is proved as a whole.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

from tantamount.calculus.compare import equal
from tantamount.ir.graph import Argument, Graph, Node, Output, Ref, references
from tantamount.ir.job import Job
from tantamount.ir.relation import Expectation, InputRelation, Partial, Placement, RankTensor, rank_tensors
from tantamount.ir.runs import Run, runs
from tantamount.ops.algebra import Tensor
from tantamount.ops.calls import operator_of
from tantamount.ops.classes import rank_classes
from tantamount.proof.assumptions import open_obligations
from tantamount.proof.inputs import build_inputs
from tantamount.proof.outputs import output_node, show
from tantamount.proof.proof import Options, Proof, prove
from tantamount.proof.questions import partial_layout_of
from tantamount.calculus.calculus import Calculus
from tantamount.verdict import Assumption, OutputReport, Relation, Verdict

__all__ = ["InPieces", "prove_in_pieces"]

_LONG = 300  # nodes of a specification from which on pieces pay
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')

T = TypeVar("T")


@dataclass(frozen=True)
class InPieces:
    """What the proofs of the pieces say of the job, every output of which is proved. ``pieces``: how many there are;
    ``proofs`` those of the lemmas."""

    outputs: tuple[OutputReport, ...]
    relations: tuple[Relation, ...]
    assumptions: tuple[Assumption, ...]
    pieces: int
    proofs: tuple[Proof, ...]


class _Unfit(Exception):
    """The job is not proved piece by piece."""


def prove_in_pieces(job: Job, options: Options) -> InPieces | None:
    """The proof of a long job whose programs have runs of equal pieces; ``None`` where there is none of this kind.
    Raises :class:`UserError` as :func:`prove` does."""
    if options.align is None or options.fold is False or options.cut is False or job.at is not None:
        return None
    if len(job.specification.nodes) < _LONG or not _suits(job):
        return None
    places = _places(job)
    if not places:
        return None
    try:
        return _Pieces(job, options, places).prove()
    except _Unfit:
        return None


def _suits(job: Job) -> bool:
    """True if pieces of the programs are functions of what they read, and all ranks run one program: nothing is drawn
    at random or sent from rank to rank, no constant is unknown, no relation restricts the specification."""
    if len(rank_classes(job.implementation, job.mesh)) > 1:
        return False
    for graph in {id(graph): graph for graph in (job.specification, *job.implementation)}.values():
        for node in graph.nodes:
            if node.op == "constant" and node.target not in graph.constants:
                return False
            row = operator_of(graph, node) if node.op == "call" and node.target != "getitem" else None
            if row is not None and (row.category == "random" or row.peer_parameter is not None):
                return False
    return not build_inputs(Calculus(), job).restrictions


def _places(job: Job) -> list[tuple[int, int]]:
    """Where both programs are cut: at the pieces of runs that have as many on both sides and look alike, in order, and
    at those of runs of one side between them (gradients that are reduced in the end), where what is before and behind
    looks most alike."""
    ours, theirs = job.specification, job.implementation[0]
    pairs = _paired(ours, runs(ours), theirs, runs(theirs))
    out: list[tuple[int, int]] = []
    before, gap = (0, 0), list[Run]()
    ends: tuple[Run | None, Run | None] = (None, None)
    for a, b in [*pairs, ends]:
        if b is not None and a is None:
            gap.append(b)
            continue
        after = (len(ours.nodes), len(theirs.nodes)) if a is None or b is None else (a.start, b.start)
        for alone in gap:
            at = _split(ours, before[0], after[0], theirs, (before[1], alone.start), (alone.cuts[-1], after[1]))
            out += [(at, cut) for cut in alone.cuts]
            before = (at, alone.cuts[-1])
        gap = []
        if a is not None and b is not None:
            out += zip(a.cuts, b.cuts, strict=True)
            before = (a.cuts[-1], b.cuts[-1])
    out = sorted(set(out))
    fits = all(a[1] <= b[1] for a, b in pairwise(out))
    return out if fits and any(a and b for a, b in pairs) else []


def _split(
    graph: Graph, start: int, stop: int, other: Graph, before: tuple[int, int], behind: tuple[int, int]
) -> int:
    """The position between two others of one program at which it looks most like two stretches of another one."""
    first, second = (Counter(node.target for node in other.nodes[a:b]) for a, b in (before, behind))
    left, right = Counter[str](), Counter(node.target for node in graph.nodes[start:stop])
    best, chosen = -1.0, start
    for at in range(start, stop + 1):
        score = _likeness(left, first) + _likeness(right, second)
        if score > best:
            best, chosen = score, at
        if at < stop:
            left[graph.nodes[at].target] += 1
            right[graph.nodes[at].target] -= 1
    return chosen


def _paired(
    ours: Graph, first: Sequence[Run], theirs: Graph, second: Sequence[Run]
) -> list[tuple[Run | None, Run | None]]:
    """The runs of both programs in order, those that look most alike in pairs; of what is left the implementation's."""
    left = [_operators(ours, one) for one in first]
    right = [_operators(theirs, one) for one in second]
    best: dict[tuple[int, int], tuple[float, tuple[tuple[int, int], ...]]] = {}
    for i in range(len(first) + 1):
        for j in range(len(second) + 1):
            found: list[tuple[float, tuple[tuple[int, int], ...]]] = [(0.0, ())]
            if i:
                found.append(best[i - 1, j])
            if j:
                found.append(best[i, j - 1])
            if i and j and first[i - 1].count == second[j - 1].count:
                score, pairs = best[i - 1, j - 1]
                found.append((score + _likeness(left[i - 1], right[j - 1]), (*pairs, (i - 1, j - 1))))
            best[i, j] = max(found)
    out: list[tuple[Run | None, Run | None]] = []
    j = 0
    for a, b in (*best[len(first), len(second)][1], (len(first), len(second))):
        out += [(None, one) for one in second[j:b]]
        if a < len(first):
            out.append((first[a], second[b]))
        j = b + 1
    return out


def _operators(graph: Graph, run: Run) -> Counter[str]:
    return Counter(node.target for node in graph.nodes[run.start : run.start + run.period] if node.op == "call")


def _likeness(a: Counter[str], b: Counter[str]) -> float:
    """From 0 to 1: how many of their operators two pieces have in common."""
    return (a & b).total() / max(1, (a | b).total())


# ---------------------------------------------------------------------------------------------- one piece
@dataclass(frozen=True)
class _Piece:
    """A piece as a job of its own. ``handed_on``: tensors of the implementation that later pieces read; ``read``:
    those of the specification."""

    job: Job
    handed_on: tuple[str, ...]
    read: tuple[str, ...]


@dataclass(frozen=True)
class _Lemma:
    """What one proof says: of tensors that are handed on, the specification tensor and the placements; tensors of the
    specification that are copies of others; outputs, relations and assumptions."""

    piece: _Piece
    proof: Proof
    pairs: Mapping[str, tuple[str, tuple[Placement, ...]]]
    copies: Mapping[str, str]
    outputs: tuple[OutputReport, ...]
    relations: tuple[Relation, ...]
    assumptions: tuple[Assumption, ...]


@dataclass
class _Pieces:
    """The pieces of a job, proved in the order of the programs. ``known``: of tensors of the implementation that are
    handed on, what they are; ``copies`` by side: tensors that equal another one, which is read instead."""

    job: Job
    options: Options
    places: Sequence[tuple[int, int]]
    known: dict[str, tuple[str, tuple[Placement, ...]]] = field(
        default_factory=dict[str, "tuple[str, tuple[Placement, ...]]"]
    )
    copies: tuple[dict[str, str], dict[str, str]] = field(
        default_factory=lambda: (dict[str, str](), dict[str, str]())
    )
    lemmas: dict[Any, _Lemma] = field(default_factory=dict[Any, _Lemma])
    _first: dict[object, str] = field(default_factory=dict[object, str])

    def prove(self) -> InPieces:
        """Raises :class:`_Unfit` where a piece is not proved."""
        job = self.job
        ours = _Side(job.specification, [a for a, _ in self.places])
        theirs = _Side(job.implementation[0], [b for _, b in self.places])
        for output in job.specification.outputs:
            if output.name in job.outputs:
                nodes = _asked(job, output.name)
                at = max(ours.at(output.node), *map(theirs.at, nodes))
                ours.ask(at, output)
                for other in theirs.graph.outputs:
                    if other.node in nodes:
                        theirs.ask(at, other)
        outputs: dict[str, OutputReport] = {}
        relations: dict[str, Relation] = {}
        assumptions: dict[tuple[str, str], dict[str, None]] = {}
        for k in range(len(self.places) + 1):
            self.options.effort.check()
            piece = self._piece(ours, theirs, k)
            lemma = self._lemma(piece)
            names = _Names(lemma.piece.job, piece.job)
            for u, (t, placements) in lemma.pairs.items():
                name, whole = names.implementation[u], names.specification[t]
                first = self._first.setdefault((whole, placements), name)
                if first == name or any(isinstance(p, Partial) for p in placements):  # summands are not determined
                    self.known[name] = whole, placements
                else:
                    self.copies[1][name] = first
            self.copies[0].update((names.specification[a], names.specification[b]) for a, b in lemma.copies.items())
            outputs.update((found.name, found) for found in map(names.output, lemma.outputs))
            relations.update((found.tensor, found) for found in map(names.relation, lemma.relations))
            for found in lemma.assumptions:
                sites = assumptions.setdefault((found.name, found.text), {})
                sites.update(dict.fromkeys(names.either(place) for place in found.places))
        wanted = [output.name for output in job.specification.outputs if output.name in job.outputs]
        if any(name not in outputs for name in wanted):
            raise _Unfit
        return InPieces(
            tuple(outputs[name] for name in wanted),
            tuple(relations[node.name] for node in job.specification.nodes if node.name in relations),
            tuple(Assumption(name, text, tuple(sites)) for (name, text), sites in assumptions.items()),
            len(self.places) + 1,
            tuple(lemma.proof for lemma in self.lemmas.values()),
        )

    # -- the job of a piece
    def _piece(self, ours: _Side, theirs: _Side, k: int) -> _Piece:
        """The k-th piece, with all inputs that relations of its inputs name."""
        job = self.job
        read = ours.read(k, self.copies[0])
        used = theirs.read(k, self.copies[1])
        inputs: dict[str, InputRelation] = {}
        for name in used:
            if theirs.graph.by_name[name].op == "input":
                continue
            if name not in self.known:
                raise _Unfit
            whole, placements = self.known[name]
            if whole in inputs:  # two tensors of the implementation are parts of it
                raise _Unfit
            inputs[whole] = InputRelation(name, placements, text=show(placements))
        named = {name: _named(relation) for name, relation in job.inputs.items()}
        wanted, held = {*read, *inputs}, {*used}
        while True:
            more = {n for n, others in named.items() if n in wanted or others & held}
            others = {other for n in more for other in named[n]}
            if more <= wanted and others <= held:
                break
            wanted |= more
            held |= others
        inputs.update((name, job.inputs[name]) for name in job.inputs if name in wanted)
        checked = {o.name: job.outputs[o.name] for o in ours.outputs(k)}
        specification = ours.piece(job.specification, k, wanted, self.copies[0])
        done = {id(g): theirs.piece(g, k, held, self.copies[1]) for g in job.implementation}
        implementation = tuple(done[id(graph)] for graph in job.implementation)
        part = Job(job.path, specification, implementation, job.mesh, inputs, checked, job.assume)
        return _Piece(part, theirs.handed_on(k), ours.handed_on(k))

    # -- its proof
    def _lemma(self, piece: _Piece) -> _Lemma:
        key = _key(piece)
        if key not in self.lemmas:
            self.lemmas[key] = _proved(piece, self.options)
        return self.lemmas[key]


class _Side:
    """One program, cut at some positions."""

    def __init__(self, graph: Graph, places: Sequence[int]) -> None:
        self.graph = graph
        self._bounds = [0, *places, len(graph.nodes)]
        self._at = {node.name: bisect_right(places, k) for k, node in enumerate(graph.nodes) if node.op != "input"}
        self._varies = _real(graph)
        self._outputs: dict[int, list[Output]] = {}
        self._last: dict[str, int] = {}
        for node in graph.nodes:
            for name in references(node):
                self._last[name] = max(self._last.get(name, 0), self._at.get(node.name, 0))

    def at(self, name: str) -> int:
        """The piece that computes a tensor; the first one has all inputs."""
        return self._at.get(name, 0)

    def ask(self, k: int, output: Output) -> None:
        """Have an output be one of a piece."""
        if output not in self.outputs(k):
            self._outputs.setdefault(k, []).append(output)
            self._last[output.node] = max(self._last.get(output.node, 0), k)

    def _nodes(self, graph: Graph, k: int) -> list[Node]:
        """The nodes of a piece, without inputs."""
        return [node for node in graph.nodes[self._bounds[k] : self._bounds[k + 1]] if node.op != "input"]

    def read(self, k: int, copies: Mapping[str, str]) -> list[str]:
        """What a piece reads of inputs and earlier pieces."""
        anew = self._anew(self.graph, k)
        found: dict[str, None] = {}
        for node in (*self._nodes(self.graph, k), *(self.graph.by_name[name] for name in anew)):
            found.update((copies.get(n, n), None) for n in references(node) if self._at.get(n, -1) != k)
        found.update((copies.get(o.node, o.node), None) for o in self.outputs(k) if self._at.get(o.node, -1) != k)
        return [name for name in found if name not in anew]

    def _anew(self, graph: Graph, k: int) -> set[str]:
        """What a piece computes anew of what earlier ones do: tensors that no real input has a part in (positions,
        masks, parts of token numbers)."""
        found: set[str] = set()
        pending = [name for node in self._nodes(graph, k) for name in references(node)]
        pending += [output.node for output in self.outputs(k)]
        while pending:
            name = pending.pop()
            if name in self._at and self._at[name] != k and name not in self._varies and name not in found:
                found.add(name)
                pending.extend(references(graph.by_name[name]))
        return found

    def handed_on(self, k: int) -> tuple[str, ...]:
        """What later pieces read of a piece."""
        nodes = self._nodes(self.graph, k)
        return tuple(n.name for n in nodes if self._last.get(n.name, 0) > k and n.name in self._varies)

    def outputs(self, k: int) -> list[Output]:
        """The outputs of the program that are looked at in a piece."""
        return self._outputs.get(k, [])

    def piece(self, graph: Graph, k: int, inputs: Collection[str], copies: Mapping[str, str]) -> Graph:
        """The piece of a program (with the same names) as a program."""
        inside = self._nodes(graph, k)
        anew = self._anew(graph, k)
        first = [_input(graph.by_name[node.name]) for node in graph.nodes if node.name in inputs]
        rest = [node for node in graph.nodes if node.name in anew]
        nodes = (*first, *rest, *(_reading(node, copies) for node in inside))
        outputs = tuple(Output(output.name, copies.get(output.node, output.node)) for output in self.outputs(k))
        return replace(graph, nodes=nodes, outputs=outputs)


def _real(graph: Graph) -> set[str]:
    """The nodes that some input of real numbers has a part in."""
    found: set[str] = set()
    for node in graph.nodes:
        whole = node.op == "input" and node.type is not None and node.type.dtype.is_integral
        if (node.op == "input" and not whole) or not found.isdisjoint(references(node)):
            found.add(node.name)
    return found


def _input(node: Node) -> Node:
    if node.op == "input":
        return node
    if node.type is None:
        raise _Unfit
    return Node(node.name, "input", node.name, type=node.type, source=node.source)


def _reading(node: Node, copies: Mapping[str, str]) -> Node:
    """The node, which reads instead of copies what they are copies of."""
    if copies.keys().isdisjoint(references(node)):
        return node

    def argument(value: Argument) -> Argument:
        if isinstance(value, tuple):
            return tuple(map(argument, value))
        return Ref(copies.get(value.name, value.name)) if isinstance(value, Ref) else value

    kwargs = {key: argument(value) for key, value in node.kwargs.items()}
    return replace(node, args=tuple(map(argument, node.args)), kwargs=kwargs)


def _asked(job: Job, name: str) -> set[str]:
    """The nodes of the implementation that an expectation is about; none where it names none."""
    expectation = job.outputs[name]
    if expectation.infer or expectation.problem:
        raise _Unfit
    return {output_node(job, 0, found) for found in _named(expectation, name)}


def _named(relation: InputRelation | Expectation, name: str = "") -> set[str]:
    """The tensors of the implementation that a relation is about."""
    name = relation.name or name
    found = {name} if relation.placements is not None else set[str]()
    terms = [] if relation.expression is None else [*rank_tensors(relation.expression)]
    for term in (*terms, *(term for pair in relation.equal for term in pair)):
        found.add(term.name or name)
    return found


# ---------------------------------------------------------------------------------------------- keys
def _key(piece: _Piece) -> object:
    """All that a proof of the piece can depend on, without names: of both programs every node (operator, attributes
    with their types, types, the values of constants), what reads what, the relations of inputs, what is asked of
    outputs, and what is handed on."""
    job = piece.job
    ours = _numbers(job.specification)
    theirs = _numbers(job.implementation[0])
    done = {id(graph): _program(graph) for graph in job.implementation}
    order = {program: k for k, program in enumerate(dict.fromkeys(done.values()))}
    inputs = tuple((ours[name], _plain(r, theirs, r.name)) for name, r in sorted(job.inputs.items(), key=_first(ours)))
    outputs = tuple(
        (ours[o.node], _plain(e, _outputs_too(theirs, job), e.name or o.name))
        for o in job.specification.outputs
        if (e := job.outputs.get(o.name)) is not None
    )
    return (
        _program(job.specification),
        tuple(order),
        tuple(order[done[id(graph)]] for graph in job.implementation),
        tuple(theirs[o.node] for o in job.implementation[0].outputs),
        inputs,
        outputs,
        tuple(theirs[name] for name in piece.handed_on),
        tuple(ours[name] for name in piece.read),
    )


def _first(numbers: Mapping[str, int]) -> Any:
    return lambda item: numbers[item[0]]


def _numbers(graph: Graph) -> dict[str, int]:
    return {node.name: k for k, node in enumerate(graph.nodes)}


def _outputs_too(numbers: Mapping[str, int], job: Job) -> Mapping[str, int]:
    return {**numbers, **{o.name: numbers[o.node] for o in job.implementation[0].outputs}}


def _program(graph: Graph) -> object:
    numbers = _numbers(graph)
    found: list[object] = []
    for node in graph.nodes:
        what: object = node.target if node.op == "call" else None
        if node.op == "constant":
            constant = graph.constants[node.target]
            what = (constant.type, tuple((type(x), repr(x)) for x in constant.data))
        kwargs = tuple(sorted((key, _plain(value, numbers)) for key, value in node.kwargs.items()))
        found.append((node.op, what, _plain(node.args, numbers), kwargs, node.type))
    return tuple(found)


def _plain(value: Any, numbers: Mapping[str, int], name: str = "") -> Any:
    """A key of attributes, relations and expectations, with numbers for names; 1, 1.0 and True are three keys."""
    if isinstance(value, Ref):
        return "ref", numbers[value.name]
    if isinstance(value, RankTensor):
        return "rank", value.rank, numbers[value.name or name]
    if isinstance(value, (InputRelation, Expectation)):
        problem = value.problem if isinstance(value, Expectation) else ""
        infer = isinstance(value, Expectation) and value.infer
        held = numbers[name] if value.placements is not None else None
        return held, infer, problem, *(_plain(x, numbers, name) for x in (value.placements, value.expression, value.equal))
    if isinstance(value, tuple):
        return tuple(_plain(item, numbers, name) for item in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, *(_plain(getattr(value, f.name), numbers, name) for f in fields(value))
    return type(value).__name__, repr(value)


# ---------------------------------------------------------------------------------------------- proofs
def _proved(piece: _Piece, options: Options) -> _Lemma:
    """The proof of a piece. Raises :class:`_Unfit` unless its outputs are proved, and of all tensors that are handed on
    it is proved which part of the specification's each rank holds, and that both are defined for all inputs."""
    proof = prove(piece.job, replace(options.silent(), cut=True))
    ours, theirs, cuts = proof.specification, proof.implementation, proof.cuts
    if not proof.folded or ours.constants or theirs.constants or ours.dropouts or theirs.fresh_masks:
        raise _Unfit
    if proof.inputs.restrictions or open_obligations(proof.store, ours, theirs):
        raise _Unfit
    if piece.handed_on and any(o.kind != "index" for trace in ours.traces for o in trace.obligations):
        raise _Unfit
    outputs = proof.check_twice()
    if any(output.verdict is not Verdict.PROVED or output.reason for output in outputs):
        raise _Unfit
    pairs: dict[str, tuple[str, tuple[Placement, ...]]] = {}
    copies: dict[str, str] = {}
    for name in piece.handed_on:
        value = theirs.environments[0].get(name)
        if not _total(value):
            raise _Unfit
        found = cuts.parts(theirs.classes[0], name, value) if cuts is not None and isinstance(value, Tensor) else ()
        found = tuple(one for one in found if _total(ours.values.get(one.names[0])))
        if not found:
            pairs[name] = _summands(proof, piece, name)
            continue
        best = min(found, key=lambda one: one.names[0] not in piece.read)
        whole = copies.get(best.names[0], best.names[0])
        pairs[name] = whole, best.placements
        for other in found:
            copy = other.names[0]
            if copy in piece.read and copy != whole and copy not in copies and _same(proof, whole, copy):
                copies[copy] = whole
    partners = {whole for whole, _ in pairs.values()}
    others = [*partners, *(node.name for node in piece.job.specification.inputs)]
    for copy in piece.read:  # what the implementation has once
        if copy not in partners and copy not in copies:
            copies.update((copy, whole) for whole in others if whole != copy and _same(proof, whole, copy))
    if set(copies) & {whole for whole, _ in pairs.values()}:
        raise _Unfit
    return _Lemma(piece, proof, pairs, copies, outputs, tuple(proof.relations().values()), proof.assumptions())


def _summands(proof: Proof, piece: _Piece, name: str) -> tuple[str, tuple[Placement, ...]]:
    """The tensor of which the ranks hold summands, among those that later pieces read. Raises :class:`_Unfit`."""
    for whole in piece.read:
        if _total(proof.specification.values.get(whole)):
            placements = partial_layout_of(proof, whole, name)
            if placements is not None:
                return whole, placements
    raise _Unfit


def _total(value: object) -> bool:
    """True if a tensor is a real number everywhere, whatever the inputs are."""
    return isinstance(value, Tensor) and value.value.undefined is None


def _same(proof: Proof, first: str, other: str) -> bool:
    a, b = proof.specification.values[first], proof.specification.values[other]
    if not isinstance(a, Tensor) or not isinstance(b, Tensor) or a.shape != b.shape or a.dtype is not b.dtype:
        return False
    return equal(proof.store, a.value, b.value, expand=False) is None


# ---------------------------------------------------------------------------------------------- instances
class _Names:
    """The names of one piece for those of another with the same key."""

    def __init__(self, first: Job, other: Job) -> None:
        def table(a: Iterable[Node], b: Iterable[Node]) -> dict[str, str]:
            return {x.name: y.name for x, y in zip(a, b, strict=True)}

        self.specification = table(first.specification.nodes, other.specification.nodes)
        self.implementation = table(first.implementation[0].nodes, other.implementation[0].nodes)
        self._other = other
        checked = [[o for o in job.specification.outputs if o.name in job.outputs] for job in (first, other)]
        self._outputs = {a.name: b.name for a, b in zip(*checked, strict=True)}
        held = zip(first.implementation[0].outputs, other.implementation[0].outputs, strict=True)
        self._theirs = {**self.implementation, **{a.name: b.name for a, b in held}}

    def either(self, place: str) -> str:
        """A node of either program."""
        return self.specification.get(place) or self.implementation.get(place) or place

    def relation(self, found: Relation) -> Relation:
        """The relation between the tensors of the other piece."""
        tensor = self.specification.get(found.tensor) or self._outputs.get(found.tensor, found.tensor)
        node = self._other.specification.by_name.get(tensor)
        return Relation(
            tensor,
            self._text(found.expression),
            self._theirs.get(found.implementation, found.implementation),
            found.source if node is None or found.source is None else node.source,
            self._text(found.exact),
        )

    def output(self, found: OutputReport) -> OutputReport:
        """The report on the output of the other piece."""
        name = self._outputs[found.name]
        relation = found.relation and replace(self.relation(found.relation), tensor=self._of(found, name))
        notes = tuple(map(self._text, found.notes))
        return replace(found, name=name, relation=relation, expectation=self._other.outputs[name].text, notes=notes)

    def _of(self, found: OutputReport, name: str) -> str:
        """The tensor that the relation of an output is of: the output, or its node."""
        tensor = "" if found.relation is None else found.relation.tensor
        return name if tensor == found.name else self.specification.get(tensor, tensor)

    def _text(self, text: str) -> str:
        return _QUOTED.sub(lambda match: f'"{self._theirs.get(match[1], match[1])}"', text)
