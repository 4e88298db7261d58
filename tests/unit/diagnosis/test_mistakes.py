"""Generated mistakes in a model of three layers on two ranks: the place and the kind are said.

``benchmarks/bench_diagnosis.py`` does the same with captured models."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import job_files
from tantamount import read_job
from tantamount.answers import refine
from tantamount.errors import UserError
from tantamount.ir.job import Job
from tantamount.samples.mutants.edits import NotAProgram
from tantamount.samples.mutants.mistakes import Class, Mistake, mistakes
from tantamount.verdict import Mismatch, Verdict

LAYER = """
    u{k}: float32[6, {wide}]
    d{k}: float32[{wide}, 6]
    b{k}: float32[6]
    h{k} = mm({x}, u{k})
    g{k} = aten.gelu.default(h{k})
    p{k} = mm(g{k}, d{k})
    {reduced}
    a{k} = add({r}, b{k})
    x{k} = add({x}, a{k})
"""
LAYERS = 3
TABLES = (
    "[inputs]\n" + "".join(f'u{k} = "Shard(1)"\nd{k} = "Shard(0)"\n' for k in range(LAYERS))
    + 'default = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'
)  # fmt: skip


def layers(wide: int, *, ranks: bool) -> str:
    text, x = "x: float32[4, 6]\n", "x"
    for k in range(LAYERS):
        reduced = f'r{k} = all_reduce(p{k}, "sum", "tp")' if ranks else ""
        text += LAYER.format(k=k, wide=wide, x=x, reduced=reduced, r=f"r{k}" if ranks else f"p{k}")
        x = f"x{k}"
    return f"{text}y = aten.sin.default({x})\n-> y"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder: Path = tmp_path_factory.mktemp("layers")
    rank = layers(4, ranks=True)
    return read_job(job_files(folder, layers(8, ranks=False), [rank, rank], TABLES, {"tp": 2}, {"tp": ("tp",)}))


def _made(kind: Class, job: Job) -> tuple[Mistake, Mismatch]:
    """The first mistake of a class that changes the output, and what is said of it."""
    for mistake in mistakes(job, 1):
        if mistake.kind is not kind:
            continue
        try:
            report = refine(mistake.build())
        except (NotAProgram, UserError):
            continue
        if report.verdict is Verdict.REFUTED:
            assert report.mismatch is not None
            return mistake, report.mismatch
    raise AssertionError(f"no mistake: {kind.title}")


MADE = [
    Class.REDUCTION_MISSING, Class.REDUCTION_TWICE, Class.SCALED, Class.STEP_MISSING, Class.STEP_TWICE, Class.FUNCTION,
    Class.TENSOR, Class.ADDED_BEFORE,
]  # fmt: skip


@pytest.mark.parametrize("kind", MADE, ids=lambda kind: kind.name.lower())
def test_a_mistake_is_named_where_it_was_made(kind: Class, job: Job) -> None:
    mistake, found = _made(kind, job)
    assert found.implementation in mistake.places, (mistake.what, found.headline)
    assert found.kind in kind.kinds, (mistake.what, found.headline)


def test_the_program_without_mistakes_is_proved(job: Job) -> None:
    assert refine(job).verdict is Verdict.PROVED


def test_what_is_said_does_not_depend_on_the_layer(job: Job) -> None:
    """The same mistake in the first and in the last of the layers."""
    wanted = [one for one in mistakes(job, 1) if one.kind is Class.REDUCTION_MISSING]
    assert sorted(one.node for one in wanted) == ["r0", "r1", "r2"]
    for one in wanted:
        found = refine(one.build()).mismatch
        assert found is not None
        layer = one.node[1:]
        assert found.headline.startswith(f"a sum over tp is missing after p{layer}: "), found.headline
        assert found.hint == f"all_reduce, or reduce_scatter, p{layer} over tp"
