"""Operators: one definition each, in terms of the primitives of ``ops.algebra``.

From a definition come the type rule (interpretation with types only), the executable reference (``semantics``),
the rule of the calculus (``calculus``) and the documentation row. May import: ``errors``, ``limits``, ``ir``.
"""
