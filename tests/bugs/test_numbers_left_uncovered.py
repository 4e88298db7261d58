"""A proof with a number as a symbol holds where its conditions do. The numbers outside were looked for by a solver that
gave up on ranges without an end: programs which differ at 1, 2 and 3 were PROVED, with a line that said "whether there
are others is not known"."""

from __future__ import annotations

import sys

import pytest

torch = pytest.importorskip("torch", reason="capture needs PyTorch")

import tantamount as tt  # noqa: E402
from tantamount.sizes.domain import Domain, Symbol  # noqa: E402
from tantamount.sizes.search import find_sizes  # noqa: E402
from tantamount.sizes.symbolic import Condition  # noqa: E402
from tantamount.verdict import Verdict  # noqa: E402

X = torch.arange(12.0).reshape(4, 3)


def _rows(strict: bool) -> object:
    def program(x: torch.Tensor, k: int) -> torch.Tensor:
        rows = torch.arange(4, dtype=torch.float32)[:, None]
        return torch.where(rows < k if strict else rows <= k, x, 0 * x)

    return tt.capture(program, (X, 2), dynamic={"k": "K"})


@pytest.mark.parametrize("solver", [True, False])
def test_programs_that_differ_at_small_numbers_only(solver: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not solver:
        monkeypatch.setitem(sys.modules, "z3", None)
    report = tt.refine(_rows(True), _rows(False))
    assert report.verdict is Verdict.REFUTED, str(report)
    assert tt.refine(_rows(True), _rows(True)).verdict is Verdict.PROVED


@pytest.mark.parametrize("solver", [True, False])
def test_a_range_without_an_end_is_searched(solver: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not solver:
        monkeypatch.setitem(sys.modules, "z3", None)
    least = Condition("positive", (((), -4), ((("K", 1),), 1)))
    found = find_sizes(Domain((Symbol("K", 3, 1),)), [[least]])
    assert found.sizes is not None
    assert 1 <= found.sizes["K"] <= 4


def test_a_number_where_only_known_ones_are_read_is_refused() -> None:
    power = tt.capture(lambda x, k: x**k, (X, 2), dynamic={"k": "K"})
    with pytest.raises(tt.UserError) as problem:
        tt.refine(power, power)
    assert problem.value.code == "operator-types"
