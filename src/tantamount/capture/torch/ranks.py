"""Ranks simulated one after the other in this process: the process groups are fake, no data moves."""

# pyright: basic
from __future__ import annotations

import functools
import itertools
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

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
        with _meshes_apart():
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


_simulations = itertools.count(1)


@contextmanager
def _meshes_apart() -> Generator[None]:
    """Device meshes that are made while this lasts equal no others.

    PyTorch caches much by mesh (how DTensors are sharded, at which offset a rank's part begins, the name of a process
    group), and compares meshes without the rank, which never changes within a process. Here it does. Meshes have a
    field for ranks that are threads of one process, and we are in their place."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor.debug import _clear_sharding_prop_cache

    simulation = next(_simulations)
    original = DeviceMesh.__init__

    @functools.wraps(original)
    def marked(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self._thread_id, self._hash = -simulation, None

    DeviceMesh.__init__ = marked
    _clear_sharding_prop_cache()  # holds meshes of the rank before; nothing will ask for them again
    try:
        yield
    finally:
        DeviceMesh.__init__ = original


def groups() -> dict[str, tuple[int, ...]]:
    """The members (global ranks, in group order) of every process group of this rank, by name."""
    from torch.distributed.distributed_c10d import _world

    return {_world.pg_names[group]: tuple(dist.get_process_group_ranks(group)) for group in _world.pg_map}
