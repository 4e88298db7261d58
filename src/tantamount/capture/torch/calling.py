"""One call of a program that is traced: with stand-ins for its tensors, recorded, and its results and gradients."""

# pyright: basic
from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Container, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from tantamount.capture.torch.collectives import Functional
from tantamount.capture.torch.contents import exchanged
from tantamount.capture.torch.counts import Counts
from tantamount.capture.torch.dynamic import Sizes
from tantamount.capture.torch.flexible import as_defined
from tantamount.capture.torch.generators import Draws
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
    """Names and layouts of what the function returned, and the draws of random numbers that have some in common."""

    names: list[str]
    layouts: list[Layout | None]
    shared: list[str] = dataclasses.field(default_factory=list[str])


class Stage:
    """The tensors that every call of a program computes with while it is traced: the program's own objects, which have
    the contents of fake tensors during a call (:mod:`tantamount.capture.torch.contents`). These contents, and the
    hooks that a call has left on them, are kept from call to call: a second call finds what it would find in eager.

    ``fakes`` are the local parts. ``whole`` are the tensors of the program, then the gradients that they have from
    before, all as the objects that a call computes with; ``held`` are the objects that have their true contents
    meanwhile. ``left``: the hooks that the calls so far have registered and left there."""

    def __init__(self, program: Callee, layouts: Sequence[Layout | None], fakes: Sequence[Tensor]) -> None:
        self.program, self.layouts = program, layouts
        self.stand_ins, self.carried = StandIns(), Carried()
        self.left: Mapping[tuple[str, int], Callable[..., Any]] = {}
        self._set: Mapping[tuple[str, int], Callable[..., Any]] | None = None
        self._fakes = list(fakes)
        self._pairs: dict[int, tuple[str, Tensor, Tensor]] = {}  # by the identity of a tensor of the program
        self.whole: list[Tensor] = []
        self.held: list[Tensor] = []
        names = [*program.names, *(f"grad {name}" for name, _ in program.gradients)]
        own = [*program.tensors, *(gradient for _, gradient in program.gradients)]
        for name, tensor, fake, layout in zip(names, own, fakes, layouts, strict=True):
            other = rewrapped(fake, layout)
            first = id(tensor) not in self._pairs  # an argument that is given twice is two inputs
            if first:
                self._pairs[id(tensor)] = name, tensor, other
                self.stand_ins.add(name, other, tensor)
            self.whole.append(tensor if first else other)
            self.held.append(self._pairs[id(tensor)][2])
        self.marks = [set(vars(fake)) for fake in self._fakes]

    @contextmanager
    def contents(self) -> Generator[list[Tensor]]:
        """While this lasts the program's tensors have the contents of fake ones: what it gives are the local parts of
        all tensors, to be called with."""
        with exchanged(list(self._pairs.values())):
            yield [
                whole if layout is None else fake
                for whole, fake, layout in zip(self.whole, self._fakes, self.layouts, strict=True)
            ]

    def enter(self) -> list[Tensor]:
        """The tensors for one more call, without what the call before has left of gradients."""
        for tensor in self.whole:
            without_history(tensor).grad = None
        return self.whole

    def set_hooks(self) -> None:
        """Register the hooks of the program's own tensors, before the first call; later calls find them there."""
        with _disable_current_modes():
            if self._set is None:
                tensors = zip(self.program.names, self.held, self.whole, strict=False)
                self.carried = carry(self.stand_ins, list(tensors))
                self._set = self._registered()
        self.carried.begin()

    def check_hooks(self) -> None:
        """Raise :class:`UserError` for hooks that did not run as they had to, or that the call has taken away."""
        self.carried.check()
        with _disable_current_modes():
            self.left = registered_since(self._set or {}, self._registered())

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
        carriers = given[len(layouts) :]
        count, total = len(state.entries), len(program.tensors)
        whole, held = stage.enter(), stage.held
        marked: list[tuple[Tensor, Tensor, set[str]]] = []
        for k, (entry, tensor) in enumerate(zip(state.entries, whole[:count], strict=True)):
            if entry.trainable:
                tensor.requires_grad_()
                # what isinstance(tensor, nn.Parameter) looks at
                tensor._is_param = isinstance(held[k], nn.Parameter)
            if layouts[k] is None and type(held[k]) in (Tensor, nn.Parameter, FakeTensor):  # marks of a program's own
                own_of_fake = stage.marks[k] | {"_is_param"}
                marked.append((held[k], tensor, own_of_fake))
                _exchange_marks(tensor, own_of_fake, vars(held[k]))
        own = {entry.name: tensor for entry, tensor in zip(state.entries, whole[:count], strict=True)}
        arguments = iter(zip(whole[count:total], held[count:total], strict=True))
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
            draws = stack.enter_context(Draws())
            stack.enter_context(Counts())
            stack.enter_context(Annotate(paths))
            stack.enter_context(Guard(stage.stand_ins))
            stack.enter_context(as_defined())
            with state.replaced(own):
                returned = stage.stand_ins.of(program.function(*args, **kwargs))
                results = _results(returned)
                gradients = _gradients(program, own, filled)
        communication.check_left([*results, *gradients, *zip(program.names, whole, strict=False)])
        stage.check_hooks()
        _check_gradients(program, whole, held)
        for original, tensor, own_of_fake in marked:  # that the call has made on its parameters
            kept = vars(original).keys() & own_of_fake
            _exchange_marks(original, kept, {k: v for k, v in vars(tensor).items() if k not in own_of_fake})
        recorded.shared[:] = draws.shared
        recorded.names[:] = [name for name, _ in (*results, *gradients)]
        parts = [local_part(tensor) for _, tensor in (*results, *gradients)]
        recorded.layouts[:] = [layout for _, layout in parts]
        return [tensor.detach() for tensor, _ in parts]

    return run


def _exchange_marks(tensor: Tensor, kept: Container[str], marks: Mapping[str, Any]) -> None:
    """Give a tensor these attributes in place of its own but those that are to be ``kept``."""
    own = {k: v for k, v in vars(tensor).items() if k in kept}
    vars(tensor).clear()
    vars(tensor).update({**marks, **own})


def _check_gradients(program: Callee, whole: Sequence[Tensor], held: Sequence[Tensor]) -> None:
    """Gradients have gone to the tensors that the call computed with, and to leaves. Raises :class:`UserError`
    otherwise. ``held``: the objects that have the true contents, and the gradients from before the call."""
    before = dict(zip((name for name, _ in program.gradients), held[len(program.names) :], strict=True))
    for name, original, tensor in zip(program.names, held, whole, strict=False):
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


def _results(returned: Any, numbers: bool = True) -> list[tuple[str, Tensor]]:
    """The tensors that a program returned, by their names in its containers, and its numbers, if they are asked for, as
    tensors. Of other objects, such as a cache, the tensors in their attributes. Raises :class:`UserError` for tensors
    in sets, which have no order, and in objects that do not show what they hold, such as iterators."""
    found: list[tuple[str, Tensor]] = []
    for path, leaf in pytree.tree_flatten_with_path(returned)[0]:
        name = path_name(path)
        leaf = leaf.item() if isinstance(leaf, np.generic) else leaf
        if isinstance(leaf, np.ndarray) and numbers:
            leaf = _of_array(leaf, name)
        inside, counted = _content(leaf), numbers
        if isinstance(leaf, Tensor):
            found.append((name or "output", leaf))
        elif isinstance(leaf, (bool, int, float, complex)):
            if numbers:
                found.append((name or "output", _as_tensor(leaf, name)))
        elif inside is None and _has_tensor(leaf):
            inside, counted = _attributes(leaf), False  # whose numbers are its own affair
            if not _has_tensor(inside):
                raise UserError(
                    "capture", place=name or "output", found=f"a tensor in a result of type {type(leaf).__name__}",
                    needed="tensors in lists, tuples, tables or objects",
                    hint="return the tensors themselves, or nothing of it",
                )  # fmt: skip
        if inside is not None:
            found += [(f"{name}.{part}" if name else part, tensor) for part, tensor in _results(inside, counted)]
    return found


def _of_array(array: np.ndarray, name: str) -> Tensor:
    """An array of NumPy that a program returns, which it has computed from nothing that is traced."""
    masked = isinstance(array, np.ma.MaskedArray)  # whose mask would be lost
    try:
        if masked:
            raise TypeError("a masked array")
        return torch.from_numpy(np.array(array))
    except (TypeError, ValueError) as problem:
        raise UserError(
            "capture", place=name or "output",
            found=f"{'a masked array' if masked else 'an array'} of NumPy of type {array.dtype}",
            needed="numbers of a type that PyTorch has", hint="return nothing of it",
        ) from problem  # fmt: skip


def _as_tensor(number: complex, name: str) -> Tensor:
    """A number that a program returns: as much a result as a tensor is."""
    wide = {float: torch.float64, complex: torch.complex128}.get(type(number))
    try:
        return torch.tensor(number, dtype=wide)
    except (RuntimeError, OverflowError, ValueError) as problem:
        raise UserError(
            "capture", place=name or "output", found=f"a whole number of {int(number.real).bit_length()} bits",
            needed="numbers of 64 bits", hint="return nothing of it",
        ) from problem  # fmt: skip


def _content(leaf: object) -> Any:
    """The content of a container that PyTorch does not know, as a list or a table; ``None`` for anything else."""
    if isinstance(leaf, type):
        return None
    if dataclasses.is_dataclass(leaf):
        return {field.name: getattr(leaf, field.name) for field in dataclasses.fields(leaf)}
    if isinstance(leaf, Mapping):
        return dict(leaf)
    if isinstance(leaf, SimpleNamespace):
        return dict(vars(leaf))
    return list(leaf) if isinstance(leaf, (list, tuple)) else None


def _attributes(leaf: object) -> dict[str, Any]:
    """The attributes of an object, in its table and in its slots."""
    slots = [name for kind in type(leaf).__mro__ for name in kind.__dict__.get("__slots__", ())]
    return {name: getattr(leaf, name) for name in slots if hasattr(leaf, name)} | dict(getattr(leaf, "__dict__", {}))


def _has_tensor(leaf: object) -> bool:
    """True for a tensor, and for whatever holds one that no module or function owns."""
    seen: set[int] = set()
    left = [leaf]
    while left:
        one = left.pop()
        if isinstance(one, Tensor):
            return True
        if id(one) not in seen and not isinstance(one, (type, nn.Module, ModuleType, FunctionType)):
            seen.add(id(one))
            left += gc.get_referents(one)
    return False


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
