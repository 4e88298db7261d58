"""Suites: pairs of equivalent programs as files, for the tests of compilers that cannot be run here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from tantamount.errors import Unsupported, UserError
from tantamount.fuzz.backends import backends
from tantamount.fuzz.backends.base import policy_of
from tantamount.fuzz.cases import Form, Maker
from tantamount.ir.graph import Graph
from tantamount.rules.rule import Rule
from tantamount.semantics.exact import plain

__all__ = ["FORMATS", "write_suite"]

FORMATS: Mapping[str, str] = {
    "torch": "eager",
    "onnx": "ort",
    "jax": "xla",
    "tf": "tensorflow",
}  # format -> the backend whose emitter writes it


def write_suite(
    folder: Path,
    formats: tuple[str, ...],
    count: int,
    seed: int,
    rules: Mapping[str, Rule],
    tell: Callable[[int], None],
) -> int:
    """Write cases until there are ``count``: for each a folder with, for every form, inputs and expected outputs
    (``FORM.npz``), their types and error bounds (``FORM.json``), and a program per format (``FORM.FORMAT.py``); beside
    the folders ``check.py``, which compares a compiler with them. Returns how many were written. Raises
    :class:`UserError` for an unknown format."""
    for name in formats:
        if name not in FORMATS:
            raise UserError("fuzz-format", place="--format", found=name, needed=f"one of {', '.join(FORMATS)}")
    chosen = [backends()[FORMATS[name]] for name in formats]
    maker = Maker(policy_of(chosen), rules)
    folder.mkdir(parents=True, exist_ok=True)
    script = resources.files("tantamount.fuzz.hosts").joinpath("check_suite.py")
    (folder / "check.py").write_text(script.read_text())
    written = index = 0
    while written < count:
        case = maker.case(seed, index)
        index += 1
        if len(case.forms) < 2:
            continue
        target = folder / f"case-{case.index:06d}"
        target.mkdir(parents=True, exist_ok=True)
        for form in case.forms:
            _write(target, form, {name: backend.emit for name, backend in zip(formats, chosen, strict=True)})
        written += 1
        tell(written)
    return written


def _write(target: Path, form: Form, emitters: Mapping[str, Callable[[Graph], str]]) -> None:
    for name, emit in emitters.items():
        try:
            (target / f"{form.name}.{name}.py").write_text(emit(form.graph))
        except Unsupported:
            continue
    arrays: dict[str, Any] = {f"input {name}": array for name, array in form.inputs.items()}
    arrays |= {f"expected {k}": plain(x) for k, x in enumerate(form.expected)}
    np.savez(target / f"{form.name}.npz", **arrays)
    described = {
        "inputs": [{"name": n.name, "type": str(n.type)} for n in form.graph.inputs],
        "outputs": [{"type": str(x.type), "error": x.value.error} for x in form.expected],
    }
    (target / f"{form.name}.json").write_text(json.dumps(described, indent=1) + "\n")
