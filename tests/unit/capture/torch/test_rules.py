"""Rules as Python functions: captured with symbolic sizes, and executed where they run kernels."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import tantamount as tt  # noqa: E402
from tantamount.effort import Effort  # noqa: E402
from tantamount.limits import Limits  # noqa: E402
from tantamount.ops import table as tables  # noqa: E402
from tantamount.rewriting.evidence import Standing, evidence_of  # noqa: E402


@torch.library.custom_op("tantamount_test::swish", mutates_args=())
def swish(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(x) * g


@swish.register_fake
def _(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@pytest.fixture(autouse=True)
def _declared(monkeypatch: pytest.MonkeyPatch) -> None:  # for these tests alone: other tests count operators
    monkeypatch.setattr(tables, "_TABLE", dict(tables.table()))
    tt.opaque("tantamount_test.swish.default", "t d, t d -> t d")


@cache
def _of_kernels() -> tuple[Any, Any]:
    @tt.rule(x="float32[T, D]", g="float32[T, D]")
    def fused_swish(x: Any, g: Any) -> Any:
        return torch.ops.tantamount_test.swish(x, g), x * torch.sigmoid(x) * g

    @tt.rule(x="float32[T, D]", g="float32[T, D]")
    def wrong_swish(x: Any, g: Any) -> Any:
        return torch.ops.tantamount_test.swish(x, g), x * torch.sigmoid(1.01 * x) * g

    return fused_swish, wrong_swish


@tt.rule(x="float32[B, N]", where=["N % 2 == 0", "N >= 6"])
def halves(x: Any) -> Any:
    n = x.shape[1] // 2
    return x.sum(1), x[:, :n].sum(1) + x[:, n:].sum(1)


@tt.rule(x="float32[N]", name="root-of-square")
def _root(x: Any) -> Any:
    return (x * x).sqrt(), x * 1, x > 0


def known(rule: Any) -> Any:
    return evidence_of(rule, Limits(), Effort())


def test_functions_become_rules() -> None:
    found = known(halves)
    assert found.standing is Standing.PROVED
    assert "N >= 6, N % 2 == 0" in found.text
    assert _root.name == "root-of-square"
    assert known(_root).standing is Standing.PROVED


def test_kernels_are_executed() -> None:
    found = known(_of_kernels()[0])
    assert found.standing is Standing.TESTED
    assert "executed as it was given" in found.text
    wrong = known(_of_kernels()[1])
    assert wrong.standing is Standing.REFUTED
    assert "executed as they were given" in wrong.text


class Written(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = (torch.nn.Linear(3, 2, bias=False) for _ in range(2))

    def forward(self, x: Any) -> Any:
        return torch.nn.functional.silu(self.a(x)) * self.b(x)


class Fused(Written):
    def forward(self, x: Any) -> Any:
        return torch.ops.tantamount_test.swish(self.a(x), self.b(x))


class Exchanged(Written):
    def forward(self, x: Any) -> Any:
        return torch.ops.tantamount_test.swish(self.b(x), self.a(x))


def compared(second: Any, **options: Any) -> Any:
    return tt.compare(Written(), second, inputs=(torch.zeros(2, 3),), **options)


def test_a_kernel_is_what_a_rule_says_if_that_is_accepted() -> None:
    assert compared(Fused()).verdict is tt.Verdict.UNKNOWN  # a function with these labels could be any
    report = compared(Fused(), rules=[_of_kernels()[0]])
    assert report.verdict is tt.Verdict.UNKNOWN
    assert report.refused == ("tested-rules",)
    assert compared(Fused(), rules=[_of_kernels()[0]], accept_tested=True).proved
    assert compared(Fused(), rules=[_of_kernels()[1]], accept_tested=True).verdict is tt.Verdict.UNKNOWN


def test_a_wrong_use_of_the_kernel_is_refuted_in_its_terms() -> None:
    report = compared(Exchanged(), rules=[_of_kernels()[0]], accept_tested=True)
    assert report.verdict is tt.Verdict.REFUTED
    assert any(a.name == "tested-rules" for a in report.assumptions)


@pytest.mark.parametrize(
    ("types", "function", "said"),
    [
        ({"x": "float32[N]"}, lambda x, y: (x, y), "types of x"),
        ({"x": "float32[2*N]"}, lambda x: (x, x), "a number or a symbol"),
        ({"x": "float32"}, lambda x: (x, x), "a type such as"),
        ({"x": "float32[N]"}, lambda x: (x + 1,), "1 results"),
        ({"x": "float32[N]"}, lambda x: (torch.dropout(x, 0.5, True), x), "draws, communicates or overwrites"),
    ],
)
def test_refused(types: dict[str, str], function: Any, said: str) -> None:
    with pytest.raises(tt.UserError, match=said.replace("[", r"\[")):
        tt.rule(name="r", **types)(function)
