"""A deep job of which one layer is wrong: the whole is executed, and the layer is explained alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.equal_layers import layered
from support.jobs import job_files
from tantamount import Verdict, read_job, refine
from tantamount.answers import Answer
from tantamount.proof import Options
from tantamount.proof.places import places_of
from tantamount.refinement.one_piece import executed
from tantamount.verdict import OutputReport

LAYERS = 16  # programs of more than 150 nodes are proved in pieces


def replacing(*changes: tuple[int, str, str]) -> Callable[[int, str], str]:
    def change(k: int, text: str) -> str:
        for at, old, new in changes:
            text = text.replace(old, new) if k == at else text
        return text

    return change


def answer(folder: Path, *changes: tuple[int, str, str], **how: object) -> Answer:
    return refine(layered(folder, LAYERS, rank=replacing(*changes), **how))


@pytest.mark.parametrize(
    ("at", "old", "new", "place", "hint"),
    [
        (0, "mul(t0, 3)", "mul(t0, 3.5)", "p0", "3 instead of 3.5 in p0"),
        (7, "t7 = tanh(a7)", "t7_ = tanh(a7)\nt7 = tanh(t7_)", "t7", "leave out t7"),
        (9, 'r9 = all_reduce(o9, "sum", "tp")', "r9 = mul(o9, 1.0)", "o9", "all_reduce"),
    ],
)
def test_the_layer_is_explained_alone(tmp_path: Path, at: int, old: str, new: str, place: str, hint: str) -> None:
    found = answer(tmp_path, (at, old, new))
    assert found.verdict is Verdict.REFUTED
    assert found.counterexample is not None
    assert found.counterexample.output == "l"
    assert found.mismatch is not None
    assert found.mismatch.implementation == place
    assert hint in found.mismatch.hint
    assert not {"implementation", "specification"} & set(found.statistics.seconds)  # of the whole
    assert not found.lemmas  # a report that proves nothing names no pieces
    assert {f"x{k}" for k in range(1, at + 1)} <= {relation.tensor for relation in found.relations}


def test_at_large_sizes_the_whole_is_executed_at_smaller_ones(tmp_path: Path) -> None:
    found = answer(tmp_path, (1, "mul(t1, 3)", "mul(t1, 3.5)"), width=8192)
    assert found.verdict is Verdict.REFUTED
    assert found.mismatch is not None
    assert found.counterexample is not None
    assert found.counterexample.sizes
    assert found.mismatch.implementation == "p1"
    assert "implementation" not in found.statistics.seconds


def test_what_is_refuted_needs_no_proof_whose_forms_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_STEPS", "_GROWN"):
        monkeypatch.setattr(f"tantamount.proof.proof.{name}", 1)
    job = layered(tmp_path, LAYERS, rank=replacing((3, "mul(t3, 3)", "mul(t3, 3.5)"), (11, "tanh(a11)", "gelu(a11)")))
    found = refine(job, effort="low")  # no change of one layer proves the whole
    assert found.verdict is Verdict.REFUTED
    assert found.mismatch is not None
    assert found.mismatch.implementation == "p3"
    assert "outputs" not in found.statistics.seconds


def test_programs_that_draw_are_not_executed_without_a_proof(tmp_path: Path) -> None:
    for name, end, seen in (
        ("draws", "d = aten.rand_like.default(last)\nl = mul(d, last)", False),
        ("not", "l = tanh(last)", True),
    ):
        job = layered(tmp_path / name, 1, end=end, rank=replacing((0, "mul(t0, 3)", "mul(t0, 3.5)")))
        reports = (OutputReport("l", Verdict.UNKNOWN, None, job.outputs["l"].text),)
        assert (executed(job, None, reports, Options()) is not None) == seen


TABLES = '[inputs]\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'


def test_an_output_that_differs_by_too_little_to_tell_needs_no_proof_beside_others(tmp_path: Path) -> None:
    for name, last, seen in (("small", "mul(x, 2.00000001)", True), ("right", "mul(x, 2.0)", False)):
        texts = [
            f"x: float32[4]\na = {first}\nb = {second}\n-> a, b"
            for first, second in (("mul(x, 3.0)", "mul(x, 2.0)"), ("mul(x, 3.5)", last))
        ]
        (tmp_path / name).mkdir()
        job = read_job(job_files(tmp_path / name, texts[0], texts[1:], TABLES, {"tp": 1}, {}))
        unknown = [OutputReport(one, Verdict.UNKNOWN, None, relation.text) for one, relation in job.outputs.items()]
        found = executed(job, None, tuple(unknown), Options())
        assert (found is not None) == seen
        if found is not None:
            assert found.searched.small == {"b"}
            assert [one.verdict for one in found.searched.outputs] == [Verdict.REFUTED, Verdict.UNKNOWN]


def test_where_forms_grow_with_cuts_too_one_output_that_is_refuted_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_STEPS", "_GROWN"):
        monkeypatch.setattr(f"tantamount.proof.proof.{name}", 0)
    whole, rank = (f"x: float32[4, 4]\na = mm(x, x)\nb = {f}(a)\nc = tanh(a)\n-> b, c" for f in ("tanh", "gelu"))
    found = refine(read_job(job_files(tmp_path, whole, [rank], TABLES, {"tp": 1}, {})))
    assert [one.verdict for one in found.outputs] == [Verdict.REFUTED, Verdict.UNKNOWN]
    assert "normal forms grow" in (found.outputs[1].reason or "")
    assert found.mismatch is not None
    assert found.mismatch.implementation == "b"


def test_a_layer_that_is_written_otherwise_interrupts_no_proof_in_pieces(tmp_path: Path) -> None:
    found = answer(tmp_path, (7, "q7 = add(p7, a7)", "q7_ = add(a7, p7)\nq7 = mul(q7_, 1.0)"))
    assert found.verdict is Verdict.PROVED
    assert found.lemmas


def test_both_programs_are_cut_where_their_layers_begin(tmp_path: Path) -> None:
    changes = [
        ("mul(t{k}, 3)", "add(t{k}, 3)"),
        ("t{k} = tanh(a{k})", "u{k} = tanh(a{k})\nt{k} = tanh(u{k})"),
        ("n{k} = mul(d{k}, j{k})\nh{k} = mm(n{k},", "h{k} = mm(d{k},"),
    ]
    for at in (0, 1, 8, LAYERS - 1):
        for number, (old, new) in enumerate(changes):
            change = replacing((at, old.format(k=at), new.format(k=at)))
            job = layered(tmp_path / f"{at}_{number}", LAYERS, rank=change)
            ours, theirs = job.specification.nodes, job.implementation[0].nodes
            names = [(ours[a].name, theirs[b].name) for a, b in places_of(job)]
            assert names == [*((f"s{k}", f"s{k}") for k in range(LAYERS)), ("l", "l")]
