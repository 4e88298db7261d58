"""Mutants of proved jobs: small changes of the implementation (or of the job), what each of them means by execution,
and what the prover says of it. Shared by ``benchmarks/mutants.py`` and the tests.

    edits      a change of some nodes on some ranks, type-checked again
    kinds      the mutants of one node; ``rewrites`` those that preserve the meaning
    job_kinds  the mutants of relations, groups, outputs, constants, and of literals by which ranks differ
    classify   equal, different, undefined or undecided: by execution, never by normal forms
    campaign   many mutants of many jobs: outcomes, figures, reproducers
"""
