"""Reading the approximations that a plan declares; their parts get the strict form in the place of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tantamount.capture.alike import drifting
from tantamount.capture.fields import Fields, nearest, shown
from tantamount.capture.strict import KINDS as OF_NODES
from tantamount.capture.strict import NotThat, strict_job
from tantamount.plan.contributions import KINDS as GRADIENTS
from tantamount.plan.contributions import earlier_job, whole_job
from tantamount.plan.own_gradients import own_job
from tantamount.plan.parts import Approximation, Part, Runs

__all__ = ["approximations_of"]

_KINDS = (*OF_NODES, *GRADIENTS)


def approximations_of(top: Fields, parts: dict[str, Part], virtual: str) -> Iterator[Approximation]:
    """The declared approximations, in order; ``parts`` are changed. ``virtual`` is the axis of microbatches, which no
    gradient is exchanged along. Raises :class:`UserError` for what is none."""
    outer = top.at("[approximate]")
    named_before: set[str] = set()
    for name, value in outer.table(top.values.get("approximate", {}), "a table of approximations").items():
        place = outer.at(outer.name(name, "a name"))
        fields = Fields.of(value, place, ("kind", "part", "nodes", "specification", "over", "state"), ("kind", "part"))
        kind, part = fields.at("kind").name(fields.get("kind")), fields.at("part").name(fields.get("part"))
        nodes, over = fields.names("nodes"), fields.names("over")
        inner = fields.at("specification")
        tensors = {
            inner.name(key): inner.at(key).integer(dim, 0, 63, "the dimension along which ranks have parts of it")
            for key, dim in inner.table(fields.values.get("specification", {})).items()
        }
        state = {key: fields.at("state").at(key).name(x)
                 for key, x in fields.at("state").table(fields.values.get("state", {})).items()}  # fmt: skip
        if kind not in _KINDS:
            raise fields.at("kind").wrong(shown(kind), f"one of {', '.join(_KINDS)}")
        if part not in parts:
            raise fields.at("part").wrong(shown(part), "a part", code="unknown-part", hint=nearest(part, parts))
        axes = parts[part].job.mesh.axes
        known = set(over) <= axes.keys() and len(set(over)) == len(over)
        if tensors and (nodes or kind != "truncated-gradient"):
            needed = "tensors of the specification for a truncated-gradient that names no nodes of the programs"
            raise fields.at("specification").wrong(f"{', '.join(tensors)}, of a {kind}", needed, code="approximate")
        if (kind == "restricted-choice") == bool(over) or not known or not (nodes or tensors):
            needed = f"nodes, and for all but a restricted-choice axes of {', '.join(axes)}"
            raise place.wrong(f"nodes {', '.join(nodes)} over {', '.join(over)}", needed, code="approximate")
        if (kind == "stale-gradient") != bool(state):
            needed = "state, { what a run is given = what it leaves }, for a stale-gradient"
            raise place.wrong(f"a {kind} with {len(state)} tensors in state", needed, code="approximate")
        if parts[part].smaller is not None or parts[part].carried:
            found = "a smaller last microbatch" if parts[part].smaller is not None else "state that is carried on"
            needed = "microbatches of one size that know nothing of each other, where something is approximate"
            raise place.wrong(found, needed, code="approximate")
        if kind in GRADIENTS and (len(over) != 1 or over[0] == virtual or axes[over[0]] < 2):
            raise fields.at("over").wrong(" and ".join(over), "one axis of several ranks", code="approximate")
        if kind in GRADIENTS and parts[part].runs is not Runs.PASS:
            raise fields.at("part").wrong(shown(part), "a part of kind pass", code="approximate")
        if tensors and part in named_before:  # what one changes the other would be read off
            needed = "one declaration for all tensors of a part"
            raise fields.at("specification").wrong(f"another one of {part}", needed, code="approximate")
        named_before |= {part} if tensors else set()
        if tensors and (parts[part].taken_as or parts[part].given_as):
            found = "a part whose ranks have blocks in an order that is not the tensor's own"
            raise fields.at("specification").wrong(found, "ranks that have blocks in their order", code="approximate")
        try:
            if kind not in GRADIENTS:
                _check_alike(parts[part], nodes, virtual)
            parts[part] = _strict(name, parts[part], kind, nodes, tensors, over, state)
        except NotThat as problem:
            key = "specification" if tensors else "nodes"
            raise fields.at(key).wrong(str(problem), f"a {kind}", code="approximate") from None
        named = [f"{one} of the specification, along dimension {dim}" for one, dim in tensors.items()]
        by = " by the gradients that come back" if tensors else ""
        yield Approximation(name, part, f"{kind} ({', '.join((*nodes, *named))}){_where(kind, over)}{by}")


def _strict(
    name: str,
    part: Part,
    kind: str,
    nodes: tuple[str, ...],
    tensors: dict[str, int],
    over: tuple[str, ...],
    state: dict[str, str],
) -> Part:
    if kind not in GRADIENTS:
        return replace(part, job=strict_job(part.job, kind, nodes, over))
    gradients = [stream.backward for stream in part.after.values() if stream.backward is not None]
    if tensors:
        return replace(part, job=own_job(part.job, tensors, over[0], gradients))
    if kind == "truncated-gradient":
        return replace(part, job=whole_job(part.job, nodes, over[0], gradients))
    job, claim = earlier_job(part.job, nodes, state, over[0], gradients)
    return replace(part, job=job, claims={**part.claims, name: claim})


def _check_alike(part: Part, nodes: tuple[str, ...], virtual: str) -> None:
    """Raise :class:`NotThat` where copies of something that others take would differ; results may."""
    axes = [axis for axis in part.job.mesh.names if axis != virtual]
    wanted = [name for name in part.job.outputs if name not in part.results]
    for why in drifting(part.job, nodes, axes, wanted):
        raise NotThat(why)


def _where(kind: str, over: tuple[str, ...]) -> str:
    axes = " and ".join(over)
    if kind == "truncated-gradient":
        return f" without what other ranks along {axes} contribute"
    if kind == "stale-gradient":
        return f" with what other ranks along {axes} contributed when it ran before"
    return f" of the rows of a rank along {axes}" if over else ""
