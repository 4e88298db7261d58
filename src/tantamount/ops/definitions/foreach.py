"""The for-each operators of optimizers: an operator of single tensors, applied to lists of equal length.

Every one is derived from the definition of the operator that it repeats, so there is nothing to say about it here but
which arguments are lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tantamount.ir.types import DType
from tantamount.ops.algebra import Scalar, Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions import elementwise, movement, reduction
from tantamount.ops.table import Layout, Scalars, Tensors, operator

_ELEMENTWISE = "elementwise"

Unary = Callable[[Builder, Tensor], Tensor]
Binary = Callable[[Builder, Tensor, "Tensor | Scalar"], Tensor]


def _present(tensors: Tensors) -> list[Tensor]:
    found = [x for x in tensors if x is not None]
    if len(found) != len(tensors) or not found:
        raise ShapeProblem("a list of no tensors, or with an absent one")
    return found


def _same_length(first: Sequence[object], *others: Sequence[object]) -> None:
    if any(len(other) != len(first) for other in others):
        raise ShapeProblem(f"lists of {', '.join(str(len(x)) for x in (first, *others))} elements")


def _register_unary(name: str, define: Unary) -> None:
    @operator(f"aten._foreach_{name}.default", category=_ELEMENTWISE)
    def each(b: Builder, self: Tensors) -> tuple[Tensor, ...]:
        return tuple(define(b, x) for x in _present(self))

    each.__doc__ = f"{name} of every tensor of the list"


_UNARY: dict[str, Unary] = {
    "abs": elementwise.absolute,
    "neg": elementwise.neg,
    "sqrt": elementwise.sqrt,
    "rsqrt": elementwise.rsqrt,
    "exp": elementwise.exp,
    "log": elementwise.log,
    "reciprocal": elementwise.reciprocal,
    "sign": elementwise.sign,
}

for _name, _define in _UNARY.items():
    _register_unary(_name, _define)


@operator("aten._foreach_copy.default", category=_ELEMENTWISE)
def copied(b: Builder, self: Tensors, src: Tensors, non_blocking: Layout = False) -> tuple[Tensor, ...]:
    """src[k], broadcast to the shape of self[k] and converted to its type"""
    _same_length(self, src)
    pairs = zip(_present(self), _present(src), strict=True)
    return tuple(movement.copy(b, x, y, non_blocking) for x, y in pairs)


@operator("aten._foreach_add.List", category=_ELEMENTWISE)
def add_list(b: Builder, self: Tensors, other: Tensors, *, alpha: Scalar = 1) -> tuple[Tensor, ...]:
    """self[k] + alpha * other[k]"""
    _same_length(self, other)
    pairs = zip(_present(self), _present(other), strict=True)
    return tuple(elementwise.add(b, x, y, alpha) for x, y in pairs)


@operator("aten._foreach_add.Tensor", category=_ELEMENTWISE)
def add_tensor(b: Builder, self: Tensors, other: Tensor, *, alpha: Scalar = 1) -> tuple[Tensor, ...]:
    """self[k] + alpha * other"""
    return tuple(elementwise.add(b, x, other, alpha) for x in _present(self))


@operator("aten._foreach_sub.List", category=_ELEMENTWISE)
def sub_list(b: Builder, self: Tensors, other: Tensors, *, alpha: Scalar = 1) -> tuple[Tensor, ...]:
    """self[k] - alpha * other[k]"""
    _same_length(self, other)
    pairs = zip(_present(self), _present(other), strict=True)
    return tuple(elementwise.sub(b, x, y, alpha) for x, y in pairs)


def _power(b: Builder, x: Tensor, y: Tensor | Scalar) -> Tensor:
    if isinstance(y, Tensor):
        return elementwise.pow_tensor(b, x, y)
    if not isinstance(y, (int, float)):
        raise ShapeProblem(f"an exponent {y}")
    return elementwise.pow_scalar(b, x, y)


_BINARY: dict[str, Binary] = {
    "mul": elementwise.mul,
    "div": elementwise.div,
    "maximum": elementwise.clamp_min,
    "minimum": elementwise.clamp_max,
    "clamp_min": elementwise.clamp_min,
    "clamp_max": elementwise.clamp_max,
    "pow": _power,
}
_WITH_TENSOR = ("mul", "div")


def _register_binary(name: str, define: Binary, lists: bool, single: bool) -> None:
    if lists:

        @operator(f"aten._foreach_{name}.List", category=_ELEMENTWISE)
        def list_(b: Builder, self: Tensors, other: Tensors) -> tuple[Tensor, ...]:
            _same_length(self, other)
            return tuple(define(b, x, y) for x, y in zip(_present(self), _present(other), strict=True))

        list_.__doc__ = f"{name} of self[k] and other[k]"
    if single:

        @operator(f"aten._foreach_{name}.Tensor", category=_ELEMENTWISE)
        def tensor(b: Builder, self: Tensors, other: Tensor) -> tuple[Tensor, ...]:
            return tuple(define(b, x, other) for x in _present(self))

        tensor.__doc__ = f"{name} of self[k] and other"

    def numbers(b: Builder, self: Tensors, scalars: Scalars) -> tuple[Tensor, ...]:
        _same_length(self, scalars)
        return tuple(define(b, x, y) for x, y in zip(_present(self), scalars, strict=True))

    def number(b: Builder, self: Tensors, scalar: Scalar) -> tuple[Tensor, ...]:
        return tuple(define(b, x, scalar) for x in _present(self))

    numbers.__doc__ = f"{name} of self[k] and scalars[k]"
    number.__doc__ = f"{name} of self[k] and a number"
    operator(f"aten._foreach_{name}.ScalarList", category=_ELEMENTWISE)(numbers)
    operator(f"aten._foreach_{name}.Scalar", category=_ELEMENTWISE)(number)


_register_binary("add", elementwise.add, lists=False, single=False)
_register_binary("sub", elementwise.sub, lists=False, single=False)
for _name, _operation in _BINARY.items():
    _register_binary(_name, _operation, lists=True, single=_name in _WITH_TENSOR)


@operator("aten._foreach_addcmul.Scalar", category=_ELEMENTWISE)
def addcmul(b: Builder, self: Tensors, tensor1: Tensors, tensor2: Tensors, value: Scalar = 1) -> tuple[Tensor, ...]:
    """self[k] + value * tensor1[k] * tensor2[k]"""
    _same_length(self, tensor1, tensor2)
    lists = zip(_present(self), _present(tensor1), _present(tensor2), strict=True)
    return tuple(elementwise.addcmul(b, x, y, z, value=value) for x, y, z in lists)


@operator("aten._foreach_addcdiv.Scalar", category=_ELEMENTWISE)
def addcdiv(b: Builder, self: Tensors, tensor1: Tensors, tensor2: Tensors, value: Scalar = 1) -> tuple[Tensor, ...]:
    """self[k] + value * tensor1[k] / tensor2[k]"""
    _same_length(self, tensor1, tensor2)
    lists = zip(_present(self), _present(tensor1), _present(tensor2), strict=True)
    return tuple(elementwise.addcdiv(b, x, y, z, value=value) for x, y, z in lists)


@operator("aten._foreach_addcdiv.ScalarList", category=_ELEMENTWISE)
def addcdiv_list(b: Builder, self: Tensors, tensor1: Tensors, tensor2: Tensors, scalars: Scalars) -> tuple[Tensor, ...]:
    """self[k] + scalars[k] * tensor1[k] / tensor2[k]"""
    _same_length(self, tensor1, tensor2, scalars)
    lists = zip(_present(self), _present(tensor1), _present(tensor2), scalars, strict=True)
    return tuple(elementwise.addcdiv(b, x, y, z, value=value) for x, y, z, value in lists)


@operator("aten._foreach_lerp.Scalar", category=_ELEMENTWISE)
def lerp(b: Builder, self: Tensors, tensors1: Tensors, weight: Scalar) -> tuple[Tensor, ...]:
    """self[k] + weight * (tensors1[k] - self[k])"""
    _same_length(self, tensors1)
    return tuple(elementwise.lerp(b, x, y, weight) for x, y in zip(_present(self), _present(tensors1), strict=True))


@operator("aten._foreach_norm.Scalar", category=_ELEMENTWISE)
def norm(b: Builder, self: Tensors, ord: float = 2, dtype: DType | None = None) -> tuple[Tensor, ...]:
    """(sum |self[k]|^ord)^(1/ord) of every tensor"""
    return tuple(reduction.vector_norm(b, x, ord, dtype=dtype) for x in _present(self))
