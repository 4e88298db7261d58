"""Sides of rules as text: expressions in operators, in the notation of Python, as a graph document.

``"y = aten.mul.Tensor(x, w); aten.sum.dim_IntList(y, [1])"``: assignments, then the result. A call names an operator as
graphs do; ``+ - * / @``, ``**`` and comparisons are operators of tensors (of a tensor and a number), or arithmetic of
sizes. The text is parsed and translated, never run.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from tantamount.capture.fields import Place, shown
from tantamount.errors import UserError
from tantamount.ir.types import DType
from tantamount.ops.expressions import ExpressionProblem, parse_python

__all__ = ["graph_document", "no_rule"]

_BINARY: Mapping[type[ast.AST], str] = {
    ast.Add: "aten.add.Tensor", ast.Sub: "aten.sub.Tensor", ast.Mult: "aten.mul.Tensor", ast.Div: "aten.div.Tensor",
    ast.MatMult: "aten.matmul.default", ast.Pow: "aten.pow.Tensor_Scalar", ast.BitAnd: "aten.logical_and.default",
    ast.BitOr: "aten.logical_or.default",
}  # fmt: skip
_COMPARED: Mapping[type[ast.AST], str] = {
    ast.Gt: "gt", ast.GtE: "ge", ast.Lt: "lt", ast.LtE: "le", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip


def no_rule(place: Place, found: str, needed: str) -> UserError:
    """The error for text that makes no rule."""
    return UserError("job-rule", place=place.text, found=found, needed=needed, hint="tantamount explain job-rule")


def graph_document(
    text: str, inputs: Mapping[str, tuple[str, list[Any]]], sizes: Mapping[str, Any], place: Place
) -> dict[str, Any]:
    """The document (``fx-nodes/1``) of an expression over the inputs, given as element type and shape by name.
    ``sizes`` is its table of size symbols. Raises :class:`UserError` for what is not of the language."""
    try:
        tree = parse_python(text)
    except ExpressionProblem as problem:
        raise no_rule(place, str(problem), "an expression in operators") from None
    if not tree.body or not isinstance(tree.body[-1], ast.Expr):
        raise no_rule(place, shown(text), "an expression, after assignments if need be")
    writer = _Writer(frozenset(sizes.get("symbols", {})), place)
    for name, (dtype, shape) in inputs.items():
        writer.nodes.append({"name": name, "op": "placeholder", "target": name, "shape": shape, "dtype": dtype})
        writer.names[name] = name
    for statement in tree.body[:-1]:
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Name):
            raise no_rule(place, ast.unparse(statement)[:60], "NAME = EXPRESSION")
        writer.names[target.id] = writer.tensor(statement.value)
    result = writer.tensor(tree.body[-1].value)
    document = {"format": "fx-nodes/1", "nodes": writer.nodes, "outputs": [{"name": "result", "node": result}]}
    return {**document, "sizes": dict(sizes)} if sizes.get("symbols") else document


@dataclass
class _Writer:
    """The nodes so far, and what names stand for."""

    symbols: frozenset[str]
    place: Place
    nodes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    names: dict[str, str] = field(default_factory=dict[str, str])

    def tensor(self, tree: ast.expr) -> str:
        """The name of the node that an expression is."""
        found = self._value(tree)
        if isinstance(found, dict) and "node" in found:
            return str(cast("Any", found["node"]))
        raise self._wrong(tree, "a tensor")

    def _call(self, target: str, args: list[Any], kwargs: Mapping[str, Any] | None = None) -> dict[str, Any]:
        name = f"t{len(self.nodes)}"
        while name in self.names:
            name += "_"
        self.nodes.append({
            "name": name, "op": "call_function", "target": target, "args": args, "kwargs": dict(kwargs or {}),
        })  # fmt: skip
        return {"node": name}

    def _value(self, tree: ast.expr) -> Any:
        if isinstance(tree, ast.Constant) and (tree.value is None or isinstance(tree.value, (bool, int, float, str))):
            return tree.value
        if isinstance(tree, (ast.List, ast.Tuple)):
            return [self._value(item) for item in tree.elts]
        if isinstance(tree, ast.Name):
            return self._name(tree)
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
            return self._negative(tree)
        if isinstance(tree, ast.BinOp) and type(tree.op) in _BINARY and not self._is_size(tree):
            return self._binary(tree)
        if self._is_size(tree):
            return {"size": ast.unparse(tree)}
        if isinstance(tree, ast.Compare) and len(tree.ops) == 1 and type(tree.ops[0]) in _COMPARED:
            left, right = self._value(tree.left), self._value(tree.comparators[0])
            overload = "Tensor" if isinstance(right, dict) and "node" in right else "Scalar"
            return self._call(f"aten.{_COMPARED[type(tree.ops[0])]}.{overload}", [left, right])
        if isinstance(tree, ast.Subscript) and isinstance(tree.slice, ast.Constant) and type(tree.slice.value) is int:
            return self._call("getitem", [self._value(tree.value), tree.slice.value])
        if isinstance(tree, ast.Call):
            kwargs = {keyword.arg: self._value(keyword.value) for keyword in tree.keywords if keyword.arg is not None}
            if len(kwargs) == len(tree.keywords):
                return self._call(ast.unparse(tree.func), [self._value(item) for item in tree.args], kwargs)
        raise self._wrong(tree, "calls of operators on inputs, numbers, lists and sizes")

    def _name(self, tree: ast.Name) -> Any:
        if tree.id in self.names:
            return {"node": self.names[tree.id]}
        if tree.id in self.symbols:
            return {"size": tree.id}
        if DType.named(tree.id) is not None:
            return {"dtype": tree.id}
        raise self._wrong(tree, f"one of {', '.join([*self.names, *self.symbols])}")

    def _negative(self, tree: ast.UnaryOp) -> Any:
        if isinstance(tree.operand, ast.Constant) and type(tree.operand.value) in (int, float):
            return -tree.operand.value  # type: ignore[operator]
        found = self._value(tree.operand)
        if isinstance(found, dict) and "node" in found:
            return self._call("aten.neg.default", [found])
        return {"size": ast.unparse(tree)}

    def _binary(self, tree: ast.BinOp) -> Any:
        operands = [self._value(tree.left), self._value(tree.right)]
        if not (isinstance(operands[0], dict) and "node" in operands[0]):
            if not isinstance(tree.op, (ast.Add, ast.Mult)):
                raise self._wrong(tree, "a tensor on the left")
            operands.reverse()
        return self._call(_BINARY[type(tree.op)], operands)

    def _is_size(self, tree: ast.expr) -> bool:
        """True for arithmetic of size symbols and whole numbers."""
        names = [node for node in ast.walk(tree) if isinstance(node, (ast.Name, ast.Call, ast.Subscript, ast.Compare))]
        return bool(names) and all(
            isinstance(node, ast.Name) and node.id in self.symbols and node.id not in self.names for node in names
        )

    def _wrong(self, tree: ast.AST, needed: str) -> Exception:
        return no_rule(self.place, shown(ast.unparse(tree)[:60]), needed)
