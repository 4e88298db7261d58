"""Findings: one folder each, with what is needed to see the bug, to judge it, and to report it.

reproduce.py   needs the compiler alone; prints expected and got; exit code 1 while the bug is there
graph.json     the minimal graph (fx-nodes/1)
finding.json   signature, versions, machine, seed, values
report.md      ready for the compiler's tracker
"""

from __future__ import annotations

import ast
import hashlib
import json
import platform
import re
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from tantamount.capture.fields import shown
from tantamount.capture.files import read_text
from tantamount.capture.graph_document import graph_document
from tantamount.errors import UserError
from tantamount.fuzz.backends.base import HOSTS, Backend, python_for
from tantamount.fuzz.backends.source import array_source
from tantamount.fuzz.oracle import Failure, message_pattern, operators, signature
from tantamount.ir.graph import Graph, Node
from tantamount.ir.text import format_graph
from tantamount.ir.types import DType, TensorType
from tantamount.limits import limits_from_environment
from tantamount.semantics.exact import plain

__all__ = ["Finding", "NoRecord", "read_findings", "read_record", "replay", "reproducer", "resembles", "save"]


_UNSTABLE = 10  # runs of what does not fail each time, to see that it no longer does


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
is 1 while they differ, 2 where the compiler is not installed.
"""

import os
import sys

os.environ.update({environment})
try:
{imports}
except ImportError as missing:
    print(f"{{missing}}: {install}")
    sys.exit(2)

'''

_CHECK = """

def inputs():
    return [
{given}
    ]


def run():
    program = compiled(sys.modules[__name__], {options}, {described}, inputs())
    return program(inputs())[0]


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


def reproducer(failure: Failure, backend: Backend, seed: int, index: int) -> str:
    """The source of reproduce.py: the host's way to run a program, and the program; empty for a backend without a
    host."""
    host = HOSTS / f"host_{backend.host}.py"
    if not host.is_file():
        return ""
    form = failure.form
    given = [f"        {_value(form.inputs[node.name], node)}," for node in form.graph.inputs]
    described = [
        {"name": node.name, "dtype": node.type.dtype.label if node.type else "float32"} for node in form.graph.inputs
    ]
    imports, parts = _imports_first(host.read_text(), backend.emit(form.graph))
    text = _HEAD.format(
        title=_title(failure), seed=seed, index=index, environment=dict(backend.environment), install=backend.install,
        imports="\n".join(f"    {line}" for line in imports),
    )  # fmt: skip
    text += "\n" + "\n\n\n".join(parts)
    text += _CHECK.format(
        options={**backend.options, "level": failure.level}, described=described, given="\n".join(given),
        raises=failure.kind in ("refused", "raised"),
        expected=", ".join(_value(plain(x), None, x.type) for x in form.expected),
        bounds=[4.0 * x.value.error for x in form.expected],
    )  # fmt: skip
    return text


def _imports_first(*sources: str) -> tuple[list[str], list[str]]:
    """The imports of modules, each once, and the rest of each; without what a script does not need: documentation of
    the module, what it exports, its versions."""
    imports: set[str] = {"import numpy as np"}
    parts: list[str] = []
    for source in sources:
        lines = source.splitlines()
        left: list[str] = []
        first = 0
        for statement in ast.parse(source).body:
            start, end = statement.lineno - 1, statement.end_lineno or statement.lineno
            text = "\n".join(lines[start:end])
            between = [line for line in lines[first:start] if line.startswith("#")]
            first = end
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                if "__future__" not in text:
                    imports.add(text)
            elif not _documents(statement):
                space = "\n\n" if isinstance(statement, ast.FunctionDef) else ""
                left.append(space + "\n".join([*between, text]))
        parts.append("\n".join(left).strip("\n"))
    return sorted(imports, key=lambda line: (line.startswith("from"), line)), [part for part in parts if part]


def _documents(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id == "__all__" for target in statement.targets)
    return isinstance(statement, ast.FunctionDef) and statement.name == "versions"


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
        "level": failure.level, "pass": failure.first, "message": failure.message, "title": _title(failure),
        "seed": seed, "case": index, "operators": operators(form.graph),
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
        f"It fails from level `{failure.level}` on{_since(failure)}. Expected values are exact: integers wrap around,",
        "and every partial sum of floats is representable, so that the order of computing does not matter.",
        "",
    ]
    if source:
        lines += ["## To reproduce", "", "```python", source.rstrip(), "```", ""]
    lines += ["## Versions", "", f"{versions}; Python {data['python']}, {data['machine']}", ""]
    return "\n".join(lines)


_TEXTS = ("signature", "backend", "kind", "message", "title")


def _since(failure: Failure) -> str:
    return (
        f", and there from the pass `{failure.first}` on (without it and all later ones it does not)"
        if failure.first
        else ""
    )


def read_findings(folder: Path) -> list[Finding]:
    """The findings below a folder. Raises :class:`UserError` for a finding.json that is none."""
    return [Finding(path.parent, _finding(path)) for path in sorted(folder.glob("**/finding.json"))]


def _finding(path: Path) -> Mapping[str, Any]:
    try:
        data = read_record(path)
    except NoRecord as problem:
        raise UserError("finding-file", place=str(path), found=str(problem), needed="a JSON document") from None
    if data.get("format") != "tantamount-finding/1":
        raise UserError(
            "finding-file", place=str(path), found="another document", needed="one of format tantamount-finding/1"
        )
    for key in _TEXTS:
        if not isinstance(data.get(key), str):
            found = shown(data[key]) if key in data else f"no {key}"
            raise UserError("finding-file", place=f"{path}: {key}", found=found, needed="a text")
    names: object = data.get("operators", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in cast("list[object]", names)):
        raise UserError(
            "finding-file", place=f"{path}: operators", found=shown(cast("object", names)), needed="a list of texts"
        )
    return data


class NoRecord(Exception):
    """One clause that says what a file has instead of a JSON object."""


def read_record(path: Path) -> Mapping[str, Any]:
    """The object in a JSON file that a campaign wrote, numbers without a value included. Raises :class:`NoRecord` for
    anything else, and :class:`UserError` for what :func:`read_text` refuses."""
    try:
        data = json.loads(read_text(path, limits_from_environment()))
    except RecursionError:
        raise NoRecord("values inside one another without end") from None
    except ValueError as problem:
        raise NoRecord(str(problem)[:200]) from None
    if not isinstance(data, dict):
        raise NoRecord(shown(data))
    return cast("dict[str, Any]", data)


def resembles(one: Finding, other: Finding) -> bool:
    """True if the program of a finding has all that another's has and fails like it, so that it is most likely the same
    bug: all operators with their element types, or, where a message tells what happens, all operators and the same
    message."""
    if any(one.data.get(key) != other.data.get(key) for key in ("backend", "kind")):
        return False
    mine, others = (Counter[str](row.data.get("operators", ())) for row in (one, other))
    if one.data["kind"] == "wrong":
        return bool(others) and others <= mine
    messages = {message_pattern(str(row.data["message"])) for row in (one, other)}
    names = [{word.split(":")[0] for word in row} for row in (mine, others)]
    return len(messages) == 1 and names[1] <= names[0]


def replay(finding: Finding, seconds: float = 300.0, python: str = "") -> str:
    """Run a finding's reproduce.py in a fresh process: ``there``, ``gone``, ``overdue``, ``unclear`` (it did not get so
    far) or ``no reproducer``. One that does not fail each time is run until it does, a few times."""
    script = finding.folder / "reproduce.py"
    if not script.is_file():
        return "no reproducer"
    found = "gone"
    for _ in range(_UNSTABLE if finding.data["kind"] == "unstable" else 1):
        found = _replayed(finding, script, seconds, python)
        if found != "gone":
            break
    return found


def _replayed(finding: Finding, script: Path, seconds: float, python: str) -> str:
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
