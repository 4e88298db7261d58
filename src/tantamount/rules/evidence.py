"""Evidence for rules: both sides of every example are proved equal, with sizes as symbols.

An example has ranks and attributes as numbers and sizes as symbols. Both sides become graphs over the same inputs, and
:func:`tantamount.proof.prove` is asked over the reals; the conditions that it notes on the sizes are part of the
evidence. What carries over to the integers of a machine follows from the operators (:func:`domain`): an equality of
polynomials with integer coefficients over the reals is one of coefficients, so it holds modulo ``2 ** n``; one of
choices among elements holds in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from random import Random
from typing import Any

from tantamount.errors import TantamountError
from tantamount.ir.graph import Graph, Node, Output
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Expectation, InputRelation
from tantamount.ir.types import DType, TensorType
from tantamount.ops.algebra import Tensor
from tantamount.ops.check import check_graph
from tantamount.proof import Options, prove
from tantamount.rules.rule import Example, Match, Rule
from tantamount.rules.terms import Attribute, Leaf, Part, Term, Variable, entries, nodes_of, operators_in
from tantamount.sizes.domain import Domain, Symbol, implied
from tantamount.sizes.symbolic import Space
from tantamount.verdict import Verdict

__all__ = ["LAYOUT", "ORDER", "RING", "Evidence", "domain", "evidence", "sides"]

_HINTS = {"M": 6, "N": 10, "K": 14, "B": 4, "C": 22}

LAYOUT = frozenset(
    f"aten.{name}"
    for name in (
        "permute.default", "transpose.int", "reshape.default", "expand.default", "slice.Tensor", "flip.default",
        "cat.default", "split_with_sizes.default", "stack.default", "unsqueeze.default", "squeeze.dim", "select.int",
        "constant_pad_nd.default", "repeat.default", "clone.default", "where.self", "index_select.default",
    )
) | {"getitem"}  # fmt: skip
RING = frozenset(
    f"aten.{name}"
    for name in (
        "add.Tensor", "sub.Tensor", "mul.Tensor", "neg.default", "mm.default", "bmm.default", "matmul.default",
        "addmm.default", "sum.dim_IntList", "convolution.default", "cumsum.default",
    )
)  # fmt: skip
ORDER = frozenset(
    f"aten.{name}"
    for name in (
        "maximum.default", "minimum.default", "amax.default", "amin.default", "lt.Tensor", "gt.Tensor", "le.Tensor",
        "ge.Tensor", "eq.Tensor", "ne.Tensor", "logical_not.default", "logical_and.default", "logical_or.default",
        "relu.default", "clamp.default",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Evidence:
    """The evidence for a rule. ``proved``: every example is; ``failures``: why the others are not, one line each;
    ``conditions``: on the sizes that are symbols, beyond their being 2 or more; ``domain``: see :func:`domain`."""

    rule: str
    proved: bool
    examples: int
    failures: tuple[str, ...]
    conditions: tuple[str, ...]
    domain: str


def domain(rule: Rule, operators: frozenset[str]) -> str:
    """The domain in which an equality with these operators holds besides the reals: ``integers mod 2^n``, ``any order``
    or ``""``."""
    rest = operators - LAYOUT
    if rest <= RING:
        return "integers mod 2^n"
    return "any order" if rest <= ORDER else ""


def _size(text: str, space: Space) -> Any:
    return prod((space.symbols[part] if part in space.symbols else int(part)) for part in text.split("*"))


def _attribute(value: Any, space: Space) -> Any:
    inner = entries(value)
    if inner is not None:
        return tuple(_attribute(item, space) for item in inner)
    if isinstance(value, str) and value.startswith("dtype:"):
        return DType.named(value[6:])
    if isinstance(value, str) and "->" in value:  # the equation of an Einstein sum
        return value
    return _size(value, space) if isinstance(value, str) else value


def _filled(pattern: Any, match: Match) -> Any:
    """A pattern with its holes filled."""
    if isinstance(pattern, Variable):
        return match.tensors[pattern.name]
    if isinstance(pattern, Attribute):
        return match.attributes[pattern.name]
    if isinstance(pattern, Term):
        kwargs = {key: _filled(value, match) for key, value in pattern.kwargs.items()}
        return Term(pattern.target, tuple(_filled(item, match) for item in pattern.args), kwargs)
    inner = entries(pattern)
    return pattern if inner is None else tuple(_filled(item, match) for item in inner)


def sides(rule: Rule, example: Example, space: Space) -> tuple[Part, Part, list[Node]] | None:
    """Both sides of an example, and its inputs; ``None`` where the rule does not apply to it."""
    tensors: dict[str, Leaf] = {}
    for name, text in example.shapes.items():
        dtype = DType.named(example.dtypes.get(name, example.dtype)) or DType.FLOAT32
        tensors[name] = Leaf(name, TensorType(tuple(_size(part, space) for part in text.split()), dtype))
    attributes = {name: _attribute(value, space) for name, value in example.attributes.items()}
    match = Match(tensors, attributes, Random(example.seed))
    left = _filled(rule.pattern, match)
    inputs = [Node(name, "input", name, type=leaf.type) for name, leaf in tensors.items()]
    root = _typed(_graph(left, inputs)) if isinstance(left, Term) else left.type
    right = rule.build(replace(match, root=Leaf("root", root)))
    return None if right is None else (left, right, inputs)


def _graph(part: Part, inputs: list[Node]) -> Graph:
    nodes = list(inputs)
    name = nodes_of(part, nodes, "t")
    return Graph(tuple(nodes), (Output("y", name),))


def _typed(graph: Graph) -> TensorType:
    found = check_graph(graph, None)[graph.outputs[0].node]
    if not isinstance(found, Tensor):
        raise TypeError("a side of a rule is one tensor")
    return found.type


def evidence(rule: Rule) -> Evidence:
    """Prove all examples of a rule."""
    symbols = Domain(tuple(Symbol(name, hint, 2) for name, hint in _HINTS.items()))
    failures: list[str] = []
    conditions: dict[str, None] = {}
    operators: set[str] = set()
    done = 0
    for example in rule.examples:
        space = Space(_HINTS)
        shown = ", ".join(f"{name}: {text}" for name, text in {**example.shapes, **example.attributes}.items())
        try:
            found = sides(rule, example, space)
            if found is None:
                failures.append(f"does not apply to {shown}")
                continue
            left, right, inputs = found
            operators.update((*operators_in(left), *operators_in(right)))
            a, b = _graph(left, inputs), _graph(right, inputs)
            if _typed(a) != _typed(b):
                failures.append(f"another type: {shown}")
                continue
            relations = {node.name: InputRelation(node.name, ()) for node in inputs}
            job = Job(rule.name, a, (b,), Mesh(), relations, {"y": Expectation("y", ())})
            reports = prove(job, Options(cut=False)).check()
        except (TantamountError, ArithmeticError) as problem:
            failures.append(f"{shown}: {str(problem).splitlines()[0]}")
            continue
        done += 1
        if any(report.verdict is not Verdict.PROVED for report in reports):
            failures.append(f"not proved: {shown}")
            continue
        conditions |= {str(c): None for c in space.conditions if not implied(symbols, c)}
    where = domain(rule, frozenset(operators))
    return Evidence(rule.name, not failures, done, tuple(failures), tuple(conditions), where)
