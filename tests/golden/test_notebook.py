"""The notebook of the examples: its cells run, with Jupyter or without, and print what the file shows."""

from __future__ import annotations

import json
import re

import pytest

from support.notebook import NOTEBOOK, code_cells, printed, stored


def test_the_file_is_a_notebook_without_paths_of_a_machine() -> None:
    document = json.loads(NOTEBOOK.read_text())
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in document["cells"]}) == len(document["cells"])
    assert re.findall(r"(?<![\w.])/(?:home|root|tmp|work|usr|Users)\b[^\s\"]*", NOTEBOOK.read_text()) == []
    assert all(cell["execution_count"] for cell in code_cells())


def test_it_shows_a_proof_and_a_refutation() -> None:
    shown = [stored(cell) for cell in code_cells()]
    assert any(text.startswith("PROVED ") for text in shown)
    assert any(text.startswith("REFUTED ") for text in shown)


def test_cells_print_what_the_notebook_shows() -> None:
    pytest.importorskip("torch", reason="captures need PyTorch")
    assert printed() == [stored(cell) for cell in code_cells()], "run: python tests/support/notebook.py"


def test_it_runs_in_jupyter(tmp_path_factory: pytest.TempPathFactory) -> None:
    pytest.importorskip("torch", reason="captures need PyTorch")
    nbformat = pytest.importorskip("nbformat", reason="Jupyter is not installed")
    client = pytest.importorskip("nbclient", reason="Jupyter is not installed")
    pytest.importorskip("ipykernel", reason="Jupyter is not installed")
    folder = str(tmp_path_factory.mktemp("notebook"))
    document = nbformat.read(NOTEBOOK, as_version=4)
    client.NotebookClient(document, timeout=300, resources={"metadata": {"path": folder}}).execute()
    texts = ["".join(o.text for o in cell.get("outputs", []) if o.name == "stdout") for cell in document.cells]
    assert [found[0] for text in texts if (found := re.match("PROVED|REFUTED", text))] == ["PROVED", "REFUTED"]
