"""What nnScaler writes beside plain segments and messages: broadcasts, contexts, forward passes without a step,
buffers, parts of the optimizer's state over some of the ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.generated_plans import pipeline, tensor_parallel, write_modules
from tantamount.answers import verify_plan
from tantamount.capture.nnscaler.layout import groups_of, mesh_of, unit_of
from tantamount.capture.nnscaler.modules import read_folder
from tantamount.capture.nnscaler.steps import Steps, follow
from tantamount.errors import UserError
from tantamount.limits import Limits
from tantamount.plan.result import PlanReport
from tantamount.verdict import Verdict

SILU = "torch.nn.functional.silu(linear_3, inplace=False)"
SUM = "sum_10 = torch.sum(pow_9)"


def _verified(folder: Path, model: str = "with_sample") -> PlanReport:
    pytest.importorskip("torch")
    return verify_plan(folder, model=f"{folder / 'tiny_model.py'}:{model}")


def _followed(folder: Path) -> Steps:
    return follow(read_folder(folder, Limits()))


def _edited(folder: Path, old: str, new: str) -> Path:
    """The plan with tensor parallelism, a text replaced in all modules."""
    return write_modules(folder, tensor_parallel, 4, dict.fromkeys(range(4), (old, new)))


# ------------------------------------------------------------------------------------------------ losses for all stages
def _broadcast(rank: int, source: int = 1) -> str:
    """The pipeline, with losses that all stages are given at once."""
    own = "sum_10" if rank == 1 else "()"
    text = pipeline(rank)
    old = next(line for line in text.splitlines() if "shape=()" in line)
    call = f"broadcast({own}, shape=(), dtype=torch.float32, src={source}, ranks=[0, 1])"
    return text.replace(old, f"        sum_10 = nnscaler.runtime.adapter.{call}")


def test_a_broadcast_carries_the_microbatch_of_its_source(tmp_path: Path) -> None:
    report = _verified(write_modules(tmp_path / "plan", _broadcast, 2))
    assert report.verdict is Verdict.PROVED, report.text()
    modules = read_folder(tmp_path / "plan", Limits())
    assert not any(map(groups_of, modules))  # the ranks need not be those along axes of a mesh
    order = "sum_11 = nnscaler.runtime.executor.aexecute(model.adapter4, *(sum_11"
    swapped = "sum_11 = nnscaler.runtime.executor.aexecute(model.adapter4, *(sum_10"
    wrong = _followed(write_modules(tmp_path / "twice", _broadcast, 2, {1: (order, swapped)})).wrong
    assert "does not do the same" in " ".join(wrong)


def test_a_broadcast_from_another_rank(tmp_path: Path) -> None:
    folder = write_modules(tmp_path / "plan", _broadcast, 2, {1: ("src=1, ranks", "src=0, ranks")})
    assert "calls that meet are not the same" in " ".join(_followed(folder).wrong)
    folder = write_modules(tmp_path / "none", lambda rank: _broadcast(rank, 2), 2)
    assert "from a rank that is not among its ranks" in " ".join(_followed(folder).wrong)
    folder = write_modules(tmp_path / "empty", lambda rank: _broadcast(rank, 0), 2)
    assert "rank 0 is to send what it is not given" in " ".join(_followed(folder).wrong)


# ------------------------------------------------------------------------------------------------ statements
@pytest.mark.parametrize(
    ("context", "verdict"),
    [
        ("torch.autocast(device_type='cuda', dtype=torch.float16, enabled=False, cache_enabled=True)", Verdict.PROVED),
        ("torch.no_grad()", Verdict.REFUTED),
        ("torch.autocast(device_type='cuda', dtype=torch.float16, enabled=True, cache_enabled=True)", None),
        ("torch.inference_mode()", None),
    ],
)
def test_contexts(context: str, verdict: Verdict | None, tmp_path: Path) -> None:
    """Without gradients the first layer has none; casts of a device are not seen, and refused."""
    pytest.importorskip("torch")
    folder = _edited(
        tmp_path / "plan", f"        silu_4 = {SILU}", f"        with {context}:\n            silu_4 = {SILU}"
    )
    if verdict is None:
        with pytest.raises(UserError) as raised:
            _verified(folder)
        assert raised.value.code == "plan-nnscaler"
        assert context.partition("(")[0] in raised.value.found
        return
    report = _verified(folder)
    assert report.verdict is verdict, report.text()
    assert verdict is Verdict.PROVED or "grad a.weight" in report.text()


@pytest.mark.parametrize(
    ("new", "right"),
    [
        ("torch.masked_fill(linear_3, linear_3 == 0, 0.0)", None),
        ("torch.where(torch.gt(torch.abs(linear_3), -inf), torch.nn.functional.silu(linear_3), 0.0)", True),
        ("torch.nn.functional.dropout(torch.nn.functional.silu(linear_3), p=0.0, training=self.training)", True),
        ("torch.nn.functional.dropout(torch.nn.functional.silu(linear_3), p=0.5, training=self.training)", None),
        ("torch.mul(torch.nn.functional.silu(linear_3), math.sqrt(1.0))", True),
        ("torch.mul(torch.nn.functional.silu(linear_3), math.sqrt(4.0))", False),
        ("torch.nn.functional.silu(linear_3[:, :])", True),
        ("torch.nn.functional.silu(linear_3[0])", False),
        ("torch.nn.functional.silu(linear_3 if True else silu_3)", None),
        ("torch.nn.functional.silu(linear_3 if True else linear_3)", True),
        ("torch._C._nn.gelu(linear_3)", False),
        ("torch.bernoulli(linear_3)", None),
    ],
)
def test_expressions(new: str, right: bool | None, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = _edited(tmp_path / "plan", SILU, new)
    if right is None:
        with pytest.raises(UserError) as raised:
            _verified(folder)
        assert raised.value.code == "plan-nnscaler"
        assert "gencode0.py" in raised.value.place
    else:
        report = _verified(folder)
        assert report.verdict is (Verdict.PROVED if right else Verdict.REFUTED), report.text()


# ------------------------------------------------------------------------------------------------ steps
def _forward(rank: int, loss: str = "sum_10") -> str:
    """A module that has a forward pass and no step."""
    text, _, _ = tensor_parallel(rank).partition("\n\ndef _train_step")
    method, _, _ = text.partition("    def _forward_impl")
    return (
        f"{method}    def _forward_impl(self, data, unused=None):\n"
        "        if unused is not None: raise ValueError('unused')\n"
        f"        sum_10 = self.segment{10 + rank % 2}(data)\n        return {loss}\n"
    )


def test_a_forward_pass_without_a_step(tmp_path: Path) -> None:
    report = _verified(write_modules(tmp_path / "plan", _forward, 4))
    assert report.verdict is Verdict.PROVED, report.text()
    assert any("the training loop clears gradients" in one.text for one in report.assumptions)
    for name, loss in (("other", "data"), ("none", "linear_3")):
        with pytest.raises(UserError) as raised:
            read_folder(write_modules(tmp_path / name, lambda rank, loss=loss: _forward(rank, loss), 4), Limits())
        assert raised.value.code == "plan-nnscaler"
        assert loss in raised.value.found


def test_modules_of_compile(tmp_path: Path) -> None:
    """``nnscaler.compile`` writes no rank, another base class, and a constructor without arguments."""

    def module(rank: int) -> str:
        text = tensor_parallel(rank).replace("module.ParallelModule", "module.CubeModule")
        text = text.replace(f"    rank = {rank}\n", "").replace("async_op=async_op", "async_op=False")
        begins = next(line for line in text.splitlines() if "def __init__" in line)
        return text.replace(begins, "    def __init__(self):").replace("        self._post_init(init_params)\n", "")

    modules = read_folder(write_modules(tmp_path / "plan", module, 4), Limits())
    assert [one.rank for one in modules] == [0, 1, 2, 3]
    assert _verified(tmp_path / "plan").verdict is Verdict.PROVED


APART = """


class Apart(Tiny):
    def forward(self, x, y):
        return super().forward({"x": x, "y": y})


def apart():
    return Apart(), {"y": torch.zeros(2, 3), "x": torch.zeros(2, 3)}


def in_order():
    return Apart(), (torch.zeros(2, 3), torch.zeros(2, 3))
"""


def _arguments(rank: int) -> str:
    text = _forward(rank).replace("self, data_1)", "self, x_2, y_7)")
    for name, key in (("x_2", "x"), ("y_7", "y")):
        text = text.replace(f"        {name} = _operator.getitem(data_1, '{key}')\n", "")
    return text.replace("_forward_impl(self, data, ", "_forward_impl(self, x, y, ").replace("(data)", "(x, y)")


@pytest.mark.parametrize("model", ["apart", "in_order"])
def test_arguments_of_a_forward_pass(model: str, tmp_path: Path) -> None:
    folder = write_modules(tmp_path / "plan", _arguments, 4)
    with (folder / "tiny_model.py").open("a") as file:
        file.write(APART)
    report = _verified(folder, model)
    assert report.verdict is Verdict.PROVED, report.text()


def test_a_step_for_inference_is_refused(tmp_path: Path) -> None:
    backward = "    _ = nnscaler.runtime.executor.backward('segment', (), (sum_10, ), (None, ))\n"
    folder = _edited(tmp_path / "plan", backward, "")
    for path in folder.glob("gencode*.py"):
        lines = [line for line in path.read_text().splitlines() if "aexecute(model.reducer9" not in line]
        path.write_text("\n".join(lines).replace("requires_grad=True", "requires_grad=False"))
    with pytest.raises(UserError) as raised:
        _followed(folder)
    assert raised.value.found == "a step without a backward pass"


def test_a_forward_pass_without_gradients_has_no_backward_pass(tmp_path: Path) -> None:
    call = "model.segment1, *(data_1, ), requires_grad={}"
    folder = write_modules(tmp_path / "plan", pipeline, 2, {0: (call.format("True"), call.format("False"))})
    assert "comes where that of microbatch 1 is due" in " ".join(_followed(folder).wrong)


def test_other_results_than_the_loss_are_not_compared(tmp_path: Path) -> None:
    folder = _edited(tmp_path / "plan", "        return sum_10\n", "        return sum_10, linear_6\n")
    for path in folder.glob("gencode*.py"):
        text = path.read_text().replace(
            "    sum_10 = nnscaler.runtime.executor.fexecute",
            "    sum_10, linear_6 = nnscaler.runtime.executor.fexecute",
        )
        path.write_text(text.replace("    return sum_10\n", "    return sum_10, linear_6\n"))
    report = _verified(folder)
    assert report.verdict is Verdict.PROVED, report.text()
    assert "of what the step returns, the loss is compared; 1 more is not" in report.notes


# ---------------------------------------------------------------------- parameters and buffers
BUFFERS = """


class Scaled(Tiny):
    def __init__(self, width=4):
        super().__init__(width)
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.register_buffer("keep", torch.tensor([True, False, True, True]))
        self.register_buffer("unused", torch.zeros(5))

    def forward(self, data):
        h = F.silu(self.a(data["x"])).masked_fill(~self.keep, 0.0) * self.scale
        return (self.b(h) - data["y"]).pow(2).sum()


def scaled():
    return Scaled(), {"x": torch.zeros(2, 3), "y": torch.zeros(2, 3)}
"""


def _scaled(rank: int, fill: str = "0.0", kept: str = "[True, False, True, True]") -> str:
    tp = rank % 2
    more = f"""
        self.register_parameter('scale_3', torch.nn.Parameter(torch.empty((), dtype=torch.float32)))
        self.add_full_map('scale_3', 3, True, 'scale', (), ..., 1)
        self.register_buffer('keep_4', torch.empty((2,), dtype=torch.bool), persistent=True)
        self.add_full_map('keep_4', 4, False, 'keep', (4,), (slice({2 * tp}, {2 * tp + 2}, None),), 1)
        self.wreducer9"""
    first = rank // 2 * 2
    text = tensor_parallel(rank).replace("\n        self.wreducer9", more, 1)
    text = text.replace(
        "self.wreducer9.add_param(self.a",
        "self.wreducer9.add_param(self.scale_3)\n        self.wreducer9.add_param(self.a",
    )
    scaled = (
        f"        silu_4 = {SILU}\n        inv = torch.bitwise_not(self.keep_4)\n"
        f"        silu_4 = torch.masked_fill(silu_4, inv, {fill})\n"
        f"        scale = nnscaler.runtime.adapter.nn.identity_allreduce(self.scale_3, ranks={[first, first + 1]})\n"
        "        silu_4 = torch.mul(silu_4, scale)\n"
    )
    return text.replace(f"        silu_4 = {SILU}\n", scaled)


def test_numbers_and_buffers(tmp_path: Path) -> None:
    """A parameter of one number, a buffer that is cut and has the model's values, one that nothing uses."""
    pytest.importorskip("torch")
    for name, fill, model, verdict in (
        ("right", "0.0", "scaled", Verdict.PROVED),
        ("wrong", "1.0", "scaled", Verdict.REFUTED),
    ):
        folder = write_modules(tmp_path / name, lambda rank, fill=fill: _scaled(rank, fill), 4)
        with (folder / "tiny_model.py").open("a") as file:
            file.write(BUFFERS)
        report = _verified(folder, model)
        assert report.verdict is verdict, report.text()
        assert any("buffers the values that the model gives them" in one.text for one in report.assumptions)


def test_parts_that_are_not_the_whole(tmp_path: Path) -> None:
    """Both ranks of tp say that they have the first rows of the first layer."""
    first, second = "(slice(0, 2, None), slice(0, 3, None))", "(slice(2, 4, None), slice(0, 3, None))"
    folder = write_modules(tmp_path / "plan", tensor_parallel, 4, dict.fromkeys((1, 3), (second, first)))
    (sentence,) = _followed(folder).wrong
    assert "no rank has a.weight[2:4, 0:3]; a.weight[0:2, 0:3] is on rank 0, 1, 2, 3" in sentence
    line = next(
        k for k, text in enumerate((folder / "gencode3.py").read_text().splitlines(), 1) if "'a.weight'" in text
    )
    assert sentence.startswith(f"{folder / 'gencode3.py'}:{line}: ")
    assert _verified(folder).verdict is Verdict.REFUTED


def test_parts_in_another_order(tmp_path: Path) -> None:
    """The ranks of tp have each other's parts: of both layers, which is right, or of one."""
    cuts = ["(slice({0}, {1}, None), slice(0, 3, None))".format, "(slice(0, 3, None), slice({0}, {1}, None))".format]

    def module(rank: int, layers: int) -> str:
        text = tensor_parallel(rank)
        for cut in cuts[:layers]:
            (old,) = (cut(a, a + 2) for a in (0, 2) if cut(a, a + 2) in text)
            text = text.replace(old, cut(2 if old == cut(0, 2) else 0, 4 if old == cut(0, 2) else 2))
        return text

    right = _verified(write_modules(tmp_path / "right", lambda rank: module(rank, 2), 4))
    assert right.verdict is Verdict.PROVED, right.text()
    wrong = _verified(write_modules(tmp_path / "wrong", lambda rank: module(rank, 1), 4))
    assert wrong.verdict is Verdict.REFUTED, wrong.text()
    assert "a.weight" in wrong.text()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("        self.wreducer9.add_param(self.b_weight_2)\n", "", "calls that meet are not the same"),
        (
            "add_param(self.a_weight_1)\n        self.wreducer9.add_param(self.b_weight_2)",
            "add_param(self.b_weight_2)\n        self.wreducer9.add_param(self.a_weight_1)",
            "calls that meet are not the same",
        ),
    ],
)
def test_a_reducer_sums_the_same_parts_on_all_its_ranks(old: str, new: str, said: str, tmp_path: Path) -> None:
    found = " ".join(_followed(write_modules(tmp_path / "plan", tensor_parallel, 4, {2: (old, new)})).wrong)
    assert said in found
    assert "gencode2.py" in found
    assert "a.weight[0:2, 0:3]" in found


def test_a_reducer_that_averages(tmp_path: Path) -> None:
    report = _verified(_edited(tmp_path / "plan", "reduce_op='sum'", "reduce_op='avg'"))
    assert report.verdict is Verdict.REFUTED, report.text()
    assert "grad a.weight" in report.text()


def test_state_that_is_cut_over_some_of_the_ranks(tmp_path: Path) -> None:
    """Four ranks with other data each, the state cut over two of them: the units are two axes."""

    def module(rank: int) -> str:
        text, whole = tensor_parallel(0), "(slice(0, 4, None), slice(0, 3, None))"
        text = text.replace("rank = 0", f"rank = {rank}").replace("ranks=[0, 2]", "ranks=[0, 1, 2, 3]")
        text = text.replace("(2, 3), dtype", "(4, 3), dtype").replace("(3, 2), dtype", "(3, 4), dtype")
        text = text.replace("(slice(0, 2, None), slice(0, 3, None))", whole)
        text = text.replace("(slice(0, 3, None), slice(0, 2, None))", "(slice(0, 3, None), slice(0, 4, None))")
        for line in text.splitlines():
            if "adapter.nn" in line or "init_group(ranks=[0, 1])" in line:
                text = text.replace(f"{line}\n", "")
        text = text.replace("linear_6, y_7", "linear_5, y_7")
        return text.replace("zero=False, zero_ngroups=1", "zero=True, zero_ngroups=2")

    modules = read_folder(write_modules(tmp_path / "plan", module, 4), Limits())
    reducer = modules[2].reducers["wreducer9"]
    assert (reducer.ranks, reducer.sharers(2)) == ((0, 1, 2, 3), (2, 3))
    assert dict(mesh_of(modules, unit_of(modules)).axes) == {"dp": 2, "dp1": 2}
    pytest.importorskip("torch")
    folder = tmp_path / "plan"
    (folder / "finish.py").write_text(
        "import torch\n\n\nclass Adam:\n"
        "    def optimizer(self, parameters):\n        return torch.optim.Adam(parameters)\n"
    )
    report = verify_plan(folder, model=f"{folder / 'tiny_model.py'}:with_sample", finish=f"{folder / 'finish.py'}:Adam")
    assert report.verdict is Verdict.PROVED, report.text()
    assert len(report.parts) == 2
