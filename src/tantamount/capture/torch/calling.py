"""One call of a program that is traced: with stand-ins for its tensors, recorded, and its results and gradients."""

# pyright: basic
from __future__ import annotations

import dataclasses
import gc
from collections import deque
from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.attention.flex_attention import BlockMask
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
from tantamount.capture.torch.python_state import slots_of
from tantamount.capture.torch.sources import Annotate, module_paths
from tantamount.capture.torch.standins import Guard, StandIns
from tantamount.capture.torch.state import State
from tantamount.errors import UserError

__all__ = [
    "Callee",
    "Number",
    "Recorded",
    "Stage",
    "check_arguments",
    "path_name",
    "runner",
    "tensors_of_argument",
    "without_history",
]


_RESULT, _ARGUMENT = "a result", "an argument"
_MODULES = (type, nn.Module, ModuleType, FunctionType)
# what is not looked into: tensors there have names of their own, or are constants (blocks, of a mask's function)
_CLOSED: Mapping[str, tuple[type, ...]] = {
    _RESULT: _MODULES,
    _ARGUMENT: (*_MODULES, torch.optim.Optimizer, BlockMask),
}


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
    names: tuple[str, ...]  # of all tensors: of the state, of arguments, and of what is inside of other arguments
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
        own_modules = {id(one) for module in state.modules.values() for one in module.modules()}
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
        inside = [tensor.requires_grad_() if original.requires_grad else tensor for tensor, original in arguments]
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
                results = _results(returned, own_modules)
                _check_all(returned, results)
                gradients = _gradients(program, own, [*filled, *inside])
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


def tensors_of_argument(argument: Any) -> list[tuple[str, Tensor]]:
    """The tensors in an argument that is none and no container of PyTorch's, by their names in it; without those of
    modules and optimizers, whose state has names of its own, and of functions. Raises :class:`UserError` as results
    do."""
    return _results(argument, None, False, _ARGUMENT)


def _results(
    returned: Any, own: Container[int] | None, numbers: bool = True, what: str = _RESULT
) -> list[tuple[str, Tensor]]:
    """The tensors that a program returned, by their names in its containers, and its numbers, if they are asked for, as
    tensors. Of other objects, such as a cache, the tensors in their attributes. ``own``: the identities of the modules
    whose state is known (``None``: all that modules and functions have is). Raises :class:`UserError` for tensors in
    sets, which have no order, in keys, and in objects that do not show what they hold, such as iterators."""
    found: list[tuple[str, Tensor]] = []
    for path, leaf in pytree.tree_flatten_with_path(returned)[0]:
        name = path_name(path)
        if any(isinstance(getattr(key, "key", None), Tensor) for key in path):
            raise _not_shown(name, "a tensor as a key of a table", what)
        leaf = leaf.item() if isinstance(leaf, np.generic) else leaf
        inside, counted = _content(leaf), numbers
        if isinstance(leaf, Tensor):
            found.append((name or "output", leaf))
        elif isinstance(leaf, _NUMBERS) or (isinstance(leaf, np.ndarray) and leaf.dtype.kind != "O"):
            if numbers:
                found.append((name or "output", _as_tensor(leaf, name)))
        elif inside is None and (_hides_tensor(leaf, own) or _has_tensor(leaf, what)):
            inside, counted = {} if _hides_tensor(leaf, own) else _attributes(leaf), False  # whose numbers are its own
            if not _has_tensor(inside, what):
                raise _not_shown(name, f"a tensor in {what} of type {type(leaf).__name__}", what)
        if inside is None:
            continue
        there = _results(inside, own, counted, what)
        if counted is numbers and _content(leaf) is not None:  # what a container has beside its content
            known = {id(tensor) for _, tensor in there}
            beside = {key: value for key, value in _attributes(leaf).items() if _has_tensor(value, what)}
            there += [one for one in _results(beside, own, False, what) if id(one[1]) not in known]
        found += [(f"{name}.{part}" if name else part, tensor) for part, tensor in there]
    return found


_NUMBERS = (bool, int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool)


def _not_shown(name: str, found: str, what: str) -> UserError:
    place, do = ("output", "return the tensors themselves, or nothing of it") if what == _RESULT else (
        "args", "pass the tensors themselves")  # fmt: skip
    return UserError(
        "capture", place=name or place, found=found, needed="tensors in lists, tuples, tables or objects", hint=do
    )


def _hides_tensor(leaf: object, own: Container[int] | None) -> bool:
    """True for a module that has tensors and is none of a program's own, and for a function whose closure has some."""
    if own is None:
        return False
    if isinstance(leaf, nn.Module):
        return id(leaf) not in own and _has_tensor(vars(leaf))
    return isinstance(leaf, FunctionType) and _has_tensor([*(leaf.__closure__ or ())])


def _as_tensor(number: Any, name: str) -> Tensor:
    """A number that a program returns, or an array of them: as much a result as a tensor is."""
    symbolic = {torch.SymInt: torch.int64, torch.SymFloat: torch.float64}
    if type(number) in symbolic:
        return torch.full((), number, dtype=symbolic[type(number)])
    wide = {float: torch.float64, complex: torch.complex128}.get(type(number))
    try:
        if isinstance(number, (torch.SymBool, np.ma.MaskedArray)):  # whose mask would be lost
            raise TypeError
        return torch.tensor(number, dtype=wide)
    except (RuntimeError, OverflowError, ValueError, TypeError) as problem:
        if isinstance(number, torch.SymBool):
            found, needed = "a condition on sizes that are symbols", "numbers and tensors"
        elif isinstance(number, np.ndarray):
            kind = "a masked array" if isinstance(number, np.ma.MaskedArray) else "an array"
            found, needed = f"{kind} of NumPy of type {number.dtype}", "types that tensors have"
        else:
            found, needed = f"a whole number of {int(number.real).bit_length()} bits", "numbers of 64 bits"
        raise UserError(
            "capture", place=name or "output", found=found, needed=needed, hint="return nothing of it"
        ) from problem


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
    if isinstance(leaf, np.ndarray):
        return leaf.tolist() if leaf.dtype.kind == "O" else None
    if isinstance(leaf, (set, frozenset)) and all(isinstance(item, (int, float)) for item in leaf):
        return sorted(leaf)
    return list(leaf) if isinstance(leaf, (list, tuple, range, deque)) else None


def _attributes(leaf: object) -> dict[str, Any]:
    """The attributes of an object, in its table and in its slots."""
    slots = {name: getattr(leaf, name) for name in slots_of(type(leaf)) if hasattr(leaf, name)}
    return slots | dict(getattr(leaf, "__dict__", {}))


def _has_tensor(leaf: object, what: str = _RESULT) -> bool:
    """True for a tensor, and for whatever holds one that no module or function owns."""
    return next(_tensors(leaf, what), None) is not None


def _tensors(leaf: object, what: str = _RESULT) -> Iterator[Tensor]:
    """The tensors that an object is or holds, but those that a module or function owns."""
    seen: set[int] = set()
    left = [leaf]
    while left:
        one = left.pop()
        if isinstance(one, Tensor):
            yield one
        elif id(one) not in seen and not isinstance(one, _CLOSED[what]) and not _of_groups(one):
            seen.add(id(one))
            left += gc.get_referents(one)


def _of_groups(one: object) -> bool:
    """True for process groups, device meshes and the like."""
    return type(one).__module__.startswith("torch.distributed.") or type(one).__module__ == "torch._C._distributed_c10d"


def _check_all(returned: object, results: Sequence[tuple[str, Tensor]]) -> None:
    """Raise :class:`UserError` for a tensor that a program returns in something that shows others alone, such as a
    named tuple with attributes beside its fields."""
    known = {id(tensor) for _, tensor in results}
    if any(id(tensor) not in known for tensor in _tensors(returned)):
        raise _not_shown("", f"a tensor beside what a result of type {type(returned).__name__} shows", _RESULT)


def check_arguments(args: object, known: Container[int]) -> None:
    """Raise :class:`UserError` for a tensor in the arguments that is none of those ``known``, by their identity."""
    if any(id(tensor) not in known for tensor in _tensors(args, _ARGUMENT)):
        raise _not_shown("", "a tensor beside what an argument shows", _ARGUMENT)


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
