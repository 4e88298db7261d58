"""Layers in JAX with norms by ``jnp.var`` and rotary positions, in two forms each, and wrong twins."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

import tantamount as tt
from support.jax_devices import jax
from tantamount.verdict import Verdict

jnp = pytest.importorskip("jax.numpy")
from jax import Array, ShapeDtypeStruct  # noqa: E402

DIM, HEADS, TOKENS = 8, 2, 3
FREQUENCIES = 1.0 / 10000.0 ** (np.arange(0, DIM // HEADS, 2) / (DIM // HEADS))
ANGLES = np.outer(np.arange(TOKENS), FREQUENCIES).astype(np.float32)[:, None]
COS, SIN = np.cos(ANGLES), np.sin(ANGLES)

Layer = Mapping[str, Array]


def norm(x: Array) -> Array:
    return (x - jnp.mean(x, -1, keepdims=True)) / jnp.sqrt(jnp.var(x, -1, keepdims=True) + 1e-5)


def norm_by_squares(x: Array, power: int = 2) -> Array:
    mean = jnp.mean(x, -1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) - mean**power + 1e-5)


def rotary(x: Array) -> Array:
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * COS - b * SIN, b * COS + a * SIN], -1)


def rotary_by_halves(x: Array, sign: int = -1) -> Array:
    a, b = jnp.split(x, 2, -1)
    cos, sin = jnp.concatenate([COS, COS], -1), jnp.concatenate([SIN, SIN], -1)
    return x * cos + jnp.concatenate([sign * b, a], -1) * sin


def softmax(scores: Array, mask: Array) -> Array:
    return jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), -1)


def softmax_by_factors(scores: Array, mask: Array) -> Array:
    weights = jnp.exp(scores) * mask
    return weights / weights.sum(-1, keepdims=True)


def layer(
    x: Array, p: Layer, norm: Callable[[Array], Array], rotary: Callable[[Array], Array], softmax: Callable[..., Array]
) -> Array:
    y = norm(x)
    q, k, v = (jnp.reshape(y @ p[name], (TOKENS, HEADS, -1)) for name in "qkv")
    scores = jnp.einsum("thd,shd->hts", rotary(q), rotary(k))
    mixed = jnp.einsum("hts,shd->thd", softmax(scores, jnp.tril(jnp.ones((TOKENS, TOKENS), bool))), v)
    x = x + mixed.reshape(TOKENS, DIM)
    return x + jax.nn.silu(norm(x) @ p["up"]) @ p["down"]


def captured(count: int, *parts: Callable[..., Array]) -> tt.Program:
    def model(x: Array, layers: list[Layer]) -> Array:
        for p in layers:
            x = layer(x, p, *parts)
        return x

    array = lambda *shape: ShapeDtypeStruct(shape, "float32")  # noqa: E731
    weights = {**{name: array(DIM, DIM) for name in "qkv"}, "up": array(DIM, 12), "down": array(12, DIM)}
    return tt.capture_jax(model, (array(TOKENS, DIM), [weights] * count))


@pytest.mark.parametrize("count", [1, 2])
def test_two_forms(count: int) -> None:
    """With one layer, what is short is cut where both agree, after a bound ended the comparison of the whole."""
    report = tt.refine(
        captured(count, norm, rotary, softmax), captured(count, norm_by_squares, rotary_by_halves, softmax_by_factors)
    )
    assert report.verdict is Verdict.PROVED, str(report)


def test_wrong_twins() -> None:
    x = (ShapeDtypeStruct((TOKENS, HEADS, DIM // HEADS), "float32"),)
    spec = tt.capture_jax(lambda x: (norm(x), rotary(x)), x)
    wrong = tt.capture_jax(lambda x: (norm_by_squares(x, 1), rotary_by_halves(x, 1)), x)
    report = tt.refine(spec, wrong)
    assert [output.verdict for output in report.outputs] == [Verdict.REFUTED] * 2, str(report)
