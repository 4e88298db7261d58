"""The parts of parameters that all ranks have together: whether they are the whole."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from tantamount.capture.nnscaler.constructors import Held
from tantamount.capture.nnscaler.modules import GeneratedModule

__all__ = ["lost", "written"]

Box = tuple[tuple[int, int], ...]


def written(held: Held) -> str:
    """A part as it would be taken of the whole: ``head.weight[8:16, 0:16]``."""
    return f"{held.name}[{', '.join(f'{start}:{stop}' for start, stop in held.box)}]"


def lost(modules: Sequence[GeneratedModule]) -> Generator[str]:
    """Sentences about elements of parameters that no rank has, each with the line of a part."""
    parts: dict[str, list[tuple[GeneratedModule, Held]]] = {}
    for module in modules:
        for held in module.held.values():
            parts.setdefault(held.name, []).append((module, held))
    for name, found in parts.items():
        _, first = found[0]
        rest: list[Box] = [tuple((0, size) for size in first.shape)]
        for box in dict.fromkeys(held.box for _, held in found if held.shape == first.shape):
            rest = [piece for whole in rest for piece in _without(whole, box)]
        if rest:
            owners: dict[Box, list[tuple[GeneratedModule, Held]]] = {}
            for module, held in found:
                owners.setdefault(held.box, []).append((module, held))
            module, held = max(owners.values(), key=len)[-1]  # more than one has what one should have, as a rule
            nowhere = ", ".join(f"{start}:{stop}" for start, stop in rest[0])
            others = ", ".join(str(one.rank) for one, _ in owners[held.box])
            yield f"{module.path}:{held.line}: no rank has {name}[{nowhere}]; {written(held)} is on rank {others}"


def _without(whole: Box, part: Box) -> list[Box]:
    """The rest of a box without a part of it, as boxes."""
    if any(b <= start or stop <= a for (start, stop), (a, b) in zip(whole, part, strict=True)):
        return [whole]
    found: list[Box] = []
    for k, ((start, stop), (a, b)) in enumerate(zip(whole, part, strict=True)):
        if start < a:
            found.append((*whole[:k], (start, a), *whole[k + 1 :]))
        if b < stop:
            found.append((*whole[:k], (b, stop), *whole[k + 1 :]))
        whole = (*whole[:k], (max(start, a), min(stop, b)), *whole[k + 1 :])
    return found
