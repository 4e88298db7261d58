"""No number beside a loop ends a search silently: it is a row of ``limits.Bounds``, or is listed here with the reason.

Looked at are whole numbers with a name of their own module that something is compared with, that a loop runs to, or
that a sequence is cut off at; and loops that run a fixed number of times only to try again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tantamount

SOURCE = Path(tantamount.__file__).parent
FOLDERS = ("calculus", "correspond", "diagnosis", "execution", "proof", "reduction", "refinement", "sizes")

TEXT = "how much is printed"
WAY = "which way is tried first; the others are tried, too"
MEANING = "part of what is being recognised, whatever the effort"
NUMBERING = "keeps numbers of two kinds apart"

ALLOWED: dict[str, str] = {
    "calculus/atoms.py: _LEVEL": NUMBERING,
    "calculus/atoms.py: _POSING": NUMBERING,
    "calculus/constants.py: _FEW_DIGITS": MEANING,
    "calculus/constants.py: _HEIGHT": MEANING,
    "calculus/powers.py: _INT64": MEANING,
    "calculus/records.py: range(4)": WAY,  # what has multiplicities after that is told apart kind by kind
    "calculus/signs.py: _MOST_DIGITS": "an end of an interval that would be longer is rounded outwards: no search",
    "calculus/spans.py: _MOST_DIGITS": "an end of an interval that would be longer is rounded outwards: no search",
    "calculus/symbolic.py: _ROUND": MEANING,  # numbers that are not round are bounded by table_pieces
    "correspond/alignment.py: _LONG": WAY,  # longer axes are shrunk first, then executed as they are
    "correspond/index_maps.py: _FEW": WAY,
    "correspond/index_maps.py: _PIECES": "an index map of more pieces is no expression that anybody reads; a capture, "
    "which has no effort, says that it found none",
    "correspond/lifting.py: LEAST": "more sizes prove more: it is asked for, and printed where it is missed",
    "correspond/numbering.py: _NUMBERINGS": "executions that must agree, each of them: more of them accept less",
    "correspond/numbering.py: _ULPS": "a tolerance of rounding",
    "diagnosis/explain.py: _NAMED": TEXT,
    "diagnosis/explain.py: _READABLE": TEXT,
    "diagnosis/naming.py: LINES": TEXT,
    "diagnosis/naming.py: _MOVED": TEXT,
    "diagnosis/naming.py: _SHOWN": TEXT,
    "diagnosis/naming.py: _TINY": TEXT,
    "diagnosis/naming.py: range(4)": TEXT,
    "diagnosis/search.py: _FIRST_SEED": "the first seed of several, which are bounded by repair_inputs",
    "diagnosis/search.py: _SMALL": WAY,
    "diagnosis/values.py: range(4)": TEXT,  # how near an operator is that the sentence names in place of this one
    "execution/reduced.py: _EACH": WAY,
    "execution/reduced.py: _MANY": WAY,
    "execution/witness.py: _SHOWN": TEXT,
    "proof/outputs.py: _LONG": TEXT,
    "proof/outputs.py: _SHOWN": TEXT,
    "proof/picture.py: _MAX_PIECES": TEXT,
    "proof/picture.py: _MAX_PROGRAMS": TEXT,
    "proof/picture.py: _MAX_TEXT": TEXT,
    "proof/proof.py: _LONG": WAY,
    "proof/stages.py: _NEAR": "a cheaper program of the same meaning is written within it; nothing is looked for",
    "reduction/numbers.py: _DIGITS": MEANING,
    "reduction/numbers.py: _PLAIN": MEANING,
    "reduction/numbers.py: _ROOTED": MEANING,
    "reduction/solve.py: ENOUGH": WAY,  # what is small enough is not made smaller
    "refinement/job.py: _SHARE": "how often what was proved so far is written down while time is limited",
    "sizes/domain.py: LARGEST": "no tensor has more elements",
    "sizes/domain.py: _LONGEST": "characters of an expression that somebody wrote: an error says so",
    "sizes/search.py: _LARGEST_PRIME": WAY,  # a size beyond it need be no prime
    "sizes/traced.py: FIXED": MEANING,
    "sizes/traced.py: HUGE": MEANING,
}


def _numbers(tree: ast.Module) -> set[str]:
    """The names of a module that stand for whole numbers."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            (target,) = node.targets
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            values = node.value.elts if isinstance(node.value, ast.Tuple) and len(names) > 1 else [node.value]
            found |= {n.id for n, v in zip(names, values, strict=False) if isinstance(n, ast.Name) and _is_number(v)}
    return found


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    return isinstance(node, ast.Constant) and type(node.value) is int


def _names(node: ast.AST | None) -> set[str]:
    return set() if node is None else {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _only_tries_again(loop: ast.For) -> bool:
    again = isinstance(loop.iter, ast.Call) and _names(loop.target) == {"_"}
    return again and all(map(_is_number, loop.iter.args))


def cutoffs(tree: ast.Module) -> Iterator[str]:
    """The numbers of a module that something ends at: the names of constants, and ``range(4)`` for a loop that does not
    use its variable."""
    numbers = _numbers(tree)
    for node in ast.walk(tree):
        ends: set[str] = set()
        if isinstance(node, ast.Compare) and not all(isinstance(op, ast.Eq | ast.NotEq | ast.In) for op in node.ops):
            ends = _names(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            ends = _names(node) if name in ("range", "islice") else set()
        elif isinstance(node, ast.Slice):
            ends = _names(node.upper)
        elif isinstance(node, ast.For) and _only_tries_again(node):
            yield ast.unparse(node.iter)
        yield from sorted(ends & numbers)


FOUND = sorted({
    f"{path.relative_to(SOURCE)}: {name}"
    for folder in FOLDERS
    for path in (SOURCE / folder).rglob("*.py")
    for name in cutoffs(ast.parse(path.read_text()))
})  # fmt: skip


@pytest.mark.parametrize("name", sorted({*FOUND, *ALLOWED}))
def test_a_number_that_something_ends_at_is_a_bound_or_has_a_reason(name: str) -> None:
    assert name in ALLOWED, f"{name}: make it a row of limits.Bounds, or say here why it ends no search"
    assert name in FOUND, f"{name} is no longer there"


@pytest.mark.parametrize(
    "text",
    [
        "_N = 8\nfor _ in range(_N):\n    pass",
        "_N = 1 << 4\nx = len(y) > _N",
        "_A, _N = 1, 10\nx = y[:_N]",
        "_N = 3\nx = islice(y, _N)",
    ],
)
def test_such_numbers_are_found(text: str) -> None:
    assert list(cutoffs(ast.parse(text))) == ["_N"]


def test_loops_that_only_try_again_are_found() -> None:
    assert list(cutoffs(ast.parse("for _ in range(4):\n    x = f(x)"))) == ["range(4)"]
    assert list(cutoffs(ast.parse("for k in range(2):\n    print(k)"))) == []
