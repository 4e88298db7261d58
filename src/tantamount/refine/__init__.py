"""Refinement: does the implementation compute what the specification computes, and in which clean relation?

``inputs`` turns the job's input relation into forms; ``ranks`` runs the implementation (folded, or rank by rank);
``placements`` are the clean relations; ``outputs`` checks expectations; ``cover`` relates every specification tensor;
``localise`` and ``explain`` say what is wrong; ``witness`` executes both sides; ``prove`` puts it together.

May import: ``calculus``, ``semantics``, ``ops``, ``ir``, ``verdict``, ``errors``, ``limits``.
"""

from tantamount.refine.prove import refine

__all__ = ["refine"]
