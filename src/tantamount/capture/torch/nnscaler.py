"""A plan that nnScaler generated as one job: what every rank does in one microbatch, against the model on all data.

Microbatches are the first axis of the job's mesh, units (copies of the plan, each with its own data) the second.
"""

# pyright: basic
from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from tantamount.capture.fields import Place
from tantamount.capture.inplace import overwritten_before
from tantamount.capture.job import job_of
from tantamount.capture.nnscaler.constructors import Held
from tantamount.capture.nnscaler.layout import (
    UNIT,
    Layout,
    groups_of,
    layouts,
    local_box,
    local_shape,
    mesh_of,
    of_units,
    same,
    unit_of,
)
from tantamount.capture.nnscaler.modules import GeneratedModule
from tantamount.capture.nnscaler.statements import refused
from tantamount.capture.nnscaler.steps import RankSteps, Steps
from tantamount.capture.orders import Order, in_order
from tantamount.capture.programs import Program
from tantamount.capture.torch.calling import path_name
from tantamount.capture.torch.generated import Running, run_rank
from tantamount.capture.torch.models import with_values, without_inputs
from tantamount.capture.torch.problems import said
from tantamount.capture.torch.programs import capture, capture_rank
from tantamount.errors import TantamountError, UserError
from tantamount.ir.graph import Graph
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.limits import limits_from_environment

__all__ = [
    "AXIS", "Whole", "called", "collective_groups", "generated_job", "model_of", "sequential_model", "tensors_of",
]  # fmt: skip

AXIS = "microbatch"
_DTYPES = ("float64", "float32", "bfloat16", "float16", "int64", "int32", "bool")


# ---------------------------------------------------------------------------------------------- the user's model
def model_of(name: str, data: Sequence[str]) -> tuple[nn.Module, Any]:
    """The model of one device, and a sample that the data loader gives for one microbatch. ``name`` is ``FILE.py:NAME``
    or ``MODULE:NAME``, with arguments if need be (``llama.py:Llama(layers=4)``): a class of models, a function that
    returns a model, or one that returns (model, sample). ``data`` are ``KEY=DTYPE[SIZES]`` of a sample that is a table.
    This runs the user's code. Raises :class:`UserError`."""
    made = called(name, "--model")
    model, sample = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(model, nn.Module):
        raise UserError(
            "plan-sequential-model", place=f"--model {name}", found=f"a {type(model).__name__}",
            needed="a torch.nn.Module, or (module, sample)",
        )  # fmt: skip
    stated = dict(map(_stated, data))
    if stated:
        sample = stated
    if sample is None:
        raise UserError(
            "plan-sequential-model", place=f"--model {name}", found="nothing about the data",
            needed="what one sample of the data loader is: the modules do not say",
            hint="--data ids=int64[2,8] --data labels=int64[2,8], or a function that returns (model, sample)",
        )  # fmt: skip
    return model, sample


def called(name: str, option: str) -> Any:
    """The result of ``FILE.py:NAME`` or ``MODULE:NAME``, called with numbers if need be. This runs the user's
    code. Raises :class:`UserError`, which names the ``option``."""
    where, _, rest = name.partition(":")
    attribute, _, rest = rest.partition("(")
    settings = _settings(rest.removesuffix(")"), f"{option} {name}")
    try:
        return getattr(_module(where, option), attribute)(**settings)
    except TantamountError:
        raise
    except (Exception, SystemExit) as problem:
        needed = "FILE.py:NAME or MODULE:NAME, which can be called"
        raise _unusable(option, name, said(problem), needed) from problem


def _unusable(option: str, name: str, found: str, needed: str) -> UserError:
    place = f"{option} {name}"
    if option == "--finish":
        return UserError("plan-finish", place=place, found=found, needed=needed)
    return UserError("plan-sequential-model", place=place, found=found, needed=needed)


def _module(where: str, option: str) -> Any:
    if not where.endswith(".py"):
        sys.path.insert(0, "")
        return import_module(where)
    path = Path(where)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise _unusable(option, where, "no such file", "a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def _settings(text: str, place: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in filter(None, (x.strip() for x in text.split(","))):
        key, _, value = part.partition("=")
        if not key.strip().isidentifier() or not value.strip().lstrip("-").isdigit():
            raise UserError(
                "command-line", place=place, found=part, needed="key=number, as in llama.py:Llama(layers=4)"
            )
        found[key.strip()] = int(value)
    return found


def _stated(text: str) -> tuple[str, Tensor]:
    key, _, kind = text.partition("=")
    dtype, _, sizes = kind.partition("[")
    numbers = [part.strip() for part in sizes.removesuffix("]").split(",")]
    plain = all(part.isascii() and part.isdigit() and len(part) < 10 for part in numbers)
    if not key or dtype not in _DTYPES or not sizes.endswith("]") or not plain:
        raise UserError(
            "command-line", place="--data", found=text,
            needed=f"KEY=DTYPE[SIZES], such as ids=int64[2,8]; dtypes are {', '.join(_DTYPES)}",
        )  # fmt: skip
    return key, torch.zeros([int(part) for part in numbers], dtype=getattr(torch, dtype))


# ---------------------------------------------------------------------------------------------- the job
@dataclass(frozen=True)
class Whole:
    """A tensor of the model: where its parts are in a unit, and the axes along which only one coordinate has them.
    ``order`` is that of the blocks of which ranks have parts, if it is not the tensor's own; ``values``: of a buffer
    that is no larger than recorded constants may be, what it holds."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    layout: Layout
    pinned: tuple[str, ...]
    order: Order | None
    trained: bool
    values: Tensor | None = field(default=None, compare=False)

    def part(self, mesh: Mesh, rank: int) -> Tensor | None:
        """The values that a rank of the unit has, if they are known."""
        if self.values is None:
            return None
        values = self.values
        if self.order is not None:
            blocks = values.chunk(len(self.order.blocks), self.order.dim)
            values = torch.cat([blocks[k] for k in self.order.blocks], self.order.dim)
        return values[tuple(slice(*ends) for ends in local_box(mesh, self.shape, self.layout, rank))]


def generated_job(modules: Sequence[GeneratedModule], steps: Steps, model: object, data: Sequence[str] = ()) -> Job:
    """The job. ``steps`` are right; ``model`` and ``data`` as in :func:`model_of`, or a module and the data of one
    microbatch in one unit, as a tuple.

    Raises :class:`UserError` for a model that has other parameters than the plan, and for what is not known."""
    sequential, sample = sequential_model(modules, model, data)
    return _job(modules, steps, sequential, sample)


def sequential_model(modules: Sequence[GeneratedModule], model: object, data: Sequence[str]) -> tuple[nn.Module, Any]:
    """The model of one device and a sample of one microbatch. Raises :class:`UserError`."""
    if model is None:
        raise UserError(
            "plan-sequential-model", place=modules[0].path, found="no model", needed="the model of one device",
            hint="--model FILE.py:NAME",
        )  # fmt: skip
    found, sample = model_of(model, data) if isinstance(model, str) else cast("tuple[nn.Module, Any]", model)
    return found, _by_argument(sample, modules[0].arguments)


def _by_argument(sample: Any, names: tuple[str, ...]) -> Any:
    """A sample for a forward pass with these arguments, in their order: the whole, if it takes it as one."""
    if isinstance(sample, dict) and set(sample) == set(names) and names:
        return {name: sample[name] for name in names}
    if isinstance(sample, tuple | list) and len(sample) == len(names) > 1:
        return dict(zip(names, sample, strict=True))
    return sample


def _job(modules: Sequence[GeneratedModule], steps: Steps, model: nn.Module, sample: Any) -> Job:
    unit = unit_of(modules)
    mesh = mesh_of(modules, unit)
    count, units = modules[0].microbatches, len(modules) // unit
    tensors = tensors_of(modules[:unit], mesh, model)
    leaves = _leaves(sample)
    results = _results(modules[:unit], steps, mesh)
    apart = isinstance(sample, dict) and bool(sample) and set(sample) == set(modules[0].arguments)
    specification = _specification(model, sample, count * units, apart=apart)
    unused = _unused(modules[0].path, model, tensors, specification.graph)
    tensors = tuple(
        replace(whole, values=None) if f"new {whole.name}" in specification.graph.output_nodes else whole
        for whole in tensors
    )
    known = {whole.name: whole.values for whole in tensors if whole.values is not None}
    specification = with_values(without_inputs(specification, unused), known)
    _check_held(modules, unit)
    traced = [
        rank for rank in range(len(modules)) if rank < unit or not same(modules[rank % unit], modules[rank], unit)
    ]
    programs = {
        rank: _rank(modules[rank], steps.ranks[rank], mesh, unit, tensors, sample, results[rank % unit])
        for rank in traced
    }
    loss = _pinned(mesh, {rank for rank in range(unit) if results[rank]}, modules[0].path)
    axes = {AXIS: count, **mesh.axes}
    orders = {whole.name: whole.order for whole in tensors if whole.order is not None}
    place = Place(modules[0].path, "add_full_map", limits_from_environment())
    inputs = {name: order for name, order in orders.items() if name not in known}
    outputs = {f"grad {whole.name}": whole.order for whole in tensors if whole.trained and whole.order is not None}
    graphs: dict[str, Graph] = {"spec": in_order(specification.graph, inputs, outputs, place)}
    graphs |= {f"rank{rank}": program.graph for rank, program in programs.items()}
    one = [f"rank{rank if rank in programs else rank % unit}" for rank in range(len(modules))]
    names = one * count
    groups = sorted({group for program in programs.values() for group in collective_groups(program)})
    document: dict[str, object] = {
        "format": "job/1",
        "spec": {"graph": "spec"},
        "impl": {
            "graphs": names,
            "mesh": axes,
            "groups": {group: [] if group == "self" else group.split("+") for group in groups},
        },
        "inputs": _inputs(axes, tensors, leaves),
        "outputs": _outputs(axes, tensors, loss),
    }
    return job_of(document, graphs, modules[0].path)


def _check_held(modules: Sequence[GeneratedModule], unit: int) -> None:
    """All units have the same parts of parameters."""
    for module in modules[unit:]:
        if {x.name: x.box for x in module.held.values()} != {
            x.name: x.box for x in modules[module.rank % unit].held.values()
        }:
            raise refused(
                module.path, 1, f"parts of parameters that rank {module.rank % unit} has not",
                "the same parts on every copy of the plan",
            )  # fmt: skip


def collective_groups(program: Program) -> set[str]:
    """The names of the process groups that a program communicates over."""
    listed: Any = program.document.get("nodes", ())
    names = {text for node in listed for text in _texts(node) if isinstance(text, str)}
    axes = {name for name in names if all(part for part in name.split("+"))}
    return {name for name in axes if _is_group(name)}


def _texts(node: Any) -> list[Any]:
    if "c10d" not in str(node.get("target", "")):
        return []
    return [*node.get("args", ()), *dict(node.get("kwargs", {})).values()]


def _is_group(name: str) -> bool:
    return name == "self" or all(part.startswith((UNIT, "tp", "pp")) for part in name.split("+"))


def _inputs(axes: Mapping[str, int], tensors: Sequence[Whole], leaves: Mapping[str, Tensor]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for whole in tensors:
        if whole.values is None:
            placed = {name: str(placement) for name, placement in whole.layout}
            found[whole.name] = [placed.get(axis, "Replicate()") for axis in axes]
    for name, leaf in leaves.items():
        cut = "Shard(0)" if leaf.dim() else "Replicate()"
        found[name] = [cut if axis == AXIS or of_units(axis) else "Replicate()" for axis in axes]
    return found


def _outputs(axes: Mapping[str, int], tensors: Sequence[Whole], loss: Sequence[str]) -> dict[str, Any]:
    summed = 'Partial("sum")'
    found: dict[str, Any] = {
        "loss": [summed if axis == AXIS or of_units(axis) or axis in loss else "Replicate()" for axis in axes]
    }
    for whole in tensors:
        if whole.trained:
            placed = {name: str(placement) for name, placement in whole.layout}
            found[f"grad {whole.name}"] = [
                summed if axis == AXIS or axis in whole.pinned else placed.get(axis, "Replicate()") for axis in axes
            ]
    return found


def tensors_of(modules: Sequence[GeneratedModule], mesh: Mesh, model: nn.Module) -> tuple[Whole, ...]:
    """Parameters and buffers, as the model and the plan agree on them."""
    held: dict[str, dict[int, Held]] = {}
    for module in modules:
        for part in module.held.values():
            if module.rank in held.setdefault(part.name, {}):
                raise refused(module.path, 1, f"two parts of {part.name} on one rank", "one")
            held[part.name][module.rank] = part
    own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    more = [name for name in held if name not in own]
    if more:
        raise _other_model(modules[0].path, f"{', '.join(more[:6])} only in the plan")
    wholes: list[Whole] = []
    for name, tensor in own.items():
        if name not in held:  # the model's program must not use it
            continue
        parts = held[name]
        rank, first = next(iter(parts.items()))
        place = modules[rank].path
        if any(part.shape != tuple(tensor.shape) for part in parts.values()):
            raise UserError(
                "plan-sequential-model", place=f"{modules[0].path}: {name}", found=f"shape {first.shape} in the plan",
                needed=f"{tuple(tensor.shape)}, as in the model",
            )  # fmt: skip
        if any(part.dtype != str(tensor.dtype) for part in parts.values()):
            raise refused(place, first.line, f"{name} as {first.dtype}", f"{tensor.dtype}, as in the model")
        placed = layouts(mesh, tuple(tensor.shape), {rank: part.box for rank, part in parts.items()})
        if placed is None:
            raise refused(
                place, first.line, f"parts of {name} that no placements along {', '.join(mesh.names)} describe",
                "parts of one size, on all ranks along an axis or on one",
            )  # fmt: skip
        trained = isinstance(tensor, nn.Parameter) and tensor.requires_grad
        if any(part.trained != trained for part in parts.values()):
            raise refused(place, first.line, f"{name}, which is trained on one side only", "the same on both")
        wholes.append(Whole(name, tuple(tensor.shape), tensor.dtype, *placed, trained, _values(tensor)))
    return tuple(wholes)


def _values(tensor: Tensor) -> Tensor | None:
    """The values of a buffer, if they can be recorded."""
    few = tensor.numel() <= limits_from_environment().constant_elements
    known = few and not isinstance(tensor, nn.Parameter) and tensor.device.type != "meta" and not tensor.is_complex()
    return tensor if known else None


def _other_model(path: str, found: str) -> UserError:
    return UserError(
        "plan-sequential-model", place=path, found=found, needed="the model that the plan was made of",
        hint="arguments of the model may be given: --model 'llama.py:Llama(layers=4)'",
    )  # fmt: skip


def _unused(path: str, model: nn.Module, tensors: Sequence[Whole], program: Graph) -> set[str]:
    """The parameters and buffers that the plan has not, which must be those that the model does not use."""
    known = {whole.name for whole in tensors}
    names = {name for name, _ in (*model.named_parameters(), *model.named_buffers())} - known
    missing = sorted(node.name for node in program.inputs if node.name in names and program.users.get(node.name))
    if missing:
        raise _other_model(path, f"{', '.join(missing[:6])} only in the model")
    return names


def _leaves(sample: Any) -> dict[str, Tensor]:
    paths, _ = pytree.tree_flatten_with_path(sample)
    return {f"data {path_name(path)}".strip(): leaf for path, leaf in paths if isinstance(leaf, Tensor)}


def _results(modules: Sequence[GeneratedModule], steps: Steps, mesh: Mesh) -> list[bool]:
    found = [len(steps.ranks[module.rank].results) for module in modules]
    if not any(found):
        raise refused(modules[0].path, 1, "steps that return nothing", "the loss, first of what is returned")
    return [number > 0 for number in found]


def _pinned(mesh: Mesh, ranks: set[int], path: str) -> tuple[str, ...]:
    """The axes along which one coordinate alone has the loss."""
    placed = layouts(mesh, (), dict.fromkeys(ranks, ()))
    if placed is None:
        raise refused(path, 1, f"a loss on ranks {sorted(ranks)}", "on all ranks along an axis or on one")
    return placed[1]


def _given(batch: Any, arguments: tuple[str, ...]) -> Any:
    """The sample as the step takes it: the arguments of a forward pass one after the other, or one alone."""
    if not isinstance(batch, dict) or not arguments or set(batch) != set(arguments):
        return batch
    given: tuple[Any, ...] = tuple(batch.values())
    return given if len(given) > 1 else next(iter(given))


def _specification(model: nn.Module, sample: Any, times: int, *, apart: bool) -> Program:
    """Loss and gradients on one device, with the data of all microbatches and units; parts of a sample are arguments of
    their own if they are ``apart``."""
    values, structure = pytree.tree_flatten(sample)
    whole = [
        torch.zeros((x.shape[0] * times, *x.shape[1:]), dtype=x.dtype, device=x.device)
        if isinstance(x, Tensor) and x.dim()
        else x
        for x in values
    ]
    names = list(_leaves(sample))

    def step(**leaves: Tensor) -> dict[str, Tensor]:
        given = iter([leaves[name] for name in names])
        data = pytree.tree_unflatten([next(given) if isinstance(x, Tensor) else x for x in whole], structure)
        result = model(**data) if apart else model(data)
        loss = next(iter(result), None) if isinstance(result, tuple | list) else result
        if not isinstance(loss, Tensor) or loss.dim():
            raise TypeError(f"the model returns {type(loss).__name__}, and not a loss of one number")
        loss.backward()
        return {"loss": loss.detach()}

    tensors = [x for x in whole if isinstance(x, Tensor)]
    return capture(step, (), dict(zip(names, tensors, strict=True)), modules=model)


def _rank(
    module: GeneratedModule, steps: RankSteps, mesh: Mesh, unit: int, tensors: Sequence[Whole], sample: Any, loss: bool
) -> Program:
    """The program of a rank of the first unit: it is given its part of every tensor of the model (those that it does
    not use as well), and leaves a gradient for each: zeros for those that it has no part of."""
    values, structure = pytree.tree_flatten(sample)
    names = list(_leaves(sample))
    owned = {part.name: attribute for attribute, part in module.held.items()}
    local = {
        whole.name: torch.empty(local_shape(mesh, whole.shape, whole.layout, module.rank % unit), dtype=whole.dtype)
        for whole in tensors
    }
    data = [torch.empty_like(x) for x in values if isinstance(x, Tensor)]

    def build(rank: int) -> Any:
        groups = {ranks: dist.new_group(list(ranks)) for ranks in groups_of(module)}
        first = rank // unit * unit
        inside = dist.new_group(list(range(first, first + unit)))

        def step(**given: Tensor) -> dict[str, Tensor]:
            own = {
                owned[whole.name]: given[whole.name].detach().requires_grad_(whole.trained)
                for whole in tensors
                if whole.name in owned
            }
            leaves = iter([given[name] for name in names])
            batch = pytree.tree_unflatten([next(leaves) if isinstance(x, Tensor) else x for x in values], structure)
            running = Running(module, own, groups, inside, first)
            results, gradients = run_rank(running, steps, _given(batch, module.arguments))
            found: dict[str, Tensor] = {"loss": results[0].detach() if loss else torch.zeros(())}
            for whole in tensors:
                if whole.trained:
                    gradient = gradients.get(owned.get(whole.name, ""))
                    found[f"grad {whole.name}"] = torch.zeros_like(given[whole.name]) if gradient is None else gradient
            return found

        return step, (), {"kwargs": {**local, **dict(zip(names, data, strict=True))}}

    program = capture_rank(build, module.rank, dict(mesh.axes))
    for node in overwritten_before(program.graph):
        raise refused(module.path, 1, f"segments that overwrite {node.name}", "segments that leave what they are given")
    known = {x.name: part for x in tensors if (part := x.part(mesh, module.rank % unit)) is not None}
    return with_values(program, known)
