"""Backward passes of context parallelism that never compute what other ranks lack: each rank differentiates its own
queries by its own keys alone. They are proved up to that; whatever else is wrong is refuted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from support.jobs import typed_graph
from support.plans import verified
from tantamount.answers import refine
from tantamount.capture.graph_document import graph_document
from tantamount.capture.plan_text import in_ranges
from tantamount.capture.programs import write_document
from tantamount.effort import Effort
from tantamount.errors import UserError
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Expectation, InputRelation, Replicate, Shard
from tantamount.plan.own_gradients import own_job
from tantamount.plan.read import read_plan
from tantamount.reduction import shortened
from tantamount.semantics.interpret import interpret
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")

AXES = {"dp": 2, "cp": 2}
FORWARD = """
    k = aten.matmul.default(x, w)
    {all_keys}
    kt = aten.transpose.int(all, 1, 2)
    s = aten.bmm.default(x, kt)
    a = aten._softmax.default(s, -1, False)
    y = aten.bmm.default(a, all)
    d_a = aten.bmm.default(d_y, kt)
    d_s = aten._softmax_backward_data.default(d_a, a, -1, float32)
    d_q = aten.bmm.default(d_s, all)
    {backward}
    d_k = add(d_v, d_keys)
    xt = aten.transpose.int(x, 1, 2)
    d_w1 = aten.bmm.default(xt, d_k)
    d_w = aten.sum.dim_IntList(d_w1, [0])
    wt = aten.transpose.int(w, 0, 1)
    d_x1 = aten.matmul.default(d_k, wt)
    d_x = add(d_q, d_x1)
    -> y, d_x, d_w
"""
BACKWARD = """at = aten.transpose.int({a}, 1, 2)
    d_v = aten.bmm.default(at, d_y)
    st = aten.transpose.int({d_s}, 1, 2)
    d_keys = aten.bmm.default(st, x)"""
TYPES = "\n    x: float32[{shape}]\n    w: float32[3, 3]\n    d_y: float32[{shape}]"
SPEC = TYPES.format(shape="8, 4, 3") + FORWARD.format(
    all_keys="all = mul(k, 1)", backward=BACKWARD.format(a="a", d_s="d_s")
)
GATHERED = """gk = aten.transpose.int(k, 0, 1)
    g = all_gather(gk, 2, "cp")
    all = aten.transpose.int(g, 0, 1)"""
OWN = """a_own = aten.slice.Tensor(a, 2, {first}, {end})
    s_own = aten.slice.Tensor(d_s, 2, {first}, {end})
    """ + BACKWARD.format(a="a_own", d_s="s_own")
LAST = """
    x: float32[{shape}]
    q = mul(x, x)
    loss = aten.sum.default(q)
    d_x = mul(x, 2)
    -> loss, d_x
"""

LINEAR = """
    x: float32[{shape}]
    w: float32[3, 3]
    d_y: float32[{shape}]
    k = aten.matmul.default(x, w)
    {gather}
    kt = aten.transpose.int({own}, 1, 2)
    a = aten.bmm.default(x, kt)
    at = aten.transpose.int(a, 1, 2)
    d_v = aten.bmm.default(at, d_y)
    alt = aten.transpose.int(all, 1, 2)
    d_a = aten.bmm.default(d_y, alt)
    d_q = aten.bmm.default(d_a, all)
    d_x = add(d_q, d_v)
    -> d_x
"""


def written(folder: Path, backward: str = OWN, after: str = "", **declared: Any) -> Path:
    """A plan of attention and a loss; its path. ``after``: what a rank does with ``d_k``."""
    programs = {"mix.spec": SPEC, "last.spec": LAST.format(shape="8, 4, 3"), "last": LAST.format(shape="2, 2, 3")}
    for rank in range(2):
        text = FORWARD.format(all_keys=GATHERED, backward=backward)
        if after:
            text = text.replace("d_k = add(d_v, d_keys)", f"d_k0 = add(d_v, d_keys)\n    {after}")
        text = text.replace("{first}", str(2 * rank)).replace("{end}", str(2 * rank + 2))
        programs[f"mix.{rank}"] = TYPES.format(shape="2, 2, 3") + text
    for name, text in programs.items():
        write_document(folder / f"{name}.json.gz", graph_document(typed_graph(text, AXES)))
    rows = {"microbatch": "Shard(0)", "dp": "Shard(0)", "cp": "Shard(1)"}
    whole, summed = dict.fromkeys(rows, "Replicate()"), dict.fromkeys(rows, 'Partial("sum")')
    mix = {
        "spec": "mix.spec.json.gz", "impl": {"cp": ["mix.0.json.gz", "mix.1.json.gz"]}, "data": ["x"],
        "parameters": {"w": "d_w"}, "after": {"h": ["y", "d_y"]}, "results": ["d_x"],
        "inputs": {"default": rows, "w": whole}, "outputs": {"default": rows, "d_w": summed},
    }  # fmt: skip
    last = {
        "spec": "last.spec.json.gz", "impl": "last.json.gz", "before": {"h": ["x", "d_x"]}, "results": ["loss"],
        "inputs": {"default": rows}, "outputs": {"loss": summed, "d_x": rows},
    }  # fmt: skip
    border = {"kind": "truncated-gradient", "part": "mix", "specification": {"d_k": 1}, "over": ["cp"], **declared}
    document = {
        "format": "plan/1", "name": "mixed", "mesh": {"axes": AXES}, "data": {"microbatches": 2},
        "model": {"pieces": ["mix", "last"]}, "part": {"mix": mix, "last": last}, "approximate": {"border": border},
    }  # fmt: skip
    (folder / "plan.toml").write_text(tomli_w.dumps(document))
    return folder / "plan.toml"


def test_a_backward_pass_that_never_computes_what_others_lack(tmp_path: Path) -> None:
    report = verified(written(tmp_path))
    assert (report.verdict, report.exit_code) == (Verdict.PROVED, 3), report.text()
    assert "(d_k of the specification, along dimension 1) without what other ranks along cp contr" in report.text()
    two = {"d_v": 1, "d_keys": 1}  # two of which the third is the sum
    assert verified(written(tmp_path, specification=two)).verdict is Verdict.PROVED
    whole = BACKWARD.format(a="a", d_s="d_s").replace("d_v =", "v_all =").replace("d_keys =", "k_all =")
    parts = (
        "d_v = aten.slice.Tensor(v_all, 1, {first}, {end})\n    d_keys = aten.slice.Tensor(k_all, 1, {first}, {end})"
    )
    assert verified(written(tmp_path, f"{whole}\n    {parts}")).verdict is Verdict.PROVED  # and one that does


@pytest.mark.parametrize(
    ("backward", "after"),
    [
        (OWN.replace("{first}", "0").replace("{end}", "2"), ""),  # rank 0's on both
        (OWN, "d_k = mul(d_k0, 2)"),
        (OWN, "d_k = mul(d_k0, 0)"),  # its own is missing, too
        (OWN.replace("add", "sub"), "d_k = mul(d_keys, 1)"),  # of the values
        (OWN.replace("a_own = aten.slice.Tensor(a,", "a_own = aten.slice.Tensor(s,"), ""),
        (OWN, 'd_k = all_reduce(d_k0, "sum", "cp")'),
    ],
)
def test_whatever_else_is_wrong_is_refuted(backward: str, after: str, tmp_path: Path) -> None:
    report = verified(written(tmp_path, backward, after))
    assert report.verdict is Verdict.REFUTED, report.text()


def test_what_others_contribute_is_not_there(tmp_path: Path) -> None:
    """The right gradient is not the one that is declared."""
    whole = BACKWARD.format(a="a", d_s="d_s")
    after = """t = aten.transpose.int(d_k0, 0, 1)
    r = reduce_scatter(t, "sum", 2, "cp")
    d_k = aten.transpose.int(r, 0, 1)"""
    assert verified(written(tmp_path, whole, after)).verdict is Verdict.REFUTED


def test_the_specification_is_what_ranks_find_with_the_keys_of_others_detached(tmp_path: Path) -> None:
    graph = read_plan(written(tmp_path)).parts["mix"].job.specification
    random = np.random.default_rng(0)
    values: dict[str, Any] = {
        node.name: random.standard_normal(node.type.shape) for node in graph.inputs if node.type is not None
    }
    x, w, d_y = (torch.tensor(values[name]) for name in ("x", "w", "d_y"))
    ran = interpret(graph, values)
    found = {output.name: ran.array(output.node) for output in graph.outputs}
    weights, rows = torch.zeros_like(w), list[Any]()
    for rank in range(2):
        own = slice(2 * rank, 2 * rank + 2)
        part, weight = x[:, own].clone().requires_grad_(), w.clone().requires_grad_()
        keys = (x @ w).detach()
        others = [keys[:, :2], part @ weight] if rank else [part @ weight, keys[:, 2:]]
        every = torch.cat(others, 1)
        y = torch.softmax(part @ every.transpose(1, 2), -1) @ every
        rows.append(torch.autograd.grad(y, (part, weight), d_y[:, own]))
        weights += rows[-1][1]
    assert np.allclose(found["d_x"], torch.cat([one for one, _ in rows], 1).numpy(), rtol=1e-12, atol=1e-12)
    assert np.allclose(found["d_w"], weights.numpy(), rtol=1e-12, atol=1e-12)


def test_smaller_forms_have_a_part_for_every_rank() -> None:
    """No part of a gradient is moved or resized alone, and there are never fewer ranks than parts."""
    for ranks, rows in ((16, 4), (8, 16)):
        axes = {"microbatch": 2, "dp": 2, "cp": ranks}
        gather = GATHERED.replace("all_gather(gk, 2,", f"all_gather(gk, {ranks},")
        spec = typed_graph(LINEAR.format(shape=f"8, {ranks * rows}, 3", gather="all = mul(k, 1)", own="all"))
        impl = typed_graph(LINEAR.format(shape=f"2, {rows}, 3", gather=gather, own="k"), axes)
        cut, whole = (Shard(0), Shard(0), Shard(1)), (Replicate(),) * 3
        given = {name: InputRelation(name, whole if name == "w" else cut, text=name) for name in ("x", "w", "d_y")}
        wanted = {"d_x": Expectation("d_x", cut, text="d_x")}
        mesh = Mesh(axes, {axis: (axis,) for axis in axes})
        job = own_job(Job("job", spec, (impl,) * mesh.world_size, mesh, given, wanted), {"d_v": 1}, "cp", ["d_y"])
        small = shortened(job, mesh.names, Effort())
        assert (small.mesh.axes["cp"], refine(small).verdict) == (ranks, Verdict.PROVED)


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({"specification": {"y": 1}}, "no gradient that comes back has a part in"),
        ({"specification": {"x": 1}}, "which no operator"),
        ({"specification": {"nothing": 1}}, "which no operator"),
        ({"specification": {"d_k": 2}}, "no 2 equal parts along dimension 2"),
        ({"specification": {"d_k": 3}}, "which has no dimension 3"),
        ({"specification": {"d_k": 1, "d_v": 1}}, "depends on d_v"),
        ({"specification": {"d_k": 1}, "nodes": ["d_k"]}, "names no nodes"),
        ({"specification": {"d_k": 1}, "kind": "stale-gradient"}, "names no nodes"),
        ({"specification": {}}, "nodes, and for all but"),
        ({"over": ["dp"]}, "not cut along dp|cuts before"),
        ({"part": "last", "specification": {"d_x": 1}}, "to which no gradients come"),
    ],
)
def test_declarations_that_say_something_else_are_refused(declared: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=why) as raised:
        verified(written(tmp_path, **declared))
    assert raised.value.code == "plan-approximate"


def test_what_is_wrong_with_a_second_declaration_is_at_its_own_place(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text() + '\n[approximate.other]\nkind = "no kind"\npart = "mix"\n')
    with pytest.raises(UserError, match="no kind") as raised:
        read_plan(path)
    assert "[approximate]: other" in str(raised.value)
    assert "border" not in str(raised.value)


def test_tensors_of_one_part_are_declared_together(tmp_path: Path) -> None:
    path = written(tmp_path)
    text = (
        '\n[approximate.other]\nkind = "truncated-gradient"\npart = "mix"\nspecification = { d_v = 1 }\nover = ["cp"]\n'
    )
    path.write_text(path.read_text() + text)
    with pytest.raises(UserError, match="one declaration for all tensors of a part"):
        read_plan(path)


def test_a_stage_without_pieces_is_written_as_an_empty_text(tmp_path: Path) -> None:
    path = written(tmp_path)
    pieces = 'pieces = [\n    "mix",\n    "last",\n]\n'
    assert pieces in path.read_text()
    path.write_text(path.read_text().replace(pieces, f'{pieces}stages = ["mix 0, last 0", "{in_ranges([])}"]\n'))
    assert [len(stage) for stage in read_plan(path).stages] == [2, 0]
