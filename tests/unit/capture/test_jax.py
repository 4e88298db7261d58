"""Captured JAX programs: what they compute, against JAX itself; names and relations; what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.jax_devices import jax
from support.jax_programs import all_reduces, mesh, mlp, mlp_gradient, without
from tantamount import UserError, Verdict, capture_jax, capture_jax_ranks, read_job, refine, save_job
from tantamount.capture.programs import Program, Ranks
from tantamount.semantics.interpret import interpret, interpret_ranks

jnp, lax = jax.numpy, jax.lax
P, Sharding = jax.sharding.PartitionSpec, jax.sharding.NamedSharding
R = np.random.default_rng(0)
ROOT = Path(__file__).resolve().parents[3]


def array(*shape: int) -> Any:
    return R.standard_normal(shape).astype(np.float32)


def leaves(tree: Any) -> list[Any]:
    return jax.tree.leaves(tree)


def agrees_on_one_device(function: Callable[..., Any], *args: Any) -> Program:
    program = capture_jax(function, args)
    names = [node.name for node in program.graph.inputs]
    values = interpret(program.graph, dict(zip(names, map(np.asarray, leaves(args)), strict=True)))
    for output, wanted in zip(program.graph.outputs, leaves(jax.jit(function)(*args)), strict=True):
        np.testing.assert_allclose(values.array(output.node), np.asarray(wanted), rtol=2e-4, atol=2e-5)
    return program


def agrees_on_all_devices(function: Callable[..., Any], *args: Any, mesh: Any, shardings: Any = None) -> Ranks:
    """Every rank's program computes the shard that this device of JAX's has."""
    ranks = capture_jax_ranks(function, args, mesh=mesh, in_shardings=shardings)
    compiled = jax.jit(function) if shardings is None else jax.jit(function, in_shardings=placed(shardings, mesh))
    results = leaves(compiled(*args))
    cut = leaves(compiled.lower(*args).compile().input_shardings)
    names = [node.name for node in ranks.programs[0].graph.inputs]
    given: list[dict[str, Any]] = []
    for device in mesh.devices.flat:
        parts = [
            np.asarray(x)[s.devices_indices_map(np.shape(x))[device]] for x, s in zip(leaves(args), cut, strict=True)
        ]
        given.append(dict(zip(names, parts, strict=True)))
    values = interpret_ranks([program.graph for program in ranks.programs], ranks.mesh, given)
    for rank, device in enumerate(mesh.devices.flat):
        for output, result in zip(ranks.programs[rank].graph.outputs, results, strict=True):
            (shard,) = [s.data for s in result.addressable_shards if s.device == device]
            np.testing.assert_allclose(values[rank].array(output.node), np.asarray(shard), rtol=2e-4, atol=2e-5)
    return ranks


def placed(shardings: Any, mesh: Any) -> Any:
    return jax.tree.map(partial(Sharding, mesh), shardings, is_leaf=lambda x: isinstance(x, P))


# ---------------------------------------------------------------------------------------------- programs
def mlp_arguments() -> tuple[Any, Any]:
    return {"up": array(8, 16), "down": array(16, 8)}, array(4, 8)


GRADIENT = jax.value_and_grad(mlp)


def test_the_gradient_of_an_mlp_on_one_device() -> None:
    program = agrees_on_one_device(GRADIENT, *mlp_arguments())
    assert [node.name for node in program.graph.inputs] == ["p.down", "p.up", "x"]
    assert [output.name for output in program.graph.outputs] == ["0", "1.down", "1.up"]


@pytest.mark.parametrize(
    ("up", "down", "x"),
    [
        (P(None, "tp"), P("tp", None), P("dp")),
        (P(), P(), P(("dp", "tp"))),
        (P("dp", "tp"), P("tp", "dp"), P("dp")),
        (P(None, ("tp", "dp")), P(("tp", "dp")), P()),
    ],
    ids=["tensor and data", "data", "fully sharded", "one dimension by two axes"],
)
def test_the_gradient_of_an_mlp_is_proved(up: Any, down: Any, x: Any) -> None:
    ranks = agrees_on_all_devices(GRADIENT, *mlp_arguments(), mesh=mesh(2, 2), shardings=({"up": up, "down": down}, x))
    report = refine(capture_jax(GRADIENT, mlp_arguments()), ranks)
    assert report.verdict is Verdict.PROVED, str(report)
    assert len(report.outputs) == 3


@pytest.mark.parametrize("k", range(4))
def test_a_partitioned_program_that_lost_an_all_reduce_is_refuted(k: int) -> None:
    specification, ranks = mlp_gradient()
    names = all_reduces(ranks)
    assert len(names) == 4
    report = refine(specification, without(ranks, names[k]))
    assert report.verdict is Verdict.REFUTED, str(report)
    assert report.mismatch is not None
    assert report.mismatch.implementation_source is not None
    assert report.mismatch.implementation_source.file == "tests/support/jax_programs.py"


def residual_layers(w: Any, x: Any) -> Any:
    """Layers under ``scan``, whose weights are stacked."""

    def layer(x: Any, w: Any) -> Any:
        normed = x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)
        return x + jax.nn.silu(normed @ w["up"]) @ w["down"], jnp.mean(x * x)

    last, squares = lax.scan(layer, x, w)
    return jnp.mean(last**2) + squares.sum()


def test_layers_under_scan_and_their_gradients_are_proved() -> None:
    args = {"up": array(3, 8, 16), "down": array(3, 16, 8)}, array(4, 8)
    shardings = {"up": P(None, None, "tp"), "down": P(None, "tp")}, P("dp")
    gradient = jax.value_and_grad(residual_layers)
    ranks = agrees_on_all_devices(gradient, *args, mesh=mesh(2, 2), shardings=shardings)
    report = refine(capture_jax(gradient, args), ranks)
    assert report.verdict is Verdict.PROVED, str(report)
    assert len(report.outputs) == 3
    assert len(all_reduces(ranks)) > 3 * 3  # in every turn of both loops


def test_a_sharding_constraint_means_nothing_on_one_device() -> None:
    two = mesh(2, 2)

    def function(x: Any, w: Any) -> Any:
        return jax.nn.softmax(lax.with_sharding_constraint(x @ w, Sharding(two, P("dp", "tp"))))

    args = array(4, 8), array(8, 16)
    ranks = agrees_on_all_devices(function, *args, mesh=two)
    specification = capture_jax(function, args)
    assert not any("custom-call" in node.target for node in specification.graph.nodes)
    report = refine(specification, ranks)
    assert report.verdict is Verdict.PROVED, str(report)
    assert str(report.outputs[0].relation) == "output = [Shard(0), Shard(1)]"


def in_shards(body: Callable[..., Any], mesh: Any, specs: Any, out: Any) -> Any:
    return jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=out, check_vma=False)


def test_ranks_compute_with_their_number() -> None:
    """The same graphs but for numbers, which are those of the rank."""
    four = mesh(2, 4)

    def body(x: Any) -> Any:
        first = lax.axis_index("tp") * x.shape[0]
        return x * (first + jnp.arange(x.shape[0]))[:, None], lax.dynamic_slice(x, (0, lax.axis_index("dp")), (2, 2))

    ranks = agrees_on_all_devices(in_shards(body, four, P("tp"), (P("tp"), P("tp", "dp"))), array(8, 3), mesh=four)
    assert len({id(program) for program in ranks.programs}) == 8
    assert not any("partition-id" in node.target for program in ranks.programs for node in program.graph.nodes)

    def sequential(x: Any) -> Any:
        return x * jnp.arange(8)[:, None], jnp.concatenate([x[:, :2], x[:, 1:]], axis=1)

    report = refine(capture_jax(sequential, (array(8, 3),)), ranks)
    assert report.verdict is Verdict.PROVED, str(report)


@pytest.mark.parametrize("start", [-1, 0, 1, 2, 5])
def test_a_window_is_written_where_the_rank_says(start: int) -> None:
    two = mesh(2, names=("tp",))

    def body(x: Any) -> Any:
        return lax.dynamic_update_slice(jnp.zeros((4, 3)), x, (lax.axis_index("tp") * 2 + start - 1, start))

    ranks = agrees_on_all_devices(in_shards(body, two, P("tp"), P("tp")), array(4, 2), mesh=two)
    assert any(node.target == "hlo.update-slice-at" for node in ranks.programs[0].graph.nodes)


def test_all_collectives_of_shard_map() -> None:
    two = mesh(2, 2)

    def body(x: Any) -> Any:
        ring = [(j, (j + 1) % 2) for j in range(2)]
        gathered = lax.all_gather(x, "tp", axis=1, tiled=True)
        scattered = lax.psum_scatter(gathered, "dp", scatter_dimension=1, tiled=True)
        turned = lax.all_to_all(lax.ppermute(x, ("dp"), ring), "tp", 0, 1, tiled=True)
        return scattered, turned, lax.pmax(x.sum(), ("dp", "tp")), lax.pmean(x, "tp")

    out = (P("dp", "tp"), P("dp", "tp"), P(), P("dp"))
    agrees_on_all_devices(in_shards(body, two, P("dp", "tp"), out), array(8, 8), mesh=two)


def test_devices_in_another_order() -> None:
    order = np.array(jax.devices())[[3, 0, 2, 1]].reshape(2, 2)
    shuffled = jax.sharding.Mesh(order, ("dp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    ranks = agrees_on_all_devices(GRADIENT, *mlp_arguments(), mesh=shuffled, shardings=(P(), P(("dp", "tp"))))
    assert ranks.inputs["x"] == ["Shard(0)", "Shard(0)"]
    report = refine(capture_jax(GRADIENT, mlp_arguments()), ranks)
    assert report.verdict is Verdict.PROVED, str(report)


def test_constants_are_recorded() -> None:
    table = array(16, 4)
    program = agrees_on_one_device(lambda i: jnp.asarray(table)[i], R.integers(0, 16, (5,)).astype(np.int32))
    assert len(program.graph.inputs) == 1


# ---------------------------------------------------------------------------------------------- names
@pytest.mark.parametrize(
    ("function", "args", "kwargs", "inputs", "outputs"),
    [
        (lambda x, *, scale: x * scale, (1.0,), {"scale": 2.0}, ["x", "scale"], ["output"]),
        (lambda *xs: {"sum": sum(xs)}, (array(2), array(2)), {}, ["0", "1"], ["sum"]),
        (lambda x, unused: (x, [x, x + 1]), (array(2), array(3)), {}, ["x", "unused"], ["0", "1.0", "1.1"]),
        (partial(lambda a, x: a * x, 2.0), (array(2),), {}, ["x"], ["output"]),
    ],
)
def test_names(function: Callable[..., Any], args: Any, kwargs: Any, inputs: list[str], outputs: list[str]) -> None:
    program = capture_jax(function, args, kwargs)
    assert [node.name for node in program.graph.inputs] == inputs
    assert [output.name for output in program.graph.outputs] == outputs


def test_sources_are_lines_of_this_file() -> None:
    program = capture_jax(GRADIENT, mlp_arguments())
    dots = [node.source for node in program.graph.nodes if node.target == "hlo.dot"]
    assert {source.file for source in dots if source} == {"tests/support/jax_programs.py"}
    assert all("gelu(x @ p" in source.text for source in dots if source)
    assert {source.function for source in dots if source} == {"mlp", "backward: mlp"}


def test_a_jitted_function_is_taken_as_it_is() -> None:
    two = mesh(2, names=("dp",))
    jitted = jax.jit(mlp, in_shardings=placed((P(), P("dp")), two))
    ranks = capture_jax_ranks(jitted, mlp_arguments(), mesh=two)
    assert ranks.inputs == {"p.down": "Replicate()", "p.up": "Replicate()", "x": "Shard(0)"}
    report = refine(capture_jax(jitted, mlp_arguments()), ranks)
    assert report.verdict is Verdict.PROVED, str(report)


def test_a_job_of_files(tmp_path: Path) -> None:
    specification = capture_jax(GRADIENT, mlp_arguments())
    shardings = ({"up": P(None, "tp"), "down": P("tp")}, P("dp"))
    ranks = capture_jax_ranks(GRADIENT, mlp_arguments(), mesh=mesh(2, 2), in_shardings=shardings)
    job = read_job(save_job(tmp_path, specification, ranks))
    assert job.implementation[3].nodes == ranks.programs[3].graph.nodes
    assert refine(job).verdict is Verdict.PROVED


# ---------------------------------------------------------------------------------------------- mistakes
def refused(function: Callable[[], Any]) -> UserError:
    with pytest.raises(UserError) as caught:
        function()
    return caught.value


def test_one_device_is_not_partitioned() -> None:
    found = refused(lambda: capture_jax_ranks(mlp, mlp_arguments(), mesh=mesh(1, names=("dp",))))
    assert found.code == "capture-jax"
    assert "two devices or more" in found.hint


def test_shardings_that_do_not_divide() -> None:
    found = refused(
        lambda: capture_jax_ranks(mlp, mlp_arguments(), mesh=mesh(8, names=("dp",)), in_shardings=(P(), P("dp")))
    )
    assert "divide" in found.found


def test_an_error_of_the_program() -> None:
    found = refused(lambda: capture_jax(lambda x: x @ x, (array(2, 3),)))
    assert "TypeError" in found.found


def test_loops_that_data_end_are_refused() -> None:
    found = refused(
        lambda: capture_jax(lambda x: lax.while_loop(lambda y: y.sum() < 9, lambda y: y * y, x), (array(2),))
    )
    assert found.code == "graph-hlo-loop"
    assert "as often as data say" in found.found


def test_arguments_that_jit_dropped() -> None:
    two = mesh(2, names=("dp",))
    jitted = jax.jit(lambda x, y: x * 2, in_shardings=placed((P("dp"), P()), two))
    found = refused(lambda: capture_jax_ranks(jitted, (array(4), array(4)), mesh=two))
    assert "keep_unused" in found.hint


def test_without_jax() -> None:
    program = (
        "import sys; sys.modules['jax'] = None; import importlib.metadata as m; version = m.version\n"
        "def absent(name):\n"
        "    if name == 'jax': raise m.PackageNotFoundError(name)\n"
        "    return version(name)\n"
        "m.version = absent\n"
        "import tantamount\n"
        "try: tantamount.capture_jax\n"
        "except tantamount.UserError as problem: print(problem.code, problem.hint)"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("jax-version pip install")
