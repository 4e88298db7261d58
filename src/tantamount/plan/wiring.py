"""Whether the parts of a plan fit together: at every joint, whoever makes a tensor and whoever takes it must mean the
same tensor, in the same shape and type, and the ranks must hold of it what they are believed to hold.

A joint is looked at once for every pair of *parts* that meet there, whatever the number of pieces. What is compared are
relations that the parts' own proofs start from and end with; names play no role but to say which tensor is meant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from tantamount.capture.inplace import overwritten_input
from tantamount.ir.relation import Replicate
from tantamount.ops.classes import rank_classes
from tantamount.plan.parts import Held, Part, Plan, Runs, is_sum, shown

__all__ = ["Joint", "joints_of"]


@dataclass(frozen=True, slots=True)
class Joint:
    """Where a tensor passes from one part to another: ``tensor`` says which one, ``source`` who makes it, ``target``
    who takes it; ``relation`` is what the ranks hold of it. ``count``: how many joints of the plan this one stands for.
    ``problem`` is one sentence if the two do not fit, ``wrong`` is true if that is a mistake of the plan, and false if
    it is only not known to be right."""

    tensor: str
    source: str
    target: str
    relation: str
    count: int = 1
    problem: str = ""
    wrong: bool = True


def joints_of(plan: Plan) -> tuple[Joint, ...]:
    """Every joint of a plan, those of the model first. Linear in pieces and in the tensors of the parts."""
    return (*_roles(plan), *_model(plan), *_causes(plan), *_Finish(plan).joints())


def _differ(made: Held, taken: Held) -> str:
    """Why two descriptions of one tensor do not fit; empty if they do."""
    if made.whole != taken.whole:
        return f"the whole is {made.whole} there and {taken.whole} here"
    if made.placements != taken.placements:
        return f"the ranks have {shown(made.placements)}, but {shown(taken.placements)} is taken for granted"
    if made.local != taken.local:
        return f"a rank has {made.local}, but {taken.local} is read"
    return ""


# ---------------------------------------------------------------------------------------------- every tensor has a role
def _roles(plan: Plan) -> Iterator[Joint]:
    """Tensors of parts that the plan says nothing about, or two things."""
    used = {*plan.numbers(), *plan.reduce, *plan.update}
    for part in plan.parts.values():
        if part.name not in used:
            yield Joint("", part.name, part.name, "", problem=f"{part.name} is a part that never runs")
        if part.runs is Runs.PASS:
            inputs = [*part.parameters, *part.frozen, *part.data, *(s.forward for s in part.before.values())]
            inputs += [s.backward for s in part.after.values() if s.backward is not None]
            outputs = [*part.parameters.values(), *part.results, *(s.forward for s in part.after.values())]
            outputs += [s.backward for s in part.before.values() if s.backward is not None]
        else:
            inputs, outputs = [*part.takes, *part.sums], [*part.gives, *part.updates]
        for what, named, all_ in (("input", inputs, part.job.inputs), ("output", outputs, part.job.outputs)):
            times = Counter(named)
            for tensor in all_:
                if times[tensor] != 1:
                    often = "nothing to the plan" if not times[tensor] else f"{times[tensor]} things to the plan"
                    problem = f"the {what} {tensor} of {part.name} is {often}"
                    yield Joint(tensor, part.name, part.name, "", problem=problem)
        shared = [name for name, times in Counter(r.name for r in part.job.inputs.values()).items() if times > 1]
        for name in shared:
            problem = f"two inputs of {part.name} are one tensor of its program, {name}"
            yield Joint(name, part.name, part.name, "", problem=problem, wrong=False)
        yield from _outside(part)
        if any(relation.placements is None or relation.equal for relation in part.job.inputs.values()) or any(
            expectation.placements is None or expectation.equal for expectation in part.job.outputs.values()
        ):
            problem = f"{part.name} has relations that are no placements"
            yield Joint("", part.name, part.name, "", problem=problem, wrong=False)


def _outside(part: Part) -> Iterator[Joint]:
    """What a program leaves behind beside the outputs that the specification knows: it would be there when the part
    runs for the next time, or when another one does."""
    expected = {expectation.name for expectation in part.job.outputs.values()}
    for graph in {id(graph): graph for graph in part.job.implementation}.values():
        more = [output.name for output in graph.outputs if output.name not in expected and output.node not in expected]
        if more:
            problem = f"{graph.path} also gives {', '.join(more)}, of which the specification knows nothing"
            yield Joint(more[0], part.name, part.name, "", problem=problem, wrong=False)
        written = overwritten_input(graph)
        if written is not None:
            problem = f"{graph.path} overwrites its input {written}"
            yield Joint(written, part.name, part.name, "", problem=problem, wrong=False)


# ---------------------------------------------------------------------------------------------- the model
def _model(plan: Plan) -> Iterator[Joint]:
    """Between neighbouring pieces: what goes forward, and the gradient that comes back."""
    met = Counter((a.part, b.part) for a, b in pairwise(plan.pieces))
    for (first, second), count in met.items():
        yield from _between(plan.parts[first], plan.parts[second], count)
    if plan.pieces:
        for part, streams, where in (
            (plan.parts[plan.pieces[0].part], "before", "first"),
            (plan.parts[plan.pieces[-1].part], "after", "last"),
        ):
            for name in getattr(part, streams):
                problem = f"the {where} piece exchanges {name} with a piece {streams} it, and there is none"
                yield Joint(name, part.name, part.name, "", problem=problem)


def _between(first: Part, second: Part, count: int) -> Iterator[Joint]:
    for name in {**first.after, **second.before}:
        given, taken = first.after.get(name), second.before.get(name)
        if given is None or taken is None:
            giver, other = (second, first) if given is None else (first, second)
            does = "takes" if given is None else "gives"
            problem = f"{giver.name} {does} {name}, of which {other.name} knows nothing"
            yield Joint(name, first.name, second.name, "", count, problem)
            continue
        made, read = first.output(given.forward), second.input(taken.forward)
        yield Joint(
            name, f"{first.name}: {given.forward}", f"{second.name}: {taken.forward}", str(made), count,
            _differ(made, read),
        )  # fmt: skip
        if (given.backward is None) != (taken.backward is None):
            problem = (
                f"{second.name} gives a gradient of {name} that {first.name} does not take" if given.backward is None
                else f"{first.name} takes a gradient of {name} that {second.name} does not give"
            )  # fmt: skip
            yield Joint(f"gradient of {name}", second.name, first.name, "", count, problem)
        elif given.backward is not None and taken.backward is not None:
            made, read = second.output(taken.backward), first.input(given.backward)
            yield Joint(
                f"gradient of {name}", f"{second.name}: {taken.backward}", f"{first.name}: {given.backward}",
                str(made), count, _differ(made, read),
            )  # fmt: skip


def _causes(plan: Plan) -> Iterator[Joint]:
    """What goes forward must not depend on what comes back, or no schedule could carry it out. A part whose ranks run
    different programs is not looked at so closely, for a collective of theirs may depend on anything."""
    for part in plan.parts.values():
        gradients = [stream.backward for stream in part.after.values() if stream.backward is not None]
        if part.runs is not Runs.PASS or not gradients:
            continue
        job = part.job
        if len(rank_classes(job.implementation, job.mesh)) > 1:
            problem = f"the ranks of {part.name} run programs of different structure"
            yield Joint("", part.name, part.name, "", problem=problem, wrong=False)
        late = {job.inputs[name].name for name in gradients}
        sides = [(job.specification, set(gradients), {s.forward for s in part.after.values()})]
        named = {job.outputs[s.forward].name for s in part.after.values()}
        sides += [(graph, late, named) for graph in {id(g): g for g in job.implementation}.values()]
        for graph, given, results in sides:
            for output in graph.outputs:
                found = given & graph.ancestors(output.node).keys() if output.name in results else ()
                for name in found:
                    problem = f"{output.name} of {part.name} goes forward, and depends on {name}, which comes back"
                    yield Joint(output.name, part.name, part.name, "", problem=problem)


# ---------------------------------------------------------------------------------------------- after the microbatches
@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a tensor: what the ranks hold, who made it."""

    held: Held
    source: str


class _Finish:
    """The parts that run after all microbatches, in their order: what they take must be there, as they believe it to
    be, and what they leave must be what the next iteration starts from."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.numbers = plan.numbers()
        self.whole: dict[str, _Known] = {}  # tensors of the plan
        self.own: dict[str, dict[str, _Known]] = {name: {} for name in self.numbers}  # of a piece of every part
        self.taken: set[tuple[str, str]] = set()  # gradients, by part and name
        self.updated: set[tuple[str, str]] = set()

    def joints(self) -> Iterator[Joint]:
        for name in self.numbers:
            yield from self._passed(self.plan.parts[name])
        for order in (self.plan.reduce, self.plan.update):
            for name in order:
                part = self.plan.parts[name]
                yield from self._piece(part) if part.runs is Runs.PIECE else self._once(part)
        yield from self._left()

    def _passed(self, part: Part) -> Iterator[Joint]:
        """Parameters and accumulated gradients of the pieces of a part."""
        axis, count = self.plan.axis, self.numbers[part.name]
        for parameter in (*part.parameters, *part.frozen):
            held = part.input(parameter)
            if held.placements[axis] != Replicate():
                problem = f"{parameter} is {held.placements[axis]} over {axis}: a parameter is the same for all of them"
                yield Joint(parameter, part.name, part.name, str(held), count, problem)
            self.own[part.name][parameter] = _Known(held.without(axis), f"{part.name}: {parameter}")
        for parameter, gradient in part.parameters.items():
            held = part.output(gradient)
            if self.plan.microbatches > 1 and not is_sum(held.placements[axis]):
                problem = (
                    f"{gradient} is {held.placements[axis]} over {axis}: gradients are added up over microbatches, "
                    'which is right for Partial("sum")'
                )
                yield Joint(gradient, part.name, "accumulation", str(held), count, problem)
            self.own[part.name][gradient] = _Known(held.without(axis), f"{part.name}: {gradient}")
            whole = part.input(parameter).whole
            if held.whole is not None and whole is not None and held.whole.shape != whole.shape:
                problem = (
                    f"{gradient} has the shape of another tensor than {parameter}, whose gradient it is said to be"
                )
                yield Joint(gradient, part.name, "accumulation", str(held), count, problem)

    def _piece(self, part: Part) -> Iterator[Joint]:
        of, target = part.of, part.name
        if of not in self.own:
            yield Joint("", target, of, "", problem=f"{target} is for pieces of {of}, of which the model has none")
            return
        own, count = self.own[of], self.numbers[of]
        for name in part.state:
            entry = next((tensor for tensor, wanted in part.takes.items() if wanted == name), None)
            if entry is None or name in own or name in self.whole:
                yield Joint(name, of, target, "", count, f"{name} is said to be state of {of} by {target}, and is not")
            else:
                own[name] = _Known(part.input(entry), f"{of}: {name}, as it was before")
        for tensor, name in part.takes.items():
            yield self._taken(part, tensor, name, own.get(name) or self._symbol(part, tensor, name), count)
            if name in self.plan.parts[of].parameters.values():
                self.taken.add((of, name))
        for tensor, name in part.gives.items():
            if name in own or name in self.whole:
                yield Joint(name, target, of, "", count, f"{target} gives {name} to pieces that have one already")
            own[name] = _Known(part.output(tensor), f"{target}: {tensor}")
        for tensor, name in part.updates.items():
            yield from self._update(part, tensor, name, own, count)

    def _update(self, part: Part, tensor: str, name: str, own: Mapping[str, _Known], count: int) -> Iterator[Joint]:
        """A new value must be held as the old one was: then the next iteration starts from what this one did."""
        of, known = part.of, own.get(name)
        made = part.output(tensor)
        if known is None or (of, name) in self.updated:
            problem = f"{name} is replaced twice" if known else f"{name} is no parameter or state of {of}"
        else:
            problem = _differ(made, known.held)
        self.updated.add((of, name))
        yield Joint(f"new {name}", f"{part.name}: {tensor}", f"{of}, next iteration", str(made), count, problem)

    def _once(self, part: Part) -> Iterator[Joint]:
        pipeline = self.plan.pipeline
        for tensor, name in part.takes.items():
            yield self._taken(part, tensor, name, self.whole.get(name) or self._symbol(part, tensor, name), 1)
        for tensor, name in part.sums.items():
            read = part.input(tensor)
            if self.plan.devices > 1 and not is_sum(read.placements[pipeline]):
                problem = (
                    f"every stage has the sum over its own pieces, but {read.placements[pipeline]} is taken for granted"
                )
                yield Joint(f"sum of {name}", "all pieces", f"{part.name}: {tensor}", str(read), 1, problem)
            read = read.without(pipeline)
            for of, own in self.own.items():
                known = own.get(name)
                if known is None and not self.plan.parts[of].parameters:
                    continue  # nothing of these pieces is trained
                made = read if known is None else known.held
                problem = f"pieces of {of} have no {name}" if known is None else _differ(made, read)
                source = of if known is None else known.source
                yield Joint(f"sum of {name}", source, f"{part.name}: {tensor}", str(made), self.numbers[of], problem)
        for tensor, name in part.gives.items():
            made = part.output(tensor)
            if name in self.whole or any(name in own for own in self.own.values()):
                yield Joint(name, part.name, part.name, "", problem=f"{part.name} gives {name}, which there is already")
            self.whole[name] = _Known(made, f"{part.name}: {tensor}")

    def _symbol(self, part: Part, tensor: str, name: str) -> _Known | None:
        """A tensor of the plan as a part takes it: of one that is made by all ranks, what a stage has."""
        if name in self.plan.symbols:
            held = part.input(tensor)
            same = replace(held, placements={axis: Replicate() for axis in held.placements})
            return self.whole.setdefault(name, _Known(same, "a number that is given"))
        known = self.whole.get(name)
        if known is None or part.runs is Runs.ONCE or self.plan.pipeline not in known.held.placements:
            return known
        if known.held.placements[self.plan.pipeline] != Replicate():
            return None
        return _Known(known.held.without(self.plan.pipeline), known.source)

    def _taken(self, part: Part, tensor: str, name: str, known: _Known | None, count: int) -> Joint:
        read, target = part.input(tensor), f"{part.name}: {tensor}"
        if (part.of, name) in self.updated:
            problem = f"{part.name} takes {name}, which was replaced before"
            return Joint(name, part.of, target, str(read), count, problem)
        if known is None:
            problem = f"{part.name} takes {name}, which nothing before it gives on every stage"
            return Joint(name, "", target, str(read), count, problem)
        made = known.held
        if name in self.plan.symbols:  # along what axes a part knows says nothing
            made = replace(made, placements={axis: Replicate() for axis in read.placements})
        return Joint(name, known.source, target, str(made), count, _differ(made, read))

    def _left(self) -> Iterator[Joint]:
        """Gradients that nobody takes, parameters that nobody updates, and state that is left behind."""
        if not self.plan.reduce and not self.plan.update:
            return
        for of in self.numbers:
            part = self.plan.parts[of]
            for parameter, gradient in part.parameters.items():
                if (of, gradient) not in self.taken:
                    problem = f"nothing takes {gradient} of {of}"
                    yield Joint(gradient, of, "", "", self.numbers[of], problem)
                if (of, parameter) not in self.updated:
                    problem = f"nothing updates {parameter} of {of}, which has a gradient"
                    yield Joint(parameter, of, "", "", self.numbers[of], problem)
