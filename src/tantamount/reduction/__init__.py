"""Smaller jobs of the same structure: every size shrunk consistently, so that both programs can be executed.

May import: ``errors``, ``ir``, ``ops``. Used by ``refine`` and by ``certificate``, of which it imports nothing.
See docs/design/reduced-shapes.md.
"""

from tantamount.reduction.folded import folded
from tantamount.reduction.meshes import LONG, long_axes, shortened
from tantamount.reduction.reduce import NotReduced, Reduction, reduce_job, sketch

__all__ = ["LONG", "NotReduced", "Reduction", "folded", "long_axes", "reduce_job", "shortened", "sketch"]
