"""Fuzzing of tensor compilers: random graphs, rewritten into equal ones, run by every backend, compared exactly.

    samplers  calls of operators with random operands    generate  graphs and inputs, and their exact values
    models    parts of captured graphs, at other sizes    plain     their calls in the words of the samplers
    cases     one case: a graph, its equal forms, inputs  oracle    what differs, and which of them is wrong
    backends  compilers, one TOML file and one host each, run in processes of their own (hosts)
    shrink, findings, campaign, suite                     from a difference to a bug report

May import: ``errors``, ``limits``, ``ir``, ``ops``, ``semantics``, ``reduction``, ``capture``, ``rules``,
``saturate``, ``work``. See docs/design/fuzz.md.
"""
