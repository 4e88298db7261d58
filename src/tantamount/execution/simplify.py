"""Simpler inputs on which two programs still differ: zeros, ones and small integers, as few as needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tantamount.execution.plans import LeafName, Leaves, Plan
from tantamount.ir.types import Kind
from tantamount.semantics.reference import Array

__all__ = ["simplify"]


class _Budget:
    def __init__(self, plan: Plan, differs: Callable[[Leaves], bool]) -> None:
        nodes = sum(len(graph.nodes) for graph in (plan.job.specification, *plan.job.implementation))
        self._effort = plan.store.effort
        bounds = self._effort.bounds
        self.left, self._bound = min(
            (bounds.simplified_trials, "simplified_trials"),
            (bounds.simplified_work // max(1, plan.work), "simplified_work"),
            (bounds.simplified_nodes // nodes, "simplified_nodes"),
        )
        self._differs = differs

    def __call__(self, leaves: Leaves) -> bool:
        self._effort.check()
        if self.left <= 0:
            self._effort.hit(self._bound)
            return False
        self.left -= 1
        return self._differs(leaves)


def simplify(plan: Plan, leaves: Leaves, differs: Callable[[Leaves], bool]) -> None:
    """Offer simpler and simpler leaves to ``differs``, going on from each that it accepts."""
    check = _Budget(plan, differs)
    best = dict(leaves)
    for whole in _wholes(plan, leaves):
        if check(whole):
            best = whole
            break
    for leaf in sorted(plan.leaves, key=lambda leaf: -leaf.size):
        for value in _simpler(best[leaf.name], leaf.kind):
            trial = {**best, leaf.name: value}
            if check(trial):
                best = trial
                break
    for leaf in sorted(plan.leaves, key=lambda leaf: -leaf.size):
        if not plan.store.effort.exceeds("zeroed_elements", leaf.size):
            best = _fewer(best, leaf.name, check)


def _wholes(plan: Plan, leaves: Leaves) -> Iterator[dict[LeafName, Array]]:
    floats = {leaf.name for leaf in plan.leaves if leaf.kind is Kind.FLOAT}
    yield {name: np.round(value) if name in floats else value for name, value in leaves.items()}
    yield {name: np.clip(np.round(value * 2), -2, 2) if name in floats else value for name, value in leaves.items()}
    yield {name: np.round(value, 1) if name in floats else value for name, value in leaves.items()}


def _simpler(value: Array, kind: Kind) -> Iterator[Array]:
    """Simplest first; what a value already is, is not tried."""
    options = [np.zeros_like(value), np.ones_like(value)]
    if kind is not Kind.BOOL and value.size > 1:
        unit = np.zeros_like(value)
        unit.flat[0] = 1
        options.append(unit)
        options.append(np.arange(value.size, dtype=np.float64).reshape(value.shape) % 4)
    if kind is Kind.FLOAT:
        options.append(np.clip(np.round(value), -1, 1))
        options.append(np.round(value))
        options.append(np.round(value, 1))
    for option in options:
        if np.array_equal(option, value):
            return
        yield option


def _fewer(best: dict[LeafName, Array], name: LeafName, check: _Budget) -> dict[LeafName, Array]:
    """Zero as many elements as possible (halves, quarters, ..., single ones), then make those left 1."""
    length = best[name].size
    while length >= 1:
        length = (length + 1) // 2 if length > 1 else 1
        for start in range(0, best[name].size, length):
            value = best[name].copy()
            value.flat[start : start + length] = 0
            if not np.array_equal(value, best[name]):
                trial = {**best, name: value}
                if check(trial):
                    best = trial
        if length == 1:
            break
    value = best[name]
    for option in (np.where(value != 0, 1.0, 0.0), np.where(value != 0, np.sign(value), 0.0)):
        if np.array_equal(option, value):
            break
        trial = {**best, name: option}
        if check(trial):
            return trial
    return best
