"""JAX programs after XLA's SPMD partitioner."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.support.rows import absent, head, refining, row, timed

from tantamount import refine

_EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def section() -> Iterator[str]:
    """One row per program."""
    yield "## JAX 0.10, forward and gradient"
    yield ""
    yield from head("program")
    if importlib.util.find_spec("jax") is None:
        yield absent("JAX", "jax is not installed here")
    else:
        yield from _jax()


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
