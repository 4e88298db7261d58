"""Every sample, and the operators that PyTorch cannot run here: the tables' tests are generated from these."""

from __future__ import annotations

from tables import (
    sample_attributes,
    sample_complex,
    sample_convolution,
    sample_layers,
    sample_layout,
    sample_numbers,
    sample_pointwise,
    sample_pooling,
    sample_rare,
    sample_rare_layout,
    sample_sums,
)
from tables.sample import Operand, Sample
from tables.sample_in_place import derived

__all__ = ["NOT_RUN", "SAMPLES", "Operand", "Sample"]

_SAMPLES: tuple[Sample, ...] = (
    *sample_pointwise.SAMPLES,
    *sample_layout.SAMPLES,
    *sample_sums.SAMPLES,
    *sample_layers.SAMPLES,
    *sample_complex.SAMPLES,
    *sample_convolution.SAMPLES,
    *sample_pooling.SAMPLES,
    *sample_rare.SAMPLES,
    *sample_rare_layout.SAMPLES,
    *sample_numbers.SAMPLES,
    *sample_attributes.SAMPLES,
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
    "aten._scaled_mm.default",
    "aten._grouped_mm.default",
})  # fmt: skip
