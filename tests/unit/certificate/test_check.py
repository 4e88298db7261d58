"""Certificates: honest ones are accepted, changed ones rejected, and what was not checked is no success."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.certificates import Kept, keep, of_bytes, of_meaning, rejected, verify
from support.jobs import as_json, graph_of, job_files
from tantamount import read_job
from tantamount.answers import refine
from tantamount.capture.fx_json import parse_graph
from tantamount.capture.programs import Program
from tantamount.certificate.check import check_certificate
from tantamount.certificate.digests import digest_of
from tantamount.certificate.document import sealed
from tantamount.certificate.text import render
from tantamount.errors import UserError
from tantamount.limits import Limits

ROOT = Path(__file__).resolve().parents[3]
MLP = ROOT / "examples" / "mlp_tp2" / "job.toml"
SHARED = Path(os.environ.get("TANTAMOUNT_SHARED") or ROOT.parent / "shared")


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    kept = keep(MLP, tmp_path_factory.mktemp("mlp") / "job")
    assert kept is not None
    return kept


def changed(kept: Kept, folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The certificate with other content, and its own hash computed anew."""
    content = kept.content
    change(content)
    path = kept.job.parent / f"{folder.name}.json"
    path.write_text(json.dumps(sealed(content)))
    return path


def test_an_honest_certificate_is_accepted(mlp: Kept) -> None:
    found = verify(mlp)
    assert found.accepted
    assert found.exit_code == 0
    assert len(found.relations) == 9
    assert all(step.exactly and step.floats for step in (*found.outputs, *found.relations))
    text = "\n".join(render(found))
    assert text.startswith("ACCEPTED")
    assert re.search(r"rational in real inputs: 6; a false one passes with a chance below 1e-\d+", text)
    assert re.search(r"in exact arithmetic, without a bound: 4, sampled 2 times exactly, \d+ times in float64", text)


@pytest.mark.parametrize("seed", range(6))
def test_one_byte_is_too_much(mlp: Kept, tmp_path: Path, seed: int) -> None:
    corrupted = of_bytes(mlp, tmp_path / "job", seed)
    assert rejected(corrupted.kept), corrupted.what


@pytest.mark.parametrize("seed", range(3))
def test_another_meaning_is_rejected_though_all_hashes_are_right(mlp: Kept, tmp_path: Path, seed: int) -> None:
    found = list(of_meaning(mlp, tmp_path, seed, MLP.with_name("wrong.toml")))
    assert len(found) >= 4
    for corrupted in found:
        why = rejected(corrupted.kept)
        assert why, corrupted.what
        assert "hash" not in why
        assert "is another" not in why


def test_a_relation_between_other_tensors_is_said_to_fail(mlp: Kept, tmp_path: Path) -> None:
    def swap(content: dict[str, Any]) -> None:
        entry = next(entry for entry in content["relations"] if entry["tensor"] == "relu")
        entry["relation"] = {"name": "addmm", "placement": "Shard(1)"}  # what relu is of

    found = check_certificate(changed(mlp, tmp_path, swap))
    assert found.exit_code == 1
    assert "the relation of relu fails" in found.problems[0]


def test_a_relation_that_is_left_out_must_be_said_to_be(mlp: Kept, tmp_path: Path) -> None:
    def forget(content: dict[str, Any]) -> None:
        del content["relations"][0]

    def admit(content: dict[str, Any]) -> None:
        content["unrelated"].append(content["relations"].pop(0)["tensor"])

    assert check_certificate(changed(mlp, tmp_path, forget)).exit_code == 1
    assert check_certificate(changed(mlp, tmp_path, admit)).exit_code == 0


def test_an_output_that_is_left_out_is_missed(mlp: Kept, tmp_path: Path) -> None:
    found = check_certificate(changed(mlp, tmp_path, lambda content: content["outputs"].clear()))
    assert found.problems == ("nothing about the output y",)


def test_nothing_but_the_own_hash_is_wrong(mlp: Kept, tmp_path: Path) -> None:
    content = mlp.content
    content["made_by"] = "somebody else"
    path = mlp.job.parent / "own.json"
    path.write_text(json.dumps(content))
    assert check_certificate(path).problems == ("the certificate was changed: its hash is not that of its content",)


def test_white_space_and_compression_do_not_count(mlp: Kept, tmp_path: Path) -> None:
    path = mlp.job.parent / "spec.json"
    before = path.read_text()
    try:
        path.write_text(json.dumps(json.loads(before), indent=3, sort_keys=True))
        assert verify(mlp).accepted
    finally:
        path.write_text(before)


def test_what_cannot_be_executed_is_no_success(mlp: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tantamount.certificate.check._ENOUGH", 1)
    monkeypatch.setattr("tantamount.certificate.check.reduce_job", _not_reduced)
    found = check_certificate(mlp.certificate, limits=Limits(witness_elements=1))
    assert found.exit_code == 3
    assert not found.accepted
    assert next(iter(render(found))).startswith("NOT CHECKED")


def _not_reduced(job: object) -> None:
    from tantamount.reduction import NotReduced

    raise NotReduced("a test")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "certificate-json"),
        ("[" * 100_000, "limit-nesting"),
        ('{"a": 1, "a": 2}', "certificate-json"),
        ("{}", "certificate-missing-key"),
        ('{"format": NaN}', "certificate-json"),
    ],
)
def test_what_is_no_certificate_is_an_error(tmp_path: Path, text: str, code: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(UserError) as problem:
        check_certificate(path)
    assert problem.value.code == code


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("format", "tantamount-certificate/9", "certificate-format"),
        ("verdict", "REFUTED", "certificate-field"),
        ("lemmas", [{"name": "trust me"}], "certificate-unknown-key"),
        ("operators", ["mylib.kernel.default"], "certificate-operators"),
        ("job", {"path": "../../etc/passwd", "sha256": "0" * 64}, "certificate-job"),
        ("job", {"sha256": "0" * 64}, "certificate-field"),
        ("relations", [{"tensor": "relu", "relation": {"relation": "__import__('os')"}}], "relation-syntax"),
        ("more", 1, "certificate-unknown-key"),
    ],
)
def test_strange_fields_are_errors(mlp: Kept, tmp_path: Path, key: str, value: object, code: str) -> None:
    with pytest.raises(UserError) as problem:
        check_certificate(changed(mlp, tmp_path, lambda content: content.update({key: value})))
    assert problem.value.code == code


def test_only_what_is_proved_has_a_certificate(tmp_path: Path) -> None:
    report = refine(read_job(MLP.with_name("wrong.toml")))
    with pytest.raises(UserError) as problem:
        report.save_certificate(tmp_path / "c.json")
    assert problem.value.code == "certificate-verdict"
    assert not (tmp_path / "c.json").exists()


DROPOUT = """
[inputs]
x = "Shard(0)"
[outputs]
y = "Shard(0)"
[assume]
dropout = "same mask"
"""


def test_masks_of_ranks_are_found_by_the_values_that_are_dropped(tmp_path: Path) -> None:
    whole = "x: float32[{}, 3]\ns = mul(x, 3)\nd, keep = native_dropout(s, 0.5, True)\ny = add(d, x)\n-> y"
    job = job_files(tmp_path, whole.format(4), [whole.format(2)] * 2, DROPOUT, {"dp": 2}, {"dp": ("dp",)})
    report = refine(read_job(job))
    assert "dropout" in {a.name for a in report.assumptions}
    path = tmp_path / "c.json"
    report.save_certificate(path)
    found = check_certificate(path)
    assert found.accepted
    assert not found.notes


def program(text: str) -> Program:
    document = as_json(graph_of(text), None)
    return Program(parse_graph(json.dumps(document), "captured", Limits()), document)


def test_captured_programs_are_part_of_their_certificate(tmp_path: Path) -> None:
    whole = program("x: float32[4]\na = mul(x, 3)\ny = add(a, x)\n-> y")
    report = refine(whole, program("x: float32[4]\ny = mul(x, 4)\n-> y"))
    path = tmp_path / "c.json"
    report.save_certificate(path)
    assert check_certificate(path).accepted
    content = json.loads(path.read_text())
    content["graphs"]["rank0.json.gz"]["document"]["nodes"][1]["args"][1] = 5
    path.write_text(json.dumps(sealed(content)))
    assert "rank0.json.gz in the certificate is another one" in check_certificate(path).problems[0]
    content["graphs"]["rank0.json.gz"]["sha256"] = digest_of(content["graphs"]["rank0.json.gz"]["document"])
    path.write_text(json.dumps(sealed(content)))
    assert "output y fails" in check_certificate(path).problems[0]


def test_the_checker_needs_neither_the_search_nor_its_calculus(mlp: Kept) -> None:
    program = (
        f"import sys; from tantamount.certificate.check import check_certificate as check; "
        f"assert check({str(mlp.certificate)!r}).accepted; "
        "print([name for name in sys.modules if name.startswith(('tantamount.calculus', 'tantamount.refinement'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_command_line_writes_and_checks(mlp: Kept, tmp_path: Path) -> None:
    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tantamount", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    path = mlp.job.parent / "cli.json"
    assert run("refine", mlp.job, "--certificate", path).returncode == 0
    done = run("check", path)
    assert done.returncode == 0
    assert done.stdout.startswith("ACCEPTED")
    wrong = mlp.job.parent / "wrong.json.c"
    done = run("refine", mlp.job.with_name("wrong.toml"), "--certificate", wrong)
    assert done.returncode == 1
    assert "no certificate was written" in done.stderr
    assert not wrong.exists()
    done = run("check", path, "--job", mlp.job.with_name("wrong.toml"))
    assert done.returncode == 1
    assert done.stdout.startswith("REJECTED")


@pytest.mark.skipif(not SHARED.exists(), reason=f"{SHARED} is absent (set TANTAMOUNT_SHARED)")
@pytest.mark.parametrize("path", ["jobs/gpt_tp2_l1/job.toml", "bugs/em09_phi_rope_config/ok.toml"])
def test_certificates_of_captured_jobs_are_accepted(tmp_path: Path, path: str) -> None:
    kept = keep(SHARED / path, tmp_path / "job")
    assert kept is not None
    found = verify(kept)
    assert (found.problems, found.unchecked) == ((), ())
    assert all(step.exactly for step in found.relations)
