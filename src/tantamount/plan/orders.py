"""Dimensions of which ranks have blocks in an order that is not the tensor's own.

Load-balanced context parallelism gives each of two ranks the first and the last quarter of the sequence, and the two in
the middle: ``{ cp = "Shard(1, [0, 3, 1, 2])" }``. The dimension is cut into as many equal blocks as the list has
numbers; they are put in that order, and the result is cut over the axis as ``Shard(1)`` says. Parts of parts are such
an order, too: ``{ dp = "Shard(0, [0, 2, 1, 3])", tp = "Shard(0)" }``, where ``dp`` comes before ``tp`` in the mesh,
says that each of two ranks of tp has half of the dimension, and each of two of dp half of that.

Let P be that permutation of a tensor's blocks. The ranks have parts of P x, so the part is proved as a job about P x:
its specification is y -> P' T(P^-1 y), where T is the part's own and P' permutes its outputs. P is a bijection: what is
proved for all P x is proved for all x, and what the ranks have is ``Shard(1)`` of P' T(x). At a joint both ends must
name one order, for their jobs are about one tensor then.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tantamount.capture.fields import Place, shown
from tantamount.capture.orders import Order

__all__ = ["plain", "read_order"]

_ORDERED = re.compile(r"Shard\(\s*(?P<dim>\d{1,3})\s*,\s*\[(?P<blocks>[\d\s,]*)\]\s*\)")


def read_order(table: Mapping[str, object], sizes: Mapping[str, int], place: Place) -> Order | None:
    """The order that a relation's table names, if any. ``sizes`` are those of the mesh axes, in their order. Raises
    :class:`UserError` for what is no order of blocks, and unless the axis that has it is the first to cut the
    dimension."""
    found: Order | None = None
    for axis, size in sizes.items():
        text = table.get(axis)
        match = _ORDERED.fullmatch(text.strip()) if isinstance(text, str) else None
        if match is None:
            continue
        where = place.at(axis)
        blocks = tuple(int(k) for k in re.findall(r"\d{1,6}", match["blocks"]))
        if found is not None:
            raise where.wrong(shown(text), "one order of blocks in a relation")
        if sorted(blocks) != list(range(len(blocks))) or len(blocks) < 2 or len(blocks) % size:
            needed = f"the numbers of all blocks from 0 on, a multiple of {size}, in the order in which ranks have them"
            raise where.wrong(shown(text), needed)
        found = Order(int(match["dim"]), blocks)
        outer = list(sizes)[: list(sizes).index(axis)]
        before = [one for one in outer if re.match(rf"Shard\(\s*{found.dim}\s*[,)]", str(table.get(one, "")).strip())]
        if before:
            raise where.wrong(f"{shown(text)}, after {before[0]}", "an order on the first axis that cuts the dimension")
    return found


def plain(text: object) -> object:
    """A placement without its order."""
    match = _ORDERED.fullmatch(text.strip()) if isinstance(text, str) else None
    return text if match is None else f"Shard({match['dim']})"
