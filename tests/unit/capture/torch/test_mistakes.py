"""What a user reads after a typical mistake."""

from __future__ import annotations

import functools
import typing
from collections import UserDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tantamount as tt
from tantamount.errors import UserError

torch = pytest.importorskip("torch", reason="captures need PyTorch")
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module  # noqa: E402

PLAN = {"up": ColwiseParallel(), "down": RowwiseParallel()}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


X = torch.ones(4, 8)


@pytest.fixture(autouse=True)
def no_process_group() -> Iterator[None]:
    yield
    assert not dist.is_initialized()


def error(f: Callable[[], Any]) -> tt.UserError:
    with pytest.raises(tt.UserError) as problem:
        f()
    return problem.value


def item(model: nn.Module) -> Callable[..., Any]:
    def step(x: torch.Tensor) -> float:
        return model(x).mean().item()

    return step


def branch(model: nn.Module) -> Callable[..., Any]:
    def step(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).mean()
        if loss > 0:
            return loss
        return -loss

    return step


@pytest.mark.parametrize(("step", "line"), [(item, "return model(x).mean().item()"), (branch, "if loss > 0:")])
def test_a_course_that_depends_on_values(step: Callable[[nn.Module], Any], line: str) -> None:
    found = error(lambda: tt.capture(step(Model()), (X,)))
    assert found.code == "capture"
    assert line in found.place
    assert "does not depend on the values" in found.needed
    assert ".item()" in found.hint


@pytest.mark.parametrize(
    ("args", "place", "needed"),
    [(X, "args", "a tuple of arguments"), ((torch.ones(4, 7),), "self.up(x)", "runs on fake tensors")],
)
def test_arguments_that_do_not_fit(args: Any, place: str, needed: str) -> None:
    found = error(lambda: tt.capture(Model(), args))
    assert found.code == "capture"
    assert place in found.place
    assert needed in found.needed


def test_a_module_of_another_rank() -> None:
    model = Model()

    def build(rank: int) -> Any:
        fully_shard(model, mesh=init_device_mesh("cpu", (2,), mesh_dim_names=("dp",)))
        return model, (X[:2],)

    found = error(lambda: tt.capture_ranks(build, 2))
    assert found.code == "capture-build"
    assert "build(1)" in found.place
    assert "only be applied to a module once" in found.found
    assert "new module inside build" in found.hint


def parallel(shape: tuple[int, ...], names: tuple[str, ...] | None, part: str | None) -> Callable[[int], Any]:
    def build(rank: int) -> Any:
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
        return parallelize_module(Model(), mesh[part] if part else mesh, PLAN, src_data_rank=None), (X,)

    return build


def test_meshes_without_names_or_of_another_size() -> None:
    unnamed = error(lambda: tt.capture_ranks(parallel((2, 2), None, "tp"), 4))
    assert "mesh_dim_names" in unnamed.hint
    large = error(lambda: tt.capture_ranks(parallel((4,), ("tp",), None), 2))
    assert "second argument of capture_ranks" in large.hint
    assert error(lambda: tt.capture_ranks(parallel((2,), ("tp",), None), 0)).code == "capture-mesh"


def test_the_mesh_that_a_part_was_taken_from_is_found() -> None:
    ranks = tt.capture_ranks(parallel((2, 2), ("dp", "tp"), "tp"), 4)
    assert dict(ranks.mesh.axes) == {"dp": 2, "tp": 2}
    assert tt.refine(tt.capture(Model(), (X,)), ranks).verdict is tt.Verdict.PROVED


def test_a_process_group_that_is_there_already() -> None:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        found = error(lambda: tt.capture_ranks(parallel((2,), ("tp",), None), 2))
    finally:
        dist.destroy_process_group()
    assert found.code == "capture-distributed"
    assert "destroy_process_group" in found.hint


def test_ddp_is_refused_with_the_way_to_do_it() -> None:
    def build(rank: int) -> Any:
        return nn.parallel.DistributedDataParallel(Model()), (X,)

    found = error(lambda: tt.capture_ranks(build, 2))
    assert found.code == "capture-ddp"
    assert "out of sight" in found.found
    assert "dist.all_reduce(p.grad" in found.hint


def test_parameters_of_modules_that_nobody_named() -> None:
    found = error(lambda: tt.capture({"f": Model()}["f"].forward.__func__, (Model(), X)))  # a module as an argument
    assert found.code == "capture-parameter"
    assert "modules=" in found.hint


class Trainer:
    def __init__(self) -> None:
        self.model = Model()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self, x: torch.Tensor) -> torch.Tensor:
        loss = self.model(x).mean()
        loss.backward()
        self.optimizer.step()
        return loss


def test_modules_and_optimizers_of_an_object_are_found() -> None:
    found = tt.capture(Trainer().step, (X,))
    assert {output.name for output in found.graph.outputs} >= {"output", "new up.weight", "grad up.weight"}


def test_what_is_missing_is_listed_with_what_ranks_have() -> None:
    ranks = tt.capture_ranks(lambda rank: (nn.Linear(8, 4), (X,)), 2)
    found = error(lambda: tt.refine(tt.capture(Model(), (X,)), ranks))
    assert found.code == "capture-relation"
    assert "up.weight: float32[16, 8], on no rank" in found.found
    assert "Rank 0 has weight, bias" in found.found


QUANTISED: dict[str, Callable[..., Any]] = {
    "there and back": lambda x: torch.quantize_per_tensor(x, 0.1, 3, torch.quint8).dequantize(),
    "its integers": lambda x: torch.quantize_per_tensor(x, 0.1, 3, torch.qint8).int_repr(),
    "by channel": lambda x: torch.quantize_per_channel(x, torch.ones(4), torch.zeros(4), 0, torch.qint8).dequantize(),
    "dynamic": lambda x: torch.quantize_per_tensor_dynamic(x, torch.qint8, False).dequantize(),
}


@pytest.mark.parametrize("name", [*QUANTISED, "a layer"])
@pytest.mark.filterwarnings("ignore")
def test_tensors_that_carry_a_scale_are_refused_with_the_way_to_write_them(name: str) -> None:
    program = QUANTISED.get(name) or torch.ao.nn.quantized.dynamic.Linear(8, 8)
    found = error(lambda: tt.capture(program, (X,)))
    assert found.code == "capture-quantised"
    assert "quantized_decomposed.quantize_per_tensor" in found.hint
    assert found.place


@pytest.mark.filterwarnings("ignore")
def test_the_way_to_write_them_is_captured() -> None:
    import torch.ao.quantization.fx._decomposed

    operators = torch.ops.quantized_decomposed

    def program(x: torch.Tensor) -> torch.Tensor:
        whole = operators.quantize_per_tensor(x, 0.1, 3, 0, 255, torch.uint8)
        return operators.dequantize_per_tensor(whole, 0.1, 3, 0, 255, torch.uint8)

    found = tt.capture(program, (X,))
    assert tt.refine(found, found).verdict is tt.Verdict.PROVED


def _stepping(optimizer: Callable[..., Any]) -> Any:
    model = nn.Linear(8, 4)
    update = optimizer(model.parameters())

    def step(x: torch.Tensor) -> torch.Tensor:
        update.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        update.step()
        return loss

    return tt.capture(step, (X,), modules={"": model}, optimizers=[update])


def test_an_optimizer_that_computes_its_rate_from_its_steps() -> None:
    """Adagrad divides its rate by a number that PyTorch takes out of the step count."""
    decaying = lambda lr: lambda p: torch.optim.Adagrad(p, lr=lr, lr_decay=0.1)  # noqa: E731
    each = lambda p: torch.optim.Adagrad(p, lr=0.01, lr_decay=0.1, foreach=False)  # noqa: E731
    assert tt.refine(_stepping(decaying(0.01)), _stepping(each)).proved
    assert tt.refine(_stepping(decaying(0.01)), _stepping(decaying(0.02))).verdict is tt.Verdict.REFUTED


def test_an_optimizer_with_a_closure() -> None:
    found = error(lambda: _stepping(torch.optim.LBFGS))
    assert found.code == "capture-state"
    assert "LBFGS" in found.place
    assert "closure" in found.hint


def test_parameters_without_a_shape() -> None:
    found = error(lambda: tt.capture(nn.LazyLinear(3), (X,)))
    assert found.code == "capture-state"
    assert "no shape yet" in found.found


def test_a_higher_order_operator() -> None:
    found = error(lambda: tt.capture(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)), (X,)))
    assert found.code == "capture"
    assert "torch.where" in found.hint


def test_a_kernel_that_reads_memory() -> None:
    """What a launcher of kernels raises when it is given tensors that have no memory."""

    def launch(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    found = error(lambda: tt.capture(launch, (X,)))
    assert found.code == "capture"
    assert "tt.opaque(" in found.hint
    assert "tt.definition(" in found.hint


def test_an_operator_of_a_library_is_to_be_declared() -> None:
    from tantamount.ops.table import lookup

    found = error(lambda: lookup("mine.kernel.default", "here"))
    assert found.code == "operator-unknown"
    assert 'tt.opaque("mine.kernel.default"' in found.hint


def test_results_in_containers_that_pytorch_does_not_know() -> None:
    """Nothing that is returned is left out unseen."""
    import collections
    import types

    class Pair(tuple[torch.Tensor, ...]):
        """Which no pytree knows."""

    def program(x: torch.Tensor) -> object:
        table = types.SimpleNamespace(a=collections.UserDict(b=x * 4))
        return x * 2, [Pair((x * 3,)), table]

    graph = tt.capture(program, (torch.zeros(2),)).graph
    assert [output.name for output in graph.outputs] == ["0", "1.0.0", "1.1.a.b"]


class Holder:
    """A cache, say, that knows how often it was used."""

    def __init__(self, x: torch.Tensor) -> None:
        self.kept, self.used = [x], 3


def test_what_an_object_holds_that_is_returned_is_a_result() -> None:
    first, other = (tt.capture(lambda x, k=k: (x * 2, Holder(x * k)), (torch.zeros(2),)) for k in (3, 4))
    assert [output.name for output in first.graph.outputs] == ["0", "1.kept.0"]
    assert tt.compare(first, other, accept=["relation-guessed"]).verdict is tt.Verdict.REFUTED


class Slotted:
    __slots__ = ("kept",)

    def __init__(self, kept: object) -> None:
        self.kept = kept


def test_objects_in_slots_and_deep_inside_are_opened() -> None:
    def program(x: torch.Tensor) -> object:
        deep: object = x * 3
        for _ in range(6):
            deep = Slotted(deep)
        return x * 2, deep

    graph = tt.capture(program, (torch.zeros(2),)).graph
    assert [output.name for output in graph.outputs] == ["0", "1" + 6 * ".kept"]


@pytest.mark.parametrize(
    ("holding", "kind"),
    [
        (lambda x: {x}, "set"),
        (lambda x: iter([x]), "list_iterator"),
        (lambda x: ValueError(x), "ValueError"),
        (lambda x: functools.partial(print, x), "partial"),
    ],
)
def test_a_tensor_in_what_does_not_show_it_is_refused(holding: Callable[[torch.Tensor], object], kind: str) -> None:
    with pytest.raises(UserError) as error:
        tt.capture(lambda x: (x * 2, holding(x * 3)), (torch.zeros(2),))
    assert error.value.found == f"a tensor in a result of type {kind}"


@pytest.mark.parametrize(
    ("number", "other"),
    [(3, 4), (True, False), (1.5, 1.25), (1j, 2j), (np.float32(3), np.float32(4)), (np.arange(3), np.arange(3) * 2)],
)
def test_numbers_that_are_returned_are_results(number: complex, other: complex) -> None:
    first, same, differs = (tt.capture(lambda x, k=k: {"y": x, "n": k}, (X,)) for k in (number, number, other))
    assert {output.name for output in first.graph.outputs} == {"y", "n"}
    assert tt.compare(first, same, accept=["relation-guessed"]).proved
    assert tt.compare(first, differs, accept=["relation-guessed"]).verdict is tt.Verdict.REFUTED
    with pytest.raises(UserError, match="an array of NumPy of type <U1"):
        tt.capture(lambda x: (x, np.array(["a"])), (X,))
    with pytest.raises(UserError, match="a masked array of NumPy"):
        tt.capture(lambda x: (x, np.ma.array([1, 2], mask=[False, True])), (X,))
    with pytest.raises(UserError, match="71 bits"):
        tt.capture(lambda x: (x, 2**70), (X,))


def test_results_in_a_dataclass() -> None:
    from dataclasses import dataclass

    @dataclass
    class Output:
        logits: torch.Tensor
        loss: torch.Tensor

    program = tt.capture(lambda x: Output(x * 2, x.sum()), (X,))
    assert [output.name for output in program.graph.outputs] == ["logits", "loss"]


def test_random_numbers_of_which_nothing_is_said() -> None:
    """One program against itself differs in its draws, unless these are said to be the same."""
    noisy, more = (tt.capture(lambda x, k=k: x + k * torch.rand_like(x), (X,)) for k in (1, 2))
    found = tt.refine(noisy, noisy)
    assert found.verdict is tt.Verdict.UNKNOWN
    assert any('{"dropout": "same mask"}' in note for note in found.notes)
    assert tt.refine(noisy, noisy, assume={"dropout": "same mask"}).proved
    wrong = tt.refine(noisy, more)
    assert wrong.verdict is tt.Verdict.REFUTED
    assert wrong.mismatch is not None
    assert "multiplies by 2" in wrong.mismatch.headline
    assert any("differ even where" in note for note in wrong.notes)


def test_rows_that_are_sent_by_counts_of_data() -> None:
    """Refused with what to write instead."""

    def exchange(x: torch.Tensor, to: torch.Tensor) -> torch.Tensor:
        send = (to[:, None] == torch.arange(2)).sum(0)
        return x.split(send.tolist())[0]

    with pytest.raises(UserError) as caught:
        tt.capture(exchange, (torch.ones(4, 3), torch.zeros(4, dtype=torch.int64)))
    assert "choose by a mask" in (caught.value.hint or "")


class Private:
    __slots__ = ("__kept",)

    def __init__(self, kept: object) -> None:
        self.__kept = kept


class Listed(list[torch.Tensor]):
    """A list with an attribute of its own."""

    extra: torch.Tensor


class Named(typing.NamedTuple("Named", [("x", torch.Tensor)])):
    """A named tuple with an attribute of its own, which PyTorch takes for a named tuple."""

    extra: torch.Tensor


def beside(x: torch.Tensor, extra: torch.Tensor, kind: type[Any]) -> object:
    found = kind([x]) if kind is Listed else kind(x)
    found.extra = extra
    return found


@pytest.mark.parametrize(
    ("holding", "names"),
    [
        (lambda x, k: (x, Private(x * k)), ["0", "1._Private__kept"]),
        (lambda x, k: beside(x, x * k, Listed), ["0", "extra"]),
        (lambda x, k: (x, np.array([k, 1.0])), ["0", "1"]),
        (lambda x, k: (x, np.fromiter([x * k], dtype=object)), ["0", "1.0"]),
        (lambda x, k: (x, {k, 1.0}), ["0", "1.0", "1.1"]),
        (lambda x, k: (x, x.shape[0] * k), ["0", "1"]),
    ],
)
def test_results_beside_others_are_results(holding: Any, names: list[str]) -> None:
    """Each of these was left out, so that programs that differ in nothing else were PROVED."""

    def captured(k: int) -> Any:
        return tt.capture(lambda x: holding(x, k), (torch.zeros(4),), dynamic={"x": {0: "N"}})

    first, other = captured(2), captured(3)
    assert [output.name for output in first.graph.outputs] == names
    assert tt.refine(first, other).verdict is tt.Verdict.REFUTED


@pytest.mark.parametrize(
    ("holding", "found"),
    [
        (lambda x: beside(x, x * 3, Named), "a tensor beside what a result of type Named shows"),
        (lambda x: (x, {x * 3: 1}), "a tensor as a key of a table"),
        (lambda x: (x, lambda: x * 3), "a tensor in a result of type function"),
        (lambda x: (x, nn.ParameterList([x * 3])), "a tensor in a result of type ParameterList"),
    ],
)
def test_results_that_would_be_left_out_are_refused(holding: Any, found: str) -> None:
    with pytest.raises(UserError) as error:
        tt.capture(holding, (torch.zeros(2),))
    assert error.value.found == found


@pytest.mark.parametrize(
    ("given", "read", "name"),
    [
        (Holder(X), lambda h: h.kept[0], "h.kept.0"),
        (Private(X), lambda h: h._Private__kept, "h._Private__kept"),
        (UserDict(ids=X), lambda h: h["ids"], "h.ids"),
        (beside(X, X.clone(), Listed), lambda h: h.extra, "h.extra"),
    ],
)
def test_tensors_inside_arguments_are_inputs(given: Any, read: Any, name: str) -> None:
    """They were numbers on record: what is true of ones alone, that they are their squares, was PROVED."""
    first, other = tt.capture(read, (given,)), tt.capture(lambda h: read(h) * read(h), (given,))
    assert name in [node.name for node in first.graph.inputs]
    assert tt.refine(first, other).verdict is tt.Verdict.REFUTED


@pytest.mark.parametrize("given", [{X}, {X: 1}, iter([X]), beside(X, X.clone(), Named)])
def test_tensors_that_arguments_do_not_show_are_refused(given: Any) -> None:
    with pytest.raises(UserError) as error:
        tt.capture(lambda h: X.clone(), (given,))
    assert error.value.hint == "pass the tensors themselves"
