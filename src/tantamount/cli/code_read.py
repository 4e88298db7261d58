"""The code that a comparison was made of: Python files outside of installed packages, and versions of those.

A verdict that is kept is that of the models as they were, and a name such as ``MODULE:FUNCTION`` says nothing of what
is in MODULE, or in what it imports.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import Any, cast

__all__ = ["code_read", "same_code", "version_of"]

_OWN = Path(__file__).parents[1]  # whose version is part of every question


def code_read(since: float) -> dict[str, Any]:
    """The files, with a digest of each, and the packages, with their versions, that this process has imported modules
    of, and the folder that names of modules are looked up in first. A file that was written ``since`` (seconds, as
    :func:`time.time` has them) may have been imported as it was before: it has no digest, and is never the same."""
    installed, known = _installed(), packages_distributions()
    files: dict[str, str] = {}
    packages: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        file = Path(getattr(module, "__file__", None) or "")
        if name == "__main__" or not file.is_absolute() or not file.is_file():
            continue
        folder = next((folder for folder in installed if file.is_relative_to(folder)), None)
        if folder is not None:  # a package may bring others along in a folder of its own
            top = file.relative_to(folder).parts[0].partition(".")[0]
            packages.update((package, version_of(package)) for package in known.get(top, ()))
            if top in known or installed[folder]:
                continue
        if not file.is_relative_to(_OWN):  # also what somebody has put among installed packages: it has no version
            files[str(file)] = "" if file.stat().st_mtime >= since else _digest(file)
    return {"folder": str(Path.cwd()), "files": dict(sorted(files.items())), "packages": dict(sorted(packages.items()))}


def same_code(read: object) -> bool:
    """True if what :func:`code_read` returned would be the same now: every file has its digest and every package its
    version, and, where there are files, names are looked up in the same folder."""
    if not isinstance(read, dict):
        return False
    document = cast("dict[str, Any]", read)
    files, packages = document.get("files"), document.get("packages")
    if not isinstance(files, Mapping) or not isinstance(packages, Mapping):
        return False
    if files and document.get("folder") != str(Path.cwd()):
        return False
    digests, versions = cast("Mapping[str, str]", files), cast("Mapping[str, str]", packages)
    same = all(digest and _digest(Path(file)) == digest for file, digest in digests.items())
    return same and all(version_of(name) == known for name, known in versions.items())


def version_of(package: str) -> str:
    """The version of an installed package; empty if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _installed() -> dict[Path, bool]:
    """The folders of installed packages and of the standard library (of which it is true), those within others
    first."""
    paths = sysconfig.get_paths()
    folders = {Path(paths[kind]): kind.endswith("stdlib") for kind in ("purelib", "platlib", "stdlib", "platstdlib")}
    return dict(sorted(folders.items(), key=lambda item: len(item[0].parts), reverse=True))


@cache
def _digest(file: Path) -> str:
    """The digest of what is in a file, read once in a process; empty if it is not there."""
    try:
        return sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""
