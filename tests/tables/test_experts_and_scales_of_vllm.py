"""vLLM's kernels for experts and for quantisation against formulas, written with PyTorch; and against the kernels
themselves, where vLLM is installed (benchmarks/kernels.py has the table)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tantamount as tt
from support.jobs import graph_of
from tables.test_values_of_vllm import call, close
from tantamount.answers import compare
from tantamount.errors import UserError
from tantamount.ir.graph import CustomOperator
from tantamount.ops.custom import custom_operator
from tantamount.ops.hidden import HIDDEN as REFUSED

torch = pytest.importorskip("torch", reason="the formulas are written with PyTorch")
F = torch.nn.functional
R = np.random.default_rng(0)
TOKENS, HIDDEN, WIDTH, EXPERTS = 5, 32, 64, 3


def experts(act: str, bias: bool, count: int, skip: bool = False) -> dict[str, Any]:
    """Operands of ``cpu_fused_moe``, weights not packed yet: values reach where ``swigluoai`` cuts them off."""
    return {
        "input": R.standard_normal((TOKENS, HIDDEN)) * 2, "w13": R.standard_normal((EXPERTS, 2 * WIDTH, HIDDEN)),
        "w2": R.standard_normal((EXPERTS, HIDDEN, WIDTH)),
        "w13_bias": R.standard_normal((EXPERTS, 2 * WIDTH)) * 4 if bias else None,
        "w2_bias": R.standard_normal((EXPERTS, HIDDEN)) if bias else None,
        "topk_weights": R.random((TOKENS, count)),
        "topk_id": np.stack([R.permutation(EXPERTS)[:count] for _ in range(TOKENS)]).astype(np.int32),
        "skip_weighted": skip, "act": act, "isa": "vec",
    }  # fmt: skip


def by_formula(given: dict[str, Any]) -> Any:
    """One token and one of its experts after the other."""
    out = torch.zeros(TOKENS, HIDDEN, dtype=torch.float64)
    t = {key: torch.tensor(value) for key, value in given.items() if isinstance(value, np.ndarray)}
    for token, slot in np.ndindex(given["topk_id"].shape):
        e = given["topk_id"][token, slot]
        x = t["w13"][e] @ t["input"][token] + (t["w13_bias"][e] if "w13_bias" in t else 0)
        if given["act"] == "swigluoai":
            gate, up = x[0::2].clamp(max=7), x[1::2].clamp(-7, 7)
            x = (up + 1) * gate * torch.sigmoid(1.702 * gate)
        else:
            gate, up = x.chunk(2)
            x = {"silu": F.silu(gate), "gelu": F.gelu(gate), "gelu_tanh": F.gelu(gate, approximate="tanh")}[
                given["act"]
            ] * up
        y = t["w2"][e] @ x + (t["w2_bias"][e] if "w2_bias" in t else 0)
        out[token] += y * (1 if given["skip_weighted"] else t["topk_weights"][token, slot])
    return out


def packed(weight: Any) -> Any:
    (found,) = call("_C.prepack_moe_weight.default", weight=weight, packed_weight=np.zeros(weight.shape), isa="vec")
    return found.numpy()


def fused(given: dict[str, Any]) -> Any:
    narrow = {"topk_id": np.int32} if given["topk_id"].dtype == np.int32 else {}
    operands = {key: packed(given[key]) for key in ("w13", "w2")}
    (found,) = call(
        "_C.cpu_fused_moe.default", output=np.zeros((TOKENS, HIDDEN)), **{**given, **operands}, narrow=narrow
    )
    return found


CASES = [(act, bias, 2, False) for act in ("silu", "gelu", "gelu_tanh", "swigluoai") for bias in (False, True)]
CASES += [("silu", True, 1, True), ("silu", False, 1, False), ("gelu", True, 3, False)]


@pytest.mark.parametrize(("act", "bias", "count", "skip"), CASES)
def test_experts(act: str, bias: bool, count: int, skip: bool) -> None:
    given = experts(act, bias, count, skip)
    close(fused(given), by_formula(given))


def test_the_order_of_a_packed_weight() -> None:
    weight = R.standard_normal((2, 64, 5))
    found = packed(weight).reshape(2, 4, 5, 16)
    for e, row, column in np.ndindex(weight.shape):
        assert found[e, row // 16, column, row % 16] == weight[e, row, column]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"isa": "amx"}, "isa='amx'"),
        ({"act": "relu"}, "act='relu'"),
        ({"skip_weighted": True}, "skip_weighted with 2"),
        ({"w2": np.ones((EXPERTS, HIDDEN, 48))}, "experts"),
        ({"w13": np.ones((EXPERTS, 96, HIDDEN)), "w2": np.ones((EXPERTS, HIDDEN, 48))}, "experts"),
        ({"w13_bias": np.ones((EXPERTS, WIDTH))}, "experts"),
        ({"topk_weights": np.ones((TOKENS, 1))}, "experts"),
        ({"topk_id": np.ones((TOKENS, 2), dtype=np.int64)}, "int32"),
    ],
)
def test_what_experts_refuse(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        fused({**experts("silu", False, 2), **change})
    with pytest.raises(UserError, match="rows are not a multiple"):
        packed(np.ones((1, 48, 3)))


# ---------------------------------------------------------------------------------------------- four bits
ROWS, COLUMNS, GROUPS = 64, 32, 4
NARROW = dict.fromkeys(("input", "output", "scales", "bias"), np.float16) | {"q_weight": np.int32, "zeros": np.int32}


def in_integers(codes: Any) -> Any:
    """Eight codes of four bits in each integer of 32, along the last dimension: the eighth may make it negative."""
    found = sum(codes.reshape(*codes.shape[:-1], -1, 8)[..., k] << 4 * k for k in range(8))
    return np.where(found >= 2**31, found - 2**32, found)


def of_four_bits(zeros: bool, bias: bool) -> tuple[dict[str, Any], Any]:
    """Operands of ``cpu_gemm_wna16``, and what it computes of them, one code after the other."""
    random = np.random.default_rng(2)
    codes = random.integers(0, 16, (ROWS, COLUMNS))
    shift = random.integers(0, 16, (GROUPS, COLUMNS)) if zeros else np.full((GROUPS, COLUMNS), 8)
    scales, x = random.random((GROUPS, COLUMNS)), random.standard_normal((TOKENS, ROWS))
    more = random.standard_normal(COLUMNS) if bias else None
    held = np.zeros((COLUMNS // 16, 2 * ROWS), dtype=np.int64)
    for row, half, block in np.ndindex(ROWS, 2, COLUMNS // 16):
        held[block, 2 * row + half] = in_integers(codes[row, 16 * block + 8 * half :][:8])[0]
    weight = np.zeros((ROWS, COLUMNS))
    for row, column in np.ndindex(weight.shape):
        group = row // (ROWS // GROUPS)
        weight[row, column] = (codes[row, column] - shift[group, column]) * scales[group, column]
    given = {
        "input": x, "q_weight": held, "output": np.zeros((TOKENS, COLUMNS)), "scales": scales,
        "zeros": in_integers(shift) if zeros else None, "bias": more, "pack_factor": 8, "isa_hint": "vec",
    }  # fmt: skip
    return given, torch.tensor(x @ weight + (0 if more is None else more))


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_weights_of_four_bits(zeros: bool, bias: bool) -> None:
    given, wanted = of_four_bits(zeros, bias)
    assert (given["q_weight"] < 0).any()
    (found,) = call("_C.cpu_gemm_wna16.default", narrow=NARROW, **given)
    close(found, wanted)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"isa_hint": "amx"}, "isa_hint='amx'"),
        ({"pack_factor": 4}, "four bits"),
        ({"scales": np.ones((3, COLUMNS))}, "four bits"),
        ({"scales": np.ones((ROWS, COLUMNS))}, "four bits"),  # groups of one row
        ({"zeros": np.ones((GROUPS, COLUMNS), dtype=np.int64)}, "four bits"),
        ({"bias": np.ones(1)}, "four bits"),
        ({"input": np.ones((TOKENS, 48)), "q_weight": np.ones((2, 96), dtype=np.int64)}, "four bits"),
    ],
)
def test_what_weights_of_four_bits_refuse(change: dict[str, Any], problem: str) -> None:
    given, _ = of_four_bits(True, True)
    with pytest.raises(UserError, match=problem):
        call("_C.cpu_gemm_wna16.default", narrow=NARROW, **{**given, **change})


def test_the_types_of_weights_of_four_bits() -> None:
    given, _ = of_four_bits(True, True)
    for missing, said in (("input", "bfloat16 or float16"), ("scales", "bfloat16 or float16"), ("zeros", "of 32 bits")):
        narrow = {key: kind for key, kind in NARROW.items() if key != missing}
        with pytest.raises(UserError, match=said):
            call("_C.cpu_gemm_wna16.default", narrow=narrow, **given)


OPERANDS = "x: float16[2, 32]\nq: int32[2, 64]\ns: float16[1, 32]\nz: int32[1, 4]\n"
KERNEL = f"""{OPERANDS}room = aten.empty.memory_format([2, 32], dtype=float16)
o = higher_order.auto_functionalized('_C.cpu_gemm_wna16.default', input=x, q_weight=q, output=room, scales=s, zeros=z, \
bias=None, pack_factor=8, isa_hint='vec')
y = getitem(o, 1)
-> y"""
WRITTEN_OUT = f"""{OPERANDS}p = aten.arange.start_step(0, 32, 4, dtype=int32)
u = unsqueeze(q, 2)
h = aten.bitwise_right_shift.Tensor(u, p)
c = aten.bitwise_and.Scalar(h, 15)
r = aten.reshape.default(c, [2, 32, 16])
t = permute(r, [1, 0, 2])
w = aten.reshape.default(t, [32, 32])
v = unsqueeze(z, 2)
g = aten.bitwise_right_shift.Tensor(v, p)
k = aten.bitwise_and.Scalar(g, 15)
n = aten.reshape.default(k, [1, 32])
d = sub(w, n)
f = aten._to_copy.default(d, dtype=float16)
m = mul(f, s)
y = mm(x, m)
-> y"""


@pytest.mark.parametrize(("old", "new"), [("", ""), ("(h, 15)", "(h, 7)"), ("[1, 0, 2]", "[0, 1, 2]")])
def test_weights_of_four_bits_that_pytorch_unpacks(old: str, new: str) -> None:
    """All codes at once, by shifts that are a tensor: the kernel, and not the kernel with another mask or order."""
    relations = {name: f'rank(0, "{name}")' for name in "xqsz"}
    found = compare(graph_of(WRITTEN_OUT.replace(old, new)), graph_of(KERNEL), relations=relations)
    assert found.verdict.value == ("REFUTED" if old else "PROVED")


# ---------------------------------------------------------------------------------------------- pointers
@pytest.mark.parametrize("name", REFUSED)
def test_what_has_its_weight_behind_a_pointer_is_refused_and_cannot_be_declared(name: str) -> None:
    """Two programs with other weights could have one number as the pointer."""
    text = f"x: float32[4, 32]\nh: int64[]\nc: float32[4, 16]\no = {name}(c, x, None, h)\n-> o"
    declared = CustomOperator(name, labels="m n, m k, , -> m n")
    for refused in (
        lambda: compare(graph_of(text), graph_of(text)),
        lambda: tt.opaque(name, "m n, m k -> m n"),
        lambda: tt.definition(name, "x, w", "mm(x, w)"),
        lambda: tt.operator(name)(lambda b: b),
        lambda: custom_operator(declared),
    ):
        with pytest.raises(UserError, match="pointer") as caught:
            refused()
        assert caught.value.code == "operator-hidden"
        assert name in str(caught.value)


# ---------------------------------------------------------------------------------------------- int8
def rows() -> Any:
    """Rows with halves after scaling (scales are 1), beside random ones."""
    one = [127, 0.5, 1.5, 2.5, -0.5, -1.5, 126.5, -126.5]
    other = [1, 256, 1.5, 2.5, 3.5, 101.5, 102.5, 254.5]  # azp is -129, which is odd
    third = [1.5, 256.5, 2, 3, 4.5, 101, 102.5, 254]  # azp is -129.5, rounded to -130
    return np.concatenate([np.array([one, other, third]), np.random.default_rng(1).standard_normal((6, 8)) * 9])


def dynamic(x: Any, azp: bool) -> tuple[Any, ...]:
    count = x.shape[0]
    given = {"out": np.zeros(x.shape), "scale": np.zeros((count, 1)), "azp": np.zeros((count, 1)) if azp else None}
    return call("_C.dynamic_scaled_int8_quant.default", input=x, **given, narrow={"out": np.int8, "azp": np.int32})


def static(x: Any, scale: float, azp: int | None) -> Any:
    zero = None if azp is None else np.array([azp])
    given = {"out": np.zeros(x.shape), "input": x, "scale": np.array([scale]), "azp": zero}
    return call("_C.static_scaled_int8_quant.default", **given, narrow={"out": np.int8, "azp": np.int32})[0]


@pytest.mark.parametrize("azp", [False, True])
def test_scales_of_rows(azp: bool) -> None:
    x = torch.tensor(rows())
    out, scale, zero = dynamic(rows(), azp)
    if azp:
        wanted = (x.amax(1, True) - x.amin(1, True)) / 255
        shift = torch.round(-128 - x.amin(1, True) / wanted)
        close(zero.double(), shift)
    else:
        wanted, shift = x.abs().amax(1, True) / 127, 0
        assert zero is None
    close(scale, wanted)
    close(out.double(), torch.round(x / wanted + shift).clamp(-128, 127))


@pytest.mark.parametrize("azp", [None, 3])
def test_one_scale(azp: int | None) -> None:
    x = np.array([[0.5, 1.5, 2.5, -0.5, 126.5, 127.6, 200, -127.5, -128.5, -1e6, 1e6, 7.25]])
    for scale in (1.0, 0.25):
        wanted = torch.round(torch.tensor(x) / scale + (azp or 0)).clamp(-128, 127)
        close(static(x, scale, azp).double(), wanted)


def test_what_scales_refuse() -> None:
    x = rows()
    with pytest.raises(UserError, match="quantised to"):
        call("_C.static_scaled_int8_quant.default", out=np.zeros(x.shape), input=x, scale=np.ones(1), azp=None)
    given = {"out": np.zeros(x.shape), "input": x, "azp": None, "narrow": {"out": np.int8}}
    for name, scale in (("static", np.ones(2)), ("dynamic", np.ones((2, 1)))):
        with pytest.raises(UserError, match="is needed"):
            call(f"_C.{name}_scaled_int8_quant.default", **given, scale=scale)


# ---------------------------------------------------------------------------------------------- the kernels
def kernels() -> Iterator[tuple[str, Any, Any]]:
    """What the definition says, and what the kernel of vLLM computes in float32."""
    ops: Any = pytest.importorskip("vllm._custom_ops", reason="vLLM's own kernels")
    for act, bias, count, skip in CASES:
        given = experts(act, bias, count, skip)
        t = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in given.items()}
        t = {k: v.float() if torch.is_tensor(v) and v.is_floating_point() else v for k, v in t.items()}
        out = torch.full((TOKENS, HIDDEN), float("nan"))
        w13, w2 = (ops.cpu_prepack_moe_weight(t[key], "vec") for key in ("w13", "w2"))
        assert torch.equal(w13.double(), torch.tensor(packed(given["w13"].astype(np.float32).astype(np.float64))))
        ops.cpu_fused_moe(
            out, t["input"], w13, w2, t["w13_bias"], t["w2_bias"], t["topk_weights"], t["topk_id"], act, "vec", skip
        )
        yield f"experts {act}", fused(given), out.double()
    x = rows().astype(np.float32)
    for azp in (False, True):
        found = ops.onednn_scaled_int8_quant(torch.tensor(x), symmetric=not azp)
        for name, one, other in zip(("codes", "scales", "azp"), dynamic(x.astype(np.float64), azp), found, strict=True):
            if one is not None:
                yield f"dynamic {name} azp={azp}", one.double(), other.double()
    for azp in (None, 3):
        zero = None if azp is None else torch.tensor([azp], dtype=torch.int32)
        found = ops.onednn_scaled_int8_quant(torch.tensor(x), torch.tensor([0.5]), zero, azp is None)[0]
        yield f"static azp={azp}", static(x.astype(np.float64), 0.5, azp).double(), found.double()


def test_the_kernels_of_vllm() -> None:
    """Relative to the largest element: float32 against the definition in float64. Codes are whole numbers."""
    for name, one, other in kernels():
        apart = float((one - other).abs().max() / one.abs().max())
        assert apart <= (1e-6 if "experts" in name or "scales" in name else 0), name
