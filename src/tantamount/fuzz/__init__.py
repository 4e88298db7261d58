"""Fuzzing of tensor compilers: random graphs, rewritten into equal ones, run by every backend, compared exactly.

    samplers  calls of operators with random operands    generate  graphs and inputs, and their exact values
    cases     one case: a graph, its equal forms, inputs  oracle    what differs, and which of them is wrong
    backends  one file per compiler, run in processes of their own (hosts)
    shrink, findings, campaign, suite                     from a difference to a bug report

May import: ``errors``, ``limits``, ``ir``, ``ops``, ``semantics``, ``rules``, ``saturate``. See docs/design/fuzz.md.
"""
