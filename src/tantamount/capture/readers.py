"""The formats of graph files: one row each. Jobs, ``tantamount show`` and whatever else reads graphs look here.

A reader takes text to a :class:`Graph` whose structure is checked, within limits, and raises :class:`UserError` for
everything that is wrong with the text. Files are opened, decompressed and decoded here, the same way for every format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tantamount.capture.fields import shown
from tantamount.capture.files import BYTES, opened, read_text
from tantamount.capture.fx_json import graph_of, parse_graph
from tantamount.capture.graph_document import graph_document
from tantamount.capture.wide_splits import read_from_the_whole
from tantamount.errors import UserError
from tantamount.ir.graph import Graph
from tantamount.ir.text import parse_graph as parse_text
from tantamount.limits import Limits, limits_from_environment

__all__ = ["CONVERTED", "EXPORTED", "READERS", "Converted", "Reader", "conversion", "endings", "named", "read_graph"]

_COMPRESSED = ".gz"
_MEMBERS = ("/data/weights/", "/data/constants/", "/models/", "/archive_format")
_HEAD = 4096  # characters in which a format shows itself


@dataclass(frozen=True)
class Reader:
    """One format of graph files.

    ``name`` is the format's in messages, ``suffixes`` are the ends of its files' names (each may be followed by
    ``.gz``). ``sniff(text)`` is true for text that begins like the format's. ``parse(text, path, limits)`` gives the
    graph, with its structure checked (``ir.validate``); ``path`` names the file in messages. It raises
    :class:`UserError` only, with the codes that ``errors`` lists (a code, or the first word of several) or
    ``limit-...``; types and operators are checked later (``ops.check``).

    ``written`` is a small file, or makes one (``example`` is that file), from which tests derive broken ones: an input
    ``alpha`` of shape ``[2, 3]``, ``first`` = ``alpha`` + ``alpha`` by an operator whose name has ``add`` in it,
    ``second`` = ``first`` * ``alpha``, which is the output, all float32.

    A format of bytes has the ``encoding`` ``files.BYTES``: its text has one character for every byte. One of archives
    has ``parse_file(path, limits, weights)``, too: it opens a plain file by itself, and reads what it needs of it,
    ``weights`` among that or not.
    """

    name: str
    suffixes: tuple[str, ...]
    sniff: Callable[[str], bool]
    parse: Callable[[str, str, Limits], Graph]
    errors: tuple[str, ...]
    written: str | Callable[[], str]
    encoding: str = "utf-8"
    parse_file: Callable[[Path, Limits, bool], Graph] | None = None

    @property
    def example(self) -> str:
        """The text of the small file."""
        return self.written if isinstance(self.written, str) else self.written()

    @property
    def endings(self) -> tuple[str, ...]:
        """The ends of names of plain and compressed files."""
        return tuple(end for suffix in self.suffixes for end in (suffix, suffix + _COMPRESSED))

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(self.suffixes)})"


@dataclass(frozen=True)
class Converted:
    """A format whose files are not read as they are: reading them may execute what they hold. ``hint`` says how they
    become graph files."""

    name: str
    suffixes: tuple[str, ...]
    hint: str


def _json(text: str) -> bool:
    return text[:_HEAD].lstrip().startswith("{")


def _hlo(text: str) -> bool:
    return text[:_HEAD].lstrip().startswith("HloModule")


def _text(text: str) -> bool:
    return text.startswith("tantamount graph ")


_ONNX_EXAMPLE = (
    '\x08\x08\x12\x04test:b\n\x1a\n\x05alpha\n\x05alpha\x12\x05first"\x03Add\n\x1b\n\x05first\n\x05alpha\x12\x06second"'
    "\x03Mul\x12\x04mainZ\x17\n\x05alpha\x12\x0e\n\x0c\x08\x01\x12\x08\n\x02\x08\x02\n\x02\x08\x03b\x08\n\x06second"
    "B\x02\x10\x12"
)


def _onnx(text: str) -> bool:
    """True for bytes that begin like those of a model: with the version of the format, as every writer begins."""
    return len(text) > 2 and text[0] == "\x08" and "\x01" <= text[1] <= "\x20" and text[2] in "\x12:B\x1a"


# Readers of formats that most jobs do not use are imported when a file is of theirs.
def _parse_hlo(text: str, path: str, limits: Limits) -> Graph:
    from tantamount.capture.hlo import parse_hlo

    return parse_hlo(text, path, limits)


def _parse_onnx(text: str, path: str, limits: Limits) -> Graph:
    from tantamount.capture.onnx import parse_onnx

    return parse_onnx(text, path, limits)


def _pt2(text: str) -> bool:
    """True for a zip file whose first member is one that an archive of torch.export has."""
    name = text[30:286]
    return text.startswith("PK\x03\x04") and any(part in name for part in _MEMBERS)


def _parse_pt2(text: str, path: str, limits: Limits) -> Graph:
    from tantamount.capture.pt2 import parse_pt2

    return parse_pt2(text, path, limits)


def _read_pt2(path: Path, limits: Limits, weights: bool) -> Graph:
    from tantamount.capture.pt2 import read_pt2

    return read_pt2(path, limits, weights)


def _pt2_example() -> str:
    from tantamount.capture.pt2.example import example

    return example()


def _parse_text(text: str, path: str, limits: Limits) -> Graph:
    # What is checked of names, numbers and overwritten memory is checked in one place, for both formats of ours.
    return graph_of(graph_document(parse_text(text, path, limits)), path, limits)


EXPORTED = Reader(
    "torch.export archive", (".pt2",), _pt2, _parse_pt2, ("graph",), _pt2_example, BYTES, _read_pt2
)  # fmt: skip
READERS: tuple[Reader, ...] = (
    Reader(
        "fx-nodes/1", (".json",), _json, parse_graph, ("graph",),
        """{"format": "fx-nodes/1", "nodes": [
  {"name": "alpha", "op": "placeholder", "shape": [2, 3], "dtype": "float32"},
  {"name": "first", "op": "call_function", "target": "aten.add.Tensor", "args": [{"node": "alpha"}, {"node": "alpha"}],
   "shape": [2, 3], "dtype": "float32"},
  {"name": "second", "op": "call_function", "target": "aten.mul.Tensor", "args": [{"node": "first"}, {"node": "alpha"}],
   "shape": [2, 3], "dtype": "float32"},
  {"name": "output", "op": "output", "args": [[{"node": "second"}]]}
]}
""",
    ),
    Reader(
        "HLO text", (".hlo",), _hlo, _parse_hlo, ("graph",),
        """HloModule example

ENTRY main {
  alpha = f32[2,3]{1,0} parameter(0)
  first = f32[2,3]{1,0} add(alpha, alpha)
  ROOT second = f32[2,3]{1,0} multiply(first, alpha)
}
""",
    ),
    Reader(
        "graph text", (".graph",), _text, _parse_text, ("graph", "text-syntax"),
        """tantamount graph 1
%alpha: float32[2, 3] = input
%first: float32[2, 3] = aten.add.Tensor(%alpha, %alpha)
%second: float32[2, 3] = aten.mul.Tensor(%first, %alpha)
output second = %second
""",
    ),
    Reader("ONNX", (".onnx",), _onnx, _parse_onnx, ("graph",), _ONNX_EXAMPLE, BYTES),
    EXPORTED,
)  # fmt: skip

CONVERTED: tuple[Converted, ...] = (
    Converted(
        "what torch.save wrote", (".pt", ".pth", ".bin"),
        "it may hold any Python object; capture the program with `tantamount capture MODULE:FUNCTION`",
    ),
    Converted(
        "StableHLO", (".mlir", ".stablehlo"),
        'JAX prints HLO text, too: `jax.jit(f).lower(...).as_text("hlo")`, saved as *.hlo',
    ),
)  # fmt: skip


def endings(readers: Iterable[Reader] = READERS) -> str:
    """The ends of names that are read, for messages: ``.json, .json.gz, .hlo, ...``."""
    return ", ".join(end for reader in readers for end in reader.endings)


def named(name: str, readers: Iterable[Reader] = READERS) -> Reader | None:
    """The reader of a file with this name, or ``None`` if no format's names end like it."""
    return next((reader for reader in readers if name.endswith(reader.endings)), None)


def conversion(name: str) -> str:
    """Directions for making a graph file of a file with this name, or an empty text if nothing is known of it."""
    return next((row.hint for row in CONVERTED if name.endswith(row.suffixes)), "")


def read_graph(
    path: str | Path, limits: Limits | None = None, readers: Sequence[Reader] = READERS, *, weights: bool = False
) -> Graph:
    """The graph in a file of any format: the one that the end of its name says, else the one that it begins like. With
    ``weights`` those of an archive are constants, and no inputs.

    ``limits`` default to those of the environment. Raises :class:`UserError`: the file cannot be read (``file-...``),
    is of no format or of another than its name says (``graph-format``), is too large (``limit-...``), or what the
    format's reader has against it."""
    limits = limits or limits_from_environment()
    path = Path(path)
    reader = named(path.name, readers)
    if reader is not None and reader.parse_file is not None and reader.sniff(_head(path)):
        return read_from_the_whole(reader.parse_file(path, limits, weights))
    encoding = "utf-8" if reader is None else reader.encoding
    try:
        text = read_text(path, limits, encoding)
    except UserError as problem:
        if problem.code != "file-encoding":
            raise
        encoding, text = BYTES, _of_bytes(path, limits)
        if not any(other.encoding == BYTES and other.sniff(text) for other in readers):
            raise problem if reader is not None else _unknown(path, "bytes that are no text", readers) from None
    alike = next((other for other in readers if other.sniff(text)), None)
    chosen = reader or alike
    if chosen is None:
        raise _unknown(path, f"text that begins {shown(text[:40])}" if text else "an empty file", readers)
    if alike is not None and not chosen.sniff(text):
        raise UserError(
            "graph-format", place=str(path), found=f"text that begins like {alike.name}", needed=str(chosen),
            hint=f"if it is {alike.name}, its name should end with {' or '.join(alike.suffixes)}",
        )  # fmt: skip
    if chosen.encoding != encoding:
        text = read_text(path, limits, chosen.encoding)
    return read_from_the_whole(chosen.parse(text, str(path), limits))


def _head(path: Path) -> str:
    """How a file begins, one character for every byte."""
    with opened(path) as file:
        return file.read(_HEAD).decode(BYTES)


def _of_bytes(path: Path, limits: Limits) -> str:
    """One character for every byte; nothing where that cannot be read."""
    try:
        return read_text(path, limits, BYTES)
    except UserError:
        return ""


def _unknown(path: Path, found: str, readers: Iterable[Reader]) -> UserError:
    return UserError(
        "graph-format", place=str(path), found=found,
        needed=f"a graph file: {', '.join(map(str, readers))}, plain or {_COMPRESSED}", hint=conversion(path.name),
    )  # fmt: skip
