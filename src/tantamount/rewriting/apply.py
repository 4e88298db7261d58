"""A program with the right side of a rule in the place of occurrences of its left side, where that changes no value.

An occurrence is rewritten only if, whatever real numbers the program's inputs are,

1. what it is applied to, and for a proved rule what it and the right side compute, are real numbers everywhere (no
   infinity, no NaN, no record of where it is undefined): a proof speaks of real inputs that were given, whose zeros
   have no sign, and of where the left side is finite;
2. the rule's condition holds of what it is applied to, shown by the calculus;
3. its sizes are in the rule's domain, and the rule is proved there (or the rule was only tested, which the
   verdict says).

Then the node has the same value in both programs, for all inputs, and everything else is untouched.
Why this is enough: docs/design/rules.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tantamount.calculus.calculus import Calculus
from tantamount.calculus.compare import equal
from tantamount.calculus.forms import constant_form
from tantamount.calculus.infinities import is_real
from tantamount.calculus.terms import ONE
from tantamount.capture.rules import renamed
from tantamount.effort import Effort
from tantamount.errors import TantamountError, Unsupported
from tantamount.ir.graph import Constant, Graph, Node, Output, Ref, references
from tantamount.ir.job import Job, UserRule
from tantamount.ir.mesh import Mesh
from tantamount.limits import Limits
from tantamount.ops.algebra import Tensor
from tantamount.ops.calls import operator_of
from tantamount.ops.check import check_graph
from tantamount.ops.execute import Result
from tantamount.proof.inputs import build_inputs
from tantamount.proof.sharing import Shared
from tantamount.proof.specification import run_specification
from tantamount.rewriting.evidence import Evidence, Standing, proved_at
from tantamount.rewriting.match import Occurrence, Pattern, occurrences, retyped

__all__ = ["Rewritten", "Use", "rewritten"]

Known = Callable[[UserRule], Evidence]


@dataclass(frozen=True)
class Use:
    """A node at which a rule was used, by the rule's name."""

    rule: str
    node: str


@dataclass
class Rewritten:
    """A program, the uses of rules that made it, the nodes that each rule made, and why rules that occur in it were not
    used (by name)."""

    graph: Graph
    uses: list[Use] = field(default_factory=list[Use])
    made: list[Use] = field(default_factory=list[Use])
    refused: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class _Found:
    rule: UserRule
    evidence: Evidence
    at: Occurrence


def rewritten(
    graph: Graph,
    groups: Mapping[str, int] | None,
    patterns: Sequence[Pattern],
    known: Known,
    *,
    first: bool,
    limits: Limits,
    effort: Effort,
    done: frozenset[Use] = frozenset(),
) -> Rewritten:
    """A program rewritten by the rules of some patterns, each node by the first rule that applies. ``groups`` gives the
    size of every process group (``None``: a specification), ``known`` the evidence of a rule, ``first``: it is the
    program that the other one is to refine; at what is ``done`` no rule starts again. Sizes must be numbers."""
    result = Rewritten(graph)
    types = check_graph(graph, groups)
    found: dict[str, _Found] = {}
    for pattern in patterns:
        rule = pattern.rule
        for at in occurrences(pattern, graph, types, effort):
            if at.root in found or Use(rule.name, at.root) in done:
                continue
            evidence = known(rule)
            why = _refusal(rule, evidence, at, first, limits, effort)
            if why:
                result.refused.setdefault(rule.name, why)
            else:
                found[at.root] = _Found(rule, evidence, at)
    if not found:
        return result
    sound = _sound(graph, types, list(found.values()), effort)
    for root in list(found):
        if root not in sound:
            result.refused.setdefault(found[root].rule.name, f"at {root} {_NOT_SHOWN}")
            del found[root]
    if found:
        graph = _replaced(graph, found)
        now = check_graph(graph, groups)
        found = {root: one for root, one in found.items() if root in now}  # others were between what another replaced
        if all(now[root] == types[root] for root in found):
            result.graph = graph
            result.uses = [Use(one.rule.name, root) for root, one in found.items()]
            result.made = [
                Use(one.rule.name, node.name)
                for root, one in found.items()
                for node in graph.nodes
                if node.name.startswith(f"rule.{root}.")
            ]
    return result


_NOT_SHOWN = "it is not shown that its condition holds, and that what it reads and computes is finite"


def _refusal(rule: UserRule, evidence: Evidence, at: Occurrence, first: bool, limits: Limits, effort: Effort) -> str:
    """Why a rule is not used at an occurrence, whatever the program; empty, if nothing speaks against it."""
    if not evidence.usable:
        return evidence.text
    if evidence.standing is Standing.TESTED:
        if evidence.first_only and not first:
            return (
                "its left side is undefined where its right side is not: that would hide an error of the second program"
            )
        return "it was tested for another element type" if at.dtype is not None else ""
    if evidence.first_only and not first:
        return "it takes indices to be in range, which holds of the first program only"
    if (evidence.everywhere and at.dtype is None) or proved_at(rule, at.sizes, at.dtype, limits, effort):
        return ""
    return f"it is not proved at the sizes of {at.root}"


# ---------------------------------------------------------------------------------------------- what must be shown
def _sound(graph: Graph, types: Mapping[str, Result], found: Sequence[_Found], effort: Effort) -> set[str]:
    """The roots of occurrences of which conditions 1 and 2 are shown. The program is run in the calculus as far as they
    need it, with collectives' results as inputs: whatever they bring is real if what they are given is."""
    needed = {name for one in found for name in (*one.at.inputs.values(), one.at.root)}
    part, given = _above(graph, types, needed)
    nodes, constants, conditions = list(part.nodes), dict(part.constants), dict[str, str]()
    made: dict[str, str] = {}
    for k, one in enumerate(found):
        if one.rule.holds is not None:
            conditions[one.at.root] = _append(
                _at(one.rule.holds, one.at), one.at, _free(graph, f"rule.{k}."), nodes, constants
            )
        if one.evidence.standing is Standing.PROVED:
            side = _at(one.rule.sides.implementation[0], one.at)
            made[one.at.root] = _append(side, one.at, _free(graph, f"right of rule.{k}."), nodes, constants)
    names = [*needed, *given, *conditions.values(), *made.values()]
    outputs = tuple(Output(name, name) for name in dict.fromkeys(names))
    operators = dict(part.operators)
    for one in found:
        operators.update(one.rule.sides.implementation[0].operators)
    program = replace(part, nodes=tuple(nodes), constants=constants, outputs=outputs, operators=operators)
    job = Job("rules", program, (program,), Mesh(), {}, {})
    store = Calculus(effort)
    run = run_specification(store, job, build_inputs(store, job), Shared(store))
    try:
        run.finish(names)
    except (TantamountError, ArithmeticError):
        return set()

    def real(name: str) -> bool:
        value = run.values.get(name)
        if not isinstance(value, Tensor) or any(above in run.failures for above in program.ancestors(name)):
            return False
        return is_real(store, value.value)

    def true(name: str) -> bool:
        value = run.values.get(name)
        if not isinstance(value, Tensor) or not real(name):
            return False
        try:
            return equal(store, value.value, constant_form(value.shape, ONE)) is None
        except Unsupported:
            return False

    if not all(map(real, given)):
        return set()
    sound: set[str] = set()
    for one in found:
        shown = all(map(real, one.at.inputs.values()))
        if one.evidence.standing is Standing.PROVED:
            shown = shown and real(one.at.root) and real(made[one.at.root])
        if shown and (one.at.root not in conditions or true(conditions[one.at.root])):
            sound.add(one.at.root)
    return sound


def _above(graph: Graph, types: Mapping[str, Result], names: set[str]) -> tuple[Graph, list[str]]:
    """The part of a program that computes some nodes, with results of collectives as inputs; and what all collectives
    of the program are given."""
    given: list[str] = []
    cut: dict[str, Node] = {}
    for node in graph.nodes:
        if node.op == "call" and node.target != "getitem" and operator_of(graph, node).category == "collective":
            given += references(node)
            type_ = types[node.name]
            if isinstance(type_, Tensor):
                cut[node.name] = Node(node.name, "input", node.name, type=type_.type)
    wanted = {*names, *given}
    for node in reversed(graph.nodes):
        if node.name in wanted and node.name not in cut:
            wanted.update(references(node))
    nodes = tuple(cut.get(node.name, node) for node in graph.nodes if node.name in wanted)
    return replace(graph, nodes=nodes, outputs=()), given


# ---------------------------------------------------------------------------------------------- the new program
def _at(graph: Graph, at: Occurrence) -> Graph:
    return retyped(graph.at(at.sizes) if graph.sizes.symbols else graph, at.dtype)


def _free(graph: Graph, prefix: str) -> str:
    """The prefix, or one with more in front: no node of the program begins with it, so that none is called as another
    one."""
    while any(name.startswith(prefix) for name in (*graph.by_name, *graph.constants)):
        prefix = f"rule.{prefix}"
    return prefix


def _append(
    side: Graph, at: Occurrence, prefix: str, nodes: list[Node], constants: dict[str, Constant], last: str = ""
) -> str:
    """Append the nodes of a side of a rule, applied to what an occurrence is applied to; the name of its result, which
    is ``last`` if that is given."""
    result = side.outputs[0].node
    names = {node.name: at.inputs[node.name] if node.op == "input" else prefix + node.name for node in side.nodes}
    if last and names[result] not in at.inputs.values():
        names[result] = last
    targets = {node.target: prefix + node.name for node in side.nodes if node.op == "constant"}
    for node in side.nodes:
        if node.op == "input":
            continue
        moved = renamed(node, names)
        if node.op == "constant":
            moved = replace(moved, target=targets[node.target])
            constants[moved.target] = side.constants[node.target]
        nodes.append(moved)
    if last and names[result] != last:
        nodes.append(Node(last, "call", "aten.clone.default", (Ref(names[result]),)))
        return last
    return names[result]


def _replaced(graph: Graph, found: Mapping[str, _Found]) -> Graph:
    """The program with right sides under the names of the nodes that they take the place of, and without what was
    between these and what a rule is applied to. That stays, needed or not: where an index of its is out of range, the
    program still has no value."""
    nodes: list[Node] = []
    constants = dict(graph.constants)
    operators = dict(graph.operators)
    for node in graph.nodes:
        one = found.get(node.name)
        if one is None:
            nodes.append(node)
            continue
        side = _at(one.rule.sides.implementation[0], one.at)
        before = len(nodes)
        _append(side, one.at, _free(graph, f"rule.{node.name}."), nodes, constants, node.name)
        nodes[before:] = [replace(new, source=node.source) for new in nodes[before:]]
        operators.update(side.operators)
    needed = {output.node for output in graph.outputs}
    needed.update(name for one in found.values() for name in one.at.inputs.values())
    dead = _unused(graph.nodes, needed) | {node.name for node in graph.nodes if _stays(graph, node)}
    for node in reversed(nodes):
        if node.name in needed or node.op == "input" or node.name in dead:
            needed.update((node.name, *references(node)))
    kept = tuple(node for node in nodes if node.name in needed)
    return replace(graph, nodes=kept, constants=constants, operators=operators)


def _stays(graph: Graph, node: Node) -> bool:
    """True of what other ranks wait for, and of what random numbers are counted by."""
    if node.op != "call" or node.target == "getitem":
        return False
    row = operator_of(graph, node)
    return row.category == "collective" or row.category == "random" or row.facts.random


def _unused(nodes: Sequence[Node], needed: set[str]) -> set[str]:
    """The nodes that no output needs: a program has them for what they do, or for nothing."""
    used = set(needed)
    for node in reversed(nodes):
        if node.name in used:
            used.update(references(node))
    return {node.name for node in nodes} - used
