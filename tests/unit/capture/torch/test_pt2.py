"""Archives of ``torch.export``, read without PyTorch: what they hold is what the capture of the same program holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tantamount as tt
from support.pt2_archives import changed, members_of, packed
from tantamount.capture.readers import read_graph
from tantamount.cli.main import app
from tantamount.errors import UserError
from tantamount.ir.graph import Graph
from tantamount.limits import Limits
from tantamount.ops.check import check_graph
from tantamount.semantics.interpret import interpret

torch = pytest.importorskip("torch", reason="archives are written by PyTorch")
nn = torch.nn
F = nn.functional

Edit = Callable[[dict[str, Any]], None]


class Model(nn.Module):
    """A tied weight, buffers that stay and that change, constants, a program inside, results in containers."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.layer, self.head = nn.Embedding(10, 8), nn.Linear(8, 8), nn.Linear(8, 10, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("count", torch.zeros(8))
        self.register_buffer("table", torch.rand(4, 8), persistent=False)
        self.ramp = torch.arange(16.0)[1::2]

    def forward(self, tokens: torch.Tensor, flag: bool = True, *, shift: torch.Tensor) -> dict[str, Any]:
        self.count.add_(1)
        with torch.no_grad():
            angles = torch.cos(self.table)
        x = self.layer(self.embedding(tokens)) * self.ramp + angles
        first, last = F.gelu(x, approximate="tanh").split([3, 5], dim=-1)
        x = torch.cat([last, first], -1).masked_fill(torch.tensor([True, False] * 4), float("-inf"))
        values, places = x[:, [1, 3, 5]].topk(2)
        shift.mul_(2)
        return {
            "logits": self.head(torch.relu(last @ last.mT)[:, :1] + self.count) + shift,
            "top": (values, places),
            "n": 3,
        }


def _inputs() -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (torch.tensor([1, 5, 2, 7]),), {"shift": torch.ones(10)}


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    args, kwargs = _inputs()
    return torch.export.export(Model(), args, kwargs)


@pytest.fixture(scope="module")
def archive(program: torch.export.ExportedProgram, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pt2") / "model.pt2"
    torch.export.save(program, path)
    return path


def _values(graph: Graph, model: nn.Module, arguments: dict[str, Any]) -> dict[str, Any]:
    """The outputs of a graph, executed on the state of a model and arguments."""
    state = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers()), **arguments}
    given = {node.name: state[node.name].detach().double().numpy() if state[node.name].is_floating_point()
             else state[node.name].numpy() for node in graph.inputs}  # fmt: skip
    found = interpret(graph, given)
    return {output.name: found.array(output.node) for output in graph.outputs}


def test_an_archive_is_the_program_that_pytorch_captures_and_computes(
    program: torch.export.ExportedProgram, archive: Path
) -> None:
    graph = read_graph(archive)
    check_graph(graph, None)
    captured = tt.capture(program)
    assert [(n.name, n.type) for n in graph.inputs] == [(n.name, n.type) for n in captured.graph.inputs]
    assert {o.name for o in graph.outputs} == {o.name for o in captured.graph.outputs} == {
        "logits", "n", "top.0", "top.1", "new count", "new shift",
    }  # fmt: skip
    report = tt.compare(captured, graph, relations={node.name: f'rank(0, "{node.name}")' for node in graph.inputs})
    assert report.verdict is tt.Verdict.PROVED, str(report)
    linear = next(node for node in graph.nodes if node.target == "aten.linear.default")
    assert linear.source is not None
    assert Path(linear.source.file).resolve() == Path(__file__).resolve()
    assert linear.source.function == "layer: forward"
    assert "self.layer(" in linear.source.text

    model = Model()
    args, kwargs = _inputs()
    found = _values(graph, model, {"tokens": args[0], **{key: value.clone() for key, value in kwargs.items()}})
    model, was = model.double(), model.ramp
    model.ramp = was.double()
    wanted = model(*args, shift=kwargs["shift"].double())
    assert np.allclose(found["logits"], wanted["logits"].detach())
    assert found["n"] == wanted["n"]
    assert np.allclose(found["top.0"], wanted["top"][0].detach())
    assert (found["top.1"] == wanted["top"][1].numpy()).all()
    assert np.allclose(found["new count"], model.count)


OPERATORS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "none among indices": (lambda x: x[:, None][..., torch.tensor([0, 2])], (torch.rand(2, 3),)),
    "types, devices, settings": (
        lambda x: x.to(torch.float16).contiguous(memory_format=torch.channels_last) + torch.zeros(1, dtype=torch.half),
        (torch.rand(1, 2, 2, 2),),
    ),
    "lists and texts": (lambda x: torch.einsum("ij,kj->ik", x, x.roll([1, 1], [0, 1])), (torch.rand(2, 3),)),
    "complex numbers": (
        lambda x: torch.view_as_real(torch.view_as_complex(x) * torch.tensor([1 + 2j])), (torch.rand(3, 2),),
    ),
    "infinity": (lambda x: x.masked_fill(x > 0.5, float("inf")), (torch.rand(4),)),
    "constants of other types": (
        lambda x: x * torch.tensor([1, -2], dtype=torch.int8) + torch.tensor([0.5, -1.25], dtype=torch.bfloat16),
        (torch.rand(2, 2),),
    ),
    "a view of an argument that is overwritten": (lambda x: (x[1:].add_(1), x.sum())[1], (torch.rand(3, 2),)),
    "one of several results": (lambda x: (x.max(-1)[0], x.unbind()[1]), (torch.rand(3, 4),)),
    "attention": (
        lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True, scale=0.5), (torch.rand(1, 2, 4, 8),),
    ),
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1, stride=2), (torch.rand(1, 2, 5, 5), torch.rand(3, 2, 3, 3))),
}  # fmt: skip


class _Module(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


@pytest.mark.parametrize("name", OPERATORS)
def test_arguments_of_every_kind_as_pytorch_computes_them(name: str, tmp_path: Path) -> None:
    function, args = OPERATORS[name]
    copies = tuple(x.clone() for x in args)
    torch.export.save(torch.export.export(_Module(function), copies), tmp_path / "f.pt2")
    graph = read_graph(tmp_path / "f.pt2")
    check_graph(graph, None)
    given = {node.name: value.double().numpy() for node, value in zip(graph.inputs, args, strict=True)}
    found = interpret(graph, given)
    wanted = function(*args)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    outputs = [o for o in graph.outputs if not o.name.startswith("new ")]
    for output, value in zip(outputs, wanted, strict=True):
        assert np.allclose(found.array(output.node), value.double().numpy(), atol=1e-3), output.name
    left = [o for o in graph.outputs if o.name.startswith("new ")]
    assert len(left) == sum(not torch.equal(x, y) for x, y in zip(args, copies, strict=True))
    for output in left:
        assert np.allclose(found.array(output.node), args[0].double().numpy())


def test_compare_takes_archives_and_their_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are inputs; beside the model that an archive was made of, their numbers say which is which."""
    (tmp_path / "archived.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["compare", *arguments])

    for name in ("exact", "tanh"):
        model, args = getattr(import_module("archived"), name)()
        torch.export.save(torch.export.export(model, args), tmp_path / f"{name}.pt2")
    assert run("exact.pt2", "exact.pt2").exit_code == 3
    assert run("exact.pt2", "exact.pt2", "--accept", "relation-guessed").exit_code == 0
    assert run("exact.pt2", "archived:exact").exit_code == 0
    different = run("archived:tanh", "exact.pt2")
    assert different.exit_code == 1
    assert "gelu is not the first program's gelu" in different.stdout


MODULE = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, form):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down, self.form = nn.Linear(8, 16), nn.Linear(16, 8), form
    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x), approximate=self.form))

def exact():
    return Block("none"), (torch.rand(2, 8),)

def tanh():
    return Block("tanh"), (torch.rand(2, 8),)
"""


# ---------------------------------------------------------------------------------------------- what is refused
def _refused(path: Path, limits: Limits | None = None) -> UserError:
    with pytest.raises(UserError) as caught:
        check_graph(read_graph(path, limits), None)
    assert caught.value.place.startswith(str(path))
    return caught.value


def _edited(archive: Path, path: Path, edit: Edit) -> Path:
    def run(text: str) -> str:
        model = json.loads(text)
        edit(model)
        return json.dumps(model)

    path.write_bytes(changed(archive.read_bytes().decode("latin-1"), run).encode("latin-1"))
    return path


def _graph(model: dict[str, Any]) -> dict[str, Any]:
    return model["graph_module"]["graph"]


def _call(model: dict[str, Any], target: str) -> dict[str, Any]:
    return next(node for node in _graph(model)["nodes"] if target in node["target"])


def _swap(model: dict[str, Any]) -> None:
    inputs = _call(model, "aten.linear")["inputs"]
    inputs[0], inputs[1] = inputs[1], inputs[0]


EDITS: dict[str, tuple[str, Edit]] = {
    "another schema": ("graph-pt2-version", lambda m: m["schema_version"].update(major=7)),
    "arguments out of order": ("graph-pt2-data", _swap),
    "an argument that there is not": (
        "operator-attribute",
        lambda m: _call(m, "gelu")["inputs"].append({"name": "beta", "arg": {"as_float": 1.0}, "kind": 2}),
    ),
    "a field that there is not": ("graph-unknown-key", lambda m: _call(m, "gelu").update(alias="x")),
    "an argument of two kinds": (
        "graph-pt2-data", lambda m: _call(m, "gelu")["inputs"][1]["arg"].update(as_none=True),
    ),
    "an unknown operator": ("operator-unknown", lambda m: _call(m, "gelu").update(target="torch.ops.aten.gelu.fast")),
    "a program inside": (
        "graph-pt2-unsupported", lambda m: _call(m, "wrap").update(target="torch.ops.higher_order.cond"),
    ),
    "Python's own": ("graph-pt2-unsupported", lambda m: _call(m, "gelu").update(target="os.system")),
    "numbers that are computed": ("graph-pt2-symbolic", lambda m: _call(m, "gelu").update(target="torch.sym_max")),
    "a name twice": ("graph-pt2-data", lambda m: _call(m, "gelu")["outputs"][0]["as_tensor"].update(name="linear")),
    "a reference to nothing": (
        "graph-pt2-data", lambda m: _call(m, "gelu")["inputs"][0]["arg"]["as_tensor"].update(name="nothing"),
    ),
    "another type than the operator's": (
        "type-mismatch", lambda m: _graph(m)["tensor_values"]["gelu"].update(dtype=8),
    ),
    "a type that there is not": ("graph-pt2-data", lambda m: _graph(m)["tensor_values"]["gelu"].update(dtype=99)),
    "a sparse tensor": ("graph-pt2-unsupported", lambda m: _graph(m)["tensor_values"]["gelu"].update(layout=1)),
    "an input too few": ("graph-pt2-data", lambda m: _graph(m)["inputs"].pop()),
    "an output too few": ("graph-pt2-data", lambda m: m["graph_module"]["signature"]["output_specs"].pop()),
    "a constant that is not there": (
        "graph-pt2-data",
        lambda m: next(s for s in m["graph_module"]["signature"]["input_specs"] if "tensor_constant" in s)[
            "tensor_constant"
        ].update(tensor_constant_name="nowhere"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_every_field_is_read_or_refused(name: str, archive: Path, tmp_path: Path) -> None:
    code, edit = EDITS[name]
    assert _refused(_edited(archive, tmp_path / "m.pt2", edit)).code == code


def test_pickles_are_not_opened(archive: Path, tmp_path: Path) -> None:
    members = members_of(archive.read_bytes())
    for folder in ("constants", "weights"):
        name = next(name for name in members if name.endswith(f"{folder}_config.json"))
        config = json.loads(members[name])
        for payload in config["config"].values():
            payload["use_pickle"] = True
        (tmp_path / "m.pt2").write_bytes(packed({**members, name: json.dumps(config).encode()}))
        assert _refused(tmp_path / "m.pt2").code == "graph-pt2-unsupported"


def test_members_that_are_missing_cut_or_too_large(archive: Path, tmp_path: Path) -> None:
    members = members_of(archive.read_bytes())
    path = tmp_path / "m.pt2"
    for name in members:
        if not any(part in name for part in ("sample_inputs", ".data", "weight_", "tensor_")):
            path.write_bytes(packed({other: data for other, data in members.items() if other != name}))
            assert _refused(path).code == "graph-pt2-archive", name
    constants = [name for name in members if "/tensor_" in name]
    path.write_bytes(packed({name: data[:1] if name in constants else data for name, data in members.items()}))
    assert _refused(path).code == "graph-pt2-data"
    assert _refused(archive, Limits(decompressed_bytes=5000)).code == "limit-decompressed-bytes"
    assert _refused(archive, Limits(constant_elements=4)).code == "limit-constant-elements"
    assert _refused(archive, Limits(file_bytes=5000)).code == "limit-file-bytes"


def test_values_of_wrong_types_anywhere(archive: Path, tmp_path: Path) -> None:
    """Every value of the program in turn, of a sample, replaced by one of another type: a graph or a message."""

    def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        return [path, *(place for key, part in inner for place in places(part, (*path, key)))]

    odd = (None, -1, 1 << 70, "x", [], {}, [[]], True, 2.5, {"as_int": 1})
    found = places(json.loads(next(d for n, d in members_of(archive.read_bytes()).items() if "/models/" in n)))
    for number, place in enumerate(found[1::7]):

        def edit(model: dict[str, Any], place: tuple[Any, ...] = place, number: int = number) -> None:
            *above, last = place
            for key in above:
                model = model[key]
            model[last] = odd[number % len(odd)]

        try:
            check_graph(read_graph(_edited(archive, tmp_path / "m.pt2", edit)), None)
        except UserError:
            continue


def test_symbolic_sizes_are_refused_by_name(tmp_path: Path) -> None:
    batch = torch.export.Dim("batch")
    program = torch.export.export(nn.Linear(4, 4), (torch.rand(2, 4),), dynamic_shapes=({0: batch},))
    torch.export.save(program, tmp_path / "m.pt2")
    problem = _refused(tmp_path / "m.pt2")
    assert problem.code == "graph-pt2-symbolic"
    assert "dynamic_shapes" in problem.hint


def test_state_that_shares_memory_in_part(tmp_path: Path) -> None:
    class Shared(nn.Module):
        def __init__(self, writes: bool) -> None:
            super().__init__()
            whole = torch.rand(4)
            self.register_buffer("whole", whole)
            self.register_buffer("part", whole[:2])
            self.writes = writes

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.writes:
                self.whole.add_(x)
            return self.part * x[:2] + self.whole.sum()

    for writes in (False, True):
        torch.export.save(torch.export.export(Shared(writes), (torch.rand(4),)), tmp_path / f"{writes}.pt2")
    assert [node.name for node in read_graph(tmp_path / "False.pt2").inputs] == ["whole", "part", "x"]
    assert _refused(tmp_path / "True.pt2").code == "graph-pt2-unsupported"


def test_what_is_returned_is_no_input_that_was_overwritten(tmp_path: Path) -> None:
    """A key of a container is any text, such as the name of what an input holds at the end."""

    class Returned(nn.Module):
        def forward(self, x: torch.Tensor) -> dict[str, Any]:
            return {"new x": x + 1}

    class Overwritten(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.add_(1) * 0

    names: list[set[str]] = []
    for k, module in enumerate((Returned(), Overwritten())):
        path = tmp_path / f"{k}.pt2"
        torch.export.save(torch.export.export(module, (torch.rand(3),)), path)
        names.append({output.name for output in read_graph(path).outputs})
    assert names[0].isdisjoint(names[1]), names
    assert any(name.startswith("new ") for name in names[1])
