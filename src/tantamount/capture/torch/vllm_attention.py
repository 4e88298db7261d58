"""vLLM's attention layers in captured programs: what the kernel knows of each, and its cache."""

# pyright: basic
from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

import torch

from tantamount.capture.fx_json import parse_graph
from tantamount.capture.programs import Program
from tantamount.capture.torch.vllm_prompts import PromptAttention, spliced
from tantamount.errors import UserError
from tantamount.limits import limits_from_environment

__all__ = ["kernels_of", "with_kernels"]

_UPDATE = "vllm.unified_kv_cache_update.default"
_ATTENTION = "vllm.unified_attention_with_output.default"
_OF_THE_RANK = ("num_heads", "num_kv_heads", "num_queries_per_kv")  # what shapes say, too


def kernels_of(modules: Iterable[Any], but: Container[str] = ()) -> dict[str, str]:
    """The attributes of each attention layer that vLLM's kernel knows beside its operands, as text, by the layer's name
    as it is in graphs: layers of which it differs are different functions. ``but``: layers that are left out."""
    found: dict[str, str] = {}
    for module in modules:
        name, kernel = getattr(module, "layer_name", None), getattr(module, "impl", None)
        if name is None or kernel is None or name in but:
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


def with_kernels(
    program: Program, kernels: Mapping[str, str], prompts: Mapping[str, PromptAttention] | None = None
) -> Program:
    """Attention without the update of its cache, which is outside of the graph. It is a function of its query, key and
    value only if the cache is written with this key and this value, right before it. ``prompts``: what layers compute,
    by name, where all tokens are one prompt; the others are what their labels say."""
    nodes: list[dict[str, Any]] = program.document["nodes"]
    by_name = {node["name"]: node for node in nodes}
    updates = {node["name"]: node for node in nodes if node["target"] == _UPDATE}
    constants = dict(program.document.get("constants", {}))
    results: dict[str, str] = {}  # of attentions that are spelled out
    kept: list[dict[str, Any]] = []
    held: dict[str, dict[str, Any]] = {}  # parameters that only kernels read
    for node in nodes:
        if node["target"] == "getitem" and node["args"][0].get("node") in results:
            if node["args"][1] != 1:
                raise _another(f"node {node['name']}", "a result of attention that is not its output")
            source = {"node": results[node["args"][0]["node"]]}
            kept.append({**node, "target": "aten.clone.default", "args": [source]})
            continue
        if node["target"] == _UPDATE:
            continue
        if node.get("args") == [_ATTENTION]:
            given = node["kwargs"]
            dependency = given["kv_cache_dummy_dep"]
            update = updates.pop(dependency["node"], None) if dependency else None
            if update is None or update["args"] != [given[key] for key in ("key", "value", "layer_name")]:
                raise _another(f"node {node['name']}", "attention after no, or another, cache update")
            known = (prompts or {}).get(given["layer_name"])
            if known is not None and given["output_scale"] is None and given["output_block_scale"] is None:
                operands = {given[key]["node"]: by_name[given[key]["node"]] for key in ("query", "key", "value")}
                shapes = {name: tuple(one["shape"]) for name, one in operands.items()}
                dtypes = {one["dtype"] for one in operands.values()}
                if len(shapes) == 3 and len(dtypes) == 1:
                    if known.sinks:
                        heads = shapes[given["query"]["node"]][1:2]
                        shapes[known.sinks] = heads
                        held[known.sinks] = {"shape": list(heads), "dtype": next(iter(dtypes))}
                    place, dtype = node.get("stack", ""), getattr(torch, dtypes.pop())
                    made, results[node["name"]], more = spliced(known, shapes, node["name"], place, dtype)
                    kept += made
                    constants |= more
                    continue
            node = {**node, "kwargs": {**given, "kv_cache_dummy_dep": None, "layer_name": kernels[given["layer_name"]]}}
        kept.append(node)
    if updates:
        raise _another(f"node {next(iter(updates))}", "a cache update that belongs to no attention")
    like = next(node for node in nodes if node["op"] == "placeholder")
    extra = [{**like, "name": name, "target": name, **typed} for name, typed in held.items() if name not in by_name]
    document = {**program.document, "nodes": [*extra, *kept], "constants": constants}
    graph = parse_graph(json.dumps(document), program.graph.path, limits_from_environment())
    return replace(program, graph=graph, document=document)


def _another(place: str, found: str) -> UserError:
    needed = "one update for every attention, with its key and value, for its layer"
    return UserError("capture-vllm", place=place, found=found, needed=needed)
