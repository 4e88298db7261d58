"""Sweeps whose verdicts are kept as they come: an interruption loses nothing that was done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.interruptions import heed_interruptions
from tantamount.cli import code_read
from tantamount.cli.comparing import Request
from tantamount.cli.results import Results
from tantamount.cli.sweep_folder import SweepFolder, opened
from tantamount.cli.sweeping import Sweep, run_sweep
from tantamount.errors import UserError

GRAPH = """tantamount graph 1
%x: float32[2, 3] = input
%y: float32[2, 3] = aten.sin.default(%x)
output y = %y
"""
LABELS = ("first=1", "second=1", "third=1")
# operators of a user: the second comparison does not end while there is a file that says so
OPERATORS = """
import pathlib, time
here = pathlib.Path(__file__).parent
calls = here / "calls"
calls.write_text(calls.read_text() + "x" if calls.exists() else "x")
while (here / "wait").exists() and len(calls.read_text()) == 2:
    time.sleep(0.05)
"""


def requests(folder: Path) -> list[tuple[str, Request]]:
    found: list[tuple[str, Request]] = []
    for label, operator in zip(LABELS, ("sin", "cos", "sin"), strict=True):
        for name, text in (("a", GRAPH), (label[:-2], GRAPH.replace("sin", operator))):
            (folder / f"{name}.graph").write_text(text)
        files = str(folder / "a.graph"), str(folder / f"{label[:-2]}.graph")
        found.append((label, Request(*files, ['x=rank(0, "x")'])))
    return found


def swept(folder: Path) -> int:
    """The exit code of the sweep; what a process of the test below runs."""
    asked, operators = requests(folder), (folder / "operators.py",)
    kept = opened(folder / "out", asked[0][1], {"strict": False}, operators)
    results = Results({"--json": folder / "out.json"}, github=False)
    return run_sweep(asked, Sweep({"strict": False}, operators, folder=kept), 1, None, results)


def rows(folder: Path) -> list[tuple[str, str, int]]:
    jobs = json.loads((folder / "out.json").read_text())["jobs"]
    return [(job["job"], job.get("verdict", job.get("error", {}).get("code")), job["exit_code"]) for job in jobs]


def calls(folder: Path) -> int:
    return len((folder / "calls").read_text())


def test_an_interrupted_sweep_says_what_was_not_done_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "operators.py").write_text(OPERATORS)
    (tmp_path / "wait").touch()
    program = (
        "import sys, pathlib; from unit.cli.test_sweep import swept; from tantamount.cli.exits import exits\n"
        "import click; click.Command('sweep', callback=exits(lambda: swept(pathlib.Path(sys.argv[1])))).main([])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment, preexec_fn=heed_interruptions,
    )  # fmt: skip
    until = time.monotonic() + 60
    while time.monotonic() < until and not ((tmp_path / "calls").exists() and calls(tmp_path) == 2):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    told, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, "interrupted\n")
    assert told.splitlines() == [
        "PROVED   first=1", "NOT DONE second=1", "NOT DONE third=1",
        f"1 of 3 were compared: the same command goes on with what {tmp_path / 'out'} has",
    ]  # fmt: skip
    assert rows(tmp_path) == [
        ("first=1", "PROVED", 0), ("second=1", "sweep-interrupted", 130), ("third=1", "sweep-interrupted", 130)
    ]  # fmt: skip
    assert json.loads((tmp_path / "out.json").read_text())["exit_code"] == 130
    (tmp_path / "wait").unlink()
    assert swept(tmp_path) == 1
    assert calls(tmp_path) == 4  # the first is not compared again
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "PROVED   first=1   (done before)"
    assert "REFUTED  second=1" in lines
    assert rows(tmp_path) == [("first=1", "PROVED", 0), ("second=1", "REFUTED", 1), ("third=1", "PROVED", 0)]
    before = (tmp_path / "out.json").read_text()
    assert swept(tmp_path) == 1
    assert calls(tmp_path) == 4
    assert (tmp_path / "out.json").read_text() == before


MODEL = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x.NAME()

def build():
    return Model(), (torch.zeros(2),)
"""


def test_what_was_edited_is_compared_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name says nothing of what is in the file."""
    pytest.importorskip("torch", reason="builds models")
    monkeypatch.chdir(tmp_path)

    def swept_again(name: str) -> tuple[int, str]:
        (tmp_path / "swept_model.py").write_text(MODEL.replace("NAME", name))
        written = time.time() - 60
        os.utime(tmp_path / "swept_model.py", (written, written))
        code_read._digest.cache_clear()
        request = Request("swept_model:build", "swept_reference:build")
        kept = opened(tmp_path / "out", request, {}, ())
        done = [label for label in ("one",) if kept.read(request, label) is not None]
        return run_sweep([("one", request)], Sweep({}, folder=kept), 1, None, Results({}, github=False)), str(done)

    (tmp_path / "swept_reference.py").write_text(MODEL.replace("NAME", "sin"))
    assert swept_again("sin") == (0, "[]")
    assert swept_again("sin") == (0, "['one']")
    assert swept_again("cos") == (1, "[]")
    assert swept_again("sin") == (0, "[]")


def test_a_folder_is_of_one_question(tmp_path: Path) -> None:
    """Options, files and packages; what is damaged is asked for again."""
    ((label, request), *_) = requests(tmp_path)
    folder = opened(tmp_path / "out", request, {"effort": "normal"}, ())
    assert opened(tmp_path / "out", request, {"effort": "normal"}, ()) == folder
    with pytest.raises(UserError, match='option effort "normal"') as caught:
        opened(tmp_path / "out", request, {"effort": "low"}, ())
    assert caught.value.needed == 'what is asked now: "low"'
    (tmp_path / "operators.py").write_text("")
    with pytest.raises(UserError, match=r"operators\.py null"):
        opened(tmp_path / "out", request, {"effort": "normal"}, (tmp_path / "operators.py",))
    (tmp_path / "config.json").write_text("{}")
    named = Request(f"hf:{tmp_path},layers=1", f"hf:{tmp_path}/config.json")
    opened(tmp_path / "named", named, {}, ())
    (tmp_path / "config.json").write_text('{"eps": 1}')
    with pytest.raises(UserError, match=r"config\.json"):  # the same name, and another model
        opened(tmp_path / "named", named, {}, ())
    sweep = Sweep({"strict": False}, folder=folder)
    assert run_sweep([(label, request)], sweep, 1, None, Results({}, github=False)) == 0
    assert folder.read(request, label) is not None
    assert folder.read(Request("a", "b"), label) is None
    (file,) = [one for one in folder.path.iterdir() if one.name != "sweep.json"]
    for text in ("{", "[]", '{"format": "tantamount-sweep/1"}', file.read_text().replace('"PROVED"', "0")):
        file.write_text(text)
        assert SweepFolder(folder.path).read(request, label) is None
    (folder.path / "sweep.json").write_text("[]")
    with pytest.raises(UserError, match="another document"):
        opened(tmp_path / "out", request, {"effort": "normal"}, ())


def test_verdicts_are_of_the_code_that_names_stood_for(tmp_path: Path) -> None:
    """A name may be a function of the user's (and a file of operators imports others): once what was loaded is another
    one, the comparison is another, too."""
    source, operators = tmp_path / "read_by_operators.py", tmp_path / "operators.py"
    source.write_text("")
    operators.write_text(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport read_by_operators\n")
    ((label, request), *_) = requests(tmp_path)
    kept = opened(tmp_path / "out", request, {}, (operators,))
    sweep = Sweep({}, (operators,), folder=kept)
    assert run_sweep([(label, request)], sweep, 1, None, Results({}, github=False)) == 0
    source.write_text("changed = True")
    assert kept.read(request, label) is None
