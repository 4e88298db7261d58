"""Transformers of as many layers as are asked for, on one device and on ranks, for the benchmarks that make mistakes in
captured programs. Each function calls ``tantamount.refine`` as a user would.

Those of ``transformers`` and Megatron-Core need the library, those of vLLM an environment of its own, whose interpreter
``TANTAMOUNT_VLLM_PYTHON`` names."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import tantamount as tt

ROOT = Path(__file__).resolve().parents[1]
WIDTH, HEADS, TOKENS, RANKS = 16, 4, 6, 2
_kept: list[tempfile.TemporaryDirectory[str]] = []  # files of jobs that may be read until the process ends


def script(name: str) -> ModuleType:
    """One of the examples, imported."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return sys.modules.setdefault(name, module)


def example(name: str) -> object:
    """What an example proves."""
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")  # before JAX is used
    return script(name).check()


def new_model(layers: int) -> Any:
    """Pre-norm blocks of attention and an MLP, in PyTorch."""
    from torch import Tensor, nn, softmax

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.after = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
            self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
            self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH, bias=False), nn.Linear(2 * WIDTH, WIDTH, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            h = self.norm(x)
            q, k, v = (w(h).unflatten(-1, (-1, WIDTH // HEADS)).transpose(-2, -3) for w in (self.q, self.k, self.v))
            scores = softmax(q @ k.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5, -1)
            x = x + self.o((scores @ v).transpose(-2, -3).flatten(-2))
            return x + self.down(nn.functional.silu(self.up(self.after(x))))

    return nn.Sequential(*(Block() for _ in range(layers)))


def training(model: Any) -> Any:
    """Loss and gradients."""

    def step(x: Any, target: Any) -> Any:
        loss = (model(x) - target).square().mean()
        loss.backward()
        return loss

    return step


def batch(*sizes: int) -> tuple[Any, Any]:
    import torch

    return torch.randn(*sizes, TOKENS, WIDTH), torch.randn(*sizes, TOKENS, WIDTH)


def tensor_parallel(layers: int) -> object:
    """DTensor's columns and rows, forward and backward."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    columns, rows = ColwiseParallel(), RowwiseParallel()
    plan = dict.fromkeys(("*.q", "*.k", "*.v", "*.up"), columns) | dict.fromkeys(("*.o", "*.down"), rows)

    def build(rank: int) -> Any:
        mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("tp",))
        return training(parallelize_module(new_model(layers), mesh, plan, src_data_rank=None)), batch()

    whole = tt.capture(training(new_model(layers)), batch())
    return tt.refine(whole, tt.capture_ranks(build, RANKS, mesh={"tp": RANKS}))


def fully_sharded(layers: int) -> object:
    """FSDP2, every layer a buffer of its own, forward and backward."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    def build(rank: int) -> Any:
        mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("dp",))
        model = new_model(layers)
        for layer in (*model, model):
            fully_shard(layer, mesh=mesh)
        return training(model), batch(1)

    return tt.refine(
        tt.capture(training(new_model(layers)), batch(RANKS)),
        tt.capture_ranks(build, RANKS, mesh={"dp": RANKS}),
        inputs={"x": "Shard(0)", "target": "Shard(0)"},
        outputs={"output": 'Partial("avg")'},
    )


def partitioned(layers: int) -> object:
    """JAX: the gradient of blocks whose parameters XLA's partitioner cuts, data x tensor parallel."""
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P

    one = script("jax_sharding")

    def attention(p: Any, x: Any) -> Any:
        q, k, v = ((x @ p[name]).reshape(*x.shape[:2], HEADS, -1) for name in ("q", "k", "v"))
        weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5)
        return jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ p["out"]

    def loss(p: Any, x: Any, target: Any) -> Any:
        for layer in p:
            x = x + attention(layer, one.rms_norm(x, layer["norm1"]))
            h = one.rms_norm(x, layer["norm2"])
            x = x + (jax.nn.silu(h @ layer["gate"]) * (h @ layer["up"])) @ layer["down"]
        return jnp.mean((x - target) ** 2)

    array = partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
    square, wide, row = array((WIDTH, WIDTH)), array((WIDTH, 2 * WIDTH)), array((WIDTH,))
    layer = dict.fromkeys(("q", "k", "v", "out"), square) | {"gate": wide, "up": wide, "norm1": row, "norm2": row}
    parameters = [layer | {"down": array((2 * WIDTH, WIDTH))}] * layers
    shardings = [one.SHARDINGS] * layers
    data = (array((4, TOKENS, WIDTH)),) * 2
    mesh = jax.make_mesh((2, 2), ("dp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    ranks = tt.capture_jax_ranks(
        jax.value_and_grad(loss), (parameters, *data), mesh=mesh,
        in_shardings=(shardings, P("dp"), P("dp")), out_shardings=(P(), shardings),
    )  # fmt: skip
    return tt.refine(tt.capture_jax(jax.value_and_grad(loss), (parameters, *data)), ranks)


def megatron(layers: int) -> object:
    """Megatron-Core's own model under tensor and sequence parallelism, forward and backward."""
    return script("megatron_core").check(layers=layers)


def transformers(model: str, layers: int) -> object:
    """A model of the library under its own tensor-parallel plan, forward and backward."""
    from support.transformer_models import capture_pair

    return tt.refine(*capture_pair(model, layers))


def vllm(model: str, layers: int) -> object:
    """A model of vLLM under its own tensor parallelism: the forward pass."""
    python = os.environ.get("TANTAMOUNT_VLLM_PYTHON")
    if not python:
        raise ImportError("TANTAMOUNT_VLLM_PYTHON names no environment with vLLM's CPU build")
    _kept.append(tempfile.TemporaryDirectory())
    folder = _kept[-1].name
    command = [python, str(ROOT / "examples" / "vllm_llama.py"), folder, "--model", model, "--layers", str(layers)]
    subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, check=True, capture_output=True)
    return tt.refine(tt.read_job(Path(folder) / "job.toml"))
