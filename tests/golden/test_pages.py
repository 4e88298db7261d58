"""README and documentation tell the truth: their commands have the output they show, their Python examples run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from support.console import ROOT, Command, agrees, commands, run
from tantamount.ops.documentation import families
from tantamount.ops.table import table

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").glob("*.md"))]
COMMANDS = [
    pytest.param(page, command, id=f"{page.stem}: {command}"[:100]) for page in PAGES for command in commands(page)
]


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_a_command_prints_what_the_page_shows(page: Path, command: Command) -> None:
    if "python examples/" in command.text:
        pytest.importorskip("torch", reason="captures need PyTorch")
    real = run(command.text)
    assert agrees(command.output, real), f"`python tests/support/console.py {page}` writes what it prints:\n{real}"


@pytest.mark.parametrize("page", [page for page in PAGES if ">>>" in page.read_text()], ids=lambda page: page.stem)
def test_python_examples(page: Path) -> None:
    """In a process of their own: they may define operators."""
    command = [sys.executable, "-m", "doctest", "-o", "NORMALIZE_WHITESPACE", str(page)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_shows_a_verdict_of_each_kind() -> None:
    shown = " ".join(command.output for command in commands(ROOT / "README.md"))
    assert "PROVED" in shown
    assert "REFUTED" in shown


def test_the_first_example_of_the_readme_is_one_of_the_examples() -> None:
    """Every line of its code, and the file whose output follows."""
    text = (ROOT / "README.md").read_text()
    block = re.search(
        r"^```python\n(.*?)^```$.*?^```console\n\$ python (examples/\S+)$", text, re.MULTILINE | re.DOTALL
    )
    assert block is not None
    code = {line.strip().removeprefix("return ") for line in (ROOT / block.group(2)).read_text().splitlines()}
    shown = [line.strip().removeprefix("report = ") for line in block.group(1).splitlines() if line]
    assert [line for line in shown if line not in code] == []


def test_the_readme_counts_operators() -> None:
    written = (ROOT / "README.md").read_text()
    assert families(table()) in written, "run: python -m tantamount.ops.documentation docs/operators.md README.md"


def test_the_readme_shows_a_job_that_exists() -> None:
    block = re.search(r"^```toml\n# (\S+),.*?\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert block is not None
    assert tomllib.loads(block.group(2)) == tomllib.loads((ROOT / block.group(1)).read_text())


@pytest.mark.parametrize("claimed", ["one\n...\nfour\n", "one\ntwo\nthree\nfour\n", "...\n"])
def test_lines_left_out(claimed: str) -> None:
    assert agrees(claimed, "one\ntwo\nthree\nfour\n")


@pytest.mark.parametrize("claimed", ["one\nfour\n", "one\n...\nfive\n", "", "one\ntwo\nthree\nfour\nfive\n"])
def test_a_page_that_is_wrong_is_found(claimed: str) -> None:
    assert not agrees(claimed, "one\ntwo\nthree\nfour\n")
