"""The steps of a generated plan's ranks: their statements followed by labels, without any tensor.

Every value carries the microbatch that it belongs to, and which call made it. Messages are matched in order, as NCCL
does; a send waits for its receive, a collective (and a pass that has collectives) for the same call of all its
members. What comes out is, for every rank, the sequence of its calls for *one* microbatch, which must be the same for
all of them, and sentences about what is wrong with the order.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Union

from tantamount.capture.nnscaler.meetings import Made, Tracked, Wait, met, said_of
from tantamount.capture.nnscaler.modules import GeneratedModule
from tantamount.capture.nnscaler.parts import lost, written
from tantamount.capture.nnscaler.reductions import Reductions
from tantamount.capture.nnscaler.statements import Call, Dotted, Function, Name, Statement, Value, refused
from tantamount.capture.nnscaler.together import components, outside, ranks_in
from tantamount.errors import InternalError

__all__ = ["ADAPTERS", "Event", "RankSteps", "Steps", "follow"]

_EXECUTOR = "nnscaler.runtime.executor."
ADAPTERS = "nnscaler.runtime.adapter."
_FLAGS = "nnscaler.flags.RuntimeFlag."
_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
_BETWEEN = ("rdscatter", "rvscatter", "rdgather", "rvgather")  # of stages with different numbers of ranks
_LOCAL = ("chunk", "identity", "select", "smerge", "vmerge")


@dataclass(frozen=True, slots=True)
class Event:
    """A call for one microbatch. ``kind``: ``forward`` of a segment, ``adapter``, ``backward`` (of the call ``of``, its
    ``args`` are the gradients of its results ``outputs``). ``differentiable``: results require gradients, and after a
    forward pass comes a backward pass."""

    kind: str
    function: str
    args: tuple[Made | None, ...] = ()
    outputs: tuple[Made, ...] = ()
    of: int = -1
    differentiable: bool = False
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class RankSteps:
    """The calls of one rank for any microbatch, and the values that its step returns for it. ``samples``: whether it
    takes data; ``reducers``: those that run afterwards, in order."""

    events: tuple[Event, ...]
    results: tuple[Made, ...]
    samples: bool
    reducers: tuple[str, ...]


@dataclass(frozen=True)
class Steps:
    """``ranks`` is empty if what is wrong stands in the way. ``wrong`` are mistakes of the plan, ``unknown`` what is
    only not known to be right; each is a sentence with its place. ``count``: calls of all ranks."""

    ranks: tuple[RankSteps, ...]
    wrong: tuple[str, ...]
    unknown: tuple[str, ...]
    count: int


class _Wrong(Exception):
    """A mistake that ends a rank's step; its text is a sentence."""


_Local = Union[Tracked, str, None]


def follow(modules: Sequence[GeneratedModule]) -> Steps:
    """All ranks, side by side. Raises :class:`UserError` for statements that are not known, and for steps that do not
    train."""
    alone = [sentence for module in modules for sentence in outside(module, len(modules))] + [*lost(modules)]
    if alone:
        return Steps((), tuple(alone), (), 0)
    together = components(modules)
    ranks = [_Rank(module, together[module.rank], len(modules)) for module in modules]
    runs: list[Generator[Wait, Tracked | None, None] | None] = [rank.run() for rank in ranks]
    waits: dict[int, Wait] = {}
    wrong: list[str] = []

    def go_on(rank: int, given: Tracked | None) -> None:
        run = runs[rank]
        if run is None:
            raise InternalError(f"rank {rank} goes on after its end")
        try:
            waits[rank] = run.send(given)
        except StopIteration:
            runs[rank] = None
        except _Wrong as problem:
            wrong.append(str(problem))
            runs[rank] = None

    for rank in range(len(ranks)):
        go_on(rank, None)
    moved = True
    while moved:
        moved = False
        for rank in list(waits):
            wait = waits.get(rank)
            members = None if wait is None else met(rank, wait, waits)
            if wait is None or members is None:
                continue
            moved = True
            carried = next((found for member in members if (found := waits[member].carried) is not None), None)
            labels = {waits[member].label for member in members}
            if len(labels) > 1:
                sides = "; ".join(f"rank {m}: {said_of(waits[m])}" for m in members[:4])
                return _steps(ranks, [*wrong, f"calls that meet are not the same: {sides}"], [])
            for member in members:
                del waits[member]
            for member in members:
                go_on(member, carried)
    trains = any(event.kind == "backward" for rank in ranks for events in rank.events.values() for event in events)
    if not wrong and not waits and not trains:
        first = modules[0].step.body[0].line if modules[0].step.body else 1
        raise refused(
            modules[0].path, first, "a step without a backward pass", "a step that trains: not inference_only"
        )
    unknown: list[str] = []
    if waits and not wrong:
        said = "; ".join(f"rank {rank} waits at {said_of(wait)}" for rank, wait in sorted(waits.items())[:6])
        exact = all(wait.exact for wait in waits.values())
        (wrong if exact else unknown).append(f"a deadlock: {said}")
    return _steps(ranks, wrong, unknown)


def _steps(ranks: Sequence[_Rank], wrong: list[str], unknown: list[str]) -> Steps:
    count = sum(len(events) for rank in ranks for events in rank.events.values())
    if wrong or unknown:
        return Steps((), tuple(wrong), tuple(unknown), count)
    found: list[RankSteps] = []
    for rank in ranks:
        problems = [*rank.problems()]
        if problems:
            wrong += problems
            continue
        results = tuple(made for made, _ in rank.results.get(0, ()))
        found.append(RankSteps(tuple(rank.events.get(0, [])), results, rank.samples > 0, tuple(rank.reductions.done)))
    return Steps(tuple(found) if not wrong else (), tuple(wrong), (), count)


@dataclass
class _Rank:
    """One rank, on its way through its step."""

    module: GeneratedModule
    together: tuple[tuple[int, ...], bool]
    world: int
    events: dict[int, list[Event]] = field(default_factory=dict[int, list[Event]])
    results: dict[int, list[tuple[Made, int]]] = field(default_factory=dict[int, list[tuple[Made, int]]])
    samples: int = 0
    flags: dict[str, bool] = field(default_factory=dict[str, bool])
    open: dict[str, list[tuple[int, int]]] = field(default_factory=dict[str, list[tuple[int, int]]])
    cleared: bool = False
    calls: dict[tuple[object, ...], int] = field(default_factory=dict[tuple[object, ...], int])
    returned: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        self.reductions = Reductions(self.module)

    def place(self, statement: Statement) -> str:
        return f"{self.module.path}:{statement.line}"

    def wrong(self, statement: Statement, text: str) -> _Wrong:
        return _Wrong(f"{self.place(statement)}: {text}")

    def run(self) -> Generator[Wait, Tracked | None, None]:
        known: dict[str, _Local] = {}
        loader = self.module.step.parameters[1:2]
        for statement in self.module.step.body:
            value = statement.value
            target = statement.targets[0] if len(statement.targets) == 1 else ""
            if target.startswith(_FLAGS) and isinstance(value, bool) and not statement.within:
                self.flags[target.removeprefix(_FLAGS)] = value
                continue
            taken = {*self.module.step.parameters, *(x for x in statement.targets if "." in x)}
            if statement.within or not taken.isdisjoint(statement.targets):
                raise self._unknown(statement)
            if statement.returns:
                self._return(statement, known)
                return
            if statement.deleted:
                for name in statement.deleted:
                    self._value(Name(name), known, statement)
                    del known[name]
            elif value is None and statement.targets:
                known.update(dict.fromkeys(statement.targets))
            elif isinstance(value, Name) and target:
                known[target] = self._value(value, known, statement)
            elif isinstance(value, Call):
                made = yield from self._call(value, statement, known, loader)
                self._assign(statement, made, known)
            else:
                raise self._unknown(statement)

    def _unknown(self, statement: Statement) -> Exception:
        return refused(self.module.path, statement.line, statement.text, "the calls of a step that nnScaler generates")

    def _assign(self, statement: Statement, made: Tracked | None, known: dict[str, _Local]) -> None:
        if statement.unpacked:
            if made is None:
                raise self._unknown(statement)
            for k, name in enumerate(statement.targets):
                known[name] = replace(made, made=Made(made.made.event, k))
        elif statement.targets:
            known[statement.targets[0]] = made

    def _value(self, value: Value, known: Mapping[str, _Local], statement: Statement) -> Tracked | None:
        if value is None:
            return None
        if isinstance(value, Name) and value.name in known:
            found = known[value.name]
            if not isinstance(found, str):
                return found
        if isinstance(value, Name):
            found_ = f"{value.name}, which nothing has made before: {statement.text}"
            raise refused(self.module.path, statement.line, found_, "a name of a value that the rank has")
        raise self._unknown(statement)

    def _call(
        self, call: Call, statement: Statement, known: dict[str, _Local], loader: tuple[str, ...]
    ) -> Generator[Wait, Tracked | None, Tracked | None]:
        name = call.function
        if name in {f"{x}.zero_grad" for x in self.module.step.parameters[:1]} and not call.args and not call.kwargs:
            if self.flags.get("skip_zero_grad"):
                raise self.wrong(statement, "gradients of the step before are kept: skip_zero_grad is set")
            if any(self.events.values()):
                raise self.wrong(statement, "gradients are cleared after passes have begun")
            self.cleared = True
            return None
        if name == "next" and call.args == tuple(map(Name, loader)):
            self.samples += 1
            return Tracked(self.samples - 1, Made(-1))
        if name.endswith(".detach") and not call.args and name.removesuffix(".detach") in known:
            return self._value(Name(name.removesuffix(".detach")), known, statement)
        if name == f"{_EXECUTOR}fexecute" and len(call.args) >= 2 and isinstance(call.args[1], Dotted):
            return (yield from self._forward(call, statement, known))
        if name == f"{_EXECUTOR}aexecute" and call.args and isinstance(call.args[0], Dotted):
            return (yield from self._adapter(call, statement, known))
        if name == f"{_EXECUTOR}backward" and len(call.args) == 4:
            return (yield from self._backward(call, statement, known))
        raise self._unknown(statement)

    def _function(self, value: Value, statement: Statement) -> Function:
        path = value.path.partition(".")[2] if isinstance(value, Dotted) else ""
        found = self.module.functions.get(path)
        if found is None:
            raise self._unknown(statement)
        return found

    def _same(self, values: Sequence[Tracked | None], statement: Statement) -> int | None:
        """The microbatch of some values."""
        found = {value.microbatch for value in values if value is not None}
        if len(found) > 1:
            numbers = " and ".join(str(m) for m in sorted(found))
            raise self.wrong(statement, f"tensors of microbatches {numbers} are mixed: {statement.text}")
        return next(iter(found), None)

    def _number(self, *channel: object) -> int:
        """The number of calls of a channel for a microbatch before this one, which counts from now on."""
        found = self.calls.get(channel, 0)
        self.calls[channel] = found + 1
        return found

    def _add(self, microbatch: int, event: Event) -> Tracked:
        events = self.events.setdefault(microbatch, [])
        events.append(event)
        return Tracked(microbatch, Made(len(events) - 1))

    def _pass(self, kind: str, microbatch: int, statement: Statement, function: Function) -> Generator[Wait, Any, None]:
        """A pass meets the same pass of all ranks that it communicates with."""
        members, exact = self.together
        if len(members) > 1 and any(ranks_in(function)):
            before = sum(event.kind in ("forward", "backward") for event in self.events.get(microbatch, ()))
            label = (kind, "pass", before, "of microbatch", microbatch)
            yield Wait("meet", members, label, self.place(statement), exact=exact)

    def _forward(
        self, call: Call, statement: Statement, known: dict[str, _Local]
    ) -> Generator[Wait, Tracked | None, Tracked]:
        function = self._function(call.args[1], statement)
        args = [self._value(value, known, statement) for value in call.args[2:]]
        microbatch = self._same(args, statement)
        if microbatch is None or len(args) != len(function.parameters):
            raise self._unknown(statement)
        differentiable = call.kwargs.get("requires_grad", True)
        if not isinstance(differentiable, bool) or set(call.kwargs) - {"requires_grad"}:
            raise self._unknown(statement)
        yield from self._pass("forward", microbatch, statement, function)
        made = tuple(None if value is None else value.made for value in args)
        event = Event("forward", function.name, made, differentiable=differentiable, line=statement.line)
        tracked = self._add(microbatch, event)
        if differentiable:
            self.open.setdefault(str(call.args[0]), []).append((microbatch, tracked.made.event))
        return tracked

    def _backward(
        self, call: Call, statement: Statement, known: dict[str, _Local]
    ) -> Generator[Wait, Tracked | None, Tracked]:
        name = str(call.args[0])
        groups = [
            [self._value(value, known, statement) for value in part] if isinstance(part, tuple) else []
            for part in call.args[1:]
        ]
        inputs, outputs, grads = groups
        microbatch = self._same([*inputs, *outputs, *grads], statement)
        waiting = self.open.get(name, [])
        if microbatch is None or not waiting:
            raise self.wrong(statement, f"a backward pass of {name} that no forward pass belongs to")
        of = outputs[0].made.event if outputs and outputs[0] is not None else -1
        if waiting[0] != (microbatch, of):
            raise self.wrong(
                statement, f"the backward pass of {name} for microbatch {microbatch} comes where that of "
                f"microbatch {waiting[0][0]} is due: the executor takes them in the order of the forward passes",
            )  # fmt: skip
        waiting.pop(0)
        function = self.module.functions[self.events[microbatch][of].function]
        early = self.reductions.early(function)
        if early:
            raise self.wrong(
                statement, f"microbatch {microbatch} adds to gradients that {early} has reduced before: its "
                "contribution is in no reduction",
            )  # fmt: skip
        yield from self._pass("backward", microbatch, statement, function)
        more = self.reductions.count(function, self.flags)
        if more:
            raise self.wrong(statement, more)
        given = tuple(None if value is None else value.made for value in grads)
        made = tuple(value.made for value in outputs if value is not None)
        return self._add(microbatch, Event("backward", function.name, given, made, of, line=statement.line))

    def _adapter(
        self, call: Call, statement: Statement, known: dict[str, _Local]
    ) -> Generator[Wait, Tracked | None, Tracked | None]:
        function = self._function(call.args[0], statement)
        differentiable = call.kwargs.get("requires_grad", True)
        if not isinstance(differentiable, bool) or set(call.kwargs) - {"requires_grad"}:
            raise self._unknown(statement)
        reducer = self._reducer(function)
        if reducer is not None:
            yield from self._reduce(reducer, statement)
            return None
        args = [self._value(value, known, statement) for value in call.args[1:]]
        if len(args) != len(function.parameters):
            raise self._unknown(statement)
        microbatch = self._same(args, statement)
        for inner in function.body:
            microbatch = yield from self._primitive(inner, microbatch, args)
        if microbatch is None:
            raise self._unknown(statement)
        made = tuple(None if value is None else value.made for value in args)
        event = Event("adapter", function.name, made, differentiable=differentiable, line=statement.line)
        return self._add(microbatch, event)

    def _primitive(
        self, statement: Statement, microbatch: int | None, args: Sequence[Tracked | None]
    ) -> Generator[Wait, Tracked | None, int | None]:
        """One statement of an adapter; the microbatch that is known after it."""
        call = statement.value
        if not isinstance(call, Call):
            return microbatch
        kind = call.function.removeprefix(ADAPTERS)
        if statement.within or not call.function.startswith(ADAPTERS):
            raise self._unknown(statement)
        if kind == "move":
            return (yield from self._move(call, statement, microbatch))
        if kind == "broadcast":
            return (yield from self._broadcast(call, statement, microbatch))
        if kind in _COLLECTIVES:
            peers = self._peers(call, statement)
            if microbatch is None:
                raise self._unknown(statement)
            plain = tuple((key, value) for key, value in call.kwargs.items() if key not in ("shape", "ranks"))
            number = self._number("meet", peers, microbatch)
            label = (kind, plain, "number", number, "of microbatch", microbatch)
            yield Wait("meet", peers, label, self.place(statement))
            return microbatch
        if kind in _LOCAL:
            return microbatch
        if kind in _BETWEEN:
            needed = "stages on as many ranks each, whose ranks send each other parts of one size"
            raise refused(self.module.path, statement.line, f"{kind}: {statement.text}", needed)
        raise self._unknown(statement)

    def _peers(self, call: Call, statement: Statement) -> tuple[int, ...]:
        """The ranks of a collective."""
        ranks = call.kwargs.get("ranks")
        if not isinstance(ranks, tuple) or self.module.rank not in ranks:
            raise self._unknown(statement)
        peers = tuple(r for r in ranks if isinstance(r, int))
        if not all(0 <= r < self.world for r in peers):
            raise self.wrong(statement, f"a collective with a rank that there is not: {statement.text}")
        return peers

    def _move(
        self, call: Call, statement: Statement, microbatch: int | None
    ) -> Generator[Wait, Tracked | None, int | None]:
        source, target = call.kwargs.get("src"), call.kwargs.get("dst")
        if not isinstance(source, int) or not isinstance(target, int) or self.module.rank not in (source, target):
            raise self.wrong(statement, f"rank {self.module.rank} takes part in a message of others: {statement.text}")
        sends = source == self.module.rank
        other = target if sends else source
        if not 0 <= other < self.world or other == self.module.rank:
            raise self.wrong(statement, f"a message to or from rank {other}, which is none of the others")
        label = ("a tensor of shape", call.kwargs.get("shape"), str(getattr(call.kwargs.get("dtype"), "path", "")))
        carried = self._sent(statement, microbatch, "send", other) if sends else None
        wait = Wait("send" if sends else "receive", (other,), label, self.place(statement), carried)
        got = yield wait
        return microbatch if sends or got is None else self._taken(statement, microbatch, got, other, "receive", other)

    def _broadcast(
        self, call: Call, statement: Statement, microbatch: int | None
    ) -> Generator[Wait, Tracked | None, int | None]:
        peers, source = self._peers(call, statement), call.kwargs.get("src")
        if not isinstance(source, int) or source not in peers:
            raise self.wrong(statement, f"a broadcast from a rank that is not among its ranks: {statement.text}")
        sends = source == self.module.rank
        plain = tuple((key, value) for key, value in call.kwargs.items() if key != "ranks")
        channel = ("broadcast", peers, source)
        carried = self._sent(statement, microbatch, *channel) if sends else None
        got = yield Wait("meet", peers, ("broadcast", plain), self.place(statement), carried)
        return microbatch if sends or got is None else self._taken(statement, microbatch, got, source, *channel)

    def _sent(self, statement: Statement, microbatch: int | None, *channel: object) -> Tracked:
        """The label of a tensor that is sent: its microbatch, and the how-manieth it is of that."""
        if microbatch is None:
            raise self.wrong(statement, f"rank {self.module.rank} is to send what it is not given: {statement.text}")
        return Tracked(microbatch, Made(self._number(*channel, microbatch)))

    def _taken(self, statement: Statement, microbatch: int | None, got: Tracked, other: int, *channel: object) -> int:
        """The microbatch of a tensor that arrives."""
        if microbatch not in (None, got.microbatch):
            raise self.wrong(
                statement, f"microbatch {got.microbatch} of rank {other} arrives where microbatch {microbatch} "
                "is worked on",
            )  # fmt: skip
        if got.made.event != self._number(*channel, got.microbatch):
            raise self.wrong(
                statement, f"of microbatch {got.microbatch}, rank {other} sends another tensor first than is "
                "received first",
            )  # fmt: skip
        return got.microbatch

    def _reducer(self, function: Function) -> str | None:
        calls = [statement.value for statement in function.body if isinstance(statement.value, Call)]
        if len(calls) == 1 and calls[0].function.endswith(".sync_grads"):
            name = calls[0].function.removeprefix("self.").removesuffix(".sync_grads")
            return name if name in self.module.reducers else None
        return None

    def _reduce(self, name: str, statement: Statement) -> Generator[Wait, Tracked | None, None]:
        left = next(((segment, calls) for segment, calls in self.open.items() if calls), None)
        if left is not None:
            raise self.wrong(
                statement, f"{name} comes before the backward pass of {left[0]} for microbatch {left[1][0][0]}"
            )
        wrong = self.reductions.reduce(name, statement.line, self.flags)
        if wrong:
            raise self.wrong(statement, wrong)
        reducer = self.module.reducers[name]
        summed = ", ".join(written(self.module.held[attribute]) for attribute in reducer.attributes)
        label = ("reduction", len(self.reductions.done), "of", summed)  # one buffer, of all of them in order
        yield Wait("meet", reducer.ranks, label, self.place(statement))

    def _return(self, statement: Statement, known: Mapping[str, _Local]) -> None:
        for value in _leaves(statement.value):
            found = self._value(value, known, statement)
            if found is not None:
                self.results.setdefault(found.microbatch, []).append((found.made, statement.line))
                self.returned.append(found.microbatch)

    # ------------------------------------------------------------------------------------------ afterwards
    def problems(self) -> Generator[str]:
        """The problems of a step that came to its end, one line each."""
        module, count = self.module, self.module.microbatches
        where = f"{module.path}: rank {module.rank}"
        if not self.cleared:
            yield f"{where} never clears its gradients"
        if self.samples not in (0, count):
            yield f"{where} takes {self.samples} samples of the data loader, there are {count} microbatches"
        for name in self.reductions.missing():
            yield f"{where} never reduces the gradients of {name}"
        if self.returned != sorted(self.returned):
            order = ", ".join(map(str, self.returned))
            yield f"{where} returns the losses of microbatches {order}, in that order"
        first = self.events.get(0, [])
        for microbatch in sorted({*range(count), *self.events}):
            events = self.events.get(microbatch, [])
            if microbatch >= count:
                yield f"{where} works on microbatch {microbatch}, there are {count}"
                return
            if events != first:
                yield f"{where} does not do the same for all microbatches: {_apart(first, events, microbatch)}"
                return
            if [made for made, _ in self.results.get(microbatch, ())] != [m for m, _ in self.results.get(0, ())]:
                yield f"{where} returns other results for microbatch {microbatch} than for microbatch 0"
                return


def _leaves(value: Value) -> Iterator[Value]:
    if isinstance(value, tuple):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _apart(first: Sequence[Event], other: Sequence[Event], microbatch: int) -> str:
    k = next((k for k, (a, b) in enumerate(zip(first, other, strict=False)) if a != b), min(len(first), len(other)))

    def said(events: Sequence[Event]) -> str:
        return f"{events[k].kind} {events[k].function} (line {events[k].line})" if k < len(events) else "nothing more"

    return f"call {k} is {said(first)} for microbatch 0, and {said(other)} for microbatch {microbatch}"
