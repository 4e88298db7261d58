"""Every bound of the table can be hit, by something small, and is then named."""

from __future__ import annotations

import doctest
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from support.calculus import Workbench
from support.jobs import job_files
from tantamount import limits, read_job
from tantamount.answers import compare as compare_programs
from tantamount.answers import refine
from tantamount.calculus.compare import equal
from tantamount.calculus.forms import Form, join_axes
from tantamount.calculus.polynomials import prime_powers
from tantamount.calculus.rebuild import refresh
from tantamount.calculus.unfold import define, unfolded
from tantamount.capture.rule_files import read_rules
from tantamount.correspond.alignment import align
from tantamount.effort import Effort
from tantamount.errors import TantamountError, Unsupported
from tantamount.ir.types import DType, Kind
from tantamount.limits import Bounds, Limits, bounds_table
from tantamount.ops.table import lookup
from tantamount.proof import Options, prove
from tantamount.reduction import reduce_job
from tantamount.rewriting.evidence import evidence_of
from tantamount.sizes.domain import Domain, Symbol
from tantamount.sizes.search import find_sizes, generic_sizes, small_sizes

RULES = Path(limits.__file__).parent / "explanations" / "rules.toml"
EVERYTHING = '[inputs]\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'
Work = Callable[[Effort, Path], object]


# ------------------------------------------------------------------------------------------------ the calculus
def compare(w: Workbench, x: object, y: object) -> None:
    equal(w.store, x.value, y.value)  # type: ignore[attr-defined]


def in_order(effort: Effort, _: Path) -> None:
    w = Workbench(effort)
    x, b = w.input("x", 2, 3), w.b
    _, chosen = lookup("aten.topk.default", "").define(b, x, 2)
    row, _ = lookup("aten.sort.default", "").define(b, b.reshape(chosen, (4,)))
    small = b.less(row, b.full((4,), 1, row.dtype))
    count = b.sum(b.cast(small, DType.INT64), (0,))
    compare(w, b.less(b.expand(count, (4,)), b.add(b.iota(4), 1)), b.not_(small))


def squares(effort: Effort, _: Path, power: int = 2) -> None:
    w = Workbench(effort)
    a, b = w.input("a", 4), w.input("b", 4)
    total = w.b.add(a, b)
    product = total
    for _ in range(power - 1):
        product = w.b.mul(product, total)
    compare(w, product, w.b.mul(w.b.mul(a, b), 2))


def late(effort: Effort, folder: Path) -> None:
    """Squares in a proof that took its fruitless steps, unless effort is normal."""
    if effort.bounds != Bounds():
        effort.bounds = replace(effort.bounds, fruitless_steps=-1)
    squares(effort, folder)


def masks(effort: Effort, _: Path) -> None:
    w = Workbench(effort)
    x = w.input("x", 6, 6)
    apart = w.b.sub(w.b.unsqueeze(w.b.iota(6), 1), w.b.iota(6))
    near = w.b.equal(apart, w.b.minimum(w.b.maximum(apart, 0), 2))
    even = w.b.equal(w.aten("aten.remainder.Scalar", apart, 2), 0)
    for condition in (near, even, w.b.less(x, 0), w.b.less(x, 1)):
        w.b.where(condition, x, w.b.number(0, x.dtype))


def functions(effort: Effort, _: Path) -> None:
    w = Workbench(effort)
    a, b = w.input("a", 4), w.input("b", 4)
    total = w.b.add(a, b)
    other = w.b.add(w.b.add(w.b.mul(a, a), w.b.mul(b, b)), w.b.mul(w.b.mul(a, b), 2))
    compare(w, w.b.function("tanh", w.b.mul(total, total)), w.b.function("tanh", other))


def places(effort: Effort, _: Path) -> None:
    w = Workbench(effort)
    n = w.input("n", 4, dtype=DType.INT64)
    found = w.b.equal(w.b.reshape(n, (4, 1)), w.b.reshape(w.b.iota(5), (1, 5)))
    inside = w.b.and_(w.b.not_(w.b.less(n, 0)), w.b.less(n, 5))
    compare(w, w.b.sum(w.b.cast(found, DType.INT64), [1]), w.b.cast(inside, DType.INT64))


def chosen_inside(effort: Effort, _: Path) -> None:
    w = Workbench(effort)
    x, y = w.input("x", 4), w.input("y", 4)
    both = [w.b.function("sin", v) for v in (w.b.maximum(x, y), w.b.minimum(x, y), x, y)]
    compare(w, w.b.add(both[0], both[1]), w.b.add(both[2], both[3]))


def angles(effort: Effort, _: Path) -> None:
    w = Workbench(effort)
    x, y = w.input("x", 4), w.input("y", 4)
    turned = w.b.mul(w.b.function("cos", x), w.b.function("cos", y))
    compare(w, turned, w.b.function("cos", w.b.add(x, y)))


def exponents(effort: Effort, _: Path) -> None:
    w = Workbench(effort)
    x, y, z = w.input("x", 4), w.input("y", 4), w.input("z", 4)
    w.b.exp(w.b.mul(z, w.b.add(x, y)))


def causal(effort: Effort, _: Path) -> None:
    w = Workbench(effort)
    x, s, b = w.input("x", 8), w.input("s", 8, 8), w.b

    def part(low: int, high: int, columns: int) -> object:
        weights = b.exp(b.slice(b.slice(s, 0, low, high), 1, 0, columns))
        rows = b.reshape(b.add(b.iota(high - low), low), (high - low, 1))
        later = b.less(rows, b.reshape(b.iota(columns), (1, columns)))
        return b.sum(b.div(b.slice(x, 0, low, high), b.sum(b.where(later, 0, weights), (1,))))

    compare(w, part(0, 8, 8), b.add(b.add(part(0, 2, 2), part(2, 5, 5)), part(5, 8, 8)))  # type: ignore[arg-type]


def loop(effort: Effort, _: Path) -> None:
    w = Workbench(effort)
    y, b = w.input("y", 2), w.b
    first, second = b.exp(b.select(y, 0, 0)), b.exp(b.select(y, 0, 1))
    compare(w, b.mul(b.exp(b.sum(b.mul(y, b.iota(2)))), b.sum(b.exp(y))), b.mul(second, b.add(first, second)))


def cut(effort: Effort, _: Path) -> None:
    w = Workbench(effort)
    x = w.input("x", 4)
    inner = w.b.exp(x)
    ((_, kept),) = inner.value.pieces
    leaf = w.input("cut", 4)
    ((_, hidden),) = leaf.value.pieces
    define(w.store, hidden[0][0][0][0], inner.value)
    list(unfolded(w.store, hidden, kept))


def joined(effort: Effort, _: Path) -> None:
    w = Workbench(effort)
    x = w.input("x", 8)
    first = w.b.exp(w.b.slice(x, 0, 0, 1))
    w.b.exp(x)
    assert w.store.redirects
    refresh(w.store, first.value.pieces[0][1])


def partial_sums(effort: Effort, _: Path) -> None:
    w = Workbench(effort)
    x = w.input("x", 8)
    w.b.add(w.b.sum(w.b.slice(x, 0, 0, 3)), w.b.sum(w.b.slice(x, 0, 5, 8)))


def tied(effort: Effort, _: Path) -> None:
    w = Workbench(effort)
    m = w.input("m", 4, 4)
    w.b.sum(w.b.mul(m, w.b.permute(m, (1, 0))))


def fractions(effort: Effort, _: Path) -> None:
    w = Workbench(effort)
    a, b, c = w.input("a", 4), w.input("b", 4), w.input("c", 4)
    total = w.b.add(w.b.exp(a), w.b.exp(b))
    w.b.add(w.b.add(w.b.div(a, total), w.b.mul(b, c)), c)


def products_of_matrices(effort: Effort, _: Path) -> None:
    w = Workbench(effort)
    m = w.input("m", 4, 4)
    w.b.contract("ij,jk->ik", w.b.contract("ij,jk->ik", m, m), m)


def numbers(effort: Effort, _: Path) -> None:
    w = Workbench(effort)
    w.b.mul(w.b.mul(w.input("x", 4), 3), 5)


def primes(effort: Effort, _: Path) -> None:
    prime_powers(Workbench(effort).store, Fraction(7))


def rounded(effort: Effort, _: Path) -> None:
    w = Workbench(effort)
    w.aten("aten.div.Tensor_mode", w.b.iota(10), 3, rounding_mode="floor")


def pieces(effort: Effort, _: Path) -> None:
    w = Workbench(effort)
    x = w.input("x", 3)
    long = w.b.concat([x, w.b.exp(x)], 0)
    w.b.add(long, w.b.concat([w.b.exp(x), x], 0))


def layout(effort: Effort, _: Path) -> None:
    w = Workbench(effort)
    grid = w.b.concat([w.input("x", 3, 2), w.input("y", 3, 2)], 1)
    join_axes(w.store, Form(((3, 4),), grid.value.pieces), 0, 2)


def constants(effort: Effort, _: Path) -> None:
    Workbench(effort).symbolic.table((Fraction(1, 2000), Fraction(1, 3000), Fraction(1, 5000)), (3,), Kind.FLOAT)


def evaluated(effort: Effort, _: Path) -> None:
    w = Workbench(effort)
    w.value(w.b.sum(w.input("x", 4)), w.data())


def of_rule(name: str) -> Work:
    """The example that the texts have for a rule of the calculus."""

    def work(effort: Effort, _: Path) -> None:
        texts = tomllib.loads(RULES.read_text())
        text = (texts["preamble"] + texts[name]["example"]).replace("Calculus()", "Calculus(effort)")
        lines = doctest.DocTestParser().get_examples(text)
        exec("".join(line.source for line in lines), {"effort": effort})

    return work


def powers(effort: Effort, _: Path) -> None:
    w = Workbench(effort)
    x, b = w.input("x", 4), w.b
    square = b.mul(x, x)
    compare(w, b.add(b.maximum(x, square), b.minimum(x, square)), b.add(x, square))


def ordered(effort: Effort, _: Path) -> None:
    w = Workbench(effort)
    x = w.input("x", 4)
    row = w.b.exp(x)
    _, places = w.aten("aten.sort.default", row)
    compare(w, w.b.gather(w.b.mul(row, row), [places]), w.b.mul(x, x))


# ------------------------------------------------------------------------------------------------ sizes
DOMAIN = Domain((Symbol("S", 2, 100, 8), Symbol("T", 2, 100, 8)))


def sizes(effort: Effort, _: Path) -> None:
    list(small_sizes(DOMAIN, effort))
    find_sizes(DOMAIN, [], effort)
    generic_sizes(DOMAIN, effort)


# ------------------------------------------------------------------------------------------------ jobs
def job(effort: Effort, folder: Path, specification: str, *ranks: str, tables: str = EVERYTHING) -> None:
    mesh = {} if len(ranks) == 1 else {"tp": len(ranks)}
    refine(read_job(job_files(folder, specification, ranks, tables, mesh, {"tp": tuple(mesh)})), effort=effort)


def elementwise(effort: Effort, folder: Path) -> None:
    clamped = "x: float32[2]\nc = lt(x, 0)\ny = masked_fill(x, c, 0)\n-> y"
    path = job_files(folder, "x: float32[2]\ny = relu(x)\n-> y", [clamped], EVERYTHING, {}, {})
    refine(read_job(path), engine="smt", effort=effort)


LAYER = "x: float32[4, 4]\nw: float32[4, 4]\nv: float32[4, 4]\na = mm(x, w)\nb = mm(a, v)\nc = relu(b)\n-> c"


def wrong(effort: Effort, folder: Path) -> None:
    for old, new in (("mm(a, v)", "mm(a, w)"), ("relu(b)", "mul(b, 2)"), ("mm(x, w)", "mm(w, x)")):
        job(effort, folder, LAYER, LAYER.replace(old, new))


def true_but_unknown(effort: Effort, folder: Path) -> None:
    inverse = "x: float32[4]\na = aten.sinh.default(x)\nz = aten.asinh.default(a)\n-> z"
    job(effort, folder, inverse, "x: float32[4]\nz = mul(x, 1)\n-> z")


def related(effort: Effort, folder: Path) -> None:
    job(effort, folder, LAYER, LAYER)
    turned = "x: float32[4, 4]\nt = t(x)\nr = relu(t)\n-> r"
    job(effort, folder, "x: float32[4, 4]\nr = relu(x)\n-> r", turned, tables='[inputs]\ndefault = "Replicate()"\n')


def by_rank(effort: Effort, folder: Path) -> None:
    rank = "x: float32[4]\ns = mul(x, {})\na = aten.sinh.default(s)\nb = aten.asinh.default(a)\nz = sub(b, s)\n-> z"
    ranks = [rank.format(k) for k in (1, 5, 2)]
    job(effort, folder, "x: float32[4]\nz = mul(x, 0)\n-> z", *ranks)


def summed(effort: Effort, folder: Path) -> None:
    rank = "x: float32[4]\ny = aten.sum.default(x)\n-> y"
    job(effort, folder, "x: float32[8]\ny = aten.sum.default(x)\n-> y", rank, rank, tables='[inputs]\nx = "Shard(0)"\n')


def two_outputs(effort: Effort, folder: Path) -> None:
    """One of them wrong, the other one right but not proved."""
    inverse = "x: float32[4]\na = aten.sinh.default(x)\ny = mul(x, 3)\nz = aten.asinh.default(a)\n-> y, z"
    right = "x: float32[4]\ny = mul(x, 2)\nz = mul(x, 1)\n-> y, z"
    job(effort, folder, right, inverse)


def aligned(effort: Effort, folder: Path) -> None:
    other = LAYER.replace("mm(a, v)", "mm(d, v)").replace("b =", "d = mul(a, 1)\nb =")  # not the same up to names
    task = read_job(job_files(folder, LAYER, [other], EVERYTHING, {}, {}))
    prove(task, Options(cut=True, align=align, effort=effort))


def ahead(effort: Effort, folder: Path) -> None:
    whole = "x: float32[4]\na = aten.exp.default(x)\nb = mul(a, a)\n-> b, a"
    rank = "x: float32[4]\nt = mul(x, 2)\nb = aten.exp.default(t)\na = aten.exp.default(x)\n-> b, a"
    task = read_job(job_files(folder, whole, [rank], EVERYTHING, {}, {}))
    prove(task, Options(cut=True, align=align, effort=effort))


def unknown_index(effort: Effort, folder: Path) -> None:
    whole = "x: float32[8]\ni: int64[4]\ny = mul(x, 2)\n-> y"
    rank = "x: float32[8]\ni: int64[4]\nr = index(x, [i])\ny = mul(x, 2)\n-> y, r"
    job(effort, folder, whole, rank)


def blocks(effort: Effort, folder: Path) -> None:
    rows = [f"h{k} = slice(x, 0, {2 * k}, {2 * k + 2})\ny{k} = aten.exp.default(h{k})" for k in range(4)]
    rank = "\n".join(["x: float32[8]", *rows, "y = cat([y0, y1, y2, y3], 0)", "-> y"])
    task = read_job(job_files(folder, "x: float32[8]\ny = aten.exp.default(x)\n-> y", [rank], EVERYTHING, {}, {}))
    prove(task, Options(cut=True, align=align, effort=effort))


def reduced(effort: Effort, folder: Path) -> None:
    large = "x: float32[640, 320]\nw: float32[320, 960]\ny = mm(x, w)\n-> y"
    reduce_job(read_job(job_files(folder, large, [large], EVERYTHING, {}, {})), effort)


# Bound -> what hits it, and the value that it has for that.
def a_tested_rule(effort: Effort, folder: Path) -> None:
    (folder / "rules.toml").write_text(
        'format = "rules/1"\n[rules.asinh]\ninputs = { x = "float32[2]" }\nleft = "aten.asinh.default(x)"\n'
        'right = "aten.log.default(x + aten.sqrt.default(x * x + 1))"\n'
    )
    for rule in read_rules(folder / "rules.toml"):
        evidence_of(rule, Limits(), effort)


def an_open_piece(effort: Effort, folder: Path) -> None:
    head = "x: float32[2, 3]\nw: float32[3, 3]\nh = mm(x, w)\n"
    tail = "".join(f"z{k} = aten.sigmoid.default({'a' if not k else f'z{k - 1}'})\n" for k in range(8)) + "-> y=z7"
    logarithm = "s = mul(h, h)\nt = add(s, 1)\nr = aten.sqrt.default(t)\nu = add(r, h)\na = aten.log.default(u)\n"
    tables = '[inputs]\nx = "Replicate()"\nw = "Replicate()"\n[outputs]\ny = "Replicate()"'
    first = f"{head}a = aten.asinh.default(h)\n{tail}"
    compare_programs(read_job(job_files(folder, first, [f"{head}{logarithm}{tail}"], tables, {}, {})), effort=effort)


HITS: dict[str, tuple[Work, int]] = {
    "rule_tests": (a_tested_rule, 2),
    "rule_work": (a_tested_rule, 0),
    "rule_pieces": (an_open_piece, 0),
    "rule_nodes": (an_open_piece, 0),
    "rule_steps": (an_open_piece, 1),
    "condition_points": (masks, 0),
    "conditions_at_points": (masks, 0),
    "condition_bands": (masks, 0),
    "conditions_compared": (masks, 0),
    "search_effort": (squares, 1),
    "search_steps": (squares, 1),
    "fruitless_steps": (squares, -1),
    "late_steps": (late, 1),
    "expanded_terms": (squares, 1),
    "multiplied_angles": (angles, 1),
    "exponent_terms": (exponents, 1),
    "multiplied_power": (lambda effort, folder: squares(effort, folder, 3), 2),
    "expansion_depth": (squares, 0),
    "compared_depth": (functions, 0),
    "compared_pairs": (functions, 0),
    "compared_terms": (functions, 1),
    "replaced_functions": (functions, 0),
    "recomputed_factors": (causal, 1),
    "unfolded_cuts": (cut, 0),
    "cuts_ahead": (ahead, 0),
    "nested_cells": (causal, 0),
    "cell_sums": (causal, 1),
    "common_cells": (causal, 1),
    "leaf_places": (causal, 1),
    "rewritten_atoms": (loop, 1),
    "tabulated_values": (in_order, 2),
    "unrolled_points": (loop, 1),
    "unrolled_factors": (loop, 1),
    "case_steps": (places, 1),
    "case_factors": (chosen_inside, 0),
    "case_terms": (of_rule("cases"), 0),
    "case_work": (of_rule("cases"), 0),
    "condition_terms": (of_rule("cases"), 0),
    "condition_power": (powers, 1),
    "maximum_members": (of_rule("cases"), 1),
    "sign_depth": (of_rule("monotone-functions"), 0),
    "sign_terms": (of_rule("monotone-functions"), 1),
    "extreme_depth": (of_rule("tidy-extremes"), 0),
    "order_depth": (ordered, 0),
    "looked_up_depth": (of_rule("lifted-look-ups"), 0),
    "tidied_rounds": (of_rule("chosen-elements"), 0),
    "spread_terms": (of_rule("variances"), 1),
    "rebuilt_joins": (joined, 0),
    "merged_points": (partial_sums, 1),
    "merge_rounds": (partial_sums, 0),
    "tied_names": (tied, 0),
    "opened_factors": (products_of_matrices, 1),
    "opened_terms": (fractions, 1),
    "number_bits": (numbers, 1),
    "prime_divisor": (primes, 1),
    "index_places": (unknown_index, 1),
    "floor_steps": (rounded, 1),
    "form_cells": (pieces, 1),
    "layout_boxes": (layout, 1),
    "concatenated_boxes": (layout, 1),
    "table_elements": (constants, 1),
    "table_pieces": (constants, 1),
    "table_ranks": (by_rank, 1),
    "evaluated_points": (evaluated, 1),
    "paired_ranks": (summed, 1),
    "cover_candidates": (related, 0),
    "cover_pieces": (related, 0),
    "single_ranks": (by_rank, 0),
    "generic_sizes": (sizes, 0),
    "tried_sizes": (sizes, 1),
    "solver_steps": (sizes, 1),
    "smt_work": (elementwise, 1),
    "smt_terms": (elementwise, 1),
    "smt_steps": (elementwise, 1),
    "smt_questions": (elementwise, 0),
    "witness_inputs": (true_but_unknown, 1),
    "refuting_inputs": (two_outputs, 0),
    "inferred_outputs": (two_outputs, 0),
    "drawn_numbers": (wrong, 1),
    "simplified_trials": (wrong, 1),
    "simplified_work": (wrong, 1),
    "simplified_nodes": (wrong, 1),
    "zeroed_elements": (wrong, 0),
    "aligned_tensors": (aligned, 0),
    "alignment_work": (aligned, 0),
    "alignment_windows": (blocks, 3),
    "repair_inputs": (wrong, 0),
    "repair_executions": (wrong, 0),
    "repair_nodes": (wrong, 0),
    "repair_outputs": (wrong, 0),
    "answer_seconds": (wrong, 0),
    "repair_wholes": (wrong, 0),
    "repair_operands": (wrong, 0),
    "repair_chain": (wrong, 0),
    "reduced_sweeps": (reduced, 0),
    "reduced_trials": (reduced, 1),
}

# What takes more than a small job: the bound is asked about as any other (tests/unit/test_effort.py).
NOT_HERE = {
    "settled_factors", "settled_elements", "mask_candidates", "undefined_terms", "undefined_pieces",
    "implied_cases", "cover_tiles", "repair_numbers", "refuted_effort", "refuted_steps", "multiplied_steps",
    "followed_steps", "mismatch_ranks",
    "size_regions", "size_executions", "repair_orders", "repair_members", "repair_windows",
    "repair_layouts", "repair_promising", "repair_seconds", "repair_suspects", "repair_reach",
    "mismatch_depth", "reduced_rounds", "lifted_atoms", "told_tensors", "drawn_integers",
    "bit_parts", "mask_runs", "compared_booleans", "member_terms", "member_variables", "residues", "residue_terms",
    "residue_power", "written_runs", "implied_rounds", "repair_permuted", "repair_positions", "reduced_draws",
    "doubtful_seconds",
    "realigned_work",  # tests/unit/correspond/test_alignment.py
    "part_ranks", "part_elements", "part_seconds",  # tests/unit/plan/test_verify.py
    "rewriting_rounds", "rewriting_matches",  # tests/unit/rewriting/test_rules.py
    "counted_booleans",  # tests/golden/test_ways_of_computing.py
    "rounding_work",  # tests/unit/comparison/test_far_apart.py
}  # fmt: skip


# Hit by these things with normal effort, too.
ALWAYS = {"rule_tests", "refuting_inputs", "witness_inputs", "table_pieces", "reduced_trials"}


def test_every_bound_is_hit_or_named() -> None:
    assert HITS.keys() | NOT_HERE == {bound.name for bound in bounds_table()}
    assert not HITS.keys() & NOT_HERE


@pytest.mark.parametrize("name", HITS)
def test_a_bound_is_hit_by_something_small(name: str, tmp_path: Path) -> None:
    if name == "solver_steps" or name.startswith("smt_"):
        pytest.importorskip("z3", reason="the extra smt")
    work, value = HITS[name]
    effort = Effort(bounds=replace(Bounds(), **{name: value}))
    with suppress(Unsupported, TantamountError):
        work(effort, tmp_path)
    assert effort.hits[name].bound == value
    normal = Effort()
    work(normal, tmp_path)
    assert (name in normal.hits) == (name in ALWAYS)
