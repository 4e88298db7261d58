"""``tantamount capture`` and ``tantamount suggest``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tantamount.cli.main import app

pytest.importorskip("torch", reason="captures need PyTorch")

TRAIN = """
import torch
import torch.distributed as dist
from torch import nn

def model(n=1):
    return nn.Sequential(nn.Linear(8, 16 // n), nn.ReLU(), nn.Linear(16 // n, 8, bias=False))

def sequential():
    net = model()
    def f(x):
        return net(x)
    return f, (torch.ones(4, 8),)

def build(rank):
    net = model(2)
    def f(x):
        y = net(x)
        dist.all_reduce(y)
        return y
    return f, (torch.ones(4, 8),)
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "captured_by_cli.py").write_text(TRAIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "captured_by_cli", raising=False)
    return tmp_path


PAIR = ("captured_by_cli:sequential", "captured_by_cli:build", "--world-size", "2", "--mesh", "tp=2", "-o", "job")


def test_a_pair_becomes_a_job_that_is_proved(folder: Path) -> None:
    done = run("capture", *PAIR, "--input", "0.*=Shard(0)", "--input", "2.weight=Shard(1)")
    assert (done.exit_code, done.stdout) == (0, "job/job.toml: `tantamount refine job/job.toml`\n")
    done = run("refine", "job/job.toml")
    assert done.exit_code == 0, done.output
    assert "PROVED  output = Replicate()   (as expected)" in done.stdout


def test_what_is_missing_is_named_and_proposed(folder: Path) -> None:
    done = run("capture", *PAIR)
    assert done.exit_code == 0
    assert "3 inputs without a relation: 0.weight, 0.bias, 2.weight" in done.stdout
    assert run("refine", "job/job.toml").exit_code == 2
    done = run("suggest", "job/job.toml")
    assert done.exit_code == 0
    proposed = done.stdout
    assert all("# guess: " in line for line in proposed.splitlines())
    text = (folder / "job" / "job.toml").read_text()
    (folder / "job" / "job.toml").write_text(text.replace("[inputs]\n", f"[inputs]\n{proposed}"))
    assert run("refine", "job/job.toml").exit_code == 0
    assert run("suggest", "job/job.toml").stdout == ""


def test_one_program_alone_and_ranks_alone(folder: Path) -> None:
    assert run("capture", "captured_by_cli:sequential", "-o", "one").stdout == "one/spec.json.gz\n"
    done = run("capture", "captured_by_cli:build", "--world-size", "2", "-o", "ranks")
    assert done.stdout == "ranks/rank0.json.gz\nranks/rank1.json.gz\n"


def test_saved_and_exported_programs_are_taken_as_they_are(folder: Path) -> None:
    import torch

    layer = torch.nn.Linear(8, 4)
    exported = torch.export.export(layer, (torch.ones(3, 8),))
    torch.export.save(exported, folder / "layer.pt2")
    text = "import torch\ndef exported():\n    return torch.export.load('layer.pt2')\n"
    (folder / "captured_by_cli.py").write_text(text)
    assert run("capture", "layer.pt2", "captured_by_cli:exported", "-o", "job").exit_code == 0
    done = run("refine", "job/job.toml")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("arguments", "code", "needed"),
    [
        (["captured_by_cli"], "command-line", "MODULE:FUNCTION"),
        (["captured_by_cli:nothing"], "capture-import", "that can be imported"),
        (["no_such_program.pt2"], "capture-file", "torch.export.save"),
        (["no_such_module_here:f"], "capture-import", "that can be imported"),
        (["captured_by_cli:build"], "capture-build", "--world-size"),
        ([*PAIR, "--mesh", "four"], "command-line", "AXIS=SIZE"),
        ([*PAIR, "--input", "x"], "command-line", "NAME=RELATION"),
    ],
)
def test_mistakes(folder: Path, arguments: list[str], code: str, needed: str) -> None:
    done = run("capture", *arguments)
    assert done.exit_code == 2
    assert f"error[{code}]" in done.stderr
    assert needed in done.stderr


def test_ranks_that_run_the_same_program_share_a_file(folder: Path) -> None:
    text = (folder / "captured_by_cli.py").read_text()
    assert run("capture", *PAIR, "--input", "0.*=Shard(0)", "--input", "2.weight=Shard(1)").exit_code == 0
    assert sorted(path.name for path in (folder / "job").iterdir()) == ["job.toml", "rank0.json.gz", "spec.json.gz"]
    assert '"rank0.json.gz",\n    "rank0.json.gz",' in (folder / "job" / "job.toml").read_text()
    (folder / "captured_by_cli.py").write_text(text.replace("return y\n", "return y * (1 + rank)\n"))
    sys.modules.pop("captured_by_cli")
    assert run("capture", *PAIR, "--input", "0.*=Shard(0)", "--input", "2.weight=Shard(1)").exit_code == 0
    assert (folder / "job" / "rank1.json.gz").exists()
    assert run("refine", "job/job.toml").exit_code == 1
