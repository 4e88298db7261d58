"""A block in PyTorch and the same in JAX, each filled from the checkpoint of the one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import tantamount as tt
from tantamount.errors import UserError

torch = pytest.importorskip("torch", reason="compares PyTorch models")
jax = pytest.importorskip("jax", reason="with programs of JAX")
jnp = jax.numpy

WIDTH, HEADS, LENGTH = 8, 2, 4


class Block(torch.nn.Module):
    """Attention before a residual, with a norm that divides by the standard deviation."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH, eps=1e-6)
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.out = torch.nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Any) -> Any:
        q, k, v = (t.view(LENGTH, HEADS, -1).transpose(0, 1) for t in self.qkv(self.norm(x)).chunk(3, -1))
        attended = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
        return x + self.out(attended.transpose(0, 1).reshape(LENGTH, WIDTH))


def block(params: Any, x: Any, *, eps: float = 1e-6) -> Any:
    """The same, as one would write it for flax: kernels as (in, heads, size), a variance that is clipped at 0."""
    mean = x.mean(-1, keepdims=True)
    variance = jnp.maximum(0.0, (x * x).mean(-1, keepdims=True) - mean * mean)
    h = (x - mean) * jax.lax.rsqrt(variance + eps) * params["norm"]["scale"] + params["norm"]["bias"]
    q, k, v = (jnp.einsum("td,dhk->thk", h, params[n]["kernel"]) + params[n]["bias"] for n in ("query", "key", "value"))
    scores = jnp.einsum("thk,shk->hts", q / jnp.sqrt(WIDTH // HEADS), k)
    scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -jnp.inf)
    attended = jnp.einsum("hts,shk->thk", jax.nn.softmax(scores, axis=-1), v)
    return x + jnp.einsum("thk,hkd->td", attended, params["out"]["kernel"])


def load(params: Any, tensors: Mapping[str, Any], order: str = "query key value") -> Any:
    """The parameters of :func:`block` from a state dict of :class:`Block`."""
    size = WIDTH // HEADS
    for k, name in enumerate(order.split()):
        rows = slice(k * WIDTH, (k + 1) * WIDTH)
        params[name]["kernel"] = tensors["qkv.weight"][rows].T.reshape(WIDTH, HEADS, size)
        params[name]["bias"] = tensors["qkv.bias"][rows].reshape(HEADS, size)
    params["out"]["kernel"] = tensors["out.weight"].T.reshape(HEADS, size, WIDTH)
    params["norm"] = {"scale": tensors["norm.weight"], "bias": tensors["norm.bias"]}
    return params


def parameters() -> Any:
    shaped = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)  # noqa: E731
    size = WIDTH // HEADS
    heads = {n: {"kernel": shaped(WIDTH, HEADS, size), "bias": shaped(HEADS, size)} for n in ("query", "key", "value")}
    return {
        **heads,
        "out": {"kernel": shaped(HEADS, size, WIDTH)},
        "norm": {"scale": shaped(WIDTH), "bias": shaped(WIDTH)},
    }


X = torch.zeros(LENGTH, WIDTH)


def test_a_block_of_pytorch_and_of_jax() -> None:
    answer = tt.compare(Block(), tt.JaxModel(block, parameters()), inputs=(X,), loaders=(None, load))
    assert answer.proved
    weights = {one.tensor: one.expression for one in answer.weights}
    assert "params.query.kernel" in weights["qkv.weight"]


def test_keys_as_queries_are_refuted() -> None:
    wrong = lambda params, tensors: load(params, tensors, "key query value")  # noqa: E731
    answer = tt.compare(Block(), tt.JaxModel(block, parameters()), inputs=(X,), loaders=(None, wrong))
    assert answer.verdict is tt.Verdict.REFUTED


def test_a_loader_of_another_shape_is_a_clear_error() -> None:
    def wrong(params: Any, tensors: Mapping[str, Any]) -> Any:
        return {**load(params, tensors), "out": {"kernel": tensors["out.weight"]}}

    with pytest.raises(UserError, match=r"params\.out\.kernel"):
        tt.compare(Block(), tt.JaxModel(block, parameters()), inputs=(X,), loaders=(None, wrong))
