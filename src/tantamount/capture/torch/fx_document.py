"""An ``fx.GraphModule`` as a document of format ``fx-nodes/1``."""

# pyright: basic
from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils._sympy.symbol import SymT, symbol_is_type

from tantamount.capture.graph_document import recorded_number
from tantamount.capture.size_symbols import encode_domain
from tantamount.capture.torch.dynamic import Sizes
from tantamount.capture.written_numbers import as_written
from tantamount.errors import UserError

__all__ = ["fx_document"]

_MAX_CONSTANT = 1 << 20  # elements of a recorded constant


def fx_document(
    module: fx.GraphModule,
    inputs: Sequence[str],
    outputs: Sequence[str],
    rank: int | None = None,
    groups: Mapping[str, str] | None = None,
    sizes: Sizes | None = None,
) -> dict[str, Any]:
    """The document of a functional graph. ``inputs`` and ``outputs`` name the placeholders and results in order;
    ``groups`` renames process groups; ``sizes`` are those that stay symbols."""
    return _Writer(module, dict(groups or {}), sizes).document(inputs, outputs, rank)


class _Writer:
    def __init__(self, module: fx.GraphModule, groups: dict[str, str], sizes: Sizes | None) -> None:
        self.module = module
        self.groups = groups
        self.sizes = sizes
        self.names: dict[fx.Node, str] = {}
        self.constants: dict[str, Any] = {}
        self.counts: dict[str, int] = {}

    def document(self, inputs: Sequence[str], outputs: Sequence[str], rank: int | None) -> dict[str, Any]:
        placeholders = [node for node in self.module.graph.nodes if node.op == "placeholder"]
        self.names = dict(zip(placeholders, inputs, strict=False))
        carriers = set(placeholders[len(inputs) :])  # of numbers: nothing but their sizes is used
        taken = set(inputs)
        nodes: list[dict[str, Any]] = []
        results: list[Any] = []
        for node in self.module.graph.nodes:
            if node.op == "output":
                results = list(node.args[0])
                continue
            if self._is_size(node) or node in carriers:
                continue  # what is computed from sizes is written where it is used
            if node not in self.names:
                self.names[node] = self._name(node, taken)
            if isinstance(node.meta.get("val"), torch.SymFloat):
                nodes.extend(self._real(node, taken))
            else:
                nodes.append(self._node(node))
        found: list[dict[str, str]] = []
        for name, result in zip(outputs, results, strict=True):
            if isinstance(result, fx.Node):
                found.append({"name": name, "node": self.names[result]})
            elif isinstance(result, (bool, int, float, complex)):  # of exported programs: as much a result
                own = f"number {name}"
                node, self.constants[own] = recorded_number(own, result)
                nodes.append(node)
                found.append({"name": name, "node": own})
        document: dict[str, Any] = {
            "format": "fx-nodes/1",
            "rank": rank,
            "origin": f"captured by Tantamount with PyTorch {torch.__version__}",
            "nodes": nodes,
            "outputs": found,
        }
        if self.sizes is not None:
            document["sizes"] = encode_domain(self.sizes.domain("capture"))
        if self.constants:
            document["constants"] = self.constants
        return document

    def _name(self, node: fx.Node, taken: set[str]) -> str:
        """``mm``, ``mm_1``, ... in the order of the graph: what was traced and dropped leaves no gaps, so that ranks
        which run one program have one set of names."""
        base = re.sub(r"_\d+$", "", node.name)
        count = self.counts.get(base, 0)
        while (name := f"{base}_{count}" if count else base) in taken:
            count += 1
        self.counts[base] = count + 1
        taken.add(name)
        return name

    def _node(self, node: fx.Node) -> dict[str, Any]:
        value = node.meta.get("val")
        entry: dict[str, Any] = {"name": self.names[node], "op": node.op, "target": self._target(node)}
        if node.op == "call_function":
            entry["args"] = [self._argument(a, node) for a in node.args]
            entry["kwargs"] = {key: self._argument(a, node) for key, a in node.kwargs.items()}
        if node.op == "get_attr":
            value = self._constant(node)
        if isinstance(value, Tensor):
            entry["shape"] = [self._size(size, node) for size in value.shape]
            entry["dtype"] = str(value.dtype).removeprefix("torch.")
        stack = _stack(node)
        if stack:
            entry["stack"] = stack
        return entry

    def _real(self, node: fx.Node, taken: set[str]) -> list[dict[str, Any]]:
        """A real number that is computed from symbolic numbers, as tensors without dimensions."""
        name = getattr(node.target, "__name__", str(node.target))
        target = _OF_REALS.get(name)
        if target is None:
            raise UserError(
                "capture-dynamic", place=f"node {node.name}", found=f"{name} of a symbolic number",
                needed=f"one of {', '.join(sorted(_OF_REALS))}",
                hint="make the number an argument of its own that `dynamic` names",
            )  # fmt: skip
        nodes: list[dict[str, Any]] = []
        operands: list[Any] = []
        like = {"op": "call_function", "shape": [], "dtype": "float64"}
        for k, value in enumerate(node.args):
            operand = self._argument(value, node)
            if not isinstance(operand, dict) or "node" not in operand:
                own = f"{self.names[node]}_operand{k}"
                taken.add(own)
                arguments = {"args": [operand], "kwargs": {"dtype": {"dtype": "float64"}}}
                nodes.append({"name": own, "target": "aten.scalar_tensor.default", **arguments, **like})
                operand = {"node": own}
            operands.append(operand)
        nodes.append({"name": self.names[node], "target": target, "args": operands, "kwargs": {}, **like})
        stack = _stack(node)
        return [{**entry, "stack": stack} for entry in nodes] if stack else nodes

    def _is_size(self, node: fx.Node) -> bool:
        """True if a node computes an integer from symbolic sizes."""
        value = node.meta.get("val")
        return self.sizes is not None and node.op == "call_function" and isinstance(value, int | torch.SymInt)

    def _size(self, size: Any, node: fx.Node) -> int | str:
        if isinstance(size, int):
            return int(size)
        if self.sizes is None or any(symbol_is_type(s, _UNBACKED) for s in size.node.expr.free_symbols):
            return str(size)  # data decide
        return self.sizes.text(size, f"node {node.name}")

    def _target(self, node: fx.Node) -> str:
        if node.op in ("placeholder", "get_attr"):
            return self.names[node] if node.op == "placeholder" else str(node.target)
        target = node.target
        if isinstance(target, torch._ops.OpOverload):
            return str(target)
        name = getattr(target, "__name__", str(target))
        if name == "getitem":
            return "getitem"
        if isinstance(target, torch._ops.HigherOrderOperator):
            return f"higher_order.{name}"
        return f"{getattr(target, '__module__', '')}.{name}".removeprefix("_operator.").removeprefix("operator.")

    def _constant(self, node: fx.Node) -> Tensor:
        value: Any = self.module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if isinstance(value, torch.Generator):
            users = ", ".join(str(user.target) for user in node.users)
            raise UserError(
                "capture", place=users or node.name, found="a random generator of the program's own",
                needed="draws from the default one",
                hint="leave generator= out: which draws are the same numbers is stated, "
                'refine(..., assume={"dropout": "same mask"}); see docs/jobs.md',
            )  # fmt: skip
        if not isinstance(value, Tensor):
            raise UserError(
                "capture", place=node.name, found=f"a constant of type {type(value).__name__}", needed="a tensor"
            )
        known = value
        if type(value) is not Tensor and type(value) is not torch.nn.Parameter:
            return value  # fake: its value was never known
        if value.numel() <= _MAX_CONSTANT and value.device.type != "meta":
            known = value.detach().cpu()
            data = torch.view_as_real(known) if known.is_complex() else known
            if known.is_floating_point():
                data = data.double()
            self.constants[str(node.target)] = {
                "dtype": str(known.dtype).removeprefix("torch."),
                "shape": list(known.shape),
                "data": [_number(item) for item in data.reshape(-1).tolist()],
            }
        return known

    def _argument(self, value: Any, node: fx.Node) -> Any:
        if isinstance(value, fx.Node) and self._is_size(value):
            size = value.meta["val"]
            return int(size) if isinstance(size, int) else {"size": self._size(size, node)}
        if isinstance(value, fx.Node):
            return {"node": self.names[value]}
        if isinstance(value, list | tuple):
            return [self._argument(item, node) for item in value]
        if isinstance(value, str):
            return self.groups.get(value, value) if _is_collective(node) else value
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, float):
            return _number(_written(value, node))
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        if isinstance(value, torch._ops.OpOverload):  # what auto_functionalized applies
            return str(value)
        if hasattr(value, "__fx_repr__"):  # a value of a type of the user's own, registered with PyTorch
            return str(value.__fx_repr__()[0])
        for kind, key in _ENCODED.items():
            if isinstance(value, kind):
                return {key: str(value).removeprefix("torch.")}
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return str(value)
        raise UserError(
            "capture", place=f"node {node.name}: {node.target}",
            found=f"an argument of type {type(value).__name__}", needed="tensors, numbers, strings, dtypes",
        )  # fmt: skip


# Of real numbers: what Python and PyTorch's tracer call it, and the operator on tensors that it is.
_OF_REALS = {
    "truediv": "aten.div.Tensor", "mul": "aten.mul.Tensor", "add": "aten.add.Tensor", "sub": "aten.sub.Tensor",
    "pow": "aten.pow.Tensor_Tensor", "neg": "aten.neg.default", "sym_sqrt": "aten.sqrt.default",
    "_sym_sqrt": "aten.sqrt.default", "sym_float": "aten.clone.default",
}  # fmt: skip
_UNBACKED = (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)
_ENCODED: dict[type, str] = {
    torch.dtype: "dtype",
    torch.device: "device",
    torch.layout: "torch",
    torch.memory_format: "torch",
}


def _written(value: float, node: fx.Node) -> float:
    result = node.meta.get("val")
    dtype = str(result.dtype).removeprefix("torch.") if isinstance(result, Tensor) else ""
    return as_written(value, str(node.target), dtype)


def _number(value: Any) -> Any:
    return {"float": repr(value)} if isinstance(value, float) and not isfinite(value) else value


def _is_collective(node: fx.Node) -> bool:
    return "c10d" in str(node.target) or "all_reduce" in str(node.target)


_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>[^|\n]+?) \| (?P<code>.*)', re.DOTALL)


def _stack(node: fx.Node) -> str:
    """The source line, with the module path before the function's name. A node that has none (functionalisation makes
    views of results again) has that of the call whose result it reads."""
    while not node.meta.get("stack_trace"):
        read = next((other for other in node.all_input_nodes if other.op == "call_function"), None)
        if node.op != "call_function" or read is None:
            return ""
        node = read
    match = _FRAME.fullmatch(node.meta["stack_trace"])
    if match is None:
        return ""
    module = str((node.meta.get("custom") or {}).get("module", ""))
    function = f"{module}: {match['function']}" if module else match["function"]
    return f'File "{match["file"]}", line {match["line"]}, in {function} | {match["code"]}'
