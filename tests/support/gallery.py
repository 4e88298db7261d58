"""The gallery of the documentation: a page for every program in ``examples/gallery``, and the page that lists them.

``python tests/support/gallery.py`` runs the programs and writes the pages. What the text says and the code are the
program's own docstring and source; the report is what it prints.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests")] if __name__ == "__main__" else []

from support.console import commands, run  # noqa: E402

__all__ = ["PAGES", "PROGRAMS", "index", "page"]

PROGRAMS = sorted((ROOT / "examples" / "gallery").glob("*.py"))
PAGES = ROOT / "docs" / "gallery"
_NOTE = "<!-- Generated: make gallery -->"
_INTRODUCTION = """\
Eleven mistakes that nothing crashes on, after bugs that were made in public. Each is a small program with a right and a
wrong version, captured on a laptop without a GPU; the right one is proved, and the page shows the report about the
wrong one.

| bug | the first line of the report |
|---|---|"""


def _parts(program: Path) -> tuple[str, str, str]:
    """The title, the text (without the line that says how to run it) and the code of a program."""
    source = program.read_text()
    document = ast.get_docstring(ast.parse(source)) or ""
    title, _, text = document.partition("\n\n")
    code = source[source.index('"""\n', 3) + 4 :].strip()
    return (
        title.rstrip("."),
        re.sub(r"\n\n    python .*$", "", text),
        code.partition('\n\n\nif __name__ == "__main__":')[0],
    )


def page(program: Path, output: str) -> str:
    """The page of one program, whose output is given."""
    title, text, code = _parts(program)
    return (
        f"# {title}\n\n{_NOTE}\n\n{text}\n\n"
        f"```console\n$ python examples/gallery/{program.name}\n{output}```\n\n"
        f"## The program\n\n```python\n{code}\n```\n"
    )


def index(outputs: dict[str, str]) -> str:
    """The page that lists the programs; ``outputs`` has what each prints, by its name."""
    rows = [f"| [{_parts(p)[0]}]({p.stem}.md) | {_headline(outputs[p.stem])} |" for p in PROGRAMS]
    return f"# Bugs it finds\n\n{_NOTE}\n\n{_INTRODUCTION}\n" + "\n".join(rows) + "\n"


def _headline(output: str) -> str:
    """The first line of the report about the wrong program, as a cell."""
    first = re.sub(r"^\S+ +captured programs +", "", output.splitlines()[2])
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", first)


def shown(program: Path) -> str:
    """The output that the program's page has."""
    (command,) = commands(PAGES / f"{program.stem}.md")
    return command.output


def main() -> None:
    PAGES.mkdir(exist_ok=True)
    outputs: dict[str, str] = {}
    for program in PROGRAMS:
        outputs[program.stem] = run(f"python examples/gallery/{program.name}")
        (PAGES / f"{program.stem}.md").write_text(page(program, outputs[program.stem]))
    (PAGES / "index.md").write_text(index(outputs))


if __name__ == "__main__":
    main()
