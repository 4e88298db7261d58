"""vLLM's attention layers in captured programs: what the kernel knows of each, and its cache."""

# pyright: basic
from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

from tantamount.capture.fx_json import parse_graph
from tantamount.capture.programs import Program
from tantamount.errors import UserError
from tantamount.limits import limits_from_environment

__all__ = ["kernels_of", "with_kernels"]

_UPDATE = "vllm.unified_kv_cache_update.default"
_ATTENTION = "vllm.unified_attention_with_output.default"
_OF_THE_RANK = ("num_heads", "num_kv_heads", "num_queries_per_kv")  # what shapes say, too


def kernels_of(modules: Iterable[Any]) -> dict[str, str]:
    """The attributes of each attention layer that vLLM's kernel knows beside its operands, as text, by the layer's name
    as it is in graphs: layers of which it differs are different functions."""
    found: dict[str, str] = {}
    for module in modules:
        name, kernel = getattr(module, "layer_name", None), getattr(module, "impl", None)
        if name is None or kernel is None:
            continue
        known = {key: value for key, value in sorted(vars(kernel).items()) if key not in _OF_THE_RANK}
        for key, value in known.items():
            if value is not None and not isinstance(value, bool | int | float | str | Enum):
                raise UserError(
                    "capture-vllm", place=f"the attention of {name}", found=f"{key}: {type(value).__name__}",
                    needed="an attention kernel that is given by numbers",
                )  # fmt: skip
        text = ", ".join(f"{key}={value}" for key, value in known.items())
        found[name] = found[f"LayerName({name!r})"] = f"{name}: {type(kernel).__name__}({text})"
    return found


def with_kernels(program: Program, kernels: Mapping[str, str]) -> Program:
    """Attention without the update of its cache, which is outside of the graph. It is a function of its query, key and
    value only if the cache is written with this key and this value, right before it."""
    nodes: list[dict[str, Any]] = program.document["nodes"]
    updates = {node["name"]: node for node in nodes if node["target"] == _UPDATE}
    kept: list[dict[str, Any]] = []
    for node in nodes:
        if node["target"] == _UPDATE:
            continue
        if node.get("args") == [_ATTENTION]:
            given = node["kwargs"]
            dependency = given["kv_cache_dummy_dep"]
            update = updates.pop(dependency["node"], None) if dependency else None
            if update is None or update["args"] != [given[key] for key in ("key", "value", "layer_name")]:
                raise _another(f"node {node['name']}", "attention after no, or another, cache update")
            node = {**node, "kwargs": {**given, "kv_cache_dummy_dep": None, "layer_name": kernels[given["layer_name"]]}}
        kept.append(node)
    if updates:
        raise _another(f"node {next(iter(updates))}", "a cache update that belongs to no attention")
    document = {**program.document, "nodes": kept}
    graph = parse_graph(json.dumps(document), program.graph.path, limits_from_environment())
    return replace(program, graph=graph, document=document)


def _another(place: str, found: str) -> UserError:
    needed = "one update for every attention, with its key and value, for its layer"
    return UserError("capture-vllm", place=place, found=found, needed=needed)
