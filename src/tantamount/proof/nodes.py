"""Values of single nodes where the calculus does not have them at once: constants, and what it cannot express."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

from tantamount.calculus.atoms import Store, ValueFacts
from tantamount.calculus.forms import Form, leaf_form
from tantamount.calculus.records import somewhere, with_undefined
from tantamount.calculus.symbolic import Symbolic
from tantamount.errors import DataDependent, Unsupported
from tantamount.ir.graph import Graph, Node
from tantamount.ir.job import SAME_NAME, Job
from tantamount.ir.types import Shape
from tantamount.ops.algebra import Tensor, TypesOnly, Unsized
from tantamount.ops.builder import Builder
from tantamount.ops.execute import Environment, Result, constant_type, recorded_constant, run_node
from tantamount.proof.run import Run

__all__ = ["constants_of", "fail", "unknown"]


def constants_of(store: Store, job: Job, run: Run) -> Callable[[Graph, Node, Builder], Tensor]:
    """The value of ``constant`` nodes: recorded, assumed to be a number, or unknown but the same on both sides."""

    def constant(graph: Graph, node: Node, builder: Builder) -> Tensor:
        assumed = job.assume.constants
        if node.target in graph.constants or assumed is None:
            return recorded_constant(graph, node, builder)
        type_ = constant_type(graph, node)
        run.constants[node.target] = f"{graph.path}: {node.name}"
        if assumed == SAME_NAME:
            type_, original = type_.stored, type_
            shapes = store.leaves.constant_shapes
            atom = store.leaf(
                "constant"
                if type_.shape == shapes.setdefault(node.target, type_.shape)
                else "constant of another shape",
                node.target if type_.shape == shapes[node.target] else (node.target, type_.shape),
                type_.shape,
                ValueFacts.of_type(type_.dtype),
            )
            form = leaf_form(atom, type_.shape)
            return Tensor(original.shape, original.dtype, _spread(builder, form, type_.shape))
        return builder.full(type_.shape, Fraction(assumed), type_.dtype)

    return constant


def _spread(builder: Builder, form: Form, shape: Shape) -> Form:
    interpretation = builder.interpretation
    return interpretation.spread(form, shape) if isinstance(interpretation, Symbolic) else form


def fail(run: Run, name: str, problem: Unsupported, reason: str) -> None:
    """Remember why the value of a node is not known."""
    run.failures.setdefault(name, reason)
    if isinstance(problem, DataDependent):
        run.undecided[name] = None


def unknown(
    graph: Graph, node: Node, symbolic: Symbolic, environment: Environment, groups: Mapping[str, int] | None
) -> Result:
    """Fresh unknowns of the node's types: the value may be anything, so nothing false follows from it."""
    types = run_node(graph, node, Builder(TypesOnly(groups), node.name), environment, _type_of_constant, groups)

    def fresh(tensor: Tensor | None, k: int) -> Tensor | None:
        if tensor is None:
            return None
        stored = tensor.type.stored
        form = symbolic.fresh("unsupported", (symbolic.rank, graph.path, node.name, k), stored.shape, stored.dtype)
        return replace(tensor, value=with_undefined(form, somewhere(symbolic.store, form.shape)))

    if isinstance(types, tuple):
        return tuple(fresh(tensor, k) for k, tensor in enumerate(types))
    return types if isinstance(types, Unsized) else fresh(types, 0)


def _type_of_constant(graph: Graph, node: Node, builder: Builder) -> Tensor:
    found = constant_type(graph, node)
    return Tensor(found.shape, found.dtype, None)
