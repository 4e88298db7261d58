"""Products that models rarely use: by groups of rows, with scales, of vectors."""

from __future__ import annotations

from tantamount.ir.types import DType
from tantamount.ops.algebra import Scalar, Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions import contraction
from tantamount.ops.definitions.in_place import is_zero, require_float, scaled
from tantamount.ops.definitions.numbers import stop_unless
from tantamount.ops.promotion import promote
from tantamount.ops.table import Integers, Layout, operator

_CONTRACTION = "contraction"
_LABELS = "abcdefgh"


@operator("aten.addr.default", category=_CONTRACTION)
def addr(b: Builder, self: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """beta * self[i, j] + alpha * vec1[i] vec2[j], of booleans a disjunction; beta = 0 ignores self"""
    product = scaled(b, contraction.outer(b, vec1, vec2), alpha)
    addend = b.expand(self, product.shape)
    found = product if is_zero(beta) else b.add(scaled(b, addend, beta), product)
    return b.cast(found, promote((self, vec1, vec2)))


@operator("aten.linalg_matrix_exp.default", "aten.matrix_exp.default", category=_CONTRACTION)
def matrix_exp(b: Builder, self: Tensor) -> Tensor:
    """the exponential of square matrices: opaque, a function of the whole matrix"""
    if not self.dtype.is_float or self.rank < 2 or self.shape[-1] != self.shape[-2]:
        raise ShapeProblem(f"{self.type} where square matrices of floats are needed")
    n = self.shape[-1]
    rows = b.reshape(self, (*self.shape[:-2], n * n))
    (found,) = b.rows("matrix_exp", [rows], -1, (n,), [(n * n, self.dtype)])
    return b.reshape(found, self.shape)


@operator("aten.vdot.default", category=_CONTRACTION)
def vdot(b: Builder, self: Tensor, other: Tensor) -> Tensor:
    """sum_i self[i] other[i], self conjugated"""
    from tantamount.ops.definitions.complex import conj

    return contraction.dot(b, conj(b, self), other)


@operator("aten.inner.default", category=_CONTRACTION)
def inner(b: Builder, self: Tensor, other: Tensor) -> Tensor:
    """y[..., k...] = sum_j self[..., j] other[k..., j]"""
    if not self.rank or not other.rank:
        return b.mul(self, other)
    columns = other.shape[:-1]
    flat = b.reshape(other, (-1, other.shape[-1])) if other.rank != 2 else other
    return b.reshape(contraction.linear(b, self, flat), (*self.shape[:-1], *columns))


@operator("aten._trilinear.default", category=_CONTRACTION)
def trilinear(
    b: Builder,
    i1: Tensor,
    i2: Tensor,
    i3: Tensor,
    expand1: Integers,
    expand2: Integers,
    expand3: Integers,
    sumdim: Integers,
    unroll_dim: int = 1,
) -> Tensor:
    """the sum over the dimensions sumdim of i1 i2 i3, which get dimensions at expand; unroll_dim is no matter"""
    rank = i1.rank + len(expand1)
    if any(x.rank + len(added) != rank for x, added in ((i2, expand2), (i3, expand3))) or rank > len(_LABELS):
        raise ShapeProblem(f"{i1.type}, {i2.type} and {i3.type} with {expand1}, {expand2} and {expand3}")
    if {*expand1} & {*expand2} & {*expand3}:  # of which eager makes an empty one, or takes nothing at all
        raise ShapeProblem(f"a dimension that no operand has: expand {expand1}, {expand2} and {expand3}")
    labels = _LABELS[:rank]
    wide: list[Tensor] = []
    for x, added in ((i1, expand1), (i2, expand2), (i3, expand3)):
        for k in sorted(added):
            x = b.unsqueeze(x, k)
        wide.append(x)
    sizes = [max(x.shape[k] for x in wide) for k in range(rank)]
    for x, added in zip(wide, (expand1, expand2, expand3), strict=True):
        if any(x.shape[k] != sizes[k] for k in range(rank) if k not in added):  # eager reads other elements then
            raise ShapeProblem(f"{i1.type}, {i2.type} and {i3.type}, which differ in a dimension that all have")
    kept = "".join(label for k, label in enumerate(labels) if k not in sumdim)
    equation = f"{labels},{labels},{labels}->{kept}"
    return b.contract(equation, *(b.expand(x, sizes) for x in wide))


@operator("aten.linalg_cross.default", category=_CONTRACTION)
def cross(b: Builder, self: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """the cross product along dim, of size 3"""
    x, y = b.operands(self, other)
    k = b.dim(x, dim)
    if not x.rank or x.shape[k] != 3:
        raise ShapeProblem(f"a cross product along dimension {dim} of {x.type}")
    a, c = ([b.slice(z, k, n, n + 1) for n in range(3)] for z in (x, y))
    return b.concat([b.sub(b.mul(a[m], c[n]), b.mul(a[n], c[m])) for m, n in ((1, 2), (2, 0), (0, 1))], k)


@operator("aten._scaled_mm.default", category=_CONTRACTION)
def scaled_mm(
    b: Builder,
    self: Tensor,
    mat2: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: DType | None = None,
    use_fast_accum: Layout = False,
) -> Tensor:
    """(scale_a * self) @ (scale_b * mat2) + bias; a scale for all, for each row of self, for each column of mat2"""
    if scale_result is not None:
        raise ShapeProblem("a scale of the result")
    if self.rank != 2 or mat2.rank != 2:
        raise ShapeProblem(f"a matrix product of {self.type} and {mat2.type}")
    for scale, allowed in ((scale_a, (self.shape[0], 1)), (scale_b, (1, mat2.shape[1]))):
        if scale.shape not in ((), (1,), (1, 1), allowed):
            raise ShapeProblem(f"scales {scale.type} of a product of {self.type} and {mat2.type}")
    x = b.mul(b.cast(require_float(self), DType.FLOAT32), _flat(b, scale_a))
    y = b.mul(b.cast(require_float(mat2), DType.FLOAT32), _flat(b, scale_b))
    out = b.contract("ij,jk->ik", x, y)
    if bias is not None:
        out = b.add(out, b.expand(b.cast(bias, out.dtype), out.shape))
    return b.cast(out, out_dtype or self.dtype)


def _flat(b: Builder, scale: Tensor) -> Tensor:
    return b.reshape(scale, ()) if scale.shape == (1,) else scale


@operator(
    "aten._grouped_mm.default",
    category=_CONTRACTION,
    requires="its groups end in order, the last at the last row or before",
)
def grouped_mm(
    b: Builder,
    self: Tensor,
    mat2: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: DType | None = None,
) -> Tensor:
    """self @ mat2 group by group; group g ends before row (column, for two matrices) offs[g]"""
    if bias is not None or self.dtype is not mat2.dtype:
        raise ShapeProblem(f"a grouped product of {self.type} and {mat2.type} with bias {bias}")
    out = _grouped(b, require_float(self), mat2, offs)
    return b.cast(out, out_dtype or self.dtype)


def group_of_place(b: Builder, offs: Tensor, size: int) -> Tensor:
    """The group that each place lies in, which is the number of groups that end at or before it; the program stops
    unless they end in order, the last at ``size`` or before."""
    groups = offs.shape[0]
    if groups:
        before = b.concat([b.full((1,), 0, offs.dtype), b.slice(offs, 0, 0, -1)], 0)
        stop_unless(b, b.not_(b.less(offs, before)))
        stop_unless(b, b.not_(b.less(b.full((1,), size, offs.dtype), b.slice(offs, 0, -1))))
    place = b.iota(size, offs.dtype)
    return b.sum(b.not_(b.less(b.unsqueeze(place, 1), offs)), (1,))


def _members(b: Builder, offs: Tensor, groups: int, size: int) -> Tensor:
    """[i, g]: whether place i lies in group g."""
    if offs.shape != (groups,):
        raise ShapeProblem(f"ends {offs.type} of {groups} groups")
    return b.equal(b.unsqueeze(group_of_place(b, offs, size), 1), b.iota(groups))


def _written(b: Builder, out: Tensor, offs: Tensor, dim: int) -> Tensor:
    """``out``, undefined at places of ``dim`` that are in no group, which kernels leave unwritten."""
    size, groups = out.shape[dim], offs.shape[0]
    last = b.slice(offs, 0, -1) if groups else b.full((1,), 0, offs.dtype)
    inside = b.cast(b.less(b.iota(size, offs.dtype), last), out.dtype)
    hole = b.div(b.full((size,), 1, out.dtype), inside)
    return b.add(out, b.reshape(b.sub(hole, hole), tuple(size if k == dim else 1 for k in range(out.rank))))


def _grouped(b: Builder, x: Tensor, y: Tensor, offs: Tensor | None) -> Tensor:
    if x.rank == 3 and y.rank == 3:
        if offs is not None:
            raise ShapeProblem("ends of groups of two batches of matrices")
        return b.contract("gij,gjk->gik", x, y)
    if offs is None:
        raise ShapeProblem(f"a grouped product of {x.type} and {y.type} without the ends of its groups")
    if (x.rank, y.rank) == (2, 3):
        members = b.cast(_members(b, offs, y.shape[0], x.shape[0]), x.dtype)
        return _written(b, b.contract("ij,gjk,ig->ik", x, y, members, choices=1), offs, 0)
    if (x.rank, y.rank) == (3, 2):
        members = b.cast(_members(b, offs, x.shape[0], y.shape[1]), x.dtype)
        return _written(b, b.contract("gij,jk,kg->ik", x, y, members, choices=1), offs, 1)
    if (x.rank, y.rank) == (2, 2):
        members = b.cast(_members(b, offs, offs.shape[0] if offs.rank else 0, x.shape[1]), x.dtype)
        return b.contract("ij,jk,jg->gik", x, y, members, choices=1)
    raise ShapeProblem(f"a grouped product of {x.type} and {y.type}")
