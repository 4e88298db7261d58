"""Compares a compiler with this suite: ``python check.py FILE.py:FUNCTION --format torch [DIR]``. Needs NumPy alone.

``FUNCTION(module, inputs, types)`` is yours. It is given a program's source as a module (of format ``torch``, ``jax``
and ``tf`` it has ``program``, of ``onnx`` it has ``model``), its inputs in order, and their types as text
(``bfloat16[3, 4]``; the arrays of bfloat16 are float32), and returns the outputs in order. For PyTorch::

    def run(module, inputs, types):
        tensors = [torch.from_numpy(x).to(getattr(torch, t.split("[")[0])) for x, t in zip(inputs, types)]
        outputs = torch.compile(module.program)(*tensors)
        return [y.float().numpy() if y.dtype is torch.bfloat16 else y.numpy() for y in outputs]

Tells each program that gives something else or fails, and how many were compared; exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["difference", "main", "programs"]

Run = Callable[[Any, "list[Any]", "list[str]"], "Sequence[Any]"]


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}".replace(".", "_"), path)
    if spec is None or spec.loader is None:
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def programs(folder: Path, form: str) -> Iterator[tuple[Path, list[Any], list[str], list[tuple[Any, float]]]]:
    """Every source of a format with its inputs, their types, and the expected outputs with bounds on their errors."""
    for source in sorted(folder.glob(f"case-*/*.{form}.py")):
        stem = source.name.removesuffix(f".{form}.py")
        told = json.loads((source.parent / f"{stem}.json").read_text())
        with np.load(source.parent / f"{stem}.npz") as arrays:
            inputs = [arrays[f"input {item['name']}"] for item in told["inputs"]]
            expected = [(arrays[f"expected {k}"], float(row["error"])) for k, row in enumerate(told["outputs"])]
        yield source, inputs, [item["type"] for item in told["inputs"]], expected


def difference(expected: Sequence[tuple[Any, float]], found: Sequence[Any]) -> str:
    """The elements that are otherwise than expected: of exact outputs any element (0 and -0 are equal), of others those
    beyond four times the bound; empty if nothing is."""
    if len(found) != len(expected):
        return f"{len(found)} outputs, {len(expected)} expected"
    for k, ((right, bound), output) in enumerate(zip(expected, found, strict=True)):
        got = np.asarray(output)
        if got.shape != right.shape:
            return f"output {k}: shape {got.shape}, {right.shape} expected"
        near = got == right
        if right.dtype.kind == "f":
            near = near | (np.abs(got.astype(np.float64) - right.astype(np.float64)) <= 4 * bound)
        if not np.all(near):
            where = tuple(int(n) for n in np.argwhere(~np.atleast_1d(near))[0])
            place = where if right.ndim else ()
            return f"output {k} at {list(place)}: {got[place]!r}, {right[place]!r} expected"
    return ""


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("function", metavar="FILE.py:FUNCTION")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent)
    parser.add_argument("--format", default="torch")
    options = parser.parse_args()
    file, _, name = options.function.partition(":")
    run: Run = getattr(_module(Path(file)), name)
    compared = wrong = 0
    for source, inputs, types, expected in programs(options.folder, options.format):
        compared += 1
        try:
            problem = difference(expected, run(_module(source), inputs, types))
        except Exception as failure:  # whatever a compiler throws is an answer
            problem = f"{type(failure).__name__}: {failure}"
        if problem:
            wrong += 1
            sys.stdout.write(f"{source}: {problem}\n")
    sys.stdout.write(f"{compared} programs, {wrong} wrong\n")
    return 1 if wrong or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
