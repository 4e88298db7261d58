"""Named limits: on untrusted input (:class:`Limits`), and on how far a search goes (:class:`Bounds`).

What is cut off, by which limit, how to raise it. What counts them while a job runs is :mod:`tantamount.effort`. Imports
only ``errors``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from math import log2
from typing import Any

from tantamount.errors import UserError

__all__ = ["STAGES", "Bound", "Bounds", "Limits", "bounds_table", "limits_from_environment"]

_PREFIX = "TANTAMOUNT_LIMIT_"


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds, each inclusive. Pass a changed copy (``Limits(nodes=10)``) or set ``TANTAMOUNT_LIMIT_NODES=10``.

    ``file_bytes``: one file as stored; ``decompressed_bytes``: the same after gzip; ``values``: of one JSON or TOML
    file, numbers and names included; ``nodes``: of one graph;
    ``string_length``: characters of one string; ``nesting``: lists inside lists, expressions inside expressions;
    ``dimensions``: of one tensor; ``dimension_size``: elements along one dimension; ``constant_elements``: of one
    recorded constant; ``expression_length``: characters of one clean expression; ``ranks``: of one mesh;
    ``witness_elements``: of all tensors together when both programs are executed in search of a counterexample,
    ``witness_work``: element operations of one such execution.
    """

    file_bytes: int = 1 << 27
    decompressed_bytes: int = 1 << 27
    values: int = 5_000_000
    nodes: int = 1_000_000
    string_length: int = 1 << 16
    nesting: int = 50
    dimensions: int = 64
    dimension_size: int = (1 << 63) - 1
    constant_elements: int = 1 << 24
    expression_length: int = 1 << 22
    ranks: int = 1 << 17
    witness_elements: int = 50_000_000
    witness_work: int = 20_000_000_000

    def check(self, name: str, found: int, place: str, what: str) -> None:
        """Raise :class:`UserError` ``limit-<name>`` if ``found`` (a count of ``what``) exceeds the limit ``name``."""
        limit: int = getattr(self, name)
        if found > limit:
            count = f"{found}" if found < 1 << 64 else f"more than 2^{found.bit_length() - 1}"
            raise self.exceeded(name, f"{count} {what}", place)

    def exceeded(self, name: str, found: str, place: str) -> UserError:
        """The error for input beyond the limit ``name``."""
        limit: int = getattr(self, name)
        return UserError(
            f"limit-{name.replace('_', '-')}", place=place, found=found, needed=f"at most {limit} (limit {name})",
            hint=f"if the file is trusted, raise the limit: {_PREFIX}{name.upper()}=<number>",
        )  # fmt: skip


def limits_from_environment(environment: Mapping[str, str] | None = None) -> Limits:
    """The default limits, changed by the ``TANTAMOUNT_LIMIT_<NAME>`` variables: the only place where they are read.

    Raises :class:`UserError` for an unknown name or a value that is not a non-negative integer.
    """
    names = {field.name for field in fields(Limits)}
    changes: dict[str, int] = {}
    for variable, text in (os.environ if environment is None else environment).items():
        if not variable.startswith(_PREFIX):
            continue
        name = variable[len(_PREFIX) :].lower()
        if name not in names:
            raise UserError(
                "limit-unknown",
                place=f"environment {variable}",
                found=f"limit {name!r}",
                needed=f"one of {', '.join(sorted(names))}",
            )
        if not (text.isascii() and text.isdigit()) or len(text) > 18:
            raise UserError(
                "limit-value",
                place=f"environment {variable}",
                found=repr(text[:40]),
                needed="a non-negative integer of at most 18 digits",
            )
        changes[name] = int(text)
    return replace(Limits(), **changes)


# ------------------------------------------------------------------------------------------------ bounds of searches
COMPARISON, FORMS, PROOF, EXECUTION, DIAGNOSIS, REDUCTION, SIZES, SMT = (
    "comparison", "forms", "proof", "execution", "diagnosis", "reduction", "sizes", "smt",
)  # fmt: skip

# Stage of the work that a bound ends or narrows -> what it means for the answer that it was hit.
STAGES: Mapping[str, str] = {
    COMPARISON: "Whether two normal forms are equal is then undecided: neither equal nor different.",
    FORMS: "A tensor then has a coarser normal form, or none, so that less can be proved of it.",
    PROOF: "A proof, or a relation, may then be missed.",
    EXECUTION: "A counterexample may then be missed, or be larger than needed. Nothing is proved by executions.",
    DIAGNOSIS: "What is wrong may then be said less well. No verdict rests on it.",
    REDUCTION: "No smaller job may then be found, so that nothing is executed at smaller shapes.",
    SMT: "Elements are then left that the second engine has not shown to be equal: UNKNOWN.",
    SIZES: "Sizes may then be left that are not covered; the report says so.",
}


@dataclass(frozen=True, slots=True)
class Bound:
    """A row of the table of bounds. ``sentence`` says what is bounded; ``stage`` is one of :data:`STAGES`; ``scale``
    says what ``--effort`` does to it: ``count`` (so many times as much), ``depth`` (one more for every doubling), or
    ``fixed`` (nothing: more of it is not more effort)."""

    name: str
    default: int
    sentence: str
    stage: str
    scale: str = "count"

    @property
    def topic(self) -> str:
        """The name that reports and ``tantamount explain`` use."""
        return f"limit-{self.name.replace('_', '-')}"


def _bound(default: int, stage: str, sentence: str, scale: str = "count") -> Any:
    return field(default=default, metadata={"sentence": sentence, "stage": stage, "scale": scale})


@dataclass(frozen=True, slots=True)
class Bounds:
    """Every number that ends or narrows a search, at its value for normal effort. The bounds are counts, never seconds,
    so that verdicts repeat. None of them is about soundness: a search that ends early proves less, never more."""

    # calculus: are two normal forms equal?
    search_effort: int = _bound(25_000, COMPARISON, "Factors of all products that one comparison of two terms makes.")
    search_steps: int = _bound(30_000, COMPARISON, "Steps of one way to show that two terms are equal.")
    fruitless_steps: int = _bound(150_000, COMPARISON, "Steps that all ways which show nothing may take in one proof.")
    late_steps: int = _bound(2_000, COMPARISON, "Steps of one way after so many fruitless ones.")
    expanded_terms: int = _bound(256, COMPARISON, "Terms that one polynomial may be multiplied out to.")
    multiplied_angles: int = _bound(6, COMPARISON, "Sines and cosines whose product is written as a sum.")
    multiplied_power: int = _bound(4, COMPARISON, "Whole powers of a sum up to which it is multiplied out.", "depth")
    expansion_depth: int = _bound(6, COMPARISON, "Times that products inside products are multiplied out.", "depth")
    compared_depth: int = _bound(6, COMPARISON, "Functions inside functions whose arguments are compared.", "depth")
    compared_pairs: int = _bound(200, COMPARISON, "Pairs of functions that are compared for one pair of terms.")
    compared_terms: int = _bound(32, COMPARISON, "Terms that differ, among which pairs of functions are compared.")
    replaced_functions: int = _bound(16, COMPARISON, "Functions found equal that are replaced in one comparison.")
    recomputed_factors: int = _bound(200, COMPARISON, "Factors that are computed anew where they are compared.")
    settled_factors: int = _bound(400, COMPARISON, "Factors that are computed anew where elements are chosen.")
    settled_elements: int = _bound(8, COMPARISON, "Rows of several terms whose chosen elements are put together.")
    unfolded_cuts: int = _bound(3, COMPARISON, "Times that tensors of cuts are replaced by their values.", "depth")
    cuts_ahead: int = _bound(12, COMPARISON, "Tensors that comparing one computes ahead of their own counterparts.")
    nested_cells: int = _bound(3, COMPARISON, "Sums inside sums that are compared cell by cell.", "depth")
    tidied_rounds: int = _bound(2, COMPARISON, "Times that chosen elements and maxima are settled in turn.", "depth")
    cell_sums: int = _bound(72, COMPARISON, "Sums that are cut into common cells together.")
    case_steps: int = _bound(6_000, COMPARISON, "Cases, and inequalities in them, that one question takes.")
    case_terms: int = _bound(48, COMPARISON, "Terms of a value that is looked at case by case.")
    case_work: int = _bound(40, COMPARISON, "Eighths of the atoms of a value that is looked at case by case.")
    condition_points: int = _bound(1 << 14, COMPARISON, "Positions of a mask that are looked at one by one.")
    conditions_at_points: int = _bound(400, COMPARISON, "Positions at which two masks are computed exactly.")
    condition_bands: int = _bound(8, COMPARISON, "Bands that a mask is written as.")
    conditions_compared: int = _bound(4, COMPARISON, "Conditions on the same data that a condition is compared with.")
    bit_parts: int = _bound(4, COMPARISON, "Integers that a function of bits is made of.", "depth")
    mask_runs: int = _bound(8, COMPARISON, "Runs of ones in a mask of bits.")
    compared_booleans: int = _bound(3, COMPARISON, "Booleans in a comparison that is decided by their values.", "depth")
    counted_booleans: int = _bound(
        8, COMPARISON, "Booleans of a count that are multiplied out where it is compared.", "depth"
    )
    member_terms: int = _bound(12, COMPARISON, "Terms of a value that may be a maximum less a member, or squares.")
    member_variables: int = _bound(4, COMPARISON, "Variables of a quadratic form that may never be negative.", "depth")
    residues: int = _bound(96, COMPARISON, "Residues of whole numbers that are looked at one by one.")
    residue_terms: int = _bound(64, COMPARISON, "Terms of a value that is looked at residue by residue.")
    residue_power: int = _bound(4, COMPARISON, "Power of a value that is looked at residue by residue.", "depth")
    written_runs: int = _bound(64, COMPARISON, "Runs of a table of places that are written, and terms of one.")
    condition_terms: int = _bound(200, COMPARISON, "Terms of a condition, or of a quotient of two, over variables.")
    condition_power: int = _bound(8, COMPARISON, "Whole powers in conditions that are multiplied out.", "depth")
    case_factors: int = _bound(4_096, COMPARISON, "Factors that are computed anew in one case.")
    common_cells: int = _bound(72, COMPARISON, "Cells that the ranges of sums are cut into.")
    lifted_atoms: int = _bound(16, COMPARISON, "Atoms inside a function that a selection is lifted out of.")
    rewritten_atoms: int = _bound(200, COMPARISON, "Atoms in what is written anew in another way.")
    tabulated_values: int = _bound(256, COMPARISON, "Values of a row for which a condition on its elements is tried.")
    unrolled_points: int = _bound(64, COMPARISON, "Terms that one sum is written out as.")
    unrolled_factors: int = _bound(4_000, COMPARISON, "Factors that are computed anew where sums are written out.")
    leaf_places: int = _bound(64, COMPARISON, "Places at which one function reads tensors.")
    # calculus: the normal form of a tensor
    rebuilt_joins: int = _bound(8, FORMS, "Times that a term is computed anew after joins.", "depth")
    merged_points: int = _bound(64, FORMS, "Points up to which a sum over boxes is made canonical point by point.")
    merge_rounds: int = _bound(32, FORMS, "Rounds in which the boxes of a sum are merged.", "depth")
    tied_names: int = _bound(24, FORMS, "Orders of bound variables that are tried where nothing tells them apart.")
    sign_depth: int = _bound(
        8, FORMS, "Functions inside functions that are taken off where a sign is asked for.", "depth"
    )
    sign_terms: int = _bound(16, FORMS, "Terms of a value for which a simpler one of the same sign is looked for.")
    maximum_members: int = _bound(8, FORMS, "Values of a maximum that are looked at one by one.")
    extreme_depth: int = _bound(
        8, FORMS, "Functions inside functions that maxima and orders are taken out of.", "depth"
    )
    order_depth: int = _bound(4, FORMS, "Functions inside functions that a row is followed into.", "depth")
    looked_up_depth: int = _bound(4, FORMS, "Look-ups that are taken out of the arguments of one function.", "depth")
    spread_terms: int = _bound(6, FORMS, "Terms of a value that is shown to be a variance.")
    opened_factors: int = _bound(48, FORMS, "Factors of a sum that is made part of another sum.")
    opened_terms: int = _bound(8, FORMS, "Terms of a fraction of sums that are looked at, each with each.")
    exponent_terms: int = _bound(32, FORMS, "Terms that a product of sums in an exponent is multiplied out to.")
    number_bits: int = _bound(1 << 16, FORMS, "Binary digits of a number in a normal form.")
    prime_divisor: int = _bound(1 << 16, FORMS, "Divisors that are tried to factor a number under a root.")
    index_places: int = _bound(64, FORMS, "Coordinates along an axis at which an index is shown to be in range.")
    floor_steps: int = _bound(64, FORMS, "Boxes that a rounded index is cut into.")
    form_cells: int = _bound(1 << 14, FORMS, "Cells of the common boxes of an operator's operands.")
    layout_boxes: int = _bound(1 << 14, FORMS, "Boxes that a reshape may cut a tensor into.")
    concatenated_boxes: int = _bound(1 << 12, FORMS, "Boxes of all parts of a concatenation.")
    mask_candidates: int = _bound(64, FORMS, "Positions that are tried for one that a mask always keeps.")
    undefined_terms: int = _bound(64, FORMS, "Terms that say where one piece of a tensor is undefined.")
    undefined_pieces: int = _bound(2_048, FORMS, "Pieces of a tensor that say where it is undefined.")
    table_elements: int = _bound(1 << 12, FORMS, "Elements of a recorded constant that become numbers.", "fixed")
    table_pieces: int = _bound(2, FORMS, "Pieces of recorded numbers that are not round that become numbers.", "fixed")
    table_ranks: int = _bound(64, FORMS, "Ranks for which numbers that differ by rank become numbers.", "fixed")
    evaluated_points: int = _bound(1 << 25, FORMS, "Points at which a sum in a normal form is evaluated.")
    # proof
    inferred_outputs: int = _bound(
        8, PROOF, "Outputs with an expectation that does not hold for which nothing else is found to hold, either."
    )
    refuted_effort: int = _bound(
        1, PROOF, "Times the steps of a proof that proving further outputs of a refuted job may take.", "fixed"
    )
    refuted_steps: int = _bound(20_000, PROOF, "Steps that proving further outputs of a refuted job may always take.")
    multiplied_steps: int = _bound(
        150_000, PROOF, "Steps that multiplying out whole outputs may take where cutting both programs proved nothing."
    )
    implied_cases: int = _bound(6, PROOF, "Booleans that are taken to be true and false to see what follows.", "depth")
    implied_rounds: int = _bound(3, PROOF, "Times that booleans are added up to see whether one follows.", "depth")
    paired_ranks: int = _bound(16, PROOF, "Ranks along an axis that are compared pair by pair.", "fixed")
    cover_candidates: int = _bound(8, PROOF, "Implementation tensors that are tried for the relation of one tensor.")
    cover_pieces: int = _bound(64, PROOF, "Pieces of a tensor that are placed one by one for its relation.")
    told_tensors: int = _bound(64, PROOF, "Tensors that a relation of a simpler job is written with.")
    aligned_tensors: int = _bound(8, PROOF, "Specification tensors that one tensor of the implementation seems to be.")
    cover_tiles: int = _bound(256, PROOF, "Tensors of single ranks that are tried as blocks of one tensor.")
    single_ranks: int = _bound(20_000, PROOF, "Nodes of all ranks together that are tried rank by rank.")
    size_regions: int = _bound(24, SIZES, "Proofs for sizes that take another way through the programs.")
    size_executions: int = _bound(3, SIZES, "Sizes at which programs that were not proved are executed.")
    generic_sizes: int = _bound(5_000, SIZES, "Orders of primes that are tried as sizes of the symbols.")
    tried_sizes: int = _bound(20_000, SIZES, "Combinations of small sizes that are tried.")
    solver_steps: int = _bound(1_000_000, SIZES, "Steps of the solver for one question about sizes.")
    # plans, and rules of users
    part_ranks: int = _bound(64, EXECUTION, "Ranks of a part of a plan that is executed and explained.", "fixed")
    part_elements: int = _bound(
        2_000_000, EXECUTION, "Elements of all tensors of a part of a plan that is executed at its own sizes.", "fixed"
    )
    part_seconds: int = _bound(60, PROOF, "Seconds for outputs of a part that were not proved in any simpler way.")
    rewriting_rounds: int = _bound(3, PROOF, "Times that rules are used on what rules made of a program.", "depth")
    rewriting_matches: int = _bound(256, PROOF, "Ways in which the left side of a rule is laid over one operator.")
    # the second engine
    smt_work: int = _bound(2_500_000, SMT, "Element operations of all programs that are executed with terms.")
    smt_terms: int = _bound(4_000, SMT, "Terms of one question to z3.")
    smt_steps: int = _bound(1_000_000, SMT, "Steps of z3 for one question.")
    smt_questions: int = _bound(400, SMT, "Questions to z3 that are different but for names of variables.")
    # execution
    witness_inputs: int = _bound(10, EXECUTION, "Random inputs on which both programs are executed.")
    rule_tests: int = _bound(48, EXECUTION, "Random inputs on which a user's rule is tested that was not proved.")
    rule_work: int = _bound(20_000, SMT, "Element operations of both sides of a rule that z3 is asked about.")
    rule_pieces: int = _bound(8, EXECUTION, "Pieces of two programs that are tried as a rule that a proof lacks.")
    rule_nodes: int = _bound(60, EXECUTION, "Nodes of a piece of a program that is tried as a side of a rule.")
    rule_steps: int = _bound(100_000, EXECUTION, "Steps of the proof that says which pieces of two programs are open.")
    refuting_inputs: int = _bound(2, EXECUTION, "Random inputs that are tried once one output is refuted.", "fixed")
    simplified_trials: int = _bound(400, EXECUTION, "Executions that simplify a counterexample.")
    simplified_work: int = _bound(4_000_000_000, EXECUTION, "Element operations of all executions that simplify one.")
    simplified_nodes: int = _bound(2_000, EXECUTION, "Nodes of all executions that simplify a counterexample.")
    drawn_numbers: int = _bound(
        64, EXECUTION, "Numbers that programs compare with and that inputs are drawn from.", "fixed"
    )
    drawn_integers: int = _bound(16, EXECUTION, "Integers that one input is compared with and that it takes.", "fixed")
    zeroed_elements: int = _bound(64, EXECUTION, "Elements of an input that are made zero one by one.")
    rounding_work: int = _bound(
        200_000_000, DIAGNOSIS, "Element operations of two programs whose roundings are left out, one after the other."
    )
    alignment_work: int = _bound(
        5_000_000, EXECUTION, "Element operations of the execution that says which tensors seem to agree.", "fixed"
    )
    realigned_work: int = _bound(
        100_000_000, EXECUTION, "Element operations of that execution where a smaller one says nothing.", "fixed"
    )
    alignment_windows: int = _bound(32, EXECUTION, "Equal blocks of a tensor that are looked for in the other program.")
    # diagnosis
    repair_inputs: int = _bound(4, DIAGNOSIS, "Random inputs that are tried until outputs differ.", "fixed")
    repair_executions: int = _bound(300, DIAGNOSIS, "Executions of both programs that looking for a repair may take.")
    repair_nodes: int = _bound(100_000, DIAGNOSIS, "Nodes of all executions that looking for a repair may take.")
    repair_promising: int = _bound(
        6, DIAGNOSIS, "Changes of one kind that help nearby and are followed to the outputs."
    )
    repair_reach: int = _bound(
        6,
        DIAGNOSIS,
        "Edges around a change that repairs everything, inside of which others are looked for that say more.",
    )
    repair_suspects: int = _bound(32, DIAGNOSIS, "Values that are changed to see whether right outputs depend on them.")
    repair_seconds: int = _bound(
        3, DIAGNOSIS, "CPU seconds that looking for a repair may take, more the longer the proof took."
    )
    answer_seconds: int = _bound(
        10, DIAGNOSIS, "CPU seconds that the answer on a wrong program is to take, beside three times its proof."
    )
    doubtful_seconds: int = _bound(
        1, DIAGNOSIS, "CPU seconds that forms are compared for, of a job that is likely to be wrong."
    )
    followed_steps: int = _bound(
        60_000, DIAGNOSIS, "Steps that proving a job with a hint may take where its products are multiplied out."
    )
    repair_outputs: int = _bound(16, DIAGNOSIS, "Outputs, and repairs, that are looked at.")
    repair_wholes: int = _bound(8, DIAGNOSIS, "Specification tensors that are tried in place of one value.")
    repair_orders: int = _bound(6, DIAGNOSIS, "Orders in which tensors are exchanged for each other.")
    repair_layouts: int = _bound(2, DIAGNOSIS, "Specification tensors whose layouts are tried in place of one value.")
    repair_members: int = _bound(4, DIAGNOSIS, "Tensors of one kind that are changed alone.")
    repair_numbers: int = _bound(8, DIAGNOSIS, "Numbers of the specification that are tried for one argument.")
    repair_windows: int = _bound(64, DIAGNOSIS, "Parts of a tensor that a value is compared with.")
    repair_operands: int = _bound(64, DIAGNOSIS, "Tensors that are tried in place of one operand.")
    repair_permuted: int = _bound(4, DIAGNOSIS, "Operands of one call whose orders are all tried.", "depth")
    repair_positions: int = _bound(4_096, DIAGNOSIS, "Positions at which a part of a tensor is looked for.")
    repair_chain: int = _bound(
        12, DIAGNOSIS, "Operators that only move elements, one after the other, that are followed.", "depth"
    )
    mismatch_ranks: int = _bound(8, DIAGNOSIS, "Ranks that are looked at one by one for the place of a difference.")
    mismatch_depth: int = _bound(12, DIAGNOSIS, "Functions inside functions that are searched.", "depth")
    # reduction
    reduced_rounds: int = _bound(6, REDUCTION, "Times that numbers which turn out to be structure are fixed.", "depth")
    reduced_sweeps: int = _bound(6, REDUCTION, "Times that every size is made smaller.", "depth")
    reduced_draws: int = _bound(4, REDUCTION, "Sizes that are drawn in place of one until one of them fits.")
    reduced_trials: int = _bound(128, REDUCTION, "Values that are tried for one size.", "fixed")

    def scaled(self, factor: float) -> Bounds:
        """The bounds for ``factor`` times the normal effort."""
        more = {b.name: _scaled(getattr(self, b.name), b.scale, factor) for b in bounds_table()}
        return replace(self, **more)


def _scaled(value: int, scale: str, factor: float) -> int:
    if scale == "fixed":
        return value
    return max(1, round(value * factor) if scale == "count" else value + round(log2(factor)))


def bounds_table() -> Iterator[Bound]:
    """The rows of the table of bounds, in order."""
    for one in fields(Bounds):
        row: Field[int] = one
        yield Bound(row.name, int(getattr(Bounds(), row.name)), **row.metadata)
