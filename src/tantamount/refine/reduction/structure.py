"""Which primitives a definition applies, apart from sizes: what a reduction must not change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tantamount.ops.algebra import Interpretation, TypesOnly

__all__ = ["Step", "Structure"]

Step = tuple[Any, ...]

# What of a primitive's arguments is structure; of the others, only that they were asked for.
_SHOWN: Mapping[str, Callable[..., Step]] = {
    "permute": lambda x, order: order,
    "reshape": lambda x, shape: (len(shape),),
    "expand": lambda x, shape: (len(shape),),
    "slice": lambda x, dim, start, stop, step: (dim, start == 0, step),
    "flip": lambda x, dim: (dim,),
    "concat": lambda xs, dim: (len(xs), dim),
    "function": lambda name, xs: (name,),
    "contract": lambda operands, result: (*(labels for _, labels in operands), result),
    "maximum_over": lambda x, dims: dims,
    "rows": lambda name, xs, attributes, results: (name, len(results)),
}


class Structure(TypesOnly):
    """Types only; ``steps`` has the primitives that were asked for, in order, with all about them that is no size."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []
        for name in Interpretation.__abstractmethods__:
            setattr(self, name, self._recording(name, getattr(self, name)))

    def _recording(self, name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        shown = _SHOWN.get(name)

        def primitive(*args: Any) -> Any:
            self.steps.append((name, *(shown(*args) if shown else ())))
            return inner(*args)

        return primitive
