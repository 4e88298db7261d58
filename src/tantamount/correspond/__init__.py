"""Correspondence: which tensor of one program seems to be which part of a tensor of the other.

Everything here is a hint, on which nothing rests: what is proposed is proved, or not used. ``alignment`` compares the
values of one execution.

May import: ``execution``, ``proof``, ``semantics`` and below.
"""
