"""The ``tantamount`` command. Each command imports what it needs when it runs: starting costs milliseconds."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tantamount import __version__
from tantamount.cli import planning, terminal
from tantamount.cli.exits import exits, explain, explained, finished
from tantamount.cli.fuzzing import fuzz
from tantamount.cli.process import INTERRUPTED, Interruption, leave_on_interrupt, open_streams, reserve
from tantamount.cli.runners import RayOption
from tantamount.report.outcomes import INTERNAL

if TYPE_CHECKING:
    from tantamount.answers import Answer

__all__ = ["app", "main"]

_EPILOG = (
    "Exit codes: 0 every job is PROVED; 1 one is REFUTED; 2 the command line, a job or a graph is wrong; "
    "3 one is UNKNOWN or VACUOUS; 4 a bug of Tantamount; 5 the machine gave out (memory, disk, output); "
    "130 interrupted. Several jobs: the first of 4, 5, 2, 1, 3, 0 that one has."
)

# Executions are many small products: more threads spin and finish no sooner. Read when NumPy is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

app = typer.Typer(
    name="tantamount",
    help="Proves that two tensor programs compute the same thing, or shows where they stop doing so.",
    epilog=_EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(planning.app, name="plan")


def _version(asked: bool) -> None:
    if asked:
        terminal.out(f"tantamount {__version__}\n")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Proves that two tensor programs compute the same thing, or shows where they stop doing so."""


Jobs = Annotated[list[Path], typer.Argument(metavar="JOB", help="Job files (TOML, format job/1).")]
Json = Annotated[
    Path | None,
    typer.Option(
        "--json", metavar="OUT", help="Write the result as JSON (tantamount-report/1); - is stdout, without the text."
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse every assumption that the job names: no PROVED rests on one.")
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Add the relation per operator, all places, and statistics.")
]
Outside = Annotated[
    bool, typer.Option("--allow-outside", help="Let a job name graphs outside its own folder. Only for jobs you trust.")
]


Operators = Annotated[
    list[Path] | None,
    typer.Option(
        "--operators", metavar="FILE", help="Run a Python file that declares operators. Only for files you trust."
    ),
]


Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Check that many of several jobs at a time; default: one for every core."),
]

Html = Annotated[
    Path | None,
    typer.Option(
        "--html", metavar="OUT", help="Write a page that shows both programs; of several jobs, into a folder."
    ),
]
JUnit = Annotated[
    Path | None, typer.Option("--junit", metavar="OUT", help="Write the result as JUnit XML; - is stdout.")
]
Sarif = Annotated[
    Path | None, typer.Option("--sarif", metavar="OUT", help="Write what is wrong as SARIF 2.1.0; - is stdout.")
]
GitHub = Annotated[
    bool | None,
    typer.Option(
        "--github/--no-github", help="Print GitHub annotations; default: if GITHUB_ACTIONS is true.", show_default=False
    ),
]

EffortOption = Annotated[
    str,
    typer.Option("--effort", metavar="LEVEL", help="How far searches go: low, normal, high, or N times normal."),
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", metavar="S", help="What is not proved of a job after S seconds is UNKNOWN."),
]
Memory = Annotated[
    int | None, typer.Option("--memory", metavar="MB", help="The same when its process holds more than MB megabytes.")
]
EngineOption = Annotated[
    str,
    typer.Option(
        "--engine", metavar="NAME", help="calculus proves; smt compares all elements at reduced shapes by z3."
    ),
]
CertificateOut = Annotated[
    Path | None,
    typer.Option("--certificate", metavar="CERT", help="Write what `tantamount check` needs, if the job is PROVED."),
]


@app.command(epilog=_EPILOG)
@exits
def refine(
    jobs: Jobs,
    json: Json = None,
    strict: Strict = False,
    verbose: Verbose = False,
    allow_outside: Outside = False,
    operators: Operators = None,
    workers: Workers = None,
    html: Html = None,
    junit: JUnit = None,
    sarif: Sarif = None,
    github: GitHub = None,
    certificate: CertificateOut = None,
    effort: EffortOption = "normal",
    timeout: Timeout = None,
    memory: Memory = None,
    ray: RayOption = None,
    engine: EngineOption = "calculus",
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
    load(operators or ())
    options = Options(
        strict=strict,
        allow_outside=allow_outside,
        operators=tuple(operators or ()),
        pages=pages_of(html, jobs),
        effort=effort,
        timeout=timeout,
        memory=memory,
        certificate=certificate,
        engine=engine,
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
@exits
def check(
    certificate: Annotated[Path, typer.Argument(metavar="CERT", help="What `refine --certificate` wrote.")],
    job: Annotated[
        Path | None, typer.Option("--job", metavar="JOB", help="The job; default: the one that the certificate names.")
    ] = None,
    allow_outside: Outside = False,
    operators: Operators = None,
    verbose: Verbose = False,
) -> int:
    """Evaluate again what a certificate claims, with code that took no part in proving it."""
    reserve()
    from tantamount.certificate.check import check_certificate
    from tantamount.certificate.text import render
    from tantamount.cli.checking import load

    load(operators or ())
    found = check_certificate(certificate, job=job, allow_outside=allow_outside)
    terminal.out("".join(f"{line}\n" for line in render(found, verbose=verbose)))
    return found.exit_code


@app.command(epilog=_EPILOG)
@exits
def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A graph file, MODULE:FUNCTION, or a job (alone).")],
    second: Annotated[
        str | None, typer.Argument(metavar="[B]", help="The other program; the first is the reference.")
    ] = None,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", metavar="NAME=RELATION", help="An input of A, made of those of B.")
    ] = None,
    outputs: Annotated[list[str] | None, typer.Option("--output", metavar="NAME=RELATION", help="Likewise.")] = None,
    accept: Annotated[
        list[str] | None, typer.Option("--accept", metavar="NAME", help="Let the verdict rest on it: relation-guessed.")
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option("--sweep", metavar="KEY=V,W,...", help="Every value of a key of both models (a.KEY: of A)."),
    ] = None,
    json: Json = None,
    html: Html = None,
    strict: Strict = False,
    verbose: Verbose = False,
    allow_outside: Outside = False,
    operators: Operators = None,
    effort: EffortOption = "normal",
    timeout: Timeout = None,
    memory: Memory = None,
) -> int:
    """Do two implementations of one model compute the same? MODULE:FUNCTION imports and runs your code."""
    from tantamount.cli.checking import load
    from tantamount.cli.comparing import Request, compared, swept
    from tantamount.cli.results import Results
    from tantamount.report import text
    from tantamount.report.outcomes import worst_exit
    from tantamount.writing import check_writable

    results = Results({"--json": json} if json is not None else {}, github=False)
    results.check()
    if html is not None:
        check_writable(html, "--html")
    load(operators or ())
    request = Request(first, second, tuple(inputs or ()), tuple(outputs or ()), allow_outside)
    options: dict[str, Any] = {"accept": tuple(accept or ()), "strict": strict, "effort": effort}
    options |= {"timeout": timeout, "memory": memory}
    requests = list(swept(request, sweep)) if sweep else [("", request)]
    answers: list[Answer] = []
    for label, one in requests:
        with terminal.progress(label or " ".join(name for name in (first, second) if name)) as progress:
            answers.append(compared(one, progress=progress, **options))
        if results.text and label:
            terminal.out(f"{answers[-1].verdict.value:8} {label}\n")
        if results.text and (not label or not answers[-1].proved):
            terminal.lines(text.render(answers[-1], verbose=verbose))
    if html is not None:
        answers[-1].save(html)
    results.write(answers)
    return worst_exit(answer.exit_code for answer in answers)


@app.command()
@exits
def capture(
    specification: Annotated[
        str, typer.Argument(metavar="MODULE:FUNCTION", help="Returns (function, args): what one device runs.")
    ],
    implementation: Annotated[
        str | None,
        typer.Argument(metavar="[MODULE:FUNCTION]", help="The same for the implementation; of the rank, if there are."),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where graphs and job go.")] = Path(),
    world_size: Annotated[int | None, typer.Option("--world-size", min=1, help="Simulate that many ranks.")] = None,
    mesh: Annotated[list[str] | None, typer.Option("--mesh", metavar="AXIS=SIZE", help="Axes, first to last.")] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=RELATION", help="'x=Shard(0)'; several axes: 'x=Shard(0); Replicate()'."),
    ] = None,
    outputs: Annotated[list[str] | None, typer.Option("--output", metavar="NAME=RELATION", help="Likewise.")] = None,
) -> int:
    """Capture PyTorch programs as graphs and a job. This imports and runs your code."""
    from tantamount.cli.capturing import capture_to

    done = capture_to(output, specification, implementation, world_size, mesh or (), inputs or (), outputs or ())
    terminal.out("".join(f"{line}\n" for line in done))
    return 0


@app.command()
@exits
def suggest(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="A job file whose [inputs] may be incomplete.")],
    allow_outside: Outside = False,
) -> int:
    """Propose relations for the inputs that a job does not relate. They are guesses, and marked as such."""
    from tantamount.capture.job import read_unresolved
    from tantamount.correspond.suggest import suggest as proposals
    from tantamount.correspond.suggest import toml

    terminal.out(toml(proposals(read_unresolved(job, allow_outside=allow_outside))))
    return 0


@app.command()
@exits
def show(
    graph: Annotated[Path, typer.Argument(metavar="GRAPH", help="A graph file of any format.")],
) -> int:
    """Print a graph in its text form."""
    from tantamount.capture.readers import read_graph
    from tantamount.ir.text import format_graph

    terminal.out(format_graph(read_graph(graph)).rstrip("\n") + "\n")
    return 0


@app.command()
@exits
def ops(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One operator, by any of its names.")] = None,
    operators: Operators = None,
) -> int:
    """List the operators that are understood, or show one."""
    from tantamount.cli.checking import load
    from tantamount.cli.explaining import page
    from tantamount.cli.operators import overview
    from tantamount.explanations.operators import operator_topic
    from tantamount.ops.table import lookup, table

    load(operators or ())
    terminal.lines(overview(table()) if name is None else page(operator_topic(lookup(name, "command line"))))
    return 0


@app.command(name="explain")
@exits
def explain_topic(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="An error code, verdict, difference, assumption, rule, limit or operator."
        ),
    ] = None,
    operators: Operators = None,
) -> int:
    """Explain a name that messages and reports use; without one, list the names."""
    from tantamount.cli.checking import load
    from tantamount.cli.explaining import list_of, page
    from tantamount.explanations.topics import find, topics

    load(operators or ())
    terminal.lines(list_of(topics().values()) if name is None else page(find(name)))
    return 0


@app.command()
@exits
def version() -> int:
    """Print the version."""
    terminal.out(f"tantamount {__version__}\n")
    return 0


app.add_typer(fuzz)


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
        app()
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else INTERNAL
    except Exception as problem:
        return explained(problem)
    return 0
