"""The numbers of ranks of each kind, and the mesh that they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tantamount.errors import UserError

__all__ = ["Sizes"]


@dataclass(frozen=True)
class Sizes:
    """Sizes of the groups of ranks, as ``parallel_state.initialize_model_parallel`` takes them. ``data`` counts the
    replicas of the dense parameters; experts are spread over ``expert`` ranks of the ``tensor * data`` that there are,
    each cut in ``expert_tensor`` (by default ``tensor``). ``sequence``: sequence parallelism among tensor ranks.

    Raises :class:`UserError` for sizes that do not divide."""

    tensor: int = 1
    data: int = 1
    expert: int = 1
    expert_tensor: int | None = None
    sequence: bool = False

    def __post_init__(self) -> None:
        counts = {"tensor": self.tensor, "data": self.data, "expert": self.expert, "expert_tensor": self._expert_tensor}
        fits = min(counts.values()) > 0 and not self.world % (self.expert * self._expert_tensor)
        if not fits or any(high % low for low, high in self._axes().values()):
            raise UserError(
                "capture-mesh", place="megatron.Sizes", found=", ".join(f"{k} = {v}" for k, v in counts.items()),
                needed="positive sizes, and groups of experts of which one is made of the other's ranks evenly",
            )  # fmt: skip

    @property
    def _expert_tensor(self) -> int:
        return self.tensor if self.expert_tensor is None else self.expert_tensor

    @property
    def world(self) -> int:
        """The number of ranks."""
        return self.tensor * self.data

    def mesh(self) -> dict[str, int]:
        """The axes of the mesh and their sizes, the slowest first: the ranks of a tensor-parallel group are neighbours.

        ``tp`` and ``dp``; cut into ``dp_ep`` and ``dp_edp``, say, where experts are spread over a part of an axis."""
        axes = sorted(self._axes().items(), key=lambda axis: -axis[1][0])
        return {name: high // low for name, (low, high) in axes} or {"tp": 1}

    def _axes(self) -> dict[str, tuple[int, int]]:
        """The strides at which every axis begins and ends: the common refinement of dense and expert groups."""
        inner = self._expert_tensor, self._expert_tensor * self.expert
        dense = {"tp": (1, self.tensor), "dp": (self.tensor, self.world)}
        experts = {"etp": (1, inner[0]), "ep": inner, "edp": (inner[1], self.world)}
        axes: dict[str, tuple[int, int]] = {}
        for name, whole in dense.items():
            for part, (start, stop) in experts.items():
                low, high = max(whole[0], start), min(whole[1], stop)
                if low < high:
                    axes[name if (low, high) == whole else f"{name}_{part}"] = low, high
        return axes

    def config(self) -> dict[str, Any]:
        """Arguments of Megatron's ``TransformerConfig`` that follow from the sizes, or that a machine without CUDA
        takes: kernels that are compiled for it are left out, dropout is off."""
        return {
            "tensor_model_parallel_size": self.tensor,
            "expert_model_parallel_size": self.expert,
            "expert_tensor_parallel_size": self._expert_tensor,
            "sequence_parallel": self.sequence,
            "use_cpu_initialization": True,
            "gradient_accumulation_fusion": False,
            "masked_softmax_fusion": False,
            "bias_activation_fusion": False,
            "bias_dropout_fusion": False,
            "persist_layer_norm": False,
            "attention_dropout": 0.0,
            "hidden_dropout": 0.0,
        }
