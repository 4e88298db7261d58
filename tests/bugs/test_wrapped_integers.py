"""Integers were unbounded: a sum of uint8 that wraps around was PROVED against one that is promoted first, ``abs`` of
the least int8 against a positive number, and a float converted to int8 against itself, whatever it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tantamount as tt
from support.jobs import job_files
from tantamount import Verdict, read_job
from tantamount.answers import refine
from tantamount.errors import UserError

torch = pytest.importorskip("torch", reason="the programs are written in PyTorch")

I8, U8, I16, I32, I64 = torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64
Pair = tuple[Callable[..., Any], Callable[..., Any], list[Any]]

DIFFERENT: dict[str, Pair] = {
    "promoted sum": (lambda x, y: (x + y).to(I32), lambda x, y: x.to(I32) + y.to(I32), [I8, I8]),
    "sum of casts": (lambda x, y: (x.to(I8) + y.to(I8)).to(I32), lambda x, y: x + y, [I32, I32]),
    "abs of the least": (lambda x: x.abs().to(I32), lambda x: x.to(I32).abs(), [I8]),
    "uint8 below 0": (lambda x: (x - 3).to(I32), lambda x: x.to(I32) - 3, [U8]),
    "minus uint8": (lambda x: (-x).float(), lambda x: -x.float(), [U8]),
    "sum in int8": (lambda x: x.sum(dtype=I8).to(I64), lambda x: x.sum(), [I8]),
    "long sum in int16": (lambda x: x.sum(dtype=I16).to(I32), lambda x: x.sum(dtype=I32), [(U8, 300)]),
    "quotient of a wrapped sum": (
        lambda x, y: (x + y) // 2,
        lambda x, y: ((x.to(I32) + y.to(I32)) // 2).to(I8),
        [I8, I8],
    ),
    "quotient before a cast": (lambda x: (x // 3).to(I8), lambda x: x.to(I8) // 3, [I32]),
    "shift there and back": (lambda x: (x << 4) >> 4, lambda x: x, [I8]),
    "shift of another sign": (lambda x: x >> 4, lambda x: (x.to(U8) >> 4).to(I8), [I8]),
    "order after a difference": (lambda x, y: (x - y) < 0, lambda x, y: x < y, [I8, I8]),
    "order of uint8": (lambda x, y: (x - y) > 0, lambda x, y: x > y, [U8, U8]),
    "minimum as a maximum": (lambda x, y: torch.minimum(x, y), lambda x, y: -torch.maximum(-x, -y), [I8, I8]),
    "relu of a difference": (
        lambda x, y: torch.relu(x - y),
        lambda x, y: (x.to(I16) - y.to(I16)).clamp(min=0).to(U8),
        [U8, U8],
    ),
    "product in int16": (
        lambda x, y: (x.to(I16) * y.to(I16)).to(I32),
        lambda x, y: x.to(I32) * y.to(I32),
        [U8, U8],
    ),
    "matrix product in int8": (
        lambda x, y: (x @ y).to(I32),
        lambda x, y: x.to(I32) @ y.to(I32),
        [(I8, 3, 4), (I8, 4, 2)],
    ),
    "sign of a cast": (lambda x: x.to(U8).to(I16), lambda x: x.to(I16), [I32]),
    "truth of a product": (lambda x: (x * 2).to(torch.bool), lambda x: x.to(torch.bool), [U8]),
    "a number too large": (lambda x: x < 300, lambda x: torch.ones_like(x, dtype=torch.bool), [U8]),
    "running sum": (lambda x: x.cumsum(0, dtype=I8).to(I64), lambda x: x.cumsum(0), [I8]),
    "an unclamped float": (lambda x: x.trunc(), lambda x: x.to(I8).float(), [torch.float32]),
    "clamped too wide": (
        lambda x: x.clamp(-128, 128).round(),
        lambda x: x.clamp(-128, 128).round().to(I8).float(),
        [torch.float32],
    ),
}  # fmt: skip

EQUAL: dict[str, Pair] = {
    "sum, cast late": (lambda x, y: x + y, lambda x, y: (x.to(I32) + y.to(I32)).to(I8), [I8, I8]),
    "abs, cast late": (lambda x: x.abs(), lambda x: x.to(I32).abs().to(I8), [I8]),
    "adding the complement": (lambda x: x - 3, lambda x: x + 253, [U8]),
    "sum, cast late, in parts": (
        lambda x: x.sum(dtype=I8),
        lambda x: (x[:3].sum() + x[3:].sum(dtype=I8).to(I64)).to(I8),
        [I8],
    ),
    "narrowed twice": (lambda x: x.to(I16).to(I8), lambda x: x.to(I8), [I32]),
    "there and back": (lambda x: x.to(U8).to(I8), lambda x: x, [I8]),
    "another sign": (lambda x: x.to(I8).to(I16) + 128, lambda x: (x + 128).to(I16), [U8]),
    "wide enough": (lambda x, y: (x.to(I16) * y.to(I16)).to(I32), lambda x, y: x.to(I32) * y.to(I32), [I8, I8]),
    "short sum in int16": (lambda x: x.sum(dtype=I16).to(I32), lambda x: x.sum(dtype=I32), [(U8, 100)]),
    "matrix product in parts": (
        lambda x, y: x @ y,
        lambda x, y: x[:, :2] @ y[:2] + (x[:, 2:].to(I32) @ y[2:].to(I32)).to(I8),
        [(I8, 3, 4), (I8, 4, 2)],
    ),
    "distributed": (lambda x, y: x * (y + x), lambda x, y: x * y + x * x, [I8, I8]),
    "minimum": (
        lambda x, y: torch.minimum(x, y).to(I32),
        lambda x, y: -torch.maximum(-x.to(I32), -y.to(I32)),
        [I8, I8],
    ),
    "clamped integers": (lambda x: x.clamp(-128, 127), lambda x: x.clamp(-128, 127).to(I8).to(I32), [I32]),
    "clamped floats": (
        lambda x: x.round().clamp(-128, 127),
        lambda x: x.round().clamp(-128, 127).to(I8).float(),
        [torch.float32],
    ),
    "complement": (lambda x: ~x, lambda x: -x - 1, [U8]),
}  # fmt: skip


def report(pair: Pair) -> tt.Report:
    first, second, types = pair
    shapes = [item if isinstance(item, tuple) else (item, 6) for item in types]
    args = tuple(torch.zeros(shape, dtype=dtype) for dtype, *shape in shapes)
    return tt.refine(tt.capture(first, args), tt.capture(second, args))


@pytest.mark.parametrize("name", DIFFERENT)
def test_programs_that_wrap_otherwise_are_refuted(name: str) -> None:
    found = report(DIFFERENT[name])
    assert found.verdict is Verdict.REFUTED, str(found)


@pytest.mark.parametrize("name", EQUAL)
def test_programs_that_wrap_alike_are_proved_without_a_condition(name: str) -> None:
    found = report(EQUAL[name])
    assert found.verdict is Verdict.PROVED, str(found)
    assert {a.name for a in found.assumptions} == {"real-arithmetic"}


def test_what_a_specification_converts_is_printed() -> None:
    """Out of range the conversion of a float is undefined in C: nothing is claimed there, and it says so."""
    found = report((lambda x: (x * 2).to(I8), lambda x: (x + x).to(I8), [torch.float32]))
    assert found.verdict is Verdict.PROVED, str(found)
    (printed,) = (a for a in found.assumptions if a.name == "narrow-conversion")
    assert "in their range" in printed.text
    assert printed.places
    clamped = report((lambda x: x.clamp(-5, 5).to(I8), lambda x: x.clamp(-5, 5).to(I8), [torch.float32]))
    assert {a.name for a in clamped.assumptions} == {"real-arithmetic"}


@pytest.mark.parametrize(("whole", "part", "fits"), [
    ("int16", "int8", False), ("uint8", "int8", False), ("int8", "uint8", False), ("int64", "int16", False),
    ("int8", "int16", True), ("uint8", "int32", True), ("int8", "int8", True),
])  # fmt: skip
def test_inputs_hold_what_the_specification_s_do(whole: str, part: str, fits: bool, tmp_path: Path) -> None:
    """An int8 tensor as a shard of an int16 one restricted the specification, and nothing said so."""
    body = "y = aten._to_copy.default(x, dtype=float32)\n-> y"
    texts = [f"x: {whole}[4]\n{body}", f"x: {part}[2]\n{body}"]
    tables = '[inputs]\nx = "Shard(0)"\n[outputs]\ny = "Shard(0)"'
    path = job_files(tmp_path, texts[0], [texts[1]] * 2, tables, {"tp": 2}, {"tp": ("tp",)})
    if fits:
        assert refine(read_job(path)).verdict is Verdict.PROVED
        return
    with pytest.raises(UserError, match=f"does not hold every number of {whole}") as found:
        read_job(path)
    assert found.value.code == "job-relation-shape"
