"""Samples of operators, random programs, and mutants of jobs: data that tests, benchmarks and fuzzing are made of.

    operators  calls of every operator in the table, with types and bounds of the operands
    programs   random small programs, grown along their values: operators that can be chosen, with generators of
               their operands
    mutants    small changes of a job: of nodes, relations, groups, outputs and constants

What is generated is judged elsewhere. May import: ``semantics``, ``ops``, ``ir``, ``limits``, ``errors``.
"""
