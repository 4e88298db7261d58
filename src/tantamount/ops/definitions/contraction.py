"""Sums of products: matrix products and Einstein sums."""

from __future__ import annotations

from tantamount.ops.algebra import Scalar, Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.in_place import is_zero, scaled
from tantamount.ops.table import Integers, Tensors, operator

__all__ = ["linear_of", "matmul_of"]

_CONTRACTION = "contraction"
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _product(b: Builder, equation: str, x: Tensor, y: Tensor) -> Tensor:
    if x.dtype is not y.dtype:
        raise ShapeProblem(f"a product of {x.type} and {y.type}, which have different types")
    return b.contract(equation, x, y)


@operator("aten.mm.default", category=_CONTRACTION)
def mm(b: Builder, self: Tensor, mat2: Tensor) -> Tensor:
    """y[i, k] = sum_j self[i, j] mat2[j, k]"""
    return _product(b, "ij,jk->ik", self, mat2)


@operator("aten.bmm.default", category=_CONTRACTION)
def bmm(b: Builder, self: Tensor, mat2: Tensor) -> Tensor:
    """y[n, i, k] = sum_j self[n, i, j] mat2[n, j, k]"""
    return _product(b, "nij,njk->nik", self, mat2)


@operator("aten.mv.default", category=_CONTRACTION)
def mv(b: Builder, self: Tensor, vec: Tensor) -> Tensor:
    """y[i] = sum_j self[i, j] vec[j]"""
    return _product(b, "ij,j->i", self, vec)


@operator("aten.dot.default", category=_CONTRACTION)
def dot(b: Builder, self: Tensor, other: Tensor) -> Tensor:
    """sum_i self[i] other[i]"""
    return _product(b, "i,i->", self, other)


@operator("aten.outer.default", "aten.ger.default", category=_CONTRACTION)
def outer(b: Builder, self: Tensor, vec2: Tensor) -> Tensor:
    """y[i, j] = self[i] vec2[j]"""
    return b.contract("i,j->ij", self, vec2)


def _plus(b: Builder, self: Tensor, product: Tensor, beta: Scalar, alpha: Scalar) -> Tensor:
    """``beta * self + alpha * product``, self broadcast; with beta = 0 self does not matter, whatever it holds."""
    if self.dtype is not product.dtype:
        raise ShapeProblem(f"a sum of {self.type} and {product.type}, which have different types")
    addend = b.expand(self, product.shape)
    out = scaled(b, product, alpha)
    return out if is_zero(beta) else b.add(scaled(b, addend, beta), out)


@operator("aten.addmm.default", category=_CONTRACTION)
def addmm(b: Builder, self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """beta * self + alpha * (mat1 @ mat2); beta = 0 ignores self"""
    return _plus(b, self, _product(b, "ij,jk->ik", mat1, mat2), beta, alpha)


@operator("aten.addmv.default", category=_CONTRACTION)
def addmv(b: Builder, self: Tensor, mat: Tensor, vec: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """beta * self + alpha * (mat @ vec); beta = 0 ignores self"""
    return _plus(b, self, _product(b, "ij,j->i", mat, vec), beta, alpha)


@operator("aten.baddbmm.default", category=_CONTRACTION)
def baddbmm(b: Builder, self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """beta * self + alpha * (batch1 @ batch2), batch by batch; beta = 0 ignores self"""
    return _plus(b, self, _product(b, "nij,njk->nik", batch1, batch2), beta, alpha)


@operator("aten.addbmm.default", category=_CONTRACTION)
def addbmm(b: Builder, self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """beta * self + alpha * (sum over the batch of batch1 @ batch2); beta = 0 ignores self"""
    return _plus(b, self, _product(b, "nij,njk->ik", batch1, batch2), beta, alpha)


def matmul_of(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """The product over the last dimension of x and the last but one of y (the only one of a vector), batch
    dimensions broadcast."""
    if not x.rank or not y.rank:
        raise ShapeProblem(f"a matrix product of {x.type} and {y.type}")
    batch_x, batch_y = x.shape[:-2], y.shape[:-2]
    rank = max(len(batch_x), len(batch_y))
    if rank > len(_LETTERS) - 3:
        raise ShapeProblem(f"a matrix product of {rank + 2} dimensions")
    letters = _LETTERS[3 : 3 + rank]  # a: rows, b: contracted, c: columns
    kept_x, labels_x = _batch_labels(batch_x, batch_y, letters)
    kept_y, labels_y = _batch_labels(batch_y, batch_x, letters)
    rows, columns = ("a" if x.rank > 1 else ""), ("c" if y.rank > 1 else "")
    a = b.reshape(x, (*kept_x, *x.shape[-2:]))
    c = b.reshape(y, (*kept_y, *y.shape[-2:]))
    batch = "".join(letter for letter in letters if letter in labels_x + labels_y)
    out = _product(b, f"{labels_x}{rows}b,{labels_y}b{columns}->{batch}{rows}{columns}", a, c)
    sizes = [
        max(pair, key=lambda size: (size != 1, size))
        for pair in zip(_front(batch_x, rank), _front(batch_y, rank), strict=True)
    ]
    return b.reshape(out, (*sizes, *(x.shape[-2:-1] if rows else ()), *(y.shape[-1:] if columns else ())))


def _front(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return (1,) * (rank - len(shape)) + shape


def _batch_labels(mine: tuple[int, ...], other: tuple[int, ...], letters: str) -> tuple[tuple[int, ...], str]:
    """The batch dimensions of one operand without those of size 1 that broadcast or vanish, and their labels."""
    rank = len(letters)
    kept: list[int] = []
    labels = ""
    for size, theirs, letter in zip(_front(mine, rank), _front(other, rank), letters, strict=True):
        if size != 1:
            if theirs not in (1, size):
                raise ShapeProblem(f"batch sizes {mine} and {other} do not broadcast")
            kept.append(size)
            labels += letter
    return tuple(kept), labels


@operator("aten.matmul.default", category=_CONTRACTION)
def matmul(b: Builder, self: Tensor, other: Tensor) -> Tensor:
    """y[..., i, k] = sum_j self[..., i, j] other[..., j, k]; a vector has no i, or no k"""
    return matmul_of(b, self, other)


def linear_of(b: Builder, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``x @ weight^T + bias``; weight is (out, in) or, for a single output, (in,)."""
    if not x.rank or weight.rank not in (1, 2):
        raise ShapeProblem(f"a linear map of {x.type} by {weight.type}")
    letters = _LETTERS[2 : 1 + x.rank]
    right, result = ("ab", letters + "a") if weight.rank == 2 else ("b", letters)
    out = _product(b, f"{letters}b,{right}->{result}", x, weight)
    if bias is None:
        return out
    if bias.dtype is not out.dtype:
        raise ShapeProblem(f"a sum of {out.type} and {bias.type}, which have different types")
    return b.add(out, b.expand(bias, out.shape))


@operator("aten.linear.default", category=_CONTRACTION)
def linear(b: Builder, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y[..., o] = sum_i input[..., i] weight[o, i] + bias[o]"""
    return linear_of(b, input, weight, bias)


# ---------------------------------------------------------------------------------------------- Einstein sums
def _einsum_labels(equation: str, xs: list[Tensor]) -> tuple[list[str], str]:
    """Explicit labels of every operand and of the result; ``...`` replaced by unused letters."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(xs):
        raise ShapeProblem(f"equation {equation!r} for {len(xs)} operands")
    for term in (*terms, right):
        if not all(letter in _LETTERS for letter in term.replace("...", "", 1)):
            raise ShapeProblem(f"equation {equation!r}: the term {term!r}")
    spread = max(
        (x.rank - len(term.replace("...", "")) for term, x in zip(terms, xs, strict=True) if "..." in term), default=0
    )
    unused = [letter for letter in _LETTERS if letter not in text]
    if spread < 0 or spread > len(unused):
        raise ShapeProblem(f"equation {equation!r} for {', '.join(str(x.type) for x in xs)}")
    dots = "".join(unused[:spread])
    named: list[str] = []
    for term, x in zip(terms, xs, strict=True):
        width = x.rank - len(term.replace("...", ""))
        if width < 0 or (width and "..." not in term):
            raise ShapeProblem(f"equation {equation!r}: the term {term!r} for {x.type}")
        named.append(term.replace("...", dots[spread - width :]))
    if arrow:
        return named, right.replace("...", dots)
    letters = sorted(letter for letter in set(left) if letter in _LETTERS and left.count(letter) == 1)
    return named, dots + "".join(letters)


@operator("aten.einsum.default", category=_CONTRACTION)
def einsum(b: Builder, equation: str, tensors: Tensors, *, path: Integers | None = None) -> Tensor:
    """the sum of products that the equation names; the order of contraction (`path`) does not matter"""
    xs = [x for x in tensors if x is not None]
    if len(xs) != len(tensors) or not xs:
        raise ShapeProblem("an Einstein sum of absent tensors")
    terms, right = _einsum_labels(equation, xs)
    sizes: dict[str, int] = {}
    for term, x in zip(terms, xs, strict=True):
        for label, size in zip(term, x.shape, strict=True):
            if sizes.get(label, 1) == 1:
                sizes[label] = size
    if len(set(right)) != len(right) or any(label not in sizes for label in right):
        raise ShapeProblem(f"equation {equation!r}: the result {right!r}")
    operands: list[Tensor] = []
    labels: list[str] = []
    for term, x in zip(terms, xs, strict=True):
        if x.dtype is not xs[0].dtype:
            raise ShapeProblem(f"a product of {xs[0].type} and {x.type}, which have different types")
        kept = [k for k, (label, size) in enumerate(zip(term, x.shape, strict=True)) if size == sizes[label] != 1]
        if any(size not in (1, sizes[label]) for label, size in zip(term, x.shape, strict=True)):
            raise ShapeProblem(f"equation {equation!r}: the sizes of {x.type}")
        operands.append(b.reshape(x, [x.shape[k] for k in kept]))
        labels.append("".join(term[k] for k in kept))
    for label in sizes if xs[0].dtype.is_integral else ():
        if label not in right and sum(own.count(label) > 0 for own in labels) < 2:  # eager's sum of it is an int64
            raise ShapeProblem(f"equation {equation!r}: {xs[0].dtype} summed over {label!r}, which one operand has")
    inner = "".join(label for label in right if sizes[label] != 1)
    out = b.contract(f"{','.join(labels)}->{inner}", *operands)
    return b.reshape(out, [sizes[label] for label in right])
