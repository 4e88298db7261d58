"""The notebook of the examples: its code cells run in order, and what they print.

``python tests/support/notebook.py`` runs them without Jupyter and writes their outputs into the notebook.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["NOTEBOOK", "code_cells", "printed", "stored"]

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "examples" / "notebook.ipynb"

# Cells are modules of their own to tracebacks and sources, as in Jupyter. What they print is separated by a line.
_MARK = "\x1e\n"
_RUNNER = """
import json, linecache, sys
names = {"__name__": "__main__"}
for number, source in enumerate(json.load(sys.stdin), 1):
    file = f"cell {number}"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), names)
    print(MARK, end="", flush=True)
"""


def code_cells(notebook: Path = NOTEBOOK) -> list[dict[str, Any]]:
    """The code cells, as the file has them."""
    return [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]


def stored(cell: dict[str, Any]) -> str:
    """What a cell printed when the notebook was written."""
    return "".join("".join(output["text"]) for output in cell["outputs"])


def printed() -> list[str]:
    """What every code cell prints, in a new process and an empty folder."""
    sources = json.dumps(["".join(cell["source"]) for cell in code_cells()])
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    program = f"MARK = {_MARK!r}{_RUNNER}"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", program], input=sources, env=environment, cwd=folder, capture_output=True,
            text=True, timeout=300, check=False,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout.split(_MARK)[:-1]


def main() -> None:
    document = json.loads(NOTEBOOK.read_text())
    cells = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    for number, (cell, text) in enumerate(zip(cells, printed(), strict=True), 1):
        cell["execution_count"] = number
        lines = text.splitlines(keepends=True)
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
    NOTEBOOK.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
