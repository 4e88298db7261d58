"""Random graphs with inputs and the exact value of every node, each from a seed and an index alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from tantamount.fuzz.draft import CAST, Draft, Policy
from tantamount.fuzz.goals import LEAVES, REDUCING, Goal, maker_names
from tantamount.fuzz.samplers import SAMPLERS
from tantamount.ir.graph import Graph, Node, Output, references
from tantamount.ir.types import DType, Kind
from tantamount.ops.algebra import Tensor
from tantamount.semantics.reference import Array

__all__ = ["Sample", "generate", "pruned"]


_GUIDED = 0.8  # the share of steps that go for a goal, while there are any
_AGAIN = 0.12  # the share of steps that make a call of an operator that a call was made of, or that may undo it
_RANKS_OF_PLACES = {"first": (2, 2, 3), "inner": (3, 3, 4), "last": (2, 3), "all": (1, 2)}


# What may undo a call, beside its own operator: compilers look for the two behind one another.
_UNDOING = {
    f"aten.{maker}": tuple(f"aten.{name}" for name in names.split())
    for maker, names in {
        "constant_pad_nd.default": "slice.Tensor", "slice.Tensor": "constant_pad_nd.default",
        "cat.default": "slice.Tensor split_with_sizes.default", "repeat.default": "slice.Tensor",
        "expand.default": "select.int slice.Tensor sum.dim_IntList amax.default", "stack.default": "select.int",
        "select.int": "unsqueeze.default", "unsqueeze.default": "squeeze.dim select.int",
        "squeeze.dim": "unsqueeze.default", "permute.default": "transpose.int reshape.default",
        "transpose.int": "permute.default", "reshape.default": "unsqueeze.default permute.default",
        "tril.default": "triu.default", "triu.default": "tril.default", "add.Tensor": "sub.Tensor",
        "sub.Tensor": "add.Tensor", "mul.Tensor": "div.Tensor", "div.Tensor": "mul.Tensor",
        "maximum.default": "minimum.default", "minimum.default": "maximum.default", "relu.default": "clamp.default",
        "clamp.default": "relu.default",
    }.items()
}  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """A typed graph, one array per input (bfloat16 in float32), and the value of every node."""

    seed: int
    index: int
    graph: Graph
    inputs: dict[str, Array]
    values: dict[str, Tensor]


def generate(
    seed: int,
    index: int,
    policy: Policy | None = None,
    goals: Sequence[Goal] = (),
    taste: Mapping[str, float] | None = None,
) -> Sample:
    """The graph number ``index`` of a seed under a policy: always the same one. It has calls that are ``goals``, as far
    as there is room and they can be had; ``taste``: by operator, how much more often it is drawn."""
    policy = policy or Policy()
    draft = Draft(Random(f"{seed}/{index}"), policy)
    r = draft.random
    rows = [row for name, row in SAMPLERS.items() if policy.targets is None or name in policy.targets]
    liked = taste or {}
    favoured = [r.choice((0.2, 1.0, 1.0, 3.0)) for _ in rows]  # every graph has a taste of its own
    weights = [row.weight * own * liked.get(row.target, 1.0) for row, own in zip(rows, favoured, strict=True)]
    draft.dtypes = tuple(dict.fromkeys(goal.dtype for goal in goals)) or draft.dtypes
    pending = list(goals)
    for _ in range(r.choice((1, 2, 2, 3))):
        draft.leaf(draft.shape(), r.choice(draft.dtypes), constant=False)
    fewest, most = policy.nodes
    wanted = min(most, fewest + int(r.expovariate(1 / 6)))
    made = 0
    for _ in range(wanted * 6):
        if made >= wanted:
            break
        if made and r.random() < _AGAIN:
            made += _again(draft)
            continue
        if pending and r.random() < _GUIDED:
            made += _reached(draft, pending.pop(0))
            continue
        row = r.choices(rows, weights)[0]
        made += row.draw(draft, row.target) is not None
    calls = [node for node in draft.nodes if node.op == "call" and node.name in draft.values]
    loose = [node for node in calls if node.name not in draft.used] or draft.nodes[:1]
    others = [node for node in calls if node.name in draft.used and r.random() < 0.12]
    outputs = tuple(Output(node.name, node.name) for node in (*loose, *others))
    graph = Graph(tuple(draft.nodes), outputs, dict(draft.constants), path=f"case {seed}/{index}")
    graph = pruned(graph)
    inputs = {node.name: draft.inputs[node.name] for node in graph.inputs}
    kept = {node.name for node in graph.nodes}
    return Sample(seed, index, graph, inputs, {name: x for name, x in draft.values.items() if name in kept})


def _again(draft: Draft) -> int:
    """One call more of the operator of a call: on its operand, or on its result. Where attributes are not looked at,
    two such calls are taken for one. Or a call that may undo one, on its result."""
    r = draft.random
    node = r.choice([node for node in draft.nodes if node.op == "call"])
    after = _UNDOING.get(node.target, ())
    undoing = [target for target in after if draft.policy.targets is None or target in draft.policy.targets]
    if undoing and r.random() < 0.5:
        row, wish = SAMPLERS[r.choice(undoing)], node.name
    elif node.target in SAMPLERS:
        row = SAMPLERS[node.target]
        wish = node.name if r.random() < 0.5 else next(iter(references(node)), node.name)
    else:
        return 0
    draft.wish = wish if wish in draft.values else None
    made = row.draw(draft, row.target) is not None
    draft.wish = None
    return made


def _reached(draft: Draft, goal: Goal) -> int:
    """The calls made for a goal: its operator, and its maker where there was none."""
    calls = len(draft.nodes)
    draft.ends = goal.ends
    name = _made(draft, goal)
    for target in (goal.target, *goal.also):
        if name is not None:
            draft.wish = name
            if goal.also and target in REDUCING and draft.random.random() < 0.5:  # what loops over is fused with
                draft.place = "last"
            SAMPLERS[target].draw(draft, target)
            draft.wish = draft.place = None
    draft.ends = False
    return sum(node.op == "call" for node in draft.nodes[calls:])


def _made(draft: Draft, goal: Goal) -> str | None:
    """A value for a goal: what its maker made, or a new one; ``None`` if it makes none of that type."""
    r = draft.random
    if goal.maker in LEAVES:
        return draft.leaf(draft.shape(goal.rank), goal.dtype, constant=goal.maker == "constant")
    if goal.maker not in SAMPLERS:
        return None
    if not goal.ends:
        known = [node.name for node in draft.nodes if node.target == goal.maker and _fits(draft, node, goal)]
        if known and r.random() < 0.5:
            return r.choice(known)
    ranks = _RANKS_OF_PLACES.get(goal.place or "")
    reuse = not goal.ends and goal.maker != CAST

    def wanted(x: Tensor) -> bool:
        return x.dtype is goal.dtype and (ranks is None or x.rank >= min(ranks))

    for attempt in range(3):  # of its own type, then of any
        if attempt < 2:
            draft.wish = draft.pick((), wanted) if reuse and r.random() < 0.5 else None
            if draft.wish is None:
                dtype = _source(draft, goal) if goal.maker == CAST else goal.dtype
                draft.wish = draft.leaf(draft.shape(r.choice(ranks) if ranks else None), dtype)
        draft.aim, draft.place = goal.dtype, goal.place
        name = SAMPLERS[goal.maker].draw(draft, goal.maker)
        draft.wish = draft.aim = draft.place = None
        if name is not None and name in draft.values and draft.values[name].dtype is goal.dtype:
            return name
    return None


def _source(draft: Draft, goal: Goal) -> DType:
    """An element type that a cast to the goal's can start from: of integers at the ends of theirs, integers."""
    others = [dtype for dtype in draft.policy.dtypes if dtype is not goal.dtype]
    return draft.random.choice([dtype for dtype in others if not goal.ends or dtype.kind is Kind.INT] or [goal.dtype])


def _fits(draft: Draft, node: Node, goal: Goal) -> bool:
    """True if a call of a goal's maker made what the goal wants."""
    if node.name not in draft.values or draft.values[node.name].dtype is not goal.dtype:
        return False
    if goal.place is None:
        return True
    first = next(iter(references(node)))
    return f"{goal.maker}/{goal.place}" in maker_names(node, draft.values[first].rank)


def pruned(graph: Graph) -> Graph:
    """The graph without nodes and constants that no output needs, its outputs each once."""
    needed: set[str] = set()
    pending = [output.node for output in graph.outputs]
    by_name = graph.by_name
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending.extend(references(by_name[name]))
    nodes: tuple[Node, ...] = tuple(node for node in graph.nodes if node.name in needed)
    constants = {key: value for key, value in graph.constants.items() if any(n.target == key for n in nodes)}
    return replace(graph, nodes=nodes, constants=constants, outputs=tuple(dict.fromkeys(graph.outputs)))
