"""Relations of weights from the numbers of their elements, and attention with its cache. No vLLM is needed here."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tantamount import UserError, Verdict, refine
from tantamount.capture.fx_json import parse_graph
from tantamount.capture.programs import Program, Ranks
from tantamount.capture.torch.vllm_attention import with_kernels
from tantamount.capture.torch.weights import in_pieces, weight_relations
from tantamount.ir.mesh import Mesh
from tantamount.limits import Limits

WHOLE = np.arange(1, 97).reshape(12, 8)  # 8 rows of queries, 2 of keys, 2 of values


def relations(*parts: Any, whole: Any = WHOLE) -> tuple[Any, Any]:
    found, cut = weight_relations({"w": whole}, [{"w": part} for part in parts], Mesh({"tp": len(parts)}))
    return found["w"], cut


def rows(*numbers: int) -> Any:
    return WHOLE[list(numbers)]


def test_placements() -> None:
    assert relations(WHOLE, WHOLE) == ("Replicate()", {})
    assert relations(WHOLE[:6], WHOLE[6:]) == ("Shard(0)", {})
    assert relations(WHOLE[:, :4], WHOLE[:, 4:]) == ("Shard(1)", {})


def test_fused_heads() -> None:
    found, cut = relations(rows(0, 1, 2, 3, 8, 10), rows(4, 5, 6, 7, 9, 11))
    assert cut == {}
    assert found == (
        "concat(rank(0)[0:4, 0:8], rank(1)[0:4, 0:8], rank(0)[4:5, 0:8], rank(1)[4:5, 0:8], "
        "rank(0)[5:6, 0:8], rank(1)[5:6, 0:8], dim=0)"
    )


def program(*nodes: Any) -> Program:
    outputs = [{"name": "y", "node": nodes[-1]["name"]}]
    document = {"format": "fx-nodes/1", "rank": None, "origin": "", "nodes": list(nodes), "outputs": outputs}
    return Program(parse_graph(json.dumps(document), "test", Limits()), document)


def placeholder(name: str, *shape: int) -> Any:
    return {"name": name, "op": "placeholder", "target": name, "shape": list(shape), "dtype": "float32"}


def call(name: str, target: str, *args: Any, **kwargs: Any) -> Any:
    entry = {"name": name, "op": "call_function", "target": target, "args": list(args), "kwargs": kwargs}
    return entry | {"shape": None, "dtype": None}


def test_parts_in_common_are_inputs_of_their_own() -> None:
    """Both ranks have the one head of keys and values, each its own queries."""
    shared = (8, 9, 10, 11)
    parts = rows(0, 1, 2, 3, *shared), rows(4, 5, 6, 7, *shared)
    found, cut = relations(*parts)
    assert cut == {"w": (0, ((0, 4), (4, 8)))}
    assert found["equal"] == ['rank(0, "w[4:8]") == rank(1, "w[4:8]")']
    local = in_pieces(program(placeholder("w", 8, 8), call("y", "aten.relu.default", {"node": "w"})), cut)
    assert [node.name for node in local.graph.inputs] == ["w[0:4]", "w[4:8]"]
    whole = program(placeholder("w", 12, 8), call("y", "aten.relu.default", {"node": "w"}))
    expected = "concat(rank(0)[0:4], rank(1)[0:4], rank(1)[4:8], dim=0)"
    report = refine(whole, Ranks((local, local), Mesh({"tp": 2}), {"w": found}), outputs={"y": expected})
    assert report.verdict is Verdict.PROVED, str(report)
    wrong = "concat(rank(1)[0:4], rank(0)[0:4], rank(1)[4:8], dim=0)"
    report = refine(whole, Ranks((local, local), Mesh({"tp": 2}), {"w": found}), outputs={"y": wrong})
    assert report.verdict is Verdict.REFUTED, str(report)


@pytest.mark.parametrize(
    "parts",
    [
        (WHOLE[:6], np.zeros_like(WHOLE[6:])),  # padding
        (WHOLE[:6], WHOLE[:6] + 1000),  # elements of another weight
        (WHOLE[:6], WHOLE[6:][:, [1, 0, 3, 2, 5, 4, 7, 6]] + np.eye(6, 8, dtype=int)),
        (WHOLE[:6], WHOLE[:6]),  # a half that nobody has
    ],
)
def test_what_no_block_explains_is_refused(parts: Any) -> None:
    with pytest.raises(UserError, match=r"elements that no block|do not make up the whole"):
        relations(*parts)


# ---------------------------------------------------------------------------------------------- attention
NAMES = {"LayerName('a')": "a: Kernel(scale=0.5)"}
HEADS = [placeholder("q", 4, 2, 8), placeholder("k", 4, 1, 8), placeholder("v", 4, 1, 8), placeholder("out", 4, 2, 8)]


def attention(key: str, value: str, dependency: Any = "update") -> list[Any]:
    given = {name: {"node": node} for name, node in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "out"))}
    return [
        *HEADS,
        call("update", "vllm.unified_kv_cache_update.default", {"node": key}, {"node": value}, "LayerName('a')"),
        call(
            "both", "higher_order.auto_functionalized", "vllm.unified_attention_with_output.default", **given,
            layer_name="LayerName('a')", output_scale=None, output_block_scale=None,
            kv_cache_dummy_dep=None if dependency is None else {"node": dependency},
        ),
        call("y", "getitem", {"node": "both"}, 1),
    ]  # fmt: skip


def test_an_update_with_the_same_key_and_value_is_left_out() -> None:
    found = with_kernels(program(*attention("k", "v")), NAMES).graph
    assert "update" not in found.by_name
    assert found.by_name["both"].kwargs["layer_name"] == "a: Kernel(scale=0.5)"
    assert found.by_name["both"].kwargs["kv_cache_dummy_dep"] is None


@pytest.mark.parametrize(
    "nodes", [attention("v", "k"), attention("k", "k"), attention("k", "v", None), attention("k", "v", "out")]
)
def test_another_update_is_refused(nodes: list[Any]) -> None:
    with pytest.raises(UserError, match=r"after no, or another, cache update"):
        with_kernels(program(*nodes), NAMES)


def test_an_update_too_many_is_refused() -> None:
    *nodes, last = attention("k", "v")
    more = call("more", "vllm.unified_kv_cache_update.default", {"node": "v"}, {"node": "k"}, "LayerName('a')")
    with pytest.raises(UserError, match="belongs to no attention"):
        with_kernels(program(*nodes, more, last), NAMES)
