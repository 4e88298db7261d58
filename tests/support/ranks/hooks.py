"""Every kind of hook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge, register_multi_grad_hook, save_on_cpu, saved_tensors_hooks
from torch.nn.modules import module as module_hooks
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.checkpoint import checkpoint

from support.ranks.cases import RANKS, Built, batch, case, linear

TENSORS = "hooks of tensors"
NODES = "hooks of autograd nodes"
MODULES = "hooks of modules"
OPTIMIZERS = "hooks of optimizers"
SAVED = "hooks of saved tensors"
WRAPPERS = "hooks of wrappers"


def step_of(layer: nn.Module) -> Callable[[Tensor], Tensor]:
    def step(x: Tensor) -> Tensor:
        loss = (layer(x) ** 2).sum()
        loss.backward()
        return loss.detach()

    return step


def program(layer: nn.Module, rank: int) -> Built:
    return Built(step_of(layer), (batch(rank),), {"": layer})


def doubled(parameter: Tensor) -> None:
    parameter.grad.mul_(2)


def averaged(gradient: Tensor) -> Tensor:
    gradient = gradient.clone()
    dist.all_reduce(gradient)
    return gradient / RANKS


# ----------------------------------------------------------------------------------------------- tensors
@case(TENSORS, "Tensor.register_hook that averages over ranks")
def _(rank: int) -> Built:
    layer = linear()
    for parameter in layer.parameters():
        parameter.register_hook(averaged)
    return program(layer, rank)


@case(TENSORS, "Tensor.register_hook, two of them in order")
def _(rank: int) -> Built:
    layer = linear()
    layer.weight.register_hook(lambda g: g + 1)
    layer.weight.register_hook(lambda g: g * 2)
    return program(layer, rank)


@case(TENSORS, "Tensor.register_hook that returns nothing, and reads the gradient that is there")
def _(rank: int) -> Built:
    layer = linear()
    layer.register_buffer("seen", torch.zeros(2, 3))

    def note(gradient: Tensor) -> None:
        layer.seen.copy_(gradient)

    layer.weight.register_hook(note)
    return program(layer, rank)


@case(TENSORS, "register_post_accumulate_grad_hook that averages over ranks")
def _(rank: int) -> Built:
    layer = linear()

    def average(parameter: Tensor) -> None:
        dist.all_reduce(parameter.grad)
        parameter.grad /= RANKS

    for parameter in layer.parameters():
        parameter.register_post_accumulate_grad_hook(average)
    return program(layer, rank)


@case(TENSORS, "register_post_accumulate_grad_hook that finds its parameter by itself, asynchronous")
def _(rank: int) -> Built:
    layer = linear()
    parameters = list(layer.parameters())
    pending: list[Any] = []

    def start(index: int) -> Callable[[Tensor], None]:
        def hook(_: Tensor) -> None:
            pending.append((dist.all_reduce(parameters[index].grad, async_op=True), index))

        return hook

    for index, parameter in enumerate(parameters):
        parameter.register_post_accumulate_grad_hook(start(index))
    inner = step_of(layer)

    def step(x: Tensor) -> Tensor:
        loss = inner(x)
        while pending:
            work, index = pending.pop()
            work.wait()
            parameters[index].grad.div_(RANKS)
        return loss

    return Built(step, (batch(rank),), {"": layer})


@case(TENSORS, "hooks of both kinds, backward twice, gradients accumulated")
def _(rank: int) -> Built:
    layer = linear()
    layer.weight.register_hook(lambda g: g * 3)
    layer.weight.register_post_accumulate_grad_hook(doubled)

    def step(x: Tensor) -> None:
        (layer(x) ** 2).sum().backward()
        (layer(x) ** 3).sum().backward()

    return Built(step, (batch(rank),), {"": layer})


@case(TENSORS, "autograd.grad runs hooks of tensors, and not those after accumulation")
def _(rank: int) -> Built:
    layer = linear()
    layer.weight.register_hook(lambda g: g * 3)
    layer.weight.register_post_accumulate_grad_hook(doubled)

    def step(x: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad((layer(x) ** 2).sum(), list(layer.parameters()))

    return Built(step, (batch(rank),), {"": layer})


@case(TENSORS, "backward(inputs=[parameters that a list holds])")
def _(rank: int) -> Built:
    layer = linear()
    layer.weight.register_hook(averaged)
    chosen = [layer.weight]

    def step(x: Tensor) -> None:
        (layer(x) ** 2).sum().backward(inputs=chosen)
        torch.autograd.backward((layer(x) ** 2).sum(), inputs=chosen)

    return Built(step, (batch(rank),), {"": layer})


@case(TENSORS, "hook of a tensor that the step computes; retain_grad")
def _(rank: int) -> Built:
    layer = linear()

    def step(x: Tensor) -> Any:
        hidden = layer(x)
        hidden.register_hook(averaged)
        hidden.retain_grad()
        (hidden**2).sum().backward()
        return hidden.grad + 0

    return Built(step, (batch(rank),), {"": layer})


@case(TENSORS, "hook of an argument")
def _(rank: int) -> Built:
    layer = linear()
    x = batch(rank).requires_grad_()
    x.register_hook(lambda g: g * 5)
    return Built(step_of(layer), (x,), {"": layer})


@case(TENSORS, "register_multi_grad_hook, all")
def _(rank: int) -> Built:
    layer = linear()
    layer.register_buffer("seen", torch.zeros(2, 3))

    def note(gradients: Any) -> None:
        layer.seen.copy_(gradients[0] + gradients[1][:, None])

    register_multi_grad_hook(list(layer.parameters()), note)
    return program(layer, rank)


@case(TENSORS, "register_multi_grad_hook, any")
def _(rank: int) -> Built:
    layer = linear()
    layer.register_buffer("seen", torch.zeros(()))

    def note(gradient: Tensor) -> None:
        layer.seen.add_(1)

    register_multi_grad_hook(list(layer.parameters()), note, mode="any")
    return program(layer, rank)


@case(TENSORS, "hook that is registered and removed by the step")
def _(rank: int) -> Built:
    layer = linear()
    inner = step_of(layer)

    def step(x: Tensor) -> Tensor:
        handle = layer.weight.register_hook(averaged)
        loss = inner(x)
        handle.remove()
        return loss

    return Built(step, (batch(rank),), {"": layer})


@case(TENSORS, "hook that the step registers and leaves there", refused="capture-hook")
def _(rank: int) -> Built:
    layer = linear()
    inner = step_of(layer)

    def step(x: Tensor) -> Tensor:
        layer.weight.register_hook(averaged)
        return inner(x)

    return Built(step, (batch(rank),), {"": layer})


def registering(layer: nn.Module) -> Callable[[Tensor], Tensor]:
    """A step that registers its hooks in its first call: on tensors that it does not know yet."""
    inner = step_of(layer)
    known: dict[str, Tensor] = {}

    def average(parameter: Tensor) -> None:
        dist.all_reduce(parameter.grad)
        parameter.grad /= RANKS

    def step(x: Tensor) -> Tensor:
        for name, parameter in layer.named_parameters():
            if known.get(name) is not parameter:
                parameter.register_post_accumulate_grad_hook(average)
                known[name] = parameter
        return inner(x)

    return step


@case(TENSORS, "hook that the first call registers, and no later one")
def _(rank: int) -> Built:
    layer = linear()
    return Built(registering(layer), (batch(rank),), {"": layer})


@case(TENSORS, "hook that the first call registers where there is one")
def _(rank: int) -> Built:
    layer = linear()
    layer.weight.register_post_accumulate_grad_hook(doubled)
    return Built(registering(layer), (batch(rank),), {"": layer})


@case(TENSORS, "hook that removes itself", refused="capture-hook")
def _(rank: int) -> Built:
    layer = linear()

    def once(gradient: Tensor) -> Tensor:
        handle.remove()
        return gradient * 2

    handle = layer.weight.register_hook(once)
    return program(layer, rank)


@case(TENSORS, "hook that counts its calls", refused="capture-state")
def _(rank: int) -> Built:
    layer = linear()
    calls = [0]

    def every_second(gradient: Tensor) -> Tensor:
        calls[0] += 1
        return gradient * (calls[0] % 2)

    layer.weight.register_hook(every_second)
    return program(layer, rank)


@case(TENSORS, "hook of a parameter that gets no gradient")
def _(rank: int) -> Built:
    layer = linear()
    layer.weight.register_hook(lambda g: g * 2)
    return Built(lambda x: layer(x).detach() + 1, (batch(rank),), {"": layer})


# ------------------------------------------------------------------------------------------------- nodes
@case(NODES, "Node.register_hook, register_prehook")
def _(rank: int) -> Built:
    layer = linear()

    def step(x: Tensor) -> Tensor:
        hidden = layer(x)
        squared = hidden**2
        squared.grad_fn.register_prehook(lambda outputs: (outputs[0] * 2,))
        squared.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] + outputs[0],))
        squared.sum().backward()
        return hidden.detach() + 0

    return Built(step, (batch(rank),), {"": layer})


@case(NODES, "AccumulateGrad.register_hook that averages over ranks")
def _(rank: int) -> Built:
    layer = linear()
    layer.nodes = []
    for parameter in layer.parameters():
        node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]

        def reduce(*_: Any, parameter: Tensor = parameter) -> None:
            dist.all_reduce(parameter.grad)
            parameter.grad.div_(RANKS)

        node.register_hook(reduce)
        layer.nodes.append(node)
    return program(layer, rank)


@case(NODES, "AccumulateGrad.register_prehook")
def _(rank: int) -> Built:
    layer = linear()
    layer.node = get_gradient_edge(layer.weight).node
    layer.node.register_prehook(lambda gradients: (gradients[0] * 4,))
    layer.weight.register_hook(lambda g: g + 1)
    return program(layer, rank)


@case(NODES, "gradients with respect to edges (GradientEdge)")
def _(rank: int) -> Built:
    layer = linear()
    edge = get_gradient_edge(layer.weight)
    layer.weight.register_hook(lambda g: g * 2)
    return Built(lambda x: torch.autograd.grad((layer(x) ** 2).sum(), [edge]), (batch(rank),), {"": layer})


@case(NODES, "AccumulateGrad.register_hook in the first call, and in no later one", refused="capture-hook")
def _(rank: int) -> Built:
    layer = linear()
    inner = step_of(layer)
    layer.nodes = []

    def step(x: Tensor) -> Tensor:
        if not layer.nodes:
            layer.nodes.append(get_gradient_edge(layer.weight).node)
            layer.nodes[0].register_prehook(lambda gradients: (gradients[0] * 4,))
        return inner(x)

    return Built(step, (batch(rank),), {"": layer})


# ----------------------------------------------------------------------------------------------- modules
@case(MODULES, "forward hook that the first call registers, and no later one")
def _(rank: int) -> Built:
    layer = linear()
    inner = step_of(layer)

    def step(x: Tensor) -> Tensor:
        if not layer._forward_hooks:
            layer.register_forward_hook(lambda m, args, y: averaged(y))
        return inner(x)

    return Built(step, (batch(rank),), {"": layer})


@case(MODULES, "forward and forward-pre hooks, with keyword arguments")
def _(rank: int) -> Built:
    layer = linear()
    layer.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    layer.register_forward_pre_hook(lambda m, args, kwargs: ((args[0] + 1,), kwargs), with_kwargs=True)
    layer.register_forward_hook(lambda m, args, y: y - 1)
    layer.register_forward_hook(lambda m, args, kwargs, y: averaged(y), with_kwargs=True, always_call=True)
    return program(layer, rank)


@case(MODULES, "full backward and full backward-pre hooks")
def _(rank: int) -> Built:
    layer = linear()
    layer.register_full_backward_pre_hook(lambda m, outputs: (averaged(outputs[0]),))
    layer.register_full_backward_hook(lambda m, inputs, outputs: (inputs[0] * 2,))
    return Built(step_of(layer), (batch(rank).requires_grad_(),), {"": layer})


@case(MODULES, "backward hooks of the old kind")
def _(rank: int) -> Built:
    layer = linear()
    layer.register_backward_hook(lambda m, inputs, outputs: tuple(None if g is None else g * 2 for g in inputs))
    return program(layer, rank)


def of_all_modules(register: str, hook: Callable[..., Any]) -> None:
    @case(MODULES, register, alone=True)
    def build(rank: int) -> Built:
        layer = linear()
        inner = step_of(layer)

        def step(x: Tensor) -> Tensor:
            module_hooks._global_is_full_backward_hook = None  # PyTorch keeps the kind of hooks that are gone
            handle = getattr(module_hooks, register)(hook)
            try:
                return inner(x)
            finally:
                handle.remove()

        return Built(step, (batch(rank).requires_grad_(),), {"": layer})


of_all_modules("register_module_forward_pre_hook", lambda m, args: (args[0] * 2,))
of_all_modules("register_module_forward_hook", lambda m, args, y: averaged(y))
of_all_modules("register_module_full_backward_pre_hook", lambda m, outputs: (averaged(outputs[0]),))
of_all_modules("register_module_full_backward_hook", lambda m, inputs, outputs: (inputs[0] * 2,))
of_all_modules(
    "register_module_backward_hook", lambda m, inputs, outputs: tuple(None if g is None else g * 2 for g in inputs)
)


class Outer(nn.Module):
    """A layer, and a mean that a step may replace."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.ones(3))
        self.layer = linear()


def while_assigning(register: str, hook: Callable[..., Any], assign: Callable[[Outer], None], **options: Any) -> None:
    @case(MODULES, register, alone=True, **options)
    def build(rank: int) -> Built:
        outer = Outer()

        def step(x: Tensor) -> Tensor:
            handle = getattr(module_hooks, register)(hook)
            try:
                assign(outer)
            finally:
                handle.remove()
            return outer.layer(x + outer.mean).detach() + 0

        return Built(step, (batch(rank),), {"": outer})


def assign_mean(outer: Outer) -> None:
    outer.mean = outer.mean + 1


def assign_layer(outer: Outer) -> None:
    outer.layer = outer.layer


def assign_weight(outer: Outer) -> None:
    outer.layer.weight = nn.Parameter(outer.layer.weight.detach() * 2)


def double_mean(module: nn.Module, name: str, inner: nn.Module) -> None:
    module.mean.mul_(2)


while_assigning("register_module_buffer_registration_hook", lambda m, name, value: value * 2, assign_mean)
while_assigning("register_module_module_registration_hook", double_mean, assign_layer)
while_assigning(
    "register_module_parameter_registration_hook", lambda m, name, value: None, assign_weight, refused="capture-state"
)


@case(MODULES, "register_state_dict_pre_hook, register_state_dict_post_hook, in state_dict() of the step")
def _(rank: int) -> Built:
    outer = Outer()
    outer.register_state_dict_pre_hook(lambda m, prefix, keep: m.mean.add_(1))

    def double(module: nn.Module, state: Any, prefix: str, local: Any) -> None:
        state["mean"] = state["mean"] * 2

    outer.register_state_dict_post_hook(double)
    return Built(lambda x: {k: v + x.sum() for k, v in outer.state_dict().items()}, (batch(rank),), {"": outer})


@case(MODULES, "register_load_state_dict_pre_hook, register_load_state_dict_post_hook, in the step")
def _(rank: int) -> Built:
    outer = Outer()

    def double(module: nn.Module, state: Any, *_: Any) -> None:
        state["mean"] = state["mean"] * 2

    outer.register_load_state_dict_pre_hook(double)

    def add_one(module: nn.Module, keys: Any) -> None:
        module.mean.add_(1)

    outer.register_load_state_dict_post_hook(add_one)

    def step(x: Tensor) -> None:
        outer.load_state_dict({**outer.state_dict(), "mean": x.mean(0)})

    return Built(step, (batch(rank),), {"": outer})


@case(MODULES, "weight_norm as a forward-pre hook")
def _(rank: int) -> Built:
    old = nn.utils.weight_norm(linear())
    return Built(lambda x: old(x).detach() + 0, (batch(rank),), {"": old})


# -------------------------------------------------------------------------------------------- optimizers
def optimized(layer: nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> Built:
    def step(x: Tensor) -> None:
        optimizer.zero_grad()
        (layer(x) ** 2).sum().backward()
        optimizer.step()

    return Built(step, (batch(rank),), {"": layer}, (optimizer,))


@case(OPTIMIZERS, "step pre and post hooks")
def _(rank: int) -> Built:
    layer = linear()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5, momentum=0.5)

    def average(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad.copy_(averaged(parameter.grad))

    def decay(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.mul_(0.5)

    optimizer.register_step_pre_hook(average)
    optimizer.register_step_post_hook(decay)
    return optimized(layer, optimizer, rank)


@case(OPTIMIZERS, "step hooks of all optimizers", alone=True)
def _(rank: int) -> Built:
    layer = linear()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
    inner = optimized(layer, optimizer, rank)

    def average(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        for parameter in optimizer.param_groups[0]["params"]:
            parameter.grad.copy_(averaged(parameter.grad))

    def decay(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        with torch.no_grad():
            for parameter in optimizer.param_groups[0]["params"]:
                parameter.mul_(0.5)

    def step(x: Tensor) -> None:
        handles = register_optimizer_step_pre_hook(average), register_optimizer_step_post_hook(decay)
        inner.function(x)
        for handle in handles:
            handle.remove()

    return Built(step, inner.args, inner.modules, inner.optimizers)


@case(OPTIMIZERS, "an optimizer for every parameter, in its hook")
def _(rank: int) -> Built:
    layer = linear()
    optimizers = {p: torch.optim.SGD([p], lr=0.5, momentum=0.5) for p in layer.parameters()}

    def step_now(parameter: Tensor) -> None:
        dist.all_reduce(parameter.grad)
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in layer.parameters():
        parameter.register_post_accumulate_grad_hook(step_now)
    return Built(step_of(layer), (batch(rank),), {"": layer}, tuple(optimizers.values()))


@case(OPTIMIZERS, "register_state_dict_pre_hook, register_state_dict_post_hook, in state_dict() of the step")
def _(rank: int) -> Built:
    layer = linear()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5, momentum=0.5)

    def average(optimizer: torch.optim.Optimizer) -> None:
        layer.weight.grad.copy_(averaged(layer.weight.grad))

    def double(optimizer: torch.optim.Optimizer, state: Any) -> Any:
        return [values["momentum_buffer"] * 2 for values in state["state"].values()]

    optimizer.register_state_dict_pre_hook(average)
    optimizer.register_state_dict_post_hook(double)
    inner = optimized(layer, optimizer, rank)

    def step(x: Tensor) -> Any:
        inner.function(x)
        return optimizer.state_dict()

    return Built(step, inner.args, inner.modules, inner.optimizers)


@case(OPTIMIZERS, "register_load_state_dict_pre_hook, register_load_state_dict_post_hook, in the step")
def _(rank: int) -> Built:
    layer = linear()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5, momentum=0.5)
    optimizer.register_load_state_dict_pre_hook(lambda optimizer, state: None)

    def decay(optimizer: torch.optim.Optimizer) -> None:
        for values in optimizer.state.values():
            values["momentum_buffer"].add_(1)

    optimizer.register_load_state_dict_post_hook(decay)
    inner = optimized(layer, optimizer, rank)

    def step(x: Tensor) -> None:
        optimizer.load_state_dict(optimizer.state_dict())
        inner.function(x)

    return Built(step, inner.args, inner.modules, inner.optimizers)


@case(OPTIMIZERS, "PostLocalSGDOptimizer", refused="capture-state")
def _(rank: int) -> Built:
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer

    layer = linear()
    inner = torch.optim.SGD(layer.parameters(), lr=0.5)
    outer = PostLocalSGDOptimizer(inner, PeriodicModelAverager(period=2, warmup_steps=0))
    return optimized(layer, outer, rank)


@case(OPTIMIZERS, "an optimizer that the capture does not know", refused="capture-state")
def _(rank: int) -> Built:
    layer = linear()
    built = optimized(layer, torch.optim.SGD(layer.parameters(), lr=0.5), rank)
    known = torch.optim.SGD(layer.parameters(), lr=0.5)
    return Built(built.function, built.args, built.modules, (known,))


@case(OPTIMIZERS, "_apply_optimizer_in_backward")
def _(rank: int) -> Built:
    from torch.distributed.optim import _apply_optimizer_in_backward

    layer = linear()
    _apply_optimizer_in_backward(torch.optim.SGD, layer.parameters(), {"lr": 0.5})
    optimizers = tuple(parameter._in_backward_optimizers[0] for parameter in layer.parameters())
    return Built(step_of(layer), (batch(rank),), {"": layer}, optimizers)


# ----------------------------------------------------------------------------------------- saved tensors
@case(SAVED, "saved_tensors_hooks")
def _(rank: int) -> Built:
    layer = linear()
    inner = step_of(layer)

    def step(x: Tensor) -> Tensor:
        with saved_tensors_hooks(lambda t: t * 2, lambda t: t * 3):
            return inner(x)

    return Built(step, (batch(rank),), {"": layer})


@case(SAVED, "saved_tensors_hooks that round, and communicate")
def _(rank: int) -> Built:
    layer = linear()

    def step(x: Tensor) -> None:
        with saved_tensors_hooks(lambda t: averaged(t), lambda t: t):
            loss = (layer(x).tanh() ** 2).sum()
        loss.backward()

    return Built(step, (batch(rank),), {"": layer})


@case(SAVED, "save_on_cpu")
def _(rank: int) -> Built:
    layer = linear()

    def step(x: Tensor) -> None:
        with save_on_cpu():
            loss = (layer(x).tanh() ** 2).sum()
        loss.backward()

    return Built(step, (batch(rank),), {"": layer})


@case(SAVED, "disable_saved_tensors_hooks", alone=True)
def _(rank: int) -> Built:
    layer = linear()
    inner = step_of(layer)

    def step(x: Tensor) -> Tensor:
        with torch.autograd.graph.disable_saved_tensors_hooks("none here"):
            return inner(x)

    return Built(step, (batch(rank),), {"": layer})


@case(SAVED, "allow_mutation_on_saved_tensors", alone=True)
def _(rank: int) -> Built:
    layer = linear()

    def step(x: Tensor) -> None:
        with torch.autograd.graph.allow_mutation_on_saved_tensors():
            hidden = layer(x)
            loss = (hidden**2).sum()
            with torch.no_grad():
                hidden.mul_(3)
            loss.backward()

    return Built(step, (batch(rank),), {"": layer})


def checkpointed(name: str, reentrant: bool) -> None:
    @case(SAVED, name)
    def build(rank: int) -> Built:
        layer = linear()
        layer.weight.register_hook(averaged)
        layer.register_forward_hook(lambda m, args, y: y * 2)

        def step(x: Tensor) -> None:
            (checkpoint(lambda y: layer(y).tanh(), x, use_reentrant=reentrant) ** 2).sum().backward()

        return Built(step, (batch(rank).requires_grad_(),), {"": layer})


checkpointed("checkpoint, re-entrant", True)
checkpointed("checkpoint, not re-entrant", False)


# ---------------------------------------------------------------------------------------------- wrappers
@case(WRAPPERS, "DistributedDataParallel", refused="capture-ddp")
def _(rank: int) -> Built:
    ddp = nn.parallel.DistributedDataParallel(linear())
    return Built(step_of(ddp), (batch(rank),), {"": ddp})


@case(WRAPPERS, "DistributedDataParallel with a communication hook, around a known module", refused="capture-ddp")
def _(rank: int) -> Built:
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    layer = linear()
    held = [nn.parallel.DistributedDataParallel(layer)]
    held[0].register_comm_hook(None, fp16_compress_hook)
    return Built(lambda x: step_of(held[0])(x), (batch(rank),), {"": layer})


@case(WRAPPERS, "DistributedDataParallel around a module that is called by itself")
def _(rank: int) -> Built:
    layer = linear()
    layer.held = [nn.parallel.DistributedDataParallel(layer)]
    return program(layer, rank)


@case(WRAPPERS, "FullyShardedDataParallel", refused="capture-fsdp")
def _(rank: int) -> Built:
    from torch.distributed.fsdp import FullyShardedDataParallel

    layer = FullyShardedDataParallel(linear(), device_id=torch.device("cpu"), use_orig_params=True)
    return program(layer, rank)


def sharded(axes: dict[str, int]) -> Any:
    """A layer that is sharded over the last of these axes and replicated over one before it, and summed."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    layer: Any = nn.Linear(3, 4)
    with torch.no_grad():
        layer.weight.copy_(torch.arange(12.0).reshape(4, 3) / 4 - 1)
        layer.bias.copy_(torch.arange(4.0))
    fully_shard(layer, mesh=init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes)))
    layer.set_gradient_divide_factor(1.0)
    layer.set_force_sum_reduction_for_comms(True)
    return layer


@case(WRAPPERS, "fully_shard, with hooks after accumulation", mesh={"dp": RANKS})
def _(rank: int) -> Built:
    layer = sharded({"dp": RANKS})
    layer.weight.register_post_accumulate_grad_hook(doubled)
    return program(layer, rank)


@case(WRAPPERS, "fully_shard, set_all_reduce_hook", mesh={"rep": 2, "dp": 2})
def _(rank: int) -> Built:
    layer = sharded({"rep": 2, "dp": 2})
    layer.set_all_reduce_hook(lambda gradient: gradient.mul_(2))
    return program(layer, rank)


@case(WRAPPERS, "fully_shard, set_custom_all_gather, set_custom_reduce_scatter", mesh={"dp": RANKS})
def _(rank: int) -> Built:
    from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultAllGather, DefaultReduceScatter

    class Gather(DefaultAllGather):
        def __call__(self, output_tensor: Tensor, input_tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            return super().__call__(output_tensor, input_tensor * 2, *args, **kwargs)

    class Scatter(DefaultReduceScatter):
        def __call__(self, output_tensor: Tensor, input_tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            return super().__call__(output_tensor, input_tensor * 3, *args, **kwargs)

    layer = sharded({"dp": RANKS})
    layer.set_custom_all_gather(Gather())
    layer.set_custom_reduce_scatter(Scatter())
    return program(layer, rank)


@case(WRAPPERS, "ZeroRedundancyOptimizer", refused="capture-state")
def _(rank: int) -> Built:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    layer = linear()
    optimizer = ZeroRedundancyOptimizer(layer.parameters(), torch.optim.SGD, lr=0.5)
    return optimized(layer, optimizer, rank)
