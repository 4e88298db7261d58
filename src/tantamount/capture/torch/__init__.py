"""Capturing PyTorch programs: one device, or all ranks of a parallel program in one process.

Everything under this package needs PyTorch; nothing else in Tantamount does. It leans on parts of PyTorch that are
private and untyped (fake process groups, the tracer's metadata), so its files are type-checked at the basic level, and
the version of PyTorch is checked where a capture starts.
"""

import sys

from tantamount.memory import limited, require_room

if limited() and "torch" not in sys.modules:
    require_room()  # PyTorch aborts the process that has too little to import it
