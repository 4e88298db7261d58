"""``tantamount plan``: schedules of training pipelines, checked and drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tantamount.cli import terminal
from tantamount.cli.exits import exits

if TYPE_CHECKING:
    from tantamount.plan.actions import Schedule
    from tantamount.plan.check import Problem
    from tantamount.plan.flow import Flow

__all__ = ["app"]

_SHOWN = 20  # problems that are printed without --verbose

app = typer.Typer(
    help="Training plans: whether a pipeline's schedule is right, and what it costs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def group() -> None:
    """Training plans: whether a pipeline's schedule is right, and what it costs."""


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
