"""One form per function of the same operands, for both programs and all ranks.

A call whose operator and attributes are those of an earlier one, applied to operands with the forms of its operands,
has the form of its result: a definition sees nothing else of its operands. So equal sub-programs have equal forms by
construction, and cost what one of them costs. Of tensors that are the same on every rank (no mesh axis is in their
forms) one rank's part is computed with, which is what a specification computes with, too.

What is not a function of its operands is never shared: a definition that asks for something fresh (a random tensor,
memory that is not written, the mask of a dropout) is run for every node. Two more things are not part of a form, and
are done again for every node that shares one: indices are checked to be in range (or assumed, or demanded) in the
program that reads at them, and what must hold for a value to be defined is noted where it must hold.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace

from tantamount.calculus.affine import Coordinate, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.forms import Form, axes_of
from tantamount.calculus.products import substitute_polynomial
from tantamount.calculus.symbolic import Symbolic, Trace
from tantamount.calculus.terms import factors_of
from tantamount.errors import Unsupported
from tantamount.ir.graph import Graph, Node, references
from tantamount.ir.mesh import Mesh
from tantamount.ir.types import Shape
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import ConstantOf, Environment, Result, run_node
from tantamount.ops.keys import Unkeyed, call_key

__all__ = ["Shared", "on_all_ranks"]


@dataclass(frozen=True, slots=True)
class _Known:
    """The result of a call (or why it has none), and what was noted on the way."""

    result: Result
    trace: Trace
    problem: Unsupported | None = None


@dataclass(slots=True)
class Shared:
    """The results that were computed for both programs of a job, over one store. ``computed`` and ``found`` count
    calls."""

    store: Store
    computed: int = 0
    found: int = 0
    _known: dict[Hashable, _Known | None] = field(default_factory=dict[Hashable, "_Known | None"])  # None: not shared
    _numbers: dict[Hashable, int] = field(default_factory=dict[Hashable, int])  # of forms with their records
    _forms: dict[int, tuple[Form, int]] = field(default_factory=dict[int, tuple[Form, int]])  # by identity
    _bare: dict[tuple[int, int], tuple[Form, Form | None]] = field(
        default_factory=dict[tuple[int, int], "tuple[Form, Form | None]"]
    )
    _spread: dict[tuple[int, Shape], tuple[Form, Form]] = field(
        default_factory=dict[tuple[int, Shape], tuple[Form, Form]]
    )

    def value(
        self, graph: Graph, node: Node, symbolic: Symbolic, environment: Environment, constant: ConstantOf
    ) -> Result:
        """The value of a node whose attributes are the same on all ranks, as ``run_node`` would compute it. Raises
        :class:`Unsupported` where it would."""
        on, operands = self._operands(node, symbolic, environment)
        try:
            key = None if node.op != "call" or node.target == "getitem" else self._key(graph, node, on, operands)
        except Unkeyed:
            key = None
        known = None if key is None else self._known.get(key)
        if known is not None:
            self.found += 1
            _again(known.trace, on)
        elif key is None or key in self._known:
            return run_node(graph, node, Builder(symbolic, node.name), environment, constant, None)
        else:
            known = self._compute(graph, node, on, operands, constant)
            self._known[key] = known
            if known is None:
                return run_node(graph, node, Builder(symbolic, node.name), environment, constant, None)
            _merge(known.trace, on.trace)
        if known.problem is not None:
            raise known.problem
        return known.result if on is symbolic else self._on_all_ranks(known.result, symbolic.prefix)

    def _compute(
        self, graph: Graph, node: Node, on: Symbolic, operands: Environment, constant: ConstantOf
    ) -> _Known | None:
        """The result by the operator's definition; ``None`` if that asks for something fresh."""
        self.computed += 1
        trace = Trace(assume_indices=on.trace.assume_indices)
        result, failure = None, None
        try:
            result = run_node(graph, node, Builder(replace(on, trace=trace), node.name), operands, constant, None)
        except Unsupported as problem:
            failure = problem
        return None if trace.drawn else _Known(result, trace, failure)

    def _key(self, graph: Graph, node: Node, on: Symbolic, operands: Environment) -> Hashable:
        def of(name: str) -> Hashable:
            return self._of(operands[name])

        mesh = on.mesh
        where = (*mesh.axes.items(), *mesh.groups.items(), on.batch) if mesh.axes else None
        return where, call_key(graph, node, of)

    def _of(self, value: Result) -> Hashable:
        if isinstance(value, Tensor):
            return value.shape, value.dtype, value.weak, self.number(value.value)
        if isinstance(value, tuple):
            return (tuple, *map(self._of, value))
        if value is None:
            return None
        raise Unkeyed

    def number(self, form: Form) -> int:
        """The number of a form with its record of where it is undefined: equal numbers, equal both."""
        found = self._forms.get(id(form))
        if found is None:
            record = None if form.undefined is None else self.number(form.undefined)
            number = self._numbers.setdefault((form.dims, form.pieces, record), len(self._numbers))
            found = self._forms[id(form)] = (form, number)  # the form is kept, and with it its identity
        return found[1]

    # -- tensors that are the same on every rank
    def _operands(self, node: Node, symbolic: Symbolic, environment: Environment) -> tuple[Symbolic, Environment]:
        """The interpretation and the operands to compute with: one rank's, where they are the same on all."""
        count = len(symbolic.batch)
        if not count or node.op != "call" or node.target == "getitem":
            return symbolic, environment
        operands: Environment = {}
        for name in references(node):
            found = self._bare_result(environment[name], count)
            if found is None:
                return symbolic, environment
            operands[name] = found
        return replace(symbolic, mesh=Mesh(), batch=()), operands

    def _bare_result(self, value: Result, count: int) -> Result:
        if isinstance(value, tuple):
            parts = [None if one is None else self._bare_tensor(one, count) for one in value]
            return (
                None if any(p is None and one is not None for p, one in zip(parts, value, strict=True)) else (*parts,)
            )
        return self._bare_tensor(value, count) if isinstance(value, Tensor) else value

    def _bare_tensor(self, tensor: Tensor, count: int) -> Tensor | None:
        form = self.bare(tensor.value, count)
        return None if form is None else replace(tensor, value=form)

    def bare(self, form: Form, count: int) -> Form | None:
        """The form without its first dimensions, if it does not depend on them."""
        found = self._bare.get((id(form), count))
        if found is None:
            found = self._bare[id(form), count] = (form, _without_lead(form, count))
        return found[1]

    def _on_all_ranks(self, result: Result, prefix: Shape) -> Result:
        """:func:`on_all_ranks`, remembered, so that a form that is used again is the same object."""
        parts = result if isinstance(result, tuple) else (result,)
        for part in parts:
            if isinstance(part, Tensor) and (id(part.value), prefix) not in self._spread:
                self._spread[id(part.value), prefix] = (part.value, _with_lead(part.value, prefix))
        return _mapped(result, lambda form: self._spread[id(form), prefix][1])


def on_all_ranks(result: Result, prefix: Shape) -> Result:
    """A result of one rank as that of all: with first dimensions of these sizes, on which nothing depends."""
    return _mapped(result, lambda form: _with_lead(form, prefix)) if prefix else result


def _mapped(result: Result, change: Callable[[Form], Form]) -> Result:
    if isinstance(result, tuple):
        return tuple(None if one is None else replace(one, value=change(one.value)) for one in result)
    return replace(result, value=change(result.value)) if isinstance(result, Tensor) else result


def _without_lead(form: Form, count: int) -> Form | None:
    sizes = [size for dim in form.dims[:count] for size in dim]
    k = len(sizes)
    record = None if form.undefined is None else _without_lead(form.undefined, count)
    if record is None and form.undefined is not None:
        return None
    if not k:
        return Form(form.dims[count:], form.pieces, record)
    whole = tuple([(0, size) for size in sizes])
    for box, x in form.pieces:
        if box[:k] != whole or any(0 <= v < k for f in factors_of(x) for parts, _ in f.at for v, _ in parts):
            return None
    axes = range(k, k + sum(map(len, form.dims[count:])))
    replace_: dict[int, Coordinate] = {v: variable(v - k) for v in axes}
    pieces = tuple([(box[k:], substitute_polynomial(x, replace_)) for box, x in form.pieces])
    return Form(form.dims[count:], pieces, record)


def _with_lead(form: Form, prefix: Shape) -> Form:
    lead = axes_of(prefix)
    record = None if form.undefined is None else _with_lead(form.undefined, prefix)
    sizes = [size for dim in lead for size in dim]
    if not sizes:
        return Form((*lead, *form.dims), form.pieces, record)
    whole = tuple([(0, size) for size in sizes])
    replace_: dict[int, Coordinate] = {v: variable(v + len(sizes)) for v in range(len(form.sizes))}
    pieces = tuple([((*whole, *box), substitute_polynomial(x, replace_)) for box, x in form.pieces])
    return Form((*lead, *form.dims), pieces, record)


def _merge(noted: Trace, trace: Trace) -> None:
    """Add what a call noted to the record of its run."""
    for obligation in noted.obligations:
        trace.obligations.setdefault(obligation)
    for index in noted.indices:
        trace.indices.setdefault(index)
    trace.readings.update(noted.readings)
    trace.assumed_indices += [site for site in noted.assumed_indices if site not in trace.assumed_indices]


def _again(noted: Trace, on: Symbolic) -> None:
    """Note for another node what the call that has its value noted."""
    for value, size, box in noted.indices:
        on.check_index(value, size, box)
    for one in noted.obligations:
        if one.kind != "index":
            on.trace.obligations.setdefault(replace(one, site=f"{on.rank}{on.site}"))
    on.trace.readings.update(noted.readings)
