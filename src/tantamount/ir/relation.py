"""The relation language of jobs: DTensor placements and clean expressions, as data.

    concat(rank(0)[0:768], rank(1)[0:768], dim=0)     sum(rank(0), rank(1, "other"))     Shard(0)

``str`` prints what :func:`tantamount.ir.relation_text.parse_relation` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Union

from tantamount.errors import InternalError
from tantamount.ir.tokens import quote

__all__ = [
    "OUTPUT", "REDUCTIONS", "Argument", "Arranged", "Bounds", "Concat", "Equality", "Expectation", "Expression",
    "InputRelation", "Partial", "Permute", "Placement", "RankTensor", "RelationProblem", "Replicate", "Reshape",
    "Shard", "Sign", "Slice", "Sum", "operands", "rank_tensors", "unresolved", "with_operands", "with_tensors",
]  # fmt: skip


# ---------------------------------------------------------------------------------------------- placements
@dataclass(frozen=True, slots=True)
class Replicate:
    """The whole tensor on every coordinate of the mesh axis."""

    def __str__(self) -> str:
        return "Replicate()"


@dataclass(frozen=True, slots=True)
class Shard:
    """Dimension ``dim`` cut as ``torch.chunk`` does: ceil-sized parts, the last ones smaller or empty."""

    dim: int

    def __str__(self) -> str:
        return f"Shard({self.dim})"


@dataclass(frozen=True, slots=True)
class Partial:
    """The whole is the ``reduction`` (``sum``, ``avg``, ``max``, ``min``) over the mesh axis."""

    reduction: str = "sum"

    def __str__(self) -> str:
        return f"Partial({quote(self.reduction)})"


Placement = Union[Replicate, Shard, Partial]
REDUCTIONS = ("sum", "avg", "max", "min")


# ---------------------------------------------------------------------------------------------- clean expressions
OUTPUT = -1  # the "rank" of outputs of the specification


@dataclass(frozen=True, slots=True)
class RankTensor:
    """The implementation tensor ``name`` on ``rank``; ``None`` is the name that the relation is about. On the rank
    :data:`OUTPUT` it is an output of the specification."""

    rank: int
    name: str | None = None

    def __str__(self) -> str:
        if self.rank == OUTPUT:
            return f"output({quote(self.name or '')})"
        return f"rank({self.rank})" if self.name is None else f"rank({self.rank}, {quote(self.name)})"


Bounds = tuple[Union[int, None], Union[int, None], int]  # start, stop, step as Python writes them; step >= 1


@dataclass(frozen=True, slots=True)
class Slice:
    """``operand[start:stop:step, ...]``, one entry per leading dimension. Resolved (``relation_types.resolve``) it has
    one entry per dimension with ``0 <= start <= stop <= size``."""

    operand: Expression
    bounds: tuple[Bounds, ...]

    def __str__(self) -> str:
        def one(bounds: Bounds) -> str:
            start, stop, step = bounds
            text = f"{'' if start is None else start}:{'' if stop is None else stop}"
            return text if step == 1 else f"{text}:{step}"

        return f"{self.operand}[{', '.join(map(one, self.bounds))}]"


@dataclass(frozen=True, slots=True)
class Concat:
    """The parts one after the other along ``dim``."""

    parts: tuple[Expression, ...]
    dim: int

    def __str__(self) -> str:
        return f"concat({', '.join(map(str, self.parts))}, dim={self.dim})"


@dataclass(frozen=True, slots=True)
class Sum:
    """The element-wise sum of the parts."""

    parts: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"sum({', '.join(map(str, self.parts))})"


@dataclass(frozen=True, slots=True)
class Permute:
    """Dimension k of the result is dimension ``dims[k]`` of the operand."""

    operand: Expression
    dims: tuple[int, ...]

    def __str__(self) -> str:
        return f"permute({self.operand}, {list(self.dims)})"


@dataclass(frozen=True, slots=True)
class Reshape:
    """The same elements in row-major order; one size may be -1 until resolved."""

    operand: Expression
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"reshape({self.operand}, {list(self.shape)})"


Argument = Union[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Arranged:
    """A row of :data:`tantamount.ir.arrangements.ARRANGEMENTS`, as it is written. Resolved, it is what the row says: an
    expression of the other classes."""

    function: str
    operand: Expression
    arguments: tuple[Argument, ...]

    def __str__(self) -> str:
        shown = (str(list(a)) if isinstance(a, tuple) else str(a) for a in self.arguments)
        return f"{self.function}({', '.join([str(self.operand), *shown])})"


Expression = Union[RankTensor, Slice, Concat, Sum, Permute, Reshape, Arranged]


Equality = tuple[Expression, Expression]  # each a tensor of a rank, or a slice of one


class RelationProblem(Exception):
    """A relation that does not fit its tensors; the text is one clause."""


def operands(expression: Expression) -> tuple[Expression, ...]:
    """The expressions that an expression is made of, in order; a tensor of a rank is made of none."""
    if isinstance(expression, RankTensor):
        return ()
    return expression.parts if isinstance(expression, (Concat, Sum)) else (expression.operand,)


def with_operands(expression: Expression, parts: Sequence[Expression]) -> Expression:
    """The same of other operands, as many as it has."""
    if isinstance(expression, RankTensor):
        return expression
    if isinstance(expression, (Concat, Sum)):
        return replace(expression, parts=tuple(parts))
    (operand,) = parts
    return replace(expression, operand=operand)


def unresolved(expression: Expression) -> InternalError:
    """The error that says that an expression should have been fitted to its tensors before."""
    return InternalError(f"the relation {expression} was not resolved")


def rank_tensors(expression: Expression) -> Iterator[RankTensor]:
    """The implementation tensors of an expression, in order, with repetitions."""
    if isinstance(expression, RankTensor):
        yield expression
    for part in operands(expression):
        yield from rank_tensors(part)


def with_tensors(expression: Expression, change: Callable[[RankTensor], Expression]) -> Expression:
    """The expression with something else in place of every tensor of a rank."""
    if isinstance(expression, RankTensor):
        return change(expression)
    return with_operands(expression, [with_tensors(part, change) for part in operands(expression)])


# ---------------------------------------------------------------------------------------------- what a job says
class Sign(Enum):
    """The sign of every element of a tensor of real numbers, as far as it is known."""

    ANY = "any"
    NONNEGATIVE = "nonnegative"
    POSITIVE = "positive"


@dataclass(frozen=True, slots=True)
class InputRelation:
    """The places at which the implementation has a specification input. Exactly one of ``placements`` (one per mesh
    axis, of the implementation input ``name`` on every rank) and ``expression`` (resolved) is given; ``equal`` lists
    implementation inputs, or slices of them, that are equal. ``text`` is what the job says. ``signs``: what is known of
    every element of the specification's tensor and of the implementation's; no job says that, but a proof of what comes
    before may."""

    name: str
    placements: tuple[Placement, ...] | None = None
    expression: Expression | None = None
    equal: tuple[Equality, ...] = ()
    text: str = ""
    signs: tuple[Sign, Sign] = (Sign.ANY, Sign.ANY)


@dataclass(frozen=True, slots=True)
class Expectation:
    """The claim that is to hold of a specification output: like :class:`InputRelation`, about implementation outputs;
    with neither ``placements`` nor ``expression`` any clean relation will do (``infer``). ``equal`` must hold as well.

    ``problem`` is not empty if the recorded shapes alone contradict the expectation: then it cannot hold, and
    ``expression`` is as written."""

    name: str
    placements: tuple[Placement, ...] | None = None
    expression: Expression | None = None
    equal: tuple[Equality, ...] = ()
    text: str = "infer"
    problem: str = ""

    @property
    def infer(self) -> bool:
        return self.placements is None and self.expression is None
