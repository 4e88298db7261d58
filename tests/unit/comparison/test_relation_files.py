"""Relations of two models, written to a file, edited, and given again in place of loaders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tantamount as tt
from tantamount.comparison.relation_files import read_relations
from tantamount.errors import UserError

torch = pytest.importorskip("torch", reason="compares PyTorch models")
from support.small_models import TOKENS, Fused, Separate, load  # noqa: E402


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("relations") / "found.toml"
    answer = tt.compare(Fused(), Separate(), inputs=(TOKENS,), loaders=(None, load), save_relations=path)
    assert answer.proved
    return path.read_text()


def given(text: str, folder: Path) -> tt.Answer:
    (folder / "relations.toml").write_text(text)
    return tt.compare(Fused(), Separate(), inputs=(TOKENS,), relations=folder / "relations.toml")


def test_what_was_saved_proves_the_same_without_a_loader(saved: str, tmp_path: Path) -> None:
    answer = given(saved, tmp_path)
    assert answer.proved
    assert "loaders" not in [one.name for one in answer.assumptions]
    assert any("no loader was run" in note for note in answer.notes)
    assert len(answer.weights) == 9


def test_an_edited_relation_is_refuted_where_it_is_used(saved: str, tmp_path: Path) -> None:
    assert "[0:24, :]" in saved or "[0:24, 0:16]" in saved
    swapped = saved.replace("[0:24, ", "[?, ").replace("[24:48, ", "[0:24, ").replace("[?, ", "[24:48, ")
    answer = given(swapped, tmp_path)
    assert answer.verdict is tt.Verdict.REFUTED
    assert answer.mismatch is not None
    assert answer.mismatch.specification.startswith("_unsafe_view_3")  # the gate


def test_a_scaled_parameter_is_written_with_its_factor(tmp_path: Path) -> None:
    class Shifted(torch.nn.Module):
        def __init__(self, by: float) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.zeros(4))
            self.by = by

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * (self.w + self.by)

    def fill(model: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> None:
        model.get_parameter("w").copy_(tensors["w"] + 1)

    path, x = tmp_path / "r.toml", torch.zeros(2, 4)
    sides = Shifted(1.0), Shifted(0.0)
    assert tt.compare(*sides, inputs=(x,), loaders=(None, fill), save_relations=path).proved
    assert "'1'" in path.read_text()
    assert tt.compare(*sides, inputs=(x,), relations=path).proved
    path.write_text(path.read_text().replace("\"plus\" = '1'", "\"plus\" = '2'"))
    assert tt.compare(*sides, inputs=(x,), relations=str(path)).verdict is tt.Verdict.REFUTED


class Joined(torch.nn.Module):
    """Two matrices in one."""

    def __init__(self, width: int, device: str = "cpu") -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(2 * width, width, device=device))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = (x @ self.w.t()).chunk(2, -1)
        return gate.tanh() * up


class Apart(torch.nn.Module):
    def __init__(self, width: int, device: str = "cpu") -> None:
        super().__init__()
        self.gate = torch.nn.Parameter(torch.zeros(width, width, device=device))
        self.up = torch.nn.Parameter(torch.zeros(width, width, device=device))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.gate).tanh() * (x @ self.up)


def fill_apart(model: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    gate, up = tensors["w"].chunk(2)
    model.get_parameter("gate").copy_(gate.t())
    model.get_parameter("up").copy_(up.t())


def test_relations_of_three_small_sizes_hold_at_a_large_one(tmp_path: Path) -> None:
    files = [tmp_path / f"{width}.toml" for width in (3, 4, 6)]
    for file, width in zip(files, (3, 4, 6), strict=True):
        sides, x = (Joined(width), Apart(width)), torch.zeros(2, width)
        assert tt.compare(*sides, inputs=(x,), loaders=(None, fill_apart), save_relations=file).proved
    large = Joined(4096, "meta"), Apart(4096, "meta")
    x = torch.zeros(2, 4096, device="meta")
    assert tt.compare(*large, inputs=(x,), relations=files).proved
    with pytest.raises(UserError, match="one formula at 3 sizes"):
        tt.compare(*large, inputs=(x,), relations=files[:2])
    text = files[0].read_text().replace("[0:3, ", "[?, ").replace("[3:6, ", "[0:3, ").replace("[?, ", "[3:6, ")
    assert text != files[0].read_text()
    files[0].write_text(text)  # gate and up exchanged, at one size
    with pytest.raises(UserError, match="one formula at 3 sizes"):
        tt.compare(*large, inputs=(x,), relations=files)


class Layers(torch.nn.Module):
    """Blocks one after the other."""

    def __init__(self, block: type[torch.nn.Module], width: int, layers: int, device: str = "cpu") -> None:
        super().__init__()
        self.inner = torch.nn.Module()
        own = self.inner if block is Apart else self  # names of the two lists differ
        own.layers = torch.nn.ModuleList(block(width, device) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in getattr(self, "layers", None) or self.inner.layers:
            x = layer(x)
        return x


def fill_layers(model: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    for name, tensor in tensors.items():
        layer = model.get_submodule("inner." + name.removesuffix(".w"))
        fill_apart(layer, {"w": tensor})


def fill_first_otherwise(model: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    fill_layers(model, tensors)
    fill_apart(model.get_submodule("inner.layers.0"), {"w": tensors["layers.0.w"].roll(1, 0)})


def test_relations_of_three_layers_hold_for_more(tmp_path: Path) -> None:
    def saved(layers: int, load: Callable[..., None]) -> list[Path]:
        files = [tmp_path / f"{width}.toml" for width in (3, 4, 6)]
        for file, width in zip(files, (3, 4, 6), strict=True):
            sides = Layers(Joined, width, layers), Layers(Apart, width, layers)
            tt.compare(*sides, inputs=(torch.zeros(2, width),), loaders=(None, load), save_relations=file)
        return files

    large, x = (Layers(Joined, 64, 5, "meta"), Layers(Apart, 64, 5, "meta")), torch.zeros(2, 64, device="meta")
    report = tt.compare(*large, inputs=(x,), relations=saved(3, fill_layers))
    assert report.proved
    assert "layers.3 to layers.4 are filled like the 3 before them" in report.notes
    swapped = Layers(Apart, 64, 5, "meta")
    last = swapped.inner.layers[4]
    last.forward = lambda x: (x @ last.up).tanh() * (x @ last.gate)
    assert not tt.compare(large[0], swapped, inputs=(x,), relations=saved(3, fill_layers)).proved
    for layers, filled in ((2, fill_layers), (3, fill_first_otherwise)):
        with pytest.raises(UserError, match=f"{layers} of 5 layers"):
            tt.compare(*large, inputs=(x,), relations=saved(layers, filled))


class Padded(torch.nn.Module):
    """A table of rows, with room for two rows more than there are."""

    def __init__(self, width: int, device: str = "cpu") -> None:
        super().__init__()
        self.rows = torch.nn.Parameter(torch.zeros(6, width, device=device))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.rows.t())[:, :4]


class Bare(Padded):
    def __init__(self, width: int, device: str = "cpu") -> None:
        super().__init__(width, device)
        self.rows = torch.nn.Parameter(torch.zeros(4, width, device=device))


def fill_padded(model: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    model.get_parameter("rows")[:4] = tensors["rows"]


def test_what_nothing_is_loaded_into_at_another_size(tmp_path: Path) -> None:
    files = [tmp_path / f"{width}.toml" for width in (3, 4, 5)]
    for file, width in zip(files, (3, 4, 5), strict=True):
        sides, x = (Bare(width), Padded(width)), torch.zeros(2, width)
        assert tt.compare(*sides, inputs=(x,), loaders=(None, fill_padded), save_relations=file).proved
    large = Bare(512, "meta"), Padded(512, "meta")
    assert tt.compare(*large, inputs=(torch.zeros(2, 512),), relations=files).proved


class Scaled(torch.nn.Module):
    """A matrix between two tables of numbers."""

    def __init__(self, device: str, last: float = 3.0) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(3, 3, device=device))
        self.register_buffer("table", torch.tensor([1.0, 2.0, last]), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.table * x @ self.weight) * self.table


def test_weights_without_numbers_beside_tables_with_them(tmp_path: Path) -> None:
    x = torch.zeros(2, 3)
    filled, empty = (tt.capture(Scaled(device), (x,)) for device in ("cpu", "meta"))
    assert [node.target for node in filled.graph.nodes] == [node.target for node in empty.graph.nodes]
    source = """
format = 'relations/1'
checkpoint = { weight = [3, 3] }
first = { weight = 'rank(0, "weight")' }
second = { weight = 'rank(0, "weight")' }
"""
    for last, verdict in ((3.0, tt.Verdict.PROVED), (4.0, tt.Verdict.REFUTED)):
        path = tmp_path / "relations.toml"
        path.write_text(source)
        report = tt.compare(Scaled("meta"), Scaled("meta", last), inputs=(x,), relations=path)
        assert report.verdict is verdict


def test_relations_of_programs_are_saved_and_given(tmp_path: Path) -> None:
    path, x = tmp_path / "r.toml", torch.zeros(2, 3)
    programs = [tt.capture(f, (x, torch.zeros(2, 3))) for f in (lambda a, b: a - b, lambda c, d: c - d)]
    assert tt.compare(*programs, save_relations=path).verdict is tt.Verdict.UNKNOWN  # guessed
    assert tt.compare(*programs, relations=path).proved


WRONG = [
    ("format = 'relations/1'", "format = 'relations/2'", "job-field", "format"),
    ('"tokens.weight" = ', '"no.weight" = ', "compare-relations", "no.weight"),
    ('rank(0, "down.weight")', 'rank(0, "dawn.weight")', "job-field", "down.weight"),
    ("[0:24, ", "[0:8, ", "compare-relations", "w1.weight"),
    ("[second]", "[third]", "job-field", "relations.toml"),
]


@pytest.mark.parametrize(("before", "after", "code", "place"), WRONG, ids=[row[3] for row in WRONG])
def test_a_file_that_does_not_fit_is_a_clear_error(
    saved: str, tmp_path: Path, before: str, after: str, code: str, place: str
) -> None:
    assert before in saved
    with pytest.raises(UserError) as caught:
        given(saved.replace(before, after, 1), tmp_path)
    assert caught.value.code == code
    assert place in caught.value.place


def test_relations_of_arguments_stand_beside_those_of_parameters(saved: str, tmp_path: Path) -> None:
    """They are used, and a name that there is not is an error that names the file."""
    assert given(f"{saved}\n[inputs]\nids = 'rank(0, \"tokens\")'\n", tmp_path).proved
    for table in ("inputs", "outputs"):
        with pytest.raises(UserError) as caught:
            given(f"{saved}\n[{table}]\nnothing = 'rank(0, \"tokens\")'\n", tmp_path)
        assert "relations.toml: " in caught.value.place
        with pytest.raises(UserError, match="relations for other sizes"):
            tt.compare(Fused(), Separate(), inputs=(TOKENS,), relations=[tmp_path / "relations.toml"] * 3)


def test_a_number_that_is_none_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(
        'format = "relations/1"\n[checkpoint]\nw = [2]\n[first]\nw = { relation = \'rank(0, "w")\', times = "1/0" }\n'
    )
    with pytest.raises(UserError, match="times"):
        read_relations(path)
