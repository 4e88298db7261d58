"""Parts that are written for any number of rows: the same programs, with size symbols, at other sizes.

The programs of a part may have two symbols: the rows that a program is given, and those of the whole batch, which
losses are divided by. Then one part stands for microbatches of different sizes, and for any number of them
(docs/design/plans.md, "Any number of microbatches").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tantamount.capture.job import job_of
from tantamount.errors import UserError
from tantamount.ir.graph import Graph
from tantamount.ir.job import Job
from tantamount.ir.relation import Partial, Placement, Replicate, Shard
from tantamount.sizes.domain import LARGEST, Domain, Symbol, shown_sizes
from tantamount.sizes.symbolic import symbol

__all__ = ["Family", "Rows"]

_FIRST, _SECOND = "rows of the first", "rows of the rest"
_NUMBER = {False: "microbatches", True: "microbatches before the last"}


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a plan's batch: ``whole`` in all, in ``microbatches`` of which a rank has ``each``, and ``last`` of
    the last one. ``symbol`` and ``batch`` are the size symbols of the programs for the rows that each is given, and for
    those of the whole batch."""

    symbol: str
    batch: str
    whole: int
    microbatches: int
    each: int
    last: int

    @property
    def ranks(self) -> int:
        """The number of ranks that a microbatch is cut over."""
        return self.whole // ((self.microbatches - 1) * self.each + self.last)

    @property
    def uneven(self) -> bool:
        """True if the last microbatch is smaller than the others."""
        return self.last != self.each

    @property
    def alike(self) -> int:
        """The number of microbatches that have as many rows as the first."""
        return self.microbatches - self.uneven


@dataclass(frozen=True)
class Family:
    """A part's programs with size symbols. ``document`` is the table of its job, whose graphs are ``graphs`` by name;
    ``axis`` is the axis of microbatches, the first one of its mesh, or empty for a part that runs after them.
    ``carried`` are outputs that the next microbatch begins with: they are those of one microbatch, and of no more.
    ``apart`` is the specification that says whether rows may be worked on apart, where that of the job moves blocks of
    other dimensions than that of the rows: what is true of one is of the other, for the moves know of no rows."""

    document: Mapping[str, Any]
    graphs: Mapping[str, Graph]
    name: str
    axis: str
    rows: Rows
    carried: tuple[str, ...] = ()
    apart: Graph | None = None

    @property
    def programs(self) -> list[Graph]:
        """The different programs of the ranks, in the order of the first ranks that run them."""
        impl = self.document["impl"]
        return [self.graphs[name] for name in dict.fromkeys(impl["graphs"] if "graphs" in impl else [impl["graph"]])]

    def of_others(self, inputs: frozenset[str]) -> Family:
        """The same, where other parts compute some inputs."""
        apart = None if self.apart is None else replace(self.apart, computed=inputs)
        return replace(self, graphs={**self.graphs, "spec": replace(self.graphs["spec"], computed=inputs)}, apart=apart)

    def at(self, microbatches: int, each: int) -> Job:
        """The job of so many microbatches, of each of which a rank has so many rows; the batch is that of the plan."""
        sizes = {self.rows.symbol: each, self.rows.batch: self.rows.whole}
        whole = {**sizes, self.rows.symbol: each * microbatches * self.rows.ranks}
        graphs = {name: self._sized(graph, whole if name == "spec" else sizes) for name, graph in self.graphs.items()}
        return self._without(job_of(self._table(microbatches), graphs, self.name))

    def step(self, each: int) -> Job:
        """The job of one microbatch that asks for what is carried to the next one."""
        job = replace(self, carried=()).at(1, each)
        return replace(job, outputs={name: job.outputs[name] for name in self.carried})

    def alone(self, each: int) -> Job:
        """The job of one microbatch of so many rows, in a batch of any number of microbatches."""
        rows = self.rows
        number = symbol(_NUMBER[rows.uneven], rows.alike)
        batch = (number * rows.each + rows.last * rows.uneven) * rows.ranks
        sizes = {rows.symbol: each, rows.batch: batch}
        domain = Domain((Symbol(_NUMBER[rows.uneven], rows.alike),))
        graphs = {
            name: replace(graph.at(sizes | ({rows.symbol: each * rows.ranks} if name == "spec" else {})), sizes=domain)
            for name, graph in self.graphs.items()
        }
        return job_of(self._table(1), graphs, self.name)

    def joined(self) -> Job:
        """The job that says that rows may be worked on apart: the specification on any rows is, on the first of them
        and on the rest, what its outputs' relations over microbatches say. The batch is of any size."""
        hints = {_FIRST: 11, _SECOND: 5, self.rows.batch: self.rows.whole}
        symbols = {name: symbol(name, hint) for name, hint in hints.items()}
        domain = Domain(tuple(Symbol(name, hint) for name, hint in hints.items()))
        return self._split(symbols[_FIRST], symbols[_SECOND], symbols[self.rows.batch], domain)

    def divided(self) -> Job:
        """The same for the rows of this plan: those of all microbatches but the last, and those of the last."""
        rows = self.rows
        last = rows.last * rows.ranks
        return self._split(rows.whole - last, last, rows.whole, Domain())

    @property
    def is_for_all(self) -> bool:
        """True if the programs are for all numbers of rows: no symbol but the two, from 1 on, and no conditions."""
        known = (self.rows.symbol, self.rows.batch)
        return all(
            not graph.sizes.conditions
            and all(s.name in known and s.low == 1 and s.high >= LARGEST for s in graph.sizes.symbols)
            for graph in self.graphs.values()
        )

    def _sized(self, graph: Graph, sizes: Mapping[str, int]) -> Graph:
        """A graph at some sizes, for which it must be."""
        if not graph.sizes.contains(sizes):
            found = f"{graph.path}, which is for {graph.sizes}"
            raise UserError("plan-rows", place=self.name, found=found, needed=f"one that is for {shown_sizes(sizes)}")
        return graph.at(sizes)

    def _table(self, microbatches: int) -> dict[str, Any]:
        """The job's table with another number of microbatches. No program differs along them."""
        impl = dict(self.document["impl"])
        if self.axis:
            impl["mesh"] = {**impl["mesh"], self.axis: microbatches}
            if "graphs" in impl:
                names, before = impl["graphs"], self.document["impl"]["mesh"][self.axis]
                impl["graphs"] = names[: len(names) // before] * microbatches
        return {**self.document, "impl": impl}

    def _split(self, first: Any, second: Any, batch: Any, domain: Domain) -> Job:
        """The specification on all rows against two ranks that do it on some of them."""
        spec = self.graphs["spec"] if self.apart is None else self.apart

        def on(rows: Any) -> Graph:
            sizes = {self.rows.symbol: rows, self.rows.batch: batch}
            return replace(spec.at(sizes), sizes=domain) if domain.symbols else self._sized(spec, sizes)

        graphs = {"spec": on(first + second), "first": on(first), "second": on(second)}
        at = list(self.document["impl"]["mesh"]).index(self.axis)
        stated = self.at(self.rows.alike, self.rows.each)
        table = {
            **{key: value for key, value in self.document.items() if key in ("format", "ops", "assume")},
            "spec": {"graph": "spec"},
            "impl": {"graphs": ["first", "second"], "mesh": {self.axis: 2}, "groups": {self.axis: [self.axis]}},
            "inputs": {name: self._over_two(name, one.placements, at) for name, one in stated.inputs.items()},
            "outputs": {name: self._over_two(name, one.placements, at) for name, one in stated.outputs.items()},
        }
        return self._without(job_of(table, graphs, self.name))

    def _without(self, job: Job) -> Job:
        """A job about several microbatches, which does not ask for what each of them leaves to the next."""
        if not self.carried:
            return job
        kept = {name: wanted for name, wanted in job.outputs.items() if name not in self.carried}
        return replace(job, outputs=kept, at=None if job.at is None else partial(self._without_at, job.at))

    def _without_at(self, sized: Callable[[Mapping[str, int]], Job], sizes: Mapping[str, int]) -> Job:
        return self._without(sized(sizes))

    def _over_two(self, name: str, placements: Sequence[Placement] | None, at: int) -> object:
        """A relation over the axis of microbatches as one of two ranks that have different numbers of rows."""
        placed = None if placements is None else placements[at]
        if isinstance(placed, Shard):
            return f"concat(rank(0), rank(1), dim={placed.dim})"
        if placed == Partial("sum"):
            return "sum(rank(0), rank(1))"
        if placed == Replicate():
            return ["Replicate()"]
        raise UserError(
            "plan-rows", place=f"{self.name}: {name}", found=str(placed or "a relation that is no placement"),
            needed=f"Shard, Partial(\"sum\") or Replicate over {self.axis}, where rows may be any number",
        )  # fmt: skip
