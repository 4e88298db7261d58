"""Runners of pieces of work: in processes of this machine, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from tantamount.errors import UserError

__all__ = ["RunAll", "runner"]

RunAll = Callable[..., Iterator[Any]]


def runner(ray: str | None) -> RunAll:
    """The function that runs pieces: :func:`tantamount.work.pool.run_all`, or the same on the Ray cluster at an
    address."""
    from tantamount.work.pool import run_all

    return run_all if ray is None else partial(_on_ray, ray)


def _on_ray(address: str, work: Callable[..., Any], items: Sequence[Any], workers: int | None, **more: Any) -> Any:
    from tantamount.work.cluster import Unreachable, run_on

    try:
        yield from run_on(address, work, items, workers, **more)
    except Unreachable as problem:
        raise UserError(
            "ray-unreachable", place=f"--ray {address}", found=str(problem), needed="a Ray cluster that answers",
            hint="pip install 'tantamount[ray]'; `ray start --head` starts a cluster, --ray local one for this command",
        ) from None  # fmt: skip
