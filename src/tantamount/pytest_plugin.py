"""The fixtures ``refines`` and ``compares`` for pytest: ``def test_tp(refines): refines(specification, ranks)``.

pytest imports this module in every run where Tantamount is installed, so it imports nothing heavy (and never PyTorch).
May import: ``errors``, ``verdict``, ``capture``, ``refine``, ``report``; imported by pytest only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tantamount.errors import UserError
from tantamount.verdict import Report, Verdict

if TYPE_CHECKING:
    from tantamount.answers import Answer
    from tantamount.ir.job import Job
    from tantamount.refinement.job import Captured

__all__ = ["Compares", "Refines", "compares", "pytest_addoption", "refines"]

_OPTION = "--tantamount-reports"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The command line's option."""
    parser.getgroup("tantamount").addoption(
        _OPTION, type=Path, metavar="DIR", help="save the report of every refines(...) that fails, as HTML and JSON"
    )


@pytest.fixture
def refines(request: pytest.FixtureRequest) -> Refines:
    """Check that an implementation refines a specification; fail with the report if not."""
    return Refines(request.node)


@pytest.fixture
def compares(request: pytest.FixtureRequest) -> Compares:
    """Check that two implementations of one model compute the same; fail with the report if not."""
    return Compares(request.node)


class Refines:
    """The fixture ``refines``, which is called as often as needed."""

    def __init__(self, test: pytest.Item) -> None:
        self._test = test
        self._calls = 0

    def __call__(
        self,
        specification: Captured | Job | str | Path,
        implementation: object = None,
        *,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        assume: Mapping[str, Any] | None = None,
        strict: bool = False,
        expect: str | Verdict | Mapping[str, str | Verdict] = Verdict.PROVED,
    ) -> Report:
        """The report of ``tantamount.refine`` with these arguments, if it is what is expected; else the test fails.

        A path is that of a job file, relative to the test's file or to pytest's root. ``expect`` is the verdict
        of the whole job, or verdicts by output: names, or patterns such as ``grad *``; outputs that none of them
        matches must be ``PROVED``. A wrong job or relation fails the test with the message of its
        :class:`UserError`; an ``expect`` that names no verdict raises ``ValueError``.
        """
        __tracebackhide__ = True
        wanted = _verdicts(expect)
        return self._checked(wanted, self._report(specification, implementation, inputs, outputs, assume, strict))

    def _checked(self, wanted: Verdict | dict[str, Verdict], report: Answer | UserError) -> Report:
        """The report, if it is what is wanted; else the test fails."""
        __tracebackhide__ = True
        self._calls += 1
        if isinstance(report, UserError):
            pytest.fail(str(report))
        self._test.user_properties.append(("tantamount", f"{report.verdict.value} {report.job}"))
        problems = [*_problems(report, wanted)]
        if problems:
            pytest.fail("\n\n".join(["; ".join(problems), str(report), *self._save(report)]))
        self._test.add_report_section("call", "tantamount", str(report))
        return report

    def _report(
        self,
        specification: Captured | Job | str | Path,
        implementation: object,
        inputs: Mapping[str, Any] | None,
        outputs: Mapping[str, Any] | None,
        assume: Mapping[str, Any] | None,
        strict: bool,
    ) -> Answer | UserError:
        from tantamount.answers import refine
        from tantamount.capture.job import read_job

        try:
            job = specification
            if isinstance(job, (str, Path)):
                job = read_job(self._found(Path(job)))
            return refine(job, implementation, inputs=inputs, outputs=outputs, assume=assume, strict=strict)
        except UserError as problem:
            return problem

    def _found(self, path: Path) -> Path:
        beside = self._test.path.parent / path
        return beside if beside.exists() else self._test.config.rootpath / path

    def _save(self, report: Answer) -> Iterator[str]:
        folder: Path | None = self._test.config.getoption(_OPTION)
        if folder is None:
            return
        from tantamount.writing import make_folder

        name = self._test.nodeid
        mark = hashlib.sha256(name.encode(errors="backslashreplace")).hexdigest()[:8]
        readable = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")[:100]
        page = self._test.config.invocation_params.dir / folder / f"{readable}-{mark}-{self._calls}.html"
        make_folder(page.parent)
        report.save(page)
        report.save(page.with_suffix(".json"))
        yield f"saved as {page} and .json"


class Compares(Refines):
    """The fixture ``compares``: call it, as often as needed."""

    def __call__(  # type: ignore[override]
        self,
        first: object,
        second: object = None,
        *,
        expect: str | Verdict | Mapping[str, str | Verdict] = Verdict.PROVED,
        **options: Any,
    ) -> Report:
        """The report of ``tantamount.compare`` with these arguments, if it is what is expected (see :class:`Refines`);
        else the test fails. A path is that of a job file."""
        __tracebackhide__ = True
        wanted = _verdicts(expect)
        return self._checked(wanted, self._compared(first, second, options))

    def _compared(self, first: object, second: object, options: Mapping[str, Any]) -> Answer | UserError:
        from tantamount.answers import compare
        from tantamount.capture.job import read_job

        try:
            program = read_job(self._found(Path(first))) if isinstance(first, (str, Path)) else first
            return compare(program, second, **options)
        except UserError as problem:
            return problem


def _verdicts(expect: str | Verdict | Mapping[str, str | Verdict]) -> Verdict | dict[str, Verdict]:
    if isinstance(expect, Mapping):
        return {name: _verdict(one) for name, one in expect.items()}
    return _verdict(expect)


def _verdict(name: str | Verdict) -> Verdict:
    if isinstance(name, Verdict):
        return name
    if name not in Verdict.__members__:
        raise ValueError(f"expect={name!r}: a verdict is one of {', '.join(Verdict.__members__)}")
    return Verdict[name]


def _problems(report: Report, wanted: Verdict | dict[str, Verdict]) -> Iterator[str]:
    """The differences of the report from what is wanted, as lines."""
    from tantamount.report.text import summary

    if isinstance(wanted, Verdict):
        if report.verdict is not wanted:
            yield f"expected {wanted.value}, found {report.verdict.value}: {summary(report)}"
        return
    if not report.outputs:
        yield f"found {report.verdict.value}: nothing was checked"
    names = [output.name for output in report.outputs]
    for pattern in wanted:
        if not any(name == pattern or fnmatchcase(name, pattern) for name in names):
            yield f"expected {wanted[pattern].value} of {pattern!r}, but no such output was checked"
    for output in report.outputs:
        matching = [verdict for pattern, verdict in wanted.items() if fnmatchcase(output.name, pattern)]
        expected = wanted.get(output.name, matching[0] if matching else Verdict.PROVED)
        if output.verdict is not expected:
            yield f"expected {expected.value} of {output.name!r}, found {output.verdict.value}"
    if report.refused:
        yield f"strict refuses {', '.join(report.refused)}"
