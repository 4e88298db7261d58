"""The state that a program closes over: parameters, buffers and optimizer state, as named inputs of its graph.

Inside the trace, modules and optimizers see stand-ins; afterwards they are as they were.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import stateless
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode

from tantamount.capture.torch.hooks import without_step_hooks
from tantamount.capture.torch.problems import said
from tantamount.capture.torch.sources import uncompiled
from tantamount.errors import UserError

__all__ = ["Entry", "State", "collect", "digest"]

_OPTIMIZER = "optimizer:"


def digest(tensor: Tensor) -> str | None:
    """A digest of a tensor's numbers; ``None`` where they are not known (DTensors, fake and meta tensors)."""
    if type(tensor) is not Tensor or tensor.device.type == "meta":
        return None
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    numbers = tensor.detach().cpu().to(torch.float64 if tensor.is_floating_point() else torch.int64)
    return sha256(numbers.contiguous().numpy().tobytes()).hexdigest()


@dataclass(frozen=True)
class Entry:
    """One tensor of the state. ``aliases`` are the other names of the same tensor (tied weights)."""

    name: str
    tensor: Tensor
    trainable: bool
    aliases: tuple[str, ...] = ()

    @property
    def computed(self) -> bool:
        """True if it is a buffer: programs compute its value where they are built, while parameters may be anything."""
        return not isinstance(self.tensor, nn.Parameter) and not self.name.startswith(_OPTIMIZER)


@dataclass(frozen=True)
class State:
    """Modules (by the prefix of their names), optimizers, and the tensors of both in a fixed order."""

    modules: Mapping[str, nn.Module]
    optimizers: Sequence[torch.optim.Optimizer]
    entries: tuple[Entry, ...]

    def names(self) -> dict[int, str]:
        """The name of every tensor of the state by identity."""
        return {id(entry.tensor): entry.name for entry in self.entries}

    @contextmanager
    def replaced(self, tensors: Mapping[str, Tensor]) -> Generator[None]:
        """Modules and optimizers with ``tensors`` (by name) in place of their own."""
        names = self.names()
        places = [
            (prefix, module, {name: names[id(tensor)] for name, tensor in _tensors(module)})
            for prefix, module in self.modules.items()
        ]
        stand_in = {id(entry.tensor): tensors[entry.name] for entry in self.entries}
        with ExitStack() as stack:
            for _, module, own in places:
                put = {name: tensors[entry] for name, entry in own.items()}
                stack.enter_context(stateless._reparametrize_module(module, put))
            for optimizer in self.optimizers:
                stack.enter_context(_swapped(optimizer, stand_in, names))
            handle = register_optimizer_step_pre_hook(self._check_known)
            stack.callback(handle.remove)
            yield
            for prefix, module, own in places:
                _write_back(prefix, module, own, tensors)

    def _check_known(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        """Raise :class:`UserError` for an optimizer whose state is not among the inputs: a graph would not have it."""
        if not any(optimizer is known for known in self.optimizers):
            raise UserError(
                "capture-state", place=f"{type(optimizer).__name__}.step",
                found="a step of an optimizer that the capture does not know",
                needed="all optimizers that the call uses",
                hint='capture(f, args, optimizers=[...]); from build: return f, args, {"optimizers": [...]}',
            )  # fmt: skip


def _write_back(prefix: str, module: nn.Module, own: Mapping[str, str], tensors: Mapping[str, Tensor]) -> None:
    """Write into the stand-ins what the program has put in their place (``self.mean = 0.9 * self.mean + x``).

    Parameters that FSDP has put there are parts of the same ones. Raises :class:`UserError` for anything else that is
    no new value of the same tensor."""
    now = dict(_tensors(module))
    parameters = dict(module.named_parameters(remove_duplicate=False))
    managed = any(type(inner).__name__.startswith("FSDP") for inner in module.modules())
    for name in dict.fromkeys((*own, *now)):
        new, old = now.get(name), tensors[own[name]] if name in own else None
        if new is old or (managed and name in parameters):
            continue
        if old is None or new is None or name in parameters or (new.shape, new.dtype) != (old.shape, old.dtype):
            what = "a parameter" if name in parameters else "a tensor"
            how = "adds" if old is None else "takes away" if new is None else "replaces"
            raise UserError(
                "capture-state", place=f"{prefix}{name}",
                found=f"{what} that the program {how}",
                needed="parameters and buffers that are the same tensors before and after a call",
                hint="write into the tensor: with torch.no_grad(): p.copy_(value); make buffers before the capture",
            )  # fmt: skip
        with torch.no_grad():
            old.copy_(new)


def collect(modules: Mapping[str, nn.Module], optimizers: Sequence[torch.optim.Optimizer]) -> State:
    """The state of modules and optimizers. Tied weights are one entry, named as the module names them first."""
    found: dict[int, tuple[str, Tensor, bool, list[str]]] = {}
    for prefix, module in modules.items():
        for name, tensor in _tensors(module):
            full = prefix + uncompiled(name)
            if id(tensor) in found:
                found[id(tensor)][3].append(full)
            else:
                trainable = tensor.requires_grad
                found[id(tensor)] = (full, tensor, trainable, [])
    names = {key: name for key, (name, *_) in found.items()}
    for k, optimizer in enumerate(optimizers):
        _initialise(optimizer)
        for parameter, state in optimizer.state.items():
            for key, value in state.items():
                if isinstance(value, Tensor) and id(value) not in found:
                    owner = names.get(id(parameter), f"parameter {len(found)}")
                    label = _OPTIMIZER if k == 0 else f"{_OPTIMIZER}{k}:"
                    found[id(value)] = (f"{label}{owner}.{key}", value, False, [])
    entries = tuple(Entry(name, tensor, trainable, tuple(rest)) for name, tensor, trainable, rest in found.values())
    return State(modules, tuple(optimizers), entries)


def _tensors(module: nn.Module) -> list[tuple[str, Tensor]]:
    return [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]


def _initialise(optimizer: torch.optim.Optimizer) -> None:
    """State for an optimizer that has none, so that what is captured is any step and not just the first one.

    One step with gradients of zero and a learning rate of zero leaves parameters as they are."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if optimizer.state:
        return
    rates = [group.get("lr") for group in optimizer.param_groups]
    gradients = [parameter.grad for parameter in parameters]
    try:
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            if "lr" in group:
                group["lr"] = torch.tensor(0.0) if isinstance(rate, Tensor) else 0.0
        compiled = any(group.get("capturable") for group in optimizer.param_groups)
        with without_step_hooks(optimizer), _tensors_for_numbers(compiled):
            optimizer.step()
    except UserError:
        raise
    except Exception as problem:
        raise UserError(
            "capture-state", place=f"optimizer {type(optimizer).__name__}",
            found=f"no state, and a first step with gradients of 0 that fails: {said(problem)}",
            needed="an optimizer whose step() needs no argument, or one that has its state",
            hint="one that calls a closure, as LBFGS does, has no one step that a graph could hold: capture what the "
            "closure computes",
        ) from problem  # fmt: skip
    finally:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            if "lr" in group:
                group["lr"] = rate
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient


class _TensorsForNumbers(TorchFunctionMode):
    """Factors of in-place operators that an optimizer computes from its step count, and that PyTorch takes as numbers
    only: 0-d tensors, as ``torch.compile`` has them."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        factor = kwargs.get("value" if name in ("addcdiv_", "addcmul_") else "alpha")
        if not isinstance(factor, Tensor) or len(args) != (2 if name in ("add_", "sub_") else 3):
            return func(*args, **kwargs)
        if name in ("addcdiv_", "addcmul_"):
            own, one, other = args
            return own.add_((one / other if name == "addcdiv_" else one * other) * factor)
        if name in ("add_", "sub_"):
            own, other = args
            return getattr(own, name)(other * factor)
        return func(*args, **kwargs)


@contextmanager
def _tensors_for_numbers(compiled: bool = True) -> Generator[None]:
    """Optimizers compute with step counts that are tensors: capturable ones insist on CUDA otherwise, others ask for
    numbers."""
    if not compiled:
        yield
        return
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = True
    try:
        with _TensorsForNumbers():
            yield
    finally:
        torch.compiler._is_compiling_flag = before


@contextmanager
def _swapped(
    optimizer: torch.optim.Optimizer, stand_in: Mapping[int, Tensor], names: Mapping[int, str]
) -> Generator[None]:
    """The optimizer over stand-ins, on the path that a trace can follow: one tensor at a time, steps as tensors."""
    if "state" not in vars(optimizer):
        raise UserError(
            "capture-state", place=f"{type(optimizer).__name__}",
            found="an optimizer around another one, whose state it shows as its own",
            needed="torch.optim.Optimizer with a state of its own", hint="capture the step of the inner optimizer",
        )  # fmt: skip
    groups = [dict(group) for group in optimizer.param_groups]
    state = optimizer.state
    new_state: dict[Any, dict[str, Any]] = {}
    for parameter, values in state.items():
        key = stand_in.get(id(parameter), parameter)
        new_state[key] = {k: stand_in.get(id(v), v) if isinstance(v, Tensor) else v for k, v in values.items()}
    step, own_step = optimizer.step, vars(optimizer).get("step")

    def traced_step(*args: Any, **kwargs: Any) -> Any:
        with _tensors_for_numbers():
            return step(*args, **kwargs)

    try:
        for group in optimizer.param_groups:
            group["params"] = [stand_in.get(id(p), p) for p in group["params"]]
            group.update({k: v for k, v in (("capturable", True), ("foreach", False), ("fused", False)) if k in group})
        optimizer.state = type(state)(dict)
        optimizer.state.update(new_state)
        optimizer.step = traced_step
        before = [dict(group) for group in optimizer.param_groups]
        started = {key: dict(values) for key, values in new_state.items()}
        yield
        labels = {id(stand_in[key]): name for key, name in names.items()}
        _check_settings(before, optimizer.param_groups)
        _write_back_state(started, optimizer.state, labels)
    finally:
        del optimizer.step
        if own_step is not None:  # what a scheduler has put there
            optimizer.step = own_step
        optimizer.state = state
        for group, saved in zip(optimizer.param_groups, groups, strict=True):
            group.clear()
            group.update(saved)


def _check_settings(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> None:
    for index, (old, new) in enumerate(zip(before, now, strict=False)):
        changed = [key for key in old.keys() | new.keys() if not _same_setting(old.get(key), new.get(key))]
        if changed or len(before) != len(now):
            raise UserError(
                "capture-state", place=f"optimizer, parameter group {index}",
                found=f"a call that changes {', '.join(sorted(changed)) or 'the groups'}: the next differs",
                needed="settings that a call leaves as they are", hint="call scheduler.step() outside of the capture",
            )  # fmt: skip


def _same_setting(old: Any, new: Any) -> bool:
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True))
    return old is new or (not isinstance(old, Tensor) and not isinstance(new, Tensor) and bool(old == new))


def _write_back_state(
    before: Mapping[Any, Mapping[str, Any]], now: Mapping[Any, Mapping[str, Any]], names: Mapping[int, str]
) -> None:
    """New tensors in place of the old ones are their new values. Raises :class:`UserError` for numbers that a step
    changes, which a graph would have as constants, and for state that only the first step makes."""
    for parameter, values in now.items():
        old = before.get(parameter, {})
        for key in values.keys() | old.keys():
            a, b = old.get(key), values.get(key)
            if isinstance(a, Tensor) and isinstance(b, Tensor) and (a.shape, a.dtype) == (b.shape, b.dtype):
                if a is not b:
                    with torch.no_grad():
                        a.copy_(b)
            elif not _same_setting(a, b):
                place = f"optimizer state {key!r} of {names.get(id(parameter), 'a parameter')}"
                raise UserError(
                    "capture-state", place=place,
                    found="a step that makes it" if key not in old else f"a step that changes {a!r} to {b!r}",
                    needed="tensors that every step writes", hint="state.setdefault('step', torch.tensor(0.0)); "
                    "run a step before the capture, so that what is captured is any step",
                )  # fmt: skip
