"""Fixtures for every test, and hypothesis made deterministic."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

# One thread for each worker: products of small tensors in several processes wait for each other otherwise. Read when
# the libraries are first imported.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

settings.register_profile(
    "deterministic", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("deterministic")


def pytest_collection_finish() -> None:
    """Ten thousand tests and PyTorch's modules are there to stay: garbage is not looked for among them."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Nor is what is left in the end: pytest would go through all of it five times."""
    gc.freeze()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of captured graphs and jobs; a test that uses it is skipped where it is absent."""
    named = os.environ.get("TANTAMOUNT_SHARED")
    folder = Path(named) if named else ROOT.parent / "shared"
    if not (folder / "jobs").is_dir():
        pytest.skip(f"no captured graphs: {folder / 'jobs'} is absent (set TANTAMOUNT_SHARED)")
    return folder
