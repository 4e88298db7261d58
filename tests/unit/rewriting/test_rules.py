"""Rules that users give: what is known of them, where they apply, and what a verdict then rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import tantamount as tt
from support.jobs import job_files, typed_graph
from tantamount.capture.rule_files import load_rules, read_rules
from tantamount.cli.main import app
from tantamount.effort import Effort
from tantamount.errors import UserError
from tantamount.ir.graph import Graph, reading
from tantamount.ir.job import UserRule
from tantamount.limits import Bounds, Limits
from tantamount.ops.check import check_graph
from tantamount.refinement.job import refine_job
from tantamount.rewriting.apply import Rewritten, rewritten
from tantamount.rewriting.evidence import Standing, evidence_of
from tantamount.rewriting.match import Pattern, occurrences
from tantamount.rewriting.settle import with_rules

X = 'inputs = { x = "float32[B, N]" }'
DOUBLED = f"""[rules.doubled]
{X}
left = "aten.relu.default(x) + x"
right = "x * 2"
"""
ASINH = f"""[rules.asinh]
{X}
left = "aten.asinh.default(x)"
right = "aten.log.default(x + aten.sqrt.default(x*x + 1))"
"""
HALVES = f"""[rules.halves]
{X}
where = ["N % 2 == 0"]
left = "aten.sum.dim_IntList(x, [1])"
right = "aten.sum.dim_IntList(x[:, :N//2], [1])"
"""


def rules(tmp_path: Path, text: str) -> tuple[UserRule, ...]:
    file = tmp_path / "rules.toml"
    file.write_text(f'format = "rules/1"\n{text}')
    return read_rules(file)


def rule(tmp_path: Path, text: str) -> UserRule:
    return rules(tmp_path, text)[0]


def job_file(folder: Path, specification: str, *ranks: str, x: str = "Replicate()") -> Path:
    mesh = {"dp": len(ranks)} if len(ranks) > 1 else {}
    tables = f'[inputs]\nx = "{x}"\n[outputs]\ny = "Replicate()"'
    return job_files(folder, specification, ranks, tables, mesh, {"dp": ("dp",)} if mesh else {})


def standing(one: UserRule) -> Standing:
    return evidence_of(one, Limits(), Effort()).standing


def graph(text: str) -> Graph:
    return typed_graph(text)


def used(one: UserRule, text: str, *, first: bool = True) -> Rewritten:
    return rewritten(
        graph(text), None, [Pattern.of(one)], lambda given: evidence_of(given, Limits(), Effort()),
        first=first, limits=Limits(), effort=Effort(),
    )  # fmt: skip


def places(one: UserRule, text: str) -> list[Mapping[str, str]]:
    program = graph(text)
    return [found.inputs for found in occurrences(Pattern.of(one), program, check_graph(program, None), Effort())]


# ---------------------------------------------------------------------------------------------- evidence
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (DOUBLED, Standing.REFUTED),
        (DOUBLED + 'holds = "x > 0"', Standing.PROVED),
        (DOUBLED + 'holds = "x > -1"', Standing.REFUTED),
        (DOUBLED + 'holds = "(x > 0) & (x < 0)"', Standing.REJECTED),
        (ASINH, Standing.TESTED),
        (ASINH.replace("+ 1)", "+ 1.000001)"), Standing.REFUTED),
        (ASINH.replace("N]", "4]").replace("B,", "2,"), Standing.TESTED),
    ],
)
def test_what_is_known_of_a_rule(tmp_path: Path, text: str, wanted: Standing) -> None:
    assert standing(rule(tmp_path, text)) is wanted


ONE = '[rules.one]\ninputs = { x = "float32[B, N]", y = "float32[B, N]" }\n'


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("aten.asinh.default(aten.clamp.default(x, -20000.0, 20000.0)) * y", "aten.asinh.default(x) * y"),  # far away
        ("aten.asinh.default(x) * aten.relu.default(x - 150) + y", "x * 0 + y"),
        (
            "aten.where.self(x > y, aten.asinh.default(x), x)",
            "aten.where.self(x >= y, aten.asinh.default(x), x)",
        ),  # ties
        ("aten.asinh.default(x) + y", "aten.asinh.default(aten.abs.default(x)) + y"),  # negative
        (
            "aten.asinh.default(x) + y * 0",
            "aten.asinh.default(x) + y * (aten.sum.default(x * 0 + 1) - 6) * 1e-3",
        ),  # a size
        ("aten.where.self(x == 3, aten.asinh.default(y), y)", "y * 1"),  # at one number
        ("aten.where.self(x * 8 > 7000, aten.asinh.default(y), y)", "y * 1"),  # beyond a quotient
    ],
)
def test_what_is_wrong_somewhere_is_refuted(tmp_path: Path, left: str, right: str) -> None:
    assert standing(rule(tmp_path, f'{ONE}left = "{left}"\nright = "{right}"')) is Standing.REFUTED


@pytest.mark.parametrize(
    ("holds", "wanted"),
    [
        ("x * x < x - 1", "no input satisfies its condition"),
        ("x == 0.3", "proved"),
        ("(x > 1) & (x < 1.0001)", "proved"),
    ],
)
def test_conditions_that_drawing_misses_are_solved(tmp_path: Path, holds: str, wanted: str) -> None:
    pytest.importorskip("z3")
    text = f'{X}\nholds = "{holds}"\nleft = "aten.relu.default(x) + x"\nright = "x * 2"\n'
    assert wanted in evidence_of(rule(tmp_path, f"[rules.one]\n{text}"), Limits(), Effort()).text


def test_a_condition_about_integers(tmp_path: Path) -> None:
    """What is added by a table is read back by it only if no entry comes twice."""
    text = '[rules.one]\ninputs = { t = "int64[3]", c = "float32[5, 2]", k = "float32[3, 2]" }\nright = "k * 1"\n'
    added = "aten.index_select.default(aten.index_add.default(0 * c, 0, t, k), 0, "
    pairs = "aten.eq.Tensor(aten.unsqueeze.default(t, 0), aten.unsqueeze.default(t, 1))"
    holds = f'holds = "aten.sum.dim_IntList({pairs}, [0]) == 1"\n'
    right, wrong = (f'{text}left = "{added}{place})"\n' for place in ("t", "aten.flip.default(t, [0])"))
    assert standing(rule(tmp_path, right + holds)) in (Standing.PROVED, Standing.TESTED)  # z3, where it is installed
    assert [standing(rule(tmp_path, one)) for one in (right, wrong + holds)] == [Standing.REFUTED] * 2


def test_z3_proves_what_forms_do_not_show(tmp_path: Path) -> None:
    pytest.importorskip("z3")
    text = ONE + 'left = "aten.where.self(x * x > 4, y, x)"\n'
    right = 'right = "aten.where.self(aten.logical_or.default(x > 2, x < -2), y, x)"'
    found = evidence_of(rule(tmp_path, text + right), Limits(), Effort())
    assert found.text == "proved by z3 for all sizes with B >= 1, N >= 1"
    assert found.everywhere
    assert standing(rule(tmp_path, text + right.replace("x < -2", "x <= -2"))) is Standing.REFUTED


def test_a_rule_that_hides_where_its_left_side_is_undefined_is_for_the_first_program(tmp_path: Path) -> None:
    left, right = "aten.log.default(x + aten.sqrt.default(x*x + 1)) * (x / x)", "aten.asinh.default(x)"
    one = rule(tmp_path, f'[rules.one]\n{X}\nleft = "{left}"\nright = "{right}"\n')
    found = evidence_of(one, Limits(), Effort())
    assert (found.standing, found.first_only) == (Standing.TESTED, True)


def test_a_proof_says_for_which_sizes_it_is_one(tmp_path: Path) -> None:
    right = 'right = "aten.sum.dim_IntList(aten.slice.Tensor(x, 1, 0, N//2), [1])'
    whole = right + ' + aten.sum.dim_IntList(aten.slice.Tensor(x, 1, N//2, N), [1])"'
    text = HALVES[: HALVES.index("right")]
    found = evidence_of(rule(tmp_path, text + whole), Limits(), Effort())
    assert found.text == "proved for all sizes with B >= 1, N >= 2, N % 2 == 0"
    assert found.everywhere
    assert standing(rule(tmp_path, text + right + '"')) is Standing.REFUTED


def test_a_rule_that_is_wrong_at_one_size_is_refuted_there(tmp_path: Path) -> None:
    text = DOUBLED.replace("aten.relu.default(x) + x", "aten.sum.dim_IntList(x, [1], True) + x * 0")
    assert "at B = " in evidence_of(rule(tmp_path, text.replace("x * 2", "x")), Limits(), Effort()).text


# ---------------------------------------------------------------------------------------------- what makes no rule
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (DOUBLED.replace("x * 2", "aten.dropout.default(x, 0.5, True)"), "draws, communicates or overwrites"),
        (DOUBLED.replace("x * 2", "aten.relu_.default(x)"), "draws, communicates or overwrites"),
        (DOUBLED.replace("aten.relu.default(x) + x", "x"), "an input or a constant alone"),
        (DOUBLED.replace("x * 2", "aten.sum.default(x)"), "one type"),
        (DOUBLED.replace("{ x", '{ y = "float32[B]", x'), "inputs that it does not read: y"),
        (DOUBLED + 'where = ["N < 1"]', "no sizes satisfy|some sizes satisfy"),
        (DOUBLED + 'where = ["N % 2 == 0", "N == 3"]', "some sizes satisfy"),
        (DOUBLED + 'holds = "x"', "not boolean"),
        (DOUBLED.replace("x * 2", "__import__('os')"), "ImportError|unknown operator|calls of operators|__import__"),
        (DOUBLED.replace("x * 2", "y * 2"), "y"),
    ],
)  # fmt: skip
def test_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        rule(tmp_path, text)


# ---------------------------------------------------------------------------------------------- where it occurs
RELU = "x: float32[4, 6]\na = relu(x)\n"


def test_operands_that_can_be_exchanged_are(tmp_path: Path) -> None:
    one = rule(tmp_path, DOUBLED)
    assert places(one, RELU + "y = add(a, x)\n-> y") == [{"x": "x"}]
    assert places(one, RELU + "y = add(x, a)\n-> y") == [{"x": "x"}]
    assert places(one, RELU + "c = aten.clone.default(a)\ny = add(x, c)\n-> y") == [{"x": "x"}]


def test_what_another_rule_replaced_is_not_rewritten(tmp_path: Path) -> None:
    """A rule that applies to a node between what another takes the place of has nothing left to do."""
    inner, outer = (
        rule(tmp_path, f'[rules.{name}]\ninputs = {{ x = "float32[n]" }}\nleft = "{left}"\nright = "{right}"')
        for name, left, right in (
            ("twice", "aten.add.Tensor(x, x)", "aten.mul.Tensor(x, 2)"),
            ("negative", "aten.neg.default(aten.add.Tensor(x, x))", "aten.mul.Tensor(x, -2)"),
        )
    )
    found = rewritten(
        graph("x: float32[5]\na = aten.add.Tensor(x, x)\ny = aten.neg.default(a)\n-> y"), None,
        [Pattern.of(one) for one in (inner, outer)], lambda given: evidence_of(given, Limits(), Effort()),
        first=True, limits=Limits(), effort=Effort(),
    )  # fmt: skip
    assert [use.rule for use in found.uses] == ["negative"]
    assert [node.target for node in found.graph.nodes if node.op == "call"] == ["aten.mul.Tensor"]


def test_no_node_of_a_rule_is_called_as_one_of_the_program(tmp_path: Path) -> None:
    """What reads that one would read the rule's, which is computed later."""
    one = rule(tmp_path, '[rules.tripled]\ninputs = { x = "float32[n]" }\nleft = "x * 3"\nright = "x + (x + x)"\n')
    inner = next(node.name for node in one.sides.implementation[0].nodes if node.op == "call")
    given = graph("x: float32[5]\nother = aten.sin.default(x)\na = mul(x, 3)\ny = add(a, other)\n-> y")
    names = {"other": f"rule.a.{inner}"}
    nodes = tuple(replace(reading(node, names), name=names.get(node.name, node.name)) for node in given.nodes)
    found = rewritten(
        replace(given, nodes=nodes), None, [Pattern.of(one)], lambda given: evidence_of(given, Limits(), Effort()),
        first=True, limits=Limits(), effort=Effort(),
    )  # fmt: skip
    assert len(found.uses) == 1
    assert len(found.graph.by_name) == len(found.graph.nodes)


@pytest.mark.parametrize("most", [-1, 0])
def test_ways_of_matching_are_bounded_and_it_is_said(tmp_path: Path, most: int) -> None:
    program, effort = graph(RELU + "y = add(a, x)\n-> y"), Effort(bounds=replace(Bounds(), rewriting_matches=most))
    found = list(occurrences(Pattern.of(rule(tmp_path, DOUBLED)), program, check_graph(program, None), effort))
    assert (len(found), "rewriting_matches" in effort.hits) == ((0, True) if most < 0 else (1, False))


@pytest.mark.parametrize(
    "text",
    [
        "b: float32[4, 6]\ny = add(a, b)\n-> y",  # of something else
        "y = aten.add.Tensor(a, x, alpha=2)\n-> y",  # another attribute
        "y = sub(a, x)\n-> y",
    ],
)
def test_what_is_no_occurrence(tmp_path: Path, text: str) -> None:
    assert not places(rule(tmp_path, DOUBLED), RELU + text)


def test_sizes_must_satisfy_the_conditions(tmp_path: Path) -> None:
    text = HALVES.replace("x[:, :N//2]", "aten.slice.Tensor(x, 1, 0, N//2)")
    assert places(rule(tmp_path, text), "x: float32[2, 6]\ny = sum_dims(x, [1])\n-> y")
    assert places(rule(tmp_path, text), "x: float32[2, 6]\ny = sum_dims(x, [-1])\n-> y")
    assert not places(rule(tmp_path, text), "x: float32[2, 7]\ny = sum_dims(x, [1])\n-> y")
    assert not places(rule(tmp_path, text), "x: float32[2, 6]\ny = sum_dims(x, [0])\n-> y")


# ---------------------------------------------------------------------------------------------- where it is sound
def test_a_condition_must_be_shown(tmp_path: Path) -> None:
    one = rule(tmp_path, DOUBLED + 'holds = "x > 0"')
    free = used(one, RELU + "y = add(a, x)\n-> y")
    assert not free.uses
    assert "not shown that its condition holds" in free.refused["doubled"]
    shown = used(one, "z: float32[4, 6]\nx = aten.exp.default(z)\na = relu(x)\ny = add(a, x)\n-> y")
    assert [(use.rule, use.node) for use in shown.uses] == [("doubled", "y")]
    assert [node.target for node in shown.graph.nodes if node.op == "call"] == ["aten.exp.default", "aten.mul.Tensor"]


def test_a_proof_about_real_numbers_is_used_for_real_numbers_only(tmp_path: Path) -> None:
    """log(0) - log(0) is NaN, and 0 log(0) is, too; but exp(-x) of the one and of the other is what a program may tell
    apart by a mask."""
    text = f'[rules.gone]\n{X}\nleft = "x - aten.relu.default(x)"\nright = "aten.minimum.default(x, x * 0)"'
    one = rule(tmp_path, text)
    assert standing(one) is Standing.PROVED
    assert used(one, "x: float32[4, 6]\na = relu(x)\ny = sub(x, a)\n-> y").uses
    assert not used(one, "z: float32[4, 6]\nx = aten.log.default(z)\na = relu(x)\ny = sub(x, a)\n-> y").uses


def test_a_left_side_that_may_be_undefined_is_left_alone(tmp_path: Path) -> None:
    text = f'[rules.inverse]\n{X}\nleft = "aten.div.Tensor(x, x)"\nright = "x * 0 + 1"'
    one = rule(tmp_path, text)
    assert standing(one) is Standing.PROVED  # wherever x / x is a number
    assert not used(one, "x: float32[4, 6]\ny = div(x, x)\n-> y").uses
    assert used(one, "z: float32[4, 6]\nx = aten.exp.default(z)\ny = div(x, x)\n-> y").uses


def test_indices_in_range_are_what_the_first_program_promises(tmp_path: Path) -> None:
    text = """[rules.rows]
inputs = { t = "float32[V, D]", i = "int64[N]" }
left = "aten.embedding.default(t, i) * 0"
right = "aten.full.default([N, D], 0.0)"
"""
    one = rule(tmp_path, text)
    program = "t: float32[5, 2]\ni: int64[3]\ne = embedding(t, i)\ny = mul(e, 0)\n-> y"
    assert used(one, program, first=True).uses
    assert not used(one, program, first=False).uses


def test_another_element_type_needs_a_proof_of_its_own(tmp_path: Path) -> None:
    text = f"""[rules.rms]
{X}
left = "aten.rms_norm.default(x, [N])"
right = "x * aten.rsqrt.default(aten.mean.dim(x*x, [-1], True) + 1.1920928955078125e-07)"
"""
    one = rule(tmp_path, text)
    assert used(one, "x: float32[2, 4]\ny = aten.rms_norm.default(x, [4])\n-> y").uses
    assert not used(one, "x: float64[2, 4]\ny = aten.rms_norm.default(x, [4])\n-> y").uses  # its eps is another
    eps = text.replace("[N])", "[N], None, 1e-6)").replace("1.1920928955078125e-07", "1e-6")
    assert used(rule(tmp_path, eps), "x: bfloat16[2, 4]\ny = aten.rms_norm.default(x, [4], None, 1e-6)\n-> y").uses


# ---------------------------------------------------------------------------------------------- verdicts
SPEC = "x: float32[2, 3]\na = aten.asinh.default(x)\ny = mul(a, a)\n-> y"
IMPL = """x: float32[2, 3]
s = mul(x, x)
o = add(s, 1)
r = aten.sqrt.default(o)
t = add(x, r)
l = aten.log.default(t)
y = mul(l, l)
-> y
"""


@pytest.mark.parametrize("most", [1, 3])
def test_rounds_of_rewriting_are_bounded_and_it_is_said(tmp_path: Path, most: int) -> None:
    job = tt.read_job(job_file(tmp_path, SPEC, IMPL))
    effort = Effort(bounds=replace(Bounds(), rewriting_rounds=most))
    found = refine_job(job, effort=effort)
    with_rules(
        found, job, rules(tmp_path, ASINH), refine_job, limits=Limits(), effort=effort, accept_tested=True
    )  # fmt: skip
    assert ("rewriting_rounds" in effort.hits) is (most == 1)


def test_a_rule_that_is_only_tested_is_no_proof(tmp_path: Path) -> None:
    subject = tt.read_job(job_file(tmp_path, SPEC, IMPL))
    assert tt.refine(subject).verdict is tt.Verdict.UNKNOWN
    one = rule(tmp_path, ASINH)
    report = tt.refine(subject, rules=[one])
    assert report.verdict is tt.Verdict.UNKNOWN
    assert report.exit_code == 3
    assert report.refused == ("tested-rules",)
    assert report.notes[0] == "PROVED up to tested rules asinh; --accept-tested takes them as they are"
    taken = tt.refine(subject, rules=[one], accept_tested=True)
    assert taken.proved
    assert [a.places for a in taken.assumptions if a.name == "tested-rules"] == [("a",)]
    assert not tt.refine(subject, rules=[one], accept_tested=True, strict=True).proved
    with pytest.raises(UserError, match="without its job"):
        taken.certificate()


@pytest.mark.parametrize("wrong", ["o = add(s, 2)", "t = sub(x, r)", "y = mul(l, 2)"])
def test_a_wrong_program_is_not_proved_by_a_rule(tmp_path: Path, wrong: str) -> None:
    head = wrong.split(" =")[0]
    text = "".join(f"{wrong if line.startswith(head + ' =') else line}\n" for line in IMPL.splitlines())
    report = tt.refine(tt.read_job(job_file(tmp_path, SPEC, text)), rules=[rule(tmp_path, ASINH)], accept_tested=True)
    assert report.verdict is tt.Verdict.REFUTED


def test_a_rule_that_is_only_tested_refutes_nothing(tmp_path: Path) -> None:
    """The rule is wrong at sizes that were not tried, and both programs are the same function."""
    text = """[rules.cut]
inputs = { x = "float32[B, N]" }
left = "aten.sum.dim_IntList(aten.asinh.default(x), [1])"
right = "aten.sum.dim_IntList(aten.slice.Tensor(aten.log.default(x + aten.sqrt.default(x*x + 1)), 1, 0, 64), [1])"
"""
    first = "x: float32[3, 128]\na = aten.asinh.default(x)\ny = aten.sum.dim_IntList(a, [1])\n-> y"
    second = (
        "x: float32[3, 128]\nq = mul(x, x)\np = add(q, 1)\nr = aten.sqrt.default(p)\ns = add(x, r)\n"
        "a = aten.log.default(s)\ny = aten.sum.dim_IntList(a, [1])\n-> y"
    )
    subject = tt.read_job(job_file(tmp_path, first, second))
    assert tt.refine(subject).verdict is tt.Verdict.UNKNOWN
    report = tt.refine(subject, rules=[rule(tmp_path, text)])
    assert report.verdict is tt.Verdict.UNKNOWN
    assert report.refused == ("tested-rules",)
    assert report.notes[0].startswith("REFUTED up to tested rules cut")


def test_a_wrong_rule_is_never_used(tmp_path: Path) -> None:
    wrong = rule(tmp_path, ASINH.replace("+ 1)", "+ 1.001)"))
    report = tt.refine(
        tt.read_job(job_file(tmp_path, SPEC, IMPL.replace("add(s, 1)", "add(s, 1.001)"))),
        rules=[wrong],
        accept_tested=True,
    )
    assert report.verdict is tt.Verdict.REFUTED
    report = tt.refine(tt.read_job(job_file(tmp_path, SPEC, IMPL)), rules=[wrong], accept_tested=True)
    assert report.verdict is tt.Verdict.UNKNOWN
    assert any(note.startswith("rule asinh was not used: it is wrong: ") for note in report.notes)


def test_ranks_are_rewritten_too(tmp_path: Path) -> None:
    specification = "x: float32[4, 3]\na = aten.asinh.default(x)\ny = sum(a)\n-> y"
    rank = IMPL.replace("y = mul(l, l)", 'p = sum(l)\ny = all_reduce(p, "sum", "dp")')
    both = tt.read_job(job_file(tmp_path, specification, rank, rank, x="Shard(0)"))
    report = tt.refine(both, rules=[rule(tmp_path, ASINH)], accept_tested=True)
    assert report.proved
    rank = rank.replace('all_reduce(p, "sum", "dp")', "add(p, 0)")
    lost = tt.read_job(job_file(tmp_path, specification, rank, rank, x="Shard(0)"))
    assert not tt.refine(lost, rules=[rule(tmp_path, ASINH)], accept_tested=True).proved


# ---------------------------------------------------------------------------------------------- the command line
def run(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return done.exit_code, done.output


def test_the_command_line(tmp_path: Path) -> None:
    path = job_file(tmp_path, SPEC, IMPL)
    file = tmp_path / "rules.toml"
    file.write_text(f'format = "rules/1"\n{ASINH}')
    for command in ("refine", "compare"):
        assert run(command, path)[0] == 3
        code, told = run(command, path, "--rules", file)
        assert code == 3
        assert "nobody accepted tested-rules" in told
        code, told = run(command, path, "--rules", file, "--accept-tested")
        assert code == 0
        assert "rules that are not proved hold: asinh: only tested" in told
    path.write_text(f"{path.read_text()}\n{ASINH}")  # a job's own
    assert run("refine", path, "--accept-tested")[0] == 0
    assert run("compare", path, "--accept-tested")[0] == 0


def test_the_evidence_is_printed(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(f'format = "rules/1"\n{ASINH}')
    code, told = run("rules", file)
    assert code == 3
    assert told.startswith("tested    asinh: only tested, on 48 random inputs")
    file.write_text(f'format = "rules/1"\n{ASINH}{DOUBLED}')
    assert run("rules", file)[0] == 1
    assert len(load_rules(file)) == 2
