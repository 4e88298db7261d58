"""Mutants of jobs: small changes of the implementation, or of the job. None is run or judged here.

edits      a change of some nodes on some ranks, type-checked again
kinds      the mutants of one node; ``rewrites`` those that preserve the meaning
mistakes   mutants that know the right answer: where the program is wrong, and what kind of difference it is
job_kinds  the mutants of relations, groups, outputs, constants, and of literals by which ranks differ
"""
