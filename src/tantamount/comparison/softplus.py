"""The threshold of softplus, beyond which PyTorch returns the operand: a shortcut that is no identity.

``softplus(x)`` is ``x`` where ``beta x > 20`` and ``log(1 + exp(beta x)) / beta`` elsewhere. The two differ by
``exp(-20) / beta``, 2e-9, at the threshold and by less beyond it: less than float32 can show of numbers that large. A
program that writes the formula has no threshold, and is equal up to that.
"""

from __future__ import annotations

from dataclasses import replace
from math import exp, inf

from tantamount.ir.graph import Graph, Node, Ref
from tantamount.ir.job import Job
from tantamount.verdict import Assumption

__all__ = ["without_thresholds"]

_SOFTPLUS = "aten.softplus.default"
_ARGUMENTS = ("self", "beta", "threshold")
_LEAST = 15  # of a threshold that is rounding: exp(-15) is 3e-7, the precision of float32 at 15


def without_thresholds(job: Job) -> tuple[Job, tuple[Assumption, ...]]:
    """The job with softplus as its formula everywhere, if its thresholds are not the same on both sides, and the
    assumption that this changes nothing (none, if nothing is changed)."""
    found = [_thresholds(graph) for graph in (job.specification, job.implementation[0])]
    if found[0] == found[1] or not any(found):
        return job, ()
    places: list[str] = []
    off = 0.0

    def formula(node: Node) -> tuple[Node, ...]:
        nonlocal off
        known = _threshold(node)
        if known is None:
            return (node,)
        beta, threshold = known
        off = max(off, exp(-threshold) / beta)
        places.append(node.name)
        steps = [("scaled", "aten.mul.Tensor", (beta,)), ("power", "aten.exp.default", ()),
                 ("logarithm", "aten.log1p.default", ()), ("", "aten.div.Tensor", (beta,))]  # fmt: skip
        operand = node.args[0] if node.args else node.kwargs["self"]
        made: list[Node] = []
        for what, target, more in steps:
            name = f"{node.name} {what}" if what else node.name
            made.append(replace(node, name=name, target=target, args=(operand, *more), kwargs={}))
            operand = Ref(name)
        return tuple(made)

    def changed(graph: Graph) -> Graph:
        return replace(graph, nodes=tuple(made for node in graph.nodes for made in formula(node)))

    first, second = changed(job.specification), changed(job.implementation[0])
    if not places:
        return job, ()
    text = f"beyond its threshold softplus is log(1 + exp(x)), from which x differs by less than {off:.1e}"
    assumption = Assumption("softplus-threshold", text, tuple(dict.fromkeys(places)))
    return replace(job, specification=first, implementation=(second,) * len(job.implementation)), (assumption,)


def _threshold(node: Node) -> tuple[float, float] | None:
    """The slope and the threshold of a softplus whose threshold is as far out as rounding."""
    if node.target != _SOFTPLUS or not set(node.kwargs) <= set(_ARGUMENTS):
        return None
    given = {**dict(zip(_ARGUMENTS, node.args, strict=False)), **node.kwargs}
    beta, threshold = given.get("beta", 1), given.get("threshold", 20)
    if not isinstance(beta, (int, float)) or not isinstance(threshold, (int, float)) or beta <= 0:
        return None
    return (float(beta), float(threshold)) if _LEAST <= threshold < inf else None


def _thresholds(graph: Graph) -> list[tuple[float, float]]:
    return sorted(known for node in graph.nodes if (known := _threshold(node)) is not None)
