"""Lines of the user's code: of every operator, backward and optimizer too. Tied weights are one input."""

from __future__ import annotations

from pathlib import Path

import pytest

import tantamount as tt
from tantamount.capture.programs import Program
from tantamount.ir.graph import Node

torch = pytest.importorskip("torch", reason="captures need PyTorch")
nn = torch.nn
cross_entropy = nn.functional.cross_entropy
HERE = Path(__file__)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.norm, self.layer = nn.Embedding(10, 8), nn.LayerNorm(8), nn.Linear(8, 8)
        self.head = nn.Linear(8, 10, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        x = x + self.layer(self.norm(x))
        x = nn.functional.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True)[0]
        return self.head(x)  # the tied weight


@pytest.fixture(scope="module")
def step() -> Program:
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss = cross_entropy(model(tokens), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    tokens = torch.zeros(4, dtype=torch.long)
    return tt.capture(step, (tokens, tokens))


def calls(program: Program) -> list[Node]:
    return [node for node in program.graph.nodes if node.op == "call"]


def test_every_operator_has_a_line_of_this_file(step: Program) -> None:
    lines = HERE.read_text().splitlines()
    for node in calls(step):
        assert node.source is not None, node
        assert Path(node.source.file).resolve() == HERE.resolve()
        assert node.source.text == lines[node.source.line - 1].strip()


@pytest.mark.parametrize(
    ("target", "line", "function"),
    [
        ("aten.native_layer_norm_backward.default", "x = x + self.layer(self.norm(x))", "norm backward: forward"),
        ("aten.embedding_dense_backward.default", "x = self.embedding(tokens)", "embedding backward: forward"),
        (
            "aten._log_softmax_backward_data.default",
            "loss = cross_entropy(model(tokens), labels)",
            "backward: step",
        ),
        ("aten.linalg_vector_norm.default", "nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "step"),
        ("aten.addcdiv.default", "optimizer.step()", "step"),
    ],
)
def test_backward_passes_and_optimizers_lead_to_the_code_that_they_are_of(
    step: Program, target: str, line: str, function: str
) -> None:
    found = {(node.source.text, node.source.function) for node in calls(step) if node.target == target and node.source}
    assert found, sorted({node.target for node in calls(step)})
    for text, where in found:
        assert text == line
        assert where == function


def test_a_tied_weight_is_one_input_and_has_one_gradient(step: Program) -> None:
    inputs = [node.name for node in step.graph.inputs]
    outputs = [output.name for output in step.graph.outputs]
    assert inputs.count("embedding.weight") == 1
    assert not [name for name in (*inputs, *outputs) if "head.weight" in name]
    assert step.aliases == {"embedding.weight": ("head.weight",)}
    assert outputs.count("new embedding.weight") == 1


class Doubled(torch.autograd.Function):
    """The identity, whose gradient is doubled in Python."""

    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0] * 2


def halved(gradient: torch.Tensor) -> torch.Tensor:
    return gradient / 2


@pytest.mark.parametrize(("by", "text"), [("function", "return gradients[0] * 2"), ("hook", "return gradient / 2")])
def test_python_that_runs_inside_backward_has_the_line_that_ran(by: str, text: str) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        y = torch.sin(x)
        if by == "function":
            y = Doubled.apply(y)
        else:
            y.register_hook(halved)
        y.sum().backward()
        assert x.grad is not None
        return x.grad

    def right(x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        torch.sin(x).sum().backward()
        assert x.grad is not None
        return x.grad

    x = torch.randn(3)
    found = tt.refine(tt.capture(right, (x,)), tt.capture(step, (x,))).mismatch
    assert found is not None
    assert found.implementation_source is not None
    assert found.implementation_source.text == text
    assert found.hint == f"leave out {found.implementation}"


def test_what_pytorch_runs_inside_backward_has_the_line_of_the_forward_pass() -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        y = torch.sin(x)
        y.sum().backward()
        assert x.grad is not None
        return x.grad

    sources = [node.source for node in calls(tt.capture(step, (torch.randn(3),))) if node.target == "aten.cos.default"]
    assert [source is not None and source.text for source in sources] == ["y = torch.sin(x)"]
