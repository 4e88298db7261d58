"""Ranks simulated one after the other in this process: the process groups are fake, no data moves."""

# pyright: basic
from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

import torch.distributed as dist

from tantamount.errors import UserError

__all__ = ["groups", "simulated"]


@contextmanager
def simulated(rank: int, world_size: int) -> Generator[None]:
    """``torch.distributed`` initialised as ``rank`` of ``world_size`` with the fake backend."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if dist.is_initialized():
        raise UserError(
            "capture-distributed", place="torch.distributed", found="a process group that is already initialised",
            needed="none: capture_ranks simulates every rank itself", hint="call dist.destroy_process_group() before",
        )  # fmt: skip
    keys = {"RANK": rank, "LOCAL_RANK": 0, "WORLD_SIZE": world_size, "MASTER_ADDR": "localhost", "MASTER_PORT": 29500}
    before = {key: os.environ.get(key) for key in keys}
    os.environ.update({key: str(value) for key, value in keys.items()})
    hook = sys.excepthook  # init_process_group puts the rank before every line of a traceback
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)
    try:
        yield
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
        sys.excepthook = hook
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def groups() -> dict[str, tuple[int, ...]]:
    """The members (global ranks, in group order) of every process group of this rank, by name."""
    from torch.distributed.distributed_c10d import _world

    return {_world.pg_names[group]: tuple(dist.get_process_group_ranks(group)) for group in _world.pg_map}
