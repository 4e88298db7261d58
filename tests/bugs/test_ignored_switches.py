"""Switches of configurations that a rewrite takes no notice of, and what is converted wrongly: bugs that libraries of
models and serving engines had, each in one small block of our own. The operator is named, or where it is used first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import tantamount as tt  # noqa: E402

WIDTH, HEADS, TOKENS, EXPERTS = 8, 2, 3, 2
HEAD = WIDTH // HEADS


@dataclass(frozen=True)
class Switches:
    gelu: str = "none"
    interleaved: bool = False
    rotary: int = 0
    base: float = 10000.0
    window: int | None = None
    scaled: bool = True
    logn: int | None = None
    clip: float | None = None
    learned_positions: bool = False
    qk_norm: bool = False
    jitter: float | None = None


class Block(nn.Module):
    """One attention with RoPE, and a feed-forward part or experts."""

    def __init__(self, switches: Switches) -> None:
        super().__init__()
        self.switches = switches
        self.positions = nn.Parameter(torch.randn(TOKENS, WIDTH))
        self.qkv = nn.Parameter(torch.randn(3, WIDTH, WIDTH))
        self.out = nn.Parameter(torch.randn(WIDTH, WIDTH))
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, WIDTH))
        self.router = nn.Parameter(torch.randn(WIDTH, EXPERTS))
        self.norms = nn.Parameter(torch.randn(2, HEAD))

    def rotated(self, x: Tensor) -> Tensor:
        s = self.switches
        frequencies = s.base ** (-torch.arange(0, s.rotary, 2, dtype=torch.float32) / s.rotary)  # base
        angles = torch.arange(TOKENS, dtype=torch.float32)[:, None] * frequencies
        part, rest = x[..., : s.rotary], x[..., s.rotary :]  # rotary
        if s.interleaved:
            a, b = part[..., 0::2], part[..., 1::2]  # interleaved
            turned = torch.stack((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1)
            return torch.cat((turned.flatten(-2), rest), -1)
        a, b = part.chunk(2, -1)  # halves
        return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin(), rest), -1)

    def attention(self, x: Tensor) -> Tensor:
        s = self.switches
        q, k, v = x @ self.qkv[0], x @ self.qkv[1], x @ self.qkv[2]
        if s.clip is not None:
            q, k, v = q.clamp(-s.clip, s.clip), k.clamp(-s.clip, s.clip), v.clamp(-s.clip, s.clip)  # clip
        q, k, v = (t.view(TOKENS, HEADS, HEAD).transpose(0, 1) for t in (q, k, v))
        if s.qk_norm:
            q = F.layer_norm(q, (HEAD,), self.norms[0])  # qk_norm
            k = F.layer_norm(k, (HEAD,), self.norms[1])
        if s.rotary:
            q, k = self.rotated(q), self.rotated(k)
        if s.logn is not None:
            at = torch.arange(1, TOKENS + 1, dtype=torch.float32)
            q = q * (at.log() / math.log(s.logn)).clamp(min=1.0)[:, None]  # logn
        scores = q @ k.transpose(1, 2)
        if s.scaled:
            scores = scores / math.sqrt(HEAD)  # scaled
        here, there = torch.arange(TOKENS)[:, None], torch.arange(TOKENS)
        kept = here >= there
        if s.window is not None:
            kept = kept & (here - there < s.window)  # window
        weights = scores.masked_fill(~kept, float("-inf")).softmax(-1)  # masked
        return (weights @ v).transpose(0, 1).reshape(TOKENS, WIDTH) @ self.out

    def experts(self, x: Tensor, jitter: float) -> Tensor:
        scores = x @ self.router
        if jitter:
            most = scores.amax(-1, keepdim=True)
            far = (most - scores) / scores.abs().clamp(min=most) > 2 * jitter  # jitter
            scores = scores.masked_fill(far, float("-inf"))
        return torch.einsum("te,td,edf->tf", scores.softmax(-1), x, self.up)

    def forward(self, x: Tensor) -> Tensor:
        s = self.switches
        if s.learned_positions:
            x = x + self.positions  # learned
        x = x + self.attention(x)
        if s.jitter is not None:
            x = x + self.experts(x, s.jitter)
        elif s.gelu != "none":
            x = x + F.gelu(x @ self.up[0], approximate=s.gelu.replace("exact", "none"))  # gelu
        return x


# What is ignored: the switches as they should be, as the rewrite has them, and what the line that is named has: that of
# the operator itself, or where its result is used first (marked so).
HALF = Switches(rotary=HEAD)
IGNORED = {
    "Gemma: GELU by tanh": (Switches(gelu="tanh"), {"gelu": "exact"}, "# gelu"),
    "GPT-J: RoPE of neighbours": (replace(HALF, interleaved=True), {"interleaved": False}, "turned ="),
    "GLM: half of a head is rotated": (Switches(rotary=HEAD // 2), {"rotary": HEAD}, "scores ="),  # where it is used
    "Command-R: another base of RoPE": (replace(HALF, base=8000000.0), {"base": 10000.0}, "# base"),
    "Gemma 2: a sliding window": (Switches(window=2), {"window": None}, "# masked"),
    "GPT-2: scale_attn_weights": (Switches(scaled=False), {"scaled": True}, "# scaled"),
    "Qwen: logn_attn": (Switches(logn=2), {"logn": None}, "# logn"),
    "OLMoE: clip_qkv": (Switches(clip=0.5), {"clip": None}, "# clip"),
    "JAIS: learned positions": (Switches(learned_positions=True), {"learned_positions": False}, "# learned"),
    "Phi: qk_layernorm": (Switches(qk_norm=True), {"qk_norm": False}, "scores ="),  # where it is used
    "PhiMoE: jitter of the router": (Switches(jitter=0.01), {"jitter": 0.0}, "most ="),
}  # fmt: skip


def compared(first: Switches, second: Switches) -> Any:
    return tt.compare(Block(first), Block(second), inputs=(torch.randn(TOKENS, WIDTH),))


@pytest.mark.parametrize("name", IGNORED)
def test_what_is_ignored_is_named(name: str) -> None:
    wanted, ignored, mark = IGNORED[name]
    report = compared(wanted, replace(wanted, **ignored))
    assert report.verdict is tt.Verdict.REFUTED
    found = report.mismatch
    sources = (found.specification_source, found.implementation_source)
    assert any(mark in source.text for source in sources if source is not None), (found.headline, sources)


class Tied(nn.Module):
    """Scores of the vocabulary by an embedding that is held once or twice; and a projection of pairs of rows."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(5, 4))
        self.head = self.embedding if tied else nn.Parameter(torch.randn(5, 4))
        self.query = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        return (x @ self.embedding @ self.query.t()) @ self.head.t()


def gguf(model: Any, tensors: dict[str, Tensor], *, head: bool = True, rows: bool = True) -> None:
    """What fills a model from a file in whose queries halves of a head are neighbours, with one embedding for both."""
    query = tensors["query"]
    with torch.no_grad():
        model.embedding.copy_(tensors["embedding"])
        model.query.copy_(query.view(2, 2, 4).transpose(0, 1).reshape(4, 4) if rows else query)
        if head:
            model.head.copy_(tensors["embedding"])


def first(model: Any, tensors: dict[str, Tensor]) -> None:
    with torch.no_grad():
        model.embedding.copy_(tensors["embedding"])
        model.query.copy_(tensors["query"].view(2, 2, 4).transpose(0, 1).reshape(4, 4))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({}, ""), ({"head": False}, "head"), ({"rows": False}, "load query")],
    ids=["right", "GGUF: the tied embedding is not loaded", "GGUF: rows of queries are not put back"],
)
def test_what_a_conversion_leaves_out(wrong: dict[str, bool], said: str) -> None:
    def load(model: Any, tensors: dict[str, Tensor]) -> None:
        gguf(model, tensors, **wrong)

    shapes = {"embedding": (5, 4), "query": (4, 4)}
    report = tt.compare(Tied(True), Tied(False), inputs=(torch.randn(2, 5),), loaders=(first, load), checkpoint=shapes)
    assert report.verdict is (tt.Verdict.REFUTED if wrong else tt.Verdict.PROVED)
    assert said in f"{report.mismatch}{report.notes}"
