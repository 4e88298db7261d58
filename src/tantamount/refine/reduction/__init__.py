"""Smaller jobs of the same structure: every size shrunk consistently, so that both programs can be executed.

Part of ``refine``, of which it imports nothing: ``ir``, ``ops`` and ``errors`` only.
See docs/design/reduced-shapes.md.
"""

from tantamount.refine.reduction.reduce import NotReduced, Reduction, reduce_job

__all__ = ["NotReduced", "Reduction", "reduce_job"]
