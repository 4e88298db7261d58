"""Diagnosis: from a failed proof to the place, the difference in words, and a hint.

``localise`` puts it together: ``search`` looks for a small change that repairs the implementation (``edits``, replayed
by ``replay``, put into words by ``words``); ``explain`` compares normal forms; ``unreduced`` finds missing reductions.
Verdicts never rest on any of it.

May import: ``correspond``, ``execution``, ``proof`` and below.
"""
