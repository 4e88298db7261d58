"""Questions of a program about a tensor that no number in it answers: where its memory is, how often it was written,
what it was computed from. Fake tensors have other answers than the tensors whose place they take, so that a program
which decides anything by them is refused; PyTorch's own code may ask."""

# pyright: basic
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tantamount.capture.torch.sources import user_frame, user_line
from tantamount.errors import UserError

__all__ = ["ADDRESSES", "HISTORY", "VIEWS", "guarded", "of_storages", "refused_address", "refused_history"]

_TENSOR: Any = Tensor  # PyTorch's types do not know descriptors


def _getter(name: str) -> Any:
    return getattr(_TENSOR, name).__get__


# by the function of which PyTorch tells modes
ADDRESSES = {
    _TENSOR.data_ptr: "data_ptr()",
    _TENSOR.is_set_to: "is_set_to()",
    _getter("_cdata"): "_cdata",
    _getter("_version"): "_version",
}
VIEWS = {_TENSOR._is_view: "_is_view()", _getter("_base"): "_base"}
HISTORY = {_getter("is_leaf"): "is_leaf", _getter("grad_fn"): "grad_fn", _getter("output_nr"): "output_nr"}


def of_storages() -> list[tuple[Any, str, Any]]:
    """Replacements, by owner and name, of what storages say of their addresses: refused for code of users."""
    kinds = (torch.UntypedStorage, torch.TypedStorage)
    found: list[tuple[Any, str, Any]] = []
    for kind in kinds:
        found.append((kind, "data_ptr", guarded(kind.data_ptr, "storage.data_ptr()")))
        own: Any = getattr(kind, "_cdata")  # noqa: B009
        found.append((kind, "_cdata", property(guarded(own.__get__, "storage._cdata"))))
    return found


def guarded(function: Callable[..., Any], label: str) -> Callable[..., Any]:
    """A function that PyTorch's code may call, and that raises :class:`UserError` where a user's does."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if user_frame(sys._getframe(1)):
            raise refused_address(label)
        return function(*args, **kwargs)

    return call


def refused_address(label: str) -> UserError:
    """The error for a question about the memory of a tensor."""
    return UserError(
        "capture-state", place=user_line() or label,
        found=f"{label}: memory has no place while a program is traced, and another history",
        needed="a program whose course does not depend on where tensors are",
        hint="compare the tensors themselves: a is b",
    )  # fmt: skip


def refused_history(label: str, name: str) -> UserError:
    """The error for a question about what an argument was computed from, or is a view of."""
    return UserError(
        "capture-state", place=user_line() or label,
        found=f"{label} of {name}, a tensor that was itself computed before the call, or is a view of another",
        needed="a question that has the same answer for any tensor",
        hint="x.detach().requires_grad_(), x.clone(), or compute it inside of what is captured",
    )  # fmt: skip
