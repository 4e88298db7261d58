"""What vLLM's attention computes of one prompt, against PyTorch's; the kernel's own values: benchmarks/kernels.py.

No vLLM is needed here."""

from __future__ import annotations

import json
from enum import Enum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tantamount import UserError

pytest.importorskip("torch", reason="attention of PyTorch")
import torch

from tantamount.capture.fx_json import parse_graph
from tantamount.capture.programs import Program
from tantamount.capture.torch.vllm_attention import kernels_of, with_kernels
from tantamount.capture.torch.vllm_prompts import (
    PromptAttention,
    attention_of,
    prompt_attentions,
    towards_zero,
    with_computed_tables,
)
from tantamount.limits import Limits
from tantamount.semantics.interpret import interpret

HEADS = 4
SLOPES = tuple(2.0**-k for k in range(HEADS))
KINDS = {
    "plain": PromptAttention(0.5),
    "window": PromptAttention(0.25, window=3),
    "cap": PromptAttention(0.5, cap=2.0),
    "ALiBi": PromptAttention(0.5, slopes=SLOPES),
    "all": PromptAttention(0.25, 4, 3.0, SLOPES),
    "float8": PromptAttention(0.5, cached="float8_e4m3fn", scales=(0.5, 0.25)),
}


def drawn() -> tuple[Any, Any, Any]:
    generator = torch.Generator().manual_seed(3)
    shapes = (7, HEADS, 8), (7, 2, 8), (7, 2, 6)
    q, k, v = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return q, k, v


def below(x: Any, kind: str) -> Any:
    """The number of 8 bits that is nearest to each among those that are no larger in magnitude."""
    every = torch.arange(256, dtype=torch.uint8).view(getattr(torch, kind)).double()
    every = every[every.isfinite() & (every >= 0)].sort().values
    return every[torch.searchsorted(every, x.abs().contiguous(), right=True) - 1] * x.sign()


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2"])
def test_numbers_of_eight_bits_towards_zero(kind: str) -> None:
    generator = torch.Generator().manual_seed(1)
    drawn = torch.randn(4000, generator=generator, dtype=torch.float64)
    x = drawn * 2.0 ** torch.randint(-20, 18, (4000,), generator=generator)
    edges = torch.tensor([0.0, 448, 449, -464, 57344, 6e4, -1e9, 2**-9, 2**-10, 2**-6, -0.99 * 2**-6, 2**-14, 1, 2])
    x = torch.cat([x, edges.double()])
    assert torch.equal(towards_zero(x, kind), below(x, kind))
    assert not torch.equal(towards_zero(drawn, kind), drawn.to(getattr(torch, kind)).double())  # which are the nearest


def expected(attention: PromptAttention) -> Any:
    """One query at a time, over the keys that it sees."""
    q, k, v = drawn()
    if attention.cached:
        k, v = (below(x / s, attention.cached) * s for x, s in zip((k, v), attention.scales, strict=True))
    out = torch.zeros(7, HEADS, 6, dtype=torch.float64)
    for t in range(7):
        for h in range(HEADS):
            low = max(0, t - attention.window + 1) if attention.window else 0
            scores = (k[low : t + 1, h // 2] @ q[t, h]) * attention.scale
            scores = attention.cap * (scores / attention.cap).tanh() if attention.cap else scores
            if attention.slopes:
                scores = scores + attention.slopes[h] * torch.arange(low - t, 1)
            out[t, h] = scores.softmax(0) @ v[low : t + 1, h // 2]
    return out


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_attends_to_what_is_before_it(kind: str) -> None:
    found = KINDS[kind](*drawn())
    assert torch.allclose(found, expected(KINDS[kind]), atol=1e-12)


class Kind(Enum):
    DECODER = "decoder"
    ENCODER = "encoder"


def kernel(**changed: Any) -> Any:
    held = {"scale": 0.25, "sliding_window": -1, "logits_soft_cap": 0, "alibi_slopes": None, "attn_type": Kind.DECODER,
            "head_size": 8, "num_heads": 4, "kv_cache_dtype": "auto", "sinks": None}  # fmt: skip
    return SimpleNamespace(**{**held, **changed})


def test_what_a_kernel_holds_is_consumed() -> None:
    assert attention_of(kernel()) == PromptAttention(0.25)
    whole = kernel(sliding_window=4, logits_soft_cap=3.0, alibi_slopes=torch.tensor(SLOPES))
    assert attention_of(whole) == PromptAttention(0.25, 4, 3.0, SLOPES)
    for kind, name in (("fp8", "float8_e4m3fn"), ("fp8_e4m3", "float8_e4m3fn"), ("fp8_e5m2", "float8_e5m2")):
        narrow = kernel(kv_cache_dtype=kind, is_fp8_kv_cache=True)
        assert attention_of(narrow, scales=(0.5, 2.0)) == PromptAttention(0.25, cached=name, scales=(0.5, 2.0))
        layer = SimpleNamespace(layer_name="a", impl=narrow, _k_scale_float=0.5, _v_scale_float=2.0)
        assert prompt_attentions([layer])["a"].scales == (0.5, 2.0)
        layer.calculate_kv_scales = True
        assert prompt_attentions([layer]) == {}


@pytest.mark.parametrize(
    "changed",
    [
        {"attn_type": Kind.ENCODER},
        {"sinks": torch.zeros(4)},
        {"kv_cache_dtype": "fp8"},  # and no scales
        {"kv_cache_dtype": "nvfp4"},
        {"kv_cache_dtype": "auto", "is_fp8_kv_cache": True},
        {"kv_sharing_target_layer_name": "layers.0"},
        {"dcp_world_size": 2},
        {"sliding_window": (3, 3)},
        {"a_new_switch": False},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_what_is_not_known_has_no_definition(changed: Any) -> None:
    assert attention_of(kernel(**changed)) is None
    layer = SimpleNamespace(layer_name="a", impl=kernel(**changed))
    assert prompt_attentions([layer]) == {}


def program(index: int = 1) -> Program:
    def given(name: str, *shape: int) -> Any:
        return {"name": name, "op": "placeholder", "target": name, "shape": list(shape), "dtype": "float64"}

    operands = {key: {"node": node} for key, node in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "out"))}
    attention = {
        "name": "both", "op": "call_function", "target": "higher_order.auto_functionalized",
        "args": ["vllm.unified_attention_with_output.default"],
        "kwargs": {**operands, "layer_name": "LayerName('a')", "output_scale": None, "output_block_scale": None,
                   "kv_cache_dummy_dep": None},
    }  # fmt: skip
    update = {"name": "update", "op": "call_function", "target": "vllm.unified_kv_cache_update.default",
              "args": [{"node": "k"}, {"node": "v"}, "LayerName('a')"], "kwargs": {}}  # fmt: skip
    attention["kwargs"]["kv_cache_dummy_dep"] = {"node": "update"}
    result = {"name": "y", "op": "call_function", "target": "getitem", "args": [{"node": "both"}, index], "kwargs": {},
              "shape": [7, HEADS, 6], "dtype": "float64"}  # fmt: skip
    document = {
        "format": "fx-nodes/1", "outputs": [{"name": "y", "node": "y"}],
        "nodes": [given("q", 7, HEADS, 8), given("k", 7, 2, 8), given("v", 7, 2, 6), given("out", 7, HEADS, 6), update,
                  attention, result],
    }  # fmt: skip
    graph = parse_graph(json.dumps(document), "a.json", Limits())
    return Program(graph, document)


@pytest.mark.parametrize("kind", ["plain", "all", "float8"])
def test_a_call_becomes_its_definition(kind: str) -> None:
    prompts = {"LayerName('a')": KINDS[kind]}
    graph = with_kernels(program(), {}, prompts).graph
    assert all("unified" not in node.target and "unified" not in str(node.args) for node in graph.nodes)
    given = dict(zip("qkv", (x.numpy() for x in drawn()), strict=True), out=np.zeros((7, HEADS, 6)))
    found = interpret(graph, given).array("y")
    assert np.allclose(found, expected(KINDS[kind]).numpy(), atol=1e-6)  # slopes are recorded in float32
    with pytest.raises(UserError, match="not its output"):
        with_kernels(program(0), {}, prompts)


def test_sinks_are_a_parameter_that_only_the_kernel_reads() -> None:
    """One more score for each query head, without a value; the graph has the parameter as an input of its own."""
    scores = torch.nn.Parameter(torch.tensor([0.5, -1.0, 2.0, 0.0], dtype=torch.float64))
    found = attention_of(kernel(sinks=scores), {id(scores): "a.sinks"})
    assert found is not None
    assert found.sinks == "a.sinks"
    attention = PromptAttention(0.25, window=3, sinks="a.sinks")
    graph = with_kernels(program(), {}, {"LayerName('a')": attention}).graph
    assert graph.inputs[0].name == "a.sinks"
    q, k, v = drawn()
    given = {"q": q.numpy(), "k": k.numpy(), "v": v.numpy(), "out": np.zeros((7, HEADS, 6))}
    computed = interpret(graph, {**given, "a.sinks": scores.detach().numpy()}).array("y")
    for t in range(7):
        for h in range(HEADS):
            seen = slice(max(0, t - 2), t + 1)
            row = torch.cat([k[seen, h // 2] @ q[t, h] * 0.25, scores[h : h + 1].detach()])
            assert np.allclose(computed[t, h], (row.softmax(0)[:-1] @ v[seen, h // 2]).numpy(), atol=1e-12)


def test_layers_with_definitions_need_no_words() -> None:
    odd = SimpleNamespace(layer_name="a", impl=kernel(alibi_slopes=torch.tensor(SLOPES)))
    with pytest.raises(UserError, match="alibi_slopes"):
        kernels_of([odd])
    assert kernels_of([odd], prompt_attentions([odd])) == {}


class Rotary(torch.nn.Module):
    def __init__(self, base: float = 100.0) -> None:
        super().__init__()
        self.base = base
        self.register_buffer("cos_sin_cache", self._compute_cos_sin_cache(), persistent=False)

    def _compute_cos_sin_cache(self) -> Any:
        return torch.outer(torch.arange(3.0), 1.0 / self.base ** (torch.arange(0, 4, 2) / 4)).cos()


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rotary = Rotary()

    def forward(self, x: Any) -> Any:
        return x * self.rotary.cos_sin_cache


def test_tables_are_what_computes_them_if_it_does() -> None:
    from tantamount.capture.torch.programs import capture

    model = Model()
    captured = capture(model, (torch.zeros(3, 2),))
    table = "rotary.cos_sin_cache"
    assert with_computed_tables(captured, model).graph.by_name[table].op == "call"
    model.rotary.base = 50.0  # not what the table was made with
    assert with_computed_tables(captured, model).graph.by_name[table].op == "input"
