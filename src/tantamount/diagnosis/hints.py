"""Hints: changes of lines, as text and as nodes, so that following one can be tried: the job with it is to be proved.

A hint is made for the job that was executed, maybe at smaller shapes, and is applied to the job itself: what takes the
place of a node is made of that job's own node."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tantamount.correspond.alignment import align
from tantamount.diagnosis.arguments import Slot, argument_at, renamed, with_argument
from tantamount.diagnosis.replay import Place
from tantamount.effort import Grown, Stopped, within
from tantamount.errors import TantamountError, Unsupported
from tantamount.ir.graph import Argument, Graph, Node, Ref, references
from tantamount.ir.job import Job
from tantamount.ops.algebra import Tensor
from tantamount.ops.check import check_graph
from tantamount.proof import Options, Proof, prove
from tantamount.proof.lemmas import Lemmas, prove_in_pieces
from tantamount.proof.simplified import prove_simplified
from tantamount.verdict import OutputReport, Verdict

__all__ = [
    "NO_HINT", "Hint", "Line", "Lines", "added", "applying", "as_on", "call", "cut_at", "followed", "like", "named_so",
    "other_number", "passed_on", "proved_in_pieces_with", "proved_with", "put", "reading", "reduced", "shared",
    "summed",
]  # fmt: skip

Lines = tuple[Node, ...]  # that take a node's place, the last one under its name
Line = Callable[[Job, Graph, Node], Lines]  # what stands there instead


@dataclass(frozen=True)
class Hint:
    """A change of lines: the ``text`` that is printed (empty: there is none), and what takes the place of which nodes.
    ``proved``: it is known that the job is proved with it, though it is no change of a program."""

    text: str = ""
    lines: Mapping[Place, Line] | None = None
    proved: bool = False

    def __bool__(self) -> bool:
        return bool(self.text)


NO_HINT = Hint()


# ------------------------------------------------------------------------------------------------ following a hint
def proved_with(job: Job, hint: Hint, proof: Proof, only: Collection[str], seconds: float) -> bool:
    """True if some outputs of the job, ``only`` those, are proved once the hint is followed, which may take so many CPU
    seconds. What ``proof``, that of the job as it is, has computed is not computed again. A hint that touches no output
    repairs none."""
    if not only:
        return False
    effort = copy.copy(proof.options.effort)
    effort.hits = {}  # what a second proof does not find is no news of the first
    kept, proof.store.effort = proof.store.effort, effort
    try:
        with within(seconds):
            return _proved(followed(job, hint), replace(_anew(proof.options), effort=effort), only, proof)
    except TantamountError:
        return False
    except Stopped:
        left = kept.left()
        if left is not None and left <= 0:
            raise
        return False
    finally:
        proof.store.effort = kept


def proved_in_pieces_with(job: Job, hint: Hint, options: Options, lemmas: Lemmas) -> bool:
    """True if all outputs of the job are proved in pieces once the hint is followed. ``lemmas`` are known."""
    try:
        with within(options.effort.bounds.repair_seconds):
            return prove_in_pieces(followed(job, hint), _anew(options), lemmas=lemmas) is not None
    except TantamountError:
        return False
    except Stopped:
        left = options.effort.left()
        if left is not None and left <= 0:
            raise
        return False


def _anew(options: Options) -> Options:
    """The options for a program that was changed: what seemed to be aligned before says nothing of it."""
    return replace(options.silent(), align=None if options.align is None else align)


def _proved(job: Job, options: Options, only: Collection[str], before: Proof) -> bool:
    short = before.steps <= options.effort.bounds.refuted_steps
    if not short:
        pieces = prove_simplified(job, options) or prove_in_pieces(job, options)
        if pieces is not None:
            return _all(pieces.outputs, only)
    if before.cuts is None and before.steps:
        # where forms of the wrong program stand in the way, it is proved anew, which takes about what the proof took
        proof = prove(job, options, before)
        try:
            with options.effort.watching(min(before.steps, options.effort.bounds.refuted_steps)):
                if _all(proof.check(expand=False, only=only), only):
                    return True
        except Grown:
            pass
    proof = prove(job, options)
    if _all(proof.check(expand=False, only=only), only):
        return True
    if short:
        pieces = prove_simplified(job, options) or prove_in_pieces(job, options)
        if pieces is not None:
            return _all(pieces.outputs, only)
    try:  # with products multiplied out, as far as that is worth it
        with options.effort.watching(max(proof.steps, options.effort.bounds.followed_steps)):
            if _all(proof.check(only=only), only):
                return True
            apart = options.fold is None and proof.folded  # rank by rank, as a job is proved where that is needed
            return apart and _all(prove(job, replace(options, fold=False)).check(only=only), only)
    except Grown:
        options.effort.hit("followed_steps")
        return False


def _all(outputs: Sequence[OutputReport], names: Collection[str]) -> bool:
    return all(output.verdict is Verdict.PROVED for output in outputs if output.name in names)


def followed(job: Job, hint: Hint) -> Job:
    """The job in which a hint was followed. Raises :class:`tantamount.errors.TantamountError` if that is no job."""
    axes = {"over " + " and ".join(job.mesh.names): job.mesh.names} | {f"over {one}": (one,) for one in job.mesh.names}
    given, job = job.mesh, replace(job, mesh=replace(job.mesh, groups={**axes, **job.mesh.groups}))
    sizes = {group: job.mesh.group_size(group) for group in job.mesh.groups}
    made: dict[object, Graph] = {}
    graphs: list[Graph] = []
    for rank, graph in enumerate(job.implementation):
        lines = {name: line for (on, name), line in (hint.lines or {}).items() if on == rank}
        key = (id(graph), tuple(lines.items()))
        if key not in made:
            made[key] = _typed(_changed(job, graph, lines), sizes) if lines else graph
        graphs.append(made[key])
    named = {one for graph in made.values() for node in graph.nodes for one in (*node.args, *node.kwargs.values())
             if isinstance(one, str)}  # fmt: skip
    used = {name: group for name, group in job.mesh.groups.items() if name in named or name in given.groups}
    return replace(job, mesh=replace(given, groups=used), implementation=tuple(graphs))


def _changed(job: Job, graph: Graph, lines: Mapping[str, Line]) -> Graph:
    """The graph with other lines. An input stays; what reads it reads the lines."""
    used = {name: f"{name}.used" if graph.by_name[name].op == "input" else name for name in lines}
    copies = {new: replace(graph.by_name[old], name=new, op="call", target="aten.alias.default", args=(Ref(old),))
              for old, new in used.items() if old != new}  # fmt: skip
    nodes: list[Node] = []
    for node in graph.nodes:
        operands = {k: used[ref] for k, ref in enumerate(references(node)) if ref in used}
        nodes.append(renamed(node, operands) if operands else node)
        if node.name in used and used[node.name] != node.name:
            nodes.append(copies[used[node.name]])
    outputs = tuple(replace(one, node=used.get(one.node, one.node)) for one in graph.outputs)
    graph = replace(graph, nodes=tuple(nodes), outputs=outputs)
    return _ordered(graph, {used[name]: line(job, graph, graph.by_name[used[name]]) for name, line in lines.items()})


def _ordered(graph: Graph, lines: Mapping[str, Lines]) -> Graph:
    """The graph with nodes in the place of others, in an order in which every node is computed before it is read. What
    depends on them loses its type."""
    nodes = {new.name: new for node in graph.nodes for new in lines.get(node.name, (node,))}
    found: dict[str, Node] = {}
    stale: set[str] = set()
    open_: set[str] = set()
    pending = list(reversed(nodes))
    while pending:
        name = pending[-1]
        node = nodes.get(name)
        if node is None:
            raise Unsupported(f"there is no {name}")
        left = [ref for ref in references(node) if ref not in found]
        if name in found or not left:
            pending.pop()
            if name not in found:
                changed = any(ref in stale for ref in references(node)) or node is not graph.by_name.get(name)
                stale.update({name} if changed else ())
                found[name] = replace(node, type=None) if changed and node.op == "call" else node
        elif name in open_:
            raise Unsupported(f"{name} would be computed from itself")
        else:
            open_.add(name)
            pending += left
    return replace(graph, nodes=tuple(found.values()))


def _typed(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    types = {name: x.type for name, x in check_graph(graph, sizes).items() if isinstance(x, Tensor)}
    open_ = {node.name for node in graph.nodes if node.op == "call" and node.type is None}
    nodes = [replace(n, type=types[n.name]) if n.name in open_ & set(types) else n for n in graph.nodes]
    return replace(graph, nodes=tuple(nodes))


# ------------------------------------------------------------------------------------------------ lines
def passed_on(name: str) -> Line:
    """Another tensor instead of a node, in the node's shape."""

    def line(job: Job, graph: Graph, node: Node) -> Lines:
        return (_shaped(graph, node.name, Ref(name), node),)

    return line


def put(other: Node) -> Line:
    """Another node under the same name."""
    return lambda job, graph, node: (replace(other, type=None),)


def as_on(rank: int) -> Line:
    """The node as another rank of the same job has it."""
    return lambda job, graph, node: (replace(job.implementation[rank].by_name[node.name], type=None),)


def like(theirs: Node) -> Line:
    """The operator of another node, with its numbers, on the operands of this one."""

    def line(job: Job, graph: Graph, node: Node) -> Lines:
        other = renamed(theirs, dict(enumerate(references(node))))
        return (replace(node, target=other.target, args=other.args, kwargs=other.kwargs, type=None),)

    return line


def named_so(target: str) -> Line:
    """Another operator on the same operands."""
    return lambda job, graph, node: (replace(node, target=target, type=None),)


def shared(position: int, share: float) -> Line:
    """A node that reads a share of one operand in its place."""

    def line(job: Job, graph: Graph, node: Node) -> Lines:
        part = call(f"{node.name}.share", "aten.mul.Tensor", Ref(list(references(node))[position]), share)
        return part, renamed(node, {position: part.name})

    return line


def applying(steps: Sequence[Node], of: str, held: Mapping[str, str]) -> Line:
    """A node to which the steps of another program are applied, where it stands for ``of``; ``held`` says what stands
    for the other tensors that they read."""

    def line(job: Job, graph: Graph, node: Node) -> Lines:
        part = replace(node, name=f"{node.name}.part")
        names = {**held, of: part.name}
        lines = [part]
        for k, step in enumerate(steps):
            name = node.name if k == len(steps) - 1 else f"{node.name}.{step.name}"
            operands = {j: names[ref] for j, ref in enumerate(references(step))}
            lines.append(replace(renamed(step, operands), name=name, type=None, source=None))
            names[step.name] = name
        return tuple(lines)

    return line


def reading(names: Mapping[int, str]) -> Line:
    """The node with other operands, by their positions."""
    return lambda job, graph, node: (renamed(node, names),)


def cut_at(dim: int, low: int, high: int) -> Line:
    """Other positions of what a node cuts out of its first operand."""

    def line(job: Job, graph: Graph, node: Node) -> Lines:
        return (call(node.name, "aten.slice.Tensor", Ref(next(iter(references(node)))), dim, low, high),)

    return line


def other_number(slot: Slot, number: float) -> Line:
    """The node with another number among its arguments, or with a tensor of that number."""

    def line(job: Job, graph: Graph, node: Node) -> Lines:
        argument = argument_at(node, slot)
        if not isinstance(argument, Ref):
            return (with_argument(node, slot, number),)
        full = call(f"{node.name}.number", "aten.full_like.default", argument, number)
        return full, renamed(node, {list(references(node)).index(argument.name): full.name})

    return line


def reduced(how: str, axes: Sequence[str]) -> Line:
    """A node that is reduced (``sum``, ``avg``, ``max``) over mesh axes; without any, over all ranks."""

    def line(job: Job, graph: Graph, node: Node) -> Lines:
        part = replace(node, name=f"{node.name}.part")
        group = f"over {' and '.join(axes or job.mesh.names)}"
        return part, call(node.name, "_c10d_functional.all_reduce.default", Ref(part.name), how, group)

    return line


def summed(names: Sequence[str], by: float = 1.0) -> Line:
    """The sum of some nodes, of which the node is one, times a number."""

    def line(job: Job, graph: Graph, node: Node) -> Lines:
        lines = [replace(node, name=f"{node.name}.part")]
        for k, name in enumerate(one for one in names if one != node.name):
            lines.append(call(f"{node.name}.{k}", "aten.add.Tensor", Ref(lines[-1].name), Ref(f"{name}.part")))
        return (*lines, call(node.name, "aten.mul.Tensor", Ref(lines[-1].name), by))

    return line


def added(names: Sequence[str], factor: float) -> Line:
    """A node to which a multiple of other tensors is added."""

    def line(job: Job, graph: Graph, node: Node) -> Lines:
        lines = [replace(node, name=f"{node.name}.before")]
        for k, name in enumerate(names):
            new = node.name if k == len(names) - 1 else f"{node.name}.{k}"
            part = _shaped(graph, f"{new}.added", Ref(name), node, broadcast=True)
            times = call(f"{new}.times", "aten.mul.Tensor", Ref(part.name), float(factor))
            lines += [part, times, call(new, "aten.add.Tensor", Ref(lines[-1].name), Ref(times.name))]
        return tuple(lines)

    return line


def _shaped(graph: Graph, name: str, ref: Ref, like: Node, *, broadcast: bool = False) -> Node:
    here, there = (graph.by_name[one].type for one in (ref.name, like.name))
    if here is None or there is None or here.shape == there.shape:
        return call(name, "aten.alias.default", ref)
    if broadcast and there.shape[len(there.shape) - len(here.shape) :] == here.shape:
        return call(name, "aten.alias.default", ref)
    return call(name, "aten.view.default", ref, tuple(there.shape))


def call(name: str, target: str, *args: Argument) -> Node:
    """A node without a recorded type."""
    return Node(name, "call", target, args)
