"""Ranks as mesh axes, rank by rank, and execution in lock step: three ways to run a program on all ranks, one meaning.

Random programs over meshes of one to three axes: pointwise operators, products, every collective over every group,
slices and numbers that differ by rank (on a line or not); and programs that differ along some axes, and send messages,
so that other axes alone are folded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from random import Random

import numpy as np
import pytest

from support.amount import count
from support.jobs import SHORT
from tantamount.calculus.calculus import Calculus
from tantamount.calculus.compare import equal
from tantamount.calculus.evaluate import Evaluator
from tantamount.ir.graph import Argument, Graph, Node, Output, Ref
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import InputRelation, Placement, Replicate, Shard
from tantamount.ir.types import DType, TensorType
from tantamount.ops.algebra import Tensor
from tantamount.ops.check import check_graph
from tantamount.ops.classes import rank_classes
from tantamount.proof.inputs import build_inputs
from tantamount.proof.ranks import run_implementation
from tantamount.proof.sharing import Shared
from tantamount.proof.specification import run_specification
from tantamount.semantics.interpret import interpret_ranks

PROGRAMS = 15  # per test
STEPS = 7
MAX_ELEMENTS = 150
MESHES = (
    {"tp": 2},
    {"tp": 3},
    {"tp": 4},
    {"tp": 8},
    {"dp": 1, "tp": 2},
    {"dp": 2, "tp": 2},
    {"dp": 2, "tp": 3},
    {"dp": 4, "tp": 2},
)
LARGER = ({"pp": 2, "tp": 2}, {"pp": 3, "tp": 2}, {"dp": 2, "pp": 2}, {"pp": 2, "dp": 2, "tp": 2})
UNARY = ("relu", "tanh", "aten.exp.default", "aten.neg.default", "aten.sin.default")
BINARY = ("add", "mul", "sub")
KINDS = ("unary", "binary", "mm", "slice", "movement", "sum", "collective", "collective", "collective")


@dataclass(frozen=True)
class Spmd:
    """The programs of all ranks of a mesh, and how inputs are placed."""

    mesh: Mesh
    nodes: tuple[tuple[Node, ...], ...]  # by rank
    placements: dict[str, tuple[Placement, ...]]
    wholes: dict[str, tuple[int, ...]]
    one: bool  # whether there is one program, up to numbers

    def __str__(self) -> str:
        lines = [f"mesh {dict(self.mesh.axes)}, {self.wholes}, {self.placements}"]
        for steps in zip(*self.nodes, strict=True):
            calls = list(dict.fromkeys(f"{node.target} {node.args}" for node in steps))
            lines.append(f"{steps[0].name}: {steps[0].type} = {' | '.join(calls)}")
        return "\n".join(lines)

    @property
    def graphs(self) -> tuple[Graph, ...]:
        return tuple(
            Graph(nodes, (Output("out", nodes[-1].name),), path=f"rank {rank}") for rank, nodes in enumerate(self.nodes)
        )

    @property
    def job(self) -> Job:
        inputs = [
            Node(name, "input", name, type=TensorType(shape, DType.FLOAT64)) for name, shape in self.wholes.items()
        ]
        specification = Graph(tuple(inputs), (), path="specification")
        relations = {name: InputRelation(name, placements) for name, placements in self.placements.items()}
        return Job("job", specification, self.graphs, self.mesh, relations, {})


class Writer:
    """Adds random steps that type-check on every rank."""

    def __init__(self, seed: int, numbers: bool, programs: bool = False) -> None:
        self.r = r = Random(seed)
        self.numbers = numbers  # whether numbers that differ by rank occur
        axes = dict(r.choice(LARGER if programs else MESHES))
        self.unlike = r.sample(range(len(axes)), r.randrange(len(axes))) if programs else []  # axes of other programs
        self.messages = programs
        groups: dict[str, tuple[str, ...]] = {name: (name,) for name in axes}
        groups["all"] = tuple(axes)
        groups["self"] = ()
        if len(axes) > 1:
            groups["turned"] = tuple(reversed(axes))
        if len(axes) > 2:
            groups["some"] = tuple(r.sample([*axes], 2))
        self.mesh = Mesh(axes, groups)
        self.placements: dict[str, tuple[Placement, ...]] = {}
        self.wholes: dict[str, tuple[int, ...]] = {}
        self.nodes: list[list[Node]] = [[] for _ in range(self.mesh.world_size)]
        self.shapes: dict[str, tuple[int, ...]] = {}
        for name in ("x", "y"):
            self._input(name)

    def _input(self, name: str) -> None:
        whole = [self.r.choice((1, 2, 3, 4)) for _ in range(self.r.choice((1, 2, 2, 3)))]
        local = list(whole)
        placements: list[Placement] = []
        for size in self.mesh.sizes:
            if self.r.random() < 0.6:
                dim = self.r.randrange(len(whole))
                whole[dim] *= size
                placements.append(Shard(dim))
            else:
                placements.append(Replicate())
        self.placements[name], self.wholes[name] = tuple(placements), tuple(whole)
        for nodes in self.nodes:
            nodes.append(Node(name, "input", name, type=TensorType(tuple(local), DType.FLOAT64)))
        self.shapes[name] = tuple(local)

    def program(self) -> Spmd:
        added = 0
        for _ in range(STEPS * 10):
            added += self._step()
            if added == STEPS:
                break
        return Spmd(self.mesh, tuple(map(tuple, self.nodes)), self.placements, self.wholes, not self.messages)

    def _step(self) -> bool:
        """One more node; ``False`` if the one that was drawn does not fit."""
        of = self.r.choice([*self.shapes])
        if self.messages and self.r.random() < 0.15:
            return self._exchange_messages(of)
        proposed = self._propose(of)
        if proposed is None:
            return False
        target, by_rank = proposed
        choice = [self.r.choice(UNARY) for _ in range(3)]
        name = f"n{len(self.nodes[0])}"
        grown: list[list[Node]] = []
        shapes: set[tuple[int, ...]] = set()
        sizes = {group: self.mesh.group_size(group) for group in self.mesh.groups}
        for rank, (nodes, args) in enumerate(zip(self.nodes, by_rank, strict=True)):
            if target in UNARY and self.unlike:
                target = choice[sum(self.mesh.coordinates(rank)[k] for k in self.unlike) % len(choice)]
            more = [*nodes, Node(name, "call", SHORT.get(target, target), args)]
            found = check_graph(Graph(tuple(more), ()), sizes)[name]
            if not isinstance(found, Tensor) or not 0 < prod(found.shape) <= MAX_ELEMENTS:
                return False
            shapes.add(found.shape)
            grown.append([*nodes, replace(more[-1], type=found.type)])
        if len(shapes) > 1:
            return False
        self.nodes, self.shapes[name] = grown, shapes.pop()
        return True

    def _exchange_messages(self, a: str) -> bool:
        """Every rank sends to the next one of a group, round."""
        group = self.r.choice([*self.mesh.groups])
        if self.mesh.group_size(group) < 2:
            return False
        type_ = TensorType(self.shapes[a], DType.FLOAT64)
        sent, received = (f"n{len(self.nodes[0]) + k}" for k in range(2))
        for rank, nodes in enumerate(self.nodes):
            members = self.mesh.members(group, rank)
            at, size = members.index(rank), len(members)
            nothing = TensorType((0,), DType.FLOAT64)
            for name, target, peer, result in ((sent, "isend", at + 1, nothing), (received, "irecv", at - 1, type_)):
                args = (Ref(a), peer % size, 0, group)
                nodes.append(Node(name, "call", f"_c10d_functional.{target}.default", args, type=result))
        self.shapes[received] = type_.shape
        return True

    def _propose(self, a: str) -> tuple[str, list[tuple[Argument, ...]]] | None:
        r, shape = self.r, self.shapes[a]
        world = self.mesh.world_size

        def same(target: str, *args: Argument) -> tuple[str, list[tuple[Argument, ...]]]:
            return target, [(Ref(a), *args)] * world

        kind = r.choice((*KINDS, "number") if self.numbers else KINDS)
        if kind == "unary":
            return same(r.choice(UNARY))
        if kind == "binary":
            others = [b for b, other in self.shapes.items() if other == shape]
            return same(r.choice((*BINARY, "aten.maximum.default") if self.numbers else BINARY), Ref(r.choice(others)))
        if kind == "mm":
            others = [b for b, other in self.shapes.items() if len(shape) == len(other) == 2 and other[0] == shape[1]]
            return same("mm", Ref(r.choice(others))) if others else None
        if kind == "number":
            line = r.random() < 0.5
            start, step = r.randrange(-3, 4), r.choice((-2, -1, 1, 2))
            numbers = [start + step * k if line else r.choice((-2.0, 0.0, 0.5, 1.0, 3.0)) for k in range(world)]
            if line and r.random() < 0.5:
                numbers = [start + step * self.mesh.coordinates(k)[-1] for k in range(world)]
            return r.choice(("add", "mul")), [(Ref(a), number) for number in numbers]
        dim = r.randrange(len(shape)) if shape else 0
        if kind == "slice" and shape:
            size = r.randrange(1, shape[dim] + 1)
            room = shape[dim] - size
            starts = [k % (room + 1) if r.random() < 0.8 else r.randrange(room + 1) for k in range(world)]
            return "slice", [(Ref(a), dim, start, start + size) for start in starts]
        if kind == "movement" and len(shape) > 1:
            order = list(range(len(shape)))
            r.shuffle(order)
            return r.choice((same("permute", tuple(order)), same("view", (prod(shape),)), same("transpose", 0, dim)))
        if kind == "sum" and shape:
            return same("sum_dims", (dim,), r.random() < 0.5)
        return self._collective(same, shape) if kind == "collective" else None

    def _collective(self, same: object, shape: tuple[int, ...]) -> tuple[str, list[tuple[Argument, ...]]] | None:
        assert callable(same)
        r = self.r
        group = r.choice([*self.mesh.groups])
        size = self.mesh.group_size(group)
        reduction = r.choice(("sum", "sum", "sum", "avg", "max", "min"))
        kind = r.choice(("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"))
        if kind == "all_reduce":
            return same(kind, reduction, group)
        if kind == "broadcast":
            return same(kind, r.randrange(size), group)
        if not shape or (kind != "all_gather" and shape[0] % size):
            return None
        if kind == "all_gather":
            return same(kind, size, group)
        if kind == "reduce_scatter":
            return same(kind, reduction, size, group)
        return same(kind, (shape[0] // size,) * size, (shape[0] // size,) * size, group)


def parts(spmd: Spmd, wholes: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """What every rank holds of the inputs, cut by plain indexing."""
    out: list[dict[str, np.ndarray]] = []
    for rank in range(spmd.mesh.world_size):
        held: dict[str, np.ndarray] = {}
        for name, whole in wholes.items():
            for p, size, digit in zip(spmd.placements[name], spmd.mesh.sizes, spmd.mesh.coordinates(rank), strict=True):
                if isinstance(p, Shard):
                    whole = np.split(whole, size, axis=p.dim)[digit]
            held[name] = whole
        out.append(held)
    return out


def check(spmd: Spmd, seed: int) -> list[str]:
    """Both runs have the values of the execution at every node on every rank; the nodes whose forms are not equal."""
    job, store = spmd.job, Calculus()
    inputs = build_inputs(store, job)
    specification = run_specification(store, job, inputs, Shared(store))
    classes, ranks = rank_classes(spmd.graphs, spmd.mesh), rank_classes(spmd.graphs, spmd.mesh, fold=False)
    folded = run_implementation(store, job, inputs, specification, classes, Shared(store))
    single = run_implementation(store, job, inputs, specification, ranks, Shared(store))
    assert len(classes) == 1 or not spmd.one
    assert len(ranks) == spmd.mesh.world_size
    assert not folded.failures
    assert not single.failures
    generator = np.random.default_rng(seed)
    wholes = {name: generator.standard_normal(shape) for name, shape in spmd.wholes.items()}
    values = interpret_ranks(spmd.graphs, spmd.mesh, parts(spmd, wholes))
    evaluator = Evaluator(store, wholes)
    different: list[str] = []
    for node in spmd.nodes[0]:
        for rank, value in enumerate(values):
            one, other = folded.local(store, rank, node.name), single.local(store, rank, node.name)
            assert one is not None
            assert other is not None
            where = f"{node.name} on rank {rank}"
            expected = value.array(node.name)
            assert one.shape == other.shape == expected.shape, where
            scale = 1e-9 * (1.0 + np.abs(expected).max(initial=0.0))
            np.testing.assert_allclose(evaluator.form(one), expected, rtol=1e-9, atol=scale, err_msg=where)
            np.testing.assert_allclose(evaluator.form(other), expected, rtol=1e-9, atol=scale, err_msg=where)
            if equal(store, one, other) is not None:
                different.append(where)
    return different


@pytest.mark.parametrize("kind", ["one_program", "numbers_by_rank", "programs_by_rank"])
@pytest.mark.parametrize("block", range(count(3, 24)))
def test_three_ways_agree(block: int, kind: str) -> None:
    """Values agree always. Forms may differ where the argument of a function simplifies at one mesh coordinate only:
    ``tanh(x_k - x_1)`` at ``k = 1`` is not yet ``tanh(0)``, nor a sum of mesh coordinates a number."""
    nodes = different = 0
    for seed in range(block * PROGRAMS, (block + 1) * PROGRAMS):
        spmd = Writer(seed, kind == "numbers_by_rank", kind == "programs_by_rank").program()
        try:
            different += len(check(spmd, seed))
        except Exception as problem:
            problem.add_note(f"seed {seed}\n{spmd}")
            raise
        nodes += len(spmd.nodes[0]) * spmd.mesh.world_size
    assert different <= nodes // (100 if kind == "one_program" else 20)
