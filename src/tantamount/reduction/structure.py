"""The primitives that a definition applies, apart from sizes: a reduction must not change them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tantamount.ops.algebra import Interpretation, TypesOnly

__all__ = ["Step", "Structure"]

Step = tuple[Any, ...]

# Which of a primitive's arguments are structure, by position; of the others only that they were given.
_SHOWN: Mapping[str, tuple[int, ...]] = {
    "permute": (1,), "slice": (1, 4), "flip": (1,), "concat": (1,), "function": (0,), "contract": (1,),
    "maximum_over": (1,), "rows": (0,),
}  # fmt: skip


def _shown(name: str, args: tuple[Any, ...]) -> Step:
    labels = [labels for _, labels in args[0]] if name == "contract" else []
    counts = [len(x) for x in args if isinstance(x, (list, tuple))]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return (name, *(args[k] for k in _SHOWN.get(name, ())), *labels, *counts)


def _noted(name: str) -> Callable[..., Any]:
    inner = getattr(TypesOnly, name)

    def primitive(self: Structure, *args: Any) -> Any:
        self.steps.append(_shown(name, args))
        return inner(self, *args)

    return primitive


class Structure(TypesOnly):
    """Types only; ``steps`` has the primitives that were asked for, in order, with all about them that is no size."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []


for _name in Interpretation.__abstractmethods__:
    setattr(Structure, _name, _noted(_name))
