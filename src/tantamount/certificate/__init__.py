"""Certificates, which proofs leave behind, and the check of one without the search that found it.

May import: ``errors``, ``limits``, ``ir``, ``verdict``, ``writing``, ``ops``, ``semantics``, ``reduction`` and the
readers of ``capture``. Never ``calculus`` or ``refine``: what they conclude is checked, by evaluating both programs.
"""
