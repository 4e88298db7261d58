"""The order in which Megatron-Core's own schedules work, seen by running them.

``forward_backward_pipelining_with(out)_interleaving`` runs on every rank of the pipeline, one after the other, with a
model that computes nothing: every tensor that it makes or receives holds a number of its own, by which it is known
again where it is sent, or used.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from importlib import import_module
from itertools import count
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from tantamount.capture.torch.megatron.cpu import without_cuda
from tantamount.capture.torch.ranks import simulated
from tantamount.errors import UserError

__all__ = ["recorded_order"]

_WIDTH = 8


def recorded_order(
    devices: int,
    chunks: int,
    microbatches: int,
    settings: Mapping[str, Any],
    schedule: Callable[..., Any] | None = None,
) -> tuple[str, ...]:
    """The actions of every device of a pipeline in one step, in the notation of schedules. ``chunks``: virtual stages
    of a device. ``settings`` are fields of Megatron's ``TransformerConfig`` that bear on schedules; ``schedule`` is
    called instead of what Megatron chooses. Raises :class:`UserError` for numbers that Megatron's schedule refuses."""
    return tuple(_of_device(device, devices, chunks, microbatches, settings, schedule) for device in range(devices))


def _of_device(
    device: int, devices: int, chunks: int, microbatches: int, settings: Mapping[str, Any],
    schedule: Callable[..., Any] | None,
) -> str:  # fmt: skip
    parallel_state = import_module("megatron.core.parallel_state")
    transformer_config = import_module("megatron.core.transformer.transformer_config")
    schedules = import_module("megatron.core.pipeline_parallel.schedules")
    run = _Run(device, devices)
    with simulated(device, devices), without_cuda(), run.listening():
        parallel_state.destroy_model_parallel()
        parallel_state.initialize_model_parallel(
            pipeline_model_parallel_size=devices,
            virtual_pipeline_model_parallel_size=chunks if chunks > 1 else None,
            create_gloo_process_groups=False,
        )
        try:
            config = transformer_config.TransformerConfig(
                num_layers=devices * chunks, hidden_size=_WIDTH, num_attention_heads=1, use_cpu_initialization=True,
                pipeline_model_parallel_size=devices,
                virtual_pipeline_model_parallel_size=chunks if chunks > 1 else None, pipeline_dtype=torch.float32,
                finalize_model_grads_func=run.finalized, **settings,
            )  # fmt: skip
            models = [
                _Nothing(config, run, chunk * devices + device, chunk if chunks > 1 else None)
                for chunk in range(chunks)
            ]
            (schedule or schedules.get_forward_backward_func())(
                forward_step_func=run.forward_step,
                data_iterator=[iter(range(microbatches)) for _ in models],
                model=models, num_microbatches=microbatches, seq_length=1, micro_batch_size=1, forward_only=False,
            )  # fmt: skip
        except UserError:
            raise
        except (RuntimeError, ValueError, AssertionError, KeyError, IndexError) as problem:
            found = f"{devices} devices, {chunks} chunks, {microbatches} microbatches: {problem}"
            raise UserError(
                "plan-schedule", place="Megatron's schedule", found=found, needed="numbers that it is defined for"
            ) from problem
        finally:
            parallel_state.destroy_model_parallel()
    return run.text([chunk * devices + device for chunk in range(chunks)])


class _Run:
    """A rank's notes. ``events`` are texts, or numbers of messages that are known when they are used."""

    def __init__(self, device: int, devices: int) -> None:
        self.device, self.devices = device, devices
        self.numbers = count(1)
        self.events: list[Any] = []
        self.made: dict[int, str] = {}  # what a number is, where it is sent
        self.used: dict[int, str] = {}  # what a number is, where it was received
        self.open: list[Any] | None = None  # messages posted one by one, of which none is waited for yet

    def listening(self) -> ExitStack:
        """While this lasts, messages are noted and not sent."""
        stack = ExitStack()
        for name, value in (
            ("P2POp", lambda op, tensor, peer=None, group=None, *_, **__: SimpleNamespace(op=op, tensor=tensor)),
            ("isend", self._send), ("irecv", self._receive), ("batch_isend_irecv", self._batch),
        ):  # fmt: skip
            stack.enter_context(patch.object(torch.distributed, name, value))
        return stack

    def _message(self, tensor: Tensor, sends: bool) -> Any:
        if sends:
            return ("send", self.value(tensor))
        number = next(self.numbers)
        tensor.data.fill_(number)
        return ("receive", number)

    def _post(self, message: Any) -> Any:
        if self.open is None:
            self.open = []
            self.events.append(self.open)
        self.open.append(message)
        return SimpleNamespace(wait=self._waited)

    def _waited(self) -> None:
        self.open = None

    def _send(self, tensor: Tensor, *_: Any, **__: Any) -> Any:
        return self._post(self._message(tensor, True))

    def _receive(self, tensor: Tensor, *_: Any, **__: Any) -> Any:
        return self._post(self._message(tensor, False))

    def _batch(self, operations: list[Any]) -> list[Any]:
        sends = [operation.op == self._send for operation in operations]
        self.events.append([self._message(x.tensor, s) for x, s in zip(operations, sends, strict=True)])
        self.open = None
        return [SimpleNamespace(wait=lambda: None) for _ in operations]

    def value(self, tensor: Tensor) -> int:
        return int(tensor.detach().reshape(-1)[0].item())

    def compute(self, kind: str, stage: int, microbatch: int, given: Tensor | None, shape: Any) -> Tensor:
        """A pass that has been done: of which number it is given, and the number that it makes."""
        if given is not None:
            self.used[self.value(given)] = f"{stage}RECV_{kind}{microbatch}"
        self.open = None
        self.events.append(f"{stage}{kind}{microbatch}")
        number = next(self.numbers)
        self.made[number] = f"{stage}SEND_{kind}{microbatch}"
        return torch.full(shape, float(number))

    def forward_step(self, data: Iterator[int], model: Any, *_: Any) -> Any:
        """The function that a training script hands to Megatron: one forward pass, and how the loss is computed of
        it."""
        made = _Pass.apply(model.weight, model.given, self, model.stage, next(data), model.is_last)
        return made, lambda output: (output.sum(), {})

    def finalized(self, model: list[Any], *_: Any, **__: Any) -> None:
        self.events += [f"{chunk.stage}REDUCE_GRAD" for chunk in model]

    def text(self, stages: list[int]) -> str:
        """The events in the notation of schedules. Raises :class:`UserError` for a message that nothing uses."""
        words: list[str] = []
        for event in self.events:
            if isinstance(event, str):
                words.append(event)
                continue
            named = [(self.made if what == "send" else self.used).get(number) for what, number in event]
            if None in named:
                raise UserError(
                    "plan-schedule", place=f"Megatron's schedule on rank {self.device} of the pipeline",
                    found="a message that no pass has made, or that none uses", needed="one for each",
                )  # fmt: skip
            words.append("{" + " ".join(map(str, named)) + "}")
        return " ".join([*words, *(f"{stage}UPDATE" for stage in stages)])


class _Nothing(nn.Module):
    """A chunk of a model that gives numbers, as Megatron's schedules see one."""

    def __init__(self, config: Any, run: _Run, stage: int, chunk: int | None) -> None:
        super().__init__()
        enums = import_module("megatron.core.enums")
        self.config, self.stage, self.vp_stage, self.model_type = (
            config,
            stage,
            chunk,
            enums.ModelType.encoder_or_decoder,
        )
        self.is_last = stage == config.num_layers - 1
        self.weight = nn.Parameter(torch.zeros(()))
        self.given: Tensor | None = None

    def set_input_tensor(self, given: Any) -> None:
        self.given = given[0] if isinstance(given, list) else given


class _Pass(torch.autograd.Function):
    """A forward pass that notes that it was done, and so does its backward pass."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, given: Tensor | None, run: _Run, stage: int, microbatch: int, last: bool
    ) -> Tensor:
        ctx.notes = run, stage, microbatch, last
        ctx.shape = None if given is None else given.shape
        return run.compute("F", stage, microbatch, given, (1, 1, _WIDTH))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        run, stage, microbatch, last = ctx.notes
        shape = (1,) if ctx.shape is None else ctx.shape
        made = run.compute("B", stage, microbatch, None if last else gradient, shape)
        return torch.zeros(()), None if ctx.shape is None else made, None, None, None, None
