"""Values of operators that PyTorch cannot run here or that are random: against the operators that they fuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tantamount.errors import UserError
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import apply
from tantamount.ops.table import lookup
from tantamount.samples.operators.table import NOT_RUN
from tantamount.semantics.reference import Reference

torch = pytest.importorskip("torch", reason="the values are PyTorch's own")
functional = torch.nn.functional
GENERATOR = np.random.default_rng(0)
QUERY, KEY, VALUE = GENERATOR.standard_normal((3, 2, 3, 5, 4))
BIAS = GENERATOR.standard_normal((2, 3, 5, 5))
X, GRADIENT = GENERATOR.standard_normal((2, 4, 6))
WEIGHT, SHIFT = GENERATOR.standard_normal((2, 6))


def result(target: str, *args: Any, masks: Any = None, **kwargs: Any) -> Any:
    """The values of one call, as torch tensors."""

    def typed(item: Any) -> Any:
        if not isinstance(item, np.ndarray):
            return item
        return Tensor(item.shape, {"b": DType.BOOL, "i": DType.INT64}.get(item.dtype.kind, DType.FLOAT64), item)

    def plain(tensor: Any) -> Any:
        return None if tensor is None else torch.tensor(np.array(tensor.value))

    given = {key: typed(item) for key, item in kwargs.items()}
    builder = Builder(Reference(masks=masks), "node", DType.FLOAT64)
    found = apply(lookup(target, ""), target, tuple(map(typed, args)), given, builder, "test")
    return tuple(map(plain, found)) if isinstance(found, tuple) else plain(found)


def close(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, torch.as_tensor(wanted), rtol=1e-9, atol=1e-12)


def attended(bias: Any = None, causal: bool = False, scale: float | None = None) -> tuple[Any, Any]:
    """Attention and the logarithms of the sums of exponentials, written out."""
    scores = torch.tensor(QUERY @ KEY.swapaxes(-1, -2)) * (4**-0.5 if scale is None else scale)
    scores = scores if bias is None else scores + torch.tensor(bias)
    if causal:
        scores = scores.masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), float("-inf"))
    return scores.softmax(-1) @ torch.tensor(VALUE), scores.logsumexp(-1)


@pytest.mark.parametrize(("causal", "scale"), [(False, None), (True, None), (False, 0.3), (True, 0.3)])
def test_flash_attention(causal: bool, scale: float | None) -> None:
    target = "aten._scaled_dot_product_flash_attention.default"
    out, sums, *rest = result(target, QUERY, KEY, VALUE, 0.0, causal, False, scale=scale)
    close(out, attended(None, causal, scale)[0])
    close(sums, attended(None, causal, scale)[1])
    assert [item is None for item in rest] == [True] * 4 + [False, False, True]  # a random state


@pytest.mark.parametrize(("causal", "scale"), [(False, None), (True, None), (False, 0.3)])
def test_gradients_of_flash_attention(causal: bool, scale: float | None) -> None:
    """Those that autograd finds, from the results of attention itself."""
    grad = np.cos(np.arange(QUERY.size)).reshape(QUERY.shape)
    operands = [torch.tensor(x, requires_grad=True) for x in (QUERY, KEY, VALUE)]
    wanted = torch.nn.functional.scaled_dot_product_attention(*operands, is_causal=causal, scale=scale)
    wanted.backward(torch.tensor(grad))
    out, sums = attended(None, causal, scale)
    target = "aten._scaled_dot_product_flash_attention_backward.default"
    given = (grad, QUERY, KEY, VALUE, out.numpy(), sums.numpy(), None, None, 5, 5, 0.0, causal, None, None)
    for x, operand in zip(result(target, *given, scale=scale), operands, strict=True):
        close(x, operand.grad)


@pytest.mark.parametrize("kernel", ["efficient", "cudnn"])
@pytest.mark.parametrize(
    ("bias", "causal", "scale"), [(None, False, None), (BIAS, False, 0.3), (None, True, 0.3), (BIAS, False, None)]
)
def test_attention_with_a_bias(kernel: str, bias: Any, causal: bool, scale: float | None) -> None:
    target = f"aten._scaled_dot_product_{kernel}_attention.default"
    out, *_ = result(target, QUERY, KEY, VALUE, bias, True, 0.0, causal, scale=scale)
    close(out, attended(bias, causal, scale)[0])


@pytest.mark.parametrize("kernel", ["flash", "cudnn"])
def test_causal_masks_of_other_lengths_are_refused(kernel: str) -> None:
    """Whether their diagonal starts at the first or ends at the last key depends on the kernel's version."""
    before = () if kernel == "flash" else (None, True)
    target = f"aten._scaled_dot_product_{kernel}_attention.default"
    with pytest.raises(UserError, match="causal attention of 3 queries to 5 keys"):
        result(target, QUERY[..., :3, :], KEY, VALUE, *before, 0.0, True)


def test_hardsigmoid_backward() -> None:
    """PyTorch's 1/6 has seven digits, in float64 too."""
    x = np.array([-4, -3, -1, 0, 2, 3, 5.0])
    found = result("aten.hardsigmoid_backward.default", x + 1, x)
    wanted = torch.ops.aten.hardsigmoid_backward.default(torch.tensor(x + 1), torch.tensor(x))
    torch.testing.assert_close(found, wanted, rtol=1e-7, atol=0)


def gradients(bias: Any, causal: bool, scale: float | None) -> tuple[Any, tuple[Any, ...]]:
    """The arguments (gradient of the result, the result, logarithms of sums) and what autograd makes of them."""
    leaves = [torch.tensor(item, requires_grad=True) for item in (QUERY, KEY, VALUE)]
    if bias is not None:
        leaves.append(torch.tensor(bias, requires_grad=True))
    scores = leaves[0] @ leaves[1].transpose(-1, -2) * (4**-0.5 if scale is None else scale)
    scores = scores if bias is None else scores + leaves[3]
    if causal:
        scores = scores.masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), float("-inf"))
    out = scores.softmax(-1) @ leaves[2]
    do = np.random.default_rng(2).standard_normal(tuple(out.shape))
    found = torch.autograd.grad(out, leaves, torch.tensor(do))
    return (do, out.detach().numpy(), scores.logsumexp(-1).detach().numpy()), found


@pytest.mark.parametrize(
    ("bias", "causal", "scale"),
    [(None, False, None), (BIAS, False, 0.3), (None, True, 0.3), (BIAS[:1, :1], False, None)],
)
def test_gradients_of_attention_with_a_bias(bias: Any, causal: bool, scale: float | None) -> None:
    (do, out, sums), wanted = gradients(bias, causal, scale)
    target = "aten._scaled_dot_product_cudnn_attention_backward.default"
    saved = (out, sums[..., None], None, None, bias, None, None, 5, 5, 0.0, causal)
    for mine, theirs in zip(result(target, do, QUERY, KEY, VALUE, *saved, scale=scale), wanted[:3], strict=True):
        close(mine, theirs)
    target = "aten._scaled_dot_product_efficient_attention_backward.default"
    padded = np.pad(sums, ((0, 0), (0, 0), (0, 27)), constant_values=np.inf)
    for mask in ((True, True, True, True), (True, False, False, False)):
        saved = (QUERY, KEY, VALUE, bias, out, padded, None, None, 0.0, mask, causal)
        found = result(target, do, *saved, scale=scale)
        for mine, theirs, asked in zip(found, (*wanted, *[None] * (4 - len(wanted))), mask, strict=True):
            assert (mine is not None) == (asked and theirs is not None)
            if mine is not None:
                close(mine, theirs)


@pytest.mark.parametrize(("wanted", "length"), [(True, 32), (False, 0)])
def test_logarithms_of_sums_of_efficient_attention_are_padded(wanted: bool, length: int) -> None:
    target = "aten._scaled_dot_product_efficient_attention.default"
    _, sums, *_ = result(target, QUERY, KEY, VALUE, None, wanted)
    assert tuple(sums.shape) == (2, 3, length)
    if wanted:
        close(sums[..., :5], attended()[1])


DROPPING = [
    ("aten.scaled_dot_product_attention.default", (None, 0.4)),
    ("aten._scaled_dot_product_flash_attention_for_cpu.default", (0.4,)),
    ("aten._scaled_dot_product_flash_attention.default", (0.4,)),
    ("aten._scaled_dot_product_efficient_attention.default", (None, True, 0.4)),
    ("aten._scaled_dot_product_cudnn_attention.default", (None, True, 0.4)),
]


@pytest.mark.parametrize(("target", "attributes"), DROPPING, ids=[target for target, _ in DROPPING])
def test_attention_drops_weights(target: str, attributes: tuple[Any, ...]) -> None:
    """Dropout applies to the weights after softmax, with the exact factor 1 / (1 - p)."""
    keep = np.random.default_rng(1).random((2, 3, 5, 5)) >= 0.4
    found = result(target, QUERY, KEY, VALUE, *attributes, masks=lambda *_: keep)
    weights = torch.softmax(torch.tensor(QUERY @ KEY.swapaxes(-1, -2) / 2), -1) * torch.tensor(keep) / 0.6
    close(found[0] if isinstance(found, tuple) else found, weights @ torch.tensor(VALUE))


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1.0])
def test_dropout_with_pytorch_s_own_mask(p: float) -> None:
    torch.manual_seed(0)
    wanted, mask = torch.ops.aten.native_dropout.default(torch.tensor(X), p, True)
    found, kept = result("aten.native_dropout.default", X, p, True, masks=lambda *_: mask.numpy())
    close(found, wanted)
    assert torch.equal(kept, mask)
    close(result("aten.dropout.default", X, p, True, masks=lambda *_: mask.numpy()), wanted)
    close(result("aten.dropout.default", X, p, False), X)


def test_apex_layer_norm() -> None:
    x, weight, shift = (torch.tensor(item, requires_grad=True) for item in (X, WEIGHT, SHIFT))
    wanted = functional.layer_norm(x, (6,), weight, shift, 0.01)
    out, mean, rstd = result("apex.fused_layer_norm_affine_fwd.default", X, WEIGHT, SHIFT, (6,), 0.01)
    close(out, wanted.detach())
    close(mean, X.mean(-1))
    close(rstd, (X.var(-1) + 0.01) ** -0.5)
    wanted.backward(torch.tensor(GRADIENT))
    saved = (mean.numpy(), rstd.numpy())
    found = result("apex.fused_layer_norm_affine_bwd.default", GRADIENT, *saved, X, (6,), WEIGHT, SHIFT, 0.01)
    for gradient, tensor in zip(found, (x, weight, shift), strict=True):
        close(gradient, tensor.grad)


def test_apex_norms_without_weights() -> None:
    for name, norm in (("layer", functional.layer_norm), ("rms", functional.rms_norm)):
        x = torch.tensor(X, requires_grad=True)
        wanted = norm(x, (6,), eps=0.01)
        out, *saved = result(f"apex.fused_{name}_norm_fwd.default", X, (6,), 0.01, True)
        close(out, wanted.detach())
        wanted.backward(torch.tensor(GRADIENT))
        statistics = [item.numpy() for item in saved]
        close(result(f"apex.fused_{name}_norm_bwd.default", GRADIENT, *statistics, X, (6,), 0.01), x.grad)
        with pytest.raises(UserError, match="saved its output"):
            result(f"apex.fused_{name}_norm_bwd.default", GRADIENT, *statistics, X, (6,), 0.01, True)


def test_apex_rms_norm() -> None:
    x, weight = (torch.tensor(item, requires_grad=True) for item in (X, WEIGHT))
    wanted = functional.rms_norm(x, (6,), weight, 0.01)
    out, rstd = result("apex.fused_rms_norm_affine_fwd.default", X, WEIGHT, (6,), 0.01)
    close(out, wanted.detach())
    wanted.backward(torch.tensor(GRADIENT))
    found = result("apex.fused_rms_norm_affine_bwd.default", GRADIENT, rstd.numpy(), X, (6,), WEIGHT, 0.01)
    for gradient, tensor in zip(found, (x, weight), strict=True):
        close(gradient, tensor.grad)


@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)])
def test_fused_rms_norm_backward(wanted: tuple[bool, bool]) -> None:
    x, weight = (torch.tensor(item, requires_grad=True) for item in (X, WEIGHT))
    functional.rms_norm(x, (6,), weight, 0.01).backward(torch.tensor(GRADIENT))
    rstd = ((X**2).mean(-1, keepdims=True) + 0.01) ** -0.5
    found = result("aten._fused_rms_norm_backward.default", GRADIENT, X, (6,), rstd, WEIGHT, wanted)
    for gradient, tensor, given in zip(found, (x, weight), wanted, strict=True):
        if given:
            close(gradient, tensor.grad)


def test_scaled_product() -> None:
    """A scale for all, or one for every row of the first and every column of the second matrix."""
    a, c = X, GENERATOR.standard_normal((6, 6))
    target = "aten._scaled_mm.default"
    found = result(target, a, c, np.array(0.5), np.array([2.0]), None, None, DType.FLOAT32)
    close(found, a @ c)
    rows, columns = np.arange(1.0, 5.0).reshape(4, 1), np.arange(1.0, 7.0).reshape(1, 6)
    found = result(target, a, c, rows, columns, WEIGHT, None, DType.FLOAT64, True)
    close(found, (a * rows) @ (c * columns) + WEIGHT)
    with pytest.raises(UserError, match="scales float64"):
        result(target, a, c, rows.reshape(1, 4), columns)


def test_grouped_product() -> None:
    """Group by group, rows or columns of the matrix chosen by where the groups end; an empty group too."""
    target, ends = "aten._grouped_mm.default", np.array([2, 2, 4])
    x, batch = X, GENERATOR.standard_normal((3, 6, 5))
    by_rows = np.concatenate([x[low:high] @ batch[g] for g, (low, high) in enumerate(((0, 2), (2, 2), (2, 4)))])
    close(result(target, x, batch, ends), by_rows)
    close(result(target, batch.swapaxes(1, 2), x.T, ends), by_rows.T)
    y = GENERATOR.standard_normal((4, 5))
    by_terms = np.stack([x.T[:, low:high] @ y[low:high] for low, high in ((0, 2), (2, 2), (2, 4))])
    close(result(target, x.T, y, ends), by_terms)
    close(result(target, batch, batch.swapaxes(1, 2), None, None, DType.FLOAT32), batch @ batch.swapaxes(1, 2))
    kernel = torch.ops.aten._grouped_mm.default
    theirs = kernel(
        torch.tensor(x, dtype=torch.float32).repeat(1, 4)[:, :16],
        torch.tensor(np.tile(batch, (1, 3, 2))[:, :16, :8], dtype=torch.float32),
        torch.tensor(ends, dtype=torch.int32),
    )
    ours = result(target, np.tile(x, 4)[:, :16], np.tile(batch, (1, 3, 2))[:, :16, :8], ends)
    torch.testing.assert_close(ours.float(), theirs, rtol=1e-4, atol=1e-5)


def seen(queries: tuple[int, ...], keys: tuple[int, ...], causal: bool, left: int, right: int) -> Any:
    """Which keys every query of sequences of these lengths sees, as the kernels' C++ says it step by step."""
    longest, mask = max(keys), np.zeros((sum(queries), sum(keys)), bool)
    left, right = (-1 if width >= longest else width for width in (left, right))
    right = 0 if causal else right
    local = (left >= 0 or right >= 0) and not (left < 0 and right == 0)
    before, after = (longest if local and width < 0 else width for width in (left, right))
    for n, (many, others) in enumerate(zip(queries, keys, strict=True)):
        for i in range(many):
            for j in range(others):
                place = i + others - many
                near = place - before <= j <= place + after if local else right < 0 or j <= place
                mask[sum(queries[:n]) + i, sum(keys[:n]) + j] = near
    return torch.tensor(mask)


@pytest.mark.parametrize(
    ("queries", "keys"),
    [((3, 5), (3, 5)), ((3, 0, 2), (4, 2, 1)), ((1, 4), (6, 2)), ((7, 4), (2, 2))],
    ids=["alike", "empty", "more", "fewer"],
)
def test_attention_within_sequences(queries: tuple[int, ...], keys: tuple[int, ...]) -> None:
    """Causal masks and windows are aligned with the last key of a sequence; groups of heads; gradients of both."""
    generator = np.random.default_rng(3)
    q, k, v = (generator.standard_normal((n, h, 4)) for n, h in ((sum(queries), 4), (sum(keys), 2), (sum(keys), 2)))
    grad, starts = generator.standard_normal(q.shape), [np.cumsum([0, *lengths]) for lengths in (queries, keys)]
    longest = max(queries), max(keys)
    windows = [(False, -1, -1), (True, -1, -1), (False, -1, 0), (False, 2, 0), (False, 1, 1), (True, 2, 5)]
    windows += [(False, 1, -1), (False, -1, 2), (False, 0, 9), (True, 9, -1)]
    for causal, left, right in windows:
        leaves = [torch.tensor(x.swapaxes(0, 1), requires_grad=True) for x in (q, k, v)]
        mask = seen(queries, keys, causal, left, right)
        wanted = functional.scaled_dot_product_attention(*leaves, attn_mask=mask, enable_gqa=True)
        wanted.backward(torch.tensor(grad.swapaxes(0, 1)))
        scores = leaves[0].detach() @ leaves[1].detach().repeat_interleave(2, 0).transpose(1, 2) / 2
        sums = scores.masked_fill(~mask, float("-inf")).logsumexp(-1)
        for name in ("aten._flash_attention_{}.default", "torch_attn._varlen_attn{}.default"):
            flash = name.startswith("aten")
            sides = {"window_size_left": left, "window_size_right": right} if flash else {}
            given = (0.0, causal, False) if flash else (causal, None, (left, right), True)
            found = result(name.format("forward" if flash else ""), q, k, v, *starts, *longest, *given, **sides)
            close(found[0].transpose(0, 1), wanted.detach())
            rows = mask.any(1)
            close(found[1][:, rows], sums[:, rows])
            saved = torch.where(rows, found[1], 5.0).numpy()  # of a row that sees nothing it is not read
            rest = (0.0, causal, None, None) if flash else (causal, np.zeros(2), None, (left, right))
            changes = result(
                name.format("backward" if flash else "_backward"), grad, q, k, v, found[0].numpy(), saved, *starts,
                *longest, *rest, **sides,
            )  # fmt: skip
            for change, leaf in zip(changes, leaves, strict=True):
                close(change.transpose(0, 1), leaf.grad)


def test_windows_of_batches() -> None:
    """Without starts of sequences, the rows of a batch are one."""
    q, k, v = (x.swapaxes(1, 2) for x in (QUERY[:, :, :3], KEY, VALUE))
    mask = seen((3,), (5,), False, 1, 0)
    wanted = functional.scaled_dot_product_attention(*map(torch.tensor, (QUERY[:, :, :3], KEY, VALUE)), attn_mask=mask)
    target = "aten._flash_attention_forward.default"
    sides = {"window_size_left": 1, "window_size_right": 0}
    out, *_ = result(target, q, k, v, None, None, 3, 5, 0.0, False, False, **sides)
    close(out.transpose(1, 2), wanted)
    with pytest.raises(UserError, match="attention with block_table"):
        result(target, q, k, v, None, None, 3, 5, 0.0, False, False, block_table=np.zeros((1, 1), np.int64))


def test_every_kernel_that_is_not_run_is_here() -> None:
    assert {
        "aten._scaled_dot_product_flash_attention.default",
        "aten._scaled_dot_product_efficient_attention.default",
        "aten._scaled_dot_product_cudnn_attention.default",
        "aten._scaled_dot_product_flash_attention_backward.default",
        "aten._scaled_dot_product_efficient_attention_backward.default",
        "aten._scaled_dot_product_cudnn_attention_backward.default",
        "aten._flash_attention_forward.default",
        "aten._flash_attention_backward.default",
        "torch_attn._varlen_attn.default",
        "torch_attn._varlen_attn_backward.default",
        "aten._fused_rms_norm_backward.default",
        "aten._scaled_mm.default",
        "aten._grouped_mm.default",
    } == NOT_RUN
