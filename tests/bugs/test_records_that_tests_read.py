"""What ``isnan``, ``==`` and the like read in records of where a number is undefined. The record of one operand only
was read where both had one form (``x == x * y / y`` was true), and a condition that counts (how many summands are NaN)
was taken for a boolean."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import tantamount as tt
from tantamount.limits import Limits
from tantamount.ops.literals import exact, rest_of_one
from tantamount.verdict import Verdict

Program = Callable[[Tensor, Tensor], Tensor]
ROWS = (torch.ones(2, 4), torch.ones(2, 4))
PAIRS: dict[str, tuple[Program, Program]] = {
    "a quotient": (lambda x, y: x == x * y / y, lambda x, y: torch.ones_like(x).bool()),
    "a square of a root": (lambda x, y: x == x.sqrt() ** 2, lambda x, y: torch.ones_like(x).bool()),
    "a logarithm times 0": (lambda x, y: torch.where(x != x + 0 * y.log(), 0.0, x), lambda x, y: x),
    "a sum": (lambda x, y: (x / x).sum(-1).isnan().float(), lambda x, y: (x == 0).float().sum(-1)),
    "roots": (lambda x, y: x.sqrt().sum(-1).isfinite().float(), lambda x, y: 1 - (x < 0).float().sum(-1)),
    "a product": (
        lambda x, y: ((x / x) @ y.T).isnan().long(),
        lambda x, y: (x == 0).long() @ torch.ones(4, 2, dtype=torch.long),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_tests_for_numbers_read_all_of_both_records(name: str) -> None:
    one, other = PAIRS[name]
    nothing = Limits(witness_elements=0, witness_work=0)  # no execution refutes what is proved wrongly
    report = tt.refine(tt.capture(one, ROWS), tt.capture(other, ROWS), limits=nothing)
    assert report.verdict is not Verdict.PROVED, report
    same = tt.refine(tt.capture(one, ROWS), tt.capture(one, ROWS), limits=nothing)
    assert same.verdict is Verdict.PROVED, same


def test_what_is_computed_of_positions_and_numbers_is_evaluated() -> None:
    def program(i: Tensor) -> Tensor:
        return torch.where(torch.gcd(torch.arange(5), i * 0 + 4) == 2, i, 0)

    given = (torch.zeros(5, dtype=torch.int64),)
    assert tt.refine(tt.capture(program, given), tt.capture(lambda i: program(i) + 0 * i, given)).proved


def test_a_rest_of_one_is_a_weight_and_printed() -> None:
    for c in (0.99, 0.999, 0.9, 0.95):
        assert exact(1 - c) == 1 - exact(c)
    assert rest_of_one(1 - 0.999999999999) is None  # 2e-5 away from 1e-12
    assert rest_of_one(0.010000000000000123) is None
    given = (torch.ones(3),)
    report = tt.refine(tt.capture(lambda x: x * (1 - 0.99), given), tt.capture(lambda x: x / 100, given))
    assert report.proved
    assert [a.text for a in report.assumptions if a.name == "rounded-literals"] == [
        "literals of all digits stand for the number they round: 0.010000000000000009 is 1/100"
    ]
