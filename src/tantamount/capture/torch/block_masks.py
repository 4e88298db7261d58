"""Block masks of ``flex_attention``: blocks that are skipped, and blocks in which the mask's function is not asked.

PyTorch's definition, which is what eager runs and what is captured, asks the function everywhere and knows nothing of
blocks; its kernels leave out the blocks that are not listed. Both agree if every position that the function keeps lies
in one listed block, every block is listed once at most, and the function keeps all of a block that is listed as full.
PyTorch makes such blocks itself (``create_block_mask``). Any other mask is checked where its numbers are known, or
refused.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from tantamount.errors import UserError

__all__ = ["BlockMasks"]

_MOST = 1 << 24  # positions of a mask that is checked
_PROMISES = ("ROWS_GUARANTEED_SAFE", "BLOCKS_ARE_CONTIGUOUS")  # options that change results where they are not true


class BlockMasks:
    """The block masks that PyTorch makes of functions while a program is captured, and the check of all others."""

    def __init__(self) -> None:
        self._made: dict[
            int, tuple[tuple[Any, ...], list[int]]
        ] = {}  # by the identity of a tensor that is kept with them

    def recorded(self, make: Callable[..., Any]) -> Callable[..., Any]:
        """A function of PyTorch's that makes block masks; what it makes is known to fit."""

        def made(*args: Any, **kwargs: Any) -> Any:
            found = make(*args, **kwargs)
            self._made[id(found.kv_indices)] = _parts(found.as_tuple())
            return found

        return made

    def check(self, query: Tensor, key: Tensor, mask: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        """Raise :class:`UserError` for a mask whose blocks are not known to be those of its function."""
        promised = [name for name in _PROMISES if options.get(name)]
        if promised:
            raise _refused(f"the kernel option {promised[0]}", "attention without promises about its mask")
        made, parts = self._made.get(id(mask[3])), _parts(mask)
        if made is not None and all(a is b for a, b in zip(made[0], parts[0], strict=True)) and made[1] == parts[1]:
            return
        sizes = query.shape[0], query.shape[1], query.shape[2], key.shape[2]
        with _disable_current_modes():
            problem = _problem(sizes, mask)
        if problem:
            raise _refused(f"a block mask {problem}", "a block mask of its function")


def _parts(mask: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[int]]:
    """The tensors that list blocks with the function of a mask, and how often each tensor was written to."""
    parts = (*mask[2:10], mask[-1])
    return parts, [part._version for part in parts if isinstance(part, Tensor)]


def _refused(found: str, needed: str) -> UserError:
    return UserError(
        "capture-blocks", place="flex_attention", found=found, needed=needed,
        hint="create_block_mask, called with the function that the mask is used with, in the captured program",
    )  # fmt: skip


def _problem(sizes: tuple[int, ...], mask: tuple[Any, ...]) -> str:
    """Why the blocks of a mask are not those of its function; empty if they are."""
    tensors = [tensor for tensor in mask[2:10] if tensor is not None]
    if any(isinstance(tensor, FakeTensor) or type(tensor) is not Tensor for tensor in tensors):
        return "whose blocks are computed while it is captured, and not by create_block_mask"
    if sizes[0] * sizes[1] * sizes[2] * sizes[3] > _MOST:
        return f"of more than {_MOST} positions that create_block_mask did not make while it was captured"
    from torch.nn.attention.flex_attention import create_mask

    try:
        kept = create_mask(mask[-1], *sizes, device="cpu")
    except Exception as problem:  # whatever the function of a user does when it is called beside the program
        return f"whose function cannot be called by itself ({str(problem).splitlines()[0][:80]})"
    if isinstance(kept, FakeTensor):
        return "whose function reads what is computed while it is captured"
    rows, columns = mask[-3:-1]
    for kind, turned, (partial, full) in (
        ("keys", kept, (mask[2:4], mask[4:6])),
        ("queries", kept.transpose(-1, -2), (mask[6:8], mask[8:10])),
    ):
        if partial[0] is None:
            continue  # no gradients
        block = (rows, columns) if turned is kept else (columns, rows)
        some, whole = _listed(turned, block, *partial), _listed(turned, block, *full)
        if some is None or whole is None or ((some + whole) > 1).any():
            return f"that lists blocks of {kind} twice, or that do not exist"
        if (turned & (some + whole == 0)).any():
            return f"that leaves out blocks of {kind} which its function keeps"
        if (~turned & (whole > 0)).any():
            return f"with full blocks of {kind} of which its function keeps a part only"
    return ""


def _listed(kept: Tensor, block: tuple[int, int], numbers: Tensor | None, indices: Tensor | None) -> Tensor | None:
    """How often the block of every position is listed; ``None`` if blocks are listed that do not exist."""
    if numbers is None or indices is None:
        return torch.zeros_like(kept, dtype=torch.int64)
    counted = torch.arange(indices.shape[-1]) < numbers[..., None]
    count = -(-kept.shape[-1] // block[1])
    if (counted & ((indices < 0) | (indices >= count))).any() or (numbers > indices.shape[-1]).any():
        return None
    blocks = torch.zeros((*indices.shape[:-1], count), dtype=torch.int64)
    blocks.scatter_add_(-1, indices.long().clamp(0, count - 1), counted.long())
    places = [torch.arange(size) // length for size, length in zip(kept.shape[-2:], block, strict=True)]
    return blocks[..., places[0][:, None], places[1]]
