"""Stages of ``torch.distributed.pipelining`` whose ranks cannot ask each other anything."""

# pyright: basic
from __future__ import annotations

import functools
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist

from tantamount.errors import UserError

__all__ = ["stages_without_vote"]


@contextmanager
def stages_without_vote() -> Generator[None]:
    """Before its first step, a pipeline votes on whether all stages know the shapes that they exchange; the answer is a
    number that ranks send each other. Here every stage must know them."""
    if not dist.is_available():
        yield
        return
    from torch.distributed.pipelining._utils import InferenceMode
    from torch.distributed.pipelining.schedules import _PipelineSchedule
    from torch.distributed.pipelining.stage import PipelineStage

    original = _PipelineSchedule._warmup_p2p

    @functools.wraps(original)
    def settled(self: Any, stages: list[Any], has_backward: bool, p2p_done: bool) -> None:
        if not all(isinstance(stage, PipelineStage) for stage in stages):
            original(self, stages, has_backward, p2p_done)
            return
        for stage in stages:
            if InferenceMode.needs_dynamic(stage._user_meta, has_backward):
                raise UserError(
                    "capture-pipeline", place=f"pipeline stage {stage.stage_index}",
                    found="a stage that would ask its neighbours for the shapes of what they exchange",
                    needed="PipelineStage(..., input_args=..., output_args=...): tensors of one microbatch "
                    "(with DTensors also input_grads and output_grads)",
                )  # fmt: skip
            stage._inference_mode = InferenceMode.STATIC

    _PipelineSchedule._warmup_p2p = settled
    try:
        yield
    finally:
        _PipelineSchedule._warmup_p2p = original
