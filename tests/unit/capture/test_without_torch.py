"""Without PyTorch, or with another version of it: everything but capturing works, and capturing says what it needs."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import tantamount as tt
from tantamount.cli.main import app
from tantamount.errors import UserError

ROOT = Path(__file__).resolve().parents[3]

MODULE = """
HloModule m, entry_computation_layout={{(f32[4])->f32[4]}}{ranks}

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}

ENTRY main {{
  x = f32[4] parameter(0)
  ROOT y = f32[4] {operator}
}}
"""
JOB = """
format = "job/1"
spec = { graph = "spec.hlo" }
impl = { graph = "impl.hlo", mesh = { tp = 2 } }
[inputs]
parameter0 = 'Partial("sum")'
[outputs]
output0 = "Replicate()"
"""


def without_torch(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process in which PyTorch cannot be imported."""
    program = f"import sys; sys.modules['torch'] = None; sys.argv[1:] = {list(arguments)!r}\n" + (
        "from tantamount.cli.main import main\nmain()"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)


def test_json_jobs_are_proved(tmp_path: Path) -> None:
    done = without_torch("refine", str(ROOT / "examples" / "mlp_tp2" / "job.toml"))
    assert (done.returncode, done.stdout[:6]) == (0, "PROVED"), done.stderr


def test_hlo_jobs_are_proved(tmp_path: Path) -> None:
    all_reduce = "all-reduce(x), replica_groups={{0,1}}, to_apply=add, channel_id=1, use_global_device_ids=true"
    (tmp_path / "spec.hlo").write_text(MODULE.format(ranks="", operator="copy(x)").lstrip())
    (tmp_path / "impl.hlo").write_text(MODULE.format(ranks=", num_partitions=2", operator=all_reduce).lstrip())
    (tmp_path / "job.toml").write_text(JOB)
    done = without_torch("refine", str(tmp_path / "job.toml"))
    assert (done.returncode, done.stdout[:6]) == (0, "PROVED"), done.stdout + done.stderr


@pytest.fixture(params=["2.9.1", "2.14.0+cu130", "3.0", None])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """Another version of PyTorch, or none."""
    real = importlib.metadata.version

    def other(name: str) -> str:
        if name != "torch":
            return real(name)
        if request.param is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return str(request.param)

    monkeypatch.setattr("importlib.metadata.version", other)
    return request.param


@pytest.mark.parametrize("call", [lambda: tt.capture("model.pt2"), lambda: tt.capture_ranks(lambda rank: None, 2)])
def test_capturing_says_which_version_it_needs(call: object, version: str | None) -> None:
    assert callable(call)
    with pytest.raises(UserError) as problem:
        call()
    assert problem.value.code == "torch-version"
    assert problem.value.found == (f"PyTorch {version}" if version else "no PyTorch")
    assert problem.value.needed == "PyTorch 2.13"
    assert "tantamount[torch]" in problem.value.hint


@pytest.mark.parametrize(
    "arguments",
    [
        ("capture", "needs_torch:model"),
        ("compare", "hf:llama", "litgpt:Llama-3-8B"),
        ("compare", "hf:llama", "litgpt:Llama-3-8B", "--sweep", "hidden_size=64,128"),
        ("plan", "new", "llama3-8b", "-o", "plan"),
    ],
    ids=" ".join,
)
def test_the_command_says_so_before_it_imports_what_needs_torch(
    arguments: tuple[str, ...], version: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs_torch.py").write_text("import no_such_torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    done = CliRunner().invoke(app, [*arguments])
    assert done.exit_code == 2
    assert done.stderr.startswith("error[torch-version] capture\n")


@pytest.mark.parametrize("found", ["2.13.0", "2.13.1+cpu"])
def test_the_right_version_is_taken(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="captures need PyTorch")
    monkeypatch.setattr("importlib.metadata.version", lambda name: found)
    assert callable(tt.capture_ranks)
