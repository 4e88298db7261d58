"""Programs in JAX, with their arguments and shardings, and partitioned programs with a collective taken out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from support.jax_devices import jax
from tantamount import capture_jax, capture_jax_ranks
from tantamount.capture.programs import Program, Ranks
from tantamount.ir.graph import Argument, Ref

__all__ = ["all_reduces", "mesh", "mlp", "mlp_gradient", "without"]

P = jax.sharding.PartitionSpec


def mesh(*sizes: int, names: tuple[str, ...] = ("dp", "tp")) -> Any:
    """Axes that JAX shards along by itself."""
    return jax.make_mesh(sizes, names, axis_types=(jax.sharding.AxisType.Auto,) * len(sizes))


def mlp(p: Mapping[str, Any], x: Any) -> Any:
    """The mean square of an MLP."""
    return jax.numpy.mean((jax.nn.gelu(x @ p["up"]) @ p["down"]) ** 2)


def mlp_gradient() -> tuple[Program, Ranks]:
    """Value and gradient, data x tensor parallel on 2 x 2 devices."""
    array = partial(jax.ShapeDtypeStruct, dtype=jax.numpy.float32)
    args = {"up": array((8, 16)), "down": array((16, 8))}, array((4, 8))
    shardings = {"up": P(None, "tp"), "down": P("tp")}, P("dp")
    gradient = jax.value_and_grad(mlp)
    out = P(), shardings[0]
    return capture_jax(gradient, args), capture_jax_ranks(
        gradient, args, mesh=mesh(2, 2), in_shardings=shardings, out_shardings=out
    )


def all_reduces(ranks: Ranks) -> list[str]:
    """Their names in the program of rank 0."""
    return [node.name for node in ranks.programs[0].graph.nodes if node.target == "hlo.all-reduce"]


def without(ranks: Ranks, name: str) -> Ranks:
    """Every rank goes on with what it had before a collective: what a partitioner does wrong that forgets it."""
    programs: list[Program] = []
    for program in ranks.programs:
        operand = program.graph.by_name[name].args[0]
        assert isinstance(operand, Ref)

        def instead(argument: Argument, operand: Ref = operand) -> Argument:
            if isinstance(argument, tuple):
                return tuple(map(instead, argument))
            return operand if argument == Ref(name) else argument

        nodes = tuple(
            replace(node, args=tuple(map(instead, node.args))) for node in program.graph.nodes if node.name != name
        )
        outputs = tuple(replace(o, node=operand.name) if o.node == name else o for o in program.graph.outputs)
        programs.append(replace(program, graph=replace(program.graph, nodes=nodes, outputs=outputs)))
    return replace(ranks, programs=tuple(programs))
