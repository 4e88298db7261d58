"""A small compiler of our own, for tests and for measuring the fuzzer: passes and kernels with switches for bugs.

Its passes are right and its kernels are the exact interpreter, until a bug is switched on. It needs nothing but NumPy,
so that everything around it is tested everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tantamount.errors import TantamountError
from tantamount.fuzz.backends.base import Backend, Outcome
from tantamount.fuzz.backends.emit_torch import emit_torch
from tantamount.fuzz.generate import pruned
from tantamount.ir.graph import Argument, Constant, Graph, Node, Output, Ref, references
from tantamount.ops.algebra import Tensor
from tantamount.ops.execute import Environment
from tantamount.semantics.exact import Exact, Held, held_input, plain
from tantamount.semantics.reference import Array

__all__ = ["PLANTED", "Bug", "Planted", "renamed"]

PLANTED = Backend(
    "planted", "planted", ("disabled", "all"), emit_torch, None, "",
    passes=("permutes", "reductions", "slices", "shared", "folded"), shown=1.0,
)  # fmt: skip

Kernel = Callable[[Node, "list[Array]", Array], "Array | None"]
Pass = Callable[[Graph], Graph]


@dataclass(frozen=True)
class Bug:
    """A wrong optimisation. ``switch``: changes a pass of the compiler's own; ``optimise``: a pass more; ``kernel``:
    the wrong result of a node, from its operands and the right result (``None``: that); ``finish``: changes the
    outputs. ``like``: the bug of a real compiler that it is modelled on."""

    name: str
    about: str
    switch: str = ""
    optimise: Pass | None = None
    kernel: Kernel | None = None
    finish: Callable[[Graph, list[Array]], list[Array]] | None = None
    like: str = ""


def renamed(graph: Graph, names: Mapping[str, str]) -> Graph:
    """The graph with uses of some nodes replaced by uses of others, and what is no longer needed dropped."""
    if not names:
        return graph

    def last(name: str) -> str:
        while name in names:
            name = names[name]
        return name

    def convert(item: Argument) -> Argument:
        if isinstance(item, Ref):
            return Ref(last(item.name))
        return tuple(convert(entry) for entry in item) if isinstance(item, tuple) else item

    nodes = tuple(
        replace(node, args=tuple(map(convert, node.args)), kwargs={key: convert(v) for key, v in node.kwargs.items()})
        for node in graph.nodes
    )
    outputs = tuple(Output(output.name, last(output.node)) for output in graph.outputs)
    return _kept(replace(graph, nodes=nodes, outputs=outputs))


def _kept(graph: Graph) -> Graph:
    """The graph without dead nodes; its inputs all stay."""
    live = pruned(graph)
    names = {node.name for node in live.nodes}
    nodes = tuple(node for node in graph.nodes if node.name in names or node.op == "input")
    return replace(live, nodes=nodes, outputs=graph.outputs)


def _source(graph: Graph, item: Argument) -> Node | None:
    return graph.by_name[item.name] if isinstance(item, Ref) else None


class Planted:
    """The compiler, with some bugs."""

    def __init__(self, bugs: Sequence[Bug] = ()) -> None:
        self.bugs = tuple(bugs)
        self.switches = frozenset(bug.switch for bug in bugs if bug.switch)

    @property
    def backend(self) -> Backend:
        return PLANTED

    def versions(self) -> dict[str, str]:
        """See :class:`tantamount.fuzz.backends.base.Compiler`."""
        return {"planted": "+".join(bug.name for bug in self.bugs) or "right", "numpy": np.__version__}

    def close(self) -> None:
        """Nothing to end."""

    def run(
        self,
        graph: Graph,
        inputs: Mapping[str, Array],
        level: str = "",
        disabled: Sequence[str] = (),
        show: bool = False,
    ) -> Outcome:
        """See :class:`tantamount.fuzz.backends.base.Compiler`."""
        optimised = (level or "all") == "all"
        try:
            final = self.optimised(graph, disabled) if optimised else graph
            values = self._values(final, inputs, optimised)
        except (TantamountError, ValueError, IndexError, TypeError) as problem:
            return Outcome("failed", phase="run", message=f"{type(problem).__name__}: {problem}")
        found = [values[output.node] for output in final.outputs]
        arrays = [plain(x) for x in found if isinstance(x, Tensor)]
        if optimised:
            for bug in self.bugs:
                if bug.finish is not None:
                    arrays = bug.finish(final, arrays)
        kernels = tuple(sorted({f"{n.target} {n.type}" for n in final.nodes if n.op == "call"})) if show else ()
        dtypes = tuple(x.dtype.label for x in found if isinstance(x, Tensor))
        return Outcome("ok", tuple(arrays), dtypes, kernels=kernels)

    def optimised(self, graph: Graph, disabled: Sequence[str] = ()) -> Graph:
        """The graph after all passes that are not disabled."""
        passes = (self._permutes, self._reductions, self._slices, self._shared, self._folded)
        for name, optimise in zip(PLANTED.passes, passes, strict=True):
            graph = graph if name in disabled else optimise(graph)
        for bug in self.bugs:
            if bug.optimise is not None:
                graph = bug.optimise(graph)
        return graph

    # ------------------------------------------------------------------ passes
    def _permutes(self, graph: Graph) -> Graph:
        """Orders of dimensions composed, and dropped where they change nothing."""
        nodes: list[Node] = []
        known: dict[str, Node] = {}
        names: dict[str, str] = {}
        for node in graph.nodes:
            if node.target == "aten.permute.default":
                inner = known.get(node.args[0].name) if isinstance(node.args[0], Ref) else None
                if inner is not None and inner.target == "aten.permute.default":
                    p, q = _whole(inner.args[1]), _whole(node.args[1])
                    order = tuple(q[k] for k in p) if "merge-order" in self.switches else tuple(p[k] for k in q)
                    if "merge-dropped" in self.switches:
                        order = tuple(range(len(p)))
                    node = replace(node, args=(inner.args[0], order))
                order = _whole(node.args[1])
                drop = order == tuple(range(len(order)))
                if "involution" in self.switches and len(order) > 2:
                    drop = tuple(order[k] for k in order) == tuple(range(len(order)))
                if drop and isinstance(node.args[0], Ref):
                    names[node.name] = node.args[0].name
            known[node.name] = node
            nodes.append(node)
        return renamed(replace(graph, nodes=tuple(nodes)), names)

    def _reductions(self, graph: Graph) -> Graph:
        """Reductions of permuted tensors, of the tensor itself."""
        nodes: list[Node] = []
        for node in graph.nodes:
            if node.target in ("aten.sum.dim_IntList", "aten.amax.default") and node.args[2:] == (False,):
                source = _source(graph, node.args[0])
                dims = _whole(node.args[1])
                if source is not None and source.target == "aten.permute.default" and len(dims) >= 1:
                    order = _whole(source.args[1])
                    left = [order[k] for k in range(len(order)) if k not in {d % len(order) for d in dims}]
                    if left == sorted(left):
                        moved = dims if "reduced-axis" in self.switches else tuple(order[k] for k in dims)
                        node = replace(node, args=(source.args[0], moved, False))
            nodes.append(node)
        return _kept(replace(graph, nodes=tuple(nodes)))

    def _slices(self, graph: Graph) -> Graph:
        """Parts of parts."""
        nodes: list[Node] = []
        for node in graph.nodes:
            if node.target == "aten.slice.Tensor" and len(node.args) == 5:
                source = _source(graph, node.args[0])
                if (
                    source is not None
                    and source.target == node.target
                    and source.args[1] == node.args[1]
                    and len(source.args) == 5
                ):
                    _, dim, start, stop, step = source.args
                    a, b, s = (_one(item) for item in node.args[2:])
                    first, last, by = _one(start), _one(stop), _one(step)
                    if by == 1 or "slice-steps" in self.switches:
                        node = replace(node, args=(source.args[0], dim, first + a, min(first + b, last), s * by))
            nodes.append(node)
        return _kept(replace(graph, nodes=tuple(nodes)))

    def _shared(self, graph: Graph) -> Graph:
        """Equal calls once."""
        known: dict[Any, str] = {}
        names: dict[str, str] = {}
        for node in graph.nodes:
            if node.op == "call":
                attributes = (
                    ""
                    if "shared-attributes" in self.switches
                    and node.target.startswith(("aten.amax", "aten.flip", "aten.select"))
                    else repr(node.args)
                )
                key = (node.target, tuple(references(node)), attributes, repr(node.kwargs), str(node.type))
                if key in known:
                    names[node.name] = known[key]
                known.setdefault(key, node.name)
        return renamed(graph, names)

    def _folded(self, graph: Graph) -> Graph:
        """Calls of constants alone, computed here."""
        exact = Exact()
        environment: Environment = {}
        nodes: list[Node] = []
        constants = dict(graph.constants)
        for node in graph.nodes:
            if node.op == "constant" or (
                node.op == "call"
                and node.type is not None
                and all(name in environment for name in references(node))
                and [*references(node)]
            ):
                result = exact.step(graph, node, environment)
                environment[node.name] = result
                if node.op == "call" and isinstance(result, Tensor) and node.type is not None:
                    held: Held = result.value
                    array = held.array
                    if "folding-type" in self.switches and result.dtype.is_float:
                        array = np.asarray(np.asarray(array, dtype=np.int8), dtype=np.float64)
                    if "folding-width" in self.switches and result.dtype.label == "int64":
                        array = np.asarray(np.asarray(array, dtype=np.int32), dtype=np.int64)
                    if held.exact:
                        constants[f"folded_{node.name}"] = Constant(node.type, tuple(array.ravel().tolist()))
                        node = Node(node.name, "constant", f"folded_{node.name}", type=node.type)
            nodes.append(node)
        return _kept(replace(graph, nodes=tuple(nodes), constants=constants))

    # ------------------------------------------------------------------ execution
    def _values(self, graph: Graph, inputs: Mapping[str, Array], optimised: bool) -> Environment:
        exact = Exact()
        environment: Environment = {}
        kernels = [bug.kernel for bug in self.bugs if bug.kernel is not None] if optimised else []
        for node in graph.nodes:
            if node.op == "input":
                if node.type is not None:
                    environment[node.name] = Tensor(
                        node.type.shape, node.type.dtype, held_input(inputs[node.name], node.type.dtype)
                    )
                continue
            result = exact.step(graph, node, environment)
            if isinstance(result, Tensor) and node.op == "call":
                for kernel in kernels:
                    operands = [
                        plain(x) for x in (environment[name] for name in references(node)) if isinstance(x, Tensor)
                    ]
                    wrong = kernel(node, operands, plain(result))
                    if wrong is not None:
                        held = held_input(np.asarray(wrong).reshape(result.shape), result.dtype)
                        result = Tensor(result.shape, result.dtype, replace(held, error=result.value.error))
            environment[node.name] = result
        return environment


def _whole(item: Argument) -> tuple[int, ...]:
    return tuple(entry for entry in item if isinstance(entry, int)) if isinstance(item, tuple) else ()


def _one(item: Argument) -> int:
    return int(item) if isinstance(item, int) else 0
