"""Work in processes of its own: what becomes of one piece does not touch the others.

Every piece gets a fresh process, so that memory is given back, and a crash or a kill ends that piece alone. Workers end
with the process that started them, however that ends.
"""

from __future__ import annotations

import errno
import gc
import multiprocessing
import os
import resource
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection, forkserver, resource_tracker
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

__all__ = ["Lost", "cores", "run_all"]

_DESCRIPTORS = 32

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Lost:
    """A process that ended without a result: its exit code, negative for a signal; or why there was
    none (``unstarted``); what it told last (``so_far``), and whether it was ended because its time was over."""

    exit_code: int
    unstarted: str = ""
    so_far: Any = None
    overdue: bool = False

    def __str__(self) -> str:
        if self.unstarted:
            return f"not started ({self.unstarted})"
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
    process that takes more than ``seconds`` is killed. Where no more processes or descriptors are to be had, fewer run
    at a time; an item is lost if not even one can run.
    ``watch(done, running)`` is told of every change; ``preload`` are modules that the workers share. When the iterator
    is closed, or an exception goes through it, the workers that are still running are killed.
    """
    waiting = deque(enumerate(items))
    running: dict[Any, _Running[T]] = {}
    results: dict[int, R | Lost] = {}
    told: dict[int, Any] = {}
    done = given = 0
    context: ForkServerContext | None = None
    try:
        while given < len(items):
            while len(running) < workers and waiting:
                number, item = waiting[0]
                until = time.monotonic() + seconds if seconds is not None else float("inf")
                try:
                    context = context or _context(preload)
                    _start(context, (work, item, tells), number, until, running)
                except (OSError, EOFError, MemoryError) as problem:
                    if running:
                        break  # again when one of them has given back what it has
                    results[number] = Lost(
                        0, getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
                    )
                    done += 1
                waiting.popleft()
            watch(done, [one.item for one in running.values()])
            ends = min((one.until for one in running.values()), default=float("inf"))
            patience = None if seconds is None else max(0.0, ends - time.monotonic())
            for receiver in connection.wait(list(running), patience) if running else ():
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
                    results[one.number] = Lost(one.process.exitcode or 0, so_far=told.get(one.number), overdue=True)
                    done += 1
            while given in results:
                yield results.pop(given)
                given += 1
    finally:
        for one in running.values():
            if one.process.pid is not None:
                one.process.kill()
                one.process.join()


def _start(
    context: ForkServerContext,
    task: tuple[Callable[..., Any], T, bool],
    number: int,
    until: float,
    running: dict[Any, _Running[T]],
) -> None:
    """Start a process for a task (what to do with which item, and whether it tells) and enter it in ``running``. Raises
    :class:`OSError` if there can be none."""
    receiver, sender = context.Pipe(duplex=False)
    try:
        process = context.Process(target=_serve, args=(sender, *task), daemon=True)
        running[receiver] = _Running(number, task[1], process, until)  # first, so that an interruption finds it
        process.start()
    except BaseException as problem:
        if isinstance(problem, (OSError, EOFError, MemoryError)):
            del running[receiver]
            receiver.close()
        raise
    finally:
        sender.close()


def _context(preload: Sequence[str]) -> ForkServerContext:
    """Processes forked from a server that has loaded what they need: they start in milliseconds, and unlike those
    forked from here they inherit neither threads nor locks."""
    fewest = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if fewest < _DESCRIPTORS:  # the server itself does not survive it when it gets none
        raise OSError(errno.EMFILE, f"a process may have {fewest} open files, and {_DESCRIPTORS} are needed")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    resource_tracker.ensure_running()  # unblocks the signal when it starts
    # Blocked, which is inherited: an interruption is for this process alone, which gets it afterwards.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


def _result(receiver: Any, process: BaseProcess, so_far: Any) -> tuple[bool, Any]:
    """The result that the process sent, or what else it sent, after ``True`` if that is its result."""
    try:
        final, found = receiver.recv()
    except (EOFError, OSError):  # it ended before all was sent
        process.join()
        final, found = True, Lost(process.exitcode or 0, so_far=so_far)
    if final:
        receiver.close()
        process.join()
    return final, found


def _serve(sender: Any, work: Callable[..., Any], item: Any, tells: bool) -> None:
    def tell(found: Any) -> None:
        sender.send((False, found))

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(200_000, 20, 20)  # as in the process of a command: see tantamount.__main__
    try:
        threading.Thread(target=_end_with_parent, daemon=True).start()
        sender.send((True, work(item, tell) if tells else work(item)))
        sender.close()
    except (MemoryError, OSError, RuntimeError):  # no thread, no memory to send: it is lost, and that is told once
        os._exit(1)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
