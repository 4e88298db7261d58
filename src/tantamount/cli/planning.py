"""``tantamount plan``: training plans verified, written and shown; schedules of pipelines checked and drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tantamount.cli import terminal
from tantamount.cli.exits import exits, explain
from tantamount.cli.options import ACCEPT, FILE, POSITIVE, RAY, Group, argument
from tantamount.errors import UserError
from tantamount.report.outcomes import Failure

if TYPE_CHECKING:
    from tantamount.plan.actions import Schedule
    from tantamount.plan.check import Problem
    from tantamount.plan.flow import Flow
    from tantamount.plan.result import PlanReport

__all__ = ["plan"]

_SHOWN = 20  # problems that are printed without --verbose
OUT = click.option(
    "-o", "--out", type=FILE, required=True, metavar="DIR", help="The folder to write (made if need be)."
)
FORCE = click.option("--force", is_flag=True, help="Replace what this command wrote to the folder before.")


@click.group(cls=Group, no_args_is_help=True)
def plan() -> None:
    """Training plans: whether a whole training iteration is right at its parallel plan."""


@plan.command()
@argument(
    "plans",
    "SOURCE...",
    "Plans (TOML, format plan/1, or the folder of one), jobs, or folders of modules that nnScaler generated.",
    many=True,
    type=FILE,
)
@click.option(
    "--model",
    metavar="FILE.py:NAME",
    help="Of generated modules, the model of one device: a class or function that is called (this runs it), "
    "with numbers if need be, as in 'llama.py:Llama(layers=4)'.",
)
@click.option(
    "--data",
    multiple=True,
    metavar="KEY=DTYPE[SIZES]",
    help="Likewise, what is in a sample, if NAME returns a model only.",
)
@click.option(
    "--finish",
    metavar="FILE.py:NAME",
    help="Likewise, what follows their step: an object with optimizer(parameters), and gradients(parameters) and "
    "rank_gradients(parameters, rank) for what is done with gradients before (this runs it).",
)
@ACCEPT
@click.option(
    "--json", type=FILE, metavar="OUT", help="Write results as JSON (plan-report/1, one a line); - is stdout."
)
@click.option(
    "--html", type=FILE, metavar="OUT", help="Write a page with stages, time line, parts and joints (one plan)."
)
@click.option("-v", "--verbose", is_flag=True, help="Print every joint, output and problem.")
@click.option(
    "--engine",
    default="calculus",
    metavar="NAME",
    help="calculus, or smt: parts are compared element by element at reduced shapes, as for refine.",
)
@click.option("--effort", default="normal", metavar="LEVEL", help="As for refine.")
@click.option("--timeout", type=float, metavar="S", help="What is not proved after S seconds is UNKNOWN.")
@click.option("--memory", type=int, metavar="MB", help="The same above MB megabytes.")
@click.option("--workers", type=POSITIVE, metavar="N", help="Prove N parts at a time, each in a process of its own.")
@RAY
@exits
def verify(
    plans: tuple[Path, ...],
    model: str | None,
    data: tuple[str, ...],
    finish: str | None,
    accept: tuple[str, ...],
    json: Path | None,
    html: Path | None,
    verbose: bool,
    engine: str,
    effort: str,
    timeout: float | None,
    memory: int | None,
    workers: int | None,
    ray: str | None,
) -> int:
    """Prove that a training iteration computes what one device would on the whole batch: every part, where parts meet,
    which stage owns what, and the schedule. Exit code as for refine: the worst of several plans."""
    from json import dumps

    from tantamount.answers import check_engine, verify_plan
    from tantamount.cli.plan_parts import PartsApart
    from tantamount.report.lines import printable_rows
    from tantamount.report.outcomes import worst_exit
    from tantamount.writing import write_file

    if html is not None and len(plans) > 1:
        raise UserError("command-line", place="--html", found=f"{len(plans)} plans", needed="one")
    check_engine(engine)
    reports: list[PlanReport] = []
    more: dict[str, Any] = {
        "model": model, "data": data, "finish": finish, "accept": accept, "effort": effort, "engine": engine,
    }  # fmt: skip
    apart = workers is not None or ray is not None
    page = ""
    for path in plans:
        with terminal.progress(str(path)) as told:
            if (timeout is not None or memory is not None) and not apart:
                from tantamount.cli.limited_plan import verify_limited

                found = verify_limited(path, timeout, memory, more, page=html is not None)
                if isinstance(found, Failure):
                    explain(found, verbose=verbose)
                    return worst_exit([*(report.exit_code for report in reports), found.exit_code])
                report, page = found
            else:
                together = PartsApart(workers, ray, effort, timeout, memory, told, engine) if apart else None
                report = verify_plan(path, timeout=timeout, memory=memory, told=told, together=together, **more)
        reports.append(report)
        if json is None or str(json) != "-":
            terminal.out(printable_rows(report.text(verbose=verbose)) + "\n")
    if html is not None:
        from tantamount.plan.page import plan_page

        write_file(html, page or plan_page(reports[0]))
    if json is not None:
        text = "".join(dumps(report.document()) + "\n" for report in reports)
        if str(json) == "-":
            terminal.out(text)
        else:
            write_file(json, text)
    return worst_exit([report.exit_code for report in reports])


@plan.command()
@argument("path", "PLAN", "A plan (TOML, format plan/1), or its folder.", type=FILE)
@exits
def show(path: Path) -> int:
    """Print what a plan says, without proving it: its mesh, which stage owns what, and how its parts are joined."""
    from tantamount.plan.files import plan_file
    from tantamount.plan.read import read_plan
    from tantamount.plan.show import described
    from tantamount.report.lines import printable_rows

    terminal.out(printable_rows(described(read_plan(plan_file(path)))) + "\n")
    return 0


@plan.command()
@argument(
    "model",
    "MODEL",
    "llama (with its sizes), llama3-8b, -70b, -405b; deepseek-v3-16b, -236b, -671b; qwen3-moe-30b, -235b.",
)
@OUT
@FORCE
@click.option("--dp", type=POSITIVE, default=1, help="Data-parallel ranks.")
@click.option("--tp", type=POSITIVE, default=1, help="Tensor-parallel ranks.")
@click.option("--pp", type=POSITIVE, default=1, help="Pipeline ranks.")
@click.option("-m", "--microbatches", type=POSITIVE, default=1, help="Microbatches.")
@click.option("--schedule", default="1f1b", help="A named schedule of a pipeline.")
@click.option("-v", "--chunks", type=POSITIVE, default=1, help="Virtual stages on every device.")
@click.option(
    "--batch",
    type=POSITIVE,
    help="Sequences of one iteration; default: the least of which all ranks have one in each microbatch.",
)
@click.option("--seq", type=POSITIVE, default=8192, help="Tokens of a sequence.")
@click.option("--optimizer", default="adamw", help="adamw or sgd.")
@click.option(
    "--zero",
    type=click.IntRange(0, 3),
    default=0,
    help="Cut over dp: 1 optimizer states, 2 gradients, 3 parameters.",
)
@click.option("--zero-first", is_flag=True, help="ZeRO cuts the first dimension, what tp has cut of it once more.")
@click.option("--sp", is_flag=True, help="Sequence parallelism over the ranks of tp.")
@click.option("--cp", type=POSITIVE, default=1, help="Context-parallel ranks, with a part of the sequence.")
@click.option(
    "--context",
    default="gather",
    help="gather (keys and values), ulysses (heads against positions) or ring (keys and values go round).",
)
@click.option(
    "--cp-layout",
    default="contiguous",
    help="contiguous, or zigzag: a rank of cp has a chunk of the sequence from the front and one from the back.",
)
@click.option("--ep", type=POSITIVE, default=1, help="Ranks that have experts, to which tokens are sent.")
@click.option(
    "--capacity",
    type=click.IntRange(min=0),
    default=0,
    help="Tokens of a rank's part of a row for one expert; 0: all of them.",
)
@click.option("--aux-loss", type=float, default=0.0, metavar="COEFF", help="The loss that balances experts; 0: none.")
@click.option(
    "--aux-over",
    default="row",
    help="Fractions of tokens for --aux-loss: of each row, or of the batch (which ranks know their part of only).",
)
@click.option(
    "--layout",
    "layouts",
    multiple=True,
    metavar="KIND:DEGREES",
    help="Other degrees of pieces of one kind (embedding, head, layer, dense, moe) on the same ranks: head:dp=8,tp=1.",
)
@click.option(
    "--beside",
    multiple=True,
    metavar="DEGREES",
    help="A further pipeline of as many stages, with other degrees: dp=8,tp=1. Microbatches are shared out.",
)
@click.option("--tied", is_flag=True, help="The head's matrix is the embedding's table.")
@click.option("--recompute", is_flag=True, help="Layers do their forward pass again in the backward pass.")
@click.option(
    "--sized",
    is_flag=True,
    help="Programs for any number of rows: the last microbatch may be smaller, and there may be any number of them.",
)
@click.option("--layers", type=POSITIVE, help="Of llama, or instead of the preset's.")
@click.option("--hidden", type=POSITIVE, help="Likewise.")
@click.option("--heads", type=POSITIVE, help="Likewise.")
@click.option("--kv-heads", type=POSITIVE, help="Likewise.")
@click.option("--ffn", type=POSITIVE, help="Likewise.")
@click.option("--vocab", type=POSITIVE, help="Likewise.")
@exits
def new(
    model: str,
    out: Path,
    force: bool,
    dp: int,
    tp: int,
    pp: int,
    microbatches: int,
    schedule: str,
    chunks: int,
    batch: int | None,
    seq: int,
    optimizer: str,
    zero: int,
    zero_first: bool,
    sp: bool,
    cp: int,
    context: str,
    cp_layout: str,
    ep: int,
    capacity: int,
    aux_loss: float,
    aux_over: str,
    layouts: tuple[str, ...],
    beside: tuple[str, ...],
    tied: bool,
    recompute: bool,
    sized: bool,
    layers: int | None,
    hidden: int | None,
    heads: int | None,
    kv_heads: int | None,
    ffn: int | None,
    vocab: int | None,
) -> int:
    """Write the plan of a model's training iteration, its parts captured at their real sizes (needs PyTorch):
    Megatron's tensor and sequence parallelism, a pipeline, data parallelism with ZeRO, context parallelism, experts
    (parallel over the ranks of tp, or with tokens that are sent to those of ep), clipping by the global norm, SGD or
    AdamW."""
    from tantamount.capture import new_plan
    from tantamount.plan.files import only_a_plan
    from tantamount.plan.named import side_by_side
    from tantamount.writing import whole_folder

    many = 1 + len(beside)
    side_by_side(
        schedule, many, pp * many, microbatches, chunks
    )  # what is refused is refused before anything is captured
    own = {"layers": layers, "hidden": hidden, "heads": heads, "kv_heads": kv_heads, "ffn": ffn, "vocab": vocab}
    degrees = {
        "dp": dp, "tp": tp, "pp": pp, "microbatches": microbatches, "seq": seq, "schedule": schedule,
        "batch": batch or 0, "chunks": chunks, "optimizer": optimizer, "zero": zero, "sp": sp,
        "zero_first": zero_first,
        "cp": cp, "context": context, "cp_layout": cp_layout, "ep": ep, "capacity": capacity, "tied": tied,
        "recompute": recompute, "sized": sized, "aux_loss": aux_loss, "aux_over": aux_over, "layouts": layouts,
        "beside": beside,
    }  # fmt: skip
    sizes = {name: size for name, size in own.items() if size is not None}
    with whole_folder(out, only_a_plan if force else None, _forced("a plan", force=force)) as folder:
        written = new_plan(model, sizes, degrees, folder)
    terminal.out(f"{out / written.name}\n")
    return 0


@plan.command()
@argument("path", "PLAN", "A plan (TOML, format plan/1), or its folder.", type=FILE)
@OUT
@FORCE
@click.option("--count", type=click.IntRange(min=1, max=10000), default=20, help="How many, at most.")
@click.option("--seed", type=int, default=0, help="Which pieces, ranks, events and operators are drawn.")
@click.option("--kind", metavar="TEXT", help="Only kinds that contain TEXT.")
@exits
def mutate(path: Path, out: Path, force: bool, count: int, seed: int, kind: str | None) -> int:
    """Write plans with one mistake each, to test what verifies plans: a reduction left out, done twice, of another kind
    or over other ranks; layers on wrong stages; ranks with each other's parts; wrong factors; schedules that reduce too
    early, exchange microbatches, or lose an event. Half of the changes concern one layer, rank or event alone."""
    from itertools import islice

    from tantamount.plan.files import only_plans, plan_file
    from tantamount.plan.mutants import KINDS, plan_mutants, write_mutant
    from tantamount.plan.read import read_plan
    from tantamount.writing import whole_folder

    chosen = [name for name in KINDS if kind is None or kind in name]
    if not chosen:
        raise UserError("command-line", place="--kind", found=kind or "", needed=f"a part of one of {', '.join(KINDS)}")
    path = plan_file(path)
    found = (mutant for mutant in plan_mutants(read_plan(path), seed) if mutant.kind in chosen)
    rows: list[str] = []
    with whole_folder(out, only_plans if force else None, _forced("such plans", force=force)) as folder:
        for number, mutant in enumerate(islice(found, count)):
            written = write_mutant(mutant, path, folder / f"{number:03}").relative_to(folder)
            rows.append(f"{out / written}  {mutant.kind}: {mutant.what}  (wrong: {mutant.place})\n")
    terminal.out("".join(rows))
    return 0


def _forced(what: str, *, force: bool) -> str:
    """The advice about a folder that has files."""
    if force:
        return f"--force replaces {what} that nothing else is beside: name another folder"
    return f"name another folder, or replace {what} that nothing else is beside with --force"


@plan.command()
@argument(
    "source",
    "NAME|FILE.csv",
    "gpipe, 1f1b, interleaved, breadth-first, zero-bubble, dualpipe, dualpipev; or a table of actions, a row per "
    "device, as torch.distributed.pipelining writes it.",
)
@click.option("-p", "--devices", type=POSITIVE, default=4, help="Pipeline ranks, of a named schedule.")
@click.option("-m", "--microbatches", type=POSITIVE, default=8, help="Likewise.")
@click.option("-v", "--chunks", type=POSITIVE, default=1, help="Virtual stages on every device, likewise.")
@click.option("--svg", type=FILE, metavar="OUT", help="Write a picture of the time line.")
@click.option("--actions", is_flag=True, help="Print what every device does.")
@click.option("--verbose", is_flag=True, help="Print every problem.")
@exits
def schedule(
    source: str, devices: int, microbatches: int, chunks: int, svg: Path | None, actions: bool, verbose: bool
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
