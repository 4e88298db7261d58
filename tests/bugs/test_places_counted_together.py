"""``SUM_v SUM_u [O_v == u]`` for a permutation O of n positions was 1, not n: the sum over u was lost with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tantamount as tt
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch", reason="captures need PyTorch")
from torch import Tensor  # noqa: E402

N = 5
Places = Callable[[Tensor], Tensor]

ORDERS: dict[str, Places] = {
    "argsort": torch.argsort,
    "ranks": lambda x: torch.argsort(torch.argsort(x)),
    "topk": lambda x: torch.topk(x, N).indices,
    "kept in range": lambda x: torch.clamp((x * 3).to(torch.int64), 0, N - 1),
}
HOT: dict[str, Places] = {
    "one_hot": lambda o: torch.nn.functional.one_hot(o, N).float(),
    "compared": lambda o: (o[:, None] == torch.arange(N)).float(),
}
# how often something is counted when all places are, with the numbers of that count
COUNTED: dict[str, tuple[Places, float]] = {
    "all": (lambda hot: hot.sum(), N),
    "twice": (lambda hot: hot.sum() * hot.sum(), N * N),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("hot", HOT)
def test_places_are_counted_as_often_as_they_are(order: str, hot: str) -> None:
    x = torch.linspace(-1, 1, N)
    for name, (count, number) in COUNTED.items():

        def counted(x: Tensor, count: Places = count) -> Tensor:
            return count(HOT[hot](ORDERS[order](x))) * x

        assert torch.equal(counted(x), number * x)
        captured = tt.capture(counted, (x,))
        for factor in (1.0, number) if name == "all" else (number,):
            report = tt.refine(captured, tt.capture(lambda x, factor=factor: x * factor, (x,)))
            assert (report.verdict is Verdict.PROVED) is (factor == number), report.outputs
