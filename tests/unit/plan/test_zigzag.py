"""Load-balanced context parallelism: ranks have a chunk of the sequence from the front and one from the back."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.jobs import typed_graph
from tantamount.answers import verify_plan
from tantamount.capture import new_plan
from tantamount.capture.fields import Place
from tantamount.capture.orders import Order, in_order
from tantamount.correspond.alignment import align
from tantamount.effort import Effort
from tantamount.errors import UserError
from tantamount.limits import Limits
from tantamount.plan.prove import part_checker
from tantamount.plan.read import read_plan
from tantamount.plan.wiring import joints_of
from tantamount.reduction.meshes import shortened
from tantamount.refinement.job import refine_differing, refine_job
from tantamount.semantics.interpret import interpret
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")

from tantamount.capture.torch.llama import context, model, plan  # noqa: E402
from tantamount.capture.torch.llama.model import Shape  # noqa: E402
from tantamount.capture.torch.llama.spread import Degrees  # noqa: E402

LLAMA = Shape(1, 8, 2, 2, 4, 6)
MIXED, ROTARY = context._mixed, model.rotary


def _degrees(how: str) -> Degrees:
    return Degrees(
        1, 1, 1, microbatches=1, batch=1, seq=8, optimizer="sgd", cp=2, context=how, cp_layout="zigzag",
    )  # fmt: skip


def _checked(path: Path) -> Any:
    small = Effort(0.05)
    refine, differing = partial(refine_job, doubtful=True, effort=small), partial(refine_differing, effort=small)
    return part_checker(refine, Effort(), differing, align)(read_plan(path).parts["layer"])


@pytest.fixture(scope="module")
def gathering(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan whose ranks gather keys and values."""
    return plan.write_plan(tmp_path_factory.mktemp("plan"), "zigzag", LLAMA, _degrees("gather"))


def _with_layer(gathering: Path, folder: Path, how: str) -> Path:
    """The same plan with its layer captured anew."""
    shutil.copytree(gathering.parent, folder / "plan")
    layer = next(part for part in plan.parts_of(LLAMA, _degrees(how)) if part.name == "layer")
    plan.write_part(folder / "plan", layer)
    return folder / "plan" / "plan.toml"


@pytest.mark.parametrize("how", ["gather", "ring"])
def test_two_chunks_of_the_sequence_on_every_rank_are_proved(gathering: Path, tmp_path: Path, how: str) -> None:
    path = gathering if how == "gather" else _with_layer(gathering, tmp_path, how)
    found = _checked(path)
    assert found.verdict is Verdict.PROVED, [(output.name, output.reason) for output in found.outputs]
    joints = list(joints_of(read_plan(path)))
    assert not [joint for joint in joints if joint.problem]
    assert "blocks of dimension 1 in the order 0, 3, 1, 2" in next(j.relation for j in joints if "hidden" in j.tensor)


def test_tokens_of_several_chunks_are_in_range(gathering: Path) -> None:
    """Without tensor parallelism the embedding and the loss take them as indices, of which ranks have two chunks."""
    read = read_plan(gathering)
    for name in ("embedding", "head"):
        check = part_checker(partial(refine_job, doubtful=True), Effort(), refine_differing, align)
        found = check(read.parts[name])
        assert found.verdict is Verdict.PROVED, [(output.name, output.reason) for output in found.outputs]


def _contiguous(firsts: Sequence[int], chunk: int) -> tuple[int, ...]:
    """The positions of a rank that has one part of the sequence instead."""
    rank = firsts[0] // chunk
    return tuple((len(firsts) * rank + k) * chunk for k in range(len(firsts)))


def _positions(seq: int, size: int, theta: float, device: Any, firsts: Sequence[int] = (0,)) -> Any:
    return ROTARY(seq, size, theta, device, _contiguous(firsts, seq // len(firsts)))


def _mask(q: Any, k: Any, v: Any, firsts: Sequence[int]) -> Any:
    return MIXED(q, k, v, _contiguous(firsts, q.shape[2] // len(firsts)))


@pytest.mark.parametrize(
    ("how", "owner", "name", "instead"),
    [
        ("gather", model, "rotary", _positions),
        ("gather", context, "_mixed", _mask),
        ("ring", context, "_seen", lambda mine, other: other <= mine and (mine == 0 or other > 0)),
    ],
)
def test_positions_and_masks_are_those_of_the_chunks(
    gathering: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    how: str, owner: Any, name: str, instead: Callable[..., Any],
) -> None:  # fmt: skip
    monkeypatch.setattr(owner, name, instead)
    assert _checked(_with_layer(gathering, tmp_path, how)).verdict is Verdict.REFUTED


def test_ranks_that_have_other_chunks_than_the_plan_says(gathering: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(gathering.parent, tmp_path / "plan")) / "plan.toml"
    text = path.read_text("utf-8")
    path.write_text(text.replace("Shard(1, [0, 3, 1, 2])", "Shard(1)"), "utf-8")
    assert _checked(path).verdict is Verdict.REFUTED
    head = text.index("[part.head]")
    after = text.index("[part.embedding_reduce]")
    path.write_text(text[:head] + text[head:after].replace("[0, 3, 1, 2]", "[0, 2, 1, 3]") + text[after:], "utf-8")
    problems = [joint.problem for joint in joints_of(read_plan(path)) if joint.problem]
    assert problems
    assert "order 0, 3, 1, 2, but blocks of dimension 1 in the order 0, 2, 1, 3 is taken for granted" in problems[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[0, 3, 1, 2]", "[0, 3, 1, 1]"),
        ("[0, 3, 1, 2]", "[0, 2, 1]"),
        ("[0, 3, 1, 2]", "[0, 1, 2, 3, 4, 5]"),  # of eight positions
        ('norm1 = "Replicate()"', 'norm1 = { cp = "Shard(0, [0, 3, 1, 2])" }'),
        ('microbatch = "Shard(0)"', 'microbatch = "Shard(0, [1, 0])"'),  # which was not read
        ('dp = "Shard(0)"\ncp = "Shard(1, [0, 3, 1, 2])"', 'dp = "Shard(1)"\ncp = "Shard(1, [0, 3, 1, 2])"'),
    ],
)
def test_orders_that_are_none_are_refused(gathering: Path, tmp_path: Path, old: str, new: str) -> None:
    path = Path(shutil.copytree(gathering.parent, tmp_path / "plan")) / "plan.toml"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
    with pytest.raises(UserError):
        read_plan(path)


def test_a_specification_of_blocks_in_an_order() -> None:
    """What NumPy makes of the same: the program's own function, of blocks that are put back, its result moved."""
    graph = typed_graph("x: float32[2, 6]\nw: float32[6]\ny = mul(x, w)\nz = aten.cumsum.default(y, 1)\n-> z, x")
    order, back = Order(1, (2, 0, 1)), Order(1, (1, 2, 0))
    assert order.back == back.blocks
    moved = in_order(graph, {"x": order}, {"z": order}, Place("plan", "test", Limits()))
    x, w = np.arange(12.0).reshape(2, 6), np.arange(6.0) + 1

    def blocks(value: Any, of: Order) -> Any:
        return np.concatenate([np.split(value, 3, 1)[k] for k in of.blocks], 1)

    found = interpret(moved, {"x": blocks(x, order), "w": w})
    assert np.array_equal(found.array(moved.output_nodes["z"]), blocks(np.cumsum(x * w, 1), order))
    assert np.array_equal(found.array(moved.output_nodes["x"]), x)


def test_blocks_of_a_length_that_something_else_has_as_well(tmp_path: Path) -> None:
    """Of Llama-3 405B over 8 tensor-parallel ranks, blocks are as long as a rank has rows of queries: at smaller sizes
    blocks must all be of one length, or a right layer is another one there."""
    degrees = {
        "dp": 8, "tp": 8, "pp": 1, "microbatches": 16, "batch": 128, "seq": 8192, "schedule": "1f1b", "chunks": 1,
        "optimizer": "sgd", "cp": 2, "context": "gather", "cp_layout": "zigzag",
    }  # fmt: skip
    job = read_plan(new_plan("llama3-405b", {"layers": 1}, degrees, tmp_path)).parts["layer"].job
    small = shortened(job, job.mesh.names, Effort())
    lengths = {
        node.type.shape[0]
        for graph in small.programs
        for node in graph.nodes
        if node.target == "aten.arange.start" and node.type is not None
    }
    assert len(lengths) == 1
    found = verify_plan(tmp_path / "plan.toml")
    assert found.verdict is Verdict.PROVED, found.text()
