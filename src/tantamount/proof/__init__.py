"""Proofs: both programs of a job in the calculus, and what can be said of their tensors.

``prove(job, options)`` gives a :class:`Proof`. ``inputs`` turns the input relation into forms; ``specification`` and
``ranks`` run the two programs (``run``: the values of each); ``outputs`` checks expectations, ``cover`` relates every
specification tensor, ``assumptions`` collects what was used; ``cuts`` lets both programs go on from one fresh tensor
where they are proved to agree.

May import: ``reduction``, ``calculus``, ``ops``, ``sizes``, ``ir``, ``verdict``, ``errors``, ``limits``. Hints (which
tensors to compare) come from above: :attr:`Options.align`.
"""

from tantamount.proof.proof import Options, Progress, Proof, prove

__all__ = ["Options", "Progress", "Proof", "prove"]
