"""Files are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tantamount.errors import EnvironmentFault, UserError
from tantamount.writing import check_writable, make_folder, whole_folder, write_file


def test_the_file_is_replaced_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")
    write_file(target, "new Σ\n")
    assert target.read_bytes() == "new Σ\n".encode()
    assert list(tmp_path.iterdir()) == [target]


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(EnvironmentFault) as problem:
        write_file(target, b"new")
    assert (problem.value.code, problem.value.found) == ("environment-scarce", "No space left on device")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_the_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    write_file(tmp_path / "ours", b"")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_text_that_is_no_unicode_is_escaped(tmp_path: Path) -> None:
    write_file(tmp_path / "out", "a\udcffb")
    assert (tmp_path / "out").read_bytes() == rb"a\udcffb"


def test_a_place_that_cannot_be_written_is_told_before(tmp_path: Path) -> None:
    with pytest.raises(UserError) as missing:
        check_writable(tmp_path / "no" / "out.json", "--json")
    assert (missing.value.code, missing.value.place) == ("report-folder", f"--json {tmp_path / 'no' / 'out.json'}")
    with pytest.raises(UserError) as folder:
        check_writable(tmp_path, "--json")
    assert (folder.value.code, folder.value.found) == ("report-file", "a folder")
    check_writable(tmp_path / "out.json", "--json")


def test_what_cannot_be_written_is_a_users_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file or directory"):
        write_file(tmp_path / "no" / "out.json", "text")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="a folder that can be made"):
        make_folder(tmp_path / "file" / "inside")


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_file(pipe, "text")
    assert os.read(reader, 100) == b"text"
    os.close(reader)
    assert pipe.is_fifo()


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "a" / "out"

    def half(folder: Path) -> None:
        (folder / "half").write_text("new")
        raise KeyError

    with pytest.raises(KeyError), whole_folder(target) as folder:
        half(folder)
    assert not target.exists()
    with whole_folder(target) as folder:
        (folder / "one").write_text("new")
        (folder / "inner").mkdir()
        assert [entry.name for entry in target.iterdir() if not entry.name.startswith(".")] == []
    assert sorted(entry.name for entry in target.iterdir()) == ["inner", "one"]


def test_what_is_in_a_folder_is_replaced_only_where_that_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "file").touch()
    for refused in (None, lambda _: False):
        with pytest.raises(UserError) as problem, whole_folder(tmp_path, refused, "another one"):
            pass
        assert (problem.value.code, problem.value.hint) == ("folder-not-empty", "another one")
        assert "old" in problem.value.found
    with pytest.raises(KeyError), whole_folder(tmp_path, lambda _: True):
        raise KeyError
    assert (tmp_path / "old" / "file").exists()
    with whole_folder(tmp_path, lambda _: True) as folder:
        (folder / "new").touch()
    assert [entry.name for entry in tmp_path.iterdir()] == ["new"]
