"""Opaque operators: what their labels let the calculus conclude, what it must not, and the stand-in when executed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.calculus import Workbench
from tantamount.calculus.compare import equal
from tantamount.errors import UserError
from tantamount.ir.graph import CustomOperator
from tantamount.ir.types import DType
from tantamount.ops.algebra import ShapeProblem, Tensor, TypesOnly
from tantamount.ops.builder import Builder
from tantamount.ops.custom import custom_operator
from tantamount.ops.execute import apply
from tantamount.ops.labels import LabelProblem, parse_labels
from tantamount.semantics.reference import Reference

ATTENTION = "[t] (g r) [d], [t] g [d], [t] g [e] -> [t] (g r) [e]"
GENERATOR = np.random.default_rng(0)


def run(b: Builder, labels: str, *args: Any, name: str = "lib.op", **declared: Any) -> Any:
    given = {key: declared.pop(key) for key in list(declared) if key not in CustomOperator.__dataclass_fields__}
    row = custom_operator(CustomOperator(name, labels=labels, **declared))
    return apply(row, name, args, given, b, "test")


def executed(labels: str, *arrays: Any, **declared: Any) -> Any:
    kinds = {"f": DType.FLOAT64, "i": DType.INT64, "b": DType.BOOL}
    tensors = [Tensor(x.shape, kinds[x.dtype.kind], x) if isinstance(x, np.ndarray) else x for x in arrays]
    found = run(Builder(Reference()), labels, *tensors, **declared)
    return tuple(x.value for x in found) if isinstance(found, tuple) else found.value


# ---------------------------------------------------------------------------------------------- the language
def test_what_labels_say() -> None:
    labels = parse_labels("b h q d, b h k d, b h k e -> b h q e")  # as attention without brackets
    assert labels.bound == {"d", "k"}
    assert not labels.summed
    labels = parse_labels(ATTENTION)
    assert labels.bound == {"t", "d", "e"}
    assert labels.results == ((("t",), ("g", "r"), ("e",)),)
    assert parse_labels("m +k, +k n, _ -> m n").summed == {"k"}
    assert parse_labels("... [d], [d] -> ... [d], ...").results[1] == (("...",),)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a b", "without one '->'"),
        ("a -> a -> a", "without one '->'"),
        ("a b -> a c", "label c of a result in no operand"),
        ("a b -> a, b", "parallel label a in some results only"),
        ("a +k -> a k", "summed label k in a result"),
        ("a [k], +k -> a", "summed label k in a result or in brackets"),
        ("a a -> a", "'a' twice"),
        ("(a b -> a", "without ')'"),
        ("((a) b) -> a", "where a label is needed"),
        ("[a b] -> a", "'[' without one label"),
        ("[a -> a", "'[' without one label"),
        ("a ; b -> a", "where a label is needed"),
        ("[...] -> a", "where a label is needed"),
        ("_ -> [3]", "no operand with labels"),
        ("+ -> a", "where a label is needed"),
    ],
)
def test_labels_that_are_none(text: str, problem: str) -> None:
    with pytest.raises(LabelProblem) as raised:
        parse_labels(text)
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("labels", "shapes", "problem"),
    [
        ("a b -> a b", [(2,)], "for 2 labelled dimensions"),
        ("a b, b a -> a", [(2, 3), (2, 2)], "a dimension (b) of size 2"),
        ("(a b) -> a b", [(6,)], "whose sizes nothing settles"),
        ("(a b), b -> a b", [(6,), (4,)], "of size 6"),
        ("a, a -> a", [(6,)], "1 tensors for the 2 operands"),
        ("... a, ... a -> ... a", [(2, 3, 6), (3, 6)], "'...' for 1 and for 2 dimensions"),
        ("a [3] -> a", [(2, 4)], "of size 4"),
        ("a -> a [m]", [(2,)], "label m, whose size"),
    ],
)
def test_operands_that_do_not_fit(labels: str, shapes: list[tuple[int, ...]], problem: str) -> None:
    tensors = [Tensor(shape, DType.FLOAT32, None) for shape in shapes]
    with pytest.raises(UserError) as raised:
        run(Builder(TypesOnly()), labels, *tensors)
    assert problem in str(raised.value)


def test_types_of_results() -> None:
    b = Builder(TypesOnly())
    x = Tensor((2, 5, 6), DType.BFLOAT16, None)
    assert str(run(b, "... [d] -> ... [4]", x).type) == "bfloat16[2, 5, 4]"
    values, where = run(b, "... [d] -> ... [k], ... [k]", x, 3, args="x, k", dtypes=("x", "int64"))
    assert (str(values.type), str(where.type)) == ("bfloat16[2, 5, 3]", "int64[2, 5, 3]")
    assert str(run(b, "a [s] (h d) -> (a h) [s] d", x, 2, args="x, h").type) == "bfloat16[4, 5, 3]"
    with pytest.raises(UserError, match="neither an element type nor a tensor"):
        run(b, "... -> ...", x, dtypes=("float31",))
    with pytest.raises(UserError, match="a list of tensors"):
        run(b, "... -> ...", x, (x, x))
    with pytest.raises(UserError, match="h = 3"):
        run(b, "a [s] (h d), h -> a", x, Tensor((2,), DType.FLOAT32, None), 3, args="x, y, h")


# ---------------------------------------------------------------------------------------------- execution
def test_parallel_labels_commute_with_shards() -> None:
    q, k, v = (GENERATOR.standard_normal(shape) for shape in ((5, 6, 4), (5, 2, 4), (5, 2, 3)))
    whole = executed(ATTENTION, q, k, v)
    assert whole.shape == (5, 6, 3)
    halves = [executed(ATTENTION, q[:, 3 * g : 3 * g + 3], k[:, g : g + 1], v[:, g : g + 1]) for g in (0, 1)]
    np.testing.assert_allclose(np.concatenate(halves, 1), whole, rtol=1e-12)
    assert np.ptp(whole) > 0.1


@pytest.mark.parametrize("place", [(0, 0), (1, 0), (2, 0), (2, 1)])
def test_every_bound_element_counts(place: tuple[int, int]) -> None:
    operands = [GENERATOR.standard_normal(shape) for shape in ((5, 6, 4), (5, 2, 4), (5, 2, 3))]
    before = executed(ATTENTION, *operands)
    operand, group = place
    operands[operand][4, group if operand else 3 * group, 1] += 0.5
    changed = np.abs(executed(ATTENTION, *operands) - before).max(axis=(0, 2)) > 1e-6
    mine = range(3 * group, 3 * group + 3) if operand else (3 * group,)
    assert set(np.flatnonzero(changed)) == set(mine)


def test_positions_names_and_attributes_count() -> None:
    x = GENERATOR.standard_normal((3, 4))
    found = [
        executed("t [d] -> t [d]", x), executed("t [d] -> t [d]", x[:, ::-1]), executed("t [d] -> t [d]", x, name="o"),
        executed("t [d] -> t [d]", x, 1), executed("t [d] -> t [d]", x, 1.0), executed("t [d] -> t [d]", x, True),
        executed("t [d] -> t [d]", x, eps=1),
    ]  # fmt: skip
    for k, y in enumerate(found):
        assert all(np.abs(y - z).max() > 1e-3 for z in found[:k])
    ignoring = {"args": "x, stream", "ignores": ("stream",)}
    np.testing.assert_array_equal(executed("... -> ...", x, 1, **ignoring), executed("... -> ...", x, 2, **ignoring))


def test_summed_labels_are_sums() -> None:
    x, w = GENERATOR.standard_normal((3, 4)), GENERATOR.standard_normal((4, 2))
    whole = executed("m +k, +k n -> m n", x, w)
    parts = [executed("m +k, +k n -> m n", x[:, low : low + 2], w[low : low + 2]) for low in (0, 2)]
    np.testing.assert_allclose(parts[0] + parts[1], whole, rtol=1e-12)


def test_results_that_are_no_floats() -> None:
    x = GENERATOR.standard_normal((50, 4))
    whole, truth = executed("t [d] -> t, t", x, dtypes=("int64", "bool"))
    assert whole.dtype == np.int64
    assert truth.dtype == np.bool_
    assert len(set(whole)) > 1
    assert len(set(truth)) == 2


def test_infinite_elements_have_a_value() -> None:
    x = np.array([[1.0, -np.inf], [1.0, 0.0]])
    assert np.isfinite(executed("t [d] -> t", x)).all()


# ---------------------------------------------------------------------------------------------- the calculus
def attention(bench: Workbench, q: Tensor, k: Tensor, v: Tensor, *attributes: Any) -> Tensor:
    return run(bench.b, ATTENTION, q, k, v, *attributes, args="q, k, v, layer='0'")


def operands(bench: Workbench) -> tuple[Tensor, Tensor, Tensor]:
    return bench.input("q", 5, 6, 4), bench.input("k", 5, 2, 4), bench.input("v", 5, 2, 3)


def test_shards_of_heads_are_slices() -> None:
    bench = Workbench()
    q, k, v = operands(bench)
    b = bench.b
    parts = [
        attention(
            bench, b.slice(q, 1, 3 * g, 3 * g + 3), b.slice(k, 1, g, g + 1), b.slice(v, 1, g, g + 1)
        )
        for g in (0, 1)
    ]  # fmt: skip
    whole = attention(bench, q, k, v)
    assert bench.same(b.concat(parts, 1), whole)
    data = bench.data()
    np.testing.assert_allclose(
        bench.value(whole, data), executed(ATTENTION, *data.values(), "0", args="q, k, v, layer='0'"), rtol=1e-9
    )


def test_what_is_not_the_same_function() -> None:
    bench = Workbench()
    q, k, v = operands(bench)
    b = bench.b
    whole = attention(bench, q, k, v)
    assert not bench.same(attention(bench, q, b.flip(k, [1]), v), whole)
    assert not bench.same(attention(bench, b.flip(q, [1]), k, v), whole)
    assert not bench.same(attention(bench, b.flip(q, [0]), k, v), whole)
    assert not bench.same(attention(bench, q, k, v, "1"), whole)
    assert not bench.same(attention(bench, b.mul(q, 2), k, v), whole)
    interleaved = b.reshape(b.permute(b.reshape(q, (5, 2, 3, 4)), (0, 2, 1, 3)), (5, 6, 4))
    assert not bench.same(attention(bench, interleaved, k, v), whole)
    # all heads exchanged alike, queries with them: the same function of what was exchanged
    turned = attention(bench, b.flip(q, [1]), b.flip(k, [1]), b.flip(v, [1]))
    assert bench.same(b.flip(turned, [1]), whole)


def test_a_shard_of_a_bound_dimension_is_another_function() -> None:
    bench = Workbench()
    x, b = bench.input("x", 4, 6), bench.b
    whole = run(b, "t [d] -> t [d]", x)
    parts = [run(b, "t [d] -> t [d]", b.slice(x, 1, low, low + 3)) for low in (0, 3)]
    assert not bench.same(b.concat(parts, 1), whole)
    assert bench.same(run(b, "t [d] -> t [d]", b.concat([b.slice(x, 1, 0, 2), b.slice(x, 1, 2, 6)], 1)), whole)


def test_sizes_of_bound_dimensions_are_part_of_the_function() -> None:
    bench = Workbench()
    x, b = bench.input("x", 6), bench.b
    two, three = b.reshape(x, (2, 3)), b.reshape(x, (3, 2))
    assert not bench.same(run(b, "[a] [c] -> [4]", two), run(b, "[a] [c] -> [4]", three))


def test_kinds_of_elements_are_part_of_the_function() -> None:
    bench = Workbench()
    x, b = bench.input("x", 6, dtype=DType.INT64), bench.b
    wide = run(b, "t -> t", b.cast(x, DType.FLOAT32), dtypes=("float32",))
    assert not bench.same(run(b, "t -> t", x, dtypes=("float32",)), wide)


def test_attributes_keep_their_type() -> None:
    bench = Workbench()
    x, b = bench.input("x", 6), bench.b
    found = [run(b, "t -> t", x, value) for value in (1, 1.0, True, "1", None)]
    assert not any(bench.same(y, z) for k, y in enumerate(found) for z in found[:k])


def test_operands_that_are_equal_once_multiplied_out() -> None:
    bench = Workbench()
    b = bench.b
    x, y, z = (bench.input(name, 3, 4) for name in "xyz")
    first = run(b, "t [d] -> t [d]", b.mul(x, b.add(y, z)))
    assert not bench.same(first, run(b, "t [d] -> t [d]", b.add(b.mul(x, y), b.mul(x, z))))
    assert equal(bench.store, first.value, run(b, "t [d] -> t [d]", b.add(b.mul(x, y), b.mul(x, z))).value) is None
    assert equal(bench.store, first.value, run(b, "t [d] -> t [d]", b.add(b.mul(x, y), b.mul(z, z))).value) is not None


def test_names_of_operands_are_part_of_the_function() -> None:
    bench = Workbench()
    x, y, b = bench.input("x", 6), bench.input("y", 6), bench.b
    first = run(b, "t, t -> t", x, bias=y)
    assert bench.same(first, run(b, "t, t -> t", x, bias=y))
    assert not bench.same(first, run(b, "t, t -> t", x, scale=y))
    assert not bench.same(first, run(b, "t, t -> t", y, bias=x))
    first = run(b, "t, t -> t", a=x, c=y)
    assert bench.same(first, run(b, "t, t -> t", c=y, a=x))


def test_partial_sums_of_a_summed_label() -> None:
    bench = Workbench()
    x, w, b = bench.input("x", 3, 4), bench.input("w", 4, 2), bench.b
    parts = [run(b, "m +k, +k n -> m n", b.slice(x, 1, *r), b.slice(w, 0, *r)) for r in ((0, 1), (1, 4))]
    assert bench.same(b.add(*parts), run(b, "m +k, +k n -> m n", x, w))
    assert not bench.same(parts[0], run(b, "m +k, +k n -> m n", x, w))


def test_refusals_have_a_clause() -> None:
    with pytest.raises(UserError, match="complex"):
        run(Builder(TypesOnly()), "t -> t", Tensor((3,), DType.COMPLEX64, None))
    with pytest.raises(UserError, match="with a sum"):
        run(Builder(TypesOnly()), "+t -> [1]", Tensor((3,), DType.FLOAT32, None), dtypes=("int64",))
    assert issubclass(ShapeProblem, Exception)
