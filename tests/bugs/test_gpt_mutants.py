"""One captured GPT layer on two ranks, and everything that a person might get wrong in it: never PROVED.

Each mutant is one change to the parsed graphs (or to the input relation) of ``gpt_tp2_l1``; ``place`` is the operator
of the specification that must be named as the first without a counterpart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.amount import cases
from tantamount import read_job
from tantamount.answers import refine
from tantamount.errors import UserError
from tantamount.ir.graph import Argument, Graph, Node, Ref, references
from tantamount.ir.job import Job
from tantamount.ir.relation import Concat, InputRelation, RankTensor, Shard
from tantamount.ir.types import DType
from tantamount.proof import Options, prove
from tantamount.verdict import Report, Verdict

BOTH = (0, 1)
LIMIT = 12.0  # CPU seconds for one job, failing ones as well: values at reduced shapes, and words for the difference
UNDECIDED = 15.0  # for one of which nothing is refuted: ten alone on a machine, twelve beside another process
Change = Callable[[Node], Node]
Mutation = Callable[[Job], Job]

NAMES_OF_ASSUMPTIONS = [
    "real-arithmetic", "real-arithmetic", "rounded-literals", "dropout", "constants", "index-range", "index-range",
    "domain",
]  # fmt: skip


@cache
def _read(path: Path) -> Job:
    return read_job(path)


@pytest.fixture
def gpt(shared: Path) -> Job:
    return _read(shared / "jobs" / "gpt_tp2_l1" / "job.toml")


# ------------------------------------------------------------------------------------------------ changes to graphs
def edited(graph: Graph, **changes: Change) -> Graph:
    """The graph with some nodes changed; what depends on them keeps its recorded type."""
    assert set(changes) <= set(graph.by_name)
    return replace(graph, nodes=tuple(changes[n.name](n) if n.name in changes else n for n in graph.nodes))


def on(ranks: Sequence[int], **changes: Change) -> Mutation:
    def mutate(job: Job) -> Job:
        graphs = tuple(edited(g, **changes) if rank in ranks else g for rank, g in enumerate(job.implementation))
        assert graphs != job.implementation
        return replace(job, implementation=graphs)

    return mutate


def argument(position: int, value: Argument, *, was: Argument) -> Change:
    """The same node with another positional argument (``was``: what it must have been, so that no mutant is stale)."""

    def change(node: Node) -> Node:
        args = list(node.args)
        assert args[position] == was, (node, args[position])
        args[position] = value
        return replace(node, args=tuple(args))

    return change


def keyword(key: str, value: Argument, *, was: Argument) -> Change:
    def change(node: Node) -> Node:
        assert node.kwargs.get(key) == was, (node, key)
        return replace(node, kwargs={**node.kwargs, key: value})

    return change


def forgotten(wait: str, reduced: str, collective: str) -> Mutation:
    """The collective is not called, on any rank: its operand is used in place of its result."""

    def mutate(job: Job) -> Job:
        graphs: list[Graph] = []
        for graph in job.implementation:
            changed = edited(graph, **{wait: argument(0, Ref(reduced), was=Ref(collective))})
            graphs.append(replace(changed, nodes=tuple(n for n in changed.nodes if n.name != collective)))
        return replace(job, implementation=tuple(graphs))

    return mutate


def exchanged(*names: str) -> Mutation:
    """Rank 0 holds the second half of these weights, rank 1 the first."""

    def mutate(job: Job) -> Job:
        inputs = dict(job.inputs)
        for name in names:
            ((placement,), relation) = job.inputs[name].placements or (None,), job.inputs[name]
            assert isinstance(placement, Shard)
            swapped = Concat((RankTensor(1, name), RankTensor(0, name)), placement.dim)
            inputs[name] = InputRelation(relation.name, None, swapped, (), str(swapped))
        return replace(job, inputs=inputs)

    return mutate


def all_of(*mutations: Mutation) -> Mutation:
    def mutate(job: Job) -> Job:
        for mutation in mutations:
            job = mutation(job)
        return job

    return mutate


def retyped(mutation: Mutation, *changed: str) -> Mutation:
    """The mutation, with the recorded types of what depends on the changed nodes forgotten: they may be others now."""

    def mutate(job: Job) -> Job:
        graphs: list[Graph] = []
        for graph in mutation(job).implementation:
            stale: set[str] = set()
            for node in graph.nodes:
                if node.name in changed or any(ref in stale for ref in references(node)):
                    stale.add(node.name)
            graphs.append(
                replace(graph, nodes=tuple(replace(n, type=None) if n.name in stale else n for n in graph.nodes))
            )
        return replace(job, implementation=tuple(graphs))

    return mutate


SCALE = 0.17677669529663687
VOCABULARY = 49152


@dataclass(frozen=True)
class Mutant:
    name: str
    mutate: Mutation
    place: str  # the specification's operator that is named (or one of two); empty: the output's reason says why
    error: str = ""  # the code of the user error, where the mutant is no valid job


MUTANTS = (
    Mutant("attention_scale", on(BOTH, baddbmm=keyword("alpha", 0.125, was=SCALE)), "baddbmm"),
    Mutant(
        "attention_scale_fifth_digit_rank_1",
        on([1], baddbmm=keyword("alpha", 0.17678669529663687, was=SCALE)),
        "baddbmm",
    ),
    Mutant(
        "attention_scale_fifth_digit_rank_0",
        on([0], baddbmm=keyword("alpha", 0.17678669529663687, was=SCALE)),
        "baddbmm",
    ),
    Mutant(
        "layer_norm_eps",
        on(BOTH, fused_layer_norm_affine_fwd=argument(4, 1e-6, was=1e-05)),
        "fused_layer_norm_affine_fwd",
    ),
    Mutant(
        "layer_norm_eps_rank_1",
        on([1], fused_layer_norm_affine_fwd_1=argument(4, 1e-6, was=1e-05)),
        "fused_layer_norm_affine_fwd_1",
    ),
    Mutant("mask_fill", on(BOTH, masked_fill=argument(2, -1000.0, was=-10000.0)), "masked_fill"),
    Mutant("mask_fill_rank_1", on([1], masked_fill=argument(2, -10001.0, was=-10000.0)), "masked_fill"),
    Mutant("no_all_reduce_of_embedding", forgotten("wait_tensor", "slice_scatter", "all_reduce"), "index"),
    Mutant("no_all_reduce_of_maximum", forgotten("wait_tensor_6", "getitem_20", "all_reduce_1"), "max_1"),
    Mutant(
        "no_all_reduce_of_predicted_logits",
        forgotten("wait_tensor_7", "view_30", "all_reduce_2"),
        "index_1 index_put_1",
    ),
    Mutant("no_all_reduce_of_denominator", forgotten("wait_tensor_8", "sum_1", "all_reduce_3"), "sum_1"),
    Mutant("sum_made_max_of_embedding", on(BOTH, all_reduce=argument(1, "max", was="sum")), "index"),
    Mutant("sum_made_max_of_denominator", on(BOTH, all_reduce_3=argument(1, "max", was="sum")), "sum_1"),
    Mutant("reduce_scatter_avg", on(BOTH, reduce_scatter_tensor=argument(1, "avg", was="sum")), "mm_1"),
    Mutant("reduce_scatter_1_avg", on(BOTH, reduce_scatter_tensor_1=argument(1, "avg", was="sum")), "mm_3"),
    Mutant(
        "rank_1_takes_the_half_of_rank_0",
        on([1], slice_4=lambda n: replace(n, args=(n.args[0], 0, 0, 768))),
        "native_dropout",
    ),
    Mutant("vocabulary_offset_0", on([1], sub=argument(1, 0, was=VOCABULARY)), "index"),
    Mutant("vocabulary_lower_bound_0", on([1], lt=argument(1, 0, was=VOCABULARY)), ""),
    Mutant("target_offset_0", on([1], sub_2=argument(1, 0, was=VOCABULARY)), "index_1 index_put_1"),
    Mutant("target_lower_bound_0", on([1], lt_1=argument(1, 0, was=VOCABULARY)), ""),
    Mutant(
        "layer_norm_weights_exchanged",
        on(
            BOTH,
            fused_layer_norm_affine_fwd=argument(1, Ref("primals_8"), was=Ref("primals_2")),
            fused_layer_norm_affine_fwd_1=argument(1, Ref("primals_2"), was=Ref("primals_8")),
        ),
        "fused_layer_norm_affine_fwd",
    ),
    Mutant("final_divisor", on(BOTH, div_2=argument(1, 2, was=1)), "div_1 div_2"),
    Mutant("final_divisor_rank_1", on([1], div_2=argument(1, 2, was=1)), "div_1 div_2"),
    Mutant("beta", on(BOTH, baddbmm=keyword("beta", 1.0, was=0.0)), "baddbmm"),
    Mutant("dropout_p_rank_1", on([1], native_dropout_2=argument(1, 0.2, was=0.1)), "native_dropout_2"),
    Mutant("dropout_p", on(BOTH, native_dropout_3=argument(1, 0.2, was=0.1)), "native_dropout_3"),
    Mutant("dropout_p_1", on(BOTH, native_dropout_2=argument(1, 1.0, was=0.1)), "native_dropout_2"),
    Mutant("dropout_p_1_rank_1", on([1], native_dropout=argument(1, 1.0, was=0.1)), "native_dropout"),
    Mutant("dropout_off_rank_1", on([1], native_dropout_1=argument(2, False, was=True)), "native_dropout_1"),
    Mutant(
        "loss_mask_to_integers",
        retyped(on(BOTH, _to_copy_4=keyword("dtype", DType.INT64, was=DType.FLOAT32)), "_to_copy_4"),
        "_to_copy_4 mul",
    ),
    Mutant("softmax_dimension", on(BOTH, _softmax=argument(1, -2, was=-1)), "_softmax"),
    Mutant("gelu_tanh", on(BOTH, gelu=keyword("approximate", "tanh", was=None)), "gelu"),
    Mutant("gelu_tanh_rank_1", on([1], gelu=keyword("approximate", "tanh", was=None)), "gelu"),
    Mutant(
        "key_and_value_exchanged",
        on(BOTH, getitem_6=argument(1, 2, was=1), getitem_7=argument(1, 1, was=2)),
        "baddbmm split_with_sizes",
    ),
    Mutant("shards_of_one_weight_exchanged", exchanged("primals_10"), "mm_2 add_4"),
    Mutant("shards_of_weight_and_bias_exchanged", exchanged("primals_10", "primals_11"), "mm_3"),
    Mutant("collective_size", on(BOTH, all_gather_into_tensor=argument(1, 4, was=2)), "", "operator-types"),
    Mutant("collective_of_an_unknown_group", on(BOTH, all_reduce=argument(2, "13", was="12")), "", "group-unknown"),
    Mutant(
        "collectives_in_another_order", on([1], all_reduce_3=argument(1, "max", was="sum")), "", "collective-mismatch"
    ),
)


# The same mistake as another one's, at another place or on the other ranks.
AGAIN = {
    "attention_scale_fifth_digit_rank_0", "layer_norm_eps", "mask_fill_rank_1", "no_all_reduce_of_denominator",
    "sum_made_max_of_denominator", "reduce_scatter_avg", "target_offset_0", "target_lower_bound_0",
    "final_divisor_rank_1", "dropout_p", "dropout_p_1_rank_1", "gelu_tanh", "shards_of_one_weight_exchanged",
}  # fmt: skip
_JOBS = [mutant for mutant in MUTANTS if not mutant.error]
WRONG = cases([m for m in _JOBS if m.name not in AGAIN], [m for m in _JOBS if m.name in AGAIN])


# Over the reals exp(x - m) / sum exp(x - m) is the same for every m that all ranks agree in.
HARMLESS = tuple(
    Mutant(f"max_made_{name}", on(BOTH, all_reduce_1=argument(1, name, was="max")), "") for name in ("sum", "min")
)


def check(job: Job, limit: float = LIMIT, **options: Any) -> Report:
    """Refine, within bounded time."""
    start = time.process_time()
    report = refine(job, **options)
    assert time.process_time() - start < limit, {k: round(v, 2) for k, v in report.statistics.seconds.items()}
    return report


def is_proved(report: Report, relation: str = "div_2 = Replicate()") -> None:
    assert report.verdict is Verdict.PROVED
    assert [str(output.relation) for output in report.outputs] == [relation]
    assert report.exit_code == 0


VIEWS = (  # and what does nothing to a tensor of a specification, whose groups are one rank
    "getitem",
    "aten.view.default",
    "aten.transpose.int",
    "aten.clone.default",
    "aten.copy.default",
    "aten.t.default",
    "_c10d_functional.all_reduce.default",
    "_c10d_functional.wait_tensor.default",
)


def users_of(graph: Graph, name: str) -> set[str]:
    """What uses a tensor, through views of it."""
    found: set[str] = set()
    pending = [name]
    while pending:
        for user in graph.users[pending.pop()]:
            found.add(user)
            if graph.by_name[user].target in VIEWS:
                pending.append(user)
    return found


def read_by(graph: Graph, name: str) -> set[str]:
    """What an operator reads, through views of it."""
    found: set[str] = set()
    pending = list(references(graph.by_name[name])) if name in graph.by_name else []
    while pending:
        one = pending.pop()
        found.add(one)
        if graph.by_name[one].target in VIEWS:
            pending.extend(references(graph.by_name[one]))
    return found


def base(graph: Graph, name: str) -> str:
    """The operator itself, for an item of several results."""
    while graph.by_name[name].target == "getitem":
        name = next(iter(references(graph.by_name[name])))
    return name


# ------------------------------------------------------------------------------------------------ what is right
@pytest.mark.parametrize("name", ["gpt_tp2_l1", "gpt_tp4_l1", "gpt_tp2_l2"])
@pytest.mark.parametrize("fold", [True, False])
def test_captured_layers_are_proved(shared: Path, name: str, fold: bool) -> None:
    report = check(_read(shared / "jobs" / name / "job.toml"), fold=fold)
    is_proved(report)
    assert report.statistics.folded is fold
    assert [a.name for a in report.assumptions] == NAMES_OF_ASSUMPTIONS


@pytest.mark.parametrize(
    "names", [("primals_10", "primals_11", "primals_12"), ("primals_4", "primals_5", "primals_6")], ids=["mlp", "heads"]
)
def test_weights_of_a_block_may_change_ranks_together(gpt: Job, names: tuple[str, ...]) -> None:
    is_proved(check(exchanged(*names)(gpt)))


def test_the_maximum_may_be_any_number_that_ranks_agree_in(gpt: Job) -> None:
    for mutant in HARMLESS:
        report = check(mutant.mutate(gpt), limit=UNDECIDED)
        if report.verdict is Verdict.REFUTED:  # a label that no rank has is worth 0, whatever all logits are shifted by
            assert report.counterexample is not None
            labels, table = (report.counterexample.inputs[name] for name in ("primals_21", "primals_1"))
            assert np.max(labels) >= len(table), mutant.name  # type: ignore[arg-type]
            continue
        assert all(output.reason for output in report.outputs if output.verdict is Verdict.UNKNOWN)


def test_strict_refuses_what_the_job_assumes(gpt: Job) -> None:
    report = check(gpt, strict=True)
    assert report.verdict is Verdict.UNKNOWN
    assert {"dropout", "constants"} <= set(report.refused)


# ------------------------------------------------------------------------------------------------ what is wrong
def test_what_is_left_out_has_a_name() -> None:
    assert {mutant.name for mutant in _JOBS} > AGAIN


@pytest.mark.parametrize("mutant", WRONG, ids=lambda m: m.name)
def test_a_mutant_is_never_proved(gpt: Job, mutant: Mutant) -> None:
    report = check(mutant.mutate(gpt))
    assert report.verdict in (Verdict.UNKNOWN, Verdict.REFUTED)
    assert report.exit_code in (1, 3)
    (output,) = report.outputs
    assert output.reason
    if not mutant.place:
        assert "was not shown to lie in 0..49152" in output.reason or report.verdict is Verdict.REFUTED
        return
    assert report.mismatch is not None
    found = base(gpt.specification, report.mismatch.specification)
    # the operator, or the first that needs it to be right, or what it reads: ranks may read the wrong part of that
    named = mutant.place.split()
    users = (base(gpt.specification, u) for place in named for u in users_of(gpt.specification, place))
    places = {*named, *users, *(name for place in named for name in read_by(gpt.specification, place))}
    if (
        mutant.name != "layer_norm_weights_exchanged"
    ):  # two mistakes at once: another operator is blamed than they are at
        assert found in places, (found, report.mismatch.difference)
    assert report.mismatch.difference
    assert report.mismatch.specification_source is not None or gpt.specification.by_name[found].op == "input"


@pytest.mark.parametrize("mutant", _JOBS[::6], ids=lambda m: m.name)
def test_a_mutant_is_never_proved_rank_by_rank(gpt: Job, mutant: Mutant) -> None:
    """By the proof alone, with all its effort: no counterexample keeps it from going on."""
    proof = prove(mutant.mutate(gpt), Options(fold=False))
    assert not proof.folded
    (output,) = proof.check_twice()
    assert output.verdict is Verdict.UNKNOWN
    assert output.reason


def test_a_mutant_is_refuted_rank_by_rank(gpt: Job) -> None:
    report = check(next(m for m in MUTANTS if m.name == "final_divisor_rank_1").mutate(gpt), fold=False)
    assert not report.statistics.folded
    assert report.verdict is Verdict.REFUTED


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.error], ids=lambda m: m.name)
@pytest.mark.parametrize("fold", [None, False])
def test_a_mutant_that_is_no_program(gpt: Job, mutant: Mutant, fold: bool | None) -> None:
    with pytest.raises(UserError) as caught:
        check(mutant.mutate(gpt), fold=fold)
    assert caught.value.code == mutant.error
    assert "rank" in caught.value.place
    assert caught.value.found
    assert caught.value.needed


def test_without_the_dropout_assumption_nothing_is_proved(gpt: Job) -> None:
    report = check(replace(gpt, assume=replace(gpt.assume, dropout=False)), UNDECIDED)
    assert report.exit_code in (1, 3)


def test_without_a_value_for_constants_the_job_is_refused(gpt: Job) -> None:
    with pytest.raises(UserError) as caught:
        check(replace(gpt, assume=replace(gpt.assume, constants=None)))
    assert caught.value.code == "constant-missing"


def test_a_placement_that_does_not_fit_is_a_user_error(shared: Path, tmp_path: Path) -> None:
    folder = shared / "jobs" / "gpt_tp2_l1"
    for path in folder.glob("*.json.gz"):
        (tmp_path / path.name).symlink_to(path)
    job = (folder / "job.toml").read_text()
    assert 'primals_6 = "Shard(1)"' in job
    (tmp_path / "job.toml").write_text(job.replace('primals_6 = "Shard(1)"', 'primals_6 = "Shard(0)"'))
    with pytest.raises(UserError) as caught:
        read_job(tmp_path / "job.toml", allow_outside=True)
    assert caught.value.code == "job-relation-shape"
    assert "primals_6" in caught.value.place
