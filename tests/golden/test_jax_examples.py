"""The examples in JAX: proved, and their broken twins refuted where they are broken."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from support.jax_devices import jax
from tantamount import Verdict

assert jax is not None  # its devices are there before the examples make meshes
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

# example -> the line of the implementation that its broken twin is blamed for, and a part of what is said of it
TWINS = {
    "jax_sharding": ("part = h @ weight", 'Partial("sum")'),
    "jax_shard_map": ("jax.nn.gelu(hidden) @ down", "down["),
}


def example(name: str) -> ModuleType:
    found = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("name", "folded"), [("jax_sharding", True), ("jax_shard_map", False)])
def test_example_is_proved(name: str, folded: bool) -> None:
    """In the ring, where a rank's part begins is a table over ranks, which decides nothing: it takes rank by rank."""
    report = example(name).check()
    assert report.verdict is Verdict.PROVED, str(report)
    assert report.statistics.folded is folded
    assert {a.name for a in report.assumptions} <= {"real-arithmetic", "rounded-literals", "domain"}


@pytest.mark.parametrize("devices", [(1, 2), (2, 4)])
def test_transformer_block_is_proved_on_other_meshes(devices: tuple[int, int]) -> None:
    report = example("jax_sharding").check(devices=devices)
    assert report.verdict is Verdict.PROVED, str(report)
    assert len(report.outputs) == 10


@pytest.mark.parametrize("name", TWINS)
def test_broken_twin_is_refuted_where_it_is_broken(name: str) -> None:
    line, difference = TWINS[name]
    report = example(name).check(broken=True)
    assert report.verdict is Verdict.REFUTED, str(report)
    assert report.mismatch is not None
    assert report.mismatch.implementation_source is not None
    assert line in report.mismatch.implementation_source.text, str(report)
    assert Path(report.mismatch.implementation_source.file).name == f"{name}.py"
    assert difference in report.mismatch.difference, str(report)
