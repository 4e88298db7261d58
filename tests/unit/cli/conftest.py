"""The command line with a prover made of hand-made answers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tantamount.answers import Answer
from tantamount.cli.main import app
from tantamount.verdict import Report
from tantamount.work import pool

Given = Report | BaseException | Callable[..., Report]


@dataclass
class CommandLine:
    """Runs ``tantamount``; ``answers`` says what proving each job (by path) gives; ``calls`` what was asked."""

    answers: Mapping[str, Given] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)
    workers: list[int] = field(default_factory=list)

    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments))

    def read_job(self, path: Path, *, allow_outside: bool = False) -> str:
        self.calls.append({"path": path, "allow_outside": allow_outside})
        return str(path)

    def refine(self, job: str, *, strict: bool = False, progress: object = None) -> Answer:
        self.calls[-1] |= {"strict": strict, "progress": progress is not None}
        answer = self.answers[job]
        if isinstance(answer, BaseException):
            raise answer
        report = answer if isinstance(answer, Report) else answer(progress)
        return Answer(**{one.name: getattr(report, one.name) for one in fields(report)})


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    line = CommandLine()
    for name, function in (("tantamount.capture.job", line.read_job), ("tantamount.answers", line.refine)):
        module = ModuleType(name)
        setattr(module, "refine" if name.endswith("answers") else "read_job", function)
        module.Answer = Answer  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, module)

    def here(work: Callable[[Path], object], paths: Sequence[Path], workers: int, **_: object) -> Iterator[object]:
        line.workers.append(workers)
        return map(work, paths)

    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setattr(pool, "run_all", here)  # other processes would not have these modules
    return line
