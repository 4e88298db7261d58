"""Statements of generated modules, interpreted call by call on fake tensors, from a list of known calls.

Nothing of a module is executed as Python. A call is PyTorch's (a function that computes tensors from tensors, no
other), one of a few operators, or one of nnScaler's runtime, whose meaning is written here.
"""

# pyright: basic
from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx.node import _get_qualified_name

from tantamount.capture.nnscaler.meetings import Made
from tantamount.capture.nnscaler.modules import GeneratedModule
from tantamount.capture.nnscaler.statements import Call, Dotted, Function, Name, Range, Statement, Value, refused
from tantamount.capture.nnscaler.steps import ADAPTERS, RankSteps
from tantamount.capture.torch.nnscaler_functions import RUNTIME
from tantamount.capture.torch.sources import stated_line
from tantamount.errors import UserError

__all__ = ["Running", "run_rank"]

_c10d = torch.ops._c10d_functional
_FUNCTIONS = "nnscaler.runtime.function."
_CREATED = {
    name: getattr(torch, name) for name in ("arange", "zeros", "ones", "full", "zeros_like", "ones_like", "full_like")
}
_OPERATORS = {
    name: getattr(operator, name)
    for name in (
        "getitem", "add", "sub", "mul", "truediv", "floordiv", "mod", "neg", "pow", "matmul", "eq", "ne", "lt", "le",
        "gt", "ge", "and_", "or_", "invert",
    )
}  # fmt: skip
_NUMBERS: Mapping[str, Callable[..., Any]] = {  # functions of sizes and other numbers
    **{f"math.{name}": getattr(math, name) for name in ("sqrt", "exp", "log", "log2", "floor", "ceil", "pow", "prod")},
    **{f"builtins.{x.__name__}": x for x in (len, int, float, bool, abs, max, min, round, sum)},
}
_DROPPED = {
    "scaled_dot_product_attention": "dropout_p"
}  # how much of it functions drop; of others with `dropout` it is p
_DRAWN = {
    "bernoulli", "multinomial", "normal", "poisson", "rrelu", "gumbel_softmax", "rand", "randn", "randint", "randperm",
    "rand_like", "randn_like", "randint_like", "fractional_max_pool2d", "fractional_max_pool3d",
    "bernoulli_", "normal_", "uniform_", "exponential_", "geometric_", "cauchy_", "log_normal_", "random_",
}  # fmt: skip
_ATTRIBUTES = ("shape", "dtype", "device", "ndim")
_NOT_TENSORS = {  # methods that leave the world of tensors
    "numpy", "tolist", "item", "data_ptr", "storage", "untyped_storage", "share_memory_", "pin_memory", "cuda", "xpu",
    "register_hook", "backward", "requires_grad_", "retain_grad", "set_", "map_", "map2_", "apply_", "detach_",
}  # fmt: skip


@functools.cache
def _torch_functions() -> Mapping[str, Callable[..., Any]]:
    """The functions of PyTorch that take and give tensors, as they are written."""
    table: Any = torch.overrides.get_overridable_functions()
    found: dict[str, Callable[..., Any]] = {}
    for owner in (F, torch.linalg, torch.special, torch.fft):  # nnScaler names some for where they are implemented
        for function in table.get(owner, ()):
            name = getattr(function, "__name__", "_")
            if not name.startswith("_") and name not in _NOT_TENSORS:
                found[_get_qualified_name(function)] = function
    for prefix, owner in (("torch", torch), ("torch.nn.functional", F), ("torch.Tensor", torch.Tensor)):
        known = {getattr(function, "__name__", "") for function in table.get(owner, ())}
        for name in known - _NOT_TENSORS:
            if name and not name.startswith("_") and callable(getattr(owner, name, None)):
                found[f"{prefix}.{name}"] = getattr(owner, name)
    return found


@dataclass
class Running:
    """One rank in one microbatch. ``tensors`` by attribute of the module; ``unit`` is the group of the ranks that
    messages are between, ``first`` the rank that is first in it; ``groups`` by their ranks."""

    module: GeneratedModule
    tensors: Mapping[str, Tensor]
    groups: Mapping[tuple[int, ...], Any]
    unit: Any
    first: int
    gradients: dict[str, Tensor] = field(default_factory=dict[str, Tensor])

    def error(self, statement: Statement, found: str, needed: str) -> UserError:
        return refused(self.module.path, statement.line, found, needed)

    # ------------------------------------------------------------------------------------------ functions
    def call(self, function: Function, args: Sequence[Any]) -> Any:
        """The values that a segment or adapter returns for these arguments."""
        known = dict(zip(function.parameters, args, strict=True))
        for statement in function.body:
            note = statement.note.removeprefix("File ") if statement.note.startswith("File ") else ""
            said = f"{statement.text}   # {note}" if note else statement.text
            with stated_line(self.module.path, statement.line, function.name, said), self._within(statement):
                value = self._evaluated(statement.value, known, statement, function)
            for name in statement.deleted:
                if name not in known:
                    raise self.error(statement, f"{name}, which nothing has made", "a name of a value")
                del known[name]
            if statement.returns:
                return value
            if statement.unpacked:
                values = tuple(value)
                if len(values) != len(statement.targets):
                    raise self.error(statement, f"{len(values)} results", f"{len(statement.targets)}")
                known.update(zip(statement.targets, values, strict=True))
            elif statement.targets:
                known[statement.targets[0]] = value
        return None

    @contextmanager
    def _within(self, statement: Statement) -> Iterator[None]:
        """The contexts that a statement is inside of."""
        for call in statement.within:
            plain = call.function == "torch.no_grad" and not call.args and not call.kwargs
            if not plain and not (call.function == "torch.autocast" and call.kwargs.get("enabled") is False):
                needed = "torch.no_grad(), or torch.autocast(enabled=False): other casts are a device's, not seen here"
                raise self.error(statement, f"a statement inside of {call.function}()", needed)
        with torch.no_grad() if any(x.function == "torch.no_grad" for x in statement.within) else nullcontext():
            yield

    def _evaluated(self, value: Value, known: Mapping[str, Any], statement: Statement, inside: Function) -> Any:
        if isinstance(value, Name):
            if value.name in known:
                return known[value.name]
            if value.name == "inf":
                return math.inf
            raise self.error(statement, f"{value.name}, which nothing has made", "a name of a value")
        if isinstance(value, Dotted):
            return self._attribute(value.path, statement)
        if isinstance(value, Range):
            return slice(*(self._evaluated(x, known, statement, inside) for x in (value.start, value.stop, value.step)))
        if isinstance(value, tuple):
            return tuple(self._evaluated(x, known, statement, inside) for x in value)
        if isinstance(value, Call):
            return self._called(value, known, statement, inside)
        return value

    def _attribute(self, path: str, statement: Statement) -> Any:
        owner, _, name = path.partition(".")
        if owner == "self" and name in self.tensors:
            return self.tensors[name]
        if path == "self.training":
            return True
        if owner == "torch" and isinstance(
            getattr(torch, name, None), torch.dtype | torch.memory_format | torch.layout
        ):
            return getattr(torch, name)
        raise self.error(statement, path, "a parameter, a buffer or a dtype")

    def _called(self, call: Call, known: Mapping[str, Any], statement: Statement, inside: Function) -> Any:
        name = call.function
        if name in ("ckpt.checkpoint", "torch.utils.checkpoint.checkpoint"):
            return self._recomputed(call, known, statement, inside)
        if name in ("torch.cuda.current_device", "torch.device"):
            return torch.device("cpu")
        args = [self._evaluated(x, known, statement, inside) for x in call.args]
        kwargs = {key: self._evaluated(x, known, statement, inside) for key, x in call.kwargs.items()}
        if isinstance(kwargs.get("device"), int | str):
            kwargs["device"] = torch.device("cpu")
        if _draws(name.rpartition(".")[2], kwargs):
            needed = "no dropout (p=0), and nothing else that is drawn: what ranks draw is not said by a plan"
            raise self.error(statement, f"numbers drawn at random: {statement.text}"[:300], needed)
        try:
            return self._function(name, statement)(*args, **kwargs)
        except UserError:
            raise
        except (TypeError, ValueError, IndexError, KeyError, RuntimeError, AttributeError) as problem:
            raise self.error(
                statement, f"{type(problem).__name__}: {problem}"[:300], "a call that can be run"
            ) from problem

    def _recomputed(self, call: Call, known: Mapping[str, Any], statement: Statement, inside: Function) -> Any:
        """The result of a call that is made again in the backward pass, which is the same: nothing here is drawn at
        random."""
        function = inside.inner.get(call.args[0].name) if call.args and isinstance(call.args[0], Name) else None
        if function is None or set(call.kwargs) - {"use_reentrant", "preserve_rng_state"}:
            raise self.error(statement, statement.text, "a checkpoint of a function that is defined here")
        args = [self._evaluated(x, known, statement, inside) for x in call.args[1:]]
        return self.call(function, args)

    def _function(self, name: str, statement: Statement) -> Callable[..., Any]:
        if name.startswith(ADAPTERS):
            own = getattr(self, "_" + name.removeprefix(ADAPTERS).replace(".", "_"), None)
            if own is not None and name.removeprefix(ADAPTERS) in _ADAPTED:
                return own
        elif name.startswith(_FUNCTIONS) and name.removeprefix(_FUNCTIONS) in RUNTIME:
            return RUNTIME[name.removeprefix(_FUNCTIONS)]
        elif name.startswith("_operator.") and name.removeprefix("_operator.") in _OPERATORS:
            return _OPERATORS[name.removeprefix("_operator.")]
        elif name == "builtins.getattr":
            return _read_attribute
        elif name in _NUMBERS:
            return _NUMBERS[name]
        elif name.startswith("torch."):
            found = _torch_functions().get(name) or _CREATED.get(name.removeprefix("torch."))
            if found is not None:
                return found
        raise self.error(
            statement, name, "a function of PyTorch on tensors, or of nnScaler's runtime that is known here"
        )

    # ------------------------------------------------------------------------------------------ communication
    def _group(self, ranks: Sequence[int]) -> Any:
        return self.groups[tuple(ranks)]

    def _position(self, ranks: Sequence[int]) -> int:
        return list(ranks).index(self.module.rank)

    def _all_reduce(self, tensor: Tensor, ranks: Sequence[int]) -> Tensor:
        name = self._group(ranks).group_name
        return _c10d.wait_tensor(_c10d.all_reduce(tensor.detach().contiguous(), "sum", name))

    def _all_gather(self, tensor: Tensor, dim: int, ranks: Sequence[int]) -> Tensor:
        size, name = len(ranks), self._group(ranks).group_name
        flat = tensor.detach().contiguous()
        gathered = _c10d.wait_tensor(_c10d.all_gather_into_tensor(flat.unsqueeze(0), size, name))
        return torch.cat(gathered.unbind(0), dim)

    def _reduce_scatter(self, tensor: Tensor, dim: int, ranks: Sequence[int]) -> Tensor:
        size, name = len(ranks), self._group(ranks).group_name
        stacked = torch.stack(_chunks(tensor.detach(), size, dim))
        return _c10d.wait_tensor(_c10d.reduce_scatter_tensor(stacked, "sum", size, name)).squeeze(0)

    def _all_to_all(self, tensor: Tensor, idim: int, odim: int, ranks: Sequence[int]) -> Tensor:
        size, name = len(ranks), self._group(ranks).group_name
        stacked = torch.stack(_chunks(tensor.detach(), size, odim))
        got = _c10d.wait_tensor(_c10d.all_to_all_single(stacked, [1] * size, [1] * size, name))
        return torch.cat(got.unbind(0), idim)

    def _chunk(self, itensor: Tensor, dim: int, ranks: Sequence[int]) -> Tensor:
        return _chunks(itensor, len(ranks), dim)[self._position(ranks)].detach()

    def _broadcast(self, itensor: Any, shape: Any, dtype: Any, src: int, ranks: Sequence[int]) -> Tensor:
        """A message to each of the others, whatever ranks these are."""
        if self.module.rank != src:
            return self._move((), shape, dtype, src, self.module.rank)
        for rank in ranks:
            if rank != src:
                self._move(itensor, shape, dtype, src, rank)
        return itensor

    def _move(self, tensor: Any, shape: Any, dtype: Any, src: int, dst: int) -> Tensor:
        name = self.unit.group_name
        if self.module.rank == src:
            _c10d.wait_tensor(_c10d.isend(tensor.detach().contiguous(), dst - self.first, 0, name))
            return tensor
        buffer = torch.empty(tuple(shape), dtype=dtype)
        return _c10d.wait_tensor(_c10d.irecv(buffer, src - self.first, 0, name))

    def _identity(self, tensor: Tensor) -> Tensor:
        return tensor

    def _select(self, tensor: Tensor, indmap: Any, valmap: Any) -> Tensor:
        found = tensor.detach()[indmap]
        return found if valmap == 1 else found / valmap

    def _smerge(self, tensors: Sequence[Tensor], dim: int) -> Tensor:
        return torch.cat([x.detach() for x in tensors], dim)

    def _vmerge(self, tensors: Sequence[Tensor]) -> Tensor:
        return functools.reduce(operator.add, [x.detach() for x in tensors])

    def _nn_allreduce_identity(self, tensor: Tensor, ranks: Sequence[int]) -> Tensor:
        return _pair(tensor, lambda x: self._all_reduce(x, ranks), lambda g: g)

    def _nn_identity_allreduce(self, tensor: Tensor, ranks: Sequence[int]) -> Tensor:
        return _pair(tensor, lambda x: x.view_as(x), lambda g: self._all_reduce(g, ranks))

    def _nn_allreduce_allreduce(self, tensor: Tensor, ranks: Sequence[int]) -> Tensor:
        return _pair(tensor, lambda x: self._all_reduce(x, ranks), lambda g: self._all_reduce(g, ranks))

    def _nn_allgather_split(self, tensor: Tensor, dim: int, ranks: Sequence[int]) -> Tensor:
        return _pair(tensor, lambda x: self._all_gather(x, dim, ranks), lambda g: self._chunk(g, dim, ranks))

    def _nn_split_allgather(self, tensor: Tensor, dim: int, ranks: Sequence[int]) -> Tensor:
        return _pair(tensor, lambda x: self._chunk(x, dim, ranks), lambda g: self._all_gather(g, dim, ranks))

    def _nn_reducescatter_allgather(self, tensor: Tensor, dim: int, ranks: Sequence[int]) -> Tensor:
        return _pair(tensor, lambda x: self._reduce_scatter(x, dim, ranks), lambda g: self._all_gather(g, dim, ranks))

    def _nn_allgather_reducescatter(self, tensor: Tensor, dim: int, ranks: Sequence[int]) -> Tensor:
        return _pair(tensor, lambda x: self._all_gather(x, dim, ranks), lambda g: self._reduce_scatter(g, dim, ranks))

    def _nn_alltoall_alltoall(self, itensor: Tensor, idim: int, odim: int, ranks: Sequence[int]) -> Tensor:
        return _pair(
            itensor, lambda x: self._all_to_all(x, idim, odim, ranks), lambda g: self._all_to_all(g, odim, idim, ranks)
        )


_ADAPTED = {
    "move", "chunk", "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "identity", "select",
    "smerge", "vmerge", "nn.allreduce_identity", "nn.identity_allreduce", "nn.allreduce_allreduce",
    "nn.allgather_split", "nn.split_allgather", "nn.reducescatter_allgather", "nn.allgather_reducescatter",
    "nn.alltoall_alltoall",
}  # fmt: skip


def _chunks(tensor: Tensor, size: int, dim: int) -> tuple[Tensor, ...]:
    if tensor.shape[dim] % size:
        raise ValueError(f"dimension {dim} of {tuple(tensor.shape)} does not split into {size} equal parts")
    return tensor.chunk(size, dim)


def _pair(tensor: Tensor, forward: Callable[[Tensor], Tensor], backward: Callable[[Tensor], Tensor]) -> Tensor:
    """An operator with its gradient."""

    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, given: Tensor) -> Tensor:
            return forward(given)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return backward(gradient)

    return Both.apply(tensor)  # pyright: ignore[reportReturnType]


def _draws(name: str, kwargs: Mapping[str, Any]) -> bool:
    """True for a call that draws numbers at random."""
    if "dropout" in name and name != "nndropout":
        return kwargs.get("training", True) is not False and kwargs.get("p", 0.5) != 0
    return name in _DRAWN or kwargs.get(_DROPPED.get(name, ""), 0) != 0


def _read_attribute(value: Any, name: str) -> Any:
    if name not in _ATTRIBUTES:
        raise ValueError(f"the attribute {name}; known are {', '.join(_ATTRIBUTES)}")
    return getattr(value, name)


# ---------------------------------------------------------------------------------------------- one microbatch
def run_rank(running: Running, steps: RankSteps, sample: Any) -> tuple[list[Any], dict[str, Tensor]]:
    """The values that the step of a rank returns for one microbatch, and the gradients that it leaves, by attribute:
    reduced, as the reducers do after all microbatches (a sum over ranks, so it may as well come before the sum over
    microbatches)."""
    made: list[Any] = []
    entered: dict[int, list[Any]] = {}

    def value(reference: Made | None) -> Any:
        if reference is None:
            return None
        whole = sample if reference.event < 0 else made[reference.event]
        return whole if reference.item is None else whole[reference.item]

    for number, event in enumerate(steps.events):
        args = [value(reference) for reference in event.args]
        function = running.module.functions[event.function]
        if event.kind == "forward" and not event.differentiable:
            with torch.no_grad():
                made.append(running.call(function, args))
        elif event.kind == "forward":
            entered[number] = [_entered(x) for x in args]
            made.append(running.call(function, entered[number]))
        elif event.kind == "adapter":
            with torch.no_grad():
                found = running.call(function, args)
            made.append(_differentiable(found) if event.differentiable else found)
        else:
            with stated_line(running.module.path, event.line, "_train_step", f"backward of {event.function}"):
                outputs = [value(x) for x in event.outputs]
                made.append(_backward(running, entered[event.of], outputs, args, event.line))
    for name in steps.reducers:
        reducer = running.module.reducers[name]
        with stated_line(running.module.path, reducer.line, "reducer", name), torch.no_grad():
            for attribute in reducer.attributes:
                if attribute in running.gradients:
                    summed = running._all_reduce(running.gradients[attribute], reducer.ranks)
                    running.gradients[attribute] = summed / len(reducer.ranks) if reducer.mean else summed
    return [value(result) for result in steps.results], running.gradients


def _entered(value: Any) -> Any:
    """The value that a segment computes with: an argument that requires a gradient, cut off from what made it."""
    return value.detach().requires_grad_() if isinstance(value, Tensor) and value.requires_grad else value


def _differentiable(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_differentiable, value))
    fits = isinstance(value, Tensor) and value.is_floating_point()
    return value.detach().requires_grad_() if fits else value


def _backward(
    running: Running, entered: Sequence[Any], outputs: Sequence[Tensor], given: Sequence[Any], line: int
) -> Any:
    """The gradients of a segment's arguments (one alone, or a tuple), those of parameters added to what there is."""
    inputs = [x for x in entered if isinstance(x, Tensor) and x.requires_grad]
    weights = {name: x for name, x in running.tensors.items() if x.requires_grad}
    pairs: dict[tuple[int, int], tuple[Tensor, Any]] = {}
    for output, gradient in zip(outputs, given, strict=True):
        pairs[id(output), id(gradient)] = (output, gradient)
    try:
        found = torch.autograd.grad(
            [output for output, _ in pairs.values()], [*inputs, *weights.values()], [g for _, g in pairs.values()],
            allow_unused=True, retain_graph=False,
        )  # fmt: skip
    except (RuntimeError, TypeError) as problem:
        said = f"{type(problem).__name__}: {problem}"[:300]
        raise refused(running.module.path, line, said, "a backward pass that can be run") from problem
    for name, gradient in zip(weights, found[len(inputs) :], strict=True):
        if gradient is not None:
            running.gradients[name] = running.gradients[name] + gradient if name in running.gradients else gradient
    grads = found[: len(inputs)]
    if any(gradient is None for gradient in grads):
        raise refused(
            running.module.path, line, "an argument of a segment without a gradient", "one that it depends on"
        )
    return grads[0] if len(grads) == 1 else tuple(grads) if grads else None
