"""Refinement: does the implementation compute what the specification computes, and in which clean relation?

Thin: ``proof`` proves, ``execution`` looks for counterexamples, ``diagnosis`` says what is wrong; ``job`` puts them
together, ``all_sizes`` does so for programs with size symbols; ``second`` asks the second engine. Users call
:func:`tantamount.refine`.

May import everything below ``certificate``.
"""

from tantamount.refinement.job import Captured, job_of, refine_differing, refine_job, whole_proof
from tantamount.refinement.result import Refinement

__all__ = ["Captured", "Refinement", "job_of", "refine_differing", "refine_job", "whole_proof"]
