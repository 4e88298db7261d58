"""Operators that compute with numbers which no graph shows: refused by name, and nobody may declare them.

A label or a definition of such an operator would say that its results follow from its operands. They do not: a pointer
to a weight is no weight, and two of equal value, from two processes, say nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from tantamount.errors import UserError

__all__ = ["HIDDEN", "refuse_hidden"]

_POINTER = "whose weight lies behind a pointer (handler_tensor), which says nothing of its numbers"

HIDDEN: Mapping[str, str] = {
    "_C.onednn_mm.default": f"a product {_POINTER}",
    "_C.onednn_scaled_mm.default": f"a product {_POINTER}",
    "_C.create_onednn_mm_handler.default": "what puts a weight behind a pointer, which says nothing of its numbers",
    "_C.create_onednn_scaled_mm_handler.default": "what puts a weight behind a pointer, which says nothing of it",
}


def refuse_hidden(target: str, place: str) -> None:
    """Raise :class:`UserError` for an operator whose results depend on more than a graph shows."""
    why = HIDDEN.get(target)
    if why is not None:
        raise UserError(
            "operator-hidden", place=place, found=f"{target}, {why}",
            needed="operators whose operands are in the graph",
            hint="capture the layer before vLLM hands its weight over (process_weights_after_loading): the product is "
            "written out there",
        )  # fmt: skip
