"""Equalities between tensor terms, each with its evidence: one package for fuzzing, comparing and users' lemmas.

    terms     terms over the operator table: what both sides of a rule are written in
    rule      a rule: a pattern, what it is equal to, typed examples; the registry
    library   the rules, by subject
    evidence  both sides of every example, proved equal for all sizes

May import: ``errors``, ``limits``, ``effort``, ``sizes``, ``ir``, ``verdict``, ``ops``, ``proof``.
"""
