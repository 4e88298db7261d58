"""Megatron's steps on gradients between the backward pass and the optimizer."""

# pyright: basic
from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch.distributed as dist
from torch import nn

__all__ = ["partial_over_tensor_ranks", "reduce_gradients"]


def reduce_gradients(model: nn.Module) -> None:
    """Reduce ``.grad`` of every parameter over the ranks, for the end of a step that Megatron would run in
    ``finalize_model_grads``.

    First over the data-parallel ranks, as Megatron's ``DistributedDataParallel`` does in its buffers: the sum (for
    experts, over the ranks that have the same expert), divided by the number of data-parallel ranks. Then over the
    tensor-parallel ranks, by Megatron's own function, those that sequence parallelism leaves as partial sums."""
    parallel_state = import_module("megatron.core.parallel_state")
    finalize = import_module("megatron.core.distributed.finalize_model_grads")
    replicas = parallel_state.get_data_parallel_world_size()
    for parameter in model.parameters():
        if parameter.grad is None:
            continue
        if getattr(parameter, "allreduce", True):
            group = parallel_state.get_data_parallel_group()
        else:
            group = parallel_state.get_expert_data_parallel_group()
        if replicas > 1:
            parameter.grad /= replicas
        if group.size() > 1:
            dist.all_reduce(parameter.grad, group=group)
    chunk = SimpleNamespace(
        ddp_config=SimpleNamespace(use_megatron_fsdp=False), named_parameters=model.named_parameters
    )
    group = parallel_state.get_tensor_model_parallel_group()
    finalize._allreduce_non_tensor_model_parallel_grads([chunk], model.config, group)


def partial_over_tensor_ranks(model: nn.Module) -> set[str]:
    """Names of the parameters whose gradients are partial sums over tensor-parallel ranks until
    :func:`reduce_gradients`: those with Megatron's mark, under sequence parallelism, and norms of queries and keys."""
    config: Any = model.config
    return {
        name
        for name, parameter in model.named_parameters()
        if (config.sequence_parallel and getattr(parameter, "sequence_parallel", False))
        or (config.qk_layernorm and ("q_layernorm" in name or "k_layernorm" in name))
    }
