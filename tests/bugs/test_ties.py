"""One order of elements served every operator: that sort is stable, or that topk chooses the first of equal elements as
argmax does, was PROVED, and eager differs where elements tie."""
# ruff: noqa: E501 - one program per line

from __future__ import annotations

from itertools import combinations_with_replacement, pairwise
from pathlib import Path

import pytest

from support.jobs import job_files
from tantamount import read_job
from tantamount.answers import refine
from tantamount.verdict import Report, Verdict

# Positions along the last dimension of x, by who chooses them. Those of one group are promised to be the same.
CHOICES = {
    "argmax": "p = aten.argmax.default(x, -1)",
    "max(dim)": "v, p = aten.max.dim(x, -1)",
    "sort(stable, descending)": "v, s = aten.sort.stable(x, stable=True, dim=-1, descending=True)\n p = aten.select.int(s, -1, 0)",
    "argsort(stable, descending)": "s = aten.argsort.stable(x, stable=True, dim=-1, descending=True)\n p = aten.select.int(s, -1, 0)",
    "sort(descending)": "v, s = aten.sort.default(x, -1, True)\n p = aten.select.int(s, -1, 0)",
    "sort(stable=False, descending)": "v, s = aten.sort.stable(x, stable=False, dim=-1, descending=True)\n p = aten.select.int(s, -1, 0)",
    "argsort(descending)": "s = aten.argsort.default(x, -1, True)\n p = aten.select.int(s, -1, 0)",
    "topk": "v, s = aten.topk.default(x, 1)\n p = aten.select.int(s, -1, 0)",
    "topk(2)": "v, s = aten.topk.default(x, 2)\n p = aten.select.int(s, -1, 0)",
    "topk(unsorted)": "v, s = aten.topk.default(x, 1, -1, True, False)\n p = aten.select.int(s, -1, 0)",
    "kthvalue": "v, p = aten.kthvalue.default(x, 6)",
    "cummax": "v, s = aten.cummax.default(x, 1)\n p = aten.select.int(s, -1, 5)",
    "max_pool2d": "u = unsqueeze(x, 1)\n v, s = aten.max_pool2d_with_indices.default(u, [1, 6])\n q = aten.reshape.default(s, [3])\n"
    " r = aten.arange.default(3)\n t = mul(r, 6)\n p = sub(q, t)",
}  # fmt: skip
PROMISED = [
    {"argmax", "max(dim)", "sort(stable, descending)", "argsort(stable, descending)"},
    {"sort(descending)", "sort(stable=False, descending)", "argsort(descending)"},
]
ASSUMED = [{"topk", "topk(unsorted)"}]  # see the assumption `operator`, and test_topk_chooses_alike_sorted_or_not
VALUES = {
    "max": "y = aten.amax.default(x, [-1])",
    "sort": "v, s = aten.sort.default(x, -1)\n y = aten.select.int(v, -1, 5)",
    "sort(descending)": "v, s = aten.sort.default(x, -1, True)\n y = aten.select.int(v, -1, 0)",
    "sort(stable)": "v, s = aten.sort.stable(x, stable=True, dim=-1)\n y = aten.select.int(v, -1, 5)",
    "topk": "v, s = aten.topk.default(x, 1)\n y = aten.select.int(v, -1, 0)",
    "kthvalue": "y, p = aten.kthvalue.default(x, 6)",
}
SECOND = {
    "sort": "v, s = aten.sort.default(x, -1)\n y = aten.select.int(v, -1, 4)",
    "sort(descending)": "v, s = aten.sort.default(x, -1, True)\n y = aten.select.int(v, -1, 1)",
    "sort(stable)": "v, s = aten.sort.stable(x, stable=True, dim=-1)\n y = aten.select.int(v, -1, 4)",
    "topk": "v, s = aten.topk.default(x, 2)\n y = aten.select.int(v, -1, 1)",
    "topk(3)": "v, s = aten.topk.default(x, 3)\n y = aten.select.int(v, -1, 1)",
    "kthvalue": "y, p = aten.kthvalue.default(x, 5)",
}


def _report(path: Path, specification: str, implementation: str, kind: str) -> Report:
    x = f"x: {kind}[3, 6]\n"
    rest = '[inputs]\ndefault = "Replicate()"\n'
    return refine(
        read_job(job_files(path, x + specification, [x + implementation] * 2, rest, {"tp": 2}, {"g": ("tp",)}))
    )


def _together(a: str, b: str) -> bool:
    return a == b or any(a in group and b in group for group in PROMISED + ASSUMED)


@pytest.mark.parametrize("kind", ["float32", "int64"])
@pytest.mark.parametrize(("first", "second"), [*combinations_with_replacement(CHOICES, 2)])
def test_a_choice_is_that_of_its_operator(first: str, second: str, kind: str, tmp_path: Path) -> None:
    if kind == "int64" and "max_pool2d" in (first, second):
        pytest.skip("of floats only")
    verdict = _report(tmp_path, f"{CHOICES[first]}\n -> p", f"{CHOICES[second]}\n -> p", kind).verdict
    assert verdict is (Verdict.PROVED if _together(first, second) else Verdict.UNKNOWN)


@pytest.mark.parametrize("table", [VALUES, SECOND], ids=["greatest", "second"])
@pytest.mark.parametrize("rows", ["x", "sum"])
def test_values_do_not_depend_on_the_choice(table: dict[str, str], rows: str, tmp_path: Path) -> None:
    for number, (name, other) in enumerate(pairwise(table)):
        made = "" if rows == "x" else "z = relu(x)\n w = add(x, z)\n"
        first, second = (made + (table[k] if rows == "x" else table[k].replace("(x", "(w")) for k in (name, other))
        folder = tmp_path / str(number)
        folder.mkdir()
        assert _report(folder, f"{first}\n -> y", f"{second}\n -> y", "float32").verdict is Verdict.PROVED, (
            name,
            other,
        )


@pytest.mark.parametrize(("size", "count"), [(6, 1), (6, 2), (6, 6), (40, 7), (200, 3)])
def test_topk_chooses_alike_sorted_or_not(size: int, count: int) -> None:
    """What is assumed of PyTorch: of rows full of ties topk takes the same elements whether it sorts them or not, and
    the same ones of a row whose elements compare alike. Rows at least 64 times as long as the result have an algorithm of
    their own."""
    torch = pytest.importorskip("torch")
    x = torch.randint(0, 3, (500, size), generator=torch.Generator().manual_seed(size)).float()
    for largest in (True, False):
        calls = [(row, each) for row in (x, x.exp()) for each in (True, False)]
        found = [torch.topk(row, count, -1, largest, each)[1].sort(-1)[0] for row, each in calls]
        assert all(torch.equal(one, found[0]) for one in found)
