"""Diagnosis: from a failed proof to the place, the difference in words, and a hint.

``localise`` puts it together: ``locate`` says where values stop corresponding, ``search`` looks there for a small
change that repairs the implementation (``kinds`` has a row for each kind, ``replay`` makes them, ``instead`` finds the
line that does the same); ``explain`` compares normal forms; ``unreduced`` finds missing reductions.
Verdicts never rest on any of it.

May import: ``correspond``, ``execution``, ``proof`` and below.
"""
