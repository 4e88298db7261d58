"""Fixtures for every test, and hypothesis made deterministic."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

settings.register_profile(
    "deterministic", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("deterministic")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of captured graphs and jobs; a test that uses it is skipped where it is absent."""
    named = os.environ.get("TANTAMOUNT_SHARED")
    folder = Path(named) if named else ROOT.parent / "shared"
    if not (folder / "jobs").is_dir():
        pytest.skip(f"no captured graphs: {folder / 'jobs'} is absent (set TANTAMOUNT_SHARED)")
    return folder
