"""Relations as programs state them: PyTorch's own placements beside the spelling of a job. Imports no PyTorch: what a
placement is, its methods say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from tantamount.errors import UserError

__all__ = ["placement_text", "stated"]


def stated(relations: Mapping[str, Any], what: str) -> dict[str, Any]:
    """The relations as a job writes them. ``what``: ``inputs`` or ``outputs``, for messages. Raises
    :class:`UserError` for a placement that a job cannot state (``_StridedShard``)."""
    return {name: _plain(relation, f"{what}[{name!r}]") for name, relation in relations.items()}


def placement_text(placement: Any) -> str | None:
    """``Shard(1)`` of PyTorch's ``Shard(1)``; ``None`` for one whose pieces are not blocks in the order of ranks.
    ``placement`` has the methods of ``torch.distributed.tensor.Placement``."""
    if type(placement).__name__ not in ("Shard", "Replicate", "Partial"):
        return None
    if placement.is_replicate():
        return "Replicate()"
    if placement.is_shard():
        return f"Shard({placement.dim})"
    return f'Partial("{placement.reduce_op}")'


def _plain(relation: Any, place: str) -> Any:
    if type(relation).__module__.startswith("torch.distributed.tensor"):
        text = placement_text(relation)
        if text is None:
            raise UserError(
                "capture-relation", place=place, found=f"the placement {type(relation).__name__} {relation}",
                needed="Replicate(), Shard(dim), Partial(reduction), or an expression such as "
                '{"relation": "concat(rank(0), rank(1), dim=0)"}',
            )  # fmt: skip
        return text
    if isinstance(relation, list | tuple):
        return [_plain(entry, place) for entry in cast("Sequence[object]", relation)]
    if isinstance(relation, dict):
        table = cast("dict[str, object]", relation)
        return {key: _plain(value, place) for key, value in table.items()}
    return relation
