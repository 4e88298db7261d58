"""Answers questions for one compiler: ``python main.py ADAPTER [MEGABYTES]``, frames on standard input and output.

A question has the source of a program, options and inputs. The source is written to a file and imported: it was made by
an emitter of ours from a graph, and is what the reproducer of a finding is made of. See ``tantamount.work.server`` for
the frames, which are written here once more because this file runs where Tantamount is not installed.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import io
import json
import os
import resource
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["load", "main"]

_LENGTH = struct.Struct("<I")


def load(source: str, folder: str, number: int) -> Any:
    """The source as a module."""
    path = Path(folder) / f"case_{number}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(f"case_{number}", path)
    if spec is None or spec.loader is None:
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    return module


def _block(stream: Any) -> bytes:
    length = stream.read(_LENGTH.size)
    if len(length) < _LENGTH.size:
        raise EOFError
    return stream.read(_LENGTH.unpack(length)[0])


def _send(stream: Any, header: dict[str, Any], arrays: list[Any]) -> None:
    body = json.dumps({**header, "arrays": len(arrays)}).encode()
    parts = [_LENGTH.pack(len(body)), body]
    for array in arrays:
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        parts += [_LENGTH.pack(buffer.tell()), buffer.getvalue()]
    stream.write(b"".join(parts))
    stream.flush()


def _answer(
    adapter: Any, question: dict[str, Any], arrays: list[Any], folder: str, number: int
) -> tuple[dict[str, Any], list[Any]]:
    """The outputs of a program, or in which phase it failed and how."""
    phase, start = "import", time.perf_counter()
    try:
        module = load(question["source"], folder, number)
        phase = "compile"
        program = adapter.compiled(module, question["options"], question["inputs"], arrays)
        compiled = time.perf_counter()
        phase = "run"
        outputs, dtypes = program(arrays)
        done = time.perf_counter()
    except Exception as problem:
        message = _shortened(str(problem))
        return {"status": "failed", "phase": phase, "kind": type(problem).__name__, "message": message}, []
    found = {"status": "ok", "dtypes": dtypes, "seconds": [compiled - start, done - compiled]}
    return {**found, "kernels": sorted({_digest(text) for text in getattr(program, "kernels", ())})}, outputs


def _shortened(message: str) -> str:
    """A long message without its middle: compilers that call others put the command first and the errors last."""
    return message if len(message) <= 6000 else f"{message[:2000]}\n...\n{message[-4000:]}"


def _versions(adapter: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The versions of what results depend on, or why there is no such device."""
    try:
        return {"status": "ok", "versions": adapter.versions(*([options["device"]] if "device" in options else []))}
    except RuntimeError as problem:
        return {"status": "failed", "message": (str(problem).splitlines() or [type(problem).__name__])[0]}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def main(name: str, megabytes: int = 0) -> None:
    """Serve until the other side closes the pipe."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what compilers print does not get between the frames
    if megabytes:
        resource.setrlimit(resource.RLIMIT_DATA, (megabytes << 20,) * 2)
    adapter = importlib.import_module(name)
    number = 0
    with tempfile.TemporaryDirectory() as folder:
        while True:
            try:
                question = json.loads(_block(sys.stdin.buffer))
                arrays = [
                    np.load(io.BytesIO(_block(sys.stdin.buffer)), allow_pickle=False) for _ in range(question["arrays"])
                ]
            except EOFError:
                return
            number += 1
            if question.get("ask") == "versions":
                _send(answers, _versions(adapter, question["options"]), [])
                continue
            header, outputs = _answer(adapter, question, arrays, folder, number)
            _send(answers, header, outputs)
            Path(folder, f"case_{number}.py").unlink(missing_ok=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
