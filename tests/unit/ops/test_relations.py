"""One meaning per relation: stacked and rank by rank, of arrays and of normal forms."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tantamount.calculus.atoms import ValueFacts
from tantamount.calculus.calculus import Calculus
from tantamount.calculus.evaluate import Evaluator
from tantamount.calculus.forms import leaf_form
from tantamount.calculus.symbolic import Symbolic, Trace
from tantamount.errors import Unsupported
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Concat, Expectation, Partial, Placement, RankTensor, Replicate, Shard, Sum
from tantamount.ops.relations import collapse, distribute, evaluate, even, first_summands, has_sum, pairs, reduced
from tantamount.semantics.reference import Reference

SIZES = (2, 3)
MESH = Mesh({"a": 2, "b": 3})
KINDS: list[Placement] = [Replicate(), Shard(0), Shard(1), *(Partial(r) for r in ("sum", "avg", "max", "min"))]
ALL = [pytest.param(p, id=f"{p[0]}-{p[1]}") for p in product(KINDS, repeat=2)]


@pytest.mark.parametrize("placements", ALL)
def test_stacked_and_rank_by_rank_mean_the_same(placements: tuple[Placement, ...]) -> None:
    on, generator = Reference(), np.random.default_rng(3)
    whole = generator.standard_normal((12, 6))
    kept = [k for k, p in enumerate(placements) if not isinstance(p, Partial)]
    spread = distribute(on, whole, whole.shape, [placements[k] for k in kept], [SIZES[k] for k in kept])
    local = spread.shape[len(kept) :]
    stacked = generator.standard_normal((*SIZES, *local))  # any ranks: what is compared with what must be the same
    found = {p.where: p for p in pairs(on, whole, whole.shape, Expectation("y", placements), MESH, held(stacked))}
    together = collapse(on, stacked, placements, SIZES)
    for digits in np.ndindex(*(SIZES[k] for k in kept)):
        coordinates = [0, 0]
        for k, digit in zip(kept, digits, strict=True):
            coordinates[k] = digit
        pair = found.pop(f"rank {MESH.rank(tuple(coordinates))}")
        assert np.array_equal(pair.wanted, spread[digits])
        assert np.allclose(pair.found, together[digits])
    assert not found


def held(stacked: np.ndarray):  # type: ignore[type-arg]
    return lambda rank, _: stacked[MESH.coordinates(rank)]


@pytest.mark.parametrize("placements", ALL)
def test_forms_mean_what_arrays_mean(placements: tuple[Placement, ...]) -> None:
    store = Calculus()
    shape = (*SIZES, 2, 3)
    atom = store.leaf("input", "x", shape, ValueFacts())
    form = leaf_form(atom, shape)
    array = np.random.default_rng(5).standard_normal(shape)
    symbolic = collapse(Symbolic(store, Trace()), form, placements, SIZES)
    assert np.allclose(
        Evaluator(store, {("input", "x"): array}).form(symbolic), collapse(Reference(), array, placements, SIZES)
    )


def test_partial_tensors_of_different_shapes_are_not_broadcast() -> None:
    with pytest.raises(Unsupported, match="different shapes"):
        reduced(Reference(), [np.ones((3,)), np.ones((1,))], [Partial()], Mesh({"a": 2}))


def test_expressions() -> None:
    ranks = [np.arange(4.0), np.arange(4.0, 8.0)]
    both = Concat((Sum((RankTensor(1), RankTensor(0))), RankTensor(0)), 0)
    found = evaluate(Reference(), both, lambda rank, _: ranks[rank], "y")
    assert found.tolist() == [4, 6, 8, 10, 0, 1, 2, 3]
    assert first_summands(both) == Concat((RankTensor(1), RankTensor(0)), 0)
    assert has_sum(Expectation("y", None, both))
    assert not has_sum(Expectation("y", None, first_summands(both)))


def test_even() -> None:
    assert even((12,), (Shard(0), Shard(0)), (2, 3))
    assert not even((9,), (Shard(0), Shard(0)), (3, 2))
