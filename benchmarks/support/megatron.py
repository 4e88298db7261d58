"""Megatron-Core's GPTModel."""

from __future__ import annotations

from collections.abc import Iterator


def section() -> Iterator[str]:
    """Nothing yet."""
    yield "## Megatron-Core"
    yield ""
    yield "Not captured yet."
