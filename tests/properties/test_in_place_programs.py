"""Random programs of views and in-place operators, as files record them, against PyTorch, which runs them."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from support.graphs import call, graph, placeholder, ref, returns
from tantamount.capture.fx_json import parse_graph
from tantamount.errors import UserError
from tantamount.limits import Limits
from tantamount.ops.check import check_graph
from tantamount.semantics.interpret import interpret

torch = pytest.importorskip("torch", reason="what PyTorch does when it runs them")


class Program:
    """A program that is run and written down at once; ``tensors`` by the names of their nodes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.given = torch.arange(24.0, dtype=torch.float64).reshape(2, 3, 4) - 7
        self.nodes: list[Any] = [placeholder("x", (2, 3, 4), "float64")]
        self.tensors: dict[str, Any] = {"x": self.given.clone()}

    def add(self, target: str, args: list[Any], value: Any) -> str:
        name = f"n{len(self.nodes)}"
        recorded = [{"node": a.name} if isinstance(a, _Name) else a for a in args]
        shape = None if isinstance(value, (tuple, list)) else tuple(value.shape)
        self.nodes.append(call(name, target, recorded, shape, "float64"))
        if shape is not None:
            self.tensors[name] = value
        return name

    def step(self) -> None:
        kind = self.random.choice(["view", "view", "view", "write", "write", "read", "parts"])
        name = self.random.choice([*self.tensors])
        getattr(self, kind)(_Name(name), self.tensors[name])

    def view(self, name: _Name, x: Any) -> None:
        d, n = (k := self.random.randrange(x.dim()) if x.dim() else 0), (x.shape[k] if x.dim() else 1)
        low = self.random.randrange(n) if n else 0
        order = self.random.sample(range(x.dim()), x.dim())
        choices: list[tuple[str, list[Any]]] = [
            ("aten.alias.default", [name]), ("aten.detach.default", [name]),
            ("aten.unsqueeze.default", [name, self.random.randint(0, x.dim())]),
            ("aten.permute.default", [name, order]), ("aten.contiguous.default", [name]),
            ("aten.reshape.default", [name, [x.numel()]]), ("aten.expand.default", [name, [2, *x.shape]]),
        ]  # fmt: skip
        if x.dim():
            choices += [
                ("aten.slice.Tensor", [name, d, low, n, self.random.choice([1, 2])]),
                ("aten.slice.Tensor", [name, d, 0, max(n - 1, 1)]), ("aten.select.int", [name, d, low]),
                ("aten.transpose.int", [name, 0, -1]), ("aten.squeeze.default", [name]),
            ]  # fmt: skip
        if x.is_contiguous():
            choices.append(("aten.view.default", [name, [-1] if x.numel() % 2 else [2, -1]]))
        target, args = self.random.choice(choices)
        given = [x, *args[1:]]
        namespace, operator, overload = target.split(".")
        self.add(target, args, getattr(getattr(getattr(torch.ops, namespace), operator), overload)(*given))

    def parts(self, name: _Name, x: Any) -> None:
        if not x.dim() or x.shape[-1] < 2:
            return
        target, args = self.random.choice(
            [("split.Tensor", [1, -1]), ("split_with_sizes.default", [[1, x.shape[-1] - 1], -1]), ("unbind.int", [-1])]
        )
        operator, overload = target.split(".")
        parts = getattr(getattr(torch.ops.aten, operator), overload)(x, *args)
        whole = _Name(self.add(f"aten.{target}", [name, *args], parts))
        for k in range(2):
            self.add("getitem", [whole, k], parts[k])

    def write(self, name: _Name, x: Any) -> None:
        if any(s == 0 for s, n in zip(x.stride(), x.shape, strict=True) if n > 1):
            return  # PyTorch refuses most writes into an expanded tensor
        other = self.random.choice([n for n, y in self.tensors.items() if y.shape == x.shape])
        target, args = self.random.choice(
            [("add_.Tensor", [3]), ("mul_.Tensor", [2]), ("zero_.default", []), ("copy_.default", [_Name(other)])]
        )
        operator, overload = target.split(".")
        given = [self.tensors[a.name].clone() if isinstance(a, _Name) else a for a in args]
        getattr(getattr(torch.ops.aten, operator), overload)(x, *given)
        self.add(f"aten.{target}", [name, *args], x)

    def read(self, name: _Name, x: Any) -> None:
        self.add("aten.add.Tensor", [name, 1], x + 1)


class _Name:
    def __init__(self, name: str) -> None:
        self.name = name


def _agrees(seed: int) -> bool:
    """False if the program is refused; fails if what is read is not what PyTorch computes."""
    program = Program(seed)
    for _ in range(14):
        program.step()
    names = program.random.sample([*program.tensors], min(4, len(program.tensors)))
    document = graph(*program.nodes, returns(*map(ref, names)))
    try:
        found = parse_graph(json.dumps(document), "g.json", Limits())
    except UserError as problem:
        if problem.code != "graph-in-place":
            raise
        return False
    check_graph(found, None)
    values = interpret(found, {"x": program.given.numpy()})
    for output in found.outputs:
        expected = program.tensors[output.name].numpy()
        assert np.array_equal(values[output.node], expected), (seed, output.name)
    return True


def test_random_programs() -> None:
    read = sum(_agrees(seed) for seed in range(150))
    assert read > 60
