"""What the records of random programs say of infinities, NaNs and zeros is true of PyTorch's values."""

import pytest

from tantamount.calculus import kinds

torch = pytest.importorskip("torch")

from support.amount import count  # noqa: E402
from support.records import draw, untrue  # noqa: E402

SEEDS = range(count(40, 400))


def test_records_say_what_is_true() -> None:
    assert {seed: said for seed in SEEDS if (said := untrue(draw(seed)))} == {}


@pytest.mark.parametrize(
    ("table", "wrong"),
    [
        ("RECIPROCAL", {True: kinds.POWER, False: kinds.POWER}),
        ("EXPONENTIAL", kinds.POWER),
        ("SUM", kinds.PRODUCT),
        ("EXTREME", kinds.POWER),
        ("ALL_SOFT", kinds.SAME),
    ],
)
def test_a_wrong_table_is_noticed(table: str, wrong: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, table, wrong)
    assert any(untrue(draw(seed)) for seed in range(80))
