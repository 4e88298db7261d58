"""The reducers of a rank on the way through its step: which have summed gradients, and which could not."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field

from tantamount.capture.nnscaler.modules import GeneratedModule
from tantamount.capture.nnscaler.statements import Function, names_in

__all__ = ["Reductions"]


@dataclass
class Reductions:
    """``done`` has the reducers that have been asked for their sums, in order. Those that are asynchronous count the
    gradients that come while they are not told to wait (``skip_reducer``), each of a parameter in a backward pass, and
    make the sum when there are as many as parameters; being asked is waiting for it."""

    module: GeneratedModule
    done: dict[str, int] = field(default_factory=dict[str, int])
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def early(self, function: Function) -> str:
        """The reducer that has its sum before the backward pass of this function adds to it; empty if there is none."""
        used = set(_attributes(function))
        for name, reducer in self.module.reducers.items():
            summed = self.counts.get(name, 0) == len(reducer.attributes)
            if name in self.done or (summed and not used.isdisjoint(reducer.attributes)):
                return name
        return ""

    def count(self, function: Function, flags: Mapping[str, bool]) -> str:
        """Count the gradients of a backward pass; a sentence if they are more than the parameters."""
        if flags.get("skip_reducer"):
            return ""
        used = set(_attributes(function))
        for name, reducer in self.module.reducers.items():
            if reducer.asynchronous:
                self.counts[name] = self.counts.get(name, 0) + len(used & set(reducer.attributes))
                if self.counts[name] > len(reducer.attributes):
                    return f"{name} counts more gradients than it has parameters: the runtime ends with an error"
        return ""

    def reduce(self, name: str, line: int, flags: Mapping[str, bool]) -> str:
        """Ask a reducer for its sum; a sentence if that is wrong."""
        reducer = self.module.reducers[name]
        if flags.get("skip_reducer"):
            return f"{name} does nothing: skip_reducer is set"
        if name in self.done:
            return f"{name} reduces gradients that are reduced already: they are counted twice"
        if reducer.asynchronous and self.counts.get(name, 0) < len(reducer.attributes):
            return f"{name} has not begun its sum: it waits for gradients that came while skip_reducer was set"
        self.done[name] = line
        return ""

    def missing(self) -> Generator[str]:
        """The reducers that were never asked."""
        for name in self.module.reducers:
            if name not in self.done:
                yield name


def _attributes(function: Function) -> Iterator[str]:
    """The parameters and buffers that a function uses, by attribute."""
    for statement in function.body:
        for name in names_in(statement.value):
            if name.startswith("self."):
                yield name.removeprefix("self.")
    for inner in function.inner.values():
        yield from _attributes(inner)
