"""What torch.export captured, saved programs and graph modules."""

from __future__ import annotations

from pathlib import Path

import pytest

import tantamount as tt

torch = pytest.importorskip("torch", reason="captures need PyTorch")
nn = torch.nn


class Model(nn.Module):
    """A tied weight, a buffer that changes, a constant, and results in a table."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.layer, self.head = nn.Embedding(10, 8), nn.Linear(8, 8), nn.Linear(8, 10, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("count", torch.zeros(8))
        self.ramp = torch.arange(8.0)

    def forward(self, tokens: torch.Tensor, *, shift: torch.Tensor) -> dict[str, torch.Tensor]:
        self.count.add_(1)
        return {"logits": self.head(torch.relu(self.layer(self.embedding(tokens)) * self.ramp + self.count)) + shift}


ARGUMENTS = (torch.zeros(4, dtype=torch.long),)
KEYWORDS = {"shift": torch.ones(10)}


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    return torch.export.export(Model(), ARGUMENTS, KEYWORDS, strict=False)


def test_exported_program_has_the_names_of_its_signature_and_one_input_for_tied_weights(
    program: torch.export.ExportedProgram,
) -> None:
    found = tt.capture(program)
    names = [node.name for node in found.graph.inputs]
    assert names == ["embedding.weight", "layer.weight", "layer.bias", "count", "tokens", "shift"]
    assert found.aliases == {"embedding.weight": ("head.weight",)}
    assert {output.name for output in found.graph.outputs} == {"logits", "new count"}
    linear = next(node for node in found.graph.nodes if node.target == "aten.linear.default")
    assert linear.source is not None
    assert Path(linear.source.file).resolve() == Path(__file__).resolve()
    assert linear.source.function.startswith("layer: ")


def test_exported_saved_and_traced_programs_are_the_same(program: torch.export.ExportedProgram, tmp_path: Path) -> None:
    torch.export.save(program, tmp_path / "model.pt2")
    traced = tt.capture(Model(), ARGUMENTS, KEYWORDS)
    for other in (tt.capture(program), tt.capture(tmp_path / "model.pt2"), tt.capture(str(tmp_path / "model.pt2"))):
        report = tt.refine(traced, other)
        assert report.verdict is tt.Verdict.PROVED, str(report)
        assert {output.name for output in report.outputs} == {"logits", "new count"}


def test_a_different_constant_is_a_different_program(program: torch.export.ExportedProgram) -> None:
    model = Model()
    model.ramp = model.ramp + 1
    report = tt.refine(tt.capture(program), tt.capture(model, ARGUMENTS, KEYWORDS))
    assert report.verdict is tt.Verdict.REFUTED


def test_graph_module_needs_arguments_only_where_no_shape_is_on_record() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    recorded = make_fx(lambda x, y: x @ y + 1)(torch.ones(2, 3), torch.ones(3, 4))
    assert [list(node.type.shape) for node in tt.capture(recorded).graph.inputs if node.type] == [[2, 3], [3, 4]]
    symbolic = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 4), nn.ReLU()))
    with pytest.raises(tt.UserError) as problem:
        tt.capture(symbolic)
    assert (problem.value.code, problem.value.found) == ("capture", "no shape on record")
    found = tt.capture(symbolic, (torch.ones(2, 3),))
    assert [node.name for node in found.graph.inputs] == ["0.weight", "0.bias", "input"]


def test_a_file_that_is_not_there_or_not_a_program(tmp_path: Path) -> None:
    (tmp_path / "bad.pt2").write_bytes(b"not a program")
    for name, found in (("none.pt2", "no such file"), ("bad.pt2", ": ")):
        with pytest.raises(tt.UserError) as problem:
            tt.capture(tmp_path / name)
        assert problem.value.code == "capture-file"
        assert found in problem.value.found


def test_an_exported_program_takes_no_arguments(program: torch.export.ExportedProgram) -> None:
    with pytest.raises(tt.UserError, match="its shapes are fixed"):
        tt.capture(program, ARGUMENTS)


def test_exported_programs_with_inputs_are_told_that_they_need_none() -> None:
    """They have a state dict, as modules do, and are none."""

    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    program = torch.export.export(Scaled(), (torch.zeros(4),))
    with pytest.raises(tt.errors.UserError, match="its shapes are fixed"):
        tt.compare(program, program, inputs=(torch.zeros(4),))
