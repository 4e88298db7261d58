"""Proposals for input relations, from names, shapes and placements: guesses, of which the job's author decides."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from tantamount.capture.job import Unresolved
from tantamount.ir.layouts import layouts
from tantamount.ir.mesh import Mesh
from tantamount.ir.types import TensorType

__all__ = ["Proposal", "suggest", "toml"]

_Known = Mapping[str, tuple[TensorType, tuple[str, ...]]]
_PLACEMENT = re.compile(r"Replicate\(\)|Shard\(\d+\)")
_NUMBER = re.compile(r"\d+")
_WRAPPERS = re.compile(r"(^|\.)(module|_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)(?=\.)")


@dataclass(frozen=True)
class Proposal:
    """The placements that an input of the specification may have on the ranks.

    ``tensor`` is its name there and ``placements`` one per mesh axis; empty, if nothing fits. ``reason`` says what
    speaks for it and ``others`` which placements fit the shapes as well."""

    name: str
    tensor: str
    placements: tuple[str, ...]
    reason: str
    others: tuple[tuple[str, ...], ...] = ()

    @property
    def relation(self) -> str:
        """The relation as TOML."""
        replicated = all(text == "Replicate()" for text in self.placements)
        texts = self.placements[:1] if replicated else self.placements
        value = json.dumps(texts[0]) if len(texts) == 1 else f"[{', '.join(map(json.dumps, texts))}]"
        if self.tensor == self.name:
            return value
        return f"{{ name = {json.dumps(self.tensor)}, placement = {value} }}"


def suggest(job: Unresolved) -> tuple[Proposal, ...]:
    """A proposal for every input of the specification that the job does not relate yet: from names, shapes, and the
    placements of inputs that it relates (a parameter's for its optimizer state, a layer's for the same in another)."""
    wanted = {n.name: n.type for n in job.specification.inputs if n.type is not None and n.name not in job.listed}
    ranks = [{n.name: n.type for n in graph.inputs if n.type is not None} for graph in job.implementation]
    common = {name: held for name, held in ranks[0].items() if all(rank.get(name) == held for rank in ranks)}
    free = {name: held for name, held in common.items() if name not in job.listed}
    whole = {n.name: n.type for n in job.specification.inputs if n.type is not None}
    known = {name: (whole[name], placed) for name in job.listed if name in whole for placed in _placed(job, name)}
    return tuple(_proposal(name, type_, free, set(wanted), job.mesh, known) for name, type_ in wanted.items())


def _placed(job: Unresolved, name: str) -> list[tuple[str, ...]]:
    """The placements that the job gives an input; none, where it has an expression."""
    value = job.listed[name]
    if isinstance(value, Mapping):
        value = cast("Mapping[str, object]", value).get("placement")
    texts = [str(item) for item in cast("list[object]", value)] if isinstance(value, list) else [str(value)]
    if texts == ["Replicate()"]:
        texts *= len(job.mesh.axes)
    fits = len(texts) == len(job.mesh.axes) and all(_PLACEMENT.fullmatch(text) for text in texts)
    return [tuple(texts)] if fits else []


def _relative(name: str, whole: TensorType, known: _Known) -> tuple[str, tuple[str, ...]] | None:
    """An input of that shape whose placement speaks for this one's: what it is the state of, or its like elsewhere."""
    alike = {other: placed for other, (type_, placed) in known.items() if type_.shape == whole.shape}
    for other in sorted(alike, key=len, reverse=True):
        if re.search(rf"(^|[.:]){re.escape(other)}([.:]|$)", name):
            return other, alike[other]
    pattern = _NUMBER.sub("#", name)
    return next(((other, placed) for other, placed in alike.items() if _NUMBER.sub("#", other) == pattern), None)


def _proposal(
    name: str, whole: TensorType, held: Mapping[str, TensorType], wanted: set[str], mesh: Mesh, known: _Known
) -> Proposal:
    tensor, why = _counterpart(name, whole, held, wanted, mesh)
    if tensor is None:
        return Proposal(name, "", (), why)
    fits = _fits(whole, held[tensor], mesh)
    if not fits:
        return Proposal(name, "", (), f"{why}, but {list(held[tensor].shape)} is no part of {list(whole.shape)}")
    relative = _relative(name, whole, known)
    if relative is not None and relative[1] in fits:
        rest = tuple(placed for placed in fits if placed != relative[1])
        return Proposal(name, tensor, relative[1], f"{why}, placed as {relative[0]}", rest)
    if fits[0] == ("Replicate()",) * len(mesh.axes):
        return Proposal(name, tensor, fits[0] or ("Replicate()",), f"{why}, and the same shape", tuple(fits[1:]))
    return Proposal(name, tensor, fits[0], f"{why}; {list(held[tensor].shape)} of {list(whole.shape)}", tuple(fits[1:]))


def _counterpart(
    name: str, whole: TensorType, held: Mapping[str, TensorType], wanted: set[str], mesh: Mesh
) -> tuple[str | None, str]:
    if name in held:
        return name, "the same name"
    bare = _WRAPPERS.sub("", name).lstrip(".")
    alike = [other for other in held if _WRAPPERS.sub("", other).lstrip(".") == bare]
    if len(alike) == 1:
        return alike[0], "the same name but for wrappers"
    ends = [other for other in held if other.endswith(f".{bare}") or bare.endswith(f".{other}")]
    if len(ends) == 1:
        return ends[0], "names that end alike"
    spare = [other for other, type_ in held.items() if other not in wanted and _fits(whole, type_, mesh)]
    if len(spare) == 1:
        return spare[0], "the only tensor whose shape fits"
    return None, f"no tensor of that name; {len(spare)} others have a shape that fits"


def _fits(whole: TensorType, part: TensorType, mesh: Mesh) -> list[tuple[str, ...]]:
    """The placements that make a tensor of the part's shape of the whole: none, where dtypes or ranks differ."""
    if whole.dtype is not part.dtype:
        return []
    return [tuple(map(str, found)) for found in layouts(whole.shape, mesh.sizes, local=part.shape)]


def toml(proposals: Sequence[Proposal]) -> str:
    """Lines for the ``[inputs]`` of a job; every one is marked as the guess that it is."""
    lines: list[str] = []
    for p in proposals:
        if not p.placements:
            lines.append(f"# {json.dumps(p.name)} = ?   # {p.reason}")
            continue
        also = ""
        if p.others:
            shown = "; ".join(", ".join(texts) for texts in p.others[:3])
            also = f"; also possible: {shown}{' and more' if len(p.others) > 3 else ''}"
        lines.append(f"{json.dumps(p.name)} = {p.relation}   # guess: {p.reason}{also}")
    return "".join(f"{line}\n" for line in lines)
