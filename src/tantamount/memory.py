"""The memory that NumPy's products and PyTorch need is there, or nothing is executed.

OpenBLAS ends the process with exit code 1 when it gets no memory, which would be read as REFUTED; PyTorch aborts it.
"""

from __future__ import annotations

import mmap
import os

__all__ = ["limited", "require_room", "reserve"]

_PRODUCTS = 192 << 20  # bytes of address space: NumPy itself, and its buffers for products
_PYTORCH = 768 << 20  # bytes of address space: what `import torch` maps, and a margin for a small capture


def limited() -> bool:
    """True if the address space of this process is limited (``ulimit -v``)."""
    try:
        import resource
    except ImportError:  # a system without such limits
        return False
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def require_room(size: int = _PYTORCH) -> None:
    """Raises :class:`MemoryError` where not so many bytes of address space are left (default: for PyTorch)."""
    try:
        mmap.mmap(-1, size).close()
    except OSError:
        raise MemoryError from None


def reserve() -> None:
    """Have NumPy allocate its buffers for products, which it keeps. Raises :class:`MemoryError` where there is not
    even the memory for them."""
    require_room(_PRODUCTS)
    if limited():
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each would have buffers of its own
    import numpy as np

    square = np.ones((64, 64))
    np.dot(square, square)
