"""JAX: the gradient of a transformer block under ``jax.jit`` with shardings, data x tensor parallel on 2 x 2 devices.

What every device computes is what XLA's SPMD partitioner makes of the program; it is compared with the same program on
one device. How parameters, batch and gradients are cut is read from their shardings. In the sharded program the second
half of the MLP is written by hand (``shard_map``); the broken twin forgets its sum over ``tp``.

    python examples/jax_sharding.py
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import PartitionSpec as P

import tantamount as tt

BATCH, LENGTH, WIDTH, HEADS = 4, 6, 16, 4
Parameters = dict[str, Array]


def rms_norm(x: Array, weight: Array) -> Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * weight


def attention(p: Parameters, x: Array) -> Array:
    q, k, v = ((x @ p[name]).reshape(*x.shape[:2], HEADS, -1) for name in ("q", "k", "v"))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    causal = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ p["out"]


def down(h: Array, weight: Array) -> Array:
    return h @ weight


def loss_of(down: Callable[[Array, Array], Array], p: Parameters, x: Array, target: Array) -> Array:
    x = x + attention(p, rms_norm(x, p["norm1"]))
    h = rms_norm(x, p["norm2"])
    x = x + down(jax.nn.silu(h @ p["gate"]) * (h @ p["up"]), p["down"])
    return jnp.mean((x - target) ** 2)


def step(down: Callable[[Array, Array], Array], p: Parameters, x: Array, target: Array) -> dict[str, object]:
    loss, gradients = jax.value_and_grad(partial(loss_of, down))(p, x, target)
    return {"loss": loss, "grad": gradients}


COLUMNS, ROWS = P(None, "tp"), P("tp", None)
SHARDINGS = {
    **dict.fromkeys(("q", "k", "v", "gate", "up"), COLUMNS), "out": ROWS, "down": ROWS, "norm1": P(), "norm2": P(),
}  # fmt: skip


def sharded_down(mesh: jax.sharding.Mesh, *, broken: bool) -> Callable[[Array, Array], Array]:
    def body(h: Array, weight: Array) -> Array:
        part = h @ weight
        return part if broken else jax.lax.psum(part, "tp")

    specs = (P("dp", None, "tp"), ROWS)
    return jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=P("dp"), check_vma=False)


def check(*, broken: bool = False, devices: tuple[int, int] = (2, 2)) -> tt.Report:
    array = partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
    square, wide = array((WIDTH, WIDTH)), array((WIDTH, 2 * WIDTH))
    parameters = {
        **dict.fromkeys(("q", "k", "v", "out"), square), "gate": wide, "up": wide, "down": array((2 * WIDTH, WIDTH)),
        **dict.fromkeys(("norm1", "norm2"), array((WIDTH,))),
    }  # fmt: skip
    batch = (array((BATCH, LENGTH, WIDTH)),) * 2
    mesh = jax.make_mesh(devices, ("dp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    ranks = tt.capture_jax_ranks(
        partial(step, sharded_down(mesh, broken=broken)),
        (parameters, *batch),
        mesh=mesh,
        in_shardings=(SHARDINGS, P("dp"), P("dp")),
        out_shardings={"loss": P(), "grad": SHARDINGS},
    )
    return tt.refine(tt.capture_jax(partial(step, down), (parameters, *batch)), ranks)


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 4)  # before JAX is used; or on four real devices
    report = check()
    print(report)
    report.raise_if_not_proved()
    print()
    print(check(broken=True))
