"""Named schedules against what is published about them, and what the checker says of wrong ones against a run."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from support.pipeline_run import Run
from tantamount.errors import UserError
from tantamount.plan.actions import Action, Chain, Event, Kind, Schedule, read_events, written
from tantamount.plan.check import ProblemKind, check_schedule
from tantamount.plan.exchange import with_messages
from tantamount.plan.flow import flow_of
from tantamount.plan.named import NAMES, named_schedule
from tantamount.plan.timing import timing_of

RIGHT = [
    ("gpipe", 4, 8, 1), ("gpipe", 3, 1, 1), ("1f1b", 4, 8, 1), ("1f1b", 4, 2, 1), ("1f1b", 1, 3, 1),
    ("interleaved", 4, 8, 2), ("interleaved", 2, 4, 3), ("breadth-first", 3, 4, 2), ("zero-bubble", 4, 8, 1),
    ("zero-bubble", 4, 2, 1), ("dualpipe", 4, 8, 1), ("dualpipe", 8, 20, 1), ("dualpipe", 2, 4, 1),
    ("dualpipev", 4, 9, 2), ("dualpipev", 2, 4, 2), ("dualpipev", 1, 2, 2),
]  # fmt: skip


@pytest.mark.parametrize(("name", "devices", "microbatches", "chunks"), RIGHT)
def test_named_schedules_are_right(name: str, devices: int, microbatches: int, chunks: int) -> None:
    schedule = named_schedule(name, devices, microbatches, chunks)
    assert check_schedule(schedule) == ()
    assert Run(schedule).right


def test_bubbles_and_memory_are_as_published() -> None:
    """(p - 1) / (v m + p - 1) for 1F1B with v chunks; ZB-H1 waits for a third of that and keeps no more than the first
    device of 1F1B; DualPipe keeps one more microbatch than there are devices."""

    def cost(name: str, devices: int, microbatches: int, chunks: int = 1) -> tuple[float, tuple[int, ...]]:
        schedule = named_schedule(name, devices, microbatches, chunks)
        timing = timing_of(schedule, flow_of(schedule))
        return timing.bubble, timing.kept

    assert cost("gpipe", 4, 8) == (pytest.approx(3 / 11), (8, 8, 8, 8))
    assert cost("1f1b", 4, 8) == (pytest.approx(3 / 11), (4, 3, 2, 1))
    assert cost("interleaved", 4, 8, 2)[0] == pytest.approx(3 / 19)
    assert cost("breadth-first", 4, 8, 2)[0] == pytest.approx(3 / 19)
    assert cost("zero-bubble", 4, 8) == (pytest.approx(3 / 27), (4, 4, 4, 4))
    assert cost("dualpipe", 8, 20)[1] == (9,) * 8


def test_text_comes_back() -> None:
    for name, devices, microbatches, chunks in RIGHT:
        for events in named_schedule(name, devices, microbatches, chunks).devices:
            assert read_events(written(events), "text") == events


def test_repetitions() -> None:
    events = read_events("0F0 (0F1+ {0SEND_F1+ 0RECV_B0+} 0B0+)*2 0B2", "text")
    assert written(events) == "0F0 0F1 {0SEND_F1 0RECV_B0} 0B0 0F2 {0SEND_F2 0RECV_B1} 0B1 0B2"


@pytest.mark.parametrize(
    "text", ["0X1", "F0", "0F", "0REDUCE_GRAD3", "{0F0 0SEND_F0}", "{0SEND_F0", "(0F0+", "0F0+", "((0F0))*2", "}", "{}",
             "(0F0)*9999999", "0F00000000000"],
)  # fmt: skip
def test_text_that_is_no_schedule(text: str) -> None:
    with pytest.raises(UserError, match="plan-schedule"):
        read_events(text, "stage 0")


@pytest.mark.parametrize(
    ("name", "counts"),
    [("zigzag", (2, 2, 1)), ("1f1b", (2, 2, 2)), ("interleaved", (4, 6, 2)), ("dualpipe", (3, 8, 1)),
     ("dualpipe", (4, 6, 1)), ("gpipe", (0, 1, 1))],
)  # fmt: skip
def test_counts_that_a_schedule_is_not_defined_for(name: str, counts: tuple[int, int, int]) -> None:
    with pytest.raises(UserError, match="plan-schedule"):
        named_schedule(name, *counts)


def text_schedule(*devices: str, microbatches: int = 2, **options: object) -> Schedule:
    """Stage k on device k."""
    events = tuple(read_events(text, f"device {k}") for k, text in enumerate(devices))
    chain = Chain(tuple(range(len(devices))), tuple(range(microbatches)))
    return replace(Schedule(events, chain.stages, (chain,)), **options)


FIRST = "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1"
LAST = "1RECV_F0 1F0 1RECV_F1 1F1 1B0 1SEND_B0 1B1 1SEND_B1"


@pytest.mark.parametrize(
    ("devices", "kind", "words"),
    [
        ((FIRST, LAST.replace("1RECV_F0 1F0 1RECV_F1 1F1", "1RECV_F1 1F1 1RECV_F0 1F0")),
         "message", "1RECV_F1 gets 0SEND_F0"),
        ((FIRST, LAST.replace("1F1 ", "")), "missing", "1F1 is missing"),
        ((FIRST, LAST.replace("1B1 ", "1B1 1B1 ")), "twice", "done 2 times"),
        ((FIRST.replace("0RECV_B1 0B1", "0B1 0RECV_B1"), LAST), "order", "0B1 uses what 0RECV_B1 gives"),
        ((FIRST, LAST.replace(" 1SEND_B1", "")), "unmatched", "0RECV_B1 is met by nothing on device 1"),
        (("0F0 0SEND_F0 0RECV_B0 0B0 0F1 0SEND_F1 0RECV_B1 0B1", LAST), "deadlock", "wait for each other"),
        ((FIRST, LAST.replace("1F0", "2F0")), "unknown", "2F0 is of a stage"),
        ((FIRST + " 1F0", LAST), "place", "stage 1 is on device 1"),
        ((FIRST.replace("0B0", "0B0 0REDUCE_GRAD"), LAST + " 1REDUCE_GRAD"),
         "reduction", "0B1 comes after the reduction"),
        ((FIRST + " 0REDUCE_GRAD 0REDUCE_GRAD", LAST + " 1REDUCE_GRAD"), "reduction", "a second time"),
        ((FIRST + " 0REDUCE_GRAD", LAST), "reduction", "1REDUCE_GRAD is missing"),
        ((FIRST.replace("0RECV_B1", "0UPDATE 0RECV_B1"), LAST + " 1UPDATE"), "update", "0B1 comes after the update"),
        ((FIRST + " 0UPDATE 0REDUCE_GRAD", LAST + " 1REDUCE_GRAD 1UPDATE"),
         "reduction", "lacks the gradients of microbatches 0, 1"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(devices: tuple[str, str], kind: str, words: str) -> None:
    problems = check_schedule(text_schedule(*devices))
    assert any(problem.kind.value == kind and words in problem.text for problem in problems), problems


def test_room_for_one_microbatch_is_not_enough_for_two() -> None:
    schedule = text_schedule(FIRST, LAST)
    assert check_schedule(schedule) == ()
    assert check_schedule(replace(schedule, slots={0: 2, 1: 2})) == ()
    (problem,) = check_schedule(replace(schedule, slots={0: 1}))
    assert problem.kind is ProblemKind.SLOT


def test_each_microbatch_may_be_reduced_by_itself() -> None:
    devices = FIRST.replace("0B0", "0B0 0REDUCE_GRAD") + " 0REDUCE_GRAD", LAST + " 1REDUCE_GRAD"
    assert check_schedule(text_schedule(*devices)) != ()
    assert check_schedule(text_schedule(*devices, accumulated=False)) == ()


def test_sends_that_do_not_wait_have_fewer_deadlocks() -> None:
    crossed = (
        "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1",
        "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1",
    )
    assert [problem.kind for problem in check_schedule(text_schedule(*crossed))] == [ProblemKind.DEADLOCK]
    assert check_schedule(text_schedule(*crossed, rendezvous=False)) == ()


def test_what_a_batch_waits_for_does_not_wait_for_all_of_it() -> None:
    """One device sends and receives in one batch, the other one after the other: messages are over one by one."""
    first = "0F0 0SEND_F0 0RECV_B0 0B0 0F1 0SEND_F1 0RECV_B1 0B1"
    for batch in ("{1SEND_B0 1RECV_F1}", "{1RECV_F1 1SEND_B0}"):
        assert check_schedule(text_schedule(first, f"1RECV_F0 1F0 1B0 {batch} 1F1 1B1 1SEND_B1")) == ()
    late = "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1"
    assert [problem.kind for problem in check_schedule(text_schedule(first, late))] == [ProblemKind.DEADLOCK]


def changed(schedule: Schedule, rng: random.Random) -> Schedule:
    """The schedule with one event left out, doubled, moved or about another microbatch."""
    devices = [list(program) for program in schedule.devices]
    program = devices[rng.randrange(len(devices))]
    k = rng.randrange(len(program))
    how = rng.randrange(5)
    if how == 0:
        del program[k]
    elif how == 1:
        program.insert(rng.randrange(len(program)), program[k])
    elif how == 2:
        program.insert(rng.randrange(len(program)), program.pop(k))
    elif how == 3 and k + 1 < len(program):
        program[k], program[k + 1] = program[k + 1], program[k]
    else:
        program[k] = _renumbered(program[k], rng, schedule.microbatches)
    return replace(schedule, devices=tuple(map(tuple, devices)))


def _renumbered(event: Event, rng: random.Random, microbatches: int) -> Event:
    at = rng.randrange(len(event))
    action = event[at]
    if action.kind in (Kind.REDUCE, Kind.UPDATE):
        return event
    other = Action(action.stage, action.kind, rng.randrange(microbatches))
    return (*event[:at], other, *event[at + 1 :])


def test_changed_schedules_are_judged_as_a_run_of_them_ends() -> None:
    rng = random.Random(5)
    right = 0
    for name, devices, microbatches, chunks in [("1f1b", 3, 4, 1), ("zero-bubble", 3, 3, 1), ("interleaved", 2, 4, 2),
                                                ("gpipe", 2, 3, 1), ("dualpipe", 2, 4, 1)]:  # fmt: skip
        schedule = named_schedule(name, devices, microbatches, chunks)
        for _ in range(100):
            one = changed(schedule, rng)
            for mutant in (one, changed(one, rng)):
                problems, run = check_schedule(mutant), Run(mutant)
                assert (not problems) == run.right, (name, [written(d) for d in mutant.devices], problems)
                right += not problems
    assert right > 40


def test_orders_that_nobody_can_carry_out() -> None:
    chain = Chain((0, 1), (0,))
    orders = ((Action(0, Kind.BACKWARD, 0),), (Action(0, Kind.FORWARD, 0),)), ((Action(1, Kind.FORWARD, 0),),)
    with pytest.raises(UserError, match="every device waits: 0B0, 1F0"):
        with_messages(Schedule(orders, (0, 1), (chain,)))


def test_names() -> None:
    assert {name for name, *_ in RIGHT} == set(NAMES)


def test_reductions_of_copies_meet_in_order() -> None:
    """Two devices that reduce their two stages in the same places add up gradients that do not belong together; one
    that reduces before the other has computed what it waits for is a deadlock."""
    schedule = named_schedule("dualpipe", 2, 4)
    first, second = schedule.devices
    swapped = (*second[:-4], second[-3], second[-4], *second[-2:])
    (problem, *_) = check_schedule(replace(schedule, devices=(first, swapped)))
    assert problem.kind is ProblemKind.MESSAGE
    assert "meet, and are of other stages" in problem.text
    assert check_schedule(replace(schedule, devices=(first, swapped), meets=())) == ()
    early = read_events("0REDUCE_GRAD", "text") + tuple(e for e in first if str(e[0]) != "0REDUCE_GRAD")
    kinds = {problem.kind for problem in check_schedule(replace(schedule, devices=(early, second)))}
    assert {ProblemKind.DEADLOCK, ProblemKind.REDUCTION} <= kinds
