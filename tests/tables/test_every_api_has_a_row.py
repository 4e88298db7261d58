"""Every function of PyTorch that communicates, and every one that registers or runs a hook, is a row of the table of
cases (captured and compared with real processes, or refused by name), or is listed here with the reason why not.

The names are those of the installed PyTorch: a release that adds one fails this test.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="captures need PyTorch")
pytest.importorskip("torch.distributed", reason="collectives need torch.distributed")

from support.ranks.all_cases import CASES  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

SAYS = "says something of this process or of its groups, which captures simulate"
SETS_UP = "makes, finds or ends the processes of a run: capture_ranks does that itself"
REWRITES = "what Dynamo puts in place of a collective of torch.distributed that has a row"

DISTRIBUTED: Mapping[str, str] = {
    "GroupName": "a type",
    **dict.fromkeys(
        ("get_backend", "get_backend_config", "get_debug_level", "get_default_backend_for_device",
         "get_node_local_rank", "get_pg_count", "is_available", "is_backend_available", "is_gloo_available",
         "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched", "is_ucc_available",
         "is_xccl_available", "supports_complex"), SAYS),
    **dict.fromkeys(
        ("destroy_process_group", "init_process_group", "register_rendezvous_handler", "rendezvous", "set_debug_level",
         "set_debug_level_from_env"), SETS_UP),
    "breakpoint": "waits for a person",
}  # fmt: skip
FUNCTIONAL: Mapping[str, str] = {
    **dict.fromkeys(
        ("all_gather_inplace", "all_gather_tensor_inplace", "all_reduce_inplace", "all_to_all_inplace",
         "batch_p2p_ops_inplace", "irecv_inplace", "isend_inplace", "reduce_scatter_tensor_inplace"), REWRITES),
    "allow_inflight_collective_as_graph_input_ctx": "a switch of torch.compile",
}  # fmt: skip
GROUP: Mapping[str, str] = {
    **dict.fromkeys(("abort", "merge_remote_group", "set_timeout", "shutdown"), SETS_UP),
    **dict.fromkeys(("boxed", "get_group_store", "name", "rank", "size", "unbox"), SAYS),
}
ROW_OF_METHOD = {
    "allgather": "all_gather", "allgather_coalesced": "all_gather_coalesced", "alltoall": "all_to_all",
    "allgather_into_tensor_coalesced": "_coalescing_manager", "allreduce_coalesced": "all_reduce_coalesced",
    "all_gather_single_coalesced": "_coalescing_manager", "alltoall_base": "all_to_all_single",
    "reduce_scatter_single_coalesced": "_coalescing_manager", "recv_anysource": "recv from any rank",
    "reduce_scatter_tensor_coalesced": "_coalescing_manager",
}  # fmt: skip
HOOKS: Mapping[str, str] = {
    "Optimizer.profile_hook_step": "the wrapper of step() that runs the hooks that have rows",
    **dict.fromkeys(
        ("Module._register_state_dict_hook", "Module._register_load_state_dict_pre_hook"),
        "the private names of register_state_dict_post_hook and register_load_state_dict_pre_hook"),
    **dict.fromkeys(
        ("Module._get_backward_hooks", "Module._get_backward_pre_hooks", "Module._maybe_warn_non_full_backward_hook"),
        "reads the hooks that have rows"),
    "Node._register_hook_dict": "what Tensor.register_hook calls for a tensor with a node",
    "graph._register_logging_hooks_on_whole_graph": "prints",
    **dict.fromkeys(
        ("DistributedDataParallel._check_comm_hook", "DistributedDataParallel._delayed_all_reduce_hook",
         "DistributedDataParallel._fire_reducer_autograd_hook", "DistributedDataParallel._module_wait_for_copy_hook",
         "DistributedDataParallel._register_accum_grad_hook", "DistributedDataParallel._register_buffer_comm_hook",
         "DistributedDataParallel._register_builtin_comm_hook",
         "DistributedDataParallel._register_delay_all_reduce_hook", "DistributedDataParallel._remove_autograd_hooks",
         "DistributedDataParallel._root_copy_hook", "DistributedDataParallel.join_hook",
         "DistributedDataParallel.register_comm_hook"), "refused with the wrapper: DistributedDataParallel"),
    "FullyShardedDataParallel.register_comm_hook": "refused with the wrapper: FullyShardedDataParallel",
    "FullyShardedDataParallel._low_precision_hook_enabled": "refused with the wrapper: FullyShardedDataParallel",
}  # fmt: skip
OPTIMIZERS: Mapping[str, str] = {
    "as_functional_optim": "a registry of TorchScript optimizers, which have no hooks and communicate nothing",
    "DistributedOptimizer": "parameters of other processes, over RPC, which capture_ranks does not start",
}


def _functions(module: Any, own: bool = False) -> list[str]:
    found: list[str] = []
    for name, value in vars(module).items():
        if name.startswith("_") or inspect.isclass(value) or inspect.ismodule(value) or not callable(value):
            continue
        if not own or getattr(value, "__module__", "") == module.__name__:
            found.append(name)
    return sorted(found)


def _hooks(owner: Any, besides: Any = object) -> Iterable[str]:
    """Names that speak of hooks, of functions and classes, less those that another class has as well."""
    for name in dir(owner):
        value = inspect.getattr_static(owner, name)
        called = callable(value) or isinstance(value, classmethod | staticmethod)
        if "hook" in name.lower() and called and name != "__subclasshook__" and not hasattr(besides, name):
            yield name


def _titles(*groups: str) -> str:
    return "\n".join(one.name for one in CASES if not groups or one.group in groups)


def _without(names: Iterable[str], titles: str, reasons: Mapping[str, str]) -> list[str]:
    """Names that no row mentions and for which no reason is given."""
    return [name for name in names if name not in reasons and not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", titles)]


def _c10d_functions() -> list[str]:
    import torch.distributed as dist

    return [name for name in _functions(dist) if name != "reduce_op"]


def _functional() -> list[str]:
    module = importlib.import_module("torch.distributed._functional_collectives")
    return [name for name in _functions(module, own=True) if not re.search(r"_(backward|setup_context)$", name)]


def _differentiable() -> list[str]:
    return _functions(importlib.import_module("torch.distributed.nn.functional"), own=True)


def _methods() -> list[str]:
    from torch.distributed import ProcessGroup

    static = {name: inspect.getattr_static(ProcessGroup, name) for name in dir(ProcessGroup)}
    return sorted(
        name for name, value in static.items()
        if not name.startswith("_") and not inspect.isclass(value) and not isinstance(value, property)
        and callable(getattr(ProcessGroup, name)) and not name.isupper()
    )  # fmt: skip


@pytest.mark.parametrize(
    ("names", "groups", "reasons"),
    [
        (_c10d_functions, ("torch.distributed",), DISTRIBUTED),
        (_functional, ("torch.distributed._functional_collectives",), FUNCTIONAL),
        (_differentiable, ("torch.distributed.nn.functional",), {}),
    ],
    ids=["torch.distributed", "functional", "nn.functional"],
)
def test_every_collective_has_a_row(
    names: Callable[[], list[str]], groups: tuple[str, ...], reasons: Mapping[str, str]
) -> None:
    found = names()
    assert len(found) > 5
    assert _without(found, _titles(*groups), reasons) == []
    assert set(reasons) <= set(found), "a reason for a name that PyTorch does not have"


def test_every_method_of_a_process_group_is_called_by_a_function_that_has_a_row() -> None:
    titles = _titles("torch.distributed")
    left = _without(_methods(), titles, GROUP)
    assert [name for name in left if ROW_OF_METHOD.get(name, "none of them") not in titles] == []
    assert set(GROUP) | set(ROW_OF_METHOD) <= set(_methods())


def _all_hooks() -> list[str]:
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
    from torch.nn.parallel import DistributedDataParallel

    module, optimizer = torch.nn.Module, torch.optim.Optimizer
    found = [f"Module.{name}" for name in _hooks(module)] + [f"Tensor.{name}" for name in _hooks(torch.Tensor)]
    found += [f"Parameter.{name}" for name in _hooks(torch.nn.Parameter, torch.Tensor)]
    found += [f"Optimizer.{name}" for name in _hooks(optimizer) if not name.endswith(("PostHook", "PreHook"))]
    found += [f"Node.{name}" for name in _hooks(torch.autograd.graph.Node)]
    found += [f"graph.{name}" for name in _hooks(torch.autograd.graph)]
    for owner in (DistributedDataParallel, FullyShardedDataParallel, FSDPModule):
        found += [f"{owner.__name__}.{name}" for name in _hooks(owner, module)]
    for owner in ("torch.nn.modules.module", "torch.optim.optimizer"):
        here = importlib.import_module(owner)
        found += [f"{owner}.{name}" for name in _hooks(here) if name.startswith("register_")]
    return found


def test_every_hook_has_a_row() -> None:
    found = _all_hooks()
    titles = _titles() + "\n" + _spelled_out()
    bare = {name: name.rpartition(".")[2] for name in found}
    left = [name for name in found if name not in HOOKS and _without([bare[name]], titles, {})]
    assert left == []
    assert set(HOOKS) <= set(found), "a reason for a name that PyTorch does not have"
    assert len(found) > 40


def _spelled_out() -> str:
    """The functions that rows call without naming them."""
    source = inspect.getsource(importlib.import_module("support.ranks.hooks"))
    called = set(re.findall(r"(?:\.|\b)(register_\w+|set_\w+_hook)\(", source))
    return "\n".join(called)


def test_every_optimizer_of_distributed_has_a_row() -> None:
    import torch.distributed.optim as optimizers

    assert _without(optimizers.__all__, _titles("hooks of optimizers", "hooks of wrappers"), OPTIMIZERS) == []


def test_a_name_without_a_row_is_found() -> None:
    assert _without(["all_reduce", "all_reduce_later"], _titles("torch.distributed"), {}) == ["all_reduce_later"]
