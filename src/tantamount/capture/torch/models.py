"""Models with loaders: what a loader makes of a checkpoint, and programs whose tables are recorded as they are."""

# pyright: basic
from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from tantamount.capture.fx_json import graph_of
from tantamount.capture.programs import Program
from tantamount.capture.torch.problems import loader_problem, other_shapes
from tantamount.capture.torch.programs import capture
from tantamount.errors import UserError
from tantamount.limits import limits_from_environment

__all__ = [
    "LoadInto", "captured", "is_foreign", "loader_of", "loading_of", "parameter_shapes", "state_names",
    "state_shapes", "state_values",
    "with_tables", "with_values", "without_inputs",
]  # fmt: skip

LoadInto = Callable[[nn.Module, dict[str, Tensor]], object]
"""Fills a model from a checkpoint in place, or returns the model that has it."""


def is_foreign(model: Any) -> bool:
    """True if a model is no module of PyTorch: a function of JAX with its parameters."""
    return not isinstance(model, nn.Module)


def captured(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Program:
    """The captured program of a model, which may know how it wants to be captured."""
    own = getattr(model, "captured_program", None)
    if callable(own):
        return cast("Program", own(args, kwargs))
    return capture(model, args, kwargs)


def state_shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of the floating-point tensors of a state dict, by name: tied ones under the first of their names, as
    checkpoints have them."""
    if is_foreign(model):
        return model.state_shapes()
    shapes: dict[str, tuple[int, ...]] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if tensor.is_floating_point() and id(tensor) not in seen:
            seen.add(id(tensor))
            shapes[name] = tuple(tensor.shape)
    return shapes


def state_names(model: Any) -> tuple[frozenset[str], frozenset[str]]:
    """The names of the parameters, and those of the buffers, of a model, all names of tied ones among them."""
    if is_foreign(model):
        return frozenset(model.state_shapes()), frozenset()
    parameters = frozenset(name for name, _ in model.named_parameters(remove_duplicate=False))
    return parameters, frozenset(name for name, _ in model.named_buffers(remove_duplicate=False))


def parameter_shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of all parameters and buffers, by all of their names."""
    if is_foreign(model):
        return model.state_shapes()
    state = (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False))
    return {name: tuple(tensor.shape) for name, tensor in state}


def state_values(model: nn.Module) -> dict[str, Any]:
    """The floating-point parameters and buffers as NumPy arrays in float64, by name; none of fake tensors or beyond the
    limit ``constant_elements``."""
    limits = limits_from_environment()
    state = (*model.named_parameters(), *model.named_buffers())
    return {
        name: t.detach().to("cpu", torch.float64).numpy()
        for name, t in state
        if t.is_floating_point() and t.device.type != "meta" and 0 < t.numel() <= limits.constant_elements
    }


def loader_of(model: Any, load: LoadInto | None, side: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """A function from the tensors of a checkpoint (NumPy, float64) to what a copy of the model in float64 holds then.

    ``load`` is called with that copy and the tensors; ``None``: the checkpoint is a state dict of the model. ``side``
    is for messages. The function raises :class:`UserError` where the loader fails."""
    if is_foreign(model):
        return model.loader(load, side)

    own = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()} if load is None else {}
    wide: list[nn.Module] = []  # the model in float64, once it is asked for

    def run(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
        wrong = other_shapes(side, own, {name: values.shape for name, values in checkpoint.items()})
        if wrong is not None:
            raise wrong
        with _one_thread():
            return filled(checkpoint)

    def filled(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
        if not wide:
            wide.append(copy.deepcopy(model).double())
        held = copy.deepcopy(wide[0])
        if any(t.device.type == "meta" for t in (*held.parameters(), *held.buffers())):
            held = held.to_empty(device="cpu")
        held = held.double()  # a model may be copied by making it anew
        tensors = {name: torch.from_numpy(values.copy()) for name, values in checkpoint.items()}
        try:
            with torch.no_grad():
                if load is None:
                    held.load_state_dict(tensors, strict=False)
                else:
                    made = load(held, tensors)
                    held = made if isinstance(made, nn.Module) else held
        except UserError:
            raise
        except Exception as problem:
            needed = "a function load(model, checkpoint) that fills the model from a dict of tensors"
            raise loader_problem(side, problem, needed) from problem
        state = [*held.named_parameters(remove_duplicate=False), *held.named_buffers(remove_duplicate=False)]
        values: dict[int, Any] = {}  # once, of a table that every layer has
        for _, t in state:
            if id(t) not in values and not t.is_complex():
                values[id(t)] = t.detach().to(torch.float64).numpy().copy()
        return {name: values[id(t)] for name, t in state if not t.is_complex()}

    return run


@contextmanager
def _one_thread() -> Generator[None]:
    """PyTorch computes on one thread: small tensors are copied, and threads that wait for each other cost more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def loading_of(
    model: nn.Module, load: LoadInto | None, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[Program, dict[str, str]]:
    """The captured loader of a model, whose outputs are the new values of parameters and buffers, and the checkpoint's
    tensor behind each of its inputs; other inputs are what the model holds before."""
    from tantamount.capture.torch.programs import capture

    held = copy.deepcopy(model)

    def loading(checkpoint: dict[str, Tensor]) -> None:
        with torch.no_grad():
            held.load_state_dict(checkpoint, strict=False) if load is None else load(held, checkpoint)

    checkpoint = {name: torch.zeros(shape) for name, shape in shapes.items()}
    program = capture(loading, (checkpoint,), modules=held)
    state = {name for names in state_names(held) for name in names}
    inputs = [node.name for node in program.graph.inputs if node.name not in state]
    return program, dict(zip(inputs, checkpoint, strict=True))


def with_tables(program: Program, model: nn.Module, names: frozenset[str]) -> Program:
    """The program with the values of some buffers and parameters recorded in it, as constants, instead of inputs."""
    if not names:
        return program  # of a model of JAX, say, which has neither
    state = (*model.named_buffers(remove_duplicate=False), *model.named_parameters(remove_duplicate=False))
    return with_values(program, {name: t for name, t in state if name in names})


def with_values(program: Program, tensors: Mapping[str, Tensor]) -> Program:
    """The program with the values of some inputs recorded in it, as constants. Those without values, or with more than
    constants may have, stay inputs."""
    limits = limits_from_environment()
    known = {
        name: t
        for name, t in tensors.items()
        if t.device.type != "meta" and t.numel() <= limits.constant_elements and not t.is_complex()
    }
    nodes: list[dict[str, Any]] = []
    constants = dict(program.document.get("constants", {}))
    for node in program.document["nodes"]:
        tensor = known.get(node["name"]) if node["op"] == "placeholder" else None
        if tensor is None:
            nodes.append(node)
            continue
        constants[node["name"]] = {
            "dtype": node["dtype"], "shape": node["shape"],
            "data": [_number(x) for x in tensor.detach().cpu().reshape(-1).tolist()],
        }  # fmt: skip
        nodes.append({**node, "op": "get_attr", "target": node["name"]})
    if not constants:
        return program
    document = {**program.document, "nodes": nodes, "constants": constants}
    return replace(program, graph=graph_of(document, program.graph.path, limits), document=document)


def without_inputs(program: Program, names: Collection[str]) -> Program:
    """The program without some of its inputs, which nothing uses."""
    nodes = [x for x in program.document["nodes"] if x["op"] != "placeholder" or x["name"] not in names]
    document = {**program.document, "nodes": nodes}
    return replace(program, graph=graph_of(document, program.graph.path, limits_from_environment()), document=document)


def _number(value: Any) -> Any:
    finite = not isinstance(value, float) or abs(value) < float("inf")  # NaN compares false
    return value if finite else {"float": repr(value)}
