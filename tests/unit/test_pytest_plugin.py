"""The pytest plugin, in test runs of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from xml.etree import ElementTree

import pytest

from support.reports import vacuous
from tantamount.answers import refine
from tantamount.capture.job import read_job
from tantamount.pytest_plugin import _problems
from tantamount.verdict import Verdict

pytest_plugins = ["pytester"]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
GOOD, WRONG = str(EXAMPLES / "mlp_tp2" / "job.toml"), str(EXAMPLES / "mlp_tp2" / "wrong.toml")

# Where the tests run from a checkout that is not installed, the plugin has to be named.
INSTALLED = any(point.value == "tantamount.pytest_plugin" for point in entry_points(group="pytest11"))
PLUGIN = () if INSTALLED else ("-p", "tantamount.pytest_plugin")


@pytest.fixture(autouse=True, scope="module")
def _loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Runs in this process forget what they are the first to import, and NumPy cannot be loaded twice."""
    refine(read_job(WRONG)).save(tmp_path_factory.mktemp("page") / "page.html")


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages after long names of tests are not cut."""
    monkeypatch.setenv("COLUMNS", "200")


def run(pytester: pytest.Pytester, body: str, *arguments: str) -> pytest.RunResult:
    """A run of one test, ``test_it``, with that body; ``GOOD`` and ``WRONG`` are jobs."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    pytester.makepyfile(f"GOOD, WRONG = {GOOD!r}, {WRONG!r}\ndef test_it(refines):\n{lines}")
    return pytester.runpytest(*PLUGIN, "-p", "no:cacheprovider", "-p", "no:benchmark", *arguments)


def test_a_proof_passes_and_gives_the_report(pytester: pytest.Pytester) -> None:
    done = run(pytester, "assert refines(GOOD).proved\nrefines(WRONG, expect='REFUTED')", "-rP")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["*Captured tantamount call*", "PROVED  *job.toml   y = Replicate()", "REFUTED*"])


def test_a_refutation_fails_with_the_report_and_nothing_of_the_plugin(pytester: pytest.Pytester) -> None:
    done = run(pytester, "refines(GOOD)\nrefines(WRONG)")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines([
        ">   *refines(WRONG)",
        "E   *expected PROVED, found REFUTED: *",
        "E   *REFUTED  *wrong.toml*",
        "E   *First operator without a counterpart",
        "E   *model.py:25*",
        "E   *Counterexample*",
        "FAILED *::test_it - Failed: expected PROVED, found REFUTED: *",
    ])  # fmt: skip
    done.stdout.no_fnmatch_line("*pytest_plugin.py*")
    done.stdout.no_fnmatch_line("*Captured tantamount*wrong*")


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("refines(GOOD, expect='REFUTED')", "expected REFUTED, found PROVED: y = Replicate()"),
        ("refines(WRONG, expect='UNKNOWN')", "expected UNKNOWN, found REFUTED: *"),
        ("refines(GOOD, expect={'y': 'REFUTED'})", "expected REFUTED of 'y', found PROVED"),
        ("refines(WRONG, expect={})", "expected PROVED of 'y', found REFUTED"),
        ("refines(GOOD, expect={'y': 'PROVED', 'z *': 'REFUTED'})", "expected REFUTED of 'z \\*', but no such output*"),
        ("refines('no.toml')", "error?file-unreadable?*no.toml"),
        ("refines(GOOD, outputs={'y': 'Shard(0)'})", "error?job-arguments? refine"),
    ],
)
def test_what_fails(pytester: pytest.Pytester, call: str, problem: str) -> None:
    done = run(pytester, call)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines([f"E   *{problem.replace(chr(92) + '*', '[*]')}"])
    done.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_a_verdict_that_does_not_exist(pytester: pytest.Pytester) -> None:
    done = run(pytester, "refines(GOOD, expect='PROOVED')")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines([
        "E   *ValueError: expect='PROOVED': a verdict is one of PROVED, REFUTED, UNKNOWN, VACUOUS*"
    ])  # fmt: skip


def test_verdicts_by_output(pytester: pytest.Pytester) -> None:
    done = run(pytester, "refines(WRONG, expect={'*': 'PROVED', 'y': 'REFUTED'})\nrefines(GOOD, expect={})")
    done.assert_outcomes(passed=1)


def test_nothing_checked_is_no_success() -> None:
    assert [*_problems(vacuous(), {})] == ["found VACUOUS: nothing was checked"]
    assert [*_problems(vacuous(), Verdict.PROVED)] == ["expected PROVED, found VACUOUS: nothing was checked"]


def test_strict(pytester: pytest.Pytester) -> None:
    gpt = str(EXAMPLES / "gpt_tp2" / "job.toml")
    done = run(pytester, f"refines({gpt!r}, expect={{}})\nrefines({gpt!r}, strict=True, expect={{}})")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["E   *strict refuses *index-range*"])


def test_jobs_are_found_beside_the_test_and_at_the_root(pytester: pytest.Pytester) -> None:
    inside = pytester.mkdir("inside")
    for source in (EXAMPLES / "mlp_tp2").iterdir():
        (inside / source.name).write_bytes(source.read_bytes())
    for place, path in ((inside, "job.toml"), (pytester.path, "inside/job.toml"), (inside, "inside/job.toml")):
        (place / "test_jobs.py").write_text(f"def test_it(refines): refines({path!r})")
        done = pytester.runpytest(*PLUGIN, f"--rootdir={pytester.path}", str(place / "test_jobs.py"))
        done.assert_outcomes(passed=1)


def test_reports_of_failures_are_saved(pytester: pytest.Pytester) -> None:
    done = run(pytester, "refines(GOOD)\nrefines(WRONG)", "--tantamount-reports", "reports/new")
    done.assert_outcomes(failed=1)
    files = sorted((pytester.path / "reports" / "new").iterdir())
    assert [file.suffix for file in files] == [".html", ".json"]
    assert files[0].name.startswith("test_reports_of_failures_are_saved.py-test_it-")
    assert json.loads(files[1].read_text())["jobs"][0]["verdict"] == "REFUTED"
    done.stdout.fnmatch_lines([f"E   *saved as {files[0]} and .json"])


def test_nothing_is_saved_of_what_passes(pytester: pytest.Pytester) -> None:
    run(pytester, "refines(WRONG, expect='REFUTED')", "--tantamount-reports", "reports").assert_outcomes(passed=1)
    assert not (pytester.path / "reports").exists()


def test_junit_has_verdicts_and_reports(pytester: pytest.Pytester) -> None:
    run(pytester, "refines(GOOD)\nrefines(WRONG)", "--junitxml", "out.xml")
    root = ElementTree.parse(pytester.path / "out.xml")
    found = [(one.get("name"), (one.get("value") or "").partition(" ")[0]) for one in root.iter("property")]
    assert found == [("tantamount", "PROVED"), ("tantamount", "REFUTED")]
    (failed,) = root.iter("failure")
    assert "Counterexample" in (failed.text or "")


def test_captured_programs_and_the_example(pytester: pytest.Pytester) -> None:
    pytest.importorskip("torch", reason="captures need PyTorch")
    body = """
        import torch
        import tantamount as tt

        def test_captured(refines):
            linear = torch.nn.Linear(4, 4)
            once = tt.capture(lambda x: linear(x), (torch.ones(2, 4),))
            twice = tt.capture(lambda x: 2 * linear(x), (torch.ones(2, 4),))
            refines(once, once)
            refines(once, twice, expect={"output": "REFUTED"})
            refines(once, twice)
    """
    files = pytester.makepyfile(body), EXAMPLES / "test_with_pytest.py"
    done = pytester.runpytest_subprocess(*PLUGIN, "-p", "no:cacheprovider", *map(str, files))  # PyTorch's one process
    done.assert_outcomes(failed=1, passed=3)
    done.stdout.fnmatch_lines([">   *refines(once, twice)", "E   *expected PROVED, found REFUTED*"])


def test_a_run_without_the_plugin_is_as_it_was(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass\ndef test_other(refines): pass")
    done = pytester.runpytest("-p", "no:tantamount", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=1, errors=1)
    done.stdout.fnmatch_lines(["E*fixture 'refines' not found"])


def test_importing_the_plugin_is_cheap() -> None:
    program = "import sys, tantamount.pytest_plugin; print(*{'numpy', 'torch', 'rich', 'click'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_the_entry_point_names_the_plugin() -> None:
    if not INSTALLED:
        pytest.skip("the package is not installed, or was before it had a plugin")
    (point,) = entry_points(group="pytest11", name="tantamount")
    assert point.load().__name__ == "tantamount.pytest_plugin"


def test_compares_takes_two_programs(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from support.jobs import typed_graph

        A = typed_graph("x: float32[4]\\ny = relu(x)\\n-> y")
        B = typed_graph("x: float32[4]\\ny = tanh(x)\\n-> y")

        def test_equal(compares):
            assert compares(A, A, accept=["relation-guessed"]).proved

        def test_guessed(compares):
            compares(A, A, expect="UNKNOWN")

        def test_different(compares):
            compares(A, B, accept=["relation-guessed"])

        def test_wrong(compares):
            compares(A, 3)
        """
    )
    done = pytester.runpytest_inprocess(*PLUGIN, "-p", "no:cacheprovider")
    done.assert_outcomes(passed=2, failed=2)
    done.stdout.fnmatch_lines(["*expected PROVED, found REFUTED*", "*error*compare-programs*"])
