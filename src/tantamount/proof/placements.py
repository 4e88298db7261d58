"""Placements and clean expressions on forms: :mod:`tantamount.ops.relations` in the calculus, and stacks of ranks.

A *stacked* form has one leading dimension per mesh axis, then the local dimensions: what every rank holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tantamount.calculus.atoms import Store
from tantamount.calculus.definedness import Definedness
from tantamount.calculus.forms import Form
from tantamount.calculus.symbolic import Trace
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Expression, Placement
from tantamount.ops import relations

__all__ = ["collapse", "distribute", "evaluate", "local", "part", "stack", "stack_beside"]


def _on(store: Store) -> Definedness:
    return Definedness(store, Trace())


def distribute(store: Store, whole: Form, placements: Sequence[Placement], sizes: Sequence[int]) -> Form:
    """The parts of a whole tensor that the ranks hold under ``Shard`` and ``Replicate`` placements (even parts),
    stacked."""
    return relations.distribute(_on(store), whole, whole.shape, placements, sizes)


def collapse(store: Store, stacked: Form, placements: Sequence[Placement], sizes: Sequence[int]) -> Form:
    """The stacked form with the mesh axes whose placement is ``Partial`` reduced; the others stay in front."""
    return relations.collapse(_on(store), stacked, placements, sizes)


def part(store: Store, whole: Form, box: Sequence[tuple[int, int]]) -> Form:
    """A box of a tensor: one ``(start, stop)`` per dimension."""
    return relations.part(_on(store), whole, whole.shape, box)


def evaluate(store: Store, expression: Expression, tensor: Callable[[int, str], Form], name: str) -> Form:
    """The value of a resolved clean expression. ``tensor(rank, name)`` gives the implementation's tensors."""
    return relations.evaluate(_on(store), expression, tensor, name)


def local(store: Store, stacked: Form, mesh: Mesh, rank: int, kept: Collection[str] = ()) -> Form:
    """The part of one rank; with ``kept`` axes, the parts of all ranks that differ from it in these axes only,
    stacked."""
    on, form = _on(store), stacked
    lead: list[int] = []
    for axis, (name, digit) in enumerate(zip(mesh.names, mesh.coordinates(rank), strict=True)):
        if name in kept:
            lead.append(mesh.sizes[axis])
        else:
            form = on.slice(form, axis, digit, digit + 1, 1)
    return on.reshape(form, (*lead, *form.shape[len(mesh.sizes) :]))


def stack(store: Store, parts: Sequence[Form], sizes: Sequence[int]) -> Form:
    """Forms of equal shapes, one for each coordinate along axes of these sizes, with the axes as first dimensions."""
    if not sizes:
        return parts[0]
    step = len(parts) // sizes[0]
    on = _on(store)
    items = [stack(store, parts[k * step : (k + 1) * step], sizes[1:]) for k in range(sizes[0])]
    flat = [on.reshape(item, (1, *item.shape)) for item in items]
    if all(item == items[0] and item.undefined == items[0].undefined for item in items[1:]):
        return on.expand(flat[0], (sizes[0], *items[0].shape))
    return on.concat(flat, 0)


def stack_beside(store: Store, parts: Sequence[Form], mesh: Mesh, kept: Collection[str]) -> Form:
    """As :func:`stack` over the axes of a mesh, of forms that are stacked along the ``kept`` ones already."""
    apart = [k for k, name in enumerate(mesh.names) if name not in kept]
    beside = [k for k, name in enumerate(mesh.names) if name in kept]
    form = stack(store, parts, [mesh.sizes[k] for k in apart])
    now = [*apart, *beside]
    lead = [now.index(k) for k in range(len(now))]
    return _on(store).permute(form, (*lead, *range(len(now), len(form.shape))))
