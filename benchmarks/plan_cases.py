"""Mistakes that teams have made, each in the plan of a small model: Llama at dp 2, tp 2, pp 2, or a model with experts,
with context or expert parallelism where the mistake needs it. All must be REFUTED, in the part that is wrong.

    python benchmarks/plan_cases.py [NAME...]

A mistake is one function of the captured programs replaced, on all ranks (PyTorch); where a model does not have what
the mistake is about (a bias, documents, a norm over all heads), one device has it as well, right. Parts that it does
not touch are captured and proved once for every way of spreading. CPU seconds are those of the verdict.
"""

from __future__ import annotations

import gc
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from plan_ways import EXPERT, GROUPED, LATENT, LLAMA, TENSOR

from tantamount.capture.torch.llama import context, experts, model, plan, ranks, steps
from tantamount.capture.torch.llama.model import Shape
from tantamount.capture.torch.llama.plan import parts_of, write_part, write_plan
from tantamount.capture.torch.llama.ranks import Ranks
from tantamount.capture.torch.llama.spread import Degrees
from tantamount.effort import Effort
from tantamount.plan.mutants import plan_mutants, write_mutant
from tantamount.plan.prove import part_checker
from tantamount.plan.read import read_plan
from tantamount.plan.result import PartReport, PlanReport
from tantamount.plan.verify import verify
from tantamount.refinement.job import refine_differing, refine_job
from tantamount.verdict import Verdict

PATIENCE = 120.0  # seconds for one plan
HEADS = Shape(2, 16, 8, 4, 4, 6)
WAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": (LLAMA, TENSOR),
    "heads": (HEADS, TENSOR),
    "zero 1": (LLAMA, {**TENSOR, "zero": 1}),
    "tied": (LLAMA, {**TENSOR, "tied": True}),
    "cp": (LLAMA, {**TENSOR, "cp": 2}),
    "ulysses": (LLAMA, {**TENSOR, "cp": 2, "context": "ulysses", "tp": 1}),
    "experts": (LATENT, EXPERT),
    "experts, sp": (LATENT, {**EXPERT, "sp": True}),
    "ep": (GROUPED, {**EXPERT, "ep": 2, "dp": 2, "batch": 16, "dispatch": True}),
}

REDUCED, NORM, LOSS, LEFT, ENTERED = steps._reduced, plan.norm_step, steps.loss, model.left, experts.entered
ROTARY, DISPATCHED, LAYER, UPDATE, TIED = (
    model.rotary, experts._dispatched, steps.expert_layer, plan.update_step, plan.tied_step,
)  # fmt: skip
ATTENTION, MIXED, GRADIENTS, NORMED = model.attention, context._mixed, steps._gradients, experts.normed


# ---------------------------------------------------------------------------------------------- the mistakes
def _expert_scale(grad: Any, sums: Any, early: Any, dim: Any, place: Ranks) -> Any:
    """Gradients of experts are divided by the number of their copies: once less than by that of the ranks."""
    found = REDUCED(grad, sums, early, dim, place)
    return found * place.size("ep") if "ep" not in sums else found


def _norm_without(axis: str, most: float, squares: Any, place: Ranks) -> Any:
    return NORM(most, {key: tuple(a for a in axes if a != axis) for key, axes in squares.items()}, place)


def _norm_over_more(most: float, squares: Any, place: Ranks) -> Any:
    """The norm of experts is reduced over all ranks, replicas among them."""
    return NORM(most, {k: (*axes, "dp") if "ep" in axes else axes for k, axes in squares.items()}, place)


def _gathered_elsewhere(names: Any, optimizer: str, masters: Any, place: Ranks) -> Any:
    """What is gathered comes from the ranks of another group."""
    groups = {**place.groups, ("dp",): place.groups[("tp",)]} if place.groups else place.groups
    return UPDATE(names, optimizer, masters, replace(place, groups=groups))


def _loss_times_cp(x: Any, labels: Any, w: Any, tokens: int, place: Ranks) -> Any:
    return LOSS(x, labels, w, tokens, place) * place.size("cp")


def _from_zero(seq: int, size: int, theta: float, device: Any, first: int = 0) -> Any:
    del first
    return ROTARY(seq, size, theta, device)


def _other_tokens(y: Any, *rest: Any) -> Any:
    """Results go to tokens that are counted through as if there was one row."""
    found = DISPATCHED(y, *rest)
    return found.transpose(0, 1).reshape(found.shape) if rest[-1].sizes else found


def _scaled_each_time(y: Any, given: Any, dy: Any, place: Ranks, early: Any) -> Any:
    """What has been added up is divided by the number of microbatches after each of them."""
    found = GRADIENTS(y, given, dy, place, early)
    return {k: g / 2 if k != "d_x" and place.sizes else g for k, g in found.items()}


def _scaled_by_stages(y: Any, given: Any, dy: Any, place: Ranks, early: Any) -> Any:
    found = GRADIENTS(y, given, dy, place, early)
    return {k: g / 2 if k == "d_x" and place.sizes else g for k, g in found.items()}


def _bias_before(x: Any, place: Ranks) -> Any:
    return LEFT(x + 0.5, place)


class _Less(torch.autograd.Function):
    """The same, with a gradient that is divided."""

    @staticmethod
    def forward(ctx: Any, x: Any, by: int) -> Any:
        ctx.by = by
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad / ctx.by, None


def _local_count(x: Any, w: Any, shape: Any, place: Ranks) -> Any:
    """What the router's gradient is scaled by counts the tokens of one rank of tp."""
    less = _Less.apply(w["router"], place.size("tp")) if place.size("tp") > 1 else w["router"]
    return LAYER(x, {**w, "router": less}, shape, place)


def _other_heads(q: Any, k: Any, v: Any, place: Ranks) -> Any:
    return ATTENTION(q, k.flip(1), v, place) if place.sizes else ATTENTION(q, k, v, place)


def _other_order(q: Any, k: Any, v: Any, place: Ranks) -> Any:
    """What is contracted next is in another order than the rows that it meets."""
    found = ATTENTION(q, k, v, place)
    return torch.cat(found.chunk(2, -1)[::-1], -1) if place.sizes else found


def _add_before_sum(most: float, squares: Any, place: Ranks) -> Any:
    """A number is added to what is a sum over ranks, on each of them."""
    step = NORM(most, squares, place)
    return lambda **given: step(**{key: x + 1e-6 for key, x in given.items()})


def _root_before_sum(most: float, squares: Any, place: Ranks) -> Any:
    def run(**given: Any) -> Any:
        found = [ranks.total(given[key].sqrt(), place.group(*axes)).square() for key, axes in squares.items()]
        whole = ranks.total(torch.stack(found).sum(), place.group("pp"))
        return {"factor": torch.clamp(most / (whole.sqrt() + 1e-6), max=1.0)}

    return run


def _norm_of_heads(x: Any, weight: Any) -> Any:
    """The mean is over all heads; a rank of tp has some of them."""
    over = (-2, -1) if x.dim() == 4 else (-1,)
    return x * torch.rsqrt(x.pow(2).mean(over, keepdim=True) + 1e-5) * weight


def _documents(q: Any, k: Any, v: Any, firsts: Any) -> Any:
    """Two documents in a row: one device keeps them apart, ranks that have a part of the row do not."""
    if q.shape[2] != k.shape[2]:
        return MIXED(q, k, v, firsts)
    half = k.shape[2] // 2
    return torch.cat([MIXED(*(t[:, :, part] for t in (q, k, v)), (0,)) for part in (slice(half), slice(half, None))], 2)


def _no_copies(name: str, sums: Any, squares: Any, early: Any, shards: Any, place: Ranks) -> Any:
    groups = {axes: group for axes, group in place.groups.items() if "tied" not in axes}
    alone = replace(place, sizes={a: s for a, s in place.sizes.items() if a != "tied"}, groups=groups)
    return TIED(name, sums, squares, early, shards, alone)


def _one_more(tokens: Any, table: Any, place: Ranks) -> Any:
    """A rank looks one token up that is the next rank's."""
    if place.size("tp") == 1:
        return torch.nn.functional.embedding(tokens, table)
    first = place.rank("tp") * table.shape[0]
    outside = (tokens < first) | (tokens > first + table.shape[0])
    at = (tokens - first).masked_fill(outside, 0).clamp(max=table.shape[0] - 1)
    return LEFT(torch.nn.functional.embedding(at, table).masked_fill(outside[..., None], 0.0), place)


def _first_part(place: Ranks, axis: str) -> int:
    return 0 if axis == "tp" else place.at.get(axis, 0)


def _less_over_cp(grad: Any, sums: Any, early: Any, dim: Any, place: Ranks) -> Any:
    return REDUCED(grad, sums, early, dim, place) / place.size("cp")


Case = tuple[str, Any, str, Any, tuple[str, ...]]
CASES: dict[str, Case] = {  # way, what is replaced by what, the parts that are wrong
    "tv04 experts' gradients over too few ranks": ("ep", steps, "_reduced", _expert_scale, ("moe_reduce",)),
    "tv04b norm without parts of tp": ("plain", plan, "norm_step", partial(_norm_without, "tp"), ("norm",)),
    "tv13 parameters from another group": ("zero 1", plan, "update_step", _gathered_elsewhere, ("layer_update",)),
    "tv18 loss times cp": ("cp", steps, "loss", _loss_times_cp, ("head",)),
    "tv20 norm of experts over all ranks": ("ep", plan, "norm_step", _norm_over_more, ("norm",)),
    "tvc1 rotary table is not sliced": ("cp", model, "rotary", _from_zero, ("layer",)),
    "ad03 experts' input has no sum over tp": ("experts", experts, "entered", lambda x, _: x, ("moe",)),
    "ad04 results go to other tokens": ("ep", experts, "_dispatched", _other_tokens, ("moe",)),
    "ad06 sums are scaled again and again": ("plain", steps, "_gradients", _scaled_each_time, ("layer",)),
    "ad06b every stage scales": ("plain", steps, "_gradients", _scaled_by_stages, ("layer",)),
    "ad07 bias before the sum": ("plain", model, "left", _bias_before, ("layer",)),
    "ad10 router scaled by local tokens": ("experts", steps, "expert_layer", _local_count, ("moe",)),
    "ad13 heads that do not belong together": ("heads", model, "attention", _other_heads, ("layer",)),
    "ad15 a number added to a partial sum": ("plain", plan, "norm_step", _add_before_sum, ("norm",)),
    "ad16 root of a partial sum": ("plain", plan, "norm_step", _root_before_sum, ("norm",)),
    "ad19 contraction in two orders": ("heads", model, "attention", _other_order, ("layer",)),
    "ad21 norm over the heads of one rank": ("ep", experts, "normed", _norm_of_heads, ("moe",)),
    "ad23 documents across ranks": ("cp", context, "_mixed", _documents, ("layer",)),
    "ad27 gradients of copies are not added": ("tied", plan, "tied_step", _no_copies, ("word_reduce",)),
    "ad28 one token too many": ("plain", steps, "embedded", _one_more, ("embedding",)),
    "ad32 first part everywhere": ("plain", Ranks, "rank", _first_part, ("embedding",)),
    "ad33 gradients divided by cp": ("ulysses", steps, "_reduced", _less_over_cp, ("layer_reduce",)),
}  # fmt: skip
DRAWN = {"tv5x reduced before the last microbatch": "early synchronisation"}
FIGURE = (  # of plans with one mistake, by category
    "communication missing", "communication superfluous", "wrong primitive", "wrong group", "device assignment",
    "partitioning", "scaling", "early synchronisation", "shuffled microbatches", "broken dependency", "event lost",
    "unreduced gradient",
)  # fmt: skip


class Verifier:
    """Verdicts on plans, of which equal parts are looked at once."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], tuple[bytes, PartReport]] = {}
        self.folders: dict[str, Path] = {}
        self.root = Path(tempfile.mkdtemp())

    def right(self, way: str) -> Path:
        """The folder of the plan without a mistake."""
        if way not in self.folders:
            shape, degrees = WAYS[way]
            self.folders[way] = self.root / way.replace(", ", "_").replace(" ", "_")
            write_plan(self.folders[way], way, shape, Degrees(**degrees))
            if not self.verdict(way, self.folders[way] / "plan.toml").proved:
                raise SystemExit(f"{way}: the plan without a mistake is not proved")
        return self.folders[way]

    def verdict(self, way: str, path: Path) -> PlanReport:
        effort = Effort(seconds=PATIENCE)
        closely = part_checker(
            partial(refine_job, effort=effort, doubtful=True), effort, partial(refine_differing, effort=effort)
        )

        def check(part: Any) -> PartReport:
            files = b"".join(sorted(f.read_bytes() for f in path.parent.glob(f"{part.name}.*")))
            key = repr((files, part.job.mesh, part.job.inputs, part.job.outputs)).encode()
            before = self.known.get((way, part.name))
            if before is not None and before[0] == key:
                return before[1]
            found = closely(part)
            self.known.setdefault((way, part.name), (key, found))
            return found

        return verify(read_plan(path), check)

    def wrong(self, name: str, number: int) -> tuple[PlanReport, float, tuple[str, ...]]:
        """The report on a case, its CPU seconds, and where it should be found."""
        way, owner, function, instead, places = CASES[name]
        folder = self.root / f"case{number}"
        shutil.copytree(self.right(way), folder)
        shape, degrees = WAYS[way]
        before = getattr(owner, function)
        setattr(owner, function, instead)
        try:
            for part in parts_of(shape, Degrees(**degrees)):
                if part.name in places:
                    write_part(folder, part)
        finally:
            setattr(owner, function, before)
        begun = time.process_time()
        return self.verdict(way, folder / "plan.toml"), time.process_time() - begun, places

    def drawn(self, kind: str, seed: int) -> tuple[PlanReport, float, tuple[str, ...], str]:
        """The same for a mistake that ``plan mutate`` makes; and what it is."""
        path = self.right("plain") / "plan.toml"
        mutant = next(found for found in plan_mutants(read_plan(path), seed) if found.kind == kind)
        wrong = write_mutant(mutant, path, self.root / f"{kind.replace(' ', '_')}{seed}")
        begun = time.process_time()
        return self.verdict("plain", wrong), time.process_time() - begun, (mutant.place,), mutant.what


def places_of(report: PlanReport) -> list[str]:
    found = [part.part for part in report.parts if part.verdict is not Verdict.PROVED]
    found += ["stages"] if report.ownership else []
    found += ["schedule"] if report.schedule else []
    return [*found, *(["joints"] if any(joint.problem for joint in report.joints) else [])]


def words_of(report: PlanReport) -> str:
    """The first thing that the report says is wrong, on one line."""
    for part in report.parts:
        if part.mismatch is not None:
            return " ".join((part.mismatch.difference or part.mismatch.headline).split())
    problems = [*report.ownership, *report.schedule, *(joint.problem for joint in report.joints if joint.problem)]
    return " ".join(problems[0].split()) if problems else ""


def main() -> int:
    chosen = [name for name in sys.argv[1:] if not name.startswith("--")]
    gc.freeze()  # PyTorch, which no process of the command that verifies a plan has
    gc.set_threshold(200_000, 20, 20)  # as that has it
    verifier = Verifier()
    print("| mistake | verdict | at | in words | CPU s |", "|---|---|---|---|---|", sep="\n")
    bad = 0

    def take(name: str, report: PlanReport, took: float, places: tuple[str, ...]) -> None:
        nonlocal bad
        found = places_of(report)
        right = report.verdict is Verdict.REFUTED and set(places) <= set(found)
        bad += not right
        words = words_of(report).replace("|", "\\|")
        row = f"| {name} | {report.verdict.value} | {', '.join(found)} | {words[:160]} | {took:.1f} |"
        print(row + ("" if right else f"   WRONG: should be at {', '.join(places)}"), flush=True)

    def wanted(name: str) -> bool:
        return not chosen or any(name.startswith(one) for one in chosen)

    tests: list[tuple[str, Callable[[], tuple[PlanReport, float, tuple[str, ...]]]]] = [
        (name, partial(verifier.wrong, name, number)) for number, name in enumerate(CASES)
    ]
    for name, run in tests:
        if wanted(name):
            take(name, *run())
    for name, kind in {**DRAWN, **{f"category {kind}": kind for kind in FIGURE}}.items():
        if wanted(name):
            report, took, places, what = verifier.drawn(kind, 0)
            take(name if name in DRAWN else f"{kind}: {what}", report, took, places)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
