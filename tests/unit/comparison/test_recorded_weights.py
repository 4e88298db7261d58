"""A graph file with its weights on record against the model that it was made of: the numbers say which is which."""

from __future__ import annotations

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
