"""A block of a transformer in flax (linen) against one in PyTorch, filled by one conversion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tantamount as tt
from tantamount.semantics.reference import Array

torch = pytest.importorskip("torch", reason="captures need PyTorch")
jax = pytest.importorskip("jax", reason="JAX is not installed (pip install 'tantamount[jax]')")
linen = pytest.importorskip("flax.linen", reason="flax is not installed (pip install flax)")

HEADS, WIDTH, WIDE = 4, 32, 64
nn = torch.nn


class Flax(linen.Module):  # type: ignore[misc, name-defined]
    """Norms by E[x^2] - E[x]^2, clipped at 0; kernels as (in, heads, size); GELU in its tanh form; masks of
    finfo.min."""

    causal: bool = False

    @linen.compact
    def __call__(self, x: Any) -> Any:
        y = linen.LayerNorm(epsilon=1e-6, name="norm1")(x)
        mask = linen.make_causal_mask(jax.numpy.zeros(x.shape[:2])) if self.causal else None
        x = x + linen.MultiHeadDotProductAttention(num_heads=HEADS, qkv_features=WIDTH, name="attn")(y, y, mask=mask)
        y = linen.LayerNorm(epsilon=1e-6, name="norm2")(x)
        return x + linen.Dense(WIDTH, name="down")(linen.gelu(linen.Dense(WIDE, name="up")(y)))


class Torch(nn.Module):  # type: ignore[misc, name-defined]
    """The same in PyTorch: one matrix for queries, keys and values."""

    def __init__(self, epsilon: float = 1e-6, form: str = "tanh", causal: bool = False) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH, eps=epsilon), nn.LayerNorm(WIDTH, eps=epsilon)
        self.attn = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.up, self.down, self.form = nn.Linear(WIDTH, WIDE), nn.Linear(WIDE, WIDTH), form
        self.causal = causal

    def forward(self, x: Any) -> Any:
        y = self.norm1(x)
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]) if self.causal else None
        x = x + self.attn(y, y, y, need_weights=False, attn_mask=mask, is_causal=self.causal)[0]
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x)), approximate=self.form))


def load(params: Any, tensors: Mapping[str, Array]) -> Any:
    """The tree of flax, from a state dict of the module."""

    def linear(name: str) -> dict[str, Array]:
        return {"kernel": tensors[f"{name}.weight"].T, "bias": tensors[f"{name}.bias"]}

    def norm(name: str) -> dict[str, Array]:
        return {"scale": tensors[f"{name}.weight"], "bias": tensors[f"{name}.bias"]}

    size = WIDTH // HEADS
    parts = zip(np.split(tensors["attn.in_proj_weight"], 3), np.split(tensors["attn.in_proj_bias"], 3), strict=True)
    attention = {
        name: {"kernel": weight.T.reshape(WIDTH, HEADS, size), "bias": bias.reshape(HEADS, size)}
        for name, (weight, bias) in zip(("query", "key", "value"), parts, strict=True)
    }
    out = linear("attn.out_proj")
    attention["out"] = {**out, "kernel": out["kernel"].reshape(HEADS, size, WIDTH)}
    norms = {name: norm(name) for name in ("norm1", "norm2")}
    return {"params": {"attn": attention, **norms, "up": linear("up"), "down": linear("down")}}


# Settings of the block in flax and of that in PyTorch, and the verdict.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "the same": ({}, {}, "PROVED"),
    "the same under a mask": ({"causal": True}, {"causal": True}, "PROVED"),
    "another epsilon": ({}, {"epsilon": 1e-5}, "REFUTED"),
    "the exact GELU": ({"causal": True}, {"causal": True, "form": "none"}, "REFUTED"),
    "no mask in one": ({"causal": True}, {}, "REFUTED"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_block_of_flax_and_of_pytorch(name: str) -> None:
    own, settings, truth = CASES[name]
    block = Flax(**own)
    params = block.init(jax.random.key(0), jax.numpy.zeros((2, 5, WIDTH)))
    found = tt.compare(
        Torch(**settings).eval(), tt.JaxModel(block.apply, params), inputs=(torch.zeros(2, 5, WIDTH),),
        loaders=(None, load),
    )  # fmt: skip
    assert found.verdict.value == truth, str(found)
    if name == "the exact GELU":
        assert "linen.gelu" in str(found) or "integer_pow" in str(found)
