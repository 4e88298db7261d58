"""Planted bugs are found, made small, told apart and saved; without them nothing is found."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.jobs import typed_graph
from tantamount.errors import UserError
from tantamount.fuzz.backends import backends
from tantamount.fuzz.backends.base import ENVIRONMENT, Hosted, Outcome, policy_of
from tantamount.fuzz.backends.planted import PLANTED, Bug, Planted
from tantamount.fuzz.campaign import Campaign, Setup, narrowed, run_campaign
from tantamount.fuzz.cases import Maker
from tantamount.fuzz.draft import Policy
from tantamount.fuzz.findings import Finding, read_findings, replay, resembles, save
from tantamount.fuzz.hosts.main import _versions as answered_versions  # pyright: ignore[reportPrivateUsage]
from tantamount.fuzz.oracle import (
    Failure,
    causes,
    compare,
    compare_outputs,
    every_time,
    first_level,
    first_pass,
    judge,
    message_pattern,
    outputs_differ,
    signature,
)
from tantamount.fuzz.shrink import form_of, shrink
from tantamount.fuzz.triage import page, rows
from tantamount.ir.graph import Graph, Node
from tantamount.rules.record import proved_rules
from tantamount.semantics.exact import plain

RULES = proved_rules()
FEW = frozenset({"aten.sum.dim_IntList", "aten.add.Tensor", "aten.permute.default"})
SETUP = Setup(("planted",), seed=5)


def lost_tail(node: Node, xs: list[Any], right: Any) -> Any:
    """Sums of rows that are no multiple of 2 lose the last element."""
    if (
        node.target != "aten.sum.dim_IntList"
        or xs[0].ndim == 0
        or xs[0].shape[-1] % 2 == 0
        or node.args[1] != (xs[0].ndim - 1,)
    ):
        return None
    return xs[0][..., :-1].sum(-1).reshape(right.shape).astype(right.dtype)


TAIL = Bug("tail", "", kernel=lost_tail)
ORDER = Bug("order", "", switch="merge-order")


def test_without_bugs_nothing_is_found(tmp_path: Path) -> None:
    found = run_campaign(replace(SETUP, count=15), tmp_path, RULES)
    assert (found["cases"], found["failures"], found["skipped"]) == (15, 0, 0)


def test_a_bug_is_found_made_small_and_saved_once(tmp_path: Path) -> None:
    campaign = Campaign(replace(SETUP, count=40), tmp_path, RULES, [Planted([TAIL])], Policy(targets=FEW, nodes=(2, 5)))
    progress = campaign.run()
    assert progress.failures > 0
    found = read_findings(tmp_path)
    assert min(len(row.data["operators"]) for row in found) == 1
    assert all("sum:" in row.signature for row in found)
    assert len({row.signature for row in found}) == len(found) >= progress.findings > 0
    for row in found:
        assert {"graph.json", "finding.json", "report.md"} <= {path.name for path in row.folder.iterdir()}
        assert row.data["level"] == "all"
        assert row.data["compilations"] <= 60


def test_forms_show_what_the_original_does_not() -> None:
    maker = Maker(Policy(targets=FEW), RULES)
    compiler = Planted([ORDER])
    for index in range(60):
        case = maker.case(5, index)
        failures, verdicts = judge(case, {f.name: compiler.run(f.graph, f.inputs) for f in case.forms}, PLANTED)
        if failures and not verdicts.reference:
            assert verdicts.all
            return
    pytest.fail("no case in which only a rewritten form is wrong")


def failing() -> tuple[Failure, Planted]:
    text = """
        x: float32[3, 5]
        w: float32[4, 3]
        a = add(x, x)
        b = mul(a, 2)
        s = sum_dims(b, [1], False)
        r = relu(s)
        q = relu(w)
        -> q, r
    """
    graph = typed_graph(text)
    form = form_of(graph, {"x": np.ones((3, 5), np.float32), "w": np.ones((4, 3), np.float32)})
    assert form is not None
    compiler = Planted([TAIL])
    failure = compare(PLANTED, form, compiler.run(form.graph, form.inputs))
    assert failure is not None
    assert failure.output == 1
    return failure, compiler


def test_of_several_wrong_outputs_each_that_no_other_explains_is_told() -> None:
    text = """
        x: float32[3, 5]
        w: float32[4, 3]
        s = sum_dims(x, [1], False)
        r = relu(s)
        q = sum_dims(w, [1], False)
        n = relu(w)
        -> r, s, q, n
    """
    form = form_of(typed_graph(text), {"x": np.ones((3, 5), np.float32), "w": np.ones((4, 3), np.float32)})
    assert form is not None
    found = [*compare_outputs(PLANTED, form, Planted([TAIL]).run(form.graph, form.inputs))]
    assert [failure.output for failure in found] == [0, 1, 2]
    assert [failure.output for failure in causes(found)] == [1, 2]
    assert causes(found[:1]) == found[:1]
    assert [*compare_outputs(PLANTED, form, Planted().run(form.graph, form.inputs))] == []


def test_a_failure_is_made_small() -> None:
    failure, compiler = failing()
    small = shrink(failure, compiler)
    graph = small.failure.form.graph
    assert [node.target for node in graph.nodes if node.op == "call"] == ["aten.sum.dim_IntList"]
    assert [str(node.type) for node in graph.nodes if node.op == "input"] in (
        ["float32[1, 5]"],
        ["float32[1, 1]"],
        ["float32[1, 3]"],
    )
    assert small.compilations <= 60
    assert signature(small.failure) == "planted wrong all sum:float32"
    assert first_level(compiler, small.failure.form, "wrong") == "all"


def test_a_failure_stays_as_it_is_when_nothing_may_be_tried() -> None:
    failure, compiler = failing()
    assert shrink(failure, compiler, most=0).failure is failure


def test_where_a_result_begins_to_be_wrong_is_found_at_once() -> None:
    lines = "\n".join(f"v{k + 1} = aten.add.Tensor(v{k}, {k})" for k in range(20))
    text = f"x: float32[3, 5]\nv0 = aten.sum.dim_IntList(x, [1], False)\n{lines}\n-> v20"
    form = form_of(typed_graph(text), {"x": np.ones((3, 5), np.float32)})
    assert form is not None
    compiler = Planted([TAIL])
    failure = compare(PLANTED, form, compiler.run(form.graph, form.inputs))
    assert failure is not None
    small = shrink(failure, compiler, most=4)
    assert signature(small.failure) == "planted wrong all sum:float32"


def test_a_failure_has_the_plainest_type_that_fails() -> None:
    def ones(node: Node, xs: list[Any], right: Any) -> Any:
        return right * 0 + 1 if node.target == "aten.relu.default" and right.dtype.itemsize > 2 else None

    compiler = Planted([Bug("ones", "", kernel=ones)])
    for dtype, plainest in (("int32", "int64"), ("float64", "float32"), ("float32", "float32")):
        text = f"x: {dtype}[3]\na = aten._to_copy.default(x, dtype={dtype})\nb = aten.relu.default(a)\n-> b"
        form = form_of(typed_graph(text), {"x": np.full(3, 2)})
        assert form is not None
        failure = compare(PLANTED, form, compiler.run(form.graph, form.inputs))
        assert failure is not None
        assert signature(shrink(failure, compiler).failure) == f"planted wrong all relu:{plainest}"
        assert f":{dtype}" in signature(
            shrink(failure, compiler, policy=Policy(dtypes=(form.expected[0].dtype,))).failure
        )


def test_a_plainer_type_holds_all_elements() -> None:
    def signed(node: Node, xs: list[Any], right: Any) -> Any:
        return -right if node.target == "aten.abs.default" and right.dtype.itemsize == 1 else None

    compiler = Planted([Bug("signed", "", kernel=signed)])
    form = form_of(typed_graph("x: uint8[2]\ny = aten.abs.default(x)\n-> y"), {"x": np.array([255, 3])})
    assert form is not None
    failure = compare(PLANTED, form, compiler.run(form.graph, form.inputs))
    assert failure is not None
    small = shrink(failure, compiler).failure
    assert all(np.all(small.form.inputs[n.name] <= n.type.dtype.bounds[1]) for n in small.form.graph.inputs if n.type)
    assert plain(small.form.expected[0]).min() >= 0


def test_what_does_not_fail_each_time_is_told_as_such(tmp_path: Path) -> None:
    class Changing(Planted):
        runs = 0

        def run(self, graph: Graph, inputs: Any, *_: Any, **__: Any) -> Outcome:
            self.runs += 1
            self.bugs = (TAIL,) if self.runs % 2 else ()
            return super().run(graph, inputs)

    failure, _ = failing()
    assert every_time(Planted([TAIL]), failure)
    assert not every_time(Planted(), failure)
    campaign = Campaign(replace(SETUP, count=10), tmp_path, RULES, [Changing()], Policy(targets=FEW))
    campaign.run()
    found = read_findings(tmp_path)
    assert found
    assert {finding.data["kind"] for finding in found} == {"unstable"}


def test_programs_that_do_not_end_are_tried_a_few_times_only() -> None:
    class Slow(Planted):
        runs = 0

        def run(self, *_: Any, **__: Any) -> Outcome:
            self.runs += 1
            return Outcome("overdue")

    failure, _ = failing()
    compiler = Slow()
    shrink(replace(failure, kind="overdue"), compiler)
    assert 1 < compiler.runs <= 6


def test_a_campaign_goes_on_where_it_stopped(tmp_path: Path) -> None:
    setup = replace(SETUP, count=12)
    run_campaign(replace(setup, count=5), tmp_path, RULES)
    (tmp_path / "log-0.jsonl").open("a").write('{"case": 6')  # a worker that was killed
    again = run_campaign(setup, tmp_path, RULES)
    assert again["cases"] == 7
    lines = (tmp_path / "log-0.jsonl").read_text().splitlines()
    assert [json.loads(line)["case"] for line in lines if line.endswith("}")] == list(range(12))


def test_workers_share_the_cases(tmp_path: Path) -> None:
    done: set[int] = set()
    for worker in range(3):
        campaign = Campaign(replace(SETUP, count=10, worker=worker, workers=3), tmp_path, RULES)
        done |= (mine := set(campaign.indices()))
        assert mine == set(range(worker, 10, 3))
    assert done == set(range(10))


def test_another_campaign_does_not_go_into_the_same_folder(tmp_path: Path) -> None:
    run_campaign(replace(SETUP, count=1), tmp_path, RULES)
    with pytest.raises(UserError) as caught:
        run_campaign(replace(SETUP, seed=6, count=1), tmp_path, RULES)
    assert caught.value.code == "campaign-other"


def test_a_backend_that_there_is_not_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        run_campaign(replace(SETUP, backends=("tensorrt",), count=1), tmp_path, RULES)
    assert caught.value.code == "fuzz-backend"
    with pytest.raises(UserError) as caught:
        run_campaign(replace(SETUP, backends=("ort",), pythons={"ort": "/bin/false"}, count=1), tmp_path, RULES)
    assert caught.value.code == "fuzz-missing"


def test_campaigns_of_some_operators_and_types() -> None:
    policy = narrowed(replace(SETUP, operators=("amax", "add"), dtypes=("int8",)))
    assert policy.targets == {"aten.amax.default", "aten.add.Tensor"}
    assert [dtype.label for dtype in policy.dtypes] == ["int8"]
    for setup in (replace(SETUP, operators=("amax", "nonsense")), replace(SETUP, dtypes=("int7",))):
        with pytest.raises(UserError) as caught:
            narrowed(setup)
        assert caught.value.code == "fuzz-policy"


def test_a_crash_and_a_refusal_are_failures_and_what_cannot_be_said_is_none() -> None:
    failure, _ = failing()
    kinds = {
        Outcome("died", message="killed by SIGSEGV"): "crash", Outcome("overdue"): "overdue",
        Outcome("failed", phase="compile", message="no"): "refused", Outcome("failed", phase="run"): "raised",
    }  # fmt: skip
    for outcome, kind in kinds.items():
        found = compare(PLANTED, failure.form, outcome)
        assert found is not None
        assert found.kind == kind
    assert compare(PLANTED, failure.form, Outcome("unsupported")) is None


@pytest.mark.parametrize(
    ("a", "b", "error", "where"),
    [
        ([1.0, -0.0], [1.0, 0.0], 0.0, None),
        ([1.0, 2.0], [1.0, 2.5], 0.0, (1,)),
        ([1.0, 2.0], [1.0, 2.5], 0.2, None),
        ([np.nan], [np.nan], 0.0, None),
        ([np.inf], [1.0], 1.0, (0,)),
    ],
)
def test_numbers_are_compared_exactly_or_within_a_bound(a: Any, b: Any, error: float, where: Any) -> None:
    assert outputs_differ(np.array(a), np.array(b), error) == where


def test_large_integers_are_not_compared_as_floats() -> None:
    assert outputs_differ(np.array([2**53]), np.array([2**53 + 1]), 0.0) == (0,)


def test_messages_of_compilers_that_call_others_have_their_errors() -> None:
    message = "CppCompileError\n\ncommand:\ng++ {0}\n{0}:14:46: error: no matching function for call to ‘f({1}&)’\n"
    one, other = (message.format(*words) for words in (("/tmp/a.cpp", "short"), ("/tmp/b.cpp", "int")))
    assert message_pattern(one) == message_pattern(other) == "CppCompileError: no matching function for call to"
    assert message_pattern(one) != message_pattern(one.replace("matching function", "such type"))
    assert message_pattern("") == ""


def test_messages_lose_what_differs_from_case_to_case() -> None:
    assert message_pattern("node t12 (/tmp/x/case_3.py): got 3 of [1, 2]") == message_pattern(
        "node t7 (/tmp/y/case_99.py): got 4 of [5]"
    )


@pytest.mark.parametrize("name", [name for name, backend in backends().items() if backend.install])
def test_reproducers_are_programs(tmp_path: Path, name: str) -> None:
    failure, _ = failing()
    backend = backends()[name]
    finding = save(replace(failure, backend=name, level=backend.level), backend, {name: "1"}, tmp_path, 1, 2)
    compile((finding.folder / "reproduce.py").read_text(), "reproduce.py", "exec")
    assert rows(tmp_path)[0].kind == "wrong"
    assert "1 findings" in page(rows(tmp_path))


def test_a_reproducer_tells_right_from_wrong(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    failure, _ = failing()
    backend = backends()["eager"]
    right = save(replace(failure, backend="eager", level="eager"), backend, {}, tmp_path, 1, 2)
    assert replay(right) == "gone"  # eager computes what is expected
    script = right.folder / "reproduce.py"
    script.write_text(script.read_text().replace("aten.relu.default", "aten.neg.default"))
    assert replay(right) == "there"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert "WRONG" in done.stdout


def test_a_backend_in_a_process_of_its_own() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    failure, _ = failing()
    options = backends()["eager-cuda"].options
    assert options["device"] == "cuda"
    hosted = Hosted(replace(backends()["eager-cuda"], options={**options, "device": "cpu"}))
    outcome = hosted.run(failure.form.graph, failure.form.inputs)
    versions = hosted.versions()
    hosted.close()
    assert outcome.ok, outcome.message
    assert compare(backends()["eager"], failure.form, outcome) is None
    assert "torch" in versions


def test_a_device_that_there_is_not_is_told() -> None:
    class Host:
        @staticmethod
        def versions(device: str = "cpu") -> dict[str, str]:
            if device != "cpu":
                raise RuntimeError(f"no {device}\nsee the manual")
            return {"host": "1"}

    assert answered_versions(Host, {}) == {"status": "ok", "versions": {"host": "1"}}
    assert answered_versions(Host, {"device": "cuda"}) == {"status": "failed", "message": "no cuda"}


def test_backends_on_a_device_generate_for_it_and_say_so_in_reproducers(tmp_path: Path) -> None:
    failure, _ = failing()
    for name, other in (("inductor-cuda", "inductor"), ("xla-gpu", "xla")):
        backend = backends()[name]
        assert policy_of([backend]).kernels == policy_of([backends()[other]]).kernels is not None
        assert backend.environment.items() >= ENVIRONMENT.items()
        found = save(replace(failure, backend=name, level=backend.level), backend, {}, tmp_path, 1, 2)
        source = (found.folder / "reproduce.py").read_text()
        assert f"'device': '{backend.options['device']}'" in source
        assert "allow_tf32=False" in source or "jax_default_matmul_precision='highest'" in source
        assert all(repr(value) in source for value in backend.environment.values())


def test_onnx_runtime_computes_what_is_expected() -> None:
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    pytest.importorskip("onnx", reason="onnx is not installed")
    failure, _ = failing()
    hosted = Hosted(backends()["ort"])
    outcome = hosted.run(failure.form.graph, failure.form.inputs)
    hosted.close()
    assert compare(backends()["ort"], failure.form, outcome) is None


def test_the_pass_is_found_from_which_on_a_program_fails() -> None:
    text = """
        x: float32[2, 3, 4]
        a = permute(x, [1, 2, 0])
        b = permute(a, [0, 2, 1])
        -> b
    """
    form = form_of(typed_graph(text), {"x": np.arange(24, dtype=np.float32).reshape(2, 3, 4)})
    assert form is not None
    compiler = Planted([ORDER])
    failure = compare(PLANTED, form, compiler.run(form.graph, form.inputs))
    assert failure is not None
    assert first_pass(compiler, form, failure.kind, "all") == "permutes"
    assert signature(replace(failure, first="permutes")).startswith("planted wrong all/permutes permute:float32")
    assert first_pass(Planted(), form, "wrong", "all") == ""


def test_findings_that_have_all_of_another_resemble_it(tmp_path: Path) -> None:
    small, large, other = (
        Finding(tmp_path, {"backend": "b", "kind": kind, "operators": words, "message": message})
        for kind, words, message in (
            ("wrong", ["abs:int8"], ""), ("wrong", ["neg:int8", "abs:int8"], ""), ("wrong", ["abs:int16"], "")
        )
    )  # fmt: skip
    assert resembles(large, small)
    assert not resembles(small, large)
    assert not resembles(other, small)
    refused = [
        Finding(tmp_path, {"backend": "b", "kind": "refused", "operators": [word], "message": message})
        for word, message in (("abs:int8", "no kernel 1"), ("abs:int16", "no kernel 2"), ("abs:int16", "bad shape"))
    ]
    assert resembles(refused[1], refused[0])
    assert not resembles(refused[2], refused[0])
