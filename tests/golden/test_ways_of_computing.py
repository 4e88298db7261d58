"""The same thing computed in two ways that real models differ in, and a wrong twin of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

import tantamount as tt  # noqa: E402
from tantamount.verdict import Verdict  # noqa: E402

Function = Callable[..., Any]


def verdict(first: Function, second: Function, *shapes: tuple[int, ...]) -> Verdict:
    """The verdict on two functions of tensors of these shapes."""
    programs = [tt.capture(f, tuple(torch.ones(shape) for shape in shapes)) for f in (first, second)]
    return tt.compare(*programs, accept=["relation-guessed"]).verdict


# ------------------------------------------------------------------------------------------------ scans
def step_by_step(q: Any, k: Any, v: Any, a: Any) -> Any:
    state, out = torch.zeros(q.shape[1], v.shape[1]), []
    for i in range(q.shape[0]):
        state = state * a[i].exp() + torch.outer(k[i], v[i])
        out.append(q[i] @ state)
    return torch.stack(out)


def at_once(q: Any, k: Any, v: Any, a: Any) -> Any:
    total = a.cumsum(0)
    return ((q @ k.t()) * (total[:, None] - total[None]).exp()).tril() @ v


def at_once_but_late(q: Any, k: Any, v: Any, a: Any) -> Any:
    total = a.cumsum(0)
    return ((q @ k.t()) * (total[:, None] - total[None] + a[None]).exp()).tril() @ v


def gated(q: Any, k: Any, v: Any, g: Any) -> Any:
    state, out = torch.zeros(q.shape[1], v.shape[1]), []
    for i in range(q.shape[0]):
        state = state * torch.sigmoid(g[i]) + torch.outer(k[i], v[i])
        out.append(q[i] @ state)
    return torch.stack(out)


SCAN = ((4, 2), (4, 2), (4, 2), (4,))


def test_a_recurrence_is_the_product_with_its_decays() -> None:
    assert verdict(step_by_step, at_once, *SCAN) is Verdict.PROVED
    assert verdict(step_by_step, at_once_but_late, *SCAN) is Verdict.REFUTED
    gates = lambda q, k, v, g: at_once(q, k, v, F.logsigmoid(g))  # noqa: E731
    assert verdict(gated, gates, *SCAN) is Verdict.PROVED


def test_a_softmax_forgets_what_shifts_a_row() -> None:
    def attention(bias: Function) -> Function:
        def run(q: Any, k: Any, v: Any) -> Any:
            n = torch.arange(5)
            scores = q @ k.t() + 0.5 * bias(n).float()
            return torch.softmax(scores.masked_fill(n[None] > n[:, None], float("-inf")), -1) @ v

        return run

    absolute, relative = attention(lambda n: n[None]), attention(lambda n: n[None] - n[:, None])
    assert verdict(absolute, relative, (5, 4), (5, 4), (5, 4)) is Verdict.PROVED
    assert verdict(absolute, attention(lambda n: n[:, None] - n[None]), (5, 4), (5, 4), (5, 4)) is Verdict.REFUTED


# ------------------------------------------------------------------------------------------------ functions
LOGISTIC = {
    "sigmoid": lambda x: 2 * torch.sigmoid(2 * x) - 1,
    "exp": lambda x: (torch.exp(x) - torch.exp(-x)) / (torch.exp(x) + torch.exp(-x)),
}


@pytest.mark.parametrize("name", LOGISTIC)
def test_tanh_is_made_of_exponentials(name: str) -> None:
    assert verdict(torch.tanh, LOGISTIC[name], (4,)) is Verdict.PROVED
    assert verdict(torch.tanh, lambda x: LOGISTIC[name](x / 2), (4,)) is Verdict.REFUTED


def test_a_variance_is_not_negative() -> None:
    def norm(share: float) -> Function:
        def run(x: Any) -> Any:
            mean = x.mean(-1, keepdim=True)
            variance = torch.clamp((x * x).mean(-1, keepdim=True) - share * mean * mean, min=0)
            return (x - mean) * torch.rsqrt(variance + 1e-5)

        return run

    assert verdict(lambda x: F.layer_norm(x, (6,)), norm(1), (2, 6)) is Verdict.PROVED

    def unclamped(x: Any) -> Any:
        mean = x.mean(-1, keepdim=True)
        return (x * x).mean(-1, keepdim=True) - 2 * mean * mean

    assert verdict(unclamped, lambda x: torch.clamp(unclamped(x), min=0), (2, 6)) is Verdict.REFUTED


def test_a_floor_below_a_norm_is_told() -> None:
    plain = lambda x: x / x.norm(dim=-1, keepdim=True)  # noqa: E731
    assert verdict(plain, lambda x: F.normalize(x, dim=-1), (2, 4)) is Verdict.REFUTED


# ------------------------------------------------------------------------------------------------ what is chosen
def renormalised(x: Any) -> Any:
    weights = torch.softmax(x, -1).topk(2).values
    return weights / weights.sum(-1, keepdim=True)


def test_softmax_before_and_after_the_choice() -> None:
    assert verdict(renormalised, lambda x: torch.softmax(x.topk(2).values, -1), (3, 5)) is Verdict.PROVED
    assert verdict(renormalised, lambda x: torch.softmax((-x).topk(2).values, -1), (3, 5)) is Verdict.REFUTED

    def by_sorting(x: Any) -> Any:
        weights = torch.sort(torch.softmax(x, -1), descending=True).values[:, :2]
        return weights / weights.sum(-1, keepdim=True)

    assert verdict(renormalised, by_sorting, (3, 5)) is Verdict.PROVED


def test_equal_scores_of_different_values_are_no_reason() -> None:
    """Of 1 and -1, whose squares are equal, two operators may choose one each."""
    chosen = lambda x: x.gather(-1, (x * x).topk(1).indices)  # noqa: E731
    by_sorting = lambda x: x.gather(-1, torch.sort(x * x, descending=True).indices[:, :1])  # noqa: E731
    assert verdict(chosen, by_sorting, (3, 4)) is not Verdict.PROVED


def test_what_sorts_a_permutation_is_its_inverse() -> None:
    there_and_back = lambda x, s: x[torch.argsort(s)][torch.argsort(torch.argsort(s))]  # noqa: E731
    turned = lambda x, s: x[torch.argsort(s)][torch.argsort(torch.argsort(s), descending=True)]  # noqa: E731
    assert verdict(lambda x, s: x * 1.0, there_and_back, (4, 2), (4,)) is Verdict.PROVED
    assert verdict(lambda x, s: x * 1.0, turned, (4, 2), (4,)) is Verdict.REFUTED


def gathered_experts(x: Any, w: Any, g: Any) -> Any:
    weights, chosen = torch.softmax(x @ g, -1).topk(2)
    return torch.einsum("tkf,tk->tf", torch.tanh(torch.einsum("td,tkdf->tkf", x, w[chosen])), weights)


def sorted_experts(x: Any, w: Any, g: Any, *, back: bool = True) -> Any:
    weights, chosen = torch.softmax(x @ g, -1).topk(2)
    experts, order = torch.sort(chosen.reshape(-1), stable=True)
    done = torch.tanh(torch.einsum("nd,ndf->nf", x[order // 2], w[experts])) * weights.reshape(-1)[order][:, None]
    places = torch.empty_like(order)
    places[order] = torch.arange(len(order))
    return (done[places] if back else done).view(3, 2, -1).sum(1)


def test_tokens_sorted_by_their_experts_and_brought_back() -> None:
    shapes = (3, 2), (3, 2, 2), (2, 3)
    assert verdict(gathered_experts, sorted_experts, *shapes) is Verdict.PROVED
    left_there = lambda x, w, g: sorted_experts(x, w, g, back=False)  # noqa: E731
    assert verdict(gathered_experts, left_there, *shapes) is Verdict.REFUTED


# ------------------------------------------------------------------------------------------------ booleans and extremes
def accepted(x: Any, few: int = 0) -> Any:
    """Which elements are among the first ones that are positive; wrong where ``few`` of them need not be."""
    return ((x <= 0).long().cumsum(-1) == few).long()


def count(x: Any) -> Any:
    return F.one_hot(x.argmax(-1), 4).float().sum(0)


def scale(x: Any) -> Any:
    return torch.maximum(x.amax(-1, keepdim=True), -x.amin(-1, keepdim=True)) / 127 + 1e-6


def bucket(edge: int) -> Any:
    """Of distances; those of 0 have no logarithm, which nothing reads."""
    far = (torch.arange(12) - torch.arange(12)[:, None]).abs()
    large = (8 + torch.log(far.float() / 8).long()).clamp(max=9)
    return torch.where(far < edge, far, large)


CHOICES: dict[str, tuple[Function, Function, Function]] = {  # one way, the same in another, and a wrong one
    "the greatest absolute value": (
        lambda x: torch.round(x / (x.abs().amax(-1, keepdim=True) / 127 + 1e-6)),
        lambda x: torch.round(x / scale(x)),
        lambda x: torch.floor(x / scale(x)),
    ),
    "none of them": (
        lambda x: ~(x < 0).any(-1),
        lambda x: (x < 0).sum(-1) == 0,
        lambda x: (x < 0).sum(-1) <= 1,
    ),
    "all of them": (lambda x: (x < 0).all(-1), lambda x: (x < 0).sum(-1) >= 4, lambda x: (x < 0).sum(-1) >= 3),
    "a product of them": (
        lambda x: (x < 0).long().prod(-1),
        lambda x: (x < 0).all(-1).long(),
        lambda x: (x < 0).sum(-1),
    ),
    "the first of them": (lambda x: (x > 0).long().cumprod(-1), accepted, lambda x: accepted(x, 1)),
    "one at least": (
        lambda x: count(x).clamp_min(1),
        lambda x: torch.where(count(x) > 0, count(x), 1.0),
        lambda x: torch.where(count(x) > 0, count(x), 2.0),
    ),
    "a logarithm of a band": (
        lambda x: x.masked_fill(torch.ones(4, 4).tril() == 0, -torch.inf).softmax(-1),
        lambda x: (x + torch.ones(4, 4).tril().log()).softmax(-1),
        lambda x: (x + torch.ones(4, 4).tril(1).log()).softmax(-1),
    ),
    "a logarithm of a mask": (
        lambda x: (x + torch.where(x > 0, 0.0, -torch.inf)).softmax(-1),
        lambda x: (x + (x > 0).float().log()).softmax(-1),
        lambda x: (x + (x >= 1).float().log()).softmax(-1),
    ),
}


@pytest.mark.parametrize("name", CHOICES)
def test_choices_in_other_words(name: str) -> None:
    one, right, wrong = CHOICES[name]
    assert verdict(one, right, (4, 4)) is Verdict.PROVED
    assert verdict(one, wrong, (4, 4)) is Verdict.REFUTED


def test_whole_numbers_of_infinities_that_nothing_reads() -> None:
    """They refute nothing, and keep nothing from being refuted; where an output shows one, nothing is said."""
    right, wrong = (lambda x, edge=edge: x[bucket(edge)] for edge in (8, 7))
    assert verdict(right, wrong, (10,)) is Verdict.REFUTED
    shown, more = (lambda x, k=k: x + torch.log(torch.arange(2.0)).long() + k for k in (0, 1))
    assert verdict(shown, more, (2,)) is Verdict.UNKNOWN
