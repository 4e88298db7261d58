"""Effort: bounds are counted, scaled and named; time and memory end the work."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import pytest

import tantamount
from tantamount.effort import Effort, Grown, Stopped, effort_of, factor_of, stopping
from tantamount.errors import UserError
from tantamount.explanations.topics import find
from tantamount.limits import STAGES, Bounds, Limits, bounds_table

SOURCE = Path(tantamount.__file__).parent
TABLE = list(bounds_table())


def test_every_bound_is_counted_somewhere_and_nothing_else_is() -> None:
    """A bound is counted under its name as a string, so that each is one in the source, in a call or chosen for one."""
    text = "\n".join(path.read_text() for path in SOURCE.rglob("*.py") if path.name not in ("effort.py", "limits.py"))
    names = {bound.name for bound in TABLE}
    assert set(re.findall(r'\.(?:exceeds|hit|first)\(\s*"(\w+)"', text)) <= names
    assert [name for name in sorted(names) if f'"{name}"' not in text] == []


def test_a_bound_has_a_name_of_its_own() -> None:
    limits = {f"limit-{name.replace('_', '-')}" for name in Limits.__dataclass_fields__}
    assert not limits & {bound.topic for bound in TABLE}
    assert all(bound.stage in STAGES and bound.sentence.endswith(".") for bound in TABLE)


def test_every_bound_is_explained() -> None:
    for name in [bound.topic for bound in TABLE] + ["limit-timeout", "limit-memory"]:
        topic = find(name)
        assert topic.kind == "limit", name
        assert topic.sections, name


def test_what_is_beyond_a_bound_is_counted_with_the_most_that_was_needed() -> None:
    effort = Effort(bounds=Bounds(expanded_terms=3))
    assert not effort.exceeds("expanded_terms", 3)
    assert not effort.hits
    before = effort.counts()
    assert effort.exceeds("expanded_terms", 9)
    assert effort.exceeds("expanded_terms", 4)
    assert effort.first("cover_pieces", [1, 2]) == [1, 2]
    (hit,) = effort.since(before, "comparison")
    assert (hit.topic, hit.bound, hit.needed, hit.count) == ("limit-expanded-terms", 3, 9, 2)
    assert not effort.since(before, "proof")
    assert not effort.since(effort.counts(), "comparison")


def test_effort_scales_counts_and_depths_and_leaves_the_rest() -> None:
    low, normal, high = (Effort(factor_of(level)).bounds for level in ("low", "normal", "high"))
    assert normal == Bounds()
    assert (low.expanded_terms, high.expanded_terms) == (64, 4096)
    assert (low.compared_depth, high.compared_depth) == (4, 10)
    assert low.paired_ranks == high.paired_ranks == 16
    assert all(getattr(Effort(1e-6).bounds, bound.name) >= 1 for bound in TABLE)
    assert Effort(factor_of("3")).bounds.expanded_terms == 768


@pytest.mark.parametrize(
    "given", [{"effort": "very"}, {"effort": -1.0}, {"effort": "nan"}, {"timeout": 0.0}, {"memory": -1}]
)
def test_what_is_no_effort_is_refused(given: dict[str, float]) -> None:
    with pytest.raises(UserError) as caught:
        effort_of(**given)  # type: ignore[arg-type]
    assert caught.value.code == "effort-value"
    assert caught.value.place == next(iter(given))


def test_time_that_is_over_stops_the_work() -> None:
    Effort().check()
    Effort(seconds=1000.0).check()
    effort = Effort(seconds=0.0)
    time.sleep(0.001)
    with pytest.raises(Stopped, match=r"limit-timeout was hit \(0 s\)"):
        effort.check()


def test_memory_that_is_held_stops_the_work() -> None:
    Effort(megabytes=10**6).check()
    with pytest.raises(Stopped, match=r"limit-memory was hit \(1 MB\)"):
        Effort(megabytes=1).check()


def test_a_signal_stops_what_does_not_ask() -> None:
    def busy() -> None:
        while time.monotonic() - start < 30:
            pass

    start = time.monotonic()
    with stopping(Effort(seconds=0.05)), pytest.raises(Stopped):
        busy()
    assert time.monotonic() - start < 5
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_no_error_handler_catches_it() -> None:
    assert not issubclass(Stopped, Exception)


def test_work_that_grows_is_ended_and_leaves_no_hits() -> None:
    """More steps than are allowed end the block; bounds that were hit in it were not, and those before it were."""
    effort = Effort(bounds=Bounds(expanded_terms=3))
    assert effort.exceeds("expanded_terms", 4)
    before = dict(effort.hits)
    done = 0

    def work(steps: int) -> None:
        nonlocal done
        for _ in range(steps):
            done += 1
            effort.allow(1)
            effort.check()
            effort.check()
            effort.exceeds("cover_pieces", 1 << 20)

    with pytest.raises(Grown), effort.watching(10):
        work(100)
    assert done == 11
    assert effort.hits == before
    with effort.watching(10):
        work(10)
    assert effort.hits != before
    effort.check()  # nobody watches any more


def test_an_attempt_ends_at_its_steps_or_at_those_around_it() -> None:
    effort = Effort()

    def take(steps: int) -> bool:
        for _ in range(steps):
            effort.check()
        return True

    assert effort.attempt("search_steps", 10, lambda: take(10)) is True
    assert "search_steps" not in effort.hits
    assert effort.attempt("search_steps", 10, lambda: take(11)) is None
    assert effort.hits["search_steps"].count == 1
    with pytest.raises(Grown), effort.watching(5):
        effort.attempt("search_steps", 10, lambda: take(8))
    with effort.watching(100):
        assert effort.attempt("search_steps", 10, lambda: take(50)) is None
        take(50)


def test_what_is_done_aside_counts_for_no_block_that_is_watched() -> None:
    effort = Effort()

    def take(steps: int) -> int:
        for _ in range(steps):
            effort.check()
        return steps

    with effort.watching(10):
        take(4)
        assert effort.aside(lambda: take(50)) == 50
        take(6)
        with pytest.raises(Grown):
            take(1)
    assert effort.aside(lambda: take(5)) == 5
    take(50)
