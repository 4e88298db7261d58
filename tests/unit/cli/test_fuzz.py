"""The commands of ``tantamount fuzz``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from tantamount.fuzz.hosts import check_suite


def fuzz(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tantamount", "fuzz", *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )


def test_a_campaign_on_the_compiler_that_is_right(tmp_path: Path) -> None:
    done = fuzz("run", "--backend", "planted", "--cases", "4", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("4 cases, ")
    assert fuzz("triage", str(tmp_path)).stdout == "0 findings\n"


def test_a_campaign_needs_an_end_and_a_backend(tmp_path: Path) -> None:
    done = fuzz("run", "--backend", "planted", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "error[fuzz-endless]" in done.stderr


def test_rules_are_shown_with_their_evidence() -> None:
    done = fuzz("rules", "mm-associates")
    assert done.returncode == 0
    assert "mm-associates: (x y) z = x (y z)" in done.stdout
    assert "proved (reals and integers mod 2^n; 1 examples, sizes as symbols)" in done.stdout


def test_a_rule_of_a_user_is_proved_or_refused(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "from tantamount.rules.library.words import example, mm, x, y\n"
        "from tantamount.rules.rule import rule\n"
        'rule("mm-commutes", mm(x, y), "x y = y x", [example(x="4 4", y="4 4")])(lambda m: mm(m.y, m.x))\n'
    )
    done = fuzz("rules", "--rules", str(file), "mm-commutes")
    assert done.returncode == 1
    assert "NOT PROVED" in done.stdout
    done = fuzz("run", "--backend", "planted", "--cases", "1", "--out", str(tmp_path / "out"), "--rules", str(file))
    assert done.returncode == 2
    assert "error[rule-unproved] rule mm-commutes" in done.stderr


def test_a_suite_is_written(tmp_path: Path) -> None:
    done = fuzz("suite", "--format", "torch,onnx", "--count", "2", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    names = {path.name for path in tmp_path.glob("case-*/*")}
    assert {"original.torch.py", "original.onnx.py", "original.npz", "original.json"} <= names
    assert (tmp_path / "check.py").read_text() == Path(check_suite.__file__).read_text()
    found = [*check_suite.programs(tmp_path, "onnx")]
    assert len(found) >= 4
    for source, inputs, types, expected in found:
        assert source.is_file()
        assert len(inputs) == len(types)
        right = [array for array, _ in expected]
        assert check_suite.difference(expected, right) == ""
        wrong = [array if array.dtype.kind == "b" else array + np.ones((), array.dtype) for array in right]
        assert (
            check_suite.difference(expected, [*wrong, np.zeros(3)])
            == f"{len(right) + 1} outputs, {len(right)} expected"
        )
        if any(array.size and array.dtype.kind != "b" for array in right):
            assert "expected" in check_suite.difference(expected, wrong)


def test_the_script_of_a_suite_tells_what_fails(tmp_path: Path) -> None:
    assert fuzz("suite", "--format", "tf", "--count", "1", "--out", str(tmp_path)).returncode == 0
    for source in tmp_path.glob("case-*/*.tf.py"):
        source.write_text("program = None\n")
    (tmp_path / "mine.py").write_text("def run(module, inputs, types):\n    raise ValueError('nothing here')\n")
    command = [sys.executable, str(tmp_path / "check.py"), f"{tmp_path / 'mine.py'}:run", "--format", "tf"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "original.tf.py: ValueError: nothing here" in done.stdout
    assert done.stdout.splitlines()[-1].endswith(" wrong")
