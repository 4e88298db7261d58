"""A Megatron-Core model on one device and on many ranks, and how the one is in the other."""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from torch import nn

from tantamount.capture.programs import Program, Ranks
from tantamount.capture.torch.megatron.cpu import without_cuda
from tantamount.capture.torch.megatron.gradients import partial_over_tensor_ranks
from tantamount.capture.torch.megatron.shards import Piece, pieces_of, relations_of
from tantamount.capture.torch.megatron.sizes import Sizes
from tantamount.capture.torch.programs import capture_alone, capture_ranks
from tantamount.errors import UserError

__all__ = ["capture_megatron"]


def capture_megatron(
    build: Callable[[Sizes], Any],
    *,
    tensor: int = 1,
    data: int = 1,
    expert: int = 1,
    expert_tensor: int | None = None,
    sequence: bool = False,
    reduced: bool = True,
) -> tuple[Program, Ranks]:
    """The programs of one device and of ``tensor * data`` ranks, for :func:`tantamount.refine`.

    ``build(sizes)`` is called once for one device and once per rank, with Megatron's parallel state initialised; it
    makes a model, with ``**sizes.config()`` in its ``TransformerConfig``, and returns ``(function, args, {"modules":
    model})`` as for :func:`tantamount.capture_ranks`.

    Where parameters are on the ranks is read off the model's ``sharded_state_dict()``; gradients are expected where
    their parameters are. ``reduced=False``: the function stops before Megatron reduces the gradients that tensor
    ranks have only partial sums of (see :func:`reduce_gradients`); sums over ``tp`` are then expected of these. An
    argument whose first dimension is ``data`` times larger on one device is cut along it. Raises :class:`UserError`
    for what cannot be captured."""
    if find_spec("megatron") is None or find_spec("megatron.core") is None:
        raise UserError(
            "capture-megatron", place="capture_megatron", found="no Megatron-Core", needed="megatron-core",
            hint="pip install 'tantamount[megatron]'",
        )  # fmt: skip
    sizes = Sizes(tensor, data, expert, expert_tensor, sequence)
    with without_cuda():
        alone, parallel = _Builds(build, Sizes()), _Builds(build, sizes)
        with alone.rank_by_rank() as build_one:
            specification = capture_alone(build_one)
        with parallel.rank_by_rank() as build_rank:
            ranks = capture_ranks(build_rank, sizes.world, mesh=sizes.mesh())
    inputs = {**ranks.inputs, **relations_of(alone.pieces[0], parallel.pieces, ranks.mesh)}
    for node in specification.graph.inputs:
        if node.type is not None and node.name not in inputs:
            held = next((other.type for other in ranks.programs[0].graph.inputs if other.name == node.name), None)
            if held is not None and (data * held.shape[0], *held.shape[1:]) == node.type.shape != held.shape:
                inputs[node.name] = _placements(ranks, "dp", "Shard(0)")
    outputs = dict(ranks.outputs)
    for prefix in ("grad ", "new "):
        outputs |= relations_of(alone.pieces[0], parallel.pieces, ranks.mesh, prefix)
    if not reduced and tensor > 1:
        outputs |= {f"grad {name}": _placements(ranks, "tp", 'Partial("sum")') for name in parallel.partial}
    return specification, replace(ranks, inputs=inputs, outputs=outputs)


def _placements(ranks: Ranks, axis: str, placement: str) -> Any:
    """A placement over the axes of one name, or of parts of it; replicas over the others."""
    return [placement if name == axis or name.startswith(f"{axis}_") else "Replicate()" for name in ranks.mesh.names]


@dataclass
class _Builds:
    """Calls of the user's ``build``, and what was learned of the models that came of it."""

    build: Callable[[Sizes], Any]
    sizes: Sizes
    pieces: list[tuple[Piece, ...]] = field(default_factory=list[tuple[Piece, ...]])
    partial: set[str] = field(default_factory=set[str])

    @contextmanager
    def rank_by_rank(self) -> Generator[Callable[[int], Any]]:
        """A ``build(rank)`` with Megatron's parallel state, which is there until the next rank or the end."""
        parallel_state = import_module("megatron.core.parallel_state")

        def build(_: int) -> Any:
            parallel_state.destroy_model_parallel()
            parallel_state.initialize_model_parallel(
                tensor_model_parallel_size=self.sizes.tensor,
                expert_model_parallel_size=self.sizes.expert,
                expert_tensor_parallel_size=self.sizes.expert_tensor,
                create_gloo_process_groups=False,
            )
            built = self.build(self.sizes)
            model = _model_of(built)
            self.pieces.append(pieces_of(model))
            self.partial |= partial_over_tensor_ranks(model)
            return built

        if parallel_state.model_parallel_is_initialized():
            raise UserError(
                "capture-distributed", place="megatron.core.parallel_state",
                found="a parallel state that is initialised", needed="none: every rank gets its own here",
                hint="call parallel_state.destroy_model_parallel() before",
            )  # fmt: skip
        try:
            yield build
        finally:
            parallel_state.destroy_model_parallel()


def _model_of(built: Any) -> nn.Module:
    options = built[2] if isinstance(built, tuple) and len(built) == 3 and isinstance(built[2], dict) else {}
    model = options.get("modules")
    if isinstance(model, nn.Module) and hasattr(model, "sharded_state_dict"):
        return model
    raise UserError(
        "capture-build", place="capture_megatron: build(sizes)", found=f"modules = {type(model).__name__}",
        needed='(function, args, {"modules": model}) with a model of Megatron-Core',
    )  # fmt: skip
