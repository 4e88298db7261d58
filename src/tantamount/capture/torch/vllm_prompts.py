"""vLLM's attention over one prompt, by what its kernel computes: a function of PyTorch, captured in place of the call.

Within one prompt whose keys and values are all in the cache, in order, the cache is no more than these keys and values,
and its masks follow from positions. What the kernel knows of a layer (its scale, window, cap, slopes) is consumed or
makes that there is no definition: then the kernel is known by its labels.
"""

# pyright: basic
from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from importlib import import_module
from typing import Any, cast

import torch
from torch import Tensor, nn

from tantamount.capture.fx_json import parse_graph
from tantamount.capture.programs import Program
from tantamount.capture.torch.programs import capture
from tantamount.limits import limits_from_environment

__all__ = [
    "PromptAttention", "attending", "attention_of", "paged", "prompt_attentions", "spliced", "towards_zero",
    "with_computed_tables",
]  # fmt: skip

_TABLE = "cos_sin_cache"  # of a rotary embedding

# what a kernel holds beside its numbers, where one device attends causally to an ordinary cache
_ORDINARY: Mapping[str, object] = {
    "attn_type": "decoder", "kv_sharing_target_layer_name": None,
    "use_zentorch_sdpa": False, "need_to_return_lse_for_decode": False,
    "dcp_rank": 0, "dcp_world_size": 1, "pcp_rank": 0, "pcp_world_size": 1, "total_cp_rank": 0,
    "total_cp_world_size": 1,
}  # fmt: skip
_CACHED = {"fp8": "float8_e4m3fn", "fp8_e4m3": "float8_e4m3fn", "fp8_e5m2": "float8_e5m2"}
# of a type of 8 bits: binary digits after the point, the least exponent, and the largest number
_NARROW = {"float8_e4m3fn": (3, -6, 448.0), "float8_e5m2": (2, -14, 57344.0)}
_OF_SHAPES = frozenset({"num_heads", "num_kv_heads", "num_queries_per_kv", "head_size"})
_NUMBERS = frozenset({"scale", "sliding_window", "logits_soft_cap", "alibi_slopes"})


@dataclass(frozen=True)
class PromptAttention:
    """Causal attention of a prompt over itself. ``window``: how many keys a query sees, its own among them (0: all
    before it); ``cap``: scores are ``cap tanh(score / cap)`` (0: as they are); ``slopes``: of ALiBi, one for each
    query head (none: no bias); ``sinks``: the parameter that has one more score for every query head, which takes part
    in the softmax and has no value (none: no such score); ``cached``: the type of the cache where that is of 8 bits
    (none: that of the keys), which holds keys and values divided by ``scales``."""

    scale: float
    window: int = 0
    cap: float = 0.0
    slopes: tuple[float, ...] = field(default=())
    sinks: str = ""
    cached: str = ""
    scales: tuple[float, float] = (1.0, 1.0)

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, sinks: Tensor | None = None) -> Tensor:
        """The attention, of shape (tokens, heads, value size), of a query of shape (tokens, heads, size) and of keys
        and values, of which each head serves as many query heads, one after the other, as there are for it; and of
        the sinks, one for each query head, if it has some."""
        tokens, heads = query.shape[:2]
        each = heads // key.shape[1]
        if self.cached:
            key, value = (towards_zero(x / s, self.cached) * s for x, s in zip((key, value), self.scales, strict=True))
        key, value = (x.unsqueeze(2).expand(-1, -1, each, -1).reshape(tokens, heads, -1) for x in (key, value))
        scores = torch.matmul(query.permute(1, 0, 2), key.permute(1, 2, 0)) * self.scale
        if self.cap:
            scores = self.cap * torch.tanh(scores / self.cap)
        places = torch.arange(tokens)
        behind = places.unsqueeze(1) - places.unsqueeze(0)  # by how much the query is behind the key
        if self.slopes:
            scores = scores - torch.tensor(self.slopes).reshape(-1, 1, 1) * behind
        hidden = behind < 0
        if self.window:
            hidden = hidden | (behind >= self.window)
        scores = scores.masked_fill(hidden, float("-inf"))
        if sinks is not None:
            scores = torch.cat([scores, sinks.reshape(-1, 1, 1).expand(-1, tokens, 1)], -1)
        weights = torch.softmax(scores, -1)[..., :tokens]
        return torch.matmul(weights, value.permute(1, 0, 2)).permute(1, 0, 2)


def paged(
    attention: PromptAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sinks: Tensor | None = None,
    *,
    block: int = 32,
) -> Tensor:
    """The same by vLLM's own kernel for CPUs, over a cache whose blocks are in reverse; the query may be of the last
    tokens only. Raises RuntimeError for head sizes and types that the kernel is not built for."""
    ops: Any = import_module("vllm._custom_ops")
    instructions = import_module("vllm.v1.attention.backends.cpu_attn")._get_attn_isa
    (tokens, heads, size), (length, groups, _) = query.shape, key.shape
    held = next((name for name, cached in reversed(_CACHED.items()) if cached == attention.cached), "auto")
    more = {"k_scale": attention.scales[0], "v_scale": attention.scales[1], "kv_cache_dtype": held}
    kind = instructions(query.dtype, block, size, held)
    count = -(-length // block)
    stored = torch.uint8 if attention.cached else query.dtype
    cache = torch.zeros(count, groups, 2 * block, size, dtype=stored).chunk(2, dim=2)
    table = torch.arange(count - 1, -1, -1, dtype=torch.int32)
    places = torch.arange(length)
    slots = table[places // block].to(torch.int64) * block + places % block
    ops.cpu_attn_reshape_and_cache(key, value, *cache, slots, kind, **more)
    starts, lengths = (torch.tensor(x, dtype=torch.int32) for x in ([0, tokens], [length]))
    window, found = attention.window or -1, torch.zeros_like(query)
    plan = ops.cpu_attn_get_scheduler_metadata(
        1, heads, groups, size, lengths, query.dtype, starts, True, window, kind, True
    )
    ops.cpu_attention_with_kv_cache(
        query, *cache, found, starts, lengths, attention.scale, True,
        torch.tensor(attention.slopes) if attention.slopes else None, window, table.unsqueeze(0), attention.cap, plan,
        sinks, **more,
    )  # fmt: skip
    return found


def towards_zero(x: Tensor, kind: str) -> Tensor:
    """Numbers as vLLM's kernel for CPUs writes them into a cache of 8 bits: the nearest ones of that type that are no
    larger in magnitude, and not the nearest ones, as a cast gives them. What is too large is the largest one."""
    digits, least, most = _NARROW[kind]
    exponent = torch.floor(torch.log2(x.abs().clamp(min=2.0**least)))
    step = torch.exp2(exponent - digits)
    return (torch.trunc(x / step) * step).clamp(-most, most)


@contextmanager
def attending(modules: Iterable[Any], prompts: Mapping[str, PromptAttention]) -> Generator[None]:
    """Attention of one prompt by vLLM's kernel, where vLLM only warms up, for there is no batch of its own: in the
    layers of which it is known, by name."""
    layers = [module for module in modules if getattr(module, "layer_name", None) in prompts]
    for layer in layers:
        layer.impl.forward = partial(_attend, prompts[layer.layer_name], getattr(layer.impl, "sinks", None))
    try:
        yield
    finally:
        for layer in layers:
            del layer.impl.forward


def _attend(
    attention: PromptAttention,
    sinks: Tensor | None,
    layer: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *_: Any,
    output: Tensor,
    **__: Any,
) -> Tensor:
    return output.copy_(paged(attention, query, key, value, sinks).reshape(output.shape))


def attention_of(
    kernel: Any, names: Mapping[int, str] | None = None, scales: tuple[float, float] | None = None
) -> PromptAttention | None:
    """The attention that vLLM's kernel of a layer computes; ``None`` where it holds something that is not known.
    ``names``: of parameters, by what ``id`` gives for them; ``scales``: of keys and values in a cache of 8 bits."""
    known = dict(vars(kernel))
    kind, narrow = known.pop("kv_cache_dtype", "auto"), known.pop("is_fp8_kv_cache", None)
    cached = _CACHED.get(kind, "") if isinstance(kind, str) else ""
    if (not cached and kind != "auto") or narrow not in (None, bool(cached)) or (cached and scales is None):
        return None
    sinks = known.pop("sinks", None)
    if sinks is not None and id(sinks) not in (names or {}):
        return None
    for name, wanted in _ORDINARY.items():
        value = known.pop(name, wanted)
        if (value.value if isinstance(value, Enum) else value) != wanted:
            return None
    if set(known) - _OF_SHAPES - _NUMBERS or "scale" not in known:
        return None
    window, cap, slopes = known.get("sliding_window"), known.get("logits_soft_cap"), known.get("alibi_slopes")
    if window is not None and not isinstance(window, int):
        return None
    return PromptAttention(
        float(known["scale"]),
        0 if window is None or window < 0 else window,
        float(cap or 0.0),
        () if slopes is None else tuple(float(x) for x in slopes),
        "" if sinks is None else (names or {})[id(sinks)],
        cached,
        scales if cached and scales is not None else (1.0, 1.0),
    )


def _scales_of(layer: Any) -> tuple[float, float] | None:
    """The scales of keys and values that a layer gives its kernel; ``None`` for a layer that computes them."""
    scales = tuple(getattr(layer, f"_{which}_scale_float", None) for which in "kv")
    if getattr(layer, "calculate_kv_scales", False) or not all(isinstance(s, float) and s > 0 for s in scales):
        return None
    return cast("tuple[float, float]", scales)


def prompt_attentions(modules: Iterable[Any], names: Mapping[int, str] | None = None) -> dict[str, PromptAttention]:
    """The attention of every layer of which it is known, by the layer's name as it is in graphs. ``names``: as in
    :func:`attention_of`."""
    found: dict[str, PromptAttention] = {}
    for module in modules:
        name, kernel = getattr(module, "layer_name", None), getattr(module, "impl", None)
        attention = None if name is None or kernel is None else attention_of(kernel, names, _scales_of(module))
        if attention is not None:
            found[str(name)] = found[f"LayerName({name!r})"] = attention
    return found


def spliced(
    function: Callable[..., Tensor],
    operands: Mapping[str, tuple[int, ...]],
    name: str,
    stack: str,
    dtype: torch.dtype = torch.float32,
) -> tuple[list[dict[str, Any]], str, dict[str, Any]]:
    """The nodes of a graph that compute a function of some nodes (by name, with their shapes), the name of the last of
    them, and the constants that they need. All their names begin with ``name``; ``stack`` is where they stand."""
    program = capture(function, tuple(torch.zeros(shape, dtype=dtype) for shape in operands.values()))
    document = program.document
    inputs = [node["name"] for node in document["nodes"] if node["op"] == "placeholder"]
    names = dict(zip(inputs[len(inputs) - len(operands) :], operands, strict=True))  # what is held comes first, unread
    constants: dict[str, Any] = {}
    made: list[dict[str, Any]] = []
    for node in document["nodes"]:
        if node["op"] == "placeholder":
            continue
        names[node["name"]] = f"{name} {node['name']}"
        copied = {**node, "name": names[node["name"]], "stack": stack}
        if node["op"] == "get_attr" and node["target"] in document.get("constants", {}):
            copied["target"] = copied["name"]
            constants[copied["name"]] = document["constants"][node["target"]]
        made.append({**copied, **{key: _renamed(copied[key], names) for key in ("args", "kwargs") if key in copied}})
    return made, names[document["outputs"][0]["node"]], constants


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    if isinstance(value, dict):
        return {"node": names[value["node"]]} if set(value) == {"node"} else value
    return value


def with_computed_tables(program: Program, model: nn.Module) -> Program:
    """The program with the tables of rotary embeddings as what vLLM computes when it builds them, not as inputs: where
    computing them again gives the same numbers, bit for bit."""
    wanted = {node["name"]: node for node in program.document["nodes"] if node["op"] == "placeholder"}
    constants = dict(program.document.get("constants", {}))
    made: dict[str, list[dict[str, Any]]] = {}
    for path, module in model.named_modules():
        name = f"{path}.{_TABLE}"
        compute = getattr(module, f"_compute_{_TABLE}", None)
        if name not in wanted or compute is None or not torch.equal(compute(), getattr(module, _TABLE)):
            continue
        nodes, last, more = spliced(compute, {}, name, f"the table of {path}")
        dtype = {"dtype": wanted[name]["dtype"]}
        made[name] = [*nodes, {
            **{key: wanted[name][key] for key in ("name", "shape", "dtype")}, "op": "call_function",
            "target": "aten._to_copy.default", "args": [{"node": last}], "kwargs": {"dtype": dtype},
            "stack": f"the table of {path}",
        }]  # fmt: skip
        constants |= more
    kept = [node for node in program.document["nodes"] if node["name"] not in made]
    inputs = [node for node in kept if node["op"] == "placeholder"]
    rest = [node for node in kept if node["op"] != "placeholder"]
    document = {
        **program.document,
        "nodes": [*inputs, *(node for nodes in made.values() for node in nodes), *rest],
        "constants": constants,
    }
    graph = parse_graph(json.dumps(document), program.graph.path, limits_from_environment())
    return replace(program, graph=graph, document=document)
