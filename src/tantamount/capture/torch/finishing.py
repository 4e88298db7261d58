"""The part of training that follows the step of a generated plan: gradients scaled and clipped, and the optimizer's
step, on one device and on every rank, as one job. The user's functions are run; what nnScaler's runtime does around
them is written here.

State that a rank has a part of is given as the whole, of which its program takes that part, and what ranks have
afterwards is put together again: a rank holds the slice of the whole that the program takes, before and after.
"""

# pyright: basic
from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from tantamount.capture.fields import Place
from tantamount.capture.job import job_of
from tantamount.capture.nnscaler.constructors import Reducer
from tantamount.capture.nnscaler.layout import groups_of, local_shape, mesh_of, unit_of
from tantamount.capture.nnscaler.modules import GeneratedModule
from tantamount.capture.nnscaler.statements import refused
from tantamount.capture.orders import in_order
from tantamount.capture.programs import Program
from tantamount.capture.torch.nnscaler import Whole, called, collective_groups, sequential_model, tensors_of
from tantamount.capture.torch.problems import said
from tantamount.capture.torch.programs import capture, capture_rank
from tantamount.errors import UserError
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.limits import limits_from_environment

__all__ = ["RankOfPlan", "finish_job", "step_of"]

_c10d = torch.ops._c10d_functional
_PLACE = "--finish"


@dataclass(frozen=True)
class RankOfPlan:
    """The rank that a user's ``rank_gradients`` runs on, as it is told: its ``number`` in a world of so
    many, the process group of ``everyone``, and how many ranks have the same part of a tensor (``copies``)."""

    number: int
    world: int
    everyone: Any = field(repr=False)
    shared: Mapping[str, int]

    def copies(self, name: str) -> int:
        """How many ranks have the same part of a parameter, this one among them."""
        return self.shared[name]


# ---------------------------------------------------------------------------------------------- the user's functions
@dataclass(frozen=True)
class _Finish:
    """``optimizer(parameters)`` makes the optimizer, ``gradients(parameters)`` does what comes before its step on one
    device, ``rank_gradients(parameters, rank)`` the same on a rank; both are given tables of parameters by name."""

    name: str
    optimizer: Callable[..., Any]
    gradients: Callable[..., Any] | None
    rank_gradients: Callable[..., Any] | None


def _finish_of(finish: object) -> _Finish:
    """The user's functions: attributes of an object, or of what ``FILE.py:NAME`` or ``MODULE:NAME`` makes when it is
    called. Raises :class:`UserError`."""
    name = finish if isinstance(finish, str) else type(finish).__name__
    made = called(finish, _PLACE) if isinstance(finish, str) else finish
    found = {key: getattr(made, key, None) for key in ("optimizer", "gradients", "rank_gradients")}
    if not callable(found["optimizer"]) or any(x is not None and not callable(x) for x in found.values()):
        raise UserError(
            "plan-finish", place=f"{_PLACE} {name}", found=f"a {type(made).__name__} without `optimizer(parameters)`",
            needed="an object with optimizer(parameters), and gradients(parameters) and rank_gradients(parameters, "
            "rank) if something is done with gradients before its step",
        )  # fmt: skip
    if found["gradients"] is None and found["rank_gradients"] is not None:
        raise UserError(
            "plan-finish", place=f"{_PLACE} {name}", found="rank_gradients without gradients",
            needed="gradients(parameters) as well: what one device does before the optimizer's step",
        )  # fmt: skip
    return _Finish(name, found["optimizer"], found["gradients"], found["rank_gradients"])


def _made(finish: _Finish, parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
    """A new optimizer, on the path that a trace can follow: one tensor at a time, the number of steps as a tensor.
    Raises :class:`UserError` for what is no optimizer over all these parameters, once each, without hooks."""
    try:
        found = finish.optimizer(list(parameters))
    except Exception as problem:
        raise _wrong(finish, said(problem), "optimizer(parameters), which returns an optimizer") from problem
    if not isinstance(found, torch.optim.Optimizer):
        raise _wrong(finish, f"optimizer() that returns a {type(found).__name__}", "a torch.optim.Optimizer")
    own = [id(p) for group in found.param_groups for p in group["params"]]
    if sorted(own) != sorted(map(id, parameters)):
        raise _wrong(finish, "an optimizer of other parameters than are given", "one of all of them, each once")
    if found.state or found._optimizer_step_pre_hooks or found._optimizer_step_post_hooks:
        raise _wrong(finish, "an optimizer with state or hooks", "one that is just made")
    for group in found.param_groups:
        group.update({key: False for key in ("foreach", "fused") if key in group})
    return found


def _wrong(finish: _Finish, found: str, needed: str) -> UserError:
    return UserError("plan-finish", place=f"{_PLACE} {finish.name}", found=found, needed=needed)


def step_of(optimizer: torch.optim.Optimizer) -> None:
    """A step, traced; whoever calls has put everything that it uses into the state."""
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = True  # capturable optimizers insist on CUDA otherwise
    for group in optimizer.param_groups:
        group.update({key: True for key in ("capturable",) if key in group})
    settings = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
    try:
        with torch.no_grad():
            inspect.unwrap(type(optimizer).step)(optimizer)
    finally:
        torch.compiler._is_compiling_flag = before
    if settings != [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]:
        raise UserError(
            "capture-state", place=f"{type(optimizer).__name__}.step", found="a step that changes its own settings",
            needed="settings that a step leaves as they are",
        )  # fmt: skip


def _state_of(finish: _Finish) -> dict[str, bool]:
    """The tensors that the optimizer keeps for a parameter: true for those of its shape, false for single numbers.
    Raises :class:`UserError` for any other."""
    parameter = nn.Parameter(torch.zeros(3, 5))
    optimizer = _made(finish, [parameter])
    parameter.grad = torch.zeros(3, 5)
    try:
        optimizer.step()
    except Exception as problem:
        raise _wrong(finish, said(problem), "an optimizer that can do a step") from problem
    found: dict[str, bool] = {}
    for key, value in optimizer.state.get(parameter, {}).items():
        if value is None:
            continue
        if not isinstance(value, Tensor) or value.shape not in (parameter.shape, ()):
            raise _wrong(
                finish, f"a state {key!r} that is {type(value).__name__}", "tensors like the parameter, or numbers"
            )
        found[key] = value.dim() > 0
    return found


# ---------------------------------------------------------------------------------------------- the job
def finish_job(modules: Sequence[GeneratedModule], model: object, data: Sequence[str], finish: object) -> Job:
    """The job of what follows the step: from reduced gradients, parameters and state to new parameters and state,
    which ranks hold as they held the old ones. Raises :class:`UserError` for what is not known."""
    chosen = _finish_of(finish)
    module, _ = sequential_model(modules, model, data)
    unit = unit_of(modules)
    mesh = mesh_of(modules, unit)
    wholes = [whole for whole in tensors_of(modules[:unit], mesh, module) if whole.trained]
    state = _state_of(chosen)
    _check_reducers(modules)
    programs = [_rank(each, modules, chosen, mesh, unit, wholes, state) for each in modules]
    orders = {whole.name: whole.order for whole in wholes if whole.order is not None}
    kept = ["", *(f"{key} of " for key, like in state.items() if like)]
    given = {f"{kind}{name}": order for name, order in orders.items() for kind in (*kept, "grad ")}
    left = {f"new {kind}{name}": order for name, order in orders.items() for kind in kept}
    place = Place(modules[0].path, "add_full_map", limits_from_environment())
    graphs = {"spec": in_order(_one_device(chosen, wholes, state).graph, given, left, place)}
    graphs |= {f"rank{each.rank}": program.graph for each, program in zip(modules, programs, strict=True)}
    groups = sorted({group for program in programs for group in collective_groups(program)})
    document: dict[str, object] = {
        "format": "job/1",
        "spec": {"graph": "spec"},
        "impl": {
            "graphs": [f"rank{each.rank}" for each in modules],
            "mesh": dict(mesh.axes),
            "groups": {group: [] if group == "self" else group.split("+") for group in groups},
        },
        "inputs": _relations(mesh, wholes, state, new=False),
        "outputs": _relations(mesh, wholes, state, new=True),
    }
    return job_of(document, graphs, modules[0].path)


def _relations(mesh: Mesh, wholes: Sequence[Whole], state: Mapping[str, bool], *, new: bool) -> dict[str, Any]:
    """The relations of the tensors that ranks hold. Of what one coordinate along an axis alone has, others are given a
    copy that they do not use and leave zeros: what it has is then the sum. So it is for gradients, of which the passes
    leave zeros elsewhere."""
    found: dict[str, Any] = {}
    summed = 'Partial("sum")'
    prefix = "new " if new else ""
    for whole in wholes:
        placed = {name: str(placement) for name, placement in whole.layout}
        lies = [summed if new and axis in whole.pinned else placed.get(axis, "Replicate()") for axis in mesh.names]
        found[f"{prefix}{whole.name}"] = lies
        for key, like in state.items():
            if like:
                found[f"{prefix}{key} of {whole.name}"] = lies
            elif new:
                found[f"new {key} of {whole.name}"] = [
                    summed if axis in whole.pinned else "Replicate()" for axis in mesh.names
                ]
        if not new:
            found[f"grad {whole.name}"] = lies
    if not new:
        found |= {key: ["Replicate()"] * len(mesh.names) for key, like in state.items() if not like}
    return found


def _one_device(finish: _Finish, wholes: Sequence[Whole], state: Mapping[str, bool]) -> Program:
    def run(**given: Tensor) -> dict[str, Tensor]:
        own = {whole.name: _parameter(given[whole.name], given[f"grad {whole.name}"]) for whole in wholes}
        kept = {name: _kept(given, name, state) for name in own}
        if finish.gradients is not None:
            with torch.no_grad():
                finish.gradients(own)
        return _updated(finish, own, kept)

    shapes = {whole.name: (whole.shape, whole.dtype) for whole in wholes}
    return capture(run, (), _tensors(shapes, state))


def _tensors(shapes: Mapping[str, tuple[tuple[int, ...], torch.dtype]], state: Mapping[str, bool]) -> dict[str, Tensor]:
    """Parameters, gradients and state, without data."""
    found: dict[str, Tensor] = {}
    for name, (shape, dtype) in shapes.items():
        for label in (name, f"grad {name}", *(f"{key} of {name}" for key, like in state.items() if like)):
            found[label] = torch.empty(shape, dtype=dtype)
    return found | {key: torch.zeros(()) for key, like in state.items() if not like}


def _kept(given: Mapping[str, Tensor], name: str, state: Mapping[str, bool]) -> dict[str, Tensor]:
    return {key: given[f"{key} of {name}" if like else key].clone() for key, like in state.items()}


def _parameter(value: Tensor, gradient: Tensor) -> Tensor:
    found = value.detach().clone().requires_grad_()
    found.grad = gradient.detach().clone()
    return found


def _updated(finish: _Finish, own: Mapping[str, Tensor], kept: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The parameters and state after the optimizer's step: new values by name."""
    if not own:
        return {}
    optimizer = _made(finish, list(own.values()))
    for name, parameter in own.items():
        if kept[name]:
            optimizer.state[parameter] = dict(kept[name])
    step_of(optimizer)
    found: dict[str, Tensor] = {}
    for name, parameter in own.items():
        found[f"new {name}"] = parameter.detach()
        now = optimizer.state.get(parameter, {})
        if {key for key, value in now.items() if value is not None} != set(kept[name]):
            raise _wrong(finish, f"a step that keeps {', '.join(map(str, now))}", f"{', '.join(kept[name])}, as before")
        for key in kept[name]:
            found[f"new {key} of {name}"] = now[key].detach()
    return found


# ---------------------------------------------------------------------------------------------- a rank
def _check_reducers(modules: Sequence[GeneratedModule]) -> None:
    for module in modules:
        zero = [reducer for reducer in module.reducers.values() if reducer.zero]
        inside = [name for reducer in zero for name in reducer.attributes]
        kinds = {module.held[name].dtype for name in inside}
        if len(set(inside)) < len(inside) or len(kinds) > 1:
            raise refused(
                module.path, zero[0].line, "parameters in several reducers, or of several types",
                "reducers with parts of the state (zero=True) of parameters of one type, each in one of them",
            )  # fmt: skip


@dataclass(frozen=True)
class _Flat:
    """The parameters of a reducer whose state is cut over some of its ranks, as one vector: rank number ``position`` of
    these has the part of it that begins at ``position`` times ``length``; behind the last are zeros."""

    reducer: Reducer
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    rank: int

    @property
    def ranks(self) -> tuple[int, ...]:
        return self.reducer.sharers(self.rank)

    @property
    def position(self) -> int:
        return self.ranks.index(self.rank)

    @property
    def length(self) -> int:
        return -(-sum(self.sizes) // len(self.ranks))

    def own(self, tensors: Sequence[Tensor]) -> Tensor:
        """The rank's part of the vector of these tensors."""
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        more = self.length * len(self.ranks) - sum(self.sizes)
        flat = torch.cat([flat, flat.new_zeros(more)]) if more else flat
        return flat[self.position * self.length : (self.position + 1) * self.length]

    def apart(self, part: Tensor, group: Any) -> dict[str, Tensor]:
        """All ranks' parts gathered, as tensors of the parameters' shapes by name."""
        size = len(self.ranks)
        whole = _c10d.wait_tensor(_c10d.all_gather_into_tensor(part.detach().contiguous(), size, group.group_name))
        pieces = whole[: sum(self.sizes)].split(list(self.sizes))
        return {name: piece.reshape(shape) for name, piece, shape in zip(self.names, pieces, self.shapes, strict=True)}


def _flats(module: GeneratedModule) -> dict[str, _Flat]:
    found: dict[str, _Flat] = {}
    for name, reducer in module.reducers.items():
        if reducer.zero:
            held = [module.held[attribute] for attribute in reducer.attributes]
            shapes = tuple(tuple(stop - start for start, stop in part.box) for part in held)
            sizes = tuple(torch.Size(shape).numel() for shape in shapes)
            names = tuple(part.name for part in held)
            found[name] = _Flat(reducer, names, sizes, shapes, module.rank)
    return found


def _copies(module: GeneratedModule, modules: Sequence[GeneratedModule], flats: Mapping[str, _Flat]) -> dict[str, int]:
    """How many ranks have the same part of each of a rank's parameters, and of its parts of reducers' vectors."""
    boxes = [{part.name: part.box for part in other.held.values()} for other in modules]
    own = boxes[module.rank]
    found = {name: sum(other.get(name) == box for other in boxes) for name, box in own.items()}
    for name, flat in flats.items():
        keys = [
            (tuple((n, boxes[other.rank][n]) for n in each.names), each.position, len(each.ranks))
            for other in modules
            for each in _flats(other).values()
        ]
        mine = (tuple((n, own[n]) for n in flat.names), flat.position, len(flat.ranks))
        found[name] = keys.count(mine)
    return found


def _rank(
    module: GeneratedModule, modules: Sequence[GeneratedModule], finish: _Finish, mesh: Mesh, unit: int,
    wholes: Sequence[Whole], state: Mapping[str, bool],
) -> Program:  # fmt: skip
    """The program of a rank. Of parameters that it has no part of, it leaves zeros."""
    flats = _flats(module)
    cut = {name for flat in flats.values() for name in flat.names}
    names = {part.name for part in module.held.values()}
    shared = _copies(module, modules, flats)
    shapes = {
        whole.name: (local_shape(mesh, whole.shape, whole.layout, module.rank % unit), whole.dtype) for whole in wholes
    }

    def build(rank: int) -> Any:
        groups = {ranks: dist.new_group(list(ranks)) for ranks in groups_of(module)}
        place = RankOfPlan(rank, len(modules), dist.group.WORLD, shared)

        def run(**given: Tensor) -> dict[str, Tensor]:
            own = {
                whole.name: _parameter(given[whole.name], given[f"grad {whole.name}"])
                for whole in wholes
                if whole.name in names and whole.name not in cut
            }
            kept = {name: _kept(given, name, state) for name in own}
            for name, flat in flats.items():
                own[name] = _parameter(
                    flat.own([given[n] for n in flat.names]), flat.own([given[f"grad {n}"] for n in flat.names])
                )
                kept[name] = {
                    key: (flat.own([given[f"{key} of {n}"] for n in flat.names]) if like else given[key]).clone()
                    for key, like in state.items()
                }
            with torch.no_grad():
                if finish.rank_gradients is not None:
                    finish.rank_gradients(own, place)
                elif finish.gradients is not None:
                    finish.gradients(own)
            found = _updated(finish, own, kept)
            for name, flat in flats.items():
                group = groups[flat.ranks]
                new = flat.apart(found.pop(f"new {name}"), group)
                found |= {f"new {n}": tensor for n, tensor in new.items()}
                for key, like in state.items():
                    value = found.pop(f"new {key} of {name}")
                    parts = flat.apart(value, group) if like else dict.fromkeys(flat.names, value)
                    found |= {f"new {key} of {n}": tensor for n, tensor in parts.items()}
            return {
                label: found[label] if label in found else torch.zeros(shape, dtype=dtype)
                for name, (shape, dtype) in shapes.items()
                for label, shape, dtype in (
                    (f"new {name}", shape, dtype),
                    *((f"new {key} of {name}", shape if like else (), dtype if like else torch.float32)
                      for key, like in state.items()),
                )
            }  # fmt: skip

        return run, (), {"kwargs": _tensors(shapes, state)}

    return capture_rank(build, module.rank, dict(mesh.axes))
