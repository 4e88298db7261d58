"""Programs of quantised numbers, of searches in rows, and of rows of which nothing is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from support.attacks.judge import Family, family

__all__ = ["FAMILIES"]

F64, I8, U8, I16, I32 = torch.float64, torch.int8, torch.uint8, torch.int16, torch.int32
INF = float("inf")
X = {"x": (F64, (3, 4))}
Q = {"q": (I8, (3, 4)), "r": (I8, (4, 3))}
U = {"u": (U8, (3, 4))}
G, S, M, H = "quantised", "searches", "masked rows", "hooks and backward passes"
REALS = (-300.0, -64.25, -63.75, -1.25, -0.75, -0.25, 0.0, 0.25, 0.75, 1.25, 63.25, 63.75, 300.0)

ROUNDED = family(
    G, "rounded to 8 bits", X,
    lambda x: (x / 0.5).round().clamp(-128, 127) * 0.5,
    lambda x: (x / 0.5).clamp(-128, 127).round() * 0.5,
    lambda x: (x * 2).round().clamp(-128, 127) / 2,
    lambda x: (x / 0.5).round().clamp(-127, 127) * 0.5,
    lambda x: (x / 0.5).round() * 0.5,
    lambda x: (x / 0.5 + 0.5).floor().clamp(-128, 127) * 0.5,
    lambda x: (x / 0.5).trunc().clamp(-128, 127) * 0.5,
    lambda x: (x / 0.5).round().clamp(-128, 127).to(I8).double() * 0.5,
    lambda x: (x / 0.5).round().clamp(-256, 255).to(I16).to(I8).double() * 0.5,
    lambda x: (x / 0.5).clamp(-128, 127).to(I8).double() * 0.5,
    lambda x: ((x / 0.5).round().clamp(-128, 127).to(I16) + 128).to(U8).double() * 0.5 - 64,
    lambda x: ((x / 0.5).round().clamp(-128, 127) + 128).to(U8).double().sub(128) * 0.5,
    lambda x: ((x / 0.5 + 128).round().clamp(0, 255) - 128) * 0.5,
    lambda x: torch.sign(x) * ((x / 0.5).abs() + 0.5).floor().clamp(max=128) * 0.5,
    lambda x: x.clamp(-64, 63.5),
    lambda x: x.clamp(-64, 63.5).mul(2).round().div(2),
    lambda x: x.clamp(-64, 64).mul(2).round().div(2),
    values={"x": REALS},
)  # fmt: skip
CALLED = family(
    G, "quantised by the library", {"x": (torch.float32, (3, 4))},
    lambda x: torch.fake_quantize_per_tensor_affine(x, 0.5, 0, -128, 127),
    lambda x: torch.fake_quantize_per_tensor_affine(x, 0.5, 0, -127, 127),
    lambda x: torch.fake_quantize_per_tensor_affine(x, 0.5, 3, -128, 127),
    lambda x: torch.fake_quantize_per_tensor_affine(x, 0.25, 0, -128, 127),
    lambda x: torch.fake_quantize_per_tensor_affine(x, 0.5, 128, 0, 255),
    lambda x: torch.fake_quantize_per_channel_affine(x, torch.full((3,), 0.5), torch.zeros(3, dtype=I32), 0, -128, 127),
    lambda x: torch.fake_quantize_per_channel_affine(x, torch.full((4,), 0.5), torch.zeros(4, dtype=I32), 1, -128, 127),
    lambda x: (x / 0.5).round().clamp(-128, 127) * 0.5,
    lambda x: (x * 2).round().clamp(-128, 127) * 0.5,
    lambda x: (x / 0.5 + 3).round().clamp(-128, 127).sub(3) * 0.5,
    lambda x: (x / 0.5).round().add(3).clamp(-128, 127).sub(3) * 0.5,
    lambda x: (x / 0.5).clamp(-128, 127).floor() * 0.5,
    lambda x: (x / 0.5).round().clamp(-128, 127).to(I8).float() * 0.5,
    values={"x": REALS},
)  # fmt: skip
PRODUCTS = family(
    G, "products of 8 bits", Q,
    lambda q, r: q.int() @ r.int(),
    lambda q, r: (q.long() @ r.long()).int(),
    lambda q, r: (q.to(I16) @ r.to(I16)).int(),
    lambda q, r: (q @ r).int(),
    lambda q, r: (q.double() @ r.double()).int(),
    lambda q, r: (q.float() @ r.float()).int(),
    lambda q, r: (q[:, :, None] * r).sum(1).int(),
    lambda q, r: (q[:, :, None].int() * r).sum(1).int(),
    lambda q, r: (q[:, :, None].to(I16) * r).sum(1).int(),
    lambda q, r: (q[:, :, None].to(I16) * r).sum(1, dtype=I16).int(),
    lambda q, r: (q.int() + 128) @ r.int() - 128 * r.int().sum(0),
    lambda q, r: ((q + 64).int() - 64) @ r.int(),
    lambda q, r: (q.int() @ r.int()).clamp(-32768, 32767),
    lambda q, r: q[:, :2].int() @ r[:2].int() + q[:, 2:].int() @ r[2:].int(),
    lambda q, r: (q[:, :2].int() @ r[:2].int()).to(I16) + q[:, 2:].int() @ r[2:].int(),
    lambda q, r: torch.einsum("ij,jk->ik", q.int(), r.int()),
)  # fmt: skip
POINTS = family(
    G, "zero points", U,
    lambda u: u.int() - 128,
    lambda u: (u - 128).int(),
    lambda u: (u.to(I16) - 128).int(),
    lambda u: (u.to(I8)).int(),
    lambda u: (u - 128).to(I8).int(),
    lambda u: (u + 128).to(I8).int(),
    lambda u: (u ^ 128).to(I8).int(),
    lambda u: (u.to(I8) - 128).int(),
    lambda u: (u.to(I8) + 127).int() + 1,
    lambda u: (u.double() - 128).int(),
    lambda u: torch.where(u < 128, u.int() - 128, u.int() - 128),
    lambda u: torch.where(u.to(I8) < 0, u.to(I8).int() + 128, u.int() - 128),
    lambda u: -(128 - u).int(),
    lambda u: -(128 - u.int()),
    lambda u: (u >> 1).int() * 2 + (u & 1).int() - 128,
)  # fmt: skip
SCALES = family(
    G, "scales", {"q": (I8, (3, 4)), "s": (F64, (3,)), "t": (F64, (4,))},
    lambda q, s, t: (q.double() * s[:, None]) @ t,
    lambda q, s, t: (q.double() @ t) * s,
    lambda q, s, t: (q.double() * t).sum(1) * s,
    lambda q, s, t: (q * s[:, None]) @ t,
    lambda q, s, t: ((q + 1).double() * s[:, None]) @ t - s * t.sum(),
    lambda q, s, t: ((q.int() + 1).double() * s[:, None]) @ t - s * t.sum(),
    lambda q, s, t: (q.double() / (1 / s)[:, None]) @ t,
    lambda q, s, t: (q.double() * s.abs()[:, None]) @ t,
    lambda q, s, t: (q.abs().double() * q.sign() * s[:, None]) @ t,
    lambda q, s, t: ((-q).double() * -s[:, None]) @ t,
    lambda q, s, t: ((q * 2).double() * s[:, None]) @ t / 2,
    lambda q, s, t: ((q.to(I16) * 2).double() * s[:, None]) @ t / 2,
    lambda q, s, t: ((q.to(I16) * 2 - q).double() * s[:, None]) @ t,
    lambda q, s, t: ((q * 2 - q).double() * s[:, None]) @ t,
    lambda q, s, t: (((q >> 1) * 2 + (q & 1)).double() * s[:, None]) @ t,
)  # fmt: skip
HALVED = family(
    G, "put back into 8 bits", {"q": (I8, (3, 4))},
    lambda q: (q.int() >> 1).to(I8),
    lambda q: (q.int() // 2).to(I8),
    lambda q: torch.div(q.int(), 2, rounding_mode="trunc").to(I8),
    lambda q: (q.double() / 2).round().to(I8),
    lambda q: (q.double() / 2).floor().to(I8),
    lambda q: (q.double() / 2).to(I8),
    lambda q: ((q.int() + 1) >> 1).to(I8),
    lambda q: (q + 1) >> 1,
    lambda q: (q * 0.5).floor().to(I8),
    lambda q: (q.int() - (q.int() & 1)).div(2, rounding_mode="floor").to(I8),
    lambda q: q >> 1,
    lambda q: (q - (q & 1)) // 2,
    lambda q: q - ((q + 1) >> 1),
    lambda q: ((q.int() * 64) >> 7).to(I8),
    lambda q: (q * 64) >> 7,
    lambda q: ((q.to(I16) * 128) >> 8).to(I8),
    lambda q: ((q.to(I16) * 256) >> 9).to(I8),
)  # fmt: skip

# ---------------------------------------------------------------------------------------------- searches
SEARCHED = family(
    S, "places in a row", {"x": (F64, (5,)), "y": (F64, (3,))},
    lambda x, y: torch.searchsorted(x, y),
    lambda x, y: torch.searchsorted(x, y, right=True),
    lambda x, y: torch.bucketize(y, x),
    lambda x, y: torch.bucketize(y, x, right=True),
    lambda x, y: (x < y[:, None]).sum(1),
    lambda x, y: (x <= y[:, None]).sum(1),
    lambda x, y: torch.searchsorted(x.sort().values, y),
    lambda x, y: torch.searchsorted(x.sort().values, y, right=True),
    lambda x, y: torch.searchsorted(x, y, sorter=x.argsort()),
    lambda x, y: torch.bucketize(y, x.sort().values),
    lambda x, y: (x.cummax(0).values < y[:, None]).sum(1),
    lambda x, y: torch.searchsorted(x.cummax(0).values, y),
    lambda x, y: (x < y[:, None]).long().cumprod(1).sum(1),
    lambda x, y: 5 - (x >= y[:, None]).sum(1),
    lambda x, y: 5 - torch.searchsorted(-x.flip(0), -y, right=True),
)  # fmt: skip
RUNNING = family(
    S, "running maxima", X,
    lambda x: x.cummax(1).values,
    lambda x: -(-x).cummin(1).values,
    lambda x: x.cummax(1).values.cummax(1).values,
    lambda x: x.gather(1, x.cummax(1).indices),
    lambda x: torch.stack([x[:, : k + 1].amax(1) for k in range(4)], 1),
    lambda x: torch.maximum(x, F.pad(x.cummax(1).values[:, :-1], (1, 0), value=-INF)),
    lambda x: torch.maximum(x, F.pad(x.cummax(1).values[:, :-1], (1, 0))),
    lambda x: x.flip(1).cummax(1).values.flip(1),
    lambda x: x.sort(1).values,
    lambda x: x.sort(1).values.cummax(1).values,
    lambda x: x.cummin(1).values,
    lambda x: x.cummax(0).values,
    lambda x: x.relu().cummax(1).values,
)  # fmt: skip
RUNNING_PLACES = family(
    S, "places of running maxima", X,
    lambda x: x.cummax(1).indices,
    lambda x: (-x).cummin(1).indices,
    lambda x: torch.stack([x[:, : k + 1].argmax(1) for k in range(4)], 1),
    lambda x: torch.stack([x[:, : k + 1].max(1).indices for k in range(4)], 1),
    lambda x: torch.where(x == x.cummax(1).values, torch.arange(4), 0).cummax(1).values,
    lambda x: 3 - x.flip(1).cummax(1).indices.flip(1),
    lambda x: (2 * x).cummax(1).indices,
    lambda x: (x + 1).cummax(1).indices,
    lambda x: x.relu().cummax(1).indices,
    lambda x: x.cummin(1).indices,
)  # fmt: skip
MEMBERS = family(
    S, "members", {"i": (torch.int64, (5,)), "j": (torch.int64, (3,))},
    lambda i, j: torch.isin(i, j).long(),
    lambda i, j: (i[:, None] == j).any(1).long(),
    lambda i, j: (i[:, None] == j).sum(1),
    lambda i, j: (i[:, None] == j).long().amax(1),
    lambda i, j: 1 - torch.isin(i, j, invert=True).long(),
    lambda i, j: torch.isin(i, j, assume_unique=True).long(),
    lambda i, j: (j[torch.searchsorted(j.sort().values, i).clamp(max=2)] == i).long(),
    lambda i, j: (j.sort().values[torch.searchsorted(j.sort().values, i).clamp(max=2)] == i).long(),
    lambda i, j: (i[:, None] - j).prod(1).eq(0).long(),
    lambda i, j: (i[:, None] - j).abs().amin(1).eq(0).long(),
    lambda i, j: torch.isin(j, i).long().sum().expand(5),
)  # fmt: skip

# ---------------------------------------------------------------------------------------------- nothing is left


def shifted(x: Tensor, by: Tensor) -> Tensor:
    """The logarithm of the sum of the exponentials of a row, computed with another number subtracted."""
    return by + (x - by[:, None]).exp().sum(1).log()


MASKED = {**X, "m": (torch.bool, (3, 4))}
LEFT = family(
    M, "sums of exponentials of what is left", MASKED,
    lambda x, m: x.masked_fill(m, -INF).logsumexp(1),
    lambda x, m: (x.exp() * ~m).sum(1).log(),
    lambda x, m: x.masked_fill(m, -INF).exp().sum(1).log(),
    lambda x, m: x.masked_fill(m, torch.finfo(F64).min).logsumexp(1),
    lambda x, m: x.masked_fill(m, -1e4).logsumexp(1),
    lambda x, m: torch.where(m.all(1), -INF, x.masked_fill(m, -INF).logsumexp(1)),
    lambda x, m: torch.where(m.all(1), 0.0, x.masked_fill(m, -INF).logsumexp(1)),
    lambda x, m: x.masked_fill(m, -INF).logsumexp(1).clamp(min=-1e4),
    lambda x, m: shifted(x.masked_fill(m, -INF), x.masked_fill(m, -INF).amax(1)),
    lambda x, m: shifted(x.masked_fill(m, -INF), x.masked_fill(m, -INF).amax(1).nan_to_num(neginf=0.0)),
    lambda x, m: torch.logaddexp(*(part.logsumexp(1) for part in x.masked_fill(m, -INF).split(2, 1))),
    lambda x, m: x.masked_fill(m, -INF).logcumsumexp(1)[:, -1],
    lambda x, m: x.masked_fill(m, -INF).logsumexp(1).nan_to_num(neginf=0.0),
    lambda x, m: x.masked_fill(m, -INF).logsumexp(1).exp().log(),
)  # fmt: skip
WEIGHTS = family(
    M, "guards of softmax", MASKED,
    lambda x, m: x.masked_fill(m, -INF).softmax(1).masked_fill(m.all(1, True), 0.0),
    lambda x, m: x.masked_fill(m, -INF).softmax(1).nan_to_num(0.0),
    lambda x, m: x.masked_fill(m, -INF).softmax(1).masked_fill(m, 0.0),
    lambda x, m: x.masked_fill(m, -INF).softmax(1) * ~m,
    lambda x, m: torch.where(m, 0.0, x.masked_fill(m, -INF).softmax(1)),
    lambda x, m: torch.ops.aten._safe_softmax(x.masked_fill(m, -INF), 1),
    lambda x, m: x.masked_fill(m, -INF).softmax(1),
    lambda x, m: x.masked_fill(m, torch.finfo(F64).min).softmax(1),
    lambda x, m: x.masked_fill(m, torch.finfo(F64).min).softmax(1).masked_fill(m, 0.0),
    lambda x, m: x.masked_fill(m, -1e4).softmax(1) * ~m,
    lambda x, m: (x.exp() * ~m) / (x.exp() * ~m).sum(1, True),
    lambda x, m: (x.exp() * ~m) / (x.exp() * ~m).sum(1, True).clamp(min=1e-30),
    lambda x, m: (x.exp() * ~m) / ((x.exp() * ~m).sum(1, True) + m.all(1, True)),
    lambda x, m: (x.softmax(1) * ~m) / (x.softmax(1) * ~m).sum(1, True),
    lambda x, m: torch.where(m.all(1, True), 0.0, (x.softmax(1) * ~m) / (x.softmax(1) * ~m).sum(1, True)),
    lambda x, m: torch.where(m.all(1, True), 0.25, x.masked_fill(m, -INF).softmax(1)),
    lambda x, m: F.scaled_dot_product_attention(
        x[:, None, :1], torch.ones(3, 4, 1, dtype=F64), torch.eye(4, dtype=F64).expand(3, 4, 4), attn_mask=~m[:, None]
    )[:, 0],
)  # fmt: skip
LABELS = family(
    M, "labels that are all ignored", {"x": (F64, (4, 3)), "i": (torch.int64, (4,))},
    lambda x, i: F.cross_entropy(x, i, ignore_index=-1),
    lambda x, i: F.cross_entropy(x, i, ignore_index=-1, reduction="sum"),
    lambda x, i: F.cross_entropy(x, i, ignore_index=-1, reduction="sum") / (i != -1).sum(),
    lambda x, i: F.cross_entropy(x, i, ignore_index=-1, reduction="sum") / (i != -1).sum().clamp(min=1),
    lambda x, i: F.cross_entropy(x, i, ignore_index=-1, reduction="none").mean(),
    lambda x, i: F.cross_entropy(x, i, ignore_index=-1, reduction="none").sum() / (i != -1).sum(),
    lambda x, i: F.nll_loss(x.log_softmax(1), i, ignore_index=-1),
    lambda x, i: F.cross_entropy(x, i, ignore_index=-1).nan_to_num(0.0),
    lambda x, i: torch.where((i == -1).all(), 0.0, F.cross_entropy(x, i, ignore_index=-1)),
    lambda x, i: F.cross_entropy(x, i.clamp(min=0), reduction="none").mul(i != -1).sum() / (i != -1).sum(),
    lambda x, i: F.cross_entropy(x, i.clamp(min=0)),
    lambda x, i: sum(F.cross_entropy(x[k : k + 2], i[k : k + 2], ignore_index=-1, reduction="sum") for k in (0, 2))
    / (i != -1).sum(),
    lambda x, i: (F.cross_entropy(x[:2], i[:2], ignore_index=-1) + F.cross_entropy(x[2:], i[2:], ignore_index=-1)) / 2,
    values={"i": (-1, -1, 0, 1, 2)},
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- hooks of modules
def hooked(place: Callable[[torch.nn.Module, Tensor], Any], twice: bool = False) -> Callable[[Tensor], Tensor]:
    """The gradient of a layer's weight, where ``place`` has registered hooks at the layer or its input."""

    def program(x: Tensor) -> Tensor:
        layer = torch.nn.Linear(4, 2, bias=False, dtype=F64)
        with torch.no_grad():
            layer.weight.copy_(torch.arange(8, dtype=F64).reshape(2, 4) / 8)
        given = x.detach().requires_grad_()
        place(layer, given)
        for _ in range(1 + twice):
            layer(given * 2).square().sum().backward()
        return torch.cat([x.grad.flatten() for x in (layer.weight, given) if x.grad is not None])

    return program


def doubled(grad: Tensor) -> Tensor:
    return grad * 2


def double_grad(parameter: Tensor) -> None:
    assert parameter.grad is not None
    parameter.grad.mul_(2)


def halve_grad(parameter: Tensor) -> None:
    if parameter.grad is not None:
        parameter.grad.div_(2)


HOOKED = family(
    H, "hooks of modules", X,
    hooked(lambda layer, x: None),
    hooked(lambda layer, x: layer.weight.register_hook(doubled)),
    hooked(lambda layer, x: layer.weight.register_post_accumulate_grad_hook(double_grad)),
    hooked(lambda layer, x: x.register_hook(doubled)),
    hooked(lambda layer, x: x.register_post_accumulate_grad_hook(double_grad)),
    hooked(lambda layer, x: layer.register_forward_hook(lambda m, given, out: out * 2)),
    hooked(lambda layer, x: layer.register_forward_pre_hook(lambda m, given: (given[0] * 2,))),
    hooked(lambda layer, x: layer.register_full_backward_hook(lambda m, given, out: (given[0] * 2,))),
    hooked(lambda layer, x: layer.register_full_backward_pre_hook(lambda m, out: (out[0] * 2,))),
    hooked(lambda layer, x: (layer.weight.register_hook(doubled), x.register_hook(doubled))),
    hooked(lambda layer, x: layer.weight.register_hook(lambda grad: grad.clone())),
    hooked(lambda layer, x: layer.weight.register_hook(lambda grad: None)),
    hooked(lambda layer, x: layer.weight.register_hook(doubled).remove()),
    hooked(lambda layer, x: [layer.weight.register_hook(doubled), layer.weight.register_hook(lambda g: g / 2)]),
    hooked(lambda layer, x: None, twice=True),
    hooked(lambda layer, x: layer.weight.register_hook(doubled), twice=True),
    hooked(lambda layer, x: layer.weight.register_post_accumulate_grad_hook(double_grad), twice=True),
    hooked(lambda layer, x: x.register_post_accumulate_grad_hook(halve_grad), twice=True),
)  # fmt: skip

FAMILIES: tuple[Family, ...] = (
    ROUNDED, CALLED, PRODUCTS, POINTS, SCALES, HALVED, SEARCHED, RUNNING, RUNNING_PLACES, MEMBERS, LEFT, WEIGHTS,
    LABELS, HOOKED,
)  # fmt: skip
