"""Recipes of models with the packages that build them."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers", reason="recipes of transformers need it")

from tantamount.capture.torch.recipes import built
from tantamount.errors import UserError

SMALL = "vocab_size=32,hidden_size=16,intermediate_size=16,num_hidden_layers=1,num_attention_heads=2"


def test_a_key_that_nothing_reads_is_refused() -> None:
    """transformers keeps such a key and builds the model of the defaults, which would be compared in place of it."""
    with pytest.raises(UserError, match="hidden_siz, which LlamaConfig does not have") as caught:
        built(f"hf:llama,{SMALL},hidden_siz=8")
    assert "nearest known: hidden_size" in str(caught.value)
    built(f"hf:phi,{SMALL},partial_rotary_factor=0.5,num_key_value_heads=2")  # taken apart by the configuration
    built(f"hf:qwen3_moe,{SMALL},num_key_value_heads=2,head_dim=8,num_experts=2,moe_intermediate_size=8")
