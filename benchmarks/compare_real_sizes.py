"""``compare`` of released models at their real depth and shapes, without a single weight: CPU seconds.

    python benchmarks/compare_real_sizes.py [--against vllm] [--tokens 8] [--layers N] [gpt2 | qwen2 | phi3 | llama ...]

transformers against vLLM, litgpt or Megatron-Core, whichever is installed. How the weights correspond is found on three
models of three layers that are not as wide, by running their loaders; from what these agree on follow the relations of
the real one, whose parameters are on the meta device (docs/compare.md, "Saved, edited and given").
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from compare_depth import Timed
from torch import nn

from tantamount.answers import compare
from tantamount.capture.torch import models
from tantamount.capture.torch.recipes import Built, built
from tantamount.comparison.relation_files import document_of_sources, save_relations
from tantamount.correspond.numbering import Source, loads, sources_of

_SIZES = (
    "hidden_size={hidden},num_attention_heads={heads},num_key_value_heads={groups},intermediate_size={inner},"
    "vocab_size={vocabulary},num_hidden_layers={layers},max_position_embeddings={positions},pad_token_id=0"
)


@dataclass(frozen=True)
class Sizes:
    """Of one model: what its configuration says. ``positions``: rows of its tables of cosines and sines, of which
    nothing is loaded."""

    layers: int
    hidden: int
    heads: int
    groups: int
    inner: int
    vocabulary: int
    positions: int = 0


@dataclass(frozen=True)
class Kind:
    """A model as it is released. ``also``: settings that stay as they are where it is made smaller; ``litgpt``: its
    name there, and the settings that do not follow from its sizes."""

    sizes: Sizes
    text: str
    also: str = ""
    litgpt: tuple[str, str] = ("", "")


KINDS = {
    "gpt2": Kind(  # GPT-2, 124 million
        Sizes(12, 768, 12, 12, 3072, 50257),
        "n_embd={hidden},n_head={heads},n_positions=1024,vocab_size={vocabulary},n_layer={layers}",
    ),
    "qwen2": Kind(  # Qwen2 0.5B
        Sizes(24, 896, 14, 2, 4864, 151936, 32768), _SIZES, ",rms_norm_eps=1e-6",
        ("Qwen2.5-0.5B", "norm_eps=1e-6"),
    ),
    "phi3": Kind(  # Phi-3 mini, 4k
        Sizes(32, 3072, 32, 32, 8192, 32064, 4096), _SIZES, ",rms_norm_eps=1e-5",
    ),
    "llama": Kind(  # Llama 3 8B
        Sizes(32, 4096, 32, 8, 14336, 128256, 8192), _SIZES,
        ',rms_norm_eps=1e-5,rope_parameters={{"rope_type":"default","rope_theta":500000.0}}',
        ("Llama-3-8B", ""),
    ),
    "mistral": Kind(  # Mistral Nemo 12B
        Sizes(40, 5120, 32, 8, 14336, 131072, 131072), _SIZES,
        ",rms_norm_eps=1e-5,sliding_window=null,head_dim={head}",
    ),
}  # fmt: skip
_HEAD = 32  # of the smaller models: vLLM has no smaller heads on CPUs
_LAYERS = 3  # of the smaller models: the least that more are concluded from


def smaller(sizes: Sizes, by: int) -> Sizes:
    """Sizes of a model with the same number of queries for each key, whose vocabulary lacks as much of a whole block
    of 64, which vLLM fills up."""
    each = sizes.heads // sizes.groups
    vocabulary = sizes.vocabulary % 64 + 64 * by
    return Sizes(min(_LAYERS, sizes.layers), by * each * _HEAD, by * each, by, 32 * (by + 2), vocabulary, 64)


def pair(name: str, kind: Kind, sizes: Sizes, against: str, tokens: int) -> tuple[Built, Built]:
    """The model of transformers with some sizes, and the other one."""
    head = _HEAD if sizes != kind.sizes else 128
    settings = (kind.text + kind.also).format(**vars(sizes), head=head) + f",tokens={tokens}"
    second = f"{against}:{name},{settings}"
    if against == "litgpt":
        known, also = kind.litgpt
        second = (
            f"litgpt:{known},n_embd={sizes.hidden},n_head={sizes.heads},n_query_groups={sizes.groups},n_layer={sizes.layers},"
            f"intermediate_size={sizes.inner},padded_vocab_size={sizes.vocabulary},tokens={tokens}{also and ','}{also}"
        )
    return built(f"hf:{name},{settings}"), built(second)


@contextmanager
def without_weights() -> Generator[None]:
    """Parameters are made on the meta device; tables that are computed have their numbers."""
    register = nn.Module.register_parameter

    def registered(self: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        if parameter is not None and parameter.device.type != "meta":
            empty = nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)
            empty.__dict__.update(parameter.__dict__)
            parameter = empty
        register(self, name, parameter)

    nn.Module.register_parameter = registered
    try:
        yield
    finally:
        nn.Module.register_parameter = register


def relations(sides: tuple[Built, Built], path: Path) -> None:
    """Write how the parameters of two models are made of a checkpoint of the first."""
    shapes = models.state_shapes(sides[0].model)
    sources: list[dict[str, Source]] = []
    for name, side in zip(("first", "second"), sides, strict=True):
        taken = [source.rest for one in sources for source in one.values()]
        sources.append(sources_of(loads(models.loader_of(side.model, side.load, name), shapes), taken))
    rest = {source.rest: source.sources.shape for one in sources for source in one.values() if source.rest}
    save_relations(path, document_of_sources({**shapes, **rest}, sources[0], sources[1]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--against", default="vllm", choices=("vllm", "litgpt", "megatron"))
    parser.add_argument("--layers", type=int, help="fewer than the model has")
    parser.add_argument("--tokens", type=int, default=8)
    options = parser.parse_args()
    models.captured = capture = Timed(models.captured)
    failed = 0
    for name in options.kinds:
        kind = KINDS[name]
        sizes = Sizes(**{**vars(kind.sizes), "layers": options.layers or kind.sizes.layers})
        kind = Kind(sizes, kind.text, kind.also, kind.litgpt)
        with TemporaryDirectory() as folder:
            pair(name, kind, smaller(sizes, 1), options.against, options.tokens)  # imports both packages
            start = time.process_time()
            files = [Path(folder) / f"{by}.toml" for by in (1, 2, 3)]
            for by, file in zip((1, 2, 3), files, strict=True):
                relations(pair(name, kind, smaller(sizes, by), options.against, options.tokens), file)
            related = time.process_time() - start
            with without_weights():
                first, second = pair(name, kind, sizes, options.against, options.tokens)
            number = sum(parameter.numel() for parameter in first.model.parameters())
            start, capture.seconds = time.process_time(), 0.0
            found = compare(first.model, second.model, inputs=[first.inputs, second.inputs], relations=files)
        rest = time.process_time() - start - capture.seconds
        failed += not found.proved
        print(
            f"{name:8} {sizes.layers:3} layers, {number / 1e9:5.2f} billion weights  {found.verdict.value:8} related "
            f"{related:6.1f} s, captured {capture.seconds:5.1f} s, all else {rest:5.2f} s "
            f"(proof {sum(found.statistics.seconds.values()):5.2f} s), {found.statistics.specification_nodes} nodes",
            flush=True,
        )
        if not found.proved:
            print(found, flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
