"""Models of vLLM, on one device and under its own tensor parallelism. Runs where vLLM's CPU build (0.32) is installed.

How weights are cut is what vLLM's own loaders do: a checkpoint whose elements are numbered is loaded on one device and
on every rank, and the numbers say which element went where.
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from enum import Enum
from itertools import pairwise, product
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from tantamount.capture.fx_json import parse_graph
from tantamount.capture.programs import Program, Ranks
from tantamount.capture.torch.programs import capture_ranks
from tantamount.capture.torch.tiles import Tile, expression_of, placement_of
from tantamount.errors import UserError
from tantamount.limits import limits_from_environment

__all__ = ["capture_vllm"]

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
    inputs = _relations(whole, held, ranks)
    outputs = dict.fromkeys(("hidden", "logits"), "Replicate()")
    return single.programs[0], replace(ranks, inputs=inputs, outputs=outputs)


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
        kernels.append(_kernels(model))
        return _forward(model, settings), (torch.arange(tokens), torch.arange(tokens)), {"modules": model}

    found = capture_ranks(build, world, mesh={"tp": world})
    pairs = zip(found.programs, kernels, strict=True)
    return replace(found, programs=tuple(_with_kernels(program, known) for program, known in pairs)), numbers


# ---------------------------------------------------------------------------------------------- vLLM
def _model(config: Any, world: int, rank: int) -> tuple[Any, nn.Module]:
    """vLLM's settings and the model of a rank, within the process groups that are initialised."""
    from vllm.config import CompilationConfig, ModelConfig, ParallelConfig, VllmConfig, set_current_vllm_config
    from vllm.model_executor.model_loader.utils import initialize_model

    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        model_config = ModelConfig(
            model=folder, tokenizer=folder, skip_tokenizer_init=True, dtype="float32", enforce_eager=True
        )
        settings = VllmConfig(
            model_config=model_config,
            parallel_config=ParallelConfig(tensor_parallel_size=1),  # more are looked for on this machine
            compilation_config=CompilationConfig(mode=0),
        )
    settings.parallel_config.tensor_parallel_size = world
    with set_current_vllm_config(settings), _groups(world, rank):
        model = initialize_model(settings)
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


def _forward(model: Any, settings: Any) -> Callable[[Tensor, Tensor], dict[str, Tensor]]:
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


def _relations(whole: Mapping[str, Any], held: Sequence[Mapping[str, Any]], ranks: Ranks) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, numbers in whole.items():
        lines = [_lines(f"{name} on rank {rank}", numbers, parts[name]) for rank, parts in enumerate(held)]
        cuts = [_cuts([line[dim] for line in lines]) for dim in range(numbers.ndim)]
        tiles: list[Tile] = []
        for rank, line in enumerate(lines):
            pieces = [_runs(places, at) for places, at in zip(line, cuts, strict=True)]
            shape = tuple(len(places) for places in line)
            for piece in product(*pieces):
                tiles.append(Tile(tuple(box for box, _ in piece), rank, name, tuple(at for _, at in piece), shape))
        relation = placement_of(tiles, name, numbers.shape, ranks.mesh) or expression_of(tiles, name, numbers.shape)
        if relation is None:
            raise UserError(
                "capture-vllm", place=name, found="parts on ranks that do not make up the whole", needed="all of it"
            )
        found[name] = relation
    return found


def _lines(place: str, whole: Any, part: Any) -> list[Any]:
    """For every dimension of a rank's tensor the indices of the whole that it holds, by the numbers of the elements."""
    order = np.argsort(whole, axis=None)
    at = np.searchsorted(whole.reshape(-1)[order], part)
    source = np.unravel_index(order[np.minimum(at, whole.size - 1)], whole.shape)
    lines = [index[tuple(slice(None) if k == dim else 0 for k in range(part.ndim))] for dim, index in enumerate(source)]
    known = part.min() > 0 and len(np.unique(whole)) == whole.size
    if not known or not np.array_equal(whole[np.ix_(*lines)], part):
        raise UserError(
            "capture-vllm", place=place, found="elements that no block of one weight explains",
            needed="blocks of a weight, without padding", hint="take a vocabulary of a multiple of 64 times the ranks",
        )  # fmt: skip
    return lines


def _cuts(lines: Sequence[Any]) -> set[int]:
    """Where in the whole some rank's part begins, or ends."""
    found: set[int] = set()
    for line in lines:
        for (start, stop), _ in _runs(line, set()):
            found |= {start, stop}
    return found


def _runs(line: Any, cuts: set[int]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where indices go up by one, without crossing a cut: (start, stop) of the indices, and of their places."""
    breaks = [k for k in range(1, len(line)) if line[k] != line[k - 1] + 1 or int(line[k]) in cuts]
    return [((int(line[a]), int(line[a]) + b - a), (a, b)) for a, b in pairwise([0, *breaks, len(line)])]


# ---------------------------------------------------------------------------------------------- attention
_UPDATE = "vllm.unified_kv_cache_update.default"
_ATTENTION = "vllm.unified_attention_with_output.default"
_OF_THE_RANK = ("num_heads", "num_kv_heads")


def _kernels(model: nn.Module) -> dict[str, str]:
    """What vLLM's kernel knows of each attention layer beside its operands, as text, by the layer's name as it is in
    graphs: layers of which it differs are different functions."""
    found: dict[str, str] = {}
    for module in model.modules():
        name, kernel = getattr(module, "layer_name", None), getattr(module, "impl", None)
        if name is None or kernel is None:
            continue
        known = {key: value for key, value in sorted(vars(kernel).items()) if key not in _OF_THE_RANK}
        for key, value in known.items():
            if value is not None and not isinstance(value, bool | int | float | str | Enum):
                raise UserError(
                    "capture-vllm", place=f"the attention of {name}", found=f"{key}: {type(value).__name__}",
                    needed="an attention kernel that is given by numbers",
                )  # fmt: skip
        text = ", ".join(f"{key}={value}" for key, value in known.items())
        found[name] = found[f"LayerName({name!r})"] = f"{name}: {type(kernel).__name__}({text})"
    return found


def _with_kernels(program: Program, kernels: Mapping[str, str]) -> Program:
    """Attention without the update of its cache, which is outside of the graph. It is a function of its query, key and
    value only if the cache is written with this key and this value, right before it."""
    nodes: list[dict[str, Any]] = program.document["nodes"]
    updates = {node["name"]: node for node in nodes if node["target"] == _UPDATE}
    kept: list[dict[str, Any]] = []
    for node in nodes:
        if node["name"] in updates:
            continue
        if node.get("args") == [_ATTENTION]:
            given = node["kwargs"]
            dependency = given["kv_cache_dummy_dep"]
            update = updates.get(dependency["node"]) if dependency else None
            if update is None or update["args"] != [given[key] for key in ("key", "value", "layer_name")]:
                raise UserError(
                    "capture-vllm", place=f"node {node['name']}", found="attention after no, or another, cache update",
                    needed="one with the key and the value of this attention, for this layer",
                )  # fmt: skip
            node = {**node, "kwargs": {**given, "kv_cache_dummy_dep": None, "layer_name": kernels[given["layer_name"]]}}
        kept.append(node)
    document = {**program.document, "nodes": kept}
    graph = parse_graph(json.dumps(document), program.graph.path, limits_from_environment())
    return replace(program, graph=graph, document=document)
