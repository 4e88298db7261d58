"""What a definition does not implement it refuses, with a clause that says what it was: nothing is dropped silently."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tantamount.errors import UserError
from tantamount.ir.types import DType
from tantamount.ops.algebra import PerRank, Tensor, TypesOnly
from tantamount.ops.builder import Builder
from tantamount.ops.execute import apply
from tantamount.ops.table import lookup
from tantamount.samples.operators.calls import F32, F64, I32, Operand, Sample, c, call, f, i, m


@dataclass(frozen=True)
class Refusal:
    """A call that must be refused, and a part of the text that says why."""

    sample: Sample
    because: str

    def __str__(self) -> str:
        return str(self.sample)


def no(because: str, target: str, *args: Any, **kwargs: Any) -> Refusal:
    return Refusal(call(target, *args, **kwargs), because)


REFUSALS = [
    # shapes that do not fit
    no("do not broadcast", "add.Tensor", f(2, 3), f(2)),
    no("has sizes 3 and 4", "mm.default", f(2, 3), f(4, 5)),
    no("does not reshape", "view.default", f(2, 3), (4, 2)),
    no("does not expand", "expand.default", f(2, 3), (2, 4)),
    no("dimension 2 of a tensor with 2", "transpose.int", f(2, 3), 0, 2),
    no("concatenation along dimension 0", "cat.default", (f(2, 3), f(2, 4))),
    no("stack of float32[2, 3] and float32[3]", "stack.default", (f(2, 3), f(3))),
    no("split of float32[5, 2]", "split_with_sizes.default", f(5, 2), (2, 2)),
    no("last dimensions [5]", "layer_norm.default", f(2, 3), (5,)),
    no("where the shape [3]", "layer_norm.default", f(2, 3), (3,), f(2)),
    no("attention of queries", "scaled_dot_product_attention.default", f(2, 5, 8), f(2, 6, 7), f(2, 6, 7)),
    no("class indices", "nll_loss.default", f(6, 5), i(5)),
    no("elements 1 to 4", "narrow.default", f(3), 0, 1, 3),
    no("index 3 along", "select.int", f(3), 0, 3),
    no("made (4, 2)", "unflatten.int", f(6), 0, (4, 2)),
    # types that PyTorch does not mix
    no("different types", "mm.default", f(2, 3), f(3, 4, dtype=F64)),
    no("different types", "addmm.default", f(4, dtype=F64), f(2, 3), f(3, 4)),
    no("where a float is needed", "softmax.int", i(2, 3), 0),
    no("where a float is needed", "mean.default", i(2, 3)),
    no("difference of booleans", "sub.Tensor", m(3), m(3)),
    no("not of an integer type", "index.Tensor", f(3), (f(2),)),
    no("condition of type int64", "where.self", i(3), f(3), f(3)),
    no("written into int64[3]", "add_.Tensor", i(3), f(3)),
    no("written into float32[3]", "add_.Tensor", f(3), f(2, 3)),
    no("factor 0.5 for integers", "add.Tensor", i(3), i(3), alpha=0.5),
    no("bits of float32", "view.dtype", f(3), I32),
    # attributes and values that are not implemented
    no("different types", "conv2d.default", f(1, 2, 4, 4), f(3, 2, 2, 2, dtype=F64)),
    no("where a float is needed", "conv1d.default", i(1, 2, 4), i(3, 2, 2)),
    no("channels of float32[1, 4, 5] for", "conv1d.default", f(1, 4, 5), f(4, 4, 3), None, (1,), (0,), (1,), 2),
    no("3 groups of", "conv1d.default", f(1, 4, 5), f(4, 2, 3), None, (1,), (0,), (1,), 3),
    no("leaves no elements", "conv1d.default", f(1, 4, 2), f(4, 4, 3)),
    no("a bias float32[3]", "conv1d.default", f(1, 4, 5), f(4, 4, 3), f(3)),
    no("stride [0]", "conv1d.default", f(1, 4, 5), f(4, 4, 3), None, (0,)),
    no("dilation [1, 1]", "conv1d.default", f(1, 4, 5), f(4, 4, 3), None, (1,), (0,), (1, 1)),
    no("padding 'full'", "conv1d.padding", f(1, 4, 5), f(4, 4, 3), None, (1,), "full"),
    no("padding 'same' with stride [2]", "conv1d.padding", f(1, 4, 5), f(4, 4, 3), None, (2,), "same"),
    no("output_padding [2]", "conv_transpose1d.default", f(1, 4, 5), f(4, 4, 3), None, (2,), (0,), (2,)),
    no(
        "where the result has the shape [1, 4, 3]",
        "convolution_backward.default",
        *(f(1, 4, 4), f(1, 4, 5), f(4, 4, 3), None, (1,), (0,), (1,), False, (0,), 1, (True, True, False)),
    ),
    no("more than half a window", "max_pool2d.default", f(1, 4, 4), (2,), (2,), (2,)),
    no("windows of 5 elements", "avg_pool2d.default", f(1, 4, 4), (5,)),
    no("divisor_override = 0", "avg_pool2d.default", f(1, 4, 4), (2,), divisor_override=0),
    no("which is no divisor", "adaptive_avg_pool2d.default", f(1, 5, 4), (2, 2)),
    no("no whole multiple", "upsample_nearest2d.default", f(1, 1, 4, 4), (6, 8)),
    no("no whole multiple", "upsample_nearest2d.default", f(1, 1, 4, 4), (8, 8), 2.1),
    no("overwrites in training", "native_batch_norm.default", f(2, 3), None, None, f(3), f(3), True, 0.1, 1e-5),
    no("neither training nor", "native_batch_norm.default", f(2, 3), None, None, None, None, False, 0.1, 1e-5),
    no(
        "one element per channel",
        "_native_batch_norm_legit_functional.default",
        f(1, 3),
        None,
        None,
        f(3),
        f(3),
        True,
        0.1,
        1e-5,
    ),
    no("a buffer float32[3]", "log_sigmoid_backward.default", f(2, 3), f(2, 3), f(3)),
    no(
        "grouped heads",
        "_scaled_dot_product_efficient_attention.default",
        f(1, 4, 3, 8),
        f(1, 2, 3, 8),
        f(1, 2, 3, 8),
        None,
        False,
    ),
    no(
        "a dropout_mask with",
        "_scaled_dot_product_attention_math.default",
        *[f(1, 1, 4, 8)] * 3,
        None,
        1.0,
        False,
        m(1, 1, 4, 4),
    ),
    no("type bool where a float", "_scaled_dot_product_attention_math.default", *[f(1, 1, 4, 8)] * 3, m(4, 4)),
    no("1j", "mul.Tensor", c(3), 1j),
    no("reduction 'amax'", "scatter_reduce.two", f(3), 0, i(3, low=0, high=3), f(3), "amax"),
    no("a mask bool[4]", "index.Tensor", f(3), (m(4),)),
    no("assertion that float32[3]", "_assert_tensor_metadata.default", f(3), (4,)),
    no("reflections (3, 1)", "reflection_pad1d.default", f(2, 3), (3, 1)),
    no("leave float32[4]", "as_strided.default", f(4), (2, 2), (2, 2)),
    no("complex numbers (complex64[3])", "maximum.default", c(3), c(3)),
    no("complex numbers (complex64[3])", "sin.default", c(3)),
    no("complex numbers (complex64[3])", "lt.Tensor", c(3), c(3)),
    no("complex numbers (complex64[3])", "amax.default", c(3)),
    no("lists of 2, 1 elements", "_foreach_mul.List", (f(2), f(3)), (f(2),)),
    no("padding mode 'mirror'", "pad.default", f(2, 3), (1, 1), "mirror"),
    no("rounding mode 'up'", "div.Tensor_mode", f(3), f(3), rounding_mode="up"),
    no("approximate = 'fast'", "gelu.default", f(3), approximate="fast"),
    no("drop probability", "native_dropout.default", f(3), 1.5, True),
    no(
        "both a mask and is_causal",
        "scaled_dot_product_attention.default",
        f(5, 8),
        f(5, 8),
        f(5, 8),
        m(5, 5),
        0.0,
        True,
    ),
    no("return_debug_mask", "_scaled_dot_product_flash_attention.default", *[f(1, 1, 4, 8)] * 3, 0.0, False, True),
    no(
        "attention with dropout_p = 0.1",
        "_scaled_dot_product_flash_attention_for_cpu_backward.default",
        *([f(1, 1, 4, 8)] * 5),
        f(1, 1, 4),
        0.1,
        False,
    ),
    no("of a leaky_relu", "leaky_relu_backward.default", f(3), f(3), -0.1, True),
    no("scale_grad_by_freq", "embedding_dense_backward.default", f(2, 3), i(2, low=0, high=5), 5, -1, True),
    no("order -2", "linalg_vector_norm.default", f(3), -2),
    no("reduction 3", "mse_loss.default", f(3), f(3), 3),
    no("half_to_float", "_softmax.default", f(3), 0, True),
    no("not positive", "pow.Scalar", -2.0, f(3)),
    no("power -1", "pow.Tensor_Scalar", i(3), -1),
    no("classes of int64", "one_hot.default", i(3, low=0, high=4)),
    no("range from 0 to 3 in steps of -1", "arange.start_step", 0, 3, -1),
    no("correction 3", "var.correction", f(3), correction=3),
    no("over no elements", "amax.default", f(0, 3)),
    no("value inf in a tensor of integers", "full.default", (2,), float("inf"), dtype=DType.INT64),
    # attributes that do not exist, are missing, or are of another kind
    no("unexpected keyword argument 'gamma'", "add.Tensor", f(3), f(3), gamma=1),
    no("missing a required argument", "add.Tensor", f(3)),
    no("'keep'", "sum.dim_IntList", f(3), (0,), "keep"),
    no("1.5", "transpose.int", f(2, 3), 0, 1.5),
    no("True", "select.int", f(3), 0, True),
    no("0.5", "var.dim", f(3), (0,), 0.5),
    no("a list with tensors", "sum.dim_IntList", f(3), (i(2),)),
    no("DType.FLOAT32", "add.Tensor", f(3), F32),
]


def _typed(item: Any) -> Any:
    if isinstance(item, Operand):
        return Tensor(item.shape, item.dtype, None)
    return tuple(_typed(entry) for entry in item) if isinstance(item, tuple) else item


def _apply(sample: Sample) -> Any:
    args = tuple(_typed(item) for item in sample.args)
    kwargs = {key: _typed(item) for key, item in sample.kwargs.items()}
    return apply(lookup(sample.target, ""), sample.target, args, kwargs, Builder(TypesOnly(), "node"), "node")


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_is_refused_with_the_reason(refusal: Refusal) -> None:
    with pytest.raises(UserError) as raised:
        _apply(refusal.sample)
    assert raised.value.code in ("operator-types", "operator-attribute")
    assert refusal.because in raised.value.found


def test_operators_that_are_not_defined() -> None:
    with pytest.raises(UserError) as raised:
        lookup("aten.upsample_bilinear2d.vec", "node")
    assert raised.value.code == "operator-unknown"


def test_numbers_that_differ_by_rank() -> None:
    """A number may be one per rank where the definition only multiplies by it; a length must not differ."""
    scales = PerRank((0.5, 0.25))
    args = (f(2, 3, 5), f(2, 3, 4), f(2, 4, 5))
    assert _apply(call("baddbmm.default", *args, beta=0, alpha=scales)).type.shape == (2, 3, 5)
    offsets = call("arange.start", PerRank((0, 4)), PerRank((4, 8)))
    assert str(_apply(offsets).type) == "int64[4]"
    with pytest.raises(UserError, match="length differs by rank"):
        _apply(call("arange.start", 0, PerRank((4, 8))))
    with pytest.raises(UserError, match="a number"):
        _apply(call("native_dropout.default", f(3), PerRank((0.1, 0.2)), True))
