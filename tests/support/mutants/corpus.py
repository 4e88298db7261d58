"""The jobs whose mutants are made: captured ones where they are present, the examples, and the small golden jobs."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

__all__ = ["captured", "examples", "small"]

ROOT = Path(__file__).resolve().parents[3]


def captured() -> list[Path]:
    """Jobs of captured graphs, and the repaired halves of known bugs: none where the folder is absent."""
    shared = Path(os.environ.get("TANTAMOUNT_SHARED") or ROOT.parent / "shared")
    return [*sorted(shared.glob("jobs/*/job.toml")), *sorted(shared.glob("bugs/*/ok.toml"))]


def examples() -> list[Path]:
    """The jobs that the repository shows."""
    return sorted((ROOT / "examples").glob("*/job.toml"))


def small(folder: Path) -> list[Path]:
    """The golden jobs, written to a folder: meshes of several axes, every collective, every kind of relation."""
    golden = _load("tests/golden/test_small_jobs.py")
    return [
        golden.write(folder / case.name, case, None)
        for case in golden.CASES
        if case.verdict == "PROVED" and not case.strict
    ]


def _load(path: str) -> ModuleType:
    name = Path(path).stem
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]
