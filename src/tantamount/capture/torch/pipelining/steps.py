"""The steps of the runtime of ``torch.distributed.pipelining`` on a stage's module, and those of one device.

The ranks' side calls PyTorch's own functions: the passes of a stage, the end of the backward passes (FSDP's reduction,
the division by the number of microbatches).
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from tantamount.capture.torch.training.ranks import axes_of

__all__ = ["Roles", "norm_step", "pass_step", "reduce_step", "spec_reduce_step", "update_step", "whole_step"]

Step = Callable[..., dict[str, Tensor] | None]


@dataclass(frozen=True)
class Roles:
    """The names of a piece's tensors. ``watched``: its inputs that have a gradient; ``back``: its outputs whose
    gradient comes back, none where ``loss`` is computed."""

    inputs: tuple[str, ...]
    watched: tuple[str, ...]
    outputs: tuple[str, ...]
    back: tuple[str, ...]
    loss: Callable[..., Any] | None = None


def whole_step(module: nn.Module, roles: Roles, seed: float) -> Step:
    """The passes of one device on the whole batch. The loss is multiplied by ``seed`` before it is differentiated: the
    gradient is then the sum of those of microbatches, each with a loss of its own."""

    def run(**given: Tensor) -> dict[str, Tensor]:
        inputs, outputs, results = _forward(module, roles, given)
        if roles.loss is None:
            named = [
                (o, given[f"d_{name}"]) for name, o in zip(roles.outputs, outputs, strict=True) if name in roles.back
            ]
            torch.autograd.backward([o for o, _ in named], [d for _, d in named])
        else:
            value = roles.loss(outputs[0] if len(outputs) == 1 else tuple(outputs), given["target"])
            results["loss"] = value.detach()
            (value * seed if seed != 1 else value).backward()
        return {**results, **_input_gradients(roles, inputs)}

    return run


def pass_step(module: nn.Module, roles: Roles, split: bool) -> Step:
    """The passes of a stage on one microbatch, by PyTorch's functions; ``split``: the gradients of inputs first."""
    from torch.distributed.pipelining.stage import _PipelineStageBase

    stage = SimpleNamespace(submod=module)

    def backward(kind: str, **what: Any) -> Any:
        return _PipelineStageBase.backward_maybe_with_nosync(stage, kind, what)  # type: ignore[arg-type]

    def run(**given: Tensor) -> dict[str, Tensor]:
        inputs, outputs, results = _forward(module, roles, given)
        came: Any = tuple(given[f"d_{name}"] if name in roles.back else None for name in roles.outputs)
        made: Any = tuple(outputs)
        if roles.loss is not None:
            made = roles.loss(outputs[0] if len(outputs) == 1 else made, given["target"])
            came = None
            results["loss"] = made.detach()
        if split and roles.watched:
            made = (made,) if isinstance(made, Tensor) else made
            found, groups = backward("input", stage_output=made, output_grads=came, input_values=inputs)
            backward("weight", stage_output=made, param_groups=groups)
        else:
            found, _ = backward("full", stage_output=made, output_grads=came, input_values=inputs)
        named = dict(zip(roles.inputs, found, strict=True))
        kept = {
            f"grad {name}": held.unsharded_accumulated_grad
            for name, held in _in_reduced_precision(module).items()
            if held.unsharded_accumulated_grad is not None
        }
        return {**results, **{f"d_{name}": named[name] for name in roles.watched}, **kept}

    return run


def _in_reduced_precision(module: nn.Module) -> dict[str, Any]:
    """The state that FSDP2 has of the parameters that it computes with in one precision, and whose gradients it adds up
    in another, by name: these gradients are not in ``.grad``."""
    from torch.distributed.fsdp import FSDPModule, fully_shard

    found: dict[int, Any] = {}
    for inner in module.modules():
        if isinstance(inner, FSDPModule):
            for group in fully_shard.state(inner)._fsdp_param_groups:  # type: ignore[attr-defined]
                for held in group.fsdp_params:
                    if held.reduce_dtype is not None and hasattr(held, "_unsharded_param"):
                        found[id(held._unsharded_param)] = held
    return {
        name: found[id(p)]
        for name, p in module.named_parameters()
        if id(p) in found and found[id(p)].reduce_dtype != p.dtype
    }


def _forward(
    module: nn.Module, roles: Roles, given: dict[str, Tensor]
) -> tuple[list[Tensor], list[Tensor], dict[str, Tensor]]:
    inputs = [given[name].detach() for name in roles.inputs]
    for name, tensor in zip(roles.inputs, inputs, strict=True):
        if name in roles.watched:
            tensor.requires_grad_()
    made = module(*inputs)
    outputs = list(made) if isinstance(made, tuple | list) else [made]
    results = {} if roles.loss is not None else {
        name: output.detach() for name, output in zip(roles.outputs, outputs, strict=True)
    }  # fmt: skip
    return inputs, outputs, results


def _input_gradients(roles: Roles, inputs: Sequence[Tensor]) -> dict[str, Tensor]:
    return {
        f"d_{name}": x.grad if x.grad is not None else torch.zeros_like(x)
        for name, x in zip(roles.inputs, inputs, strict=True)
        if name in roles.watched
    }


def reduce_step(
    module: nn.Module,
    scale: int,
    reduce: Callable[[nn.Module], object] | None,
    reduces: bool,
    placed: Mapping[str, Mapping[str, str]],
    axes: Mapping[str, int],
    squares: bool = False,
) -> Step:
    """The step that comes after the last backward pass of a stage: PyTorch's end of it, and what the user does.
    ``placed`` is how the passes leave the gradient of every parameter that is a DTensor, over ``axes``.
    ``squares``: the square of the norm of all gradients is computed as well, by PyTorch's function."""
    from torch.distributed.fsdp import FSDPModule, fully_shard
    from torch.distributed.pipelining.stage import _PipelineStageBase

    stage = SimpleNamespace(submod=module)
    stage.scale_grads = lambda factor: _PipelineStageBase.scale_grads(stage, factor)  # type: ignore[arg-type]

    def run(**given: Tensor) -> dict[str, Tensor] | None:
        if isinstance(module, FSDPModule):  # as the last backward pass leaves it
            fully_shard.state(module)._lazy_init()  # type: ignore[attr-defined]
            for inner in module.modules():
                if isinstance(inner, FSDPModule):
                    inner.unshard()
        apart = _in_reduced_precision(module)
        for name, parameter in module.named_parameters():
            if f"grad {name}" in given:
                own = _as_left(parameter, given[f"grad {name}"].clone(), placed[name], axes)  # is then divided in place
                if name in apart:
                    apart[name].unsharded_accumulated_grad = own
                else:
                    parameter.grad = own
        if reduces:
            _PipelineStageBase.perform_reduce_grad(stage, scale)  # type: ignore[arg-type]
        if reduce is not None:
            with torch.no_grad():
                reduce(module)
        return {"squares": _norm_of(module).square()} if squares else None

    return run


def _norm_of(module: nn.Module) -> Tensor:
    """The norm of all gradients of a rank's module; of DTensors, that of the whole tensors, for each mesh apart."""
    from torch.distributed.tensor import DTensor

    apart: dict[Any, list[Tensor]] = {}
    for p in module.parameters():
        if p.grad is not None:
            apart.setdefault(p.grad.device_mesh if isinstance(p.grad, DTensor) else None, []).append(p.grad)
    found = [nn.utils.get_total_norm(own) for own in apart.values()]
    norms = [norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in found]
    return norms[0] if len(norms) == 1 else torch.stack([norm.square() for norm in norms]).sum().sqrt()


def norm_step(most: float, group: Callable[[], Any] | None) -> Step:
    """The factor by which all gradients are multiplied so that their norm is ``most`` at most: PyTorch's clipping.
    ``group()`` are the stages of the pipeline, whose squares are added up; ``None`` on one device."""

    def run(squares: Tensor) -> dict[str, Tensor]:
        whole = squares.clone()
        if group is not None:
            torch.distributed.all_reduce(whole, group=group())
        one = nn.Parameter(torch.ones_like(whole))
        one.grad = torch.ones_like(whole)
        nn.utils.clip_grads_with_norm_([one], most, whole.sqrt())
        return {"factor": one.grad}

    return run


def _as_left(parameter: Tensor, local: Tensor, placed: Mapping[str, str], axes: Mapping[str, int]) -> Tensor:
    """A gradient as backward passes leave it: of a DTensor, one on the mesh of the parameter."""
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

    if not isinstance(parameter, DTensor):
        return local
    mesh = parameter.device_mesh
    found: list[Any] = []
    for along in axes_of(mesh, axes, "a gradient"):
        text = placed.get(along[0], "Replicate()") if along else "Replicate()"
        if text.startswith("Shard"):
            found.append(Shard(int(text[6:-1])))
        else:
            found.append(Partial(text[9:-2]) if text.startswith("Partial") else Replicate())
    return DTensor.from_local(
        local, mesh, found, run_check=False, shape=parameter.shape, stride=parameter.stride()
    ).detach()


def spec_reduce_step(seed: float, squares: bool = False) -> Step:
    """The gradients of one device, without what :func:`whole_step` has multiplied them by, and the sum of all their
    squares."""

    def run(**given: Tensor) -> dict[str, Tensor]:
        found = {name: gradient / seed for name, gradient in given.items()}
        whole = torch.stack([gradient.square().sum() for gradient in found.values()]).sum() if squares else None
        return found if whole is None else {**found, "squares": whole}

    return run


def update_step(module: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    """A step of the optimizer on gradients that are given, multiplied by a factor if one is given."""

    def run(**given: Tensor) -> None:
        factor = given.pop("factor", None)
        for name, parameter in module.named_parameters():
            if f"grad {name}" in given:
                gradient = given[f"grad {name}"].clone()
                parameter.grad = gradient if factor is None else gradient.mul_(factor)
        optimizer.step()
        for parameter in module.parameters():
            parameter.grad = None

    return run
