"""Sizes of tensors that are not plain numbers.

``polynomials`` is the kernel; ``symbolic`` sizes note what a computation rests on, in a ``domain`` of what may be
assumed of them, and ``search`` finds sizes outside of what is covered; ``traced`` sizes record where each came from,
for :mod:`tantamount.reduction`.

May import: ``errors``, ``limits``, ``effort``.
"""
