"""The operators: one file per family, one function per operator.

A definition's docstring starts with its mathematics, its Python signature is the ATen schema, and its body uses
``Builder`` methods only. May import: ``errors``, ``limits``, ``ir``, ``ops.{algebra,builder,table,functions}``.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

__all__ = ["FAMILIES", "load"]

FAMILIES = (
    "elementwise", "logic", "activation", "movement", "joining", "creation", "contraction", "reduction", "indexing",
    "norm", "attention", "varlen_attention", "loss", "random", "collective", "backward", "vendor", "vllm",
    "vllm_experts", "vllm_quantised",
    "hlo", "hlo_convolution", "hlo_orders", "hlo_indexing", "hlo_collective", "hlo_custom", "complex", "fourier",
    "functions", "orders", "searching", "views", "padding", "sampling", "foreach", "products", "overwrites",
    "numbers", "assertions", "aliases", "slopes", "convolution", "pooling", "columns",
    "channel_norm", "quantised",
)  # fmt: skip


@cache
def load() -> None:
    """Register every definition; does nothing the second time."""
    for family in FAMILIES:
        import_module(f"{__name__}.{family}")
