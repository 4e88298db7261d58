"""Console blocks of Markdown pages: commands and the output that the page claims they have.

A block starts with ```` ```console ````; a line ``$ tantamount ...`` is run by a shell in the repository root, the
lines up to the next command are its output (standard output and error). A line ``...`` stands for any lines. ``python
tests/support/console.py PAGE...`` runs the commands of blocks without ``...`` and writes their real output into the
pages.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests")] if __name__ == "__main__" else []

from support import warm  # noqa: E402

__all__ = ["Command", "agrees", "commands", "run"]

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RUN = ("tantamount ", "python examples/")
_FIGURES = re.compile(r"^  (seconds|memory|atoms|terms) .*$", re.MULTILINE)  # differ from machine to machine
_SECONDS = re.compile(r" +\d+\.\d s(?=  )")  # of a job among several, likewise


@dataclass(frozen=True)
class Command:
    """One command of a page (after the ``$``) and the output it is said to have."""

    text: str
    output: str

    def __str__(self) -> str:
        return self.text


def _of_block(block: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        text, _, output = part.partition("\n")
        yield Command(text, output)


def commands(page: Path) -> list[Command]:
    """The commands of a page that call ``tantamount`` or run an example, in order."""
    found = [command for block in _BLOCK.findall(page.read_text()) for command in _of_block(block)]
    return [command for command in found if command.text.startswith(_RUN)]


@lru_cache(maxsize=64)
def run(text: str) -> str:
    """What the command prints, with ``tantamount`` taken from this checkout; trailing blanks and blank lines
    removed."""
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "src"),
        "COLUMNS": "200",
        "NO_COLOR": "1",
        "GITHUB_ACTIONS": "",
    }
    script = re.fullmatch(r"python (examples/[\w/]+\.py)", text)
    if script is not None and warm.available() and "jax" not in script.group(1):
        return _tidy(warm.output_of([script.group(1)], environment))
    command = re.sub(r"^tantamount", f"{sys.executable} -m tantamount", text)
    command = re.sub(r"^python ", f"{sys.executable} ", command)
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return _tidy(done.stdout)


def _tidy(output: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in output.rstrip().splitlines())


def agrees(claimed: str, real: str) -> bool:
    """Whether a page tells the truth: equal but for figures, with ``...`` for lines left out."""
    parts = _without_figures(_tidy(claimed)).split("...\n")
    pattern = r"(?:.*\n)*?".join(re.escape(part) for part in parts)
    return re.fullmatch(pattern, _without_figures(real)) is not None


def _without_figures(output: str) -> str:
    return _SECONDS.sub(" s", _FIGURES.sub(r"  \1", output))


def _rewritten(match: re.Match[str]) -> str:
    block = match.group(1)
    if "\n...\n" in block or not block.startswith(tuple(f"$ {start}" for start in _RUN)):
        return match.group(0)
    parts = [f"$ {command.text}\n{run(command.text)}" for command in _of_block(block)]
    return "```console\n" + "\n".join(parts) + "```"


def main() -> None:
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(_BLOCK.sub(_rewritten, page.read_text()))


if __name__ == "__main__":
    main()
