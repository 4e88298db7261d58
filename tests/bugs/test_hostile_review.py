"""Programs that were PROVED although they are wrong: each was found by hand, and each must never be proved again."""
# ruff: noqa: E501 - one program per line

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.jobs import job_files
from tantamount import read_job
from tantamount.answers import refine
from tantamount.errors import UserError
from tantamount.verdict import Report, Verdict

REPLICATED = '[inputs]\ndefault = "Replicate()"\n'
MASKS = '[assume]\ndropout = "same mask"\n'
EMBEDDED = "w: float32[4, 3]\n i: int64[4]\n n = aten.mul.Tensor(i, i)\n h = embedding(w, n)\n a = mul(h, 0.0)\n e = embedding(w, i)\n h2 = add(e, a)\n y = relu(w)\n -> y, q=h2"


def _unshifted(call: str) -> list[str]:
    return [
        f"i: int64[4]\n s: float32[4]\n z = zeros([4])\n k = aten.sub.Tensor(i, {4 * rank})\n y = {call}\n -> y"
        for rank in range(2)
    ]


JOBS = {
    # places out of range on a rank: an error, or (negative ones) another element
    "index_put_out_of_range": (
        "i: int64[4]\n s: float32[4]\n z = zeros([8])\n y = aten.index_put.default(z, [i], s, True)\n -> y",
        _unshifted("aten.index_put.default(z, [k], s, True)"),
        REPLICATED,
    ),
    "scatter_add_out_of_range": (
        "i: int64[4]\n s: float32[4]\n z = zeros([8])\n y = aten.scatter_add.default(z, 0, i, s)\n -> y",
        _unshifted("aten.scatter_add.default(z, 0, k, s)"),
        REPLICATED,
    ),
    "index_fill_out_of_range": (
        "i: int64[4]\n s: float32[4]\n z = zeros([8])\n y = aten.index_fill.int_Scalar(z, 0, i, 1.0)\n -> y",
        _unshifted("aten.index_fill.int_Scalar(z, 0, k, 1.0)"),
        REPLICATED,
    ),
    "one_hot_out_of_range": (
        "i: int64[4]\n s: float32[4]\n y = aten.one_hot.default(i, 8)\n -> y",
        _unshifted("aten.one_hot.default(k, 4)"),
        REPLICATED,
    ),
    "index_behind_a_name_of_the_expression": (
        "w: float32[4, 3]\n i: int64[4]\n y = embedding(w, i)\n -> y",
        [EMBEDDED, EMBEDDED],
        REPLICATED + "[outputs]\ny = 'rank(1, \"q\")'",
    ),
    # a mask that is divided by: not a number where it does not hold, whatever it is multiplied by
    "divided_by_a_mask": (
        "x: float32[4]\n m: bool[4]\n f = aten._to_copy.default(m, dtype=float32)\n y = mul(x, f)\n -> y",
        [
            "x: float32[4]\n m: bool[4]\n f = aten._to_copy.default(m, dtype=float32)\n d = div(x, f)\n y = mul(d, f)\n -> y"
        ]
        * 2,
        REPLICATED,
    ),
    # rank 0 drops twice, rank 1 once: the second mask of rank 0 is not its first
    "dropouts_out_of_step": (
        "x: float32[4]\n a, k = native_dropout(x, 0.1, True)\n b, l = native_dropout(x, 0.1, True)\n z = mul(a, a)\n -> z",
        [
            f"x: float32[4]\n a, k = native_dropout(x, {p}, True)\n b, l = native_dropout(x, 0.1, True)\n z = mul(a, b)\n -> z"
            for p in ("0.1", "0.0")
        ],
        REPLICATED + '[outputs]\nz = "rank(0)"\n' + MASKS,
    ),
    # equal elements do not tell which part of the mask a rank uses
    "dropout_of_a_broadcast_tensor": (
        "v: float32[3]\n e = expand(v, [4, 3])\n d, k = native_dropout(e, 0.1, True)\n a = slice(d, 0, 0, 2)\n z = mul(a, 2.0)\n -> z",
        [
            'v: float32[3]\n e = expand(v, [2, 3])\n d, k = native_dropout(e, 0.1, True)\n z = all_reduce(d, "sum", "tp")\n -> z'
        ]
        * 2,
        REPLICATED + MASKS,
    ),
    "dropout_of_a_row_per_rank": (
        "v: float32[3]\n e = expand(v, [2, 3])\n d, k = native_dropout(e, 0.1, True)\n z = sum_dims(d, [0])\n -> z",
        ['v: float32[3]\n d, k = native_dropout(v, 0.1, True)\n z = all_reduce(d, "sum", "tp")\n -> z'] * 2,
        REPLICATED + MASKS,
    ),
    "dropout_of_a_repeated_tensor": (
        "x: float32[3]\n e = cat([x, x])\n d, k = native_dropout(e, 0.1, True)\n a = slice(d, 0, 0, 3)\n z = mul(a, 2.0)\n -> z",
        ['x: float32[3]\n d, k = native_dropout(x, 0.1, True)\n z = all_reduce(d, "sum", "tp")\n -> z'] * 2,
        REPLICATED + MASKS,
    ),
}


@pytest.mark.parametrize("fold", [None, False])
@pytest.mark.parametrize("name", JOBS)
def test_never_proved(name: str, fold: bool | None, tmp_path: Path) -> None:
    specification, implementation, tables = JOBS[name]
    job = read_job(job_files(tmp_path, specification, implementation, tables, {"tp": 2}, {"tp": ("tp",)}))
    assert refine(job, fold=fold).verdict is not Verdict.PROVED


def test_a_name_that_means_another_node_on_another_rank(tmp_path: Path) -> None:
    """Both ranks have a node ``a``, but rank 1 calls another node ``z``: z = Replicate() does not follow from a."""
    ranks = ["x: float32[4]\n a = relu(x)\n -> z=a", "x: float32[4]\n a = relu(x)\n b = tanh(x)\n -> z=b"]
    job = read_job(job_files(tmp_path, "x: float32[4]\n z = relu(x)\n -> z", ranks, REPLICATED, {"tp": 2}, {}))
    relation = refine(job).outputs[0].relation
    assert relation is None or relation.expression == 'rank(0, "z")'


def test_the_same_tensor_dropped_whole_is_paired(tmp_path: Path) -> None:
    """Values that do not tell the place do no harm where the whole tensor is dropped on one rank."""
    program = "v: float32[3]\n e = expand(v, [4, 3])\n d, k = native_dropout(e, 0.1, True)\n -> d"
    job = read_job(job_files(tmp_path, program, [program], REPLICATED + MASKS, {"tp": 1}, {}))
    assert refine(job).verdict is Verdict.PROVED


# ------------------------------------------------------------------------------------------------ captured pairs
def _pair(build: Any, whole: Any, ranks: int = 2, **relations: Any) -> Report:
    import tantamount

    spec, implementation = tantamount.capture(whole[0], whole[1], **whole[2]), tantamount.capture_ranks(build, ranks)
    return refine(spec, implementation, **relations)


def test_a_buffer_that_every_rank_fills_differently_is_not_the_specification_s() -> None:
    """Its name and shape are the same, so it was taken to be replicated, and the ranks' offsets vanished."""
    torch = pytest.importorskip("torch")

    def build(rank: int) -> Any:
        module = torch.nn.Module()
        module.register_buffer("start", torch.tensor(float(rank)))
        module.forward = lambda x: x + module.start
        return module, (torch.randn(2, 4),)

    module, args = build(0)
    with pytest.raises(UserError, match="start, which holds other values on rank 1 than in the specification"):
        _pair(build, (module, args, {}))
    assert _pair(lambda _: build(0), (module, args, {})).verdict is Verdict.PROVED
    assert _pair(build, (module, args, {}), inputs={"start": "Replicate()"}).verdict is Verdict.PROVED


def _training(torch: Any, frozen: bool, detached: bool = False) -> Any:
    """A training step of a linear layer: with a ``frozen`` bias, or one that leaves no gradient."""
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD([model.weight] if frozen else model.parameters(), lr=0.1)

    def step(x: Any) -> None:
        bias = model.bias.detach() if detached else model.bias
        torch.nn.functional.linear(x, model.weight, bias).pow(2).sum().backward()
        optimizer.step()

    return step, (torch.randn(2, 4),), {"modules": model, "optimizers": optimizer}


def test_state_that_the_specification_leaves_as_it_is() -> None:
    """The specification has no output for a frozen parameter, so nothing compared what the ranks made of it."""
    torch = pytest.importorskip("torch")
    report = _pair(lambda _: _training(torch, False), _training(torch, True))
    assert {o.name for o in report.outputs if o.verdict is not Verdict.PROVED} == {"new bias"}
    assert _pair(lambda _: _training(torch, True), _training(torch, True)).verdict is Verdict.PROVED


def test_state_that_one_rank_forgets_to_change() -> None:
    """``new bias = rank(0)`` holds, and rank 1 goes on with the old bias."""
    torch = pytest.importorskip("torch")
    with pytest.raises(UserError, match="none on rank 1, which computes with bias"):
        _pair(lambda rank: _training(torch, False, detached=rank == 1), _training(torch, False))


@pytest.mark.parametrize("reduced", [True, False])
def test_gradients_lie_as_their_parameters_do(reduced: bool) -> None:
    """A sum over data-parallel ranks that is missing fitted the relation that was looked for: a partial one."""
    torch = pytest.importorskip("torch")
    import tantamount

    class Column(torch.nn.Module):
        def __init__(self, columns: int) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(columns, 4))

    def step(columns: int, rows: int, rank: int = -1) -> Any:
        model = Column(columns)
        pairs = [torch.distributed.new_group(ranks) for ranks in ([0, 2], [1, 3])] if rank >= 0 else []

        def run(x: Any) -> None:
            (x @ model.w.t()).pow(2).sum().backward()
            if pairs and reduced:
                torch.distributed.all_reduce(model.w.grad, group=pairs[rank % 2])

        return run, (torch.randn(rows, 4),), {"modules": model}

    run, args, options = step(8, 4)
    spec = tantamount.capture(run, args, **options)
    implementation = tantamount.capture_ranks(lambda rank: step(4, 2, rank), 4, mesh={"dp": 2, "tp": 2})
    inputs = {"w": ["Replicate()", "Shard(0)"], "x": ["Shard(0)", "Replicate()"]}
    assert refine(spec, implementation, inputs=inputs).verdict is (Verdict.PROVED if reduced else Verdict.REFUTED)


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("kind", ["reduced", "sent"])
def test_a_race_with_an_operation_that_has_not_been_waited_for(kind: str, early: bool) -> None:
    """What is started was captured as if it were finished at once."""
    torch = pytest.importorskip("torch")
    dist = torch.distributed

    def reduced(x: Any) -> Any:
        y = x.clone()
        work = dist.all_reduce(y, async_op=True)
        if early:
            return y * 1.0
        work.wait()
        return y * 1.0

    def sent(x: Any) -> Any:
        other = 1 - dist.get_rank()
        y, received = x.clone(), torch.empty_like(x)
        works = [dist.isend(y, other), dist.irecv(received, other)]
        if early:
            y.add_(1.0)
        for work in works:
            work.wait()
        return received + y

    def build(_: int) -> Any:
        return (reduced if kind == "reduced" else sent), (torch.randn(4),)

    whole = lambda x: x * 2.0, (torch.randn(4),), {}
    if early:
        with pytest.raises(UserError, match="before the program has waited for it"):
            _pair(build, whole)
    else:
        assert _pair(build, whole).verdict is Verdict.PROVED


def test_a_tensor_in_a_placement_and_in_an_expression_is_one_tensor(tmp_path: Path) -> None:
    # the two relations used to be about two unrelated tensors: nothing false was proved, but executing crashed
    whole = "a: float32[6]\nb: float32[6]\ny = add(a, b)\n-> y"
    tables = (
        '[inputs]\na = { name = "p", relation = "concat(rank(1), rank(0), dim=0)" }\n'
        'b = { name = "p", placement = "Shard(0)" }\n[outputs]\ny = "Shard(0)"\n'
    )
    right = 'p: float32[3]\ns = all_reduce(p, "sum", "tp")\n-> y=s'
    wrong = "p: float32[3]\ns = add(p, p)\n-> y=s"
    for rank, verdict in ((right, Verdict.PROVED), (wrong, Verdict.REFUTED)):
        path = job_files(tmp_path, whole, [rank, rank], tables, {"tp": 2}, {"tp": ("tp",)})
        for fold in (None, False):
            report = refine(read_job(path), fold=fold)
            assert report.verdict is verdict, str(report)
            assert verdict is Verdict.REFUTED or "input-restriction" in {a.name for a in report.assumptions}
