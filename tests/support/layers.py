"""A transformer layer of any size, as one program and spread over ranks: vocabulary-parallel embedding, attention with
heads over ranks, a row-parallel output, a two-layer MLP, and a mean that is written as a product with 1 / numel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from tantamount import Verdict, read_job
from tantamount.answers import refine
from tantamount.ir.graph import Argument, Graph, Node, Ref
from tantamount.ir.job import Job
from tantamount.limits import Limits

from .jobs import job_files

RELATIONS = """
[inputs]
ids = "Replicate()"
table = "Shard(0)"
wq = "Shard(0)"
wk = "Shard(0)"
wv = "Shard(0)"
wo = "Shard(1)"
w1 = "Shard(0)"
w2 = "Shard(1)"
[outputs]
hidden = "Replicate()"
loss = "Replicate()"
"""


@dataclass(frozen=True)
class Sizes:
    tokens: int
    heads: int
    head: int
    ffn: int
    vocabulary: int

    @property
    def hidden(self) -> int:
        return self.heads * self.head


def _body(z: Sizes, ranks: int, embedding: str, reduced: bool, puzzle: bool) -> str:
    h, n, f = z.hidden, z.heads // ranks, z.ffn // ranks
    total = h if not reduced else h // ranks
    lines = [f"ids: int64[{z.tokens}]", f"table: float32[{z.vocabulary // ranks}, {h}]"]
    lines += [f"{w}: float32[{total}, {h}]" for w in ("wq", "wk", "wv")]
    lines += [f"wo: float32[{h}, {total}]", f"w1: float32[{f}, {h}]", f"w2: float32[{h}, {f}]", embedding]
    for name in "qkv":
        lines += [f"{name}t = t(w{name})", f"{name}m = mm(x, {name}t)"]
        lines += [f"{name}h = view({name}m, [{z.tokens}, {n}, {z.head}])", f"{name} = transpose({name}h, 0, 1)"]

    def all_reduce(name: str) -> str:
        return f'{name} = all_reduce({name}p, "sum", "tp")' if reduced else f"{name} = mul({name}p, 1)"

    lines += [
        "kk = transpose(k, 1, 2)",
        "scores = aten.bmm.default(q, kk)",
        f"scaled = mul(scores, {z.head**-0.5!r})",
        "weights = softmax(scaled, -1, False)",
        "mixed = aten.bmm.default(weights, v)",
        "swapped = transpose(mixed, 0, 1)",
        "copied = aten.clone.default(swapped)",
        f"joined = view(copied, [{z.tokens}, {total}])",
        "wot = t(wo)",
        "attendedp = mm(joined, wot)",
        all_reduce("attended"),
        "middle = add(x, attended)",
        "w1t = t(w1)",
        "up = mm(middle, w1t)",
        "active = gelu(up)",
        "w2t = t(w2)",
        "downp = mm(active, w2t)",
        all_reduce("down"),
        "hidden = add(middle, down)",
        "sumall = sum(hidden)",
        f"loss = mul(sumall, {1 / (z.tokens * h)!r})",
    ]
    if puzzle:  # true, but not proved: cos(atan(x))^2 (1 + x^2) is one
        lines += [
            "angle = aten.atan.default(loss)", "cs = aten.cos.default(angle)", "cs2 = mul(cs, cs)",
            "square = mul(loss, loss)", "more = add(square, 1)", "one = mul(cs2, more)", "lossone = mul(loss, one)",
        ]  # fmt: skip
    return "\n".join([*lines, f"-> hidden, loss={'lossone' if puzzle else 'loss'}"])


def specification(z: Sizes, puzzle: bool = False) -> str:
    return _body(z, 1, "x = embedding(table, ids)", reduced=False, puzzle=puzzle)


def rank(z: Sizes, ranks: int, k: int) -> str:
    size = z.vocabulary // ranks
    embedding = f"""
        low = lt(ids, {k * size})
        high = ge(ids, {(k + 1) * size})
        outside = bitwise_or(low, high)
        shifted = sub(ids, {k * size})
        local = masked_fill(shifted, outside, 0)
        rows = embedding(table, local)
        mask = unsqueeze(outside, -1)
        xp = masked_fill(rows, mask, 0.0)
        x = all_reduce(xp, "sum", "tp")
    """
    return _body(z, ranks, embedding.strip(), reduced=True, puzzle=False)


def layer(folder: Path, z: Sizes, ranks: int, puzzle: bool = False) -> Job:
    """The job. With ``puzzle`` the loss is right, but cannot be proved."""
    graphs = [rank(z, ranks, k) for k in range(ranks)]
    return read_job(job_files(folder, specification(z, puzzle), graphs, RELATIONS, {"tp": ranks}, {"tp": ("tp",)}))


# ------------------------------------------------------------------------------------------------ mutants
Edit = Callable[[Node], Node]


def edited(job: Job, ranks: tuple[int, ...] | None = None, **edits: Edit) -> Job:
    """The job with some nodes of the implementation changed, on some ranks or all."""

    def graph_of(graph: Graph) -> Graph:
        return replace(graph, nodes=tuple(edits[n.name](n) if n.name in edits else n for n in graph.nodes))

    graphs = tuple(
        graph_of(graph) if ranks is None or k in ranks else graph for k, graph in enumerate(job.implementation)
    )
    assert graphs != job.implementation
    return replace(job, implementation=graphs)


def argument(position: int, value: Argument) -> Edit:
    return lambda node: replace(node, args=(*node.args[:position], value, *node.args[position + 1 :]))


def target(name: str, *args: Argument) -> Edit:
    return lambda node: replace(node, target=name, args=args or node.args)


def mutants(job: Job, z: Sizes, ranks: int) -> Mapping[str, Job]:
    """Wrong programs."""
    return {name: change(job) for name, change in _changes(z, ranks).items()}


def _changes(z: Sizes, ranks: int) -> Mapping[str, Callable[[Job], Job]]:
    size = z.vocabulary // ranks
    return {
        "scale": lambda job: edited(job, scaled=argument(1, 1 / z.head)),
        "scale of one rank": lambda job: edited(job, (1,), scaled=argument(1, z.head**-0.5 * 1.001)),
        "mean over the shard": lambda job: edited(job, loss=argument(1, ranks / (z.tokens * z.hidden))),
        "mean over tokens": lambda job: edited(job, loss=argument(1, 1 / z.tokens)),
        "softmax over queries": lambda job: edited(job, weights=argument(1, 1)),
        "relu": lambda job: edited(job, active=target("aten.relu.default")),
        "tanh": lambda job: edited(job, active=target("aten.tanh.default")),
        "attention not summed": lambda job: edited(job, attended=target("aten.mul.Tensor", *_ones("attendedp"))),
        "mlp not summed": lambda job: edited(job, down=target("aten.mul.Tensor", *_ones("downp"))),
        "embedding not summed": lambda job: edited(job, x=target("aten.mul.Tensor", *_ones("xp"))),
        "mlp averaged": lambda job: edited(job, down=argument(1, "avg")),
        "attention maximum": lambda job: edited(job, attended=argument(1, "max")),
        "residual": lambda job: edited(job, hidden=argument(0, _ref("x"))),
        "offset of one rank": lambda job: edited(job, (1,), shifted=argument(1, size - 1)),
        "offset": lambda job: edited(job, shifted=argument(1, 0)),
        "upper bound": lambda job: edited(job, (0,), high=argument(1, size - 1)),
        "lower bound": lambda job: edited(job, (1,), low=argument(1, size + 1)),
        "keys for values": lambda job: edited(job, vm=argument(1, _ref("kt"))),
    }


def _ref(name: str) -> Argument:
    return Ref(name)


def _ones(name: str) -> tuple[Argument, Argument]:
    return _ref(name), 1


SMALL = Sizes(tokens=30, heads=8, head=12, ffn=70, vocabulary=200)
MUTANTS = tuple(_changes(SMALL, 2))


def elements(of: Job) -> int:
    """How many elements all tensors of both programs have."""
    graphs = (of.specification, *of.implementation)
    return sum(prod(node.type.shape) for graph in graphs for node in graph.nodes if node.type is not None)


def caught_less(folder: Path, names: Iterable[str]) -> Iterator[str]:
    """The wrong programs that are not refuted at reduced sizes though they are at their own, one line each; and those
    whose report does not say at which sizes they were executed."""
    right = layer(folder, SMALL, 2)
    limits = Limits(witness_elements=elements(right) // 2)
    wrong = mutants(right, SMALL, 2)
    for name in names:
        full, reduced = refine(wrong[name]), refine(wrong[name], limits=limits)
        if full.verdict not in (reduced.verdict, Verdict.UNKNOWN):  # small sizes may show more
            yield f"{name}: {full.verdict.value}, and {reduced.verdict.value} at reduced sizes: {reduced.notes}"
        if reduced.counterexample is not None and not reduced.counterexample.sizes:
            yield f"{name}: a counterexample without sizes"
