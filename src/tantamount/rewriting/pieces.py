"""Pieces of two programs that compute the same values, as far as executing them says, and that are not proved to.

Both programs are cut where they are proved to agree. The first tensors behind these cuts that have the same values are
an open pair; what computes each of them from what both have is a piece. A pair that is taken to be equal is a cut for
what comes after it, so that every open pair is found, and each with the least that it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tantamount.calculus.compare import equal
from tantamount.calculus.forms import Form
from tantamount.capture.rules import renamed
from tantamount.errors import TantamountError
from tantamount.ir.graph import Graph, Node, Output, references
from tantamount.ir.relation import Sign
from tantamount.ops.algebra import Tensor
from tantamount.ops.check import check_graph
from tantamount.ops.execute import Result
from tantamount.proof.cuts import sign_of
from tantamount.proof.proof import Proof

__all__ = ["Open", "Piece"]

_TRIED = 2  # tensors of the first program that one of the second is compared with
_ROUNDS = 16  # of making both pieces start from the same tensors


@dataclass(frozen=True)
class Piece:
    """Two graphs: one computes the tensor ``first`` of the first program, the other ``second`` of the second, from the
    same inputs, which are named alike; ``signs`` is what is known of every element of an input."""

    first: str
    second: str
    left: Graph
    right: Graph
    signs: Mapping[str, Sign]


@dataclass
class Open:
    """The open pairs of a proof with cuts, of two programs of one rank. ``known``: the tensors of the first program
    that tensors of the second are, proved or taken to be."""

    proof: Proof
    known: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        job = self.proof.job
        self.first, self.second = job.specification, job.implementation[0]
        self._types = check_graph(self.first, None), check_graph(self.second, {})
        self._wholes: dict[str, Form] = {}
        inputs = {form: name for name in self._inputs(self.first) if (form := self._whole(name)) is not None}
        for name in self._inputs(self.second):
            form = self._held(name)
            if form is not None and form in inputs:
                self.known[name] = inputs[form]
        recorded = {repr(c): n.name for n in self.first.nodes if n.op == "constant" and (c := _recorded(self.first, n))}
        for node in self.second.nodes:
            mine = repr(_recorded(self.second, node)) if node.op == "constant" else ""
            if mine in recorded:
                self.known[node.name] = recorded[mine]

    def pieces(self) -> Iterator[Piece]:
        """The open pairs, in the order of the second program; :meth:`take` one before the next is asked for."""
        cuts = self.proof.cuts
        for node in self.second.nodes if cuts is not None else ():
            found = [one.names[0] for one in cuts.aligned.get((0, node.name), ()) if one.window is None] if cuts else []
            held = self._held(node.name)
            if node.op != "call" or not found:
                continue
            same = next((name for name in found if self._equal(name, held)), None)
            if same is not None:
                self.known[node.name] = same
                continue
            for name in found[:_TRIED]:
                if node.name in self.known:
                    break
                piece = self._piece(name, node.name)
                if piece is not None and piece.left.nodes == piece.right.nodes:
                    self.take(piece)  # the same function of the same tensors
                elif piece is not None:
                    yield piece

    def take(self, piece: Piece) -> None:
        """Go on as if both tensors of a pair were equal."""
        self.known[piece.second] = piece.first

    # ------------------------------------------------------------------------------------------- what is known
    @staticmethod
    def _inputs(graph: Graph) -> list[str]:
        return [node.name for node in graph.inputs]

    def _whole(self, name: str) -> Form | None:
        value = self.proof.specification.values.get(name)
        return value.value if isinstance(value, Tensor) else None

    def _held(self, name: str) -> Form | None:
        return self.proof.implementation.stacked(self.proof.store, name)

    def _equal(self, name: str, held: Form | None) -> bool:
        whole = self._whole(name)
        if whole is None or held is None or whole.shape != held.shape:
            return False
        try:
            return equal(self.proof.store, whole, held, expand=False) is None
        except TantamountError:
            return False

    # ------------------------------------------------------------------------------------------- pieces
    def _piece(self, first: str, second: str) -> Piece | None:
        """The pieces of a pair, started from the nearest tensors that both programs have and both pieces need."""
        effort = self.proof.options.effort
        most = effort.bounds.rule_nodes
        known = {mine: other for mine, other in self.known.items() if mine != second}
        given = set(self._inputs(self.first))
        for _ in range(_ROUNDS):
            ours = _frontier(self.first, first, set(known.values()) - {first}, most)
            theirs = _frontier(self.second, second, set(known), most)
            if ours is None or theirs is None:
                effort.hit("rule_nodes")
                return None
            if any(name not in known for name in theirs):
                return None
            needed = {known[name] for name in theirs}
            if needed <= set(ours):
                return self._made(first, second, list(ours), {name: known[name] for name in theirs})
            apart = (needed ^ set(ours)) - given
            if not apart:
                return None
            known = {mine: other for mine, other in known.items() if other not in apart}
        return None

    def _made(self, first: str, second: str, ours: list[str], theirs: Mapping[str, str]) -> Piece | None:
        names = {name: f"x{k}" for k, name in enumerate(ours)}
        left = _cut_out(self.first, self._types[0], first, names)
        right = _cut_out(self.second, self._types[1], second, {name: names[other] for name, other in theirs.items()})
        if left is None or right is None:
            return None
        signs: dict[str, Sign] = {}
        for name, one in names.items():
            form = self._whole(name)
            if form is not None and (sign := sign_of(self.proof.store, form)) is not Sign.ANY:
                signs[one] = sign
        return Piece(first, second, left, right, signs)


def _recorded(graph: Graph, node: Node) -> object:
    found = graph.constants.get(node.target)
    return None if found is None else (found.type, found.data)


def _frontier(graph: Graph, root: str, stops: set[str], most: int) -> dict[str, None] | None:
    """The tensors, in the order of the program, at which going up from a node ends: ``stops``, and inputs; ``None`` if
    that passes too many nodes."""
    pending, seen = [root], {root}
    found: set[str] = set()
    while pending:
        for name in references(graph.by_name[pending.pop()]):
            if name in seen:
                continue
            seen.add(name)
            if name in stops or graph.by_name[name].op == "input":
                found.add(name)
            else:
                pending.append(name)
        if len(seen) - len(found) > most:
            return None
    return {node.name: None for node in graph.nodes if node.name in found}


def _cut_out(graph: Graph, types: Mapping[str, Result], root: str, inputs: Mapping[str, str]) -> Graph | None:
    """The piece that computes a node from inputs, which get the names given; ``None`` if an input is not a tensor."""
    wanted = {root}
    for node in reversed(graph.nodes):
        if node.name in wanted and node.name not in inputs:
            wanted.update(references(node))
    names = dict(inputs)
    nodes: dict[str, Node] = {}
    for name, new in inputs.items():
        type_ = types[name]
        if not isinstance(type_, Tensor):
            return None
        nodes[new] = Node(new, "input", new, type=type_.type)
    for node in graph.nodes:
        if node.name in wanted and node.name not in inputs:
            names[node.name] = f"t{len(nodes)}"
            nodes[names[node.name]] = replace(renamed(node, names), source=None)
    constants = {names.get(key, key): value for key, value in graph.constants.items()}
    return replace(graph, nodes=tuple(nodes.values()), constants=constants, outputs=(Output("result", names[root]),))
