"""Checks that the parts of a plan fit together: at every joint, whoever makes a tensor and whoever takes it must mean
the same tensor, in the same shape and type, and the ranks must hold of it what they are believed to hold.

A joint is looked at once for every pair of *parts* that meet there, whatever the number of pieces. What is compared are
relations that the parts' own proofs start from and end with; names play no role but to say which tensor is meant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, product
from math import prod

from tantamount.capture.inplace import overwritten_before
from tantamount.capture.late import late
from tantamount.ir.graph import Graph, Output
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Partial
from tantamount.plan.finish import finish_joints
from tantamount.plan.joints import Joint, differ, sent
from tantamount.plan.own_updates import own_updates
from tantamount.plan.parts import Held, Part, Plan, Runs

__all__ = ["Joint", "joints_of"]


def joints_of(plan: Plan) -> tuple[Joint, ...]:
    """Every joint of a plan, those of the model first. Linear in pieces and in the tensors of the parts."""
    within = (*_roles(plan), *_model(plan), *_batches(plan), *_causes(plan), *_carried(plan))
    return (*within, *finish_joints(plan), *own_updates(plan))


# ---------------------------------------------------------------------------------------------- every tensor has a role
def _roles(plan: Plan) -> Iterator[Joint]:
    """Tensors of parts that the plan says nothing about, or two things."""
    for part in plan.parts.values():
        if part.name not in plan.used:
            yield Joint("", part.name, part.name, "", problem=f"{part.name} is a part that never runs")
        if part.runs is Runs.PASS:
            inputs = [*part.parameters, *part.frozen, *part.data, *(s.forward for s in part.before.values())]
            inputs += [
                *part.symbols,
                *part.carried,
                *(s.backward for s in part.after.values() if s.backward is not None),
            ]
            outputs = [
                *part.parameters.values(),
                *part.results,
                *part.carried.values(),
                *(s.forward for s in part.after.values()),
            ]
            outputs += [s.backward for s in part.before.values() if s.backward is not None]
        else:
            inputs, outputs = [*part.takes, *part.sums, *part.members, *part.summands], [*part.gives, *part.updates]
        given = [*part.job.outputs, *(name for name in part.carried.values() if name not in part.job.outputs)]
        for what, named, all_ in (("input", inputs, part.job.inputs), ("output", outputs, given)):
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
        yield from _unlike(part)
        if any(relation.placements is None or relation.equal for relation in part.job.inputs.values()) or any(
            expectation.placements is None or expectation.equal for expectation in part.job.outputs.values()
        ):
            problem = f"{part.name} has relations that are no placements"
            yield Joint("", part.name, part.name, "", problem=problem, wrong=False)


def _outside(part: Part) -> Iterator[Joint]:
    """Joints for the tensors that a program leaves behind beside the outputs that the specification knows: each would
    be there when the part runs for the next time, or when another one does. One device may overwrite what it replaces;
    of ranks it is not known what else lies in that memory."""
    asked = [*part.job.outputs.values(), *(wanted for job in part.steps[:1] for wanted in job.outputs.values())]
    replaced = {tensor for tensor, of in part.takes.items() if of in part.updates.values()}
    for graph in part.job.programs:
        known = {graph.output_nodes.get(one.name, one.name) for one in asked}
        more = [output.name for output in graph.outputs if output.node not in known]
        if more:
            problem = f"{graph.path} also gives {', '.join(more)}, of which the specification knows nothing"
            yield Joint(more[0], part.name, part.name, "", problem=problem, wrong=False)
    for graph in (part.job.specification, *part.job.programs):
        for node in overwritten_before(graph):
            if graph is not part.job.specification or node.name not in replaced:
                problem = f"{graph.path} overwrites its {node.op} {node.name}"
                yield Joint(node.name, part.name, part.name, "", problem=problem, wrong=False)


def _unlike(part: Part) -> Iterator[Joint]:
    """Joints for the tensors that ranks have in different dtypes: at all others only the first rank's is looked at."""
    graphs = {id(graph): graph for graph in part.job.implementation}.values()
    given = [(tensor, [graph.by_name.get(one.name) for graph in graphs]) for tensor, one in part.job.inputs.items()]
    made = [
        (tensor, [graph.by_name.get(graph.output_nodes.get(one.name, one.name)) for graph in graphs])
        for tensor, one in part.job.outputs.items()
    ]
    for tensor, nodes in (*given, *made):
        dtypes = dict.fromkeys(node.type.dtype.label for node in nodes if node is not None and node.type is not None)
        if len(dtypes) > 1:
            problem = f"{tensor} of {part.name} is {' on some ranks and '.join(dtypes)} on others"
            yield Joint(tensor, part.name, part.name, "", problem=problem, wrong=False)


# ---------------------------------------------------------------------------------------------- the model
def _model(plan: Plan) -> Iterator[Joint]:
    """Between neighbouring pieces: what goes forward, and the gradient that comes back."""
    met = Counter((a.part, b.part) for a, b in pairwise(plan.pieces))
    for (first, second), count in met.items():
        pairs = {(way[first].name, way[second].name): (way[first], way[second]) for way in plan.ways}
        for giver, taker in pairs.values():
            yield from _between(plan, giver, taker, count)
    if plan.pieces:
        for part, streams, where in (
            (plan.parts[plan.pieces[0].part], "before", "first"),
            (plan.parts[plan.pieces[-1].part], "after", "last"),
        ):
            for name in getattr(part, streams):
                problem = f"the {where} piece exchanges {name} with a piece {streams} it, and there is none"
                yield Joint(name, part.name, part.name, "", problem=problem)
    yield from _empty(plan)


def _empty(plan: Plan) -> Iterator[Joint]:
    """Joints for stages without pieces that pass something on between ranks of another number: a plan has messages for
    what pieces give each other, so that the number of ranks changes once at most on the way from one to the next."""
    for chain in plan.schedule.chains if plan.uneven else ():
        passed: list[int] = []
        for stage in chain.stages:
            own = plan.stages[stage] if stage < len(plan.stages) else ()
            if not own and not passed:
                continue
            passed.append(stage)
            ranks = [plan.ranks[plan.schedule.owners[one]] for one in passed]
            if own and sum(a != b for a, b in pairwise(ranks)) > 1:
                problem = "it has no pieces, and other numbers of ranks than the stages that it passes something on for"
                yield Joint("", f"stage {passed[1]}", f"stage {passed[1]}", "", problem=problem, wrong=False)
            passed = [stage] if own else passed


def _passed(plan: Plan, giver: Part, made: Held, taker: Part, read: Held) -> str:
    """The reason why a tensor that passes between neighbouring pieces does not come as it is taken. Rank k of a stage
    sends to rank k of the next one, if both have as many; otherwise the plan says who sends what."""
    if prod(made.sizes.values()) == prod(read.sizes.values()):
        return differ(made, read)
    messages = plan.messages.get((giver.layout, taker.layout))
    if messages is None:
        return f"nothing says what ranks of {giver.layout} send to those of {taker.layout}, which are of another number"
    return sent(made, read, messages, plan.axis)


def _between(plan: Plan, first: Part, second: Part, count: int) -> Iterator[Joint]:
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
            _passed(plan, first, made, second, read),
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
                str(made), count, _passed(plan, second, made, first, read),
            )  # fmt: skip


def _batches(plan: Plan) -> Iterator[Joint]:
    """Joints for the tensors of which a microbatch is one thing in one pipeline and another thing in another, or may be
    none by itself: each passes one of them, and all together are the batch."""
    for part in plan.parts.values() if plan.apart else ():
        if part.runs is not Runs.PASS:
            continue
        other = plan.parts[part.base or part.name]
        for tensor, mine, its in (
            *((name, part.input(name), other.input(name)) for name in part.job.inputs),
            *((name, part.output(name), other.output(name)) for name in part.job.outputs),
        ):
            here, there = mine.placements[plan.axis], its.placements[plan.axis]
            if here != there:
                problem = f"what a microbatch has of it is {here} over {plan.axis} here, and {there} there"
                yield Joint(tensor, other.name, part.name, str(mine), problem=problem)
            elif mine.extreme and isinstance(here, Partial):
                yield Joint(tensor, part.name, part.name, str(mine), problem=mine.extreme, wrong=False)


def _causes(plan: Plan) -> Iterator[Joint]:
    """Joints for what goes forward and depends on what comes back: that must not be, or no schedule could carry it
    out."""
    for part in plan.parts.values():
        gradients = [stream.backward for stream in part.after.values() if stream.backward is not None]
        if part.runs is not Runs.PASS or not gradients:
            continue
        job, forward = part.job, [stream.forward for stream in part.after.values()]
        ranks = list({id(graph): graph for graph in job.implementation}.values())
        named = [job.inputs[name].name for name in gradients], [job.outputs[name].name for name in forward]
        for graphs, given, results in (([job.specification], gradients, forward), (ranks, *named)):
            for name, output, sure in _depending(graphs, given, job.mesh):
                if output.name in results:
                    problem = f"{output.name} of {part.name} goes forward, and depends on {name}, which comes back"
                    yield Joint(output.name, part.name, part.name, "", problem=problem, wrong=sure)


def _depending(graphs: Sequence[Graph], given: Collection[str], mesh: Mesh) -> Iterator[tuple[str, Output, bool]]:
    """The given inputs, each with the outputs that may depend on it; true of those that do by their own program."""
    for name in sorted(given):
        for graph, waiting in zip(graphs, late(graphs, {name}, mesh), strict=True):
            for output in graph.outputs:
                if output.node in waiting:
                    yield name, output, name in graph.ancestors(output.node)


def _carried(plan: Plan) -> Iterator[Joint]:
    """Between microbatches: what one leaves to the next must be held as that takes it, nothing else may depend on it,
    and it must not wait for the backward pass, whose order is another one."""
    for part in plan.parts.values():
        if not part.carried:
            continue
        count = plan.numbers().get(part.name, 1)
        if plan.copies > 1:
            problem = f"{part.name} carries state on, and has {plan.copies} copies, each with microbatches of its own"
            yield Joint("", part.name, part.name, "", count, problem, wrong=False)
        steps = [replace(part, job=step, kept="") for step in part.steps]
        for one, other in product(steps, repeat=2):  # after the last microbatch comes the first of the next iteration
            for name, new in part.carried.items():
                made, read = one.output(new), other.input(name)
                target = f"{part.name}, next microbatch"
                yield Joint(name, f"{part.name}: {new}", target, str(made), count, differ(made, read))
        (step, *_) = part.steps
        back = {stream.backward for stream in part.after.values() if stream.backward is not None}
        ranks = list({id(graph): graph for graph in step.implementation}.values())
        named = {step.inputs[name].name for name in part.carried}, {step.inputs[name].name for name in back}
        for graphs, (before, later), passed_on in (
            ([step.specification], (set(part.carried), back), set(part.carried.values())),
            (ranks, named, {wanted.name for wanted in step.outputs.values()}),
        ):
            for name, output, _ in _depending(graphs, before | later, step.mesh):
                if name in (later if output.name in passed_on else before):
                    why = "comes back" if output.name in passed_on else "is carried from one microbatch to the next"
                    problem = f"{output.name} of {part.name} depends on {name}, which {why}"
                    yield Joint(output.name, part.name, part.name, "", problem=problem, wrong=False)
