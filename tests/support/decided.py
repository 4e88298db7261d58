"""Pairs of programs of a few operators, with the verdict that they must have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from support.jobs import job_files
from tantamount import read_job
from tantamount.answers import refine
from tantamount.verdict import Report


@dataclass(frozen=True)
class Pair:
    """Programs in the shorthand of :mod:`support.jobs`, with ``;`` between lines. ``tables``: the job's TOML after
    [impl]; empty: one rank, whose inputs are the specification's by name, and its outputs by position. ``ranks``: 0 for
    one program, else a mesh of one axis ``tp``, whose process group is ``g``."""

    name: str
    specification: str
    implementation: str | Sequence[str]
    verdict: str
    tables: str = ""
    ranks: int = 0


def verdict_of(pair: Pair, folder: Path) -> Report:
    """The report on a pair."""
    given = pair.implementation
    programs = [given] * max(1, pair.ranks) if isinstance(given, str) else [*given]
    specification, *implementation = ("\n".join(text.split(";")) for text in (pair.specification, *programs))
    tables = pair.tables or _one_to_one(pair.specification, programs[0])
    mesh, groups = ({"tp": pair.ranks}, {"g": ("tp",)}) if pair.ranks else ({}, {})
    return refine(read_job(job_files(folder, specification, implementation, tables, mesh, groups)))


def _one_to_one(specification: str, implementation: str) -> str:
    inputs = re.findall(r"(\w+): \w+\[", specification)
    names = [
        [item.strip().split("=")[0] for item in text.split("->")[1].split(",")]
        for text in (specification, implementation)
    ]
    lines = [f'{name} = "rank(0)"' for name in inputs]
    outputs = [f"{ours} = 'rank(0, \"{theirs}\")'" for ours, theirs in zip(*names, strict=True)]
    return "\n".join(["[inputs]", *lines, "[outputs]", *outputs])


def check(pair: Pair, folder: Path) -> None:
    """Assert that the verdict is the pair's; what is refuted has a counterexample, and what is proved a relation."""
    report = verdict_of(pair, folder)
    assert report.verdict.name == pair.verdict, [(o.reason, o.notes) for o in report.outputs]
    if pair.verdict == "REFUTED":
        assert report.counterexample is not None
    if pair.verdict == "PROVED":
        assert all(output.relation is not None for output in report.outputs)
