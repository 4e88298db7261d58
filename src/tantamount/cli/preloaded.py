"""Modules that the processes that check jobs share: their server imports this module before it forks them.

Where the machine has no room for it, that is an ``ImportError``, of which the server takes no notice: a process that is
forked from it imports what it needs by itself, and says what it lacks.
"""

from __future__ import annotations

from importlib import import_module

_MODULES = (
    "tantamount.cli.main",
    "tantamount.cli.checking",
    "tantamount.capture.job",
    "tantamount.answers",
    "tantamount.semantics.reference",
)

try:
    for _name in _MODULES:
        import_module(_name)
except (MemoryError, OSError) as problem:
    raise ImportError("no room for what processes share") from problem
