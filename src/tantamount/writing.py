"""Files that appear whole or not at all. Every layer may import this module; it imports only ``errors``."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from tantamount.errors import EnvironmentFault, UserError, environment_fault

__all__ = ["check_writable", "make_folder", "whole_folder", "write_file"]


def check_writable(path: Path, option: str) -> None:
    """Raise :class:`UserError` now, not after an hour of proving, if the ``path`` of an option cannot be written."""
    place, folder = f"{option} {path}", path.parent
    try:
        if not folder.is_dir():
            raise UserError("report-folder", place=place, found=f"no folder {folder}", needed="an existing folder")
        if path.is_dir() or not os.access(folder, os.W_OK):
            found = "a folder" if path.is_dir() else f"no permission to write in {folder}"
            raise UserError("report-file", place=place, found=found, needed="a file that can be written")
    except (OSError, ValueError) as problem:  # a name that is too long, or has a null character
        raise _unwritable(problem, place, "a file that can be written") from None


def make_folder(path: Path) -> None:
    """Make a folder, with those above it, if it is not there. Raises :class:`UserError` if it cannot be made, and
    :class:`EnvironmentFault` if the machine is to blame."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as problem:
        raise _unwritable(problem, str(path), "a folder that can be made") from None


@contextmanager
def whole_folder(path: Path, replaceable: Callable[[Path], bool] | None = None, hint: str = "") -> Generator[Path]:
    """A folder to write to, whose files are those of ``path`` once all are written; if something is raised, ``path`` is
    as it was before.

    ``path`` is made if it is not there. One that has files is taken if it is ``replaceable``; then these are gone in
    the end. Raises :class:`UserError` otherwise, with the ``hint``, before anything is written."""
    own = _entries(path)
    if own and (replaceable is None or not replaceable(path)):
        more = f" and {len(own) - 1} more" if len(own) > 1 else ""
        raise UserError(
            "folder-not-empty", place=str(path), found=f"a folder that has {own[0].name}{more}",
            needed="a folder that is empty, or that is not there", hint=hint,
        )  # fmt: skip
    was_there = path.is_dir()
    make_folder(path)
    try:
        temporary = Path(tempfile.mkdtemp(dir=path, prefix=".new-"))
    except OSError as problem:
        raise _unwritable(problem, str(path), "a folder that can be written to") from None
    try:
        yield temporary
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        if not was_there:
            with suppress(OSError):
                path.rmdir()
        raise
    try:
        for old in own:
            if old.is_dir() and not old.is_symlink():
                shutil.rmtree(old)
            else:
                old.unlink()
        for entry in sorted(temporary.iterdir()):
            os.replace(entry, path / entry.name)
        temporary.rmdir()
    except OSError as problem:
        raise _unwritable(problem, str(path), "a folder that can be written to") from None


def _entries(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir()) if path.is_dir() else []
    except (OSError, ValueError) as problem:
        raise _unwritable(problem, str(path), "a folder that can be read") from None


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file (text as UTF-8): a reader sees the old one or the whole new one, whenever the machine stops. Raises
    :class:`UserError` if it cannot be written, and :class:`EnvironmentFault` if the machine is to blame (a full
    disk)."""
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    try:
        _replace(path, data)
    except (OSError, ValueError) as problem:
        raise _unwritable(problem, str(path), "a file that can be written") from None


def _unwritable(problem: OSError | ValueError, place: str, needed: str) -> UserError | EnvironmentFault:
    fault = environment_fault(problem, place)
    if fault is not None:
        return fault
    found = (problem.strerror if isinstance(problem, OSError) else None) or str(problem)
    return UserError("file-write", place=place, found=found, needed=needed)


def _replace(path: Path, data: bytes) -> None:
    if path.exists() and not path.is_file():  # a pipe or a device is written to, never replaced
        path.write_bytes(data)
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # else the name may be on the disk before the content is
        Path(temporary).chmod(0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            Path(temporary).unlink()
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
