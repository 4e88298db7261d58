"""A model of vLLM on one device, for :func:`tantamount.compare`. Runs where vLLM's CPU build is installed."""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from tantamount.capture.programs import Program
from tantamount.capture.torch.programs import capture
from tantamount.capture.torch.vllm import forward_of, model_of
from tantamount.capture.torch.vllm_attention import kernels_of, with_kernels
from tantamount.capture.torch.vllm_experts import packing, with_kernels_of_experts
from tantamount.capture.torch.vllm_prompts import attending, prompt_attentions, with_computed_tables

__all__ = ["VllmModel"]


_OTHER_NAMES = {"PhimoeForCausalLM": "PhiMoEForCausalLM"}  # of vLLM, as configurations on the hub have them


def _with_architecture(config: Any) -> Any:
    """The configuration with the class of its causal language model, by which vLLM chooses its own; without one it
    takes the part of the model below the vocabulary, or what transformers has."""
    if not config.architectures:
        names = import_module("transformers.models.auto.modeling_auto").MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        if config.model_type in names:
            config.architectures = [_OTHER_NAMES.get(names[config.model_type], names[config.model_type])]
    return config


@contextmanager
def _within_vocabulary(modules: Iterable[nn.Module]) -> Generator[None]:
    """While this lasts, tokens are looked up among those of the vocabulary: the rows that vLLM fills a table up with
    are no token's."""
    layers: Any = import_module("vllm.model_executor.layers.vocab_parallel_embedding")
    with ExitStack() as stack:
        layer: Any
        for layer in modules:
            if (
                type(layer) is layers.VocabParallelEmbedding
                and type(layer.quant_method) is layers.UnquantizedEmbeddingMethod
                and layer.tp_size == 1
                and layer.num_embeddings == layer.org_vocab_size < layer.weight.shape[0]
            ):
                layer.forward = partial(_looked_up, layer)
                stack.callback(delattr, layer, "forward")
        yield


def _looked_up(layer: Any, ids: Tensor) -> Tensor:
    return nn.functional.embedding(ids.long(), layer.weight[: layer.org_vocab_size])


class VllmModel(nn.Module):
    """vLLM's implementation of a model of transformers: the logits of one prompt, of shape (tokens, vocabulary).
    ``cache``: the type of keys and values in its cache."""

    def __init__(self, config: Any, cache: str = "auto", *, wide: bool = False) -> None:
        """Parameters are 0; ``wide``: those of floating-point numbers are in float64."""
        super().__init__()
        self.cache = cache
        self.config = _with_architecture(config)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.settings, self.model = model_of(self.config, cache)
        for parameter in self.model.parameters():  # which are memory that nothing was written into
            dtype = torch.float64 if wide and parameter.is_floating_point() else parameter.dtype
            parameter.data = torch.zeros_like(parameter.data, dtype=dtype)
        self.prompts = prompt_attentions(self.modules(), {id(one): name for name, one in self.named_parameters()})
        with_kernels_of_experts(self.modules())

    def __deepcopy__(self, _: Any) -> VllmModel:
        # settings and groups cannot be copied; weights come from loaders
        floats = {p.dtype for p in self.parameters() if p.is_floating_point()}
        return VllmModel(self.config, self.cache, wide=floats == {torch.float64})

    def forward(self, tokens: Tensor) -> Tensor:
        """The logits, of shape (1, tokens, vocabulary)."""
        ids = tokens.reshape(-1)
        with attending(self.modules(), self.prompts), packing(self.modules()), _within_vocabulary(self.modules()):
            found = forward_of(self.model, self.settings)(ids, torch.arange(ids.shape[0]))
        return found["logits"].unsqueeze(0)

    def captured_program(self, args: Any, kwargs: Any) -> Program:
        """The captured program, with attention as what it computes of one prompt, where that is known."""
        kernels = kernels_of(self.modules(), self.prompts)
        return with_kernels(with_computed_tables(capture(self, args, kwargs), self), kernels, self.prompts)

    @staticmethod
    def load(model: VllmModel, checkpoint: dict[str, Tensor]) -> None:
        """vLLM's own loader of a checkpoint, as transformers saves it: its models may keep the weights of experts in
        one tensor, its files have one for each."""
        from vllm.config import set_current_vllm_config

        transformers: Any = import_module("transformers")
        saved: Any = import_module("transformers.core_model_loading").revert_weight_conversion
        with torch.device("meta"):
            named = transformers.AutoModelForCausalLM.from_config(model.config)
        with set_current_vllm_config(model.settings):
            inner: Any = model.model
            inner.load_weights(saved(named, checkpoint).items())
