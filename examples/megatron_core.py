"""Megatron-Core's ``GPTModel``, as it is: tensor, sequence, data and expert parallel against one device.

Nothing is written for the proof: Megatron builds the model for every rank, and where its parameters are is what its
checkpoints say. The broken twins use Megatron's own switches, or leave out what a training loop must not.

    pip install 'tantamount[megatron]'
    python examples/megatron_core.py
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.tensor_parallel.layers import ColumnParallelLinear
from megatron.core.transformer.transformer_config import TransformerConfig
from torch import Tensor, nn

import tantamount as tt
from tantamount.capture.torch.megatron import Sizes, reduce_gradients

VOCABULARY, LENGTH, BATCH = 64, 8, 4


def gpt(sizes: Sizes, layers: int, hidden: int) -> GPTModel:
    config = TransformerConfig(
        num_layers=layers, hidden_size=hidden, num_attention_heads=8, num_query_groups=4, normalization="RMSNorm",
        add_bias_linear=False, gated_linear_unit=True, activation_func=nn.functional.silu,
        **sizes.config(),
    )  # fmt: skip
    return GPTModel(
        config, get_gpt_layer_local_spec(normalization="RMSNorm"), vocab_size=VOCABULARY, max_sequence_length=LENGTH,
        position_embedding_type="rope",
    )  # fmt: skip


def forgets_backward_all_reduce(model: GPTModel) -> None:
    """The gradient of the input of the first column-parallel layer stays a partial sum."""
    layer = next(module for module in model.modules() if isinstance(module, ColumnParallelLinear))
    layer.allreduce_dgrad, layer.disable_grad_reduce = False, True


def sums_over_replicas(model: nn.Module) -> None:
    """Gradients of data-parallel ranks are added, and not divided by their number."""
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, group=parallel_state.get_data_parallel_group())


def training(model: GPTModel, reduce: Callable[[nn.Module], None]):
    def step(tokens: Tensor, positions: Tensor, labels: Tensor) -> Tensor:
        loss = model(tokens, positions, None, labels=labels).mean()
        loss.backward()
        reduce(model)
        loss = loss.detach().clone()
        dist.all_reduce(loss, op=dist.ReduceOp.AVG, group=parallel_state.get_data_parallel_group())
        return loss

    return step


def nothing(model: nn.Module) -> None:
    """Gradients as the backward pass leaves them."""


def check(
    *,
    tensor: int = 2,
    data: int = 1,
    sequence: bool = True,
    layers: int = 1,
    hidden: int = 64,
    reduce: Callable[[nn.Module], None] = reduce_gradients,
    breaking: Callable[[GPTModel], None] = nothing,
    reduced: bool = True,
    broken: bool = False,
) -> tt.Report:
    """``broken``: the training loop forgets that gradients of norms are partial sums under sequence parallelism."""

    def build(sizes: Sizes):
        model = gpt(sizes, layers, hidden)
        if sizes.world > 1:
            breaking(model)
        tokens = torch.zeros(BATCH // sizes.data, LENGTH, dtype=torch.long)
        positions = torch.arange(LENGTH).expand_as(tokens).contiguous()
        return training(model, nothing if broken else reduce), (tokens, positions, tokens), {"modules": model}

    return tt.refine(*tt.capture_megatron(build, tensor=tensor, data=data, sequence=sequence, reduced=reduced))


if __name__ == "__main__":
    report = check()
    print(report)
    report.raise_if_not_proved()
    print()
    print(check(broken=True))
