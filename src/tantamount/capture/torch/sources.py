"""The origin of a node: the user's line of code and the module path, for forward and backward nodes."""

# pyright: basic
from __future__ import annotations

import functools
import inspect
import linecache
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.autograd import _get_sequence_nr as _next_sequence_number  # pyright: ignore[reportPrivateImportUsage]
from torch.fx import traceback
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = [
    "Annotate",
    "defined_at",
    "is_user_file",
    "module_paths",
    "shown_file",
    "stated_line",
    "uncompiled",
    "user_frame",
    "user_line",
]

_SKIPPED = (str(Path(torch.__file__).parent), str(Path(__file__).parents[2]), "<")
_MODELS = Path(__file__).parent / "llama"  # code of ours that is captured
_ENGINE = "_engine_run_backward"  # PyTorch's function that runs all of a backward pass
_STANDARD = str(Path(linecache.__file__).parent)
# files of libraries that pass calls on, and say nothing about where in a model one is
_PLUMBING = (
    "/typing_extensions.py", "/vllm/_custom_ops.py", "/vllm/ir/op.py", "/vllm/model_executor/custom_op.py",
    "/vllm/model_executor/layers/utils.py", "/vllm/distributed/parallel_state.py",
    "/vllm/distributed/communication_op.py", "/vllm/distributed/device_communicators/cpu_communicator.py",
)  # fmt: skip


class _Paths:
    """The modules whose forward is running, innermost last."""

    def __init__(self) -> None:
        self.stack: list[str] = []


def uncompiled(name: str) -> str:
    """A name in a module without the components that ``torch.compile`` puts around what it wraps."""
    return ".".join(part for part in name.split(".") if part != "_orig_mod")


@contextmanager
def module_paths(modules: Mapping[str, nn.Module]) -> Generator[_Paths]:
    """Keep track of the module whose forward is running, its hooks included. No hook of ours does so: a program may ask
    its modules for theirs."""
    paths = _Paths()
    known = {
        id(module): (prefix + uncompiled(name)).rstrip(".")
        for prefix, root in modules.items()
        for name, module in root.named_modules()
    }
    call = nn.Module.__call__

    def tracked(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        path = known.get(id(self))
        if path is None:
            return call(self, *args, **kwargs)
        paths.stack.append(path)
        try:
            return call(self, *args, **kwargs)
        finally:
            paths.stack.pop()

    nn.Module.__call__ = tracked
    try:
        yield paths
    finally:
        nn.Module.__call__ = call


class Annotate(TorchDispatchMode):
    """Notes the source line and the module of every operator that passes, for the tracer below it to pick up.

    A backward operator has those of the forward operator that made its autograd node (by sequence number); where it is
    Python that runs inside backward (autograd functions, hooks of tensors), its own line."""

    def __init__(self, paths: _Paths) -> None:
        super().__init__()
        self.paths = paths
        self._forward: dict[int, tuple[str, str]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        where = self._here()
        meta: dict[str, Any] = traceback.current_meta
        before = {key: meta.get(key) for key in ("stack_trace", "custom")}
        meta["stack_trace"], meta["custom"] = where[0], {"module": where[1]}
        try:
            return func(*args, **(kwargs or {}))
        finally:
            for key, value in before.items():
                if value is None:
                    meta.pop(key, None)
                else:
                    meta[key] = value

    def _here(self) -> tuple[str, str]:
        node = torch._C._current_autograd_node()
        if node is not None:
            known = self._forward.get(node._sequence_nr())
            ran = _user_line(up_to=_ENGINE)  # Python of an autograd function or of a hook
            if known is not None:
                return ran or known[0], f"{known[1]} backward".strip()
        found = _user_line(), self.paths.stack[-1] if self.paths.stack else ""
        # the operator's autograd node, if it has one, was made just before; later operators may have none of their own
        self._forward.setdefault(_next_sequence_number() - 1, found)
        return found


@functools.lru_cache(maxsize=4096)  # every operator that is recorded asks for a dozen frames
def is_user_file(name: str) -> bool:
    """True if a file is neither PyTorch's nor ours (but for our models) nor of the standard library, nor plumbing."""
    if name.startswith(str(_MODELS)):
        return not name.endswith("/plan.py")
    if name.endswith(_PLUMBING):
        return False
    return not name.startswith(_SKIPPED) and (not name.startswith(_STANDARD) or "site-packages" in name)


def user_frame(frame: FrameType) -> bool:
    """True if a frame runs code of :func:`is_user_file`."""
    return is_user_file(frame.f_code.co_filename)


def defined_at(function: Any) -> str:
    """``name (file:line)`` of a function, of what a partial calls, of a callable object's class; of the user's function
    where PyTorch has wrapped it."""
    inner = function
    for _ in range(8):
        if isinstance(inner, functools.partial):
            inner = inner.func
        inner = inspect.unwrap(getattr(inner, "__func__", inner))
        code = getattr(inner, "__code__", None)
        if code is None or is_user_file(code.co_filename):
            break
        held = [cell.cell_contents for cell in inner.__closure__ or () if _callable_cell(cell)]
        if not held:
            break
        inner = held[0]
    code = getattr(inner, "__code__", None) or getattr(vars(type(inner)).get("__call__"), "__code__", None)
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    return f"{name} ({shown_file(code.co_filename)}:{code.co_firstlineno})" if code is not None else name


def _callable_cell(cell: Any) -> bool:
    try:
        return inspect.isroutine(cell.cell_contents) or isinstance(cell.cell_contents, functools.partial)
    except ValueError:  # empty
        return False


def shown_file(name: str) -> str:
    """A file as a person in this folder would call it: relative, if it is below the folder. Our models are called as
    they are imported."""
    if name.startswith(str(_MODELS)):
        return str(Path(name).relative_to(_MODELS.parents[3]))
    try:
        return str(Path(name).relative_to(Path.cwd()))
    except (OSError, ValueError):
        return name


_stated: ContextVar[str] = ContextVar("stated", default="")  # what is interpreted has no frames of its own


@contextmanager
def stated_line(file: str, line: int, function: str, text: str) -> Generator[None]:
    """Operators that run while this lasts come from this line, whatever code calls them."""
    token = _stated.set(f'File "{shown_file(file)}", line {line}, in {function} | {text}')
    try:
        yield
    finally:
        _stated.reset(token)


def user_line() -> str:
    """The line of the user's code that runs now: ``file:line `code```; empty if it is not there."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if is_user_file(name):
            return f"{shown_file(name)}:{frame.f_lineno} `{linecache.getline(name, frame.f_lineno).strip()}`"
        frame = frame.f_back
    return ""


def _user_line(up_to: str = "") -> str:
    """The innermost frame outside PyTorch, Tantamount and the standard library, as Python prints it; the line that was
    stated, if one was. Frames further out than a function named ``up_to`` do not count; empty if no frame does."""
    if stated := _stated.get():
        return stated
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if up_to and frame.f_code.co_name == up_to and not is_user_file(name):
            return ""
        if is_user_file(name):
            line = linecache.getline(name, frame.f_lineno).strip()
            return f'File "{shown_file(name)}", line {frame.f_lineno}, in {frame.f_code.co_name} | {line}'
        frame = frame.f_back
    return ""
