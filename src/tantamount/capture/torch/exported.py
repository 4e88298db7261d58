"""Programs that PyTorch captured: ``torch.export``'s, saved ones (``.pt2``), and graph modules, as they are."""

# pyright: basic
from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from tantamount.capture.torch.calling import path_name
from tantamount.capture.torch.problems import said
from tantamount.capture.torch.sources import is_user_file, shown_file
from tantamount.capture.torch.tracing import Leaf, Traced
from tantamount.errors import UserError

__all__ = ["example_arguments", "exported", "load"]


def load(path: Path) -> ExportedProgram:
    """A program that ``torch.export.save`` wrote. PyTorch reads the file: only for files you trust."""
    if not path.is_file():
        raise UserError("capture-file", place=str(path), found="no such file", needed="what torch.export.save wrote")
    logger = logging.getLogger("torch.export")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # it reports at length what we say in three lines
    try:
        return torch.export.load(path)
    except Exception as problem:
        raise UserError(
            "capture-file", place=str(path), found=said(problem),
            needed="a file that torch.export.save wrote, with this version of PyTorch",
        ) from problem  # fmt: skip
    finally:
        logger.setLevel(level)


def example_arguments(module: fx.GraphModule) -> tuple[Tensor, ...]:
    """Arguments of the shapes that a graph module's placeholders have on record."""
    found: list[Tensor] = []
    for node in module.graph.nodes:
        if node.op == "placeholder":
            value = node.meta.get("val", node.meta.get("example_value"))
            if not isinstance(value, Tensor):
                raise UserError(
                    "capture", place=f"placeholder {node.name}", found="no shape on record", needed="arguments",
                    hint="capture(module, (x, ...)) with tensors of the right shapes",
                )  # fmt: skip
            found.append(torch.empty(value.shape, dtype=value.dtype, requires_grad=value.requires_grad))
    return tuple(found)


def exported(program: ExportedProgram) -> Traced:
    """An exported program: functional, with the names of its signature, tied weights merged by their storage."""
    program = program.run_decompositions({})  # decomposes nothing, but turns mutation into values
    module = program.graph_module
    nodes = {node.name: node for node in module.graph.nodes}
    inputs: list[Leaf] = []
    first: dict[Any, tuple[str, fx.Node]] = {}
    aliases: dict[str, list[str]] = {}
    for spec in program.graph_signature.input_specs:
        node, target = nodes[spec.arg.name], spec.target
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER) and target is not None:
            memory = _memory(program.state_dict.get(target, program.constants.get(target)), target)
            if memory in first:
                name, whole = first[memory]
                node.replace_all_uses_with(whole)
                aliases.setdefault(name, []).append(target)
                module.graph.erase_node(node)
                continue
            first[memory] = target, node
            inputs.append(Leaf(target))
        elif spec.kind is InputKind.CONSTANT_TENSOR and target is not None:
            _become_constant(module, node, f"constant {target}", program.constants[target])
        elif spec.kind is InputKind.USER_INPUT and isinstance(node.meta.get("val"), Tensor):
            inputs.append(Leaf(spec.arg.name))
        elif node.users:
            raise UserError(
                "capture", place=f"input {spec.arg.name}", found=f"an input of kind {spec.kind.name}", needed="tensors"
            )
        else:
            module.graph.erase_node(node)
    outputs = _outputs(program)
    for node in module.graph.nodes:
        node.meta["stack_trace"] = _innermost(node.meta.get("stack_trace") or "")
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        node.meta["custom"] = {"module": str(stack[-1][0]) if stack else ""}
    module.recompile()
    return Traced(module, tuple(inputs), outputs, {name: tuple(others) for name, others in aliases.items()})


def _outputs(program: ExportedProgram) -> tuple[Leaf, ...]:
    specs = program.graph_signature.output_specs
    count = sum(1 for spec in specs if spec.kind is OutputKind.USER_OUTPUT)
    structure = program.call_spec.out_spec
    whole = pytree.tree_unflatten(list(range(count)), structure) if structure is not None else list(range(count))
    paths, _ = pytree.tree_flatten_with_path(whole)
    names = {position: path_name(path) or "output" for path, position in paths}
    position = 0
    found: list[Leaf] = []
    for spec in specs:
        if spec.kind is OutputKind.USER_OUTPUT:
            found.append(Leaf(names[position]))
            position += 1
        elif spec.kind is OutputKind.LOSS_OUTPUT:
            found.append(Leaf("loss"))
        elif spec.kind in (OutputKind.GRADIENT_TO_PARAMETER, OutputKind.GRADIENT_TO_USER_INPUT):
            found.append(Leaf(f"grad {spec.target}"))
        else:  # mutations of buffers, parameters and arguments
            found.append(Leaf(f"new {spec.target}"))
    return tuple(found)


def _memory(tensor: Tensor | None, name: str) -> Any:
    """A key that tensors have in common if they share their memory and their layout."""
    if tensor is None:
        return name
    return tensor.untyped_storage()._cdata, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _become_constant(module: fx.GraphModule, node: fx.Node, name: str, value: Any) -> None:
    attribute = re.sub(r"\W", "_", name)
    module.register_buffer(attribute, value)
    with module.graph.inserting_before(node):
        constant = module.graph.get_attr(attribute)
    constant.meta = dict(node.meta)
    node.replace_all_uses_with(constant)
    module.graph.erase_node(node)
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    if placeholders:
        placeholders[-1].append(constant)  # placeholders come first in a graph


_FRAMES = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>[^\n]+)\n\s*(?P<code>[^\n]*)')


def _innermost(trace: str) -> str:
    """The innermost frame of the user's own code, as a capture writes it."""
    frames: Sequence[re.Match[str]] = [m for m in _FRAMES.finditer(trace) if is_user_file(m["file"])]
    if not frames:
        return ""
    m = frames[-1]
    return f'File "{shown_file(m["file"])}", line {m["line"]}, in {m["function"]} | {m["code"].strip()}'
