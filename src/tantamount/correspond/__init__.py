"""Correspondence: which tensor of one program seems to be which part of a tensor of the other.

Hints, on which nothing rests: ``alignment`` compares the values of one execution, ``suggest`` and ``guesses`` go by
names and shapes; what is proposed is proved, printed as a guess, or not used. ``numbering`` says exactly what loaders
did to numbered checkpoints, and ``index_maps`` writes it as a clean expression: that they do the same to every
checkpoint is an assumption of ``comparison``.

May import: ``execution``, ``proof``, ``semantics`` and below.
"""
