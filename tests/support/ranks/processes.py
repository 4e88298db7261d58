"""The table of cases in real processes: ``python -m support.ranks.processes FILE`` writes what each of four ranks gets.

One process imports PyTorch and forks the ranks, which meet over gloo and run every case that the table says they can.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils import _pytree as pytree

from support.ranks.cases import CASES, RANKS, Built
from tantamount.capture.torch.placements import local_part
from tantamount.capture.torch.state import Entry, State, collect

__all__ = ["Outcome", "arguments_of", "state_of", "tensors_of"]


@dataclass(frozen=True)
class Outcome:
    """What a run gave: tensors that it returned, and gradients and new values of state and arguments in their order."""

    results: list[Tensor]
    gradients: list[Tensor | None]
    values: list[Tensor]
    error: str = ""


def state_of(built: Built) -> State:
    """The state of a program, its optimizers initialised as a capture does it."""
    return collect(built.modules, built.optimizers)


def arguments_of(built: Built) -> list[Tensor]:
    """The tensors among the arguments, in the order of the program's inputs."""
    return [leaf for leaf in pytree.tree_leaves(built.args) if isinstance(leaf, Tensor)]


def tensors_of(built: Built) -> list[Tensor]:
    """Local parts of state and arguments, in the order of the program's inputs."""
    entries: tuple[Entry, ...] = state_of(built).entries
    return [_local(tensor) for tensor in (*(entry.tensor for entry in entries), *arguments_of(built))]


def _local(tensor: Tensor) -> Tensor:
    return local_part(tensor.detach())[0].detach().clone()


def run(built: Built) -> Outcome:
    """Run a program as PyTorch does."""
    entries = state_of(built).entries
    arguments = arguments_of(built)
    returned = built.function(*built.args)
    results = [_local(leaf) for leaf in pytree.tree_leaves(returned) if isinstance(leaf, Tensor)]
    tensors = [*(_now(built, entry) for entry in entries), *arguments]
    gradients = [_local(x.grad) if x.is_leaf and x.grad is not None else None for x in tensors]
    return Outcome(results, gradients, [_local(x) for x in tensors])


def _now(built: Built, entry: Entry) -> Tensor:
    """The tensor that a program's state has under a name, which may be another one than before."""
    for prefix, module in built.modules.items():
        if entry.name.startswith(prefix):
            with contextlib.suppress(AttributeError):
                return module.get_parameter(entry.name.removeprefix(prefix))
            with contextlib.suppress(AttributeError):
                return module.get_buffer(entry.name.removeprefix(prefix))
    owner, _, key = entry.name.partition(":")[2].rpartition(".")
    for optimizer in built.optimizers:
        for values in optimizer.state.values():
            if any(value is entry.tensor for value in values.values()):
                return entry.tensor
            if key in values and owner and values[key].shape == entry.tensor.shape:
                return values[key]
    return entry.tensor


def rank_main(rank: int, store: str, folder: str) -> None:
    """All cases on one rank; the outcomes are saved in a file of their own."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    found: dict[str, dict[str, Any]] = {}
    for one in CASES:
        if not one.run:
            continue
        try:
            outcome = run(one.build(rank))
        except Exception as problem:
            outcome = Outcome([], [], [], f"{type(problem).__name__}: {problem}"[:300])
            if os.environ.get("TANTAMOUNT_SHOW"):
                traceback.print_exc()
        found[f"{one.group}: {one.name}"] = vars(outcome)
    torch.save(found, f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def main(file: str) -> None:
    """Fork the ranks, and put what they saved into one file."""
    from support.ranks import all_cases  # noqa: F401

    warnings.simplefilter("ignore")
    for module in ("torch._dynamo", "torch.distributed.fsdp", "torch.distributed.tensor", "torch.distributed.optim"):
        importlib.import_module(module)  # once, before the ranks part
    with tempfile.TemporaryDirectory() as folder:
        children: list[int] = []
        for rank in range(RANKS):
            child = os.fork()
            if not child:
                code = 1
                try:
                    rank_main(rank, f"{folder}/store", folder)
                    code = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    sys.stderr.flush()
                    os._exit(code)
            children.append(child)
        codes = [os.waitpid(child, 0)[1] for child in children]
        if any(codes):
            raise SystemExit(f"ranks ended with {codes}")
        torch.save([torch.load(Path(folder) / f"{rank}.pt") for rank in range(RANKS)], file)


if __name__ == "__main__":
    main(sys.argv[1])
