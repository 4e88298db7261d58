"""litgpt's own conversions of a checkpoint of transformers, in both directions."""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["checkpoint_of", "loader_of"]

_Load = Callable[[nn.Module, dict[str, Tensor]], None]


def _kind(config: Any) -> str:
    """The family of models, by which litgpt chooses a conversion; ``gpt_neox`` for all that it names no other of."""
    lower = config.name.lower()
    kinds = (
        ("falcon", "falcon" in lower),
        ("gemma_2", lower.startswith("gemma-2")),
        ("gemma_3", lower.startswith("gemma-3")),
        ("olmo2", lower.startswith("olmo-2-")),
        ("phi", lower.startswith("phi")),
        ("qwen_2_5", lower.startswith(("qwen2.5", "qwq"))),
        ("qwen_3", lower.startswith("qwen3")),
        ("llama", config.mlp_class_name in ("LLaMAMLP", "GemmaMLP", "LLaMAMoE")),
    )
    return next((kind for kind, chosen in kinds if chosen), "gpt_neox")


def loader_of(config: Any) -> _Load:
    """The conversion of checkpoints of transformers that fills a model of litgpt: litgpt's own."""
    convert: Any = import_module("litgpt.scripts.convert_hf_checkpoint")
    held: dict[str, Any] = {}  # queries, keys and values until all three are there
    kind = _kind(config)
    function = getattr(convert, "copy_weights_hf_llama" if kind == "llama" else f"copy_weights_{kind}")
    if kind in ("falcon", "gpt_neox"):
        copy = partial(function, config)
    elif kind == "gemma_2":
        copy = partial(function, held)
    elif kind == "gemma_3":
        copy = partial(function, held, config=config)
    else:
        copy = partial(function, config, held)

    def load(model: nn.Module, checkpoint: dict[str, Tensor]) -> None:
        held.clear()
        state: dict[str, Tensor] = {}
        copy(state, checkpoint)
        model.load_state_dict(state)

    return load


def checkpoint_of(config: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors of a checkpoint of transformers, by name: of what litgpt's conversion back makes of its
    model."""
    back: Any = import_module("litgpt.scripts.convert_lit_checkpoint")
    with torch.device("meta"):
        own = import_module("litgpt.model").GPT(config).state_dict()
    kind = _kind(config)
    more = {"untie_weights": "Gemma" in config.name} if kind == "llama" else {}
    state: dict[str, Tensor] = {}
    getattr(back, f"copy_weights_{kind}")(config, state, own, **more)
    return {name: tuple(tensor.shape) for name, tensor in state.items()}
