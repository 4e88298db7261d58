"""Judging of mutants (``tantamount.samples.mutants`` makes them): what each means by execution, and what the prover
says of it. Shared by ``benchmarks/mutants.py`` and the tests.

    classify   equal, different, undefined or undecided: by execution, never by normal forms
    campaign   many mutants of many jobs: outcomes, figures, reproducers
"""
