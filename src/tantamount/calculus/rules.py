"""The registry of the calculus's rules.

A rule has a name here; its statement, the argument why it holds and an example, which a test runs, under that name in
``explanations/rules.toml``; and one place or more where it fires: ``store.fired[name] += 1``. The tests compare the two
lists, and run every example to see that its rule fires. How often each fired in a proof is in the report's statistics.
"""

from __future__ import annotations

from typing import Literal, get_args

__all__ = ["RULES", "RuleName"]

RuleName = Literal[
    # layout and naming: the same value under one name
    "layout",
    "joined-boxes",
    "atoms-of-slots",
    "bound-names",
    # sums
    "weighted-sums",
    "sums-as-atoms",
    "digits",
    "unused-variables",
    "linear-sums",
    # powers, exponentials, functions
    "powers",
    "fractions",
    "exp-of-sums",
    "tanh-as-exponentials",
    "variances",
    "opened-exponents",
    "log-of-products",
    "declared-functions",
    "functions-of-rows",
    "orders-of-equal-elements",
    "maxima",
    "infinity",
    "obligations",
    "rounded-roots",
    "floors",
    "remainders",
    "low-bits",
    "conjunctions-of-bits",
    # conditions
    "decided-comparisons",
    "exponentials-against-one",
    "monotone-functions",
    "compared-maxima",
    "written-conditions",
    "guards",
    "solved-equalities",
    "cut-ranges",
    "sums-of-angles",
    "lifted-selections",
    "lifted-look-ups",
    "inverse-orders",
    "in-order",
    "sorted-counts",
    "counted-positions",
    "one-hot",
    "rows-in-turn",
    "found-once",
    "computed-tables",
    "ignored-labels",
    "distinct-writes",
    "written-in-place",
    "laid-writes",
    "some-mask-holds",
    # where a program is undefined
    "extended-arithmetic",
    "zeros-of-products",
    "zeros-of-sums",
    "spread",
    "equal-exponents",
    "logarithms-of-integers",
    "minus-infinite",
    "contradictory-comparisons",
    # only where two forms differ
    "multiplying-out",
    "equal-arguments",
    "chosen-elements",
    "computed-anew",
    "cases",
    "tidy-extremes",
    "common-cells",
    "unrolled-sums",
    "cleared-denominators",
    "unfolded-definitions",
]

RULES: tuple[RuleName, ...] = get_args(RuleName)
