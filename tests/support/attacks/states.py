"""Programs that write memory which others see, and backward passes with hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from support.attacks.judge import Family, family
from support.attacks.ties import leaf

__all__ = ["FAMILIES"]

X = {"x": (torch.float64, (4, 4))}
V = {"x": (torch.float64, (6,))}
WX = {"w": (torch.float64, (3,)), "x": (torch.float64, (2, 3))}
S = "memory that is shared"
H = "hooks and backward passes"


def after(x: Tensor, write: Callable[[Tensor], Any]) -> Tensor:
    """A copy, when something was written into it."""
    y = x.clone()
    write(y)
    return y


SHIFTED = family(
    S, "shifted by one", V,
    lambda x: torch.cat([x[:1], x[:-1]]),
    lambda x: after(x, lambda y: y[1:].copy_(y[:-1].clone())),
    lambda x: after(x, lambda y: y[1:].copy_(y[:-1])),
    lambda x: after(x, lambda y: y.__setitem__(slice(1, None), y[:-1])),
    lambda x: x[:1].expand(6).clone(),
    lambda x: x.roll(1),
    lambda x: after(x.roll(1), lambda y: y[0].copy_(x[0])),
    lambda x: after(x, lambda y: [y[k].copy_(y[k - 1]) for k in range(1, 6)]),
    lambda x: after(x, lambda y: [y[k].copy_(y[k - 1]) for k in range(5, 0, -1)]),
    lambda x: after(x, lambda y: y.index_copy_(0, torch.arange(1, 6), y[:-1].clone())),
    lambda x: after(x, lambda y: y.index_copy_(0, torch.arange(1, 6), y[:-1])),
    lambda x: after(x, lambda y: y.copy_(y.roll(1))).index_copy(0, torch.tensor([0]), x[:1]),
    lambda x: x[(torch.arange(6) - 1).clamp(min=0)],
    lambda x: x[torch.arange(6) - 1],
    lambda x: F.pad(x[None, :-1], (1, 0), mode="replicate")[0],
    lambda x: F.pad(x[:-1], (1, 0)),
)  # fmt: skip
TRANSPOSED = family(
    S, "views of views", X,
    lambda x: after(x, lambda y: y.t().mul_(2)),
    lambda x: 2 * x,
    lambda x: after(x, lambda y: y.t()[0].mul_(2)),
    lambda x: after(x, lambda y: y[0].mul_(2)),
    lambda x: after(x, lambda y: y[:, 0].mul_(2)),
    lambda x: after(x, lambda y: y.diagonal().mul_(2)),
    lambda x: after(x, lambda y: y.view(-1)[::5].mul_(2)),
    lambda x: after(x, lambda y: y.reshape(-1)[::5].mul_(2)),
    lambda x: after(x, lambda y: y.t().reshape(-1)[::5].mul_(2)),
    lambda x: after(x, lambda y: y.flatten()[::5].mul_(2)),
    lambda x: after(x, lambda y: y.t().flatten()[:4].mul_(2)),
    lambda x: after(x, lambda y: y.as_strided((4,), (5,)).mul_(2)),
    lambda x: after(x, lambda y: y.t().as_strided((4,), (5,)).mul_(2)),
    lambda x: after(x, lambda y: y.t().as_strided((4,), (1,)).mul_(2)),
    lambda x: after(x, lambda y: y.as_strided((4,), (4,)).mul_(2)),
    lambda x: after(x, lambda y: [z.mul_(2) for z in y.unbind(0)]),
    lambda x: after(x, lambda y: [z.mul_(2) for z in y.chunk(2, 1)[:1]]),
    lambda x: after(x, lambda y: y[:, :2].mul_(2)),
    lambda x: after(x, lambda y: y.unfold(0, 2, 2)[:, :, 0].mul_(2)),
    lambda x: after(x, lambda y: y[::2].mul_(2)),
    lambda x: after(x, lambda y: y.movedim(0, 1)[:2].mul_(2)),
    lambda x: after(x, lambda y: y.detach()[0].mul_(2)),
    lambda x: after(x, lambda y: y.data[0].mul_(2)),
    lambda x: after(x, lambda y: y.fill_diagonal_(0)),
    lambda x: x - x.diag().diag(),
    lambda x: x * (1 - torch.eye(4, dtype=torch.float64)),
    lambda x: after(x, lambda y: y.expand(2, 4, 4)[0][0].mul_(2)),
    lambda x: after(x, lambda y: y.select(1, 0).unsqueeze(0).squeeze_().mul_(2)),
)  # fmt: skip
COPIES = family(
    S, "copies or not", X,
    lambda x: (y := x.clone(), y.contiguous().add_(1))[0],
    lambda x: (y := x.clone(), y.t().contiguous().add_(1))[0],
    lambda x: (y := x.clone(), y.reshape(2, 8).add_(1))[0],
    lambda x: (y := x.clone(), y.t().reshape(2, 8).add_(1))[0],
    lambda x: (y := x.clone(), y.to(torch.float64).add_(1))[0],
    lambda x: (y := x.clone(), y.to(torch.float32).add_(1))[0],
    lambda x: (y := x.clone(), y.to(torch.float64, copy=True).add_(1))[0],
    lambda x: (y := x.clone(), y[torch.tensor([0, 1, 2, 3])].add_(1))[0],
    lambda x: (y := x.clone(), y[:].add_(1))[0],
    lambda x: (y := x.clone(), y[[0, 1, 2, 3]].add_(1))[0],
    lambda x: (y := x.clone(), y[0:4, None].add_(1))[0],
    lambda x: (y := x.clone(), y.expand(4, 4).add_(1))[0],
    lambda x: (y := x.clone(), y.narrow(0, 0, 4).add_(1))[0],
    lambda x: (y := x.clone(), torch.broadcast_to(y, (4, 4)).add_(1))[0],
    lambda x: (y := x.clone(), torch.atleast_3d(y).add_(1))[0],
    lambda x: (y := x.clone(), torch.ravel(y.t()).add_(1))[0],
    lambda x: (y := x.clone(), torch.ravel(y).add_(1))[0],
    lambda x: (y := x.clone(), torch.cat([y]).add_(1))[0],
    lambda x: (y := x.clone(), y.double().add_(1))[0],
    lambda x: (y := x.clone(), y.type_as(x).add_(1))[0],
    lambda x: (y := x.clone(), torch.add(x, 1, out=y))[0],
    lambda x: (y := x.clone(), torch.add(y, 1, out=y.t()))[0],
    lambda x: (y := x.clone(), torch.add(y.clone(), 1, out=y.t()))[0],
    lambda x: (y := x.clone(), y.index_put_((torch.arange(4),), y + 1))[0],
    lambda x: (y := x.clone(), y.masked_fill_(y == y, 0).add_(x + 1))[0],
    lambda x: (y := x.clone(), y.relu().add_(1))[0],
    lambda x: (y := x.clone(), y.conj().add_(1))[0],
    lambda x: (y := x.clone(), y.resolve_conj().add_(1))[0],
    lambda x: (y := x.clone(), y.squeeze().add_(1))[0],
    lambda x: (y := x.clone(), y.unflatten(0, (2, 2)).add_(1))[0],
    lambda x: (y := x.clone(), y.swapaxes(0, 1).add_(1))[0],
    lambda x: (y := x.clone(), y.flip(0).add_(1))[0],
    lambda x: (y := x.clone(), y.rot90(0).add_(1))[0],
    lambda x: (y := x.clone(), F.dropout(y, 0.0).add_(1))[0],
    lambda x: (y := x.clone(), F.dropout(y, 0.5, False).add_(1))[0],
    lambda x: (y := x.clone(), F.pad(y, (0, 0)).add_(1))[0],
    lambda x: x + 1,
    lambda x: x * 1,
)  # fmt: skip


# ------------------------------------------------------------------------------------------------- backward
def trained(
    w: Tensor,
    x: Tensor,
    before: Callable[[Tensor], Any] = lambda p: None,
    loss: Callable[[Tensor, Tensor], Tensor] = lambda p, x: (p * x).square().sum(),
) -> Tensor:
    """The gradient that a backward pass leaves in a leaf; ``before``: what is registered on it."""
    p = leaf(w.clone())
    kept = before(p)
    loss(p, x).backward()
    del kept
    assert p.grad is not None
    return p.grad


def squares(p: Tensor, x: Tensor) -> Tensor:
    return (p * x).square().sum()


def hooked(p: Tensor, x: Tensor, register: Callable[[Tensor], Any]) -> Tensor:
    """The loss, with something registered on what it computes on the way."""
    y = p * x
    register(y)
    return y.square().sum()


def times(factor: float) -> Callable[..., Any]:
    return lambda g: factor * g


def on_node(factor: float) -> Callable[[Tensor], Any]:
    return lambda y: y.grad_fn.register_hook(lambda i, o: tuple(None if g is None else factor * g for g in i))


def before_node(factor: float) -> Callable[[Tensor], Any]:
    return lambda y: y.grad_fn.register_prehook(lambda o: tuple(factor * g for g in o))


def accumulator(p: Tensor) -> Any:
    return p.expand_as(p).grad_fn.next_functions[0][0]


def double(p: Tensor) -> None:
    p.grad.mul_(2)


def scaled_in_place(factor: float) -> Callable[[Tensor], Any]:
    def change(p: Tensor) -> None:
        p.grad.mul_(factor)

    return lambda p: p.register_post_accumulate_grad_hook(change)


def packed(p: Tensor, x: Tensor, pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]) -> Tensor:
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        return squares(p, x)


def twice(w: Tensor, x: Tensor, between: Callable[[Tensor], Any] = lambda p: None) -> Tensor:
    p = leaf(w.clone())
    loss = squares(p, x)
    loss.backward(retain_graph=True)
    between(p)
    loss.backward()
    assert p.grad is not None
    return p.grad


class Times(torch.autograd.Function):
    """x * w, whose gradient of w is multiplied by a number."""

    @staticmethod
    def forward(ctx: Any, w: Tensor, x: Tensor, factor: float) -> Tensor:
        ctx.save_for_backward(w, x)
        ctx.factor = factor
        return w * x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        w, x = ctx.saved_tensors
        return ctx.factor * (gradients[0] * x).sum(0), gradients[0] * w, None


GRADIENTS = family(
    H, "gradients, once, twice or not", WX,
    lambda w, x: trained(w, x),
    lambda w, x: 2 * (w * x * x).sum(0),
    lambda w, x: 4 * (w * x * x).sum(0),
    lambda w, x: w * 0,
    lambda w, x: trained(w, x, lambda p: p.register_hook(times(2))),
    lambda w, x: trained(w, x, lambda p: p.register_hook(times(1))),
    lambda w, x: trained(w, x, lambda p: p.register_hook(lambda g: None)),
    lambda w, x: trained(w, x, lambda p: p.register_hook(times(2)).remove()),
    lambda w, x: trained(w, x, lambda p: (p.register_hook(times(4)), p.register_hook(times(0.5)))),
    lambda w, x: trained(w, x, scaled_in_place(2)),
    lambda w, x: trained(w, x, scaled_in_place(0)),
    lambda w, x: trained(w, x, lambda p: (scaled_in_place(2)(p), p.register_hook(times(2)))),
    lambda w, x: trained(w, x, lambda p: [a := accumulator(p), a.register_prehook(lambda g: (2 * g[0],))]),
    lambda w, x: trained(w, x, lambda p: [a := accumulator(p), a.register_hook(lambda i, o: double(p))]),
    lambda w, x: trained(w, x, loss=lambda p, x: hooked(p, x, lambda y: y.register_hook(times(2)))),
    lambda w, x: trained(w, x, loss=lambda p, x: hooked(p, x, on_node(2))),
    lambda w, x: trained(w, x, loss=lambda p, x: hooked(p, x, before_node(2))),
    lambda w, x: trained(w, x, loss=lambda p, x: hooked(p, x, lambda y: (on_node(2)(y), before_node(0.5)(y)))),
    lambda w, x: trained(w, x, loss=lambda p, x: hooked(p, x, lambda y: y.retain_grad())),
    lambda w, x: trained(w, x, loss=lambda p, x: packed(p, x, lambda t: t, lambda t: t)),
    lambda w, x: trained(w, x, loss=lambda p, x: packed(p, x, lambda t: 2 * t, lambda t: t)),
    lambda w, x: trained(w, x, loss=lambda p, x: packed(p, x, lambda t: 2 * t, lambda t: t / 2)),
    lambda w, x: trained(w, x, loss=lambda p, x: checkpoint(squares, p, x, use_reentrant=False)),
    lambda w, x: trained(w, x, loss=lambda p, x: (p.detach() * x).square().sum() + 0 * p.sum()),
    lambda w, x: trained(w, x, loss=lambda p, x: (p.data * x * (p * x)).sum()),
    lambda w, x: trained(w, x, loss=lambda p, x: Times.apply(p, x, 1.0).square().sum()),
    lambda w, x: trained(w, x, loss=lambda p, x: Times.apply(p, x, 2.0).square().sum()),
    lambda w, x: trained(w, x, loss=lambda p, x: squares(p, x) / squares(p, x).detach() * squares(p, x).detach()),
    lambda w, x: trained(w, x, loss=lambda p, x: squares(p.clone(), x)),
    lambda w, x: trained(w, x, loss=lambda p, x: squares(p.expand(2, 3).contiguous(), x)),
    lambda w, x: twice(w, x),
    lambda w, x: twice(w, x, lambda p: p.grad.zero_()),
    lambda w, x: twice(w, x, lambda p: setattr(p, "grad", None)),
    lambda w, x: twice(w, x, lambda p: p.grad.mul_(-1)),
    lambda w, x: twice(w, x, lambda p: p.register_hook(times(3))),
    lambda w, x: torch.autograd.grad(squares(p := leaf(w), x), p)[0],
    lambda w, x: torch.autograd.grad(squares(p := leaf(w), x), p, torch.tensor(2.0, dtype=torch.float64))[0],
    lambda w, x: torch.autograd.functional.jacobian(lambda p: squares(p, x), w),
    lambda w, x: torch.func.grad(squares)(w, x),
    lambda w, x: torch.func.grad(lambda p: squares(p, x) + squares(p.detach(), x))(w),
    lambda w, x: torch.func.vjp(lambda p: squares(p, x), w)[1](torch.tensor(2.0, dtype=torch.float64))[0],
)  # fmt: skip


def stepped(
    w: Tensor, x: Tensor, change: Callable[[Any], Any] = lambda o: None, make: Callable[..., Any] = torch.optim.SGD
) -> Tensor:
    """A leaf after a step of an optimizer."""
    p = leaf(w.clone())
    optimizer = make([p], lr=0.5)
    kept = change(optimizer)
    squares(p, x).backward()
    optimizer.step()
    del kept
    return p.detach()


def halve(optimizer: Any, *_: Any) -> None:
    with torch.no_grad():
        for group in optimizer.param_groups:
            for p in group["params"]:
                p.grad.mul_(0.5)


def clipped(w: Tensor, x: Tensor, most: float, norm: float = 2.0) -> Tensor:
    p = leaf(w.clone())
    squares(p, x).backward()
    torch.nn.utils.clip_grad_norm_([p], most, norm)
    assert p.grad is not None
    return w - 0.5 * p.grad


def moved(w: Tensor, x: Tensor, way: Callable[[Tensor], Any]) -> Tensor:
    p = leaf(w.clone())
    squares(p, x).backward()
    way(p)
    return p.detach()


def unlocked(p: Tensor, scale: float) -> None:
    with torch.no_grad():
        p.sub_(p.grad, alpha=scale)


STEPS = family(
    H, "steps", WX,
    lambda w, x: w - (w * x * x).sum(0),
    lambda w, x: w - 0.5 * (w * x * x).sum(0),
    lambda w, x: w.clone(),
    lambda w, x: stepped(w, x),
    lambda w, x: stepped(w, x, lambda o: o.register_step_pre_hook(halve)),
    lambda w, x: stepped(w, x, lambda o: o.register_step_post_hook(halve)),
    lambda w, x: stepped(w, x, lambda o: o.param_groups[0].__setitem__("lr", 0.25)),
    lambda w, x: stepped(w, x, lambda o: o.param_groups[0].__setitem__("maximize", True)),
    lambda w, x: stepped(w, x, lambda o: o.param_groups[0].__setitem__("weight_decay", 0.1)),
    lambda w, x: stepped(w, x, lambda o: o.param_groups[0].__setitem__("momentum", 0.9)),
    lambda w, x: stepped(w, x, lambda o: o.zero_grad()),
    lambda w, x: moved(w, x, lambda p: p.data.sub_(0.5 * p.grad)),
    lambda w, x: moved(w, x, lambda p: p.data.sub_(p.grad)),
    lambda w, x: moved(w, x, lambda p: p.data.sub(0.5 * p.grad)),
    lambda w, x: moved(w, x, lambda p: p.detach().sub_(0.5 * p.grad)),
    lambda w, x: moved(w, x, lambda p: setattr(p, "data", p.data - 0.5 * p.grad)),
    lambda w, x: moved(w, x, lambda p: setattr(p, "data", p.data - p.grad)),
    lambda w, x: moved(w, x, lambda p: unlocked(p, 0.5)),
    lambda w, x: moved(w, x, lambda p: unlocked(p, 0.25)),
    lambda w, x: moved(w, x, lambda p: (p.grad.mul_(2), unlocked(p, 0.25))),
    lambda w, x: moved(w, x, lambda p: (setattr(p, "grad", p.grad * 0.5), unlocked(p, 0.5))),
    lambda w, x: moved(w, x, lambda p: (p.grad.data.mul_(0.5), unlocked(p, 0.5))),
    lambda w, x: moved(w, x, lambda p: p.data.copy_(w - 0.5 * p.grad)),
    lambda w, x: moved(w, x, lambda p: torch._foreach_sub_([p.data], [p.grad], alpha=0.5)),
    lambda w, x: clipped(w, x, 1e30),
    lambda w, x: clipped(w, x, 1.0),
    lambda w, x: clipped(w, x, 1.0, float("inf")),
    lambda w, x: clipped(w, x, 1.0, 1.0),
)  # fmt: skip

FAMILIES: tuple[Family, ...] = (SHIFTED, TRANSPOSED, COPIES, GRADIENTS, STEPS)
