"""The lines that ``docs/adding-more.md`` shows of a rule, a relation, a difference and a limit are all there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SHOWN = re.findall(r'^```\w+ title="(\S+)"\n(.*?)^```$', (ROOT / "docs" / "adding-more.md").read_text(), re.M | re.S)
# How the thing is written where it is named -> the only files that do so.
NAMED = {
    r'"one-hot"|^\[one-hot\]': {"explanations/rules.toml", "calculus/rules.py", "calculus/contraction.py"},
    r'"wrapped": "|found\("wrapped"|^\[wrapped\]': {
        "verdict.py",
        "explanations/differences.toml",
        "diagnosis/explain.py",
    },
    r'"unflatten": Arr|unflatten\(t': {"ir/arrangements.py"},
    r"repair_layouts": {"limits.py", "diagnosis/edits.py"},
}  # fmt: skip


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize(("file", "block"), SHOWN)
def test_the_lines_of_the_page_are_in_the_file(file: str, block: str) -> None:
    there, wanted = lines((ROOT / file).read_text()), lines(block)
    assert any(there[k : k + len(wanted)] == wanted for k in range(len(there)))


@pytest.mark.parametrize("name", NAMED)
def test_no_other_file_names_it(name: str) -> None:
    package = ROOT / "src" / "tantamount"
    files = [path for path in package.rglob("*") if path.suffix in (".py", ".toml")]
    found = {str(path.relative_to(package)) for path in files if re.search(name, path.read_text(), re.M)}
    assert found == NAMED[name]
    assert {f"src/tantamount/{file}" for file in found} <= {file for file, _ in SHOWN}


def test_the_page_shows_all_four() -> None:
    assert len(SHOWN) == 10
