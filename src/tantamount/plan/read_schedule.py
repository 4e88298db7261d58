"""Reading the schedule of a plan: a name, a table, or a text for every device. All of it is untrusted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tantamount.capture.fields import Fields, is_integer, shown
from tantamount.errors import UserError
from tantamount.plan.actions import Chain, Kind, Schedule, read_events
from tantamount.plan.named import finished, side_by_side
from tantamount.plan.tables import read_table

__all__ = ["read_schedule", "with_ends"]


def read_schedule(fields: Fields, folder: Path, devices: int, microbatches: int) -> tuple[Schedule, str]:
    """The schedule that a table of a plan in ``folder`` describes, for its devices and microbatches, and what it is
    called. Raises :class:`UserError` for a table that describes none."""
    ways = [key for key in ("name", "table", "devices") if key in fields]
    if len(ways) != 1:
        raise fields.place.wrong(f"{len(ways)} of `name`, `table` and `devices`", "exactly one of them")
    stated = fields.values.get("pipelines", 1)
    if "pipelines" in fields and ("table" in fields or ("name" in fields and not is_integer(stated))):
        needed = "a text for every device, or of a schedule that has a name the number of such pipelines"
        raise fields.at("pipelines").wrong(f"pipelines of a {ways[0]}", needed, code="schedule")
    if "name" in fields:
        name = fields.at("name").name(fields.get("name"))
        chunks = fields.at("chunks").integer(fields.values.get("chunks", 1), 1, 1 << 16, "a number from 1 on")
        count = fields.at("pipelines").integer(stated, 1, 1 << 16, "a number from 1 on")
        try:
            return side_by_side(name, count, devices, microbatches, chunks), name
        except UserError as problem:
            raise problem.within(fields.place.text) from None
    if "table" in fields:
        name = fields.at("table").name(fields.get("table"))
        target = folder / name
        if not target.resolve().is_relative_to(folder.resolve()):
            raise fields.at("table").wrong(shown(name), "a file in the plan's folder", code="outside")
        return read_table(target), name
    place = fields.at("devices")
    texts = place.list(fields.get("devices"), "a list of texts, one for each device")
    events = tuple(read_events(place.at(str(d)).string(text), place.at(str(d)).text) for d, text in enumerate(texts))
    owners = fields.at("owners")
    listed = owners.list(fields.values.get("owners", list(range(len(events)))), "a list of devices")
    owned = tuple(owners.integer(x, 0, len(events) - 1, "the number of a device") for x in listed)
    chains = tuple(_chains(fields, len(owned), microbatches)) if "pipelines" in fields else ()
    chain = Chain(tuple(range(len(owned))), tuple(range(microbatches)))
    return Schedule(events, owned, chains or (chain,)), "its own schedule"


def _chains(fields: Fields, stages: int, microbatches: int) -> Iterator[Chain]:
    """The pipelines that microbatches may pass."""
    outer = fields.at("pipelines")
    for k, value in enumerate(outer.list(fields.get("pipelines"), "a list of pipelines")):
        own = Fields.of(value, outer.at(str(k)), ("stages", "microbatches"), ("stages", "microbatches"))
        passed = _numbers(own, "stages", stages)
        if not passed:
            raise own.at("stages").wrong("no stages", "the stages that microbatches pass, in their order")
        yield Chain(passed, _numbers(own, "microbatches", microbatches))


def _numbers(fields: Fields, key: str, count: int) -> tuple[int, ...]:
    place = fields.at(key)
    listed = place.list(fields.get(key), "a list of numbers")
    return tuple(place.integer(x, 0, count - 1, f"a number below {count}") for x in listed)


def with_ends(schedule: Schedule) -> Schedule:
    """The schedule with an update of every stage at the end of its device, if it has none at all, and a reduction
    before it, if it has none either: what [finish] says then comes after everything. In one order on all devices, if
    it is known what stages are copies of others."""
    kinds = {action.kind for program in schedule.devices for event in program for action in event}
    if Kind.UPDATE in kinds:
        return schedule
    return finished(schedule, (Kind.UPDATE,) if Kind.REDUCE in kinds else (Kind.REDUCE, Kind.UPDATE))
