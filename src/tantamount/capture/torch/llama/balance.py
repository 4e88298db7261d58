"""The loss that balances experts: a token's probabilities of all experts, each times the fraction of tokens that the
expert gets, so that it grows with what popular experts are wanted.

That is DeepSeek-V3's sequence-wise loss (arXiv 2412.19437, equations 17 to 20: alpha times the sum over experts of
``f_i P_i``, with ``f_i = N / (K T)`` times the number of tokens that choose expert i, and ``P_i`` the mean of their
normalised scores), with its mean over the rows of the batch; or, over the whole ``batch``, that of the Switch
Transformer (arXiv 2101.03961, equations 4 to 6, there for one choice). Counts have no gradient, so a rank needs those
of all ranks that have a part of the row, and adds up probabilities of its own tokens only.
"""

# pyright: basic
from __future__ import annotations

from dataclasses import dataclass

import torch

from tantamount.capture.torch.llama.ranks import Ranks, total
from tantamount.ir.graph import Graph

__all__ = ["OVER", "Balance", "balanced", "fractions_of"]

OVER = ("row", "batch")


@dataclass(frozen=True)
class Balance:
    """The ``coefficient`` of the loss, the ``tokens`` of the whole batch, over which it is a mean, and the tokens that
    fractions are of: those of a token's ``row``, or all of the ``batch``.

    Of a ``batch``, a rank knows its own tokens in one microbatch: its fractions are an approximation."""

    coefficient: float
    tokens: int
    over: str = "row"


def balanced(scores: torch.Tensor, chosen: torch.Tensor, count: int, balance: Balance, ranks: Ranks) -> torch.Tensor:
    """The summand of the loss that this rank's tokens are. ``scores`` of all experts sum up to 1 for every token,
    ``chosen`` is 1 for the ``count`` greatest."""
    if balance.over == "batch":
        fractions = chosen.mean((0, 1))
    else:
        fractions = _of_row(chosen.sum(1, keepdim=True), ranks) / (chosen.shape[1] * ranks.parts)
    factor = balance.coefficient * scores.shape[-1] / count
    return (scores * fractions).sum() * factor / balance.tokens


def fractions_of(program: Graph) -> tuple[str, ...]:
    """The nodes of a captured layer that are fractions over the ``batch``: the only means over rows and tokens."""
    return tuple(node.name for node in program.nodes if node.target == "aten.mean.dim" and node.args[1:2] == ((0, 1),))


def _of_row(counts: torch.Tensor, ranks: Ranks) -> torch.Tensor:
    """Counts of whole rows, from those of the parts that ranks have."""
    return total(counts, ranks.group("cp", *(("tp",) if ranks.sequence else ())))
