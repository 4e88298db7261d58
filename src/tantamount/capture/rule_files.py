"""Files of rules: TOML of format ``rules/1``, and Python files that declare some."""

from __future__ import annotations

from pathlib import Path

from tantamount.capture.documents import parse_toml
from tantamount.capture.fields import Fields, Place, shown
from tantamount.capture.files import read_text
from tantamount.capture.job import GraphFiles
from tantamount.capture.readers import READERS
from tantamount.capture.rules import rules_of
from tantamount.errors import TantamountError, UserError
from tantamount.ir.job import UserRule
from tantamount.limits import Limits, limits_from_environment

__all__ = ["load_rules", "read_rules"]

_FORMAT = "rules/1"


def read_rules(path: str | Path, *, limits: Limits | None = None) -> tuple[UserRule, ...]:
    """The rules in a TOML file of format ``rules/1``, whose graphs lie in its folder. Raises :class:`UserError`."""
    limits = limits or limits_from_environment()
    path = Path(path)
    place = Place("job", str(path), limits)
    top = Fields.of(parse_toml(read_text(path, limits), place), place, ("format", "rules"), ("format", "rules"))
    if top.get("format") != _FORMAT:
        raise top.at("format").wrong(shown(top.get("format")), f'"{_FORMAT}"', code="format")
    return rules_of(top.get("rules"), top.at("[rules]"), GraphFiles(path.parent, False, limits, {}, {}, READERS))


def load_rules(path: str | Path) -> tuple[UserRule, ...]:
    """The rules in a TOML file, or those that a Python file declares, which is run: only for files that you trust.
    Raises :class:`UserError`."""
    path = Path(path)
    if path.suffix != ".py":
        return read_rules(path)
    from runpy import run_path

    try:
        found = run_path(str(path), run_name="__tantamount_rules__")
    except TantamountError:
        raise
    except Exception as problem:
        raise UserError(
            "job-rule", place=str(path), found=f"{type(problem).__name__}: {problem}",
            needed="a Python file that declares rules",
        ) from None  # fmt: skip
    rules = tuple(dict.fromkeys(one for one in found.values() if isinstance(one, UserRule)))
    if not rules:
        raise UserError("job-rule", place=str(path), found="no rule", needed="functions under @tantamount.rule(...)")
    return rules
