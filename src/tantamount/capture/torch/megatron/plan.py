"""Megatron-Core's training of a GPT as a plan: an embedding, one layer and a head, captured once each; the order of
work as Megatron's schedule is seen to work; DistributedDataParallel, clipping and the optimizer by its functions."""

# pyright: basic
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tantamount.capture.programs import Program
from tantamount.capture.torch.megatron.context import ASSUMED, positions_in_order_of_ranks
from tantamount.capture.torch.megatron.cpu import without_cuda
from tantamount.capture.torch.megatron.distributed import pieces_reduced, pieces_updated
from tantamount.capture.torch.megatron.gradients import partial_over_tensor_ranks
from tantamount.capture.torch.megatron.models import (
    biased_routers,
    chosen_in_groups,
    experts_of,
    gpt_piece,
    grouped_product,
    in_order_of_ranks,
    without_buffer,
)
from tantamount.capture.torch.megatron.order import recorded_order
from tantamount.capture.torch.megatron.settings import Settings, settings_of
from tantamount.capture.torch.megatron.shards import pieces_of
from tantamount.capture.torch.megatron.steps import (
    norm_step,
    optimizers_of,
    pass_step,
    reduce_step,
    squares_of,
    update_step,
    whole_norm_step,
    whole_pass_step,
    wrapped,
)
from tantamount.capture.torch.programs import capture_alone
from tantamount.capture.torch.training.document import PlanFolder, Table
from tantamount.capture.torch.training.ranks import Placed, capture_side
from tantamount.errors import UserError

__all__ = ["plan_of_megatron"]

_SUM = 'Partial("sum")'


def plan_of_megatron(args: Any, *, folder: str | Path, name: str = "megatron") -> Path:
    """The plan of a step of Megatron-Core's GPT with the arguments of Megatron-LM (a namespace or a table); the path of
    the plan's file in ``folder``, for :func:`tantamount.verify_plan`.

    Parts are captured from Megatron's own code at the model's sizes, on few ranks; the order of work is that of a run
    of its schedule on every pipeline rank, without data. Needs ``megatron-core`` beside PyTorch, and no GPU. Raises
    :class:`UserError` for arguments that are not known to mean what a plan can say."""
    if find_spec("megatron") is None or find_spec("megatron.core") is None:
        raise UserError(
            "capture-megatron", place="plan_of_megatron", found="no Megatron-Core", needed="megatron-core",
            hint="pip install 'tantamount[megatron]'",
        )  # fmt: skip
    s = settings_of(args)
    rows = recorded_order(s.pipeline_model_parallel_size, s.chunks, s.microbatches, _of_schedule(s))
    front = _Front(s, PlanFolder(Path(folder)))
    front.folder.rests_on("a stage of Megatron's calls its layers one after the other, and nothing between them")
    front.folder.rests_on("Megatron's hooks add the gradients of all microbatches up in main_grad")
    for sentence in ASSUMED if s.context_parallel_size > 1 else ():
        front.folder.rests_on(sentence)
    kinds = ["embedding", *dict.fromkeys(s.kinds), "head"]
    if s.use_distributed_optimizer:
        front.folder.rests_on(
            "pieces of gradients and of the optimizer's state stay on the ranks that have them: tensors that are put "
            "together of them stand for all"
        )
    if "moe" in kinds:
        front.folder.rests_on(
            "every expert has room for all tokens, with weight 0 for those that did not choose it: what Megatron sends "
            "without a capacity are those that did"
        )
    with without_cuda(), _kernels_of_experts():
        for kind in kinds:
            front.add_pass(kind)
            front.add_reduce(kind)
            front.add_update(kind)
        front.add_norm()
    stages = len(s.layers)
    counts = Counter[str]()
    owned: list[list[tuple[str, int]]] = []
    rest = iter(s.kinds)
    for own in s.layers:
        owned.append([])
        for kind in islice(rest, own):
            owned[-1].append((kind, counts[kind]))
            counts[kind] += 1
    owned[0].insert(0, ("embedding", 0))
    owned[-1].append(("head", 0))
    return front.folder.write(
        name, front.axes, "pp", s.microbatches, ["embedding", *s.kinds, "head"], owned,
        {"devices": list(rows), "owners": [stage % s.pipeline_model_parallel_size for stage in range(stages)]},
        {"reduce": [f"{kind}_reduce" for kind in kinds], "update": ["norm", *(f"{kind}_update" for kind in kinds)]},
    )  # fmt: skip


def _of_schedule(s: Settings) -> dict[str, Any]:
    found: dict[str, Any] = {
        "overlap_p2p_comm": s.overlap_p2p_comm, "batch_p2p_comm": s.batch_p2p_comm and not s.overlap_p2p_comm,
        "deallocate_pipeline_outputs": s.deallocate_pipeline_outputs,
    }  # fmt: skip
    if s.microbatch_group_size_per_vp_stage is not None:
        found["microbatch_group_size_per_vp_stage"] = s.microbatch_group_size_per_vp_stage
    return found


@dataclass
class _Front:
    s: Settings
    folder: PlanFolder
    placed: dict[str, dict[str, Placed]] = field(default_factory=dict[str, dict[str, Placed]])
    local: dict[str, dict[str, tuple[int, ...]]] = field(default_factory=dict[str, dict[str, tuple[int, ...]]])
    whole: dict[str, dict[str, tuple[int, ...]]] = field(default_factory=dict[str, dict[str, tuple[int, ...]]])
    partial: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    spread: dict[str, set[str]] = field(default_factory=dict[str, set[str]])  # parameters of experts on several ranks
    biases: dict[str, list[str]] = field(default_factory=dict[str, list[str]])  # of routers

    @property
    def inner(self) -> dict[str, int]:
        groups, _ = self.s.expert_ranks
        experts = {"ep": groups} if groups > 1 else {}
        context = {"cp": self.s.context_parallel_size} if self.s.context_parallel_size > 1 else {}
        tp = self.s.tensor_model_parallel_size
        return {"dp": self.s.data_parallel_size // groups, **experts, **context, "tp": tp}

    @property
    def replicas(self) -> tuple[str, ...]:
        """The axes over which dense parameters have replicas."""
        return tuple(axis for axis in self.inner if axis != "tp")

    @property
    def axes(self) -> dict[str, int]:
        return {"pp": self.s.pipeline_model_parallel_size, **self.inner}

    @property
    def sequence(self) -> bool:
        return self.s.sequence_parallel and self.s.tensor_model_parallel_size > 1

    def _ranked(self, build: Callable[[], Any], pipeline: int = 1) -> Callable[[int], Any]:
        """``build`` on a rank, with Megatron's parallel state."""
        parallel_state = import_module("megatron.core.parallel_state")

        def on_rank(_: int) -> Any:
            parallel_state.destroy_model_parallel()
            parallel_state.initialize_model_parallel(
                tensor_model_parallel_size=self.s.tensor_model_parallel_size,
                pipeline_model_parallel_size=pipeline, context_parallel_size=self.s.context_parallel_size,
                expert_model_parallel_size=self.s.expert_model_parallel_size,
                expert_tensor_parallel_size=self.s.expert_tensor_parallel_size, create_gloo_process_groups=False,
            )  # fmt: skip
            with FakeTensorMode(allow_non_fake_inputs=True):  # weights take no memory
                return build()

        return on_rank

    def _alone(self, build: Callable[[], Any]) -> Program:
        parallel_state = import_module("megatron.core.parallel_state")

        def one(_: int) -> Any:
            parallel_state.destroy_model_parallel()
            parallel_state.initialize_model_parallel(create_gloo_process_groups=False)
            with FakeTensorMode(allow_non_fake_inputs=True):
                return build()

        with _state_ended():
            return capture_alone(one)

    def _piece(self, kind: str, *, alone: bool) -> Any:
        model = gpt_piece(self.s, kind)
        if alone and self.s.swiglu:
            in_order_of_ranks(model, self.s.tensor_model_parallel_size)
        if alone and self.s.context_parallel_size > 1 and kind == "layer":
            positions_in_order_of_ranks(model, self.s.context_parallel_size)
        return model

    # ------------------------------------------------------------------------------------------ passes
    def add_pass(self, kind: str) -> None:
        s = self.s

        def given(rows: int, length: int) -> dict[str, Tensor]:
            hidden = torch.empty(length, rows, s.hidden_size)
            found: dict[str, Tensor] = {}
            if kind == "embedding":
                found["tokens"] = torch.zeros(rows, s.seq_length, dtype=torch.int64)
            else:
                found["x"] = hidden
            found |= (
                {"labels": torch.zeros(rows, s.seq_length, dtype=torch.int64)} if kind == "head" else {"d_y": hidden}
            )
            return found

        def whole() -> Any:
            model = self._piece(kind, alone=True)
            self.whole[kind] = {name: tuple(p.shape) for name, p in model.named_parameters()}
            step = whole_pass_step(model, kind, float(s.replicas), s.context_parallel_size)
            return step, (), {"kwargs": given(s.global_batch_size, s.seq_length), "modules": model}

        def ranked() -> Any:
            model = self._piece(kind, alone=False)
            self.local[kind] = {name: tuple(p.shape) for name, p in model.named_parameters()}
            self.partial[kind] = partial_over_tensor_ranks(model)
            self.spread[kind] = set(experts_of(model)) if s.expert_model_parallel_size > 1 else set()
            self.placed[kind] = _placements(model, self._expert_axes)
            self.biases[kind] = list(biased_routers(model))
            length = s.seq_length // s.context_parallel_size // (s.tensor_model_parallel_size if self.sequence else 1)
            step = pass_step(model, kind, s.microbatches)
            return step, (), {"kwargs": given(s.micro_batch_size, length), "modules": model}

        spec = self._alone(whole)
        with _state_ended():
            side = capture_side(self._ranked(ranked), self.inner, kind)
        weights, placed = self.whole[kind], self.placed[kind]
        beside = ("microbatch", *self.replicas)
        rows = {axis: "Shard(0)" for axis in beside if axis != "cp"}  # ranks of cp take their tokens of a row
        lengths = [axis for axis in self.inner if axis == "cp" or (axis == "tp" and self.sequence)]
        stream = {**{axis: "Shard(1)" for axis in beside if axis != "cp"}, **dict.fromkeys(lengths, "Shard(0)")}
        inputs = {
            "tokens": rows, "labels": rows, **dict.fromkeys(("x", "d_y"), stream), **placed,
            **{node.name: {} for node in spec.graph.inputs if node.name not in weights},
        }  # fmt: skip
        inputs |= {"tokens": rows, "labels": rows, "x": stream, "d_y": stream}
        loss = {"microbatch": _SUM, **dict.fromkeys(self.replicas, 'Partial("avg")')}
        outputs: dict[str, Any] = {"y": stream, "d_x": stream, "loss": loss}
        outputs |= {f"grad {name}": {"microbatch": _SUM, **self._gradient(kind, name)} for name in weights}
        counts = {f"tokens {bias}": {**dict.fromkeys(beside, _SUM), **self._counted()} for bias in self.biases[kind]}
        outputs |= counts
        names = [node.name for node in spec.graph.inputs]
        biases = {bias: f"tokens {bias}" for bias in self.biases[kind]}  # what a bias is changed by
        known = ("tokens", "labels", "x", "d_y", *biases)
        table: Table = {
            "data": [name for name in ("tokens", "labels") if name in names],
            "results": ["loss"] if kind == "head" else [],
            "before": {} if kind == "embedding" else {"hidden": ["x", "d_x"]},
            "after": {} if kind == "head" else {"hidden": ["y", "d_y"]},
            "parameters": {**{name: f"grad {name}" for name in weights}, **biases},
            "frozen": [name for name in names if name not in weights and name not in known],
        }
        self.folder.add(kind, spec, side, inputs, outputs, table)

    def _counted(self) -> Placed:
        """The placement over tp of numbers of tokens: each rank counts those that it routes."""
        return {"tp": _SUM} if self.sequence else {}

    @property
    def _expert_axes(self) -> tuple[str, ...]:
        """The axes that experts are spread over."""
        return tuple(axis for axis in ("ep", "tp") if self.s.expert_model_parallel_size > 1 and axis in self.inner)

    def _gradient(self, kind: str, name: str) -> Placed:
        """The placement that the passes leave a gradient in, but for the sum over microbatches."""
        placed = self.placed[kind][name]
        partial = ["tp"] if self.sequence and name in self.partial[kind] else []
        return {**placed, **dict.fromkeys([*partial, *(a for a in self.replicas if a not in placed)], _SUM)}

    # ------------------------------------------------------------------------------------------ after the passes
    def add_reduce(self, kind: str) -> None:
        s, names, biases = self.s, list(self.whole[kind]), self.biases[kind]

        def whole() -> Any:
            given = {f"grad {name}": torch.empty(shape) for name, shape in self.whole[kind].items()}
            given |= {name: torch.empty(s.num_experts or 0) for bias in biases for name in (bias, f"tokens {bias}")}
            return _whole_reduce(names, s, self.spread[kind], biases), (), {"kwargs": given}

        def ranked() -> Any:
            model = self._piece(kind, alone=False)
            given = {f"grad {name}": torch.empty(shape) for name, shape in self.local[kind].items()}
            if s.use_distributed_optimizer:
                chunk = wrapped(model, sharded=True)
                return pieces_reduced(model, chunk, optimizers_of(chunk, s), squares_of(s)), (), {"kwargs": given}
            given |= {f"tokens {bias}": torch.empty(s.num_experts or 0) for bias in biases}
            return reduce_step(model, s), (), {"kwargs": given, "modules": model}

        spec = self._alone(whole)
        with _state_ended():
            side = capture_side(self._ranked(ranked), self.inner, f"{kind}_reduce")
        inputs = {f"grad {name}": self._gradient(kind, name) for name in names}
        squares = {name: self._squared(name) for name in squares_of(s)}
        outputs = {**{f"reduced {name}": self.placed[kind][name] for name in names}, **squares}
        counted = {**dict.fromkeys(self.replicas, _SUM), **self._counted()}
        for bias in biases:
            inputs |= {bias: {}, f"tokens {bias}": counted}
            outputs[f"new {bias}"] = {}
        table: Table = {"kind": "piece", "of": kind, "updates": {f"new {bias}": bias for bias in biases}}
        self.folder.add(f"{kind}_reduce", spec, side, inputs, outputs, table)

    def _squared(self, name: str) -> Placed:
        """The placement of a sum of squares: over the ranks that have other parts of the parameters."""
        if self.s.use_distributed_optimizer:
            return dict.fromkeys(self.inner, _SUM)
        return dict.fromkeys(self._expert_axes if name == "expert_squares" else ("tp",), _SUM)

    def add_norm(self) -> None:
        squares = squares_of(self.s)

        def build() -> Any:
            return norm_step(self.s), (), {"kwargs": {name: torch.empty(()) for name in squares}}

        def whole() -> Any:
            return whole_norm_step(self.s.clip_grad), (), {"kwargs": {name: torch.empty(()) for name in squares}}

        spec = self._alone(whole)
        with _state_ended():
            ranked = self._ranked(build, self.s.pipeline_model_parallel_size)
            side = capture_side(ranked, self.axes, "norm")
        table: Table = {"kind": "once", "sums": {name: name for name in squares}}
        inputs = {name: {"pp": _SUM, **self._squared(name)} for name in squares}
        self.folder.add("norm", spec, side, inputs, {"factor": {}}, table)

    def add_update(self, kind: str) -> None:
        s = self.s

        def build(*, alone: bool) -> Any:
            model = self._piece(kind, alone=alone)
            without_buffer(model, "expert_bias")
            optimizers = optimizers_of(wrapped(model), s)
            shapes = self.whole[kind] if alone else self.local[kind]
            given = {
                "factor": torch.empty(()),
                **{f"reduced {name}": torch.empty(shape) for name, shape in shapes.items()},
            }
            options = {"kwargs": given, "modules": model, "optimizers": [o.optimizer for o in optimizers]}
            return update_step(model, optimizers, s), (), options

        spec = self._alone(lambda: build(alone=True))
        state = [node.name for node in spec.graph.inputs if node.name.startswith("optimizer:")]

        def pieces() -> Any:
            model = self._piece(kind, alone=False)
            chunk = wrapped(model, sharded=True)
            given = {"factor": torch.empty(())}
            for name, shape in self.local[kind].items():
                given |= {name: torch.empty(shape), f"reduced {name}": torch.empty(shape)}
                for key in keys:
                    known = spec.graph.by_name[f"optimizer:{name}.{key}"].type
                    given[f"optimizer:{name}.{key}"] = torch.empty(() if known and not known.shape else shape)
            return pieces_updated(model, chunk, optimizers_of(chunk, s), s, keys), (), {"kwargs": given}

        keys = sorted({name.rpartition(".")[2] for name in state})
        ranked = pieces if s.use_distributed_optimizer else lambda: build(alone=False)
        with _state_ended():
            side = capture_side(self._ranked(ranked), self.inner, f"{kind}_update")
        placed = self.placed[kind]
        inputs: dict[str, Placed] = {}
        for node in spec.graph.inputs:
            tensor = node.name.removeprefix("reduced ")
            owner = node.name.partition(":")[2].rpartition(".")[0]
            same = owner in placed and node.type is not None and node.type.shape == self.whole[kind][owner]
            inputs[node.name] = placed.get(tensor, placed[owner] if same else {})
        own = {} if s.use_distributed_optimizer else {tensor: self._of_optimizer(kind, tensor) for tensor in state}
        new = [output.name for output in spec.graph.outputs if output.name.startswith("new ")]
        known = {"factor", *placed, *(f"reduced {name}" for name in placed)}
        table: Table = {
            "kind": "piece", "of": kind, "state": [name for name in inputs if name not in known],
            "updates": {name: name.removeprefix("new ") for name in new},
        }  # fmt: skip
        outputs = {name: inputs[name.removeprefix("new ")] for name in new}
        for tensor, there in own.items():
            inputs[tensor] = {**inputs[tensor], "name": there}
            if f"new {tensor}" in outputs:
                outputs[f"new {tensor}"] = {**outputs[f"new {tensor}"], "name": f"new {there}"}
        self.folder.add(f"{kind}_update", spec, side, inputs, outputs, table)

    def _of_optimizer(self, kind: str, tensor: str) -> str:
        """The name that the ranks have for a tensor of the optimizer's state: one device has one optimizer for all
        parameters, ranks have a second one for experts."""
        owner = tensor.partition(":")[2]
        second = any(owner.startswith(f"{name}.") for name in self.spread[kind])
        return f"optimizer:1:{owner}" if second else tensor


@contextmanager
def _state_ended() -> Generator[None]:
    """No parallel state of Megatron's is left."""
    try:
        yield
    finally:
        import_module("megatron.core.parallel_state").destroy_model_parallel()


@contextmanager
def _kernels_of_experts() -> Generator[None]:
    """The library of grouped matrix products, as far as Megatron's experts call it. And no scale is noted for auxiliary
    losses, of which there are none."""
    module = import_module("megatron.core.transformer.moe.grouped_gemm_util")
    moe_utils = import_module("megatron.core.transformer.moe.moe_utils")
    scaler = moe_utils.MoEAuxLossAutoScaler
    with (
        patch.object(moe_utils, "group_limited_topk", chosen_in_groups(moe_utils.group_limited_topk)),
        patch.object(module, "ops", SimpleNamespace(gmm=grouped_product), create=True),
        patch.object(scaler, "set_loss_scale", staticmethod(lambda _: None)),
    ):
        yield


def _whole_reduce(
    names: list[str], s: Settings, experts: set[str], biases: list[str]
) -> Callable[..., dict[str, Tensor]]:
    """The gradients of one device, without what the loss was multiplied by, and the sums of their squares: of
    ``experts`` that are spread over ranks apart. Biases of routers change by the sign of how many tokens fewer than the
    mean an expert got."""

    def run(**given: Tensor) -> dict[str, Tensor]:
        made = {name: given[f"grad {name}"] / float(s.replicas) for name in names}
        squares: dict[str, Tensor] = {}
        for total in squares_of(s):
            own = [(g * g).sum() for name, g in made.items() if (name in experts) == (total == "expert_squares")]
            squares[total] = torch.stack(own).sum() if own else torch.zeros(())
        new: dict[str, Tensor] = {}
        for bias in biases:
            tokens = given[f"tokens {bias}"]
            new[f"new {bias}"] = given[bias] + torch.sign(tokens.mean() - tokens) * s.moe_router_bias_update_rate
        return {**{f"reduced {name}": gradient for name, gradient in made.items()}, **squares, **new}

    return run


def _placements(model: Any, expert_axes: tuple[str, ...]) -> dict[str, Placed]:
    """The placements of a rank's parameters in those of the whole, by the axis of tensor-parallel ranks: what
    Megatron's own checkpoints say; the rows of gated layers in the order of ranks."""
    found: dict[str, Placed] = {}
    sizes: Mapping[str, Any] = dict(model.named_parameters())
    for piece in pieces_of(model):
        parameter = sizes[piece.name]
        cut = bool(getattr(parameter, "tensor_model_parallel", False))
        dim = getattr(parameter, "partition_dim", -1)
        found[piece.name] = {"tp": f"Shard({dim})"} if cut else {}
    found |= {name: dict.fromkeys(expert_axes, "Shard(0)") for name in experts_of(model)}
    missing = [name for name in sizes if name not in found]
    if missing:
        raise UserError(
            "plan-placement", place=missing[0], found="a parameter that is in no checkpoint",
            needed="parameters of which Megatron says where they are",
        )  # fmt: skip
    return found
