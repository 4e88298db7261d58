"""JAX: a program of every device written by hand (``shard_map``), on 2 x 2 devices.

Tokens are cut over ``tp`` and go round in a ring (``ppermute``) while every device multiplies those that it has by its
columns of the first weight; ``psum_scatter`` adds up what the rows of the second give. Weights are also cut over ``dp``
and put together before use (``all_gather``); the loss is a mean over all devices (``pmean``). Also the gradient. The
broken twin gathers the second weight along the wrong axis: shapes fit all the same.

    python examples/jax_shard_map.py
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.sharding import PartitionSpec as P

import tantamount as tt

BATCH, LENGTH, WIDTH = 4, 8, 16


def loss_on_one(up: Array, down: Array, x: Array) -> Array:
    return jnp.mean((jax.nn.gelu(x @ up) @ down - x) ** 2)


def loss_on_each(up: Array, down: Array, x: Array, *, broken: bool) -> Array:
    ranks, rank, part = lax.axis_size("tp"), lax.axis_index("tp"), x.shape[1]
    up = lax.all_gather(up, "dp", axis=0, tiled=True)
    down = lax.all_gather(down, "tp" if broken else "dp", axis=1, tiled=True)
    hidden = jnp.zeros((x.shape[0], ranks * part, up.shape[1]))
    moving = x
    for k in range(ranks):
        place = (rank + k) % ranks * part
        hidden = lax.dynamic_update_slice(hidden, moving @ up, (0, place, 0))
        moving = lax.ppermute(moving, "tp", [(j, (j - 1) % ranks) for j in range(ranks)])
    out = lax.psum_scatter(jax.nn.gelu(hidden) @ down, "tp", scatter_dimension=1, tiled=True)
    return lax.pmean(jnp.mean((out - x) ** 2), ("dp", "tp"))


def check(*, broken: bool = False) -> tt.Report:
    array = partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
    args = (array((WIDTH, 4 * WIDTH)), array((4 * WIDTH, WIDTH)), array((BATCH, LENGTH, WIDTH)))
    mesh = jax.make_mesh((2, 2), ("dp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    specs = (P("dp", "tp"), P("tp", "dp"), P("dp", "tp"))
    sharded = jax.shard_map(partial(loss_on_each, broken=broken), mesh=mesh, in_specs=specs, out_specs=P())
    ranks = tt.capture_jax_ranks(
        jax.value_and_grad(sharded, (0, 1)), args, mesh=mesh, in_shardings=specs, out_shardings=(P(), specs[:2])
    )
    return tt.refine(tt.capture_jax(jax.value_and_grad(loss_on_one, (0, 1)), args), ranks)


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 4)  # before JAX is used; or on four real devices
    report = check()
    print(report)
    report.raise_if_not_proved()
    print()
    print(check(broken=True))
