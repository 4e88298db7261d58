"""Code that a kept verdict is of: edited files, other versions, other folders."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from tantamount.cli import code_read as module
from tantamount.cli.code_read import code_read, same_code


def test_edited_code_is_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_of_code_read.py").write_text("import other_of_code_read\n")
    (tmp_path / "other_of_code_read.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    later = time.time() + 60
    try:
        import_module("own_of_code_read")
        found = code_read(later)
        other = str(tmp_path / "other_of_code_read.py")
        assert {str(tmp_path / "own_of_code_read.py"), other} <= found["files"].keys()
        assert not any("site-packages" in file or "tantamount/cli" in file for file in found["files"])
        assert {np.__name__, "pytest"} <= found["packages"].keys()
        assert same_code(found)
        assert not same_code(code_read(0.0))  # written after it may have been imported
        for wrong in (None, {}, {"files": {}}, {**found, "folder": "/"}, {**found, "packages": {"numpy": "0"}}):
            assert not same_code(wrong)
        module._digest.cache_clear()
        (tmp_path / "other_of_code_read.py").write_text("x = 2\n")
        assert not same_code(found)
        module._digest.cache_clear()
        (tmp_path / "other_of_code_read.py").unlink()
        assert not same_code(found)
    finally:
        module._digest.cache_clear()
        for name in ("own_of_code_read", "other_of_code_read"):
            sys.modules.pop(name, None)


def test_what_was_put_among_installed_packages_has_no_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files are known by what is in them."""
    (tmp_path / "put_among_packages.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    paths = module.sysconfig.get_paths()
    monkeypatch.setattr(module.sysconfig, "get_paths", lambda: {**paths, "purelib": str(tmp_path)})
    try:
        import_module("put_among_packages")
        found = code_read(time.time() + 60)
        assert str(tmp_path / "put_among_packages.py") in found["files"]
        assert not any(file.startswith(paths["stdlib"]) for file in found["files"])
        assert {np.__name__, "pytest"} <= found["packages"].keys()
    finally:
        module._digest.cache_clear()
        sys.modules.pop("put_among_packages", None)
