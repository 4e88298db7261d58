"""The values that graphs compute: the reference interpreter over NumPy, the ground truth.

May import: ``errors``, ``ir``, ``ops``. Never imported by ``calculus``.
"""
