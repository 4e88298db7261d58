"""A mutant as job files, so that anybody can run it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.graphs import write_job
from support.jobs import as_json
from tantamount.ir.graph import Device, Setting
from tantamount.ir.job import Job
from tantamount.ir.relation import Expectation, InputRelation

__all__ = ["write_mutant"]


def write_mutant(folder: Path, job: Job, note: str) -> Path:
    """The job's path. ``note`` becomes a comment at its top."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {name: job.mesh.group_size(name) for name in job.mesh.groups}
    graphs: dict[str, Any] = {"spec.json": as_json(job.specification, None)}
    ranks = [f"rank{k}.json" for k in range(len(job.implementation))]
    graphs |= {name: as_json(graph, sizes) for name, graph in zip(ranks, job.implementation, strict=True)}
    graphs = {name: _plain(graph) for name, graph in graphs.items()}
    lines = [f"# {line}" for line in note.splitlines()]
    axes = ", ".join(f"{axis} = {size}" for axis, size in job.mesh.axes.items())
    lines += [
        'format = "job/1"',
        "[spec]",
        'graph = "spec.json"',
        "[impl]",
        f"graphs = {ranks}",
        f"mesh = {{ {axes} }}",
    ]
    lines += ["[impl.groups]", *(f'"{name}" = {list(span)}' for name, span in job.mesh.groups.items())]
    lines += ["[inputs]", *(f'"{name}" = {_entry(relation)}' for name, relation in job.inputs.items())]
    lines += ["[outputs]", *(f'"{name}" = {_entry(relation)}' for name, relation in job.outputs.items())]
    if job.assume.constants is not None or job.assume.dropout:
        lines.append("[assume]")
        if job.assume.constants is not None:
            value = job.assume.constants
            lines.append(f"constants = {_quoted(value) if isinstance(value, str) else float(value)}")
        if job.assume.dropout:
            lines.append('dropout = "same mask"')
    return write_job(folder, "\n".join(lines) + "\n", graphs)


def _plain(value: Any) -> Any:
    """Devices and layouts, which never change a value, as files write them."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, Device):
        return {"device": value.name}
    return f"torch.{value.name}" if isinstance(value, Setting) else value


def _entry(relation: InputRelation | Expectation) -> str:
    if relation.placements is None and relation.expression is None:
        return '"infer"'
    if relation.placements is not None:
        key = "placement"
        value = (
            f"[{', '.join(_quoted(str(p)) for p in relation.placements)}]" if relation.placements else '"Replicate()"'
        )
    else:
        key, value = "relation", _quoted(str(relation.expression))
    equal = ", ".join(_quoted(f"{a} == {b}") for a, b in relation.equal)
    return f"{{ name = {_quoted(relation.name)}, {key} = {value}{f', equal = [{equal}]' if equal else ''} }}"


def _quoted(text: str) -> str:
    return "'" + text + "'"
