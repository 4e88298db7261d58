"""Coverage: pairs, cells and kernels that programs have shown, and the goals of the next program.

Seen are *pairs* (what made an operand, the operator that reads it, the element type: ``abs`` of what ``amax`` of int32
made; a view before an operator stands for its layout, and reductions over the first, inner, last and all dimensions are
makers of their own), *cells* (operator, element type, rank) and *kernels* (what a
compiler made of a program, names stripped, if its host tells).

A case is given goals: operators that were seen behind the fewest makers for its element types, each behind a maker
that it was not yet seen behind. One goal in three is a reduction or a product with a pointwise operator behind it,
which compilers make one kernel of; where integers may wrap around, one a case is a call that leaves its type, and
behind it operators that tell what wrapped around from what did not: one of each kind. Operators after which compilers
were seen to make new kernels are drawn more often. The goals of a case and what it showed first are in its line of the
log: a campaign that goes on has what it had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from heapq import nsmallest
from random import Random
from typing import Any

from tantamount.fuzz.draft import CAST, NARROW, Policy
from tantamount.fuzz.goals import LEAVES, PLACES, REDUCING, Goal, maker_names
from tantamount.fuzz.samplers import SAMPLERS
from tantamount.ir.graph import Graph, references
from tantamount.ir.types import DType, Kind

__all__ = ["Coverage", "pairs"]

Pair = tuple[str, str, str]  # maker (an operator, "input" or "constant"), operator (or "output"), element type
_GOALS = 3  # for each of the two element types of a case
_RANKS = (0, 1, 2, 3, 4)
_ENDS = 0.3  # the share of goals of integers whose leaves have elements at the ends of their type
_LEAVING = (  # operators whose results may leave their type
    "aten.abs.default", "aten.neg.default", "aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor",
    "aten.cumsum.default", "aten.sum.dim_IntList", CAST,
)  # fmt: skip
_ADDING = frozenset({"aten.sum.dim_IntList", "aten.cumsum.default", "aten.mean.dim"})
_RING = frozenset({  # give the same modulo 2 ** n, whether their operands were wrapped or not
    "aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.neg.default",
})  # fmt: skip
_ALONE = frozenset(  # take one tensor: what compilers put at the end of a reduction or a product
    f"aten.{name}"
    for name in (
        "neg.default",
        "abs.default",
        "relu.default",
        "sign.default",
        "logical_not.default",
        "bitwise_not.default",
        "floor.default",
        "ceil.default",
        "round.default",
        "trunc.default",
        "exp.default",
        "tanh.default",
        "sigmoid.default",
        "erf.default",
        "sin.default",
        "cos.default",
        "silu.default",
        "gelu.default",
        "sqrt.default",
        "clamp.default",
        "_to_copy.default",
    )
)
_WEIGHTS = {"layout": 1.0, "numbers": 1.5, "sums": 2.0}  # compilers fuse what reads a sum with it


def _makers(graph: Graph) -> Iterator[tuple[tuple[str, ...], str, str, int]]:
    """For every operand the names of its maker, its reader, its element type and its rank."""
    by_name = graph.by_name
    made: dict[str, tuple[str, ...]] = {}
    for node in graph.nodes:
        if node.op != "call":
            made[node.name] = (node.op,)
            continue
        first = next(iter(references(node)), "")
        if node.target == "getitem":
            made[node.name] = (by_name[first].target,)
        else:
            type_ = by_name[first].type if first else None
            made[node.name] = maker_names(node, len(type_.shape) if type_ is not None else 0)
    for node in graph.nodes:
        if node.op == "call" and node.target != "getitem":
            for name in references(node):
                if (type_ := by_name[name].type) is not None:
                    yield made[name], node.target, type_.dtype.label, len(type_.shape)
    for output in graph.outputs:
        if (type_ := by_name[output.node].type) is not None:
            yield made[output.node], "output", type_.dtype.label, len(type_.shape)


def pairs(graph: Graph) -> set[Pair]:
    """The pairs of a typed graph."""
    return {(maker, target, dtype) for makers, target, dtype, _ in _makers(graph) for maker in makers}


@cache
def _module(target: str) -> str:
    """The last word of the module of an operator's sampler."""
    return SAMPLERS[target].draw.__module__.rpartition(".")[2]


def _told(goal: Goal) -> str:
    """A goal as its line of the log has it; of one whose maker was chosen, the maker, too."""
    maker = f"{goal.maker}/{goal.place}" if goal.place else goal.maker
    words = (goal.target, goal.dtype.label, *((maker, *goal.also) if goal.chosen else ()))
    return " ".join(words)


@dataclass
class Coverage:
    """A record of what was seen. ``behind``: the makers that an operator of an element type was seen behind; ``tried``:
    how often it was a goal; ``chosen``: how often a maker of an element type was chosen, and was before an operator;
    ``makes``: the operators that were seen to make an element type; ``fruit``: of an operator the cases it was in, and
    those of them that had new kernels."""

    behind: dict[tuple[str, str], set[str]] = field(default_factory=dict[tuple[str, str], "set[str]"])
    ranks: dict[tuple[str, str], set[int]] = field(default_factory=dict[tuple[str, str], "set[int]"])
    tried: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    chosen: Counter[tuple[str, ...]] = field(default_factory=Counter[tuple[str, ...]])
    makes: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])
    kernels: set[str] = field(default_factory=set[str])
    fruit: dict[str, list[int]] = field(default_factory=dict[str, "list[int]"])
    _rows: dict[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])  # of one policy

    @property
    def counts(self) -> dict[str, int]:
        """How much was seen of each."""
        return {
            "pairs": sum(map(len, self.behind.values())),
            "cells": sum(map(len, self.ranks.values())),
            "kernels": len(self.kernels),
        }

    # ------------------------------------------------------------------ what is next
    def goals(self, policy: Policy, random: Random) -> tuple[Goal, ...]:
        """The goals of the next case: for two element types the operators that were seen least."""
        found: list[Goal] = []
        for dtype in random.sample(policy.dtypes, min(2, len(policy.dtypes))):
            ranked = [(self._seen(target, dtype), random.random(), target) for target in self._row(policy, dtype)]
            found += [self._goal(target, dtype, random) for _, _, target in nsmallest(_GOALS, ranked)]
            found[-2:-1] = self._fused(dtype, random) or found[-2:-1]
        narrow = [dtype for dtype in policy.dtypes if dtype in NARROW] or [
            dtype for dtype in policy.dtypes if dtype.kind is Kind.INT
        ]
        if narrow and policy.wrap and policy.limits:
            found[-1:] = self._leaving(policy, random.choice(narrow), random) or found[-1:]
        random.shuffle(found)
        return tuple(found)

    def _row(self, policy: Policy, dtype: DType) -> tuple[str, ...]:
        """The operators that a policy has for an element type."""
        if dtype.label not in self._rows:
            self._rows[dtype.label] = tuple(
                target for target in SAMPLERS
                if (policy.targets is None or target in policy.targets) and policy.has(target, (dtype,))
            )  # fmt: skip
        return self._rows[dtype.label]

    def _seen(self, target: str, dtype: DType) -> int:
        key = (target, dtype.label)
        return len(self.behind.get(key, ())) + self.tried[key]

    def _goal(self, target: str, dtype: DType, random: Random) -> Goal:
        key = (target, dtype.label)
        seen = self.behind.get(key, set())
        groups: dict[str, list[str]] = {"": [*LEAVES]}  # leaves; operators that move, compute, or add up and choose
        for name in sorted(self.makes.get(dtype.label, ())):
            group = _module(name)
            names = [f"{name}/{place}" for place in PLACES] if name in REDUCING else [name]
            groups.setdefault(group, []).extend(names)
        (makers,) = random.choices([*groups.values()], [_WEIGHTS.get(group, 1.0) for group in groups])
        maker, _, place = random.choice([name for name in makers if name not in seen] or makers).partition("/")
        left = [rank for rank in _RANKS if rank not in self.ranks.get(key, ())]
        rank = random.choice(left) if left and random.random() < 0.5 else None
        return Goal(maker, target, dtype, rank, place or None, dtype.kind is Kind.INT and random.random() < _ENDS)

    def _leaving(self, policy: Policy, dtype: DType, random: Random) -> list[Goal]:
        """A call whose result leaves its type, and behind it what was least behind it: of what adds up or chooses, of
        what computes, a cast, since each may compute in another type. None if there is none."""
        rows = self._row(policy, dtype)
        readers = [target for target in rows if target not in _RING and _module(target) != "layout"]
        if random.random() < 0.5:  # those that may compute in a wider type
            readers = [target for target in readers if target == CAST or _module(target) == "sums"] or readers
        makers = [maker for maker in _LEAVING if maker in rows]
        found = self._least(makers, readers, dtype, random, ends=True)
        if not found:
            return found
        first = found[0]
        groups: dict[str, list[str]] = {}
        for target in rows:
            if target not in _RING and _module(target) != "layout":
                groups.setdefault(CAST if target == CAST else _module(target), []).append(target)
        if random.random() < 0.5:  # those that add up, in a wider type
            groups["sums"] = [target for target in groups.get("sums", ()) if target in _ADDING] or groups.get(
                "sums", []
            )
        also = [
            self._next(first.maker, names, dtype, random)
            for names in groups.values()
            if names and first.target not in names
        ]
        return [replace(first, also=tuple(also))]

    def _fused(self, dtype: DType, random: Random) -> list[Goal]:
        """A reduction or a product, and behind it the pointwise operator that was least behind it; none if there is
        none."""
        makers: list[str] = []
        for name in self.makes.get(dtype.label, ()):
            if _module(name) == "sums":
                makers += [f"{name}/{place}" for place in PLACES] if name in REDUCING else [name]
        readers = [target for target in self._rows[dtype.label] if _module(target) == "numbers"]
        if random.random() < 0.5:
            readers = [target for target in readers if target in _ALONE] or readers
        return self._least(sorted(makers), readers, dtype, random, ends=False)

    def _least(
        self, makers: Sequence[str], readers: Sequence[str], dtype: DType, random: Random, ends: bool
    ) -> list[Goal]:
        """The maker that was a goal least often, and behind it the reader that was."""
        if not makers or not readers:
            return []
        maker = min(makers, key=lambda maker: (self.chosen[maker, dtype.label], random.random()))
        target = self._next(maker, readers, dtype, random)
        name, _, place = maker.partition("/")
        return [Goal(name, target, dtype, None, place or None, ends, chosen=True)]

    def _next(self, maker: str, readers: Sequence[str], dtype: DType, random: Random) -> str:
        """Of some operators the one that was least a goal behind a maker."""
        return min(readers, key=lambda target: (self.chosen[maker, dtype.label, target], random.random()))

    def taste(self) -> Mapping[str, float]:
        """By operator how much more often it is drawn because of new kernels: 0.5 to 2."""
        cases = sum(row[0] for row in self.fruit.values())
        new = sum(row[1] for row in self.fruit.values())
        if not new:
            return {}
        mean = (new + 1) / (cases + 2)
        return {
            target: min(2.0, max(0.5, (row[1] + 2 * mean) / (row[0] + 2) / mean)) for target, row in self.fruit.items()
        }

    # ------------------------------------------------------------------ what was seen
    def add(self, graphs: Sequence[Graph], kernels: Sequence[str], goals: Sequence[Goal]) -> dict[str, Any]:
        """Take in a case, the original of its programs first; what of it is new, as plain data for the log."""
        new: dict[str, Any] = {"goals": [_told(goal) for goal in goals]}
        fresh: list[str] = []
        ranks: list[str] = []
        for graph in graphs:
            for makers, target, dtype, rank in _makers(graph):
                for maker in makers:
                    if maker not in self.behind.get((target, dtype), ()):
                        fresh.append(f"{maker} {target} {dtype}")
                        self._pair(maker, target, dtype)
                if target != "output" and rank not in self.ranks.get((target, dtype), ()):
                    ranks.append(f"{target} {dtype} {rank}")
                    self.ranks.setdefault((target, dtype), set()).add(rank)
        made = sorted(set(kernels) - self.kernels)
        operators = sorted({n.target for n in graphs[0].nodes if n.op == "call"}) if kernels and graphs else []
        new.update({"pairs": fresh, "cells": ranks, "kernels": made, "operators": operators})
        self._count(new)
        return {key: value for key, value in new.items() if value}

    def restore(self, line: Mapping[str, Any]) -> None:
        """Take in a line of the log, as :meth:`add` gave it."""
        for text in line.get("pairs", ()):
            self._pair(*text.split(" "))
        for text in line.get("cells", ()):
            target, dtype, rank = text.split(" ")
            self.ranks.setdefault((target, dtype), set()).add(int(rank))
        self._count(line)

    def _pair(self, maker: str, target: str, dtype: str) -> None:
        self.behind.setdefault((target, dtype), set()).add(maker)
        if maker in SAMPLERS:  # not leaves, places of reductions, and calls in place
            self.makes.setdefault(dtype, set()).add(maker)

    def _count(self, line: Mapping[str, Any]) -> None:
        for text in line.get("goals", ()):
            target, dtype, *maker = text.split(" ")
            if maker:
                readers = (target, *maker[1:])
                self.chosen.update([(maker[0], dtype), *((maker[0], dtype, reader) for reader in readers)])
            else:
                self.tried[target, dtype] += 1
        made = line.get("kernels", ())
        for target in line.get("operators", ()):
            row = self.fruit.setdefault(target, [0, 0])
            row[0] += 1
            row[1] += bool(made)
        self.kernels.update(made)
