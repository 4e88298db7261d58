"""In-place variants of definitions that stand without one: ``abs_`` is ``abs``, converted to the operand's type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tantamount.ops.definitions import (
    activation,
    contraction,
    creation,
    elementwise,
    functions,
    indexing,
    logic,
    reduction,
    searching,
)
from tantamount.ops.definitions.in_place import overwriting

__all__ = ["VARIANTS"]

# By category: a definition, and the overloads of its in-place variants.
VARIANTS: dict[str, tuple[tuple[Callable[..., Any], str], ...]] = {
    "elementwise": (
        (elementwise.absolute_of_real, "abs_.default"), (elementwise.atan, "atan_.default"),
        (elementwise.ceil, "ceil_.default"), (elementwise.clamp, "clamp_.Tensor"),
        (elementwise.clamp_max, "clamp_max_.Tensor"), (elementwise.clamp_min, "clamp_min_.Tensor"),
        (elementwise.cos, "cos_.default"), (elementwise.cosh, "cosh_.default"),
        (elementwise.div_mode, "div_.Tensor_mode div_.Scalar_mode"), (elementwise.erf, "erf_.default"),
        (elementwise.erfc, "erfc_.default"), (elementwise.exp2, "exp2_.default"),
        (elementwise.expm1, "expm1_.default"), (elementwise.floor, "floor_.default"),
        (elementwise.floor_divide, "floor_divide_.Tensor floor_divide_.Scalar"),
        (elementwise.fmod, "fmod_.Tensor fmod_.Scalar"), (elementwise.frac, "frac_.default"),
        (elementwise.log10, "log10_.default"), (elementwise.log1p, "log1p_.default"),
        (elementwise.log2, "log2_.default"), (elementwise.pow_tensor, "pow_.Tensor"),
        (elementwise.remainder, "remainder_.Tensor remainder_.Scalar"), (elementwise.rounded, "round_.default"),
        (elementwise.sign, "sign_.default sgn_.default"), (elementwise.sin, "sin_.default"),
        (elementwise.sinh, "sinh_.default"), (elementwise.square, "square_.default"),
        (elementwise.tan, "tan_.default"), (elementwise.trunc, "trunc_.default"),
        (elementwise.div, "true_divide_.Tensor"),
        (functions.asin, "asin_.default"), (functions.acos, "acos_.default"), (functions.asinh, "asinh_.default"),
        (functions.acosh, "acosh_.default"), (functions.atanh, "atanh_.default"), (functions.atan2, "atan2_.default"),
        (functions.erfinv, "erfinv_.default"), (functions.logit, "logit_.default"),
        (functions.xlogy, "xlogy_.Tensor xlogy_.Scalar_Other"), (functions.hypot, "hypot_.default"),
        (functions.copysign, "copysign_.Tensor copysign_.Scalar"),
    ),
    "logic": (
        (logic.bitwise_not, "bitwise_not_.default"), (logic.bitwise_xor, "bitwise_xor_.Tensor"),
        (functions.bitwise_left_shift, "bitwise_left_shift_.Tensor bitwise_left_shift_.Tensor_Scalar"),
        (functions.bitwise_right_shift, "bitwise_right_shift_.Tensor bitwise_right_shift_.Tensor_Scalar"),
        (logic.eq, "eq_.Tensor eq_.Scalar"), (logic.ne, "ne_.Tensor ne_.Scalar"),
        (logic.lt, "lt_.Tensor lt_.Scalar"), (logic.le, "le_.Tensor le_.Scalar"),
        (logic.gt, "gt_.Tensor gt_.Scalar"), (logic.ge, "ge_.Tensor ge_.Scalar"),
        (logic.logical_and, "logical_and_.default"), (logic.logical_or, "logical_or_.default"),
        (logic.logical_xor, "logical_xor_.default"), (logic.logical_not, "logical_not_.default"),
    ),
    "activation": (
        (activation.elu, "elu_.default"), (activation.gelu, "gelu_.default"),
        (activation.hardsigmoid, "hardsigmoid_.default"), (activation.hardswish, "hardswish_.default"),
        (activation.hardtanh, "hardtanh_.default"), (activation.leaky_relu, "leaky_relu_.default"),
        (activation.mish, "mish_.default"), (functions.threshold, "threshold_.default"),
        (functions.celu, "celu_.default"), (functions.selu, "selu_.default"),
    ),
    "contraction": (
        (contraction.addmm, "addmm_.default"), (contraction.addmv, "addmv_.default"),
        (contraction.baddbmm, "baddbmm_.default"), (contraction.addbmm, "addbmm_.default"),
    ),
    "reduction": ((reduction.cumsum, "cumsum_.default"),),
    "creation": ((creation.tril, "tril_.default"), (creation.triu, "triu_.default")),
    "indexing": (
        (indexing.scatter_value, "scatter_.value"), (searching.masked_scatter, "masked_scatter_.default"),
        (searching.scatter_reduce_source, "scatter_.reduce"),
        (searching.scatter_reduce_value, "scatter_.value_reduce"),
    ),
}  # fmt: skip

for _category, _rows in VARIANTS.items():
    for _define, _names in _rows:
        overwriting(*(f"aten.{name}" for name in _names.split()), category=_category)(_define)
