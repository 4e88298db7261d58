"""One call of a program that is traced: with stand-ins for its tensors, recorded, and its results and gradients."""

# pyright: basic
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from tantamount.capture.torch.collectives import Functional
from tantamount.capture.torch.dynamic import Sizes
from tantamount.capture.torch.flexible import as_defined
from tantamount.capture.torch.hooks import Carried, carry, registered, registered_since
from tantamount.capture.torch.placements import Layout, local_part, rewrapped
from tantamount.capture.torch.sources import Annotate, module_paths
from tantamount.capture.torch.standins import Guard, StandIns
from tantamount.capture.torch.state import State
from tantamount.errors import UserError

__all__ = ["Callee", "Number", "Recorded", "Stage", "path_name", "runner", "without_history"]


@dataclass(frozen=True)
class Number:
    """Stands for an argument that is a symbolic whole number."""

    name: str


@dataclass(frozen=True)
class Callee:
    """A function that is traced, and the tensors that it gets: state first, then the tensors among the arguments."""

    function: Callable[..., Any]
    state: State
    structure: pytree.TreeSpec
    leaves: tuple[Any, ...]  # of args and kwargs; tensors are replaced
    names: tuple[str, ...]  # of all tensors
    tensors: tuple[Tensor, ...]
    gradients: tuple[tuple[str, Tensor], ...]  # that tensors have from before the call, by the names of the tensors


@dataclass
class Recorded:
    """Names and layouts of what the function returned."""

    names: list[str]
    layouts: list[Layout | None]


@dataclass
class Stage:
    """The tensors that every call of a program computes with while it is traced. They stay the same objects, with the
    hooks that a call has left on them: a second call finds what it would find in eager.

    ``left``: the hooks that the calls so far have registered on them and left there."""

    program: Callee
    layouts: Sequence[Layout | None]
    whole: list[Tensor] = field(default_factory=list)
    stand_ins: StandIns = field(default_factory=StandIns)
    carried: Carried = field(default_factory=Carried)
    left: Mapping[tuple[str, int], Callable[..., Any]] = field(default_factory=dict)
    _set: Mapping[tuple[str, int], Callable[..., Any]] | None = None

    def enter(self, flat: Sequence[Tensor]) -> list[Tensor]:
        """The tensors for one more call, without what the call before has left of gradients: ``flat`` are their local
        parts, the same at every call."""
        program = self.program
        if not self.whole:
            self.whole = [rewrapped(tensor, layout) for tensor, layout in zip(flat, self.layouts, strict=True)]
            for name, original, tensor in zip(program.names, program.tensors, self.whole, strict=False):
                self.stand_ins.add(name, original, tensor)
        for tensor in self.whole:
            without_history(tensor).grad = None
        return self.whole

    def set_hooks(self) -> None:
        """Register the hooks of the program's own tensors, before the first call; later calls find them there."""
        with _disable_current_modes():
            if self._set is None:
                tensors = zip(self.program.names, self.program.tensors, self.whole, strict=False)
                self.carried = carry(self.stand_ins, list(tensors))
                self._set = self._registered()
        self.carried.begin()

    def check_hooks(self) -> None:
        """Raise :class:`UserError` for hooks that did not run as they had to, or that the call has taken away."""
        self.carried.check()
        with _disable_current_modes():
            self.left = registered_since(self._set or {}, self._registered(), self.carried.owners)

    def _registered(self) -> dict[tuple[str, int], Callable[..., Any]]:
        return registered(list(zip(self.program.names, self.whole, strict=False)), {}, ())


def without_history(tensor: Tensor) -> Tensor:
    """A tensor that may have been computed in place (``x.mul_(weight)``), as a leaf."""
    return tensor if tensor.is_leaf else tensor.detach_()


def runner(stage: Stage, recorded: Recorded, sizes: Sizes | None) -> Callable[..., Any]:
    """A function of the local parts of all tensors (and of what carries symbolic sizes) that calls the program once
    with stand-ins, and returns the local parts of its results and of the gradients that it leaves; ``recorded`` gets
    their names and layouts. It raises :class:`UserError` for what a graph of the call would not show."""
    program, layouts = stage.program, stage.layouts

    def run(*given: Tensor) -> list[Tensor]:
        state = program.state
        flat, carriers = given[: len(layouts)], given[len(layouts) :]
        count, total = len(state.entries), len(program.tensors)
        whole = stage.enter(flat)
        fakes_own: dict[str, set[str]] = {}
        for entry, tensor, layout in zip(state.entries, whole[:count], layouts[:count], strict=True):
            if entry.trainable:
                tensor.requires_grad_()
                # what isinstance(tensor, nn.Parameter) looks at
                tensor._is_param = isinstance(entry.tensor, nn.Parameter)
            if layout is None and type(entry.tensor) in (Tensor, nn.Parameter, FakeTensor):  # marks of a program's own
                fakes_own[entry.name] = set(vars(tensor))
                vars(tensor).update({k: v for k, v in vars(entry.tensor).items() if k not in vars(tensor)})
        own = {entry.name: tensor for entry, tensor in zip(state.entries, whole[:count], strict=True)}
        arguments = iter(zip(whole[count:total], program.tensors[count:], strict=True))
        filled: list[Any] = []
        for leaf in program.leaves:
            if isinstance(leaf, Tensor):
                tensor, original = next(arguments)
                filled.append(tensor.requires_grad_() if original.requires_grad else tensor)
            elif isinstance(leaf, Number) and sizes is not None:
                filled.append(sizes.number(leaf.name, carriers))
            else:
                filled.append(leaf)
        args, kwargs = pytree.tree_unflatten(filled, program.structure)
        by_name = dict(zip(program.names, whole, strict=False))
        for (name, _), gradient in zip(program.gradients, whole[total:], strict=True):
            by_name[name].grad = gradient
        stage.set_hooks()
        with ExitStack() as stack:
            paths = stack.enter_context(module_paths(state.modules))
            stack.enter_context(stage.stand_ins.everywhere())
            communication = stack.enter_context(Functional())
            stack.enter_context(Annotate(paths))
            stack.enter_context(Guard(stage.stand_ins))
            stack.enter_context(as_defined())
            with state.replaced(own):
                returned = stage.stand_ins.of(program.function(*args, **kwargs))
                results = _results(returned)
                gradients = _gradients(program, own, filled)
        communication.check_left([*results, *gradients, *zip(program.names, whole, strict=False)])
        stage.check_hooks()
        _check_gradients(program, whole)
        for entry in state.entries:  # marks that the call has made on its parameters
            if entry.name in fakes_own:
                marks = {k: v for k, v in vars(own[entry.name]).items() if k not in fakes_own[entry.name]}
                vars(entry.tensor).update(marks)
        recorded.names[:] = [name for name, _ in (*results, *gradients)]
        parts = [local_part(tensor) for _, tensor in (*results, *gradients)]
        recorded.layouts[:] = [layout for _, layout in parts]
        return [tensor.detach() for tensor, _ in parts]

    return run


def _check_gradients(program: Callee, whole: Sequence[Tensor]) -> None:
    """Gradients have gone to stand-ins, and to leaves. Raises :class:`UserError` otherwise."""
    before = dict(program.gradients)
    for name, original, tensor in zip(program.names, program.tensors, whole, strict=False):
        if not original.is_leaf and tensor.grad is not None:
            raise UserError(
                "capture-gradient", place=name,
                found="an argument that was itself computed, and a backward pass through it",
                needed="an argument that nothing was differentiated for",
                hint="x.detach().requires_grad_(), or compute it inside of what is captured",
            )  # fmt: skip
        if original.is_leaf and original.grad is not before.get(name):
            original.grad = before.get(name)
            raise UserError(
                "capture-gradient", place=name, found="a backward pass that goes past the stand-in of it",
                needed="a parameter that the program reaches by functions of PyTorch, or through its module",
            )  # fmt: skip


def _results(returned: Any) -> list[tuple[str, Tensor]]:
    found, _ = pytree.tree_flatten_with_path(_as_table(returned))
    tensors = [(path, leaf) for path, leaf in found if isinstance(leaf, Tensor)]
    return [(path_name(path) or "output", leaf) for path, leaf in tensors]


def _as_table(returned: Any) -> Any:
    """A dataclass that PyTorch does not know as a container, as the table of its fields."""
    known = type(returned) in pytree.SUPPORTED_NODES
    if known or isinstance(returned, type) or not dataclasses.is_dataclass(returned):
        return returned
    return {field.name: _as_table(getattr(returned, field.name)) for field in dataclasses.fields(returned)}


def _gradients(program: Callee, own: Mapping[str, Tensor], filled: Sequence[Any]) -> list[tuple[str, Tensor]]:
    """The tensors that the run left in ``.grad``; for state that the program itself replaced (FSDP), of what stands
    there now."""
    out: list[tuple[str, Tensor]] = []
    for entry in program.state.entries:
        tensor = _current(program.state, entry.name)
        gradient = (own[entry.name] if tensor is None else tensor).grad
        gradient = own[entry.name].grad if gradient is None else gradient
        if gradient is not None:
            out.append((f"grad {entry.name}", gradient))
    names = program.names[len(program.state.entries) :]
    tensors = [leaf for leaf in filled if isinstance(leaf, Tensor)]
    for name, leaf in zip(names, tensors, strict=True):
        if leaf.grad is not None:
            out.append((f"grad {name}", leaf.grad))
    return out


def _current(state: State, name: str) -> Tensor | None:
    for prefix, module in state.modules.items():
        if name.startswith(prefix):
            try:
                return module.get_parameter(name.removeprefix(prefix))
            except AttributeError:
                continue
    return None


def path_name(path: tuple[Any, ...]) -> str:
    """``batch.ids`` or ``0.loss`` for a path into nested containers."""
    parts: list[str] = []
    for key in path:
        for attribute in ("key", "name", "idx"):
            if hasattr(key, attribute):
                parts.append(str(getattr(key, attribute)))
                break
        else:
            parts.append(str(key))
    return ".".join(parts)
