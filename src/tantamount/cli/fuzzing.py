"""``tantamount fuzz``: campaigns, and what is done with their findings."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from tantamount.cli import terminal
from tantamount.cli.exits import exits
from tantamount.cli.runners import RayOption, runner
from tantamount.errors import UserError
from tantamount.writing import write_file

__all__ = ["fuzz"]

fuzz = typer.Typer(
    name="fuzz", help="Find the tensor programs that compilers get wrong.", no_args_is_help=True, rich_markup_mode=None
)

Pythons = Annotated[
    list[str] | None,
    typer.Option(
        "--python", metavar="BACKEND=PATH", help="The Python in whose environment a backend is; default: this one."
    ),
]
RuleFiles = Annotated[
    list[Path] | None,
    typer.Option("--rules", metavar="FILE", help="Run a Python file that registers rules. Only for files you trust."),
]
_EPILOG = "Exit codes: 0 no finding; 1 findings; 2 the command line is wrong; 4 a bug of Tantamount; 130 interrupted."


def _pythons(given: list[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in given or ():
        name, equals, path = item.partition("=")
        if not equals or not Path(path).is_file():
            raise UserError(
                "fuzz-python", place="--python", found=item, needed="BACKEND=PATH, the path of a Python that there is"
            )
        found[name] = path
    return found


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _rules(files: list[Path] | None) -> dict[str, Any]:
    """The proved rules, those of files among them. A rule of a file that is not proved is an error."""
    from tantamount.rules.library import rules
    from tantamount.rules.record import known_evidence, proved_rules

    own = set(rules())
    for file in files or ():
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
@exits
def run(
    backend: Annotated[str, typer.Option("--backend", metavar="NAMES", help="Backends, separated by commas.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="DIR", help="Where findings and the log go; an earlier campaign there goes on."
        ),
    ],
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same cases.")] = 0,
    seconds: Annotated[float | None, typer.Option("--seconds", help="Stop after that long.")] = None,
    cases: Annotated[int | None, typer.Option("--cases", help="Stop after that many cases.")] = None,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes that run cases.")] = 1,
    without_deviation: Annotated[
        list[str] | None,
        typer.Option("--report", metavar="DEVIATION", help="Report what this declared deviation would hide."),
    ] = None,
    hide: Annotated[
        list[str] | None, typer.Option("--hide", metavar="DEVIATION", help="Apply a declared deviation that is off.")
    ] = None,
    known: Annotated[
        Path | None, typer.Option("--known", metavar="FILE", help="Signatures, one a line, that are no news.")
    ] = None,
    operators: Annotated[
        str, typer.Option("--operators", metavar="NAMES", help="Only these operators: amax,abs.")
    ] = "",
    dtypes: Annotated[str, typer.Option("--dtypes", metavar="NAMES", help="Only these element types.")] = "",
    graphs: Annotated[
        list[Path] | None,
        typer.Option("--from", metavar="GRAPH", help="Cut cases out of this graph, at other sizes."),
    ] = None,
    rules: RuleFiles = None,
    python: Pythons = None,
    forms: Annotated[int, typer.Option("--forms", min=0, help="Random forms of every case.")] = 1,
    ray: RayOption = None,
) -> int:
    """Run random programs and their rewritten forms on compilers, and keep what comes out wrong."""
    from tantamount.fuzz.campaign import Setup, run_campaign

    if seconds is None and cases is None:
        raise UserError(
            "fuzz-endless", place="command line", found="neither --seconds nor --cases", needed="one of them"
        )
    names = _names(backend)
    setup = Setup(
        names, seed, 0, cases, seconds, 0, workers, tuple(without_deviation or ()), forms, _pythons(python),
        frozenset(known.read_text().splitlines()) if known is not None else frozenset(), tuple(hide or ()),
        _names(operators), _names(dtypes), tuple(map(str, graphs or ())),
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
        f"{told['findings']} new findings, {told['coverage']} of operator x type x rank, "
        f"{share:.0%} outside the compilers"
    )


@fuzz.command(
    epilog="Exit codes: 0 every bug is gone; 1 one is still there; 2 a file is wrong; 3 of one it is not clear."
)
@exits
def replay(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="Findings, or folders of them.")],
    seconds: Annotated[float, typer.Option("--seconds", help="For each.")] = 300.0,
    python: Pythons = None,
) -> int:
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
@exits
def triage(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A campaign's folder.")],
    html: Annotated[Path | None, typer.Option("--html", metavar="OUT", help="Write a page, too.")] = None,
) -> int:
    """List findings, the smallest programs first."""
    from tantamount.fuzz.triage import page, rows

    found = rows(folder)
    if not found and not folder.is_dir():
        raise UserError("finding-file", place=str(folder), found="no such folder", needed="a campaign's folder")
    for row in found:
        terminal.out(
            f"{row.backend:>9}  {row.kind:<8} {row.operators:>3}  {row.signature}\n"
            f"{'':>12}{row.message}\n{'':>12}{row.folder}\n"
        )
    terminal.out(f"{len(found)} findings\n")
    if html is not None:
        write_file(html, page(found))
    return 0


@fuzz.command(name="rules")
@exits
def rules_(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Only these.")] = None,
    prove: Annotated[bool, typer.Option("--prove", help="Prove them now instead of reading the record.")] = False,
    rules: RuleFiles = None,
) -> int:
    """Show the rules that programs are rewritten by, and the evidence for each. Exit code 1: one is not proved."""
    from tantamount.rules.evidence import evidence
    from tantamount.rules.library import rules as table
    from tantamount.rules.record import known_evidence

    for file in rules or ():
        _run(file)
    unknown = [name for name in names or () if name not in table()]
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
@exits
def backends_(
    python: Pythons = None,
    probe: Annotated[
        str | None, typer.Option("--probe", metavar="NAME", help="Find out which operators it has for which types.")
    ] = None,
) -> int:
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
        versions = hosted.versions()
        hosted.close()
        state = (
            f"installed  {', '.join(f'{k} {v}' for k, v in versions.items())}"
            if versions
            else f"missing    {backend.install}"
        )
        terminal.out(f"{name:>14}  {state}\n")
        for row in deviations(name):
            terminal.out(f"{'':>27}deviation {row.name}: {row.about}\n")
    return 0


@fuzz.command()
@exits
def suite(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR")],
    format_: Annotated[
        str, typer.Option("--format", metavar="NAMES", help="torch, onnx, jax; separated by commas.")
    ] = "torch",
    count: Annotated[int, typer.Option("--count", min=1)] = 100,
    seed: Annotated[int, typer.Option("--seed")] = 0,
) -> int:
    """Write equivalent programs with inputs and expected outputs, for compilers that are not run here."""
    from tantamount.fuzz.suite import write_suite

    names = _names(format_)
    written = write_suite(out, names, count, seed, _rules(None), lambda _: None)
    terminal.out(f"{written} cases in {out}\n")
    return 0
