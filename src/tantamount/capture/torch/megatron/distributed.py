"""Megatron-Core's distributed optimizer: gradients are reduce-scattered bucket by bucket, every data-parallel rank
updates its part of each bucket, and new parameters are gathered.

A part of a bucket is a part of some parameters, from any element to any other, which no placement describes. So what
ranks hold *together* is what a plan speaks of: gradients and state of which every rank has a piece are put together by
a sum of pieces, zeros elsewhere (:func:`_together`), which Megatron does not do; and a rank is given its piece of that
and nothing else. The pieces that a step leaves are those that the next step finds, so what is proved of the whole is
true of the pieces. What Megatron finds in memory that a rank has no piece of is not known.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from math import prod
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from tantamount.capture.torch.finishing import step_of
from tantamount.capture.torch.megatron.numbers import NumbersAreTensors, Settled, l2_norm
from tantamount.capture.torch.megatron.settings import Settings

__all__ = ["pieces_reduced", "pieces_updated"]

Step = Callable[..., dict[str, Tensor]]


def pieces_reduced(model: Any, chunk: Any, optimizers: Sequence[Any], totals: Sequence[str]) -> Step:
    """The end of the backward passes: ``finalize_model_grads``, and for each optimizer the sum of the squares, by its
    name in ``totals``, that this rank adds to the norm. Gradients are given by name as ``grad NAME`` and returned, put
    together, as ``reduced NAME``. ``chunk`` is the model in ``DistributedDataParallel``."""
    distributed = import_module("megatron.core.distributed")
    clip_grads = import_module("megatron.core.optimizer.clip_grads")

    def run(**given: Tensor) -> dict[str, Tensor]:
        with _new_gradients(chunk, optimizers, zeros=True):
            for name, parameter in model.named_parameters():
                parameter.main_grad.copy_(given[f"grad {name}"])
            distributed.finalize_model_grads([chunk])
            squares = {name: torch.zeros(()) for name in totals}
            for name, optimizer in zip(totals, optimizers, strict=False):
                found: list[Tensor] = []
                with torch.no_grad(), NumbersAreTensors():
                    optimizer.prepare_grads()
                    with (
                        patch.object(torch.distributed, "all_reduce", lambda x, found=found, **_: found.append(x + 0)),
                        patch.object(clip_grads, "l2_norm_impl", l2_norm),
                    ):
                        grads = optimizer.get_main_grads_for_grad_norm()
                        clip_grads.get_grad_norm_fp32(grads, grad_stats_parallel_group=None)
                squares[name] = found[0].reshape(())
                for shard in _shards(optimizer):
                    shard.grad = None
            made: dict[str, Tensor] = {}
            for name, parameter, optimizer in _owned(model, optimizers):
                at = _piece(optimizer, parameter)
                piece = None if at is None else parameter.main_grad.view(-1)[at[0] : at[1]]
                made[f"reduced {name}"] = _together(piece, at, parameter.shape, optimizer.data_parallel_group)
            return {**made, **squares}

    return run


def pieces_updated(model: Any, chunk: Any, optimizers: Sequence[Any], s: Settings, state: Sequence[str]) -> Step:
    """Gradients multiplied by ``factor`` and the step of the optimizers, with the gathering of new parameters.
    Parameters are given by name, gradients as ``reduced NAME``, the optimizers' state as ``optimizer:NAME.KEY`` for the
    keys in ``state``; returned are all of these, new. A number (the steps that were done) is put together as the mean
    over the elements of a parameter of what the ranks that have them have."""
    clip_grads = import_module("megatron.core.optimizer.clip_grads")

    def run(factor: Tensor, **given: Tensor) -> dict[str, Tensor]:
        with ExitStack() as stack:
            stack.enter_context(_new_gradients(chunk, optimizers, zeros=False))
            stack.enter_context(_new_parameters(model, optimizers, given))
            for optimizer in optimizers:
                _give(model, optimizer, given, state, stack)
                with torch.no_grad(), NumbersAreTensors():
                    optimizer.prepare_grads()
                    clip_grads.clip_grad_by_total_norm_fp32(optimizer.get_parameters(), s.clip_grad, Settled(factor))
                inner = optimizer.optimizer
                stack.enter_context(patch.object(inner, "step", lambda inner=inner: step_of(inner)))
                optimizer.step_with_ready_grads()
            made: dict[str, Tensor] = {}
            for name, parameter, optimizer in _owned(model, optimizers):
                made[f"new {name}"] = _in_buffer(optimizer, parameter).view(parameter.shape).clone()
                at = _piece(optimizer, parameter)
                own = {} if at is None else optimizer.optimizer.state[_shard(optimizer, parameter)]
                for key in state:
                    piece, shape = own.get(key), parameter.shape
                    if given[f"optimizer:{name}.{key}"].dim() == 0:
                        whole = torch.zeros(())
                        if piece is not None and at is not None:
                            whole = piece * (at[1] - at[0]) / parameter.numel()
                        torch.distributed.all_reduce(whole, group=optimizer.data_parallel_group)
                    else:
                        whole = _together(piece, at, shape, optimizer.data_parallel_group)
                    made[f"new optimizer:{name}.{key}"] = whole
            return made

    return run


def _together(piece: Tensor | None, at: tuple[int, int] | None, shape: Sequence[int], group: Any) -> Tensor:
    """The tensor of which every rank of a group has a piece, its elements from ``at[0]`` to ``at[1]``, or none."""
    whole = torch.zeros(prod(shape))
    if piece is not None and at is not None:
        whole[at[0] : at[1]].copy_(piece)
    torch.distributed.all_reduce(whole, group=group)
    return whole.view(tuple(shape))


def _owned(model: Any, optimizers: Sequence[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Every parameter with its name and the optimizer in whose buffers it is."""
    for name, parameter in model.named_parameters():
        for optimizer in optimizers:
            if any(parameter in buffer.param_index_map for buffer in optimizer.buffers):
                yield name, parameter, optimizer


def _piece(optimizer: Any, parameter: Any) -> tuple[int, int] | None:
    """The elements of a parameter that this rank updates, by Megatron's own account; ``None`` for none."""
    if parameter not in optimizer.model_param_gbuf_map:
        return None
    found = optimizer._get_model_param_range_map(parameter)["param"]
    return found.start, found.end


def _shards(optimizer: Any) -> list[Any]:
    return [shard for group in optimizer.shard_fp32_groups for shard in group]


def _shard(optimizer: Any, parameter: Any) -> Any:
    for owners, shards in zip(optimizer.model_fp32_groups, optimizer.shard_fp32_groups, strict=True):
        for owner, shard in zip(owners, shards, strict=True):
            if owner is parameter:
                return shard
    raise KeyError(parameter)


def _in_buffer(optimizer: Any, parameter: Any) -> Tensor:
    """The place of a parameter in the buffer of parameters."""
    for buffer in optimizer.buffers:
        if parameter in buffer.param_index_map:
            start, end, number = buffer.param_index_map[parameter]
            bucket = buffer.buckets[number]
            return bucket.param_data[start - bucket.offset : end - bucket.offset]
    raise KeyError(parameter)


@contextmanager
def _new_gradients(chunk: Any, optimizers: Sequence[Any], *, zeros: bool) -> Generator[None]:
    """Other memory for gradients while this lasts, of zeros as Megatron makes it, or of which nothing is known."""
    with ExitStack() as stack:
        for optimizer in optimizers:
            for buffer in optimizer.buffers:
                for bucket in buffer.buckets:
                    size = bucket.grad_data.numel()
                    fresh = torch.zeros(size) if zeros else torch.empty(size)
                    stack.enter_context(patch.object(bucket, "grad_data", fresh))
                for parameter, (start, end, number) in buffer.param_index_map.items():
                    bucket = buffer.buckets[number]
                    here = bucket.grad_data[start - bucket.offset : end - bucket.offset].view(parameter.shape)
                    stack.enter_context(patch.object(parameter, "main_grad", here))
        for group in (*chunk.bucket_groups, *chunk.expert_parallel_bucket_groups):
            for kept in ("cached_param_buffer_shard_list", "cached_grad_buffer_shard_list"):
                stack.enter_context(patch.object(group, kept, [None] * len(group.buckets)))
        yield


@contextmanager
def _new_parameters(model: Any, optimizers: Sequence[Any], given: dict[str, Tensor]) -> Generator[None]:
    """Memory for parameters while this lasts, which has those that are given; what is between them is not known."""
    with ExitStack() as stack:
        for optimizer in optimizers:
            for buffer in optimizer.buffers:
                for bucket in buffer.buckets:
                    stack.enter_context(patch.object(bucket, "param_data", torch.empty(bucket.param_data.numel())))
        for name, parameter, optimizer in _owned(model, optimizers):
            _in_buffer(optimizer, parameter).copy_(given[name].reshape(-1))
        yield


def _give(model: Any, optimizer: Any, given: dict[str, Tensor], state: Sequence[str], stack: ExitStack) -> None:
    """Let an optimizer have its pieces of parameters, gradients and state that are given put together."""
    inner, names = optimizer.optimizer, {id(p): name for name, p in model.named_parameters()}
    groups: list[list[Tensor]] = []
    own: dict[Tensor, dict[str, Tensor]] = {}
    for owners, shards in zip(optimizer.model_fp32_groups, optimizer.shard_fp32_groups, strict=True):
        groups.append([])
        for parameter, before in zip(owners, shards, strict=True):
            name = names[id(parameter)]
            start, end = _piece(optimizer, parameter) or (0, 0)
            shard = given[name].reshape(-1)[start:end].clone()
            for mark, value in vars(before).items():
                setattr(shard, mark, value)
            parameter.main_grad.view(-1)[start:end].copy_(given[f"reduced {name}"].reshape(-1)[start:end])
            groups[-1].append(shard)
            own[shard] = {}
            for key in state:
                whole = given[f"optimizer:{name}.{key}"]
                own[shard][key] = (whole if whole.dim() == 0 else whole.reshape(-1)[start:end]).clone()
    stack.enter_context(patch.object(optimizer, "shard_fp32_groups", groups))
    for group, shards in zip(inner.param_groups, groups, strict=True):
        stack.enter_context(patch.dict(group, {"params": shards}))
    stack.enter_context(patch.object(inner, "state", own))
