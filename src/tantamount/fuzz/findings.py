"""Findings: one folder each, with what is needed to see the bug, to judge it, and to report it.

reproduce.py   needs the compiler alone; prints expected and got; exit code 1 while the bug is there
graph.json     the minimal graph (fx-nodes/1)
finding.json   signature, versions, machine, seed, values
report.md      ready for the compiler's tracker
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tantamount.capture.graph_document import graph_document
from tantamount.errors import UserError
from tantamount.fuzz.backends.base import Backend, python_for
from tantamount.fuzz.backends.source import array_source
from tantamount.fuzz.oracle import Failure, signature
from tantamount.ir.graph import Graph, Node
from tantamount.ir.text import format_graph
from tantamount.ir.types import DType, TensorType
from tantamount.semantics.exact import plain

__all__ = ["Finding", "read_findings", "replay", "reproducer", "save"]


@dataclass(frozen=True)
class Finding:
    """A finding as its folder says it. ``data`` is finding.json."""

    folder: Path
    data: Mapping[str, Any]

    @property
    def signature(self) -> str:
        return str(self.data["signature"])

    @property
    def backend(self) -> str:
        return str(self.data["backend"])


_HEAD = '''"""{title}

Found by `tantamount fuzz` (seed {seed}, case {index}). Prints what is expected and what was computed; the exit code
is 1 while they differ.
"""

import sys

'''

_CHECK = """

def main():
    expected = [{expected}]
    bounds = {bounds}
    try:
        got = run()
    except Exception as problem:
        print(f"{{type(problem).__name__}}: {{problem}}")
        sys.exit(1 if {raises} else 2)
    wrong = len(got) != len(expected)
    for k, (right, found, bound) in enumerate(zip(expected, got, bounds)):
        found = np.asarray(found)
        same = found.shape == right.shape and found.dtype == right.dtype
        if same and found.dtype.kind == "f":
            near = np.abs(found.astype(np.float64) - right.astype(np.float64)) <= bound
            same = bool(np.all((found == right) | near))
        elif same:
            same = bool(np.all(found == right))
        print(f"output {{k}}: {{'as expected' if same else 'WRONG'}}")
        if not same:
            wrong = True
            print("  expected:", right.dtype, right.shape, right.ravel()[:40])
            print("  got:     ", found.dtype, found.shape, found.ravel()[:40])
    sys.exit(int(wrong))


if __name__ == "__main__":
    main()
"""

_RUN = {
    "ort": '''
def run():
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.{level}
    session = onnxruntime.InferenceSession(model().SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs())
''',
    "openvino": '''
def run():
    import io

    import openvino

    core = openvino.Core()
    model_ = core.read_model(io.BytesIO(model().SerializeToString()))
    results = core.compile_model(model_, "CPU", {{"INFERENCE_PRECISION_HINT": "f32"}})(inputs())
    return [results[k] for k in range(len(results))]
''',
    "torch": '''
def run():
    given = zip(inputs().values(), DTYPES)
    tensors = [torch.from_numpy(np.array(value)).to(getattr(torch, dtype)) for value, dtype in given]
    compiled = {compiled}
    return [(y.float() if y.dtype is torch.bfloat16 else y).numpy() for y in compiled(*tensors)]
''',
    "jax": '''
def run():
    jax.config.update("jax_enable_x64", True)
    given = [jnp.asarray(value, dtype) for value, dtype in zip(inputs().values(), DTYPES)]
    ready = jax.jit(program).lower(*given).compile(compiler_options={{"xla_backend_optimization_level": {level}}})
    return [np.asarray(y.astype("float32") if y.dtype == "bfloat16" else y) for y in ready(*given)]
''',
}  # fmt: skip
_ORT_LEVELS = {
    "disabled": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}


def reproducer(failure: Failure, backend: Backend, seed: int, index: int) -> str:
    """The source of reproduce.py; empty for a backend that has none."""
    if backend.tail not in _RUN:
        return ""
    form = failure.form
    level = failure.level
    compiled = (
        "program" if level == "eager" else f"torch.compile(program, backend={level!r}, fullgraph=True, dynamic=False)"
    )
    run = _RUN[backend.tail].format(level=_ORT_LEVELS.get(level, level), compiled=compiled)
    given = [
        f"        {name!r}: {_value(form.inputs[name], node)}," for node in form.graph.inputs for name in [node.name]
    ]
    dtypes = [node.type.dtype.label if node.type else "float32" for node in form.graph.inputs]
    expected = ", ".join(_value(plain(x), None, x.type) for x in form.expected)
    bounds = [4.0 * x.value.error for x in form.expected]
    body = backend.emit(form.graph)
    text = _HEAD.format(title=_title(failure), seed=seed, index=index) + body
    if "import numpy as np" not in body:
        text = text.replace("import sys\n", "import sys\n\nimport numpy as np\n", 1)
    if backend.tail == "jax":
        text = text.replace("import jax\n", 'import jax\n\njax.config.update("jax_enable_x64", True)\n', 1)
    text += f"\n\nDTYPES = {dtypes!r}\n\n\ndef inputs():\n    return {{\n" + "\n".join(given) + "\n    }\n\n" + run
    raises = failure.kind in ("refused", "raised")
    return text + _CHECK.format(expected=expected, bounds=bounds, raises=raises)


def _value(array: Any, node: Node | None, type_: TensorType | None = None) -> str:
    found = type_ or (node.type if node is not None else None) or TensorType(array.shape, DType.FLOAT32)
    data = np.asarray(array, dtype=np.float64).ravel().tolist() if found.dtype.is_float else array.ravel().tolist()
    return array_source(data, found)


def _operators(graph: Graph) -> list[str]:
    return [
        n.target.removeprefix("aten.").split(".")[0] for n in graph.nodes if n.op == "call" and n.target != "getitem"
    ]


def _title(failure: Failure) -> str:
    types = sorted({n.type.dtype.label for n in failure.form.graph.nodes if n.type is not None})
    what = {
        "wrong": "wrong result", "crash": "crash", "refused": "valid program refused", "raised": "exception",
        "overdue": "no end", "unstable": "results that change",
    }[failure.kind]  # fmt: skip
    operators = ", ".join(dict.fromkeys(_operators(failure.form.graph))) or "a copy"
    return f"{failure.backend}: {what} of {operators} ({', '.join(types)})"


def slug(text: str) -> str:
    """A name of a folder: the first words and a digest of all."""
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60].strip("-")
    return f"{words}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def save(
    failure: Failure, backend: Backend, versions: Mapping[str, str], folder: Path, seed: int, index: int, **more: Any
) -> Finding:
    """Write a finding's folder; ``more`` is put into finding.json."""
    sign = signature(failure)
    target = folder / slug(sign)
    target.mkdir(parents=True, exist_ok=True)
    form = failure.form
    data = {
        "format": "tantamount-finding/1", "signature": sign, "backend": failure.backend, "kind": failure.kind,
        "level": failure.level, "message": failure.message, "title": _title(failure), "seed": seed, "case": index,
        "versions": dict(versions), "machine": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "inputs": {name: np.asarray(value).tolist() for name, value in form.inputs.items()},
        "expected": [plain(x).tolist() for x in form.expected], "bounds": [x.value.error for x in form.expected],
        **more,
    }  # fmt: skip
    source = reproducer(failure, backend, seed, index)
    (target / "graph.json").write_text(json.dumps(graph_document(form.graph)) + "\n")
    (target / "finding.json").write_text(json.dumps(data, indent=1, default=str) + "\n")
    if source:
        (target / "reproduce.py").write_text(source)
    (target / "report.md").write_text(_report(failure, data, source))
    return Finding(target, data)


def _report(failure: Failure, data: Mapping[str, Any], source: str) -> str:
    versions = ", ".join(f"{name} {value}" for name, value in data["versions"].items())
    lines = [f"# {data['title']}", "", "## What happens", "", data["message"] or "The process ended.", ""]
    lines += ["The program (after minimisation):", "", "```text", format_graph(failure.form.graph).rstrip(), "```", ""]
    lines += [
        f"It fails from level `{failure.level}` on. Expected values are exact: integers wrap around, and every partial",
        "sum of floats is representable, so that the order of computing does not matter.",
        "",
    ]
    if source:
        lines += ["## To reproduce", "", "```python", source.rstrip(), "```", ""]
    lines += ["## Versions", "", f"{versions}; Python {data['python']}, {data['machine']}", ""]
    return "\n".join(lines)


def read_findings(folder: Path) -> list[Finding]:
    """The findings below a folder. Raises :class:`UserError` for a finding.json that is none."""
    found: list[Finding] = []
    for path in sorted(folder.glob("**/finding.json")):
        try:
            data = json.loads(path.read_text())
        except ValueError as problem:
            raise UserError("finding-file", place=str(path), found=str(problem), needed="a JSON document") from None
        if not isinstance(data, dict) or data.get("format") != "tantamount-finding/1":  # pyright: ignore[reportUnknownMemberType]
            raise UserError(
                "finding-file", place=str(path), found="another document", needed="one of format tantamount-finding/1"
            )
        found.append(Finding(path.parent, data))  # pyright: ignore[reportUnknownArgumentType]
    return found


def replay(finding: Finding, seconds: float = 300.0, python: str = "") -> str:
    """Run a finding's reproduce.py in a fresh process: ``there``, ``gone``, ``overdue``, ``unclear`` (it did not get so
    far) or ``no reproducer``."""
    script = finding.folder / "reproduce.py"
    if not script.is_file():
        return "no reproducer"
    try:
        done = subprocess.run(
            [python or python_for(finding.backend), str(script.resolve())], capture_output=True, timeout=seconds,
            check=False,
            cwd=finding.folder,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "there" if finding.data["kind"] == "overdue" else "overdue"
    if done.returncode < 0:
        return "there" if finding.data["kind"] == "crash" else "unclear"
    return {0: "gone", 1: "there"}.get(done.returncode, "unclear")
