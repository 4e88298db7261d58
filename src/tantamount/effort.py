"""The effort that one job may take, and which of its bounds were hit: an object that is passed along.

``Effort.exceeds(name, found)`` is asked wherever a search could end; what it says yes to is counted. ``check`` is
called in the few loops that everything passes through, and raises :class:`Stopped` when time or memory are used up.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tantamount.errors import TantamountError, UserError
from tantamount.limits import Bound, Bounds, bounds_table

__all__ = [
    "LEVELS",
    "MEMORY",
    "TIMEOUT",
    "Effort",
    "Grown",
    "Hit",
    "Stopped",
    "factor_of",
    "further",
    "resident_megabytes",
    "stopping",
    "within",
]

T = TypeVar("T")

LEVELS: Mapping[str, float] = {"low": 0.25, "normal": 1.0, "high": 16.0}
TIMEOUT, MEMORY = "limit-timeout", "limit-memory"
_MOST = 1e6  # times the normal effort
_SLACK = 0.25  # seconds after the time is over until a signal says so
_EVERY = 256  # checks of the time between two of the memory
_TABLE: Mapping[str, Bound] = {bound.name: bound for bound in bounds_table()}


class Stopped(BaseException):
    """Time or memory are used up. No error: whatever catches errors must let this through, as it does interruptions.

    ``limit`` is :data:`TIMEOUT` or :data:`MEMORY`, ``allowed`` its value with the unit."""

    def __init__(self, limit: str, allowed: str) -> None:
        self.limit = limit
        self.allowed = allowed
        super().__init__(f"{limit} was hit ({allowed})")


class Grown(BaseException):
    """Raised where work took more steps than :meth:`Effort.watching` allows. No error, as :class:`Stopped` is none."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A bound that ended or narrowed a search: ``bound`` is its value, ``needed`` what it would have taken at least
    (``None`` where that is not known), ``count`` how often."""

    name: str
    bound: int
    needed: int | None = None
    count: int = 1

    @property
    def topic(self) -> str:
        """The name that reports and ``tantamount explain`` use."""
        return _TABLE[self.name].topic

    @property
    def stage(self) -> str:
        return _TABLE[self.name].stage


@dataclass
class Effort:
    """The effort that one job may take. ``factor``: how many times the normal effort; ``bounds``: those of a factor of
    1; ``seconds`` of wall-clock time from when this object was made, and ``megabytes`` that the process may hold
    (``None``: no limit). ``hits`` counts, by name, which bounds were hit."""

    factor: float = 1.0
    bounds: Bounds = field(default_factory=Bounds)
    seconds: float | None = None
    megabytes: int | None = None
    hits: dict[str, Hit] = field(default_factory=dict[str, Hit])
    steps: int = 0  # calls of :meth:`check`: what was done, in units that repeat
    _until: float | None = None
    _most: int | None = None  # steps
    _checks: int = 0

    def __post_init__(self) -> None:
        if self.factor != 1.0:
            self.bounds = self.bounds.scaled(self.factor)
        if self.seconds is not None:
            self._until = time.monotonic() + self.seconds

    @property
    def limited(self) -> bool:
        """True if time or memory are limited."""
        return self.seconds is not None or self.megabytes is not None

    def exceeds(self, name: str, found: int) -> bool:
        """True if ``found`` is beyond the bound ``name``. If it is, that counts as a hit."""
        if found <= getattr(self.bounds, name):
            return False
        self.hit(name, found)
        return True

    def first(self, name: str, items: Sequence[T]) -> Sequence[T]:
        """As many of the items as the bound ``name`` allows; if those are not all, that counts as a hit."""
        return items[: getattr(self.bounds, name)] if self.exceeds(name, len(items)) else items

    def hit(self, name: str, needed: int | None = None) -> None:
        """Count that the bound ``name`` ended or narrowed a search; ``needed`` is what it would have taken at least."""
        old = self.hits.get(name)
        if old is None:
            self.hits[name] = Hit(name, getattr(self.bounds, name), needed)
            return
        most = needed if old.needed is None else old.needed if needed is None else max(old.needed, needed)
        self.hits[name] = Hit(name, old.bound, most, old.count + 1)

    def counts(self) -> dict[str, int]:
        """The number of times that each bound was hit so far."""
        return {name: hit.count for name, hit in self.hits.items()}

    def since(self, before: Mapping[str, int], stage: str) -> tuple[Hit, ...]:
        """The bounds of a stage that were hit since ``counts`` gave ``before``."""
        return tuple(hit for name, hit in self.hits.items() if hit.count > before.get(name, 0) and hit.stage == stage)

    def check(self) -> None:
        """Raise :class:`Stopped` if time or memory are used up; count a step."""
        self.steps += 1
        if self._most is not None and self.steps > self._most:
            raise Grown
        if self._until is not None and time.monotonic() > self._until:
            raise self.out_of_time()
        if self.megabytes is not None:
            self._checks += 1
            if self._checks % _EVERY == 1 and resident_megabytes() > self.megabytes:
                raise self.out_of_memory()

    @contextmanager
    def watching(self, steps: int) -> Generator[None]:
        """While the block runs, :meth:`check` raises :class:`Grown` once it has taken more than so many steps, to which
        :meth:`allow` adds; bounds that were hit are then as if the block had not been run."""
        outer, hits = self._most, dict(self.hits)
        self._most = self.steps + steps
        try:
            yield
        except Grown:
            self.hits = hits
            raise
        finally:
            self._most = outer

    def attempt(self, name: str, steps: int, way: Callable[[], T]) -> T | None:
        """Return the result of ``way``; ``None`` where it takes more than so many steps, which counts as a hit of the
        bound ``name``. A bound on steps that is set around this call holds, too."""
        outer = self._most
        most = self.steps + steps
        self._most = most if outer is None else min(most, outer)
        try:
            return way()
        except Grown:
            if outer is not None and self.steps > outer:
                raise
            self.hit(name)
            return None
        finally:
            self._most = outer

    def trying(self, way: Callable[[], T | None]) -> T | None:
        """Return the result of a ``way`` that is one of several; ``None`` also where it raises an error of this
        package. Then what was left open on that way is no news of another answer: no bound was hit."""
        kept, self.hits = self.hits, dict(self.hits)
        try:
            found = way()
        except TantamountError:
            found = None
        if found is None:
            self.hits = kept
        return found

    def allow(self, steps: int) -> None:
        """Let the block that is watched take so many steps more."""
        if self._most is not None:
            self._most += steps

    def aside(self, way: Callable[[], T]) -> T:
        """Return the result of ``way``, whose steps are none of the block that is watched."""
        outer, begun = self._most, self.steps
        self._most = None
        try:
            return way()
        finally:
            self._most = None if outer is None else outer + self.steps - begun

    def left(self) -> float | None:
        """Seconds until :meth:`check` raises; ``None`` if time is not limited."""
        return None if self._until is None else self._until - time.monotonic()

    def out_of_time(self) -> Stopped:
        return Stopped(TIMEOUT, f"{self.seconds:g} s")

    def out_of_memory(self) -> Stopped:
        return Stopped(MEMORY, f"{self.megabytes} MB")


def further(factor: float) -> str:
    """The option that goes on from a factor of effort."""
    return "--effort high" if factor < LEVELS["high"] else f"--effort {4 * factor:g}"


def effort_of(effort: str | float = "normal", timeout: float | None = None, memory: int | None = None) -> Effort:
    """The effort that options say, whose time begins now. Raises :class:`UserError` for values that are none."""
    for name, value, unit in (("timeout", timeout, "seconds"), ("memory", memory, "megabytes")):
        if value is not None and not 0 < value < float("inf"):
            raise UserError("effort-value", place=name, found=str(value), needed=f"a number of {unit} above 0")
    return Effort(factor_of(str(effort)), seconds=timeout, megabytes=memory)


def factor_of(text: str) -> float:
    """The multiple of the normal effort that ``low``, ``normal``, ``high`` or a number means. Raises
    :class:`UserError`."""
    if text in LEVELS:
        return LEVELS[text]
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 1 / _MOST <= factor <= _MOST:
        raise UserError(
            "effort-value",
            place="effort",
            found=repr(text[:40]),
            needed=f"{', '.join(LEVELS)}, or how many times the normal effort, from {1 / _MOST:g} to {_MOST:g}",
        )
    return factor


def resident_megabytes() -> float:
    """The memory that this process holds, in units of 10**6 bytes; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0
    import resource

    return pages * resource.getpagesize() / 1e6


@contextmanager
def stopping(effort: Effort) -> Generator[None]:
    """While the block runs, a signal ends it where ``check`` is not called in time: inside of anything but one call of
    C code. Only in the main thread of a system that has such signals, and where nobody else uses this one."""
    left = effort.left()
    timer = getattr(signal, "setitimer", None)
    mine = threading.current_thread() is threading.main_thread()
    if left is None or timer is None or not mine or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        yield
        return

    def stop(number: int, frame: object) -> None:
        raise effort.out_of_time()

    signal.signal(signal.SIGALRM, stop)
    try:
        timer(signal.ITIMER_REAL, max(0.0, left) + _SLACK, _SLACK)
        yield
    finally:
        timer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


@contextmanager
def within(seconds: float | None) -> Generator[None]:
    """While the block runs, raise :class:`Stopped` after so many CPU seconds of this process (``None``: never). For
    work that is worth little if it takes long; what it was done on may be left half done. As with :func:`stopping`,
    where that is not possible nothing is bounded; inside of another such block, the outer one's bound holds alone."""
    timer = getattr(signal, "setitimer", None)
    mine = threading.current_thread() is threading.main_thread()
    if seconds is None or timer is None or not mine or signal.getsignal(signal.SIGVTALRM) is not signal.SIG_DFL:
        yield
        return

    def stop(number: int, frame: object) -> None:
        raise Effort(seconds=seconds).out_of_time()

    signal.signal(signal.SIGVTALRM, stop)
    try:
        timer(signal.ITIMER_VIRTUAL, max(seconds, _SLACK), _SLACK)
        yield
    finally:
        timer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
