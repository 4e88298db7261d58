"""Work for processes of their own."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tantamount.work.pool import run_all


def piece(what: object) -> object:
    """A number is waited for and returned; a word is done."""
    if isinstance(what, (int, float)):
        time.sleep(what)
    elif what == "crash":
        os.abort()
    elif what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "exit":
        os._exit(7)
    elif what == "raise":
        raise ValueError("boom")
    elif what == "pid":
        return os.getpid()
    elif isinstance(what, tuple):  # says where it runs, then waits
        Path(what[0]).write_text(str(os.getpid()))
        time.sleep(what[1])
    return what


def telling(what: str, tell: Callable[[str], None]) -> str:
    """Says how far it is; what is slow never ends."""
    tell(f"{what} so far")
    if what == "slow":
        time.sleep(600)
    return what


def killed_once(mark: str) -> str:
    """Is killed the first time that it runs, and leaves its mark; the second time it is done."""
    if not Path(mark).exists():
        Path(mark).write_text("killed")
        os.kill(os.getpid(), signal.SIGKILL)
    return mark


def main() -> None:
    """Two pieces that never end; their process numbers are in files of the folder that is named."""
    folder = Path(sys.argv[1])
    try:
        list(run_all(piece, [(str(folder / name), 600) for name in "ab"], 2))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
