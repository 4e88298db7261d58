"""Programs that were PROVED although they are wrong: each was found by hand, and each must never be proved again."""
# ruff: noqa: E501 - one program per line

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import job_files
from tantamount import read_job
from tantamount.refine import refine
from tantamount.verdict import Verdict

REPLICATED = '[inputs]\ndefault = "Replicate()"\n'
MASKS = '[assume]\ndropout = "same mask"\n'
EMBEDDED = "w: float32[4, 3]\n i: int64[4]\n n = aten.bitwise_and.Tensor(i, i)\n h = embedding(w, n)\n a = mul(h, 0.0)\n e = embedding(w, i)\n h2 = add(e, a)\n y = relu(w)\n -> y, q=h2"


def _unshifted(call: str) -> list[str]:
    return [
        f"i: int64[4]\n s: float32[4]\n z = zeros([4])\n k = aten.sub.Tensor(i, {4 * rank})\n y = {call}\n -> y"
        for rank in range(2)
    ]


JOBS = {
    # places out of range on a rank: an error, or (negative ones) another element
    "index_put_out_of_range": (
        "i: int64[4]\n s: float32[4]\n z = zeros([8])\n y = aten.index_put.default(z, [i], s, True)\n -> y",
        _unshifted("aten.index_put.default(z, [k], s, True)"),
        REPLICATED,
    ),
    "scatter_add_out_of_range": (
        "i: int64[4]\n s: float32[4]\n z = zeros([8])\n y = aten.scatter_add.default(z, 0, i, s)\n -> y",
        _unshifted("aten.scatter_add.default(z, 0, k, s)"),
        REPLICATED,
    ),
    "index_fill_out_of_range": (
        "i: int64[4]\n s: float32[4]\n z = zeros([8])\n y = aten.index_fill.int_Scalar(z, 0, i, 1.0)\n -> y",
        _unshifted("aten.index_fill.int_Scalar(z, 0, k, 1.0)"),
        REPLICATED,
    ),
    "one_hot_out_of_range": (
        "i: int64[4]\n s: float32[4]\n y = aten.one_hot.default(i, 8)\n -> y",
        _unshifted("aten.one_hot.default(k, 4)"),
        REPLICATED,
    ),
    "index_behind_a_name_of_the_expression": (
        "w: float32[4, 3]\n i: int64[4]\n y = embedding(w, i)\n -> y",
        [EMBEDDED, EMBEDDED],
        REPLICATED + "[outputs]\ny = 'rank(1, \"q\")'",
    ),
    # rank 0 drops twice, rank 1 once: the second mask of rank 0 is not its first
    "dropouts_out_of_step": (
        "x: float32[4]\n a, k = native_dropout(x, 0.1, True)\n b, l = native_dropout(x, 0.1, True)\n z = mul(a, a)\n -> z",
        [
            f"x: float32[4]\n a, k = native_dropout(x, {p}, True)\n b, l = native_dropout(x, 0.1, True)\n z = mul(a, b)\n -> z"
            for p in ("0.1", "0.0")
        ],
        REPLICATED + '[outputs]\nz = "rank(0)"\n' + MASKS,
    ),
    # equal elements do not tell which part of the mask a rank uses
    "dropout_of_a_broadcast_tensor": (
        "v: float32[3]\n e = expand(v, [4, 3])\n d, k = native_dropout(e, 0.1, True)\n a = slice(d, 0, 0, 2)\n z = mul(a, 2.0)\n -> z",
        [
            'v: float32[3]\n e = expand(v, [2, 3])\n d, k = native_dropout(e, 0.1, True)\n z = all_reduce(d, "sum", "tp")\n -> z'
        ]
        * 2,
        REPLICATED + MASKS,
    ),
    "dropout_of_a_row_per_rank": (
        "v: float32[3]\n e = expand(v, [2, 3])\n d, k = native_dropout(e, 0.1, True)\n z = sum_dims(d, [0])\n -> z",
        ['v: float32[3]\n d, k = native_dropout(v, 0.1, True)\n z = all_reduce(d, "sum", "tp")\n -> z'] * 2,
        REPLICATED + MASKS,
    ),
    "dropout_of_a_repeated_tensor": (
        "x: float32[3]\n e = cat([x, x])\n d, k = native_dropout(e, 0.1, True)\n a = slice(d, 0, 0, 3)\n z = mul(a, 2.0)\n -> z",
        ['x: float32[3]\n d, k = native_dropout(x, 0.1, True)\n z = all_reduce(d, "sum", "tp")\n -> z'] * 2,
        REPLICATED + MASKS,
    ),
}


@pytest.mark.parametrize("fold", [None, False])
@pytest.mark.parametrize("name", JOBS)
def test_never_proved(name: str, fold: bool | None, tmp_path: Path) -> None:
    specification, implementation, tables = JOBS[name]
    job = read_job(job_files(tmp_path, specification, implementation, tables, {"tp": 2}, {"tp": ("tp",)}))
    assert refine(job, fold=fold).verdict is not Verdict.PROVED


def test_a_name_that_means_another_node_on_another_rank(tmp_path: Path) -> None:
    """Both ranks have a node ``a``, but rank 1 calls another node ``z``: z = Replicate() does not follow from a."""
    ranks = ["x: float32[4]\n a = relu(x)\n -> z=a", "x: float32[4]\n a = relu(x)\n b = tanh(x)\n -> z=b"]
    job = read_job(job_files(tmp_path, "x: float32[4]\n z = relu(x)\n -> z", ranks, REPLICATED, {"tp": 2}, {}))
    relation = refine(job).outputs[0].relation
    assert relation is None or relation.expression == 'rank(0, "z")'


def test_the_same_tensor_dropped_whole_is_paired(tmp_path: Path) -> None:
    """Values that do not tell the place do no harm where the whole tensor is dropped on one rank."""
    program = "v: float32[3]\n e = expand(v, [4, 3])\n d, k = native_dropout(e, 0.1, True)\n -> d"
    job = read_job(job_files(tmp_path, program, [program], REPLICATED + MASKS, {"tp": 1}, {}))
    assert refine(job).verdict is Verdict.PROVED
