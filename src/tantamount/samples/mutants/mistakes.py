"""Mistakes: mutants that know what was done, and so the right place and the right words.

A *mistake* is what a person might get wrong on one line of a program that is right: a reduction over ranks left out, a
number, another tensor, a shard of another rank. Each is made on every rank that has the node or on one of them, and
says which nodes a report may name, which kinds of difference describe it, and what was done.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tantamount.ir.graph import Argument, Graph, Node, Ref, references
from tantamount.ir.job import Job
from tantamount.ops.algebra import Tensor
from tantamount.ops.calls import facts_of, operator_of
from tantamount.ops.facts import NOTHING, Facts

from .edits import Change, call, changed, leaves_of, live, ref_type, with_literal

__all__ = ["Class", "Mistake", "distances", "mistakes"]

_NEAR = 40  # nodes back to which another operand is taken from
_FUNCTIONS = {
    "aten": ("sigmoid.default", "tanh.default", "relu.default", "silu.default", "gelu.default", "exp.default"),
    "hlo": ("logistic", "tanh", "exponential", "sine"),
}


class Class(Enum):
    """The classes of mistakes that people make, with the kinds of difference that describe them (keys of
    ``differences.toml``)."""

    REDUCTION_MISSING = ("a reduction over ranks is left out", ("unreduced",))
    REDUCTION_TWICE = ("a reduction over ranks is done twice", ("factor", "extra"))
    SCALED = ("a result is multiplied by the number of ranks", ("factor", "extra"))
    NUMBER = ("another number is given", ("attribute", "factor", "constant", "exponent", "offset"))
    STEP_MISSING = ("an operator is left out", ("missing", "operand", "factor"))
    STEP_TWICE = ("an operator is applied twice", ("extra", "factor"))
    FUNCTION = ("another function is applied", ("operation",))
    TENSOR = ("another tensor is read", ("operand", "offset", "missing"))
    SWAPPED = ("two operands are exchanged", ("operand",))
    PART = ("another part of a tensor is taken", ("offset", "operand"))
    ORDER = ("parts are joined in another order", ("offset", "operand"))
    MESSAGE = ("what another rank has is not sent", ("offset", "operand", "missing"))
    ADDED_BEFORE = ("a replicated summand is added before the sum over ranks", ("extra", "factor"))

    def __init__(self, title: str, kinds: tuple[str, ...]) -> None:
        self.title = title
        self.kinds = kinds


@dataclass(frozen=True)
class Mistake:
    """A mistake not yet made. ``node`` is where (all of) ``ranks`` have it; ``places`` are the nodes that are the right
    answer to "where?"; ``build`` raises :class:`~tantamount.samples.mutants.edits.NotAProgram` or
    :class:`~tantamount.errors.UserError` where the result is no valid job."""

    kind: Class
    what: str
    node: str
    ranks: frozenset[int]
    places: frozenset[str]
    build: Callable[[], Job]


def mistakes(job: Job, seed: int) -> list[Mistake]:
    """Every mistake that is known how to make in the nodes that an output depends on, class after class in turn, the
    classes and what is in each in random order: any prefix is a fair sample."""
    found: dict[Class, list[Mistake]] = {kind: [] for kind in Class}
    graph = job.implementation[0]
    groups = {name: job.mesh.group_size(name) for name in job.mesh.groups}
    everywhere = frozenset(range(len(job.implementation)))
    for node in live(job, 0):
        if node.op != "call" or any(_differs(other, node) for other in job.implementation):
            continue
        random_ = random.Random(f"{seed} {node.name}")
        for kind, what, places, change in _of(job, graph, node, groups, random_):
            alone = len(everywhere) > 1 and kind in (Class.NUMBER, Class.TENSOR, Class.PART) and random_.random() < 0.25
            ranks = frozenset([random_.choice(sorted(everywhere))]) if alone else everywhere
            text = f"{node.name} = {node.target}: {what}" + (f", on rank {min(ranks)} only" if alone else "")
            found[kind].append(_mistake(job, kind, text, node.name, ranks, places, change))
    random_ = random.Random(f"{seed} {len(graph.nodes)}")
    for some in found.values():
        random_.shuffle(some)
    classes = [some for some in found.values() if some]
    random_.shuffle(classes)
    turns = max(map(len, classes), default=0)
    return [some[k] for k in range(turns) for some in classes if k < len(some)]


def distances(graph: Graph, start: Sequence[str]) -> dict[str, int]:
    """The distance of each node from the nearest of some, in edges of the data flow in either direction."""
    found = {name: 0 for name in start if name in graph.by_name}
    pending = list(found)
    for name in pending:
        for other in (*references(graph.by_name[name]), *graph.users.get(name, ())):
            if other not in found:
                found[other] = found[name] + 1
                pending.append(other)
    return found


def _differs(graph: Graph, node: Node) -> bool:
    other = graph.by_name.get(node.name)
    return other is None or other.target != node.target or list(references(other)) != list(references(node))


def _mistake(
    job: Job, kind: Class, what: str, name: str, ranks: frozenset[int], places: Sequence[str], change: Change
) -> Mistake:
    return Mistake(kind, what, name, ranks, frozenset((name, *places)), lambda: changed(job, ranks, name, change))


FactsOf = Callable[[Node], Facts]
Made = tuple[Class, str, tuple[str, ...], Change]  # what was done, in words, other right places, and how


def _of(job: Job, graph: Graph, node: Node, groups: dict[str, int], random_: random.Random) -> Iterator[Made]:
    def operand(name: str) -> Tensor | None:
        type_ = graph.by_name[name].type
        return None if type_ is None else Tensor(type_.shape, type_.dtype, None)

    if node.type is None or node.target == "getitem":
        return

    def facts_at(one: Node) -> Facts:
        return facts_of(graph, one, operand, groups) if one.op == "call" and one.target != "getitem" else NOTHING

    facts = facts_at(node)
    row = operator_of(graph, node)
    if row.group_parameter is not None:
        yield from _reductions(graph, node, facts_at)
        return
    yield from _numbers(node, random_)
    yield from _parts(graph, node, facts)
    if facts.factory or not node.type.dtype.is_float:
        return
    yield from _steps(job, graph, node, facts, random_, facts_at)
    yield from _tensors(graph, node, facts, random_)


def _around(graph: Graph, node: Node) -> tuple[str, ...]:
    """The nodes that a node reads, and those that read it: places where a person would put back what is missing
    there."""
    return (*references(node), *graph.users.get(node.name, ()))


def _moved(graph: Graph, name: str, facts: FactsOf) -> tuple[str, ...]:
    """A node, and the nodes from which its elements only moved there: a sum over ranks may stand behind any of them."""
    found = [name]
    while facts(graph.by_name[name]).layout:
        floats = [ref for ref in references(graph.by_name[name]) if _is_float(graph.by_name[ref])]
        if len(floats) != 1:
            break
        name = floats[0]
        found.append(name)
    return tuple(found)


def _linear(graph: Graph, above: str, below: str, facts: FactsOf) -> tuple[str, ...]:
    """The places at which a sum over ranks is the same sum: it may be taken before or after operators that are linear
    in their one operand, since the sum of what they make of summands is what they make of the sum."""
    found: list[str] = []
    while (one := _linear_in(graph, above, facts)) is not None:
        above = one
        found.append(one)
    while len(users := graph.users.get(below, ())) == 1 and _linear_in(graph, users[0], facts) == below:
        below = users[0]
        found.append(below)
    return tuple(found)


def _linear_in(graph: Graph, name: str, facts: FactsOf) -> str | None:
    """The only operand of a node, if it is linear in it."""
    refs = list(dict.fromkeys(references(graph.by_name[name])))
    return refs[0] if len(refs) == 1 and any(refs[0] in one for one in facts(graph.by_name[name]).linear) else None


def _is_float(node: Node) -> bool:
    return node.op == "call" and (node.type is None or node.type.dtype.is_float)


def _reductions(graph: Graph, node: Node, facts: FactsOf) -> Iterator[Made]:
    operand = next((Ref(name) for name in references(node)), None)
    if operand is None or graph.by_name[operand.name].type != node.type or node.type is None:
        return
    if not node.type.dtype.is_float:
        return
    places = (*_moved(graph, operand.name, facts), *_around(graph, node))
    if not facts(node).sums and not facts(node).reduction:
        yield Class.MESSAGE, "not called", places, _passed_on(operand.name)
        return
    sums = facts(node).sums or facts(node).reduction == "sum"
    linear = _linear(graph, operand.name, node.name, facts) if sums else ()
    yield Class.REDUCTION_MISSING, "not called", (*places, *linear), _passed_on(operand.name)
    again = f"{node.name}_once"
    yield Class.REDUCTION_TWICE, "called twice", (again, *graph.users.get(node.name, ())), _twice(again, operand)
    yield from _added_before(graph, node, operand)


def _added_before(graph: Graph, node: Node, operand: Ref) -> Iterator[Made]:
    """The bias that is added to the sum is added to every summand as well."""
    after = node.name
    while len(users := graph.users.get(after, ())) == 1:
        user = graph.by_name[users[0]]
        refs = list(references(user))
        small = [r for r in refs if r != after and (t := graph.by_name[r].type) is not None and len(t.shape) == 1]
        if len(refs) == 2 and small and user.type == node.type:
            biased = f"{node.name}_biased"
            places = (biased, operand.name, after)
            yield Class.ADDED_BEFORE, f"{small[0]} is added before, too", places, _biased(biased, operand, small[0])
            return
        if len(refs) != 1 or user.type != node.type:
            return
        after = user.name


def _numbers(node: Node, random_: random.Random) -> Iterator[Made]:
    for path, value in leaves_of(node):
        if isinstance(value, float) and value not in (0.0, 1.0) and abs(value) < 1e6:
            new = random_.choice((value * 2, value / 2, value * 10))
            yield Class.NUMBER, f"{new!r} instead of {value!r}", (), _put(path, new)


def _parts(graph: Graph, node: Node, facts: Facts) -> Iterator[Made]:
    """Another block of the same size; joined parts in reverse."""
    if facts.piece and node.target == "aten.slice.Tensor" and len(node.args) >= 4:
        dim, low, high = node.args[1], node.args[2], node.args[3]
        type_ = ref_type(graph, node.args[0])
        if isinstance(dim, int) and isinstance(low, int) and isinstance(high, int) and type_ is not None:
            size = min(high, type_.shape[dim]) - low
            start = low + size if low + 2 * size <= type_.shape[dim] else low - size
            if size > 0 and start >= 0:
                what = f"{start}:{start + size} instead of {low}:{high}"
                yield Class.PART, what, (), _arguments((*node.args[:2], start, start + size, *node.args[4:]))
    for k, value in enumerate(node.args):
        if isinstance(value, tuple) and len(value) > 1 and "concat" in facts.moves:
            types = {ref_type(graph, item) for item in value}
            if len(types) == 1 and None not in types and len(set(value)) > 1:
                turned = (*node.args[:k], tuple(reversed(value)), *node.args[k + 1 :])
                yield Class.ORDER, "in reverse", (), _arguments(turned)


def _steps(
    job: Job, graph: Graph, node: Node, facts: Facts, random_: random.Random, facts_of_: FactsOf
) -> Iterator[Made]:
    same = [name for name in dict.fromkeys(references(node)) if graph.by_name[name].type == node.type]
    if same and not facts.view:
        places = (*_moved(graph, same[0], facts_of_), *_around(graph, node))
        yield Class.STEP_MISSING, f"left out, {same[0]} is passed on", places, _passed_on(same[0])
        if facts.elementwise and not facts.idempotent:
            again = f"{node.name}_once"
            yield Class.STEP_TWICE, "applied twice", (again,), _twice(again, Ref(same[0]))
    size = max(2, job.mesh.world_size)
    if not facts.view:
        whole = f"{node.name}_whole"
        yield Class.SCALED, f"times {size}", (whole,), _scaled(whole, float(size))
    prefix, _, name = node.target.partition(".")
    if name in _FUNCTIONS.get(prefix, ()):
        other = random_.choice([f"{prefix}.{f}" for f in _FUNCTIONS[prefix] if f != name])
        yield Class.FUNCTION, f"{other} instead", (), _applied(other)


def _tensors(graph: Graph, node: Node, facts: Facts, random_: random.Random) -> Iterator[Made]:
    refs = [(path, value) for path, value in leaves_of(node) if isinstance(value, Ref)]
    order = {one.name: k for k, one in enumerate(graph.nodes)}
    for path, value in refs:
        type_ = graph.by_name[value.name].type
        if type_ is None or not type_.dtype.is_float or not type_.shape:
            continue
        weight = graph.by_name[value.name].op == "input"
        near = [
            one.name
            for one in graph.nodes[: order[node.name]]
            if one.type == type_ and one.name != value.name and (one.op == "input") == weight
            if weight or order[node.name] - order[one.name] < _NEAR
        ]
        if near:
            name = random_.choice(near)
            yield Class.TENSOR, f"{name} in place of {value.name}", (value.name, name), _put(path, Ref(name))
    if len(refs) == 2 and not facts.commutative:
        (p, a), (q, b) = refs
        if a != b and ref_type(graph, a) == ref_type(graph, b):
            yield Class.SWAPPED, f"{a.name} and {b.name} exchanged", (), _exchanged((p, a), (q, b))


# ------------------------------------------------------------------------------------------------ changes of a node
Leaf = tuple[tuple[int | str, ...], Ref]


def _put(path: tuple[int | str, ...], value: float | Ref) -> Change:
    return lambda graph, node: (with_literal(node, path, value),)


def _exchanged(one: Leaf, other: Leaf) -> Change:
    return lambda graph, node: (with_literal(with_literal(node, one[0], other[1]), other[0], one[1]),)


def _arguments(args: tuple[Argument, ...]) -> Change:
    return lambda graph, node: (replace(node, args=args),)


def _passed_on(operand: str) -> Change:
    return lambda graph, node: (call(node.name, "aten.alias.default", Ref(operand)),)


def _reading(node: Node, old: Ref, new: str) -> Node:
    return replace(node, args=tuple(Ref(new) if item == old else item for item in node.args))


def _twice(first: str, operand: Ref) -> Change:
    return lambda graph, node: (replace(node, name=first), _reading(node, operand, first))


def _biased(fresh: str, operand: Ref, bias: str) -> Change:
    return lambda graph, node: (call(fresh, "aten.add.Tensor", operand, Ref(bias)), _reading(node, operand, fresh))


def _scaled(whole: str, factor: float) -> Change:
    return lambda graph, node: (
        replace(node, name=whole),
        call(node.name, "aten.mul.Tensor", Ref(whole), factor),
    )


def _applied(target: str) -> Change:
    return lambda graph, node: (replace(node, target=target, args=node.args[:1], kwargs={}),)
