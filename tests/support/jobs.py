"""Jobs written in a few lines: graphs in a shorthand of the text form, and the files that ``read_job`` reads.

x: float32[4, 6]                 an input
y = mm(x, w)                     a call; an operator has its full name, or the short one of :data:`SHORT`
d, keep = native_dropout(x, 0.1, True)
c = constant int64[2] [3, 4]     a recorded constant; without values one that the file does not record
-> y, loss=z                     outputs
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tantamount.capture.graph_document import graph_document
from tantamount.ir.graph import CustomOperator, Graph
from tantamount.ir.mesh import Mesh
from tantamount.ir.text import parse_graph
from tantamount.ops.algebra import Tensor
from tantamount.ops.check import check_graph

from .graphs import write_job

SHORT = {
    "add": "aten.add.Tensor",
    "all_gather": "_c10d_functional.all_gather_into_tensor.default",
    "all_reduce": "_c10d_functional.all_reduce.default",
    "all_to_all": "_c10d_functional.all_to_all_single.default",
    "broadcast": "_c10d_functional.broadcast.default",
    "bitwise_or": "aten.bitwise_or.Tensor",
    "cat": "aten.cat.default",
    "div": "aten.div.Tensor",
    "embedding": "aten.embedding.default",
    "expand": "aten.expand.default",
    "ge": "aten.ge.Scalar",
    "gelu": "aten.gelu.default",
    "index": "aten.index.Tensor",
    "lift": "aten.lift_fresh_copy.default",
    "lt": "aten.lt.Scalar",
    "masked_fill": "aten.masked_fill.Scalar",
    "mean": "aten.mean.default",
    "mm": "aten.mm.default",
    "mul": "aten.mul.Tensor",
    "native_dropout": "aten.native_dropout.default",
    "pad": "aten.constant_pad_nd.default",
    "permute": "aten.permute.default",
    "reduce_scatter": "_c10d_functional.reduce_scatter_tensor.default",
    "relu": "aten.relu.default",
    "slice": "aten.slice.Tensor",
    "softmax": "aten._softmax.default",
    "sub": "aten.sub.Tensor",
    "sum": "aten.sum.default",
    "sum_dims": "aten.sum.dim_IntList",
    "t": "aten.t.default",
    "tanh": "aten.tanh.default",
    "transpose": "aten.transpose.int",
    "unsqueeze": "aten.unsqueeze.default",
    "view": "aten.view.default",
    "zeros": "aten.zeros.default",
}

_INPUT = re.compile(r"(\w+): (\w+\[.*\])")
_CONSTANT = re.compile(r"(\w+) = constant (\w+\[[^\]]*\])(?: (\[.*\]))?")
_CALL = re.compile(r"([\w, ]+) = ([\w.]+)\((.*)\)")


def graph_of(text: str, name: str = "graph") -> Graph:
    """The graph that the shorthand means, without recorded types but those of its inputs."""
    lines, outputs = ["tantamount graph 1"], list[str]()
    names: set[str] = set()

    def tensors(arguments: str) -> str:
        return re.sub(r'"[^"]*"|[A-Za-z_]\w*(?!\w*=)', lambda m: f"%{m[0]}" if m[0] in names else m[0], arguments)

    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("->"):
            for item in line[2:].split(","):
                given, _, node = item.strip().rpartition("=")
                outputs.append(f"output {given or node} = %{node}")
        elif found := _INPUT.fullmatch(line):
            lines.append(f"%{found[1]}: {found[2]} = input")
            names.add(found[1])
        elif found := _CONSTANT.fullmatch(line):
            lines.append(f"%{found[1]}_recorded: {found[2]} = constant {found[1]}")
            lines.append(f"%{found[1]}: {found[2]} = aten.lift_fresh_copy.default(%{found[1]}_recorded)")
            if found[3]:
                lines.append(f"value {found[1]}: {found[2]} = {found[3]}")
            names.add(found[1])
        elif found := _CALL.fullmatch(line):
            results = [result.strip() for result in found[1].split(",")]
            call = f"{SHORT.get(found[2], found[2])}({tensors(found[3])})"
            if len(results) == 1:
                lines.append(f"%{results[0]} = {call}")
            else:
                lines.append(f"%{results[0]}_all = {call}")
                lines += [f"%{result} = getitem(%{results[0]}_all, {k})" for k, result in enumerate(results)]
            names.update(results)
        else:
            raise ValueError(f"not a line of the shorthand: {line!r}")
    return parse_graph("\n".join([*lines, *outputs]), name)


def typed_graph(text: str, groups: Mapping[str, int] | None = None) -> Graph:
    """The graph that the shorthand means, with the types that the operators give."""
    graph = graph_of(text)
    types = {name: value.type for name, value in check_graph(graph, groups).items() if isinstance(value, Tensor)}
    return replace(graph, nodes=tuple(replace(n, type=types.get(n.name, n.type)) for n in graph.nodes))


def as_json(graph: Graph, groups: Mapping[str, int] | None, declared: Sequence[CustomOperator] = ()) -> Any:
    """The graph as a file of format fx-nodes/1, with the types that the operators give; ``declared``: those that the
    job's [ops] has."""
    known = replace(graph, operators={operator.name: operator for operator in declared})
    types = {name: value.type for name, value in check_graph(known, groups).items() if isinstance(value, Tensor)}
    typed = [replace(node, type=None if node.op == "constant" else types.get(node.name)) for node in graph.nodes]
    return graph_document(replace(graph, nodes=tuple(typed)))


def job_files(
    folder: Path,
    specification: str,
    implementation: Sequence[str],
    tables: str,
    mesh: Mapping[str, int],
    groups: Mapping[str, tuple[str, ...]],
    declared: Sequence[CustomOperator] = (),
) -> Path:
    """The job's path. ``tables`` is its TOML after [impl]; ``groups`` maps names to mesh axes; ``declared`` goes into
    its [ops]."""
    sizes = {name: Mesh(mesh, groups).group_size(name) for name in groups}
    graphs = {"spec.json": as_json(graph_of(specification), None, declared)}
    graphs |= {f"rank{k}.json": as_json(graph_of(text), sizes, declared) for k, text in enumerate(implementation)}
    axes = ", ".join(f"{axis} = {size}" for axis, size in mesh.items())
    spans = "\n".join(f'"{name}" = {list(span)}' for name, span in groups.items())
    ranks = [f"rank{k}.json" for k in range(len(implementation))]
    job = (
        f'format = "job/1"\n[spec]\ngraph = "spec.json"\n[impl]\ngraphs = {ranks}\n'
        f"mesh = {{ {axes} }}\n[impl.groups]\n{spans}\n{tables}\n"
    )
    if declared:
        job += "[ops]\n" + "\n".join(map(_declaration, declared)) + "\n"
    return write_job(folder, job, graphs)


def _declaration(operator: CustomOperator) -> str:
    what = f'labels = "{operator.labels}"' if operator.labels else f'is = "{operator.definition}"'
    return f'"{operator.name}" = {{ args = "{operator.args}", {what} }}'
