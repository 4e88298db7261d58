"""What every reader of graph files has to do, tried on every row of the registry and on the one that the documentation
adds. Broken files are derived from the rows' examples."""

from __future__ import annotations

import gzip
import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from support.graphs import write_job
from support.onnx_models import model, node
from support.pt2_archives import changed as in_archive
from tantamount.answers import refine
from tantamount.capture.job import read_job
from tantamount.capture.readers import CONVERTED, READERS, Reader, named, read_graph
from tantamount.errors import UserError
from tantamount.ir.graph import Graph
from tantamount.ir.text import format_graph
from tantamount.limits import Limits
from tantamount.ops.check import check_graph
from tantamount.semantics.interpret import interpret
from tantamount.verdict import Verdict

PAGE = Path(__file__).resolve().parents[3] / "docs" / "adding-a-reader.md"
CHECKED = ("operator", "type")  # what checking the types of any graph may raise
ONNX = next(row for row in READERS if row.name == "ONNX")
PT2 = next(row for row in READERS if row.name == "torch.export archive")
COMMON = ("file", "limit")  # what opening a file may raise, whatever its format


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """The reader of the documentation."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    path = tmp_path_factory.mktemp("page") / "toy_reader.py"
    path.write_text(code)
    spec = importlib.util.spec_from_file_location("toy_reader", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["toy_reader"] = module
    spec.loader.exec_module(module)
    return module.TOY


@pytest.fixture(params=[*READERS, None], ids=lambda row: "documented" if row is None else row.name)
def reader(request: pytest.FixtureRequest) -> Reader:
    return request.param or request.getfixturevalue("toy")


@pytest.fixture
def files(reader: Reader, tmp_path: Path) -> Files:
    return Files(reader, tmp_path)


class Files:
    """Files of one format in a folder."""

    def __init__(self, reader: Reader, folder: Path) -> None:
        self.reader = reader
        self.folder = folder
        self.readers = (*(row for row in READERS if row.name != reader.name), reader)

    def write(self, content: str | bytes, name: str = "g", end: str = "") -> Path:
        path = self.folder / f"{name}{self.reader.suffixes[0]}{end}"
        path.write_bytes(self.encoded(content) if isinstance(content, str) else content)
        return path

    def encoded(self, text: str) -> bytes:
        """The bytes of a text, some of which may not be of the format."""
        utf8 = self.reader.encoding == "utf-8"
        return text.encode(self.reader.encoding, "surrogatepass" if utf8 else "replace")

    def text_only(self) -> None:
        """Skip what is done to text, for formats of bytes: their own tests break what is in there."""
        if self.reader.encoding != "utf-8":
            pytest.skip(f"{self.reader.name} is no text")

    def read(self, path: Path, limits: Limits | None = None) -> Graph:
        """The graph, with its types checked."""
        graph = read_graph(path, limits or Limits(), self.readers)
        check_graph(graph, None)
        return graph

    def error(self, content: str | bytes, limits: Limits | None = None) -> UserError:
        """The error that reading gives, which says what it has to say."""
        path = self.write(content)
        with pytest.raises(UserError) as caught:
            self.read(path, limits)
        self.judge(caught.value, path)
        return caught.value

    def judge(self, error: UserError, path: Path) -> None:
        assert error.place.startswith(str(path))
        assert error.found
        assert error.needed
        known = (*COMMON, *self.reader.errors, *CHECKED)
        assert any(error.code == code or error.code.startswith(f"{code}-") for code in known), error.code

    def graph_or_error(self, content: str | bytes) -> None:
        path = self.write(content)
        try:
            self.read(path)
        except UserError as error:
            self.judge(error, path)


def _model(target: str, operands: list[str], second: str) -> str:
    """The example of the ONNX reader with another operator, operands or name of the result."""
    nodes = [node(target, operands, ["first"]), node("Mul", ["first", "alpha"], [second])]
    return model(nodes, [("alpha", [2, 3])], [second]).decode("latin-1")


def _between(text: str, old: str, new: str) -> str:
    """The text with ``old`` replaced by ``new`` in what defines ``first``."""
    if text == ONNX.example:
        target = "Add" if old != "add" else new
        return _model(target, [new if old == "alpha" else "alpha", "alpha"], "second")
    if text == PT2.example:  # what defines `first` is the first node
        return in_archive(
            text, lambda model: _replaced(model, model.index('"nodes"'), model.index('"first"'), old, new)
        )
    return _replaced(text, text.index("first"), text.index("second"), old, new)


def _replaced(text: str, start: int, end: int, old: str, new: str) -> str:
    changed = text[start:end].replace(old, new)
    assert changed != text[start:end]
    return text[:start] + changed + text[end:]


# ---------------------------------------------------------------------------------------------- what is read
def test_the_example_is_the_program_that_every_format_can_say(files: Files) -> None:
    graph = files.read(files.write(files.reader.example))
    (alpha,) = graph.inputs
    assert str(alpha.type) == "float32[2, 3]"
    assert [node.name for node in graph.nodes if node.op == "call"] == ["first", "second"]
    (output,) = graph.outputs
    value = np.arange(6.0).reshape(2, 3)
    assert (interpret(graph, {alpha.name: value}).array(output.node) == 2 * value * value).all()


def test_plain_compressed_and_under_another_name(files: Files) -> None:
    text = files.reader.example
    plain = files.read(files.write(text))
    assert files.read(files.write(gzip.compress(files.encoded(text)), end=".gz")).nodes == plain.nodes
    other = files.folder / "program.txt"
    other.write_bytes(files.encoded(text))
    assert files.read(other).nodes == plain.nodes


def test_names_and_beginnings_belong_to_one_format(files: Files) -> None:
    for row in files.readers:
        mine = row.name == files.reader.name
        assert row.sniff(files.reader.example) == mine
        assert all((named(f"g{end}", (row,)) is not None) == mine for end in files.reader.endings)


def test_a_graph_is_shown_in_the_text_form(files: Files) -> None:
    graph = files.read(files.write(files.reader.example))
    shown = files.folder / "shown.graph"
    shown.write_text(format_graph(graph))
    assert read_graph(shown).nodes == graph.nodes


def test_a_job_may_name_such_a_file(files: Files) -> None:
    files.write(files.reader.example, "spec")
    name = f"spec{files.reader.suffixes[0]}"
    job = f"""
    format = "job/1"
    spec.graph = "{name}"
    impl = {{ graph = "{name}", mesh = {{}} }}
    inputs.default = "rank(0)"
    """
    path = write_job(files.folder, job, {})
    read = read_job(path, readers=files.readers)
    assert refine(read).verdict is Verdict.PROVED


# ---------------------------------------------------------------------------------------------- what is refused
def test_a_missing_file(files: Files) -> None:
    path = files.folder / f"missing{files.reader.suffixes[0]}"
    with pytest.raises(UserError) as caught:
        files.read(path)
    assert (caught.value.code, caught.value.place) == ("file-unreadable", str(path))


@pytest.mark.parametrize("content", ["", "\n", " ", "\x00", "\ufeff", "x", "{", "\n" * 1000])
def test_no_program_at_all(files: Files, content: str) -> None:
    files.error(content)


def test_cut_off_anywhere(files: Files) -> None:
    text = files.reader.example
    for end in range(0, len(text), 1 + len(text) // 800):
        files.graph_or_error(text[:end])
    files.error(files.reader.example[: files.reader.example.index("second")])


def test_compressed_and_cut_off(files: Files) -> None:
    packed = gzip.compress(files.encoded(files.reader.example))
    for end in (0, 5, len(packed) // 2, len(packed) - 1):
        path = files.write(packed[:end], end=".gz")
        with pytest.raises(UserError) as caught:
            files.read(path)
        files.judge(caught.value, path)


def test_compressed_under_a_plain_name(files: Files) -> None:
    error = files.error(gzip.compress(files.encoded(files.reader.example)))
    assert (error.code, error.hint) == ("file-encoding", "it is gzip data: name it .gz")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_another_encoding(files: Files, encoding: str) -> None:
    files.text_only()
    assert files.error(files.reader.example.encode(encoding)).code == "file-encoding"


@pytest.mark.parametrize(
    "odd",
    [
        "\x00",
        "\ud800",
        "\u2028",
        "\r",
        "\x1b",
        "\N{SUPERSCRIPT TWO}",
        "\N{ARABIC-INDIC DIGIT ONE}",
        "%",
        '"',
        "\\",
        "#",
    ],
)
def test_an_odd_character_anywhere(files: Files, odd: str) -> None:
    text = files.reader.example
    for at in range(0, len(text), max(3, len(text) // 400)):
        files.graph_or_error(text[:at] + odd + text[at:])


@pytest.mark.parametrize("bracket", ["(", "[", "{", "<", "-", '{"x":', "[1,"])
def test_nested_too_deep(files: Files, bracket: str) -> None:
    files.text_only()
    text = files.reader.example
    places = [0, text.index("2"), text.index("first"), text.index("add"), len(text) // 2, len(text)]
    for at in (*places, _between(text, "alpha", "\0").index("\0")):
        files.graph_or_error(text[:at] + bracket * 20_000 + text[at:])


@pytest.mark.parametrize("number", ["-1", "9" * 30, "9" * 5000, "1e999", "nan", "2.5", "0x2", "9" * 20])
def test_a_size_that_is_none(files: Files, number: str) -> None:
    files.text_only()
    text = files.reader.example
    at = text.index("alpha")
    start = next(m.start() for m in re.finditer(r"(?<![\w])2(?=\W+3)", text[at:])) + at
    files.error(text[:start] + number + text[start + 1 :])


@pytest.mark.parametrize(
    "limit", ["file_bytes", "nodes", "dimensions", "dimension_size"]
)  # those that every format has; the rest is in the formats' own tests
def test_beyond_a_limit(files: Files, limit: str) -> None:
    error = files.error(files.reader.example, Limits(**{limit: 1}))
    assert error.code == f"limit-{limit.replace('_', '-')}"
    assert f"TANTAMOUNT_LIMIT_{limit.upper()}" in error.hint


def test_beyond_the_limit_of_what_is_unpacked(files: Files) -> None:
    path = files.write(gzip.compress(files.encoded(files.reader.example)), end=".gz")
    with pytest.raises(UserError, match="limit-decompressed-bytes"):
        files.read(path, Limits(decompressed_bytes=10))


def test_a_name_twice(files: Files) -> None:
    text = files.reader.example
    twice = text.replace("second", "first")
    if text == ONNX.example:
        twice = _model("Add", ["alpha", "alpha"], "first")
    if text == PT2.example:
        twice = in_archive(text, lambda model: model.replace("second", "first"))
    error = files.error(twice)
    assert "first" in str(error)


def test_a_reference_forward(files: Files) -> None:
    assert "second" in str(files.error(_between(files.reader.example, "alpha", "second")))


def test_a_reference_to_nothing(files: Files) -> None:
    assert "nothing" in str(files.error(_between(files.reader.example, "alpha", "nothing")))


def test_an_unknown_operator(files: Files) -> None:
    assert "unheard" in str(files.error(_between(files.reader.example, "add", "unheard")))


def test_a_graph_of_another_format(files: Files) -> None:
    for row in files.readers:
        if row.name != files.reader.name:
            error = files.error(row.example.encode(row.encoding))
            assert (error.code, error.needed) == ("graph-format", str(files.reader))
            assert row.suffixes[0] in error.hint


# ---------------------------------------------------------------------------------------------- no format
@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("g.pt", b"\x80\x02\x8a", "bytes that are no text"),
        ("g.txt", b"hello", "text that begins 'hello'"),
        ("noname", b"", "an empty file"),
    ],
)
def test_a_file_of_no_format(tmp_path: Path, name: str, content: bytes, found: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        read_graph(path)
    error = caught.value
    assert (error.code, error.place, error.found) == ("graph-format", str(path), found)
    assert all(str(row) in error.needed for row in READERS)


@pytest.mark.parametrize("row", CONVERTED, ids=lambda row: row.name)
def test_what_has_to_be_converted_says_how(tmp_path: Path, row: object) -> None:
    for suffix in row.suffixes:  # type: ignore[attr-defined]
        path = tmp_path / f"g{suffix}"
        path.write_bytes(b"PK\x03\x04\xff")
        with pytest.raises(UserError) as caught:
            read_graph(path)
        assert (caught.value.code, caught.value.hint) == ("graph-format", row.hint)  # type: ignore[attr-defined]


def test_names_of_formats_are_distinct() -> None:
    ends = [end for row in READERS for end in row.endings] + [end for row in CONVERTED for end in row.suffixes]
    assert len(ends) == len(set(ends))
    assert len({row.name for row in READERS}) == len(READERS)


def test_overwritten_memory_is_read_in_the_text_form_too(tmp_path: Path) -> None:
    (tmp_path / "g.graph").write_text(
        "tantamount graph 1\n%x: float32[2] = input\n%v: float32[2] = aten.view.default(%x, [2])\n"
        "%a: float32[2] = aten.add_.Tensor(%v, 1.0)\n%b: float32[2] = aten.mul.Tensor(%x, %a)\noutput b = %b\n"
    )
    graph = read_graph(tmp_path / "g.graph")
    found = interpret(graph, {"x": np.array([1.0, 2.0])}).array(graph.outputs[0].node)
    assert found.tolist() == [4.0, 9.0]  # x is overwritten through its view before it is read
