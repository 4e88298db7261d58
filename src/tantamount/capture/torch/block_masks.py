"""Block masks of ``flex_attention``: blocks that are skipped, and blocks in which the mask's function is not asked.

PyTorch's definition, which is what eager runs and what is captured, asks the function everywhere and knows nothing of
blocks; its kernels leave out the blocks that are not listed. Both agree if every position that the function keeps lies
in one listed block, every block is listed once at most, and the function keeps all of a block that is listed as full.
PyTorch makes such blocks itself (``create_block_mask``), of what the function says then, for the batches and heads that
it is told: where a program makes a mask, that the function says the same where the mask is used, for every batch and
head of the queries, is an assertion of the program, with an obligation like any other. Any other mask is checked where
its numbers are known, or refused.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from tantamount.errors import UserError

__all__ = ["BlockMasks"]

_assert = torch.ops.aten._assert_async.msg
_MOST = 1 << 24  # positions of a mask that is checked
_PROMISES = {"ROWS_GUARANTEED_SAFE": False, "BLOCKS_ARE_CONTIGUOUS": False, "WRITE_DQ": True}  # others change results
_ITS_OWN = frozenset({"OUTPUT_LOGSUMEXP", "OUTPUT_MAX"})  # PyTorch sets them, whatever they were
_PASSES = ("fwd_", "bwd_")


@dataclass(frozen=True)
class _Made:
    """A mask that was made while a program is captured: its parts, what they held, and what its function said of every
    position."""

    parts: tuple[tuple[Any, ...], list[int]]
    held: tuple[Tensor, ...]
    sizes: tuple[int, ...]
    kept: Tensor | None  # all


class BlockMasks:
    """The block masks that PyTorch makes of functions while a program is captured, and the check of all others."""

    def __init__(self) -> None:
        self._made: dict[int, _Made] = {}  # by the identity of a tensor that is kept with them

    def recorded(self, make: Callable[..., Any]) -> Callable[..., Any]:
        """A function of PyTorch's that makes block masks."""
        everything = make.__name__ == "_create_empty_block_mask"

        def made(*args: Any, **kwargs: Any) -> Any:
            found = make(*args, **kwargs)
            kept = None if everything else _kept(found.mask_mod, tuple(found.shape), found.kv_indices.device)
            parts = _parts(found.as_tuple())
            held = tuple(part.clone() for part in parts[0] if isinstance(part, Tensor))
            self._made[id(found.kv_indices)] = _Made(parts, held, tuple(found.shape), kept)
            return found

        return made

    def check(self, query: Tensor, key: Tensor, mask: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        """Raise :class:`UserError` for a mask whose blocks are not known to be those of its function, or record that
        they are as an assertion."""
        _check_options(options)
        made, parts = self._made.get(id(mask[3])), _parts(mask)
        sizes = query.shape[0], query.shape[1], query.shape[2], key.shape[2]
        if made is not None and _same(made.parts, parts):
            now = [part for part in parts[0] if isinstance(part, Tensor)]
            agree = torch.stack([(a == b).all() for a, b in zip(made.held, now, strict=True)]).all()
            torch.ops.aten._assert_async.msg(
                agree, "the blocks of a mask are those that it was made with"
            )  # not so by ``.data``
            if made.kept is None:
                return
            wide = all(own in (1, wanted) for own, wanted in zip(made.sizes[:2], sizes[:2], strict=True))
            if made.sizes[2:] != sizes[2:] or not wide:
                raise _refused(f"a block mask for {made.sizes}", f"one for {sizes}, as the queries and keys are")
            agree = made.kept == _kept(mask[-1], sizes, made.kept.device)
            torch.ops.aten._assert_async.msg(
                agree.all(), "the blocks of a mask are those of its function where it is used"
            )
            return
        with _disable_current_modes():
            problem = _problem(sizes, mask)
        if problem:
            raise _refused(f"a block mask {problem}", "a block mask of its function")


def _kept(function: Any, sizes: tuple[int, ...], device: torch.device) -> Tensor:
    """The answer of the function of a mask at every position."""
    from torch.nn.attention.flex_attention import create_mask

    return create_mask(function, *sizes, device=str(device))


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuse options of kernels that are more than how they are run: promises, and what PyTorch does not document."""
    from torch.nn.attention.flex_attention import FlexKernelOptions

    known = _ITS_OWN.union(FlexKernelOptions.__annotations__) - _PROMISES.keys()
    for name, value in options.items():
        plain = next((name.removeprefix(prefix) for prefix in _PASSES if name.startswith(prefix)), name)
        if value is not None and plain not in known and value is not _PROMISES.get(plain):
            raise _refused(f"the kernel option {name}", "attention without promises about its mask")


def _same(first: tuple[tuple[Any, ...], list[int]], second: tuple[tuple[Any, ...], list[int]]) -> bool:
    """True if two masks have the same tensors, written to as often, the same sizes and the same function."""
    pairs = zip(first[0], second[0], strict=True)
    return first[1] == second[1] and all(a is b or (type(a) is type(b) is int and a == b) for a, b in pairs)


def _parts(mask: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[int]]:
    """All that a mask consists of, and how often each tensor of it was written to."""
    return mask, [part._version for part in mask if isinstance(part, Tensor)]


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
    try:
        kept = _kept(mask[-1], sizes, torch.device("cpu"))
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
