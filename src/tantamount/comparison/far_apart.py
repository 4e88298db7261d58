"""Programs that are equal over the reals and far apart in their own dtypes, with the operator where that arises.

Which operator it is, executions say. Both programs are run with every result rounded to its dtype
(:mod:`tantamount.semantics.native`), and again with the rounding of some results left out: halving the nodes that are
left out, towards the half without which the programs come closest, leads to one node of each program. It is named if
leaving out the rounding of this node alone takes away most of the distance, on two inputs; else the cast that it goes
back to may be, with what stays in the cast's dtype because of it (a table that is computed in bfloat16). So how the
node was found decides nothing; where roundings add up, or a sum is unstable, no node passes, and none is named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tantamount.comparison.programs import Apart, Pair
from tantamount.comparison.words import SIDES
from tantamount.effort import Effort
from tantamount.errors import TantamountError
from tantamount.execution.plans import LITTLE
from tantamount.ir.graph import Graph, references
from tantamount.ir.job import Job
from tantamount.ir.types import DType
from tantamount.ops.functionalized import unwrapped
from tantamount.proof.outputs import output_node
from tantamount.semantics.interpret import NodeValue, random_inputs
from tantamount.semantics.native import Native
from tantamount.semantics.survey import survey

__all__ = ["far_apart"]

_REST = 0.5  # of the distance may be left without the rounding of the node that is named
_PRODUCTS = 16  # of a contraction take the time of one other operation (measured: 1.1e9 of them, 20 times, 1.2 s)
_ALIKE = 2.0  # times: how well rounding once per operator has to meet the distance that was measured


def far_apart(pair: Pair, effort: Effort) -> str:
    """A warning about programs that are equal over the reals, where their outputs are far apart in their own dtypes,
    with the operator that accounts for it, if one does; empty, if they are not, or cannot be executed."""
    first = _measured(pair, 0)
    if first is None:
        return ""
    where = _where(pair, first, effort) or "something is rounded on the way, or unstable"
    return (
        f"far apart in their own dtypes: on a random checkpoint and input the outputs differ by {first.distance:.2g}, "
        f"where the largest element is {first.largest:.2g}. Over the reals they are equal: {where}"
    )


def _measured(pair: Pair, seed: int) -> Apart | None:
    """Both programs executed as they are; ``None`` if their outputs are not far apart, or they cannot be executed."""
    try:
        found = None if pair.distance is None else pair.distance(seed)
    except Exception:  # of the user's models: nothing that was proved depends on it
        return None
    return found if found is not None and found.far else None


def _where(pair: Pair, first: Apart, effort: Effort) -> str:
    """A clause that names the node whose rounding accounts for the distance; empty if none is found."""
    graphs = pair.job.specification, pair.job.implementation[0]
    try:
        work = sum(max(_work(graph), LITTLE * len(graph.nodes)) for graph in graphs)
        if effort.exceeds("rounding_work", work):
            return (
                "something is rounded on the way, or unstable. At which operator was not looked for "
                "(limit-rounding-work; --effort high may look)"
            )
        execution = _executed(pair.job, first, 0)
        found = None if execution is None else _confirmed(pair, execution.accounting(graphs))
    except TantamountError:  # of what the interpreter does not know
        return ""
    if execution is None or found is None:
        return ""
    left = execution.rest(found.side, found.nodes).most
    more = "" if len(found.nodes) == 1 else ", and of all that stays in this dtype because of it"
    return (
        f"the distance arises where the {SIDES[found.side]} program rounds the result of "
        f"{_named(graphs[found.side], found.nodes[0])}{more}. Without that {left:.2g} is left"
    )


def _work(graph: Graph) -> int:
    """The element operations of an execution, products of contractions as fractions of one: it is time that counts."""
    found = survey(graph)
    return found.work - found.products + found.products // _PRODUCTS


def _confirmed(pair: Pair, blamed: Iterator[_Blamed]) -> _Blamed | None:
    """The first of these nodes that account for the distance on a second input, too."""
    again: _Execution | None = None
    for found in blamed:
        if again is None:
            measured = _measured(pair, 1)
            again = None if measured is None else _executed(pair.job, measured, 1)
        if again is None:
            return None
        if again.accounts(found):
            return found
    return None


def _named(graph: Graph, name: str) -> str:
    """A node with its operator, dtype and line."""
    node = graph.by_name[name]
    types = [node.type, *(graph.by_name[user].type for user in graph.users[name])]
    dtype = next((type_.dtype.label for type_ in types if type_ is not None), "")
    operator = f"{unwrapped(node.target, node.args)}, {dtype}" if node.op == "call" else dtype
    source = node.source
    if source is None:
        return f"{node.name} ({operator})"
    code = f": `{source.text}`" if source.file and source.text else ""
    return f"{node.name} ({operator}; {source}{code})"


def _stretches(graph: Graph, name: str, rounding: Collection[str]) -> list[tuple[str, ...]]:
    """For every node that a node's dtype may come from, with no operand of this dtype: it, and what has the dtype
    because of it, if the node is among that; the shortest first. Each member's operands of the dtype are members, or
    numbers that depend on no input and are as they are in any dtype."""
    dtype = _dtype(graph, name)
    given: set[str] = set()  # numbers that no rounding and no input is in
    operands: dict[str, tuple[str, ...]] = {}
    for node in graph.nodes:
        if node.op != "input" and node.name not in rounding and given.issuperset(references(node)):
            given.add(node.name)
        if _dtype(graph, node.name) is dtype and node.op == "call":
            operands[node.name] = tuple(x for x in references(node) if _dtype(graph, x) is dtype)
    found: list[tuple[str, ...]] = []
    for start in graph.ancestors(name):
        if operands.get(start) != ():
            continue
        members = {start: None}
        for other, read in operands.items():
            if not members.keys().isdisjoint(read) and (members.keys() | given).issuperset(read):
                members[other] = None
        if name in members and len(members) > 1:
            found.append(tuple(members))
    return sorted(found, key=len)


def _dtype(graph: Graph, name: str) -> DType | None:
    type_ = graph.by_name[name].type
    return None if type_ is None else type_.dtype


@dataclass(frozen=True)
class _Blamed:
    """Nodes of one program (0 or 1) that account for the distance: one, or one and what has its dtype from it."""

    side: int
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class _Rest:
    """The distance of the outputs: Euclidean, which decides, and the largest one of an element, which is told."""

    norm: float
    most: float


@dataclass(frozen=True)
class _Execution:
    """Both programs in their own dtypes on one input. ``outputs``: pairs of nodes."""

    sides: tuple[Native, Native]
    outputs: tuple[tuple[str, str], ...]

    def distance(self) -> _Rest:
        return self._between(self.sides[0].values, self.sides[1].values)

    def rest(self, side: int, left_out: Collection[str]) -> _Rest:
        """The distance that is left where one program does not round the results of some nodes."""
        found, other = self.sides[side].without(left_out), self.sides[1 - side].values
        return self._between(*((found, other) if side == 0 else (other, found)))

    def accounting(self, graphs: tuple[Graph, Graph]) -> Iterator[_Blamed]:
        """The node of a program that halving leads to, and the casts that it goes back to, as far as they account for
        the distance; first of the program that leaves less of it without any rounding."""
        for side in sorted((0, 1), key=lambda side: self.rest(side, self.sides[side].rounding).norm):
            leading = self._leading(side)
            if leading is not None:
                longer = _stretches(graphs[side], leading.nodes[0], self.sides[side].rounding)
                yield from filter(self.accounts, (leading, *(_Blamed(side, nodes) for nodes in longer)))

    def _leading(self, side: int) -> _Blamed | None:
        """The node of one program that halving leads to."""
        names = self.sides[side].rounding
        while len(names) > 1:
            half = len(names) // 2
            names = min(names[:half], names[half:], key=lambda some: self.rest(side, some).norm)
        return _Blamed(side, names) if names else None

    def accounts(self, found: _Blamed) -> bool:
        """True if most of the distance is gone where these nodes alone do not round their results."""
        return self.rest(found.side, found.nodes).norm <= _REST * self.distance().norm

    def _between(self, first: Mapping[str, NodeValue], second: Mapping[str, NodeValue]) -> _Rest:
        squares, most = 0.0, 0.0
        for one, other in self.outputs:
            x, y = first[one], second[other]
            if isinstance(x, np.ndarray) and isinstance(y, np.ndarray) and x.dtype.kind == "f" and x.shape == y.shape:
                with np.errstate(all="ignore"):  # infinities, which make the distance none
                    apart = np.abs(x - y)
                    squares += float(np.sum(apart * apart))
                most = max(most, float(apart.max(initial=0.0)))
        return _Rest(squares**0.5, most)


def _executed(job: Job, measured: Apart, seed: int) -> _Execution | None:
    """Both programs on the input of a measurement; ``None`` if they are not as far apart as was measured: then what
    happened there is not what one rounding per operator explains."""
    graphs = job.specification, job.implementation[0]
    one, other = (
        Native(graph, {**random_inputs(graph, seed), **given})
        for graph, given in zip(graphs, measured.inputs, strict=True)
    )
    ends = job.specification.output_nodes
    outputs = tuple((ends[name], output_node(job, 0, said.name)) for name, said in job.outputs.items())
    execution = _Execution((one, other), outputs)
    alike = measured.distance / _ALIKE <= execution.distance().most <= measured.distance * _ALIKE
    return execution if alike else None
