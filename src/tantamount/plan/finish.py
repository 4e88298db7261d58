"""Checks of what runs after the microbatches: reductions, norm, updates, and the start of the next iteration."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from tantamount.ir.relation import Partial, Placement, Replicate
from tantamount.plan.joints import Joint, differ, sent
from tantamount.plan.parts import COPY, TIED, WORLD, Held, Part, Plan, Runs, is_sum

__all__ = ["finish_joints"]


def finish_joints(plan: Plan) -> Iterator[Joint]:
    """The joints of the parts that run after all microbatches, those of gradients first."""
    return _Finish(plan).joints()


@dataclass(frozen=True, slots=True)
class _Known:
    """A tensor's description: what the ranks hold of it, and who made it. ``summand``: what they hold is of a tensor
    that copies with degrees of their own have to add up."""

    held: Held
    source: str
    summand: bool = False


Owner = tuple[str, int]  # what has tensors, pieces of a part or a shared parameter; and the pipeline of these copies


class _Finish:
    """The parts that run after all microbatches, in their order: what they take must be there, as they believe it to
    be, and what they leave must be what the next iteration starts from."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.numbers = plan.numbers()
        self.whole: dict[str, _Known] = {}  # tensors of the plan
        ways = range(len(plan.ways))
        self.own: dict[Owner, dict[str, _Known]] = {(name, way): {} for way in ways for name in self.numbers}
        self.shared: dict[str, dict[str, _Known]] = {name: {} for name in plan.tied}  # of a shared parameter
        self.taken: set[tuple[Owner, str]] = set()  # gradients, by owner and name
        self.updated: set[tuple[Owner, str]] = set()
        self.kept: dict[tuple[Owner, str], Held] = {}  # state, by owner and name
        self.given: dict[tuple[Owner, str], Held] = {}  # what parts give to owners
        self.read: set[tuple[Owner, str]] = set()
        self.shares: dict[str, dict[str, str]] = {name: {} for name in self.numbers}  # summands of what pieces share
        for name, members in plan.tied.items():
            for of, parameter in members.items():
                if of in self.shares:
                    self.shares[of][plan.parts[of].parameters[parameter]] = name

    def joints(self) -> Iterator[Joint]:
        for way, parts in enumerate(self.plan.ways):
            for name in self.numbers:
                yield from self._passed(parts[name], (name, way))
        for name in self.plan.tied:
            yield from self._tied(name)
        for name in (*self.plan.reduce, *self.plan.update):
            part = self.plan.parts[name]
            if part.runs is Runs.ONCE:
                yield from self._once(part)
            elif part.runs is Runs.TIED:
                yield from self._copies(part)
            else:
                for way, parts in enumerate(self.plan.ways):
                    yield from self._piece(parts[name], way)
        yield from self._left()

    def _passed(self, part: Part, owner: Owner) -> Iterator[Joint]:
        """Parameters and accumulated gradients of the pieces of a part, and numbers that it is given."""
        axis, count = self.plan.axis, self.numbers[owner[0]]
        for name in part.symbols:
            yield self._taken(part, name, name, self._symbol(part, name, name), count, owner)
        for parameter in (*part.parameters, *part.frozen):
            held = part.input(parameter)
            if held.placements[axis] != Replicate():
                problem = f"{parameter} is {held.placements[axis]} over {axis}: a parameter is the same for all of them"
                yield Joint(parameter, part.name, part.name, str(held), count, problem)
            self.own[owner][parameter] = _Known(
                self._copied(held.without(axis), Replicate()), f"{part.name}: {parameter}"
            )
        for name, new in part.carried.items():
            left = replace(part, job=part.steps[0], kept="").output(new).without(axis)
            self.own[owner][name] = _Known(self._copied(left, Replicate()), f"{part.name}: {new}")
        for parameter, gradient in part.parameters.items():
            held = part.output(gradient)
            if self.plan.microbatches > 1 and not is_sum(held.placements[axis]):
                problem = (
                    f"{gradient} is {held.placements[axis]} over {axis}: gradients are added up over microbatches, "
                    'which is right for Partial("sum")'
                )
                yield Joint(gradient, part.name, "accumulation", str(held), count, problem)
            self.own[owner][gradient] = _Known(
                self._copied(held.without(axis), Partial("sum")), f"{part.name}: {gradient}", self.plan.apart
            )
            if held.extreme:
                yield Joint(gradient, part.name, "accumulation", str(held), count, held.extreme, wrong=False)
            whole = part.input(parameter).whole
            if held.whole is not None and whole is not None and held.whole.shape != whole.shape:
                problem = (
                    f"{gradient} has the shape of another tensor than {parameter}, whose gradient it is said to be"
                )
                yield Joint(gradient, part.name, "accumulation", str(held), count, problem)

    def _copied(self, held: Held, placement: Placement) -> Held:
        """The tensor of a piece over its copies, if there are several: parameters are alike, and every copy has the sum
        of the gradients of its own microbatches. Copies with degrees of their own have no axis together."""
        return held.along(COPY, self.plan.copies, placement) if self.plan.copies > 1 and not self.plan.apart else held

    def _piece(self, part: Part, way: int) -> Iterator[Joint]:
        of, owner = part.of, (part.of, way)
        if owner not in self.own:
            yield Joint(
                "", part.name, of, "", problem=f"{part.name} is for pieces of {of}, of which the model has none"
            )
            return
        gradients = {*self.plan.parts[of].parameters.values(), *self.shares[of]}
        yield from self._shares(part)
        own = self.own[owner]
        for tensor in part.summands:
            yield self._summand(part, tensor, way)
        partly = frozenset(tensor for tensor, name in part.takes.items() if name in own and own[name].summand)
        made = frozenset(part.made_of(partly))
        mixed = partly and (part.summands or not made.isdisjoint(part.updates))
        if partly != self.plan.parts[part.base or part.name].partly or mixed:
            told = ", ".join(sorted({part.takes[tensor] for tensor in partly})) or "nothing of that kind"
            problem = (
                f"{part.name} takes {told} of its own pipeline alone, a summand of what all pipelines have; only parts "
                "that make summands of summands may, in all pipelines alike"
            )
            yield Joint(told, of, part.name, "", self.numbers[of], problem)
        yield from self._for(part, own, self.numbers[of], owner, made)
        self.taken |= {(owner, name) for name in part.takes.values() if name in gradients}

    def _shares(self, part: Part) -> Iterator[Joint]:
        """Summands of a shared parameter's gradient that a part takes: what it makes of them are summands, which is a
        claim of the part, and may be added up with the others, and nothing else."""
        of = part.of
        for tensor, name in part.takes.items():
            alone = self.shares[of].get(name, "")
            if not alone:
                continue
            for made in part.made_of([tensor]):
                given = part.gives.get(made, "")
                if not given or self.shares[of].setdefault(given, alone) != alone:
                    problem = f"{part.name} takes {name} of {of} alone, which is one summand of the gradient of {alone}"
                    yield Joint(name, of, part.name, "", self.numbers[of], problem)

    def _summand(self, part: Part, tensor: str, way: int) -> Joint:
        """An input that is what one pipeline has of a tensor, which the copies of this one are sent."""
        one, read = part.summands[tensor], part.input(tensor)
        known = self.own[part.of, one.pipeline].get(one.tensor)
        where, target = f"{part.of} in pipeline {one.pipeline}", f"{part.name}: {tensor}"
        if known is None:
            problem = f"{part.name} takes {one.tensor}, which nothing before it gives in pipeline {one.pipeline}"
            return Joint(one.tensor, where, target, str(read), self.numbers[part.of], problem)
        made, ranks = known.held, prod(known.held.sizes.values())
        self.taken.add(((part.of, one.pipeline), one.tensor))
        messages = one.messages
        if not known.summand:
            problem = f"{one.tensor} is the same in all pipelines, and no summand of what they have together"
        elif one.pipeline == way or (messages is None and ranks == prod(read.sizes.values())):
            problem = differ(made, read)
        elif messages is None:
            problem = f"nothing says what the {ranks} ranks of pipeline {one.pipeline} send"
        elif any(rank >= ranks for terms in messages.ranks for rank, _, _ in terms):
            problem = f"pipeline {one.pipeline} has {ranks} ranks, and others are said to send"
        else:
            problem = sent(made, read, messages, self.plan.axis)
        return Joint(
            one.tensor, f"{known.source}, pipeline {one.pipeline}", target, str(made), self.numbers[part.of], problem
        )

    def _tied(self, name: str) -> Iterator[Joint]:
        """The copies of a shared parameter, which must be alike: then one relation, and the axis of the copies, says
        what all hold. The copies are equal before the first iteration, as replicas are."""
        held: Held | None = None
        for member, parameter in self.plan.tied[name].items():
            if (member, 0) not in self.own:
                problem = f"{name} is shared by pieces of {member}, of which the model has none"
                yield Joint(name, member, member, "", problem=problem)
                continue
            found = self.own[member, 0][parameter].held.without(COPY)
            if held is None:
                self.shared[name][name] = _Known(
                    found.along(TIED, self._holders(name), Replicate()), f"{member}: {parameter}"
                )
            else:
                problem = differ(found, held)
                yield Joint(name, f"{member}: {parameter}", f"copies of {name}", str(found), 1, problem)
            held = found if held is None else held

    def _copies(self, part: Part) -> Iterator[Joint]:
        """A part that runs on the stages that have a copy of a shared parameter."""
        members = self.plan.tied[part.of]
        for tensor, summed in part.members.items():
            read = part.input(tensor)
            if summed.keys() != members.keys():
                problem = f"{tensor} of {part.name} is a sum over {', '.join(summed)}; {part.of} is shared by others"
                yield Joint(tensor, part.of, part.name, str(read), 1, problem)
            if part.job.mesh.axes[TIED] > 1 and not is_sum(read.placements[TIED]):
                problem = f"every copy has the sum over its own stage, but {read.placements[TIED]} is taken for granted"
                yield Joint(f"sum of {tensor}", part.of, f"{part.name}: {tensor}", str(read), 1, problem)
            if read.extreme:
                yield Joint(
                    f"sum of {tensor}", part.of, f"{part.name}: {tensor}", str(read), 1, read.extreme, wrong=False
                )
            read = read.without(TIED)
            for member, name in summed.items():
                known = self.own.get((member, 0), {}).get(name)
                problem = f"pieces of {member} have no {name}"
                if known is not None:
                    problem = self._counted(name, [known]) or differ(known.held.without(COPY), read)
                    other = self.shares[member].get(name, part.of)
                    problem = problem if other == part.of else f"{name} is one summand of the gradient of {other}"
                source = member if known is None else known.source
                yield Joint(f"sum of {name}", source, f"{part.name}: {tensor}", str(read), 1, problem)
                self.taken.add(((member, 0), name))
                self.read.add(((member, 0), name))
        yield from self._for(part, self.shared[part.of], 1, (part.of, 0))

    def _for(
        self, part: Part, own: dict[str, _Known], count: int, owner: Owner, summands: Collection[str] = frozenset()
    ) -> Iterator[Joint]:
        """The joints of a part with the tensors of an owner: those it takes and those it leaves, of which some outputs
        are ``summands``."""
        of, target = part.of, part.name
        for name in part.state:
            entry = next((tensor for tensor, wanted in part.takes.items() if wanted == name), None)
            if entry is None or name in own or name in self.whole:
                yield Joint(name, of, target, "", count, f"{name} is said to be state of {of} by {target}, and is not")
            else:
                own[name] = _Known(part.input(entry), f"{of}: {name}, as it was before")
                self.kept[owner, name] = own[name].held
        for tensor, name in part.takes.items():
            self.read.add((owner, name))
            yield self._taken(part, tensor, name, own.get(name) or self._symbol(part, tensor, name), count, owner)
        for tensor, name in part.gives.items():
            if name in own or name in self.whole:
                yield Joint(name, target, of, "", count, f"{target} gives {name} to pieces that have one already")
            own[name] = _Known(part.output(tensor), f"{target}: {tensor}", tensor in summands)
            self.given[owner, name] = own[name].held
        for tensor, name in part.updates.items():
            yield from self._update(part, tensor, name, own, count, owner)

    def _update(
        self, part: Part, tensor: str, name: str, own: Mapping[str, _Known], count: int, owner: Owner
    ) -> Iterator[Joint]:
        """A new value must be held as the old one was: then the next iteration starts from what this one did."""
        of, known = part.of, own.get(name)
        made = part.output(tensor)
        tied = self.plan.tied[of] if part.runs is Runs.TIED and name == of else dict[str, str]()
        if part.runs is Runs.PIECE:
            shared = next((owner for owner, members in self.plan.tied.items() if members.get(of) == name), "")
            if shared:
                problem = f"{part.name} replaces {name} of {of} alone, which is {shared}, and has other copies"
                yield Joint(f"new {name}", of, part.name, str(made), count, problem)
        if known is None or (owner, name) in self.updated:
            problem = f"{name} is replaced twice" if known else f"{name} is no parameter or state of {of}"
        else:
            problem = differ(made, known.held)
        self.updated |= {(owner, name), *(((member, owner[1]), parameter) for member, parameter in tied.items())}
        yield Joint(f"new {name}", f"{part.name}: {tensor}", f"{of}, next iteration", str(made), count, problem)

    def _once(self, part: Part) -> Iterator[Joint]:
        pipeline = self.plan.pipeline
        for tensor, name in part.takes.items():
            known = self.whole.get(name) or self._symbol(part, tensor, name)
            yield self._taken(part, tensor, name, known, 1, (part.of, 0))
        for tensor, name in part.sums.items():
            read = part.input(tensor)
            across = WORLD if self.plan.uneven else pipeline
            if read.extreme:
                yield Joint(
                    f"sum of {name}", "all pieces", f"{part.name}: {tensor}", str(read), 1, read.extreme, wrong=False
                )
            if read.sizes.get(across, 1) > 1 and not is_sum(read.placements[across]):
                problem = (
                    f"every stage has the sum over its own pieces, but {read.placements[across]} is taken for granted"
                )
                yield Joint(f"sum of {name}", "all pieces", f"{part.name}: {tensor}", str(read), 1, problem)
            read = read.without(across)
            self.read |= {(owner, name) for owner in (*self.own, *((of, 0) for of in self.shared))}
            for of in self.numbers:
                trained = set(self.plan.parts[of].parameters) - {m.get(of, "") for m in self.plan.tied.values()}
                found = [self.own[of, way][name] for way in range(len(self.plan.ways)) if name in self.own[of, way]]
                if not found and not trained:
                    continue  # nothing of these pieces is trained, or it is shared with others
                if not found:
                    problem = f"pieces of {of} have no {name}"
                    yield Joint(f"sum of {name}", of, f"{part.name}: {tensor}", str(read), self.numbers[of], problem)
                for known in found:
                    alone = known.held.without(COPY)
                    problem = self._counted(name, found) or differ(alone, self._of_stage(read, alone))
                    if name in self.shares[of]:
                        problem = f"{name} of {of} is one summand of the gradient of {self.shares[of][name]}"
                    yield Joint(
                        f"sum of {name}", known.source, f"{part.name}: {tensor}", str(known.held), self.numbers[of],
                        problem,
                    )  # fmt: skip
            for of, own in self.shared.items():
                yield self._shared_sum(part, tensor, of, name, own.get(name), read)
        for tensor, name in part.gives.items():
            made = part.output(tensor)
            if name in self.whole or any(name in own for own in self.own.values()):
                yield Joint(name, part.name, part.name, "", problem=f"{part.name} gives {name}, which there is already")
            self.whole[name] = _Known(made, f"{part.name}: {tensor}")

    def _counted(self, name: str, found: Sequence[_Known]) -> str:
        """The reason why a tensor of every piece does not fit into a sum over what devices have: each copy of the piece
        is on another device, and all of them together must be the tensor once. ``found``: one for all copies, or one
        for each pipeline that has it."""
        if self.plan.apart:
            summands = sum(known.summand for known in found)
            if (summands, len(found)) in ((0, 1), (self.plan.copies, self.plan.copies)):
                return ""
            counted = f"{len(found)} pipelines have {name}" if len(found) > 1 else f"one pipeline has {name}"
            return f"{counted}, {summands} of them a summand: it is the sum of what all have, or what one has alone"
        placed = found[0].held.placements[COPY] if self.plan.copies > 1 else Partial("sum")
        if not is_sum(placed):
            return f"{name} is {placed} over the copies of its piece, each of which would be counted"
        return ""

    def _of_stage(self, read: Held, made: Held) -> Held:
        """The relation that a summand of a sum over pieces must have on the ranks of a stage: where stages have
        different numbers of ranks, the sum is over all ranks, so that each has a part of what its stage has."""
        if not self.plan.uneven:
            return read
        placements = {axis: Partial("sum") if size > 1 else Replicate() for axis, size in made.sizes.items()}
        return replace(read, placements=placements, sizes=made.sizes)

    def _shared_sum(self, part: Part, tensor: str, of: str, name: str, known: _Known | None, read: Held) -> Joint:
        """The summand of a shared parameter in a sum over all pieces: of each copy its share, which count once."""
        made = read if known is None else known.held
        source = of if known is None else known.source
        problem = f"{of} has no {name}" if known is None else ""
        if known is not None:
            if self._holders(of) > 1 and not is_sum(made.placements[TIED]):
                problem = f"{name} of {of} is {made.placements[TIED]} over its copies, each of which would be counted"
            else:
                made = made.without(TIED)
                problem = differ(made, self._of_stage(read, made))
        return Joint(f"sum of {name}", source, f"{part.name}: {tensor}", str(made), 1, problem)

    def _holders(self, name: str) -> int:
        """The number of devices that have a copy of a shared parameter, as its parts have it."""
        parts = (part for part in self.plan.parts.values() if part.runs is Runs.TIED and part.of == name)
        return max((part.job.mesh.axes[TIED] for part in parts), default=1)

    def _symbol(self, part: Part, tensor: str, name: str) -> _Known | None:
        """A tensor of the plan as a part takes it: of one that is made by all ranks, what a stage has."""
        if name in self.plan.symbols:
            held = part.input(tensor)
            same = held.everywhere(held.sizes)
            return self.whole.setdefault(name, _Known(same, "a number that is given"))
        known = self.whole.get(name)
        if known is None or part.runs is Runs.ONCE:
            return known
        across = WORLD if self.plan.uneven else self.plan.pipeline
        if known.held.placements.get(across, Replicate()) != Replicate():
            return None
        held = known.held.without(across)
        if self.plan.uneven:
            own = {axis: size for axis, size in part.input(tensor).sizes.items() if axis not in (COPY, TIED)}
            held = held.everywhere(own)
        tied = part.runs is Runs.TIED
        held = held.along(TIED, self._holders(part.of), Replicate()) if tied else self._copied(held, Replicate())
        return _Known(held, known.source)

    def _taken(self, part: Part, tensor: str, name: str, known: _Known | None, count: int, owner: Owner) -> Joint:
        read, target = part.input(tensor), f"{part.name}: {tensor}"
        if (owner, name) in self.updated:
            problem = f"{part.name} takes {name}, which was replaced before"
            return Joint(name, part.of, target, str(read), count, problem)
        if known is None:
            problem = f"{part.name} takes {name}, which nothing before it gives on every stage"
            return Joint(name, "", target, str(read), count, problem)
        made = known.held
        if name in self.plan.symbols:  # along what axes a part knows says nothing
            made = made.everywhere(read.sizes)
        return Joint(name, known.source, target, str(made), count, differ(made, read))

    def _left(self) -> Iterator[Joint]:
        """Gradients that nobody takes, parameters that nobody updates, and state that is left behind: that nobody
        updates, where something of its shape and placements is made that nobody takes. (Other state is a constant.)"""
        if not self.plan.reduce and not self.plan.update:
            return
        for owner in self.own:
            of, way = owner
            where = f"{of} in pipeline {way}" if self.plan.apart else of
            gradients = self.plan.parts[of].parameters
            for gradient in dict.fromkeys((*gradients.values(), *self.shares[of])):
                if (owner, gradient) not in self.taken:
                    problem = f"nothing takes {gradient} of {where}"
                    yield Joint(gradient, of, "", "", self.numbers[of], problem)
            for parameter in gradients:
                if (owner, parameter) not in self.updated:
                    problem = f"nothing updates {parameter} of {where}, which has a gradient"
                    yield Joint(parameter, of, "", "", self.numbers[of], problem)
        for (owner, name), held in self.kept.items():
            of = owner[0]
            lost = [
                other for (one, other), made in self.given.items()
                if one == owner and (owner, other) not in self.read and not differ(made, held)
            ]  # fmt: skip
            if lost and (owner, name) not in self.updated:
                problem = f"nothing updates {name} of {of}, which is state, and nothing takes {lost[0]}"
                yield Joint(name, of, "", "", self.numbers.get(of, 1), problem, wrong=False)
