"""The second engine: both programs at reduced shapes, element by element, compared by expression and by z3.

Imports ``ops`` and what is above it, and the survey of ``semantics``; neither ``calculus`` nor ``proof``: it is to be
wrong, if at all, in other places.
"""
