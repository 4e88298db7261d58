"""The outline of a generated module: what is written at its top and in its class, of which nothing may be overlooked.

A name that means something else than is taken for granted (a module that is imported under another name, a function
that is defined twice, a method of the runtime that is defined anew) would change what everything else means.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tantamount.capture.nnscaler.statements import refused

__all__ = ["SETTINGS", "Outline", "outline_of"]

_CLASS = "GenModel"
_STEPS = ("_train_step", "_infer_step")
_BASES = ("nnscaler.runtime.module.ParallelModule", "nnscaler.runtime.module.CubeModule")
_FIELDS = ("use_scheduler", "nmicros_per_scheduler_step", "rank", "runtime_version")
_METHOD = re.compile(r"__init__|_forward_impl|[A-Za-z_]*[A-Za-z]\d+")
SETTINGS = (
    "async_op",
    "max_bucket_size_bytes",
    "zero_use_reduce_scatter",
)  # of reducers, with the constructor's defaults
_IMPORTED = {
    "torch": "torch",
    "ckpt": "torch.utils.checkpoint",
    "nnscaler": "nnscaler",
    "_operator": "_operator",
    "builtins": "builtins",
    "math": "math",
    "inf": "numpy.inf",
}  # what these names stand for


@dataclass(frozen=True)
class Outline:
    """The parts of a module: the class, its methods by name, functions by name, constants of both (``fields``), and
    the defaults of the constructor's settings for reducers."""

    line: int
    methods: Mapping[str, ast.FunctionDef]
    functions: Mapping[str, ast.FunctionDef]
    fields: Mapping[str, object]
    settings: Mapping[str, object]


def outline_of(tree: ast.Module, path: str) -> Outline:
    """The outline. Raises :class:`UserError` for statements that nnScaler does not write there."""
    fields: dict[str, object] = {}
    functions: dict[str, ast.FunctionDef] = {}
    classes: list[ast.ClassDef] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            classes.append(node)
        elif isinstance(node, ast.FunctionDef) and node.name in _STEPS and node.name not in functions:
            functions[node.name] = node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            _check_import(node, path)
        elif isinstance(node, ast.Assign):
            fields |= _assigned(node, path)
        elif not _is_text(node):
            raise refused(path, node.lineno, _said(node), "imports, the class GenModel, _train_step and _infer_step")
    found = [x for x in classes if x.name == _CLASS]
    if len(found) != 1 or len(classes) != 1:
        other = next((f"class {x.name}" for x in classes if x.name != _CLASS), f"{len(found)} classes GenModel")
        named = "no class GenModel" if not found else other
        line = classes[0].lineno if classes else 1
        raise refused(path, line, named, "a module that nnScaler generated: one class GenModel")
    own = found[0]
    if (
        [ast.unparse(base) for base in own.bases] not in [[base] for base in _BASES]
        or own.keywords
        or own.decorator_list
    ):
        raise refused(path, own.lineno, "a class GenModel of another kind", f"class GenModel({_BASES[0]})")
    methods: dict[str, ast.FunctionDef] = {}
    for node in own.body:
        if isinstance(node, ast.FunctionDef) and _METHOD.fullmatch(node.name) and node.name not in methods:
            if node.decorator_list:
                raise refused(path, node.lineno, f"a decorator of {node.name}", "methods without decorators")
            methods[node.name] = node
        elif isinstance(node, ast.Assign):
            fields |= _assigned(node, path)
        elif not isinstance(node, ast.Pass) and not _is_text(node):
            raise refused(path, node.lineno, _said(node), "segments, adapters and reducers, each defined once")
    begins = methods.get("__init__")
    return Outline(own.lineno, methods, functions, fields, {} if begins is None else _settings(begins, path))


def _said(node: ast.stmt) -> str:
    name = getattr(node, "name", "")
    return f"a definition of {name}" if name else f"a statement of kind {type(node).__name__}"


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _check_import(node: ast.Import | ast.ImportFrom, path: str) -> None:
    """No name that modules use stands for something else than nnScaler's own imports say."""
    for name, target in _bound(node):
        if name == "*" and target not in ("typing.*",):
            raise refused(path, node.lineno, f"an import of everything in {target[:-2]}", "imports by name")
        if _IMPORTED.get(name, target) != target:
            raise refused(path, node.lineno, f"{name}, which stands for {target}", _IMPORTED[name])


def _bound(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """The names that an import binds, and what they stand for."""
    for item in node.names:
        if isinstance(node, ast.ImportFrom):
            yield item.asname or item.name, f"{'.' * node.level}{node.module or ''}.{item.name}"
        elif item.asname:
            yield item.asname, item.name
        else:
            root = item.name.partition(".")[0]
            yield root, root


def _assigned(node: ast.Assign, path: str) -> dict[str, object]:
    """Constants by name: those that are known, and others that nothing here uses. ``_infer_step = _train_step`` is what
    nnScaler writes for inference."""
    target = node.targets[0]
    if len(node.targets) != 1 or not isinstance(target, ast.Name):
        raise refused(path, node.lineno, f"an assignment to {ast.unparse(target)}", "constants with names of their own")
    name = target.id
    plain = not any(isinstance(x, ast.Call | ast.Await | ast.NamedExpr) for x in ast.walk(node.value))
    if name in _FIELDS and isinstance(node.value, ast.Constant):
        return {name: node.value.value}
    if plain and (name == "_infer_step" or name.isupper()):
        return {}
    raise refused(path, node.lineno, f"an assignment to {name}", f"the constants {', '.join(_FIELDS)}")


def _settings(begins: ast.FunctionDef, path: str) -> dict[str, object]:
    """The defaults of the constructor's settings for reducers, with which it is called."""
    given = begins.args
    defaults: dict[str, ast.expr | None] = dict(zip((x.arg for x in given.kwonlyargs), given.kw_defaults, strict=True))
    found: dict[str, object] = {}
    for name, default in defaults.items():
        if name not in SETTINGS or not isinstance(default, ast.Constant):
            raise refused(path, begins.lineno, f"a constructor with {name}", f"defaults of {', '.join(SETTINGS)}")
        found[name] = default.value
    return found
