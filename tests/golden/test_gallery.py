"""The gallery: right programs are proved, wrong ones are refuted, and the pages are made of the programs.

That the reports on the pages are those that the programs print is tested with all pages (``test_pages.py``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.gallery import PAGES, PROGRAMS, index, page, shown


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_the_page_is_made_of_the_program(program: Path) -> None:
    assert (PAGES / f"{program.stem}.md").read_text() == page(program, shown(program)), "run: make gallery"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_the_right_version_is_proved_and_the_wrong_one_refuted(program: Path) -> None:
    right, _, wrong, *_ = shown(program).splitlines()
    assert right == "PROVED as it should be"
    assert wrong.startswith("REFUTED  captured programs   ")


def test_the_list_has_every_program() -> None:
    assert len(PROGRAMS) == 11
    outputs = {program.stem: shown(program) for program in PROGRAMS}
    assert (PAGES / "index.md").read_text() == index(outputs), "run: make gallery"
