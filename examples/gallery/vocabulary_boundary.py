"""A vocabulary-parallel embedding that looks one token too far.

Every rank has some rows of the table, looks up the tokens that lie in its range, and contributes zeros for all
others; the sum over ranks is the embedding. With `>` instead of `>=` at the upper end, the first token of the next
rank's range counts as this rank's, too, and gets its last row added. Of 16 tokens, one is wrong.

Written after the mechanism, which Megatron, vLLM and DTensor share; no report of this very bug is known to us.

    python examples/gallery/vocabulary_boundary.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import embedding

import tantamount as tt

RANKS, VOCABULARY = 2, 16
TOKENS, TABLE = torch.zeros(5, dtype=torch.long), torch.empty(VOCABULARY, 4)


def sequential(tokens: Tensor, table: Tensor) -> Tensor:
    return embedding(tokens, table)


def check(*, broken: bool = False) -> tt.Report:
    rows = VOCABULARY // RANKS

    def build(rank: int):
        low, high = rank * rows, (rank + 1) * rows

        def vocabulary_parallel(tokens: Tensor, table: Tensor) -> Tensor:
            outside = (tokens < low) | (tokens > high if broken else tokens >= high)
            local = (tokens - low).clamp(0, rows - 1)
            x = embedding(local, table).masked_fill(outside[:, None], 0.0)
            dist.all_reduce(x)
            return x

        return vocabulary_parallel, (TOKENS, TABLE[:rows])

    return tt.refine(
        tt.capture(sequential, (TOKENS, TABLE)),
        tt.capture_ranks(build, RANKS, mesh={"tp": RANKS}),
        inputs={"table": "Shard(0)"},
    )


if __name__ == "__main__":
    print(check().verdict.value, "as it should be\n")
    print(check(broken=True))
