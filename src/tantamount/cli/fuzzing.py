"""``tantamount fuzz``: campaigns, and what is done with their findings."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tantamount.cli import terminal
from tantamount.cli.exits import exits
from tantamount.cli.options import FILE, POSITIVE, RAY, Group, argument
from tantamount.cli.runners import runner
from tantamount.errors import UserError
from tantamount.writing import write_file

__all__ = ["fuzz"]

_PYTHONS = click.option(
    "--python", multiple=True, metavar="BACKEND=PATH",
    help="The Python in whose environment a backend is; default: this one.",
)  # fmt: skip
_RULES = click.option(
    "--rules", type=FILE, multiple=True, metavar="FILE",
    help="Run a Python file that registers rules. Only for files you trust.",
)  # fmt: skip
_EPILOG = (
    "Exit codes: 0 no finding; 1 findings; 2 the command line is wrong; 4 a bug of Tantamount; "
    "5 the machine gave out; 130 interrupted."
)


@click.group(cls=Group, no_args_is_help=True)
def fuzz() -> None:
    """Find the tensor programs that compilers get wrong."""


def _pythons(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in given:
        name, equals, path = item.partition("=")
        if not equals or not Path(path).is_file():
            raise UserError(
                "fuzz-python", place="--python", found=item, needed="BACKEND=PATH, the path of a Python that there is"
            )
        found[name] = path
    return found


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _rules(files: Sequence[Path]) -> dict[str, Any]:
    """The proved rules, those of files among them. A rule of a file that is not proved is an error."""
    from tantamount.rules.library import rules
    from tantamount.rules.record import known_evidence, proved_rules

    own = set(rules())
    for file in files:
        _run(file)
    for name in set(rules()) - own:
        found = known_evidence(rules()[name])
        if not found.proved:
            raise UserError(
                "rule-unproved", place=f"rule {name}",
                found="; ".join(found.failures) or "no example that it applies to",
                needed="a proof of every example", hint="`tantamount fuzz rules --rules FILE NAME` shows both sides",
            )  # fmt: skip
    return proved_rules()


def _run(file: Path) -> None:
    import runpy

    if not file.is_file():
        raise UserError("file-unreadable", place=str(file), found="no such file", needed="a readable file")
    runpy.run_path(str(file))


@fuzz.command(epilog=_EPILOG)
@click.option("--backend", required=True, metavar="NAMES", help="Backends, separated by commas.")
@click.option(
    "-o",
    "--out",
    type=FILE,
    required=True,
    metavar="DIR",
    help="Where findings and the log go; an earlier campaign there goes on.",
)
@click.option("--seed", type=int, default=0, help="The same seed gives the same cases.")
@click.option("--seconds", type=float, help="Stop after that long.")
@click.option("--cases", type=int, help="Stop after that many cases.")
@click.option("--workers", type=POSITIVE, default=1, help="Processes that run cases.")
@click.option(
    "--report",
    "without_deviation",
    multiple=True,
    metavar="DEVIATION",
    help="Report what this declared deviation would hide.",
)
@click.option("--hide", multiple=True, metavar="DEVIATION", help="Apply a declared deviation that is off.")
@click.option("--known", type=FILE, metavar="FILE", help="Signatures, one a line, that are no news.")
@click.option("--operators", default="", show_default=False, metavar="NAMES", help="Only these operators: amax,abs.")
@click.option("--dtypes", default="", show_default=False, metavar="NAMES", help="Only these element types.")
@click.option(
    "--from", "graphs", multiple=True, type=FILE, metavar="GRAPH", help="Cut cases out of this graph, at other sizes."
)
@_RULES
@_PYTHONS
@click.option("--forms", type=click.IntRange(min=0), default=1, help="Random forms of every case.")
@RAY
@exits
def run(
    backend: str,
    out: Path,
    seed: int,
    seconds: float | None,
    cases: int | None,
    workers: int,
    without_deviation: tuple[str, ...],
    hide: tuple[str, ...],
    known: Path | None,
    operators: str,
    dtypes: str,
    graphs: tuple[Path, ...],
    rules: tuple[Path, ...],
    python: tuple[str, ...],
    forms: int,
    ray: str | None,
) -> int:
    """Run random programs and their rewritten forms on compilers, and keep what comes out wrong."""
    from tantamount.fuzz.campaign import Setup, run_campaign

    if seconds is None and cases is None:
        raise UserError(
            "fuzz-endless", place="command line", found="neither --seconds nor --cases", needed="one of them"
        )
    names = _names(backend)
    setup = Setup(
        names, seed, 0, cases, seconds, 0, workers, without_deviation, forms, _pythons(python),
        frozenset(known.read_text().splitlines()) if known is not None else frozenset(), hide,
        _names(operators), _names(dtypes), tuple(map(str, graphs)),
    )  # fmt: skip
    start = time.monotonic()
    last = [start]

    def tell(told: dict[str, Any]) -> None:
        now = time.monotonic()
        if now - last[0] >= 5:
            last[0] = now
            terminal.error(_line(told))

    found = run_campaign(setup, out, _rules(rules), tell, None if ray is None else runner(ray))
    terminal.out(_line(found) + "\n")
    for text in sorted(found["new"]):
        terminal.out(f"  new: {text}\n")
    return 1 if found["findings"] else 0


def _line(told: dict[str, Any]) -> str:
    rate = told["cases"] / told["seconds"] if told["seconds"] else 0.0
    share = 1 - told["compiling"] / told["busy"] if told["busy"] else 0.0
    return (
        f"{told['cases']} cases, {told['forms']} programs, {rate:.1f} cases/s, {told['failures']} failures, "
        f"{told['findings']} new findings, {told['pairs']} pairs, {told['cells']} of operator x type x rank, "
        f"{told['kernels']} kernels, "
        f"{share:.0%} outside the compilers"
    )


@fuzz.command(
    epilog="Exit codes: 0 every bug is gone; 1 one is still there; 2 a file is wrong; 3 of one it is not clear."
)
@argument("folders", "DIR...", "Findings, or folders of them.", many=True, type=FILE)
@click.option("--seconds", type=float, default=300.0, help="For each.")
@_PYTHONS
@exits
def replay(folders: tuple[Path, ...], seconds: float, python: tuple[str, ...]) -> int:
    """Run the reproducers of findings, each in a fresh process: which bugs are still there?"""
    from tantamount.fuzz.findings import read_findings
    from tantamount.fuzz.findings import replay as again

    pythons = _pythons(python)
    states: set[str] = set()
    for folder in folders:
        for finding in read_findings(folder):
            state = again(finding, seconds, pythons.get(finding.backend, ""))
            states.add(state)
            terminal.out(f"{state:>13}  {finding.signature}\n")
    if not states:
        raise UserError(
            "finding-file", place=str(folders[0]), found="no findings", needed="a folder with finding.json files"
        )
    return 1 if "there" in states else 0 if states <= {"gone"} else 3


@fuzz.command()
@argument("folder", "DIR", "A campaign's folder.", type=FILE)
@click.option("--html", type=FILE, metavar="OUT", help="Write a page, too.")
@exits
def triage(folder: Path, html: Path | None) -> int:
    """List findings, the smallest programs first."""
    from tantamount.fuzz.triage import page, rows

    found = rows(folder)
    if not found and not folder.is_dir():
        raise UserError("finding-file", place=str(folder), found="no such folder", needed="a campaign's folder")
    for row in found:
        terminal.out(
            f"{row.backend:>9}  {row.kind:<8} {row.operators:>3}  {row.signature}\n"
            f"{'':>12}{row.message}\n{'':>12}{row.folder}\n" + (f"{'':>12}like {row.like}\n" if row.like else "")
        )
    alike = sum(bool(row.like) for row in found)
    terminal.out(f"{len(found)} findings" + (f", {alike} of them like others" if alike else "") + "\n")
    if html is not None:
        write_file(html, page(found))
    return 0


@fuzz.command(name="rules")
@argument("names", "[NAME]...", "Only these.", many=True, required=False)
@click.option("--prove", is_flag=True, help="Prove them now instead of reading the record.")
@_RULES
@exits
def rules_(names: tuple[str, ...], prove: bool, rules: tuple[Path, ...]) -> int:
    """Show the rules that programs are rewritten by, and the evidence for each. Exit code 1: one is not proved."""
    from tantamount.rules.evidence import evidence
    from tantamount.rules.library import rules as table
    from tantamount.rules.record import known_evidence

    for file in rules:
        _run(file)
    unknown = [name for name in names if name not in table()]
    if unknown:
        raise UserError(
            "fuzz-rule",
            place="command line",
            found=unknown[0],
            needed="a rule that there is",
            hint="`tantamount fuzz rules`",
        )
    failed = 0
    for name, rule in table().items():
        if names and name not in names:
            continue
        found = evidence(rule) if prove else known_evidence(rule)
        where = " and ".join(
            part for part in ("reals", found.domain or (f"integers: {rule.integers}" if rule.integers else "")) if part
        )
        state = (
            f"proved ({where}; {found.examples} examples, sizes as symbols)" if found.proved else "NOT PROVED, not used"
        )
        terminal.out(f"{name}: {rule.about}\n    {state}\n")
        for text in found.failures:
            terminal.out(f"    {text}\n")
        failed += not found.proved
    return int(failed > 0)


@fuzz.command(name="backends")
@_PYTHONS
@click.option("--probe", metavar="NAME", help="Find out which operators it has for which types.")
@exits
def backends_(python: tuple[str, ...], probe: str | None) -> int:
    """List the compilers that can be asked, which are installed, and how to install the others."""
    from tantamount.fuzz.backends import backends
    from tantamount.fuzz.backends.base import Hosted, deviations

    pythons = _pythons(python)
    if probe is not None:
        from tantamount.fuzz.campaign import started
        from tantamount.fuzz.probe import probe as probed

        compiler = started(probe, pythons.get(probe, ""))
        terminal.out("[kernels]\n")
        for target, dtypes in probed(compiler.backend, compiler):
            terminal.out(f'"{target}" = [{", ".join(f"{chr(34)}{dtype}{chr(34)}" for dtype in dtypes)}]\n')
        compiler.close()
        return 0
    for name, backend in backends().items():
        if not backend.install:
            terminal.out(f"{name:>14}  installed  part of Tantamount, for tests\n")
            continue
        hosted = Hosted(backend, pythons.get(name, ""))
        versions, problem = hosted.asked()
        hosted.close()
        if versions:
            state = f"installed  {', '.join(f'{k} {v}' for k, v in versions.items())}"
        else:
            state = f"missing    {backend.install}" + (f"; {problem}" if "device" in backend.options else "")
        terminal.out(f"{name:>14}  {state}\n")
        for row in deviations(name):
            terminal.out(f"{'':>27}deviation {row.name}: {row.about}\n")
    return 0


@fuzz.command()
@click.option("-o", "--out", type=FILE, required=True, metavar="DIR")
@click.option("--format", "format_", default="torch", metavar="NAMES", help="torch, onnx, jax; separated by commas.")
@click.option("--count", type=POSITIVE, default=100)
@click.option("--seed", type=int, default=0)
@exits
def suite(out: Path, format_: str, count: int, seed: int) -> int:
    """Write equivalent programs with inputs and expected outputs, for compilers that are not run here."""
    from tantamount.fuzz.suite import write_suite

    names = _names(format_)
    written = write_suite(out, names, count, seed, _rules(()), lambda _: None)
    terminal.out(f"{written} cases in {out}\n")
    return 0
