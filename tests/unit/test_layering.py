"""Import directions, file sizes, and what ``import tantamount`` loads."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "tantamount"
MAX_LINES = 600

# Part (a module or folder directly under the package) -> the other parts it may import. Bottom to top.
BASE = frozenset({"clock", "errors", "memory", "limits", "effort", "sizes", "ir", "verdict", "writing"})
PROOF = BASE | {"ops", "calculus", "reduction"}
EXECUTION = PROOF | {"semantics", "proof"}
DIAGNOSIS = EXECUTION | {"execution", "correspond"}
REFINEMENT = DIAGNOSIS | {"diagnosis"}
MAY_IMPORT: dict[str, frozenset[str]] = {
    "clock": frozenset(),
    "errors": frozenset(),
    "memory": frozenset(),
    "limits": frozenset({"errors"}),
    "effort": frozenset({"errors", "limits"}),
    "sizes": frozenset({"errors", "limits", "effort"}),
    "ir": frozenset({"errors", "limits", "sizes"}),
    "verdict": frozenset({"errors", "limits", "ir"}),
    "writing": frozenset({"errors"}),
    "work": frozenset(),
    "ops": BASE,
    "semantics": BASE | {"ops"},
    "samples": BASE | {"ops", "semantics"},
    "calculus": BASE | {"ops"},
    "capture": BASE | {"ops", "semantics", "calculus"},
    "reduction": BASE | {"ops"},
    "proof": PROOF,
    "execution": EXECUTION,
    "correspond": EXECUTION | {"execution", "capture"},
    "diagnosis": DIAGNOSIS,
    "smt": BASE | {"ops", "semantics"},  # neither calculus nor proof: it is to be wrong in other places
    "refinement": REFINEMENT | {"smt"},
    "rewriting": REFINEMENT | {"refinement", "capture", "smt"},
    "comparison": REFINEMENT | {"refinement", "capture", "rewriting"},
    "rules": PROOF | {"proof"},
    "saturate": BASE | {"ops", "rules"},
    "fuzz": BASE | {"ops", "semantics", "reduction", "capture", "rules", "saturate", "work"},
    "certificate": BASE | {"ops", "semantics", "capture", "reduction"},
    "plan": PROOF | {"capture", "proof"},  # how a part is refuted is handed in: the questions are siblings
    "report": BASE,
    "explanations": BASE | {"ops"},
    "answers": BASE
    | {
        "smt",
        "proof",
        "correspond",
        "refinement",
        "plan",
        "certificate",
        "report",
        "comparison",
        "capture",
        "rewriting",
    },
    "cli": BASE
    | {"ops", "capture", "correspond", "answers", "certificate", "report", "explanations", "work"}
    | {"rules", "rewriting", "fuzz", "plan", ""},
    "": frozenset({"errors", "verdict", "ops", "capture", "answers"}),  # its own __init__
    "__main__": frozenset({"cli"}),
    "pytest_plugin": frozenset({"errors", "verdict", "writing", "ir", "capture", "refinement", "answers", "report"}),
}

# Library -> the folders (relative to the package) that may import it.
LIBRARIES: dict[str, tuple[str, ...]] = {
    "torch": ("capture/torch", "fuzz/hosts"),
    "jax": ("capture/jax.py", "fuzz/hosts"),
    "onnx": ("fuzz/hosts",),
    "onnxruntime": ("fuzz/hosts",),
    "openvino": ("fuzz/hosts",),
    "tensorflow": ("fuzz/hosts",),
    "tvm": ("fuzz/hosts",),
    "iree": ("fuzz/hosts",),
    "egglog": (),
    "z3": ("sizes/search.py", "smt/solver.py"),
    "click": ("cli",),
    "rich": ("cli",),
    "jinja2": ("report/html",),
    "pytest": ("pytest_plugin",),
    "pickle": (),
    "marshal": (),
    "shelve": (),
}


@lru_cache(maxsize=1024)  # of names, not of trees: what is kept is looked through by every collection of garbage
def imports(source: str, module: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    """Line and absolute dotted name of everything that a module (its path as parts) imports, at any depth."""
    return tuple(_imported(ast.parse(source), module))


def _imported(tree: ast.Module, module: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                folder = module[: len(module) - node.level]
                base = ".".join((*folder, base) if base else folder)
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"
        elif isinstance(node, ast.Call) and node.args and _imports(node.func):
            for name in _strings(node.args[0]):
                yield node.lineno, name


def _imports(function: ast.expr) -> bool:
    """True for ``import_module`` and ``importlib.import_module``."""
    return "import_module" in (getattr(function, "id", ""), getattr(function, "attr", ""))


def _strings(argument: ast.expr) -> Iterator[str]:
    """The names of modules that an argument of ``import_module`` spells out, as far as they are constants."""
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        yield argument.value
    elif isinstance(argument, ast.JoinedStr) and argument.values and isinstance(argument.values[0], ast.Constant):
        yield str(argument.values[0].value).rstrip(".")


def violations(package: Path) -> Iterator[str]:
    """What in a package breaks the rules, one line each."""
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        source = path.read_text()
        if (lines := source.count("\n")) > MAX_LINES:
            yield f"{inside}: {lines} lines, at most {MAX_LINES}"
        part = inside.parts[0] if len(inside.parts) > 1 else inside.stem
        part = "" if part == "__init__" else part
        if part not in MAY_IMPORT:
            yield f"{inside}: {part!r} has no row in MAY_IMPORT"
            continue
        for line, name in imports(source, ("tantamount", *inside.parts)):
            root, _, rest = name.partition(".")
            if root == "tantamount":
                target = rest.split(".")[0]
                target = target if target in MAY_IMPORT else ""
                if target != part and target not in MAY_IMPORT[part]:
                    yield f"{inside}:{line}: {part or 'tantamount'} may not import {name}"
            elif root in LIBRARIES and not any(inside.as_posix().startswith(place) for place in LIBRARIES[root]):
                yield f"{inside}:{line}: {root} may not be imported here"


def circle(package: Path) -> list[str]:
    """The files that import each other in circles, at any depth of their code, and those between such circles.
    Imports for types alone do not count: they are not executed."""
    files = {
        p.relative_to(package).with_suffix("").as_posix().removesuffix("/__init__"): p for p in package.rglob("*.py")
    }
    arrows: dict[str, set[str]] = {}
    for name, path in files.items():
        source = path.read_text()
        blocks = ast.walk(ast.parse(source)) if "TYPE_CHECKING" in source else ()
        typed = [n for n in blocks if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
        unseen = {line for block in typed for line in range(block.lineno, (block.end_lineno or block.lineno) + 1)}
        dotted = [
            module.removeprefix("tantamount.").replace(".", "/")
            for line, module in imports(source, ("tantamount", *path.relative_to(package).parts))
            if line not in unseen and module.startswith("tantamount.")
        ]
        arrows[name] = {found for one in dotted for found in (one, one.rpartition("/")[0]) if found in files} - {name}
    while True:  # what imports nothing of what is left, or is imported by nothing of it, is in no circle
        wanted = {other for others in arrows.values() for other in others}
        left = {
            name: others & arrows.keys() for name, others in arrows.items() if name in wanted and others & arrows.keys()
        }
        if left == arrows:
            return sorted(left)
        arrows = left


def test_no_files_import_each_other_in_a_circle() -> None:
    assert circle(PACKAGE) == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    (tmp_path / "ir").mkdir()
    (tmp_path / "ir/a.py").write_text("from tantamount.ir.b import b")
    (tmp_path / "ir/b.py").write_text("def f():\n    from tantamount.ir import a")
    assert circle(tmp_path) == ["ir/a", "ir/b"]


def test_the_package_keeps_the_rules() -> None:
    found = list(violations(PACKAGE))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("file", "source", "message"),
    [
        ("errors.py", "import tantamount.ir", "errors may not import tantamount.ir"),
        ("verdict.py", "import_module('tantamount.report.text')", "verdict may not import tantamount.report.text"),
        ("verdict.py", "importlib.import_module(f'tantamount.report.{x}')", "verdict may not import tantamount.report"),
        ("ir/graph.py", "from ..ops import table", "ir may not import tantamount.ops.table"),
        (
            "ops/table.py",
            "def f():\n    from tantamount.calculus import polynomials",
            "ops/table.py:2: ops may not import",
        ),
        ("calculus/polynomials.py", "from tantamount.semantics import numpy", "calculus may not import"),
        ("semantics/run.py", "from tantamount.calculus.polynomials import Polynomial", "semantics may not import"),
        ("calculus/polynomials.py", "import torch.nn", "torch may not be imported here"),
        ("calculus/polynomials.py", "from z3 import Int", "z3 may not be imported here"),
        ("cli/main.py", "import pytest", "pytest may not be imported here"),
        ("capture/hlo.py", "import jax.numpy", "jax may not be imported here"),
        ("report/text.py", "import rich", "rich may not be imported here"),
        ("report/text.py", "from tantamount.cli.main import main", "report may not import"),
        ("refinement/__init__.py", "from tantamount import cli", "refinement may not import tantamount.cli"),
        ("refinement/__init__.py", "from .. import __version__", "refinement may not import tantamount.__version__"),
        ("unheard/of.py", "", "has no row"),
        ("ir/long.py", "\n" * (MAX_LINES + 1), "at most 600"),
        ("ir/load.py", "import pickle", "pickle may not"),
    ],
)
def test_a_violation_is_found(tmp_path: Path, file: str, source: str, message: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    (found,) = violations(tmp_path)
    assert message in found


@pytest.mark.parametrize(
    ("file", "source"),
    [
        (
            "proof/run.py",
            "from tantamount.calculus.polynomials import Polynomial\nfrom .cover import cover\nimport numpy",
        ),
        ("cli/main.py", "import click\nfrom tantamount import __version__\nfrom tantamount.report import text"),
        ("capture/torch/trace.py", "import torch"),
        ("ir/short.py", "\n" * MAX_LINES),
    ],
)
def test_what_is_allowed_is_not_reported(tmp_path: Path, file: str, source: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    assert list(violations(tmp_path)) == []


def loaded_by(statement: str) -> set[str]:
    """The top-level packages that a fresh interpreter has loaded after a statement."""
    program = f"import sys\n{statement}\nprint(' '.join({{name.partition('.')[0] for name in sys.modules}}))"
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_is_light() -> None:
    assert not loaded_by("import tantamount; tantamount.Verdict") & {
        "torch",
        "click",
        "rich",
        "jinja2",
        "numpy",
        "jax",
        "z3",
    }


def test_the_public_interface_is_lazy_and_complete() -> None:
    import tantamount

    assert tantamount.Verdict.PROVED.exit_code == 0
    assert set(dir(tantamount)) == set(tantamount.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tantamount.nothing  # noqa: B018


def test_capture_is_a_package_and_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    import tantamount
    import tantamount.capture.readers as readers

    assert tantamount.capture is sys.modules["tantamount.capture"]
    assert tantamount.capture.readers is readers
    given = vars(tantamount.capture)
    monkeypatch.setitem(given, "capture", lambda function, args, *, name="": (function, args, name))
    assert tantamount.capture("f", (1,), name="x") == ("f", (1,), "x")
