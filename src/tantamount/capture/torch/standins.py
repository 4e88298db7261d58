"""Stand-ins: what a trace computes with, in place of tensors that hold the numbers of a program's state and arguments.

The objects that a program knows have the contents of fake tensors while it is traced (``contents``), and are what it
computes with, however it reaches them. PyTorch itself knows tensors by their memory, not by their objects: a node that
accumulates gradients, made before the trace, leads to an object that has the numbers now. Whatever is done with that
one is done with the program's own object: the stand-in of it.
"""

# pyright: basic
from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._python_dispatch import TorchDispatchMode

from tantamount.capture.torch.addresses import ADDRESSES, HISTORY, VIEWS, of_storages, refused_address, refused_history
from tantamount.capture.torch.collectives import with_factors
from tantamount.capture.torch.flexible import CHECKED
from tantamount.capture.torch.packed import PACKED
from tantamount.capture.torch.placements import local_part
from tantamount.capture.torch.problems import refused_ddp, unknown_parameter
from tantamount.capture.torch.sources import user_frame, user_line
from tantamount.errors import UserError

__all__ = ["Guard", "StandIns"]


class StandIns(TorchFunctionMode):
    """Every function of PyTorch, while this mode is on, gets the stand-ins of the tensors that it is called with."""

    def __init__(self) -> None:
        super().__init__()
        self._of: dict[int, Any] = {}  # by the identity of an original: its stand-in
        self._names: dict[int, str] = {}
        self._memory: dict[int, str] = {}  # the names of the tensors that lie there
        self._computed: dict[int, str] = {}  # the names of stand-ins of what is no leaf, by their identity
        self._views: dict[int, str] = {}  # and of what is a view
        self._kept: list[Any] = []  # identities stay those of these objects

    def add(self, name: str, original: Tensor, stand_in: Tensor) -> None:
        """From now on ``stand_in`` stands for ``original``, a tensor that is called ``name``: before the two exchange
        their contents."""
        self._of[id(original)], self._names[id(original)] = stand_in, name
        self._kept += [original, stand_in]
        if not stand_in.is_leaf:  # contents are not exchanged yet
            self._computed[id(stand_in)] = name
        if stand_in._is_view():
            self._views[id(stand_in)] = name
        memory = _memory(stand_in)
        if memory is not None:
            self._memory.setdefault(memory, name)

    def name_of_memory(self, value: Tensor) -> str | None:
        """The name of a tensor of the program that shares its memory with ``value``; ``None`` if there is none."""
        return self._names.get(id(value)) or self._memory.get(_memory(value) or 0)

    def add_nodes(self, original: Any, stand_in: Any) -> None:
        """From now on a node of the autograd graph (where gradients are accumulated) stands for another."""
        self._of[id(original)] = stand_in
        self._kept += [original, stand_in]

    def of(self, value: Any) -> Any:
        """A value (tensors, edges, and containers of them) with stand-ins in place of originals."""
        return _replaced(value, self._of)

    def on(self) -> Any:
        """A context in which the mode is on: PyTorch turns it off while it runs what the mode was asked for."""
        return nullcontext() if any(mode is self for mode in _get_current_function_mode_stack()) else self

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = self.of(tuple(args)), self.of(kwargs or {})
        if func in ADDRESSES and user_frame(sys._getframe(1)):
            raise refused_address(ADDRESSES[func])
        if func in HISTORY and id(args[0]) in self._computed and user_frame(sys._getframe(1)):
            raise refused_history(HISTORY[func], self._computed[id(args[0])])
        if func in VIEWS and id(args[0]) in self._views and user_frame(sys._getframe(1)):
            raise refused_history(VIEWS[func], self._views[id(args[0])])
        if func in CHECKED:
            return CHECKED[func](*args, **kwargs)
        if func in PACKED:
            return PACKED[func](*args, **kwargs)
        if func == _SET_DATA and not _within_fsdp():
            return _rebind(*args)
        return func(*args, **kwargs)

    @contextmanager
    def everywhere(self) -> Generator[None]:
        """While this lasts the mode is on, in backward passes and the hooks that they run, too; what changes tensors
        without any operator is refused."""
        from torch import autograd

        run, will_execute = autograd.graph._engine_run_backward, torch._C._will_engine_execute_node

        def traced_run(*args: Any, **kwargs: Any) -> Any:
            with self.on():
                return run(*self.of(args), **self.of(kwargs))

        def traced_will_execute(node: Any) -> bool:
            return will_execute(self.of(node))

        with _patched(
            (autograd.graph, "_engine_run_backward", traced_run),
            (autograd, "_engine_run_backward", traced_run),
            (torch._C, "_will_engine_execute_node", traced_will_execute),
            *((owner, name, _refusal(label, hint)) for owner, name, label, hint in _unseen()),
            *_reducing(),
            *of_storages(),
        ), self:  # fmt: skip
            yield


def _replaced(value: Any, table: dict[int, Any]) -> Any:
    found = table.get(id(value))
    if found is not None:
        return found
    kind = type(value)
    if kind is list or kind is tuple:
        items = [_replaced(item, table) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else kind(items)
    if kind is dict:
        items = {key: _replaced(item, table) for key, item in value.items()}
        return value if all(items[key] is value[key] for key in value) else items
    if kind is GradientEdge and id(value.node) in table:
        return get_gradient_edge(_accumulates(table[id(value.node)]))
    return value


def _memory(tensor: Tensor) -> int | None:
    """A number that two tensors have in common if their memory is the same; ``None`` for one that has none."""
    try:
        return local_part(tensor)[0].untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):
        return None


def _accumulates(node: Any) -> Tensor:
    """The leaf whose gradient a node accumulates."""
    return node.variable


_SET_DATA = Tensor.data.__set__  # pyright: ignore[reportAttributeAccessIssue]


def _within_fsdp() -> bool:
    frame = sys._getframe(2)
    while frame is not None and "/torch/distributed/fsdp/" not in frame.f_code.co_filename:
        if user_frame(frame):
            return False
        frame = frame.f_back
    return frame is not None


def _rebind(tensor: Tensor, value: Tensor) -> None:
    """``tensor.data = value`` as an operator that a trace sees: from now on they share their memory."""
    if tensor.shape != value.shape or tensor.dtype != value.dtype:
        raise UserError(
            "capture-state", place="tensor.data = ...",
            found=f"{_type(value)} in place of {_type(tensor)}", needed="a tensor of the same shape and dtype",
        )  # fmt: skip
    if _is_same_memory(tensor, value):
        return  # what was saved for a backward pass is still what it was
    with torch.no_grad():
        rebound: Any = tensor  # PyTorch's types know storages only
        rebound.set_(value.detach())


def _is_same_memory(a: Tensor, b: Tensor) -> bool:
    """True if two tensors of one shape and dtype have their numbers at the same places of one memory."""
    if type(a) is not type(b) and not isinstance(a, nn.Parameter):
        return False
    found = _memory(a)
    return found is not None and found == _memory(b) and _places(a) == _places(b)


def _places(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.storage_offset(), tensor.stride(), tensor.is_conj(), tensor.is_neg()


def _type(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


# ------------------------------------------------------------------------------- what no mode is asked for
def _unseen() -> list[tuple[Any, str, str, str]]:
    """Functions that change tensors, or reduce gradients, without an operator that a trace could record."""
    ddp = nn.parallel.DistributedDataParallel
    memory = "write to the tensor itself: with torch.no_grad(): p.copy_(value)"
    found: list[tuple[Any, str, str, str]] = [
        (torch._C, "_swap_tensor_impl", "swap_tensors", memory),
        (torch.UntypedStorage, "copy_", "UntypedStorage.copy_", memory),
        (torch.UntypedStorage, "fill_", "UntypedStorage.fill_", memory),
        (torch.UntypedStorage, "__setitem__", "UntypedStorage.__setitem__", memory),
        (torch.TypedStorage, "copy_", "TypedStorage.copy_", memory),
        (torch.TypedStorage, "fill_", "TypedStorage.fill_", memory),
        (torch.TypedStorage, "__setitem__", "TypedStorage.__setitem__", memory),
    ]
    if dist.is_available():
        from torch._C._distributed_c10d import FakeWork, PythonCallbackWork, Work
        from torch.distributed import distributed_c10d
        from torch.distributed.fsdp import FullyShardedDataParallel as Fsdp

        found.append((ddp, "_pre_forward", "DistributedDataParallel", ""))
        found.append((Fsdp, "forward", "FullyShardedDataParallel", ""))
        works = ("get_future", "get_future_result", "is_completed", "result")
        for kind in (Work, FakeWork, PythonCallbackWork):
            found += [(kind, name, f"Work.{name}", "work.wait()") for name in works]
        for name in ("_object_to_tensor", "_tensor_to_object"):
            found.append(
                (
                    distributed_c10d,
                    name,
                    "a collective of Python objects",
                    "capture_ranks exchanges those of dist.NAME(...)",
                )
            )
    return found


def _reducing() -> list[tuple[Any, str, Any]]:
    """Functions of ``torch.distributed`` that reduce, which the dispatcher does not tell the factors of reductions."""
    if not dist.is_available():
        return []
    from torch.distributed import distributed_c10d

    found: list[tuple[Any, str, Any]] = []
    for name, function in vars(distributed_c10d).items():
        if inspect.isfunction(function) and "op" in inspect.signature(function).parameters:
            with_own = with_factors(function)
            found += [(owner, name, with_own) for owner in (dist, distributed_c10d) if name in vars(owner)]
    return found


_COMMUNICATION = ("Work.", "a collective of Python objects")


def _refusal(label: str, hint: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        if label == "DistributedDataParallel":
            raise refused_ddp(label)
        if label == "FullyShardedDataParallel":
            raise UserError(
                "capture-fsdp", place=label, found="the older FSDP, whose hooks move parameters between flat tensors",
                needed="fully_shard, which is captured as it is",
            )  # fmt: skip
        if label.startswith(_COMMUNICATION):
            raise UserError(
                "capture-collective", place=label, found="what only running ranks can say",
                needed="tensors, and work that is waited for", hint=hint,
            )  # fmt: skip
        raise UserError(
            "capture-state", place=label, found="a change of memory that is no operator of PyTorch",
            needed="operators", hint=hint,
        )  # fmt: skip

    return refuse


@contextmanager
def _patched(*replacements: tuple[Any, str, Any]) -> Generator[None]:
    before = [(owner, name, owner.__dict__.get(name, _ABSENT)) for owner, name, _ in replacements]
    try:
        for owner, name, value in replacements:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


_ABSENT: Any = object()


# ------------------------------------------------------------------------------------- operators
class Guard(TorchDispatchMode):
    """Refuses operators that would change what the program does without a trace in its graph: those that compute with
    an original, because no function of PyTorch was called with it, and those that write to a tensor that was there
    before and is neither state nor argument. Collectives get the stand-ins of their tensors.

    Batch normalisation in training is traced as the operator that returns the new running statistics, and their
    copies into the old ones."""

    def __init__(self, stand_ins: StandIns) -> None:
        super().__init__()
        self._stand_ins = stand_ins

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        collective = getattr(func, "namespace", "") in ("c10d", "fsdp")
        if collective or func is torch.ops.aten.set_.source_Tensor:  # no function of PyTorch tells modes of these
            args = self._stand_ins.of(tuple(args))
        for value in _tensors((args, kwargs)):
            name = self._stand_ins.name_of_memory(value) if _was_there(value) else None
            if name is not None:
                raise UserError(
                    "capture-state", place=user_line() or str(func),
                    found=f"another tensor {_type(value)} with the memory of {name}, made before the call",
                    needed="the tensor itself, or a view that the call makes of it",
                    hint="a tensor that a function closes over is a constant, which no change of the other reaches",
                )  # fmt: skip
            if _was_there(value) and (value.requires_grad or isinstance(value, nn.Parameter)):
                raise unknown_parameter(value)
        for value in _written(func, args, kwargs, collective):
            if _was_there(value):
                raise UserError(
                    "capture-state", place=str(func),
                    found=f"a write to a tensor {_type(value)} that was there before and is neither state nor argument",
                    needed="a buffer of a module, or an argument of the function",
                    hint='module.register_buffer("name", tensor); a tensor that a function closes over is a constant',
                )  # fmt: skip
        if func is torch.ops.aten.native_batch_norm.default and args[5] and args[3] is not None:
            *results, mean, variance = torch.ops.aten._native_batch_norm_legit_functional.default(*args, **kwargs)
            args[3].copy_(mean)
            args[4].copy_(variance)
            return tuple(results)
        return func(*args, **kwargs)


def _was_there(value: Tensor) -> bool:
    """True if a tensor was there before the trace: one that holds numbers."""
    return type(local_part(value)[0]) in (Tensor, nn.Parameter)


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], collective: bool) -> Iterable[Tensor]:
    if collective:
        reads = func._schema.name in ("c10d::send", "c10d::barrier")
        return () if reads else _tensors(args[:1])
    found: list[Tensor] = []
    given = dict(zip((parameter.name for parameter in func._schema.arguments), args, strict=False)) | dict(kwargs)
    for parameter in func._schema.arguments:
        if parameter.alias_info is not None and parameter.alias_info.is_write:
            found += _tensors(given.get(parameter.name))
    return found


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _tensors(item)]
    return []
