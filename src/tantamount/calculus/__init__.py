"""The index calculus: normal forms of tensor programs over the reals (the heart).

``affine`` index maps and lattices; ``atoms`` the hash-consed table; ``polynomials`` sums of monomials; ``sums``
reductions; ``powers`` exp, log, exponents; ``comparisons`` and ``guards`` booleans; ``forms`` piecewise tensors;
``symbolic`` the interpretation of the operator primitives; ``evaluate`` the numeric meaning of a form; ``compare``
equality and location.

May import: ``errors``, ``limits``, ``ir``, ``ops``. Never torch, egglog, z3, or the reference interpreter.
"""
