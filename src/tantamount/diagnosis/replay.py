"""One execution of both programs, and what becomes of it when values of the implementation are changed.

Only what follows from a change is computed again: the nodes that depend on it, on every rank, become graphs of their
own, whose inputs are the values of the first execution.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from heapq import heapify, heappop, heappush
from math import inf, prod

import numpy as np

from tantamount.correspond.values import close
from tantamount.diagnosis.messages import Messages, Place, group_of, messages_of, sends
from tantamount.errors import TantamountError, Unsupported
from tantamount.execution.arrays import Comparison, comparisons
from tantamount.execution.plans import Given, Leaves, Plan, given
from tantamount.ir.graph import Graph, Node, references
from tantamount.ir.job import Job
from tantamount.ir.relation import rank_tensors
from tantamount.ops.algebra import Interpretation, Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.classes import rank_classes
from tantamount.ops.execute import ConstantOf, Environment, Result, run, run_node
from tantamount.ops.lockstep import run_ranks
from tantamount.ops.messages import Postbox
from tantamount.ops.relations import has_sum
from tantamount.proof.outputs import output_node
from tantamount.semantics.interpret import Evaluation, constant_of, executed, input_tensors, interpret
from tantamount.semantics.reference import Array, Reference
from tantamount.semantics.stacked import run_changed, run_stacked
from tantamount.semantics.tape import Each, Tape

__all__ = ["Changes", "Place", "Replay", "differing", "typed"]

Changes = Mapping[Place, Array]

_ELEMENTS = 20_000  # that count as much as one node
_RELATIVE = 1e-7  # of the largest element: what two ways of computing one number may differ by


class Replay:
    """Both programs on one input. ``expected`` has the specification's values by node name, ``actual`` those of every
    rank; several results of one node are values of the nodes that pick them."""

    def __init__(self, plan: Plan, leaves: Leaves, seed: int) -> None:
        """Raises what :func:`tantamount.execution.plans.execute` raises."""
        self.job: Job = plan.job
        self.allowed = plan.store.effort
        self.seed = seed
        self.given: Given = given(plan, leaves, seed)
        on, self._tapes = self.given, plan.tapes
        self.expected = self.specification(on.specification)
        graphs, mesh = self.job.implementation, self.job.mesh
        postbox = Postbox(mesh)
        self.small = plan.together
        alone = not any(sends(graph) for graph in graphs)
        inputs = [input_tensors(graph, values) for graph, values in zip(graphs, on.ranks, strict=True)]
        together = None
        if plan.together and alone:
            together = run_stacked(
                graphs, mesh, inputs, seed=seed, constants=on.constants, masks=on.masks, tape=plan.tapes.together,
                classes=plan.classes,
            )  # fmt: skip
        self._tape: Tape | None = None  # by which all ranks were executed
        if together is not None:
            self.environments = [dict(one) for one in together.environments]
            self._tape, self._classes, self._stacked = plan.tapes.together, together.classes, together.stacked
        elif alone:
            self._tape, self._classes = plan.tapes.ranks, rank_classes(graphs, mesh, fold=False)
            self._stacked = self.environments = self._run(graphs, inputs, tape=self._tape)
        else:
            self.environments = self._run(graphs, inputs, postbox=postbox)
        self.messages: Messages = messages_of(self.job, postbox, self.environments)
        self._needs: dict[tuple[str, ...], set[Place]] = {}
        self.effort = 0  # of all that was computed again: nodes, and a thousand elements for one more

    def specification(self, inputs: Mapping[str, Array]) -> Evaluation:
        """The specification on other inputs."""
        constants, masks = self.given.constants, self.given.masks(None)
        tape = self._tapes.specification
        return interpret(self.job.specification, inputs, seed=self.seed, constants=constants, masks=masks, tape=tape)

    def _run(
        self,
        graphs: Sequence[Graph],
        inputs: Sequence[Mapping[str, Tensor]],
        before: Sequence[Environment] | None = None,
        postbox: Postbox | None = None,
        tape: Tape | None = None,
    ) -> list[Environment]:
        """The values of all nodes. Those whose operands are what they were ``before`` are not computed again, and what
        a collective gives as it was is the same object, so that nothing below is either."""
        on = [Reference(rank=rank, seed=self.seed, masks=self.given.masks(rank)) for rank in range(len(graphs))]
        constant = constant_of(self.given.constants)

        def compute(rank: int, node: Node, environment: Environment) -> Result:
            known = None if before is None else before[rank].get(node.name)
            own = self.job.implementation[rank].by_name.get(node.name)
            if before is None or known is None or own is None or not _same(node, own):
                return run_node(graphs[rank], node, Builder(on[rank], node.name), environment, constant, None)
            if all(environment[name] is before[rank].get(name) for name in references(node)):
                return known
            return run_node(graphs[rank], node, Builder(on[rank], node.name), environment, constant, None)

        def each(rank: int, node: Node, result: Result) -> Result:
            known = before[rank].get(node.name) if before is not None and (rank, node.name) in self.together else None
            return known if known is not None and _unchanged(known, result) else result

        def way(
            by: Sequence[Interpretation], given: Sequence[Mapping[str, Tensor]], constant: ConstantOf, each: Each | None
        ) -> list[Environment]:
            return run_ranks(graphs, self.job.mesh, by, given, constant=constant, each=each)

        with np.errstate(all="ignore"):
            if tape is not None:
                return executed(way, on, inputs, constant, None, tape)
            return run_ranks(
                graphs, self.job.mesh, on, inputs, constant=constant, each=each, compute=compute, postbox=postbox
            )

    def computed(self, place: Place, node: Node, more: Mapping[str, Tensor] | None = None) -> Array | None:
        """The value that a node would have; ``more`` are values that its arguments may name. ``None`` if it cannot be
        computed, or takes other ranks."""
        rank = place[0]
        if self.together.get(place) or node.target == "getitem":
            return None
        inputs: dict[str, Tensor] = dict(more or {})
        for ref in references(node):
            value = inputs.get(ref) or self.tensor((rank, ref))
            if value is None:
                return None
            inputs[ref] = value
        nodes = (*(Node(ref, "input", ref) for ref in inputs), replace(node, type=None))
        graph = replace(self.job.implementation[rank], nodes=nodes, outputs=())  # with its declared operators
        reference = Reference(rank=rank, seed=self.seed, masks=self.given.masks(rank))
        self.effort += 1
        self.allowed.check()
        try:
            with np.errstate(all="ignore"):
                found = run(graph, reference, inputs, constant=constant_of(self.given.constants))[node.name]
        except (TantamountError, ValueError, IndexError):
            return None
        return np.asarray(found.value) if isinstance(found, Tensor) else None

    # -- values
    def wanted(self, name: str) -> Array | None:
        """A tensor of the specification, complex numbers as pairs; ``None`` for several results or none."""
        value = self.expected.get(name)
        return value if isinstance(value, np.ndarray) else None

    def held(self, place: Place) -> Array | None:
        """The value that a rank holds, complex numbers as pairs; ``None`` for several results or none."""
        value = self.environments[place[0]].get(place[1])
        return np.asarray(value.value) if isinstance(value, Tensor) else None

    def tensor(self, place: Place) -> Tensor | None:
        """As :meth:`held`, with its type."""
        value = self.environments[place[0]].get(place[1])
        return value if isinstance(value, Tensor) else None

    # -- who depends on whom
    @cached_property
    def partners(self) -> Mapping[Place, tuple[Place, ...]]:
        """For every call of a collective, the calls of all members: the k-th of a group belong together."""
        calls: dict[tuple[tuple[int, ...], int], list[Place]] = defaultdict(list)
        for rank, graph in enumerate(self.job.implementation):
            count: dict[tuple[int, ...], int] = defaultdict(int)
            for node in graph.nodes:
                group = group_of(graph, node)
                if group is not None:
                    members = self.job.mesh.members(group, rank)
                    calls[members, count[members]].append((rank, node.name))
                    count[members] += 1
        return {place: tuple(places) for places in calls.values() for place in places}

    @cached_property
    def together(self) -> Mapping[Place, tuple[Place, ...]]:
        """The calls that none can be computed without: all members' of a collective, both sides' of a message."""
        return {**self.partners, **self.messages.together}

    @cached_property
    def order(self) -> Sequence[Place]:
        """All nodes, rank by rank in the order of execution."""
        return [(rank, node.name) for rank, graph in enumerate(self.job.implementation) for node in graph.nodes]

    @cached_property
    def operands(self) -> Mapping[Place, tuple[Place, ...]]:
        """The places that each value is computed from, on all ranks: of what is received, what was sent."""
        graphs = self.job.implementation

        def of(place: Place) -> tuple[Place, ...]:
            if place in self.messages.sent:
                return (self.messages.sent[place],)
            members = self.partners.get(place, (place,))
            return tuple((rank, ref) for rank, name in members for ref in references(graphs[rank].by_name[name]))

        return {place: of(place) for place in self.order}

    @cached_property
    def readers(self) -> Mapping[Place, tuple[Place, ...]]:
        """The places that are computed from each value."""
        found: dict[Place, list[Place]] = defaultdict(list)
        for place, operands in self.operands.items():
            for operand in dict.fromkeys(operands):
                found[operand].append(place)
        return {place: tuple(some) for place, some in found.items()}

    def above(self, places: Iterable[Place]) -> set[Place]:
        """Everything that these places depend on, they included."""
        return _closure(places, self.operands)

    def cone(self, output: str) -> set[Place]:
        """Everything that an output depends on."""
        return self.above(self.output_places(output))

    def below(self, places: Iterable[Place]) -> set[Place]:
        """Everything that depends on these places, they included."""
        return _closure(places, self.readers)

    def _needed(self, outputs: tuple[str, ...]) -> set[Place]:
        """All that some outputs depend on, all members of a collective, and both sides of a message, at once."""
        if outputs not in self._needs:
            edges = {place: (*some, *self.together.get(place, ())) for place, some in self.operands.items()}
            ends = [place for output in outputs for place in self.output_places(output)]
            self._needs[outputs] = _closure(ends, edges)
        return self._needs[outputs]

    # -- outputs
    def output_places(self, output: str) -> tuple[Place, ...]:
        """The nodes of all ranks that the expectation of an output is about."""
        relation = self.job.outputs[output]
        terms = (term for pair in relation.equal for side in pair for term in rank_tensors(side))
        names = {relation.name, *(term.name or relation.name for term in terms)}
        found: list[Place] = []
        for rank, graph in enumerate(self.job.implementation):
            for name in sorted(names):
                node = output_node(self.job, rank, name)
                if node in graph.by_name:
                    found.append((rank, node))
        return tuple(found)

    def wrong(
        self,
        outputs: Sequence[str],
        changes: Changes | None = None,
        instead: Mapping[Place, Node] | None = None,
    ) -> Mapping[str, int]:
        """The number of wrong elements of each output once values are changed, or other nodes compute them.

        Raises :class:`tantamount.errors.TantamountError` where the rest cannot be computed from them."""
        other = instead or {}
        environments = self._changed(changes or {}, other, outputs) if changes or other else self.environments
        return self._differing(outputs, environments)

    def _differing(self, outputs: Sequence[str], environments: Sequence[Mapping[str, Result]]) -> Mapping[str, int]:
        """The number of wrong elements of outputs."""
        return {
            name: sum(differing(pair.wanted, pair.found) for pair in self._sides(name, environments))
            for name in outputs
        }

    def wrong_ranks(self, output: str) -> frozenset[int]:
        """The ranks that hold wrong elements of an output; all of them where nobody can tell: of summands, of tensors
        that should be equal, of what cannot be compared."""
        relation, found = self.job.outputs[output], set[int]()
        if not (has_sum(relation) or relation.equal):
            with suppress(TantamountError):
                for pair in self._sides(output, self.environments):
                    found.update(np.unique(pair.rank[_apart(pair.wanted, pair.found)]).tolist())
        return frozenset(found or range(len(self.job.implementation)))

    def apart(self, outputs: Sequence[str], changes: Changes | None = None) -> float:
        """How far some outputs are from what they should be, once values are changed: their largest difference,
        relative to the largest element of the output, where both are finite; infinite where one is not."""
        most = 0.0
        environments = self._changed(changes, {}, outputs) if changes else self.environments
        for name in outputs:
            for pair in self._sides(name, environments):
                difference, largest = np.abs(pair.wanted - pair.found), np.abs(pair.wanted).max(initial=0.0)
                if not np.isfinite(difference).all():
                    return inf
                most = max(most, float(difference.max(initial=0.0) / largest) if largest else inf)
        return most

    def _sides(self, name: str, environments: Sequence[Mapping[str, Result]]) -> list[Comparison]:
        """The arrays that must be equal of an output. Raises :class:`tantamount.errors.TantamountError`."""
        whole = self.wanted(self.job.specification.output_nodes[name])
        if whole is None:
            raise Unsupported("an output of several results")

        def held(rank: int, tensor: str) -> Array:
            value = environments[rank].get(output_node(self.job, rank, tensor))
            if not isinstance(value, Tensor):
                raise Unsupported("a node with several results or none")
            return np.asarray(value.value, dtype=np.float64)

        try:
            return comparisons(np.asarray(whole, dtype=np.float64), self.job.outputs[name], self.job.mesh, held)
        except ValueError as problem:  # NumPy on shapes that were never meant to meet
            raise Unsupported(str(problem)) from None

    def nearby(self, changes: Changes, nodes: int) -> Mapping[Place, Tensor] | None:
        """The values, once some are changed, of the first places below them: at most so many on every rank, those that
        are changed included. ``None`` where they cannot be computed alone."""
        near = self._near(changes, nodes * len(self.job.implementation))
        try:
            environments = self._computed(changes, near)
        except TantamountError:
            return None
        return _tensors(environments, near)

    def nearby_of_all(self, changes: Sequence[Changes], nodes: int) -> list[Mapping[Place, Tensor] | None]:
        """:meth:`nearby` of several changes, computed as one where they can be."""
        near = [self._near(one, nodes * len(self.job.implementation)) for one in changes]
        together = self._computed_together(changes, set[Place]().union(*near))
        if together is None:
            return [self.nearby(one, nodes) for one in changes]
        return [_tensors(environments, below) for environments, below in zip(together, near, strict=True)]

    def wrong_of_all(self, outputs: Sequence[str], changes: Sequence[Changes]) -> list[Mapping[str, int] | None]:
        """:meth:`wrong` of several changes, computed as one where they can be; ``None`` where it raises."""
        below = self.below(place for one in changes for place in one) & self._needed(tuple(outputs))
        together = self._computed_together(changes, below)
        ends = [place for output in outputs for place in self.output_places(output)]
        found: list[Mapping[str, int] | None] = []
        for k, one in enumerate(changes):
            try:
                if together is None:
                    found.append(self.wrong(outputs, one if below else None))
                    continue
                environments: list[dict[str, Result]] = [{} for _ in self.environments]
                for rank, name in ends:
                    environments[rank][name] = together[k][rank].get(name, self.environments[rank].get(name))
                found.append(self._differing(outputs, environments))
            except TantamountError:
                found.append(None)
        return found

    def _computed_together(
        self, changes: Sequence[Changes], below: set[Place]
    ) -> list[list[Mapping[str, Result]]] | None:
        """The values of places below one of several changes, with each of them: each change is a coordinate of one more
        axis of the mesh, which no collective knows. ``None`` where they are not computed as one."""
        if len(changes) < 2 or not below or self.messages.together or not self.small:
            return None  # products of matrices, batched, take longer
        known = self._together_by_tape(changes, below)
        if known is not None:
            return known
        mesh, ranks = self.job.mesh, len(self.job.implementation)
        axis = f"changes of {' '.join(mesh.names)}"  # no name of theirs
        many = replace(mesh, axes={axis: len(changes), **mesh.axes})
        below = _closure(below, self.partners)
        try:
            changed = {place for one in changes for place in one}
            first = (place for place in changed if below.isdisjoint(self.operands.get(place, ())))
            as_it_is = {place: value for place in first if (value := self.held(place)) is not None}
            graphs, inputs = self._cut_out(as_it_is, below, {})
            typed_ = [self._typed(rank, change) for change in changes for rank in range(ranks)]
            given_ = [
                {**inputs[k % ranks], **{n: x for n, x in one.items() if n in inputs[k % ranks]}}
                for k, one in enumerate(typed_)
            ]
            instead = {(k, n): np.asarray(x.value) for k, one in enumerate(typed_) for n, x in one.items()
                       if n not in inputs[k % ranks]}  # fmt: skip
            with np.errstate(all="ignore"):
                found = run_stacked(
                    [*graphs] * len(changes), many, given_, seed=self.seed, constants=self.given.constants,
                    masks=lambda rank: self.given.masks(rank % ranks), instead=instead,
                )  # fmt: skip
        except (TantamountError, ValueError, IndexError):  # of one of them: each says so itself
            return None
        if found is None:
            return None
        self._spent(found.environments[:ranks], len(changes))
        return [found.environments[k * ranks : (k + 1) * ranks] for k in range(len(changes))]

    def _together_by_tape(
        self, changes: Sequence[Changes], below: set[Place]
    ) -> list[list[Mapping[str, Result]]] | None:
        """The same by the primitives of an execution of all ranks; ``None`` where it was none, or they do not do."""
        if self._tape is None or not self._tape.noted:
            return None
        changed = {place for one in changes for place in one}
        below = _closure(below, self.partners)
        given = {place for place in changed if below.isdisjoint(self.operands.get(place, ()))}
        computed = below - given
        try:
            with np.errstate(all="ignore"):
                found = run_changed(
                    self._tape,
                    self._classes,
                    self._stacked,
                    [{place: np.asarray(value) for place, value in one.items()} for one in changes],
                    self._by_class(computed),
                    self._by_class(given),
                    self.given.masks,
                    self.seed,
                )
        except (TantamountError, ValueError, IndexError):
            return None
        self._spent(found[0], len(changes))
        return found

    def _by_class(self, places: Collection[Place]) -> list[set[str]]:
        """The names of places, by the class of their ranks."""
        return [{name for rank, name in places if rank in one.ranks} for one in self._classes]

    def _spent(self, environments: Iterable[Mapping[str, Result]], times: int) -> None:
        """Count the values that were computed, each so many times."""
        for new in environments:
            self.effort += sum(
                1 + times * prod(value.shape) // _ELEMENTS for value in new.values() if isinstance(value, Tensor)
            )

    def _typed(self, rank: int, changes: Changes) -> dict[str, Tensor]:
        """The changed values of one rank."""
        found: dict[str, Tensor] = {}
        for (on, name), value in changes.items():
            if on == rank:
                before = self.environments[rank].get(name)
                if not isinstance(before, Tensor):
                    raise Unsupported("a change of several results")
                found[name] = typed(np.asarray(value), before)
        return found

    def gives(self, changes: Changes, wanted: Changes) -> bool:
        """True if values become others, further below, once some are changed."""
        between = self.below(changes) & self.above(wanted)
        try:
            environments = self._computed(changes, _closure(between, self.partners))
        except TantamountError:
            return False
        found = {place: environments[place[0]].get(place[1]) for place in wanted}
        return all(
            isinstance(value, Tensor) and close(np.asarray(value.value), wanted[place])
            for place, value in found.items()
        )

    def affected(self, changes: Changes, outputs: Sequence[str]) -> frozenset[str]:
        """Those of some outputs that have other values, right or wrong, once values are changed; all of them where
        they cannot be computed then."""
        try:
            environments = self._changed(changes, {}, outputs)
        except TantamountError:
            return frozenset(outputs)

        def differs(rank: int, name: str) -> bool:
            before, after = self.held((rank, name)), environments[rank].get(name)
            return before is not None and isinstance(after, Tensor) and not close(before, np.asarray(after.value))

        return frozenset(one for one in outputs if any(differs(*place) for place in self.output_places(one)))

    def _near(self, changes: Changes, count: int) -> set[Place]:
        """The first places below some, by their positions in the graphs, all members of a collective at once."""
        pending = [(self.position[place], place) for place in changes]
        heapify(pending)
        found: set[Place] = set()
        while pending and len(found) < count:
            _, place = heappop(pending)
            if place in found:
                continue
            found.add(place)
            if place not in changes:
                found.update(self.together.get(place, ()))
            for reader in self.readers.get(place, ()):
                heappush(pending, (self.position[reader], reader))
        return found

    @cached_property
    def position(self) -> Mapping[Place, int]:
        """The position of every node in its rank's graph."""
        return {
            (rank, node.name): k
            for rank, graph in enumerate(self.job.implementation)
            for k, node in enumerate(graph.nodes)
        }

    def _with_other_sides(self, below: set[Place], changes: Changes) -> set[Place]:
        """Places below changes, and what sends and receives on the other side of messages there. Where what is received
        is changed itself, nothing is sent."""
        together = self.messages.together
        if not together:
            return below
        received = {place for place in changes if place in together and self._node(place).target != "getitem"}
        unsent = {other for place in received for other in together[place]}
        if any(set(together[place]) - received for place in unsent):
            raise Unsupported("one of several messages")
        left_out = received | unsent
        edges = {place: some for place, some in together.items() if place not in left_out}
        return (_closure(below - changes.keys() - left_out, edges) - left_out) | (below & changes.keys())

    def _node(self, place: Place) -> Node:
        return self.job.implementation[place[0]].by_name[place[1]]

    def _changed(self, changes: Changes, instead: Mapping[Place, Node], outputs: Sequence[str]) -> list[Environment]:
        """The values of all places once values are changed; those that no output of ``outputs`` depends on stay."""
        below = self.below([*changes, *instead]) & self._needed(tuple(outputs))
        environments = self._computed(changes, below, instead)
        return [{**old, **new} for old, new in zip(self.environments, environments, strict=True)]

    def _computed(
        self, changes: Changes, below: set[Place], instead: Mapping[Place, Node] | None = None
    ) -> list[Environment]:
        """The values of some places below changes, and of what they read."""
        if not instead and not self.messages.together:
            known = self._together_by_tape([changes], below)
            if known is not None:
                return [dict(one) for one in known[0]]
        graphs, inputs = self._cut_out(changes, below, instead or {})
        try:
            environments = self._run(graphs, inputs, self.environments)
        except (ValueError, IndexError) as problem:  # NumPy on values that were never meant to meet
            raise Unsupported(str(problem)) from None
        self._spent(environments, 1)
        return environments

    def _cut_out(
        self, changes: Changes, below: set[Place], other: Mapping[Place, Node]
    ) -> tuple[list[Graph], list[dict[str, Tensor]]]:
        """The programs that compute some places below changes, and their inputs; one for ranks whose programs are."""
        below = self._with_other_sides(below, changes)
        graphs: list[Graph] = []
        inputs: list[dict[str, Tensor]] = []
        known: dict[object, Graph] = {}
        for rank, graph in enumerate(self.job.implementation):
            here = sorted((one for one in below if one[0] == rank), key=self.position.__getitem__)
            given_ = self._typed(rank, {place: changes[place] for place in here if place in changes})
            nodes = [other.get(place, graph.by_name[place[1]]) for place in here if place not in changes]
            computed = [replace(node, type=None) for node in nodes if node.op != "input"]
            needed = {ref for node in computed for ref in references(node)} - {node.name for node in computed}
            for name in needed - set(given_):
                value = self.environments[rank].get(name)
                if not isinstance(value, Tensor):
                    raise Unsupported("a part of several results")
                given_[name] = value
            key = (id(graph), frozenset(given_), *((node.name, id(other.get((rank, node.name)))) for node in computed))
            if key not in known:
                read = (Node(name, "input", name) for name in given_)
                known[key] = replace(graph, nodes=(*read, *computed), outputs=())
            graphs.append(known[key])
            inputs.append(given_)
        return graphs, inputs


def _tensors(environments: Sequence[Mapping[str, Result]], places: Iterable[Place]) -> Mapping[Place, Tensor]:
    """The values of some places that are tensors."""
    return {place: value for place in places if isinstance(value := environments[place[0]].get(place[1]), Tensor)}


def _same(a: Node, b: Node) -> bool:
    """True for one call: what is tried instead of a node has its name, and may have its operands."""
    return a.target == b.target and a.args == b.args and a.kwargs == b.kwargs


def _unchanged(before: Result, after: Result) -> bool:
    if not (isinstance(before, Tensor) and isinstance(after, Tensor)) or before.type != after.type:
        return False
    return before.value is after.value or np.array_equal(before.value, after.value, equal_nan=True)


def _closure(places: Iterable[Place], edges: Mapping[Place, tuple[Place, ...]]) -> set[Place]:
    found: set[Place] = set()
    pending = list(places)
    while pending:
        place = pending.pop()
        if place not in found:
            found.add(place)
            pending.extend(edges.get(place, ()))
    return found


def typed(value: Array, like: Tensor) -> Tensor:
    """A tensor of the element type of another."""
    return Tensor(value.shape[:-1] if like.dtype.is_complex else value.shape, like.dtype, value)


def differing(wanted: Array, found: Array) -> int:
    """The number of elements that differ by more than rounding; where nothing is wanted, anything will do."""
    return int(np.count_nonzero(_apart(wanted, found)))


def _apart(wanted: Array, found: Array) -> Array:
    """The elements that differ by more than rounding."""
    if wanted.shape != found.shape:
        raise Unsupported("another shape")
    defined = np.isfinite(wanted)
    largest = float(np.abs(wanted[defined]).max(initial=0.0))
    with np.errstate(all="ignore"):
        close = np.abs(wanted - found) <= _RELATIVE * max(largest, 1e-300)
    return np.asarray(defined & ~close)
