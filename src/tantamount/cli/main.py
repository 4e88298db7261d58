"""The ``tantamount`` command. Each command imports what it needs when it runs: starting costs milliseconds."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from tantamount import __version__
from tantamount.cli import terminal
from tantamount.cli.exits import exits, explain, explained, finished
from tantamount.cli.options import (
    ACCEPT,
    ACCEPT_TESTED,
    ALLOW_OUTSIDE,
    EFFORT,
    EXIT_CODES,
    FILE,
    JSON,
    MEMORY,
    OPERATORS,
    POSITIVE,
    RAY,
    RULES,
    STRICT,
    TIMEOUT,
    VERBOSE,
    Group,
    argument,
)
from tantamount.cli.process import INTERRUPTED, Interruption, leave_on_interrupt, open_streams
from tantamount.report.outcomes import INTERNAL

__all__ = ["app", "main"]

_COMPLETE = "_TANTAMOUNT_COMPLETE"

# Executions are many small products: more threads spin and finish no sooner. Read when NumPy is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


class _Commands(Group):
    """All commands; those of ``plan`` and ``fuzz`` are loaded when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), "plan", "fuzz"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "plan":
            from tantamount.cli.planning import plan

            return plan
        if cmd_name == "fuzz":
            from tantamount.cli.fuzzing import fuzz

            return fuzz
        return super().get_command(ctx, cmd_name)


def _version(context: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked:
        terminal.out(f"tantamount {__version__}\n")
        context.exit()


def _completion(context: click.Context, option: click.Parameter, shell: str | None) -> None:
    if shell is not None:
        from click.shell_completion import get_completion_class

        kind = get_completion_class(shell)
        if kind is not None:
            terminal.out(kind(app, {}, "tantamount", _COMPLETE).source() + "\n")
        context.exit()


@click.group(
    name="tantamount", cls=_Commands, epilog=EXIT_CODES, no_args_is_help=True, context_settings={"show_default": True}
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version and exit."
)
@click.option(
    "--show-completion", type=click.Choice(["bash", "zsh", "fish"]), is_eager=True, expose_value=False,
    callback=_completion, help="Print what a shell's own start-up file needs to complete commands and options.",
)  # fmt: skip
def app() -> None:
    """Proves that two tensor programs compute the same thing, or shows where they stop doing so."""


@app.command(epilog=EXIT_CODES)
@argument("jobs", "JOB...", "Job files (TOML, format job/1).", many=True, type=FILE)
@JSON
@STRICT
@VERBOSE
@ALLOW_OUTSIDE
@OPERATORS
@click.option(
    "--workers", type=POSITIVE, help="Check that many of several jobs at a time; default: one for every core."
)
@click.option(
    "--html", type=FILE, metavar="OUT", help="Write a page that shows both programs; of several jobs, into a folder."
)
@click.option("--junit", type=FILE, metavar="OUT", help="Write the result as JUnit XML; - is stdout.")
@click.option("--sarif", type=FILE, metavar="OUT", help="Write what is wrong as SARIF 2.1.0; - is stdout.")
@click.option(
    "--github/--no-github", default=None, show_default=False,
    help="Print GitHub annotations; default: if GITHUB_ACTIONS is true.",
)  # fmt: skip
@click.option(
    "--certificate", type=FILE, metavar="CERT", help="Write what `tantamount check` needs, if the job is PROVED."
)
@EFFORT
@TIMEOUT
@MEMORY
@RAY
@click.option(
    "--engine", default="calculus", metavar="NAME",
    help="calculus proves; smt compares all elements at reduced shapes by z3.",
)  # fmt: skip
@RULES
@ACCEPT_TESTED
@ACCEPT
@exits
def refine(
    jobs: tuple[Path, ...],
    json: Path | None,
    strict: bool,
    verbose: bool,
    allow_outside: bool,
    operators: tuple[Path, ...],
    workers: int | None,
    html: Path | None,
    junit: Path | None,
    sarif: Path | None,
    github: bool | None,
    certificate: Path | None,
    effort: str,
    timeout: float | None,
    memory: int | None,
    ray: str | None,
    engine: str,
    rules: tuple[Path, ...],
    accept_tested: bool,
    accept: tuple[str, ...],
) -> int:
    """Does the distributed implementation refine the sequential specification?"""
    from tantamount.cli.certifying import certify, check_certifiable
    from tantamount.cli.checking import Options, check_all, load
    from tantamount.cli.pages import pages_of
    from tantamount.cli.results import Results
    from tantamount.report import text
    from tantamount.report.outcomes import Failure, Outcome, worst_exit
    from tantamount.report.summary import summarise

    files = {"--json": json, "--junit": junit, "--sarif": sarif}
    results = Results({option: path for option, path in files.items() if path is not None}, github)
    results.check()
    if certificate is not None:
        check_certifiable(jobs, certificate)
    load(operators)
    options = Options(
        strict=strict,
        allow_outside=allow_outside,
        operators=operators,
        pages=pages_of(html, jobs),
        effort=effort,
        timeout=timeout,
        memory=memory,
        certificate=certificate,
        engine=engine,
        rules=rules,
        accept_tested=accept_tested,
        accept=accept,
    )
    if engine != "calculus":
        from tantamount.answers import check_engine

        check_engine(engine)
    options.start()  # what is no effort is said before any job is read
    outcomes: list[Outcome] = []
    with results.fenced():
        for outcome in check_all(jobs, options, workers, ray):
            if isinstance(outcome, Failure):
                explain(outcome, verbose=verbose)
            elif results.text:
                terminal.out("\n" if outcomes else "")
                terminal.lines(text.render(outcome, verbose=verbose))
            outcomes.append(outcome)
        if len(outcomes) > 1 and results.text:
            terminal.out("\n")
            terminal.lines(summarise(outcomes))
    results.write(outcomes)
    if certificate is not None:
        certify(outcomes[0], certificate)
    return worst_exit(outcome.exit_code for outcome in outcomes)


@app.command(
    epilog="Exit codes: 0 accepted; 1 rejected; 2 the command line, the certificate, a job or a graph is wrong; "
    "3 nothing contradicts it, but not all of it could be checked; 4 a bug of Tantamount; 5 the machine gave "
    "out (memory, disk, output); 130 interrupted."
)
@argument("certificate", "CERT", "What `refine --certificate` wrote.", type=FILE)
@click.option("--job", type=FILE, metavar="JOB", help="The job; default: the one that the certificate names.")
@ALLOW_OUTSIDE
@OPERATORS
@VERBOSE
@exits
def check(certificate: Path, job: Path | None, allow_outside: bool, operators: tuple[Path, ...], verbose: bool) -> int:
    """Evaluate again what a certificate claims, with code that took no part in proving it."""
    from tantamount.certificate.check import check_certificate
    from tantamount.certificate.text import render
    from tantamount.cli.checking import load

    load(operators)
    found = check_certificate(certificate, job=job, allow_outside=allow_outside)
    terminal.out("".join(f"{line}\n" for line in render(found, verbose=verbose)))
    return found.exit_code


@app.command(epilog=EXIT_CODES)
@argument("first", "A", "A graph file, MODULE:FUNCTION, or a job (alone).")
@argument("second", "[B]", "The other program; the first is the reference.", required=False)
@click.option("--input", "inputs", multiple=True, metavar="NAME=RELATION", help="An input of A, made of those of B.")
@click.option("--output", "outputs", multiple=True, metavar="NAME=RELATION", help="Likewise.")
@click.option(
    "--relations", type=FILE, multiple=True, metavar="FILE",
    help="How parameters or inputs correspond (three or more: of smaller models); no loader is run.",
)  # fmt: skip
@click.option("--save-relations", type=FILE, metavar="OUT", help="Write what was found to correspond, to be edited.")
@click.option(
    "--save-rules", type=FILE, metavar="OUT", help="Write the rules that a proof lacks, if pieces agree in values."
)
@click.option("--accept", multiple=True, metavar="NAME", help="Let the verdict rest on NAME, such as relation-guessed.")
@click.option(
    "--sweep", multiple=True, metavar="KEY=V,W,...", help="Every value of a key of both models (a.KEY: of A)."
)
@click.option(
    "-o", "--out", type=FILE, metavar="DIR", help="Keep what a sweep has done; an earlier sweep there goes on."
)
@click.option("--workers", type=POSITIVE, help="Compare that many of a sweep at a time; default: one for every core.")
@JSON
@click.option(
    "--html", type=FILE, metavar="OUT", help="Write a page that shows both programs; of several jobs, into a folder."
)
@STRICT
@VERBOSE
@ALLOW_OUTSIDE
@OPERATORS
@EFFORT
@TIMEOUT
@MEMORY
@RAY
@RULES
@ACCEPT_TESTED
@exits
def compare(
    first: str,
    second: str | None,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    relations: tuple[Path, ...],
    save_relations: Path | None,
    save_rules: Path | None,
    accept: tuple[str, ...],
    sweep: tuple[str, ...],
    out: Path | None,
    workers: int | None,
    json: Path | None,
    html: Path | None,
    strict: bool,
    verbose: bool,
    allow_outside: bool,
    operators: tuple[Path, ...],
    effort: str,
    timeout: float | None,
    memory: int | None,
    ray: str | None,
    rules: tuple[Path, ...],
    accept_tested: bool,
) -> int:
    """Do two implementations of one model compute the same? MODULE:FUNCTION imports and runs your code."""
    from tantamount.cli.checking import load
    from tantamount.cli.comparing import Request, compared, swept
    from tantamount.cli.results import Results
    from tantamount.errors import UserError
    from tantamount.report import text
    from tantamount.writing import check_writable

    results = Results({"--json": json} if json is not None else {}, github=False)
    results.check()
    saved = {"--save-relations": save_relations, "--save-rules": save_rules}
    for option, path in saved.items():
        if path is not None:
            check_writable(path, option)
    request = Request(first, second, inputs, outputs, allow_outside, relations, save_relations, save_rules)
    options: dict[str, Any] = {"accept": accept, "strict": strict, "effort": effort}
    options |= {"timeout": timeout, "memory": memory, "rules": rules, "accept_tested": accept_tested}
    for option, given in (saved if sweep else {"--out": out, "--workers": workers, "--ray": ray}).items():
        if given is not None:
            needed = "one comparison" if sweep else "--sweep beside it: it is about several comparisons"
            raise UserError("command-line", place=option, found=str(given), needed=needed)
    if sweep:
        from tantamount.cli.sweep_folder import opened
        from tantamount.cli.sweeping import Sweep, page_by_label, run_sweep

        requests = list(swept(request, sweep))
        pages = page_by_label(html, [label for label, _ in requests])
        folder = None if out is None else opened(out, request, options, operators)
        return run_sweep(requests, Sweep(options, operators, pages, folder), workers, ray, results, verbose=verbose)
    if html is not None:
        check_writable(html, "--html")
    load(operators)
    with terminal.progress(" ".join(name for name in (first, second) if name)) as progress:
        answer = compared(request, progress=progress, **options)
    if results.text:
        terminal.lines(text.render(answer, verbose=verbose))
    if html is not None:
        answer.save(html)
    results.write([answer])
    return answer.exit_code


@app.command()
@argument("specification", "MODULE:FUNCTION", "Returns (function, args): what one device runs.")
@argument(
    "implementation", "[MODULE:FUNCTION]", "The same for the implementation; of the rank, if there are.", required=False
)
@click.option("-o", "--out", "output", type=FILE, default=Path(), metavar="DIR", help="Where graphs and job go.")
@click.option("--world-size", type=POSITIVE, help="Simulate that many ranks.")
@click.option("--mesh", multiple=True, metavar="AXIS=SIZE", help="Axes, first to last.")
@click.option(
    "--input", "inputs", multiple=True, metavar="NAME=RELATION",
    help="'x=Shard(0)'; several axes: 'x=Shard(0); Replicate()'.",
)  # fmt: skip
@click.option("--output", "outputs", multiple=True, metavar="NAME=RELATION", help="Likewise.")
@exits
def capture(
    specification: str,
    implementation: str | None,
    output: Path,
    world_size: int | None,
    mesh: tuple[str, ...],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
) -> int:
    """Capture PyTorch programs as graphs and a job. This imports and runs your code."""
    from tantamount.cli.capturing import capture_to

    done = capture_to(output, specification, implementation, world_size, mesh, inputs, outputs)
    terminal.out("".join(f"{line}\n" for line in done))
    return 0


@app.command(
    epilog="Exit codes: 0 every rule is proved; 1 one is refuted or rejected; 2 the command line or a file is wrong; "
    "3 one is only tested, or nothing is known of it; 4 a bug of Tantamount; 130 interrupted."
)
@argument("files", "FILE...", "Files of rules: TOML, or Python files, which are run.", type=FILE, many=True)
@OPERATORS
@EFFORT
@exits
def rules(files: tuple[Path, ...], operators: tuple[Path, ...], effort: str) -> int:
    """Say what is known of rules that you give: proved, tested or refuted."""
    from tantamount.cli.checking import load
    from tantamount.cli.lemmas import known_rules

    load(operators)
    return known_rules(files, effort)


@app.command()
@argument("job", "JOB", "A job file whose [inputs] may be incomplete.", type=FILE)
@ALLOW_OUTSIDE
@exits
def suggest(job: Path, allow_outside: bool) -> int:
    """Propose relations for the inputs that a job does not relate. They are guesses, and marked as such."""
    from tantamount.capture.job import read_unresolved
    from tantamount.correspond.suggest import suggest as proposals
    from tantamount.correspond.suggest import toml

    terminal.out(toml(proposals(read_unresolved(job, allow_outside=allow_outside))))
    return 0


@app.command()
@argument("graph", "GRAPH", "A graph file of any format.", type=FILE)
@exits
def show(graph: Path) -> int:
    """Print a graph in its text form."""
    from tantamount.capture.readers import read_graph
    from tantamount.ir.text import format_graph

    terminal.out(format_graph(read_graph(graph)).rstrip("\n") + "\n")
    return 0


@app.command()
@argument("name", "[NAME]", "One operator, by any of its names.", required=False)
@OPERATORS
@exits
def ops(name: str | None, operators: tuple[Path, ...]) -> int:
    """List the operators that are understood, or show one."""
    from tantamount.cli.checking import load
    from tantamount.cli.explaining import page
    from tantamount.cli.operators import overview
    from tantamount.explanations.operators import operator_topic
    from tantamount.ops.table import lookup, table

    load(operators)
    terminal.lines(overview(table()) if name is None else page(operator_topic(lookup(name, "command line"))))
    return 0


@app.command(name="explain")
@argument("name", "[NAME]", "An error code, verdict, difference, assumption, rule, limit or operator.", required=False)
@OPERATORS
@exits
def explain_topic(name: str | None, operators: tuple[Path, ...]) -> int:
    """Explain a name that messages and reports use; without one, list the names."""
    from tantamount.cli.checking import load
    from tantamount.cli.explaining import list_of, page
    from tantamount.explanations.topics import find, topics

    load(operators)
    terminal.lines(list_of(topics().values()) if name is None else page(find(name)))
    return 0


@app.command()
@exits
def version() -> int:
    """Print the version."""
    terminal.out(f"tantamount {__version__}\n")
    return 0


def main() -> None:
    """Run the command line and exit. Exit code 1 means REFUTED and nothing else, so no exception may get through, and
    whatever happens to the streams is part of the exit code."""
    interruption = Interruption()
    code = INTERRUPTED
    try:
        streams = open_streams()
        code = finished(streams[0] if streams else None, _run())
        leave_on_interrupt()
    except KeyboardInterrupt:
        leave_on_interrupt()
    sys.exit(INTERRUPTED if interruption.came else code)


def _run() -> int:
    try:
        code = app.main(prog_name="tantamount", complete_var=_COMPLETE, standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.Abort:  # an interruption that came while the command line was read
        terminal.error("interrupted")
        return INTERRUPTED
    except click.ClickException as problem:
        problem.show()
        return problem.exit_code
    except SystemExit as done:  # of the completion of shells
        return done.code if isinstance(done.code, int) else INTERNAL
    except Exception as problem:
        return explained(problem)
