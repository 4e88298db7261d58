"""Interruptions, also where the tests run in the background of a shell, which has processes ignore them."""

from __future__ import annotations

import signal

__all__ = ["heed_interruptions"]


def heed_interruptions() -> None:
    """Let SIGINT do in this process, and in those that it starts, what it does by default."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
