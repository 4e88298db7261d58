"""One program as a functional ATen graph whose inputs are its arguments and its state.

The program runs once on fake tensors under ``make_fx``; a second pass turns mutation into values, where there is any
(:func:`tantamount.capture.torch.overwriting.without_writes`). What comes out: whatever the function returns, the
gradient it leaves on every parameter, and the new value of every tensor of the state that it changed.
"""

# pyright: basic
from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensor, FakeTensorMode
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from tantamount.capture.torch.calling import (
    Callee,
    Number,
    Recorded,
    Stage,
    check_arguments,
    path_name,
    runner,
    tensors_of_argument,
    without_history,
)
from tantamount.capture.torch.calls import Call, same_at_every_call
from tantamount.capture.torch.dynamic import Dynamic, Sizes, sizes_of
from tantamount.capture.torch.generators import merged
from tantamount.capture.torch.objects import one_call
from tantamount.capture.torch.overwriting import Replay, without_writes
from tantamount.capture.torch.placements import Layout, index_arithmetic_outside, local_part
from tantamount.capture.torch.problems import check_modules, check_quantised, not_captured
from tantamount.capture.torch.selected import with_whole_rows
from tantamount.capture.torch.state import State, collect, digest
from tantamount.capture.torch.strides import views_for_strides
from tantamount.errors import UserError

__all__ = ["Leaf", "Traced", "trace"]


@dataclass(frozen=True)
class Leaf:
    """An input or output of the graph: its name, and the layout of the DTensor that it is the local part of."""

    name: str
    layout: Layout | None = None


@dataclass(frozen=True)
class Traced:
    """A functional graph with one placeholder per input. ``outputs`` are in the order of the output node. ``values``:
    digests of what buffers hold, and of single whole numbers among the arguments (offsets, numbers of ranks)."""

    module: fx.GraphModule
    inputs: tuple[Leaf, ...]
    outputs: tuple[Leaf, ...]
    aliases: Mapping[str, tuple[str, ...]]
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    sizes: Sizes | None = None


def trace(
    function: Callable[..., Any] | nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    modules: Mapping[str, nn.Module],
    optimizers: Sequence[torch.optim.Optimizer],
    dynamic: Dynamic | None = None,
    hints: Mapping[str, int] | None = None,
) -> Traced:
    """Run ``function(*args, **kwargs)`` on fake tensors and record it.

    ``modules`` maps a prefix of names (``""`` or ``"model."``) to a module that the function uses. Raises
    :class:`UserError` for what cannot be captured."""
    check_modules(modules)
    state = collect(modules, optimizers)
    paths, structure = pytree.tree_flatten_with_path((tuple(args), dict(kwargs)))
    named = [(_argument_name(function, path), leaf) for path, leaf in paths]
    numbers = {n: leaf for n, leaf in named if type(leaf) is int and isinstance(n, str) and n in (dynamic or {})}
    reals = {n for n, leaf in named if type(leaf) is float and isinstance((dynamic or {}).get(n), str)}
    named = [(n, torch.tensor(leaf, dtype=torch.float64) if n in reals else leaf) for n, leaf in named]
    leaves = tuple(Number(n) if n in numbers else leaf for n, leaf in named)
    given = [(n, leaf) for n, leaf in named if isinstance(leaf, Tensor)]
    known = {id(tensor) for tensor in (*(entry.tensor for entry in state.entries), *(leaf for _, leaf in given))}
    for name, leaf in named:
        inside = [] if isinstance(leaf, Tensor) else tensors_of_argument(leaf)
        new = {id(tensor): (f"{name}.{part}", tensor) for part, tensor in inside if id(tensor) not in known}
        given += new.values()
        known |= new.keys()
    check_arguments((args, kwargs), known)
    names = (*(entry.name for entry in state.entries), *_distinct([name for name, _ in given], state))
    tensors = (*(entry.tensor for entry in state.entries), *(leaf for _, leaf in given))
    fixed = [(entry.name, entry.tensor) for entry in state.entries if entry.computed]
    fixed += [(n, x) for n, x in zip(names, tensors, strict=True) if not x.dim() and not x.is_floating_point()]
    values = {name: value for name, tensor in fixed if (value := digest(tensor)) is not None}
    old = tuple((n, x.grad) for n, x in zip(names, tensors, strict=True) if x.is_leaf and x.grad is not None)
    program = Callee(function, state, structure, leaves, names, tensors, old)
    locals_ = [local_part(tensor) for tensor in tensors]
    sizes = None
    if dynamic:
        plain = [(n, x) for n, (x, layout) in zip(names, locals_, strict=True) if layout is None]
        rest = {n: entries for n, entries in dynamic.items() if n not in reals}
        taken = [x for n, x in zip(names, tensors, strict=True) if n not in rest]
        sizes = sizes_of(rest, plain, taken, _where(function), hints, numbers) if rest else None
    environment = None if sizes is None else sizes.environment
    gradients = [local_part(gradient) for _, gradient in program.gradients]

    device = _device_of([x for x, _ in locals_])
    without_numbers = {n: x.detach() for n, (x, _) in zip(names, locals_, strict=True) if x.device.type == "meta"}

    def new_fakes(fake_mode: FakeTensorMode) -> list[Tensor]:
        def fake(name: str, tensor: Tensor) -> Tensor:
            if sizes is not None:
                return sizes.fake(fake_mode, name, tensor.detach())
            if device is not None and name in without_numbers:  # what a program has once its weights are loaded
                return FakeTensor(fake_mode, without_numbers[name], device)
            return fake_mode.from_tensor(tensor.detach(), static_shapes=True)

        fakes = [fake(n, x) for n, (x, _) in zip(names, locals_, strict=True)]
        fakes += [fake_mode.from_tensor(x.detach(), static_shapes=True) for x, _ in gradients]
        return fakes if sizes is None else fakes + sizes.carriers(fake_mode)

    recorded = Recorded([], [])
    layouts = [layout for _, layout in (*locals_, *gradients)]

    def passes(environment: ShapeEnv | None) -> fx.GraphModule:
        fake_mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=environment)
        with _quiet(), _compiled_as_written(), traceback.preserve_node_meta(), index_arithmetic_outside(), fake_mode:
            fakes = new_fakes(fake_mode)
            stage = Stage(program, layouts, fakes[: len(layouts)])

            def call() -> Call:
                with one_call(), stage.contents() as parts:
                    run = runner(stage, recorded, sizes)
                    module = make_fx(run, record_stack_traces=False)(*parts, *fakes[len(layouts) :])
                return Call(module, stage.left)

            first = same_at_every_call(call, function, dict(zip(names, tensors, strict=True)), state, _where(function))
            if (sizes is not None or environment is None) and (same := without_writes(first)) is not None:
                return same
            for fake in fakes:  # calls made leaves of them, which must not be written to
                without_history(fake).requires_grad_(False)
            second = make_fx(torch.func.functionalize(_replay(first), remove="mutations"))(*fakes)
            if sizes is None and environment is not None:
                second = make_fx(with_whole_rows(second, first, environment))(*fakes)
            return second

    try:
        try:
            second = passes(environment)
        except DynamicOutputShapeException:
            if environment is not None:
                raise
            second = passes(ShapeEnv(allow_dynamic_output_shape_ops=True, allow_scalar_outputs=False))
    except UserError:
        raise
    except Exception as problem:
        raise not_captured(problem, _where(function)) from problem
    merged(second.graph, recorded.shared, _where(function))
    check_quantised(second.graph, _where(function))
    left = [Leaf(f"grad {name}") for name, _ in program.gradients]
    inputs = tuple(Leaf(name, layout) for name, layout in zip(names, layouts[: len(names)], strict=True))
    outputs = _outputs(second, inputs, left, recorded)
    if not outputs and not any(_concerns_others(node) for node in second.graph.nodes):
        raise UserError(
            "capture", place=_where(function), found="nothing that it returns or changes",
            needed="tensors returned or sent, gradients left, or state changed",
        )  # fmt: skip
    aliases = {entry.name: entry.aliases for entry in state.entries if entry.aliases}
    return Traced(second, inputs, outputs, aliases, values, sizes)


def _device_of(tensors: Sequence[Tensor]) -> torch.device | None:
    """The one device on which some tensors have numbers; ``None`` where there are several, or none."""
    devices = {tensor.device for tensor in tensors if tensor.device.type != "meta"}
    return devices.pop() if len(devices) == 1 else None


def _replay(module: fx.GraphModule) -> Callable[..., Any]:
    def run(*flat: Any) -> Any:
        with traceback.preserve_node_meta():
            return Replay(module).run(*flat)

    return run


# ---------------------------------------------------------------------------------------------- names
def _argument_name(function: Callable[..., Any], path: tuple[Any, ...]) -> str:
    """``x`` or ``batch.ids`` for a path into (args, kwargs)."""
    import inspect

    head, *rest = path[1:]
    function = getattr(function, "_orig_mod", function)  # what torch.compile wraps has the names of the arguments
    target = function.forward if isinstance(function, nn.Module) else function
    if path[0].idx == 1:
        return path_name((head, *rest))
    try:
        names = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        names = []
    position = head.idx
    if position < len(names) and names[position].kind is not inspect.Parameter.VAR_POSITIONAL:
        first = names[position].name
    else:
        first = f"arg{position}"
    return ".".join(part for part in (first, path_name(tuple(rest))) if part)


def _distinct(names: Sequence[str], state: State) -> list[str]:
    taken = {entry.name for entry in state.entries}
    out: list[str] = []
    for name in names:
        while name in taken:
            name = f"{name}'"
        taken.add(name)
        out.append(name)
    return out


def _where(function: Callable[..., Any] | nn.Module) -> str:
    target = type(function) if isinstance(function, nn.Module) else function
    return f"{getattr(target, '__module__', '')}.{getattr(target, '__qualname__', repr(target))}"


# ---------------------------------------------------------------------------------------------- the graph
def _outputs(
    module: fx.GraphModule, inputs: Sequence[Leaf], left: Sequence[Leaf], recorded: Recorded
) -> tuple[Leaf, ...]:
    """Names of the outputs. What the program wrote into its inputs is a trailing ``copy_``: it becomes an output.

    The last placeholders are gradients that were ``left`` by an earlier call: none of them may matter, and they are
    taken out of the graph. Raises :class:`UserError` where one does."""
    graph = module.graph
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    by_node = dict(zip(placeholders, inputs, strict=False))
    old = dict(zip(placeholders[len(inputs) : len(inputs) + len(left)], left, strict=True))
    output = next(node for node in reversed(graph.nodes) if node.op == "output")
    results = list(output.args[0])
    leaves = [Leaf(name, layout) for name, layout in zip(recorded.names, recorded.layouts, strict=True)]
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target is torch.ops.aten.copy_.default and node.args[0] in by_node:
            leaf = by_node[node.args[0]]
            results.append(node.args[1])
            leaves.append(Leaf(f"new {leaf.name}", leaf.layout))
            node.replace_all_uses_with(node.args[1])
            graph.erase_node(node)
        elif node.target in (torch.ops.aten.zero.default, torch.ops.aten.copy_.default) and node.args[0] in old:
            _without_old(graph, node)
    kept = [
        k
        for k, result in enumerate(results)
        if _source(result) not in old or leaves[k].name != old[_source(result)].name
    ]
    output.args = (tuple(results[k] for k in kept),)
    _clean(graph)
    for node, leaf in old.items():
        if node.users:
            raise UserError(
                "capture-gradient", place=leaf.name.removeprefix("grad "),
                found="a gradient from before the call, which the call computes with",
                needed="no gradient before the call, or one that the call takes away first",
                hint="optimizer.zero_grad(), before the capture or first thing inside",
            )  # fmt: skip
        graph.erase_node(node)
    module.recompile()
    return tuple(leaves[k] for k in kept)


def _source(node: Any) -> Any:
    """The node that a node gives back as it is."""
    while isinstance(node, fx.Node) and node.op == "call_function" and node.target in _IDENTITIES:
        node = node.args[0]
    return node


def _without_old(graph: fx.Graph, node: fx.Node) -> None:
    """Take a gradient from before the call out of what becomes of it: a tensor of zeros, or what was copied into it."""
    new: Any = node.args[1] if node.target is torch.ops.aten.copy_.default else None
    if new is None:
        value = node.meta["val"]
        with graph.inserting_before(node):
            new = graph.call_function(
                torch.ops.aten.zeros.default, (list(value.shape),), {"dtype": value.dtype, "device": value.device}
            )
        new.meta = dict(node.meta)
    node.replace_all_uses_with(new)
    graph.erase_node(node)


_IDENTITIES = (torch.ops.aten.detach.default, torch.ops.aten.alias.default, torch.ops.aten.lift_fresh.default)


def _clean(graph: fx.Graph) -> None:
    """Drop identities and what nothing uses; not what other ranks take part in, nor what may stop the program."""
    views_for_strides(graph)
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in _IDENTITIES:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    for node in reversed(list(graph.nodes)):
        if node.op in ("call_function", "get_attr") and not node.users and not _matters(node):
            graph.erase_node(node)


_ASSERTIONS = (
    "aten._assert_",
    "aten.sym_constrain_",
    "aten._functional_assert_",
    "aten._functional_sym_constrain_",
    "tantamount.counts.",
)
_QUOTIENTS = {"aten.div.Tensor_mode", "aten.floor_divide.default", "aten.fmod.Tensor", "aten.remainder.Tensor"}
_READERS = {"aten.embedding.default", "aten.gather.default", "aten.index.Tensor", "aten.index_select.default"}


def _matters(node: fx.Node) -> bool:
    """True if a node has an effect though nothing uses its value. Eager stops where whole numbers are divided by 0, an
    index is out of range, or an assertion does not hold; counts have another length where a number is too large."""
    name = str(node.target)
    if name.startswith(_ASSERTIONS):
        return True
    if name in _QUOTIENTS:
        value = node.meta.get("val")
        return isinstance(value, torch.Tensor) and not value.dtype.is_floating_point
    if name in _READERS:
        kinds = {x.meta["val"].dtype for x in node.all_input_nodes[1:] if isinstance(x.meta.get("val"), torch.Tensor)}
        return bool(kinds) and kinds <= {torch.int32, torch.int64}
    return _concerns_others(node)


def _concerns_others(node: fx.Node) -> bool:
    """Collectives, messages, waiting for a message to be taken, and writing to a cache."""
    if node.target is torch.ops._c10d_functional.wait_tensor.default:
        return getattr(node.args[0], "target", None) is torch.ops._c10d_functional.isend.default
    return str(node.target).startswith(("_c10d_functional.", "vllm.unified_kv_cache_update"))


@contextmanager
def _compiled_as_written() -> Generator[None]:
    """Functions that the program has given to ``torch.compile`` run as they are written."""
    if "torch._dynamo" not in sys.modules:  # nothing can be compiled
        yield
        return
    with sys.modules["torch._dynamo"].config.patch(error_on_nested_fx_trace=False):
        yield


@contextmanager
def _quiet() -> Generator[None]:
    """Tracing warns about what we do on purpose."""
    import logging
    import warnings

    names = ("torch.fx.experimental.symbolic_shapes", "torch._subclasses.fake_tensor")
    loggers = [(logging.getLogger(name), logging.getLogger(name).level) for name in names]
    for logger, _ in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in loggers:
            logger.setLevel(level)
