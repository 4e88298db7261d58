"""The files of a plan: where its table is, and which others belong to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from tantamount.capture.documents import parse_toml
from tantamount.capture.fields import Place
from tantamount.capture.files import read_text
from tantamount.errors import UserError
from tantamount.limits import limits_from_environment
from tantamount.plan.read import FORMAT

__all__ = ["TABLE", "files_of", "only_a_plan", "only_plans", "plan_file", "programs_of"]

TABLE = "plan.toml"  # the name that whatever writes plans gives to the table


def plan_file(path: Path) -> Path:
    """The file of a plan: the path itself, or of a folder its ``plan.toml``. Raises :class:`UserError` for a folder
    that has none."""
    if not path.is_dir():
        return path
    if not (path / TABLE).is_file():
        raise UserError(
            "file-kind", place=str(path), found=f"a folder without {TABLE} and without gencode0.py",
            needed=f"a plan, a folder with its {TABLE}, a job, or a folder of modules that nnScaler generated",
            hint="name the file",
        )  # fmt: skip
    return path / TABLE


def files_of(table: Mapping[str, Any]) -> Iterator[str]:
    """The names of the files that the table of a plan names."""
    for part in table["part"].values():
        if "spec" in part:  # a copy has that of the part in whose place it runs
            yield part["spec"]
        yield from programs_of(part["impl"])
    if (schedule := table.get("schedule", {}).get("table")) is not None:
        yield schedule


def programs_of(impl: str | Mapping[str, list[str]]) -> Iterator[str]:
    """The files of a part's programs on ranks, as its ``impl`` names them."""
    if isinstance(impl, str):
        yield impl
    else:
        for listed in impl.values():
            yield from listed


def only_a_plan(folder: Path) -> bool:
    """True for a folder with a plan and nothing that this does not name."""
    try:
        place = Place("plan", str(folder / TABLE), limits_from_environment())
        table = cast("Mapping[str, Any]", parse_toml(read_text(folder / TABLE, place.limits), place))
        known = {TABLE, *files_of(table)}
    except (UserError, OSError, LookupError, AttributeError, TypeError):
        return False  # whatever it is, it is not a plan that was written here
    return table.get("format") == FORMAT and all(e.name in known and e.is_file() for e in folder.iterdir())


def only_plans(folder: Path) -> bool:
    """True for a folder with folders that each have a plan and nothing else."""
    return all(entry.is_dir() and not entry.is_symlink() and only_a_plan(entry) for entry in folder.iterdir())
