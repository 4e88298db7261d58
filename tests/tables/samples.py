"""Every sample, and the operators that PyTorch cannot run here: the tables' tests are generated from these."""

from __future__ import annotations

from tables import sample_attributes, sample_complex, sample_layers, sample_layout, sample_pointwise, sample_sums
from tables.sample import Operand, Sample

__all__ = ["NOT_RUN", "SAMPLES", "Operand", "Sample"]

SAMPLES: tuple[Sample, ...] = (
    *sample_pointwise.SAMPLES,
    *sample_layout.SAMPLES,
    *sample_sums.SAMPLES,
    *sample_layers.SAMPLES,
    *sample_complex.SAMPLES,
    *sample_attributes.SAMPLES,
)

# Kernels that PyTorch has on accelerators only.
NOT_RUN = frozenset({
    "aten._scaled_dot_product_flash_attention.default",
    "aten._scaled_dot_product_efficient_attention.default",
    "aten._scaled_dot_product_cudnn_attention.default",
    "aten._fused_rms_norm_backward.default",
})  # fmt: skip
