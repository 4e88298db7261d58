"""Every sample, and the operators that PyTorch cannot run here: the tests of tables are generated from these."""

from __future__ import annotations

from tantamount.samples.operators import (
    attributes,
    complex_numbers,
    convolution,
    layers,
    layout,
    numbers,
    pointwise,
    pooling,
    rare,
    rare_layout,
    sums,
)
from tantamount.samples.operators.calls import Operand, Sample
from tantamount.samples.operators.in_place import derived

__all__ = ["NOT_RUN", "SAMPLES", "Operand", "Sample"]

_SAMPLES: tuple[Sample, ...] = (
    *pointwise.SAMPLES,
    *layout.SAMPLES,
    *sums.SAMPLES,
    *layers.SAMPLES,
    *complex_numbers.SAMPLES,
    *convolution.SAMPLES,
    *pooling.SAMPLES,
    *rare.SAMPLES,
    *rare_layout.SAMPLES,
    *numbers.SAMPLES,
    *attributes.SAMPLES,
)

SAMPLES: tuple[Sample, ...] = (*_SAMPLES, *derived(_SAMPLES))

# Kernels that PyTorch has on accelerators only.
NOT_RUN = frozenset({
    "aten._scaled_dot_product_flash_attention.default",
    "aten._scaled_dot_product_flash_attention_backward.default",
    "aten._scaled_dot_product_efficient_attention.default",
    "aten._scaled_dot_product_cudnn_attention.default",
    "aten._scaled_dot_product_efficient_attention_backward.default",
    "aten._scaled_dot_product_cudnn_attention_backward.default",
    "aten._fused_rms_norm_backward.default",
    "aten._flash_attention_forward.default",
    "aten._flash_attention_backward.default",
    "torch_attn._varlen_attn.default",
    "torch_attn._varlen_attn_backward.default",
    "aten._scaled_mm.default",
    "aten._grouped_mm.default",
})  # fmt: skip
