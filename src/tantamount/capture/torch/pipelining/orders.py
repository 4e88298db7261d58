"""The order in which a schedule of PyTorch works, as its own tables have it."""

# pyright: basic
from __future__ import annotations

import copy
import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch

from tantamount.errors import UserError
from tantamount.writing import write_file

__all__ = ["Order", "order_of"]

_ACTION = re.compile(r"(\d+)(F|B|I|W|SEND_F|RECV_F|SEND_B|RECV_B|REDUCE_GRAD|UNSHARD|RESHARD|UPDATE)(\d*)")
_MOST = 4_000_000  # characters of a file


@dataclass(frozen=True)
class Order:
    """A row of cells for every device, as PyTorch writes them; ``recorded`` if they are what a run of the schedule has
    done, message by message. ``scaled``: gradients are divided by the number of
    microbatches where they are reduced. ``split``: some stage makes the gradients of its input before those of its
    weights. ``reduces``: the runtime comes to the reduction of gradients (it does, unless the table has messages, but
    no such action)."""

    name: str
    rows: tuple[tuple[str, ...], ...]
    microbatches: int
    scaled: bool = True
    split: bool = False
    reduces: bool = True
    recorded: bool = False

    def written(self, folder: Path) -> dict[str, Any]:
        """The ``[schedule]`` of a plan, whose table is written to the folder."""
        if self.recorded:
            return {"devices": [" ".join(row) for row in self.rows]}
        stream = io.StringIO()
        csv.writer(stream, lineterminator="\n").writerows(self.rows)
        write_file(folder / "schedule.csv", stream.getvalue())
        return {"table": "schedule.csv"}


def order_of(
    schedule: Any, devices: int, stages: int, microbatches: int | None, loss: Callable[..., Any] | None
) -> Order:
    """The order of a schedule: an object or a class of ``torch.distributed.pipelining``, or the path of a CSV file.

    Raises :class:`UserError` for anything else, for a schedule that does not go with ``stages`` stages on ``devices``
    devices, and for settings of one that a plan has no words for."""
    if isinstance(schedule, str | Path):
        return _of_file(Path(schedule), microbatches)
    if isinstance(schedule, type):
        schedule = _made(schedule, devices, stages, microbatches, loss)
    return _of_object(schedule, devices, stages, microbatches)


def _of_file(path: Path, microbatches: int | None) -> Order:
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            text = stream.read(_MOST + 1)
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "not UTF-8"
        raise UserError("plan-schedule", place=str(path), found=str(why), needed="a schedule as CSV") from None
    if len(text) > _MOST:
        raise UserError("plan-schedule", place=str(path), found="a file that is too long", needed=f"{_MOST} characters")
    rows = tuple(tuple(cell.strip() for cell in row) for row in csv.reader(io.StringIO(text)))
    return _order(path.name, rows, microbatches, scaled=True)


def _order(name: str, rows: Sequence[Sequence[str]], microbatches: int | None, scaled: bool) -> Order:
    kinds, numbers = set[str](), set[int]()
    last: list[list[int]] = [[] for _ in rows]
    for device, row in enumerate(rows):
        for cell in row:
            for found in _ACTION.finditer(cell):
                kinds.add(found[2])
                if found[2] in ("F", "B", "I", "W"):
                    numbers.add(int(found[3] or 0))
                    if int(found[1]) not in last[device]:
                        last[device].append(int(found[1]))
    count = microbatches if microbatches is not None else max(numbers, default=0) + 1
    messages = any(kind.startswith(("SEND", "RECV")) for kind in kinds)
    if messages or "REDUCE_GRAD" in kinds:  # where everything is said, updates come last
        rows = [(*row, *(f"{stage}UPDATE" for stage in sorted(last[d]))) for d, row in enumerate(rows)]
    reduces = "REDUCE_GRAD" in kinds or not messages
    return Order(name, tuple(map(tuple, rows)), count, scaled, bool(kinds & {"I", "W"}), reduces)


def _made(kind: type, devices: int, stages: int, microbatches: int | None, loss: Callable[..., Any] | None) -> Any:
    """A schedule of a class, on stand-ins for stages: nothing of it is run."""
    from torch.distributed.pipelining import schedules

    if not issubclass(kind, schedules._PipelineSchedule):
        raise _wrong(kind.__name__, "a schedule of torch.distributed.pipelining, one of its classes, or a CSV file")
    if microbatches is None:
        raise _wrong("no number of microbatches", "microbatches=...")
    v_shaped = kind.__name__ in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV")
    own = [0, stages - 1] if v_shaped else list(range(0, stages, devices))
    held = [
        SimpleNamespace(
            stage_index=stage, group_size=devices, num_stages=stages, group_rank=0, is_first=stage == 0,
            is_last=stage == stages - 1, group=None, device=torch.device("cpu"), has_backward=True, submod=None,
        )
        for stage in own
    ]  # fmt: skip
    single = issubclass(kind, schedules.PipelineScheduleSingle)
    if single and stages != devices:
        raise _wrong(f"{stages} stages on {devices} devices", f"one for each device, as {kind.__name__} has it")
    try:
        return kind(held[0] if single else held, microbatches, loss_fn=loss or (lambda found, wanted: found))  # type: ignore[call-arg]
    except Exception as problem:
        raise _wrong(f"{kind.__name__}: {problem}", "numbers that it is defined for") from problem


def _of_object(schedule: Any, devices: int, stages: int, microbatches: int | None) -> Order:
    from torch.distributed.pipelining import schedules

    name = type(schedule).__name__
    if not isinstance(schedule, schedules._PipelineSchedule):
        raise _wrong(name, "a schedule of torch.distributed.pipelining, one of its classes, or a CSV file")
    if microbatches not in (None, schedule._n_microbatches):
        raise _wrong(f"{schedule._n_microbatches} microbatches", f"{microbatches}, as microbatches= says")
    custom = getattr(schedule, "_comp_type_to_function_map", {})
    if custom:
        raise _wrong(f"{name} with functions of its own for {', '.join(str(kind) for kind in custom)}", "none")
    for specs in (schedule._args_chunk_spec, *(x.values() for x in [schedule._kwargs_chunk_spec] if x)):
        if any(getattr(spec, "split_dim", None) != 0 for spec in specs or ()):
            raise _wrong(f"{name} whose arguments are not split along dimension 0", "microbatches of rows")
    if isinstance(schedule, schedules.PipelineScheduleSingle):  # their tables are pictures, and not what is run
        events = tuple((*_recorded(schedule, device, devices), f"{device}UPDATE") for device in range(devices))
        count = schedule._n_microbatches
        return Order(name, events, count, schedule.scale_grads, recorded=True)
    table = getattr(schedule, "pipeline_order_with_comms", None) or getattr(schedule, "pipeline_order", None)
    if not table:
        raise _wrong(f"{name} without a table of what it does", "a schedule with a pipeline_order")
    rows = [["" if cell is None else str(cell) for cell in table[device]] for device in sorted(table)]
    if len(rows) != devices:
        raise _wrong(f"{name} for {len(rows)} devices", f"{devices}, the size of the mesh along the pipeline's axis")
    return _order(name, rows, schedule._n_microbatches, schedule.scale_grads)


def _recorded(schedule: Any, device: int, devices: int) -> list[str]:
    """The actions of the schedule on one device, message by message: it is run, with a stage that only takes notes."""
    from torch.distributed.pipelining import schedules

    stage = _Notes(device, devices)
    own = copy.copy(schedule)
    own._stage, own._num_stages = stage, devices
    own._internal_losses = []
    for name in ("_initialize_stage", "_maybe_compute_loss", "_maybe_get_loss", "_update_losses"):
        setattr(own, name, lambda *_, **__: None)
    with (
        patch.object(schedules, "_batch_p2p", stage.posted),
        patch.object(schedules, "_sorted_batch_p2p", stage.posted_by_peer),
        patch.object(schedules, "_wait_batch_p2p", lambda _: None),
    ):
        own._step_microbatches([() for _ in range(own._n_microbatches)], [{} for _ in range(own._n_microbatches)])
    return stage.events


class _Notes:
    """Stands for the stage of a device, and notes what is asked of it in ``events``, in the notation of schedules."""

    has_backward = True

    def __init__(self, device: int, devices: int) -> None:
        self.stage_index = self.device = device
        self.is_first, self.is_last = device == 0, device == devices - 1
        self.events: list[str] = []

    def forward_one_chunk(self, microbatch: int, *_: Any, **__: Any) -> None:
        self.events.append(f"{self.device}F{microbatch}")

    def backward_one_chunk(self, microbatch: int, *_: Any, full_backward: bool = True, **__: Any) -> None:
        self.events.append(f"{self.device}{'B' if full_backward else 'I'}{microbatch}")

    def backward_weight_one_chunk(self, microbatch: int, *_: Any, **__: Any) -> None:
        self.events.append(f"{self.device}W{microbatch}")

    def perform_reduce_grad(self, _: int) -> None:
        self.events.append(f"{self.device}REDUCE_GRAD")

    def clear_runtime_states(self) -> None: ...

    def get_fwd_recv_ops(self, microbatch: int) -> list[str]:
        return [] if self.is_first else [f"{self.device}RECV_F{microbatch}"]

    def get_fwd_send_ops(self, microbatch: int) -> list[str]:
        return [] if self.is_last else [f"{self.device}SEND_F{microbatch}"]

    def get_bwd_recv_ops(self, microbatch: int) -> list[str]:
        return [] if self.is_last else [f"{self.device}RECV_B{microbatch}"]

    def get_bwd_send_ops(self, microbatch: int) -> list[str]:
        return [] if self.is_first else [f"{self.device}SEND_B{microbatch}"]

    def posted(self, messages: Sequence[str], desc: str | None = None) -> list[Any]:
        """A batch of messages that are posted at once."""
        if messages:
            self.events.append("{" + " ".join(messages) + "}")
        return []

    def posted_by_peer(self, messages: Sequence[str], desc: str | None = None) -> dict[int, Any]:
        self.posted(messages)
        return {}


def _wrong(found: str, needed: str) -> UserError:
    return UserError("plan-schedule", place="plan_of_schedule", found=found, needed=needed)
