"""Execution of both programs of a job: on which numbers, and what that shows.

``plans`` draws leaves and runs both sides; ``witness`` looks for counterexamples, ``simplify`` makes them simple,
``differences`` compares; ``reduced`` does so at smaller shapes, which ``control`` looks at first; ``cross_check``
executes what was proved.

May import: ``proof``, ``semantics`` and below.
"""
