"""Programs that are equal over the reals and far apart in their own dtypes: the operator where that arises."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tantamount as tt
from tantamount.effort import Effort
from tantamount.limits import Bounds

torch = pytest.importorskip("torch", reason="compares PyTorch models")
TOKENS, HEADS, WIDTH = 12, 4, 8
LOST = "something is rounded on the way, or unstable"


class Attention(torch.nn.Module):
    """Attention with ALiBi, whose table is computed in one dtype and whose softmax in another, as Falcon's is.
    ``more``: added to the slopes, which are powers of two, so that they are rounded, too. ``step``: between positions,
    of which bfloat16 has those up to 256."""

    def __init__(
        self, table: Any = torch.float32, softmax: Any = torch.float32, more: float = 0.0, step: int = 59
    ) -> None:
        super().__init__()
        self.table, self.softmax, self.more, self.step = table, softmax, more, step
        self.qk = torch.nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Any) -> Any:
        slopes = torch.pow(2.0, -torch.arange(1, HEADS + 1) * 8 / HEADS) + self.more
        positions = torch.arange(TOKENS) * self.step
        table = slopes[:, None].to(self.table) * positions
        heads = self.qk(x).view(TOKENS, HEADS, -1).transpose(0, 1)
        scores = heads @ heads.transpose(1, 2) + table[:, None, :].to(x.dtype)
        weights = torch.softmax(scores.to(self.softmax), -1)
        return (weights.to(x.dtype) @ heads).transpose(0, 1).reshape(TOKENS, WIDTH)


class Twice(torch.nn.Module):
    """The sum of two products, each of them rounded."""

    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.dtype = dtype
        self.a, self.b = (torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))

    def forward(self, x: Any) -> Any:
        return self.a(x).to(self.dtype).float() + self.b(x).to(self.dtype).float()


def note_of(first: Any, second: Any, **more: Any) -> tuple[str, Any]:
    """The note that both are far apart, and the answer."""
    answer = tt.compare(first, second, inputs=(torch.zeros(TOKENS, WIDTH),), loaders=(None, None), **more)
    assert answer.proved
    (note,) = [note for note in answer.notes if note.startswith("far apart in their own dtypes")]
    return note, answer


@pytest.mark.parametrize(
    ("second", "operator", "line"),
    [
        (Attention(torch.bfloat16), "aten.mul.Tensor, bfloat16", "table = slopes[:, None].to(self.table) * positions"),
        (
            Attention(torch.bfloat16, more=0.3, step=20),
            "aten._to_copy.default, bfloat16",
            "table = slopes[:, None].to(self.table) * positions",
        ),
        (Attention(softmax=torch.float16), "float16", "weights = torch.softmax(scores.to(self.softmax), -1)"),
    ],
    ids=["table", "table of rounded slopes", "softmax"],
)
def test_the_operator_where_the_distance_arises_is_named(second: Attention, operator: str, line: str) -> None:
    note, _ = note_of(Attention(more=second.more, step=second.step), second)
    assert "the distance arises where the second program rounds the result of" in note
    assert operator in note
    assert "test_far_apart.py:" in note
    assert f"`{line}`" in note
    assert LOST not in note


def test_it_is_named_in_every_form_of_the_answer_and_of_the_program_that_has_it(tmp_path: Path) -> None:
    note, answer = note_of(Attention(torch.bfloat16), Attention())
    assert "the first program rounds the result of mul_2 (" in note
    assert "the first program rounds the result of mul_2 (" in " ".join(str(answer).split())
    for name in ("answer.json", "answer.html"):
        answer.save(tmp_path / name)
    assert note in json.loads((tmp_path / "answer.json").read_text())["jobs"][0]["notes"]
    assert "the first program rounds the result of mul_2 (" in (tmp_path / "answer.html").read_text()


def test_nothing_is_named_where_no_one_operator_accounts_for_the_distance() -> None:
    assert note_of(Twice(torch.float32), Twice(torch.bfloat16))[0].endswith(f"equal: {LOST}")


def test_nothing_is_looked_for_in_programs_that_are_large() -> None:
    few = Effort(bounds=replace(Bounds(), rounding_work=1))
    note, _ = note_of(Twice(torch.float32), Twice(torch.bfloat16), effort=few)
    assert "limit-rounding-work" in note
    assert few.hits["rounding_work"].needed
