"""A pipeline of ``torch.distributed.pipelining`` as a plan: every kind of piece captured once on one device and on the
ranks of a stage, the order of work as the schedule's own table has it."""

# pyright: basic
from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tantamount.capture.programs import Program
from tantamount.capture.stated import placement_text
from tantamount.capture.torch.flexible import as_defined
from tantamount.capture.torch.pipelining.orders import Order, order_of
from tantamount.capture.torch.pipelining.steps import (
    Roles,
    norm_step,
    pass_step,
    reduce_step,
    spec_reduce_step,
    update_step,
    whole_step,
)
from tantamount.capture.torch.programs import capture
from tantamount.capture.torch.training.alike import structure_of
from tantamount.capture.torch.training.document import PlanFolder, Table
from tantamount.capture.torch.training.ranks import Placed, Side, capture_side
from tantamount.errors import InternalError, UserError
from tantamount.ir.types import TensorType

__all__ = ["plan_of_schedule"]

Parallelize = Callable[[nn.Module, Any], nn.Module | None]
_AXIS = "microbatch"


def plan_of_schedule(
    schedule: Any,
    stages: Sequence[nn.Module | Sequence[nn.Module]],
    *,
    loss: Callable[..., Tensor],
    batch: Sequence[Tensor] | Tensor,
    target: Tensor,
    optimizer: Callable[[Any], torch.optim.Optimizer],
    mesh: Mapping[str, int],
    folder: str | Path,
    microbatches: int | None = None,
    parallelize: Parallelize | None = None,
    reduce: Callable[[nn.Module, Any], object] | None = None,
    rows: Sequence[str] | None = None,
    pipeline: str = "pp",
    reduction: str = "mean",
    placements: Mapping[str, Mapping[str, Any]] | None = None,
    stage_loss: Callable[..., Tensor] | None = None,
    scale_grads: bool | None = None,
    max_norm: float | None = None,
    assumed: Sequence[str] = (),
    name: str = "pipeline",
) -> Path:
    """The plan of a training step with a schedule of ``torch.distributed.pipelining``; the path of the plan's file in
    ``folder``, for :func:`tantamount.verify_plan`.

    ``schedule`` is one of PyTorch's classes, an object of one, or the path of a CSV file. ``stages[s]`` is the module
    of virtual stage ``s`` on one device, or a list of modules that it calls one after the other: of alike modules one
    is captured. ``parallelize(module, mesh)`` makes of it what a rank has (DTensors, FSDP2), as in training; ``mesh``
    are the sizes of all axes, ``pipeline`` that of the stages, ``rows`` those over which the batch is spread (by
    default those that begin with ``dp``). ``batch`` and ``target`` are those of one whole step. ``loss(output,
    target)`` is the ``reduction`` (``"mean"`` or ``"sum"``) over rows; the schedule's stages compute that of their
    rows, by ``stage_loss`` or the function that a schedule object has, if that is another one. ``scale_grads``: the
    schedule's own argument, where no object says it (PyTorch's default is true). ``reduce(module, mesh)``
    is what is done with ``.grad`` after the last backward pass, beside what PyTorch does itself;
    ``max_norm``: gradients are clipped to that norm, of each stage by PyTorch's functions, with the squares added up
    over the stages. ``optimizer(parameters)`` makes the optimizer. ``assumed`` are sentences that the plan rests on.
    ``placements`` say where plain tensors are cut:
    ``{"*.weight": {"tp": "Shard(0)"}}``, for parameters by name, ``hidden*`` for what passes between pieces, and
    ``grad NAME`` for gradients. Raises :class:`UserError` for what is not understood."""
    axes = dict(mesh)
    if pipeline not in axes:
        raise UserError(
            "capture-mesh", place="plan_of_schedule", found=f"a mesh of {', '.join(axes)}", needed=f"an axis {pipeline}"
        )
    if reduction not in ("mean", "sum"):
        raise UserError("plan-model", place="plan_of_schedule", found=f"reduction {reduction!r}", needed="mean or sum")
    modules: list[list[Any]] = [
        list(stage) if isinstance(stage, list | tuple | nn.ModuleList) else [stage] for stage in stages
    ]
    order = order_of(schedule, axes[pipeline], len(modules), microbatches, loss)
    order = order if scale_grads is None else replace(order, scaled=scale_grads)
    over = tuple(rows) if rows is not None else tuple(axis for axis in axes if axis.startswith("dp"))
    own_loss = stage_loss or getattr(schedule, "_loss_fn", None) or loss
    front = _Front(
        order=order, axes=axes, pipeline=pipeline, over=over, loss=loss, stage_loss=own_loss, optimizer=optimizer,
        parallelize=parallelize, reduce=reduce, max_norm=max_norm, mean=reduction == "mean",
        placements=_texts(placements or {}), folder=PlanFolder(Path(folder)),
    )  # fmt: skip
    batch = (batch,) if isinstance(batch, Tensor) else tuple(batch)
    pieces = front.pieces(modules, batch, target)
    for sentence in assumed:
        front.folder.rests_on(sentence)
    if any(len(stage) > 1 for stage in modules):
        front.folder.rests_on("a stage calls the modules that it is listed with, one after the other, and nothing else")
    front.finish()
    numbers: dict[str, int] = {}
    owned: list[list[tuple[str, int]]] = []
    flat = iter(pieces)
    for own in modules:
        owned.append([])
        for _ in own:
            part = next(flat)
            numbers[part] = numbers.get(part, -1) + 1
            owned[-1].append((part, numbers[part]))
    trained = [part for part in dict.fromkeys(pieces) if front.kinds[part].trained]
    return front.folder.write(
        name, axes, pipeline, order.microbatches, pieces, owned, order.written(Path(folder)),
        {
            "reduce": [f"{part}_reduce" for part in trained],
            "update": [*(["norm"] if max_norm is not None else []), *(f"{part}_update" for part in trained)],
        },
    )  # fmt: skip


def _texts(placements: Mapping[str, Mapping[str, Any]]) -> dict[str, Placed]:
    return {
        pattern: {axis: p if isinstance(p, str) else placement_text(p) or str(p) for axis, p in by.items()}
        for pattern, by in placements.items()
    }


@dataclass(frozen=True)
class _Kind:
    """A part of the model: one of the modules that are alike, its trained parameters, their shapes on one device and
    where they are, and the gradients that the passes leave on a rank, and where these are but for the sums over
    microbatches and data-parallel ranks."""

    module: nn.Module
    trained: tuple[str, ...]
    shapes: Mapping[str, TensorType]
    placed: Mapping[str, Placed]
    left: Mapping[str, TensorType]
    gradients: Mapping[str, Placed]


@dataclass
class _Front:
    order: Order
    axes: dict[str, int]
    pipeline: str
    over: tuple[str, ...]
    loss: Callable[..., Tensor]
    stage_loss: Callable[..., Tensor]
    optimizer: Callable[[Any], torch.optim.Optimizer]
    parallelize: Parallelize | None
    reduce: Callable[[nn.Module, Any], object] | None
    max_norm: float | None
    mean: bool
    placements: dict[str, Placed]
    folder: PlanFolder
    kinds: dict[str, _Kind] = field(default_factory=dict[str, _Kind])

    @property
    def inner(self) -> dict[str, int]:
        """The axes of the ranks of a stage."""
        return {axis: size for axis, size in self.axes.items() if axis != self.pipeline}

    @property
    def cuts(self) -> int:
        """Parts that the rows of the batch are in."""
        return self.order.microbatches * prod(self.axes[axis] for axis in self.over)

    @property
    def seed(self) -> float:
        return float(self.cuts) if self.mean else 1.0

    # ------------------------------------------------------------------------------------------ passes
    def pieces(self, stages: Sequence[Sequence[nn.Module]], batch: tuple[Tensor, ...], target: Tensor) -> list[str]:
        """The part of every piece, in the order of the forward pass; each part is captured when it comes first."""
        modules = [module for stage in stages for module in stage]
        _check_apart(modules)
        known: dict[Hashable, tuple[str, tuple[Tensor, ...], tuple[Tensor, ...]]] = {}
        found: list[str] = []
        whole = tuple(_empty(x) for x in batch)
        local = tuple(self._rows(x, f"batch[{k}]") for k, x in enumerate(whole))
        for k, module in enumerate(modules):
            first, last = k == 0, k == len(modules) - 1
            key = structure_of(module), first, last, *(_type(x) for x in (*whole, *local))
            if key not in known:
                part = self._name(module)
                known[key] = part, *self._passes(part, module, whole, local, first, target if last else None)
            part, whole, local = known[key]
            found.append(part)
        return found

    def _name(self, module: nn.Module) -> str:
        name = type(module).__name__
        names = [name, *(f"{name}{k}" for k in range(2, len(self.kinds) + 3))]
        return next(name for name in names if name not in self.kinds)

    def _rows(self, tensor: Tensor, place: str) -> Tensor:
        """The rows of one microbatch on one rank."""
        if not tensor.dim() or tensor.shape[0] % self.cuts:
            raise UserError(
                "plan-sizes", place=place, found=f"shape {list(tensor.shape)}",
                needed=f"rows that {self.cuts} microbatches of data-parallel ranks have evenly",
            )  # fmt: skip
        return tensor.new_empty((tensor.shape[0] // self.cuts, *tensor.shape[1:]))

    def _passes(
        self, part: str, module: nn.Module, whole: tuple[Tensor, ...], local: tuple[Tensor, ...], first: bool,
        target: Tensor | None,
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:  # fmt: skip
        """Capture a part of kind ``pass``; what it gives to the next piece, on one device and on a rank."""
        made = _run(module, whole)
        inputs = tuple(f"x{k}" if len(whole) > 1 else "x" for k in range(len(whole)))
        outputs = tuple(f"y{k}" if len(made) > 1 else "y" for k in range(len(made)))
        watched = tuple(n for n, x in zip(inputs, whole, strict=True) if not first and x.requires_grad)
        back = tuple(n for n, y in zip(outputs, made, strict=True) if y.requires_grad)
        last = target is not None
        roles = Roles(inputs, watched, outputs, () if last else back, self.loss if last else None)
        given = dict(zip(inputs, map(_plain, whole), strict=True))
        held = dict(zip(inputs, map(_plain, local), strict=True))
        there: tuple[Tensor, ...] = ()
        if target is not None:
            given["target"], held["target"] = _plain(target), _plain(self._rows(_empty(target), "target"))
        else:
            there = self._made_on_rank(part, module, local, made)
            given |= {f"d_{n}": _plain(y) for n, y in zip(outputs, made, strict=True) if n in back}
            held |= {f"d_{n}": _plain(y) for n, y in zip(outputs, there, strict=True) if n in back}
        one = _on_cpu(module)
        spec = capture(whole_step(one, roles, self.seed), (), given, modules=one)

        def build(_: int) -> Any:
            own, _mesh = self._parallel(module)
            ranked = roles if roles.loss is None else replace(roles, loss=self.stage_loss)
            return pass_step(own, ranked, self.order.split), (), {"kwargs": held, "modules": own}

        side = capture_side(build, self.inner, part)
        self._add_pass(part, module, roles, spec, side, first)
        return made, there

    def _parallel(self, module: nn.Module) -> tuple[nn.Module, Any]:
        """The module as a rank has it, and the mesh that it was given."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import FSDPModule
        from torch.nn.parallel import DistributedDataParallel

        mesh = (
            init_device_mesh("cpu", tuple(self.inner.values()), mesh_dim_names=tuple(self.inner))
            if self.inner
            else None
        )
        own = _on_cpu(module)
        if self.parallelize is not None:
            own = self.parallelize(own, mesh) or own
        if isinstance(own, DistributedDataParallel):
            raise UserError(
                "plan-module", place=type(module).__name__, found="a module in DistributedDataParallel",
                needed="fully_shard or replicate of FSDP2, or reduce=, which reduces gradients",
            )  # fmt: skip
        within = [name for name, inner in own.named_modules() if isinstance(inner, FSDPModule)]
        if within and not isinstance(own, FSDPModule):
            raise UserError(
                "plan-module", place=f"{type(module).__name__}: {within[0]}",
                found="gradients that are reduced in every backward pass",
                needed="fully_shard(module) of the stage's module itself: PyTorch's pipelines look at no other",
            )  # fmt: skip
        return own, mesh

    def _made_on_rank(
        self, part: str, module: nn.Module, local: tuple[Tensor, ...], made: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """The tensors that a rank's module gives to the next piece, without data; most often as it is given the like
        of."""
        if self.parallelize is None:
            return tuple(
                self._rows(y, f"{part}: output {k}").requires_grad_(y.requires_grad) for k, y in enumerate(made)
            )
        from tantamount.capture.torch.programs import trace_rank

        def build(_: int) -> Any:
            own, _mesh = self._parallel(module)

            def run(*given: Tensor) -> tuple[Tensor, ...]:
                with torch.no_grad():
                    found = own(*given)
                return tuple(found) if isinstance(found, tuple | list) else (found,)

            return run, tuple(map(_plain, local)), {"modules": own}

        program, traced, _ = trace_rank(build, 0, self.inner)
        if any(leaf.layout is not None for leaf in traced.outputs):
            raise UserError(
                "plan-module", place=part, found="a DTensor that passes between pieces",
                needed="plain tensors: use_local_output=True, or y.to_local() at the end",
            )  # fmt: skip
        types = [program.graph.by_name[output.node].type for output in program.graph.outputs]
        return tuple(
            (y if found is None else _of_type(found).to("meta")).clone().requires_grad_(y.requires_grad)
            for y, found in zip(made, types[: len(made)], strict=True)
        )

    def _add_pass(self, part: str, module: nn.Module, roles: Roles, spec: Program, side: Side, first: bool) -> None:
        shapes = {node.name: _known(node.type) for node in spec.graph.inputs}
        local = {node.name: _known(node.type) for node in side.programs[0].graph.inputs}
        rows = {_AXIS: "Shard(0)", **dict.fromkeys(self.over, "Shard(0)")}
        summed = {_AXIS: 'Partial("sum")', **dict.fromkeys(self.over, 'Partial("sum")')}
        inputs: dict[str, Any] = {}
        outputs: dict[str, Any] = {}
        streams: dict[str, str] = {}
        for names in (roles.inputs, roles.outputs):
            for k, tensor in enumerate(names):
                streams[tensor] = f"hidden{k}" if len(names) > 1 else "hidden"
        made = {output.name: _known(spec.graph.by_name[output.node].type) for output in spec.graph.outputs}
        there = {o.name: _known(side.programs[0].graph.by_name[o.node].type) for o in side.programs[0].graph.outputs}
        for tensor in (*roles.inputs, *roles.outputs):
            whole, held = (shapes.get(tensor) or made.get(tensor)), (local.get(tensor) or there.get(tensor))
            if whole is None or held is None:
                continue  # no output where the loss is
            placed = self._stream(streams[tensor], whole, held, rows, part)
            for label in (tensor, f"d_{tensor}"):
                (inputs if label in shapes else outputs)[label] = placed
        if roles.loss is not None:
            how = 'Partial("avg")' if self.mean else 'Partial("sum")'
            inputs["target"], outputs["loss"] = rows, dict.fromkeys(summed, how)
        weights = [name for name in shapes if name not in inputs]
        trained = [name for name in weights if f"grad {name}" in made]
        where = {name: self._weight(name, shapes, local, side, part) for name in weights}
        gradients: dict[str, Placed] = {}
        for name in trained:
            label = f"grad {name}"
            if label not in there:
                raise UserError(
                    "plan-module", place=f"{part}: {name}", found="a parameter that has a gradient on one device only",
                    needed="one on ranks as well",
                )  # fmt: skip
            cut = side.outputs.get(label)
            own = self._said(label) or (
                cut if cut is not None else {a: p for a, p in where[name].items() if a not in self.over}
            )
            gradients[name] = own
            outputs[label] = {**summed, **own}  # experts have the tokens of all ranks over which they are cut
        _check_buffers(part, spec, side)
        table: Table = {
            "data": [n for n in ("target",) if n in shapes] + (list(roles.inputs) if first else []),
            "results": ["loss"] if roles.loss is not None else [],
            "before": {} if first else _streams(roles.inputs, roles.watched, streams),
            "after": {} if roles.loss is not None else _streams(roles.outputs, roles.back, streams),
            "parameters": {name: f"grad {name}" for name in trained},
            "frozen": [name for name in weights if name not in trained],
        }  # fmt: skip
        self.folder.add(part, spec, side, {**inputs, **where}, outputs, table)
        self.kinds[part] = _Kind(
            module, tuple(trained), shapes, where, {n: there[f"grad {n}"] for n in trained}, gradients
        )

    def _stream(self, name: str, whole: TensorType, held: TensorType, rows: Placed, part: str) -> Placed:
        """The placements of a tensor that passes between pieces: rows of it, and where that is less than their share, a
        part along the dimension that is shorter by the size of one axis."""
        said = self._said(name)
        if said is not None:
            return {**rows, **said}
        found = dict(rows)
        for dim, (n, own) in enumerate(zip(whole.shape, held.shape, strict=True)):
            left = n // (own * (self.cuts if dim == 0 else 1)) if own else 1
            fits = [axis for axis, size in self.inner.items() if size == left > 1 and axis not in self.over]
            if left > 1 and len(fits) == 1 and fits[0] not in found:
                found[fits[0]] = f"Shard({dim})"
            elif left != 1:
                raise self._unplaced(f"{part}: {name}", name, whole, held)
        return found

    def _weight(self, name: str, shapes: Mapping[str, Any], local: Mapping[str, Any], side: Side, part: str) -> Placed:
        said = self._said(name)
        if said is not None or name in side.inputs:
            return said if said is not None else side.inputs[name]
        if local.get(name) is not None and local[name] != shapes[name]:
            raise self._unplaced(f"{part}: {name}", name, shapes[name], local[name])
        return {}

    def _unplaced(self, place: str, name: str, whole: Any, held: Any) -> UserError:
        return UserError(
            "plan-placement", place=place, found=f"{whole} on one device, {held} on a rank",
            needed='a line such as placements={"' + name + '": {"tp": "Shard(0)"}}',
        )  # fmt: skip

    def _said(self, name: str) -> Placed | None:
        if name in self.placements:
            return self.placements[name]
        if name.startswith("grad ") or not self.placements:
            return next(
                (p for key, p in self.placements.items() if key.startswith("grad ") and fnmatchcase(name, key)), None
            )
        return next((p for key, p in self.placements.items() if fnmatchcase(name, key)), None)

    # ------------------------------------------------------------------------------------------ after the passes
    def finish(self) -> None:
        """The parts that run after the microbatches, for every part with parameters that are trained."""
        for part, kind in self.kinds.items():
            if kind.trained:
                self._add_update(part, kind, self._add_reduce(part, kind))
        if self.max_norm is not None:
            self._add_norm(self.max_norm)

    def _add_norm(self, most: float) -> None:
        """The part that makes a factor of the sum of all squares, once on all ranks."""
        from torch.distributed.device_mesh import init_device_mesh

        def build(_: int) -> Any:
            mesh = init_device_mesh("cpu", tuple(self.axes.values()), mesh_dim_names=tuple(self.axes))
            return norm_step(most, lambda: mesh.get_group(self.pipeline)), (), {"kwargs": {"squares": torch.ones(())}}

        spec = capture(norm_step(most, None), (), {"squares": torch.ones(())})
        side = capture_side(build, self.axes, "norm")
        self.folder.rests_on(
            "the norm of a stage's gradients is the root of the squares of its pieces' norms, added up"
        )
        table: Table = {"kind": "once", "sums": {"squares": "squares"}}
        self.folder.add("norm", spec, side, {"squares": {self.pipeline: 'Partial("sum")'}}, {"factor": {}}, table)

    def _add_reduce(self, part: str, kind: _Kind) -> Side:
        whole = {f"grad {name}": _of_type(kind.shapes[name]) for name in kind.trained}
        clips = self.max_norm is not None
        spec = capture(spec_reduce_step(self.seed, clips), (), whole)
        scale = self.order.microbatches if self.order.scaled else 1

        def build(_: int) -> Any:
            own, mesh = self._parallel(kind.module)
            after = None if self.reduce is None else lambda module: self.reduce(module, mesh)  # type: ignore[misc]
            given = {f"grad {name}": _of_type(found) for name, found in kind.left.items()}
            step = reduce_step(own, scale, after, self.order.reduces, kind.gradients, self.inner, clips)
            return step, (), {"kwargs": given, "modules": own}

        side = capture_side(build, self.inner, f"{part}_reduce")
        over = dict.fromkeys(self.over, 'Partial("sum")')
        table: Table = {
            "kind": "piece", "of": part, "takes": {f"grad {n}": f"grad {n}" for n in kind.trained},
            "gives": {f"grad {n}": f"reduced {n}" for n in kind.trained} | ({"squares": "squares"} if clips else {}),
        }  # fmt: skip
        inputs = {f"grad {n}": {**over, **kind.gradients[n]} for n in kind.trained}
        outputs = {**self._reduced(kind, side), "squares": {}}
        self.folder.add(f"{part}_reduce", spec, side, inputs, outputs, table)
        return side

    def _reduced(self, kind: _Kind, side: Side) -> dict[str, Placed]:
        """The placements of gradients that are reduced: those that DTensors state; others lie as their parameters
        do."""
        return {
            f"grad {n}": side.outputs.get(f"grad {n}", kind.placed[n])
            for n in kind.trained
        }  # fmt: skip

    def _add_update(self, part: str, kind: _Kind, reduced: Side) -> None:
        module = _on_cpu(kind.module)
        whole = {f"grad {name}": _of_type(kind.shapes[name]) for name in kind.trained}
        factor = {} if self.max_norm is None else {"factor": torch.ones(())}
        whole |= factor
        one = self.optimizer(list(module.parameters()))
        spec = capture(update_step(module, one), (), whole, modules=module, optimizers=one)

        def build(_: int) -> Any:
            own, _mesh = self._parallel(kind.module)
            chosen = self.optimizer(list(own.parameters()))
            given = {f"grad {n}": torch.empty_like(p) for n, p in own.named_parameters() if n in kind.trained}
            given |= factor
            return update_step(own, chosen), (), {"kwargs": given, "modules": own, "optimizers": chosen}

        side = capture_side(build, self.inner, f"{part}_update")
        placed: dict[str, Placed] = {**self._reduced(kind, reduced), **({"factor": {}} if factor else {})}
        local = {node.name: _known(node.type) for node in side.programs[0].graph.inputs}
        shapes = {node.name: _known(node.type) for node in spec.graph.inputs}
        inputs: dict[str, Placed] = {}
        for node in spec.graph.inputs:
            if node.name in placed:
                inputs[node.name] = placed[node.name]
            elif node.name in kind.placed:
                inputs[node.name] = kind.placed[node.name]
            else:
                owner = node.name.partition(":")[2].rpartition(".")[0]
                as_owner = owner in shapes and shapes[owner].shape == shapes[node.name].shape
                inputs[node.name] = side.inputs.get(
                    node.name, kind.placed[owner] if as_owner and owner in kind.placed else {}
                )
        new = [output.name for output in spec.graph.outputs if output.name.startswith("new ")]
        state = [name for name in inputs if name not in placed and name not in kind.placed]
        _check_state(f"{part}_update", spec, local)
        table: Table = {
            "kind": "piece", "of": part, "state": state,
            "takes": {**{n: n for n in inputs}, **{f"grad {n}": f"reduced {n}" for n in kind.trained}},
            "updates": {name: name.removeprefix("new ") for name in new},
        }  # fmt: skip
        outputs = {name: inputs[name.removeprefix("new ")] for name in new}
        self.folder.add(f"{part}_update", spec, side, inputs, outputs, table)


def _streams(names: Sequence[str], graded: Sequence[str], streams: Mapping[str, str]) -> dict[str, list[str]]:
    """The tensors that pass between pieces, by stream: its tensor, and the gradient if it has one."""
    return {streams[name]: [name, *([f"d_{name}"] if name in graded else [])] for name in names}


# ---------------------------------------------------------------------------------------------- tensors
def _empty(tensor: Tensor) -> Tensor:
    return torch.empty_like(tensor, device="meta")


def _plain(tensor: Tensor) -> Tensor:
    return torch.empty(tuple(tensor.shape), dtype=tensor.dtype, device="cpu")


def _on_cpu(module: nn.Module) -> nn.Module:
    """A copy without tensors on the meta device, whose numbers are nobody's business; memory is reserved, not used."""
    own, made = copy.deepcopy(module), dict[int, Tensor]()
    for inner in own.modules():
        for table in (inner._parameters, inner._buffers):
            for name, tensor in table.items():
                if tensor is not None and tensor.device.type == "meta":
                    if id(tensor) not in made:  # tied weights stay tied
                        if isinstance(tensor, nn.Parameter):
                            made[id(tensor)] = nn.Parameter(
                                torch.empty_like(tensor, device="cpu"), tensor.requires_grad
                            )
                        else:  # is compared with that of one device
                            made[id(tensor)] = torch.zeros_like(tensor, device="cpu")
                    table[name] = made[id(tensor)]  # type: ignore[assignment]
    return own


def _known(found: TensorType | None) -> TensorType:
    if found is None:
        raise InternalError("a captured tensor without a type")
    return found


def _of_type(found: TensorType) -> Tensor:
    return torch.empty(found.shape, dtype=getattr(torch, found.dtype.value[0]), device="cpu")


def _type(tensor: Tensor) -> Hashable:
    return tuple(tensor.shape), tensor.dtype, tensor.requires_grad


def _run(module: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The outputs of a module for inputs without data."""
    with as_defined(), torch.compiler.set_stance("force_eager"):
        made = copy.deepcopy(module).to(device="meta")(*(x.detach().requires_grad_(x.requires_grad) for x in given))
    outputs = tuple(made) if isinstance(made, tuple | list) else (made,)
    if not all(isinstance(y, Tensor) for y in outputs):
        raise UserError(
            "plan-module", place=type(module).__name__, found=f"an output of type {type(made).__name__}",
            needed="a tensor, or a tuple of tensors",
        )  # fmt: skip
    return tuple(y.detach().requires_grad_(y.requires_grad) for y in outputs)


# ---------------------------------------------------------------------------------------------- checks
def _check_apart(modules: Sequence[nn.Module]) -> None:
    """Raise :class:`UserError` for a parameter that two pieces share: each keeps a copy of it."""
    owners: dict[int, int] = {}
    for k, module in enumerate(modules):
        for name, parameter in module.named_parameters():
            if owners.setdefault(id(parameter), k) != k:
                raise UserError(
                    "plan-module", place=f"{type(module).__name__}: {name}", found="a parameter of two pieces",
                    needed="pieces with parameters of their own: tied weights are not known here",
                )  # fmt: skip
    for first, second in pairwise(modules):
        if first is second:
            raise UserError(
                "plan-module", place=type(first).__name__, found="a module that is two pieces", needed="one for each"
            )


def _check_buffers(part: str, spec: Program, side: Side) -> None:
    """Raise :class:`UserError` for a buffer that a rank has filled with other numbers than one device."""
    for program in side.programs:
        for name, value in program.values.items():
            if spec.values.get(name, value) != value:
                raise UserError(
                    "plan-module", place=f"{part}: {name}", found="a buffer that holds other numbers on a rank",
                    needed="the same on all ranks",
                )  # fmt: skip


def _check_state(part: str, spec: Program, local: Mapping[str, Any]) -> None:
    missing = [node.name for node in spec.graph.inputs if node.name not in local]
    if missing:
        raise UserError(
            "plan-module", place=part, found=f"no {', '.join(missing[:4])} on a rank",
            needed="an optimizer of the same kind for all parameters",
        )  # fmt: skip
