"""The memory that NumPy's products need is there, or nothing is executed.

OpenBLAS ends the process with exit code 1 when it gets no memory, which would be read as REFUTED.
"""

from __future__ import annotations

import mmap

__all__ = ["reserve"]

_PRODUCTS = 192 << 20  # bytes of address space: NumPy itself, and its buffers for products


def reserve() -> None:
    """Have NumPy allocate its buffers for products, which it keeps. Raises :class:`MemoryError` where there is not
    even the memory for them."""
    try:
        mmap.mmap(-1, _PRODUCTS).close()
    except OSError:
        raise MemoryError from None
    import numpy as np

    square = np.ones((64, 64))
    np.dot(square, square)
