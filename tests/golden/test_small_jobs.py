"""Small hand-written jobs for what captured graphs lack: meshes of several axes, every collective, every kind of
relation.

A correct implementation is PROVED with the relation that is written here; each of its wrong twins is one change of the
text and must never be. Every job runs with ranks as mesh axes and rank by rank: both must say the same.
"""
# ruff: noqa: E501 - one program, or one change of it, per line

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import pytest

from support.jobs import job_files
from tantamount import read_job
from tantamount.answers import refine
from tantamount.errors import UserError
from tantamount.report.text import text as rendered
from tantamount.verdict import Report, Verdict

Program = str | Callable[[int], str]  # the same text on every rank, or one by rank


@dataclass(frozen=True)
class Wrong:
    """A wrong twin: in ``where`` (``impl``, ``spec``, ``job`` or ``rank 1``) the text ``old`` is replaced by
    ``new``."""

    name: str
    old: str
    new: str
    where: str = "impl"
    verdict: str = ""  # REFUTED where that must be the verdict; else anything but PROVED
    phrase: str = ""  # in the report, or in the message of the user error
    code: str = ""  # of the user error: the twin is no valid job


@dataclass(frozen=True)
class Case:
    name: str
    spec: str
    impl: Program
    inputs: str  # lines of the job's [inputs]
    outputs: str = ""  # lines of [outputs]; empty: no table, all are inferred
    mesh: Mapping[str, int] = field(default_factory=lambda: {"tp": 2})
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    tables: str = ""  # more tables, such as [assume]
    relations: tuple[str, ...] = ()  # what is printed for the outputs checked
    phrases: tuple[str, ...] = ()
    verdict: str = "PROVED"
    assumptions: tuple[str, ...] = ()  # besides real-arithmetic
    strict: bool = False
    folded: bool | None = True  # whether ranks become mesh axes when nobody forces it; None: not looked at
    wrong: tuple[Wrong, ...] = ()


MLP = """
    x: float32[4, 6]
    w: float32[6, 8]
    v: float32[8, 6]
    a = mm(x, w)
    h = relu(a)
    z = mm(h, v)
    -> z
"""

CASES = (
    # ------------------------------------------------------------------------------------------ meshes of several axes
    Case(
        "mlp_on_2x2",
        MLP,
        """
        x: float32[2, 6]
        w: float32[6, 4]
        v: float32[4, 6]
        a = mm(x, w)
        h = relu(a)
        p = mm(h, v)
        z = all_reduce(p, "sum", "tp")
        -> z
        """,
        'x = ["Shard(0)", "Replicate()"]\nw = ["Replicate()", "Shard(1)"]\nv = ["Replicate()", "Shard(0)"]',
        'z = ["Shard(0)", "Replicate()"]',
        mesh={"dp": 2, "tp": 2},
        groups={"tp": ("tp",), "dp": ("dp",), "all": ("dp", "tp"), "self": ()},
        relations=("z = [Shard(0), Replicate()]",),
        wrong=(
            Wrong("over_the_other_axis", '"sum", "tp"', '"sum", "dp"'),
            Wrong("another_function_on_one_rank", "relu(a)", "tanh(a)", "rank 3"),
            Wrong("another_operand_on_one_rank", "mm(h, v)", "mm(a, v)", "rank 1"),
            Wrong("over_all_ranks", '"sum", "tp"', '"sum", "all"'),
            Wrong("over_nobody", '"sum", "tp"', '"sum", "self"'),
            Wrong("average", '"sum", "tp"', '"avg", "tp"'),
            Wrong("maximum", '"sum", "tp"', '"max", "tp"'),
            Wrong(
                "reduced_before_the_product",
                "p = mm(h, v)\n        z = all_reduce(p",
                'k = all_reduce(h, "sum", "tp")\n        z = mm(k, v)\n        unused = all_reduce(z',
            ),
            Wrong("axes_exchanged", 'x = ["Shard(0)", "Replicate()"]', 'x = ["Replicate()", "Shard(0)"]', "job"),
        ),
    ),
    Case(
        "one_reduction_over_two_axes",
        "x: float32[4, 6]\n y: float32[4, 6]\n p = mul(x, y)\n s = sum(p)\n -> s",
        'x: float32[2, 3]\n y: float32[2, 3]\n p = mul(x, y)\n q = sum(p)\n s = all_reduce(q, "sum", "all")\n -> s',
        'default = ["Shard(0)", "Shard(1)"]',
        's = "Replicate()"',
        mesh={"dp": 2, "tp": 2},
        groups={"tp": ("tp",), "all": ("dp", "tp")},
        relations=("s = Replicate()",),
        wrong=(
            Wrong(
                "one_axis_only",
                '"sum", "all"',
                '"sum", "tp"',
                verdict="REFUTED",
                phrase='[Partial("sum"), Replicate()]',
            ),
            Wrong("average", '"sum", "all"', '"avg", "all"'),
            Wrong(
                "tiles_not_aligned",
                'default = ["Shard(0)", "Shard(1)"]',
                'x = ["Shard(0)", "Shard(1)"]\ny = "concat(concat(rank(0), rank(2), dim=1), concat(rank(1), rank(3), dim=1), dim=0)"',
                "job",
            ),
        ),
    ),
    Case(
        "two_reductions_one_after_the_other",
        "x: float32[4, 6]\n y: float32[4, 6]\n p = mul(x, y)\n s = sum(p)\n -> s",
        'x: float32[2, 3]\n y: float32[2, 3]\n p = mul(x, y)\n q = sum(p)\n u = all_reduce(q, "sum", "tp")\n s = all_reduce(u, "sum", "dp")\n -> s',
        'default = ["Shard(0)", "Shard(1)"]',
        's = "Replicate()"',
        mesh={"dp": 2, "tp": 2},
        groups={"tp": ("tp",), "dp": ("dp",)},
        relations=("s = Replicate()",),
        wrong=(
            Wrong("twice_over_one_axis", '"sum", "dp"', '"sum", "tp"'),
            Wrong(
                "replicas_summed",
                'default = ["Shard(0)", "Shard(1)"]',
                'default = "Replicate()"',
                "job",
                code="job-relation-shape",
            ),
        ),
    ),
    Case(
        "three_axes",
        "x: float32[4, 6, 5]\n w: float32[5, 8]\n f = view(x, [24, 5])\n y = mm(f, w)\n z = view(y, [4, 6, 8])\n m = mean(z)\n -> z, m",
        'x: float32[2, 3, 5]\n w: float32[5, 4]\n f = view(x, [6, 5])\n y = mm(f, w)\n z = view(y, [2, 3, 4])\n q = mean(z)\n a = all_reduce(q, "avg", "data")\n m = all_reduce(a, "avg", "tp")\n -> z, m',
        'x = ["Shard(0)", "Shard(1)", "Replicate()"]\nw = ["Replicate()", "Replicate()", "Shard(1)"]',
        mesh={"dp": 2, "cp": 2, "tp": 2},
        groups={"data": ("dp", "cp"), "tp": ("tp",), "cp": ("cp",), "other": ("cp", "tp")},
        relations=("z = [Shard(0), Shard(1), Shard(2)]", "m = [Replicate(), Replicate(), Replicate()]"),
        wrong=(
            Wrong("one_axis_of_two", '"avg", "data"', '"avg", "cp"'),
            Wrong("another_pair_of_axes", '"avg", "data"', '"avg", "other"'),
            Wrong("sum_for_average", '"avg", "data"', '"sum", "data"'),
        ),
    ),
    Case(
        "gathered_over_two_axes",
        "x: float32[8, 3]\n y = relu(x)\n -> y",
        'x: float32[2, 3]\n r = relu(x)\n y = all_gather(r, 4, "all")\n -> y',
        'x = ["Shard(0)", "Shard(0)"]',
        'y = "Replicate()"',
        mesh={"dp": 2, "tp": 2},
        groups={"all": ("dp", "tp"), "reversed": ("tp", "dp"), "tp": ("tp",)},
        relations=("y = Replicate()",),
        wrong=(
            Wrong("members_in_another_order", '4, "all"', '4, "reversed"'),
            Wrong(
                "size_that_contradicts_the_group",
                '4, "all"',
                '4, "tp"',
                code="operator-types",
                phrase="group_size 4 for a group of 2 ranks",
            ),
        ),
    ),
    Case(
        "reduce_scatter_then_gather",
        "x: float32[4, 6]\n w: float32[6, 8]\n y = mm(x, w)\n -> y",
        'x: float32[4, 3]\n w: float32[3, 8]\n p = mm(x, w)\n s = reduce_scatter(p, "sum", 2, "tp")\n y = all_gather(s, 2, "tp")\n -> y, s',
        'x = "Shard(1)"\nw = "Shard(0)"',
        'y = "Replicate()"',
        groups={"tp": ("tp",)},
        relations=("y = Replicate()",),
        wrong=(
            Wrong("average", '"sum", 2', '"avg", 2'),
            Wrong("maximum", '"sum", 2', '"max", 2'),
            Wrong("gathered_twice", 'all_gather(s, 2, "tp")', 'all_gather(x, 2, "tp")', verdict="REFUTED"),
        ),
    ),
    # ------------------------------------------------------------------------------------------ all_to_all, broadcast
    Case(
        "all_to_all",
        "x: float32[8, 6]\n y = relu(x)\n -> y",
        'x: float32[4, 6]\n r = relu(x)\n a = view(r, [4, 2, 3])\n b = permute(a, [1, 0, 2])\n c = view(b, [8, 3])\n y = all_to_all(c, [4, 4], [4, 4], "tp")\n -> y',
        'x = "Shard(0)"',
        'y = "Shard(1)"',
        groups={"tp": ("tp",)},
        relations=("y = Shard(1)",),
        wrong=(
            Wrong("not_permuted", "permute(a, [1, 0, 2])", "permute(a, [0, 1, 2])"),
            Wrong("not_exchanged", 'all_to_all(c, [4, 4], [4, 4], "tp")', "relu(c)"),
            Wrong("exchanged_with_nobody", 'c, [4, 4], [4, 4], "tp"', 'c, [8], [8], "self"', code="group-unknown"),
        ),
    ),
    Case(
        "all_to_all_on_one_axis_of_two",
        "x: float32[8, 6]\n y = relu(x)\n -> y",
        'x: float32[2, 6]\n r = relu(x)\n a = view(r, [2, 2, 3])\n b = permute(a, [1, 0, 2])\n c = view(b, [4, 3])\n y = all_to_all(c, [2, 2], [2, 2], "cp")\n -> y',
        'x = ["Shard(0)", "Shard(0)"]',
        'y = ["Shard(0)", "Shard(1)"]',
        mesh={"dp": 2, "cp": 2},
        groups={"cp": ("cp",), "dp": ("dp",)},
        relations=("y = [Shard(0), Shard(1)]",),
        wrong=(Wrong("over_the_other_axis", '"cp"', '"dp"'),),
    ),
    Case(
        "broadcast",
        "x: float32[6]\n b: float32[6]\n y = mul(x, b)\n -> y",
        'x: float32[6]\n b: float32[6]\n c = broadcast(b, 1, "tp")\n y = mul(x, c)\n -> y',
        'x = "Replicate()"\nb = "rank(1)"',
        'y = "Replicate()"',
        mesh={"tp": 3},
        groups={"tp": ("tp",)},
        relations=("y = Replicate()",),
        wrong=(
            Wrong("from_another_rank", "b, 1,", "b, 0,"),
            Wrong("not_broadcast", "mul(x, c)", "mul(x, b)"),
            Wrong("source_outside_the_group", "b, 1,", "b, 3,", code="operator-types"),
        ),
    ),
    # ------------------------------------------------------------------------------------------ inputs
    Case(
        "partial_input",
        "g: float32[6]\n y = mul(g, 2.0)\n -> y",
        'g: float32[6]\n r = all_reduce(g, "sum", "tp")\n y = mul(r, 2.0)\n -> y',
        """g = 'Partial("sum")'""",
        'y = "Replicate()"',
        mesh={"tp": 4},
        groups={"tp": ("tp",)},
        relations=("y = Replicate()",),
        wrong=(
            Wrong("average", '"sum", "tp"', '"avg", "tp"'),
            Wrong("not_reduced", 'all_reduce(g, "sum", "tp")', "relu(g)"),
            Wrong(
                "a_function_before_the_reduction",
                "g: float32[6]\n r = all_reduce(g,",
                "g: float32[6]\n k = relu(g)\n r = all_reduce(k,",
            ),
            Wrong("the_input_is_replicated", """g = 'Partial("sum")'""", 'g = "Replicate()"', "job"),
            Wrong("the_input_is_an_average", """'Partial("sum")'""", """'Partial("avg")'""", "job"),
        ),
    ),
    Case(
        "partial_on_one_axis_sharded_on_the_other",
        "g: float32[4, 6]\n y = mul(g, g)\n -> y",
        'g: float32[4, 3]\n r = all_reduce(g, "sum", "dp")\n y = mul(r, r)\n -> y',
        """g = ['Partial("sum")', "Shard(1)"]""",
        'y = ["Replicate()", "Shard(1)"]',
        mesh={"dp": 2, "tp": 2},
        groups={"dp": ("dp",), "tp": ("tp",)},
        relations=("y = [Replicate(), Shard(1)]",),
        wrong=(
            Wrong("over_the_other_axis", '"sum", "dp"', '"sum", "tp"'),
            Wrong("squared_before", "mul(r, r)", "mul(g, r)"),
        ),
    ),
    Case(
        "replicas_that_are_equal",
        "w: float32[4, 6]\n x: float32[8, 6]\n a = t(w)\n k = mm(x, a)\n -> k",
        "w: float32[2, 6]\n x: float32[8, 6]\n a = t(w)\n k = mm(x, a)\n -> k",
        'w = { relation = "concat(rank(0), rank(2), dim=0)", equal = ["rank(0) == rank(1)", "rank(2) == rank(3)"] }\nx = "Replicate()"',
        'k = { relation = "concat(rank(0), rank(3), dim=1)", equal = ["rank(0) == rank(1)"] }',
        mesh={"tp": 4},
        relations=("k = concat(rank(0), rank(3), dim=1)",),
        wrong=(
            Wrong("nothing_is_equal", ', equal = ["rank(0) == rank(1)", "rank(2) == rank(3)"] }\nx', " }\nx", "job"),
            Wrong(
                "other_ranks_are_equal",
                '"rank(0) == rank(1)", "rank(2) == rank(3)"] }\nx',
                '"rank(0) == rank(3)", "rank(2) == rank(1)"] }\nx',
                "job",
            ),
            Wrong("expected_of_other_ranks", 'equal = ["rank(0) == rank(1)"]', 'equal = ["rank(1) == rank(2)"]', "job"),
        ),
    ),
    Case(
        "slices_that_are_equal",
        "w: float32[12, 6]\n x: float32[5, 6]\n a = t(w)\n p = mm(x, a)\n q = slice(p, 1, 0, 8)\n k = slice(p, 1, 8, 12)\n -> q, k",
        "w: float32[4, 6]\n x: float32[5, 6]\n a = t(w)\n p = mm(x, a)\n q = slice(p, 1, 0, 2)\n k = slice(p, 1, 2, 4)\n -> q, k",
        'w = { relation = "concat(rank(0)[0:2], rank(1)[0:2], rank(2)[0:2], rank(3)[0:2], rank(0)[2:4], rank(2)[2:4], dim=0)", equal = ["rank(0)[2:4] == rank(1)[2:4]", "rank(2)[2:] == rank(3)[2:]"] }\nx = "Replicate()"',
        'q = "Shard(1)"\nk = { relation = "concat(rank(0), rank(2), dim=1)", equal = ["rank(0)[1:4] == rank(1)[1:4]", "rank(3) == rank(2)"] }',
        mesh={"tp": 4},
        relations=("q = Shard(1)", "k = concat(rank(0), rank(2), dim=1)"),
        wrong=(
            Wrong(
                "nothing_is_equal",
                ', equal = ["rank(0)[2:4] == rank(1)[2:4]", "rank(2)[2:] == rank(3)[2:]"] }',
                " }",
                "job",
            ),
            Wrong(
                "of_other_ranks",
                '"rank(0)[2:4] == rank(1)[2:4]", "rank(2)[2:] == rank(3)[2:]"',
                '"rank(0)[2:4] == rank(3)[2:4]", "rank(2)[2:] == rank(1)[2:]"',
                "job",
            ),
            Wrong("expected_of_other_ranks", '"rank(0)[1:4] == rank(1)[1:4]"', '"rank(0)[1:4] == rank(2)[1:4]"', "job"),
            Wrong(
                "expected_at_another_place", '"rank(0)[1:4] == rank(1)[1:4]"', '"rank(0)[1:4] == rank(1)[0:3]"', "job"
            ),
        ),
    ),
    Case(
        "fused_projection_interleaved_by_rank",
        "w: float32[12, 6]\n x: float32[5, 6]\n a = t(w)\n p = mm(x, a)\n q = slice(p, 1, 0, 8)\n k = slice(p, 1, 8, 12)\n -> q, k",
        "w: float32[6, 6]\n x: float32[5, 6]\n a = t(w)\n p = mm(x, a)\n q = slice(p, 1, 0, 4)\n k = slice(p, 1, 4, 6)\n -> q, k",
        'w = "concat(rank(0)[0:4], rank(1)[0:4], rank(0)[4:6], rank(1)[4:6], dim=0)"\nx = "Replicate()"',
        'q = "Shard(1)"\nk = "Shard(1)"',
        relations=("q = Shard(1)", "k = Shard(1)"),
        wrong=(
            Wrong(
                "not_interleaved",
                "rank(0)[0:4], rank(1)[0:4], rank(0)[4:6], rank(1)[4:6]",
                "rank(0)[0:4], rank(0)[4:6], rank(1)[0:4], rank(1)[4:6]",
                "job",
            ),
            Wrong("keys_exchanged", "rank(0)[4:6], rank(1)[4:6]", "rank(1)[4:6], rank(0)[4:6]", "job"),
            Wrong("another_boundary", "slice(p, 1, 4, 6)", "slice(p, 1, 3, 5)"),
        ),
    ),
    Case(
        "transposed_and_reshaped_weights",
        "w: float32[4, 6]\n v: float32[2, 3, 4]\n x: float32[5, 4]\n y = mm(x, w)\n u = permute(v, [1, 0, 2])\n -> y, u",
        "w: float32[3, 4]\n v: float32[12]\n x: float32[5, 4]\n a = t(w)\n y = mm(x, a)\n b = view(v, [4, 3, 1])\n u = permute(b, [1, 2, 0])\n -> y, u",
        'w = "transpose(concat(rank(0), rank(1), dim=0), 0, 1)"\nv = "permute(concat(reshape(rank(0), [4, 3, 1]), reshape(rank(1), [4, 3, 1]), dim=2), [2, 1, 0])"\nx = "Replicate()"',
        'y = "Shard(1)"\nu = "Shard(1)"',
        relations=("y = Shard(1)", "u = Shard(1)"),
        wrong=(
            Wrong(
                "not_permuted",
                ", [2, 1, 0])",
                ", [2, 1, 0])".replace("2, 1, 0", "2, 0, 1"),
                "job",
                code="job-relation-shape",
            ),
            Wrong(
                "another_reshape",
                "view(v, [4, 3, 1])\n u = permute(b, [1, 2, 0])",
                "view(v, [3, 4, 1])\n u = permute(b, [0, 2, 1])",
            ),
            Wrong(
                "ranks_exchanged",
                "concat(rank(0), rank(1), dim=0), 0, 1)",
                "concat(rank(1), rank(0), dim=0), 0, 1)",
                "job",
            ),
        ),
    ),
    Case(
        "an_input_that_is_a_sum",
        "x: float32[6]\n y = mul(x, 3.0)\n -> y",
        "x: float32[6]\n e: float32[6]\n s = add(x, e)\n y = mul(s, 3.0)\n -> y",
        """x = 'sum(rank(0), rank(0, "e"))'""",
        'y = "Replicate()"',
        mesh={},
        relations=("y = Replicate()",),
        wrong=(Wrong("one_summand", "mul(s, 3.0)", "mul(x, 3.0)"), Wrong("a_summand_twice", "add(x, e)", "add(x, x)")),
    ),
    Case(
        "one_argument_for_two_inputs",
        "a: float32[6]\n b: float32[6]\n y = mul(a, b)\n -> y",
        "p: float32[3]\n y = mul(p, p)\n -> y",
        'a = { name = "p", placement = "Shard(0)" }\nb = { name = "p", placement = "Shard(0)" }',
        'y = "Shard(0)"',
        relations=("y = Shard(0)",),
        phrases=("restricts the specification", "one tensor of the implementation (p)"),
        assumptions=("input-restriction",),
        wrong=(
            Wrong("another_function", "mul(p, p)", "mul(p, 2.0)"),
            Wrong(
                "two_placements",
                'b = { name = "p", placement = "Shard(0)" }',
                'b = "Replicate()"',
                "job",
                code="job-unknown-input",
            ),
        ),
    ),
    Case(
        "an_input_of_two_equal_halves",
        "x: float32[6]\n s = sum(x)\n -> s",
        "x: float32[3]\n q = sum(x)\n s = mul(q, 2.0)\n -> s",
        'x = "concat(rank(0), rank(0), dim=0)"',
        's = "rank(0)"',
        relations=("s = rank(0)",),
        phrases=("restricts the specification", "more than once"),
        assumptions=("input-restriction",),
        wrong=(
            Wrong("two_halves_of_two_ranks", "rank(0), rank(0), dim", "rank(0), rank(1), dim", "job"),
            Wrong("on_every_rank", 's = "rank(0)"', 's = "Replicate()"', "job"),
        ),
    ),
    # ------------------------------------------------------------------------------------------ programs that differ
    Case(
        "stages_with_programs_of_their_own",
        "x: float32[4, 6]\n w: float32[6, 6]\n v: float32[6, 6]\n a = mm(x, w)\n h = relu(a)\n b = mm(h, v)\n y = tanh(b)\n -> y",
        lambda rank: (
            'x: float32[4, 6]\n w: float32[6, 6]\n a = mm(x, w)\n h = relu(a)\n r = broadcast(h, 0, "pp")\n -> r'
            if rank == 0
            else 'v: float32[6, 6]\n z = zeros([4, 6])\n r = broadcast(z, 0, "pp")\n b = mm(r, v)\n y = tanh(b)\n -> y'
        ),
        'x = "rank(0)"\nw = "rank(0)"\nv = "rank(1)"',
        'y = "rank(1)"',
        mesh={"pp": 2},
        groups={"pp": ("pp",)},
        relations=("y = rank(1)",),
        folded=False,
        wrong=(
            Wrong("from_the_wrong_stage", '0, "pp"', '1, "pp"'),
            Wrong(
                "the_other_stage_of_the_source",
                "broadcast(z, 0,",
                "broadcast(z, 1,",
                "rank 1",
                code="collective-mismatch",
            ),
            Wrong("without_its_function", "y = tanh(b)", "y = relu(b)", "rank 1"),
        ),
    ),
    Case(
        "constants_by_rank",
        "ids: int64[5]\n w: float32[12, 3]\n y = embedding(w, ids)\n -> y",
        lambda rank: (
            f'ids: int64[5]\n w: float32[3, 3]\n a = lt(ids, {3 * rank})\n b = ge(ids, {3 * rank + 3})\n m = bitwise_or(a, b)\n s = sub(ids, {3 * rank})\n i = masked_fill(s, m, 0)\n e = embedding(w, i)\n n = unsqueeze(m, 1)\n z = masked_fill(e, n, 0.0)\n y = all_reduce(z, "sum", "tp")\n -> y'
        ),
        'ids = "Replicate()"\nw = "Shard(0)"',
        'y = "Replicate()"',
        mesh={"tp": 4},
        groups={"tp": ("tp",)},
        relations=("y = Replicate()",),
        assumptions=("index-range",),
        wrong=(
            Wrong("offset_of_another_rank", "sub(ids, 6)", "sub(ids, 3)", "rank 2"),
            Wrong("a_gap_between_ranks", "lt(ids, 3)", "lt(ids, 4)", "rank 1"),
            Wrong("an_overlap_of_ranks", "ge(ids, 9)", "ge(ids, 10)", "rank 2"),
            Wrong("not_masked", "masked_fill(e, n, 0.0)", "masked_fill(e, n, 1.0)"),
        ),
    ),
    Case(
        "slices_by_rank",
        "x: float32[12, 2]\n y = tanh(x)\n -> y",
        lambda rank: f"x: float32[12, 2]\n s = slice(x, 0, {3 * rank}, {3 * rank + 3})\n y = tanh(s)\n -> y",
        'x = "Replicate()"',
        'y = "Shard(0)"',
        mesh={"cp": 4},
        relations=("y = Shard(0)",),
        wrong=(
            Wrong("two_ranks_with_one_part", "slice(x, 0, 6, 9)", "slice(x, 0, 3, 6)", "rank 2"),
            Wrong("shifted", "slice(x, 0, 9, 12)", "slice(x, 0, 8, 11)", "rank 3"),
        ),
    ),
    Case(
        "slices_by_rank_in_zigzag",
        "x: float32[8, 2]\n y = tanh(x)\n -> y",
        lambda rank: (
            f"x: float32[8, 2]\n a = slice(x, 0, {2 * rank}, {2 * rank + 2})\n b = slice(x, 0, {6 - 2 * rank}, {8 - 2 * rank})\n s = cat([a, b], 0)\n y = tanh(s)\n -> y"
        ),
        'x = "Replicate()"',
        'y = "concat(rank(0)[0:2], rank(1), rank(0)[2:4], dim=0)"',
        mesh={"cp": 2},
        relations=("y = concat(rank(0)[0:2], rank(1), rank(0)[2:4], dim=0)",),
        wrong=(
            Wrong("in_order", "rank(0)[0:2], rank(1), rank(0)[2:4]", "rank(0), rank(1)", "job"),
            Wrong("one_chunk_twice", "slice(x, 0, 4, 6)", "slice(x, 0, 2, 4)", "rank 1"),
        ),
    ),
    Case(
        "numbers_by_rank_that_follow_no_line",
        "x: float32[8]\n c = constant float32[8] [2, 2, 5, 5, 3, 3, 7, 7]\n y = mul(x, c)\n -> y",
        lambda rank: f"x: float32[2]\n y = mul(x, {(2.0, 5.0, 3.0, 7.0)[rank]})\n -> y",
        'x = "Shard(0)"',
        'y = "concat(rank(0), rank(1), rank(2), rank(3), dim=0)"',
        mesh={"tp": 4},
        relations=("y = concat(rank(0), rank(1), rank(2), rank(3), dim=0)",),
        wrong=(
            Wrong("the_line_through_two", "mul(x, 3.0)", "mul(x, 8.0)", "rank 2"),
            Wrong("one_rank_in_the_fifth_digit", "mul(x, 7.0)", "mul(x, 7.0001)", "rank 3"),
        ),
    ),
    # ------------------------------------------------------------------------------------------ uneven shards
    Case(
        "uneven_shards_with_padding",
        "x: float32[5, 3]\n y = relu(x)\n -> y",
        lambda rank: (
            f'x: float32[{3 - rank}, 3]\n r = relu(x)\n p = pad(r, [0, 0, 0, {rank}], 1.0)\n g = all_gather(p, 2, "tp")\n y = slice(g, 0, 0, 5)\n -> y'
        ),
        'x = "Shard(0)"',
        'y = "Replicate()"',
        groups={"tp": ("tp",)},
        relations=("y = Replicate()",),
        folded=False,
        wrong=(
            Wrong("padding_kept", "slice(g, 0, 0, 5)", "slice(g, 0, 1, 6)"),
            Wrong("padding_in_front", "[0, 0, 0, 1]", "[0, 0, 1, 0]", "rank 1"),
            Wrong("shards_exchanged", 'x = "Shard(0)"', 'x = "concat(rank(1), rank(0), dim=0)"', "job"),
        ),
    ),
    Case(
        "a_sum_of_uneven_shards",
        "x: float32[7]\n y = mul(x, x)\n s = sum(y)\n -> s",
        lambda rank: (
            f'x: float32[{(3, 3, 1)[rank]}]\n y = mul(x, x)\n p = sum(y)\n s = all_reduce(p, "sum", "tp")\n -> s'
        ),
        'x = "Shard(0)"',
        's = "Replicate()"',
        mesh={"tp": 3},
        groups={"tp": ("tp",)},
        relations=("s = Replicate()",),
        folded=False,
        wrong=(
            Wrong("average", '"sum", "tp"', '"avg", "tp"'),
            Wrong("one_rank_adds_nothing", "p = sum(y)", "p = sum(x)", "rank 2"),
        ),
    ),
    Case(
        "a_mean_of_means_of_uneven_shards",
        "x: float32[6]\n s = mean(x)\n -> s",
        lambda rank: f'x: float32[{4 - 2 * rank}]\n p = sum(x)\n q = div(p, 6)\n s = all_reduce(q, "sum", "tp")\n -> s',
        'x = "concat(rank(0), rank(1), dim=0)"',
        's = "Replicate()"',
        groups={"tp": ("tp",)},
        relations=("s = Replicate()",),
        folded=False,
        wrong=(
            Wrong(
                "mean_of_means",
                'p = sum(x)\n q = div(p, 6)\n s = all_reduce(q, "sum"',
                'q = mean(x)\n s = all_reduce(q, "avg"',
            ),
        ),
    ),
    # ------------------------------------------------------------------------------------------ what is made of outputs
    Case(
        "two_tensors_cover_one",
        "x: float32[8, 3]\n y = relu(x)\n -> y",
        "x: float32[8, 3]\n a = slice(x, 0, 0, 4)\n b = slice(x, 0, 4, 8)\n lo = relu(a)\n hi = relu(b)\n -> lo, hi",
        'x = "Replicate()"',
        """y = 'concat(rank(0, "lo"), rank(0, "hi"), dim=0)'""",
        mesh={},
        relations=('y = concat(rank(0, "lo"), rank(0, "hi"), dim=0)',),
        wrong=(
            Wrong(
                "exchanged",
                'rank(0, "lo"), rank(0, "hi")',
                'rank(0, "hi"), rank(0, "lo")',
                "job",
                verdict="REFUTED",
                phrase='concat(rank(0, "lo"), rank(0, "hi"), dim=0)',
            ),
            Wrong("overlapping", "slice(x, 0, 4, 8)", "slice(x, 0, 3, 7)"),
        ),
    ),
    Case(
        "two_tensors_cover_one_inferred",
        "x: float32[8, 3]\n y = relu(x)\n -> y",
        "x: float32[8, 3]\n a = slice(x, 0, 0, 4)\n b = slice(x, 0, 4, 8)\n lo = relu(a)\n hi = relu(b)\n -> hi, lo",
        'x = "Replicate()"',
        mesh={},
        relations=('y = concat(rank(0, "lo"), rank(0, "hi"), dim=0)',),
        wrong=(Wrong("a_gap", "slice(x, 0, 4, 8)", "slice(x, 0, 4, 7)"),),
    ),
    Case(
        "an_inferred_sum_over_ranks_is_said",
        "x: float32[4, 6]\n w: float32[6, 8]\n y = mm(x, w)\n -> y",
        "x: float32[4, 3]\n w: float32[3, 8]\n y = mm(x, w)\n -> y",
        'x = "Shard(1)"\nw = "Shard(0)"',
        relations=('y = Partial("sum")',),
        phrases=("sums over ranks", "missing reduction"),
        wrong=(
            Wrong(
                "expected_replicated",
                "[impl.groups]",
                '[outputs]\ny = "Replicate()"\n[impl.groups]',
                "job",
                verdict="REFUTED",
                phrase='y = Partial("sum")',
            ),
        ),
    ),
    Case(
        "replicas_are_not_summed",
        "x: float32[6]\n y = mul(x, 2.0)\n -> y",
        "x: float32[6]\n y = mul(x, 2.0)\n -> y",
        'x = "Replicate()"',
        relations=("y = Replicate()",),
        wrong=(
            Wrong("a_copy_on_every_rank", "mul(x, 2.0)", "mul(x, 1.0)"),
            Wrong("nothing_on_every_rank", "mul(x, 2.0)", "mul(x, 0.0)"),
        ),
    ),
    Case(
        "some_outputs_are_checked",
        "x: float32[4]\n y = relu(x)\n z = tanh(x)\n -> y, z",
        "x: float32[2]\n y = relu(x)\n z = relu(x)\n -> y, z",
        'x = "Shard(0)"',
        'y = "Shard(0)"',
        relations=("y = Shard(0)",),
        phrases=("1 of 2 outputs checked",),
        wrong=(Wrong("both_are", 'y = "Shard(0)"', 'default = "Shard(0)"', "job"),),
    ),
    Case(
        "nothing_is_checked",
        "x: float32[4]\n y = relu(x)\n -> y",
        "x: float32[2]\n y = tanh(x)\n -> y",
        'x = "Shard(0)"',
        "# no outputs",
        verdict="VACUOUS",
        phrases=("0 of 1 outputs checked",),
    ),
    Case(
        "an_expectation_that_fails_while_another_relation_holds",
        "x: float32[4, 4]\n y = relu(x)\n -> y",
        "x: float32[2, 4]\n y = relu(x)\n -> y",
        'x = "Shard(0)"',
        'y = "Replicate()"',
        verdict="REFUTED",
        relations=("y = Shard(0)",),
        phrases=("y is float32[2, 4] on rank 0",),
    ),
    Case(
        "another_expectation_that_fails",
        "x: float32[4, 4]\n y = relu(x)\n -> y",
        'x: float32[2, 4]\n r = relu(x)\n a = view(r, [2, 2, 2])\n b = permute(a, [1, 0, 2])\n c = view(b, [4, 2])\n y = all_to_all(c, [2, 2], [2, 2], "tp")\n z = all_gather(r, 2, "tp")\n -> y, z',
        'x = "Shard(0)"',
        'y = "concat(rank(1), rank(0), dim=1)"',
        groups={"tp": ("tp",)},
        verdict="REFUTED",
        relations=("y = Shard(1)",),
        phrases=("does not hold",),
    ),
    # ------------------------------------------------------------------------------------------ assumptions
    Case(
        "constants_of_one_name",
        "x: float32[4]\n c = constant float32[]\n y = mul(x, c)\n -> y",
        "x: float32[2]\n c = constant float32[]\n y = mul(x, c)\n -> y",
        'x = "Shard(0)"',
        'y = "Shard(0)"',
        tables='[assume]\nconstants = "same name, same value"',
        relations=("y = Shard(0)",),
        assumptions=("constants",),
        wrong=(
            Wrong("another_name", "c = constant float32[]\n y = mul(x, c)", "d = constant float32[]\n y = mul(x, d)"),
            Wrong("another_value", "c = constant float32[]", "c = constant float32[] [2]"),
            Wrong("not_assumed", '[assume]\nconstants = "same name, same value"', "", "job", code="constant-missing"),
        ),
    ),
    Case(
        "constants_that_are_a_number",
        "x: float32[4]\n c = constant float32[]\n y = mul(x, c)\n -> y",
        "x: float32[2]\n d = constant float32[]\n y = mul(x, d)\n -> y",
        'x = "Shard(0)"',
        'y = "Shard(0)"',
        tables="[assume]\nconstants = 3",
        relations=("y = Shard(0)",),
        assumptions=("constants",),
        wrong=(Wrong("recorded_as_another", "d = constant float32[]", "d = constant float32[] [4]"),),
    ),
    Case(
        "dropout_with_the_same_mask",
        "x: float32[4, 6]\n w: float32[6, 6]\n a, k = native_dropout(x, 0.25, True)\n b = mm(a, w)\n y, l = native_dropout(b, 0.5, True)\n -> y",
        "x: float32[2, 6]\n w: float32[6, 6]\n a, k = native_dropout(x, 0.25, True)\n b = mm(a, w)\n y, l = native_dropout(b, 0.5, True)\n -> y",
        'x = "Shard(0)"\nw = "Replicate()"',
        'y = "Shard(0)"',
        tables='[assume]\ndropout = "same mask"',
        relations=("y = Shard(0)",),
        assumptions=("dropout",),
        wrong=(
            Wrong("another_probability", "native_dropout(x, 0.25, True)", "native_dropout(x, 0.75, True)"),
            Wrong("always_dropped", "native_dropout(b, 0.5, True)", "native_dropout(b, 1.0, True)"),
            Wrong("never_dropped", "native_dropout(b, 0.5, True)", "native_dropout(b, 0.5, False)"),
            Wrong("on_one_rank", "native_dropout(x, 0.25, True)", "native_dropout(x, 0.250001, True)", "rank 1"),
            Wrong("without_the_assumption", '[assume]\ndropout = "same mask"', "", "job"),
        ),
    ),
    Case(
        "dropout_is_refused_by_strict",
        "x: float32[4]\n y, l = native_dropout(x, 0.5, True)\n -> y",
        "x: float32[2]\n y, l = native_dropout(x, 0.5, True)\n -> y",
        'x = "Shard(0)"',
        'y = "Shard(0)"',
        tables='[assume]\ndropout = "same mask"',
        relations=("y = Shard(0)",),
        assumptions=("dropout",),
        strict=True,
        verdict="UNKNOWN",
        phrases=("dropout",),
    ),
    Case(
        "strict_without_assumptions",
        MLP,
        MLP,
        'default = "Replicate()"',
        'z = "Replicate()"',
        relations=("z = Replicate()",),
        strict=True,
        wrong=(Wrong("another_function", "relu(a)", "tanh(a)"),),
    ),
)


def jobs() -> list[Any]:
    """Every case and every wrong twin."""
    out: list[Any] = []
    for case in CASES:
        out.append(pytest.param(case, None, id=case.name))
        out += [pytest.param(case, wrong, id=f"{case.name}-{wrong.name}") for wrong in case.wrong]
    return out


def write(folder: Path, case: Case, wrong: Wrong | None) -> Path:
    size = prod(case.mesh.values())
    programs = [case.impl if isinstance(case.impl, str) else case.impl(rank) for rank in range(size)]
    spec = case.spec
    outputs = f"[outputs]\n{case.outputs}\n" if case.outputs else ""
    tables = f"[inputs]\n{case.inputs}\n{outputs}{case.tables}"
    if wrong is not None and wrong.where == "job":
        if wrong.old == "[impl.groups]":  # a table more
            tables = wrong.new.removesuffix("[impl.groups]") + tables
        else:
            assert wrong.old in tables
            tables = tables.replace(wrong.old, wrong.new)
    elif wrong is not None:
        ranks = range(size) if wrong.where == "impl" else [int(wrong.where.removeprefix("rank "))]
        assert any(wrong.old in programs[rank] for rank in ranks)
        for rank in ranks:
            programs[rank] = programs[rank].replace(wrong.old, wrong.new)
    folder.mkdir()
    return job_files(folder, spec, programs, tables, case.mesh, case.groups)


def prove(path: Path, case: Case, fold: bool | None) -> Report:
    job = read_job(path)
    start = time.process_time()
    report = refine(job, strict=case.strict, fold=fold)
    assert time.process_time() - start < 5.0, report.statistics.seconds
    return report


def relations(report: Report) -> tuple[str, ...]:
    return tuple(str(output.relation) for output in report.outputs if output.relation is not None)


@pytest.mark.parametrize(("case", "wrong"), jobs())
def test_job(case: Case, wrong: Wrong | None, tmp_path: Path) -> None:
    if wrong is not None and wrong.code:
        for fold in (True, False):
            with pytest.raises(UserError) as caught:
                refine(read_job(write(tmp_path / str(fold), case, wrong)), fold=fold)
            assert caught.value.code == wrong.code
            assert wrong.phrase in str(caught.value)
        return
    path = write(tmp_path / "job", case, wrong)
    report, by_rank = (prove(path, case, fold) for fold in (True, False))
    assert not by_rank.statistics.folded or len(case.mesh) == 0
    assert (report.verdict, relations(report)) == (by_rank.verdict, relations(by_rank))
    assert [output.notes for output in report.outputs] == [output.notes for output in by_rank.outputs]
    for one in (report, by_rank):
        judge(case, wrong, one)


def judge(case: Case, wrong: Wrong | None, report: Report) -> None:
    text = rendered(report, verbose=True)
    if wrong is not None:
        assert report.verdict is not Verdict.PROVED
        assert report.exit_code in (1, 3)
        assert not wrong.verdict or report.verdict.value == wrong.verdict, text
        assert wrong.phrase in text
        return
    assert report.verdict.value == case.verdict, text
    assert relations(report) == case.relations
    for phrase in case.phrases:
        assert phrase in text
    names = tuple(dict.fromkeys(a.name for a in report.assumptions if a.name != "real-arithmetic"))
    assert names == case.assumptions
    assert report.outputs_total == case.spec.split("->")[1].count(",") + 1
    if case.strict and case.verdict == "UNKNOWN":
        assert report.refused == case.assumptions


@pytest.mark.parametrize("case", [case for case in CASES if case.folded is not None], ids=lambda case: case.name)
def test_ranks_become_axes_only_where_they_run_one_program(case: Case, tmp_path: Path) -> None:
    report = prove(write(tmp_path / "job", case, None), case, None)
    assert report.statistics.folded is case.folded
    assert report.verdict.value == case.verdict


def test_names_are_distinct() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    for case, (a, b) in product(CASES, [(w, v) for c in CASES for w in c.wrong for v in c.wrong if w is not v]):
        assert a not in case.wrong or b not in case.wrong or a.name != b.name
