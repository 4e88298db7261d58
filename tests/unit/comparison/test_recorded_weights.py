"""A graph file with its weights on record against the model that it was made of: the numbers say which is which."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from support.jobs import graph_of
from support.onnx_models import model, node, tensor
from tantamount.answers import compare
from tantamount.capture.readers import read_graph
from tantamount.comparison import Comparing, compare_pair
from tantamount.comparison.programs import pair_of
from tantamount.verdict import Verdict

pytest.importorskip("torch", reason="models are PyTorch's")

if TYPE_CHECKING:
    from torch import nn


def network() -> nn.Module:
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4, bias=False))


def file(folder: Path, change: str = "") -> Path:
    """The network as an exporter writes it: weights transposed, the norm's as they are."""
    state = {name: value.detach().numpy() for name, value in network().state_dict().items()}
    up, down = state["1.weight"].T.copy(), state["3.weight"].T.copy()
    if change == "swapped":
        up, down = down, up
    if change == "one number":
        up[1, 2] += 0.5
    if change == "as it is":
        up = up.T.copy()
    shift = state["1.bias"] + (np.float32(0.25) if change == "shift" else 0)
    epsilon = 1e-3 if change == "epsilon" else 1e-5
    nodes = [
        node("LayerNormalization", ["x", "scale", "bias"], ["n"], axis=-1, epsilon=epsilon),
        node("MatMul", ["n", "up"], ["u"]),
        node("Add", ["u", "shift"], ["s"]),
        node("Relu", ["s"], ["r"]),
        node("MatMul", ["r", "down"], ["y"]),
    ]
    given = {"scale": state["0.weight"], "bias": state["0.bias"], "up": up, "shift": shift, "down": down}
    tensors = [tensor(name, value.astype(np.float32)) for name, value in given.items()]
    path = folder / "net.onnx"
    path.write_bytes(model(nodes, [("x", [3, 4])], ["y"], tensors))
    return path


@pytest.mark.parametrize("file_first", [True, False])
def test_an_export_is_its_model(tmp_path: Path, file_first: bool) -> None:
    import torch

    pair = (read_graph(file(tmp_path)), network())
    found = compare(*(pair if file_first else pair[::-1]), inputs=(torch.zeros(3, 4),))
    assert found.verdict is Verdict.PROVED
    assert {one.name for one in found.assumptions} <= {"real-arithmetic", "rounded-constants"}
    assert found.notes[0].startswith("3 of 5 recorded tensors")  # the norm's are ones and zeros


@pytest.mark.parametrize("change", ["swapped", "one number", "as it is", "shift", "epsilon"])
def test_an_export_that_is_another_model_is_none(tmp_path: Path, change: str) -> None:
    import torch

    found = compare(network(), read_graph(file(tmp_path, change)), inputs=(torch.zeros(3, 4),))
    assert found.verdict is Verdict.REFUTED, found.text()


@pytest.mark.parametrize("case", ["part of it", "all of it", "another number"])
def test_a_parameter_of_which_a_part_is_found(tmp_path: Path, case: str) -> None:
    """A half that is all ones is not found, and may be in the file under any name: then the other keeps its numbers."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    fused = nn.Linear(4, 6, bias=False)
    with torch.no_grad():
        fused.weight[3:] = 1
    up, down = (part.T.copy() for part in np.split(fused.weight.detach().numpy(), 2))
    if case == "another number":
        down[1, 2] = 2
    nodes = [node("MatMul", ["x", "up"], ["u"]), node("MatMul", ["x", "down"], ["d"]),
             node("Concat", ["u", "d"], ["y"], axis=1)]  # fmt: skip
    tensors = [tensor("up", up), tensor("down", down)]
    if case == "all of it":
        fused.weight.data[3:] *= torch.arange(2, 14).reshape(3, 4)
        tensors[1] = tensor("down", fused.weight.detach().numpy()[3:].T.copy())
    path = tmp_path / "fused.onnx"
    path.write_bytes(model(nodes, [("x", [3, 4])], ["y"], tensors))
    found = compare(read_graph(path), fused, inputs=(torch.zeros(3, 4),))
    count, verdict = {"part of it": (0, Verdict.UNKNOWN), "all of it": (2, Verdict.PROVED)}.get(
        case, (0, Verdict.REFUTED)
    )
    assert found.verdict is verdict, found.text()  # of tables that are transposed it is not seen
    assert found.notes[0].startswith(f"{count} of 2 recorded tensors")


def test_other_weights_are_what_is_said_first(tmp_path: Path) -> None:
    """A number, a bias, and a model that was never filled: the headline names them, and if anything else differs."""
    import torch

    x = (torch.zeros(3, 4),)
    found = compare(network(), read_graph(file(tmp_path, "one number")), inputs=x)
    assert found.mismatch is not None
    assert found.mismatch.headline == (
        "other weights: up (1.weight), recorded in the second program, have other numbers than the first program's "
        "parameters (by up to 0.5); with equal numbers both compute the same (PROVED)"
    )
    assert "fill the model" in found.mismatch.hint
    other = network()
    for name in ("1.weight", "3.weight"):
        torch.nn.init.uniform_(other.get_parameter(name))
    found = compare(read_graph(file(tmp_path, "epsilon")), other, inputs=x)
    assert found.verdict is Verdict.REFUTED
    assert found.mismatch is not None
    said, _, rest = found.mismatch.headline.partition("; with equal numbers they differ, too: ")
    assert said.startswith("other weights: up (")
    assert "down (" in said
    assert " is not the first program's n" in rest  # the norm
    found = compare(read_graph(file(tmp_path, "swapped")), network(), inputs=x)
    assert found.mismatch is not None
    assert not found.mismatch.headline.startswith("other weights")  # they are at another place


RECORDED = """tantamount graph 1
%x: float32[4] = input
%w: float32[2] = constant w
%s: float32[2] = aten.sin.default(%w)
%t: float32[] = aten.sum.default(%s)
%y: float32[4] = aten.mul.Tensor(%x, %t)
output y = %y
value w: float32[2] = [0.3, 0.7]
"""


def test_other_sizes_are_what_is_said_first(tmp_path: Path) -> None:
    import torch

    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.arange(3) / 7)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.w.sin().sum()

    (tmp_path / "a.graph").write_text(RECORDED)
    found = compare(read_graph(tmp_path / "a.graph", weights=True), Scaled(), inputs=(torch.zeros(4),))
    assert found.mismatch is not None
    said, _, rest = found.mismatch.headline.partition("; with equal numbers they differ, too: ")
    assert said == "other sizes: w is [2] in the first program and [3] in the second"
    assert rest


def test_a_saved_program_against_a_model_with_other_weights(tmp_path: Path) -> None:
    """All are named; and no formula calls a recorded tensor by a name that another has, too."""
    import torch

    def made(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))

    x = (torch.zeros(3, 8),)
    torch.export.save(torch.export.export(made(0), x), tmp_path / "a.pt2")
    saved = read_graph(tmp_path / "a.pt2", weights=True)
    assert compare(saved, made(0), inputs=x).proved
    found = compare(saved, made(1), inputs=x)
    assert found.mismatch is not None
    assert found.mismatch.headline.startswith(
        "other weights: 0.weight, 0.bias, 2.weight, 2.bias, recorded in the first"
    )
    assert found.mismatch.headline.endswith("with equal numbers both compute the same (PROVED)")
    assert re.search(
        r"a recorded tensor \[\d+\] \(.+\) stands where a recorded tensor \[\d+\] \(.+\) is wanted",
        found.mismatch.difference,
    )


def test_no_sentence_has_one_name_for_two_tensors() -> None:
    """Inputs that are called the same on both sides and are not the same: whose each is, is said."""
    graph = graph_of("x: float32[2, 2]\nw: float32[2, 2]\ny = mm(x, w)\n-> y")
    found = compare_pair(pair_of(graph, graph, inputs={"x": {"relation": 'rank(0, "x")'}}, guess=False), Comparing())
    assert found.verdict is Verdict.REFUTED
    assert found.mismatch is not None
    said = f"{found.mismatch.headline}\n{found.mismatch.difference}"
    assert "the second program's w stands where the first program's w is needed" in said
    assert "the second program never reads the first program's w" in said


@pytest.mark.parametrize(
    ("number", "verdict"),
    [
        (1.4142135381698608, Verdict.PROVED),  # the float32 of 2 ** 0.5
        (1.4142136573791504, Verdict.UNKNOWN),  # its neighbour: too near for a counterexample
        (1.4142, Verdict.REFUTED),
    ],
)
def test_a_recorded_root_of_32_bits(number: float, verdict: Verdict) -> None:
    inputs = {"x": {"relation": 'rank(0, "x")'}}
    written = graph_of(f"x: float32[4]\nc = constant float32[] [{number}]\ny = mul(x, c)\n-> y")
    computed = graph_of("x: float32[4]\nc = aten.full.default([], 2.0, dtype=float32)\ns = aten.sqrt.default(c)\n"
                        "y = mul(x, s)\n-> y")  # fmt: skip
    found = compare_pair(pair_of(computed, written, inputs=inputs, guess=False), Comparing())
    assert found.verdict is verdict
    assert ("rounded-constants" in {one.name for one in found.assumptions}) is (verdict is Verdict.PROVED)
