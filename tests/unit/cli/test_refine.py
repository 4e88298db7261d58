"""``tantamount refine``: exit codes, options, where text goes, and what an error looks like."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.interruptions import heed_interruptions
from support.reports import proved, refuted, unknown, vacuous
from tantamount.cli.main import main
from tantamount.errors import InternalError, UserError
from tantamount.report.outcomes import worst_exit
from tantamount.report.text import text
from tantamount.verdict import Report
from tantamount.work import pool
from tantamount.work.pool import cores

from .conftest import CommandLine

WRONG = UserError("job-key", place="job.toml: [spec]", found="no \x1b[31mgraph", needed="graph", hint="add it")


@pytest.mark.parametrize(("report", "code"), [(proved(), 0), (refuted(), 1), (unknown(), 3), (vacuous(), 3)])
def test_the_verdict_is_printed_and_is_the_exit_code(command: CommandLine, report: Report, code: int) -> None:
    command.answers = {report.job: report}
    done = command("refine", report.job)
    assert done.exit_code == code
    assert done.stdout == text(report)
    assert done.stderr == ""


def test_verbose(command: CommandLine) -> None:
    command.answers = {"job.toml": proved()}
    assert command("refine", "-v", "job.toml").stdout == text(proved(), verbose=True)


def test_options_reach_the_reader_and_the_prover(command: CommandLine) -> None:
    command.answers = {"job.toml": proved()}
    command("refine", "job.toml")
    command("refine", "--strict", "--allow-outside", "job.toml")
    plain = {"path": Path("job.toml"), "allow_outside": False, "strict": False, "progress": False}
    assert command.calls == [plain, plain | {"allow_outside": True, "strict": True}]


def test_wrong_input_is_told_on_stderr_and_exits_with_2(command: CommandLine) -> None:
    command.answers = {"job.toml": WRONG}
    done = command("refine", "job.toml")
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr == (
        "error[job-key] job.toml: [spec]\n  found:  no \\x1b[31mgraph\n  needed: graph\n  help:   add it\n"
        "  more:   tantamount explain job-key\n"
    )


@pytest.mark.parametrize("problem", [InternalError("two leaves"), ZeroDivisionError("by zero"), RecursionError("deep")])
def test_our_own_bug_exits_with_4_and_says_so(
    command: CommandLine, problem: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    command.answers = {"job.toml": problem}
    done = command("refine", "job.toml")
    assert done.exit_code == 4
    assert done.stdout == ""
    assert done.stderr.startswith("error[internal] while checking job.toml\n")
    assert f"{type(problem).__name__}: {problem}" in done.stderr
    assert "bug of Tantamount" in done.stderr
    assert "report it" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in command("refine", "-v", "job.toml").stderr
    monkeypatch.setenv("TANTAMOUNT_DEBUG", "1")
    assert "Traceback" in command("refine", "job.toml").stderr


def test_every_job_is_checked_and_the_worst_counts(command: CommandLine) -> None:
    command.answers = {"a": proved("a"), "b": WRONG, "c": refuted("c"), "d": unknown("d")}
    done = command("refine", "a", "b", "c", "d")
    assert done.exit_code == 2
    assert done.stdout == "\n".join(text(report) for report in (proved("a"), refuted("c"), unknown("d"))) + (
        "\n"
        "4 jobs: 1 ERROR, 1 REFUTED, 1 UNKNOWN, 1 PROVED (exit code 2)\n"
        "  PROVED      1/1   0.8 s  a   div_2 = Replicate()\n"
        "  ERROR                    b   [job-key] no \\x1b[31mgraph\n"
        "  REFUTED     1/2   0.8 s  c   loss: a factor: 2x too large\n"
        "  UNKNOWN     0/1   0.8 s  d   --strict refuses dropout: equal masks\n"
    )
    assert command("refine", "a", "d", "c").exit_code == 1
    assert command("refine", "a", "d").exit_code == 3
    assert command("refine", "a", "a").exit_code == 0


def test_workers(command: CommandLine) -> None:
    command.answers = {"a": proved("a")}
    command("refine", "a", "a", "--workers", "7")
    command("refine", "a", "a")
    command("refine", "a")  # alone: in this process
    assert command.workers == [7, cores()]
    assert command("refine", "a", "--workers", "0").exit_code == 2


def test_what_shells_leave_as_it_is(command: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "a.toml").touch()
    done = command("refine", str(tmp_path))
    assert done.exit_code == 2
    assert f"error[file-kind] {tmp_path}\n  found:  a folder with 1 files *.toml\n" in done.stderr
    assert f"help:   tantamount refine {tmp_path}/*.toml" in done.stderr
    done = command("refine", str(tmp_path / "jobs*.toml"))
    assert done.exit_code == 2
    assert "error[file-unreadable]" in done.stderr
    assert "a shell passes a pattern on as it is if nothing matches it" in done.stderr
    assert command.calls == []


def test_a_process_that_is_lost_is_an_error_of_its_job(command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "run_all", lambda *_, **__: iter([proved("a"), pool.Lost(-9)]))
    done = command("refine", "a", "b")
    assert done.exit_code == 5
    assert "error[process-lost] while checking b\n" in done.stderr
    assert "the process that checked it was killed by SIGKILL" in done.stderr
    assert "--workers 1" in done.stderr


@pytest.mark.parametrize(
    ("codes", "worst"), [([0], 0), ([0, 3], 3), ([3, 1, 0], 1), ([1, 2], 2), ([2, 4, 1], 4), ([3, 2], 2)]
)
def test_the_order_of_exit_codes(codes: list[int], worst: int) -> None:
    assert worst_exit(codes) == worst
    assert worst_exit(reversed(codes)) == worst


def test_interruption_is_not_a_verdict(command: CommandLine) -> None:
    command.answers = {"job.toml": KeyboardInterrupt()}
    done = command("refine", "job.toml")
    assert done.exit_code == 130
    assert done.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("refine",),
        ("refine", "--nonsense", "job.toml"),
        ("refine", "--workers", "magic", "job.toml"),
        ("prove", "x"),
    ],
)
def test_a_wrong_command_line_exits_with_2(command: CommandLine, arguments: tuple[str, ...]) -> None:
    assert command(*arguments).exit_code == 2
    assert command.calls == []


# ------------------------------------------------------------------------------------------------ --json
def test_json_has_every_job_errors_too(command: CommandLine, tmp_path: Path) -> None:
    command.answers = {"a": proved("a"), "b": WRONG, "c": ValueError("boom")}
    out = tmp_path / "out.json"
    done = command("refine", "a", "b", "c", "--json", str(out))
    assert done.exit_code == 4
    assert done.stdout.startswith(text(proved("a")) + "\n3 jobs: 2 ERROR, 1 PROVED (exit code 4)\n")
    document = json.loads(out.read_text())
    assert document["exit_code"] == 4
    assert [job["exit_code"] for job in document["jobs"]] == [0, 2, 4]
    assert [job.get("verdict") for job in document["jobs"]] == ["PROVED", None, None]


def test_json_on_stdout_is_nothing_but_json(command: CommandLine) -> None:
    command.answers = {"c": refuted("c")}
    done = command("refine", "--json", "-", "c")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["jobs"][0]["verdict"] == "REFUTED"


def test_a_json_place_that_cannot_be_written_is_told_before_the_proof(command: CommandLine, tmp_path: Path) -> None:
    command.answers = {"a": proved("a")}
    done = command("refine", "a", "--json", str(tmp_path / "no" / "out.json"))
    assert done.exit_code == 2
    assert "error[report-folder]" in done.stderr
    assert command.calls == []


# ------------------------------------------------------------------------------------------------ for CI
def test_several_results_at_once(command: CommandLine, tmp_path: Path) -> None:
    command.answers = {"a": proved("a"), "c": refuted("c")}
    done = command("refine", "a", "c", "--junit", str(tmp_path / "o.xml"), "--sarif", str(tmp_path / "o.sarif"))
    assert done.exit_code == 1
    assert done.stdout.startswith("PROVED  a")
    assert 'tests="3" failures="1" errors="0"' in (tmp_path / "o.xml").read_text()
    (run,) = json.loads((tmp_path / "o.sarif").read_text())["runs"]
    assert [result["ruleId"] for result in run["results"]] == ["refuted"]


@pytest.mark.parametrize("option", ["--junit", "--sarif"])
def test_every_file_is_checked_before_the_proof(command: CommandLine, tmp_path: Path, option: str) -> None:
    done = command("refine", "a", option, str(tmp_path / "no" / "out"))
    assert done.exit_code == 2
    assert f"error[report-folder] {option} " in done.stderr
    done = command("refine", "a", "--json", "-", option, "-")
    assert done.exit_code == 2
    assert "found:  - for several results" in done.stderr
    assert command.calls == []


@pytest.mark.parametrize(("there", "option", "shown"), [("true", "", True), ("", "", False), ("", "--github", True)])
def test_annotations(
    command: CommandLine, monkeypatch: pytest.MonkeyPatch, there: str, option: str, shown: bool
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", there)
    command.answers = {"c": refuted("c")}
    lines = command("refine", "c", *([option] if option else [])).stdout.splitlines()
    assert lines[-1].startswith("::error file=impl.py,line=40,title=tantamount%3A c::") is shown
    if shown:  # nothing between the two is a command to GitHub
        word = lines[0].removeprefix("::stop-commands::")
        assert lines[-2] == f"::{word}::"
        assert lines[1].startswith("REFUTED")


def test_annotations_beside_a_document_are_on_stderr(command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    command.answers = {"c": refuted("c")}
    done = command("refine", "c", "--json", "-")
    assert json.loads(done.stdout)["exit_code"] == 1
    assert done.stderr.startswith("::error file=impl.py")
    assert "::" not in command("refine", "c", "--no-github").stdout


# ------------------------------------------------------------------------------------------------ terminals
class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def run_on_terminal(
    monkeypatch: pytest.MonkeyPatch, *arguments: str, term: str = "xterm-256color"
) -> tuple[int, str, str]:
    out, error = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", error)
    monkeypatch.setattr(sys, "argv", ["tantamount", *arguments])
    monkeypatch.setenv("TERM", term)
    monkeypatch.delenv("NO_COLOR", raising=False)
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0), out.getvalue(), error.getvalue()


def test_colours_and_progress_on_a_terminal(command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(progress: object) -> Report:
        assert callable(progress)
        progress("specification", 3, 7)
        return proved("[red]job")

    command.answers = {"[red]job": slow}
    code, out, error = run_on_terminal(monkeypatch, "refine", "[red]job")
    assert code == 0
    assert "\x1b[1;32mPROVED  \x1b[0m[red]job" in out
    assert "specification  [red]job" in error
    assert command.calls[0]["progress"] is True


def test_errors_are_wrapped_beside_their_labels(command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    command.answers = {"job": UserError("job-key", place="job.toml", found="one two three four", needed="x" * 30)}
    monkeypatch.setenv("COLUMNS", "24")
    code, _, error = run_on_terminal(monkeypatch, "refine", "job")
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", error).replace("\r", "")
    assert code == 2
    assert "\x1b[1;31merror[job-key]" in error
    assert f"  found:  one two three\n          four\n  needed: {'x' * 30}\n" in plain


def test_a_dumb_terminal_gets_plain_text(command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    command.answers = {"job": proved("job")}
    code, out, error = run_on_terminal(monkeypatch, "refine", "job", term="dumb")
    assert (code, out, error) == (0, text(proved("job")), "")


# ------------------------------------------------------------------------------------------------ whole processes
def run(program: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, capture_output=True, env=os.environ | environment, check=False, preexec_fn=heed_interruptions
    )


def test_a_reader_that_goes_away_does_not_change_the_exit_code() -> None:
    program = (
        "import os, sys; from tantamount.__main__ import main\n"
        "reader, writer = os.pipe(); os.close(reader); os.dup2(writer, 1)\n"
        "sys.argv[1:] = ['version']; main()"
    )
    done = run(program)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("redirection", "arguments", "code", "said"),
    [
        (">/dev/full", "version", 5, "error[environment-output] stdout\n  found:  No space left on device\n"),
        (">&-", "version", 5, "error[environment-output] stdout\n  found:  Bad file descriptor\n"),
        (">/dev/full", "--help", 5, "error[environment-output] stdout\n"),
        ("2>/dev/full", "refine missing.toml", 2, ""),
        ("<&- >&- 2>&-", "refine missing.toml", 2, ""),
    ],
)
def test_streams_that_are_closed_or_full(redirection: str, arguments: str, code: int, said: str) -> None:
    command = f"'{sys.executable}' -m tantamount {arguments} {redirection}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert done.stderr.startswith(said)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (MemoryError(), "environment-memory"),
        (OSError(errno.EMFILE, "Too many open files"), "environment-scarce"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory"), "environment-system"),
        (RuntimeError("can't start new thread"), "environment-scarce"),
        (ModuleNotFoundError("No module named 'numpy'"), "environment-import"),
    ],
)
def test_a_fault_of_the_machine_exits_with_5_and_says_so(command: CommandLine, problem: Exception, code: str) -> None:
    command.answers = {"a": problem, "b": proved("b")}
    done = command("refine", "a", "b", "--json", "-")
    assert done.exit_code == 5
    assert done.stderr.startswith(f"error[{code}] while checking a\n")
    assert f"tantamount explain {code}" in done.stderr
    jobs = json.loads(done.stdout)["jobs"]
    assert [job["exit_code"] for job in jobs] == [5, 0]
    assert jobs[0]["error"]["kind"] == "environment"


def test_code_of_the_users_that_leaves_the_process_gives_no_verdict(command: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "operators.py").write_text("raise SystemExit(0)")
    done = command("refine", "a", "--operators", str(tmp_path / "operators.py"))
    assert done.exit_code == 2
    assert command.calls == []


@pytest.mark.parametrize("module", ["click", "tantamount.ops.table"])
def test_an_interruption_is_130_whatever_is_imported(module: str) -> None:
    program = (
        "import builtins, os, signal, sys; from tantamount import __main__; old = builtins.__import__\n"
        "def new(name, *rest):\n"
        f"    if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "    return old(name, *rest)\n"
        "builtins.__import__ = new; sys.argv[1:] = ['ops']; __main__.main()"
    )
    done = run(program)
    assert (done.returncode, b"Traceback" in done.stderr) == (130, False)


def test_a_terminal_without_unicode_gets_escapes() -> None:
    done = run("from tantamount.cli import terminal; terminal.out('Σ\\n')", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (0, b"\\u03a3\n")


def test_starting_is_cheap() -> None:
    program = "import sys, tantamount.cli.main; print({'numpy', 'torch', 'rich'} & set(sys.modules))"
    assert run(program).stdout == b"set()\n"
