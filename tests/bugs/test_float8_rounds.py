"""Casts to floats of 8 bits were the identity: a program that rounds its weights, or rounds them twice or in another
place, was PROVED equal to one that does not. Each is a function of the number now, the same on every rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tantamount as tt
from tantamount import Verdict
from tantamount.ir.types import DType
from tantamount.ops.functions import FUNCTIONS, ROUNDINGS

torch = pytest.importorskip("torch", reason="the programs are written in PyTorch")

E4, E5 = torch.float8_e4m3fn, torch.float8_e5m2
X = torch.tensor([[0.3, -7.1, 500.0, 1e-5], [448.0, 464.0, 0.0, -1.0]])


def _round(x: Any, dtype: Any) -> Any:
    return x.to(dtype).to(torch.float32)


def _held(x: Any, dtype: Any) -> Any:
    return _round(x.clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max), dtype)


@pytest.mark.parametrize("dtype", [E4, E5])
def test_numbers_are_rounded_as_pytorch_does(dtype: Any) -> None:
    every = torch.arange(256, dtype=torch.uint8).view(dtype).double()
    every = every[every.isfinite()].sort().values.unique()
    between = (every[1:] + every[:-1]) / 2
    edges = torch.tensor(
        [464.0, 464.001, 479.9, 480.0, 500.0, 57344.0, 61439.0, 61440.0, 1e9, float("inf"), float("nan")]
    )
    x = torch.cat([every, between, between * (1 + 2**-20), between * (1 - 2**-20), edges.double(), -edges.double()])
    wanted = x.float().to(dtype).double()
    label = DType.named(str(dtype).removeprefix("torch."))
    assert label is not None
    found = torch.tensor(FUNCTIONS[ROUNDINGS[label]].evaluate(x.float().double().numpy()))
    assert torch.equal(found.nan_to_num(7e7, 8e8, -8e8), wanted.nan_to_num(7e7, 8e8, -8e8))


Pair = tuple[Callable[..., Any], Callable[..., Any]]
DIFFERENT: dict[str, Pair] = {
    "rounded or not": (lambda x: x, lambda x: _held(x, E4)),
    "rounded twice": (lambda x: _held(x, E5), lambda x: _held(_held(x, E4), E5)),
    "before a sum": (lambda x: _held(x.sum(0), E4), lambda x: _held(x, E4).sum(0)),
    "before a product": (lambda x: _held(3 * x, E4), lambda x: 3 * _held(x, E4)),
    "nothing of it": (lambda x: x, lambda x: x + 0 * _round(x, E5)),
    "not held": (lambda x: _held(x, E5), lambda x: _round(x, E5)),
}
EQUAL: dict[str, Pair] = {
    "the same": (lambda x: _round(x, E4) * 2, lambda x: _round(x, E4) + _round(x, E4)),
    "in parts": (lambda x: _round(x, E5), lambda x: torch.cat([_round(x[:1], E5), _round(x[1:], E5)])),
    "rounded again": (lambda x: _round(x, E4), lambda x: _round(_round(x, E4).to(torch.bfloat16), E4)),
    "nothing of it": (lambda x: x, lambda x: x + 0 * _round(x, E4)),  # what is too large becomes the largest number
    "of the other sign": (lambda x: -_round(x, E4), lambda x: _round(-x, E4)),
    "scaled, held, restored": (lambda x: _held(x / 2, E4) * 2, lambda x: 2 * _held(x * 0.5, E4)),
}


def _report(pair: Pair, x: Any) -> Any:
    specification, implementation = (tt.capture(program, (x,)) for program in pair)
    return tt.refine(specification, implementation)


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs_is_refuted(name: str) -> None:
    report = _report(DIFFERENT[name], X)
    assert report.verdict is (Verdict.UNKNOWN if name == "nothing of it" else Verdict.REFUTED)


@pytest.mark.parametrize("name", EQUAL)
def test_what_is_equal_is_proved(name: str) -> None:
    assert _report(EQUAL[name], X).verdict is Verdict.PROVED


def test_what_is_given_in_float8_is_rounded_already() -> None:
    x = X.clamp(-448, 448).to(E4)
    report = _report((lambda x: x.float(), lambda x: _round(x.float(), E4)), x)
    assert report.verdict is Verdict.PROVED
    report = _report((lambda x: x.float(), lambda x: _round(x.float(), E5)), x)
    assert report.verdict is Verdict.REFUTED
