"""A plan carried out on numbers: every rank of every device does what its schedule says, event by event, and what it
has in the end is compared with what one device computes.

Nothing here knows of proofs or joints: relations only say what ranks have at first, and what their parts should be.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tantamount.ir.graph import Graph
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Replicate
from tantamount.ir.relation_types import box_at
from tantamount.plan.actions import Action, Kind
from tantamount.plan.exchange import neighbours
from tantamount.plan.flow import At, flow_of
from tantamount.plan.parts import COPY, WORLD, Messages, Part, Piece, Plan, Runs, is_sum
from tantamount.semantics.interpret import interpret, interpret_ranks

__all__ = ["run_plan"]

Values = dict[str, Any]


def run_plan(plan: Plan, seed: int = 0) -> dict[str, float]:
    """The greatest difference of every new parameter, on any rank that has a part of it, from what one device has, and
    that of every result that is a sum; for plans without shared parameters, whose schedule comes to an end."""
    assert not plan.tied
    one = _OneDevice(plan, seed)
    run = _Run(plan, one)
    found: dict[str, float] = {}
    for piece in plan.pieces:
        for device in run.devices_of(piece):
            part = run.part(piece.part, device, piece)
            for name in part.parameters:
                for k in range(run.ranks(part)):
                    wanted = _local(part, name, _seen(plan, part, name, one.own[piece][name]), (0, k))
                    off = np.max(np.abs(run.own[device, k][piece][name] - wanted), initial=0.0)
                    key = f"{piece}.{name}"
                    found[key] = max(found.get(key, 0.0), float(off))
        for name in plan.parts[piece.part].results:
            found[f"{piece}.{name}"] = float(abs(run.results[piece, name] - one.results[piece, name]))
    return found


def _results(graph: Graph, values: Mapping[str, Any], names: Mapping[str, str]) -> Values:
    nodes = {output.name: output.node for output in graph.outputs}
    return {tensor: values[nodes.get(name, name)] for tensor, name in names.items()}


def _local(part: Part, tensor: str, whole: Any, at: tuple[int, int]) -> Any:
    """The part of an input's whole that a rank has: ``at`` is the coordinate of the mesh's first axis, if that is the
    microbatches or the copies, and the number of the rank in its stage."""
    mesh, placements = part.job.mesh, part.job.inputs[tensor].placements
    assert placements is not None
    rest = mesh.world_size // mesh.sizes[0] if part.runs is Runs.PASS or COPY in mesh.axes else mesh.world_size
    box = box_at(whole.shape, placements, mesh.sizes, mesh.coordinates(at[0] * rest + at[1]))
    return whole[tuple(slice(start, stop) for start, stop in box)]


def _seen(plan: Plan, part: Part, tensor: str, whole: Any) -> Any:
    """A tensor of one device, whose specification has the orders of blocks of the parts that are named, as a copy's
    has it."""
    other = plan.parts[part.base] if part.base else part
    before, after = other.taken_as.get(tensor), part.taken_as.get(tensor)
    if before == after:
        return whole
    for order, blocks in ((before, before and before.back), (after, after and after.blocks)):
        if order is not None and blocks is not None:
            parts = np.split(whole, len(blocks), order.dim)
            whole = np.concatenate([parts[k] for k in blocks], order.dim)
    return whole


class _OneDevice:
    """The specification: all parts one after the other on the whole batch."""

    def __init__(self, plan: Plan, seed: int) -> None:
        rng = np.random.default_rng(seed)

        def drawn(part: Part, tensor: str, positive: bool = False) -> Any:
            type_ = part.job.specification.by_name[tensor].type
            assert type_ is not None
            if type_.dtype.is_integral:
                return rng.integers(0, 2, type_.shape)
            found = rng.standard_normal(type_.shape) / 2
            return np.abs(found) if positive else found

        self.first: dict[Piece, Values] = {piece: {} for piece in plan.pieces}
        self.own: dict[Piece, Values] = {piece: {} for piece in plan.pieces}
        self.symbols: Values = {name: np.abs(rng.standard_normal(())) for name in plan.symbols}
        for piece in plan.pieces:
            part = plan.parts[piece.part]
            self.first[piece] = {n: drawn(part, n) for n in (*part.parameters, *part.frozen, *part.data)}
            for other in plan.parts.values():
                if other.of == piece.part:
                    for tensor, name in other.takes.items():
                        if name in other.state:
                            self.first[piece][name] = drawn(other, tensor, True)
            self.own[piece] = dict(self.first[piece])
        self.results: dict[tuple[Piece, str], Any] = {}
        streams: Values = {}
        for way in (False, True):
            for piece in reversed(plan.pieces) if way else plan.pieces:
                part, graph = plan.parts[piece.part], plan.parts[piece.part].job.specification
                given = dict(self.first[piece])
                for name, ends in part.before.items():
                    given[ends.forward] = streams[f"{name} into {piece}"]
                for name, ends in part.after.items():
                    type_ = graph.by_name[ends.backward or ""].type
                    assert type_ is not None
                    given[ends.backward or ""] = streams[f"{name} back to {piece}"] if way else np.zeros(type_.shape)
                found = _spec(part, given)
                at = plan.pieces.index(piece)
                for name, ends in part.after.items():
                    streams[f"{name} into {plan.pieces[at + 1]}"] = found[ends.forward]
                for name, ends in part.before.items():
                    streams[f"{name} back to {plan.pieces[at - 1]}"] = found[ends.backward or ""]
                self.results |= {(piece, name): found[name] for name in part.results if way}
                self.own[piece] |= {gradient: found[gradient] for gradient in part.parameters.values()}
        whole = dict(self.symbols)
        for name in (*plan.reduce, *plan.update):
            part = plan.parts[name]
            if part.runs is Runs.ONCE:
                sums = {x: sum(own[t] for own in self.own.values() if t in own) for x, t in part.sums.items()}
                found = _spec(part, {**{x: whole[t] for x, t in part.takes.items()}, **sums})
                whole |= {t: found[x] for x, t in part.gives.items()}
                continue
            for piece in (piece for piece in plan.pieces if piece.part == part.of):
                own = self.own[piece]
                given = {x: own[t] if t in own else whole[t] for x, t in part.takes.items()}
                for x, summand in part.summands.items():  # one device has all of it
                    given[x] = own[summand.tensor] * (summand.pipeline == 0)
                found = _spec(part, given)
                own |= {t: found[x] for x, t in (*part.gives.items(), *part.updates.items())}


def _spec(part: Part, given: Values) -> Values:
    graph = part.job.specification
    values = interpret(graph, {node.name: given[node.name] for node in graph.inputs})
    return _results(graph, values, {name: name for name in part.job.outputs})


class _Run:
    """All ranks, named by their device and their number there."""

    def __init__(self, plan: Plan, one: _OneDevice) -> None:
        self.plan, self.one = plan, one
        self.around = neighbours(plan.schedule)
        self.own: dict[tuple[int, int], dict[Piece, Values]] = defaultdict(lambda: defaultdict(dict))
        self.whole: dict[tuple[int, int], Values] = defaultdict(lambda: dict(one.symbols))
        self.results: dict[tuple[Piece, str], float] = defaultdict(float)
        self.streams: dict[tuple[int, str, int], list[Values]] = {}  # into a stage, back to it
        self.queues: dict[tuple[int, int], deque[Any]] = defaultdict(deque)
        self._begin()
        flow = flow_of(plan.schedule)
        assert not flow.cycle
        meeting = {at for one in flow.meetings for at in one.at}
        receives = (Kind.RECEIVE_FORWARD, Kind.RECEIVE_BACKWARD)
        for step in flow.order:
            at = flow.steps[step]
            if at is not None:  # what is received, or reduced with others, is there when that is over
                later = (*receives, Kind.REDUCE) if at in meeting else receives
                self._step([one for one in self._of(at) if one[1].kind not in later])
            elif not flow.ends[step]:
                over = flow.steps[step - 1]
                assert over is not None
                self._step([one for one in self._of(over) if one[1].kind in receives])
            elif set(flow.ends[step]) <= meeting:
                self._step([one for at in flow.ends[step] for one in self._of(at) if one[1].kind is Kind.REDUCE])
        for name in plan.update:
            self._finish(plan.parts[name])

    def _of(self, at: At) -> list[tuple[int, Action]]:
        return [(at[0], action) for action in self.plan.schedule.devices[at[0]][at[1]]]

    def ranks(self, part: Part) -> int:
        """The ranks of a stage that runs a part."""
        skipped = (self.plan.axis, COPY)
        return int(np.prod([size for axis, size in part.job.mesh.axes.items() if axis not in skipped]))

    def part(self, name: str, device: int, piece: Piece) -> Part:
        """The part that a device runs for a piece where one is named: that of the pipeline whose copy it has."""
        stages, owners = self.plan.stages, self.plan.schedule.owners
        chains = self.plan.schedule.chains if self.plan.apart else ()
        on = [k for k, chain in enumerate(chains)
              if any(owners[s] == device and piece in stages[s] for s in chain.stages)]  # fmt: skip
        return self.plan.ways[on[0] if on else 0][name]

    def devices_of(self, piece: Piece) -> list[int]:
        """The devices that have a piece, one in each pipeline."""
        plan = self.plan
        return [
            next(plan.schedule.owners[s] for s in chain.stages if piece in plan.stages[s])
            for chain in plan.schedule.chains
        ]

    def _begin(self) -> None:
        """Parameters and state as their relations say."""
        plan = self.plan
        for piece in plan.pieces:
            for copy, device in enumerate(self.devices_of(piece)):
                part = self.part(piece.part, device, piece)
                for k in range(self.ranks(part)):
                    own = self.own[device, k][piece]
                    for name in (*part.parameters, *part.frozen):
                        own[name] = _local(part, name, _seen(plan, part, name, self.one.first[piece][name]), (0, k))
                    for other in (self.part(name, device, piece) for name in (*plan.reduce, *plan.update)):
                        for tensor, name in other.takes.items():
                            if other.of == piece.part and name in other.state:
                                at = (copy if COPY in other.job.mesh.axes else 0, k)
                                first = _seen(plan, other, tensor, self.one.first[piece][name])
                                own[name] = _local(other, tensor, first, at)

    # ------------------------------------------------------------------------------------------ the schedule
    def _step(self, events: Sequence[tuple[int, Action]]) -> None:
        for device, action in events:
            stage, microbatch = action.stage, action.microbatch
            before, after = self.around.get((stage, microbatch), (None, None))
            owners = self.plan.schedule.owners
            if action.kind is Kind.FORWARD:
                self._pass(device, stage, microbatch, forward=True)
            elif action.kind in (Kind.BACKWARD, Kind.INPUT_GRADIENT):
                self._pass(device, stage, microbatch, forward=False)
            elif action.kind is Kind.WEIGHT_GRADIENT and before is None:
                own = Action(stage, Kind.INPUT_GRADIENT, microbatch)
                if not any(own in event for event in self.plan.schedule.devices[device]):
                    self._pass(device, stage, microbatch, forward=False)
            elif action.kind is Kind.SEND_FORWARD:
                assert after is not None
                self.queues[device, owners[after]].append((stage, self.streams.pop((stage, "out", microbatch))))
            elif action.kind is Kind.SEND_BACKWARD:
                assert before is not None
                self.queues[device, owners[before]].append((stage, self.streams.pop((stage, "gradient", microbatch))))
            elif action.kind is Kind.RECEIVE_FORWARD:
                assert before is not None
                giver, values = self.queues[owners[before], device].popleft()
                self.streams[stage, "in", microbatch] = self._sent(giver, stage, values)
            elif action.kind is Kind.RECEIVE_BACKWARD:
                assert after is not None
                giver, values = self.queues[owners[after], device].popleft()
                self.streams[stage, "back", microbatch] = self._sent(giver, stage, values)
        reducing = [(device, action.stage) for device, action in events if action.kind is Kind.REDUCE]
        done: set[tuple[str, Piece]] = set()
        for name in self.plan.reduce if reducing else ():
            together = any(way[name].meets for way in self.plan.ways)
            for device, stage in reducing:
                for piece in self.plan.stages[stage]:
                    if piece.part == self.plan.parts[name].of and (name, piece) not in done:
                        self._piece(name, piece, None if together else device)
                        done |= {(name, piece)} if together else set()

    def _pass(self, device: int, stage: int, microbatch: int, *, forward: bool) -> None:
        """The pieces of a stage, forward or backward; a program does both, so forward its gradients are 0."""
        plan = self.plan
        before, after = self.around[stage, microbatch]
        pieces = plan.stages[stage]
        inputs: dict[Piece, list[Values]] = {}
        moving = self.streams.get((stage, "in", microbatch), [])
        for piece in pieces:  # forward again for the backward pass
            part = self.part(piece.part, device, piece)
            inputs[piece] = [
                {**self._given(part, piece, device, k, microbatch),
                 **{ends.forward: moving[k][name] for name, ends in part.before.items()}}
                for k in range(self.ranks(part))
            ]  # fmt: skip
            found = self._ran(part, inputs[piece])
            moving = [{name: one[ends.forward] for name, ends in part.after.items()} for one in found]
        if forward:
            self._give(stage, after, microbatch, "out", "in", moving)
            return
        moving = self.streams.get((stage, "back", microbatch), [])
        for piece in reversed(pieces):
            part = self.part(piece.part, device, piece)
            for k, given in enumerate(inputs[piece]):
                given |= {ends.backward or "": moving[k][name] for name, ends in part.after.items()}
            found = self._ran(part, inputs[piece])
            moving = [{name: one[ends.backward or ""] for name, ends in part.before.items()} for one in found]
            for k, one in enumerate(found):
                for name in part.results:
                    self.results[piece, name] += _summand(part, name, k) * one[name]
                own = self.own[device, k][piece]
                for gradient in part.parameters.values():
                    own[gradient] = own[gradient] + one[gradient] if gradient in own else one[gradient]
        self._give(stage, before, microbatch, "gradient", "back", moving)

    def _give(self, stage: int, other: int | None, microbatch: int, out: str, into: str, values: list[Values]) -> None:
        """Keep what a stage makes for another one, or give it to that where it is on the same device."""
        owners = self.plan.schedule.owners
        if other is not None and owners[other] == owners[stage]:
            self.streams[other, into, microbatch] = values
        elif other is not None:
            self.streams[stage, out, microbatch] = values

    def _given(self, part: Part, piece: Piece, device: int, k: int, microbatch: int) -> Values:
        own = self.own[device, k][piece]
        given = {name: own[name] for name in (*part.parameters, *part.frozen)}
        first = {name: _seen(self.plan, part, name, self.one.first[piece][name]) for name in part.data}
        given |= {name: _local(part, name, value, (microbatch, k)) for name, value in first.items()}
        for ends in part.after.values():
            relation = part.job.inputs[ends.backward or ""]
            type_ = part.job.implementation[k].by_name[relation.name].type
            assert type_ is not None
            given[ends.backward or ""] = np.zeros(type_.shape)
        return given

    def _ran(self, part: Part, inputs: list[Values]) -> list[Values]:
        """One microbatch of a pass on the ranks of a stage."""
        mesh = part.job.mesh
        axes = {axis: size for axis, size in mesh.axes.items() if axis != self.plan.axis}
        groups = {name: spanned for name, spanned in mesh.groups.items() if set(spanned) <= axes.keys()}
        return _together(part, part.job.implementation[: len(inputs)], Mesh(axes, groups), inputs)

    def _sent(self, giver: int, taker: int, values: list[Values]) -> list[Values]:
        """What the ranks of a stage get from those of another one."""
        first, second = (self.plan.stages[s] for s in (giver, taker))
        forward = self.plan.pieces.index(first[0]) < self.plan.pieces.index(second[0])
        ends = (first[-1], second[0]) if forward else (first[0], second[-1])
        owners = self.plan.schedule.owners[giver], self.plan.schedule.owners[taker]
        parts = [self.part(piece.part, device, piece) for piece, device in zip(ends, owners, strict=True)]
        layouts = parts[0].layout, parts[1].layout
        if len(values) == self.ranks(parts[1]):
            return values
        messages = self.plan.messages[layouts[0], layouts[1]]
        return [
            {name: _put([one[name] for one in values], messages, k) for name in values[0]}
            for k in range(len(messages.ranks))
        ]

    # ------------------------------------------------------------------------------------------ afterwards
    def _finish(self, part: Part) -> None:
        if part.runs is Runs.ONCE:
            self._once(part)
            return
        for piece in self.plan.pieces:
            if piece.part == part.of:
                self._piece(part.name, piece, None)

    def _apart(self, name: str, piece: Piece, devices: Sequence[int]) -> None:
        """The same of copies with degrees of their own: each on its ranks, with what it is sent by others."""
        made: dict[tuple[int, int], Values] = {}
        for device in devices:
            part, inputs = self.part(name, device, piece), list[Values]()
            for k in range(self.ranks(part)):
                own, whole = self.own[device, k][piece], self.whole[device, k]
                inputs.append({x: own[t] if t in own else whole[t] for x, t in part.takes.items()})
                for x, one in part.summands.items():
                    other = self.devices_of(piece)[one.pipeline]
                    count = self.ranks(self.part(piece.part, other, piece))
                    held = [self.own[other, j][piece][one.tensor] for j in range(count)]
                    inputs[-1][x] = held[k] if one.messages is None else _put(held, one.messages, k)
            found = _together(part, part.job.implementation, part.job.mesh, inputs)
            given = (*part.gives.items(), *part.updates.items())
            made |= {(device, k): {t: one[x] for x, t in given} for k, one in enumerate(found)}
        for place, values in made.items():
            self.own[place][piece] |= values

    def _piece(self, name: str, piece: Piece, alone: int | None) -> None:
        """A part for one piece, on all devices that have it; or the results of one of them ``alone``."""
        if self.plan.apart:
            self._apart(name, piece, self.devices_of(piece) if alone is None else [alone])
            return
        part = self.plan.parts[name]
        count = self.ranks(part)
        places = [(device, k) for device in self.devices_of(piece) for k in range(count)]
        inputs: list[Values] = []
        for place in places:
            own, whole = self.own[place][piece], self.whole[place]
            zeros = {x: np.zeros(()) for x, t in part.takes.items() if t not in own and t not in whole}
            assert not zeros or (alone is not None and place[0] != alone)
            inputs.append({x: own[t] if t in own else whole.get(t) for x, t in part.takes.items()})
        if alone is not None:  # another device has not come so far, and does not matter
            mine = [given for place, given in zip(places, inputs, strict=True) if place[0] == alone]
            inputs = mine * len(self.devices_of(piece))
        found = _together(part, part.job.implementation, part.job.mesh, inputs)
        for place, one in zip(places, found, strict=True):
            if alone is None or place[0] == alone:
                self.own[place][piece] |= {t: one[x] for x, t in (*part.gives.items(), *part.updates.items())}

    def _once(self, part: Part) -> None:
        places = list(self._everyone(part))
        inputs: list[Values] = []
        for place in places:
            pieces = self.own[place].values()
            sums = {x: sum((own[t] for own in pieces if t in own), np.zeros(())) for x, t in part.sums.items()}
            inputs.append({**{x: self.whole[place][t] for x, t in part.takes.items()}, **sums})
        for place, one in zip(places, _together(part, part.job.implementation, part.job.mesh, inputs), strict=True):
            self.whole[place] |= {t: one[x] for x, t in part.gives.items()}

    def _everyone(self, part: Part) -> Iterator[tuple[int, int]]:
        mesh, pipeline = part.job.mesh, self.plan.pipeline
        if WORLD in mesh.axes:
            yield from ((d, k) for d, counts in enumerate(self.plan.ranks) for k in range(max(counts)))
            return
        seen: dict[int, int] = defaultdict(int)
        for rank in range(mesh.world_size):
            device = dict(zip(mesh.names, mesh.coordinates(rank), strict=True)).get(pipeline, 0)
            yield device, seen[device]
            seen[device] += 1


def _put(values: Sequence[Any], messages: Messages, k: int) -> Any:
    """What rank k is sent by ranks that have some values."""
    parts = [
        np.split(values[g], count, messages.dim)[j] if count > 1 else values[g] for g, j, count in messages.ranks[k]
    ]
    return np.concatenate(parts, messages.dim) if len(parts) > 1 else parts[0]


def _summand(part: Part, result: str, k: int) -> int:
    """1 if what rank ``k`` of a stage has of a result counts, 0 where another one has the same; all must be sums."""
    mesh, placements = part.job.mesh, part.job.outputs[result].placements
    assert placements is not None
    assert all(p == Replicate() or is_sum(p) for p in placements)
    return int(all(p != Replicate() or at == 0 for p, at in zip(placements, mesh.coordinates(k), strict=True)))


def _together(part: Part, graphs: Sequence[Graph], mesh: Mesh, inputs: Sequence[Values]) -> list[Values]:
    """The outputs of a part's programs on some ranks, by the names of the specification."""
    named = [{part.job.inputs[tensor].name: value for tensor, value in given.items()} for given in inputs]
    given = [{node.name: one[node.name] for node in graph.inputs} for graph, one in zip(graphs, named, strict=True)]
    values = interpret_ranks(graphs, mesh, given)
    names = {tensor: expectation.name for tensor, expectation in part.job.outputs.items()}
    return [_results(graph, one, names) for graph, one in zip(graphs, values, strict=True)]
