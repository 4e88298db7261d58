"""Readers and captures: files of several formats, and running PyTorch programs, become ``ir`` graphs and jobs.

What comes from files is untrusted. May import: ``errors``, ``limits``, ``ir``, ``ops``. Only ``capture.torch`` may
import torch, only ``capture.jax`` jax; what they export is found here when it is asked for.

``tantamount.capture`` is this package, and users call it: ``tantamount.capture(function, args)`` is what
:func:`tantamount.capture.torch.programs.capture` returns.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from tantamount.errors import UserError

__all__ = [
    "capture", "capture_jax", "capture_jax_ranks", "capture_megatron", "capture_ranks",  # pyright: ignore[reportUnsupportedDunderAll]
    "finish_job", "generated_job", "new_plan", "plan_of_megatron", "plan_of_schedule", "plan_of_torchtitan", "rule",  # pyright: ignore[reportUnsupportedDunderAll]
]  # fmt: skip

_HOME = {  # others: programs
    "capture_megatron": "megatron",
    "finish_job": "finishing",
    "generated_job": "nnscaler",
    "new_plan": "llama.plan",
    "plan_of_megatron": "megatron.plan",
    "plan_of_schedule": "pipelining",
    "plan_of_torchtitan": "titan",
    "rule": "rules",
}
_TORCH = "2.13"  # the tracer, the fake process groups and DTensor's insides are private and change


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if "jax" in name:
        return getattr(_jax(), name)
    require_torch()
    return getattr(import_module(f"tantamount.capture.torch.{_HOME.get(name, 'programs')}"), name)


def _jax() -> Any:
    if not _version("jax"):
        raise UserError(
            "jax-version", place="capture", found="no JAX", needed="JAX", hint="pip install 'tantamount[jax]'"
        )
    return import_module("tantamount.capture.jax")


def require_torch() -> None:
    """Raise :class:`UserError` unless the PyTorch that captures were written for is installed."""
    found = _version("torch")
    if not found.startswith(f"{_TORCH}."):
        raise UserError(
            "torch-version", place="capture", found=f"PyTorch {found}" if found else "no PyTorch",
            needed=f"PyTorch {_TORCH}",
            hint="pip install 'tantamount[torch]'; reading and proving jobs needs no PyTorch",
        )  # fmt: skip


def _version(package: str) -> str:
    """The version of a package, or an empty text if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # here: it imports much, and reading graphs needs none

    try:
        return version(package)
    except PackageNotFoundError:
        return ""


class _Called(ModuleType):
    """The package, which captures a program where it is called."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.capture(*args, **kwargs)

    @property
    def __signature__(self) -> Any:
        """The signature that ``inspect.signature`` and editors show, which is that of the function that is called."""
        from inspect import signature  # here: reading graphs needs none of it

        try:
            return signature(self.capture)
        except UserError as problem:  # no PyTorch: then there is nothing to show
            raise AttributeError(f"{problem.needed} is needed to capture") from None


def _help(package: Any) -> str:
    """The text that ``help(tantamount.capture)`` prints: of the function that is called, then of the package."""
    try:
        return f"capture{package.__signature__}\n\n{package.capture.__doc__}\n{_PACKAGE}"
    except AttributeError:
        return _PACKAGE


_PACKAGE = __doc__ or ""
_Called.__doc__ = property(_help)  # type: ignore[assignment]
sys.modules[__name__].__class__ = _Called  # the import system binds tantamount.capture to the package, whatever we do
