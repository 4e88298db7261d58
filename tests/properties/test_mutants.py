"""A small share of ``benchmarks/mutants.py``: mutants of small proved jobs, judged by execution, given to the prover.

None that differs is proved, none that is equal is refuted, nothing crashes, nearly all that are equal are proved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.amount import count
from support.jobs import job_files
from support.mutants import corpus
from support.mutants.campaign import Figures, Outcome, prepare, run_task, tasks
from support.mutants.classify import DIFFERENT, EQUAL, classify, subject_of
from support.mutants.reproducer import write_mutant
from tantamount import read_job
from tantamount.answers import refine
from tantamount.ir.graph import Argument, Graph, Node, Ref
from tantamount.ir.job import Job
from tantamount.samples.mutants.edits import changed, with_literal

MUTANTS = count(60, 120)  # proposals; about half of them type-check
SEED = 7
NOT_KNOWN = {"rewrite: relu(x) - relu(-x)", "rewrite: relu as x [x > 0]"}  # identities of maxima that have no rule


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    paths = [*corpus.examples(), *corpus.small(tmp_path_factory.mktemp("small"))]
    paths = [path for path in paths if path.parent.name != "gpt_tp2"][::2]
    sizes = {str(path): len(prepare(str(path), SEED).proposals) for path in paths}
    return Figures([o for task in tasks(sizes, SEED, MUTANTS, 10.0) for o in run_task(task)])


def test_no_different_mutant_is_proved(figures: Figures) -> None:
    assert [(o.job, o.what, o.classes) for o in figures.unsound] == []
    assert len(figures.of(DIFFERENT)) >= 20


def test_no_equal_mutant_is_refuted_and_nothing_crashes(figures: Figures) -> None:
    assert [(o.job, o.what, o.problem) for o in (*figures.slandered, *figures.crashed)] == []


def test_equal_mutants_are_proved(figures: Figures) -> None:
    equal = figures.of(EQUAL)
    assert len(equal) >= 5
    surprising = [o for o in figures.unproved if o.kind.split(", one")[0] not in NOT_KNOWN]
    assert [(o.job, o.kind, o.what) for o in surprising] == []


def test_the_same_seed_gives_the_same_mutants() -> None:
    (path,) = [path for path in corpus.examples() if path.parent.name == "mlp_tp2"]
    first, second = (prepare(str(path), SEED).proposals for _ in range(2))
    assert [(p.kind, p.what) for p in first] == [(p.kind, p.what) for p in second]
    assert [p.what for p in first] != [p.what for p in prepare(str(path), SEED + 1).proposals]


# ------------------------------------------------------------------------------------------------ the judge
NORM = """
    x: float64[4, 6]
    m = aten.mean.dim(x, [1], True)
    c = sub(x, m)
    q = mul(c, c)
    v = aten.mean.dim(q, [1], True)
    e = aten.add.Scalar(v, 1e-05)
    r = aten.rsqrt.default(e)
    y = mul(c, r)
    ids: int64[3]
    rows = aten.index_select.default(y, 0, ids)
    big = ge(ids, 3)
    last = aten.sum.default(big)
    -> y, rows, last
"""


@pytest.fixture
def norm(tmp_path: Path) -> Job:
    folder = tmp_path / "job"
    folder.mkdir()
    return read_job(job_files(folder, NORM, [NORM], '[inputs]\ndefault = "Replicate()"', {}, {}))


def _put(position: int, value: Argument) -> Callable[[Graph, Node], tuple[Node, ...]]:
    return lambda graph, node: (with_literal(node, (position,), value),)


@pytest.mark.parametrize(
    ("node", "position", "value", "different"),
    [
        ("e", 1, 1.0001e-05, {"y", "rows"}),  # 5e-10 of y where x is of size 1
        ("c", 1, Ref("x"), {"y", "rows"}),
        ("big", 1, 2, {"last"}),
        ("q", 1, Ref("x"), set[str]()),  # the sum of c is 0: v is the same
    ],
    ids=["a digit of epsilon", "x - x", "one bound", "variance otherwise"],
)
def test_what_differs_is_found(norm: Job, node: str, position: int, value: Argument, different: set[str]) -> None:
    subject = subject_of(_expecting(norm))
    classes = classify(subject, changed(subject.job, frozenset([0]), node, _put(position, value)))
    assert {name for name, found in classes.items() if found != EQUAL} == different


def _expecting(job: Job) -> Job:
    relation = next(iter(job.inputs.values()))
    outputs = {
        name: replace(expectation, placements=relation.placements, text="Replicate()")
        for name, expectation in job.outputs.items()
    }
    return replace(job, outputs=outputs)


def test_a_wrong_proof_is_reported() -> None:
    classes, verdicts = {"y": DIFFERENT, "z": EQUAL}, dict.fromkeys("yz", "PROVED")
    wrong = Outcome("job", "job.toml", 0, "constant", "", "PROVED", classes, verdicts)
    assert wrong.unsound == ("y",)
    assert not replace(wrong, classes={"y": EQUAL, "z": EQUAL}).unsound
    undefined = replace(wrong, classes={"y": "undefined"})
    assert undefined.unsound == ("y",)
    assert not replace(undefined, problem="assumes domains").unsound
    assert replace(wrong, said="REFUTED", verdicts={"y": "PROVED", "z": "REFUTED"}).slandered == ("z",)


def test_a_reproducer_is_the_mutant(tmp_path: Path) -> None:
    for number, path in enumerate(corpus.small(tmp_path)[:6]):
        prepared = prepare(str(path), SEED)
        assert not prepared.skipped
        again = read_job(write_mutant(tmp_path / str(number), prepared.subject.job, "unchanged\nat all"))
        assert refine(again).exit_code == 0
