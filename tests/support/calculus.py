"""Short ways to build forms in tests: inputs, the builder, evaluation, equality."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tantamount.calculus.atoms import Store
from tantamount.calculus.calculus import Calculus
from tantamount.calculus.compare import equal
from tantamount.calculus.evaluate import Evaluator
from tantamount.calculus.forms import Form
from tantamount.calculus.multiplied import distribute
from tantamount.calculus.rebuild import refresh
from tantamount.calculus.symbolic import Symbolic, Trace
from tantamount.calculus.terms import factors_of
from tantamount.effort import Effort
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import apply
from tantamount.ops.table import lookup


def escaped(store: Store) -> list[int]:
    """The atoms that mention bound variables which nothing in them binds: a sum that they are put in would."""
    return [
        atom.number
        for atom in store.atoms
        if any(v < -len(atom.ranges) for f in factors_of(*atom.arguments) for parts, _ in f.at for v, _ in parts)
    ]


class Workbench:
    """A store, a builder over it, and what tests ask of forms."""

    def __init__(self, effort: Effort | None = None) -> None:
        self.store = Calculus(effort)
        self.symbolic = Symbolic(self.store, Trace(assume_indices=True))
        self.b = Builder(self.symbolic)
        self.shapes: dict[str, tuple[tuple[int, ...], DType]] = {}

    def input(self, name: str, *shape: int, dtype: DType = DType.FLOAT32) -> Tensor:
        self.shapes[name] = (shape, dtype)
        return Tensor(shape, dtype, self.symbolic.fresh("input", name, shape, dtype))

    def aten(self, target: str, *args: Any, **kwargs: Any) -> Any:
        return apply(lookup(target, "test"), target, args, kwargs, self.b, "test")

    def data(self, seed: int = 0, integers_below: int = 4, **given: Any) -> dict[str, NDArray[Any]]:
        r = np.random.default_rng(seed)
        out: dict[str, NDArray[Any]] = {}
        for name, (shape, dtype) in self.shapes.items():
            if name in given:
                out[name] = np.asarray(given[name], dtype=np.bool_ if dtype is DType.BOOL else None)
            elif dtype is DType.BOOL:
                out[name] = r.random(shape) < 0.5
            elif dtype.is_integral:
                out[name] = r.integers(0, integers_below, shape)
            else:
                out[name] = r.standard_normal(shape)
        return out

    def value(self, x: Tensor | Form, data: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        form = x.value if isinstance(x, Tensor) else x
        return Evaluator(self.store, {(name, ()): array for name, array in data.items()}).form(form)

    def same(self, x: Tensor, y: Tensor) -> bool:
        """Whether the normal forms are equal, without multiplying products out."""
        return x.shape == y.shape and equal(self.store, x.value, y.value, expand=False) is None

    def equivalent(self, x: Tensor, y: Tensor) -> bool:
        """Whether the forms are equal, products multiplied out if need be, or their difference vanishes."""
        if x.shape != y.shape:
            return False
        if equal(self.store, x.value, y.value) is None:
            return True
        rest = self.b.sub(x, y).value
        return all(not distribute(self.store, refresh(self.store, polynomial)) for _, polynomial in rest.pieces)
