"""Work in processes of its own: what becomes of one piece does not touch the others.

Every piece gets a fresh process, so that memory is given back, and a crash or a kill ends that piece alone. Workers end
with the process that started them, however that ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection, forkserver
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

__all__ = ["Lost", "cores", "run_all"]

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Lost:
    """What is known of a process that ended without a result: its exit code, negative for a signal; what it told last,
    and whether it was ended because its time was over."""

    exit_code: int
    so_far: Any = None
    overdue: bool = False

    def __str__(self) -> str:
        if self.exit_code >= 0:
            return f"ended with exit code {self.exit_code}"
        try:
            return f"killed by {signal.Signals(-self.exit_code).name}"
        except ValueError:
            return f"killed by signal {-self.exit_code}"


@dataclass(frozen=True, slots=True)
class _Running(Generic[T]):
    number: int
    item: T
    process: BaseProcess
    until: float = float("inf")


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_all(
    work: Callable[..., R],
    items: Sequence[T],
    workers: int,
    *,
    tells: bool = False,
    seconds: float | None = None,
    watch: Callable[[int, Sequence[T]], None] = lambda done, running: None,
    preload: Sequence[str] = (),
) -> Iterator[R | Lost]:
    """``work(item)`` of every item, at most ``workers`` at a time, in the order of the items; each as soon as it and
    those before it are there.

    ``work`` is a function that a fresh process can import, its results can be pickled, and it raises nothing. If it
    ``tells``, it is called as ``work(item, tell)``, and what it told last is known even if its process is lost. A
    process that takes more than ``seconds`` is killed.
    ``watch(done, running)`` is told of every change; ``preload`` are modules that the workers share. When the iterator
    is closed, or an exception goes through it, the workers that are still running are killed.
    """
    context = _context(preload)
    waiting = iter(enumerate(items))
    running: dict[Any, _Running[T]] = {}
    results: dict[int, R | Lost] = {}
    told: dict[int, Any] = {}
    done = given = 0
    try:
        while given < len(items):
            while len(running) < workers and (following := next(waiting, None)) is not None:
                number, item = following
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_serve, args=(sender, work, item, tells), daemon=True)
                process.start()
                until = time.monotonic() + seconds if seconds is not None else float("inf")
                running[receiver] = _Running(number, item, process, until)
                sender.close()
            watch(done, [one.item for one in running.values()])
            ends = min(one.until for one in running.values())
            for receiver in connection.wait(
                list(running), None if seconds is None else max(0.0, ends - time.monotonic())
            ):
                one = running[receiver]
                final, found = _result(receiver, one.process, told.get(one.number))
                if not final:
                    told[one.number] = found
                    continue
                del running[receiver]
                results[one.number] = found
                done += 1
            for receiver, one in list(running.items()):
                if one.until <= time.monotonic():
                    del running[receiver]
                    one.process.kill()
                    one.process.join()
                    receiver.close()
                    results[one.number] = Lost(one.process.exitcode or 0, told.get(one.number), overdue=True)
                    done += 1
            while given in results:
                yield results.pop(given)
                given += 1
    finally:
        for one in running.values():
            if one.process.pid is not None:
                one.process.kill()
                one.process.join()


def _context(preload: Sequence[str]) -> ForkServerContext:
    """Processes forked from a server that has loaded what they need: they start in milliseconds, and unlike those
    forked from here they inherit neither threads nor locks."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited: an interruption is for this process alone
    try:
        forkserver.ensure_running()
    finally:
        signal.signal(signal.SIGINT, previous)
    return context


def _result(receiver: Any, process: BaseProcess, so_far: Any) -> tuple[bool, Any]:
    """Whether what the process sent is its result, and what it sent."""
    try:
        final, found = receiver.recv()
    except (EOFError, OSError):
        process.join()
        final, found = True, Lost(process.exitcode or 0, so_far)
    if final:
        receiver.close()
        process.join()
    return final, found


def _serve(sender: Any, work: Callable[..., Any], item: Any, tells: bool) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def tell(found: Any) -> None:
        sender.send((False, found))

    sender.send((True, work(item, tell) if tells else work(item)))
    sender.close()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
