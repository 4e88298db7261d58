"""Hand-made reports, one of every verdict."""

from __future__ import annotations

from tantamount.ir.graph import Source
from tantamount.verdict import (
    Assumption,
    Counterexample,
    Mismatch,
    OutputReport,
    Relation,
    Report,
    Statistics,
    Verdict,
)

STATISTICS = Statistics(
    specification_nodes=120,
    implementation_nodes=150,
    ranks=2,
    folded=True,
    atoms=31,
    terms=77,
    seconds={"read": 0.25, "specification": 0.5},
    peak_memory_bytes=100 * 2**20,
    rules={"layout": 12, "weighted-sums": 3},
)


def proved(job: str = "job.toml") -> Report:
    """One output, one assumption, one relation besides the output's."""
    relation = Relation("div_2", "Replicate()", "div_2")
    return Report(
        job=job,
        verdict=Verdict.PROVED,
        outputs=(OutputReport("div_2", Verdict.PROVED, relation, "Replicate()"),),
        outputs_total=1,
        assumptions=(
            Assumption("real-arithmetic", "casts between float types are the identity", ("a", "b", "c", "d", "e")),
        ),
        relations=(
            relation,
            Relation("mm", "Shard(1)", "mm_1", Source("model.py", 12, "forward", "return x @ w")),
        ),
        mismatch=None,
        counterexample=None,
        statistics=STATISTICS,
    )


def refuted(job: str = "wrong.toml") -> Report:
    """A sum of two means where one mean is wanted, with a counterexample; two of nineteen outputs were checked."""
    return Report(
        job=job,
        verdict=Verdict.REFUTED,
        outputs=(
            OutputReport(
                "loss", Verdict.REFUTED, None, "Replicate()", reason="the implementation's value is 2x too large"
            ),
            OutputReport("x", Verdict.PROVED, Relation("x", "Shard(0)", "x_1"), "infer", notes=("this sums over tp",)),
        ),
        outputs_total=19,
        assumptions=(),
        relations=(),
        mismatch=Mismatch(
            specification="mean",
            operator="aten.mean.default",
            difference="a factor: 2x too large\n(sum of two means)",
            implementation="add_3",
            implementation_operator="aten.add.Tensor",
            specification_source=Source("spec.py", 7, "forward", "loss = y.mean()"),
            implementation_source=Source("impl.py", 40),
            rank=1,
            equations=("specification   1/8 SUM y", "implementation  1/4 SUM y"),
        ),
        counterexample=Counterexample(
            output="loss",
            element=(),
            expected=0.5,
            actual=1.0,
            rank=1,
            inputs={"y": [[0.5, float(column)] for column in range(8)], "scale": 2.0},
            seed=3,
        ),
        statistics=STATISTICS,
    )


def unknown(job: str = "open.toml") -> Report:
    """No counterpart at all, a refused assumption."""
    return Report(
        job=job,
        verdict=Verdict.UNKNOWN,
        outputs=(OutputReport("loss", Verdict.UNKNOWN, None, "infer", reason="no counterpart for sort_1"),),
        outputs_total=1,
        assumptions=(),
        relations=(),
        mismatch=Mismatch("sort_1", "aten.sort.default", "its value appears nowhere"),
        counterexample=None,
        statistics=STATISTICS,
        notes=("an engine limit: 10 terms",),
        refused=("dropout: equal masks",),
    )


def vacuous(job: str = "empty.toml") -> Report:
    """Nothing was checked."""
    return Report(job, Verdict.VACUOUS, (), 4, (), (), None, None, STATISTICS)
