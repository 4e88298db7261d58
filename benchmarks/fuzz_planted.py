"""How soon the fuzzer finds planted bugs, by each way of comparing: a table.

    python benchmarks/fuzz_planted.py [--cases 400] [--clean 2000] [BUG ...]

Every bug is switched on alone in the planted compiler (``tantamount.fuzz.backends.planted``). For each the first
case in which it shows is told for the pair of the simplest and the most complex form alone, for the original against
the reference alone, and for all forms against the reference.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from random import Random

import numpy as np

from tantamount.errors import TantamountError
from tantamount.fuzz.backends.base import Outcome
from tantamount.fuzz.backends.planted import PLANTED, Bug, Planted, renamed
from tantamount.fuzz.cases import Maker, Values
from tantamount.fuzz.draft import Policy
from tantamount.fuzz.generate import Sample
from tantamount.fuzz.oracle import judge
from tantamount.fuzz.steering import Coverage
from tantamount.ir.graph import Graph, Node, Ref, references
from tantamount.ops.algebra import Tensor
from tantamount.rules.record import proved_rules
from tantamount.semantics.exact import Exact, evaluate, plain


def is_(node: Node, name: str) -> bool:
    return node.target.removeprefix("aten.").split(".")[0] == name


def on(*names: str, dtypes: Sequence[str] = ()):
    """A kernel bug of some operators, on results of some element types."""

    def wrap(change):
        def kernel(node, operands, right):
            if node.target.removeprefix("aten.").split(".")[0] not in names:
                return None
            if dtypes and (node.type is None or node.type.dtype.label not in dtypes):
                return None
            return change(node, operands, right)

        return kernel

    return wrap


def rewriting(find):
    """A pass: ``find(graph, node)`` gives a node in place of a node, or the name of another one."""

    def optimise(graph: Graph) -> Graph:
        names, nodes = {}, []
        for node in graph.nodes:
            found = find(graph, node) if node.op == "call" else None
            if isinstance(found, str):
                names[node.name] = found
            nodes.append(found if isinstance(found, Node) else node)
        changed = Graph(tuple(nodes), graph.outputs, graph.constants, path=graph.path)
        return renamed(changed, names)

    return optimise


def arg(graph: Graph, node: Node, k: int) -> Node | None:
    return graph.by_name[node.args[k].name] if len(node.args) > k and isinstance(node.args[k], Ref) else None


def call(node: Node, target: str, *args) -> Node:
    return Node(node.name, "call", target, args, {}, node.type)


# ------------------------------------------------------------------------------------------------ graph bugs
def dropped_transpose_in_mm(graph, node):
    """(xᵀ) y of square matrices as x y."""
    inner = arg(graph, node, 0)
    if (
        is_(node, "mm")
        and inner is not None
        and is_(inner, "permute")
        and node.type.shape
        and inner.type.shape[0] == inner.type.shape[1]
    ):
        return call(node, "aten.mm.default", inner.args[0], node.args[1])
    return None


def reshape_of_permute(graph, node):
    """A view of a tensor that is not contiguous, taken of its storage."""
    inner = arg(graph, node, 0)
    return (
        call(node, node.target, inner.args[0], node.args[1])
        if is_(node, "reshape") and inner is not None and is_(inner, "permute")
        else None
    )


def reversed_permute(graph, node):
    """A permutation of three dimensions as its inverse, where the shape does not show it."""
    inner = arg(graph, node, 0)
    if not is_(node, "permute") or inner is None or len(node.args[1]) != 3:
        return None
    order = tuple(node.args[1])
    inverse = tuple(order.index(k) for k in range(3))
    same = inverse != order and tuple(inner.type.shape[k] for k in inverse) == tuple(node.type.shape)
    return call(node, node.target, node.args[0], inverse) if same else None


def common_factor(graph, node):
    """a b + a c as a (b c)."""
    a, b = arg(graph, node, 0), arg(graph, node, 1)
    if (
        is_(node, "add")
        and a is not None
        and b is not None
        and is_(a, "mul")
        and is_(b, "mul")
        and a.args[0] == b.args[0]
        and a.type == b.type
        and a is not b
    ):
        return call(node, "aten.mul.Tensor", Ref(a.name), b.args[1])
    return None


def associated_sub(graph, node):
    """(a - b) - c as a - (b - c)."""
    a = arg(graph, node, 0)
    if is_(node, "sub") and a is not None and is_(a, "sub") and a.type == node.type:
        return call(node, "aten.add.Tensor", Ref(a.name), node.args[1])
    return None


def neg_of_sub(graph, node):
    """-(a - b) as a - b."""
    a = arg(graph, node, 0)
    return a.name if is_(node, "neg") and a is not None and is_(a, "sub") else None


def not_of_less(graph, node):
    """not (a < b) as a > b."""
    a = arg(graph, node, 0)
    return (
        call(node, "aten.gt.Tensor", *a.args) if is_(node, "logical_not") and a is not None and is_(a, "lt") else None
    )


def relu_of_neg(graph, node):
    """relu(-x) as -relu(x)."""
    a = arg(graph, node, 0)
    return (
        call(node, "aten.clamp.default", a.args[0], None, 0)
        if is_(node, "relu") and a is not None and is_(a, "neg")
        else None
    )


def concat_of_slices(graph, node):
    """cat of two parts of one tensor as the tensor, whichever parts."""
    if is_(node, "cat") and len(node.args[0]) == 2:
        parts = [graph.by_name[ref.name] for ref in node.args[0]]
        if (
            all(is_(p, "slice") or p.target == "getitem" for p in parts)
            and parts[0].args[0] == parts[1].args[0]
            and parts[0].target == "aten.slice.Tensor"
        ):
            source = graph.by_name[parts[0].args[0].name]
            if source.type == node.type:
                return source.name
    return None


def pad_then_slice(graph, node):
    """pad(x)[a:b] as x, where the shapes are equal."""
    a = arg(graph, node, 0)
    if is_(node, "slice") and a is not None and is_(a, "constant_pad_nd"):
        source = graph.by_name[a.args[0].name]
        return source.name if source.type == node.type else None
    return None


def where_of_where(graph, node):
    """where(c, where(d, x, y), z) as where(c, x, z)."""
    a = arg(graph, node, 1)
    if is_(node, "where") and a is not None and is_(a, "where"):
        return call(node, node.target, node.args[0], a.args[2], node.args[2])
    return None


def double_flip(graph, node):
    """flip(flip(x, i), j) as x."""
    a = arg(graph, node, 0)
    return graph.by_name[a.args[0].name].name if is_(node, "flip") and a is not None and is_(a, "flip") else None


def remainder_identity(graph, node):
    """x % y of what was multiplied as 0."""
    inner = arg(graph, node, 1)
    if is_(node, "sub") and inner is not None and is_(inner, "remainder"):
        return call(node, "aten.add.Tensor", *node.args)
    return None


def cast_chain(graph, node):
    """cast(cast(x, narrow), wide) as cast(x, wide)."""
    a = arg(graph, node, 0)
    if (
        is_(node, "_to_copy")
        and a is not None
        and is_(a, "_to_copy")
        and a.type.dtype.is_integral
        and graph.by_name[a.args[0].name].type.dtype.is_integral
    ):
        return Node(node.name, "call", node.target, (a.args[0],), dict(node.kwargs), node.type)
    return None


# ------------------------------------------------------------------------------------------------ kernel bugs
@on("sum", "amax", "amin", "mean")
def tail(node, xs, right):
    """Rows longer than a vector lose what is left over."""
    x = xs[0]
    dims = [d % x.ndim for d in node.args[1]]
    n = x.shape[-1] if x.ndim else 0
    if dims != [x.ndim - 1] or n <= 16 or n % 16 == 0 or right.dtype.kind == "b":
        return None
    cut = x[..., : n - n % 16].astype(np.float64)
    f = {"sum": np.sum, "amax": np.max, "amin": np.min, "mean": np.mean}[node.target.split(".")[1]]
    return f(cut, axis=-1).reshape(right.shape).astype(right.dtype)


@on("add", "sub")
def vector_rows(node, xs, right):
    """The elements after the last whole vector of 16 are those of the first operand."""
    n = right.size
    if n <= 16 or n % 16 == 0 or len(xs) < 2 or xs[0].shape != right.shape:
        return None
    out = right.copy().ravel()
    out[n - n % 16 :] = xs[0].ravel()[n - n % 16 :]
    return out


@on("amax")
def amax_from_zero(node, xs, right):
    return np.maximum(right, np.zeros((), right.dtype)) if right.dtype.kind == "f" else None


@on("amin", dtypes=("int8", "uint8", "int16", "int32"))
def amin_from_wrong_limit(node, xs, right):
    return np.minimum(right, 100).astype(right.dtype)


@on("max_pool2d")
def pool_padding(node, xs, right):
    return np.maximum(right, 0) if node.args[3] != (0, 0) else None


@on("argmin", "argmax")
def packed_places(node, xs, right):
    """Places found as the sum of value and place in one number that overflows."""
    x = xs[0]
    if x.dtype.kind not in "iu" or x.dtype.itemsize > 1:
        return None
    k = node.args[1] % x.ndim
    packed = (
        x.astype(np.int32) * 4 + np.arange(x.shape[k]).reshape([-1 if j == k else 1 for j in range(x.ndim)]) % 4
    ).astype(np.int8)
    f = np.argmin if "argmin" in node.target else np.argmax
    return f(packed, axis=k).reshape(right.shape)


@on("abs", dtypes=("int8", "int16"))
def abs_saturates(node, xs, right):
    return np.where(right < 0, np.iinfo(right.dtype).max, right)


@on("neg", dtypes=("int8", "int16", "int32"))
def neg_saturates(node, xs, right):
    low = np.iinfo(right.dtype)
    return np.where(xs[0] == low.min, low.max, right)


@on("sub", dtypes=("uint8",))
def unsigned_saturates(node, xs, right):
    return np.maximum(xs[0].astype(int) - xs[1].astype(int), 0).astype(np.uint8) if len(xs) > 1 else None


@on("lt", "gt", "le", "ge")
def unsigned_compared_signed(node, xs, right):
    if xs[0].dtype != np.uint8 or len(xs) < 2:
        return None
    f = {"lt": np.less, "gt": np.greater, "le": np.less_equal, "ge": np.greater_equal}[node.target.split(".")[1]]
    return f(xs[0].astype(np.int8), xs[1].astype(np.int8))


@on("mul", "add", dtypes=("int32",))
def integers_in_float32(node, xs, right):
    return None if len(xs) < 2 else _float32(node, xs)


def _float32(node, xs):
    f = np.multiply if is_(node, "mul") else np.add
    with np.errstate(all="ignore"):
        return np.clip(
            f(xs[0].astype(np.float32), xs[1].astype(np.float32)).astype(np.float64), -(2**31), 2**31 - 1
        ).astype(np.int32)


@on("sum", dtypes=("int64",))
def sum_in_double(node, xs, right):
    return np.clip(
        xs[0].astype(np.float64).sum(tuple(node.args[1]), keepdims=node.args[2]), -(2.0**62), 2.0**62
    ).astype(np.int64)


@on("sum", dtypes=("int64",))
def sum_in_int32(node, xs, right):
    return right.astype(np.int32).astype(np.int64) if xs[0].dtype == np.int32 else None


@on("maximum", "minimum", dtypes=("int64",))
def promoted_by_first(node, xs, right):
    """Both in the type of the narrower registers."""
    return right.astype(np.int32).astype(np.int64)


@on("floor_divide")
def truncated(node, xs, right):
    if len(xs) < 2:
        return None
    with np.errstate(all="ignore"):
        return (
            np.trunc(xs[0].astype(np.float64) / xs[1].astype(np.float64)).astype(right.dtype)
            if right.dtype.itemsize < 8
            else None
        )


@on("remainder")
def remainder_sign(node, xs, right):
    return np.fmod(xs[0], xs[1]) if len(xs) > 1 else None


@on("cumsum")
def cumsum_blocks(node, xs, right):
    """Blocks of 16 do not carry."""
    x, k = xs[0], node.args[1]
    if x.shape[k] <= 16:
        return None
    parts = [np.cumsum(p, axis=k, dtype=right.dtype) for p in np.split(x, range(16, x.shape[k], 16), axis=k)]
    return np.concatenate(parts, axis=k)


@on("convolution")
def conv_dilation(node, xs, right):
    return np.roll(right, 1, axis=-1) if max(node.args[5]) > 1 and right.shape[-1] > 1 else None


@on("convolution")
def conv_groups(node, xs, right):
    g = node.args[8]
    return right[:, ::-1] if g > 1 and right.shape[1] == 2 * g else None


@on("convolution")
def conv_bias(node, xs, right):
    return (
        right - xs[2].reshape(1, -1, *[1] * (right.ndim - 2))
        if node.args[2] is not None and node.args[4][0] == 1
        else None
    )


@on("addmm")
def addmm_bias(node, xs, right):
    m, n = right.shape
    return xs[1] @ xs[2] + xs[0].reshape(-1, 1) if m == n and xs[0].ndim == 1 else None


@on("add", "mul")
def broadcast_side(node, xs, right):
    """A row added to a square matrix as a column."""
    if (
        len(xs) < 2
        or right.ndim != 2
        or right.shape[0] != right.shape[1]
        or xs[1].ndim != 1
        or xs[0].ndim != 2
        or right.shape[0] < 2
    ):
        return None
    f = np.add if is_(node, "add") else np.multiply
    return f(xs[0], xs[1].reshape(-1, 1)).astype(right.dtype) if xs[1].shape[0] == right.shape[0] else None


@on("constant_pad_nd")
def pad_value(node, xs, right):
    """A negative width is ignored: what should be cut off is shifted in."""
    return np.roll(right, 1, axis=-1) if min(node.args[1]) < 0 else None


@on("flip")
def flip_first(node, xs, right):
    dims = node.args[1]
    return np.flip(xs[0], dims[0]) if len(dims) > 1 else None


@on("select")
def negative_index(node, xs, right):
    x, k, i = xs[0], node.args[1], node.args[2]
    return np.take(x, 0, axis=k) if i < 0 else None


@on("index_select")
def repeated_index(node, xs, right):
    k = node.args[1]
    n = right.shape[k]
    if n < 8 or n % 8 == 0:
        return None
    out = np.array(right)
    where = [slice(None)] * out.ndim
    where[k] = slice(n - n % 8, n)
    out[tuple(where)] = 0
    return out


@on("gather")
def gather_axis(node, xs, right):
    x = xs[0]
    k = (
        (node.args[1] + 1) % x.ndim
        if x.ndim == 2 and x.shape[0] == x.shape[1] == right.shape[0] == right.shape[1]
        else None
    )
    return None if k is None else np.take_along_axis(x, xs[1] % x.shape[k], k)


@on("where")
def where_broadcast(node, xs, right):
    """A condition with fewer dimensions is aligned at the front."""
    c = xs[0]
    if c.ndim == right.ndim and right.ndim == 2 and c.shape[0] == c.shape[1] == right.shape[0]:
        return np.where(c.T, xs[1], xs[2]) if xs[1].shape == xs[2].shape == right.shape else None
    return None


@on("softmax")
def softmax_axis(node, xs, right):
    x = xs[0].astype(np.float64)
    if x.ndim < 2 or node.args[1] == x.ndim - 1:
        return None
    e = np.exp(x - x.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).astype(right.dtype)


@on("clamp")
def clamp_order(node, xs, right):
    return (
        np.maximum(xs[0], node.args[1]).astype(right.dtype)
        if node.args[1] is not None and node.args[2] is not None and xs[0].size > 64
        else None
    )


@on("_to_copy", dtypes=("int8", "uint8", "int16"))
def cast_saturates(node, xs, right):
    i = np.iinfo(right.dtype)
    return np.clip(xs[0].astype(np.float64), i.min, i.max).astype(right.dtype) if xs[0].dtype.kind in "iu" else None


@on("mm", "bmm")
def small_inner(node, xs, right):
    """Products over an odd number of terms, more than one vector of 8, lose the last."""
    k = xs[0].shape[-1]
    return xs[0][..., :-1] @ xs[1][..., :-1, :] if k > 8 and k % 2 else None


@on("repeat")
def repeat_order(node, xs, right):
    x, times = xs[0], node.args[1]
    return (
        np.repeat(x, times[0], axis=0) if times[0] > 1 and all(t == 1 for t in times[1:]) and x.shape[0] > 1 else None
    )


# ------------------------------------------------------------------------------------------------ output bugs
def unfilled(graph, arrays):
    """An output that is also used inside is not filled."""
    out = list(arrays)
    for k, output in enumerate(graph.outputs):
        if graph.users[output.node]:
            out[k] = np.zeros_like(out[k])
    return out


def second_aliased(graph, arrays):
    """Outputs of one type share a buffer when there are three."""
    out = list(arrays)
    if len(out) >= 3:
        for k in range(1, len(out)):
            if out[k].shape == out[0].shape and out[k].dtype == out[0].dtype:
                out[k] = out[0]
                break
    return out


BUGS = (
    Bug("merged-permutes-in-wrong-order", "p q for q p", switch="merge-order", like="PolyJuice: transposes swapped"),
    Bug("permute-pairs-dropped", "two permutations taken for inverse", switch="merge-dropped"),
    Bug("involutions-dropped", "a permutation that is its own inverse taken for none", switch="involution"),
    Bug("axis-after-fusion", "axes of reductions not mapped through permutations", switch="reduced-axis"),
    Bug("slices-with-steps-merged", "steps of the inner slice forgotten", switch="slice-steps"),
    Bug("shared-in-spite-of-attributes", "common subexpressions without attributes", switch="shared-attributes"),
    Bug("folded-in-8-bits", "constants folded in another type", switch="folding-type"),
    Bug("folded-in-32-bits", "64-bit constants folded in 32", switch="folding-width"),
    Bug("transpose-dropped-in-mm", "square matrices", optimise=rewriting(dropped_transpose_in_mm)),
    Bug("view-of-permuted", "reshape of the storage", optimise=rewriting(reshape_of_permute)),
    Bug("permute-reversed", "three dimensions", optimise=rewriting(reversed_permute)),
    Bug("common-factor", "a b + a c = a (b c)", optimise=rewriting(common_factor)),
    Bug("sub-associated", "(a - b) - c = (a - b) + c", optimise=rewriting(associated_sub)),
    Bug("neg-of-sub", "-(a - b) = a - b", optimise=rewriting(neg_of_sub)),
    Bug("not-of-less", "not a < b = a > b", optimise=rewriting(not_of_less)),
    Bug("relu-of-neg", "relu(-x) = min(x, 0)", optimise=rewriting(relu_of_neg)),
    Bug("cat-of-slices", "any two parts", optimise=rewriting(concat_of_slices)),
    Bug("pad-and-slice", "equal shapes are equal tensors", optimise=rewriting(pad_then_slice)),
    Bug("where-of-where", "the wrong branch", optimise=rewriting(where_of_where)),
    Bug("flips-cancel", "whatever their dimensions", optimise=rewriting(double_flip)),
    Bug("remainder-added", "y - x % 2 as y + x % 2", optimise=rewriting(remainder_identity)),
    Bug("casts-merged", "narrow and wide again is not nothing", optimise=rewriting(cast_chain)),
    Bug("reduction-tails", "what is beyond the last vector", kernel=tail, like="tails at vector widths"),
    Bug("pointwise-tails", "what is beyond the last vector", kernel=vector_rows),
    Bug("amax-from-0", "of negative rows", kernel=amax_from_zero),
    Bug("amin-from-100", "of narrow integers", kernel=amin_from_wrong_limit),
    Bug("pool-padded-with-0", "of negative windows", kernel=pool_padding),
    Bug("argmin-packed", "value and place in 8 bits", kernel=packed_places, like="TVM 0.12"),
    Bug("abs-saturates", "abs(-128) = 127", kernel=abs_saturates, like="Inductor: abs(int8 -128)"),
    Bug("neg-saturates", "-(-128) = 127", kernel=neg_saturates),
    Bug("unsigned-sub-saturates", "1 - 2 = 0", kernel=unsigned_saturates),
    Bug("unsigned-as-signed", "200 < 100", kernel=unsigned_compared_signed),
    Bug("integers-in-float32", "beyond 2^24", kernel=integers_in_float32, like="OpenVINO: int32 through float32"),
    Bug("int64-sum-in-double", "beyond 2^53", kernel=sum_in_double, like="ONNX Runtime: ReduceSum of int64 in double"),
    Bug("int32-sum-in-32-bits", "sums of int32 are int64", kernel=sum_in_int32),
    Bug("promotion", "maxima of int64 in 32 bits", kernel=promoted_by_first, like="Inductor 2.1"),
    Bug("truncated-division", "-3 // 2 = -1", kernel=truncated),
    Bug("remainder-sign", "-3 % 2 = -1", kernel=remainder_sign),
    Bug("cumsum-blocks", "no carry", kernel=cumsum_blocks),
    Bug("conv-dilation", "shifted", kernel=conv_dilation),
    Bug("conv-groups", "two outputs per group exchanged", kernel=conv_groups),
    Bug("conv-bias", "lost with padding", kernel=conv_bias),
    Bug("addmm-bias", "a column, of square results", kernel=addmm_bias),
    Bug("row-as-column", "square matrices", kernel=broadcast_side),
    Bug("negative-padding", "shifted", kernel=pad_value),
    Bug("flip-of-one", "only the first dimension", kernel=flip_first),
    Bug("negative-index", "as 0", kernel=negative_index),
    Bug("index-tails", "beyond the last vector of 8", kernel=repeated_index),
    Bug("gather-axis", "of square tensors", kernel=gather_axis),
    Bug("where-transposed", "of square tensors", kernel=where_broadcast),
    Bug("softmax-axis", "always the last", kernel=softmax_axis),
    Bug("clamp-half", "of more than 64 elements", kernel=clamp_order),
    Bug("casts-saturate", "of integers", kernel=cast_saturates),
    Bug("odd-products", "the last term lost", kernel=small_inner),
    Bug("repeat-order", "each for all", kernel=repeat_order),
    Bug("output-not-filled", "of an intermediate that is an output", finish=unfilled, like="Hidet 0.3"),
    Bug("outputs-aliased", "of one type", finish=second_aliased),
)  # fmt: skip


class Prepared:
    """A form compiled without bugs, with its values: tells cheaply whether a bug touches it at all."""

    def __init__(self, form) -> None:
        self.form = form
        self.graph = Planted().optimised(form.graph)
        self.values = evaluate(self.graph, form.inputs)
        self.right = Outcome(
            "ok", tuple(plain(self.values[o.node]) for o in self.graph.outputs),
            tuple(self.values[o.node].dtype.label for o in self.graph.outputs),
        )  # fmt: skip

    def outcome(self, bug: Bug) -> Outcome:
        touched = bug.finish is not None
        if bug.switch or bug.optimise is not None:
            try:
                touched = Planted([bug]).optimised(self.form.graph) != self.graph
            except TantamountError:  # a wrong program that does not even fit together
                touched = True
        if bug.kernel is not None:
            for node in self.graph.nodes:
                result = self.values[node.name]
                if node.op == "call" and isinstance(result, Tensor):
                    xs = [
                        plain(self.values[name]) for name in references(node) if isinstance(self.values[name], Tensor)
                    ]
                    if bug.kernel(node, xs, plain(result)) is not None:
                        touched = True
                        break
        return Planted([bug]).run(self.form.graph, self.form.inputs) if touched else self.right


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("bugs", nargs="*")
    parser.add_argument("--cases", type=int, default=400)
    parser.add_argument("--clean", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    maker = Maker(Policy(), proved_rules())
    wanted = [bug for bug in BUGS if not options.bugs or bug.name in options.bugs]
    found = {bug.name: dict.fromkeys(("pair", "reference", "all")) for bug in wanted}
    seconds = dict.fromkeys(found, 0.0)
    open_ = {bug.name: bug for bug in wanted}
    making = 0.0
    coverage = Coverage()
    for index in range(options.cases):
        start = time.process_time()
        goals = coverage.goals(maker.policy, Random(f"{options.seed}/{index}/goals"))
        case = maker.case(options.seed, index, goals)
        coverage.add([form.graph for form in case.forms], (), goals)
        making += time.process_time() - start
        try:
            prepared = [Prepared(form) for form in case.forms]
        except TantamountError as problem:
            print("not prepared:", index, problem)
            continue
        for name, bug in list(open_.items()):
            start = time.process_time()
            _, verdicts = judge(case, {p.form.name: p.outcome(bug) for p in prepared}, PLANTED)
            if found[name]["all"] is None:
                seconds[name] += time.process_time() - start
            for way in ("pair", "reference", "all"):
                if getattr(verdicts, way) and found[name][way] is None:
                    found[name][way] = index + 1
            if all(value is not None for value in found[name].values()):
                del open_[name]
    each = making / max(1, options.cases)
    print(f"| bug | pair | reference | all | seconds |\n|{'---|' * 5}")
    for bug in wanted:
        row = found[bug.name]
        took = seconds[bug.name] + each * (row["all"] or options.cases)
        print(f"| {bug.name} | {row['pair'] or '-'} | {row['reference'] or '-'} | {row['all'] or '-'} | {took:.1f} |")
    for way in ("pair", "reference", "all"):
        print(f"{way}: {sum(row[way] is not None for row in found.values())} of {len(wanted)} in {options.cases} cases")
    if options.clean:
        without_bugs(maker, options.seed + 1, options.clean)


def without_bugs(maker: Maker, seed: int, count: int) -> None:
    """Tell what is found in some cases on the compiler that is right. Its kernels are the exact interpreter: a call
    that two programs have in common is computed once."""
    failures, programs, start, compiler, coverage = 0, 0, time.process_time(), Planted(), Coverage()
    for index in range(count):
        goals = coverage.goals(maker.policy, Random(f"{seed}/{index}/goals"))
        case = maker.case(seed, index, goals)
        coverage.add([form.graph for form in case.forms], (), goals)
        programs += len(case.forms)
        first = case.forms[0]
        values = Values(Sample(seed, index, first.graph, dict(first.inputs), {}))
        outcomes = {}
        for form in case.forms:
            final = compiler.optimised(form.graph)
            found = values.of(final, form.inputs, Exact())
            results = [found[output.node] for output in final.outputs]
            outcomes[form.name] = Outcome("ok", tuple(map(plain, results)), tuple(x.dtype.label for x in results))
        got, _ = judge(case, outcomes, PLANTED)
        failures += len(got)
        for failure in got:
            print("without bugs:", index, failure.form.name, failure.kind, failure.message)
        if (index + 1) % 1000 == 0 or index + 1 == count:
            took = time.process_time() - start
            print(f"{failures} findings in {index + 1} cases ({programs} programs), {took:.0f} s", flush=True)
    print(f"seen: {coverage.counts}")


if __name__ == "__main__":
    main()
