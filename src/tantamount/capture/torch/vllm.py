"""Models of vLLM, on one device and under its own tensor parallelism. Runs where vLLM's CPU build (0.32) is installed.

How weights are cut is what vLLM's own loaders do: a checkpoint whose elements are numbered is loaded on one device and
on every rank, and the numbers say which element went where.
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from tantamount.capture.programs import Program, Ranks
from tantamount.capture.torch.programs import capture_ranks
from tantamount.capture.torch.vllm_attention import kernels_of, with_kernels
from tantamount.capture.torch.weights import in_pieces, weight_relations
from tantamount.errors import UserError

__all__ = ["capture_vllm", "forward_of", "model_of"]

_EXACT = 1 << 24  # whole numbers below are exact in float32


def capture_vllm(
    config: Any,
    *,
    tensor_parallel: int,
    tokens: int = 8,
    change: Callable[[nn.Module], None] | None = None,
) -> tuple[Program, Ranks]:
    """The forward pass of a model on one device, and on ``tensor_parallel`` ranks.

    ``config`` is a configuration of the ``transformers`` library with its ``architectures`` set; make it small, for
    weights are real (float32). Outputs are ``hidden`` (after the last norm) and ``logits``. ``change`` is applied to
    the model of every rank after it is built. Raises :class:`UserError` for what cannot be captured."""
    single, (whole,) = _captured(config, 1, tokens, None)
    ranks, held = _captured(config, tensor_parallel, tokens, change)
    inputs, cut = weight_relations(whole, held, ranks.mesh)
    programs = tuple(in_pieces(program, cut) for program in ranks.programs)
    outputs = dict.fromkeys(("hidden", "logits"), "Replicate()")
    return single.programs[0], replace(ranks, programs=programs, inputs=inputs, outputs=outputs)


def _captured(
    config: Any, world: int, tokens: int, change: Callable[[nn.Module], None] | None
) -> tuple[Ranks, list[dict[str, Any]]]:
    """The programs of all ranks, and the numbers of their weights."""
    numbers: list[dict[str, Any]] = []
    kernels: list[dict[str, str]] = []

    def build(rank: int) -> Any:
        settings, model = _model(config, world, rank)
        numbers.append(_numbers(model, config, settings))
        if change is not None:
            change(model)
        kernels.append(kernels_of(model.modules()))
        return forward_of(model, settings), (torch.arange(tokens), torch.arange(tokens)), {"modules": model}

    found = capture_ranks(build, world, mesh={"tp": world})
    pairs = zip(found.programs, kernels, strict=True)
    return replace(found, programs=tuple(with_kernels(program, known) for program, known in pairs)), numbers


# ---------------------------------------------------------------------------------------------- vLLM
def _model(config: Any, world: int, rank: int, cache: str = "auto") -> tuple[Any, nn.Module]:
    """vLLM's settings and the model of a rank, within the process groups that are initialised."""
    from vllm.config import (
        CacheConfig,
        CompilationConfig,
        ModelConfig,
        ParallelConfig,
        VllmConfig,
        set_current_vllm_config,
    )
    from vllm.model_executor.model_loader.utils import initialize_model

    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        model_config = ModelConfig(
            model=folder, tokenizer=folder, skip_tokenizer_init=True, dtype="float32", enforce_eager=True
        )
        layers = set(getattr(model_config.hf_text_config, "layer_types", None) or ())
        window = model_config.get_sliding_window() if layers <= {"sliding_attention"} else None
        settings = VllmConfig(
            model_config=model_config,
            cache_config=CacheConfig(
                sliding_window=window, cache_dtype=cache
            ),  # as its engine has it: others are their layers'
            parallel_config=ParallelConfig(tensor_parallel_size=1),  # more are looked for on this machine
            compilation_config=CompilationConfig(mode=0),
        )
    settings.parallel_config.tensor_parallel_size = world
    # vLLM keeps rotary embeddings for all models of a process: one that is converted or filled changed the others
    import_module("vllm.model_executor.layers.rotary_embedding")._ROPE_DICT.clear()
    with set_current_vllm_config(settings), _groups(world, rank):
        model = initialize_model(settings)
    if "transformers" in type(model).__module__.removeprefix("vllm.model_executor.models.").split("."):
        raise UserError(
            "capture-vllm", place=type(config).__name__, found="a model that vLLM has none of its own for",
            needed="an architecture of vLLM", hint="it would run the model of transformers: compare with hf: instead",
        )  # fmt: skip
    for module in model.modules():
        if hasattr(module, "quant_method"):
            module.cpu_linear = nn.functional.linear  # as after loading; packed kernels compute the same
    return settings, model


@contextmanager
def _groups(world: int, rank: int) -> Generator[None]:
    """vLLM's process groups, anew, on the backend that moves nothing, and without queues in shared memory."""
    from vllm.distributed import parallel_state
    from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator
    from vllm.distributed.device_communicators.shm_broadcast import MessageQueue

    for name, value in vars(parallel_state).items():
        if isinstance(value, parallel_state.GroupCoordinator):
            setattr(parallel_state, name, None)
    new_group = dist.new_group
    with ExitStack() as stack:
        for owner, name, instead in (
            (dist, "new_group", lambda *args, **kwargs: new_group(*args, **{**kwargs, "backend": "fake"})),
            (MessageQueue, "create_from_process_group", staticmethod(lambda *_, **__: None)),
            (parallel_state, "_node_count", lambda _: 1),
            (CpuCommunicator, "_all_group_ranks_share_shm_group_name", lambda _: False),
        ):
            stack.callback(setattr, owner, name, owner.__dict__[name])
            setattr(owner, name, instead)
        parallel_state.init_distributed_environment(
            world_size=world, rank=rank, local_rank=0, distributed_init_method="tcp://none", backend="fake"
        )
        parallel_state.initialize_model_parallel(world, backend="fake")
        yield


def model_of(config: Any, cache: str = "auto") -> tuple[Any, nn.Module]:
    """vLLM's settings and its model of a configuration of transformers, on one device. ``cache``: the type of keys and
    values in its cache, as vLLM calls it."""
    if not dist.is_initialized():
        store = import_module("torch.testing._internal.distributed.fake_pg").FakeStore()
        dist.init_process_group("fake", rank=0, world_size=1, store=store)
    return _model(config, 1, 0, cache)


def forward_of(model: Any, settings: Any) -> Callable[[Tensor, Tensor], dict[str, Tensor]]:
    """The forward pass: hidden states and logits of token ids at positions."""
    from vllm.config import set_current_vllm_config
    from vllm.forward_context import set_forward_context

    def forward(ids: Tensor, positions: Tensor) -> dict[str, Tensor]:
        compiled = torch._dynamo.config.patch(error_on_nested_fx_trace=False)  # functions under torch.compile: inlined
        with set_current_vllm_config(settings), set_forward_context(None, settings), torch.no_grad(), compiled:
            hidden = model(ids, positions, None, None)
            return {"hidden": hidden, "logits": model.compute_logits(hidden)}

    return forward


# ---------------------------------------------------------------------------------------------- weights
def _numbers(model: Any, config: Any, settings: Any) -> dict[str, Any]:
    """Every parameter as the numbers of its elements in the checkpoint, from 1 on."""
    from transformers import AutoModelForCausalLM
    from vllm.config import set_current_vllm_config

    with torch.device("meta"):
        names = AutoModelForCausalLM.from_config(config).state_dict()
    total = sum(tensor.numel() for tensor in names.values())
    if total >= _EXACT:
        raise UserError(
            "capture-vllm", place=type(config).__name__, found=f"{total} weights", needed=f"fewer than {_EXACT}",
            hint="take fewer layers, or smaller ones: relations do not depend on sizes",
        )  # fmt: skip
    checkpoint: list[tuple[str, Tensor]] = []
    first = 1
    for name, tensor in names.items():
        numbers = torch.arange(first, first + tensor.numel(), dtype=torch.float32)
        checkpoint.append((name, numbers.reshape(tensor.shape)))
        first += tensor.numel()
    for parameter in model.parameters():
        parameter.data.fill_(0)
    with set_current_vllm_config(settings):
        model.load_weights(checkpoint)
    return {name: parameter.detach().numpy().astype(np.int64) for name, parameter in model.named_parameters()}
