"""The relation language of jobs: DTensor placements and clean expressions, as data. Parsed, never evaluated.

    concat(rank(0)[0:768], rank(1)[0:768], dim=0)     sum(rank(0), rank(1, "other"))     Shard(0)

``str`` prints what :func:`parse_relation` reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Union

from tantamount.errors import UserError
from tantamount.ir.tokens import Cursor, SyntaxProblem, quote
from tantamount.limits import Limits

__all__ = [
    "OUTPUT", "Bounds", "Concat", "Equality", "Expectation", "Expression", "InputRelation", "Partial", "Permute",
    "Placement", "RankTensor", "Replicate", "Reshape", "Shard", "Sign", "Slice", "Sum", "Transpose",
    "parse_equalities", "parse_relation", "rank_tensors",
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
class Transpose:
    """Two dimensions exchanged."""

    operand: Expression
    dim0: int
    dim1: int

    def __str__(self) -> str:
        return f"transpose({self.operand}, {self.dim0}, {self.dim1})"


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


Expression = Union[RankTensor, Slice, Concat, Sum, Transpose, Permute, Reshape]


Equality = tuple[Expression, Expression]  # each a tensor of a rank, or a slice of one


def rank_tensors(expression: Expression) -> Iterator[RankTensor]:
    """The implementation tensors of an expression, in order, with repetitions."""
    if isinstance(expression, RankTensor):
        yield expression
    elif isinstance(expression, (Concat, Sum)):
        for part in expression.parts:
            yield from rank_tensors(part)
    else:
        yield from rank_tensors(expression.operand)


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


# ---------------------------------------------------------------------------------------------- parsing
_FUNCTIONS = "rank(i), concat(..., dim=d), sum(...), transpose(t, d0, d1), permute(t, dims), reshape(t, shape)"
_PLACEMENTS = ("Replicate", "Shard", "Partial")


def parse_relation(text: str, place: str, limits: Limits) -> Placement | Expression:
    """A placement or a clean expression. Raises :class:`UserError` that shows where reading stopped."""
    cursor = _cursor(text, place, limits)
    try:
        if cursor.token.kind == "name" and cursor.token.text in _PLACEMENTS:
            relation: Placement | Expression = _placement(cursor)
        else:
            relation = _expression(cursor, limits.nesting)
            limits.check("nesting", _depth(relation), place, "expressions inside one another")
        cursor.finish()
    except SyntaxProblem as problem:
        raise _syntax_error(text, place, problem) from None
    return relation


def parse_equalities(text: str, place: str, limits: Limits) -> tuple[Equality, ...]:
    """``rank(0) == rank(1)``, ``rank(0)[4:8] == rank(1)[4:8]``, or a chain of them, as pairs of neighbours."""
    cursor = _cursor(text, place, limits)
    try:
        terms = [_held(cursor)]
        while cursor.accept("=="):
            terms.append(_held(cursor))
        if len(terms) == 1:
            raise cursor.problem("'==' and another rank(i)")
        cursor.finish()
    except SyntaxProblem as problem:
        raise _syntax_error(text, place, problem) from None
    return tuple(pairwise(terms))


def _cursor(text: str, place: str, limits: Limits) -> Cursor:
    limits.check("expression_length", len(text), place, "characters in a relation")
    try:
        return Cursor(text)
    except SyntaxProblem as problem:
        raise _syntax_error(text, place, problem) from None


def _syntax_error(text: str, place: str, problem: SyntaxProblem) -> UserError:
    before, after = text[: problem.position][-30:], text[problem.position :][:30]
    return UserError(
        "relation-syntax", place=place,
        found=f"{problem.found} at character {problem.position + 1}: {before!r} >>> {after!r}", needed=problem.needed,
        hint=f'Replicate(), Shard(d), Partial("sum"); or {_FUNCTIONS}, and slices such as [:, 0:8]',
    )  # fmt: skip


def _placement(cursor: Cursor) -> Placement:
    name = cursor.take("name", "a placement").text
    cursor.expect("(")
    if name == "Replicate":
        placement: Placement = Replicate()
    elif name == "Shard":
        if cursor.accept("dim", "name"):
            cursor.expect("=")
        placement = Shard(cursor.integer("a dimension"))
    elif cursor.at(")"):
        placement = Partial()
    else:
        start = cursor.token
        reduction = cursor.string('a reduction such as "sum"')
        if reduction not in REDUCTIONS:
            raise SyntaxProblem(f"reduction {reduction!r}", f"one of {', '.join(REDUCTIONS)}", start.position)
        placement = Partial(reduction)
    cursor.expect(")")
    return placement


def _rank_tensor(cursor: Cursor) -> RankTensor:
    cursor.expect("rank", "name")
    return _rank_arguments(cursor)


def _held(cursor: Cursor) -> Expression:
    """A tensor of a rank, or a slice of one."""
    tensor = _rank_tensor(cursor)
    return Slice(tensor, _bounds(cursor)) if cursor.accept("[") else tensor


def _rank_arguments(cursor: Cursor) -> RankTensor:
    cursor.expect("(")
    start = cursor.token
    rank = cursor.integer("a rank number")
    if rank < 0:
        raise SyntaxProblem(f"rank {rank}", "a rank number from 0 on", start.position)
    name = cursor.string("a tensor name in quotes") if cursor.accept(",") else None
    cursor.expect(")")
    return RankTensor(rank, name)


def _expression(cursor: Cursor, depth: int) -> Expression:
    if depth <= 0:
        raise cursor.problem("an expression nested less deeply (limit nesting; raise it with TANTAMOUNT_LIMIT_NESTING)")
    if cursor.accept("("):
        expression = _expression(cursor, depth - 1)
        cursor.expect(")")
    else:
        expression = _call(cursor, depth)
    while cursor.accept("["):
        expression = Slice(expression, _bounds(cursor))
    return expression


def _depth(expression: Expression) -> int:
    """The depth to which expressions are nested (no recursion: the text is untrusted)."""
    level: list[Expression] = [expression]
    depth = 0
    while level:
        depth += 1
        level = [part for item in level for part in _operands(item)]
    return depth


def _operands(expression: Expression) -> tuple[Expression, ...]:
    if isinstance(expression, RankTensor):
        return ()
    return expression.parts if isinstance(expression, (Concat, Sum)) else (expression.operand,)


def _call(cursor: Cursor, depth: int) -> Expression:
    start = cursor.token
    name = cursor.take("name", f"one of {_FUNCTIONS}").text
    if name == "rank":
        return _rank_arguments(cursor)
    if name == "output":
        cursor.expect("(")
        tensor = RankTensor(OUTPUT, cursor.string("an output's name in quotes"))
        cursor.expect(")")
        return tensor
    if name in _PLACEMENTS:
        raise SyntaxProblem(
            f"{name} inside an expression", "a placement alone, or an expression without placements", start.position
        )
    if name not in ("concat", "sum", "transpose", "permute", "reshape"):
        raise SyntaxProblem(f"function {name!r}", f"one of {_FUNCTIONS}", start.position)
    cursor.expect("(")
    operand = _expression(cursor, depth - 1)
    if name in ("concat", "sum"):
        expression = _parts(cursor, name, operand, depth)
    elif name == "transpose":
        cursor.expect(",")
        dim0 = cursor.integer("a dimension")
        cursor.expect(",")
        expression = Transpose(operand, dim0, cursor.integer("a dimension"))
    else:
        cursor.expect(",")
        numbers = _integers(cursor)
        expression = Permute(operand, numbers) if name == "permute" else Reshape(operand, numbers)
    cursor.accept(",")
    cursor.expect(")")
    return expression


def _parts(cursor: Cursor, name: str, first: Expression, depth: int) -> Expression:
    parts = [first]
    while cursor.accept(","):
        if cursor.at("dim", "name") or cursor.at(")"):
            break
        parts.append(_expression(cursor, depth - 1))
    if name == "sum":
        return Sum(tuple(parts))
    if not cursor.accept("dim", "name"):
        raise cursor.problem("', dim=<number>' at the end of concat")
    cursor.expect("=")
    return Concat(tuple(parts), cursor.integer("a dimension"))


def _integers(cursor: Cursor) -> tuple[int, ...]:
    if not (cursor.at("[") or cursor.at("(")):
        raise cursor.problem("a list of integers such as [1, 0]")
    close = "]" if cursor.accept("[") else ")"
    if close == ")":
        cursor.expect("(")
    numbers: list[int] = []
    while not cursor.accept(close):
        numbers.append(cursor.integer())
        if not cursor.at(close):
            cursor.expect(",")
    return tuple(numbers)


def _bounds(cursor: Cursor) -> tuple[Bounds, ...]:
    bounds: list[Bounds] = []
    while True:
        start = cursor.integer() if cursor.token.kind == "integer" else None
        if not cursor.at(":"):
            needed = (
                "':' (to pick one index i write i:i+1, and reshape to drop the dimension)"
                if start is not None
                else "a slice such as 0:8 or :"
            )
            raise cursor.problem(needed)
        cursor.expect(":")
        stop = cursor.integer() if cursor.token.kind == "integer" else None
        step = 1
        if cursor.accept(":") and cursor.token.kind == "integer":
            token = cursor.token
            step = cursor.integer()
            if step < 1:
                raise SyntaxProblem(f"step {step}", "a step of 1 or more", token.position)
        bounds.append((start, stop, step))
        if cursor.accept("]"):
            return tuple(bounds)
        cursor.expect(",")
