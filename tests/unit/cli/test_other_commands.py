"""``tantamount show``, ``ops`` and ``version``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tantamount import __version__
from tantamount.capture.readers import READERS, Reader, read_graph
from tantamount.cli.explaining import page
from tantamount.cli.operators import overview
from tantamount.explanations.operators import operator_topic
from tantamount.ir.text import format_graph
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.table import Group, Operator
from tantamount.report.lines import plain

from .conftest import CommandLine


def scaled_add(b: Builder, self: Tensor, other: Tensor, *, alpha: float = 1.0) -> Tensor:
    """self + alpha * other

    Broadcasts.
    """
    raise NotImplementedError


def all_reduce(b: Builder, self: Tensor, group: Group) -> Tensor:
    """SUM over the members"""
    raise NotImplementedError


ADD = Operator(("aten.add.Tensor", "aten.add_.Tensor"), "pointwise", scaled_add)
REDUCE = Operator(("comm.all_reduce.default",), "collective", all_reduce)


def test_version(command: CommandLine) -> None:
    for asked in ("version", "--version"):
        done = command(asked)
        assert (done.exit_code, done.stdout) == (0, f"tantamount {__version__}\n")


def test_overview_has_every_operator_once() -> None:
    table = {"aten.add.Tensor": ADD, "aten.add_.Tensor": ADD, "comm.all_reduce.default": REDUCE}
    assert plain(overview(table)) == (
        "2 operators under 3 names; `tantamount ops NAME` shows one\n"
        "\n"
        "collective\n"
        "  comm.all_reduce.default  SUM over the members\n"
        "\n"
        "pointwise\n"
        "  aten.add.Tensor          self + alpha * other\n"
    )


def test_page() -> None:
    shown = plain(page(operator_topic(ADD)))
    assert shown.startswith(
        "aten.add.Tensor   operator\n"
        "  pointwise\n"
        "\n"
        "Value\n"
        "  Broadcasts.\n"
        "    self + alpha * other\n"
        "\n"
        "Attributes\n"
        "  Any other attribute is refused.\n"
        "  self   Tensor\n"
        "  other  Tensor\n"
        "  alpha  float   1.0\n"
        "    (self, other, *, alpha=1.0)\n"
    )
    assert "Names\n  - aten.add.Tensor\n  - aten.add_.Tensor\n" in shown
    assert "def scaled_add(b: Builder, self: Tensor, other: Tensor, *, alpha: float = 1.0) -> Tensor:" in shown
    assert "\nCommunication\n  Over the process group that `group` names.\n" in plain(page(operator_topic(REDUCE)))


@pytest.mark.parametrize("row", READERS, ids=lambda row: row.name)
def test_show_prints_the_text_form(command: CommandLine, tmp_path: Path, row: Reader) -> None:
    path = tmp_path / f"g{row.suffixes[0]}"
    path.write_text(row.example, encoding=row.encoding, newline="")
    done = command("show", str(path))
    assert (done.exit_code, done.stdout) == (0, format_graph(read_graph(path)))


def test_show_refuses_what_is_no_graph(command: CommandLine, tmp_path: Path) -> None:
    missing = command("show", "missing.json")
    assert missing.exit_code == 2
    assert missing.stderr.startswith("error[file-unreadable] missing.json\n")
    (tmp_path / "model.pth").write_bytes(b"\x80\x02\xff")
    unknown = command("show", str(tmp_path / "model.pth"))
    assert unknown.exit_code == 2
    assert unknown.stderr.startswith(f"error[graph-format] {tmp_path / 'model.pth'}\n")
    assert all(str(row) in unknown.stderr for row in READERS)
    assert "tantamount capture MODULE:FUNCTION" in unknown.stderr
