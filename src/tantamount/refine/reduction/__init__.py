"""Smaller jobs of the same structure: every size shrunk consistently, so that both programs can be executed.

Part of ``refine``; imports ``ir``, ``ops``, ``errors``, ``limits`` and :mod:`tantamount.refine.arrays` at most.
See docs/design/reduced-shapes.md.
"""

from tantamount.refine.reduction.reduce import NotReduced, Reduction, reduce_job

__all__ = ["NotReduced", "Reduction", "reduce_job"]
