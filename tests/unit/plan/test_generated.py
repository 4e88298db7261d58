"""Plans as nnScaler generates them: what is right is proved, what is wrong refuted at its place, the rest refused."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from support.generated_plans import pipeline, tensor_parallel, write_modules
from tantamount.answers import verify_plan
from tantamount.capture.nnscaler.layout import layouts, mesh_of, unit_of
from tantamount.capture.nnscaler.modules import read_folder
from tantamount.capture.nnscaler.steps import Steps, follow
from tantamount.capture.orders import Order
from tantamount.errors import UserError
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Replicate, Shard
from tantamount.limits import Limits
from tantamount.plan.result import PlanReport
from tantamount.verdict import Verdict

REDUCE = "_ = nnscaler.runtime.executor.aexecute(model.reducer9, *(), requires_grad=False)"
ALLREDUCE = "linear_6 = nnscaler.runtime.adapter.nn.allreduce_identity(linear_5, ranks=[0, 1])"


def _verified(folder: Path) -> PlanReport:
    pytest.importorskip("torch")
    return verify_plan(folder, model=f"{folder / 'tiny_model.py'}:with_sample")


def _followed(folder: Path) -> Steps:
    return follow(read_folder(folder, Limits()))


def test_tensor_and_data_parallel(tmp_path: Path) -> None:
    report = _verified(write_modules(tmp_path / "plan", tensor_parallel, 4))
    assert report.verdict is Verdict.PROVED, report.text()
    assert report.mesh == {"dp": 2, "tp": 2}
    assert {output.name for output in report.parts[0].outputs} == {"loss", "grad a.weight", "grad b.weight"}
    assert {"data-loader", "nnscaler-runtime"} <= {one.name for one in report.assumptions}


def test_a_pipeline_of_two_microbatches(tmp_path: Path) -> None:
    report = _verified(write_modules(tmp_path / "plan", pipeline, 2))
    assert report.verdict is Verdict.PROVED, report.text()
    assert (report.mesh, report.microbatches, report.stages) == ({"dp": 1, "pp": 2}, 2, 2)


def test_a_sum_that_is_missing_is_found_at_its_line(tmp_path: Path) -> None:
    edits = {
        rank: (f"linear_6 = nnscaler.runtime.adapter.nn.allreduce_identity(linear_5, ranks={ranks})",
               "linear_6 = nnscaler.runtime.function.identity(linear_5)")
        for rank, ranks in enumerate(([0, 1], [0, 1], [2, 3], [2, 3]))
    }  # fmt: skip
    report = _verified(write_modules(tmp_path / "plan", tensor_parallel, 4, edits))
    assert report.verdict is Verdict.REFUTED
    found = report.parts[0].mismatch
    assert found is not None
    assert "sum over tp" in found.headline + found.difference
    assert "gencode0.py" in found.headline + str(found.implementation_source)


def test_gradients_that_nobody_reduces(tmp_path: Path) -> None:
    """The reducer is neither made nor called: every unit has gradients of its own rows."""
    edits: dict[int, tuple[str, str]] = {}
    folder = write_modules(tmp_path / "plan", tensor_parallel, 4, edits)
    for path in folder.glob("gencode*.py"):
        lines = [line for line in path.read_text().splitlines() if "reducer9" not in line and "add_reducer" not in line]
        text = "\n".join(lines).replace("        return\n", "")
        path.write_text(text)
    report = _verified(folder)
    assert report.verdict is Verdict.REFUTED
    assert report.mesh == {"dp": 2, "tp": 2}


@pytest.mark.parametrize(
    ("rank", "old", "new", "said"),
    [
        (0, "(silu_4, ), (gsilu_4, )", "(silu_4, ), (gsilu_5, )", "statement"),
        (0, "(silu_5, ), (gsilu_5, )", "(silu_5, ), (gsilu_4, )", "microbatches 0 and 1 are mixed"),
        (1, "(silu_5, data_2, )", "(silu_5, data_1, )", "microbatches 0 and 1 are mixed"),
        (1, "*(gsilu_4, )", "*(gsilu_4, )", ""),
        (
            0,
            "    _ = nnscaler.runtime.executor.aexecute(model.adapter2, *(silu_5, ), requires_grad=False)\n",
            "",
            "deadlock",
        ),
        (0, "    model.zero_grad()\n", "", "never clears its gradients"),
        (0, "return sum_10, sum_11", "return sum_11, sum_10", "losses of microbatches 1, 0"),
        (0, "skip_zero_grad = False", "skip_zero_grad = True", "gradients of the step before are kept"),
        (1, "shape=(2, 4), dtype=torch.float32, src=1", "shape=(4, 2), dtype=torch.float32, src=1", "not the same"),
        (0, "dst=1", "dst=2", "rank 2, which is none of the others"),
        (
            0,
            "    data_2 = next(*(dataloader_1, ))\n",
            "    data_2 = data_1\n",
            "does not do the same|mixed|deadlock|another",
        ),
    ],
)
def test_orders_that_are_wrong(rank: int, old: str, new: str, said: str, tmp_path: Path) -> None:
    import re

    folder = write_modules(tmp_path / "plan", pipeline, 2, {rank: (old, new)})
    if said == "statement":
        with pytest.raises(UserError) as raised:
            _followed(folder)
        assert raised.value.code == "plan-nnscaler"
        return
    found = _followed(folder)
    assert bool(found.wrong) == bool(said), found
    assert not said or re.search(said, " ".join(found.wrong)), found.wrong


def test_a_parameter_added_to_a_reducer_is_one(tmp_path: Path) -> None:
    edits = {0: ("self.wreducer9.add_param(self.a_weight_1)", "self.wreducer9.add_param()")}
    with pytest.raises(UserError) as raised:
        read_folder(write_modules(tmp_path / "plan", tensor_parallel, 4, edits), Limits())
    assert raised.value.code == "plan-nnscaler"


def test_what_is_done_in_another_order_is_named(tmp_path: Path) -> None:
    """Both backward passes in the wrong order: the executor would take the first forward pass's tensors."""
    folder = write_modules(tmp_path / "plan", pipeline, 2)
    path = folder / "gencode1.py"
    text = path.read_text()
    late = text.replace("('s5', (silu_4, ), (sum_10, ), (None, ))", "('s5', (silu_5, ), (sum_11, ), (None, ))", 1)
    path.write_text(late)
    with pytest.raises(UserError):  # sum_11 is used before it is made
        _followed(folder)


def test_a_message_that_crosses_another_is_a_deadlock(tmp_path: Path) -> None:
    """Rank 0 sends its second activation while rank 1 sends the first gradient: neither receives."""
    early = "    silu_5 = nnscaler.runtime.executor.aexecute(model.adapter2, *(), requires_grad=True)\n"
    send = "    _ = nnscaler.runtime.executor.aexecute(model.adapter3, *(gsilu_4, ), requires_grad=False)\n"
    folder = write_modules(tmp_path / "plan", pipeline, 2, {1: (early + send, send + early)})
    (sentence,) = _followed(folder).wrong
    assert "a deadlock" in sentence
    assert "gencode0.py" in sentence
    assert "gencode1.py" in sentence


def test_a_sum_over_the_wrong_ranks(tmp_path: Path) -> None:
    """Of the ranks of other copies, which have other rows: refuted. Of others altogether: never run."""
    name = "nnscaler.runtime.adapter.nn.allreduce_identity(linear_5, ranks={})".format
    edits = {rank: (name([rank // 2 * 2, rank // 2 * 2 + 1]), name([rank % 2, rank % 2 + 2])) for rank in range(4)}
    report = _verified(write_modules(tmp_path / "plan", tensor_parallel, 4, edits))
    assert report.verdict is Verdict.REFUTED, report.text()
    assert report.mesh == {"dp": 2, "tp": 2}
    found = report.parts[0].mismatch
    assert found is not None
    assert "gencode0.py" in found.headline + found.difference
    folder = write_modules(tmp_path / "other", tensor_parallel, 4, {0: (name([0, 1]), name([2, 3]))})
    assert "calls a collective of ranks [2, 3]" in " ".join(_followed(folder).wrong)
    assert _verified(folder).verdict is Verdict.REFUTED


def test_reductions_that_come_too_early(tmp_path: Path) -> None:
    backward = "_ = nnscaler.runtime.executor.backward('segment', (), (sum_10, ), (None, ))"
    folder = write_modules(
        tmp_path / "plan", tensor_parallel, 4, dict.fromkeys(range(4), (backward, f"{REDUCE}\n    {backward}"))
    )
    assert "comes before the backward pass" in " ".join(_followed(folder).wrong)


def test_reductions_that_come_twice(tmp_path: Path) -> None:
    folder = write_modules(
        tmp_path / "plan", tensor_parallel, 4, dict.fromkeys(range(4), (REDUCE, f"{REDUCE}\n    {REDUCE}"))
    )
    assert "counted twice" in " ".join(_followed(folder).wrong)


def test_reductions_that_are_skipped(tmp_path: Path) -> None:
    flag = "nnscaler.flags.RuntimeFlag.skip_reducer = True"
    folder = write_modules(tmp_path / "plan", tensor_parallel, 4, {0: (REDUCE, f"{flag}\n    {REDUCE}")})
    assert "skip_reducer" in " ".join(_followed(folder).wrong)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("    _ = None\n", "    while True:\n        pass\n", "While"),
        ("    _ = None\n", "    import os\n", "Import"),
        ("    _ = None\n", "    _ = [x for x in ()]\n", "ListComp"),
        ("    _ = None\n", "    _ = os.system('true')\n", "os.system"),
        ("super().__init__()", "super().__init__(); self.load('weights')", "self.load"),
        (", 1)\n", ", 2)\n", "2 value chunks"),
        ("class GenModel", "class Other", "no class GenModel"),
        ("def _train_step(model", "def step(model", "a definition of step"),
        ("rank = 0\n", "rank = 1\n", "rank = 1"),
        ("torch.empty((4, 3)", "torch.empty((4, 2)", "add_full_map"),
        ("def _train", "def _train_step(:", "SyntaxError"),
    ],
)
def test_text_that_is_refused(old: str, new: str, found: str, tmp_path: Path) -> None:
    folder = write_modules(tmp_path / "plan", pipeline, 2, {0: (old, new)})
    with pytest.raises(UserError) as raised:
        _followed(folder)
    assert raised.value.code == "plan-nnscaler"
    assert found in raised.value.found + raised.value.place


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("torch.sum(pow_9)", "torch.load('file')", "torch.load"),
        ("torch.sum(pow_9)", "torch.Tensor.numpy(pow_9)", "torch.Tensor.numpy"),
        ("torch.sum(pow_9)", "nnscaler.runtime.function.nndropout(pow_9)", "nndropout"),
        ("torch.sum(pow_9)", "builtins.getattr(pow_9, '__class__')", "__class__"),
        ("torch.sum(pow_9)", "torch.sum(self.module)", "self.module"),
        ("torch.sum(pow_9)", "torch.matmul(pow_9, self.a_weight_1)", "RuntimeError"),
        ("torch.sum(pow_9)", "torch.hspmm(pow_9, pow_9)", "NotImplementedError"),
    ],
)
def test_calls_that_are_refused(old: str, new: str, found: str, tmp_path: Path) -> None:
    """Whatever is not a known function of tensors is not called."""
    folder = write_modules(tmp_path / "plan", tensor_parallel, 4, dict.fromkeys(range(4), (old, new)))
    with pytest.raises(UserError) as raised:
        _verified(folder)
    assert raised.value.code == "plan-nnscaler"
    assert found in raised.value.found
    assert "gencode0.py" in raised.value.place


def test_models_that_are_not_the_plan_s(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = write_modules(tmp_path / "plan", pipeline, 2)
    model = f"{folder / 'tiny_model.py'}:Tiny"
    for name, data, found in (
        (None, (), "no model"),
        (model, (), "nothing about the data"),
        (f"{model}(width=6)", ("x=float32[2,3]", "y=float32[2,3]"), "shape"),
        (f"{model}X", (), "AttributeError"),
    ):
        with pytest.raises(UserError) as raised:
            verify_plan(folder, model=name, data=data)
        assert raised.value.code == "plan-sequential-model"
        assert found in raised.value.found


def test_units_are_copies_whose_gradients_are_reduced(tmp_path: Path) -> None:
    modules = read_folder(write_modules(tmp_path / "plan", tensor_parallel, 4), Limits())
    assert unit_of(modules) == 2
    assert dict(mesh_of(modules, 2).axes) == {"dp": 2, "tp": 2}
    stages = read_folder(write_modules(tmp_path / "stages", pipeline, 2), Limits())
    assert unit_of(stages) == 2


def test_layouts_are_placements_or_nothing() -> None:
    mesh = Mesh({"dp": 2, "pp": 2, "tp": 2})
    whole, low, high = ((0, 4),), ((0, 2),), ((2, 4),)
    assert layouts(mesh, (4,), {0: low, 1: high}) == ((("pp", Replicate()), ("tp", Shard(0))), ("pp",), None)
    assert layouts(mesh, (4,), dict.fromkeys(range(4), whole)) == ((("pp", Replicate()), ("tp", Replicate())), (), None)
    turned = (("pp", Replicate()), ("tp", Shard(0))), ("pp",), Order(0, (1, 0))
    assert layouts(mesh, (4,), {0: high, 1: low}) == turned
    assert layouts(mesh, (4,), {0: high, 1: high}) is None
    assert layouts(mesh, (4,), {0: whole, 3: whole}) is None


def test_warnings_of_the_compiler_about_a_file_are_not_told(tmp_path: Path) -> None:
    folder = write_modules(tmp_path / "plan", tensor_parallel, 4)
    for path in folder.glob("gencode*.py"):
        path.write_text(path.read_text() + "\nNUMBER = 1if True else 2\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(read_folder(folder, Limits())) == 4
