"""The state of Python that a program reaches and may change: attributes, containers, names of closures and modules.

A graph is what one call computes. A function that counts its calls, or keeps a tensor for the next one, may compute
something else in the next: it is captured only if a second call, from the state that the first one left, records the
same graph and leaves the same state.
"""

# pyright: basic
from __future__ import annotations

import functools
import inspect
import random
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tantamount.capture.torch.sources import is_user_file

__all__ = ["Watched", "held", "reachable", "roots_of", "slots_of", "watch"]

_MOST = 100_000  # objects
_DEEP = 6
_PLAIN = (int, float, complex, str, bytes, type(None))
_OWN_OF_MODULES = {"_parameters", "_buffers", "_modules"}
_DERIVED = {"_flat_weights", "_flat_weight_refs"}  # of recurrent modules: made anew of their parameters by __setattr__


@dataclass(frozen=True)
class Watched:
    """Objects that a program reaches, with their names, and their contents when they were found."""

    contents: tuple[tuple[str, Any, Any], ...]

    def described(self) -> dict[str, Any]:
        """The content of every object now, as values that compare equal if the program cannot tell them apart. Tensors
        are their shapes and types."""
        found: dict[str, Any] = {}
        for name, owner, _ in self.contents:
            for key, value in held(owner):
                found[_path(name, owner, key)] = _description(value, _DEEP)
            found[f"len({name})"] = len(owner) if isinstance(owner, list | dict | set | deque) else 0
        for name, now in _random_numbers():
            found[name] = hash(now)
        return found

    def changed(self, before: Mapping[str, Any]) -> list[str]:
        """The names of what :meth:`described` describes otherwise than ``before``, and of replaced tensors."""
        now = self.described()
        found = [name for name in (*now, *before) if name not in before or name not in now or now[name] != before[name]]
        for name, owner, old in self.contents:
            if isinstance(old, Mapping):
                for key, value in held(owner):
                    if isinstance(value, Tensor) and old.get(key) is not value:
                        found.append(_path(name, owner, key))
        return list(dict.fromkeys(found))

    def restore(self) -> None:
        """Put back what attributes, closures and containers held when they were found."""
        for _, owner, old in self.contents:
            _put_back(owner, old)


def watch(roots: Iterable[tuple[str, Any]]) -> Watched:
    """All state below some named objects."""
    return Watched(tuple((name, owner, _copied(owner)) for name, owner in reachable(roots)))


def reachable(roots: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Objects that have contents, below some named objects, with their names; every one once, and at most 100,000."""
    seen: set[int] = set()
    kept: list[Any] = []
    pending = deque(roots)
    while pending and len(kept) < _MOST:
        name, owner = pending.popleft()
        if id(owner) in seen or not _has_contents(owner):
            continue
        seen.add(id(owner))
        kept.append(owner)
        yield name, owner
        pending.extend((_path(name, owner, key), value) for key, value in held(owner))
        pending.extend((f"{name}.{key}" if name else key, value) for key, value in _beside(owner))


# ------------------------------------------------------------------------------------ kinds of objects
def _has_contents(value: Any) -> bool:
    if isinstance(
        value, list | tuple | dict | set | deque | types.CellType | functools.partial | types.MethodType | nn.Module
    ):
        return True
    if isinstance(value, types.FunctionType):
        return is_user_file(value.__code__.co_filename)
    if isinstance(value, types.GeneratorType):
        return True
    if isinstance(value, type):
        return is_user_file(_file(value))
    if isinstance(value, Tensor):
        return type(value) in (Tensor, nn.Parameter)
    if isinstance(value, torch.optim.Optimizer | types.ModuleType):
        return False
    return is_user_file(_file(type(value))) and (hasattr(value, "__dict__") or bool(slots_of(type(value))))


@functools.cache
def _file(kind: type) -> str:
    module = sys.modules.get(kind.__module__)
    return getattr(module, "__file__", None) or ("" if kind.__module__ == "__main__" else "<")


@functools.cache
def slots_of(kind: type) -> tuple[str, ...]:
    """The attributes that objects of a class have slots for, by the names under which they are found: of private ones
    these have the name of the class in them."""
    found: list[str] = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        names = [slots] if isinstance(slots, str) else list(slots)
        own = base.__name__.lstrip("_")
        found += [
            f"_{own}{name}" if own and name.startswith("__") and not name.endswith("__") else name for name in names
        ]
    return tuple(name for name in found if name not in ("__dict__", "__weakref__"))


def held(owner: Any) -> list[tuple[Any, Any]]:
    """The objects that an object holds, by index, key or name: those that a program may change."""
    if isinstance(owner, list | tuple | deque):
        return list(enumerate(owner))
    if isinstance(owner, dict):
        return list(owner.items())
    if isinstance(owner, set):
        return []
    if isinstance(owner, types.CellType):
        try:
            return [("", owner.cell_contents)]
        except ValueError:
            return []
    if isinstance(owner, types.FunctionType):
        return [*_named_globals(owner), *vars(owner).items()]
    if isinstance(owner, types.GeneratorType):
        frame = owner.gi_frame
        return [] if frame is None else [("at", frame.f_lasti), *frame.f_locals.items()]
    if isinstance(owner, types.MethodType | functools.partial):
        return []
    if isinstance(owner, type):
        return [(k, v) for k, v in vars(owner).items() if not k.startswith("__") and not inspect.isroutine(v)]
    if isinstance(owner, nn.Module):
        own = _OWN_OF_MODULES | _DERIVED if isinstance(owner, nn.RNNBase) else _OWN_OF_MODULES
        return [(k, v) for k, v in vars(owner).items() if k not in own and not k.endswith("_hooks")]
    values = list(vars(owner).items()) if hasattr(owner, "__dict__") else []
    return values + [(name, getattr(owner, name)) for name in slots_of(type(owner)) if hasattr(owner, name)]


def _beside(owner: Any) -> list[tuple[str, Any]]:
    """Other objects that an object leads to, which it does not hold itself."""
    if isinstance(owner, types.FunctionType):
        cells = zip(owner.__code__.co_freevars, owner.__closure__ or (), strict=False)
        defaults = [("defaults", owner.__defaults__), ("defaults", owner.__kwdefaults__)]
        return [*cells, *defaults, ("wrapped", getattr(owner, "__wrapped__", None))]
    if isinstance(owner, types.MethodType):
        return [("", owner.__self__), (owner.__func__.__name__, owner.__func__)]
    if isinstance(owner, functools.partial):
        return [("", owner.func), ("args", owner.args), ("keywords", owner.keywords)]
    if isinstance(owner, nn.Module):
        inside = [(name, module) for name, module in owner._modules.items() if module is not None]
        return [*inside, ("parameters", list(owner._parameters.values())), *_code_of(type(owner))]
    if isinstance(owner, list | tuple | dict | set | deque | types.CellType | type | Tensor | types.GeneratorType):
        return []
    return _code_of(type(owner))


def _code_of(kind: type) -> list[tuple[str, Any]]:
    """The class itself, and the functions of it that users wrote: what they change by name is state, too."""
    if not is_user_file(_file(kind)):
        return []
    functions = [(name, value) for name, value in vars(kind).items() if isinstance(value, types.FunctionType)]
    return [(kind.__name__, kind), *functions]


def _named_globals(function: types.FunctionType) -> list[tuple[str, Any]]:
    """Names of its module that a function's code, or code inside it, uses; and attributes of modules of the user's."""
    names: set[str] = set()
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        names |= set(code.co_names)
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    known = function.__globals__
    # A name that nobody can write, "@pytest_ar", is of who rewrote the code: pytest, whose session it leads to.
    found = [(name, known[name]) for name in sorted(names) if name in known and name.isidentifier()]
    for name, value in list(found):
        if isinstance(value, types.ModuleType) and is_user_file(getattr(value, "__file__", None) or "<"):
            found += [(f"{name}.{part}", vars(value)[part]) for part in sorted(names) if part in vars(value)]
    return [(name, value) for name, value in found if not isinstance(value, types.ModuleType)]


def _path(name: str, owner: Any, key: Any) -> str:
    if isinstance(owner, list | tuple | dict | deque):
        return f"{name}[{key!r}]" if isinstance(key, int | str) else f"{name}[...]"
    return f"{name}.{key}".strip(".") if key != "" else name


# ------------------------------------------------------------------------------ contents, now and then
def _copied(owner: Any) -> Any:
    if isinstance(owner, set):
        return set(owner)
    return dict(held(owner))


def _put_back(owner: Any, old: Any) -> None:
    now = _copied(owner)
    if now.keys() == old.keys() and all(now[k] is old[k] for k in old) if isinstance(old, dict) else now == old:
        return
    if isinstance(owner, list):
        owner[:] = old.values()
    elif isinstance(owner, deque | set):
        owner.clear()
        owner.extend(old.values()) if isinstance(owner, deque) else owner.update(old)
    elif isinstance(owner, dict):
        owner.clear()
        owner.update(old)
    elif isinstance(owner, types.CellType):
        owner.cell_contents = old[""]
    elif isinstance(owner, types.FunctionType):
        for key in now.keys() | old.keys():
            if key in owner.__globals__ and key in old:
                owner.__globals__[key] = old[key]
    elif not isinstance(owner, tuple | types.GeneratorType | types.MethodType | functools.partial):
        for key in now.keys() - old.keys():
            delattr(owner, key)
        for key in old:
            if now.get(key, _ABSENT) is not old[key]:
                setattr(owner, key, old[key])


_ABSENT: Any = object()


def _description(value: Any, depth: int) -> Any:
    if isinstance(value, Tensor):
        return "tensor", tuple(value.shape), str(value.dtype), value.requires_grad
    if isinstance(value, _PLAIN):
        return type(value).__name__, repr(value)
    if isinstance(value, torch.Size | tuple | list | deque) and depth:
        return type(value).__name__, tuple(_description(item, depth - 1) for item in value)
    if isinstance(value, dict) and depth:
        return "dict", tuple(
            (repr(k) if isinstance(k, _PLAIN) else id(k), _description(v, depth - 1)) for k, v in value.items()
        )
    if isinstance(value, set | frozenset):
        return "set", frozenset(repr(item) if isinstance(item, _PLAIN) else id(item) for item in value)
    if isinstance(value, Iterator) and not isinstance(value, types.GeneratorType):
        return "iterator", id(value), repr(value), _length_hint(value)
    return type(value).__qualname__, id(value)


def _length_hint(value: Any) -> int:
    import operator

    return operator.length_hint(value, -1)


def _random_numbers() -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = [("Python's random numbers", random.getstate())]
    numpy: Any = sys.modules.get("numpy.random")
    if numpy is not None:
        kind, keys, *rest = numpy.get_state()
        found.append(("NumPy's random numbers", (kind, keys.tobytes(), *rest)))
    return found


def roots_of(function: Callable[..., Any], modules: Mapping[str, nn.Module]) -> list[tuple[str, Any]]:
    """The objects at which a program's state begins: the function, and the modules that it uses."""
    return [("", function), *((prefix.rstrip("."), module) for prefix, module in modules.items())]
