"""The parts of a training step as Megatron-Core's own functions do them: a pass of one piece of a ``GPTModel``, the end
of the backward passes, the norm of all gradients, the optimizer's step."""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from tantamount.capture.torch.megatron.context import in_natural_order, in_order_of_ranks
from tantamount.capture.torch.megatron.models import biased_routers
from tantamount.capture.torch.megatron.numbers import Norm, NumbersAreTensors, Root, Settled, l2_norm
from tantamount.capture.torch.megatron.settings import Settings

__all__ = [
    "norm_step",
    "optimizers_of",
    "pass_step",
    "reduce_step",
    "squares_of",
    "update_step",
    "whole_norm_step",
    "whole_pass_step",
    "wrapped",
]

Step = Callable[..., dict[str, Tensor] | None]


def whole_pass_step(model: Any, kind: str, scale: float, ranks: int) -> Step:
    """The passes of a piece on one device: those of :func:`pass_step`, with the mean of the losses of all tokens.
    ``scale``: what it is multiplied by before it is differentiated. What passes from piece to piece is in the order of
    ``ranks`` of context parallelism: embedding and head put it into that order and out of it; a layer knows positions
    only by what is made of them."""
    ranks = ranks if kind in ("embedding", "head") else 1
    passes = pass_step(model, kind, 1, mean=lambda losses: (losses.mean(), {}))
    stream = ("x", "d_y", "y", "d_x")
    model.config.grad_scale_func = (lambda loss: loss * scale) if scale != 1 else None

    def run(**given: Tensor) -> dict[str, Tensor]:
        made = passes(**{name: in_natural_order(x, ranks) if name in stream else x for name, x in given.items()})
        return {name: in_order_of_ranks(x, ranks) if name in stream else x for name, x in (made or {}).items()}

    return run


def summed(losses: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """The sum of the losses of a rank's tokens and their number, as Megatron-LM's ``loss_func`` gives them to
    Megatron, which divides by it."""
    return losses.sum(), torch.full((), losses.numel(), dtype=torch.int), {}


def pass_step(model: Any, kind: str, microbatches: int, mean: Callable[[Tensor], Any] | None = None) -> Step:
    """The passes of a piece on one microbatch: Megatron's ``forward_step`` and ``backward_step``. A rank of context
    parallelism gets all tokens and takes its part by Megatron's own function. ``mean`` is the function of losses that a
    training script hands to Megatron: :func:`summed`."""
    parallel_state = import_module("megatron.core.parallel_state")
    on_this_rank = import_module("megatron.core.utils").get_batch_on_this_cp_rank
    schedules = import_module("megatron.core.pipeline_parallel.schedules")
    model.config.grad_scale_func = None
    import_module("megatron.core.tensor_parallel.random").get_cuda_rng_tracker()  # which makes one when first asked

    def run(**given: Tensor) -> dict[str, Tensor]:
        x = given["x"].detach().requires_grad_() if "x" in given else None
        batch = {name: given[name] for name in ("tokens", "labels") if name in given}
        if "tokens" in batch:
            batch["position_ids"] = torch.arange(batch["tokens"].shape[1]).unsqueeze(0).expand_as(batch["tokens"])
        own = on_this_rank(batch)

        def forward(_: Any, chunk: Any) -> Any:
            return chunk(own.get("tokens"), own.get("position_ids"), None, labels=own.get("labels")), mean or summed

        kept = [(d, dict(vars(d))) for d in _dispatchers(model)]  # what a call leaves there, no call reads
        routers = {name: (router, router.local_tokens_per_expert) for name, router in biased_routers(model).items()}
        for router, tokens_before in routers.values():
            router.local_tokens_per_expert = torch.zeros(tokens_before.shape)
        y, _ = schedules.forward_step(
            forward, None, model, microbatches, x, [], model.config,
            cp_group_size=parallel_state.get_context_parallel_world_size(), is_last_stage=kind == "head",
        )  # fmt: skip
        result = {"loss" if kind == "head" else "y": y.detach().clone()}
        gradient = schedules.backward_step(x, y, given.get("d_y"), model.model_type, model.config)
        model.decoder.set_input_tensor(None)
        for dispatcher, before in kept:
            vars(dispatcher).clear()
            vars(dispatcher).update(before)
        for name, (router, tokens_before) in routers.items():
            result[f"tokens {name}"] = router.local_tokens_per_expert
            router.local_tokens_per_expert = tokens_before
        return result if x is None else {**result, "d_x": gradient}

    return run


def _dispatchers(model: Any) -> list[Any]:
    """The objects of a model's layers that send tokens to experts."""
    return [layer.mlp.token_dispatcher for layer in model.decoder.layers if hasattr(layer.mlp, "token_dispatcher")]


def reduce_step(model: Any, s: Settings) -> Step:
    """The end of the backward passes: ``finalize_model_grads`` on Megatron's ``DistributedDataParallel`` with its
    buckets; and for each of Megatron's optimizers the sum of the squares that this rank adds to the norm of all
    gradients, by the names of :func:`squares_of`."""
    distributed = import_module("megatron.core.distributed")
    clip_grads = import_module("megatron.core.optimizer.clip_grads")

    def run(**given: Tensor) -> dict[str, Tensor]:
        with patch.object(model, "parameters", lambda *_: iter(())):  # no hooks: no backward pass comes here
            chunk = wrapped(model)
        for name, parameter in model.named_parameters():
            parameter.main_grad.copy_(given[f"grad {name}"])
        routers = {name: (router, router.local_tokens_per_expert) for name, router in biased_routers(model).items()}
        for name, (router, _) in routers.items():
            router.local_tokens_per_expert = given[f"tokens {name}"].clone()
        distributed.finalize_model_grads([chunk])
        for router, before in routers.values():
            router.local_tokens_per_expert = before
        squares = {name: torch.zeros(()) for name in squares_of(s)}
        for name, optimizer in zip(squares_of(s), optimizers_of(chunk, s), strict=False):
            found: list[Tensor] = []
            with torch.no_grad(), NumbersAreTensors():
                optimizer.prepare_grads()
                with (
                    patch.object(torch.distributed, "all_reduce", lambda x, found=found, **_: found.append(x.clone())),
                    patch.object(clip_grads, "l2_norm_impl", l2_norm),
                ):
                    grads = optimizer.get_main_grads_for_grad_norm()
                    clip_grads.get_grad_norm_fp32(grads, grad_stats_parallel_group=None)
            squares[name] = found[0].reshape(())
        made = {f"reduced {name}": parameter.main_grad.clone() for name, parameter in model.named_parameters()}
        for parameter in model.parameters():
            parameter.grad = None
            for mark in ("main_grad", "grad_added_to_main_grad"):
                delattr(parameter, mark)
        return {**made, **squares}

    return run


def squares_of(s: Settings) -> tuple[str, ...]:
    """The sums of squares of which the norm is made: that of Megatron's optimizer of dense parameters, and where
    experts are spread over ranks that of its second one."""
    return ("squares", "expert_squares") if s.expert_model_parallel_size > 1 else ("squares",)


def norm_step(s: Settings) -> Step:
    """The step that computes the number by which all gradients are multiplied, of the sums of squares of all ranks:
    ``get_grad_norm_fp32`` over the group of each optimizer, and ``clip_grad_by_total_norm_fp32`` of a gradient that
    is 1."""
    clip_grads = import_module("megatron.core.optimizer.clip_grads")
    parallel_state = import_module("megatron.core.parallel_state")

    def run(**squares: Tensor) -> dict[str, Tensor]:
        groups: dict[str, Any] = {
            "squares": parallel_state.get_model_parallel_group,
            "expert_squares": parallel_state.get_expert_tensor_model_pipeline_parallel_group,
        }
        if s.use_distributed_optimizer:  # of all ranks, each of which has other elements
            groups = dict.fromkeys(groups, parallel_state.get_intra_distributed_optimizer_instance_group)
        one = torch.zeros(1)
        one.grad = torch.ones(1)
        norms: list[Tensor] = []
        with torch.no_grad(), NumbersAreTensors():
            for name, own in squares.items():
                root = Root(own.reshape(1))
                with patch.object(clip_grads, "l2_norm_impl", lambda *_, root=root: (root, None)):
                    norms.append(clip_grads.get_grad_norm_fp32([own], grad_stats_parallel_group=groups[name]()))
            whole = norms[0] if len(norms) == 1 else torch.stack([norm**2 for norm in norms]).sum().sqrt()
            clip_grads.clip_grad_by_total_norm_fp32([one], s.clip_grad, Norm(whole))
        return {"factor": one.grad.reshape(())}

    return run


def whole_norm_step(clip: float) -> Step:
    """The same on one device, which has the sums. Each is what is the square of a norm, so none is negative."""

    def run(**squares: Tensor) -> dict[str, Tensor]:
        norms = [own.sqrt() for own in squares.values()]
        whole = norms[0] if len(norms) == 1 else torch.stack([norm**2 for norm in norms]).sum().sqrt()
        return {"factor": torch.clamp(clip / (whole + 1e-6), max=1.0)}

    return run


def update_step(model: Any, optimizers: Sequence[Any], s: Settings) -> Step:
    """Gradients multiplied by ``clip_grad_by_total_norm_fp32``, and the step of each of Megatron's optimizers."""
    clip_grads = import_module("megatron.core.optimizer.clip_grads")

    def run(factor: Tensor, **given: Tensor) -> None:
        for name, parameter in model.named_parameters():
            parameter.main_grad = given[f"reduced {name}"].clone()
        for optimizer in optimizers:
            with torch.no_grad(), NumbersAreTensors():
                optimizer.prepare_grads()
                clip_grads.clip_grad_by_total_norm_fp32(optimizer.get_parameters(), s.clip_grad, Settled(factor))
            optimizer.step_with_ready_grads()
        for parameter in model.parameters():
            parameter.grad = None
            del parameter.main_grad

    return run


def wrapped(model: Any, *, sharded: bool = False) -> Any:
    """A model in Megatron's ``DistributedDataParallel``, which keeps its gradients in buckets, and if they are
    ``sharded`` parameters as well."""
    distributed = import_module("megatron.core.distributed")
    config = distributed.DistributedDataParallelConfig(grad_reduce_in_fp32=True, use_distributed_optimizer=sharded)
    return distributed.DistributedDataParallel(model.config, config, model)


def optimizers_of(chunk: Any, s: Settings) -> tuple[Any, ...]:
    """Megatron's optimizers for a model chunk in its ``DistributedDataParallel``: of dense parameters, and of experts
    that are spread over ranks if there are any."""
    module = import_module("megatron.core.optimizer")
    config = module.OptimizerConfig(
        optimizer=s.optimizer, lr=s.lr, weight_decay=s.weight_decay, adam_beta1=s.adam_beta1, adam_beta2=s.adam_beta2,
        adam_eps=s.adam_eps, sgd_momentum=s.sgd_momentum, clip_grad=s.clip_grad, bf16=False, fp16=False,
        use_distributed_optimizer=chunk.ddp_config.use_distributed_optimizer,
    )  # fmt: skip

    def gathered(found: list[Any], own: Any, group: Any = None) -> None:
        """Fill ``found`` with the groups of parameters that the other ranks have: here, those of this one. Groups of
        others would be empty."""
        found[:] = [own] * len(found)

    with patch.object(torch.distributed, "all_gather_object", gathered), NumbersAreTensors():
        made = module.get_megatron_optimizer(config, [chunk], use_gloo_process_groups=False)
    return tuple(made.chained_optimizers)
