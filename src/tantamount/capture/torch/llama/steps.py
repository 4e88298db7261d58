"""The programs of the parts of a training iteration: forward and backward of a piece; reduction, norm and update."""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from tantamount.capture.torch.llama.experts import ExpertShape, expert_layer
from tantamount.capture.torch.llama.model import Shape, embedded, layer, loss

__all__ = ["embedding_step", "expert_step", "head_step", "layer_step", "norm_step", "reduce_step", "update_step"]

Step = Callable[..., dict[str, torch.Tensor]]


def _watched(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().requires_grad_() for name, tensor in tensors.items()}


def _gradients(y: torch.Tensor, given: Mapping[str, torch.Tensor], dy: torch.Tensor | None) -> dict[str, torch.Tensor]:
    found = torch.autograd.grad(y, tuple(given.values()), dy)
    return {f"d_{name}": grad for name, grad in zip(given, found, strict=True)}


def embedding_step(group: Any = None, rank: int = 0) -> Step:
    """Rows of the embedding, and the gradient of its table; ``rank`` is that within the tensor-parallel ``group``."""

    def run(tokens: torch.Tensor, d_y: torch.Tensor, **w: torch.Tensor) -> dict[str, torch.Tensor]:
        w = _watched(w)
        y = embedded(tokens, w["table"], group, rank)
        return {"y": y.detach(), **_gradients(y, w, d_y)}

    return run


def layer_step(shape: Shape, group: Any = None, tp: int = 1) -> Step:
    """A layer forward and backward, on one of ``tp`` ranks."""

    def run(x: torch.Tensor, d_y: torch.Tensor, **w: torch.Tensor) -> dict[str, torch.Tensor]:
        given = _watched({"x": x, **w})
        y = layer(given["x"], given, shape, group, tp)
        return {"y": y.detach(), **_gradients(y, given, d_y)}

    return run


def expert_step(shape: ExpertShape, group: Any, tp: int, rank: int) -> Step:
    """A layer of a model with experts forward and backward, on one of ``tp`` ranks. ``bias`` has no gradient."""

    def run(x: torch.Tensor, d_y: torch.Tensor, **w: torch.Tensor) -> dict[str, torch.Tensor]:
        given = _watched({"x": x, **{name: weight for name, weight in w.items() if name != "bias"}})
        y = expert_layer(given["x"], {**w, **given}, shape, group, tp, rank)
        return {"y": y.detach(), **_gradients(y, given, d_y)}

    return run


def head_step(tokens: int, group: Any = None, rank: int = 0) -> Step:
    """The loss of ``tokens`` tokens in all, and its gradients."""

    def run(x: torch.Tensor, labels: torch.Tensor, **w: torch.Tensor) -> dict[str, torch.Tensor]:
        given = _watched({"x": x, **w})
        found = loss(given["x"], labels, given, tokens, group, rank)
        return {"loss": found.detach(), **_gradients(found, given, None)}

    return run


def reduce_step(names: Sequence[str], cut: Mapping[str, int], group: Any = None) -> Step:
    """Gradients added up over the data-parallel ranks, and the sums of the squares of those that tensor parallelism
    cuts and of those that it does not."""

    def run(**given: torch.Tensor) -> dict[str, torch.Tensor]:
        out: dict[str, torch.Tensor] = {}
        cut_squares = whole_squares = torch.zeros((), device=next(iter(given.values())).device)
        for name in names:
            grad = given[f"d_{name}"]
            if group is not None:
                grad = grad.clone()
                dist.all_reduce(grad, group=group)
            out[f"g_{name}"] = grad
            if name in cut:
                cut_squares = cut_squares + grad.square().sum()
            else:
                whole_squares = whole_squares + grad.square().sum()
        return {**out, "cut_squares": cut_squares, "whole_squares": whole_squares}

    return run


def norm_step(most: float, tp_group: Any = None, pp_group: Any = None) -> Step:
    """The factor for all gradients with which their norm is at most ``most``."""

    def run(cut_squares: torch.Tensor, whole_squares: torch.Tensor) -> dict[str, torch.Tensor]:
        if tp_group is not None:
            cut_squares = cut_squares.clone()
            dist.all_reduce(cut_squares, group=tp_group)
        total = cut_squares + whole_squares
        if pp_group is not None:
            dist.all_reduce(total, group=pp_group)
        return {"factor": torch.clamp(most / (total.sqrt() + 1e-6), max=1.0)}

    return run


def update_step(names: Sequence[str], optimizer: str) -> Step:
    """The optimizer's step, on gradients that are clipped first: ``sgd``, or ``adamw``, whose corrections of the biases
    are numbers that are computed beforehand, as fused optimizers have it."""

    def run(factor: torch.Tensor, lr: torch.Tensor, **given: torch.Tensor) -> dict[str, torch.Tensor]:
        out: dict[str, torch.Tensor] = {}
        for name in names:
            w, g = given[name], given[f"g_{name}"] * factor
            if optimizer == "sgd":
                out[f"new_{name}"] = w - lr * g
                continue
            first, second = 0.9, 0.95
            m = first * given[f"m_{name}"] + (1 - first) * g
            v = second * given[f"v_{name}"] + (1 - second) * g * g
            high, low = m * given["correction1"], (v * given["correction2"]).sqrt() + 1e-8
            out |= {f"new_{name}": w - lr * (high / low + 0.1 * w), f"new_m_{name}": m, f"new_v_{name}": v}
        return out

    return run
