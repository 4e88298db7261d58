"""torchtitan's layers with experts, with sizes that no data decide: room at every expert for all tokens."""

# pyright: basic
from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from tantamount.capture.torch.megatron.models import grouped_product
from tantamount.errors import UserError

__all__ = ["experts_with_room", "layers_with_experts", "sentences_of_experts"]

_HOOK = "register_moe_load_balancing_hook"


def layers_with_experts(config: Any) -> list[Any]:
    """The configurations of the layers' experts; raises :class:`UserError` for kinds of which nothing is known."""
    spec = config.model_spec
    found = [layer.moe for layer in spec.model.layers if getattr(layer, "moe", None) is not None]
    if found:
        moe = import_module("torchtitan.models.common.moe")
        dispatcher = import_module("torchtitan.models.common.token_dispatcher")
        for k, own in enumerate(found):
            inner = own.routed_experts
            for place, part, known in (
                ("moe", own, [moe.MoE]),
                ("router", own.router, [moe.TokenChoiceTopKRouter]),
                ("routed_experts", inner, [moe.RoutedExperts]),
                ("inner_experts", inner.inner_experts, [moe.GroupedExperts]),
                (
                    "token_dispatcher", inner.token_dispatcher,
                    [dispatcher.LocalTokenDispatcher, dispatcher.AllToAllTokenDispatcher],
                ),
            ):  # fmt: skip
                if type(part) not in [kind.Config for kind in known]:
                    needed = " or ".join(kind.__name__ for kind in known)
                    raise _wrong(f"experts {k}: {place}", type(part).__qualname__, needed)
    hook = spec.post_optimizer_build_fn
    if hook is not None and not (found and getattr(hook, "__name__", "") == _HOOK):
        raise _wrong("model_spec.post_optimizer_build_fn", "hooks of the optimizer", f"{_HOOK}, or none")
    return found


def _wrong(place: str, found: str, needed: str) -> UserError:
    return UserError("plan-torchtitan", place=f"plan_of_torchtitan: {place}", found=found, needed=needed)


def sentences_of_experts(experts: list[Any]) -> list[str]:
    """The sentences that a plan with such layers rests on."""
    if not experts:
        return []
    found = [
        "every expert is sent all tokens, with weight 0 for those that did not choose it: torchtitan's dispatcher, "
        "which sends those that did, and its grouped products are taken to be the same function"
    ]
    if any(own.load_balance_coeff is not None for own in experts):
        found.append(
            "routers' biases are the same on all ranks; their update by a hook of the optimizer is no part of the plan"
        )
    return found


@contextmanager
def experts_with_room(experts: list[Any]) -> Iterator[None]:
    """torchtitan's dispatchers and grouped products while every expert is given all tokens of every rank, those that
    did not choose it with weight 0."""
    if not experts:
        yield
        return
    moe = import_module("torchtitan.models.common.moe")
    dispatcher = import_module("torchtitan.models.common.token_dispatcher")
    with ExitStack() as stack:
        for kind in (dispatcher.LocalTokenDispatcher, dispatcher.AllToAllTokenDispatcher):
            stack.enter_context(patch.object(kind, "dispatch", _dispatch))
            stack.enter_context(patch.object(kind, "combine", _combine))
        product = lambda _, *, A, B_t, offs: grouped_product(A, B_t, offs)  # noqa: E731
        stack.enter_context(patch.object(moe.GroupedExperts, "_grouped_mm", product))
        stack.enter_context(patch.object(torch, "autocast", _autocast(torch.autocast)))
        yield


def _autocast(original: Any) -> Any:
    """PyTorch's, which knows nothing of devices without data. Which precision a product has is nothing that a plan
    says."""
    return lambda device_type, *args, **more: (
        nullcontext() if device_type == "meta" else original(device_type, *args, **more)
    )


def _dispatch(self: Any, x: Tensor, scores: Tensor, chosen: Tensor, _: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All tokens for every expert of this rank, one expert after the other; the number of each; and the weight of each
    token at every expert."""
    weights = torch.zeros(len(x), self.num_experts, dtype=scores.dtype, device=x.device).scatter(1, chosen, scores)
    rows = x.unsqueeze(0).expand(self.num_experts, -1, -1).flatten(0, 1)
    mesh = getattr(self, "ep_mesh", None)
    ranks = 1 if mesh is None else mesh.size()
    if mesh is not None:
        splits = [len(rows) // ranks] * ranks
        came = self._dispatch_token_exchange(rows, mesh.get_group(), splits, splits)
        rows = came.unflatten(0, (ranks, -1, len(x))).transpose(0, 1).flatten(0, 2)
    counts = torch.full((self.num_experts // ranks,), len(x) * ranks, dtype=torch.int64, device=x.device)
    return rows, counts, weights


def _combine(self: Any, rows: Tensor, weights: Tensor, x: Tensor) -> Tensor:
    """The sum over experts of what they made of every token, each times its weight."""
    mesh = getattr(self, "ep_mesh", None)
    if mesh is not None:
        splits = [len(rows) // mesh.size()] * mesh.size()
        back = rows.unflatten(0, (-1, mesh.size(), len(x))).transpose(0, 1).flatten(0, 2)
        rows = self._combine_token_exchange(back, mesh.get_group(), splits, splits)
    made = rows.unflatten(0, (self.num_experts, -1)).to(torch.float32) * weights.t().unsqueeze(-1)
    return made.sum(0).to(x.dtype)
