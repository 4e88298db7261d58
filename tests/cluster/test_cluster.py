"""Pieces of work on a local Ray cluster of two nodes: nothing is lost with a worker or a node. ``make test-ray``."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="make test-ray installs Ray")

from ray.cluster_utils import Cluster

from support.pieces import killed_once, piece, telling
from support.plans import write_plan
from tantamount.work.cluster import Unreachable, run_on
from tantamount.work.pool import Lost

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    os.environ["PYTHONPATH"] = os.pathsep.join((str(ROOT / "src"), str(ROOT / "tests")))
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    found.add_node(num_cpus=1)
    yield found
    found.shutdown()


def test_results_come_in_order_and_each_piece_has_a_process(cluster: Cluster) -> None:
    assert list(run_on(cluster.address, piece, [1.0, "a", 0.0, "b"])) == [1.0, "a", 0.0, "b"]
    assert len(set(run_on(cluster.address, piece, ["pid"] * 3))) == 3


def test_a_worker_that_is_killed_loses_nothing(cluster: Cluster, tmp_path: Path) -> None:
    marks = [str(tmp_path / str(k)) for k in range(4)]
    assert list(run_on(cluster.address, killed_once, marks)) == marks
    assert all(Path(mark).read_text() == "killed" for mark in marks)


def test_a_piece_that_always_dies_is_lost_alone(cluster: Cluster) -> None:
    a, lost, raised, b = run_on(cluster.address, piece, ["a", "kill", "raise", "b"])
    assert (a, b) == ("a", "b")
    assert lost == Lost(-signal.SIGKILL)
    assert raised == Lost(-signal.SIGKILL, unstarted="ValueError: boom")


def test_a_piece_that_takes_too_long_is_ended_and_what_it_told_is_kept(cluster: Cluster) -> None:
    done, lost = run_on(cluster.address, telling, ["quick", "slow"], tells=True, seconds=8.0)
    assert done == "quick"
    assert lost == Lost(-signal.SIGKILL, so_far="slow so far", overdue=True)


def test_a_node_that_is_lost_half_way_loses_nothing(cluster: Cluster) -> None:
    node = cluster.add_node(num_cpus=1)
    threading.Timer(4, lambda: cluster.remove_node(node, allow_graceful=False)).start()
    items = [1.0 + k / 100 for k in range(12)]
    assert list(run_on(cluster.address, piece, items)) == items


def test_jobs_have_the_verdicts_that_they_have_here(cluster: Cluster) -> None:
    jobs = [f"examples/{name}/{job}.toml" for name in ("mlp_tp2", "gpt_tp2") for job in ("job", "wrong")]
    texts = [_command("refine", *jobs, *more) for more in ((), ("--ray", cluster.address))]
    here, there = (re.sub(r"\d+\.\d+ s", "TIME", text) for _, text in texts)
    assert here == there
    assert "4 jobs: 2 REFUTED, 2 PROVED (exit code 1)" in there


def test_a_campaign_of_which_a_worker_is_killed_runs_every_case_once(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "findings"
    threading.Timer(12, _kill_one_worker).start()
    options = ["--backend", "planted", "--cases", "300", "--workers", "2", "--out", str(folder)]
    code, text = _command("fuzz", "run", *options, "--ray", cluster.address)
    assert code in (0, 1), text
    lines = [line for log in sorted(folder.glob("log-*.jsonl")) for line in log.read_text().splitlines() if line]
    assert sorted(json.loads(line)["case"] for line in lines) == list(range(300))


def test_parts_of_a_plan_have_the_verdicts_that_they_have_here(cluster: Cluster, tmp_path: Path) -> None:
    """While a process that proves one of them is killed."""
    path = write_plan(tmp_path, {"layer": ('all_reduce(share, "sum", "tp")', "mul(share, 1)")})
    _, here = _command("plan", "verify", str(path))
    threading.Timer(8, _kill_one_worker).start()
    code, there = _command("plan", "verify", str(path), "--ray", cluster.address)
    assert code == 1, there
    rows = [[row.split()[:5] for row in text.splitlines() if "ED  " in row] for text in (here, there)]
    assert rows[0] == rows[1]
    assert "REFUTED" in rows[1][0]


def test_the_second_engine_compares_parts_there_as_here(cluster: Cluster, tmp_path: Path) -> None:
    path = write_plan(tmp_path, {"layer": ('all_reduce(share, "sum", "tp")', "mul(share, 1)")})
    rows: list[list[list[str]]] = []
    for more in ((), ("--ray", cluster.address)):
        code, text = _command("plan", "verify", str(path), "--engine", "smt", *more)
        assert code == 1, text
        rows.append([row.split()[:5] for row in text.splitlines() if "REFUTED" in row or "equal at reduced" in row])
    assert rows[0] == rows[1]
    assert len(rows[0]) > 2


def test_what_does_not_answer_is_said() -> None:
    with pytest.raises(Unreachable):
        list(run_on("127.0.0.1:1", piece, ["a"]))


def _kill_one_worker() -> None:
    """Kill a process of the cluster that runs a piece."""
    found = subprocess.run(["pgrep", "-f", "ray::_piece"], capture_output=True, text=True, check=False).stdout.split()
    if found:
        os.kill(int(found[0]), signal.SIGKILL)


def _command(*words: str) -> tuple[int, str]:
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "tantamount", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert time.monotonic() - start < 300
    return done.returncode, done.stdout
