"""Rules as Python functions: both sides captured with symbolic sizes, and executed as they are where they are more than
operators of ATen."""

# pyright: basic
from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from tantamount.capture.fx_json import graph_of
from tantamount.capture.rule_expressions import no_rule
from tantamount.capture.rules import make_rule, parse_types, rules_place, sized
from tantamount.capture.torch.problems import said
from tantamount.capture.torch.programs import capture
from tantamount.errors import TantamountError, UserError
from tantamount.ir.graph import Graph
from tantamount.ir.job import UserRule
from tantamount.limits import limits_from_environment

__all__ = ["rule"]

_EXAMPLE = 3  # the least size at which rules are captured


def rule(
    *, name: str | None = None, where: Sequence[str] = (), **inputs: str
) -> Callable[[Callable[..., Any]], UserRule]:
    """A decorator: the rule that both tensors which a function returns are equal, for all inputs and sizes.

    ``inputs`` has the type of every argument, ``x="float32[B, 2, N]"``: sizes are numbers or symbols, ``where`` are
    conditions on these (``"N % 2 == 0"``). A third result, a boolean tensor, says where the rule applies. Raises
    :class:`UserError` for what makes no rule."""

    def declared(function: Callable[..., Any]) -> UserRule:
        called = name or function.__name__
        return _rule(function, called, inputs, where)

    return declared


def _rule(function: Callable[..., Any], name: str, inputs: Mapping[str, str], where: Sequence[str]) -> UserRule:
    place = rules_place(f"rule {name}")
    types = parse_types(inputs, place)
    wanted = list(inspect.signature(function).parameters)
    if set(wanted) != set(types):
        raise no_rule(place, f"types of {', '.join(types) or 'nothing'}", f"types of {', '.join(wanted)}")
    names = {size for _, shape in types.values() for size in shape if isinstance(size, str)}
    plain = next((size for size in names if not size.isidentifier()), None)
    if plain is not None:
        raise no_rule(place, f"the size {plain}", "a number or a symbol for every dimension")
    symbols = {"symbols": {size: {"hint": _EXAMPLE, "min": 2} for size in sorted(names)}}
    values = {s: entry["hint"] for s, entry in sized(symbols, where, place)["symbols"].items()} if names else {}
    args = [_example(*types[argument], values) for argument in wanted]
    dynamic = {a: {k: s for k, s in enumerate(types[a][1]) if isinstance(s, str)} for a in wanted}
    program = capture(_several(function), args, dynamic={a: d for a, d in dynamic.items() if d} or None)
    document = dict(program.document)
    if names:
        document["sizes"] = sized(document["sizes"], where, place)
    graph = graph_of(document, place.text, limits_from_environment())
    if len(graph.outputs) not in (2, 3):
        raise no_rule(place, f"{len(graph.outputs)} results", "both sides, and perhaps where they are equal")
    left, right, *holds = (_part(graph, k) for k in range(len(graph.outputs)))
    kernels = any(n.op == "call" and not n.target.startswith("aten.") and n.target != "getitem" for n in graph.nodes)
    native = _native(function, wanted, types) if kernels else None
    return make_rule(name, left, right, holds[0] if holds else None, place.text, native)


def _example(dtype: str, shape: Sequence[Any], values: Mapping[str, int]) -> torch.Tensor:
    return torch.zeros([values.get(size, size) for size in shape], dtype=getattr(torch, dtype))


def _several(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its results as a tuple of distinct tensors: two that are one object are two outputs."""

    def run(*args: Any) -> Any:
        return tuple(function(*args))

    run.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    run.__name__ = function.__name__
    return run


def _part(graph: Graph, k: int) -> Graph:
    """The program of one output, with the inputs that it reads."""
    output = graph.outputs[k]
    used = graph.ancestors(output.node)
    return replace(graph, nodes=tuple(node for node in graph.nodes if node.name in used), outputs=(output,))


def _native(function: Callable[..., Any], wanted: Sequence[str], types: Mapping[str, Any]) -> Callable[..., Any]:
    def run(inputs: Mapping[str, Any]) -> tuple[Any, Any, float]:
        args = [torch.as_tensor(inputs[name]).to(getattr(torch, types[name][0])) for name in wanted]
        try:
            with torch.no_grad():
                left, right = function(*args)[:2]
        except TantamountError:
            raise
        except Exception as problem:
            raise UserError(
                "job-rule",
                place=f"rule {function.__name__}",
                found=said(problem),
                needed="functions that can be executed",
            ) from None
        precision = torch.finfo(left.dtype).eps if left.is_floating_point() else 0.0
        return left.to(torch.float64).numpy(), right.to(torch.float64).numpy(), precision

    return run
