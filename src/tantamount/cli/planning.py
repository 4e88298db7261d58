"""``tantamount plan``: training plans verified, written and shown; schedules of pipelines checked and drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tantamount.cli import terminal
from tantamount.cli.exits import exits
from tantamount.errors import UserError

if TYPE_CHECKING:
    from tantamount.plan.actions import Schedule
    from tantamount.plan.check import Problem
    from tantamount.plan.flow import Flow
    from tantamount.plan.result import PlanReport

__all__ = ["app"]

_SHOWN = 20  # problems that are printed without --verbose

app = typer.Typer(
    help="Training plans: whether a whole training iteration is right at its parallel plan.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def group() -> None:
    """Training plans: whether a whole training iteration is right at its parallel plan."""


@app.command()
@exits
def verify(
    plans: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE", help="Plans (TOML, format plan/1), jobs, or folders of modules that nnScaler generated."
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="FILE.py:NAME",
            help="Of generated modules, the model of one device: a class or function that is called (this runs it), "
            "with numbers if need be, as in 'llama.py:Llama(layers=4)'.",
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data", metavar="KEY=DTYPE[SIZES]", help="Likewise, what is in a sample, if NAME returns a model only."
        ),
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option("--accept", metavar="NAME", help="Accept a declared approximation: without, exit code 3."),
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option("--json", metavar="OUT", help="Write results as JSON (plan-report/1, one a line); - is stdout."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="OUT", help="Write a page with stages, time line, parts and joints (one plan)."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print every joint, output and problem.")] = False,
    effort: Annotated[str, typer.Option("--effort", metavar="LEVEL", help="As for refine.")] = "normal",
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="S", help="What is not proved after S seconds is UNKNOWN.")
    ] = None,
    memory: Annotated[int | None, typer.Option("--memory", metavar="MB", help="The same above MB megabytes.")] = None,
) -> int:
    """Prove that a training iteration computes what one device would on the whole batch: every part, where parts meet,
    which stage owns what, and the schedule. Exit code as for refine: the worst of several plans."""
    from json import dumps

    from tantamount.answers import verify_plan
    from tantamount.report.lines import printable_rows
    from tantamount.report.outcomes import worst_exit
    from tantamount.writing import write_file

    if html is not None and len(plans) > 1:
        raise UserError("command-line", place="--html", found=f"{len(plans)} plans", needed="one")
    reports: list[PlanReport] = []
    for path in plans:
        with terminal.progress(str(path)) as told:
            reports.append(
                verify_plan(
                    path,
                    model=model,
                    data=data or (),
                    accept=accept or (),
                    effort=effort,
                    timeout=timeout,
                    memory=memory,
                    told=told,
                )
            )
        if json is None or str(json) != "-":
            terminal.out(printable_rows(reports[-1].text(verbose=verbose)) + "\n")
    if html is not None:
        from tantamount.plan.page import plan_page

        write_file(html, plan_page(reports[0]))
    if json is not None:
        text = "".join(dumps(report.document()) + "\n" for report in reports)
        if str(json) == "-":
            terminal.out(text)
        else:
            write_file(json, text)
    return worst_exit([report.exit_code for report in reports])


@app.command()
@exits
def show(
    path: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan (TOML, format plan/1).")],
) -> int:
    """Print what a plan says, without proving it: its mesh, which stage owns what, and how its parts are joined."""
    from tantamount.plan.read import read_plan
    from tantamount.plan.show import described
    from tantamount.report.lines import printable_rows

    terminal.out(printable_rows(described(read_plan(path))) + "\n")
    return 0


@app.command()
@exits
def new(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="llama (with its sizes), llama3-8b, -70b, -405b; deepseek-v3-16b, -236b, -671b; qwen3-moe-30b, -235b.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The folder to write (made if need be).")],
    dp: Annotated[int, typer.Option("--dp", min=1, help="Data-parallel ranks.")] = 1,
    tp: Annotated[int, typer.Option("--tp", min=1, help="Tensor-parallel ranks.")] = 1,
    pp: Annotated[int, typer.Option("--pp", min=1, help="Pipeline ranks.")] = 1,
    microbatches: Annotated[int, typer.Option("--microbatches", "-m", min=1, help="Microbatches.")] = 1,
    schedule: Annotated[str, typer.Option("--schedule", help="A named schedule of a pipeline.")] = "1f1b",
    chunks: Annotated[int, typer.Option("--chunks", "-v", min=1, help="Virtual stages on every device.")] = 1,
    batch: Annotated[
        int | None, typer.Option("--batch", min=1, help="Sequences of one iteration; default: dp x microbatches.")
    ] = None,
    seq: Annotated[int, typer.Option("--seq", min=1, help="Tokens of a sequence.")] = 8192,
    optimizer: Annotated[str, typer.Option("--optimizer", help="adamw or sgd.")] = "adamw",
    zero: Annotated[
        int, typer.Option("--zero", min=0, max=3, help="Cut over dp: 1, optimizer states; 2, gradients; 3, parameters.")
    ] = 0,
    sp: Annotated[bool, typer.Option("--sp", help="Sequence parallelism over the ranks of tp.")] = False,
    cp: Annotated[int, typer.Option("--cp", min=1, help="Context-parallel ranks, with a part of the sequence.")] = 1,
    context: Annotated[
        str, typer.Option("--context", help="gather (keys and values) or ulysses (heads against positions).")
    ] = "gather",
    ep: Annotated[int, typer.Option("--ep", min=1, help="Ranks that have experts, to which tokens are sent.")] = 1,
    capacity: Annotated[
        int, typer.Option("--capacity", min=0, help="Tokens of a rank's part of a row for one expert; 0: all of them.")
    ] = 0,
    tied: Annotated[bool, typer.Option("--tied", help="The head's matrix is the embedding's table.")] = False,
    recompute: Annotated[
        bool, typer.Option("--recompute", help="Layers do their forward pass again in the backward pass.")
    ] = False,
    layers: Annotated[int | None, typer.Option("--layers", min=1, help="Of llama, or instead of the preset's.")] = None,
    hidden: Annotated[int | None, typer.Option("--hidden", min=1, help="Likewise.")] = None,
    heads: Annotated[int | None, typer.Option("--heads", min=1, help="Likewise.")] = None,
    kv_heads: Annotated[int | None, typer.Option("--kv-heads", min=1, help="Likewise.")] = None,
    ffn: Annotated[int | None, typer.Option("--ffn", min=1, help="Likewise.")] = None,
    vocab: Annotated[int | None, typer.Option("--vocab", min=1, help="Likewise.")] = None,
) -> int:
    """Write the plan of a model's training iteration, its parts captured at their real sizes (needs PyTorch):
    Megatron's tensor and sequence parallelism, a pipeline, data parallelism with ZeRO, context parallelism, experts
    (parallel over the ranks of tp, or with tokens that are sent to those of ep), clipping by the global norm, SGD or
    AdamW."""
    from tantamount.capture import new_plan
    from tantamount.plan.named import named_schedule

    if len(named_schedule(schedule, pp, microbatches, chunks).chains) > 1:  # refused before anything is captured
        raise UserError(
            "plan-schedule", place="plan new", found=f"{schedule}, whose microbatches enter at both ends",
            needed="a schedule of one direction: every parameter has one owner",
        )  # fmt: skip
    own = {"layers": layers, "hidden": hidden, "heads": heads, "kv_heads": kv_heads, "ffn": ffn, "vocab": vocab}
    degrees = {
        "dp": dp, "tp": tp, "pp": pp, "microbatches": microbatches, "seq": seq, "schedule": schedule,
        "batch": batch or dp * ep * microbatches, "chunks": chunks, "optimizer": optimizer, "zero": zero, "sp": sp,
        "cp": cp, "context": context, "ep": ep, "capacity": capacity, "tied": tied, "recompute": recompute,
    }  # fmt: skip
    written = new_plan(model, {name: size for name, size in own.items() if size is not None}, degrees, out)
    terminal.out(f"{written}\n")
    return 0


@app.command()
@exits
def mutate(
    path: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan (TOML, format plan/1).")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The folder to write (made if need be).")],
    count: Annotated[int, typer.Option("--count", min=1, max=10000, help="How many, at most.")] = 20,
    seed: Annotated[int, typer.Option("--seed", help="Which pieces, ranks, events and operators are drawn.")] = 0,
    kind: Annotated[str | None, typer.Option("--kind", metavar="TEXT", help="Only kinds that contain TEXT.")] = None,
) -> int:
    """Write plans with one mistake each, to test what verifies plans: a reduction left out, done twice, of another kind
    or over other ranks; layers on wrong stages; ranks with each other's parts; wrong factors; schedules that reduce too
    early, exchange microbatches, or lose an event. Half of the changes concern one layer, rank or event alone."""
    from itertools import islice

    from tantamount.plan.mutants import KINDS, plan_mutants, write_mutant
    from tantamount.plan.read import read_plan

    chosen = [name for name in KINDS if kind is None or kind in name]
    if not chosen:
        raise UserError("command-line", place="--kind", found=kind or "", needed=f"a part of one of {', '.join(KINDS)}")
    found = (mutant for mutant in plan_mutants(read_plan(path), seed) if mutant.kind in chosen)
    for number, mutant in enumerate(islice(found, count)):
        written = write_mutant(mutant, path, out / f"{number:03}")
        terminal.out(f"{written}  {mutant.kind}: {mutant.what}  (wrong: {mutant.place})\n")
    return 0


@app.command()
@exits
def schedule(
    source: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE.csv",
            help="gpipe, 1f1b, interleaved, breadth-first, zero-bubble, dualpipe; or a table of actions, a row per "
            "device, as torch.distributed.pipelining writes it.",
        ),
    ],
    devices: Annotated[int, typer.Option("--devices", "-p", min=1, help="Pipeline ranks, of a named schedule.")] = 4,
    microbatches: Annotated[int, typer.Option("--microbatches", "-m", min=1, help="Likewise.")] = 8,
    chunks: Annotated[int, typer.Option("--chunks", "-v", min=1, help="Virtual stages on every device, likewise.")] = 1,
    svg: Annotated[Path | None, typer.Option("--svg", metavar="OUT", help="Write a picture of the time line.")] = None,
    actions: Annotated[bool, typer.Option("--actions", help="Print what every device does.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print every problem.")] = False,
) -> int:
    """Check a schedule: that every pass happens once, on what it needs, without deadlock, and that every gradient is in
    the reduction; and what it costs. Exit code 0 if nothing is wrong with it, 1 if something is, 2 for bad input."""
    from tantamount.plan.check import check_schedule
    from tantamount.plan.flow import flow_of
    from tantamount.plan.named import named_schedule
    from tantamount.plan.tables import read_table

    path = Path(source)
    named = path.suffix != ".csv" and not path.exists()
    found = named_schedule(source, devices, microbatches, chunks) if named else read_table(path)
    flow = flow_of(found)
    problems = check_schedule(found, flow)
    terminal.out(_described(source, found, flow, problems, actions=actions, verbose=verbose))
    if svg is not None and not flow.cycle:
        from tantamount.plan.timeline import timeline_svg
        from tantamount.plan.timing import timing_of
        from tantamount.writing import write_file

        marked = frozenset(str(problem.action) for problem in problems if problem.action is not None)
        write_file(svg, timeline_svg(timing_of(found, flow), marked))
    return 1 if problems else 0


def _described(
    source: str, schedule: Schedule, flow: Flow, problems: tuple[Problem, ...], *, actions: bool, verbose: bool
) -> str:
    from tantamount.plan.actions import written
    from tantamount.plan.timing import timing_of

    count = sum(len(event) for program in schedule.devices for event in program)
    sizes = f"{len(schedule.devices)} devices, {len(schedule.owners)} stages, {schedule.microbatches} microbatches"
    rows = [f"{'WRONG' if problems else 'RIGHT'}  {source}   {sizes}, {count} actions"]
    shown = problems if verbose else problems[:_SHOWN]
    rows += [f"  {problem.kind.value:<9}  {problem}" for problem in shown]
    if len(shown) < len(problems):
        rows.append(f"  and {len(problems) - len(shown)} more (--verbose shows them)")
    if not flow.cycle:
        timing = timing_of(schedule, flow)
        kept = ", ".join(map(str, timing.kept))
        rows += [
            f"  time       {timing.total:g} forward passes (a backward pass is 2, each of its halves 1)",
            f"  waiting    {timing.bubble:.1%} of the time of all devices",
            f"  kept       activations of at most {kept} passes, by device",
        ]
    if actions:
        rows += [f"  device {device}: {written(events)}" for device, events in enumerate(schedule.devices)]
    return "\n".join(rows) + "\n"
