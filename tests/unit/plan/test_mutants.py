"""Plans with one mistake: none is proved, and each is refuted where it is wrong."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from support.jobs import typed_graph
from support.plans import GROUPS, verified, write_plan
from tantamount.capture.graph_document import graph_document
from tantamount.capture.programs import write_document
from tantamount.cli.main import app
from tantamount.plan.mutants import EDITS, KINDS, PlanMutant, plan_mutants, write_mutant
from tantamount.plan.read import read_plan
from tantamount.plan.result import PlanReport
from tantamount.verdict import Verdict


def wrong_places(report: PlanReport) -> Sequence[str]:
    """What of a plan is not right, as mutants name it."""
    found = [part.part for part in report.parts if part.verdict is not Verdict.PROVED]
    found += ["stages"] if report.ownership else []
    found += ["schedule"] if report.schedule else []
    return [*found, "joints"] if any(joint.problem for joint in report.joints) else found


def test_mutants_are_refuted_where_they_are_wrong(tmp_path: Path) -> None:
    plan = write_plan(tmp_path)
    kinds: set[str] = set()
    for number, mutant in enumerate(islice(plan_mutants(read_plan(plan), 1), 11)):
        if mutant.kind in ("wrong primitive", "communication superfluous", "scaling"):
            continue  # benchmarks/plan_mutants.py has all
        report = verified(write_mutant(mutant, plan, tmp_path / f"m{number}"))
        assert report.verdict is Verdict.REFUTED, f"{mutant.kind}: {mutant.what}\n{report.text()}"
        assert mutant.place in wrong_places(report), f"{mutant.what}: {wrong_places(report)}"
        kinds.add(mutant.kind)
    assert len(kinds) >= 8
    assert kinds <= set(KINDS)


def test_one_piece_alone_becomes_a_part(tmp_path: Path) -> None:
    plan = write_plan(tmp_path)
    alone = next(m for m in plan_mutants(read_plan(plan), 3) if "alone" in m.what)
    report = verified(write_mutant(alone, plan, tmp_path / "odd"))
    assert alone.place.startswith("odd_")
    assert report.verdict is Verdict.REFUTED
    assert wrong_places(report) == [alone.place]


def test_mutants_are_the_same_for_a_seed(tmp_path: Path) -> None:
    plan = read_plan(write_plan(tmp_path))

    def first(seed: int) -> list[PlanMutant]:
        return list(islice(plan_mutants(plan, seed), 12))

    assert [m.what for m in first(5)] == [m.what for m in first(5)]
    assert [m.what for m in first(5)] != [m.what for m in first(6)]


def test_they_are_written_by_the_command(tmp_path: Path) -> None:
    plan = write_plan(tmp_path)
    arguments = ["plan", "mutate", str(plan), "-o", str(tmp_path / "out"), "--count", "2", "--kind", "synchronisation"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.count("early synchronisation") == 2
    report = verified(tmp_path / "out" / "001" / "plan.toml")
    assert report.verdict is Verdict.REFUTED
    assert CliRunner().invoke(app, [*arguments[:-1], "nonsense"]).exit_code == 2


# A loss whose gradient each tensor-parallel rank computes half of, so that ranks run different programs.
HALF = """
    x: float32[4, 4]
    q = mul(x, x)
    t = sum(q)
    loss = div(t, 64)
    own = slice(x, 1, {0}, {1})
    half = div(own, 32)
    turned = t(half)
    rows = all_gather(turned, 2, "tp")
    d_x = t(rows)
    -> loss, d_x
"""


def with_halves(folder: Path) -> Path:
    """The small plan with two programs of its last part, by tensor-parallel rank."""
    names = [f"last.{rank}.json.gz" for rank in range(2)]
    for rank, name in enumerate(names):
        graph = typed_graph(HALF.format(2 * rank, 2 * rank + 2), GROUPS)
        write_document(folder / name, graph_document(graph))
    return write_plan(folder, edit=lambda table: table["part"]["last"].update(impl={"tp": names}))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_mutants(kind: str, tmp_path: Path) -> None:
    plan = read_plan(with_halves(tmp_path) if kind == "partitioning" else write_plan(tmp_path))
    assert any(mutant.kind == kind for mutant in islice(plan_mutants(plan, 2), 60))


def test_ranks_with_each_other_s_programs_are_refuted(tmp_path: Path) -> None:
    plan = with_halves(tmp_path)
    assert verified(plan).verdict is Verdict.PROVED
    mutant = next(m for m in plan_mutants(read_plan(plan), 2) if m.kind == "partitioning")
    report = verified(write_mutant(mutant, plan, tmp_path / "exchanged"))
    assert report.verdict is Verdict.REFUTED, mutant.what
    assert wrong_places(report) == ["last"] == [mutant.place]


def test_a_maximum_is_taken_over_no_more_ranks(tmp_path: Path) -> None:
    """It is taken off before exponentials, so that it may be that of more ranks; nor is a group of the same ranks
    another one."""

    def groups(table: dict[str, Any]) -> None:
        table["mesh"]["groups"] = {"dp+tp": ["dp", "tp"], "tp alone": ["tp"]}

    part = read_plan(write_plan(tmp_path, edit=groups)).parts["layer"]
    graph = part.job.implementation[0]
    node = next(node for node in graph.nodes if "all_reduce" in node.target)

    def others(kind: str) -> set[str]:
        changed = replace(node, args=(node.args[0], kind, node.args[2]))
        found = (EDITS["wrong group"](graph, changed, part, random.Random(seed)) for seed in range(20))
        return {one[0].partition(" is over ")[2] for one in found if one is not None}

    assert others("sum") == {"dp", "dp+tp"}
    assert others("max") == {"dp"}


def test_parts_begin_and_end_too_far_inside(tmp_path: Path) -> None:
    """Beyond the first and the last rank there is nothing, so that it does not matter who looks for it."""
    text = "tokens: int64[4]\nbelow = lt(tokens, {0})\nabove = ge(tokens, {1})\n-> below, above"
    graphs = [typed_graph(text.format(4 * k, 4 * k + 4), GROUPS) for k in range(2)]
    part = read_plan(write_plan(tmp_path)).parts["layer"]
    part = replace(part, job=replace(part.job, implementation=tuple(graphs)))
    found = [
        EDITS["partitioning"](graph, node, part, random.Random(0))
        for graph in graphs
        for node in graph.nodes
        if node.op == "call"
    ]
    assert [one[0] for one in found if one is not None] == [
        "below begins at 1 and not 0", "above ends at 3 and not 4", "below begins at 5 and not 4",
        "above ends at 7 and not 8",
    ]  # fmt: skip
