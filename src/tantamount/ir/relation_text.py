"""The relation language as text. Parsed, never evaluated."""

from __future__ import annotations

from itertools import pairwise

from tantamount.errors import UserError
from tantamount.ir.arrangements import ARRANGEMENTS, INTEGERS
from tantamount.ir.relation import (
    OUTPUT,
    REDUCTIONS,
    Argument,
    Arranged,
    Bounds,
    Concat,
    Equality,
    Expression,
    Partial,
    Permute,
    Placement,
    RankTensor,
    Replicate,
    Reshape,
    Shard,
    Slice,
    Sum,
    operands,
)
from tantamount.ir.tokens import Cursor, SyntaxProblem
from tantamount.limits import Limits

__all__ = ["parse_equalities", "parse_relation"]

_FUNCTIONS = ", ".join([
    "rank(i), concat(..., dim=d), sum(...), permute(t, dims), reshape(t, shape)",
    *(row.signature for row in ARRANGEMENTS.values()),
])  # fmt: skip
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
        level = [part for item in level for part in operands(item)]
    return depth


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
    row = ARRANGEMENTS.get(name)
    if row is None and name not in ("concat", "sum", "permute", "reshape"):
        raise SyntaxProblem(f"function {name!r}", f"one of {_FUNCTIONS}", start.position)
    cursor.expect("(")
    operand = _expression(cursor, depth - 1)
    if name in ("concat", "sum"):
        expression = _parts(cursor, name, operand, depth)
    elif row is not None:
        arguments: list[Argument] = []
        for needed in row.arguments:
            cursor.expect(",")
            arguments.append(_integers(cursor) if needed == INTEGERS else cursor.integer(needed))
        expression = Arranged(name, operand, tuple(arguments))
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
