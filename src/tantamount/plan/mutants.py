"""Plans with one mistake: small changes of a plan, for tests of what verifies plans. None is run or judged here.

A mutant is written as a plan, so that it goes all the way: its table and, where a program is changed, that program. A
change may concern all pieces of a part or one of them (which becomes a part of its own), all ranks or those at one
coordinate along an axis.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import tomli_w

from tantamount.capture.documents import parse_toml
from tantamount.capture.fields import Place
from tantamount.capture.files import read_text
from tantamount.capture.graph_document import graph_document
from tantamount.capture.plan_text import in_ranges, in_runs
from tantamount.capture.programs import write_document
from tantamount.ir.graph import Graph, Node, Ref
from tantamount.ir.relation_types import box_at
from tantamount.limits import limits_from_environment
from tantamount.plan.actions import Action, Event, Kind, Schedule, written
from tantamount.plan.files import TABLE, files_of, programs_of
from tantamount.plan.parts import COPY, TIED, Part, Piece, Plan, Runs
from tantamount.writing import make_folder, write_file

__all__ = ["EDITS", "KINDS", "PlanMutant", "plan_mutants", "write_mutant"]

KINDS = (
    "communication missing", "communication superfluous", "wrong primitive", "wrong group", "device assignment",
    "partitioning", "scaling", "early synchronisation", "shuffled microbatches", "broken dependency", "event lost",
    "unreduced gradient",
)  # fmt: skip

Table = dict[str, Any]


@dataclass(frozen=True)
class PlanMutant:
    """A mutant: ``kind`` is one of :data:`KINDS`, ``what`` one clause, ``place`` the part that is wrong, or ``stages``,
    ``schedule``, ``joints``. ``table`` is the plan's, ``graphs`` the programs that it names and the plan has not."""

    kind: str
    what: str
    place: str
    table: Table
    graphs: Mapping[str, Graph] = field(default_factory=dict[str, Graph])


def write_mutant(mutant: PlanMutant, plan: Path, folder: Path) -> Path:
    """Write a mutant of the plan at ``plan`` and the files that it names to a folder; the path of the mutant."""
    make_folder(folder)
    for name in sorted({*files_of(mutant.table)}):
        if name in mutant.graphs:
            write_document(folder / name, graph_document(mutant.graphs[name]))
        else:
            (folder / name).write_bytes((plan.parent / name).read_bytes())
    write_file(folder / TABLE, f"# {mutant.kind}: {mutant.what}\n{tomli_w.dumps(mutant.table)}")
    return folder / TABLE


def plan_mutants(plan: Plan, seed: int = 0) -> Iterator[PlanMutant]:
    """Mutants of a plan that was read from a file, kinds in turn, without end where programs have many places; which
    piece, rank, event and node is drawn from ``seed``."""
    path = Path(plan.path)
    limits = limits_from_environment()
    table = cast("Table", parse_toml(read_text(path, limits), Place("plan", str(path), limits)))
    random_ = random.Random(seed)
    makers: list[Callable[[], PlanMutant | None]] = []
    for kind, edits in EDITS.items():
        makers.append(partial(_program, plan, table, random_, kind, edits))
    makers += [
        lambda: _stages(plan, table, random_), lambda: _early(plan, table, random_),
        lambda: _shuffled(plan, table, random_), lambda: _broken(plan, table, random_),
        lambda: _lost(plan, table, random_), lambda: _unreduced(plan, table, random_),
        lambda: _exchanged(plan, table, random_), lambda: _astray(plan, table, random_),
        lambda: _misdirected(plan, table, random_),
    ]  # fmt: skip
    seen: set[str] = set()
    idle = 0
    while idle < _PATIENCE:
        idle += 1
        for make in makers:
            found = make()
            if found is not None and found.what not in seen:
                seen.add(found.what)
                idle = 0
                yield found


_PATIENCE = 20  # rounds without a new mutant


# ---------------------------------------------------------------------------------------------- programs
Edit = Callable[[Graph, Node, Part, random.Random], "tuple[str, dict[str, tuple[Node, ...]]] | None"]


def _reduction(node: Node) -> bool:
    return node.op == "call" and "all_reduce" in node.target and len(node.args) == 3


def _missing(graph: Graph, node: Node, part: Part, random_: random.Random) -> Any:
    del graph, random_
    if not _reduction(node) or not _long(part, node.args[2]):
        return None
    return f"{node.name} is left out", {node.name: (replace(node, target="aten.clone.default", args=node.args[:1]),)}


def _superfluous(graph: Graph, node: Node, part: Part, random_: random.Random) -> Any:
    del random_
    if not _reduction(node) or node.args[1] != "sum" or not _long(part, node.args[2]):
        return None
    first, wait = replace(node, name=f"{node.name}.first"), f"{node.name}.wait"
    waited = Node(wait, "call", "_c10d_functional.wait_tensor.default", (Ref(first.name),), type=node.type)
    asynchronous = any(one.target == waited.target for one in graph.nodes)
    again = replace(node, args=(Ref(wait if asynchronous else first.name), *node.args[1:]))
    return f"{node.name} is done twice", {node.name: (first, *([waited] if asynchronous else []), again)}


def _primitive(graph: Graph, node: Node, part: Part, random_: random.Random) -> Any:
    del graph
    if not _reduction(node) or not _long(part, node.args[2]) or node.args[1] == "max":
        return None  # a maximum is taken off before exponentials: any other number there is no mistake
    other = random_.choice([name for name in ("sum", "avg", "max") if name != node.args[1]])
    args = (node.args[0], other, node.args[2])
    return f"{node.name} is {other} and not {node.args[1]}", {node.name: (replace(node, args=args),)}


def _group(graph: Graph, node: Node, part: Part, random_: random.Random) -> Any:
    del graph
    mesh = part.job.mesh
    if not _reduction(node) or not _long(part, node.args[2]):
        return None
    own = _spanned(part, str(node.args[2]))
    others = [name for name in mesh.groups if name != "microbatch" and _long(part, name)]
    others = [name for name in others if _spanned(part, name) != own]
    if node.args[1] == "max":  # one that is taken off before exponentials may be that of more ranks
        others = [name for name in others if not own <= _spanned(part, name)]
    if not others:
        return None
    other = random_.choice(others)
    return f"{node.name} is over {other}", {node.name: (replace(node, args=(*node.args[:2], other)),)}


def _spanned(part: Part, group: str) -> frozenset[str]:
    """The axes of several ranks that a group spans."""
    mesh = part.job.mesh
    return frozenset(axis for axis in mesh.groups[group] if mesh.axes[axis] > 1)


def _scaled(graph: Graph, node: Node, part: Part, random_: random.Random) -> Any:
    del graph, part, random_
    if node.op != "call" or node.target not in ("aten.div.Tensor", "aten.div.Scalar", "aten.mul.Tensor"):
        return None
    number = node.args[1] if len(node.args) == 2 else None
    if isinstance(number, bool) or not isinstance(number, int | float) or number in (0, 1):
        return None
    new = replace(node, args=(node.args[0], number * 2))
    return f"{node.name} has {number * 2} for {number}", {node.name: (new,)}


_BOUNDS = {"aten.sub.Tensor": 1, "aten.lt.Scalar": 1, "aten.ge.Scalar": -1}  # which way is into the part


def _shifted(graph: Graph, node: Node, part: Part, random_: random.Random) -> Any:
    """The graph with the place where a rank's part begins or ends one too far inside: beyond the first and the last
    rank there is nothing, and it does not matter who looks for it."""
    del random_
    graphs = _programs(part)
    if node.op != "call" or len(graphs) < 2 or node.target not in _BOUNDS:
        return None
    number = node.args[1] if len(node.args) == 2 else None
    others = {other.by_name[node.name].args[1] for other in graphs if node.name in other.by_name}
    if not isinstance(number, int) or isinstance(number, bool) or len(others) < 2:
        return None
    wrong = number + _BOUNDS[node.target]
    said = "ends" if node.target == "aten.ge.Scalar" else "begins"
    return f"{node.name} {said} at {wrong} and not {number}", {node.name: (replace(node, args=(node.args[0], wrong)),)}


EDITS: Mapping[str, Edit] = {
    "communication missing": _missing,
    "communication superfluous": _superfluous,
    "wrong primitive": _primitive,
    "wrong group": _group,
    "scaling": _scaled,
    "partitioning": _shifted,
}


def _long(part: Part, group: object) -> bool:
    mesh = part.job.mesh
    return isinstance(group, str) and group in mesh.groups and mesh.group_size(group) > 1


def _programs(part: Part) -> list[Graph]:
    """The different programs of the ranks as they are written: with size symbols, if they have any."""
    if part.family is not None:
        return part.family.programs
    return list({id(graph): graph for graph in part.job.implementation}.values())


def _program(plan: Plan, table: Table, random_: random.Random, kind: str, edit: Edit) -> PlanMutant | None:
    """One node of one part's programs changed."""
    places = [
        (part, node)
        for part in plan.parts.values()
        if part.name in plan.used
        for node in _programs(part)[0].nodes
        if edit(_programs(part)[0], node, part, random.Random(0)) is not None
    ]
    if not places:
        return None
    part, node = random_.choice(places)
    graphs = _programs(part)
    chosen = random_.randrange(len(graphs)) if kind == "partitioning" else None
    seed = random_.randrange(1 << 30)
    new: dict[str, Graph] = {}
    said = ""
    value = table["part"][part.name]["impl"]
    files = [*programs_of(value)]
    for k, (graph, name) in enumerate(zip(graphs, files, strict=False)):
        found = edit(graph, graph.by_name[node.name], part, random.Random(seed))
        if found is None or (chosen is not None and k != chosen):
            continue
        said = said or found[0]
        new[name] = _edited(graph, found[1])
    owner = part.of or part.base or part.name
    whole = part.runs is Runs.ONCE or random_.random() < 0.5 or plan.numbers().get(owner, 1) < 2
    changed = deepcopy(table)
    renamed = {name: f"mutant.{name}" for name in new}
    if whole:
        _point(changed["part"][part.name], renamed)
        return PlanMutant(kind, f"{said} in {part.name}", part.name, changed, {renamed[n]: g for n, g in new.items()})
    number = random_.randrange(plan.numbers()[owner])
    alone = _apart(plan, changed, Piece(owner, number), "odd")
    _point(changed["part"][alone[part.name]], renamed)
    what = f"{said} in {part.name}, for {owner} {number} alone"
    return PlanMutant(kind, what, alone[part.name], changed, {renamed[n]: g for n, g in new.items()})


def _edited(graph: Graph, edits: Mapping[str, tuple[Node, ...]]) -> Graph:
    """The graph with nodes replaced; a reduction over another group or of another kind keeps its type."""
    return replace(graph, nodes=tuple(new for node in graph.nodes for new in edits.get(node.name, (node,))))


def _point(part: Table, renamed: Mapping[str, str]) -> None:
    """The part with other files for its ranks."""
    impl = part["impl"]
    if isinstance(impl, dict):
        tables = cast("dict[str, list[str]]", impl)
        part["impl"] = {axis: [renamed.get(name, name) for name in listed] for axis, listed in tables.items()}
    else:
        part["impl"] = renamed.get(impl, impl)


def _apart(plan: Plan, table: Table, piece: Piece, prefix: str) -> dict[str, str]:
    """Give one piece parts of its own, those that run for it among them; their new names by the old ones."""
    parts = table["part"]
    own = (name for name, part in plan.parts.items() if piece.part in (name, part.of, part.base))
    names = {name: f"{prefix}_{name}" for name in own}
    for old, new in names.items():
        parts[old].pop("names", None)  # which say the numbers of pieces, and these change
        parts[new] = deepcopy(parts[old])
        if "of" in parts[new]:
            parts[new]["of"] = names[parts[new]["of"]]
    for order in table.get("finish", {}).values():
        order[:] = [x for name in order for x in ((name, names[name]) if name in names else (name,))]
    renumbered: dict[Piece, Piece] = {}
    counts: dict[str, int] = {}
    for old_piece in plan.pieces:
        name = names[piece.part] if old_piece == piece else old_piece.part
        renumbered[old_piece] = Piece(name, counts.get(name, 0))
        counts[name] = counts.get(name, 0) + 1
    table["model"]["pieces"] = in_runs(renumbered[x].part for x in plan.pieces)
    table["model"]["stages"] = [_owned([renumbered[x] for x in stage]) for stage in plan.stages]
    return names


def _owned(stage: Sequence[Piece]) -> str:
    return in_ranges((piece.part, piece.number) for piece in stage)


# ---------------------------------------------------------------------------------------------- stages and joints
def _stages(plan: Plan, table: Table, random_: random.Random) -> PlanMutant | None:
    """Layers on other stages than where they belong."""
    if len(plan.stages) < 2:
        return None
    stages = [list(stage) for stage in plan.stages]
    at = random_.randrange(len(stages) - 1)
    kind = random_.choice(("exchanged", "twice", "lost"))
    first, second = stages[at][-1], stages[at + 1][0]
    if kind == "exchanged":
        stages[at][-1], stages[at + 1][0] = second, first
    elif kind == "twice":
        stages[at + 1].insert(0, first)
    else:
        stages[at].pop()
    changed = deepcopy(table)
    changed["model"]["stages"] = [_owned(stage) for stage in stages]
    last, next_ = (f"{piece.part} {piece.number}" for piece in (first, second))
    said = {"exchanged": f"and {next_} are exchanged", "twice": f"is on stage {at + 1}, too", "lost": "is on no stage"}
    return PlanMutant("device assignment", f"{last} {said[kind]}", "stages", changed)


def _unreduced(plan: Plan, table: Table, random_: random.Random) -> PlanMutant | None:
    """An update that takes the gradient as the passes left it, where more than these was to be done."""
    same = {
        (given, taken)
        for part in plan.parts.values()
        for output, given in part.gives.items()
        for tensor, taken in part.takes.items()
        if part.job.inputs[tensor].placements == part.job.outputs[output].placements
    }
    places = [
        (part, tensor, gradient)
        for part in plan.parts.values()
        if part.runs is Runs.PIECE and part.updates
        for tensor, taken in part.takes.items()
        for gradient in plan.parts[part.of].parameters.values()
        if taken != gradient
        and taken.split("_", 1)[-1] == gradient.split("_", 1)[-1]
        and taken.startswith("g_")
        and (taken, gradient) not in same
    ]
    if not places:
        return None
    part, tensor, gradient = random_.choice(places)
    changed = deepcopy(table)
    changed["part"][part.base or part.name].setdefault("takes", {})[tensor] = gradient
    return PlanMutant("unreduced gradient", f"{part.name} takes {gradient} for {tensor}", "joints", changed)


def _exchanged(plan: Plan, table: Table, random_: random.Random) -> PlanMutant | None:
    """Ranks at two coordinates that run each other's programs."""
    places = [
        (name, axis)
        for name in {*plan.numbers(), *plan.reduce, *plan.update}
        if isinstance(table["part"][name]["impl"], dict)
        for axis in table["part"][name]["impl"]
        if axis not in (COPY, TIED)  # any copy may be the one that counts
    ]
    if not places:
        return None
    name, axis = random_.choice(sorted(places))
    changed = deepcopy(table)
    listed = changed["part"][name]["impl"][axis]
    a, b = random_.sample(range(len(listed)), 2)
    listed[a], listed[b] = listed[b], listed[a]
    what = f"{name} has the programs of {axis} {a} and {b} exchanged"
    return PlanMutant("partitioning", what, name, changed)


def _astray(plan: Plan, table: Table, random_: random.Random) -> PlanMutant | None:
    """A rank that is sent what another one is sent, where stages or copies have different ranks."""
    changed = deepcopy(table)
    places: list[tuple[str, Table, Sequence[object]]] = [
        (f"by messages {k}", found, found["ranks"]) for k, found in enumerate(changed["mesh"].get("messages", []))
    ]
    places += [
        (f"of {tensor} for {name}", entry["sent"], _slices(plan.parts[name], f"{tensor}.{k}"))
        for name, part in changed["part"].items()
        for tensor, stated in cast("Table", part.get("inputs") or {}).items()
        for k, entry in enumerate(cast("list[Any]", stated) if isinstance(stated, list) else ())
        if isinstance(entry, dict) and "sent" in entry
    ]
    if not places:
        return None
    where, messages, taken = random_.choice(places)
    ranks = [str(text) for text in cast("list[object]", messages["ranks"])]
    k = random_.randrange(len(ranks))
    others = sorted({text for text, own in zip(ranks, taken, strict=True) if own != taken[k]} - {ranks[k]})
    if not others:
        return None
    messages["ranks"] = [*ranks[:k], random_.choice(others), *ranks[k + 1 :]]
    what = f"rank {k} is sent {messages['ranks'][k]} and not {ranks[k]} {where}"
    return PlanMutant("partitioning", what, "joints", changed)


def _slices(part: Part, tensor: str) -> list[object]:
    """The slice of an input that every rank takes: of those that take the same one, it does not matter who sends it."""
    mesh, held = part.job.mesh, part.input(tensor)
    shape = held.whole.shape if held.whole is not None else ()
    placements = tuple(held.placements.values())
    return [box_at(shape, placements, mesh.sizes, mesh.coordinates(k)) for k in range(mesh.world_size)]


def _misdirected(plan: Plan, table: Table, random_: random.Random) -> PlanMutant | None:
    """A microbatch that is said to pass two pipelines, or none."""
    if plan.copies == 1:
        return None
    changed = _with_events(table, plan.schedule, plan.schedule.devices)
    first, second = random_.sample(changed["schedule"]["pipelines"], 2)
    microbatch = random_.choice(first["microbatches"])
    if random_.random() < 0.5:
        first["microbatches"].remove(microbatch)
        return PlanMutant("device assignment", f"microbatch {microbatch} passes no pipeline", "stages", changed)
    second["microbatches"].append(microbatch)
    return PlanMutant("device assignment", f"microbatch {microbatch} passes two pipelines", "stages", changed)


# ---------------------------------------------------------------------------------------------- the schedule
def _with_events(table: Table, schedule: Schedule, devices: Sequence[Sequence[Event]]) -> Table:
    changed = deepcopy(table)
    new: Table = {"devices": [written(tuple(events)) for events in devices], "owners": [*schedule.owners]}
    if len(schedule.chains) > 1:
        new["pipelines"] = [
            {"stages": [*chain.stages], "microbatches": [*chain.microbatches]} for chain in schedule.chains
        ]
    changed["schedule"] = new
    return changed


def _of(plan: Plan, random_: random.Random, kinds: Sequence[Kind]) -> tuple[int, int, Action] | None:
    """A random action of some kinds: device, position, and itself."""
    found = [
        (device, k, event[0])
        for device, events in enumerate(plan.schedule.devices)
        for k, event in enumerate(events)
        if len(event) == 1 and event[0].kind in kinds
    ]
    return random_.choice(found) if found else None


def _early(plan: Plan, table: Table, random_: random.Random) -> PlanMutant | None:
    found = _of(plan, random_, (Kind.REDUCE,))
    if found is None:
        return None
    device, k, action = found
    events = list(plan.schedule.devices[device])
    kinds = (Kind.BACKWARD, Kind.WEIGHT_GRADIENT)
    backward = [
        j for j, e in enumerate(events[:k]) if any(x.kind in kinds and x.stage == action.stage for x in e)
    ]  # fmt: skip
    if not backward:
        return None
    events.insert(random_.choice(backward), events.pop(k))
    what = f"{action} comes before a backward pass on device {device}"
    return PlanMutant("early synchronisation", what, "schedule", _with_event(plan, table, device, events))


def _with_event(plan: Plan, table: Table, device: int, events: Sequence[Event]) -> Table:
    devices = [*plan.schedule.devices]
    devices[device] = tuple(events)
    return _with_events(table, plan.schedule, devices)


def _shuffled(plan: Plan, table: Table, random_: random.Random) -> PlanMutant | None:
    """Two microbatches exchanged among the actions of one kind and stage."""
    found = _of(plan, random_, (Kind.FORWARD, Kind.BACKWARD, Kind.SEND_FORWARD, Kind.RECEIVE_BACKWARD))
    if found is None or plan.microbatches < 2:
        return None
    device, _, action = found
    other = random_.choice([m for m in range(plan.microbatches) if m != action.microbatch])

    def renamed(one: Action) -> Action:
        if (one.stage, one.kind) != (action.stage, action.kind):
            return one
        swap = {action.microbatch: other, other: action.microbatch}
        return replace(one, microbatch=swap.get(one.microbatch, one.microbatch))

    events = [tuple(map(renamed, event)) for event in plan.schedule.devices[device]]
    what = f"{action} and microbatch {other} are exchanged on device {device}"
    return PlanMutant("shuffled microbatches", what, "schedule", _with_event(plan, table, device, events))


def _broken(plan: Plan, table: Table, random_: random.Random) -> PlanMutant | None:
    """A backward pass before the forward pass of the same microbatch."""
    found = _of(plan, random_, (Kind.BACKWARD, Kind.INPUT_GRADIENT))
    if found is None:
        return None
    device, k, action = found
    events = list(plan.schedule.devices[device])
    forward = (replace(action, kind=Kind.FORWARD),)
    if forward not in events:
        return None
    events.insert(events.index(forward), events.pop(k))
    what = f"{action} comes before its forward pass on device {device}"
    return PlanMutant("broken dependency", what, "schedule", _with_event(plan, table, device, events))


def _lost(plan: Plan, table: Table, random_: random.Random) -> PlanMutant | None:
    kinds = [kind for kind in Kind if kind is not Kind.UPDATE]
    found = _of(plan, random_, kinds)
    if found is None:
        return None
    device, k, action = found
    events = list(plan.schedule.devices[device])
    events.pop(k)
    what = f"{action} is left out on device {device}"
    return PlanMutant("event lost", what, "schedule", _with_event(plan, table, device, events))
