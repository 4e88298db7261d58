"""The places of a generated plan's ranks in a mesh, and the parts of the model's parameters that they have.

nnScaler writes a plan for some devices, a *unit*, and repeats it for more: the ranks of the other units run the same
with all ranks shifted. Inside a unit ranks are numbered in any way; here, axes are found that all groups lie along.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod

from tantamount.capture.nnscaler.modules import GeneratedModule
from tantamount.capture.nnscaler.statements import Call, Function, Range, Value, refused
from tantamount.capture.orders import Order
from tantamount.errors import UserError
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Placement, Replicate, Shard

__all__ = [
    "UNIT",
    "Layout",
    "alike",
    "groups_of",
    "layouts",
    "local_box",
    "local_shape",
    "mesh_of",
    "of_units",
    "same",
    "unit_of",
]

UNIT = "dp"  # the axis of units
_FEW = 2  # one call of so many may be over the wrong ranks
_RANKS = ("ranks", "src", "dst", "srcs", "dsts")

Box = tuple[tuple[int, int], ...]
Layout = tuple[tuple[str, Placement], ...]  # a placement for every axis of a unit


def unit_of(modules: Sequence[GeneratedModule]) -> int:
    """The number of ranks of a unit: the fewest such that only gradients are reduced between units, and that all units
    run the same. Units that no process group connects are none. Where ranks of several units differ, in whatever size
    there is, one of them has a mistake, and the fewest ranks are taken that groups allow; unless what differs are
    slices, with which ranks of one unit take their parts of data. Raises :class:`UserError` if there is no such
    number."""
    world = len(modules)
    spoken = [ranks for module in modules for ranks in _activations(module)]
    groups = {ranks for module in modules for ranks in module.groups} - {tuple(sorted(set(r))) for r in spoken}
    groups |= {reducer.ranks for module in modules for reducer in module.reducers.values()}
    held = [{x.name: x.box for x in module.held.values()} for module in modules]

    def across(size: int) -> int:
        return sum(len({rank // size for rank in ranks}) > 1 for ranks in spoken)

    fit = [
        size
        for size in range(1, world + 1)
        if world % size == 0
        and across(size) <= len(spoken) // _FEW
        and (size == world or any(len({rank // size for rank in ranks}) > 1 for ranks in groups))
        and all(held[rank] == held[rank % size] for rank in range(world))
    ]
    for slices in (True, False):
        equal = [size for size in fit if size < world and alike(modules, size, slices=slices)]
        if equal or (slices and fit[0] < world and alike(modules, fit[0], slices=False)):
            return equal[0] if equal else world
    return fit[0]


def alike(modules: Sequence[GeneratedModule], size: int, *, slices: bool = True) -> bool:
    """True if all units of this size run the same; of slices, only if they are asked for."""
    return all(same(modules[rank % size], modules[rank], size, slices=slices) for rank in range(len(modules)))


def _activations(module: GeneratedModule) -> Iterator[tuple[int, ...]]:
    """The ranks that every call beside reducers names, with the module's own."""
    for function in module.functions.values():
        for ranks in _named(function):
            yield (module.rank, *ranks)


def _named(function: Function) -> Iterator[tuple[int, ...]]:
    for statement in function.body:
        if isinstance(statement.value, Call):
            for key in _RANKS:
                found = statement.value.kwargs.get(key)
                if found is not None:
                    yield tuple(r for r in (found if isinstance(found, tuple) else (found,)) if isinstance(r, int))
    for inner in function.inner.values():
        yield from _named(inner)


def same(first: GeneratedModule, other: GeneratedModule, size: int, *, slices: bool = True) -> bool:
    """True if the module of a rank is that of a rank of the first unit, shifted."""
    by = other.rank - first.rank
    if first.held != other.held or _bare(first.step, 0, slices) != _bare(other.step, 0, slices):
        return False
    if first.functions.keys() != other.functions.keys() or first.reducers.keys() != other.reducers.keys():
        return False
    if any(
        _bare(first.functions[name], by, slices) != _bare(other.functions[name], 0, slices) for name in first.functions
    ):
        return False
    return all(
        replace(reducer, ranks=(), line=0) == replace(other.reducers[name], ranks=(), line=0)
        and {rank % size for rank in reducer.ranks} == {rank % size for rank in other.reducers[name].ranks}
        for name, reducer in first.reducers.items()
    )


def _bare(function: Function, by: int, slices: bool) -> Function:
    """The function without its places, all ranks shifted, and without slices unless they are asked for."""
    body = tuple(replace(x, value=_shifted(x.value, by, slices), line=0, text="", note="") for x in function.body)
    inner = {name: _bare(found, by, slices) for name, found in function.inner.items()}
    return replace(function, body=body, inner=inner)


def _shifted(value: Value, by: int, slices: bool) -> Value:
    if isinstance(value, Range) and not slices:
        return Range(None, None, None)
    if isinstance(value, tuple):
        return tuple(_shifted(x, by, slices) for x in value)
    if not isinstance(value, Call):
        return value
    kwargs: dict[str, Value] = {}
    for key, given in value.kwargs.items():
        many = given if isinstance(given, tuple) else (given,)
        if key in _RANKS:
            moved = tuple(r + by if isinstance(r, int) else r for r in many)
            kwargs[key] = moved if isinstance(given, tuple) else moved[0]
        else:
            kwargs[key] = _shifted(given, by, slices)
    return replace(value, args=tuple(_shifted(x, by, slices) for x in value.args), kwargs=kwargs)


# ---------------------------------------------------------------------------------------------- axes
def groups_of(module: GeneratedModule) -> dict[tuple[int, ...], None]:
    """The groups that a rank's collectives and reducers are over, in their order. A broadcast is not among them: it is
    as many messages, over whatever ranks."""
    found: dict[tuple[int, ...], None] = {}
    for function in module.functions.values():
        for statement in _calls(function):
            ranks = statement.kwargs.get("ranks")
            if isinstance(ranks, tuple) and not statement.function.endswith(".broadcast"):
                group = tuple(r for r in ranks if isinstance(r, int))
                if list(group) != sorted(set(group)) or module.rank not in group:
                    raise refused(module.path, 1, f"a collective over {list(group)}", "ascending ranks, with its own")
                found[group] = None
    for reducer in module.reducers.values():
        found[reducer.ranks] = None
        if reducer.parts > 1:
            found[reducer.sharers(module.rank)] = None
    return found


def _calls(function: Function) -> Iterator[Call]:
    for statement in function.body:
        if isinstance(statement.value, Call):
            yield statement.value
    for inner in function.inner.values():
        yield from _calls(inner)


def mesh_of(modules: Sequence[GeneratedModule], unit: int) -> Mesh:
    """The mesh: the units, then the fewest axes inside a unit such that every group is the ranks along some of them.
    The units are several axes where reducers share state among some of them. An axis along which ranks have different
    parameters is called ``pp``, others ``tp``. Raises :class:`UserError` if there are none."""
    groups = {group: None for module in modules for group in groups_of(module)}
    units = len(modules) // unit
    for outer, sizes in sorted(product(_factors(units), _factors(unit)), key=lambda both: len(both[0]) + len(both[1])):
        own = {UNIT if not k else f"{UNIT}{k}": size for k, size in enumerate(outer or (1,))}
        mesh = Mesh({**own, **{f"axis{k}": size for k, size in enumerate(sizes)}})
        if all(_along(mesh, group) for group in groups):
            return _named_axes(mesh, modules)
    raise UserError(
        "plan-nnscaler", place=modules[0].path, found=f"groups {', '.join(str(list(g)) for g in groups)}",
        needed="groups that are the rows and columns of a mesh of the ranks",
    )  # fmt: skip


def _factors(size: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a size as a product of factors above 1, in every order."""
    if size == 1:
        yield ()
    for first in range(2, size + 1):
        if size % first == 0:
            for rest in _factors(size // first):
                yield (first, *rest)


def _along(mesh: Mesh, group: Sequence[int]) -> bool:
    coordinates = [mesh.coordinates(rank) for rank in group]
    free = [k for k in range(len(mesh.sizes)) if len({at[k] for at in coordinates}) > 1]
    names = tuple(mesh.names[k] for k in free)
    return Mesh(mesh.axes, {"group": names}).members("group", group[0]) == tuple(group)


def _named_axes(mesh: Mesh, modules: Sequence[GeneratedModule]) -> Mesh:
    """The mesh with names that say what an axis does."""
    names: dict[str, int] = {}
    for k, (own, size) in enumerate(mesh.axes.items()):
        name = own
        if not of_units(own):
            step = prod(mesh.sizes[k + 1 :])
            first = {held.name for held in modules[0].held.values()}
            apart = any({held.name for held in modules[c * step].held.values()} != first for c in range(size))
            name = "pp" if apart else "tp"
        names[name if name not in names else f"{name}{k}"] = size
    return Mesh(names)


def of_units(axis: str) -> bool:
    """True for an axis of the mesh along which there are copies of the plan."""
    return axis.startswith(UNIT)


# ---------------------------------------------------------------------------------------------- parts of parameters
def layouts(
    mesh: Mesh, shape: tuple[int, ...], boxes: Mapping[int, Box]
) -> tuple[Layout, tuple[str, ...], Order | None] | None:
    """The layout of a tensor on the ranks of a unit: a placement for every axis of the unit, the axes along which one
    coordinate has it and the others have not, and the order in which ranks have its blocks if it is not the tensor's
    own; ``None`` if placements cannot say it. ``boxes`` by rank of the unit."""
    names = [name for name in mesh.names if not of_units(name)]
    inside = Mesh({name: mesh.axes[name] for name in names})
    at = {rank: inside.coordinates(rank) for rank in boxes}
    values = [sorted({found[k] for found in at.values()}) for k in range(len(names))]
    pinned = tuple(names[k] for k in range(len(names)) if len(values[k]) == 1 and inside.sizes[k] > 1)
    full = all(len(found) in (1, size) for found, size in zip(values, inside.sizes, strict=True))
    if not full or len(boxes) != prod(map(len, values)):
        return None
    choices: list[Sequence[Placement]] = [
        (Replicate(),) if name in pinned else (Replicate(), *map(Shard, range(len(shape)))) for name in names
    ]
    for chosen in product(*choices):
        if all(_box(inside, shape, chosen, rank) == box for rank, box in boxes.items()):
            return tuple(zip(names, chosen, strict=True)), pinned, None
    for chosen in product(*choices):
        order = _order(shape, {rank: (_box(inside, shape, chosen, rank), box) for rank, box in boxes.items()})
        if order is not None:
            return tuple(zip(names, chosen, strict=True)), pinned, order
    return None


def _order(shape: tuple[int, ...], boxes: Mapping[int, tuple[Box | None, Box]]) -> Order | None:
    """The order of blocks along one dimension with which the first box of every rank becomes its second; ``None`` if
    there is none."""
    for dim, size in enumerate(shape):
        blocks: dict[int, int] = {}
        length = 0
        for own, box in boxes.values():
            if own is None or (*own[:dim], *own[dim + 1 :]) != (*box[:dim], *box[dim + 1 :]):
                break
            (start, stop), (begin, end) = own[dim], box[dim]
            length = length or stop - start
            if not stop - start == end - begin == length or begin % length:
                break
            if blocks.setdefault(start // length, begin // length) != begin // length:
                break
        else:
            if size % length == 0 and sorted(blocks) == sorted(blocks.values()) == list(range(size // length)):
                return Order(dim, tuple(blocks[k] for k in range(size // length)))
    return None


def _box(mesh: Mesh, shape: tuple[int, ...], placements: Sequence[Placement], rank: int) -> Box | None:
    """The box that a rank has under placements that cut evenly; ``None`` where they do not."""
    box = [(0, size) for size in shape]
    for placement, size, at in zip(placements, mesh.sizes, mesh.coordinates(rank), strict=True):
        if isinstance(placement, Shard):
            start, stop = box[placement.dim]
            if (stop - start) % size:
                return None
            part = (stop - start) // size
            box[placement.dim] = (start + at * part, start + (at + 1) * part)
    return tuple(box)


def local_box(mesh: Mesh, shape: tuple[int, ...], layout: Layout, rank: int) -> Box:
    """The start and stop of a rank's part of a tensor, along every dimension; the rank is one of the unit."""
    inside = Mesh({name: mesh.axes[name] for name, _ in layout})
    return _box(inside, shape, [placement for _, placement in layout], rank) or ()


def local_shape(mesh: Mesh, shape: tuple[int, ...], layout: Layout, rank: int) -> tuple[int, ...]:
    """The shape of what a rank of the unit has."""
    return tuple(stop - start for start, stop in local_box(mesh, shape, layout, rank))
