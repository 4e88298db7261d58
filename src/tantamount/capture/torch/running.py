"""Two models executed as they are, in their own dtypes, on one random checkpoint and one random input."""

# pyright: basic
from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

__all__ = ["Executed", "distance"]

_SCALE = 0.5  # of the random weights


@dataclass(frozen=True)
class Executed:
    """By how much the outputs of two models differ at most, the largest element of the first one's, and the precision
    of their dtype. ``checkpoint`` is what both loaded, by name, ``arguments`` what each was called with, in order;
    complex numbers are pairs in one more dimension."""

    distance: float
    largest: float
    precision: float
    checkpoint: Mapping[str, np.ndarray]
    arguments: tuple[Sequence[np.ndarray], Sequence[np.ndarray]]


def distance(
    models: Sequence[nn.Module],
    loaders: Sequence[Any],
    calls: Sequence[tuple[tuple[Any, ...], dict[str, Any]]],
    shapes: Mapping[str, tuple[int, ...]],
    bounds: Sequence[int | None],
    seed: int = 0,
) -> Executed | None:
    """Both models executed; ``None`` where outputs cannot be paired. ``bounds``: for the k-th tensor argument, the
    number below which whole numbers are drawn (``None``: the example's values are kept)."""
    generator = torch.Generator().manual_seed(seed)
    checkpoint = {name: torch.randn(shape, generator=generator) * _SCALE for name, shape in shapes.items()}
    drawn: list[Tensor] = []
    results: list[list[Tensor]] = []
    arguments: list[list[np.ndarray]] = []
    for model, load, (args, kwargs) in zip(models, loaders, calls, strict=True):
        held = copy.deepcopy(model)
        if any(t.device.type == "meta" for t in (*held.parameters(), *held.buffers())):
            held = held.to_empty(device="cpu")
        leaves, structure = pytree.tree_flatten((args, kwargs))
        tensors = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        if not drawn:
            drawn = [_random(leaves[k], bound, generator) for k, bound in zip(tensors, bounds, strict=True)]
        for k, tensor in zip(tensors, drawn, strict=True):
            leaves[k] = tensor.reshape(leaves[k].shape).to(leaves[k].dtype)
        arguments.append([_array(leaves[k].detach().clone()) for k in tensors])
        own_args, own_kwargs = pytree.tree_unflatten(leaves, structure)
        with torch.no_grad():
            given = {name: tensor.clone() for name, tensor in checkpoint.items()}
            if load is None:
                held.load_state_dict(given, strict=False)
            else:
                made = load(held, given)
                held = made if isinstance(made, nn.Module) else held
            found, _ = pytree.tree_flatten(held(*own_args, **own_kwargs))
        results.append([x for x in found if isinstance(x, Tensor) and x.is_floating_point()])
    first, second = results
    if not first or [x.shape for x in first] != [x.shape for x in second]:
        return None
    pairs = [(a.double(), b.double()) for a, b in zip(first, second, strict=True)]
    if not all(a.isfinite().all() and b.isfinite().all() for a, b in pairs):
        return None
    apart = max(float((a - b).abs().max()) for a, b in pairs if a.numel())
    largest = max(float(a.abs().max()) for a, _ in pairs if a.numel())
    precision = max(torch.finfo(x.dtype).eps for x in (*first, *second))
    held = {name: _array(tensor) for name, tensor in checkpoint.items()}
    return Executed(apart, largest, precision, held, (arguments[0], arguments[1]))


def _array(tensor: Tensor) -> np.ndarray:
    """The elements of a tensor, which it shares where NumPy has its dtype."""
    plain = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return (plain.float() if plain.dtype.is_floating_point and plain.dtype.itemsize < 4 else plain).numpy()


def _random(example: Tensor, bound: int | None, generator: torch.Generator) -> Tensor:
    if example.is_floating_point():
        return torch.randn(example.shape, generator=generator)
    if bound is None or example.dtype is torch.bool or not bound:
        return example.clone()
    return torch.randint(0, bound, example.shape, generator=generator)
