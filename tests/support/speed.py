"""How slow this machine is right now: limits on CPU seconds are those of a machine that is not."""

from __future__ import annotations

import time

_STEPS, _SECONDS = 300_000, 0.024  # of a loop, on a machine on which the limits were set

__all__ = ["slowness"]


def slowness() -> float:
    """How many times as long as there a loop takes here, and now; at least 1."""
    begun, total = time.process_time(), 0
    for k in range(_STEPS):
        total += k * k
    return max(1.0, (time.process_time() - begun) / _SECONDS)
