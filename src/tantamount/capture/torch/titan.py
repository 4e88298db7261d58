"""torchtitan's training of a decoder as a plan: its model in pieces, each spread by torchtitan's own function, its
schedule, loss, clipping and optimizer."""

# pyright: basic
from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from tantamount.capture.torch.pipelining import plan_of_schedule
from tantamount.capture.torch.titan_experts import experts_with_room, layers_with_experts, sentences_of_experts
from tantamount.errors import UserError

__all__ = ["plan_of_torchtitan"]

_BACKEND = "partial_dtensor; FSDP of PyTorch 2.13 takes no others, or inputs must be DTensors"
_IGNORED = -100  # PyTorch's label of tokens without a loss


def plan_of_torchtitan(config: Any, *, folder: str | Path, name: str = "torchtitan") -> Path:
    """The plan of a step of torchtitan's trainer with a configuration (``Trainer.Config``) that has a pipeline; the
    path of the plan's file in ``folder``, for :func:`tantamount.verify_plan`.

    The pieces of the model (embedding, layers, norm and head) are spread by the configuration's own ``parallelize_fn``
    and captured at their sizes, on few ranks, without data; layers that are alike once. Needs ``torchtitan`` 0.3 and
    what it imports (Triton among it), and no GPU. What the plan rests on is written into it. Raises
    :class:`UserError` for settings that are not known to mean what a plan can say."""
    if find_spec("torchtitan") is None:
        raise UserError(
            "capture-torchtitan", place="plan_of_torchtitan", found="no torchtitan", needed="torchtitan 0.3",
            hint="pip install torchtitan triton",
        )  # fmt: skip
    _check(config)
    experts = layers_with_experts(config)
    with _without_gpu(config.parallelism.spmd_backend), experts_with_room(experts):
        titan = _Titan(config, *_split(config))
        parallelism, training = config.parallelism, config.training
        pipelining = import_module("torch.distributed.pipelining.schedules")
        rows = torch.zeros(titan.global_batch, training.seq_len, dtype=torch.int64)
        return plan_of_schedule(
            parallelism.pipeline_parallel_schedule_csv
            or pipelining.get_schedule_class(parallelism.pipeline_parallel_schedule),
            titan.stages, microbatches=titan.microbatches, mesh=titan.mesh,
            rows=[axis for axis in ("dp_replicate", "fsdp") if axis in titan.mesh], parallelize=titan.parallelize,
            loss=titan.loss, stage_loss=titan.stage_loss(), reduction="sum", scale_grads=False, batch=rows, target=rows,
            optimizer=_optimizer(config.optimizer), max_norm=float(training.max_norm),
            assumed=[*titan.assumed, *sentences_of_experts(experts)],
            folder=folder, name=name,
        )  # fmt: skip


def _wrong(place: str, found: str, needed: str) -> UserError:
    return UserError("plan-torchtitan", place=f"plan_of_torchtitan: {place}", found=found, needed=needed)


def _check(config: Any) -> None:
    """Raise :class:`UserError` for settings of which a plan knows nothing."""
    spec, p, t = config.model_spec, config.parallelism, config.training
    if spec is None:
        raise _wrong("model_spec", "none", "a model of torchtitan's registry")
    known = [
        ("parallelism.pipeline_parallel_degree", p.pipeline_parallel_degree > 1, "2 or more"),
        ("parallelism.data_parallel_shard_degree", p.data_parallel_shard_degree >= 1, "a number of ranks"),
        ("parallelism.context_parallel_degree", p.context_parallel_degree == 1, "1"),
        ("parallelism.spmd_backend", p.spmd_backend == "partial_dtensor", _BACKEND),
        ("training.enable_cpu_offload", not t.enable_cpu_offload, "False"),
        ("override.imports", not config.override.imports, "none"),
    ]
    for place, right, needed in known:
        if not right:
            value = config
            for part in place.split("."):
                value = getattr(value, part)
            raise _wrong(place, repr(value), needed)
    degrees = {1, p.tensor_parallel_degree if p.tensor_parallel_degree > 1 else p.data_parallel_shard_degree}
    if p.expert_parallel_degree not in degrees:  # experts would be cut over two axes in another order than the rest is
        needed = " or ".join(map(str, sorted(degrees)))
        raise _wrong("parallelism.expert_parallel_degree", repr(p.expert_parallel_degree), needed)
    if getattr(spec.model, "mtp_layers", None):
        raise _wrong("model_spec.model.mtp_layers", "layers that predict further tokens", "none")
    if getattr(spec.model, "enable_weight_tying", False):
        raise _wrong("model_spec.model.enable_weight_tying", "True", "an embedding and a head of their own")
    batch = t.local_batch_size * p.data_parallel_replicate_degree * p.data_parallel_shard_degree
    if t.global_batch_size not in (-1, batch):
        raise _wrong(
            "training.global_batch_size", f"{t.global_batch_size}: schedules run one after the other", f"{batch}"
        )


def _split(config: Any) -> tuple[nn.Module, list[list[str]]]:
    """The model without data, and the names of its modules that every virtual stage has."""
    parallel = import_module("torchtitan.distributed.pipeline_parallel")
    made = copy.deepcopy(config.model_spec.model)
    made.update_from_config(config=config)
    _without_initial_values(made, set())
    with torch.device("meta"):
        model = made.build()
    for layer in model.layers.values():
        if getattr(layer, "moe_enabled", False):
            layer.moe.training = False  # counts no tokens; it does nothing else
    names = config.parallelism.module_fqns_per_model_part
    if names is None:
        degree = SimpleNamespace(pp=config.parallelism.pipeline_parallel_degree)
        names = parallel._generate_llm_fqn_per_model_part(
            *parallel._get_pipeline_metadata(degree, config.parallelism, made)
        )
    return model, names


def _without_initial_values(config: Any, seen: set[int]) -> None:
    """Take out how parameters begin, which may depend on a layer's number."""
    if id(config) in seen:
        return
    seen.add(id(config))
    inner: list[Any] = []
    if isinstance(config, list | tuple):
        inner = list(config)
    elif isinstance(config, dict):
        inner = list(config.values())
    elif is_dataclass(config) and not isinstance(config, type):
        inner = [getattr(config, f.name, None) for f in fields(config)]
        if hasattr(config, "param_init"):
            settings: Any = config
            settings.param_init = None
    for value in inner:
        _without_initial_values(value, seen)


def _optimizer(config: Any) -> Callable[[Any], torch.optim.Optimizer]:
    container = import_module("torchtitan.components.optimizer").OptimizersContainer
    if type(config) is not container.Config or [group.pattern for group in config.param_groups] != [r".*"]:
        raise _wrong("optimizer", "groups of parameters, or a container of another kind", "one group of all")
    (group,) = config.param_groups
    if group.optimizer_name not in ("Adam", "AdamW"):
        raise _wrong("optimizer", group.optimizer_name, "Adam or AdamW")
    given = {key: value for key, value in group.optimizer_kwargs.items() if key not in ("fused", "foreach")}
    return lambda parameters: getattr(torch.optim, group.optimizer_name)(parameters, **given)


@dataclass
class _Titan:
    config: Any
    model: Any
    names: list[list[str]]
    classes: dict[str, type] = field(default_factory=dict[str, type])

    @property
    def mesh(self) -> dict[str, int]:
        p = self.config.parallelism
        inner = {
            "dp_replicate": p.data_parallel_replicate_degree, "fsdp": p.data_parallel_shard_degree,
            "tp": p.tensor_parallel_degree,
        }  # fmt: skip
        return {"pp": p.pipeline_parallel_degree, **{axis: n for axis, n in inner.items() if n > 1}}

    @property
    def microbatches(self) -> int:
        return self.config.training.local_batch_size // self.config.parallelism.pipeline_parallel_microbatch_size

    @property
    def global_batch(self) -> int:
        p = self.config.parallelism
        return self.config.training.local_batch_size * p.data_parallel_replicate_degree * p.data_parallel_shard_degree

    @property
    def tokens(self) -> int:
        return self.global_batch * self.config.training.seq_len

    @property
    def assumed(self) -> list[str]:
        found = [
            "every row is one document",
            f"losses are divided by one number of tokens on all ranks, here {self.tokens}",
            "the learning rate is the same on all ranks, and the one that is configured",
        ]
        if (kind := self.config.optimizer.implementation) != "for-loop":
            found.append(f"the {kind} optimizer computes what the one for single tensors does")
        if self.config.activation_checkpoint is not None:
            found.append("activation checkpointing computes again what it threw away")
        if self.config.compile.enable:
            found.append("torch.compile changes nothing")
        if type(self.config.loss).__qualname__.startswith("ChunkedLossWrapper"):
            found.append("the loss in chunks is the loss of which it is the wrapper, and so are its gradients")
        return found

    # ------------------------------------------------------------------------------------------ pieces
    @property
    def stages(self) -> list[list[nn.Module]]:
        found: list[list[nn.Module]] = []
        for names in self.names:
            ends = [name for name in names if name in ("norm", "lm_head")]
            found.append([])
            for name in names:
                if name not in ends:
                    found[-1].append(self._piece([name], "layer" if name.startswith("layers.") else "embedding"))
            if ends:
                found[-1].append(self._piece(ends, "head"))
        return found

    def _piece(self, kept: Sequence[str], name: str) -> nn.Module:
        """The model without all but what is kept. The layer that is kept is the first one of its piece."""
        layers: Any = self.model.layers
        numbers = [part.removeprefix("layers.") for part in kept if part.startswith("layers.")]
        own = [(number, layers[number]) for number in numbers]
        held = {key: self.model._modules[key] for key in self.model._modules if key in kept}
        alone = copy.copy(self.model)
        alone._modules = {key: held.get(key) for key in self.model._modules}
        alone._modules["layers"] = type(layers)({str(k): layer for k, (_, layer) in enumerate(own)})
        settings = copy.copy(self.model.config)
        settings.layers = [settings.layers[int(number)] for number, _ in own] or settings.layers[:1]
        alone.__dict__["config"] = settings
        found = copy.deepcopy(alone)
        if name not in self.classes:
            self.classes[name] = _class_of(type(self.model), name, self.config.training.seq_len)
        found.__class__ = self.classes[name]
        found.__dict__["layout"] = None
        found.__dict__["rows"] = False
        return found

    def parallelize(self, module: Any, _: Any) -> nn.Module:
        p = self.config.parallelism
        mesh = import_module("torchtitan.distributed.parallel_dims")
        settings = import_module("torchtitan.config")
        inner = replace(p, pipeline_parallel_degree=1)
        if p.fsdp_reshard_after_forward == "default":  # of pipelines
            inner = replace(inner, fsdp_reshard_after_forward="never")
        ranks = p.data_parallel_replicate_degree * p.data_parallel_shard_degree * p.tensor_parallel_degree
        dims = mesh.ParallelDims.from_config(inner, ranks)
        dims.build_mesh()
        if p.tensor_parallel_degree > 1:
            placement = import_module("torch.distributed.tensor")
            cut = placement.Shard(1) if p.enable_sequence_parallel else placement.Replicate()
            module.__dict__["layout"] = (dims.get_mesh("tp"), [cut])
        module.__dict__["rows"] = True
        return self.config.model_spec.parallelize_fn(
            module, parallel_dims=dims, training=self.config.training, parallelism=inner,
            compile_config=settings.CompileConfig(enable=False), ac_config=None, dump_folder="",
        )  # fmt: skip

    # ------------------------------------------------------------------------------------------ loss
    def loss(self, predicted: Tensor, labels: Tensor) -> Tensor:
        """The cross entropy of one device, divided by the number of tokens."""
        flat = predicted.flatten(0, 1).float()
        total = nn.functional.cross_entropy(flat, labels.flatten(0, 1), reduction="sum", ignore_index=_IGNORED)
        return total / self.tokens

    def stage_loss(self) -> Callable[[Any, Tensor], Tensor]:
        """torchtitan's."""
        losses = import_module("torchtitan.components.loss")
        settings = import_module("torchtitan.config")
        chosen = self.config.loss
        if type(chosen) is losses.ChunkedLossWrapper.Config:
            chosen = chosen.loss_fn
        if type(chosen) is not losses.CrossEntropyLoss.Config:
            raise _wrong("loss", type(chosen).__qualname__, "CrossEntropyLoss, in chunks or not")
        compute = chosen.build(compile_config=settings.CompileConfig(enable=False))
        return lambda predicted, labels: compute(predicted, labels, self.tokens)[0]


def _class_of(kind: type, name: str, length: int) -> type:
    """The class of a piece of a model, which takes one tensor and gives one."""

    def forward(self: Any, x: Any) -> Any:
        tensor = import_module("torch.distributed.tensor").DTensor
        if self.layout is not None and x.is_floating_point():
            x = tensor.from_local(x, *self.layout, run_check=False)  # as pipelines send them
        if len(self.layers):
            positions = torch.arange(length, device=x.device).unsqueeze(0)
            if self.rows:
                positions = positions.expand(x.shape[0], -1)
            y = kind.forward(self, x, positions, self.get_attention_masks(positions))
        else:
            y = kind.forward(self, x)
        return y.to_local() if isinstance(y, tensor) and self.lm_head is None else y

    return type(name, (kind,), {"forward": forward})


@contextmanager
def _without_gpu(backend: str) -> Iterator[None]:
    """torchtitan as on a machine whose devices are CPUs, with this way of spreading."""
    mesh = import_module("torchtitan.distributed.parallel_dims")
    utils = import_module("torchtitan.distributed.utils")
    with patch.object(mesh, "device_type", "cpu"):
        before = utils.get_spmd_backend()
        utils.set_spmd_backend(backend)
        try:
            yield
        finally:
            utils.set_spmd_backend(before)
