"""The workflow in the documentation is one, and its commands have the options that they use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tantamount.cli.main import app

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ci.md"


def test_the_workflow_uses_options_that_exist() -> None:
    yaml = pytest.importorskip("yaml", reason="the workflow is YAML")
    block = re.search(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert block is not None
    steps = yaml.safe_load(block.group(1))["jobs"]["refine"]["steps"]
    used = {word for step in steps for word in step.get("run", "").split() if word.startswith("--")}
    known = {name for one in app.commands["refine"].params for name in one.opts}
    assert {"--sarif", "--junit"} <= used <= known


def test_every_option_for_ci_is_documented() -> None:
    page = PAGE.read_text()
    assert all(f"`{option}" in page for option in ("--json", "--junit", "--sarif", "--html", "--github", "--workers"))
