"""A small training plan whose programs are written out, and a checker that remembers the parts that it has seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import tomli_w

from support.jobs import typed_graph
from tantamount.answers import refine
from tantamount.capture.graph_document import graph_document
from tantamount.capture.programs import write_document
from tantamount.ir.text import format_graph
from tantamount.plan.parts import Part
from tantamount.plan.prove import part_checker
from tantamount.plan.read import read_plan
from tantamount.plan.result import PartReport, PlanReport
from tantamount.plan.verify import verify

__all__ = ["GROUPS", "PROGRAMS", "document", "update", "verified", "write_plan"]

GROUPS = {"pp": 2, "dp": 2, "tp": 2}


def update(parameter: str, gradient: str, shape: str) -> str:
    """A program that takes the gradient times a factor and a learning rate from a parameter."""
    return f"""
        {parameter}: float32{shape}
        {gradient}: float32{shape}
        factor: float32[]
        lr: float32[]
        f = mul(factor, lr)
        c = mul({gradient}, f)
        new_{parameter} = sub({parameter}, c)
        -> new_{parameter}
    """


# An input layer, two gated linear layers cut by columns and rows, a loss; 16 rows, 2 microbatches, dp 2: 4 rows each.
PROGRAMS: Mapping[str, str] = {
    "first.spec": """
        data: float32[16, 6]
        w: float32[6, 4]
        d_y: float32[16, 4]
        y = mm(data, w)
        s = aten.t.default(data)
        d_w = mm(s, d_y)
        -> y, d_w
    """,
    "layer.spec": """
        x: float32[16, 4]
        a: float32[4, 8]
        b: float32[8, 4]
        d_y: float32[16, 4]
        h = mm(x, a)
        r = aten.sin.default(h)
        y = mm(r, b)
        rt = aten.t.default(r)
        d_b = mm(rt, d_y)
        bt = aten.t.default(b)
        d_r = mm(d_y, bt)
        c = aten.cos.default(h)
        d_h = mul(d_r, c)
        xt = aten.t.default(x)
        d_a = mm(xt, d_h)
        at = aten.t.default(a)
        d_x = mm(d_h, at)
        -> y, d_a, d_b, d_x
    """,
    "last.spec": """
        x: float32[16, 4]
        q = mul(x, x)
        t = aten.sum.default(q)
        loss = aten.div.Tensor(t, 64)
        d_x = aten.div.Tensor(x, 32)
        -> loss, d_x
    """,
    "layer_reduce.spec": """
        d_a: float32[4, 8]
        d_b: float32[8, 4]
        g_a = mul(d_a, 1)
        g_b = mul(d_b, 1)
        pa = mul(g_a, g_a)
        pb = mul(g_b, g_b)
        sa = aten.sum.default(pa)
        sb = aten.sum.default(pb)
        squares = add(sa, sb)
        -> g_a, g_b, squares
    """,
    "first_reduce.spec": """
        d_w: float32[6, 4]
        g_w = mul(d_w, 1)
        p = mul(g_w, g_w)
        squares = aten.sum.default(p)
        -> g_w, squares
    """,
    "norm.spec": """
        total: float32[]
        e = add(total, 1)
        factor = aten.reciprocal.default(e)
        -> factor
    """,
    "layer_update.spec": """
        a: float32[4, 8]
        b: float32[8, 4]
        g_a: float32[4, 8]
        g_b: float32[8, 4]
        factor: float32[]
        lr: float32[]
        f = mul(factor, lr)
        ca = mul(g_a, f)
        cb = mul(g_b, f)
        new_a = sub(a, ca)
        new_b = sub(b, cb)
        -> new_a, new_b
    """,
    "first_update.spec": update("w", "g_w", "[6, 4]"),
    "first": """
        data: float32[4, 6]
        w: float32[6, 4]
        d_y: float32[4, 4]
        y = mm(data, w)
        s = aten.t.default(data)
        d_w = mm(s, d_y)
        -> y, d_w
    """,
    "layer": """
        x: float32[4, 4]
        a: float32[4, 4]
        b: float32[4, 4]
        d_y: float32[4, 4]
        h = mm(x, a)
        r = aten.sin.default(h)
        part = mm(r, b)
        y = all_reduce(part, "sum", "tp")
        rt = aten.t.default(r)
        d_b = mm(rt, d_y)
        bt = aten.t.default(b)
        d_r = mm(d_y, bt)
        c = aten.cos.default(h)
        d_h = mul(d_r, c)
        xt = aten.t.default(x)
        d_a = mm(xt, d_h)
        at = aten.t.default(a)
        share = mm(d_h, at)
        d_x = all_reduce(share, "sum", "tp")
        -> y, d_a, d_b, d_x
    """,
    "last": """
        x: float32[4, 4]
        q = mul(x, x)
        t = aten.sum.default(q)
        loss = aten.div.Tensor(t, 64)
        d_x = aten.div.Tensor(x, 32)
        -> loss, d_x
    """,
    "layer_reduce": """
        d_a: float32[4, 4]
        d_b: float32[4, 4]
        g_a = all_reduce(d_a, "sum", "dp")
        g_b = all_reduce(d_b, "sum", "dp")
        pa = mul(g_a, g_a)
        pb = mul(g_b, g_b)
        sa = aten.sum.default(pa)
        sb = aten.sum.default(pb)
        own = add(sa, sb)
        squares = all_reduce(own, "sum", "tp")
        -> g_a, g_b, squares
    """,
    "first_reduce": """
        d_w: float32[6, 4]
        g_w = all_reduce(d_w, "sum", "dp")
        p = mul(g_w, g_w)
        squares = aten.sum.default(p)
        -> g_w, squares
    """,
    "norm": """
        total: float32[]
        all = all_reduce(total, "sum", "pp")
        e = add(all, 1)
        factor = aten.reciprocal.default(e)
        -> factor
    """,
    "layer_update": """
        a: float32[4, 4]
        b: float32[4, 4]
        g_a: float32[4, 4]
        g_b: float32[4, 4]
        factor: float32[]
        lr: float32[]
        f = mul(factor, lr)
        ca = mul(g_a, f)
        cb = mul(g_b, f)
        new_a = sub(a, ca)
        new_b = sub(b, cb)
        -> new_a, new_b
    """,
    "first_update": update("w", "g_w", "[6, 4]"),
}


def document() -> dict[str, Any]:
    """The plan's table; every call gives a new one."""
    rows = {"microbatch": "Shard(0)", "dp": "Shard(0)"}
    sums = {"microbatch": 'Partial("sum")', "dp": 'Partial("sum")'}
    a, b, everywhere = {"tp": "Shard(1)"}, {"tp": "Shard(0)"}, "Replicate()"
    parts: dict[str, dict[str, Any]] = {
        "first": {
            "data": ["data"], "after": {"hidden": ["y", "d_y"]}, "parameters": {"w": "d_w"},
            "inputs": {"data": rows, "d_y": rows, "w": everywhere}, "outputs": {"y": rows, "d_w": sums},
        },
        "layer": {
            "before": {"hidden": ["x", "d_x"]}, "after": {"hidden": ["y", "d_y"]},
            "parameters": {"a": "d_a", "b": "d_b"}, "inputs": {"default": rows, "a": a, "b": b},
            "outputs": {"default": rows, "d_a": {**sums, **a}, "d_b": {**sums, **b}},
        },
        "last": {
            "before": {"hidden": ["x", "d_x"]}, "results": ["loss"], "inputs": {"x": rows},
            "outputs": {"loss": sums, "d_x": rows},
        },
        "layer_reduce": {
            "kind": "piece", "of": "layer",
            "inputs": {"d_a": {"dp": 'Partial("sum")', **a}, "d_b": {"dp": 'Partial("sum")', **b}},
            "outputs": {"g_a": a, "g_b": b, "squares": everywhere},
        },
        "first_reduce": {
            "kind": "piece", "of": "first", "inputs": {"d_w": {"dp": 'Partial("sum")'}},
            "outputs": {"default": everywhere},
        },
        "norm": {
            "kind": "once", "sums": {"total": "squares"}, "inputs": {"total": {"pp": 'Partial("sum")'}},
            "outputs": {"factor": everywhere},
        },
        "layer_update": {
            "kind": "piece", "of": "layer", "updates": {"new_a": "a", "new_b": "b"},
            "inputs": {"a": a, "b": b, "g_a": a, "g_b": b, "default": everywhere}, "outputs": {"new_a": a, "new_b": b},
        },
        "first_update": {
            "kind": "piece", "of": "first", "updates": {"new_w": "w"}, "inputs": {"default": everywhere},
            "outputs": {"default": everywhere},
        },
    }  # fmt: skip
    return {
        "format": "plan/1",
        "name": "small",
        "symbols": ["lr"],
        "mesh": {"axes": dict(GROUPS), "pipeline": "pp"},
        "data": {"microbatches": 2},
        "model": {"pieces": ["first", "layer * 3", "last"], "stages": ["first, layer 0", ["layer 1-2", "last"]]},
        "schedule": {"name": "1f1b"},
        "finish": {"reduce": ["first_reduce", "layer_reduce"], "update": ["norm", "first_update", "layer_update"]},
        "part": {
            name: {"spec": f"{name}.spec.json.gz", "impl": f"{name}.json.gz", **table} for name, table in parts.items()
        },
    }


def write_plan(
    folder: Path,
    programs: Mapping[str, tuple[str, str]] | None = None,
    edit: Callable[[dict[str, Any]], None] | None = None,
    more: Mapping[str, str] | None = None,
    groups: Mapping[str, int] = GROUPS,
) -> Path:
    """Write the plan, with one text replaced by another in some programs, with more programs (or others of the same
    names), and its table edited; its path."""
    changes = dict(programs or {})
    for name, text in {**PROGRAMS, **(more or {})}.items():
        old, new = changes.pop(name, ("", ""))
        assert old in text
        graph = typed_graph(text.replace(old, new) if old else text, groups)
        write_document(folder / f"{name}.json.gz", graph_document(graph))
    assert not changes
    table = document()
    if edit is not None:
        edit(table)
    path = folder / "plan.toml"
    path.write_text(tomli_w.dumps(table))
    return path


def verified(path: Path) -> PlanReport:
    """The verdict on a plan; parts that were checked before, in any plan, are not checked again."""
    return verify(read_plan(path), _remembered)


_known: dict[str, PartReport] = {}


def _remembered(part: Part) -> PartReport:
    job = part.job
    graphs = [format_graph(graph) for graph in {id(g): g for g in (job.specification, *job.implementation)}.values()]
    key = repr((part.name, graphs, job.mesh, job.inputs, job.outputs))
    if key not in _known:
        _known[key] = _checker()(part)
    return _known[key]


@cache
def _checker() -> Callable[[Part], PartReport]:
    return part_checker(refine)
