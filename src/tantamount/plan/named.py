"""Schedules that have names: the order in which every device computes.

Only forward and backward passes are listed here; :func:`tantamount.plan.exchange.with_messages` adds what they send.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tantamount.errors import UserError
from tantamount.plan.actions import Action, Chain, Event, Kind, Schedule
from tantamount.plan.exchange import with_messages

__all__ = ["NAMES", "finished", "named_schedule", "side_by_side"]

F, B, I, W = Kind.FORWARD, Kind.BACKWARD, Kind.INPUT_GRADIENT, Kind.WEIGHT_GRADIENT
Order = list[Action]


def named_schedule(name: str, devices: int, microbatches: int, chunks: int = 1) -> Schedule:
    """The schedule of that name on ``devices`` pipeline ranks that hold ``chunks`` virtual stages each, with its
    messages, one reduction of the gradients of every stage and one update.

    Raises :class:`UserError` for an unknown name and for counts that the schedule is not defined for."""
    make = _MAKERS.get(name)
    if make is None:
        raise _wrong(f"schedule {name!r}", f"one of {', '.join(_MAKERS)}")
    if devices < 1 or microbatches < 1 or chunks < 1:
        raise _wrong(f"{devices} devices, {microbatches} microbatches, {chunks} chunks", "1 or more of each")
    if chunks > 1 and name not in _CHUNKED:
        raise _wrong(f"{chunks} chunks with {name}", f"1, or one of {', '.join(sorted(_CHUNKED))}")
    schedule = with_messages(make(devices, microbatches, chunks))
    return finished(schedule)


def side_by_side(name: str, count: int, devices: int, microbatches: int, chunks: int = 1) -> Schedule:
    """So many pipelines beside each other, that of the name each: ``devices`` and ``microbatches`` are those of all
    together, one after the other. The stages of each have copies of the pieces of the first.

    Raises :class:`UserError` as :func:`named_schedule` does, and for what they have no equal parts of."""
    if count == 1:
        return named_schedule(name, devices, microbatches, chunks)
    if devices % count or microbatches % count:
        raise _wrong(f"{devices} devices and {microbatches} microbatches", f"multiples of {count}, the pipelines")
    one = named_schedule(name, devices // count, microbatches // count, chunks)
    chain, *others = one.chains
    if others:
        raise _wrong(f"{name}, {count} times", "a schedule of one pipeline")
    stages = len(one.owners)

    def moved(action: Action, k: int) -> Action:
        microbatch = action.microbatch + k * len(chain.microbatches) if action.microbatch >= 0 else -1
        return replace(action, stage=action.stage + k * stages, microbatch=microbatch)

    every = range(count)
    return replace(
        one,
        devices=tuple(tuple(tuple(moved(a, k) for a in e) for e in events) for k in every for events in one.devices),
        owners=tuple(device + k * len(one.devices) for k in every for device in one.owners),
        chains=tuple(
            Chain(
                tuple(stage + k * stages for stage in chain.stages),
                tuple(m + k * len(chain.microbatches) for m in chain.microbatches),
            )
            for k in every
        ),
        copies={stage + k * stages: stage for k in every[1:] for stage in range(stages)},
    )


def finished(schedule: Schedule, kinds: Sequence[Kind] = (Kind.REDUCE, Kind.UPDATE)) -> Schedule:
    """The schedule with a reduction and an update of every stage at the end of its device. Stages come in the order of
    those whose copies they are: devices that have copies of two stages each reduce them in one order."""
    order = sorted(range(len(schedule.owners)), key=lambda stage: schedule.copies.get(stage, stage))
    ends = [[s for s in order if schedule.owners[s] == device] for device in range(len(schedule.devices))]
    devices = tuple(
        (*events, *((Action(s, kind),) for kind in kinds for s in end))
        for events, end in zip(schedule.devices, ends, strict=True)
    )
    return replace(schedule, devices=devices)


def _plain(orders: Sequence[Order], devices: int, microbatches: int, chunks: int) -> Schedule:
    owners = tuple(stage % devices for stage in range(devices * chunks))
    chain = Chain(tuple(range(devices * chunks)), tuple(range(microbatches)))
    return Schedule(tuple(tuple((action,) for action in order) for order in orders), owners, (chain,))


def _gpipe(devices: int, microbatches: int, chunks: int) -> Schedule:
    """All forward passes, then all backward passes (Huang and others 2019)."""
    return _breadth_first(devices, microbatches, chunks)


def _breadth_first(devices: int, microbatches: int, chunks: int) -> Schedule:
    """Every chunk on all microbatches before the next (Lamy-Poirier 2023); with one chunk that is GPipe."""

    def order(device: int) -> Order:
        stages = [chunk * devices + device for chunk in range(chunks)]
        forward = [Action(stage, F, m) for stage in stages for m in range(microbatches)]
        return forward + [Action(stage, B, m) for stage in reversed(stages) for m in range(microbatches)]

    return _plain([order(device) for device in range(devices)], devices, microbatches, chunks)


def _one_forward_one_backward(devices: int, microbatches: int, chunks: int) -> Schedule:
    """1F1B (Narayanan and others 2019): as few microbatches under way as fill the pipeline."""

    def order(device: int) -> Order:
        warm = min(devices - device - 1, microbatches)
        found = [Action(device, F, m) for m in range(warm)]
        for m in range(microbatches - warm):
            found += [Action(device, F, m + warm), Action(device, B, m)]
        return found + [Action(device, B, m) for m in range(microbatches - warm, microbatches)]

    return _plain([order(device) for device in range(devices)], devices, microbatches, chunks)


def _interleaved(devices: int, microbatches: int, chunks: int) -> Schedule:
    """Interleaved 1F1B (Narayanan and others 2021): groups of as many microbatches as there are devices pass one chunk
    after the other."""
    if chunks == 1:
        return _one_forward_one_backward(devices, microbatches, 1)
    if microbatches % devices:
        raise _wrong(f"{microbatches} microbatches on {devices} devices", f"a multiple of {devices}")
    total, group = microbatches * chunks, devices * chunks

    def step(device: int, kind: Kind, k: int) -> Action:
        chunk = k % group // devices
        chunk = chunk if kind is F else chunks - 1 - chunk
        return Action(chunk * devices + device, kind, k // group * devices + k % devices)

    def order(device: int) -> Order:
        warm = min((devices - device - 1) * 2 + (chunks - 1) * devices, total)
        found = [step(device, F, k) for k in range(warm)]
        for k in range(total - warm):
            found += [step(device, F, k + warm), step(device, B, k)]
        return found + [step(device, B, k) for k in range(total - warm, total)]

    return _plain([order(device) for device in range(devices)], devices, microbatches, chunks)


def _zero_bubble(devices: int, microbatches: int, chunks: int) -> Schedule:
    """ZB-H1 (Qi and others 2023): 1F1B whose weight gradients come later where a device would wait; the further down
    the pipeline, the later, so that no device holds more than 1F1B does."""

    def order(device: int) -> Order:
        warm, late = min(devices - device - 1, microbatches), min(device, microbatches)
        found = [Action(device, F, m) for m in range(warm)]
        made = 0
        for m in range(microbatches - warm):
            found += [Action(device, F, m + warm), Action(device, I, m)]
            if m >= late:
                found.append(Action(device, W, made))
                made += 1
        for m in range(microbatches - warm, microbatches):
            found.append(Action(device, I, m))
            if m >= late:
                found.append(Action(device, W, made))
                made += 1
        return found + [Action(device, W, m) for m in range(made, microbatches)]

    return _plain([order(device) for device in range(devices)], devices, microbatches, chunks)


def _dualpipe(devices: int, microbatches: int, chunks: int) -> Schedule:
    """DualPipe (DeepSeek-V3 report 2024): half of the microbatches enter at either end; every device holds a stage of
    each direction, whose parameters are copies."""
    if devices % 2 or microbatches % 2 or microbatches < 2 * devices:
        raise _wrong(
            f"{microbatches} microbatches on {devices} devices",
            "an even number of devices, and an even number of microbatches, at least twice as many",
        )
    half = microbatches // 2

    def order(device: int) -> Iterator[Event]:
        turned = device >= devices // 2

        def pass_(kind: Kind, way: int, number: int) -> Action:
            upward = bool(way) != turned
            return Action(devices + device if upward else device, kind, number + (half if upward else 0))

        return _both_ways(min(device, devices - 1 - device), devices // 2, half, pass_)

    owners = (*range(devices), *range(devices))
    down = Chain(tuple(range(devices)), tuple(range(half)))
    up = Chain(tuple(reversed(range(devices, 2 * devices))), tuple(range(half, microbatches)))
    copies = {devices + device: devices - 1 - device for device in range(devices)}
    return Schedule(tuple(tuple(order(device)) for device in range(devices)), owners, (down, up), copies)


def _dualpipe_v(devices: int, microbatches: int, chunks: int) -> Schedule:
    """DualPipe cut in half (DualPipeV, Sea AI Lab 2025): the second half of the model comes back over the devices of
    the first, so that each has two stages, and no parameter has a copy."""
    if chunks != 2 or microbatches < 2 * devices:
        raise _wrong(
            f"{microbatches} microbatches and {chunks} chunks on {devices} devices",
            "2 chunks, and at least twice as many microbatches as devices",
        )
    last = 2 * devices - 1

    def order(device: int) -> Iterator[Event]:
        def pass_(kind: Kind, way: int, number: int) -> Action:
            return Action(last - device if way else device, kind, number)

        return _both_ways(device, devices, microbatches, pass_)

    owners = tuple(min(stage, last - stage) for stage in range(last + 1))
    chain = Chain(tuple(range(last + 1)), tuple(range(microbatches)))
    return Schedule(tuple(tuple(order(device)) for device in range(devices)), owners, (chain,))


def _both_ways(near: int, half: int, each: int, pass_: Callable[[Kind, int, int], Action]) -> Iterator[Event]:
    """The eight steps of DualPipe's published schedule on one device, ``near`` devices from the end that is nearer, of
    ``half`` devices up to the middle; ``each`` microbatches go either way, way 0 away from that end. ``pass_`` is the
    action for a kind of pass, a way, and how many of that kind and way came before. A forward and a backward pass of
    the main step are one event."""
    before = half - near - 1
    counts = {(kind, way): 0 for kind in (F, B) for way in (0, 1)}
    late: deque[Action] = deque()

    def act(kind: Kind, way: int, split: bool = False) -> Action:
        number = counts[kind, way]
        counts[kind, way] += 1
        if split:
            late.append(pass_(W, way, number))
        return pass_(I if split else kind, way, number)

    for _ in range(2 * before):
        yield (act(F, 0),)
    for _ in range(near + 1):
        yield (act(F, 0),)
        yield (act(F, 1),)
    for _ in range(before):
        yield (act(B, 1, split=True),)
        yield (late.popleft(),)
        yield (act(F, 1),)
    for k in range(each - 2 * half + near + 1):
        if k == 0 and before == 0:  # in the middle, so that what comes next need not wait
            yield (act(F, 0),)
            yield (act(B, 1),)
        else:
            yield act(F, 0), act(B, 1)
        yield act(F, 1), act(B, 0)
    for _ in range(before):
        yield (act(B, 1),)
        yield act(F, 1), act(B, 0)
    split = False
    for k in range(near + 1):
        split = split or (k == (near + 1) // 2 and near % 2 == 1)
        yield (act(B, 1, split),)
        split = split or (k == (near + 1) // 2 and near % 2 == 0)
        yield (act(B, 0, split),)
    for _ in range(before):
        yield (late.popleft(),)
        yield (act(B, 0, split=True),)
    yield from ((action,) for action in late)


def _wrong(found: str, needed: str) -> UserError:
    return UserError("plan-schedule", place="schedule", found=found, needed=needed)


_MAKERS: dict[str, Callable[[int, int, int], Schedule]] = {
    "gpipe": _gpipe,
    "1f1b": _one_forward_one_backward,
    "interleaved": _interleaved,
    "breadth-first": _breadth_first,
    "zero-bubble": _zero_bubble,
    "dualpipe": _dualpipe,
    "dualpipev": _dualpipe_v,
}
_CHUNKED = frozenset({"interleaved", "breadth-first", "dualpipev"})
NAMES = tuple(_MAKERS)
