"""One order of blocks can be written with blocks of several lengths, and the tensor's own order as one, too: right
plans whose ends of a joint write it in two ways were REFUTED."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.plans import verified, write_plan
from tantamount.plan.orders import Order
from tantamount.verdict import Verdict


def test_an_order_has_one_shortest_form() -> None:
    assert Order(0, (0, 1)).shortest is Order(0, (0, 1, 2, 3)).shortest is None
    assert Order(0, (2, 3, 0, 1)).shortest == Order(0, (1, 0)) == Order(0, (1, 0)).shortest
    assert Order(1, (4, 5, 0, 1, 2, 3)).shortest == Order(1, (2, 0, 1))
    for blocks in ((1, 2, 3, 0), (0, 2, 1, 3), (0, 3, 1, 2)):  # blocks that follow each other begin elsewhere
        assert Order(0, blocks).shortest == Order(0, blocks)


def test_it_is_the_order_that_was_written() -> None:
    rng = random.Random(0)
    for _ in range(300):
        coarse, times = rng.sample(range(4), 4), rng.choice((1, 2, 3))
        blocks = tuple(k * times + j for k in coarse for j in range(times))
        array = np.arange(4 * times)
        order = Order(0, blocks).shortest
        found = (
            array if order is None else np.concatenate([np.split(array, len(order.blocks))[k] for k in order.blocks])
        )
        assert found.tolist() == array[[*blocks]].tolist()


def _in_orders(update: int) -> Any:
    """Ranks of tp have the halves of a matrix that is cut by columns, and of its neighbour, in the other order; what is
    after the passes says so in twice as many blocks."""

    def cut(dim: int, written: int) -> dict[str, str]:
        return {"tp": f"Shard({dim}, {[1, 0] if written == 2 else [2, 3, 0, 1]})"}

    def edit(table: dict[str, Any]) -> None:
        parts = table["part"]
        for name, dim in (("a", 1), ("b", 0)):
            parts["layer"]["inputs"][name] = cut(dim, 2)
            parts["layer"]["outputs"][f"d_{name}"] |= cut(dim, 2)
            parts["layer_reduce"]["inputs"][f"d_{name}"] |= cut(dim, 4)
            parts["layer_reduce"]["outputs"][f"g_{name}"] = cut(dim, 4)
            parts["layer_update"]["inputs"] |= {name: cut(dim, 2), f"g_{name}": cut(dim, 2)}
            parts["layer_update"]["outputs"][f"new_{name}"] = cut(dim, update) if update else {"tp": f"Shard({dim})"}

    return edit


@pytest.mark.parametrize(("update", "verdict"), [(2, Verdict.PROVED), (4, Verdict.PROVED), (0, Verdict.REFUTED)])
def test_joints_compare_orders_and_not_how_they_are_written(update: int, verdict: Verdict, tmp_path: Path) -> None:
    report = verified(write_plan(tmp_path, {}, _in_orders(update)))
    assert report.verdict is verdict, report.text()


def test_the_order_of_the_tensor_is_none(tmp_path: Path) -> None:
    def edit(table: dict[str, Any]) -> None:
        table["part"]["layer"]["inputs"]["a"] = {"tp": "Shard(1, [0, 1])"}

    report = verified(write_plan(tmp_path, {}, edit))
    assert report.verdict is Verdict.PROVED, report.text()
