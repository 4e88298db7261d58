"""Every way in which ``plan new`` spreads a small model: whole plans, which must be PROVED; and plans of which one
thing is wrong, which must be REFUTED in the part that is wrong.

    python benchmarks/plan_ways.py [NAME...]

A wrong plan is captured with one function replaced (PyTorch). CPU seconds are those of the verdict, without capture.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from tantamount.answers import verify_plan
from tantamount.capture.torch.llama import balance, context, experts, model, ranks, steps
from tantamount.capture.torch.llama.experts import ExpertShape
from tantamount.capture.torch.llama.model import Shape
from tantamount.capture.torch.llama.plan import write_plan
from tantamount.capture.torch.llama.ranks import Ranks
from tantamount.capture.torch.llama.spread import Degrees
from tantamount.plan.result import PlanReport
from tantamount.verdict import Verdict

LLAMA = Shape(3, 8, 2, 2, 4, 6)
GROUPED_HEADS = Shape(2, 16, 4, 2, 4, 6)
LATENT = ExpertShape(2, 8, 2, 6, 8, 2, 4, latent=(6, 4, 4, 2, 3), dense=1, ffn=4, shared=1, groups=4, chosen_groups=2)
GROUPED = ExpertShape(1, 8, 2, 6, 4, 2, 4, kv_heads=2, head=4)
TENSOR = {"dp": 2, "tp": 2, "pp": 2, "microbatches": 2, "batch": 4, "seq": 4, "optimizer": "adamw"}
EXPERT = {"dp": 1, "tp": 2, "pp": 1, "microbatches": 2, "batch": 4, "seq": 4, "optimizer": "sgd"}
WIDE = {"dp": 4, "tp": 1}  # degrees of pieces, where other pieces have dp 2 and tp 2

WAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": (LLAMA, TENSOR),
    "sp": (LLAMA, {**TENSOR, "sp": True}),
    "zero 1": (LLAMA, {**TENSOR, "zero": 1}),
    "zero 2": (LLAMA, {**TENSOR, "zero": 2}),
    "zero 3": (LLAMA, {**TENSOR, "zero": 3}),
    "tied": (LLAMA, {**TENSOR, "tied": True}),
    "tied, one stage": (LLAMA, {**TENSOR, "tied": True, "pp": 1}),
    "recompute": (LLAMA, {**TENSOR, "recompute": True}),
    "cp gather": (LLAMA, {**TENSOR, "cp": 2}),
    "cp ulysses": (LLAMA, {**TENSOR, "cp": 2, "context": "ulysses", "tp": 1}),
    "cp ring": (LLAMA, {**TENSOR, "cp": 2, "context": "ring"}),
    "cp ring of 4": (GROUPED_HEADS, {**TENSOR, "cp": 4, "context": "ring", "seq": 8}),
    "cp gather, zigzag": (LLAMA, {**TENSOR, "seq": 8, "cp": 2, "cp_layout": "zigzag"}),
    "cp ring, zigzag": (LLAMA, {**TENSOR, "seq": 8, "cp": 2, "cp_layout": "zigzag", "context": "ring"}),
    "zero 3, first dimension": (LLAMA, {**TENSOR, "zero": 3, "zero_first": True}),
    "zero 1, first dimension, zigzag, sp, tied": (
        LLAMA,
        {**TENSOR, "zero": 1, "zero_first": True, "cp": 2, "cp_layout": "zigzag", "seq": 8, "sp": True, "tied": True},
    ),
    "cp ring, all of it": (
        LLAMA, {**TENSOR, "sp": True, "zero": 3, "tied": True, "recompute": True, "cp": 2, "context": "ring", "seq": 8},
    ),
    "all of it": (
        LLAMA, {**TENSOR, "sp": True, "zero": 3, "tied": True, "recompute": True, "cp": 2, "seq": 8},
    ),
    "dualpipe": (LLAMA, {**TENSOR, "microbatches": 4, "batch": 8, "schedule": "dualpipe", "zero": 1}),
    "dualpipev": (
        replace(LLAMA, layers=4), {**TENSOR, "microbatches": 4, "batch": 8, "schedule": "dualpipev", "chunks": 2},
    ),
    "ends of their own": (
        LLAMA, {**TENSOR, "batch": 8, "sp": True, "zero": 1, "layouts": {"embedding": WIDE, "head": WIDE}},
    ),
    "head of its own, cp, zero 3": (
        LLAMA, {**TENSOR, "batch": 8, "cp": 2, "sp": True, "zero": 3, "layouts": {"head": WIDE}},
    ),
    "ends of their own, dualpipe": (
        LLAMA, {**TENSOR, "microbatches": 4, "batch": 16, "schedule": "dualpipe", "layouts": {"head": WIDE}},
    ),
    "beside, other degrees": (LLAMA, {**TENSOR, "batch": 8, "beside": ({"dp": 4, "tp": 1},)}),
    "beside, cp, zero 1, first dimension": (
        LLAMA, {**TENSOR, "batch": 8, "zero": 1, "zero_first": True, "beside": ({"dp": 1, "cp": 2},)},
    ),
    "beside, fewer ranks, sp, zero 3": (
        LLAMA, {**TENSOR, "batch": 12, "microbatches": 3, "sp": True, "zero": 3, "beside": ({"tp": 1}, {"dp": 1})},
    ),
    "beside, experts on other ranks, aux loss": (
        GROUPED, {**EXPERT, "ep": 2, "tp": 1, "aux_loss": 0.01, "beside": ({"ep": 1, "dp": 2},)},
    ),
    "experts of their own, aux loss": (
        LATENT, {**EXPERT, "dp": 2, "batch": 8, "aux_loss": 0.01, "layouts": {"moe": {"tp": 1, "ep": 2}}},
    ),
    "experts": (LATENT, EXPERT),
    "experts, sp": (LATENT, {**EXPERT, "sp": True}),
    "ep": (GROUPED, {**EXPERT, "ep": 2}),
    "ep, capacity": (GROUPED, {**EXPERT, "ep": 2, "capacity": 1}),
    "aux loss": (LATENT, {**EXPERT, "aux_loss": 0.01}),
    "aux loss, sp, cp, zero 3": (
        LATENT, {**EXPERT, "aux_loss": 0.01, "sp": True, "cp": 2, "dp": 2, "batch": 8, "zero": 3},
    ),
    "aux loss, ep, pp, recompute": (
        replace(GROUPED, layers=2),
        {**EXPERT, "aux_loss": 0.01, "ep": 2, "pp": 2, "recompute": True, "optimizer": "adamw"},
    ),
    "aux loss over the batch": (
        LATENT, {**EXPERT, "aux_loss": 0.01, "aux_over": "batch", "sp": True, "cp": 2, "dp": 2, "batch": 8, "zero": 1},
    ),
    "ep, dp, sp, zero 1": (LATENT, {**EXPERT, "dp": 2, "batch": 8, "ep": 2, "capacity": 1, "sp": True, "zero": 1}),
}  # fmt: skip

ROTARY, TOTAL, GATHERED, SEEN = model.rotary, ranks.total, ranks.gathered, context._seen
SCORES, PASSED, MIXED = context._scores, context.passed_on, context._mixed


def _from_zero(seq: int, size: int, theta: float, device: Any, firsts: Sequence[int] = (0,)) -> Any:
    del firsts
    return ROTARY(seq, size, theta, device)


def _contiguous(seq: int, firsts: Sequence[int]) -> tuple[int, ...]:
    """The first positions of chunks that follow each other, of a rank that has others."""
    chunk = seq // len(firsts)
    return tuple((len(firsts) * (firsts[0] // chunk) + k) * chunk for k in range(len(firsts)))


def _other_positions(seq: int, size: int, theta: float, device: Any, firsts: Sequence[int] = (0,)) -> Any:
    return ROTARY(seq, size, theta, device, _contiguous(seq, firsts))


def _other_mask(q: Any, k: Any, v: Any, firsts: Sequence[int]) -> Any:
    return MIXED(q, k, v, _contiguous(q.shape[2], firsts))


def _other_weights(forward: Callable[..., Any], given: Any, rest: Any) -> Any:
    return forward({**given, "gate": given["up"], "up": given["gate"]}, rest)


def _first_copy(place: Ranks, axis: str) -> int:
    return 0 if axis in ("tied", "copy") else place.at.get(axis, 0)


def _own(x: Any, dim: int, group: Any) -> Any:
    return x if group is None else torch.cat([x] * group.size(), dim)


def _but_the_last(mine: int, other: int) -> bool:
    """A block that is skipped: the keys of the first chunk."""
    return SEEN(mine, other) and (mine == 0 or other > 0)


def _never_own(q: Any, k: Any, own: bool) -> Any:
    """No block is that of a rank's own keys: all keys of it are seen."""
    del own
    return SCORES(q, k, False)


def _always_own(q: Any, k: Any, own: bool) -> Any:
    """Every block has the mask of the own keys."""
    del own
    return SCORES(q, k, True)


class _NotHome:
    """The gradients of keys and values stay where they are after the last step, instead of going home."""

    calls = 0

    def __call__(self, grad: Any, place: Ranks) -> Any:
        self.calls += 1
        last = (self.calls - 1) % (2 * place.size("cp")) >= 2 * place.size("cp") - 2
        return grad if last else PASSED(grad, place, "cp")


def _not_over_tp(grad: Any, sums: Any, early: Any, dim: Any, place: Ranks) -> Any:
    """A norm's weight has seen a part of the sequence on each rank of tp."""
    return REDUCED(grad, tuple(axis for axis in sums if axis != "tp"), early, dim, place)


def _not_over_copies(grad: Any, sums: Any, early: Any, dim: Any, place: Ranks) -> Any:
    return REDUCED(grad, tuple(axis for axis in sums if axis != "copy"), early, dim, place)


def _over_microbatches(scores: Any, chosen: Any, count: int, own: Any, place: Ranks) -> Any:
    """Divided by the microbatches, of which there are two, although tokens are those of all."""
    return BALANCED(scores, chosen, count, replace(own, tokens=own.tokens * (2 if place.sizes else 1)), place)


def _over_tp(scores: Any, chosen: Any, count: int, own: Any, place: Ranks) -> Any:
    """All ranks of tp find the whole gradient, and add up what they find."""
    return BALANCED(ranks.copied(scores, place.group("tp")), chosen, count, own, place)


def _own_fractions(scores: Any, chosen: Any, count: int, own: Any, place: Ranks) -> Any:
    """Fractions of the tokens that a rank has, as if they were rows."""
    return BALANCED(scores, chosen, count, own, Ranks() if place.sizes else place)


class _Unscaled(torch.autograd.Function):
    """The factor is in the loss, and not in its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any, factor: float) -> Any:
        return x * factor

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        return grad_outputs[0], None


def _coefficient_forward(scores: Any, chosen: Any, count: int, own: Any, place: Ranks) -> Any:
    if not place.sizes:
        return BALANCED(scores, chosen, count, own, place)
    found = BALANCED(scores, chosen, count, replace(own, coefficient=1.0), place)
    return _Unscaled.apply(found, own.coefficient)


def _no_gradient(scores: Any, chosen: Any, count: int, own: Any, place: Ranks) -> Any:
    return BALANCED(scores.detach() if place.sizes else scores, chosen, count, own, place)


BALANCED = experts.balanced
REDUCED = steps._reduced
TWINS: dict[str, tuple[str, Any, str, Any, str]] = {  # way, what is replaced by what, the part that is wrong
    "the rotary table is not sliced": ("cp gather", model, "rotary", _from_zero, "layer"),
    "keys of other ranks are not seen": ("cp gather", context, "gathered", _own, "layer"),
    "recomputed with other weights": ("recompute", steps, "_recomputed", _other_weights, "layer"),
    "parameters are not gathered": ("zero 3", steps, "gathered", _own, "layer"),
    "masters are not gathered": ("zero 1", steps, "gathered", _own, "layer_update"),
    "norms are not reduced over tp": ("sp", steps, "_reduced", _not_over_tp, "layer_reduce"),
    "the norm counts both copies": ("tied", Ranks, "rank", _first_copy, "word_reduce"),
    "copies are not added up": ("dualpipe", steps, "_reduced", _not_over_copies, "layer_reduce"),
    "the norm counts copies of pieces": ("dualpipe", Ranks, "rank", _first_copy, "layer_reduce"),
    "tokens stay where they are": ("ep", experts, "exchanged", lambda x, _: x, "moe"),
    "aux loss over microbatches": ("aux loss", experts, "balanced", _over_microbatches, "moe"),
    "aux loss over the batch and microbatches": (
        "aux loss over the batch",
        experts,
        "balanced",
        _over_microbatches,
        "moe",
    ),
    "aux loss over tp": ("aux loss", experts, "balanced", _over_tp, "moe"),
    "aux loss of own tokens": ("aux loss, sp, cp, zero 3", experts, "balanced", _own_fractions, "moe"),
    "aux loss, own counts": ("aux loss, sp, cp, zero 3", balance, "_of_row", lambda x, _: x, "moe"),
    "aux loss without coefficient": ("aux loss", experts, "balanced", _coefficient_forward, "moe"),
    "aux loss without gradient": ("aux loss, ep, pp, recompute", experts, "balanced", _no_gradient, "moe"),
    "aux loss not over tp": ("aux loss, sp, cp, zero 3", steps, "added", lambda x, _: x, "head"),
    "the rotary table of a ring is not sliced": ("cp ring", model, "rotary", _from_zero, "layer"),
    "a block of a ring is skipped": ("cp ring of 4", context, "_seen", _but_the_last, "layer"),
    "a ring without a mask": ("cp ring", context, "_scores", _never_own, "layer"),
    "the mask of the wrong rank": ("cp ring", context, "_scores", _always_own, "layer"),
    "gradients of keys and values are not sent home": ("cp ring", context, "_handed", _NotHome(), "layer"),
    "gradients of keys and values do not go round": ("cp ring", context, "_handed", lambda x, *_: x, "layer"),
    "zigzag with positions of contiguous parts": ("cp gather, zigzag", model, "rotary", _other_positions, "layer"),
    "zigzag with the mask of contiguous parts": ("cp gather, zigzag", context, "_mixed", _other_mask, "layer"),
    "gathered chunks stay in the order of ranks": ("cp gather, zigzag", context, "_in_order", lambda x, _: x, "layer"),
    "a block of a zigzag ring is skipped": ("cp ring, zigzag", context, "_seen", _but_the_last, "layer"),
    "heads are not exchanged": ("cp ulysses", context, "exchanged", lambda x, _: x, "layer"),
}


def _verified(way: str) -> tuple[PlanReport, float]:
    shape, degrees = WAYS[way]
    with tempfile.TemporaryDirectory() as folder:
        sent = degrees.get("ep", 1) > 1
        plan = write_plan(Path(folder), way, shape, Degrees(**{**degrees, "dispatch": sent}))
        begun = time.process_time()
        return verify_plan(plan), time.process_time() - begun


def main() -> int:
    chosen = sys.argv[1:]
    wrong = 0
    for way in WAYS:
        if not chosen or way in chosen:
            report, took = _verified(way)
            wrong += not report.proved
            print(f"{report.verdict.value:<8} {took:5.1f}  {way}", flush=True)
    for name, (way, owner, function, instead, part) in TWINS.items():
        if chosen and name not in chosen:
            continue
        before = getattr(owner, function)
        setattr(owner, function, instead)
        try:
            report, took = _verified(way)
        finally:
            setattr(owner, function, before)
        found = [one.part for one in report.parts if one.verdict is Verdict.REFUTED]
        right = report.verdict is Verdict.REFUTED and part in found
        wrong += not right
        print(f"{report.verdict.value:<8} {took:5.1f}  {way}: {name}, at {', '.join(found)}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
