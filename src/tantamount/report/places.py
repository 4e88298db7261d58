"""Places in the user's files, as far as they are found here: graphs may have been captured in another folder, or on
another machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

from tantamount.ir.graph import Source

__all__ = ["Location", "file_location", "locate", "root_of"]

_LONGEST = 1 << 20  # bytes of a source file that is looked into


@dataclass(frozen=True, slots=True)
class Location:
    """A line of a file. ``path`` uses slashes; it is relative to the root if ``found`` (the file is there), else as it
    was recorded."""

    path: str
    line: int
    found: bool

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


def root_of(folder: Path) -> Path:
    """The repository that a folder is in: the nearest folder above with ``.git``, else the folder itself."""
    folder = folder.resolve()
    return next((one for one in (folder, *folder.parents) if (one / ".git").exists()), folder)


def file_location(path: Path, root: Path, line: int = 1) -> Location:
    """A file of ours, such as a job."""
    inside = _inside(path, root)
    return Location(inside or path.as_posix(), line, inside is not None)


def locate(source: Source | None, root: Path, folder: Path) -> Location | None:
    """The file of a recorded line: the file itself if it is inside the root, relative paths being those of ``folder``
    or the root; else the file of the root with the longest tail of the path whose line has the recorded code (the graph
    was captured in another checkout). ``None`` if no file was recorded."""
    if source is None or not source.file or source.line < 1:
        return None
    for candidate in (folder / source.file, root / source.file):
        inside = _inside(candidate, root)
        if inside is not None:
            return Location(inside, source.line, True)
    for candidate in _tails(source.file, root):
        inside = _inside(candidate, root)
        if inside is not None and _has_line(candidate, source):
            return Location(inside, source.line, True)
    return Location(source.file.replace("\\", "/"), source.line, False)


def _inside(path: Path, root: Path) -> str | None:
    """The path relative to the root, if it is a file in there."""
    try:
        resolved = path.resolve()
        return resolved.relative_to(root).as_posix() if resolved.is_file() else None
    except (OSError, ValueError):  # outside, or no path at all
        return None


def _tails(file: str, root: Path) -> Iterator[Path]:
    parts = PurePosixPath(file.replace("\\", "/")).parts
    return (root.joinpath(*parts[k:]) for k in range(1, len(parts)))


def _has_line(path: Path, source: Source) -> bool:
    code = source.text.strip()
    if not code or path.stat().st_size > _LONGEST:
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        return any(code == line.strip() for line in islice(file, source.line - 1, source.line))
