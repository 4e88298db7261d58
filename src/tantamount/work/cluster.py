"""The same pieces of work on a Ray cluster: a killed worker or a lost node costs time, and nothing else.

Every piece is a Ray task in a process of its own, as in :mod:`tantamount.work.pool`; one whose process or node dies is
run again elsewhere, so a piece must give the same result whenever it is run, and files that it reads or writes must be
on a file system that all nodes share. Ray moves functions and results between its processes by pickle: use a cluster
that is yours, with the same Tantamount on every node.
"""

from __future__ import annotations

import importlib
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tantamount.work.pool import Lost

__all__ = ["Unreachable", "run_on"]

_AGAIN = 3  # times that a piece whose process or node died is run again
_PATIENCE = 10.0  # seconds for a cluster to answer
_BEAT = 0.5  # seconds between looks at the clock
_KILLED = -9  # what a process that Ray found dead is said to have ended with

T = TypeVar("T")
R = TypeVar("R")


class Unreachable(Exception):
    """There is no such cluster, or no Ray: said in words."""


@dataclass(frozen=True, slots=True)
class _Running:
    number: int
    until: float


def run_on(
    address: str,
    work: Callable[..., R],
    items: Sequence[T],
    workers: int | None = None,
    *,
    tells: bool = False,
    seconds: float | None = None,
    watch: Callable[[int, Sequence[T]], None] = lambda done, running: None,
    preload: Sequence[str] = (),
) -> Iterator[R | Lost]:
    """The results that :func:`tantamount.work.pool.run_all` gives, computed on the Ray cluster at ``address``
    (``HOST:PORT``, ``auto`` for the one that this machine belongs to, ``local`` for one of its own that ends with the
    work).

    ``workers``: the pieces at a time; default: one for every CPU that the cluster has, nodes that join later included.
    A piece that takes more than ``seconds`` is ended; one whose process dies more often than it is run again is
    :class:`~tantamount.work.pool.Lost`. Raises :class:`Unreachable`.
    """
    ray = _connected(address)
    try:
        yield from _Cluster(ray, work, items, workers, tells, seconds, watch, tuple(preload)).results()
    finally:
        ray.shutdown()


def _connected(address: str) -> Any:
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as problem:
        raise Unreachable(f"Ray is not installed ({problem})") from None
    host, _, port = address.rpartition(":")
    try:
        if host:  # Ray itself waits for minutes
            socket.create_connection((host, int(port)), _PATIENCE).close()
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, OSError, RuntimeError, ValueError) as problem:
        raise Unreachable(str(problem).splitlines()[0] if str(problem) else type(problem).__name__) from None
    return ray


class _Board:
    """An actor that keeps what each piece of work told last."""

    def __init__(self) -> None:
        self.told: dict[int, Any] = {}

    def tell(self, number: int, found: Any) -> None:
        self.told[number] = found

    def last(self, number: int) -> Any:
        return self.told.get(number)


class _Cluster:
    """Pieces under way on a cluster."""

    def __init__(
        self, ray: Any, work: Any, items: Sequence[Any], workers: int | None, tells: bool, seconds: float | None,
        watch: Any, preload: tuple[str, ...],
    ) -> None:  # fmt: skip
        self._ray, self._items = ray, items
        self._task = ray.put((work, preload, os.getcwd()))
        self._workers, self._seconds, self._watch = workers, seconds, watch
        self._board = ray.remote(_Board).options(num_cpus=0, max_restarts=-1).remote() if tells else None
        # A process of its own for every piece (max_calls): its memory is given back, and its limits are its own.
        self._piece = ray.remote(max_calls=1, max_retries=_AGAIN, num_cpus=1)(_piece)

    def results(self) -> Iterator[Any]:
        ray, waiting, given = self._ray, deque(range(len(self._items))), 0
        running: dict[Any, _Running] = {}
        results: dict[int, Any] = {}
        done = 0
        try:
            while given < len(self._items):
                while waiting and len(running) < self._places():
                    number = waiting.popleft()
                    until = float("inf") if self._seconds is None else time.monotonic() + self._seconds
                    running[self._piece.remote(self._task, number, self._items[number], self._board)] = _Running(
                        number, until
                    )
                self._watch(done, [self._items[one.number] for one in running.values()])
                ended, _ = ray.wait(list(running), timeout=_BEAT)
                for piece in ended:
                    number = running.pop(piece).number
                    results[number] = self._result(piece, number)
                    done += 1
                for piece, one in list(running.items()):
                    if one.until <= time.monotonic():
                        del running[piece]
                        ray.cancel(piece, force=True)
                        results[one.number] = Lost(_KILLED, so_far=self._told(one.number), overdue=True)
                        done += 1
                while given in results:
                    yield results.pop(given)
                    given += 1
        finally:
            for piece in running:
                ray.cancel(piece, force=True)

    def _places(self) -> int:
        """Pieces at a time: asked again each time, as nodes come and go."""
        return self._workers or max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def _result(self, piece: Any, number: int) -> Any:
        try:
            return self._ray.get(piece)
        except self._ray.exceptions.RayError as problem:  # its process died each time, or it raised
            return Lost(_KILLED, unstarted="" if _died(problem) else _first_line(problem), so_far=self._told(number))

    def _told(self, number: int) -> Any:
        if self._board is None:
            return None
        try:
            return self._ray.get(self._board.last.remote(number), timeout=10)
        except self._ray.exceptions.RayError:  # with its node
            return None


def _piece(task: tuple[Callable[..., Any], tuple[str, ...], str], number: int, item: Any, board: Any) -> Any:
    """Runs in a process of the cluster, in the folder that names of files are relative to."""
    work, preload, folder = task
    os.chdir(folder)
    for module in preload:
        importlib.import_module(module)
    if board is None:
        return work(item)

    def tell(found: Any) -> None:
        board.tell.remote(number, found)

    return work(item, tell)


def _died(problem: Exception) -> bool:
    return type(problem).__name__ in ("WorkerCrashedError", "NodeDiedError", "ObjectLostError", "OutOfMemoryError")


def _first_line(problem: Exception) -> str:
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return lines[-1] if lines else type(problem).__name__
