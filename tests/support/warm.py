"""Python scripts in forks of one process that has imported PyTorch and this project: each costs what it does, not what
it imports.

``python -m support.warm`` reads requests, one line of JSON each (what follows ``python``, and the file for what is
printed), and answers with exit codes. A script sees a process of its own: what it changes, the next one does not see.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import pkgutil
import runpy
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Timer

__all__ = ["available", "output_of"]

ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 300.0  # that a script may take
_MODULES = (
    "torch",
    "torch.distributed.tensor",
    "torch.distributed.tensor.parallel",
    "torch.fx.experimental.proxy_tensor",
    "torch._dynamo",
)
_PACKAGES = (  # of ours, that captures and proofs import
    "answers", "calculus", "capture", "correspond", "diagnosis", "execution", "ops", "proof", "reduction", "refinement",
    "report", "semantics",
)  # fmt: skip


def available() -> bool:
    """True where processes can be forked and PyTorch is installed."""
    return hasattr(os, "fork") and importlib.util.find_spec("torch") is not None


def output_of(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """What ``python ARGUMENTS`` prints (standard output and error) when it is run in the repository root."""
    # The name of the test that runs is in the environment; with it, each test would have a process of its own.
    server = _server(tuple(sorted(item for item in environment.items() if item[0] != "PYTEST_CURRENT_TEST")))
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        printed = Path(folder) / "printed"
        timer = Timer(_SECONDS, server.kill)
        timer.start()
        server.stdin.write(json.dumps([list(arguments), str(printed)]) + "\n")
        server.stdin.flush()
        answered = server.stdout.readline()
        timer.cancel()
        assert answered, (
            f"python {' '.join(arguments)} took longer than {_SECONDS} s, or ended the process that runs it"
        )
        return printed.read_text()


@lru_cache(maxsize=4)
def _server(environment: tuple[tuple[str, str], ...]) -> subprocess.Popen[str]:
    """The process that waits for scripts; it ends when its standard input does."""
    found = dict(environment)
    found["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT / "tests"), found.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "support.warm"]
    return subprocess.Popen(
        command, cwd=ROOT, env=found, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def _run(arguments: Sequence[str], printed: str) -> int:
    """The exit code of a script that is run in this process."""
    target = os.open(printed, os.O_WRONLY | os.O_CREAT)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        if arguments[0] == "-m":
            sys.argv = list(arguments[1:])
            sys.path[0] = str(ROOT)
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = list(arguments)
            sys.path[0] = str(Path(arguments[0]).resolve().parent)
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else int(done.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _ours() -> Iterator[str]:
    """The modules of this project that scripts import one by one. None of them does anything but define things."""
    for package in _PACKAGES:
        name = f"tantamount.{package}"
        yield name
        found = importlib.util.find_spec(name)
        places = None if found is None else found.submodule_search_locations
        if places is not None:
            yield from (module.name for module in pkgutil.walk_packages(places, f"{name}.", onerror=lambda _: None))


def main() -> None:
    for module in (*_MODULES, *_ours()):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    for line in sys.stdin:
        arguments, printed = json.loads(line)
        child = os.fork()
        if not child:
            code = 1
            try:
                code = _run(arguments, printed)
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
