"""The parts of a training step as Megatron-Core's own functions do them: a pass of one piece of a ``GPTModel``, the end
of the backward passes, the norm of all gradients, the optimizer's step."""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.overrides import TorchFunctionMode

from tantamount.capture.torch.megatron.settings import Settings
from tantamount.errors import InternalError

__all__ = [
    "PIECES",
    "gpt_piece",
    "in_order_of_ranks",
    "norm_step",
    "optimizer_of",
    "pass_step",
    "reduce_step",
    "update_step",
    "whole_norm_step",
    "wrapped",
]

Step = Callable[..., dict[str, Tensor] | None]
PIECES = ("embedding", "layer", "head")


def gpt_piece(s: Settings, kind: str) -> Any:
    """A ``GPTModel`` that has one piece of a model only: the embedding, one layer, or what comes after the layers. A
    stage with several layers calls them one after the other, so it is what its pieces are, one after the other."""
    config_class = import_module("megatron.core.transformer.transformer_config").TransformerConfig
    specs = import_module("megatron.core.models.gpt.gpt_layer_specs")
    gpt_class = import_module("megatron.core.models.gpt.gpt_model").GPTModel
    parallel_state = import_module("megatron.core.parallel_state")
    tp = parallel_state.get_tensor_model_parallel_world_size()
    gated: dict[str, Any] = {"gated_linear_unit": True, "activation_func": nn.functional.silu} if s.swiglu else {}
    config = config_class(
        num_layers=1, hidden_size=s.hidden_size, num_attention_heads=s.num_attention_heads,
        num_query_groups=s.num_query_groups, ffn_hidden_size=s.ffn_hidden_size, kv_channels=s.kv_channels,
        normalization=s.normalization, layernorm_epsilon=s.norm_epsilon, add_bias_linear=s.add_bias_linear,
        add_qkv_bias=s.add_qkv_bias, tensor_model_parallel_size=tp, sequence_parallel=s.sequence_parallel and tp > 1,
        pipeline_dtype=torch.float32, use_cpu_initialization=True,
        init_method=_left_as_it_is, output_layer_init_method=_left_as_it_is,
        gradient_accumulation_fusion=False, masked_softmax_fusion=False, bias_activation_fusion=False,
        bias_dropout_fusion=False, persist_layer_norm=False, attention_dropout=0.0, hidden_dropout=0.0, **gated,
    )  # fmt: skip
    rotary = import_module("megatron.core.models.common.embeddings.rotary_pos_embedding").RotaryEmbedding
    with patch.object(rotary, "__init__", _with_numbers(rotary.__init__)):
        model = gpt_class(
            config, specs.get_gpt_layer_local_spec(normalization=s.normalization), vocab_size=s.padded_vocab_size,
            max_sequence_length=s.seq_length, pre_process=kind == "embedding", post_process=kind == "head",
            position_embedding_type=s.position_embedding_type, rotary_base=s.rotary_base,
            share_embeddings_and_output_weights=False,
        )  # fmt: skip
    if kind != "layer":
        model.decoder.layers = nn.ModuleList()
    return model


def _with_numbers(build: Callable[..., None]) -> Callable[..., None]:
    """The function ``build`` of a module, changed to run with real tensors also where those of the model have no
    numbers."""

    def built(*args: Any, **kwargs: Any) -> None:
        with unset_fake_temporarily():
            build(*args, **kwargs)

    return built


def _left_as_it_is(tensor: Tensor) -> Tensor:
    """No numbers are made for weights. (Without an initialisation Megatron would not mark which are cut.)"""
    return tensor


def in_order_of_ranks(model: Any, tp: int) -> None:
    """Let a gated layer of one device have its rows in the order of ``tp`` ranks, each with its part of the gate and
    of what is gated: its output is put into Megatron's order again. Which row is where is a convention."""

    def put(_: nn.Module, __: Any, made: Any) -> Any:
        return tuple(None if x is None else x.unflatten(-1, (tp, 2, -1)).transpose(-3, -2).flatten(-3) for x in made)

    for layer in model.decoder.layers:
        layer.mlp.linear_fc1.register_forward_hook(put)


def pass_step(model: Any, kind: str, microbatches: int, scale: float = 1.0) -> Step:
    """The passes of a piece on one microbatch: Megatron's ``forward_step`` and ``backward_step``. ``scale``: what the
    loss is multiplied by before it is differentiated."""
    schedules = import_module("megatron.core.pipeline_parallel.schedules")
    import_module("megatron.core.tensor_parallel.random").get_cuda_rng_tracker()  # which makes one when first asked
    model.config.grad_scale_func = (lambda loss: loss * scale) if scale != 1 else None

    def run(**given: Tensor) -> dict[str, Tensor]:
        x = given["x"].detach().requires_grad_() if "x" in given else None
        tokens, labels = given.get("tokens"), given.get("labels")
        positions = None
        if tokens is not None:
            positions = torch.arange(tokens.shape[1]).unsqueeze(0).expand_as(tokens)

        def forward(_: Any, chunk: Any) -> Any:
            return chunk(tokens, positions, None, labels=labels), lambda losses: (losses.mean(), {})

        y, _ = schedules.forward_step(
            forward, None, model, microbatches, x, [], model.config, cp_group_size=1, is_last_stage=kind == "head"
        )
        result = {"loss" if kind == "head" else "y": y.detach().clone()}
        gradient = schedules.backward_step(x, y, given.get("d_y"), model.model_type, model.config)
        model.decoder.set_input_tensor(None)
        return result if x is None else {**result, "d_x": gradient}

    return run


def reduce_step(model: Any, s: Settings) -> Step:
    """The end of the backward passes: ``finalize_model_grads`` on Megatron's ``DistributedDataParallel`` with its
    buckets; and the sum of the squares that this rank adds to the norm of all gradients."""
    distributed = import_module("megatron.core.distributed")
    clip_grads = import_module("megatron.core.optimizer.clip_grads")

    def run(**given: Tensor) -> dict[str, Tensor]:
        with patch.object(model, "parameters", lambda *_: iter(())):  # no hooks: no backward pass comes here
            chunk = wrapped(model)
        for name, parameter in model.named_parameters():
            parameter.main_grad.copy_(given[f"grad {name}"])
        distributed.finalize_model_grads([chunk])
        optimizer = optimizer_of(chunk, s)
        found: list[Tensor] = []
        with torch.no_grad(), _NumbersAreTensors():
            optimizer.prepare_grads()
            with (
                patch.object(torch.distributed, "all_reduce", lambda tensor, **_: found.append(tensor.clone())),
                patch.object(clip_grads, "l2_norm_impl", _l2_norm),
            ):
                clip_grads.get_grad_norm_fp32(optimizer.get_main_grads_for_grad_norm(), grad_stats_parallel_group=None)
        made = {f"reduced {name}": parameter.main_grad.clone() for name, parameter in model.named_parameters()}
        for parameter in model.parameters():
            parameter.grad = None
            for mark in ("main_grad", "grad_added_to_main_grad"):
                delattr(parameter, mark)
        return {**made, "squares": found[0].reshape(())}

    return run


def norm_step(clip: float) -> Step:
    """The step that computes the number by which all gradients are multiplied, of the sums of squares of all ranks:
    ``get_grad_norm_fp32``, and ``clip_grad_by_total_norm_fp32`` of a gradient that is 1."""
    clip_grads = import_module("megatron.core.optimizer.clip_grads")
    parallel_state = import_module("megatron.core.parallel_state")

    def run(squares: Tensor) -> dict[str, Tensor]:
        group = parallel_state.get_model_parallel_group()
        one = torch.zeros(1)
        one.grad = torch.ones(1)
        with torch.no_grad(), _NumbersAreTensors():
            with patch.object(clip_grads, "l2_norm_impl", lambda *_: (_Root(squares.reshape(1)), None)):
                norm = clip_grads.get_grad_norm_fp32([squares], grad_stats_parallel_group=group)
            clip_grads.clip_grad_by_total_norm_fp32([one], clip, _Norm(norm))
        return {"factor": one.grad.reshape(())}

    return run


def whole_norm_step(clip: float) -> Step:
    """The same on one device, which has the sum."""

    def run(squares: Tensor) -> dict[str, Tensor]:
        return {"factor": torch.clamp(clip / (squares.sqrt() + 1e-6), max=1.0)}

    return run


def update_step(model: Any, optimizer: Any, s: Settings) -> Step:
    """Gradients multiplied by ``clip_grad_by_total_norm_fp32``, and the step of Megatron's optimizer."""
    clip_grads = import_module("megatron.core.optimizer.clip_grads")

    def run(factor: Tensor, **given: Tensor) -> None:
        for name, parameter in model.named_parameters():
            parameter.main_grad = given[f"reduced {name}"].clone()
        with torch.no_grad(), _NumbersAreTensors():
            optimizer.prepare_grads()
            clip_grads.clip_grad_by_total_norm_fp32(optimizer.get_parameters(), s.clip_grad, _Known(factor))
        optimizer.step_with_ready_grads()
        for parameter in model.parameters():
            parameter.grad = None
            del parameter.main_grad

    return run


def _l2_norm(chunk: int, flag: Any, lists: list[list[Tensor]], per_tensor: bool) -> tuple[Tensor, None]:
    """The result of Apex's and Transformer Engine's kernel: the norm of all elements of all tensors."""
    squares = [(tensor * tensor).sum() for tensors in lists for tensor in tensors]
    return torch.stack(squares).sum().sqrt().reshape(1), None


def wrapped(model: Any) -> Any:
    """A model in Megatron's ``DistributedDataParallel``, which keeps its gradients in buckets."""
    distributed = import_module("megatron.core.distributed")
    config = distributed.DistributedDataParallelConfig(grad_reduce_in_fp32=True)
    return distributed.DistributedDataParallel(model.config, config, model)


def optimizer_of(chunk: Any, s: Settings) -> Any:
    """Megatron's optimizer for a model chunk in its ``DistributedDataParallel``."""
    module = import_module("megatron.core.optimizer")
    config = module.OptimizerConfig(
        optimizer=s.optimizer, lr=s.lr, weight_decay=s.weight_decay, adam_beta1=s.adam_beta1, adam_beta2=s.adam_beta2,
        adam_eps=s.adam_eps, sgd_momentum=s.sgd_momentum, clip_grad=s.clip_grad, bf16=False, fp16=False,
    )  # fmt: skip

    def gathered(found: list[Any], own: Any, group: Any = None) -> None:
        """Fill ``found`` with the groups of parameters that the other ranks have: here, those of this one. Groups of
        others would be empty."""
        found[:] = [own] * len(found)

    with patch.object(torch.distributed, "all_gather_object", gathered):
        return module.get_megatron_optimizer(config, [chunk], use_gloo_process_groups=False).chained_optimizers[0]


class _NumbersAreTensors(TorchFunctionMode):
    """A number that is read from a tensor stays in it; and Megatron is told the type that a tensor has on a GPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.item:
            return args[0].reshape(())
        if func is Tensor.type and len(args) == 1 and not kwargs:
            return func(*args).replace("torch.", "torch.cuda.")
        return func(*args, **(kwargs or {}))


class _Norm:
    """A norm whose number is not known, as ``clip_grad_by_total_norm_fp32`` uses one."""

    def __init__(self, value: Tensor) -> None:
        self.value = value

    def __add__(self, other: float) -> _Norm:
        return _Norm(self.value + other)

    def __rtruediv__(self, other: float) -> _Coefficient:
        return _Coefficient(other / self.value)


class _Known(_Norm):
    """The norm of which it is known by what it has gradients multiplied: 1, or less."""

    def __add__(self, other: float) -> _Norm:
        return self

    def __rtruediv__(self, other: float) -> _Coefficient:
        return _Coefficient(self.value, settled=True)


class _Root:
    """A norm that is squared next."""

    def __init__(self, squared: Tensor) -> None:
        self.squared = squared

    def __pow__(self, exponent: float) -> Tensor:
        if exponent != 2.0:
            raise InternalError(f"a norm to the power of {exponent}")
        return self.squared.clone()


class _Coefficient:
    """A coefficient by which gradients are multiplied if it is less than 1: that is multiplying by it, or by 1 if it is
    not."""

    def __init__(self, value: Tensor, *, settled: bool = False) -> None:
        self.value = value if settled else torch.clamp(value, max=1.0)

    def __lt__(self, other: float) -> bool:
        if other != 1.0:
            raise InternalError(f"a coefficient that is compared with {other}")
        return True

    def __rmul__(self, other: Any) -> Any:
        return other * self.value
