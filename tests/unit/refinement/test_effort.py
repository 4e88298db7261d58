"""Effort, time and memory of whole jobs: what is proved stays proved, what ended the work is named."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from support.jobs import job_files
from tantamount import read_job
from tantamount.answers import Answer, refine
from tantamount.effort import Effort, Stopped
from tantamount.errors import UserError
from tantamount.limits import Bounds
from tantamount.proof.lemmas import _Pieces  # pyright: ignore[reportPrivateUsage]
from tantamount.proof.pieces import Piece
from tantamount.proof.proof import Proof
from tantamount.refinement.job import refine_job
from tantamount.refinement.result import Refinement
from tantamount.report.json_report import as_job
from tantamount.verdict import OutputReport, Verdict

EVERYTHING = '[inputs]\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'
SQUARE = "x: float32[4]\ny: float32[4]\ns = add(x, y)\nz = mul(s, s)\n-> z"
EXPANDED = (
    "x: float32[4]\ny: float32[4]\na = mul(x, x)\nb = mul(y, y)\nc = mul(x, y)\nd = mul(c, {})\n"
    "e = add(a, b)\nz = add(e, d)\n-> z"
)
INVERSE = "x: float32[4]\na = aten.sinh.default(x)\nz = aten.asinh.default(a)\n-> z"
ITSELF = "x: float32[4]\nz = mul(x, 1)\n-> z"


def job(folder: Path, specification: str, implementation: str) -> Path:
    return job_files(folder, specification, [implementation], EVERYTHING, {}, {})


def squarings(count: int, last: str = "y{0} = mm(y{1}, y{1})") -> str:
    """x to the power of 2 ** count, by products of matrices: a sum of as many factors."""
    rows = ["x: float32[3, 3]", "y0 = mm(x, x)", "early = add(x, x)"]
    rows += [f"y{k} = mm(y{k - 1}, y{k - 1})" for k in range(1, count - 1)]
    return "\n".join([*rows, last.format(count - 1, count - 2), f"-> early, late=y{count - 1}"])


TWISTED = "h = add(y{1}, y{1})\nk = mul(h, 0.5)\ny{0} = mm(k, y{1})"


def products(count: int, multiplied: bool) -> str:
    """``x -> (x + w)^2``, again and again; or that multiplied out."""
    rows, at = ["x: float32[4]", "w: float32[4]"], "x"
    for k in range(count):
        if multiplied:
            rows += [f"a{k} = mul({at}, {at})", f"b{k} = mul({at}, w)", f"c{k} = mul(b{k}, 2)", f"d{k} = mul(w, w)"]
            rows += [f"e{k} = add(a{k}, c{k})", f"y{k} = add(e{k}, d{k})"]
        else:
            rows += [f"a{k} = add({at}, w)", f"y{k} = mul(a{k}, a{k})"]
        at = f"y{k}"
    return "\n".join([*rows, f"-> {at}"])


def test_a_search_that_ends_early_is_undecided_and_more_effort_proves(tmp_path: Path) -> None:
    task = read_job(job(tmp_path, SQUARE, EXPANDED.format(2)))
    found = refine(task, effort=Effort(bounds=Bounds(expanded_terms=2)))
    (output,) = found.outputs
    assert found.verdict is Verdict.UNKNOWN
    assert output.reason == (
        "z = Replicate() was not proved: undecided: limit-expanded-terms (2) was hit; --effort high would go on"
    )
    hit = next(hit for hit in found.limits if hit.name == "limit-expanded-terms")
    assert (hit.allowed, hit.needed) == ("2", 3)
    assert as_job(found)["limits"][0].keys() == {"name", "allowed", "needed", "count"}
    assert "Limits that were hit" in found.text()
    assert "limit-expanded-terms" in found.text()
    assert refine(task, effort="high").proved


def test_normal_forms_that_differ_are_said_to(tmp_path: Path) -> None:
    found = refine(read_job(job(tmp_path, INVERSE, ITSELF)))
    (output,) = found.outputs
    assert output.verdict is Verdict.UNKNOWN
    assert "different normal forms (terms " in output.reason
    assert "limit-" not in output.reason


def test_what_is_proved_or_refuted_has_no_list_of_limits(tmp_path: Path) -> None:
    found = refine(read_job(job(tmp_path, SQUARE, EXPANDED.format(3))))
    assert found.verdict is Verdict.REFUTED
    assert "Limits that were hit" not in found.text()


@pytest.mark.parametrize("threaded", [False, True])
def test_a_job_that_does_not_end_is_unknown_in_time(tmp_path: Path, threaded: bool) -> None:
    """Twelve squarings of a matrix, in less time than they take: in a thread, where no signal helps, too."""
    task = read_job(job(tmp_path, squarings(12), squarings(12, TWISTED)))
    found: list[Answer] = []
    start = time.monotonic()
    if threaded:
        thread = threading.Thread(target=lambda: found.append(refine(task, timeout=0.01)))
        thread.start()
        thread.join(60)
    else:
        found.append(refine(task, timeout=0.01))
    assert time.monotonic() - start < 20
    (answer,) = found
    assert (answer.verdict, answer.exit_code, answer.stopped) == (Verdict.UNKNOWN, 3, "limit-timeout")
    assert answer.limits[0].name == "limit-timeout"
    assert all("limit-timeout was hit (0.01 s)" in output.reason for output in answer.outputs)


def test_a_program_of_products_ends(tmp_path: Path) -> None:
    task = read_job(job(tmp_path, products(48, False), products(48, True)))
    found = refine(task, timeout=30.0)
    assert found.verdict is Verdict.UNKNOWN
    assert "limit-" in found.outputs[0].reason or found.stopped


class Slow:
    """Comparing the output ``late`` takes for ever; what was proved before stays proved, with what it rests on."""

    def __init__(self, ends: BaseException) -> None:
        self.ends = ends
        self.check = Proof.check

    def __call__(self, proof: Proof, **options: object) -> tuple[OutputReport, ...]:
        if "late" in (options.get("only") or ()):  # type: ignore[operator]
            raise self.ends
        return self.check(proof, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ends", "given", "name"),
    [
        (Stopped("limit-timeout", "9 s"), {"timeout": 100.0}, "limit-timeout"),
        (MemoryError(), {"memory": 10**6}, "limit-memory"),
    ],
)
def test_what_was_proved_so_far_stays_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: BaseException, given: dict[str, float], name: str
) -> None:
    slow = Slow(ends)
    monkeypatch.setattr(Proof, "check", lambda proof, **options: slow(proof, **options))
    told: list[Answer] = []
    task = read_job(job(tmp_path, squarings(3), squarings(3, TWISTED)))
    found = refine(task, so_far=told.append, **given)  # type: ignore[arg-type]
    assert {output.name: output.verdict for output in found.outputs} == {
        "early": Verdict.PROVED,
        "late": Verdict.UNKNOWN,
    }
    assert (found.verdict, found.stopped, found.exit_code) == (Verdict.UNKNOWN, name, 3)
    assert "real-arithmetic" in {assumption.name for assumption in found.assumptions}
    assert not found.proved


def test_memory_that_runs_out_without_a_limit_is_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(MemoryError())
    monkeypatch.setattr(Proof, "check", lambda proof, **options: slow(proof, only=["late"]))
    with pytest.raises(MemoryError):
        refine(read_job(job(tmp_path, squarings(3), squarings(3))))


def test_effort_is_checked_before_anything_is_done(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        refine(read_job(job(tmp_path, ITSELF, ITSELF)), effort="much")
    assert caught.value.code == "effort-value"


def test_the_command_line_ends_a_job(tmp_path: Path) -> None:
    path = job(tmp_path, squarings(12), squarings(12, TWISTED))
    command = [sys.executable, "-m", "tantamount", "refine", str(path), "--timeout", "0.01", "--json", "-"]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert time.monotonic() - start < 60
    assert done.returncode == 3, done.stderr
    (entry,) = json.loads(done.stdout)["jobs"]
    assert (entry["verdict"], entry["stopped"]) == ("UNKNOWN", "limit-timeout")
    assert entry["limits"][0]["name"] == "limit-timeout"


@pytest.mark.parametrize(("pieces", "proved"), [(1, 0), (5, 8), (7, 12)])
def test_what_pieces_proved_is_known_when_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pieces: int, proved: int
) -> None:
    """Time is over after some pieces: the outputs that those have are proved, the others are not, and the assumptions
    that they rest on are there."""
    effort = Effort(seconds=1000.0)
    asked = _Pieces.piece
    count = 0

    def piece(self: _Pieces, *args: Any) -> Piece:
        nonlocal count
        count += 1
        if count > pieces:
            raise effort.out_of_time()
        return asked(self, *args)

    monkeypatch.setattr(_Pieces, "piece", piece)
    rows = ["x: float32[4, 4]", "y0 = add(x, x)"]
    for k in range(40):
        rows += [f"a{k} = aten.sin.default(y{k})", f"b{k} = mul(a{k}, 0.5)", f"c{k} = aten.relu.default(b{k})"]
        rows += [f"d{k} = mm(c{k}, c{k})", f"e{k} = sum_dims(d{k}, [1], True)", f"f{k} = aten.cos.default(e{k})"]
        rows += [f"g{k} = mul(f{k}, y{k})", f"y{k + 1} = add(g{k}, y{k})"]
    program = "\n".join([*rows, f"-> {', '.join(f'z{k}=y{k}' for k in range(1, 41))}"])
    other = re.sub(r"mul\((a\d+), 0.5\)", r"aten.div.Tensor(\1, 2.0)", program)
    said: list[Refinement] = []
    found = refine_job(read_job(job(tmp_path, program, other)), effort=effort, so_far=said.append)
    known = [output.name for output in found.outputs if output.verdict is Verdict.PROVED]
    assert known == [f"z{k}" for k in range(1, proved + 1)]
    assert found.verdict is Verdict.UNKNOWN
    assert found.stopped == "limit-timeout"
    assert bool(found.assumptions) == bool(found.relations) == bool(proved)
    assert len(said) <= pieces
