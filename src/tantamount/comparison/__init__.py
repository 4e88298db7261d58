"""Two implementations of one model: the same values for one checkpoint and one input, or the operator where they part.

``compare`` is ``refine`` for one device on both sides, with what independent implementations need beyond it: relations
of parameters (``programs``, and ``correspond.numbering`` where both loaders can be run), literals that stand for
something else (``mask_literals``, ``rounded_constants``), and words for two programs neither of which is the other's
specification (``words``).

May import: ``refinement``, ``correspond``, ``capture`` and below.
"""

from tantamount.comparison.arguments import pair_to_compare
from tantamount.comparison.job import Comparing, compare_pair

__all__ = ["Comparing", "compare_pair", "pair_to_compare"]
