"""Every kind of hook, of state and of collective: captured ranks, executed, against four real processes over gloo.

What is captured must give the same numbers, gradients and new values of state; everything else must be refused with the
code that the table says.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import tantamount as tt

torch = pytest.importorskip("torch", reason="captures need PyTorch")
pytest.importorskip("torch.distributed", reason="collectives need torch.distributed")

from support.ranks.all_cases import CASES  # noqa: E402
from support.ranks.captured import differences, refusal, title  # noqa: E402
from support.ranks.cases import Case  # noqa: E402
from support.ranks.page import PAGE, with_table  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes are forked"),
    pytest.mark.filterwarnings("ignore"),
]

CAPTURED = [one for one in CASES if not one.refused]
TOGETHER = [one for one in CAPTURED if not one.alone]


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Mapping[str, Any]]:
    """What four processes got, by rank and case: one run for the whole table, and for all workers of the tests."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    file = folder / "ranks.pt"
    try:
        os.close(os.open(folder / "ranks.lock", os.O_CREAT | os.O_EXCL))
    except FileExistsError:  # another worker runs them
        started = time.monotonic()
        while not file.exists():
            assert time.monotonic() - started < 240, "the worker that runs the processes has not finished"
            time.sleep(0.2)
        return torch.load(file)
    here = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), *sys.path]), "OMP_NUM_THREADS": "1"}
    written = folder / "ranks.part"
    command = [sys.executable, "-m", "support.ranks.processes", str(written)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    written.rename(file)
    return torch.load(file)


@pytest.mark.parametrize("group", dict.fromkeys(one.group for one in TOGETHER))
def test_captured_cases_agree(group: str, real: Sequence[Mapping[str, Any]]) -> None:
    assert list(differences([one for one in TOGETHER if one.group == group], real)) == []


@pytest.mark.parametrize("one", [one for one in CAPTURED if one.alone], ids=title)
def test_a_captured_case_agrees(one: Case, real: Sequence[Mapping[str, Any]]) -> None:
    assert list(differences([one], real)) == []


@pytest.mark.parametrize("one", [one for one in CASES if one.refused], ids=title)
def test_a_case_is_refused(one: Case) -> None:
    with pytest.raises(tt.UserError) as problem:
        refusal(one)
    assert problem.value.code == one.refused
    assert problem.value.place
    assert problem.value.needed


def test_real_processes_run_what_the_table_says(real: Sequence[Mapping[str, Any]]) -> None:
    assert set(real[0]) == {title(one) for one in CASES if one.run}
    failed = {name: outcome["error"] for rank in real for name, outcome in rank.items() if outcome["error"]}
    assert failed == {}


def test_a_wrong_number_is_seen(real: Sequence[Mapping[str, Any]]) -> None:
    one = next(one for one in TOGETHER if one.name == "Tensor.register_hook that averages over ranks")
    wrong = [{title(one): {**rank[title(one)]}} for rank in real]
    wrong[2][title(one)]["gradients"] = [x if x is None else x * 2 for x in wrong[2][title(one)]["gradients"]]
    found = list(differences([one], wrong))
    assert len(found) == 2
    assert all(line.startswith("rank 2: grad ") for line in found)


def test_the_page_has_the_table() -> None:
    text = PAGE.read_text()
    assert with_table(text) == text, "python -m support.ranks.page writes it"
