"""Evidence for rules from z3: both sides are equal, element by element; inputs satisfy the condition, or none do.

Where both sides, and the condition, compute every element from the elements of the inputs at its own place, by the same
function everywhere, they are equal at all sizes if they are at sizes of 1: an element of any tensor is then that
function of as many numbers as there are inputs. Any other rule is compared at the sizes that it has, element by
element, which says nothing of other sizes. That is about real numbers, as all proofs are; z3 takes exponentials, roots
and other functions for more than they are, so its "equal" holds of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tantamount.effort import Effort
from tantamount.errors import TantamountError
from tantamount.ir.graph import Graph
from tantamount.ir.job import Job, UserRule
from tantamount.ir.types import TensorType
from tantamount.ops.algebra import Tensor
from tantamount.ops.calls import facts_of
from tantamount.ops.check import check_graph
from tantamount.semantics.survey import survey
from tantamount.sizes.domain import NO_SIZES
from tantamount.smt.engine import Compared, compare
from tantamount.smt.holding import satisfying

__all__ = ["Solved", "condition_of", "equal_at", "equal_elements"]


@dataclass(frozen=True)
class Solved:
    """Both sides of a rule are equal: at all sizes if ``everywhere``. ``indices``: those of the left side were taken to
    be in range."""

    everywhere: bool
    indices: bool


def equal_elements(rule: UserRule, effort: Effort) -> Solved | None:
    """The equality of both sides that z3 shows: at all sizes, or at those that the rule has; ``None`` if it shows none,
    or is not installed."""
    sides = (rule.sides.specification, rule.sides.implementation[0], *(() if rule.holds is None else (rule.holds,)))
    if all(map(_is_elementwise, sides)):
        found = _compared(_of_single_elements(rule.guarded), effort)
        if found is not None:
            return Solved(True, bool(found.indices))
    if rule.guarded.at is not None:
        return None
    found = equal_at(rule.guarded, effort)
    return None if found is None else Solved(False, found)


def equal_at(job: Job, effort: Effort) -> bool | None:
    """``None`` if the sides of a rule, at some sizes, are not shown to be equal; else if indices are taken to be in
    range for that."""
    found = _compared(job, effort)
    return None if found is None else bool(found.indices)


def condition_of(rule: UserRule, effort: Effort) -> Mapping[str, float] | bool | None:
    """For a condition on single elements: a number for each input that satisfies it, to be tried; ``True`` or ``False``
    if all or none do; ``None`` where that is not known."""
    if rule.holds is None or not _is_elementwise(rule.holds):
        return None
    try:
        found = satisfying(_single(rule.holds), effort)
    except (TantamountError, ArithmeticError):
        return None
    if found is None or isinstance(found, bool):
        return found
    return {name: float(values[0]) for name, values in found.items()}


def _compared(job: Job, effort: Effort) -> Compared | None:
    """The result of the second engine, if all is equal and that rests on nothing but indices in range; else
    ``None``."""
    try:
        work = sum(survey(graph).work for graph in (job.specification, *job.programs))
        if effort.exceeds("rule_work", work):
            return None
        found = compare(job, effort)
    except (TantamountError, ArithmeticError):
        return None
    rests = found.contradictory or found.restricted or found.constants or found.dropouts
    return None if rests or not found.outputs or not all(one.equal for one in found.outputs) else found


def _is_elementwise(graph: Graph) -> bool:
    """True if every operator computes elements from those at the same place, and nothing is recorded but numbers."""
    types = check_graph(graph, None)

    def operand(name: str) -> Tensor | None:
        found = types[name]
        return found if isinstance(found, Tensor) else None

    for node in graph.nodes:
        if node.op == "constant" and (node.target not in graph.constants or graph.constants[node.target].type.shape):
            return False
        if node.op == "call" and (node.target == "getitem" or not facts_of(graph, node, operand).elementwise):
            return False
    return True


def _of_single_elements(job: Job) -> Job:
    """Both sides of a rule, of inputs with one element each."""
    first, second = _single(job.specification), _single(job.implementation[0])
    return replace(job, specification=first, implementation=(second,), sizes=NO_SIZES, at=None)


def _single(graph: Graph) -> Graph:
    nodes = tuple(
        replace(node, type=TensorType((1,) * len(node.type.shape), node.type.dtype) if node.op == "input" and node.type
                else node.type if node.op == "constant" else None)
        for node in graph.nodes
    )  # fmt: skip
    return replace(graph, nodes=nodes, sizes=NO_SIZES)
