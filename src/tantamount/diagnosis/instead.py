"""Hints that say what would have to stand on the line: another tensor of the implementation, other numbers of a slice,
another order.

A change of values says what a node should give. A person changes a line: what is found here computes just those values
there, on every rank that is to change, from tensors that are there already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, permutations

from tantamount.correspond.values import close
from tantamount.diagnosis.arguments import renamed
from tantamount.diagnosis.blocks import Span, span
from tantamount.diagnosis.edits import Edit, EditKind
from tantamount.diagnosis.hints import NO_HINT, Hint, Line, as_on, cut_at, passed_on, reading
from tantamount.diagnosis.locate import whole_reads
from tantamount.diagnosis.replay import Place
from tantamount.diagnosis.value_matches import ValueMatches
from tantamount.ir.graph import Node, references
from tantamount.ir.job import Job
from tantamount.semantics.reference import Array

__all__ = ["instead", "ranks", "reordered"]


def instead(matches: ValueMatches, edit: Edit, job: Job) -> Hint:
    """A change of one line that gives the values of an edit, in the numbers of a job: ``matches`` may be of smaller
    shapes; none if none is found."""
    names = {name for _, name in edit.places}
    if len(names) != 1:
        return NO_HINT
    for found in (_positions(matches, edit, job), *(find(matches, edit) for find in (_operand, _order, _another))):
        text, line = next(found, ("", None))
        if line is not None:
            return Hint(f"{text}{ranks(matches, edit)}", dict.fromkeys(edit.places, line))
    return NO_HINT


def reordered(matches: ValueMatches, edit: Edit) -> Hint:
    """The order of the same operands in which one node gives the values of an edit; none if there is none."""
    if len({name for _, name in edit.places}) != 1:
        return NO_HINT
    text, line = next(_order(matches, edit), ("", None))
    return NO_HINT if line is None else Hint(text, dict.fromkeys(edit.places, line))


def ranks(matches: ValueMatches, edit: Edit) -> str:
    """On which ranks, where that is not all; for a hint."""
    found = sorted({rank for rank, _ in edit.places})
    if len(found) == matches.job.mesh.world_size:
        return ""
    return f" on rank{'' if len(found) == 1 else 's'} {', '.join(map(str, found))}"


def _another(matches: ValueMatches, edit: Edit) -> Iterator[tuple[str, Line]]:
    """Another tensor that has the values."""
    first = edit.places[0]
    below = matches.replay.below(edit.places)
    for node in matches.graph(first).nodes:
        places = [(rank, node.name) for rank, _ in edit.places]
        if any(place in below or place not in matches.replay.position for place in places):
            continue
        if matches.value(places[0]).shape == edit.changes[first].shape and all(
            close(matches.value(place), edit.changes[one]) for place, one in zip(places, edit.places, strict=True)
        ):
            yield f"{node.name} instead of {first[1]}", passed_on(node.name)


def _positions(matches: ValueMatches, edit: Edit, job: Job) -> Iterator[tuple[str, Line]]:
    """The same tensor cut elsewhere, alike on all ranks."""
    if not all(matches.facts(place).piece and matches.node(place).target != "getitem" for place in edit.places):
        return
    found: set[tuple[Span, Span]] = set()
    for place in edit.places:
        refs = list(references(matches.node(place)))
        whole = matches.value((place[0], refs[0]))
        old, new = (span(matches, whole, part) for part in (matches.value(place), edit.changes[place]))
        if old is None or new is None or old.dim != new.dim:
            return
        type_ = job.implementation[place[0]].by_name[refs[0]].type
        size = whole.shape[new.dim] if type_ is None else type_.shape[new.dim]
        if any(x * size % whole.shape[new.dim] for x in (*old[1:], *new[1:])):
            return
        at = [Span(s.dim, *(x * size // whole.shape[new.dim] for x in s[1:])) for s in (old, new)]
        found.add((at[0], at[1]))
    if len(found) == 1:
        ((old, new),) = found
        along = f" along dimension {new.dim}"
        line = _as_elsewhere(matches, edit) or cut_at(*new)
        yield f"{new.low}:{new.high} instead of {old.low}:{old.high}{along} in {edit.places[0][1]}", line


def _as_elsewhere(matches: ValueMatches, edit: Edit) -> Line | None:
    """The node as another rank has it, if it gives there what an edit says: then ranks run one program, as they did
    before; ``None`` if no rank has it."""
    ranks_, name = {rank for rank, _ in edit.places}, edit.places[0][1]
    for rank, graph in enumerate(matches.job.implementation):
        other = graph.by_name.get(name) if rank not in ranks_ else None
        if other is None or any(matches.node(place).target != other.target for place in edit.places):
            continue
        values = [_computed(matches, place, other) for place in edit.places]
        right = zip(edit.places, values, strict=True)
        if all(value is not None and close(value, edit.changes[place]) for place, value in right):
            return as_on(rank)
        return None
    return None


def _operand(matches: ValueMatches, edit: Edit) -> Iterator[tuple[str, Line]]:
    """Another operand: a tensor that what the specification reads there is found in."""
    first = edit.places[0]
    node = matches.node(first)
    if node.op != "call" or node.target == "getitem":
        return
    wanted = next((part[0] for part in edit.wanted.values()), None)
    if wanted is None:
        return
    graph = matches.job.specification
    needed = set(whole_reads(graph, graph.by_name[wanted])) if edit.kind is not EditKind.OPERAND else {wanted}
    needed |= {ref for name in needed for ref in whole_reads(graph, graph.by_name[name])}
    below = matches.replay.below(edit.places)
    tried = 0
    for k, ref in enumerate(references(node)):
        shape = matches.value((first[0], ref)).shape
        for other in matches.graph(first).nodes:
            place = (first[0], other.name)
            if other.name == ref or place in below or matches.value(place).shape != shape:
                continue
            part = matches.aligned(place)
            if part is None or part[0] not in needed:
                continue
            tried += 1
            if matches.effort.exceeds("repair_operands", tried):
                return
            if _gives(matches, edit, {k: other.name}):
                yield f"{other.name} instead of {ref} in {first[1]}", reading({k: other.name})


def _order(matches: ValueMatches, edit: Edit) -> Iterator[tuple[str, Line]]:
    """The same operands in another order."""
    first = edit.places[0]
    refs = list(references(matches.node(first)))
    if len(refs) < 2 or matches.effort.exceeds("repair_permuted", len(refs)):
        return
    for order in islice(permutations(range(len(refs))), 1, None):
        names = {k: refs[j] for k, j in enumerate(order)}
        if _gives(matches, edit, names):
            yield f"{', '.join(refs[j] for j in order)} instead of {', '.join(refs)} in {first[1]}", reading(names)


def _gives(matches: ValueMatches, edit: Edit, names: Mapping[int, str]) -> bool:
    """True if nodes with other operands compute what an edit says, on all ranks."""
    for place in edit.places:
        node = matches.node(place)
        if max(names) >= len(list(references(node))):
            return False
        value = _computed(matches, place, renamed(node, names))
        if value is None or not close(value, edit.changes[place]):
            return False
    return True


def _computed(matches: ValueMatches, place: Place, node: Node) -> Array | None:
    if any((place[0], ref) not in matches.replay.position for ref in references(node)):
        return None
    return matches.replay.computed(place, node)
