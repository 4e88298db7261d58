"""Functions of JAX that look along a dimension or choose, in two forms each, and wrong twins."""

from __future__ import annotations

import pytest

import tantamount as tt
from support.jax_devices import jax
from tantamount.verdict import Verdict

jnp = pytest.importorskip("jax.numpy")
from jax import Array, lax  # noqa: E402

X = jax.ShapeDtypeStruct((4, 6), "float32")


def first(x: Array) -> tuple[Array, ...]:
    total = jax.nn.logsumexp(x, axis=-1)
    best = jnp.take_along_axis(x, jnp.argmax(x, -1)[:, None], -1)[:, 0]
    chosen = lax.cond(x[0, 0] > 0, lambda x: x * 2, lambda x: x + 1, x)
    pooled = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2), (1, 2), "VALID")
    return total, jnp.cumsum(x, 1), lax.top_k(x, 2)[0], best, chosen, pooled, jnp.float_power(jnp.exp(x), 0.5)


def second(x: Array) -> tuple[Array, ...]:
    chosen = jnp.where(x[0, 0] > 0, x * 2, x + 1)
    ordered, pooled = jnp.sort(x)[:, ::-1], x.reshape(4, 3, 2).max(-1)
    sums = x @ jnp.triu(jnp.ones((6, 6), x.dtype))
    return jnp.log(jnp.exp(x).sum(-1)), sums, ordered[:, :2], x.max(-1), chosen, pooled, jnp.exp(x / 2)


def wrong(x: Array) -> tuple[Array, ...]:
    chosen = jnp.where(x[0, 0] < 0, x * 2, x + 1)
    ordered, pooled = jnp.sort(x), x.reshape(4, 3, 2).min(-1)
    sums = x @ jnp.tril(jnp.ones((6, 6), x.dtype))
    return jnp.log(jnp.exp(x).mean(-1)), sums, ordered[:, :2], x.min(-1), chosen, pooled, jnp.exp(x)


def test_two_forms() -> None:
    spec = tt.capture_jax(first, (X,))
    proved = tt.refine(spec, tt.capture_jax(second, (X,)))
    assert {output.verdict for output in proved.outputs} == {Verdict.PROVED}, str(proved)
    refuted = tt.refine(spec, tt.capture_jax(wrong, (X,)))
    assert {output.verdict for output in refuted.outputs} == {Verdict.REFUTED}, str(refuted)
