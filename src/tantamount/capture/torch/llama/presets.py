"""Models by name, at the sizes of their model cards."""

from __future__ import annotations

from tantamount.capture.torch.llama.experts import ExpertShape
from tantamount.capture.torch.llama.model import Shape

__all__ = ["EXPERTS", "PRESETS"]

PRESETS = {
    "llama3-8b": Shape(32, 4096, 32, 8, 14336, 128256),
    "llama3-70b": Shape(80, 8192, 64, 8, 28672, 128256),
    "llama3-405b": Shape(126, 16384, 128, 8, 53248, 128256),
}
EXPERTS = {
    "deepseek-v3-671b": ExpertShape(
        61, 7168, 128, 129280, 256, 8, 2048, latent=(1536, 512, 128, 64, 128), dense=3, ffn=18432, shared=1, groups=8,
        chosen_groups=4, scale=2.5,
    ),
    "deepseek-v3-236b": ExpertShape(
        60, 5120, 128, 102400, 160, 6, 1536, latent=(1536, 512, 128, 64, 128), dense=1, ffn=12288, shared=2, groups=8,
        chosen_groups=3, scale=16.0,
    ),
    "deepseek-v3-16b": ExpertShape(
        27, 2048, 16, 102400, 64, 6, 1408, latent=(1536, 512, 128, 64, 128), dense=1, ffn=10944, shared=2, groups=8,
        chosen_groups=4,
    ),
    "qwen3-moe-235b": ExpertShape(94, 4096, 64, 151936, 128, 8, 1536, kv_heads=4, head=128, theta=1e6),
    "qwen3-moe-30b": ExpertShape(48, 2048, 32, 151936, 128, 8, 768, kv_heads=4, head=128, theta=1e6),
}  # fmt: skip
