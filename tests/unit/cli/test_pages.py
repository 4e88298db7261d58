"""``tantamount refine --html``: where pages go."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.reports import proved, refuted
from tantamount.cli.pages import pages_of
from tantamount.errors import UserError

from .conftest import CommandLine


def test_one_job_has_the_file_that_was_named(command: CommandLine, tmp_path: Path) -> None:
    command.answers = {"job.toml": refuted()}
    done = command("refine", "job.toml", "--html", str(tmp_path / "page.html"))
    assert done.exit_code == 1
    assert "REFUTED" in (tmp_path / "page.html").read_text()


def test_several_jobs_have_a_folder(command: CommandLine, tmp_path: Path) -> None:
    command.answers = {"a/job.toml": proved(), "b/job.toml": refuted()}
    assert command("refine", "a/job.toml", "b/job.toml", "--html", str(tmp_path / "pages")).exit_code == 1
    pages = {path.name: path.read_text() for path in (tmp_path / "pages").iterdir()}
    assert pages.keys() == {"a-job.html", "b-job.html"}
    assert ">PROVED<" in pages["a-job.html"]
    assert ">REFUTED<" in pages["b-job.html"]


def test_a_job_that_is_wrong_has_no_page(command: CommandLine, tmp_path: Path) -> None:
    command.answers = {"job.toml": UserError("job-key", place="job.toml", found="x", needed="y")}
    assert command("refine", "job.toml", "--html", str(tmp_path / "page.html")).exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_refused_before_anything_is_proved(command: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out, jobs, code in [
        ("page.txt", ["job.toml"], "report-format"),
        ("absent/page.html", ["job.toml"], "report-folder"),
        ("file", ["a.toml", "b.toml"], "file-write"),
    ]:
        done = command("refine", *jobs, "--html", str(tmp_path / out))
        assert (done.exit_code, command.calls) == (2, [])
        assert f"error[{code}]" in done.stderr


def test_pages_are_named_after_what_differs(tmp_path: Path) -> None:
    jobs = [tmp_path / "bugs" / name / "bug.toml" for name in ("ad07", "em01")]
    assert [page.name for page in pages_of(tmp_path / "out", jobs).values()] == ["ad07-bug.html", "em01-bug.html"]
    assert pages_of(tmp_path / "out", jobs[:1]) == {jobs[0]: tmp_path / "out" / "bug.html"}  # the folder is there now
    assert pages_of(None, jobs) == {}


@pytest.mark.parametrize("name", ["page.htm", "page"])
def test_the_suffix_says_what_it_is(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError) as caught:
        pages_of(tmp_path / name, [Path("job.toml")])
    assert caught.value.needed == "a file *.html"
