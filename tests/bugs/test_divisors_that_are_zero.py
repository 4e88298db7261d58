"""``where(y == 0, 0, x // y)`` was PROVED to be what divides by 1 there. Of whole numbers eager divides everything, and
stops at a 0: so it does if the quotient is masked, sliced away, or used by nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import job_files
from tantamount import read_job
from tantamount.answers import refine
from tantamount.verdict import Report, Verdict

REPLICATED = "[inputs]\ndefault = 'Replicate()'\n[outputs]\ndefault = 'Replicate()'\n"
IN = "x: {0}[4]\ny: {0}[4]\n"
PLAIN = "c = aten.eq.Scalar(y, 0)\nz = aten.zeros_like.default(x)\n"
GUARDED = PLAIN + "o = aten.ones_like.default(y)\nw = aten.where.self(c, o, y)\n"
QUOTIENTS = {
    "floor_divide": "q = aten.floor_divide.default(x, {})",
    "remainder": "q = aten.remainder.Tensor(x, {})",
    "fmod": "q = aten.fmod.Tensor(x, {})",
    "trunc": 'q = aten.div.Tensor_mode(x, {}, rounding_mode="trunc")',
    "floor": 'q = aten.div.Tensor_mode(x, {}, rounding_mode="floor")',
}


def _report(folder: Path, specification: str, implementation: str) -> Report:
    folder.mkdir(exist_ok=True)
    return refine(read_job(job_files(folder, specification, [implementation] * 2, REPLICATED, {"tp": 2}, {})))


def _verdict(folder: Path, specification: str, implementation: str, dtype: str = "int64") -> Verdict:
    given = IN.format(dtype)
    return _report(folder, given + specification + "\n-> r", given + implementation + "\n-> r").verdict


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8"])
@pytest.mark.parametrize("name", QUOTIENTS)
def test_a_masked_quotient(tmp_path: Path, name: str, dtype: str) -> None:
    quotient = QUOTIENTS[name]
    guarded = GUARDED + quotient.format("w") + "\nr = aten.where.self(c, z, q)"
    plain = PLAIN + quotient.format("y") + "\nr = aten.where.self(c, z, q)"
    assert _verdict(tmp_path / "wrong", guarded, plain, dtype) is Verdict.REFUTED
    if "int8" not in dtype:
        assert _verdict(tmp_path / "right", plain, guarded, dtype) is Verdict.PROVED  # that stops, and is no number
    assert _verdict(tmp_path / "itself", plain, plain, dtype) is Verdict.PROVED


SLICED = "a = slice(x, 0, 0, 2)\nb = slice(y, 0, 0, 2)\nr = aten.floor_divide.default(a, b)"
PARTS = (
    "a = slice(x, 0, 0, 2)\nb = slice(y, 0, 0, 2)\np = aten.floor_divide.default(a, b)\n"
    "d = slice(x, 0, 2, 4)\ne = slice(y, 0, 2, 4)\nq = aten.floor_divide.default(d, e)\nr = aten.cat.default([p, q])"
)
WHOLE = "q = aten.floor_divide.default(x, y)\n"


@pytest.mark.parametrize(
    ("specification", "implementation", "wanted"),
    [
        (SLICED, WHOLE + "r = slice(q, 0, 0, 2)", Verdict.REFUTED),
        (WHOLE + "r = slice(q, 0, 0, 2)", SLICED, Verdict.PROVED),
        ("r = aten.add.Tensor(x, 1)", WHOLE + "r = aten.add.Tensor(x, 1)", Verdict.REFUTED),
        (
            "r = aten.add.Tensor(x, 1)",
            WHOLE + "n = mul(q, 0)\ns = aten.add.Tensor(x, 1)\nr = add(s, n)",
            Verdict.REFUTED,
        ),
        (PARTS, WHOLE + "r = mul(q, 1)", Verdict.PROVED),
        (WHOLE + "r = mul(q, 1)", PARTS, Verdict.PROVED),
        (
            WHOLE + "r = mul(q, 1)",
            WHOLE + "h = aten.bitwise_right_shift.Tensor_Scalar(x, 1)\nr = mul(q, 1)",
            Verdict.PROVED,
        ),
    ],
)
def test_what_is_divided_and_not_used(tmp_path: Path, specification: str, implementation: str, wanted: Verdict) -> None:
    assert _verdict(tmp_path, specification, implementation) is wanted


def test_what_a_refutation_and_a_proof_say(tmp_path: Path) -> None:
    wrong = _report(
        tmp_path / "a", IN.format("int64") + "r = mul(x, 1)\n-> r", IN.format("int64") + WHOLE + "r = mul(x, 1)\n-> r"
    )
    assert "q divides a whole number by 0 where r[0] is defined" in str(wrong)
    changed = IN.format("int64") + WHOLE + "r = mul(q, 1)\n-> q=r"
    right = _report(tmp_path / "b", IN.format("int64") + WHOLE + "-> q", changed)
    assert right.verdict is Verdict.PROVED
    assert [a.places for a in right.assumptions if a.name == "domain"] == [("q",)]


def test_captures_keep_what_may_stop() -> None:
    torch = pytest.importorskip("torch", reason="captures need PyTorch")
    from tantamount import capture

    def unused(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        x // y, w[y], w / y
        return x + 1

    x = torch.ones(3, dtype=torch.int64)
    targets = [node.target for node in capture(unused, (x, x, torch.ones(3))).graph.nodes]
    assert targets[3:] == ["aten.floor_divide.default", "aten.index.Tensor", "aten.add.Tensor"]
