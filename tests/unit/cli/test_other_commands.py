"""``tantamount show``, ``ops`` and ``version``."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tantamount import __version__
from tantamount.cli.explaining import page
from tantamount.cli.operators import overview
from tantamount.errors import UserError
from tantamount.explanations.operators import operator_topic
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
    done = command("version")
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


def test_show_prints_the_text_form(command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, printer = ModuleType("tantamount.capture.fx_json"), ModuleType("tantamount.ir.text")

    def read_graph(path: Path) -> str:
        if path.name == "missing.json":
            raise UserError("file-missing", place=str(path), found="no such file", needed="a graph file")
        return f"graph of {path}"

    monkeypatch.setattr(reader, "read_graph", read_graph, raising=False)
    monkeypatch.setattr(printer, "format_graph", str, raising=False)
    monkeypatch.setitem(sys.modules, reader.__name__, reader)
    monkeypatch.setitem(sys.modules, printer.__name__, printer)
    done = command("show", "spec.json.gz")
    assert (done.exit_code, done.stdout) == (0, "graph of spec.json.gz\n")
    missing = command("show", "missing.json")
    assert missing.exit_code == 2
    assert missing.stderr.startswith("error[file-missing] missing.json\n")
