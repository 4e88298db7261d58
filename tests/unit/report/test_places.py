"""Recorded places and the files that are here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tantamount.ir.graph import Source
from tantamount.report.places import Location, file_location, locate, root_of

CODE = "    loss = y.mean()"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with ``src/model.py`` (line 2 is CODE), ``jobs/model.py`` and something outside."""
    folder = tmp_path / "checkout"
    for name in ("src", "jobs", ".git"):
        (folder / name).mkdir(parents=True)
    (folder / "src" / "model.py").write_text(f"def f(y):\n{CODE}\n")
    (folder / "jobs" / "model.py").write_text("pass\n")
    (tmp_path / "outside.py").write_text(f"\n{CODE}\n")
    return folder


def at(root: Path, file: str, text: str = CODE.strip()) -> Location | None:
    return locate(Source(file, 2, "f", text), root, root / "jobs")


def test_files_that_are_here(root: Path) -> None:
    assert at(root, str(root / "src" / "model.py")) == Location("src/model.py", 2, True)
    assert at(root, "src/model.py") == Location("src/model.py", 2, True)
    assert at(root, "model.py") == Location("jobs/model.py", 2, True)  # of the job's folder


@pytest.mark.parametrize("file", ["/build/checkout/src/model.py", "other/src/model.py", "C:\\build\\src\\model.py"])
def test_another_checkout(root: Path, file: str) -> None:
    assert at(root, file) == Location("src/model.py", 2, True)


def test_only_a_line_with_the_recorded_code_is_another_checkouts(root: Path) -> None:
    missing = Location("/build/src/model.py", 2, False)
    assert at(root, "/build/src/model.py", text="loss = y.sum()") == missing
    assert at(root, "/build/src/model.py", text="") == missing
    assert at(root, "/build/model.py") == Location("/build/model.py", 2, False)


@pytest.mark.parametrize("file", ["../outside.py", "src/../../outside.py", "/x/../outside.py", "src\0.py", "src", "~"])
def test_nothing_outside_the_root_is_found(root: Path, file: str) -> None:
    found = at(root, file)
    assert found is not None
    assert not found.found


def test_what_has_no_line(root: Path) -> None:
    assert locate(None, root, root) is None
    assert locate(Source("", 0, "", "some text"), root, root) is None
    assert locate(Source("model.py", 0), root, root) is None


def test_a_link_out_of_the_root_is_not_followed(root: Path) -> None:
    (root / "src" / "link.py").symlink_to(root.parent / "outside.py")
    found = at(root, "src/link.py")
    assert found is not None
    assert not found.found


def test_the_root_is_the_repository(root: Path) -> None:
    assert root_of(root / "src") == root.resolve()
    assert root_of(root.parent) == root.parent.resolve()


def test_files_of_ours(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root / "src")
    assert file_location(Path("model.py"), root) == Location("src/model.py", 1, True)
    assert file_location(Path("../jobs/model.py"), root) == Location("jobs/model.py", 1, True)
    assert file_location(Path("no.toml"), root) == Location("no.toml", 1, False)
