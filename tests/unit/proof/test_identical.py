"""Programs are proved against themselves, whatever they do with infinities; and only against themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tantamount as tt
from support.singular import FAMILIES, Family, Pair, verdict
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")

Program = Callable[[Any, Any], Any]
PROGRAMS: dict[str, Program] = {
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "fmod": torch.fmod,
    "remainder": torch.remainder,
    "tanh": lambda x, y: torch.tanh(x / y),
    "sort": lambda x, y: (x / y).sort()[0],
    "compare": lambda x, y: x / y > 1,
    "clamp": lambda x, y: (x / y).clamp(0, 1),
}
OTHERS: dict[str, tuple[Program, Program]] = {
    "tanh": (lambda x, y: torch.tanh(1 / y.double()), lambda x, y: torch.tanh(y / y.double().pow(2))),
    "sign of zero": (lambda x, y: torch.tanh(1 / (x - y).double()), lambda x, y: -torch.tanh(1 / (y - x).double())),
    "other operand": (lambda x, y: (x / y).clamp(0, 1), lambda x, y: (x / (y + y - y)).clamp(0, 1)),
    "division by zero": (lambda x, y: torch.where(y == 0, x, x), lambda x, y: x + torch.div(x, y).long() * 0),
}


def check(specification: Program, implementation: Program, ranks: int = 1) -> Verdict:
    inputs = (torch.ones(4, dtype=torch.long), torch.ones(4, dtype=torch.long))
    return tt.refine(
        tt.capture(specification, inputs),
        tt.capture_ranks(lambda _: (implementation, inputs), ranks, mesh={"tp": ranks}),
        outputs={"output": "Replicate()"},
    ).verdict


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_proved_against_itself(name: str) -> None:
    assert check(PROGRAMS[name], PROGRAMS[name], 2 if name == "tanh" else 1) is Verdict.PROVED


@pytest.mark.parametrize("name", OTHERS)
def test_another_program_is_not_the_same(name: str) -> None:
    assert check(*OTHERS[name]) is not Verdict.PROVED


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_singular_programs_are_proved_against_themselves(family: Family) -> None:
    for program in family.programs[::4]:
        found, reason = verdict(Pair(family, program, program))
        assert found is Verdict.PROVED, f"{program}: {reason}"
