"""Every example of a parallel style, with its broken twin."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from benchmarks.support.rows import absent, head, refining, row, timed

_EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_ELSEWHERE = {
    "compare_models",
    "jax_shard_map",
    "jax_sharding",
    "megatron_core",
    "megatron_experts",
    "vllm_llama",
    "symbolic_sizes",
    "test_with_pytest",
}


def section() -> Iterator[str]:
    """One row per example."""
    yield "## Parallel styles"
    yield ""
    yield from head("style")
    for path in sorted(_EXAMPLES.glob("*.py")):
        if path.stem in _ELSEWHERE:
            continue
        name = f"[{path.stem}](../examples/{path.name})"
        found = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
        if found is None or found.loader is None:
            continue
        module = importlib.util.module_from_spec(found)
        try:
            found.loader.exec_module(module)
        except ModuleNotFoundError as problem:
            yield absent(name, f"{problem.name} is not installed here")
            continue
        if not hasattr(module, "check"):  # an example of something else
            continue
        report, taken = timed(module.check)
        yield row(name, taken - refining(report), report, module.check(broken=True))
