"""Megatron-Core's mixture of experts, as it is, with a capacity: expert parallel against one device, with gradients.

Every rank routes its own tokens; an expert takes so many of them, weighed by the router, and the rest pass by. So what
is dropped depends on how tokens are dealt out: the model on one device routes the same groups of tokens one after the
other. The broken twin expects that it may route all tokens together.

    pip install 'tantamount[megatron]'
    python examples/megatron_experts.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from megatron.core.models.gpt.moe_module_specs import get_moe_module_spec
from megatron.core.transformer.module import MegatronModule
from megatron.core.transformer.spec_utils import build_module
from megatron.core.transformer.transformer_config import TransformerConfig
from torch import Tensor, nn

import tantamount as tt
from tantamount.capture.torch.megatron import Sizes

TOKENS, WIDTH, EXPERTS = 4, 8, 4


class Groups(MegatronModule):
    """A layer of experts, to which groups of tokens go one after the other."""

    def __init__(self, config: TransformerConfig, groups: int) -> None:
        super().__init__(config)
        specification = get_moe_module_spec(use_te=False, num_experts=EXPERTS, moe_grouped_gemm=False)
        self.layer = build_module(specification, config=config)
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        """``x``: tokens, width."""
        return torch.cat([self.layer(group.unsqueeze(1))[0].squeeze(1) for group in x.chunk(self.groups)])


def config_of(sizes: Sizes, chosen: int) -> TransformerConfig:
    return TransformerConfig(
        num_layers=1, hidden_size=WIDTH, num_attention_heads=2, ffn_hidden_size=12, add_bias_linear=False,
        gated_linear_unit=True, activation_func=nn.functional.silu, num_moe_experts=EXPERTS, moe_router_topk=chosen,
        moe_router_pre_softmax=True, moe_router_load_balancing_type="none", moe_token_dispatcher_type="alltoall",
        moe_expert_capacity_factor=1.0, moe_pad_expert_input_to_capacity=True, **sizes.config(),
    )  # fmt: skip


def check(*, ranks: int = 2, chosen: int = 1, broken: bool = False) -> tt.Report:
    """``chosen``: how many experts a token is sent to."""

    def build(sizes: Sizes):
        alone = sizes.world == 1
        model = Groups(config_of(sizes, chosen), ranks if alone and not broken else 1)

        def step(x: Tensor) -> Tensor:
            y = model(x)
            y.square().sum().backward()
            if not alone:
                dist.all_reduce(model.layer.router.weight.grad)  # experts are on one rank: their gradients are whole
            return y

        return step, (torch.randn(ranks * TOKENS if alone else TOKENS, WIDTH),), {"modules": model}

    return tt.refine(*tt.capture_megatron(build, data=ranks, expert=ranks), outputs={"output": "Shard(0)"})


if __name__ == "__main__":
    report = check()
    print(report)
    report.raise_if_not_proved()
    print()
    print(check(broken=True))
