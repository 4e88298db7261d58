"""The inputs of both programs as arrays of elements: variables of the specification's, and what the input relation
makes of the ranks'.

Every equality that ``ops.relations`` finds in a relation is solved for a variable: of a rank, if there is one that is
not settled (of a sum over ranks the last one is the whole minus the others), else of the specification, which restricts
its inputs. What cannot be solved is an assumption of the solver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from tantamount.ir.graph import Graph
from tantamount.ir.job import Job
from tantamount.ir.types import DType, Kind, TensorType
from tantamount.ops.algebra import Tensor
from tantamount.ops.relations import pairs
from tantamount.smt.arithmetic import add, mul
from tantamount.smt.functions import maximum
from tantamount.smt.interpretation import Array, Elements, array_of
from tantamount.smt.terms import Element, Table, Term, whole

__all__ = ["Inputs", "build_inputs", "variables"]


@dataclass
class Inputs:
    """The inputs of the specification and of every rank, by name; ``equalities`` that could not be solved;
    ``restricted``: inputs of the specification of which elements are settled by the relations of others."""

    specification: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    ranks: list[dict[str, Tensor]] = field(default_factory=list["dict[str, Tensor]"])
    equalities: list[tuple[Element, Element]] = field(default_factory=list["tuple[Element, Element]"])
    restricted: dict[str, None] = field(default_factory=dict[str, None])


def build_inputs(table: Table, job: Job) -> Inputs:
    """The inputs of both sides. Raises :class:`Unsupported` where shapes do not fit."""
    wholes = {node.name: variables(table, job.specification, node.name, "spec") for node in job.specification.inputs}
    locals_ = {
        (rank, node.name): variables(table, graph, node.name, "rank", rank)
        for rank, graph in enumerate(job.implementation)
        for node in graph.inputs
    }
    solved = _Solved(table)
    on = Elements(table, 0, "relation")
    # placements first: an expression about the same tensors is then one about what they have put there
    for name in sorted(job.inputs, key=lambda name: job.inputs[name].placements is None):
        whole_ = wholes.get(name)
        if whole_ is None:
            continue
        for pair in pairs(on, whole_, whole_.shape, job.inputs[name], job.mesh, lambda r, held: locals_[r, held]):
            for a, b in zip(pair.wanted.flat, pair.found.flat, strict=True):
                solved.equate(a, b)
    out = Inputs(equalities=solved.left, restricted=solved.restricted)
    for node in job.specification.inputs:
        out.specification[node.name] = _tensor(job.specification, node.name, solved.array(wholes[node.name]))
    for rank, graph in enumerate(job.implementation):
        out.ranks.append(
            {node.name: _tensor(graph, node.name, solved.array(locals_[rank, node.name])) for node in graph.inputs}
        )
    return out


def _type(graph: Graph, name: str) -> TensorType:
    return graph.by_name[name].type or TensorType((), DType.FLOAT32)


def variables(table: Table, graph: Graph, name: str, side: str, rank: int = 0) -> Array:
    """The elements of an input, as free numbers of its kind."""
    type_ = _type(graph, name).stored
    kind = type_.dtype.kind
    count = int(np.prod(type_.shape, dtype=np.int64))
    names = [(side, name, rank, k) for k in range(count)]
    variables: list[Element] = [
        table.variable(one, integer=kind is not Kind.FLOAT, boolean=kind is Kind.BOOL) for one in names
    ]
    return array_of(variables, type_.shape)


def _tensor(graph: Graph, name: str, value: Array) -> Tensor:
    type_ = _type(graph, name)
    return Tensor(type_.shape, type_.dtype, value)


@dataclass
class _Solved:
    """Variables and what they are, in terms of others that are not settled when that is entered."""

    table: Table
    values: dict[Term, Element] = field(default_factory=dict[Term, Element])
    left: list[tuple[Element, Element]] = field(default_factory=list["tuple[Element, Element]"])
    restricted: dict[str, None] = field(default_factory=dict[str, None])

    def array(self, x: Array) -> Array:
        """The elements with everything that is settled put in."""
        return array_of([self.resolved(one) for one in x.flat], x.shape)

    def resolved(self, x: Element) -> Element:
        """An element of a relation (a variable, a sum, or a maximum) with everything that is settled put in."""
        if type(x) is not Term:
            return x
        if x.op == "var":
            found = self.values.get(x)
            if found is None:
                return x
            self.values[x] = found = self.resolved(found)
            return found
        if x.op == "sum":
            return add(self.table, [(1, x.args[0]), *((c, self.resolved(one)) for one, c in x.args[1])])
        if x.op == "prod":
            return mul(self.table, [self.resolved(one) for one, _ in x.args])
        return maximum(self.table, [self.resolved(one) for one in x.args])

    def equate(self, a: Element, b: Element) -> None:
        """Enter that two elements are equal."""
        a, b = self.resolved(a), self.resolved(b)
        if a is b:
            return
        if type(a) is Term and type(b) is Term and _renames(a, b):
            self.values[b] = a
            return
        d = add(self.table, [(1, a), (-1, b)])
        if type(d) is not Term:
            if d:
                self.left.append((a, b))
            return
        constant, terms = d.args if d.op == "sum" else (0, ((d, 1),))
        free = [(one, c) for one, c in terms if one.op == "var" and self._solvable(one, d, len(terms))]
        free.sort(key=lambda item: (item[0].args[0][0] == "rank", item[0].number))
        if not free:
            self.left.append((a, b))
            return
        chosen, c = free[-1]
        rest = [(whole(-Fraction(k) / c), one) for one, k in terms if one is not chosen]
        self.values[chosen] = add(self.table, [(whole(-Fraction(constant) / c), 1), *rest])
        if chosen.args[0][0] == "spec":
            self.restricted[chosen.args[0][1]] = None

    def _solvable(self, x: Term, d: Term, count: int) -> bool:
        """True if any value of the other side is one of the variable: a number of its kind. A boolean may be another
        boolean alone."""
        constant, terms = d.args if d.op == "sum" else (0, ((d, 1),))
        if any(one.op != "var" for one, _ in terms):
            return not x.integer and all(one is x or not _uses(one, x) for one, _ in terms)
        if x.boolean:
            return (
                count == 2
                and not constant
                and all(one.boolean for one, _ in terms)
                and {c for _, c in terms} == {1, -1}
            )
        if x.integer:
            return isinstance(constant, int) and all(one.integer and c in (1, -1) for one, c in terms)
        return True


def _renames(a: Term, b: Term) -> bool:
    """True of two variables of one kind, the second of which is a rank's."""
    alike = a.op == b.op == "var" and (a.boolean, a.integer) == (b.boolean, b.integer)
    return alike and b.args[0][0] == "rank"


def _uses(term: Term, x: Term) -> bool:
    """True if a maximum is over a variable."""
    return any(one is x or (type(one) is Term and _uses(one, x)) for one in term.args if type(one) is Term) or (
        term.op == "sum" and any(one is x or _uses(one, x) for one, _ in term.args[1])
    )
