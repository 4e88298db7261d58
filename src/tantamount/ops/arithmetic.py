"""Tensors made, moved, converted and computed with element by element: the language of operator definitions without
what runs over dimensions, which :mod:`tantamount.ops.builder` adds.

Broadcasting and promotion follow PyTorch. Every method checks its operands and raises :class:`ShapeProblem` with one
clause of text; the caller (``ops.execute``) adds the node and the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from tantamount.ir.types import DType, Kind, Shape, TensorType
from tantamount.ops import complex_numbers
from tantamount.ops.algebra import Interpretation, Law, Number, PerRank, Scalar, ShapeProblem, Tensor
from tantamount.ops.functions import ROUNDINGS
from tantamount.ops.literals import decimal, exact, held, parts_of
from tantamount.ops.promotion import promote
from tantamount.sizes.symbolic import alike, is_integer, is_one, same

__all__ = ["Arithmetic", "real", "slice_bound"]


def slice_bound(position: int, size: int) -> int:
    """A bound of a slice as Python and PyTorch clamp it: negative ones count from the end, beyond the ends is the end.
    By operators, as all arithmetic on sizes is, because traced sizes follow those."""
    return min(max(position + size if position < 0 else position, 0), size)


def _stored(x: Tensor, shape: Shape) -> Shape:
    """The shape in which the value is stored if x has that shape: complex numbers are pairs."""
    return (*shape, 2) if x.dtype.is_complex else shape


def real(x: Tensor) -> Tensor:
    """x, which must not be complex: what is not defined for complex numbers refuses them."""
    if x.dtype.is_complex:
        raise ShapeProblem(complex_numbers.refusal(x))
    return x


@dataclass(frozen=True)
class Arithmetic:
    """Builds values with ``interpretation``. ``site`` is the name of the node being defined; ``default`` is the float
    type of results whose operands do not settle one (factories without a dtype, quotients of integers); ``given``: the
    ``id`` of operands that are indices which the program was given."""

    interpretation: Interpretation
    site: str = ""
    default: DType = DType.FLOAT32
    given: frozenset[int] = frozenset()

    # ------------------------------------------------------------------ sources
    def number(self, value: Scalar, dtype: DType | None = None) -> Tensor:
        """A 0-d tensor; without ``dtype`` it is weak: it takes part in promotion by its kind only."""
        sample = value.values[0] if isinstance(value, PerRank) else value
        kind = Kind.BOOL if isinstance(sample, bool) else Kind.INT if is_integer(sample) else Kind.FLOAT
        if isinstance(value, PerRank):
            value = PerRank(tuple(exact(item) for item in value.values))
        else:
            value = exact(value)
        if dtype is not None:
            if dtype.is_complex:
                return self.cast(self.number(value, dtype.part), dtype)
            kind = dtype.kind
            value = (
                PerRank(tuple(held(item, dtype) for item in value.values))
                if isinstance(value, PerRank)
                else held(value, dtype)
            )
            return Tensor((), dtype, self.interpretation.constant(value, kind))
        default = DType.BOOL if kind is Kind.BOOL else DType.INT64 if kind is Kind.INT else self.default
        return Tensor((), default, self.interpretation.constant(value, kind), weak=True)

    def full(self, shape: Sequence[int], value: Scalar, dtype: DType) -> Tensor:
        """A tensor whose elements all are ``value``."""
        return self.expand(self.number(value, dtype), tuple(shape))

    def table(self, data: Sequence[Number | complex], shape: Shape, dtype: DType) -> Tensor:
        stored = TensorType(shape, dtype).stored
        flat = tuple(decimal(part) for item in data for part in parts_of(item, dtype))
        value = self.interpretation.table(flat, stored.shape, stored.dtype.kind)
        return Tensor(shape, dtype, value)

    def iota(self, size: int, dtype: DType = DType.INT64) -> Tensor:
        """``0, 1, ..., size - 1``."""
        return self.cast(Tensor((size,), DType.INT64, self.interpretation.iota(size)), dtype)

    def unknown(self, shape: Sequence[int], dtype: DType) -> Tensor:
        of = TensorType(tuple(shape), dtype).stored
        return Tensor(tuple(shape), dtype, self.interpretation.unknown(of.shape, of.dtype, self.site))

    def uninitialised(self, shape: Sequence[int], dtype: DType, like: Tensor | None = None) -> Tensor:
        """Memory that nobody wrote, where floats may be NaN or infinite; made in the image of ``like``, if of any."""
        stored = TensorType(tuple(shape), dtype).stored
        value = self.interpretation.uninitialised(stored.shape, stored.dtype, self.site)
        return Tensor(tuple(shape), dtype, value, like=None if like is None or like.dtype.is_complex else like.value)

    def keep_mask(self, like: Tensor, p: Number) -> Tensor:
        """The boolean keep-mask of a dropout of ``like`` with drop probability ``p``."""
        image = real(like).value if like.like is None else like.like
        return Tensor(like.shape, DType.BOOL, self.interpretation.mask(image, like.shape, exact(p), self.site))

    def draw(self, law: Law, shape: Sequence[int], dtype: DType, like: Tensor | None = None) -> Tensor:
        """A fresh random tensor of real numbers; drawn into the image of ``like``, if of any."""
        image = None if like is None else like.value if like.like is None else like.like
        return Tensor(tuple(shape), dtype, self.interpretation.draw(law, image, tuple(shape), dtype, self.site))

    # ------------------------------------------------------------------ layout
    def dim(self, x: Tensor, dim: int, extra: int = 0) -> int:
        """A dimension counted from the front. ``extra`` more are allowed (for ``unsqueeze``, ``stack``)."""
        limit = x.rank + extra
        if not -max(limit, 1) <= dim < max(limit, 1):
            raise ShapeProblem(f"dimension {dim} of a tensor with {x.rank} dimensions")
        return dim % limit if limit else 0

    def dims(self, x: Tensor, dims: Sequence[int] | None) -> tuple[int, ...]:
        """Distinct dimensions counted from the front; ``None`` or none at all is every dimension."""
        if not dims:
            return tuple(range(x.rank))
        found = tuple(self.dim(x, dim) for dim in dims)
        if len(set(found)) != len(found):
            raise ShapeProblem(f"dimension repeated in {tuple(dims)}")
        return found if x.rank else ()

    def permute(self, x: Tensor, order: Sequence[int]) -> Tensor:
        found = self.dims(x, order) if order else ()
        if len(found) != x.rank:
            raise ShapeProblem(f"permutation {tuple(order)} of {x.rank} dimensions")
        if found == tuple(range(x.rank)):
            return x
        order = (*found, x.rank) if x.dtype.is_complex else found
        return Tensor(tuple(x.shape[k] for k in found), x.dtype, self.interpretation.permute(x.value, order))

    def transpose(self, x: Tensor, dim0: int, dim1: int) -> Tensor:
        a, b = self.dim(x, dim0), self.dim(x, dim1)
        order = list(range(x.rank))
        if x.rank:
            order[a], order[b] = order[b], order[a]
        return self.permute(x, order)

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """The same elements in row-major order; one entry may be -1."""
        total, wanted = prod(x.shape), list(shape)
        if wanted.count(-1) == 1:
            rest = prod(size for size in wanted if size != -1)
            if rest == 0 or total % rest:
                raise ShapeProblem(f"{x.type} does not reshape to {tuple(shape)}")
            wanted[wanted.index(-1)] = total // rest
        if any(size < 0 for size in wanted) or prod(wanted) != total:
            raise ShapeProblem(f"{x.type} ({total} elements) does not reshape to {tuple(shape)}")
        target = tuple(wanted)
        if alike(target, x.shape):
            return x
        return Tensor(target, x.dtype, self.interpretation.reshape(x.value, _stored(x, target)), x.weak)

    def expand(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Broadcast to ``shape``: new dimensions in front, sizes 1 repeated; -1 keeps a size."""
        extra = len(shape) - x.rank
        if not extra and alike(shape, x.shape):
            return x
        if extra < 0:
            raise ShapeProblem(f"{x.type} does not expand to {tuple(shape)}")
        padded = (1,) * extra + x.shape
        target = tuple(
            old if new == -1 and k >= extra else new for k, (old, new) in enumerate(zip(padded, shape, strict=True))
        )
        if any(new < 0 or not (same(old, new) or old == 1) for old, new in zip(padded, target, strict=True)):
            raise ShapeProblem(f"{x.type} does not expand to {tuple(shape)}")
        value = x.value if not extra else self.interpretation.reshape(x.value, _stored(x, padded))
        if not alike(target, padded):
            value = self.interpretation.expand(value, _stored(x, target))
        return Tensor(target, x.dtype, value, x.weak)

    def slice(self, x: Tensor, dim: int, start: int = 0, stop: int | None = None, step: int = 1) -> Tensor:
        """``x[start:stop:step]`` along ``dim`` with Python's treatment of negative and too large bounds."""
        k = self.dim(x, dim)
        if not x.rank:
            raise ShapeProblem("slice of a tensor without dimensions")
        if step < 1:
            raise ShapeProblem(f"slice with step {step}")
        size = x.shape[k]
        low = slice_bound(start, size)
        high = max(low, size if stop is None else slice_bound(stop, size))
        length = -(-(high - low) // step)
        if same(length, size):
            return x
        shape = (*x.shape[:k], length, *x.shape[k + 1 :])
        return Tensor(shape, x.dtype, self.interpretation.slice(x.value, k, low, high, step))

    def flip(self, x: Tensor, dims: Sequence[int]) -> Tensor:
        for k in self.dims(x, dims):
            x = Tensor(x.shape, x.dtype, self.interpretation.flip(x.value, k))
        return x

    def concat(self, xs: Sequence[Tensor], dim: int) -> Tensor:
        """Operands one after the other, promoted to a common type. Empty 1-d operands are skipped, as in PyTorch."""
        if not xs:
            raise ShapeProblem("concatenation of no tensors")
        promoted = self.promoted(*xs)  # an operand that is skipped still has its say here
        parts = [x for x in promoted if x.shape != (0,)] or promoted[:1]
        k = self.dim(parts[0], dim)
        first = parts[0]
        for x in parts:
            if (
                x.rank != first.rank
                or not x.rank
                or any(a != b for j, (a, b) in enumerate(zip(x.shape, first.shape, strict=True)) if j != k)
            ):
                raise ShapeProblem(f"concatenation along dimension {k} of {first.type} and {x.type}")
        shape = (*first.shape[:k], sum(x.shape[k] for x in parts), *first.shape[k + 1 :])
        parts = [x for x in parts if x.shape[k]] or parts[:1]
        if len(parts) == 1:
            return parts[0]
        return Tensor(shape, parts[0].dtype, self.interpretation.concat([x.value for x in parts], k))

    def unsqueeze(self, x: Tensor, dim: int) -> Tensor:
        k = self.dim(x, dim, extra=1)
        return self.reshape(x, (*x.shape[:k], 1, *x.shape[k:]))

    def squeeze(self, x: Tensor, dims: Sequence[int] | None) -> Tensor:
        """Remove the given dimensions (all, if ``None``) where their size is 1."""
        chosen = range(x.rank) if dims is None else [self.dim(x, dim) for dim in dims]
        return self.reshape(x, [size for k, size in enumerate(x.shape) if size != 1 or k not in chosen])

    def select(self, x: Tensor, dim: int, index: int) -> Tensor:
        """``x[..., index, ...]`` along ``dim``, which is removed."""
        k = self.dim(x, dim)
        if not x.rank or not -x.shape[k] <= index < x.shape[k]:
            raise ShapeProblem(f"index {index} along dimension {dim} of {x.type}")
        index %= x.shape[k]
        part = self.slice(x, k, index, index + 1)
        return self.reshape(part, x.shape[:k] + x.shape[k + 1 :])

    def stack(self, xs: Sequence[Tensor], dim: int) -> Tensor:
        return self.concat([self.unsqueeze(x, dim) for x in xs], self.dim(xs[0], dim, extra=1))

    def split(self, x: Tensor, sizes: Sequence[int], dim: int) -> tuple[Tensor, ...]:
        """Consecutive parts along ``dim``; the sizes must add up."""
        k = self.dim(x, dim)
        if not x.rank or sum(sizes) != x.shape[k] or min(sizes, default=0) < 0:
            raise ShapeProblem(f"split of {x.type} along dimension {dim} into sizes {tuple(sizes)}")
        parts: list[Tensor] = []
        start = 0
        for size in sizes:
            parts.append(self.slice(x, k, start, start + size))
            start += size
        return tuple(parts)

    def pad(self, x: Tensor, dim: int, before: int, after: int, value: Scalar) -> Tensor:
        """``value`` put before and after along ``dim``; negative widths cut off."""
        k = self.dim(x, dim)
        if not x.rank or max(0, -before) + max(0, -after) > x.shape[k]:
            raise ShapeProblem(f"padding ({before}, {after}) of dimension {dim} of {x.type}")
        x = self.slice(x, k, max(0, -before), x.shape[k] - max(0, -after))

        def block(width: int) -> list[Tensor]:
            return [self.full((*x.shape[:k], width, *x.shape[k + 1 :]), value, x.dtype)] if width > 0 else []

        return self.concat([*block(before), x, *block(after)], k)

    # ------------------------------------------------------------------ dtypes
    def cast(self, x: Tensor, dtype: DType) -> Tensor:
        """Conversion of values. Between floats it is the identity (real arithmetic), but for those of 8 bits, to which
        it rounds; to integers it truncates, to bool it tests for non-zero. From complex numbers to others it drops the
        imaginary part, as PyTorch does (with a warning)."""
        if dtype is x.dtype:
            return Tensor(x.shape, dtype, x.value) if x.weak else x
        old, new = x.dtype.kind, dtype.kind
        if old is Kind.COMPLEX and new is Kind.BOOL:
            return self.not_(self.equal(x, self.full(x.shape, 0, x.dtype)))
        if old is Kind.COMPLEX and new is not old:
            return self.cast(complex_numbers.parts(self, x)[0], dtype)
        if new is Kind.COMPLEX and new is not old:
            return complex_numbers.of_real(self, x, dtype)
        value = x.value
        if old is not new:
            if new is Kind.BOOL:
                zero = self.full(x.shape, 0, x.dtype)
                return self.not_(self.equal(x, zero))
            if old is Kind.FLOAT:
                value = self.interpretation.function("trunc", [value])
            value = self.interpretation.convert(value, old, new)
            if old is Kind.FLOAT and dtype.is_narrow:  # of what the type does not hold C says nothing
                return Tensor(x.shape, dtype, self.interpretation.function(f"fit_{dtype}", [value]))
        if dtype in ROUNDINGS:
            value = self.interpretation.function(ROUNDINGS[dtype], [value])
        out = Tensor(x.shape, dtype, value)
        return out if x.dtype.is_integral and dtype.holds(x.dtype) else self.wrapped(out)

    def wrapped(self, x: Tensor) -> Tensor:
        """``x`` modulo ``2 ** bits``, in the range of its type, if that is an integer type of 8 or 16 bits: what the
        arithmetic of such types does. Other types are left alone: that theirs does not overflow is an assumption."""
        if not x.dtype.is_narrow:
            return x
        on, least = self.interpretation, -x.dtype.bounds[0]
        own = on.wrapped(x.value, x.dtype)
        if own is not None:
            return Tensor(x.shape, x.dtype, own)
        if not least:
            return Tensor(x.shape, x.dtype, on.function(f"modulo_{x.dtype.bits}", [x.value]))
        shift, back = (self.full(x.shape, number, DType.INT64).value for number in (least, -least))
        rest = on.function(f"modulo_{x.dtype.bits}", [on.add(x.value, shift)])
        return Tensor(x.shape, x.dtype, on.add(rest, back))

    def unwrapped(self, x: Tensor) -> Tensor:
        """The same numbers in int64, if x has an integer type of 8 or 16 bits: for definitions whose intermediate
        values such a type does not hold, though their result it does."""
        return Tensor(x.shape, DType.INT64, x.value) if x.dtype.is_narrow else x

    def promoted(self, *xs: Tensor) -> list[Tensor]:
        """All operands converted to their common type."""
        dtype = promote(xs, self.default)
        return [self.cast(x, dtype) for x in xs]

    def operands(self, *xs: Tensor | Scalar, wrapping: bool = False) -> list[Tensor]:
        """Numbers made tensors, all promoted to a common type and broadcast to a common shape. ``wrapping``: a number
        that an integer type of 8 or 16 bits does not hold wraps around, as eager has it: ``uint8 < 300`` is ``uint8 <
        44``."""
        return self.broadcast(*self._of_one_type(*xs, wrapping=wrapping))

    def _of_one_type(self, *xs: Tensor | Scalar, wrapping: bool = False) -> list[Tensor]:
        """Numbers made tensors, all promoted to a common type, which must hold the numbers (or, ``wrapping``, be an
        integer type of 8 or 16 bits)."""
        tensors = [x if isinstance(x, Tensor) else self.number(x) for x in xs]
        dtype = promote(tensors, self.default)
        if dtype.kind is Kind.INT and not (wrapping and dtype.is_narrow):
            for x in xs:
                if not isinstance(x, Tensor):
                    self.number(x, dtype)
        return [self.cast(x, dtype) for x in tensors]

    def broadcast(self, *xs: Tensor) -> list[Tensor]:
        """All operands expanded to their common shape; types stay."""
        first = xs[0].shape
        if all(x.shape is first or alike(x.shape, first) for x in xs):
            return list(xs)
        tensors = [x for x in xs if x.shape]
        if len(tensors) == 1:  # and numbers
            return [x if x.shape else self._everywhere(x, tensors[0].shape) for x in xs]
        rank = max(x.rank for x in xs)
        shape = [1] * rank
        for x in xs:
            for k, size in enumerate(x.shape, rank - x.rank):
                if size is shape[k] or is_one(size) or same(shape[k], size):
                    continue
                if not is_one(shape[k]):  # sizes of symbols that may be 1 are asked where two of them meet
                    if shape[k] != 1 and size != 1:
                        raise ShapeProblem("shapes do not broadcast: " + ", ".join(str(y.type) for y in xs))
                    if size == 1:
                        continue
                shape[k] = size
        return [self.expand(x, shape) for x in xs]

    def _everywhere(self, x: Tensor, shape: Shape) -> Tensor:
        """A tensor without dimensions as one of a shape that has some: :meth:`expand` with nothing to be checked."""
        ones = (1,) * len(shape)
        value = self.interpretation.reshape(x.value, _stored(x, ones))
        if not alike(shape, ones):
            value = self.interpretation.expand(value, _stored(x, shape))
        return Tensor(shape, x.dtype, value, x.weak)

    def floating(self, x: Tensor | Scalar) -> Tensor:
        """x as a float tensor (integers become the default float type)."""
        x = x if isinstance(x, Tensor) else self.number(x)
        return self.cast(x, self.default) if x.dtype.is_integral else x

    # ------------------------------------------------------------------ pointwise
    def _binary(
        self,
        x: Tensor | Scalar,
        y: Tensor | Scalar,
        apply: Callable[..., object],
        result: DType | None = None,
        of_complex: Callable[[Arithmetic, Tensor, Tensor], Tensor] | None = None,
    ) -> Tensor:
        a, b = self.operands(x, y, wrapping=True)
        if a.dtype.is_complex:
            if of_complex is None:
                raise ShapeProblem(complex_numbers.refusal(a))
            return of_complex(self, a, b)
        if a.dtype is DType.BOOL:  # arithmetic happens in the integers; logic has methods of its own
            a, b = self.cast(a, DType.INT64), self.cast(b, DType.INT64)
        return Tensor(a.shape, result or a.dtype, apply(a.value, b.value))

    def add(self, x: Tensor | Scalar, y: Tensor | Scalar) -> Tensor:
        return self.wrapped(self._binary(x, y, self.interpretation.add, of_complex=complex_numbers.add))

    def mul(self, x: Tensor | Scalar, y: Tensor | Scalar) -> Tensor:
        return self.wrapped(self._binary(x, y, self.interpretation.mul, of_complex=complex_numbers.mul))

    def neg(self, x: Tensor) -> Tensor:
        if x.dtype.kind is not Kind.INT:
            return self.mul(x, -1)
        minus = self.full(x.shape, -1, DType.INT64)  # no number of an unsigned type
        return self.wrapped(Tensor(x.shape, x.dtype, self.interpretation.mul(x.value, minus.value)))

    def sub(self, x: Tensor | Scalar, y: Tensor | Scalar) -> Tensor:
        a, b = self.operands(x, y)
        return self.add(a, self.neg(b))

    def div(self, x: Tensor | Scalar, y: Tensor | Scalar) -> Tensor:
        """True division; integers become floats."""
        if not (isinstance(x, Tensor) and isinstance(y, Tensor)):  # a number need not be one of the integer type
            x, y = (self.floating(z) if isinstance(z, Tensor) else z for z in (x, y))
        a, b = self.operands(x, y)
        a, b = self.floating(a), self.floating(b)
        return self.mul(a, self.power(b, -1))

    def power(self, x: Tensor, exponent: Number) -> Tensor:
        """``x ** exponent`` for one constant exponent."""
        exponent = exact(exponent)
        if isinstance(exponent, float):
            raise ShapeProblem(f"power with exponent {exponent}")
        if x.dtype.is_complex:
            return complex_numbers.power(self, x, Fraction(exponent))
        return self.wrapped(Tensor(x.shape, x.dtype, self.interpretation.power(x.value, Fraction(exponent))))

    def sqrt(self, x: Tensor | Scalar) -> Tensor:
        return self.power(self.floating(x), Fraction(1, 2))

    def rsqrt(self, x: Tensor | Scalar) -> Tensor:
        return self.power(self.floating(x), Fraction(-1, 2))

    def exp(self, x: Tensor | Scalar) -> Tensor:
        x = self.floating(x)
        if x.dtype.is_complex:
            return complex_numbers.exp(self, x)
        return Tensor(x.shape, x.dtype, self.interpretation.exp(x.value))

    def log(self, x: Tensor | Scalar) -> Tensor:
        x = real(self.floating(x))
        return Tensor(x.shape, x.dtype, self.interpretation.log(x.value))

    def function(self, name: str, *xs: Tensor | Scalar, floating: bool = True) -> Tensor:
        """A pointwise function of ``ops.functions``; integer operands become floats unless ``floating`` is false."""
        tensors = self.operands(*xs)
        real(tensors[0])
        if floating:
            tensors = [self.floating(x) for x in tensors]
        value = self.interpretation.function(name, [x.value for x in tensors])
        return self.wrapped(Tensor(tensors[0].shape, tensors[0].dtype, value))

    def less(self, x: Tensor | Scalar, y: Tensor | Scalar) -> Tensor:
        return self._binary(x, y, self.interpretation.less, DType.BOOL)

    def equal(self, x: Tensor | Scalar, y: Tensor | Scalar) -> Tensor:
        return self._binary(x, y, self.interpretation.equal, DType.BOOL, complex_numbers.equal)

    def _truth(self, x: Tensor) -> Tensor:
        return self.cast(x, DType.BOOL)

    def not_(self, x: Tensor) -> Tensor:
        """Logical negation of a boolean: ``1 - x``."""
        number = self.cast(self._truth(x), DType.INT64)
        flipped = self.sub(1, number)
        return Tensor(flipped.shape, DType.BOOL, flipped.value)

    def and_(self, x: Tensor, y: Tensor) -> Tensor:
        """Logical and of booleans: the product."""
        both = self.mul(self.cast(self._truth(x), DType.INT64), self.cast(self._truth(y), DType.INT64))
        return Tensor(both.shape, DType.BOOL, both.value)

    def or_(self, x: Tensor, y: Tensor) -> Tensor:
        return self.not_(self.and_(self.not_(x), self.not_(y)))

    def maximum(self, x: Tensor | Scalar, y: Tensor | Scalar) -> Tensor:
        return self._binary(x, y, self.interpretation.maximum)

    def minimum(self, x: Tensor | Scalar, y: Tensor | Scalar) -> Tensor:
        a, b = self.operands(x, y)
        if a.dtype.is_narrow:  # which need not hold the negatives
            return Tensor(a.shape, a.dtype, self.minimum(self.unwrapped(a), self.unwrapped(b)).value)
        return self.neg(self.maximum(self.neg(a), self.neg(b)))

    def where(self, condition: Tensor, x: Tensor | Scalar, y: Tensor | Scalar) -> Tensor:
        if condition.dtype is not DType.BOOL:
            raise ShapeProblem(f"condition of type {condition.dtype}")
        a, b = self._of_one_type(x, y)
        mask, a, b = self.broadcast(condition, a, b)
        if a.dtype.is_complex:
            return complex_numbers.where(self, mask, a, b)
        return Tensor(a.shape, a.dtype, self.interpretation.where(mask.value, a.value, b.value))
