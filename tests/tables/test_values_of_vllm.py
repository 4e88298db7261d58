"""vLLM's kernels against their formulas, written with PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.jobs import job_files
from tantamount.capture.job import read_job
from tantamount.errors import UserError
from tantamount.ir.graph import Graph, Node, Output, Ref
from tantamount.ir.mesh import Mesh
from tantamount.ir.types import DType, TensorType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import apply
from tantamount.ops.functionalized import wrapper
from tantamount.ops.table import lookup
from tantamount.refinement import refine_job
from tantamount.semantics.interpret import interpret_ranks
from tantamount.semantics.reference import Reference
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch", reason="the formulas are written with PyTorch")
R = np.random.default_rng(0)


def call(target: str, narrow: dict[str, Any] | None = None, **kwargs: Any) -> tuple[Any, ...]:
    """The new values of what the operator overwrites. ``narrow``: the types of some operands."""
    kinds = {"f": DType.FLOAT32, "i": DType.INT64, "int8": DType.INT8, "int32": DType.INT32, "float16": DType.FLOAT16}
    typed: dict[str, Any] = dict(kwargs)
    for key, x in kwargs.items():
        if isinstance(x, np.ndarray):
            kind = np.dtype(narrow[key]).name if narrow and key in narrow else x.dtype.kind
            array = x.astype(np.int64) if kind in ("int8", "int32") else x
            typed[key] = Tensor(x.shape, kinds[kind], array)
    row = wrapper(lookup(target, ""), "auto_functionalized", dict.fromkeys(typed), "")
    found = apply(row, "auto_functionalized", (target,), typed, Builder(Reference()), "test")
    assert isinstance(found, tuple)
    assert found[0] is None
    return tuple(None if x is None else torch.tensor(np.array(x.value)) for x in found[1:])


def close(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


def normed(x: Any, weight: Any, eps: float) -> Any:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


@pytest.mark.parametrize("shape", [(5, 8), (2, 3, 8)])
def test_rms_norms(shape: tuple[int, ...]) -> None:
    x, residual, weight = R.standard_normal(shape), R.standard_normal(shape), R.standard_normal(8)
    for name in ("out", "result"):  # as vLLM 0.32 has it for CPUs, and for GPUs
        (out,) = call("_C.rms_norm.default", **{name: np.zeros(shape)}, input=x, weight=weight, epsilon=0.1)
        close(out, normed(torch.tensor(x), torch.tensor(weight), 0.1))
    (out,) = call("_C.rms_norm.default", out=np.zeros(shape), input=x, weight=None, epsilon=0.1)
    close(out, normed(torch.tensor(x), torch.ones(8), 0.1))
    for wrong in ({"out": np.zeros(shape), "result": np.zeros(shape)}, {"output": np.zeros(shape)}):
        with pytest.raises(UserError, match="schema"):
            call("_C.rms_norm.default", **wrong, input=x, weight=weight, epsilon=0.1)
    with pytest.raises(UserError, match="written into out"):
        call("_C.rms_norm.default", out=np.zeros(8), input=x, weight=weight, epsilon=0.1)
    with pytest.raises(UserError, match="out is"):
        call("_C.rms_norm.default", out=np.zeros(shape, dtype=np.int64), input=x, weight=weight, epsilon=0.1)
    out, total = call("_C.fused_add_rms_norm.default", input=x, residual=residual, weight=weight, epsilon=0.01)
    close(total, torch.tensor(x + residual))
    close(out, normed(torch.tensor(x + residual), torch.tensor(weight), 0.01))
    out, _ = call("_C.fused_add_rms_norm.default", input=x, residual=residual, weight=None, epsilon=0.01)
    close(out, normed(torch.tensor(x + residual), torch.ones(8), 0.01))


def test_a_program_that_has_a_norm_written_into_its_result(tmp_path: Path) -> None:
    """``auto_functionalized`` of ``_C.rms_norm(out!, ...)``, in both versions, against PyTorch's norm."""
    inputs = "x: float32[3, 8]\nw: float32[8]\n"
    first = "higher_order.auto_functionalized('_C.rms_norm.default', {}=room, input=x, weight=w, epsilon={})"
    second = (
        "higher_order.auto_functionalized_v2('_C.rms_norm.default', input=x, weight=w, epsilon={1}, _{0}_base_index=0,"
        " _{0}_alias=True, _all_bases=[room])"
    )

    def verdict(call: str, name: str, eps: float) -> Verdict:
        ours = inputs + "y = aten.rms_norm.default(x, [8], w, 0.001)\n-> y"
        theirs = inputs + f"room = aten.empty_like.default(x)\nc = {call.format(name, eps)}\ny = getitem(c, 1)\n-> y"
        tables = '[inputs]\ndefault = "Replicate()"\n[outputs]\ny = "Replicate()"'
        return refine_job(read_job(job_files(tmp_path, ours, [theirs], tables, {}, {}))).verdict

    for call in (first, second):
        assert [verdict(call, name, 0.001) for name in ("out", "result")] == [Verdict.PROVED] * 2
        assert verdict(call, "out", 0.01) is Verdict.REFUTED


def ir_norm(*args: Any, overload: str = "default") -> tuple[Any, ...]:
    """``vllm_ir.fused_add_rms_norm``, or without a residual ``rms_norm``: its results."""
    given = [Tensor(x.shape, DType.FLOAT32, x) if isinstance(x, np.ndarray) else x for x in args]
    name = "fused_add_rms_norm" if isinstance(args[1], np.ndarray) and args[1].ndim == args[0].ndim else "rms_norm"
    target = f"vllm_ir.{name}.{overload}"
    found = apply(lookup(target, ""), target, tuple(given), {}, Builder(Reference()), "test")
    results = found if isinstance(found, tuple) else (found,)
    return tuple(torch.tensor(np.array(x.value)) for x in results if isinstance(x, Tensor))


@pytest.mark.parametrize("weight", [True, False])
def test_norms_of_the_intermediate_representation(weight: bool) -> None:
    x, residual, w = R.standard_normal((5, 8)), R.standard_normal((5, 8)), R.standard_normal(8)
    given, factor = (w, torch.tensor(w)) if weight else (None, torch.ones(8))
    close(ir_norm(x, given, 0.1)[0], normed(torch.tensor(x), factor, 0.1))
    for overload, count in (("default", 2), ("maybe_inplace", 4)):
        out, total, *_ = found = ir_norm(x, residual, given, 0.01, overload=overload)
        assert len(found) == count
        close(total, torch.tensor(x + residual))
        close(out, normed(torch.tensor(x + residual), factor, 0.01))


def test_memory_that_a_norm_may_have_used_is_unknown() -> None:
    """The operator may write anything into its operands; who reads them afterwards gets no value to rely on."""
    x, residual, w = R.standard_normal((5, 8)), R.standard_normal((5, 8)), R.standard_normal(8)
    *_, new_x, new_residual = ir_norm(x, residual, w, 0.01, overload="maybe_inplace")
    for found, values in ((new_x, (x, 0)), (new_residual, (residual, x + residual))):
        assert all((found - torch.as_tensor(value)).abs().max() > 1e-3 for value in values)


def test_norms_by_the_first_elements_are_refused() -> None:
    with pytest.raises(UserError, match="variance_size=4"):
        ir_norm(R.standard_normal((5, 8)), None, 0.1, 4)


def rotated(positions: Any, x: Any, size: int, cache: Any, neox: bool) -> Any:
    """One token, head and pair after the other."""
    out = x.copy().reshape(positions.size, -1, size)
    half = cache.shape[1] // 2
    for token, position in enumerate(positions.ravel()):
        for head in range(out.shape[1]):
            for i in range(half):
                a, b = (i, half + i) if neox else (2 * i, 2 * i + 1)
                cos, sin = cache[position, i], cache[position, half + i]
                u, v = out[token, head, a], out[token, head, b]
                out[token, head, a], out[token, head, b] = u * cos - v * sin, v * cos + u * sin
    return torch.tensor(out.reshape(x.shape))


@pytest.mark.parametrize("neox", [True, False])
@pytest.mark.parametrize("rotary", [8, 4])
@pytest.mark.parametrize("batched", [False, True])
def test_rotary_embedding(neox: bool, rotary: int, batched: bool) -> None:
    positions = R.integers(0, 16, (2, 3) if batched else 6)
    query, key = R.standard_normal((*positions.shape, 24)), R.standard_normal((*positions.shape, 8))
    cache = R.standard_normal((16, rotary))
    given = {"positions": positions, "head_size": 8, "cos_sin_cache": cache, "is_neox": neox}
    new_query, new_key = call("_C.rotary_embedding.default", query=query, key=key, **given)
    close(new_query, rotated(positions, query, 8, cache, neox))
    close(new_key, rotated(positions, key, 8, cache, neox))
    assert call("_C.rotary_embedding.default", query=query, key=None, **given)[1] is None
    heads = query.reshape((*positions.shape, 3, 8))
    close(
        call("_C.rotary_embedding.default", query=heads, key=None, **given)[0].reshape(query.shape),
        rotated(positions, query, 8, cache, neox),
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"cos_sin_cache": np.ones((16, 10))}, "a cache"),
        ({"cos_sin_cache": np.ones((16, 5))}, "a cache"),
        ({"positions": np.ones(6)}, "positions"),
        ({"head_size": 7}, "cache|reshape"),
        ({"query": np.ones((2, 3, 24))}, "at positions"),
        ({"rope_dim_offset": 8}, "rope_dim_offset=8"),
        ({"inverse": True}, "inverse=True"),
    ],
)
def test_what_rotary_embedding_refuses(change: dict[str, Any], problem: str) -> None:
    given: dict[str, Any] = {
        "positions": np.arange(6), "query": np.ones((6, 24)), "key": np.ones((6, 8)), "head_size": 8,
        "cos_sin_cache": np.ones((16, 8)), "is_neox": True,
    }  # fmt: skip
    with pytest.raises(UserError, match=problem):
        call("_C.rotary_embedding.default", **{**given, **change})


F = torch.nn.functional
GATED = {
    "silu_and_mul": lambda x, y: F.silu(x) * y,
    "mul_and_silu": lambda x, y: x * F.silu(y),
    "gelu_and_mul": lambda x, y: F.gelu(x) * y,
    "gelu_tanh_and_mul": lambda x, y: F.gelu(x, approximate="tanh") * y,
}
POINTWISE = {
    "gelu_new": lambda x: 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x))),
    "gelu_fast": lambda x: 0.5 * x * (1 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x))),
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_quick": lambda x: x * torch.sigmoid(1.702 * x),
}


@pytest.mark.parametrize("name", GATED)
def test_gated_activations(name: str) -> None:
    x = R.standard_normal((2, 3, 8))
    (out,) = call(f"_C.{name}.default", out=np.zeros((2, 3, 4)), input=x)
    close(out, GATED[name](torch.tensor(x[..., :4]), torch.tensor(x[..., 4:])))
    with pytest.raises(UserError, match="halves"):
        call(f"_C.{name}.default", out=np.zeros((2, 3)), input=np.ones((2, 7)))
    with pytest.raises(UserError, match="written into out"):
        call(f"_C.{name}.default", out=np.zeros((2, 8)), input=np.ones((2, 8)))


@pytest.mark.parametrize("name", POINTWISE)
def test_activations(name: str) -> None:
    x = R.standard_normal((2, 8))
    (out,) = call(f"_C.{name}.default", out=np.zeros((2, 8)), input=x)
    close(out, POINTWISE[name](torch.tensor(x)))


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_collectives(dim: int) -> None:
    def collective(name: str, *args: Any) -> list[Any]:
        x = Node("x", "input", "x", type=TensorType((4, 6), DType.FLOAT64))
        y = Node("y", "call", f"vllm.{name}.default", (Ref("x"), *args, "g"))
        found = interpret_ranks([Graph((x, y), (Output("y", "y"),))] * 2, Mesh({"tp": 2}, {"g": ("tp",)}), given)
        return [rank.array("y") for rank in found]

    given = [{"x": R.standard_normal((4, 6))} for _ in range(2)]
    arrays = [item["x"] for item in given]
    for rank in range(2):
        np.testing.assert_allclose(collective("all_reduce")[rank], sum(arrays))
        np.testing.assert_array_equal(collective("all_gather", dim, 2)[rank], np.concatenate(arrays, dim))
        np.testing.assert_allclose(collective("reduce_scatter", dim, 2)[rank], np.split(sum(arrays), 2, dim)[rank])
    for wrong in ((2, 2), (0, 3), (-3, 2)):
        with pytest.raises(UserError):
            collective("all_gather", *wrong)


def test_attention_of_a_group_uses_its_own_keys() -> None:
    """Query head h belongs to key and value head h // (query heads / key heads)."""
    q, k, v = (R.standard_normal((5, heads, 4)) for heads in (6, 2, 2))
    given = {"query": q, "key": k, "value": v, "output": np.zeros((5, 6, 4)), "layer_name": "layers.0"}
    target = "vllm.unified_attention_with_output.default"
    (whole,) = call(target, **given)
    for head in range(6):
        group = head // 3
        changed = k.copy()
        changed[0, group] += 1
        (found,) = call(target, **{**given, "key": changed})
        different = (found - whole).abs().amax((0, 2)) > 1e-9
        assert [bool(d) for d in different] == [h // 3 == group for h in range(6)]
    (other,) = call(target, **{**given, "layer_name": "layers.1"})
    assert (other - whole).abs().max() > 1e-3
    (same,) = call(target, **{**given, "output": np.ones((5, 6, 4))})
    close(same, whole)
    with pytest.raises(UserError, match="tensors for the 4 operands"):
        call(target, **given, output_scale=np.ones(1))
    with pytest.raises(UserError, match="tensors for the 4 operands"):  # what the cache holds is not known here
        call(target, **given, kv_cache_dummy_dep=np.ones(0))
