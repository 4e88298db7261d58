"""An element of an order at a position that need not be one of it: such an element is 0, and that more than once. It
was taken for an element of an order, of which no two are equal, so that writes at these places could not meet."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tantamount as tt
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")

ROW = 8
Places = Callable[[object, object], object]


def opposite(x, y):
    """Elements of an order where the negative of another one is a position."""
    places, order = x.argsort(stable=True), y.argsort(stable=True)
    return ((places[:, None] + torch.arange(ROW) == 0) * order).sum(1)


def padded(x, y):
    """Elements of an order of six elements at those of an order of eight."""
    return torch.cat([y.topk(6).indices, torch.zeros(2, dtype=torch.long)])[x.topk(5).indices]


class Written(torch.nn.Module):
    def __init__(self, places: Places, call: str) -> None:
        super().__init__()
        self.places, self.call = places, call

    def forward(self, x, y, values):
        return getattr(torch.zeros(ROW), self.call)(0, at := self.places(x, y), values[: len(at)])


@pytest.mark.parametrize("places", [opposite, padded])
def test_places_that_occur_twice(places: Places) -> None:
    torch.manual_seed(0)
    inputs = torch.randn(ROW), torch.randn(ROW), torch.randn(ROW)
    once, added = Written(places, "scatter"), Written(places, "scatter_add")
    assert not torch.allclose(once(*inputs), added(*inputs))
    assert tt.compare(once, added, inputs=inputs).verdict is not Verdict.PROVED
