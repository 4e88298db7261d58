"""Shells complete commands and options."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from tantamount.cli.main import app


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_ask(shell: str) -> None:
    done = CliRunner().invoke(app, ["--show-completion", shell])
    assert done.exit_code == 0
    assert f"_TANTAMOUNT_COMPLETE={shell}_complete" in done.output


@pytest.mark.parametrize(
    ("words", "completed"),
    [("tantamount re", "refine"), ("tantamount plan v", "verify"), ("tantamount refine --html o --ju", "--junit")],
)
def test_what_is_asked_is_answered(words: str, completed: str) -> None:
    given = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_TANTAMOUNT_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-m", "tantamount"], env=os.environ | given, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [f"plain,{completed}"]
