"""Readers and captures: files of several formats, and running PyTorch programs, become ``ir`` graphs and jobs.

What comes from files is untrusted. May import: ``errors``, ``limits``, ``ir``, ``ops``. Only ``capture.torch`` may
import torch, only ``capture.jax`` jax; what they export is found here when it is asked for.

``tantamount.capture`` is this package, and users call it: ``tantamount.capture(function, args)`` is what
:func:`tantamount.capture.torch.programs.capture` returns.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any

from tantamount.errors import UserError

__all__ = [
    "capture", "capture_jax", "capture_jax_ranks", "capture_megatron", "capture_ranks",  # pyright: ignore[reportUnsupportedDunderAll]
    "generated_job", "new_plan", "plan_of_megatron", "plan_of_schedule",  # pyright: ignore[reportUnsupportedDunderAll]
]  # fmt: skip

_HOME = {  # others: programs
    "capture_megatron": "megatron",
    "generated_job": "nnscaler",
    "new_plan": "llama.plan",
    "plan_of_megatron": "megatron.plan",
    "plan_of_schedule": "pipelining",
}
_TORCH = "2.13"  # the tracer, the fake process groups and DTensor's insides are private and change


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if "jax" in name:
        return getattr(_jax(), name)
    _check_torch()
    return getattr(import_module(f"tantamount.capture.torch.{_HOME.get(name, 'programs')}"), name)


def _jax() -> Any:
    try:
        version("jax")
    except PackageNotFoundError:
        raise UserError(
            "jax-version", place="capture", found="no JAX", needed="JAX", hint="pip install 'tantamount[jax]'"
        ) from None
    return import_module("tantamount.capture.jax")


def _check_torch() -> None:
    """Raise :class:`UserError` unless the PyTorch that captures were written for is installed."""
    try:
        found = version("torch")
    except PackageNotFoundError:
        found = ""
    if not found.startswith(f"{_TORCH}."):
        raise UserError(
            "torch-version", place="capture", found=f"PyTorch {found}" if found else "no PyTorch",
            needed=f"PyTorch {_TORCH}",
            hint="pip install 'tantamount[torch]'; reading and proving jobs needs no PyTorch",
        )  # fmt: skip


class _Called(ModuleType):
    """The package, which captures a program where it is called."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.capture(*args, **kwargs)


sys.modules[__name__].__class__ = _Called  # the import system binds tantamount.capture to the package, whatever we do
