"""Updates that are made from the gradients of other parameters and not from their own.

Who takes what is wiring, which a plan says once for both of its sides, so that no proof of a part and no relation tells
two gradients of one shape apart. But every update has a gradient that it cannot do without: by way of the tensors that
pieces give and take, the new value of a parameter must depend on the gradient that the plan says is its own, if it
depends on gradients of pieces at all. What all ranks make together (the norm) does not count: it depends on all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from tantamount.plan.joints import Joint
from tantamount.plan.parts import Part, Plan, Runs

__all__ = ["own_updates"]

Sources = dict[str, frozenset[str]]  # of tensors, the parameters from whose gradients they are made


def own_updates(plan: Plan) -> Iterator[Joint]:
    """A joint for every parameter whose new value is made from gradients, and not from its own."""
    known: dict[tuple[str, int], Sources] = {}
    shared: dict[str, Sources] = {name: {} for name in plan.tied}
    ways = plan.ways
    for way, parts in enumerate(ways):
        for name in plan.numbers():
            found: Sources = {}
            for parameter, gradient in parts[name].parameters.items():
                found[gradient] = found.get(gradient, frozenset()) | {parameter}
            known[name, way] = found
    numbers = plan.numbers()
    for name in (*plan.reduce, *plan.update):
        for way, parts in enumerate(ways):
            part = parts[name]
            if part.runs is Runs.PIECE and (part.of, way) in known:
                found = known[part.of, way]
                taken = {tensor: found.get(one, frozenset[str]()) for tensor, one in part.takes.items()}
                for tensor, one in part.summands.items():
                    taken[tensor] = known.get((part.of, one.pipeline), {}).get(one.tensor, frozenset())
                trained = plan.parts[part.of].parameters
                yield from _made(part, taken, found, trained, numbers[part.of])
            elif part.runs is Runs.TIED and way == 0:
                own = shared[part.of]
                taken = {tensor: own.get(one, frozenset[str]()) for tensor, one in part.takes.items()}
                taken |= {tensor: _of_members(plan, part, summed, known) for tensor, summed in part.members.items()}
                yield from _made(part, taken, own, (part.of,), 1)


def _made(
    part: Part, taken: Mapping[str, frozenset[str]], found: Sources, trained: Collection[str], count: int
) -> Iterator[Joint]:
    """The joints of the wrong updates of ``trained`` parameters; what the part gives is noted in ``found``."""
    graph = part.job.specification
    nodes = {output.name: output.node for output in graph.outputs}

    def sources(output: str) -> frozenset[str]:
        above = graph.ancestors(nodes.get(output, ""))
        return frozenset[str]().union(*(made for tensor, made in taken.items() if tensor in above))

    for output, name in part.gives.items():
        found[name] = sources(output)
    for output, name in part.updates.items():
        made = sources(output) if name in trained else frozenset[str]()
        if made and name not in made:
            others = " and ".join(sorted(made))
            gradient = "the gradient" if len(made) == 1 else "the gradients"
            problem = f"the new value of {name} is made from {gradient} of {others}, and not from that of {name}"
            held = str(part.output(output))
            yield Joint(f"new {name}", f"{part.name}: {output}", f"{part.of}, next iteration", held, count, problem)


def _of_members(
    plan: Plan, part: Part, summed: Mapping[str, str], known: Mapping[tuple[str, int], Sources]
) -> frozenset[str]:
    """The parameters from whose gradients the sum over all that share one is made: its own name for the shared one."""
    found: set[str] = set()
    for member, name in summed.items():
        own = plan.tied[part.of].get(member)
        for parameter in known.get((member, 0), {}).get(name, ()):
            found.add(part.of if parameter == own else f"{parameter} of {member}")
    return frozenset(found)
