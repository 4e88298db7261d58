"""The language of operator definitions: shapes, broadcasting, promotion, over any interpretation.

What works element by element is :class:`tantamount.ops.arithmetic.Arithmetic`; a :class:`Builder` has contractions,
reductions and indexing as well, which run over dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, prod

from tantamount.ir.types import DType, Kind, Shape
from tantamount.ops import complex_numbers
from tantamount.ops.algebra import Number, ShapeProblem, Tensor
from tantamount.ops.arithmetic import Arithmetic, real, slice_bound
from tantamount.ops.literals import exact
from tantamount.sizes.symbolic import is_size

__all__ = ["Builder", "ShapeProblem", "exact", "slice_bound"]


@dataclass(frozen=True)
class Builder(Arithmetic):
    """Builds values with ``interpretation``: all of :class:`Arithmetic`, and what runs over dimensions."""

    # ------------------------------------------------------------------ contraction and reduction
    def contract(self, equation: str, *xs: Tensor, choices: int = 0) -> Tensor:
        """Einstein summation with single-letter labels, ``"ij,jk->ik"``; no ellipsis. Operands of one type. The last
        ``choices`` of them are zeros and ones: where one is 0, nothing of the others is read, be it NaN or infinite."""
        left, _, right = equation.partition("->")
        terms = left.split(",")
        xs_ = self.promoted(*xs)
        sizes: dict[str, int] = {}
        if len(terms) != len(xs_):
            raise ShapeProblem(f"equation {equation} for {len(xs_)} operands")
        for term, x in zip(terms, xs_, strict=True):
            if len(term) != x.rank:
                raise ShapeProblem(f"labels {term!r} of {equation} for {x.type}")
            for label, size in zip(term, x.shape, strict=True):
                if sizes.setdefault(label, size) != size:
                    raise ShapeProblem(f"label {label!r} of {equation} has sizes {sizes[label]} and {size}")
        number = {label: k for k, label in enumerate(sizes)}
        if any(label not in number for label in right):
            raise ShapeProblem(f"equation {equation}: a label of the result is in no operand")
        if xs_[0].dtype.is_complex:
            return complex_numbers.contract(self, equation, xs_)
        values = [(x.value, tuple(number[label] for label in term)) for term, x in zip(terms, xs_, strict=True)]
        kept = tuple(number[label] for label in right)
        meaning = self.interpretation
        value = meaning.contract_chosen(values, kept, choices) if choices else meaning.contract(values, kept)
        return self.wrapped(Tensor(tuple(sizes[label] for label in right), xs_[0].dtype, value))

    def sum(self, x: Tensor, dims: Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        """The sum over some dimensions (all, if none is given); integers and booleans give int64."""
        if x.dtype.is_integral:
            x = self.cast(x, DType.INT64)
        chosen = self.dims(x, dims)
        if x.dtype.is_complex:
            return complex_numbers.sum_over(self, x, chosen, keepdim)
        result = tuple(k for k in range(x.rank) if k not in chosen)
        value = self.interpretation.contract([(x.value, tuple(range(x.rank)))], result) if chosen else x.value
        out = Tensor(tuple(x.shape[k] for k in result), x.dtype, value)
        return self._keep(out, x, chosen) if keepdim else out

    def mean(self, x: Tensor, dims: Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        count = prod(x.shape[k] for k in self.dims(x, dims))
        if not count:
            raise ShapeProblem(f"mean over no elements of {x.type}")
        return self.over(self.sum(x, dims, keepdim), count)

    def over(self, x: Tensor, count: int | Fraction) -> Tensor:
        """x divided by a number that is not 0, such as one of elements."""
        return self.mul(x, self.power(self.number(count), -1) if is_size(count) else 1 / Fraction(count))

    def amax(self, x: Tensor, dims: Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        chosen = self.dims(real(x), dims)
        if any(x.shape[k] == 0 for k in chosen):
            raise ShapeProblem(f"maximum over no elements of {x.type}")
        result = tuple(size for k, size in enumerate(x.shape) if k not in chosen)
        out = Tensor(result, x.dtype, self.interpretation.maximum_over(x.value, chosen) if chosen else x.value)
        return self._keep(out, x, chosen) if keepdim else out

    def amin(self, x: Tensor, dims: Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        found = self.neg(self.amax(self.neg(self.unwrapped(x)), dims, keepdim))
        return Tensor(found.shape, x.dtype, found.value)

    def _keep(self, out: Tensor, x: Tensor, dims: tuple[int, ...]) -> Tensor:
        return self.reshape(out, [1 if k in dims else size for k, size in enumerate(x.shape)])

    # ------------------------------------------------------------------ indexing
    def _index_shape(self, x: Tensor, indices: Sequence[Tensor | None]) -> tuple[list[Tensor | None], Shape]:
        chosen = [index for index in indices if index is not None]
        if len(indices) != x.rank or not chosen:
            raise ShapeProblem(f"{len(indices)} index positions, {len(chosen)} of them tensors, for {x.type}")
        if any(index.dtype.kind is not Kind.INT for index in chosen):
            raise ShapeProblem("index that is not of an integer type")
        spread = iter(self.broadcast(*chosen))
        aligned = [None if index is None else next(spread) for index in indices]
        shape = next(index.shape for index in aligned if index is not None)
        return aligned, shape + tuple(size for size, index in zip(x.shape, aligned, strict=True) if index is None)

    def gather(self, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
        """``x`` at integer indices (one entry per dimension, broadcast to one shape); the common index shape comes
        first in the result, then the dimensions without an index."""
        aligned, shape = self._index_shape(x, indices)
        values = [*(None if i is None else i.value for i in aligned), *([None] if x.dtype.is_complex else [])]
        return Tensor(shape, x.dtype, self.interpretation.gather(x.value, values))

    def scatter(self, x: Tensor, indices: Sequence[Tensor | None], source: Tensor, accumulate: bool) -> Tensor:
        """``x`` with ``source`` (broadcast to the shape of the gather) written or added at those places."""
        aligned, shape = self._index_shape(x, indices)
        if accumulate and x.dtype is DType.BOOL:  # a sum of booleans is a disjunction
            number = self.cast(x, DType.INT64)
            return self.cast(self.scatter(number, indices, self.cast(source, DType.BOOL), True), DType.BOOL)
        source = self.expand(self.cast(source, x.dtype), shape)
        values = [*(None if i is None else i.value for i in aligned), *([None] if x.dtype.is_complex else [])]
        out = Tensor(x.shape, x.dtype, self.interpretation.scatter(x.value, values, source.value, accumulate))
        return self.wrapped(out) if accumulate else out

    def nonzero(self, x: Tensor) -> Tensor:
        """The places of the elements that are not zero, ``(count, rank)``: known in an execution only, else
        :class:`~tantamount.errors.DataDependent`."""
        value = self.interpretation.nonzero(self._truth(x).value)
        return Tensor(tuple(value.shape), DType.INT64, value)

    def concrete(self, x: Tensor) -> Number:
        """The number in a tensor of one element; known in an execution only, as :meth:`nonzero`."""
        found = self.interpretation.number(self.reshape(real(x), ()).value)
        return bool(found) if x.dtype is DType.BOOL else found

    def rows(
        self, name: str, xs: Sequence[Tensor], dim: int,
        attributes: tuple[Number | str, ...] = (), results: Sequence[tuple[int, DType]] = (),
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """An opaque function of whole rows along ``dim``; ``results`` gives the length and type of each result."""
        first = real(xs[0])
        k = self.dim(first, dim)
        order = [*(j for j in range(first.rank) if j != k), k]
        moved = [self.permute(x, order) for x in xs]
        values = self.interpretation.rows(name, [x.value for x in moved], attributes, [size for size, _ in results])
        back = sorted(range(first.rank), key=order.__getitem__)
        rest = moved[0].shape[:-1]
        out = [Tensor((*rest, size), dtype, value) for (size, dtype), value in zip(results, values, strict=True)]
        return tuple(self.permute(x, back) for x in out)

    @property
    def infinity(self) -> float:
        return inf
