"""The memory that products need is there before the first of them, or nothing is executed."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tantamount.errors import EnvironmentFault
from tantamount.memory import reserve

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_where_there_is_none_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    reserve()
    monkeypatch.setattr(mmap, "mmap", none)
    with pytest.raises(MemoryError):
        reserve()


@pytest.mark.parametrize(("job", "code"), [("job", 0), ("wrong", 5)])
def test_a_proof_needs_none_and_an_execution_is_not_begun(job: str, code: int) -> None:
    """A process that has no memory for products proves, and where it would execute, says what it lacks."""
    program = (
        "import mmap, sys\n"
        "def none(*_): raise OSError(12, 'Cannot allocate memory')\n"
        "mmap.mmap = none\n"
        f"sys.argv = ['tantamount', 'refine', {str(EXAMPLES / 'mlp_tp2' / (job + '.toml'))!r}]\n"
        "from tantamount.__main__ import main\n"
        "try: main()\n"
        "finally: print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], env=os.environ, capture_output=True, text=True)
    assert done.returncode == code
    assert done.stdout.endswith("False\n") or code
    assert ("error[environment-memory]" in done.stderr) == bool(code)


LIMITED = (
    "import resource, sys; from tantamount.__main__ import main; most = int(sys.argv[1]) << 20; del sys.argv[1]; "
    "resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1])); main()"
)


@pytest.mark.parametrize("megabytes", [76, 90, 130, 200])
def test_a_small_address_space_is_the_machines_fault(megabytes: int, tmp_path: Path) -> None:
    """OpenBLAS would end the process with exit code 1, REFUTED, wherever NumPy is imported first."""
    (tmp_path / "certificate.json").write_text("{}")
    arguments = ["check", str(tmp_path / "certificate.json"), "--job", str(EXAMPLES / "mlp_tp2/job.toml")]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(megabytes), *arguments], env=os.environ, capture_output=True, text=True
    )
    assert done.returncode == 5, done.stderr
    assert "error[environment-" in done.stderr


def test_a_capture_without_memory_is_the_machines_fault() -> None:
    pytest.importorskip("torch", reason="captures need PyTorch")
    import tantamount as tt

    def gives_out(x: object) -> object:
        raise MemoryError

    import torch

    with pytest.raises(EnvironmentFault, match="no memory left"):
        tt.capture(gives_out, (torch.ones(2),))
