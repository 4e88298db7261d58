"""Literals and tables that are rounded values of what the other program computes, or writes with more digits.

One program has a table of cosines on record, the other computes it; one writes ``9.999999974752427e-07``, the float32
of the other's ``1e-06``. Taken exactly they differ. A table is taken for a closed form of the other program if every
entry lies within what that form's own arithmetic, in the table's dtype, may be off (``rounding``), and if that is
little beside the numbers of the form: one whose numbers cancel, or a sine of very large angles, may be off by so much
that any table would do. A literal is taken for another one only if it is that one in float32, or with fewer decimals,
and not where it is used in float64, which tells the two apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isfinite, isqrt, log, pi, prod, sqrt
from typing import Union

import numpy as np

from tantamount.comparison.rounding import Bounded, bounded_constants, multiple
from tantamount.ir.graph import Argument, Graph, Node, Ref, references
from tantamount.ir.job import Job
from tantamount.ir.types import DType, TensorType
from tantamount.semantics.reference import Array
from tantamount.verdict import Assumption

__all__ = ["with_closed_forms"]

_DIGITS = 7  # significant ones, that a rounded literal must have
_ALL_DIGITS = 15  # of a number that was computed in float64, and not written by hand
_WIDE = (DType.FLOAT64, DType.COMPLEX128)
_BITS = {"float32": 32, "float64": 64}  # of tables that are looked at: no halves
_LITTLE = 1 / 8  # of the greatest number of a column, by which a form that says what it is may be off
_GELU = sqrt(2 / pi)
# multiples of it that are written: x sigmoid(2 (2/pi)^(1/2) (...)), x / (1 + exp(-...)), and the density of a normal
# distribution at 0, in the slope of gelu, which is half of it
_TIMES = tuple(Fraction(sign * n) for n in (Fraction(1, 2), 1, 2) for sign in (1, -1))
_MULTIPLIED, _DIVIDED = "aten.mul.Tensor", "aten.div.Tensor"
_LARGEST_ROOT = 4096  # whole numbers whose roots are known: head sizes, widths

Position = Union[int, str]


def with_closed_forms(job: Job) -> tuple[Job, tuple[Assumption, ...]]:
    """The job with every constant that is a rounded value of the other program's taken for that, and the assumption
    that it is (none, if none is)."""
    if len({id(graph) for graph in job.implementation}) != 1:
        return job, ()
    first, second = job.specification, job.implementation[0]
    told: list[_Told] = []
    first, second = _literals(first, second, told), _literals(second, first, told)
    first, second = _scalars(first, second, told), _scalars(second, first, told)
    first, second = _tables(first, second, "second", told), _tables(second, first, "first", told)
    if not told:
        return job, ()
    text = "; ".join(dict.fromkeys(one.text for one in told))
    places = tuple(dict.fromkeys(one.node for one in told))
    assumption = Assumption("rounded-constants", f"constants stand for what they round: {text}", places)
    return replace(job, specification=first, implementation=(second,) * len(job.implementation)), (assumption,)


@dataclass(frozen=True)
class _Told:
    """The number that a constant was taken for, and the node that has it."""

    node: str
    text: str


# ---------------------------------------------------------------------------------------------- literals
def _floats(graph: Graph) -> Iterator[tuple[Node, Position, float]]:
    """Every floating-point argument that is not used in float64, with the node and its place. A comparison with float64
    has booleans as its result, and tells literals apart all the same."""
    types = {node.name: node.type for node in graph.nodes}
    for node in graph.nodes:
        used = (node.type, *(types.get(name) for name in references(node)))
        if any(type_ is not None and type_.dtype in _WIDE for type_ in used):
            continue
        for position, value in (*enumerate(node.args), *node.kwargs.items()):
            if isinstance(value, float) and isfinite(value) and value:
                yield node, position, value


def _literals(graph: Graph, other: Graph, told: list[_Told]) -> Graph:
    """The graph with its literals that are roundings of the other program's replaced by those."""
    theirs = {value for _, _, value in _floats(other)}
    own = {value for _, _, value in _floats(graph)}
    meant: dict[float, float] = {}
    for value in own - theirs:
        candidates = {exact for exact in theirs if _rounds(value, exact)}
        if any(not _single(value, exact) for exact in candidates & own):
            continue  # who writes both in one program tells them apart
        if len(candidates) == 1:
            meant[value] = candidates.pop()
    forms = _closed(own - theirs - meant.keys(), other)
    if not meant and not forms:
        return graph
    nodes: list[Node] = []
    for node in graph.nodes:
        for _, position, value in _floats(replace(graph, nodes=(node,))):
            if value in meant:
                node = _with(node, position, meant[value])
                told.append(_Told(node.name, f"{value!r} is {meant[value]!r}"))
            elif value in forms and node.target in ("aten.mul.Tensor", "aten.div.Tensor") and node.type is not None:
                made = [*forms[value].nodes(node.name, node.type.dtype)]
                nodes += made
                node = _with(node, position, Ref(made[-1].name))
                told.append(_Told(node.name, f"{value!r} is {forms[value].text}"))
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


@dataclass(frozen=True)
class _Closed:
    """A multiple, by a power of two, which rounds nothing, of the root of 2 / pi, or of the logarithm of a number."""

    times: Fraction
    base: float | None  # of which it is the logarithm

    @property
    def text(self) -> str:
        times = "" if self.times == 1 else "-" if self.times == -1 else f"{self.times} "
        return f"{times}(2/pi)^(1/2)" if self.base is None else f"{times}log({self.base:g})"

    def nodes(self, name: str, dtype: DType) -> Iterator[Node]:
        """Nodes that compute it, the last one."""
        scalar = TensorType((), dtype)

        def call(what: str, target: str, *args: Argument) -> Node:
            kwargs: dict[str, Argument] = {"dtype": dtype} if target == "aten.full.default" else {}
            return Node(f"{name} {what}", "call", target, args, kwargs, scalar)

        if self.base is None:  # degrees have pi in them
            steps = [
                call("half", "aten.full.default", (), 0.5), call("angle", "aten.deg2rad.default", Ref(f"{name} half")),
                call("quarter turn", "aten.mul.Tensor", Ref(f"{name} angle"), 180),
                call("inverse", "aten.reciprocal.default", Ref(f"{name} quarter turn")),
                call("root", "aten.sqrt.default", Ref(f"{name} inverse")),
            ]  # fmt: skip
        else:
            base = call("base", "aten.full.default", (), self.base)
            steps = [base, call("logarithm", "aten.log.default", Ref(base.name))]
        if self.times != 1:
            steps.append(call("multiple", "aten.mul.Tensor", Ref(steps[-1].name), float(self.times)))
        yield from steps


def _closed(values: Collection[float], other: Graph) -> dict[float, _Closed]:
    """The values that are closed forms of the other program: of its gelu, if it has one, and of the bases of its
    powers."""
    found: dict[float, _Closed] = {}
    if _has_gelu(other):
        found |= {x: _Closed(n, None) for x in values for n in _TIMES if x == n * _GELU or _rounds(x, float(n) * _GELU)}
    for base in {node.args[0] for node in other.nodes if node.target == "aten.pow.Scalar"}:
        if isinstance(base, (int, float)) and isfinite(base) and base > 1:
            found |= {x: _Closed(n, base) for x in values for n in _TIMES if x == n * log(base)}
    return found


def _has_gelu(graph: Graph) -> bool:
    """True if a program computes GELU by its tanh form, or the slope of GELU: the root of 2 / pi is in these."""
    return any(
        (node.target == "aten.gelu.default" and "tanh" in (*node.args, *node.kwargs.values()))
        or node.target == "aten.gelu_backward.default"
        for node in graph.nodes
    )


def _rounds(value: float, exact: float) -> bool:
    """True if a literal is another one in float32, or one of all digits with fewer, but at least :data:`_DIGITS`."""
    if value == exact or (value < 0) != (exact < 0):
        return False
    if float(np.float32(exact)) == value:
        return True
    digits = _digits(value)
    return _DIGITS <= digits < _ALL_DIGITS <= _digits(exact) and float(f"{exact:.{digits - 1}e}") == value


def _single(value: float, exact: float) -> bool:
    """True if two literals are one number in float32."""
    return bool(np.float32(value) == np.float32(exact))


def _digits(value: float) -> int:
    """The significant digits with which Python writes a number."""
    return len(repr(abs(value)).partition("e")[0].replace(".", "").strip("0"))


def _with(node: Node, position: Position, value: Argument) -> Node:
    if isinstance(position, str):
        return replace(node, kwargs={**node.kwargs, position: value})
    return replace(node, args=(*node.args[:position], value, *node.args[position + 1 :]))


def _scalars(graph: Graph, other: Graph, told: list[_Told]) -> Graph:
    """The graph with its recorded single numbers of 32 bits that are roundings of the other program's literals, or of
    roots of whole numbers, replaced by those."""
    theirs = {value for _, _, value in _floats(other)}
    constants = dict(graph.constants)
    nodes: list[Node] = []
    for node in graph.nodes:
        recorded = graph.constants.get(node.target) if node.op == "constant" else None
        number, type_ = _literal_of(node) if recorded is None else (next(iter(recorded.data), None), recorded.type)
        if type_ is None or prod(type_.shape) != 1 or type_.dtype is not DType.FLOAT32 or not isinstance(number, float):
            nodes.append(node)
            continue
        candidates = {exact for exact in theirs if _rounds(number, exact)}
        root, closed = _root_of(number), _closed([number], other)
        if recorded is not None and len(candidates) == 1 and number not in theirs:
            exact = candidates.pop()
            name = f"{node.target} as it is written"
            constants[name] = replace(recorded, data=(exact,))
            told.append(_Told(node.name, f"{number!r} is {exact!r}"))
            node = replace(node, target=name)
        elif root is not None and not candidates:
            base, exponent = root
            label = f"{node.name} base"
            args: tuple[Argument, ...] = (type_.shape, float(base))
            nodes.append(Node(label, "call", "aten.full.default", args, {"dtype": type_.dtype}, type_))
            node = Node(node.name, "call", "aten.pow.Tensor_Scalar", (Ref(label), exponent), {}, type_)
            told.append(_Told(node.name, f"{number!r} is {base}^{exponent}"))
        elif closed and not candidates and not type_.shape:
            *before, last = closed[number].nodes(node.name, type_.dtype)
            nodes += before
            node = replace(last, name=node.name)
            told.append(_Told(node.name, f"{number!r} is {closed[number].text}"))
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes), constants=constants)


def _literal_of(node: Node) -> tuple[Argument, TensorType | None]:
    """The number that a node of HLO is, as the 32 bits that its decimals stand for, and its type; ``None`` for the type
    of any other node."""
    value = node.args[0] if node.target == "hlo.constant" and node.args else None
    return (float(np.float32(value)), node.type) if isinstance(value, float) else (None, None)


def _root_of(number: float) -> tuple[int, float] | None:
    """The smallest whole number and the exponent (1/2, 1/4 or their negatives) of which a number of 32 bits with all
    its digits is the rounded value; ``None`` if there is none."""
    if number <= 0 or len(str(np.float32(number)).partition("e")[0].replace(".", "").strip("0")) < _DIGITS:
        return None
    for exponent in (0.5, -0.5, 0.25, -0.25):
        base = round(number ** (1 / exponent)) if 0 < number < _LARGEST_ROOT else 0
        if 2 <= base <= _LARGEST_ROOT and float(np.float32(base**exponent)) == number and isqrt(base) ** 2 != base:
            return base, exponent
    return None


# ---------------------------------------------------------------------------------------------- tables
def _tables(graph: Graph, other: Graph, side: str, told: list[_Told]) -> Graph:
    """The graph with its recorded tables that are roundings of closed forms of the other program replaced by those."""
    wanted = {
        name: table for name, table in _recorded(graph) if not any(_same(table, one) for _, one in _recorded(other))
    }
    if not wanted:
        return graph
    forms = {bits: bounded_constants(other, bits) for bits in {bits for bits, _ in wanted.values()}}
    copies = _Copies(graph, other, side)
    replaced: dict[str, tuple[Node, ...]] = {}
    for node in graph.nodes:
        if node.op != "constant" or node.target not in wanted:
            continue
        bits, table = wanted[node.target]
        computed = {name: form for name, form in forms[bits].items() if _computed(other, name)}
        blocks = _blocks(table, computed) or _scaled(table, computed, _scales(other), bits)
        if not blocks:
            continue
        replaced[node.name] = copies.table(node, table, blocks)
        off, bound = max(block.off for block in blocks), max(block.bound for block in blocks)
        names = ", ".join(dict.fromkeys(str(block) for block in blocks))
        how = f"differs by {off:.1e} at most (its own arithmetic may be off by {bound:.1e})"
        told.append(_Told(node.name, f"{node.name} is {names} of the {side} program, from which it {how}"))
    if not replaced:
        return graph
    nodes = [*copies.nodes, *(new for node in graph.nodes for new in replaced.get(node.name, (node,)))]
    operators = {**other.operators, **graph.operators}
    return replace(graph, nodes=tuple(nodes), constants={**graph.constants, **copies.constants}, operators=operators)


def _recorded(graph: Graph) -> Iterator[tuple[str, tuple[int, Array]]]:
    """The recorded tables of several numbers that are not all whole, with the bits of their dtype."""
    for name, constant in graph.constants.items():
        bits = _BITS.get(constant.type.dtype.label)
        if bits is None or len(constant.data) < 2:
            continue
        values = np.array([float(x) for x in constant.data if not isinstance(x, complex)])
        if values.size == len(constant.data) and np.isfinite(values).all() and (values != np.rint(values)).any():
            yield name, (bits, values.reshape(constant.type.shape))


def _same(one: tuple[int, Array], other: tuple[int, Array]) -> bool:
    return one[1].shape == other[1].shape and bool((one[1] == other[1]).all())


def _computed(graph: Graph, name: str) -> bool:
    return graph.by_name[name].op == "call"


@dataclass(frozen=True, order=True)
class _Scale:
    """A number that a program multiplies or divides tensors by: ``target`` is the operator."""

    target: str
    number: float

    def __str__(self) -> str:
        return f"{'*' if self.target == _MULTIPLIED else '/'} {self.number!r}"

    @property
    def factor(self) -> float:
        return self.number if self.target == _MULTIPLIED else 1 / self.number


@dataclass(frozen=True)
class _Block:
    """Columns of a table from ``start`` on whose first rows are a closed form, or a multiple of it; ``off``: by how
    much they differ at most, ``bound``: by how much they may."""

    form: str
    start: int
    rows: int
    off: float
    bound: float
    scale: _Scale | None = None

    def __str__(self) -> str:
        return self.form if self.scale is None else f"{self.form} {self.scale}"


def _blocks(table: Array, forms: Mapping[str, Bounded]) -> list[_Block]:
    """Closed forms that make up a table: the whole, or all its columns, with equally many of its first rows."""
    flat = _squeezed(table)
    whole = [
        block for name, form in forms.items() if (block := _block(flat, name, form, 0)) and block.rows == len(flat)
    ]
    full = [block for block in whole if _squeezed(forms[block.form].value).shape == flat.shape]
    if full:
        return [min(full, key=lambda block: block.bound)]
    if flat.ndim != 2:
        return []
    found: list[_Block] = []
    start = 0
    while start < flat.shape[1]:
        here = [block for name, form in forms.items() if (block := _block(flat, name, form, start))]
        here = [block for block in here if not found or block.rows == found[0].rows]
        if not here:
            return []
        found.append(max(here, key=lambda block: (block.rows, -block.bound)))
        start += _squeezed(forms[found[-1].form].value).shape[1]
    return found


def _scales(graph: Graph) -> list[_Scale]:
    """The numbers that a program multiplies and divides tensors by."""
    scaled = ((node, value) for node, _, value in _floats(graph) if node.target in (_MULTIPLIED, _DIVIDED))
    return sorted({_Scale(node.target, value) for node, value in scaled if value > 0 and isinstance(node.args[0], Ref)})


def _scaled(table: Array, forms: Mapping[str, Bounded], scales: Sequence[_Scale], bits: int) -> list[_Block]:
    """The closed form that a whole table is a multiple of, by a number that the program with the form scales by:
    slopes of ALiBi that have the scale of scores in them."""
    flat = _squeezed(table)
    found = [
        replace(block, scale=scale)
        for name, form in forms.items()
        if _squeezed(form.value).shape == flat.shape
        for scale in scales
        if (block := _block(flat, name, multiple(form, scale.factor, bits), 0)) and block.rows == len(flat)
    ]
    return [min(found, key=lambda block: block.bound)] if found else []


def _block(flat: Array, name: str, form: Bounded, start: int) -> _Block | None:
    """The columns from ``start`` on as a closed form, if they are."""
    value, error = _squeezed(form.value), _squeezed(np.broadcast_to(form.error, form.value.shape))
    if value.ndim != flat.ndim or not value.size or value.size < 2:
        return None
    if value.ndim == 1:
        part = flat if value.shape == flat.shape else flat[:0]
    else:
        part = flat[: value.shape[0], start : start + value.shape[1]] if value.ndim == 2 else flat
    if part.shape != value.shape or (value.ndim == 2 and value.shape[0] < 2):
        return None
    off = np.abs(part - value)
    greatest = np.abs(value).max(axis=tuple(range(max(1, value.ndim - 1))))  # of every column
    if not bool((off <= error).all()) or bool((error > _LITTLE * greatest).any()):
        return None
    return _Block(name, start, len(value), float(off.max()), float(error.max()))


def _squeezed(values: Array) -> Array:
    return values.reshape([size for size in values.shape if size != 1])


class _Copies:
    """Nodes of another program, copied under names of their own."""

    def __init__(self, graph: Graph, other: Graph, side: str) -> None:
        self.graph = graph
        self.other = other
        self.side = side
        self.nodes: list[Node] = []
        self.constants = dict[str, object]()
        self.done: set[str] = set()

    def _name(self, name: str) -> str:
        return f"{name} of the {self.side} program"

    def _copy(self, name: str) -> Ref:
        for ancestor in self.other.ancestors(name):
            if ancestor in self.done:
                continue
            self.done.add(ancestor)
            node = self.other.by_name[ancestor]
            target = node.target
            if node.op == "constant" and target in self.other.constants:
                target = self._name(target)
                self.constants[target] = self.other.constants[node.target]
            self.nodes.append(
                replace(
                    node, name=self._name(node.name), target=target,
                    args=tuple(self._renamed(a) for a in node.args),
                    kwargs={key: self._renamed(a) for key, a in node.kwargs.items()},
                )
            )  # fmt: skip
        return Ref(self._name(name))

    def _renamed(self, argument: Argument) -> Argument:
        if isinstance(argument, Ref):
            return Ref(self._name(argument.name))
        return tuple(self._renamed(a) for a in argument) if isinstance(argument, tuple) else argument

    def table(self, node: Node, table: Array, blocks: Sequence[_Block]) -> tuple[Node, ...]:
        """Nodes that compute a table from closed forms, the last of which has its name; rows beyond them stay."""
        found = self.graph.constants[node.target].type
        rows, dtype = blocks[0].rows, found.dtype
        flat = _squeezed(table)
        made: list[Node] = []

        def call(label: str, target: str, args: tuple[Argument, ...], shape: Sequence[int]) -> Ref:
            made.append(Node(f"{node.name} {label}", "call", target, args, {}, TensorType(tuple(shape), dtype)))
            return Ref(made[-1].name)

        parts: list[Argument] = []
        for k, block in enumerate(blocks):
            form = self.other.by_name[block.form]
            copied = self._copy(block.form)
            sizes = () if form.type is None else form.type.shape
            shape = [size for size in sizes if size != 1]
            if form.type is not None and form.type.dtype is not dtype:
                made.append(Node(f"{node.name} cast {k}", "call", "aten._to_copy.default", (copied,), {"dtype": dtype},
                                 TensorType(sizes, dtype)))  # fmt: skip
                copied = Ref(made[-1].name)
            if block.scale is not None:
                copied = call(f"multiple {k}", block.scale.target, (copied, block.scale.number), sizes)
            parts.append(call(f"form {k}", "aten.reshape.default", (copied, tuple(shape)), shape))
        joined = parts[0]
        if len(parts) > 1:
            joined = call("columns", "aten.cat.default", (tuple(parts), 1), (rows, flat.shape[1]))
        if rows < len(flat):
            made.insert(0, replace(node, name=f"{node.name} recorded"))
            kept = call("flat", "aten.reshape.default", (Ref(f"{node.name} recorded"), flat.shape), flat.shape)
            rest = call("rest", "aten.slice.Tensor", (kept, 0, rows, len(flat)), (len(flat) - rows, flat.shape[1]))
            joined = call("rows", "aten.cat.default", ((joined, rest), 0), flat.shape)
        made.append(replace(node, op="call", target="aten.reshape.default", args=(joined, found.shape), type=found))
        return tuple(made)
