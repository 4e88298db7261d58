"""Every error code that the package can raise, found in its source.

A code is the first argument of ``UserError`` and ``EnvironmentFault``, or the ``code`` of a ``Failure``. Two of them
are composed where they are raised: ``Place.wrong`` puts the kind of file before its ``code``, and limits have
``limit-`` and their name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from tantamount.limits import Limits

__all__ = ["PACKAGE", "Site", "sites"]

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "tantamount"

# Which kind of file the modules read whose errors are of a kind: `Place.kind`.
_JOBS = {"job.py", "relations.py", "spelled_groups.py", "subject.py", "expectations.py", "approximations.py"}
_ALL = {"fields.py"}
_PLANS = {f"plan/read{part}.py" for part in ("", "_approximate", "_copies", "_mesh", "_schedule")} | {"plan/names.py"}
_DOCUMENTS = {"json": ("graph", "certificate"), "toml": ("job", "plan")}  # of the codes in `documents.py`
_CERTIFICATES = {"document.py"}
_LEXER = "hlo_text.py"
_ANYTHING = ".*"
_RAISED = ("UserError", "EnvironmentFault", "Failure", "wrong")


@dataclass(frozen=True)
class Site:
    """Where a code is raised: file (relative to the package), line, and the patterns of ``found``, ``needed`` and
    ``hint``: regular expressions, in which what is computed may be anything."""

    file: str
    line: int
    found: str
    needed: str
    hint: str


@cache
def sites() -> Mapping[str, tuple[Site, ...]]:
    """Every code with the places that raise it."""
    collected: dict[str, list[Site]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for code, site in _of_file(path):
            collected.setdefault(code, []).append(site)
    return {code: tuple(found) for code, found in sorted(collected.items())}


def _of_file(path: Path) -> Iterator[tuple[str, Site]]:
    inside = path.relative_to(PACKAGE).as_posix()
    text = path.read_text()
    if not any(name in text for name in _RAISED):
        return
    for call in ast.walk(ast.parse(text)):
        if not isinstance(call, ast.Call):
            continue
        name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        code = given.get("code")
        if name == "Failure" and isinstance(code, ast.Constant) and code.value != "internal":
            site = Site(inside, call.lineno, _ANYTHING, _ANYTHING, _ANYTHING)
            yield from ((one, site) for one in _codes(code, inside))
        elif name in ("UserError", "EnvironmentFault") and call.args:
            texts = [given.get("found"), given.get("needed"), given.get("hint")]
            site = Site(inside, call.lineno, *map(_pattern, texts))
            for code in _codes(call.args[0], inside):
                yield code, site
        elif name == "wrong" and (len(call.args) == 2 or path.name == _LEXER):
            lexer = path.name == _LEXER  # its `wrong` takes what was needed, and may find the rest out itself
            code = given.get("code", ast.Constant("hlo-syntax" if lexer else "field"))
            if isinstance(code, ast.Name):
                continue  # handed on: its callers have it
            found, needed = (call.args[-1], call.args[0]) if lexer else call.args[:2]
            texts = [_ANYTHING if found is needed else _pattern(found), _pattern(needed), _pattern(given.get("hint"))]
            kinds = ("job",) if path.name in _JOBS else ("certificate",) if path.name in _CERTIFICATES else ("graph",)
            kinds = ("plan",) if inside in _PLANS else kinds
            kinds = ("graph", "job", "certificate", "plan") if path.name in _ALL else kinds
            for part in _literals(code, inside):
                for kind in _DOCUMENTS[part] if path.name == "documents.py" else kinds:
                    yield f"{kind}-{part}", Site(inside, call.lineno, *texts)


def _codes(code: ast.expr, inside: str) -> list[str]:
    """The codes that an expression stands for."""
    if isinstance(code, ast.Attribute) and code.attr == "code":
        return []  # an error that is handed on
    if inside == "capture/fields.py" and isinstance(code, ast.JoinedStr):
        return []  # `Place.wrong`, whose callers have the codes
    if inside == "limits.py" and isinstance(code, ast.JoinedStr):
        return [f"limit-{field.name.replace('_', '-')}" for field in fields(Limits)]
    return _literals(code, inside)


def _literals(code: ast.expr, inside: str) -> list[str]:
    if isinstance(code, ast.Constant) and isinstance(code.value, str):
        return [code.value]
    if isinstance(code, ast.JoinedStr) and ast.unparse(code) in ("f'unknown-{what}'", "f'unknown-{self.what}'"):
        return ["unknown-input", "unknown-output"]
    raise AssertionError(f"{inside}:{code.lineno}: a code that is computed, so that nobody can look it up")


def _pattern(text: ast.expr | None) -> str:
    """A regular expression for the values of an expression; what is not written there may be anything."""
    if text is None:
        return ""
    if isinstance(text, ast.Constant):
        return re.escape(str(text.value))
    if isinstance(text, ast.JoinedStr):
        return "".join(
            re.escape(str(part.value)) if isinstance(part, ast.Constant) else _ANYTHING for part in text.values
        )
    return _ANYTHING
