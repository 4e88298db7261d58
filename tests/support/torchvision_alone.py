"""torchvision beside a PyTorch that it was not built for: its models, which call none of its own kernels."""

from __future__ import annotations

from importlib import import_module

import torch

__all__ = ["import_models"]

_BOXES = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def import_models() -> None:
    """Import torchvision. What PyPI has is built with CUDA, so its kernels do not load beside a CPU build of PyTorch,
    and then it stops at two operators that nobody has declared. Raises ``ImportError`` where it is not installed."""
    try:
        import_module("torchvision")
    except RuntimeError:
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", _BOXES)
        import_module("torchvision")
