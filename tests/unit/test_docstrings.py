"""Docstrings are sentences that say what is returned, not the beginnings of questions."""

from __future__ import annotations

import re
from pathlib import Path

import tantamount

SOURCE = Path(tantamount.__file__).parent
RIDDLE = re.compile(r'^\s*r?"""(?:What|Whether|Where)\b.*', re.MULTILINE)


def test_no_docstring_is_a_riddle() -> None:
    found = {path.relative_to(SOURCE).as_posix(): RIDDLE.findall(path.read_text()) for path in SOURCE.rglob("*.py")}
    assert {file: lines for file, lines in found.items() if lines} == {}


def test_a_riddle_is_found() -> None:
    assert RIDDLE.findall('def f():\n    """What it lacks."""\n    """The rest: what it lacks."""') != []
    assert RIDDLE.findall('"""The parts of x. Where it has none, nothing."""') == []
