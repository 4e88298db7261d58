"""The cost of a piece of work: CPU seconds by phase, and the most memory that the process held."""

from __future__ import annotations

import resource
import sys
import time

__all__ = ["Clock", "peak_memory_bytes"]


class Clock:
    """CPU seconds of this process by phase, in :attr:`seconds`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.process_time()

    def lap(self, phase: str) -> None:
        """End a phase: it took what has passed since the one before it ended, and what it took before."""
        now = time.process_time()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self._last = now


def peak_memory_bytes() -> int:
    """The most memory that this process has held so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # bytes there, units of 1024 elsewhere
