"""No number beside a loop ends a search silently: it is a row of ``limits.Bounds``, or is listed here with the reason.

Looked at are whole numbers with a name of their own module that something is compared with, that a loop runs to, or
that a sequence is cut off at; numbers that time is limited to; and loops that run a fixed number of times only to try
again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tantamount

SOURCE = Path(tantamount.__file__).parent

TEXT = "how much is printed"
WAY = "which way is tried first; the others are tried, too"
MEANING = "part of what is being recognised, whatever the effort"
NUMBERING = "keeps numbers of two kinds apart"
REFUSED = "beyond it, input is refused with an error that names it; nothing is looked for"
FORMAT = "part of a format, or of what a machine's numbers are"
LARGE = "tensors of more elements are left as they are: they are not computed, and would need memory without bound"
AGREE = "executions that must agree, each of them: more of them accept less"
CHECK = "inputs that are drawn, which is how a check is defined, not a search: certificates say how many, not effort"
DRAWN = "what random programs, mutants and their inputs look like"
FACTS = "facts of operators are derived once, when the table is read; one that is not found is not used"

ALLOWED: dict[str, str] = {
    "ops/literals.py: _SHORT": "which decimals somebody wrote; ends nothing",
    "calculus/atoms.py: _LEVEL": NUMBERING,
    "calculus/atoms.py: _POSING": NUMBERING,
    "calculus/constants.py: _FEW_DIGITS": MEANING,
    "calculus/constants.py: _HEIGHT": MEANING,
    "calculus/expand.py: _APART": WAY,  # which of two ways to compare is tried first
    "calculus/powers.py: _INT64": MEANING,
    "calculus/records.py: range(4)": WAY,  # what has multiplicities after that is told apart kind by kind
    "calculus/signs.py: _MOST_DIGITS": "an end of an interval that would be longer is rounded outwards: no search",
    "calculus/spans.py: _MOST_DIGITS": "an end of an interval that would be longer is rounded outwards: no search",
    "calculus/symbolic.py: _ROUND": MEANING,  # numbers that are not round are bounded by table_pieces
    "capture/hlo_orders.py: _MOST": REFUSED,
    "capture/torch/generators.py: _TOKEN": NUMBERING,  # bytes of the state of a generator
    "capture/torch/generators.py: _WORDS": NUMBERING,
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
    "diagnosis/naming.py: _DENOMINATOR": TEXT,
    "diagnosis/naming.py: range(4)": TEXT,
    "diagnosis/parted.py: _NAMED": TEXT,
    "diagnosis/passes.py: _FIRST": WAY,  # the same changes are tried there later, with those of all that is apart
    "diagnosis/search.py: _FIRST_SEED": "the first seed of several, which are bounded by repair_inputs",
    "diagnosis/search.py: _RIGHT": WAY,  # all outputs follow, as many as repair_outputs
    "diagnosis/search.py: _SMALL": WAY,
    "diagnosis/search.py: _TOGETHER": WAY,  # all are computed, so many at a time
    "diagnosis/value_matches.py: _FEW": MEANING,
    "diagnosis/dependence.py: _CHANGING": "counted as repair_suspects: nodes that are computed again",
    "diagnosis/values.py: range(4)": TEXT,  # how near an operator is that the sentence names in place of this one
    "execution/plans.py: LITTLE": WAY,
    "execution/reduced.py: _MANY": WAY,
    "execution/witness.py: _SHOWN": TEXT,
    "ops/arrays.py: _SMALL": WAY,  # a copy or a view of the same numbers
    "ops/definitions/hlo_orders.py: _MOST_PIECES": REFUSED,
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
    "refinement/state.py: SHARE": "how often what was proved so far is written down while time is limited",
    "rewriting/pieces.py: _ROUNDS": WAY,  # what has no common frontier by then is no candidate
    "rewriting/pieces.py: _TRIED": WAY,  # of equal values, another tensor would be the same rule
    "rewriting/trials.py: _WRITTEN": DRAWN,
    "sizes/domain.py: LARGEST": "no tensor has more elements",
    "sizes/domain.py: _LONGEST": "characters of an expression that somebody wrote: an error says so",
    "sizes/search.py: _LARGEST_PRIME": WAY,  # a size beyond it need be no prime
    "sizes/traced.py: FIXED": MEANING,
    "sizes/traced.py: HUGE": MEANING,
    "capture/arguments.py: _LARGEST": "what no integer of PyTorch is; an error says so",
    "capture/fields.py: _CANDIDATES": TEXT,
    "capture/nnscaler/layout.py: _FEW": "how many calls may be over other ranks: part of what is recognised",
    "capture/nnscaler/statements.py: _DEEPEST": REFUSED,
    "capture/onnx/model.py: _NEWEST": REFUSED,
    "capture/onnx/model.py: _OLDEST": REFUSED,
    "capture/onnx/read.py: _KNOWN": REFUSED,
    "capture/onnx/wire.py: _LONGEST": FORMAT,
    "capture/onnx/wire.py: _WORD": FORMAT,
    "capture/rank_integers.py: _LARGEST": LARGE,
    "capture/readers.py: _HEAD": FORMAT,
    "capture/rules.py: _LARGEST": "sizes that an example of a rule is typed at; a rule that has none is refused",
    "capture/rules.py: _TRIES": "sizes that are tried until some fit; a rule that has none is refused, and says so",
    "capture/schedule_rows.py: _MOST": REFUSED,
    "capture/torch/block_masks.py: _MOST": REFUSED,
    "capture/torch/dynamic.py: _MAX_CONDITIONS": "traces that widen a domain, which is printed as it was found",
    "capture/torch/dynamic.py: _MAX_TRACES": "traces that widen a domain, which is printed as it was found",
    "capture/torch/dynamic.py: _MOST_TRACED": MEANING,
    "capture/torch/fx_document.py: _MAX_CONSTANT": LARGE,
    "capture/torch/python_state.py: _MOST": "objects of Python that a program may change, nearest first: more than any "
    "program has; a capture, which has no effort, would not end",
    "capture/torch/sources.py: range(8)": TEXT,
    "capture/torch/training/ranks.py: ALL": WAY,
    "capture/torch/vllm.py: _EXACT": REFUSED,
    "capture/wide_splits.py: _MANY": WAY,
    "certificate/assumptions.py: _REPEATS": AGREE,
    "certificate/boundaries.py: _CHANGES": CHECK,
    "certificate/check.py: _ALONE": CHECK,
    "certificate/check.py: _ENOUGH": CHECK,
    "certificate/check.py: _FEWEST_SEARCHES": CHECK,
    "certificate/check.py: _MOST_TRIES": CHECK,
    "certificate/check.py: _SMALL": CHECK,
    "certificate/check.py: _WORK": CHECK,
    "certificate/compare.py: _REPEATS": AGREE,
    "certificate/draws.py: SPARSE": CHECK,
    "certificate/draws.py: TAMEST": CHECK,
    "certificate/draws.py: _LARGEST": CHECK,
    "certificate/draws.py: _MANY": CHECK,
    "certificate/execution.py: _CONSTANTS": CHECK,
    "certificate/execution.py: _MET": CHECK,
    "certificate/execution.py: _SEEN": CHECK,
    "certificate/literals.py: _HEIGHT": MEANING,
    "certificate/literals.py: _WRITTEN_BY_HAND": MEANING,
    "certificate/residues.py: _HALF": FORMAT,
    "certificate/residues.py: _MORE_TERMS": REFUSED,
    "certificate/residues.py: _TERMS": WAY,
    "certificate/signs.py: _LARGE": LARGE,
    "certificate/signs.py: _PRODUCTS": LARGE,
    "certificate/text.py: _SHOWN": TEXT,
    "certificate/uses.py: _FEW": CHECK,
    "cli/planning.py: _SHOWN": TEXT,
    "comparison/decided.py: _RUNS": MEANING,
    "comparison/job.py: _SHOWN": TEXT,
    "comparison/mask_literals.py: _ELEMENTS": LARGE,
    "comparison/recorded_weights.py: _FEW": MEANING,
    "comparison/recorded_weights.py: _NAMED": TEXT,
    "comparison/rounded_constants.py: _ALL_DIGITS": MEANING,
    "comparison/rounded_constants.py: _DIGITS": MEANING,
    "comparison/rounded_constants.py: _LARGEST_ROOT": MEANING,
    "comparison/rounded_constants.py: _LITTLE": MEANING,
    "comparison/rounding.py: _ELEMENTS": LARGE,
    "comparison/softplus.py: _LEAST": MEANING,
    "comparison/written_masks.py: _ELEMENTS": LARGE,
    "comparison/written_masks.py: _MANY": WAY,
    "fuzz/draft.py: range(8)": DRAWN,
    "fuzz/findings.py: _UNSTABLE": "runs of what does not fail each time: what is said is what was seen",
    "fuzz/models.py: _TRIES": DRAWN,
    "fuzz/oracle.py: _REPEATED": "runs of what failed, to see if it does so each time: what is said is what was seen",
    "ir/runs.py: _GRAM": MEANING,
    "ir/runs.py: _LEAST": MEANING,
    "ir/tokens.py: _LONGEST_NUMBER": REFUSED,
    "ops/complex_numbers.py: _LARGEST_POWER": REFUSED,
    "ops/definitions/in_place.py: _MOST": REFUSED,
    "ops/definitions/vllm_quantised.py: _CODES": MEANING,
    "ops/definitions/orders.py: _MOST_FACTORS": REFUSED,
    "ops/derive.py: _MAX_ACCEPTED": FACTS,
    "ops/derive.py: _MAX_CALLS": FACTS,
    "ops/derive.py: _MAX_NAMES": FACTS,
    "ops/derive.py: _MAX_TRIES": FACTS,
    "ops/expressions.py: _BITS": REFUSED,
    "ops/expressions.py: _DEEPEST": REFUSED,
    "ops/expressions.py: _LONGEST": REFUSED,
    "ops/expressions.py: _POWER": REFUSED,
    "ops/functions.py: _STEPS": MEANING,
    "proof/lemmas.py: _FIT": "other places are not tried after so good ones; the job is proved as a whole then",
    "proof/places_by_inputs.py: _APART": MEANING,
    "proof/places_by_inputs.py: _LEAST": MEANING,
    "ops/labels.py: _LONGEST": REFUSED,
    "ops/record.py: MAX_FACTORS": FACTS,
    "ops/record.py: _MAX_TERMS": FACTS,
    "plan/counts.py: _LONGEST": "how many parts are told as one block: which way a plan is written",
    "plan/mutants.py: _PATIENCE": DRAWN,
    "reduction/meshes.py: LONG": WAY,  # of meshes; what cannot be made short is looked at as it is
    "plan/page.py: _SHOWN": TEXT,
    "plan/prove.py: _BRIEF": WAY,
    "plan/prove.py: _CONTROL": "what is refuted at small sizes is refuted there, whatever more this would show",
    "plan/prove.py: _AT_ONCE": WAY,
    "plan/result.py: _SHOWN": TEXT,
    "plan/show.py: _WIDE": TEXT,
    "plan/timing.py: _LISTED": TEXT,
    "plan/second.py: _CONTROL": "what differs on fewer ranks was executed there, whatever more this would show",
    "report/elementwise.py: _SIZES": TEXT,
    "report/html/groups.py: _MOST": TEXT,
    "report/html/marks.py: _MOST": TEXT,
    "report/html/page.py: _LINE": TEXT,
    "report/html/page.py: _NOTES": TEXT,
    "report/html/page.py: _OUTPUTS": TEXT,
    "report/html/scene.py: _MAX_LINE": TEXT,
    "report/places.py: _LONGEST": TEXT,
    "report/text.py: _INPUTS": TEXT,
    "report/text.py: _LIMITS": TEXT,
    "report/text.py: _OUTPUTS": TEXT,
    "rewriting/settle.py: _SHOWN": TEXT,
    "samples/mutants/kinds.py: _MANY": DRAWN,
    "samples/mutants/mistakes.py: _NEAR": DRAWN,
    "samples/programs/growing.py: range(20)": DRAWN,
    "samples/programs/steps.py: MAX_ELEMENTS": DRAWN,
    "semantics/exact.py: _WIDE": FORMAT,
    "semantics/reference.py: _EXACT": FORMAT,
    "semantics/reference.py: _LABELS": REFUSED,
    "semantics/reference.py: _LIMIT": FORMAT,
    "semantics/survey.py: _DIGITS": CHECK,
    "semantics/survey.py: _FAR": CHECK,
    "semantics/survey.py: _NUMBERS": CHECK,
    "semantics/tape.py: _MOST": WAY,  # by primitives, or operator by operator: the same numbers
    "semantics/tape.py: _SMALL": WAY,  # kept, or made again: the same numbers
    "smt/engine.py: _LONG": WAY,
    "smt/solver.py: _LARGEST_POWER": "a longer power is an unknown function of its base",
    "smt/values.py: POINTS": AGREE,
    "work/pool.py: _DESCRIPTORS": REFUSED,
    "work/server.py: _LARGEST": REFUSED,
    "refinement/one_piece.py: _AGREEING": WAY,  # whether a piece is looked at as a wrong one before the whole is proved
}


def _numbers(tree: ast.Module, *kinds: type) -> set[str]:
    """The names of a module that stand for numbers of these types."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            (target,) = node.targets
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            values = node.value.elts if isinstance(node.value, ast.Tuple) and len(names) > 1 else [node.value]
            found |= {
                n.id for n, v in zip(names, values, strict=False) if isinstance(n, ast.Name) and _is_number(v, *kinds)
            }
    return found


def _is_number(node: ast.expr, *kinds: type) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_number(node.left, *kinds) and _is_number(node.right, *kinds)
    return isinstance(node, ast.Constant) and type(node.value) in kinds


def _names(node: ast.AST | None) -> set[str]:
    return set() if node is None else {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _only_tries_again(loop: ast.For) -> bool:
    again = isinstance(loop.iter, ast.Call) and _names(loop.target) == {"_"}
    return again and all(_is_number(argument, int) for argument in loop.iter.args)


def cutoffs(tree: ast.Module) -> Iterator[str]:
    """The numbers of a module that something ends at: the names of constants, and ``range(4)`` for a loop that does not
    use its variable."""
    numbers, times = _numbers(tree, int), _numbers(tree, int, float)
    for node in ast.walk(tree):
        ends: set[str] = set()
        if isinstance(node, ast.Compare) and not all(isinstance(op, ast.Eq | ast.NotEq | ast.In) for op in node.ops):
            ends = _names(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            ends = _names(node) if name in ("range", "islice") else set()
            limits = [node] if name == "within" else [k.value for k in node.keywords if k.arg == "seconds"]
            yield from sorted(times & {name for limit in limits for name in _names(limit)})
        elif isinstance(node, ast.Slice):
            ends = _names(node.upper)
        elif isinstance(node, ast.For) and _only_tries_again(node):
            yield ast.unparse(node.iter)
        yield from sorted(ends & numbers)


def test_a_number_that_something_ends_at_is_a_bound_or_has_a_reason() -> None:
    """One test for the package: who collects tests need not read all of it."""
    found = {
        f"{path.relative_to(SOURCE).as_posix()}: {name}"
        for path in SOURCE.rglob("*.py")
        for name in cutoffs(ast.parse(path.read_text()))
    }
    assert sorted(found - ALLOWED.keys()) == [], "make each a row of limits.Bounds, or say here why it ends no search"
    assert sorted(ALLOWED.keys() - found) == [], "no longer there"


@pytest.mark.parametrize(
    "text",
    [
        "_N = 8\nfor _ in range(_N):\n    pass",
        "_N = 1 << 4\nx = len(y) > _N",
        "_A, _N = 1, 10\nx = y[:_N]",
        "_N = 3\nx = islice(y, _N)",
        "_N = 0.5\nwith within(_N):\n    pass",
        "_N = 1.0\nx = Effort(seconds=min(y, _N))",
    ],
)
def test_such_numbers_are_found(text: str) -> None:
    assert list(cutoffs(ast.parse(text))) == ["_N"]


def test_loops_that_only_try_again_are_found() -> None:
    assert list(cutoffs(ast.parse("for _ in range(4):\n    x = f(x)"))) == ["range(4)"]
    assert list(cutoffs(ast.parse("for k in range(2):\n    print(k)"))) == []
