"""Operators that PyTorch runs as one kernel, or compiles, traced as what they are defined to be."""

# pyright: basic
from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

__all__ = ["as_defined"]


@contextmanager
def as_defined() -> Iterator[None]:
    """Within it ``flex_attention`` is PyTorch's own mathematical definition, its functions applied to every score: its
    gradients are those of the operators that it is made of. Recurrent layers are their cells, one after the other."""
    flex: Any = sys.modules.get("torch.nn.attention.flex_attention")
    with torch.backends.mkldnn.flags(enabled=False):
        if flex is None:  # nobody can call it
            yield
            return
        before = {name: getattr(flex, name) for name in _REPLACED}
        for name, value in _REPLACED.items():
            setattr(flex, name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(flex, name, value)


def _defined(*args: Any, **kwargs: Any) -> Any:
    return sys.modules["torch._higher_order_ops.flex_attention"].math_attention(*args, **kwargs)


def _any_device(*_: Any, **__: Any) -> None:
    """PyTorch has no kernel for gradients on CPUs; the definition needs none."""


_REPLACED: dict[str, Any] = {
    "flex_attention_hop": _defined,
    "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG": True,  # else the call is compiled
    "_validate_device": _any_device,
}
