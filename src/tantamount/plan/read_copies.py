"""Reading parts that run in the place of others in some pipelines, whose copies of a piece have degrees of their own;
and inputs that are summands of what all pipelines have. All of it is untrusted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from tantamount.capture.fields import Fields, Place, nearest, shown
from tantamount.capture.job import job_of
from tantamount.ir.graph import Graph, Node, Ref
from tantamount.ir.job import Job
from tantamount.plan.parts import SUMMANDS, Messages, Part, Runs, Summand
from tantamount.plan.read_mesh import read_terms

__all__ = ["COPY_OF", "Copies", "added_up", "read_copies", "read_summands", "with_claims", "with_shares"]

COPY_OF = "copy"  # the kind of a part that runs in the place of another one
_KEYS = ("kind", "of", "pipelines", "impl", "inputs", "outputs", "layout", "without")
_OWN = ("impl", "inputs", "outputs", "layout")  # all else is as the part has it in whose place it runs
_MOST_RANKS = 1 << 31  # how many there are is known where relations are compared


@dataclass(frozen=True)
class Copies:
    """The parts that run in the place of another one: that one, and the ``pipelines`` in which they do, by their names;
    ``without``: outputs that they do not have; ``count`` is the number of all pipelines."""

    of: Mapping[str, str] = field(default_factory=dict[str, str])
    pipelines: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    without: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    count: int = 1

    def runs_in(self, name: str) -> tuple[int, ...]:
        """The pipelines that a part runs in: its own, or those in which none runs in its place."""
        if name in self.of:
            return self.pipelines[name]
        taken = {k for copy, base in self.of.items() if base == name for k in self.pipelines[copy]}
        return tuple(k for k in range(self.count) if k not in taken)

    def beside(self, name: str, of: str) -> str:
        """The part that runs in the place of ``of`` in the first pipeline that ``name`` runs in."""
        own = self.runs_in(name)
        here = (copy for copy, base in self.of.items() if base == of and own and own[0] in self.pipelines[copy])
        return next(here, of)


def read_copies(
    outer: Place, tables: Mapping[str, dict[str, object]], count: int
) -> tuple[dict[str, dict[str, object]], Copies]:
    """The tables of all parts, those of copies with what they have in common with the part in whose place they run; and
    which they are. Raises :class:`UserError` for copies of what has none, and for two in one pipeline."""
    kinds = {name: table.get("kind", Runs.PASS.value) for name, table in tables.items()}
    copied = [name for name, kind in kinds.items() if kind in (Runs.PASS.value, Runs.PIECE.value)]
    found = dict(tables)
    of: dict[str, str] = {}
    pipelines: dict[str, tuple[int, ...]] = {}
    without: dict[str, tuple[str, ...]] = {}
    for name, value in tables.items():
        if kinds[name] != COPY_OF:
            continue
        fields = Fields.of(value, outer.at(name), _KEYS, ("of", "pipelines", "impl"))
        base = fields.at("of").name(fields.get("of"))
        if base not in copied:
            needed = "a part of kind pass or piece"
            raise fields.at("of").wrong(shown(base), needed, code="unknown-part", hint=nearest(base, copied))
        if count < 2:
            raise fields.place.wrong("a copy in a plan of one pipeline", "a schedule with several pipelines")
        place = fields.at("pipelines")
        needed = f"numbers of pipelines below {count}, each for one copy of {base}"
        own = tuple(place.integer(k, 0, count - 1, needed) for k in place.list(fields.get("pipelines"), needed))
        before = {k for copy, other in of.items() if other == base for k in pipelines[copy]}
        if not own or len(set(own)) < len(own) or before & {*own}:
            raise place.wrong(f"the pipelines {', '.join(map(str, own))}", needed)
        of[name], pipelines[name], without[name] = base, own, fields.names("without")
        replaced = tables[base].get("updates")
        kept = [one for one in without[name] if isinstance(replaced, dict) and one in replaced]
        if kept:
            raise fields.at("without").wrong(", ".join(kept), f"what it updates: every copy of {base} does")
        if without[name] and kinds[base] != Runs.PIECE.value:
            raise fields.at("without").wrong(", ".join(without[name]), f"a copy of a part of kind piece, not of {base}")
        table = {key: entry for key, entry in tables[base].items() if kinds[base] == Runs.PASS.value or key != "layout"}
        gives = table.get("gives")
        if isinstance(gives, dict):
            given = cast("dict[str, object]", gives)
            table["gives"] = {key: entry for key, entry in given.items() if key not in without[name]}
        found[name] = table | {key: entry for key, entry in value.items() if key in _OWN}
    return found, Copies(of, pipelines, without, count)


# ---------------------------------------------------------------------------------------------- what copies add up
def read_summands(
    fields: Fields, copies: Copies, name: str, runs: Runs, ranks: int
) -> tuple[Fields, dict[str, Summand]]:
    """The table of a part of so many ranks, whose inputs that are lists, one relation for every pipeline, are one input
    for each; and what these are. Raises :class:`UserError` for lists of other parts than those of one pipeline of
    several."""
    outer = fields.at("inputs")
    stated = outer.table(fields.values.get("inputs", {}), "a table of relations")
    if not any(isinstance(value, list) for value in stated.values()):
        return fields, {}
    relations: dict[str, object] = {}
    found: dict[str, Summand] = {}
    for tensor, value in stated.items():
        if not isinstance(value, list):
            relations[tensor] = value
            continue
        place, listed = outer.at(tensor), cast("list[object]", value)
        own = copies.runs_in(name)
        if not copies.of or runs is not Runs.PIECE or tensor == "default":
            needed = "one relation; lists are for inputs that are sums over pipelines with degrees of their own"
            raise place.wrong(shown(listed), needed)
        if len(own) != 1 or len(listed) != copies.count:
            text = f"{shown(listed)}, in a part that runs in pipelines {', '.join(map(str, own)) or 'of none'}"
            needed = f"{copies.count} relations, one for each pipeline, in a part that runs in one of them"
            raise place.wrong(text, needed)
        for k, entry in enumerate(listed):
            where, label = place.at(str(k)), f"{tensor}.{k}"
            table = (
                {} if entry == "Replicate()" else dict(where.table(entry, '"Replicate()", or a table of placements'))
            )
            if label in stated:
                raise outer.at(label).wrong(shown(label), f"{tensor} as a list alone")
            messages = _sent(where.at("sent"), table.pop("sent"), ranks) if "sent" in table else None
            if k == own[0] and messages is not None:
                raise where.at("sent").wrong("messages to itself", "what other pipelines send; a rank has its own")
            if k != own[0] and "name" not in table:
                raise where.wrong("no 'name'", "what the program calls what it is sent", code="missing-key")
            relations[label] = {"name": tensor, **table}
            found[label] = Summand(tensor, k, messages)
    return Fields({**fields.values, "inputs": relations}, fields.place), found


def _sent(place: Place, value: object, ranks: int) -> Messages:
    fields = Fields.of(value, place, ("ranks", "dim"), ("ranks",))
    texts = fields.at("ranks").list(fields.get("ranks"), "a text for every rank, such as '0', '0[1/2]', '0+1'")
    if len(texts) != ranks:
        raise fields.at("ranks").wrong(
            f"{len(texts)} texts", f"{ranks}, one for each rank that is sent", code="messages"
        )
    terms = tuple(read_terms(fields.at("ranks"), text, _MOST_RANKS) for text in texts)
    return Messages("", "", terms, fields.at("dim").integer(fields.values.get("dim", 0), 0, 63, "a dimension"))


def added_up(graph: Graph, summands: Mapping[str, Summand], place: Place) -> Graph:
    """The specification as a function of what pipelines have of some inputs, of each of which it is the sum. Raises
    :class:`UserError` for names that it has already."""
    if not summands:
        return graph
    entries: dict[str, list[str]] = {}
    for label, one in summands.items():
        entries.setdefault(one.tensor, []).append(label)
    inputs = {node.name for node in graph.inputs}
    missing = next((tensor for tensor in entries if tensor not in inputs), None)
    if missing is not None:
        raise place.wrong(
            shown(missing), "inputs of the specification", code="unknown-tensor", hint=nearest(missing, inputs)
        )
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.name not in entries or node.op != "input":
            nodes.append(node)
            continue
        labels = entries[node.name]
        made = [f"{node.name}.0-{k}" for k in range(1, len(labels) - 1)] + [node.name]
        if taken := next((name for name in (*labels, *made[:-1]) if name in graph.by_name), ""):
            raise place.wrong(f"a tensor {shown(taken)}", f"another name: it is that of a summand of {node.name}")
        nodes += [replace(node, name=label) for label in labels]
        for before, label, name in zip((labels[0], *made), labels[1:], made, strict=False):
            nodes.append(Node(name, "call", "aten.add.Tensor", (Ref(before), Ref(label)), {}, node.type, node.source))
    return replace(graph, nodes=tuple(nodes))


def with_claims(parts: Mapping[str, Part], order: Sequence[str], count: int) -> dict[str, Part]:
    """The parts, of which those that are given a summand of what ``count`` pipelines have claim that what they make of
    it are summands of what they would make of the sum: the specification, on as many devices that do not speak, does
    so."""
    found = dict(parts)
    known = {name: {*part.parameters.values()} for name, part in parts.items() if part.runs is Runs.PASS}
    for name in dict.fromkeys(order):
        part = parts[name]
        if part.runs is not Runs.PIECE or part.summands:
            continue
        partly = frozenset(tensor for tensor, of in part.takes.items() if of in known[part.of])
        if not partly:
            continue
        made = part.made_of(partly)  # all else is the specification's in every pipeline
        known[part.of] |= {part.gives[tensor] for tensor in made if tensor in part.gives}
        claims = {**part.claims, SUMMANDS: _summands(part, partly, made, count)} if made else part.claims
        found[name] = replace(part, partly=partly, claims=claims)
    return found


def with_shares(
    parts: Mapping[str, Part], order: Sequence[str], tied: Mapping[str, Mapping[str, str]]
) -> dict[str, Part]:
    """The parts, of which those that are given what one piece has of the gradient of a shared parameter claim that what
    they make of that is additive, so that it is one summand, too. For two summands: then it is so for any number."""
    found = dict(parts)
    known: dict[str, set[str]] = {}
    for members in tied.values():
        for of, parameter in members.items():
            known.setdefault(of, set()).add(parts[of].parameters[parameter])
    for name in dict.fromkeys(order):
        part = parts[name]
        shares = frozenset(tensor for tensor, of in part.takes.items() if of in known.get(part.of, ()))
        if part.runs is not Runs.PIECE or not shares:
            continue
        made = part.made_of(shares)
        known[part.of] |= {part.gives[tensor] for tensor in made if tensor in part.gives}
        if made:
            found[name] = replace(part, claims={**part.claims, SUMMANDS: _summands(part, shares, made, 2)})
    return found


def _summands(part: Part, given: Collection[str], made: Sequence[str], count: int) -> Job:
    """The claim that what the specification makes of a sum it makes of the summands, too: as many devices as there are
    of these do not speak."""
    whole = part.job.specification
    document: dict[str, object] = {
        "format": "job/1",
        "spec": {"graph": "spec"},
        "impl": {"graph": "impl", "mesh": {"pipeline": count}},
        "inputs": {node.name: ['Partial("sum")' if node.name in given else "Replicate()"] for node in whole.inputs},
        "outputs": {tensor: ['Partial("sum")'] for tensor in made},
    }
    claim = job_of(document, {"spec": whole, "impl": whole}, f"{part.job.path}: {SUMMANDS}")
    return replace(claim, assume=part.job.assume)  # of constants, which are those of this specification
