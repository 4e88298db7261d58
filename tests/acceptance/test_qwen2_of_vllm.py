"""One decoder layer of Qwen2 as vLLM runs it, on two ranks: fused weights, grouped heads, an opaque attention kernel
and a vocabulary-parallel embedding, proved; and what a person might get wrong in it, never proved."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tantamount import read_job
from tantamount.answers import refine
from tantamount.ir.graph import Argument, Graph, Node, Ref, references
from tantamount.ir.job import Job
from tantamount.ir.relation import Concat, InputRelation, RankTensor, Slice
from tantamount.limits import Limits
from tantamount.verdict import Verdict

NO_EXECUTION = Limits(witness_elements=0)  # the verdict of the calculus alone
SECONDS = 1.5  # CPU, the whole process
Change = Callable[[Node], Node]
ATTENTION = "auto_functionalized_2"


@pytest.fixture
def qwen2(shared: Path) -> Job:
    return read_job(shared / "jobs" / "qwen2_tp2" / "job.toml")


@pytest.mark.parametrize("fold", [None, False])
def test_the_output_is_proved(qwen2: Job, fold: bool | None) -> None:
    report = refine(qwen2, fold=fold)
    assert report.verdict is Verdict.PROVED
    assert [str(output.relation) for output in report.outputs] == ["getitem_34 = Replicate()"]
    assert {a.name for a in report.assumptions} == {"real-arithmetic", "opaque-operator", "index-range"}
    (opaque,) = (a for a in report.assumptions if a.name == "opaque-operator")
    assert "vllm.unified_attention_with_output" in opaque.text
    assert "[t] (g r) [d]" in opaque.text  # query head g r + i belongs to key and value head g
    assert opaque.places == (ATTENTION,)


def test_strict_refuses_the_opaque_kernel(qwen2: Job) -> None:
    report = refine(qwen2, strict=True)
    assert report.verdict is Verdict.UNKNOWN
    assert "opaque-operator" in report.refused


def test_it_takes_little_time(shared: Path) -> None:
    program = "import sys, time; from tantamount.cli.main import main\ntry: main()\nfinally: print(time.process_time())"
    path = shared / "jobs" / "qwen2_tp2" / "job.toml"
    best = min(
        float(
            subprocess.run(
                [sys.executable, "-c", program, "refine", str(path)], capture_output=True, text=True, check=True
            ).stdout.split()[-1]
        )
        for _ in range(2)
    )
    assert best < SECONDS


# ---------------------------------------------------------------------------------------------- mutants
def keyword(key: str, value: Argument) -> Change:
    def change(node: Node) -> Node:
        assert node.kwargs[key] != value
        return replace(node, kwargs={**node.kwargs, key: value})

    return change


def argument(position: int, value: Argument) -> Change:
    def change(node: Node) -> Node:
        assert node.args[position] != value
        return replace(node, args=(*node.args[:position], value, *node.args[position + 1 :]))

    return change


def renamed(node: Node, old: str, new: str) -> Node:
    def walk(item: Any) -> Any:
        if isinstance(item, tuple):
            return tuple(map(walk, item))
        return Ref(new) if item == Ref(old) else item

    return replace(node, args=walk(node.args), kwargs={key: walk(value) for key, value in node.kwargs.items()})


def edited(graph: Graph, instead: tuple[str, str] | None, changes: dict[str, Change]) -> Graph:
    """Some nodes changed; ``instead = (old, new)``: the node old is gone, and new is read in its place."""
    nodes = [changes[n.name](n) if n.name in changes else n for n in graph.nodes]
    if instead is not None:
        assert any(instead[0] in references(n) for n in nodes)
        nodes = [renamed(n, *instead) for n in nodes if n.name != instead[0]]
    return replace(graph, nodes=tuple(nodes))


def on(*ranks: int, instead: tuple[str, str] | None = None, **changes: Change) -> Callable[[Job], Job]:
    def mutate(job: Job) -> Job:
        graphs = tuple(edited(g, instead, changes) if r in ranks else g for r, g in enumerate(job.implementation))
        return replace(job, implementation=graphs)

    return mutate


def exchanged(name: str, *bounds: int, dim: int = 0) -> Callable[[Job], Job]:
    """The ranks hold each other's parts: of an input that is cut at ``bounds``, of the part before ``bounds[0]`` (or of
    all parts from there on, if it is 0)."""

    def mutate(job: Job) -> Job:
        old = job.inputs[name]
        if not bounds:
            new = Concat((RankTensor(1, name), RankTensor(0, name)), dim)
        else:
            assert isinstance(old.expression, Concat)
            low, high = bounds
            parts = list(old.expression.parts)
            parts[low], parts[high] = parts[high], parts[low]
            assert all(isinstance(part, Slice) for part in parts)
            new = Concat(tuple(parts), old.expression.dim)
        return replace(job, inputs={**job.inputs, name: InputRelation(name, None, new, (), str(new))})

    return mutate


def several(*mutations: Callable[[Job], Job]) -> Callable[[Job], Job]:
    def mutate(job: Job) -> Job:
        for mutation in mutations:
            job = mutation(job)
        return job

    return mutate


MUTANTS: dict[str, Callable[[Job], Job]] = {
    "vocabulary_starts_too_early": on(1, ge=argument(1, 75967)),
    "vocabulary_ends_too_early": on(0, lt=argument(1, 75967)),
    "vocabulary_offset": on(1, mul=argument(1, 75967)),
    "vocabulary_shards_exchanged": exchanged("arg1_1"),
    "no_all_reduce_of_embedding": on(0, 1, instead=("all_reduce", "masked_fill")),
    "no_all_reduce_of_attention": on(0, 1, instead=("all_reduce_1", "mm")),
    "no_all_reduce_of_mlp": on(0, 1, instead=("all_reduce_2", "mm_2")),
    "epsilon": on(0, 1, auto_functionalized=keyword("epsilon", 1e-5)),
    "epsilon_of_rank_1": on(1, auto_functionalized_3=keyword("epsilon", 1e-5)),
    "last_epsilon": on(0, 1, auto_functionalized_5=keyword("epsilon", 1e-5)),
    "rotary_style": on(0, 1, auto_functionalized_1=keyword("is_neox", False)),
    "another_layer": on(0, 1, auto_functionalized_2=keyword("layer_name", "model.layers.1.self_attn.attn")),
    "another_layer_on_rank_1": on(1, auto_functionalized_2=keyword("layer_name", "model.layers.1.self_attn.attn")),
    "key_is_value": on(0, 1, auto_functionalized_2=keyword("key", Ref("view_6"))),
    "value_is_key": on(0, 1, auto_functionalized_2=keyword("value", Ref("view_5"))),
    "key_not_rotated": on(0, 1, slice_scatter_1=argument(1, Ref("getitem_3"))),
    "query_not_rotated": on(0, 1, slice_scatter=argument(1, Ref("getitem_2"))),
    "residual_for_the_norm": on(0, 1, getitem_29=argument(1, 2)),
    "another_residual": on(0, 1, auto_functionalized_3=keyword("residual", Ref("all_reduce_1"))),
    "query_heads_exchanged": several(exchanged("arg3_1", 0, 1), exchanged("arg4_1", 0, 1)),
    "key_heads_exchanged": several(exchanged("arg3_1", 2, 3), exchanged("arg4_1", 2, 3)),
    "value_heads_exchanged": several(exchanged("arg3_1", 4, 5), exchanged("arg4_1", 4, 5)),
    "bias_of_values_exchanged": exchanged("arg3_1", 4, 5),
    "gate_and_up_exchanged": several(exchanged("arg9_1", 0, 2), exchanged("arg9_1", 1, 3)),
    "up_shards_exchanged": exchanged("arg9_1", 2, 3),
    "output_shards_exchanged": exchanged("arg7_1", dim=1),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_never_proved(qwen2: Job, name: str) -> None:
    mutant = MUTANTS[name](qwen2)
    assert mutant != qwen2
    report = refine(mutant, limits=NO_EXECUTION)
    assert report.verdict is Verdict.UNKNOWN
    assert report.outputs[0].reason


@pytest.mark.parametrize("name", ["vocabulary_ends_too_early", "key_heads_exchanged", "rotary_style"])
def test_a_mutant_is_refuted_at_reduced_sizes(qwen2: Job, name: str) -> None:
    report = refine(MUTANTS[name](qwen2))
    assert report.verdict is Verdict.REFUTED
    assert report.counterexample is not None


def test_heads_may_change_ranks_with_their_queries(qwen2: Job) -> None:
    """All parts of the attention exchanged between the ranks: the same function."""
    parts = [exchanged(name, k, k + 1) for name in ("arg3_1", "arg4_1") for k in (0, 2, 4)]
    assert refine(several(*parts, exchanged("arg7_1", dim=1))(qwen2)).verdict is Verdict.PROVED
