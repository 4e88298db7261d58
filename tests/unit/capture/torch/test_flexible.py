"""What PyTorch runs as one kernel is captured as what it is defined to be: against the same thing written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tantamount as tt
from tantamount import Verdict
from tantamount.errors import UserError

torch = pytest.importorskip("torch", reason="captures need PyTorch")
nn, functional = torch.nn, torch.nn.functional


def _flex(score: Callable[..., Any] | None = None, mask: Callable[..., Any] | None = None) -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    blocks = None if mask is None else create_block_mask(mask, None, None, 4, 4, device="cpu")
    return lambda q, k, v: flex_attention(q, k, v, score_mod=score, block_mask=blocks)


def _causal(q: Any, k: Any, v: Any) -> Any:
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def _verdict(ours: Any, theirs: Any, *given: Any) -> Verdict:
    return tt.refine(tt.capture(ours, given), tt.capture(theirs, given)).verdict


QKV = [torch.randn(1, 2, 4, 8) for _ in range(3)]


def _masked(shift: int) -> Callable[..., Any]:
    return lambda score, b, h, i, j: torch.where(i + shift >= j, score, -float("inf"))


def test_flexible_attention_with_a_causal_score_is_causal_attention() -> None:
    assert _verdict(_causal, _flex(_masked(0)), *QKV) is Verdict.PROVED
    assert _verdict(_causal, _flex(_masked(1)), *QKV) is Verdict.REFUTED


def _bent(score: Callable[..., Any]) -> Callable[..., Any]:
    """Attention written out, with a function of every score."""

    def attend(q: Any, k: Any, v: Any) -> Any:
        at = torch.arange(4)
        scores = score(q @ k.transpose(-1, -2) / 8**0.5, 0, torch.arange(2)[:, None, None], at[:, None], at)
        return torch.softmax(scores, -1) @ v

    return attend


def test_functions_of_scores_with_numbers_in_them() -> None:
    """A trace under ``vmap`` has numbers as operands of conversions (``_to_copy(2.0)``)."""
    slopes = torch.tensor([0.5, 0.25])
    right: dict[str, Callable[..., Any]] = {
        "scaled, by distance": lambda s, b, h, i, j: s * 2.0 + (i - j) * 0.5,
        "capped": lambda s, b, h, i, j: torch.tanh(s / 30.0) * 30.0,
        "slopes": lambda s, b, h, i, j: s + slopes[h] * (j - i),
    }
    wrong: dict[str, Callable[..., Any]] = {
        "scaled, by distance": lambda s, b, h, i, j: s * 2.0 + (i - j) * 0.25,
        "capped": lambda s, b, h, i, j: torch.tanh(s / 30.0) * 15.0,
        "slopes": lambda s, b, h, i, j: s + slopes[1 - h] * (j - i),
    }
    for name, score in right.items():
        assert _verdict(_bent(score), _flex(score), *QKV) is Verdict.PROVED, name
        assert _verdict(_bent(score), _flex(wrong[name]), *QKV) is Verdict.REFUTED, name


def test_blocks_that_kernels_skip_are_those_of_the_function_that_is_captured() -> None:
    """Eager asks the function of a mask everywhere, kernels in the blocks that are listed: 0.5 apart for a mask of
    blocks alone. Captured was what eager does, and PROVED to be attention to everything."""
    from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

    def causal(b: Any, h: Any, i: Any, j: Any) -> Any:
        return i >= j

    def made(function: Any = causal) -> Any:
        found = create_block_mask(causal, None, None, 4, 4, device="cpu", BLOCK_SIZE=2)
        found.mask_mod = function
        return found

    def emptied() -> Any:
        found = made()
        found.kv_num_blocks.zero_()
        return found

    def near(b: Any, h: Any, i: Any, j: Any) -> Any:
        return i // 2 == j // 2

    one, lists = torch.ones(1, 1, 2, dtype=torch.int32), torch.tensor([[[[0, 1], [1, 0]]]], dtype=torch.int32)
    outside = made(), made(near), made(lambda b, h, i, j: (i >= j) | (h == 1))
    blocks = [
        BlockMask.from_kv_blocks(numbers, lists, full, full_lists, BLOCK_SIZE=2, mask_mod=function)
        for numbers, full, full_lists, function in (
            (one, None, None, near), (one * 0, one, lists, near), (one, None, None, None), (one, one, lists, near),
            (one * 0, one, lists, lambda b, h, i, j: (i // 2 == j // 2) & (i >= j)),
        )
    ]  # fmt: skip
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: outside[0], ""), (made, ""), (lambda: blocks[0], ""), (lambda: blocks[1], ""),
        (lambda: outside[1], "full blocks of keys"), (lambda: outside[2], "leaves out blocks"),
        (lambda: made(near), "computed while it is captured"), (emptied, "computed while it is captured"),
        (lambda: blocks[2], "leaves out blocks"), (lambda: blocks[3], "twice"), (lambda: blocks[4], "full blocks"),
    ]  # fmt: skip
    for k, (mask, said) in enumerate(cases):
        problem = ""
        try:
            tt.capture(lambda q, k, v, mask=mask: flex_attention(q, k, v, block_mask=mask()), QKV)
        except UserError as refused:
            problem = str(refused)
        assert said in problem if said else not problem, f"{k}: {problem}"
    with pytest.raises(UserError, match="ROWS_GUARANTEED_SAFE"):
        tt.capture(lambda q, k, v: flex_attention(q, k, v, kernel_options={"ROWS_GUARANTEED_SAFE": True}), QKV)


def test_masks_that_a_program_makes_of_something_else() -> None:
    """Blocks are made of what the function says then, for one head: compiled, these programs are up to 2.5 apart from
    eager. All were PROVED to be what eager computes."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def made(function: Any, heads: int | None = None) -> Any:
        return create_block_mask(function, None, heads, 4, 4, device="cpu", BLOCK_SIZE=2)

    def by_head(b: Any, h: Any, i: Any, j: Any) -> Any:
        return (i >= j) | (h == 1)

    def later(change: Callable[[Any, Any], None]) -> Callable[..., Any]:
        def attend(q: Any, k: Any, v: Any) -> Any:
            shift, far = torch.zeros((), dtype=torch.int64), [0]
            mask = made(lambda b, h, i, j: i + shift + far[0] >= j)
            change((shift, far), mask)
            return flex_attention(q, k, v, block_mask=mask)

        return attend

    def everywhere(head: bool, shift: int) -> Callable[..., Any]:
        here, there, heads = torch.arange(4)[:, None], torch.arange(4), torch.arange(2)[:, None, None]
        seen = (here + shift >= there) | (head & (heads == 1))
        return lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)

    cases: list[tuple[Callable[..., Any], Callable[..., Any], bool]] = [
        (lambda q, k, v: flex_attention(q, k, v, block_mask=made(by_head, 2)), everywhere(True, 0), True),
        (lambda q, k, v: flex_attention(q, k, v, block_mask=made(by_head)), everywhere(True, 0), False),
        (later(lambda state, mask: None), everywhere(False, 0), True),
        (later(lambda state, mask: state[0].add_(2)), everywhere(False, 2), False),
        (later(lambda state, mask: state[1].__setitem__(0, 2)), everywhere(False, 2), False),
        (later(lambda state, mask: mask.kv_num_blocks.data.zero_()), everywhere(False, 0), False),
    ]
    for k, (blocks, plain, right) in enumerate(cases):
        assert (_verdict(plain, blocks, *QKV) is Verdict.PROVED) is right, k


@pytest.mark.parametrize(("shift", "verdict"), [(0, Verdict.PROVED), (1, Verdict.REFUTED)])
def test_a_block_mask_with_an_infinity_from_a_constant_is_a_causal_mask(shift: int, verdict: Verdict) -> None:
    """The mask's -inf is a recorded tensor without dimensions; it was a tensor of unknown values."""
    wide = [torch.randn(1, 1, 8, 4) for _ in range(3)]

    def attend(q: Any, k: Any, v: Any) -> Any:
        at = torch.arange(8)
        scores = torch.where(at[:, None] + shift >= at, q @ k.transpose(-1, -2) / 2, torch.tensor(-float("inf")))
        return torch.softmax(scores, -1) @ v

    assert _verdict(_causal, attend, *wide) is verdict


def _gradients(attend: Callable[..., Any]) -> Callable[..., Any]:
    def step(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
        return torch.autograd.grad(attend(q, k, v).square().sum(), (q, k, v))

    return step


def test_the_gradients_of_flexible_attention() -> None:
    def written(q: Any, k: Any, v: Any) -> Any:
        return torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1) @ v

    assert _verdict(_gradients(written), _gradients(_flex()), *QKV) is Verdict.PROVED


class Normalised(nn.Module):
    def __init__(self, momentum: float) -> None:
        super().__init__()
        self.own = nn.BatchNorm1d(3, momentum=momentum)

    def forward(self, x: Any) -> Any:
        return self.own(x), self.own.running_mean * 1


class Written(Normalised):
    def forward(self, x: Any) -> Any:
        mean, variance = x.mean(0), x.var(0, unbiased=False)
        with torch.no_grad():
            self.own.running_mean.mul_(0.75).add_(0.25 * mean)
            self.own.running_var.mul_(0.75).add_(0.25 * x.var(0))
            self.own.num_batches_tracked.add_(1)
        y = (x - mean) / torch.sqrt(variance + self.own.eps) * self.own.weight + self.own.bias
        return y, self.own.running_mean * 1


def test_batch_normalisation_in_training_and_its_statistics() -> None:
    x = torch.randn(4, 3)
    assert _verdict(Normalised(0.25), Written(0.25), x) is Verdict.PROVED
    assert _verdict(Normalised(0.5), Written(0.25), x) is Verdict.REFUTED


def test_a_normed_weight() -> None:
    layer = torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 3, bias=False))

    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parametrizations = layer.parametrizations

        def forward(self, input: Any) -> Any:  # noqa: A002  (the name that Linear has)
            g, v = self.parametrizations.weight.original0, self.parametrizations.weight.original1
            return input @ (g * v / v.norm(dim=1, keepdim=True)).T

    assert _verdict(layer, Product(), torch.randn(2, 4)) is Verdict.PROVED


@pytest.mark.parametrize("kind", [nn.LSTM, pytest.param(nn.GRU, marks=pytest.mark.slow)])
def test_recurrent_layers(kind: Any) -> None:
    layer, x = kind(3, 2, batch_first=True), torch.randn(1, 2, 3)

    class First(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any) -> Any:
            return self.layer(x)[0][:, :1]

    class Alone(First):
        def forward(self, x: Any) -> Any:
            return self.layer(x[:, :1])[0]

    class Last(First):
        def forward(self, x: Any) -> Any:
            return self.layer(x)[0][:, 1:]

    assert _verdict(First(), Alone(), x) is Verdict.PROVED
    assert _verdict(First(), Last(), x) is Verdict.REFUTED


def test_a_block_mask_that_is_an_argument_is_no_input() -> None:
    """Its blocks are those of its function, which is compared with them; other objects show their tensors as inputs."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 4, 4, device="cpu")
    ours = tt.capture(lambda q, k, v, m: flex_attention(q, k, v, block_mask=m), (*QKV, mask))
    assert [node.name for node in ours.graph.inputs] == ["q", "k", "v"]
    assert tt.refine(tt.capture(_causal, QKV), ours).verdict is Verdict.PROVED
