"""``python -m tantamount``, and the ``tantamount`` command.

Exit code 1 means REFUTED and nothing else, so that nothing may end in an exception of Python's own, not even while the
first modules are imported: an interruption then is exit code 130, and what cannot be imported is exit code 5.
"""

from __future__ import annotations

import gc
import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit."""
    gc.set_threshold(200_000, 20, 20)  # proofs keep what they make, without cycles: looking for these costs a tenth
    try:
        import signal

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored: nohup
            signal.signal(signal.SIGINT, _leave)
        from tantamount.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as problem:
        _refuse(problem)
    else:
        try:
            run()
        finally:
            gc.freeze()  # the process ends: nobody needs to look for cycles among what it holds


def _leave(number: int, frame: object) -> None:
    os._exit(130)


def _refuse(problem: Exception) -> None:
    """Say without any of our modules that they could not be imported."""
    text = (
        f"error[environment-import] while starting\n  found:  {type(problem).__name__}: {str(problem)[:500]}\n"
        "  needed: an installation whose modules can all be read, memory and file descriptors to read them\n"
    )
    try:
        os.write(2, text.encode("ascii", "backslashreplace"))
    finally:  # also where nobody is there to be told
        sys.exit(5)


if __name__ == "__main__":
    main()
