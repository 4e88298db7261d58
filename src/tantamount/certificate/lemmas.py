"""The lemmas of a certificate, replayed: every instance is what was proved, but for names, and what it hands on is
claimed of the values that both programs compute.

Instances come in the order of the programs. Two of one lemma have the same nodes up to names (operators, attributes
with their types, types, recorded constants, on every rank), read what is related in the same way, and hand on what is
related in the same way. What an instance reads are inputs of the job, or tensors that earlier instances hand on. All
nodes that the job's outputs are computed from are in an instance.

Where two tensors were proved equal, later pieces read one of them: of the implementation, tensors with the same whole
and the same placements (which are no summands); of the specification, those that an instance says are equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tantamount.certificate.document import Claimed, ClaimedInstance
from tantamount.ir.graph import Argument, Graph, Ref, references
from tantamount.ir.job import Job
from tantamount.ir.relation import Expectation, Partial, Placement

__all__ = ["Given", "replay"]


class _Wrong(Exception):
    """An instance that is none; the text says why."""


@dataclass(frozen=True)
class Given:
    """A claim of an instance about a tensor: the sentence that says which, the tensor, and its relation as in a job."""

    what: str
    claimed: Claimed


@dataclass
class _Known:
    """The tensors that instances have handed on so far: of tensors of the implementation the whole and the placements,
    the other way round the first tensor, and what is read instead of which, by side."""

    parts: dict[str, tuple[str, tuple[Placement, ...]]] = field(
        default_factory=dict[str, "tuple[str, tuple[Placement, ...]]"]
    )
    first: dict[tuple[str, tuple[Placement, ...]], str] = field(
        default_factory=dict["tuple[str, tuple[Placement, ...]]", str]
    )
    instead: tuple[dict[str, str], dict[str, str]] = field(default_factory=lambda: (dict[str, str](), dict[str, str]()))


def replay(
    job: Job, instances: Sequence[ClaimedInstance], read: Mapping[tuple[int, int], Expectation]
) -> tuple[list[str], list[Given]]:
    """The mistakes in the instances, one sentence each, and the claims about values besides those that they give: that
    tensors of the specification are equal. ``read`` has the relation of every claim that they give, by the number of
    the instance and its own."""
    known = _Known()
    keys: dict[int, tuple[object, ...]] = {}
    wrong: list[str] = []
    equal: list[Given] = []
    for number, instance in enumerate(instances):
        gives = [read.get((number, k)) for k in range(len(instance.gives))]
        if any(relation is None for relation in gives):
            return wrong, equal  # said already
        relations = [relation for relation in gives if relation is not None]
        try:
            key = _key(job, instance, relations, known)
            if keys.setdefault(instance.lemma, key) != key:
                raise _Wrong(f"is no instance of lemma {instance.lemma}: {_unlike(keys[instance.lemma], key)}")
            equal += _handed_on(job, number, instance, relations, known)
        except _Wrong as problem:
            wrong.append(f"instance {number} of the lemmas {problem}")
            return wrong, equal
    if instances:
        wrong += _missing(job, instances)
    return wrong, equal


def _unlike(first: tuple[object, ...], other: tuple[object, ...]) -> str:
    parts = ("the specification", "the implementation", "what it reads", "what it hands on", "what it says is equal")
    return next((f"{part} differs" for part, a, b in zip(parts, first, other, strict=True) if a != b), "it differs")


def _key(job: Job, instance: ClaimedInstance, gives: Sequence[Expectation], known: _Known) -> tuple[object, ...]:
    """All that two instances of one lemma have in common."""
    ours = _positions(job.specification, *instance.specification)
    theirs = _positions(job.implementation[0], *instance.implementation)
    programs = [_program(job.specification, ours, instance.specification, known.instead[0])]
    for graph in job.programs:
        if {*theirs} - {*graph.by_name}:
            raise _Wrong(
                f"names nodes that a rank does not have: {', '.join(sorted({*theirs} - {*graph.by_name})[:3])}"
            )
        programs.append(_program(graph, theirs, instance.implementation, known.instead[1]))
    handed = [
        (_at(ours, c.tensor), _at(theirs, e.name), e.placements) for c, e in zip(instance.gives, gives, strict=True)
    ]
    equal = sorted((_at(ours, a), _at(ours, b)) for a, b in instance.equal.items())
    return programs[0], tuple(programs[1:]), _read(job, instance, ours, theirs, known), tuple(handed), tuple(equal)


def _at(positions: Mapping[str, int], name: str) -> int:
    if name not in positions:
        raise _Wrong(f"speaks of {name}, which is none of its tensors")
    return positions[name]


def _positions(graph: Graph, inputs: Sequence[str], nodes: Sequence[str]) -> dict[str, int]:
    names = [*inputs, *nodes]
    if len(set(names)) < len(names):
        raise _Wrong("names a tensor twice")
    for name in names:
        if name not in graph.by_name:
            raise _Wrong(f"names {name}, which is no node")
    if any(graph.by_name[name].op == "input" for name in nodes):
        raise _Wrong("has an input among its nodes")
    return {name: k for k, name in enumerate(names)}


def _program(
    graph: Graph, at: Mapping[str, int], names: tuple[Sequence[str], Sequence[str]], instead: Mapping[str, str]
) -> object:
    """The nodes of a piece with numbers for names."""

    def plain(argument: Argument) -> object:
        if isinstance(argument, Ref):
            name = argument.name if argument.name in at else instead.get(argument.name, argument.name)
            if name not in at:
                raise _Wrong(f"reads {argument.name}, which is neither its own nor read by it")
            return "ref", at[name]
        if isinstance(argument, tuple):
            return tuple(map(plain, argument))
        return type(argument).__name__, repr(argument)

    found: list[object] = [graph.by_name[name].type for name in names[0]]
    for name in names[1]:
        node = graph.by_name[name]
        what: object = node.target
        if node.op == "constant":
            constant = graph.constants.get(node.target)
            if constant is None:
                raise _Wrong(f"has the constant {name}, whose value is not recorded")
            what = constant.type, tuple((type(x).__name__, repr(x)) for x in constant.data)
        if any(at.get(other, -1) >= at[name] for other in references(node)):
            raise _Wrong(f"has {name} before what it reads")
        kwargs = tuple((key, plain(value)) for key, value in sorted(node.kwargs.items()))
        found.append((node.op, what, plain(node.args), kwargs, node.type))
    return tuple(found)


def _read(
    job: Job, instance: ClaimedInstance, ours: Mapping[str, int], theirs: Mapping[str, int], known: _Known
) -> object:
    """The relations of the tensors that a piece reads."""
    found: list[object] = []
    wholes = {name for name in instance.specification[0] if name in job.inputs}
    for name in wholes:
        relation = job.inputs[name]
        held = theirs.get(relation.name, -1)
        found.append((ours[name], held, relation.placements or relation.text, relation.text if relation.equal else ""))
    related = {relation.name for relation in job.inputs.values()}
    for name in instance.implementation[0]:
        if job.implementation[0].by_name[name].op == "input":
            if name in related and all(job.inputs[w].name != name for w in wholes) and _is_plain(job, name):
                raise _Wrong(f"reads {name}, but not what it is a part of")
            continue
        if name not in known.parts:
            raise _Wrong(f"reads {name}, which no instance before hands on")
        whole, placements = known.parts[name]
        if whole not in ours:
            raise _Wrong(f"reads {name}, but not {whole}, of which it is a part")
        found.append((ours[whole], theirs[name], placements, ""))
    return tuple(sorted(found, key=repr))


def _is_plain(job: Job, name: str) -> bool:
    """True if a placement says what an input of the implementation is."""
    return any(relation.name == name and relation.placements is not None for relation in job.inputs.values())


def _handed_on(
    job: Job, number: int, instance: ClaimedInstance, gives: Sequence[Expectation], known: _Known
) -> list[Given]:
    """Note what an instance hands on; what it says is equal, as claims."""
    for claimed, relation in zip(instance.gives, gives, strict=True):
        if relation.placements is None:
            raise _Wrong(f"gives {claimed.tensor} without placements")
        key = claimed.tensor, relation.placements
        first = known.first.setdefault(key, relation.name)
        summands = any(isinstance(p, Partial) for p in relation.placements)
        if first == relation.name or summands:
            known.parts[relation.name] = key
        else:
            known.instead[1][relation.name] = first
    found: list[Given] = []
    held = {whole: (name, placements) for name, (whole, placements) in known.parts.items()}
    for name, other in instance.equal.items():
        relation = job.inputs.get(other)
        if other in held:
            place, placements = held[other]
        elif relation is not None and relation.placements is not None:
            place, placements = relation.name, relation.placements
        else:
            raise _Wrong(f"says that {name} is {other}, of which nothing is known")
        texts = [str(p) for p in placements]
        text = texts if len(texts) > 1 else texts[0] if texts else "Replicate()"
        what = f"that {name} is {other}, of instance {number} of the lemmas,"
        found.append(Given(what, Claimed(name, {"name": place, "placement": text})))
        known.instead[0][name] = other
    return found


def _missing(job: Job, instances: Sequence[ClaimedInstance]) -> list[str]:
    """The nodes that outputs are computed from, and that are in no instance."""
    ours = {name for instance in instances for name in instance.specification[1]}
    theirs = {name for instance in instances for name in instance.implementation[1]}
    out: list[str] = []
    asked = [o.node for o in job.specification.outputs if o.name in job.outputs]
    names = {relation.name for relation in job.outputs.values()}
    held = [o.node for o in job.implementation[0].outputs if o.name in names]
    for graph, found, roots in ((job.specification, ours, asked), (job.implementation[0], theirs, held)):
        needed = {name for root in roots for name in graph.ancestors(root)}
        left = sorted(name for name in needed - found if graph.by_name[name].op != "input")
        if left:
            out.append(f"the instances of lemmas lack nodes: {', '.join(left[:5])}")
    return out
