"""Executing whole graphs: one rank alone, or all ranks of a mesh in lock step; and random inputs for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Union
from zlib import crc32

import numpy as np

from tantamount.errors import UserError
from tantamount.ir.graph import Graph, Node
from tantamount.ir.mesh import Mesh
from tantamount.ir.types import DType, Kind, TensorType
from tantamount.ops.algebra import Interpretation, Tensor, Unsized
from tantamount.ops.builder import Builder
from tantamount.ops.execute import (
    ConstantOf,
    Environment,
    Result,
    constant_type,
    input_type,
    place_of,
    recorded_constant,
    run,
)
from tantamount.ops.functions import Ties
from tantamount.ops.lockstep import run_ranks
from tantamount.semantics.noisy import Noisy
from tantamount.semantics.reference import Array, Flag, Masks, Reference
from tantamount.semantics.tape import Each, Tape, Way

__all__ = [
    "Constants",
    "Evaluation",
    "NodeValue",
    "executed",
    "interpret",
    "interpret_ranks",
    "constant_of",
    "evaluation",
    "input_tensors",
    "Arrays",
    "random_array",
    "random_constants",
    "random_inputs",
]

NodeValue = Union[Array, tuple[Union[Array, None], ...], None]
Constants = Union[Mapping[str, Array], int, float, None]
"""Values of constants that a graph does not record: by constant name, one number for all, or ``None``: an error."""

_SMALL = 4  # integers of unknown use are drawn from range(4)
_DTYPE: dict[Kind, type[np.generic]] = {
    Kind.BOOL: np.bool_,
    Kind.INT: np.int64,
    Kind.FLOAT: np.float64,
}


@dataclass(frozen=True)
class Evaluation(Mapping[str, NodeValue]):
    """The value of every node of one rank, by node name. ``flags`` say what the values rest on beyond NaNs;
    ``left_range`` has ``overflow`` or ``underflow`` where float64 did not follow the reals."""

    values_by_node: Mapping[str, NodeValue]
    flags: tuple[Flag, ...]
    left_range: frozenset[str] = frozenset()

    def __getitem__(self, name: str) -> NodeValue:
        return self.values_by_node[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_node)

    def __len__(self) -> int:
        return len(self.values_by_node)

    def array(self, name: str) -> Array:
        """The value of a node with one result. ``KeyError`` if there is no such node."""
        value = self.values_by_node[name]
        if not isinstance(value, np.ndarray):
            raise KeyError(f"{name} has several results or none")
        return value


def interpret(
    graph: Graph,
    inputs: Mapping[str, Array],
    *,
    seed: int = 0,
    constants: Constants = None,
    masks: Masks | None = None,
    ties: Ties = Ties.USUAL,
    noise: int = 0,
    undefined: tuple[int, int, int] = (0, 0, 0),
    tape: Tape | None = None,
) -> Evaluation:
    """Execute a graph in which every process group is this rank alone. ``inputs``: one array per input node, complex
    tensors (here and in the result) as pairs of real numbers in one more, last dimension. ``ties``: one of the choices
    that operators may make among equal elements. ``noise``: results that are rounded have a random error in their last
    digit, another one for every number but 0. ``undefined`` stands for whole numbers that -inf, inf and NaN became.
    ``tape``: that of earlier executions of this graph, or a new one.

    Floats are computed in float64. Raises :class:`UserError` for inputs that do not fit and graphs that are wrong,
    :class:`~tantamount.semantics.reference.IntegerOverflow` for integers beyond 2**62.
    """
    reference = _reference(0, seed, masks, ties, noise)
    reference.undefined = undefined

    def way(
        on: Sequence[Interpretation], given: Sequence[Mapping[str, Tensor]], constant: ConstantOf, each: Each | None
    ) -> list[Environment]:
        def tell(node: Node, result: Result) -> Result:
            return result if each is None else each(0, node, result)

        return [run(graph, on[0], given[0], constant=constant, each=tell)]

    given = [input_tensors(graph, inputs)]
    (environment,) = executed(way, [reference], given, constant_of(constants), _Naming([reference]), tape)
    return evaluation(environment, reference)


def executed(
    way: Way,
    on: Sequence[Interpretation],
    inputs: Sequence[Mapping[str, Tensor]],
    constant: ConstantOf,
    each: Each | None,
    tape: Tape | None,
) -> list[Environment]:
    """The values that a way of executing programs gives; as a ``tape`` says, where there is one."""
    return way(on, inputs, constant, each) if tape is None else tape.run(on, inputs, constant, each, way)


def interpret_ranks(
    graphs: Sequence[Graph],
    mesh: Mesh,
    inputs: Sequence[Mapping[str, Array]],
    *,
    seed: int = 0,
    constants: Constants = None,
    masks: Sequence[Masks | None] | None = None,
    ties: Ties = Ties.USUAL,
    noise: int = 0,
    undefined: tuple[int, int, int] = (0, 0, 0),
    tape: Tape | None = None,
) -> list[Evaluation]:
    """Execute one graph per rank in lock step; ``inputs`` and ``masks`` have one entry per rank, the rest is as for
    :func:`interpret`. ``tape``: that of earlier executions of these graphs, or a new one.

    Raises :class:`UserError` also where the ranks' collectives do not match or wait for each other.
    """
    count = mesh.world_size
    if not len(graphs) == len(inputs) == count:
        raise UserError(
            "mesh-size",
            place="interpretation",
            found=f"{len(graphs)} graphs and {len(inputs)} sets of inputs",
            needed=f"one for each of the mesh's {count} ranks",
        )
    references = [_reference(rank, seed, masks[rank] if masks else None, ties, noise) for rank in range(count)]
    for reference in references:
        reference.undefined = undefined
    tensors = [input_tensors(graph, given) for graph, given in zip(graphs, inputs, strict=True)]

    def way(
        on: Sequence[Interpretation], given: Sequence[Mapping[str, Tensor]], constant: ConstantOf, each: Each | None
    ) -> list[Environment]:
        return run_ranks(graphs, mesh, on, given, constant=constant, each=each)

    environments = executed(way, references, tensors, constant_of(constants), _Naming(references), tape)
    return [evaluation(environment, reference) for environment, reference in zip(environments, references, strict=True)]


def _reference(rank: int, seed: int, masks: Masks | None, ties: Ties, noise: int) -> Reference:
    if noise:
        return Noisy(rank=rank, seed=seed, masks=masks, ties=ties, noise=noise)
    return Reference(rank=rank, seed=seed, masks=masks, ties=ties)


class _Naming:
    """Writes the node's name into the flags that it raised."""

    def __init__(self, references: Sequence[Reference]) -> None:
        self.references = references

    def __call__(self, rank: int, node: Node, result: Result) -> Result:
        flags = self.references[rank].flags
        for k in range(len(flags) - 1, -1, -1):
            if flags[k].site:
                break
            flags[k] = replace(flags[k], site=node.name)
        return result


def evaluation(environment: Mapping[str, Result], reference: Reference) -> Evaluation:
    """The values that a run computed, and what the interpretation noted on the way."""
    return Evaluation(Arrays(environment), tuple(reference.flags), frozenset(reference.left_range))


class Arrays(Mapping[str, NodeValue]):
    """The values that a run computed, as arrays. Each is made when it is asked for first: of most executions only the
    outputs are."""

    def __init__(self, environment: Mapping[str, Result]) -> None:
        self._results = environment
        self._known: dict[str, NodeValue] = {}

    def __getitem__(self, name: str) -> NodeValue:
        if name not in self._known:
            result = self._results[name]
            self._known[name] = tuple(map(_array, result)) if isinstance(result, tuple) else _array(result)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)


def _array(tensor: Tensor | Unsized | None) -> Array | None:
    return np.asarray(tensor.value, dtype=_DTYPE[tensor.dtype.part.kind]) if isinstance(tensor, Tensor) else None


def input_tensors(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Tensor]:
    """The inputs of a graph with their types. Raises :class:`UserError` where they do not fit."""
    found: dict[str, Tensor] = {}
    for node in graph.inputs:
        place = place_of(graph, node)
        if node.name not in inputs:
            raise UserError(
                "input-missing",
                place=place,
                found=f"values for {', '.join(sorted(inputs)) or 'nothing'}",
                needed=f"a value for input {node.name}",
            )
        value = np.asarray(inputs[node.name])
        original = node.type or TensorType(value.shape, _dtype_of(value))
        type_ = original.stored
        if value.shape != type_.shape or not np.can_cast(value.dtype, _DTYPE[type_.dtype.kind], casting="same_kind"):
            raise UserError(
                "input-type", place=place, found=f"an array {value.dtype}{list(value.shape)}", needed=str(type_)
            )
        stored = np.asarray(value, dtype=_DTYPE[type_.dtype.kind])
        found[node.name] = Tensor(original.shape, original.dtype, stored)
    return found


def _dtype_of(value: Array) -> DType:
    return {"b": DType.BOOL, "i": DType.INT64, "u": DType.INT64}.get(value.dtype.kind, DType.FLOAT64)


def constant_of(constants: Constants) -> Callable[[Graph, Node, Builder], Tensor]:
    """The values of constant nodes, those that graphs do not record included."""

    def constant(graph: Graph, node: Node, builder: Builder) -> Tensor:
        if node.target in graph.constants or constants is None:
            return recorded_constant(graph, node, builder)
        original = constant_type(graph, node)
        type_ = original.stored
        if isinstance(constants, Mapping):
            if node.target not in constants:
                return recorded_constant(graph, node, builder)  # raises: there is none
            value: Any = np.asarray(constants[node.target], dtype=_DTYPE[type_.dtype.kind])
        else:
            value = np.full(type_.shape, constants, dtype=_DTYPE[type_.dtype.kind])
        if value.shape != type_.shape:
            raise UserError(
                "constant-type",
                place=place_of(graph, node),
                found=f"a value of shape {list(value.shape)}",
                needed=str(type_),
            )
        return Tensor(original.shape, original.dtype, value)

    return constant


# ---------------------------------------------------------------------------------------------- random values
def random_array(type_: TensorType, seed: Sequence[int], bound: int = _SMALL) -> Array:
    """Standard normal floats, integers of ``range(bound)``, fair booleans. The same for the same ``seed``."""
    generator = np.random.default_rng(list(seed))
    if type_.dtype.kind is Kind.BOOL:
        return np.asarray(generator.integers(0, 2, type_.shape), dtype=np.bool_)
    if type_.dtype.kind is Kind.INT:
        return np.asarray(generator.integers(0, max(bound, 1), type_.shape), dtype=np.int64)
    return np.asarray(generator.standard_normal(type_.stored.shape))


def random_inputs(graph: Graph, seed: int, integer_bounds: Mapping[str, int] | None = None) -> dict[str, Array]:
    """One random array per input, by its recorded type. Integers of an input that ``integer_bounds`` lists are drawn
    below that bound (see :func:`tantamount.semantics.survey.index_bounds`), others from ``range(4)``."""
    bounds = integer_bounds or {}
    found: dict[str, Array] = {}
    for node in graph.inputs:
        found[node.name] = random_array(
            input_type(graph, node), (seed, crc32(node.name.encode())), bounds.get(node.name, _SMALL)
        )
    return found


def random_constants(graphs: Sequence[Graph], seed: int) -> dict[str, Array]:
    """Random values for the constants that graphs do not record: the same name has the same value in all of them."""
    found: dict[str, Array] = {}
    for graph in graphs:
        for node in graph.nodes:
            if node.op == "constant" and node.target not in graph.constants and node.target not in found:
                found[node.target] = random_array(constant_type(graph, node), (seed, crc32(node.target.encode()), 1))
    return found
