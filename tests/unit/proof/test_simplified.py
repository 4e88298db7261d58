"""Pipelines as one program and microbatches as ranks: what is right is proved that way, and what is wrong is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.jobs import job_files
from support.training_steps import Steps, training_step, training_step_files
from tantamount import read_job, refine
from tantamount.calculus.calculus import Calculus
from tantamount.certificate.check import check_certificate
from tantamount.correspond.alignment import align
from tantamount.execution.plans import Scale, draw, execute, plan_execution
from tantamount.ir.job import Job
from tantamount.limits import Limits
from tantamount.proof import Options
from tantamount.proof.inputs import build_inputs
from tantamount.proof.lemmas import InPieces
from tantamount.proof.run import RanksRun, SpecificationRun
from tantamount.proof.simplified import prove_simplified, simplified
from tantamount.verdict import Verdict

SHAPES = {
    "stages": Steps(layers=2, pp=2),
    "microbatches": Steps(layers=2, mb=3),
    "both": Steps(layers=3, pp=3, mb=4),
    "all": Steps(layers=2, pp=2, mb=2, dp=2, tp=2),
}

COUNTED = "e{k} = aten.ne.Scalar(n{k}, 3)\nf{k} = aten._to_copy.default(e{k}, dtype=float32)\nc{k} = sum(f{k})\n"


def proved(job: Job) -> InPieces | None:
    return prove_simplified(job, Options(align=align), least=0)


def values(job: Job) -> dict[str, list[object]]:
    """The outputs of all ranks of a job on random inputs of the specification, as they are executed."""
    store = Calculus()
    plan = plan_execution(store, job, build_inputs(store, job), SpecificationRun(), RanksRun(job.mesh), Limits())
    execution = execute(plan, draw(plan, 7, Scale()), 7)
    assert execution is not None
    return {"spec": [execution.specification], "ranks": list(execution.ranks)}


@pytest.mark.parametrize("what", SHAPES)
def test_a_training_step_is_one_program_on_fewer_ranks(tmp_path: Path, what: str) -> None:
    """Every tensor of the simpler job is, on every rank, the tensor of the job that it is said to be."""
    job = training_step(tmp_path, SHAPES[what])
    steps = simplified(job)
    how = SHAPES[what]
    assert len(steps) == (how.pp > 1) + (how.mb > 1)
    simple = steps[-1].job
    assert simple.mesh.world_size == how.dp * how.tp * how.mb
    assert len({id(graph) for graph in simple.implementation}) == 1
    theirs, ours = values(job)["ranks"], values(simple)["ranks"]
    compared = 0
    for rank, tensors in enumerate(ours):
        for name, value in tensors.items():  # type: ignore[attr-defined]
            where = (rank, name)
            for step in reversed(steps):
                where = where and step.origin(*where)
            if where is not None and isinstance(value, np.ndarray):
                assert np.allclose(value, theirs[where[0]][where[1]], rtol=1e-12), (name, where)  # type: ignore[index]
                compared += 1
    assert compared > 100


@pytest.mark.parametrize("what", SHAPES)
def test_training_steps_are_proved(tmp_path: Path, what: str) -> None:
    job = training_step(tmp_path, SHAPES[what])
    found = proved(job)
    assert found is not None
    assert {output.verdict for output in found.outputs} == {Verdict.PROVED}
    assert [output.expectation for output in found.outputs] == [e.text for e in job.outputs.values()]
    assert len(found.relations) > 0.9 * sum(node.op == "call" for node in job.specification.nodes)


def test_relations_are_those_of_the_job(tmp_path: Path) -> None:
    """A certificate has the relations of all tensors, which its check evaluates."""
    file = training_step_files(tmp_path, Steps(layers=4, pp=2, mb=2, dp=2, tp=2, adam=True))
    report = refine(read_job(file))
    assert report.proved
    assert report.in_pieces
    path = tmp_path / "certificate.json"
    report.save_certificate(path)
    checked = check_certificate(path)
    assert checked.problems == ()


WRONG = {
    # a contribution of one microbatch
    "a gradient that is counted twice": ("gw0_b1 = add(dw0_b0, dw0_b1)", "gw0_b1 = add(dw0_b0, dw0_b0)"),
    "a gradient that is left out": ("gw0_b2 = add(gw0_b1, dw0_b2)", "gw0_b2 = add(gw0_b1, 0)"),
    "the gradient of another parameter": ("gw0_b2 = add(gw0_b1, dw0_b2)", "gw0_b2 = add(gw0_b1, dw1_b2)"),
    "a gradient that is scaled": ("gw0_b1 = add(dw0_b0,", "k = mul(dw0_b0, 0.5)\ngw0_b1 = add(k,"),
    # a microbatch that does something else
    "another number in one microbatch": ("e0_0_b1 = mul(y0_b1, 0.5)", "e0_0_b1 = mul(y0_b1, 0.25)"),
    "another operator in one microbatch": ("a0_b1 = tanh(h0_b1)", "a0_b1 = aten.sin.default(h0_b1)"),
    "what another microbatch saved": ("dh0_b1 = mul(da0_b1, ra0_b1)", "dh0_b1 = mul(da0_b1, ra0_b0)"),
    "a block that is read twice": ("x_1 = getitem(blocks, 1)", "x_1 = getitem(blocks, 0)"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_microbatches_that_are_wrong_are_not_proved(tmp_path: Path, what: str) -> None:
    right, wrong = WRONG[what]

    def change(text: str) -> str:
        assert right in text
        return text.replace(right, wrong)

    assert proved(training_step(tmp_path, Steps(layers=2, mb=3), rank=change)) is None


def test_what_is_not_proved_that_way_is_refuted_as_ever(tmp_path: Path) -> None:
    right, wrong = WRONG["a gradient that is counted twice"]
    report = refine(training_step(tmp_path, Steps(layers=1, mb=2), rank=lambda text: text.replace(right, wrong)))
    assert report.verdict is Verdict.REFUTED
    assert [output.name for output in report.outputs if output.verdict is not Verdict.PROVED] == ["new_w0"]


def test_blocks_in_another_order_are_proved_if_they_are_added_up(tmp_path: Path) -> None:
    """Both inputs of a sum may change places, but the losses of a batch that is put together may not."""

    def swapped(text: str) -> str:
        return text.replace("getitem(blocks, 0)", "getitem(blocks, 9)").replace(
            "getitem(blocks, 1)", "getitem(blocks, 0)"
        ).replace("getitem(blocks, 9)", "getitem(blocks, 1)")  # fmt: skip

    assert proved(training_step(tmp_path, Steps(layers=1, mb=2), rank=swapped)) is not None


PIPELINE = {
    "another microbatch is sent": ("isend.default(z0_b1, 1", "isend.default(z0_b0, 1"),
    "the gradient comes from another tensor": ("isend.default(dz1_b0, 0", "isend.default(dx1_b0, 0"),
    "what is received is not used": ("isend.default(z0_b0, 1", "isend.default(u0_b0, 1"),
}


@pytest.mark.parametrize("what", PIPELINE)
def test_pipelines_that_are_wrong_are_not_proved(tmp_path: Path, what: str) -> None:
    right, wrong = PIPELINE[what]

    def change(text: str) -> str:
        return text.replace(right, wrong)

    assert proved(training_step(tmp_path, Steps(layers=2, mb=2, pp=2), rank=change)) is None


def test_updates_of_one_stage_that_are_wrong_are_not_proved(tmp_path: Path) -> None:
    def change(text: str) -> str:
        return text.replace('all_w1 = all_reduce(gw1_b1, "sum", "dp")', "all_w1 = add(gw1_b1, 0)")

    job = training_step(tmp_path, Steps(layers=2, mb=2, pp=2, dp=2), rank=change)
    assert proved(job) is None


# ------------------------------------------------------------------------------ both programs add up what blocks give
BLOCKS = {
    "microbatches": Steps(layers=2, mb=2, spec_mb=True),
    "data parallel": Steps(layers=2, mb=2, dp=2, tp=2, spec_mb=True),
    "all": Steps(layers=2, pp=2, mb=2, dp=2, tp=2, spec_mb=True),
}


@pytest.mark.parametrize("what", BLOCKS)
def test_blocks_of_both_programs_are_proved_once(tmp_path: Path, what: str) -> None:
    job = training_step(tmp_path, BLOCKS[what])
    found = proved(job)
    assert found is not None
    assert {output.verdict for output in found.outputs} == {Verdict.PROVED}
    assert sum(len(proof.job.specification.nodes) for proof in found.proofs) < 0.7 * len(job.specification.nodes)
    assert len(found.relations) > 0.8 * sum(node.op == "call" for node in job.specification.nodes)


def test_relations_of_blocks_are_those_of_the_job(tmp_path: Path) -> None:
    file = training_step_files(tmp_path, Steps(layers=3, pp=3, mb=2, dp=2, spec_mb=True))
    report = refine(read_job(file))
    assert report.in_pieces
    report.save_certificate(tmp_path / "certificate.json")
    assert check_certificate(tmp_path / "certificate.json").problems == ()


WRONG_BLOCKS = {
    **{f"rank: {name}": ("rank", *change) for name, change in WRONG.items() if "b2" not in change[0]},
    "spec: a gradient that is counted twice": ("spec", "gw0_b3 = add(gw0_b2, dw0_b3)", "gw0_b3 = add(gw0_b2, dw0_b2)"),
    "spec: a gradient that is left out": ("spec", "gw0_b2 = add(gw0_b1, dw0_b2)", "gw0_b2 = add(gw0_b1, 0)"),
    "spec: another number in one block": ("spec", "e0_0_b1 = mul(y0_b1, 0.5)", "e0_0_b1 = mul(y0_b1, 0.25)"),
    "no reduction over ranks": ("rank", 'all_w1 = all_reduce(gw1_b1, "sum", "dp")', "all_w1 = add(gw1_b1, 0)"),
    "an average over data-parallel ranks": ("rank", 'all_reduce(gw1_b1, "sum"', 'all_reduce(gw1_b1, "avg"'),
    "another number in all microbatches": ("rank", "e0_0_b0 = mul(y0_b0, 0.5)\n", "e0_0_b0 = mul(y0_b0, 0.25)\n"),
    "another update": ("rank", "sc_w0 = mul(all_w0, 0.125)", "sc_w0 = mul(all_w0, 0.25)"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG_BLOCKS)
def test_blocks_that_are_wrong_are_not_proved(tmp_path: Path, what: str) -> None:
    side, right, wrong = WRONG_BLOCKS[what]

    def change(text: str) -> str:
        assert right in text
        return text.replace(right, wrong)

    how = Steps(layers=2, mb=2, dp=2, spec_mb=True)
    rank, spec = (change, str) if side == "rank" else (str, change)
    job = training_step(tmp_path, how, rank=rank, spec=spec)
    assert proved(job) is None


def test_ranks_that_speak_inside_of_blocks_are_not_blocks(tmp_path: Path) -> None:
    """One block of the specification says nothing about what ranks of several blocks tell each other."""

    def change(text: str) -> str:
        for tag in ("b0", "b1"):
            text = text.replace(f"ra0_{tag} = ", f'n0_{tag} = all_reduce(aa0_{tag}, "sum", "dp")\nra0_{tag} = ')
        return text

    how = Steps(layers=2, mb=2, dp=2, spec_mb=True)
    assert proved(training_step(tmp_path, how)) is not None
    assert proved(training_step(tmp_path / "other", how, rank=change)) is None


@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize("count", ["c{k} = aten.t.default(x{k})\n", COUNTED], ids=["moved", "counted"])
def test_sums_of_what_pieces_compute_anew(tmp_path: Path, count: str, wrong: bool) -> None:
    """Counts of tokens, and blocks in another shape, are handed on by nobody, but they may be what is added up."""
    number = 8

    def program(block: str, other: int) -> str:
        given = f"x: float32[{4 * number}, 6]\nn: int64[{4 * number}, 6]\nw: float32[6, 6]\n"
        for k in range(number):
            cut = f"0, {4 * k}, {4 * k + 4}"
            given += f"x{k} = aten.slice.Tensor(x, {cut})\nn{k} = aten.slice.Tensor(n, {cut})\n"
        blocks = "".join(f"a{k} = mm(x{k}, w)\n" + (block + count).format(k=k) for k in range(number))
        total, counted = "b0", "c0"
        for k in range(1, number):
            blocks += f"p{k} = add({total}, b{k})\nq{k} = add({counted}, c{other if k == number - 1 else k})\n"
            total, counted = f"p{k}", f"q{k}"
        return f"{given}{blocks}-> y={total}, z={counted}"

    one = "h{k} = mul(a{k}, 2)\ns{k} = aten.sigmoid.default(h{k})\nd{k} = mul(s{k}, 2)\nb{k} = sub(d{k}, 1)\n"
    ours, theirs = program("b{k} = tanh(a{k})\n", number - 1), program(one, 0 if wrong else number - 1)
    tables = '[inputs]\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'
    found = proved(read_job(job_files(tmp_path, ours, [theirs], tables, {}, {})))
    assert wrong == (found is None or found.outputs[1].verdict is not Verdict.PROVED)
