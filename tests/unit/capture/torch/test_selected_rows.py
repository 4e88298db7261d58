"""Rows that data select: captured as whole tensors beside the mask, and the same numbers as eager for every mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tantamount as tt
from tantamount.semantics.interpret import interpret
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")
from torch import Tensor  # noqa: E402
from torch.nn import functional as F  # noqa: E402

ROWS = 6
MASKS = ([0] * 6, [1] * 6, [1, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 1])


def assigned(x: Tensor, m: Tensor) -> Tensor:
    y = x * 2
    y[m] = x[m].relu() + 1
    return y


def added(x: Tensor, m: Tensor) -> Tensor:
    rows = m.nonzero()[:, 0]
    return torch.ones_like(x).index_add_(0, rows, x[rows] @ x.t() @ x)


def accumulated(x: Tensor, m: Tensor) -> Tensor:
    (rows,) = torch.where(m)
    return x.index_put((rows,), x[rows] * 3, accumulate=True)


def to_one_place(x: Tensor, m: Tensor) -> Tensor:
    (rows,) = torch.where(m)
    return torch.zeros_like(x).index_add_(0, rows // 2, x[rows])


def scattered(x: Tensor, m: Tensor) -> Tensor:
    positive = x > 0
    return x.masked_scatter(positive, x[positive] * 7) + m[:, None]


def gradient(x: Tensor, m: Tensor) -> Tensor:
    w = x[:4].detach().requires_grad_()
    loss = (x[m] @ w).square().sum() + x[m].softmax(-1).amax(-1).sum()
    return torch.autograd.grad(loss, w)[0]


def normalised(x: Tensor, m: Tensor) -> Tensor:
    return torch.zeros_like(x).index_put((m,), F.layer_norm(x[m], (4,)))


def of_an_expert(x: Tensor, m: Tensor) -> Tensor:
    """The gradient of what an expert makes of tokens that chose it as one of two."""
    x = x.clone().requires_grad_()
    chosen = torch.stack([m.long(), (x[:, 0] > 0).long()], 1)
    token, place = torch.where(chosen == 1)
    y = torch.zeros_like(x).index_add(0, token, x[token].square() * x[token, place][:, None])
    return torch.autograd.grad(y.exp().sum(), x)[0]


def permuted(x: Tensor, m: Tensor) -> Tensor:
    """Tokens side by side, as many as there are choices, and back."""
    chosen = torch.stack([m, x[:, 0] > 0])
    tokens = torch.arange(ROWS).expand(2, -1).masked_select(chosen)
    y = x.index_select(0, tokens) * x[:, :2].t().masked_select(chosen)[:, None]
    at = tokens[:, None].expand(-1, 4)
    return torch.zeros_like(x).scatter_add(0, at, y.relu() + x.gather(0, at))


PROGRAMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": lambda x, m: x[m].sum(0),
    "mean": lambda x, m: torch.where(m.any(), x[m].mean(), 0.0),
    "by number": lambda x, m: x[m].sum() / (x[m].shape[0] + 0 * x.sum() + 1),
    "along columns": lambda x, m: x.t()[:, m].sum(1),
    "elements": lambda x, m: x[(x > 0) & m[:, None]].exp().sum(),
    "masked_select": lambda x, m: torch.masked_select(x, m[:, None]).square().sum(),
    "two equal masks": lambda x, m: (x[m & True] * x[m & True].abs()).sum(),
    "products": lambda x, m: x[m].t() @ x[m],
    "ones": lambda x, m: x[m].t() @ torch.ones(x[m].shape[0], 2, dtype=x.dtype),
    "views": lambda x, m: x[m].reshape(-1, 2, 2).transpose(1, 2).unsqueeze(1)[:, 0, 1].sum(0),
    "columns": lambda x, m: x[m][:, 1:3].sum(0) + x[m].amax(-1).sum(),
    "whole numbers": lambda x, m: ((x[m] * 4).long() // (m[m].long() + 1)[:, None]).sum(),
    "assigned": assigned,
    "index_add": added,
    "index_put": accumulated,
    "to one place": to_one_place,
    "masked_scatter": scattered,
    "gradient": gradient,
    "layer_norm": normalised,
    "experts": of_an_expert,
    "permuted": permuted,
    "index_select": lambda x, m: (
        x.index_select(0, m.nonzero()[:, 0]).sum(0) + x[m].index_select(1, torch.tensor([2, 0])).sum()
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_mask_gives_what_eager_gives(name: str) -> None:
    program = PROGRAMS[name]
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(ROWS, 4, generator=generator)
    captured = tt.capture(program, (x, torch.zeros(ROWS, dtype=torch.bool)))
    names = [node.name for node in captured.graph.inputs]
    for mask in MASKS:
        m = torch.tensor(mask, dtype=torch.bool)
        given = {"x": x.numpy().astype(np.float64), "m": m.numpy()}
        found = interpret(captured.graph, {n: given[n] for n in names}).array(captured.graph.outputs[0].node)
        np.testing.assert_allclose(found, program(x.double(), m).numpy(), rtol=1e-9, atol=1e-12)


X, M, L = torch.randn(ROWS, 4), torch.zeros(ROWS, dtype=torch.bool), torch.zeros(ROWS, dtype=torch.int64)


def verdict(specification: Any, implementation: Any, *arguments: Tensor) -> Verdict:
    return tt.refine(tt.capture(specification, arguments), tt.capture(implementation, arguments)).verdict


def test_division_where_it_is_defined() -> None:
    def safe(x: Tensor) -> Tensor:
        return (1 / x[x != 0]).sum()

    def guarded(other: float) -> Callable[[Tensor], Tensor]:
        return lambda x: torch.where(x != 0, 1 / torch.where(x != 0, x, 1.0), other).sum()

    assert verdict(safe, guarded(0.0), X) is Verdict.PROVED
    assert verdict(safe, guarded(3.0), X) is Verdict.REFUTED
    assert verdict(safe, lambda x: (1 / x).sum(), X) is not Verdict.PROVED


def test_whole_numbers_are_divided_where_the_mask_is_true_only() -> None:
    """A division by 0 stops a program: here it is never done, whatever the rows that are not selected hold."""

    def safe(a: Tensor, b: Tensor) -> Tensor:
        return (a[b != 0] // b[b != 0]).sum()

    def guarded(other: int) -> Callable[[Tensor, Tensor], Tensor]:
        return lambda a, b: torch.where(b != 0, a // torch.where(b != 0, b, 1), other).sum()

    assert verdict(safe, guarded(0), L, L) is Verdict.PROVED
    assert verdict(safe, guarded(7), L, L) is not Verdict.PROVED


def test_labels_that_are_left_out() -> None:
    def left_out(x: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(x[labels != 1], labels[labels != 1])

    def ignored(x: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(x, labels.masked_fill(labels == 1, -100))

    assert verdict(left_out, ignored, X, L) is Verdict.PROVED
    assert verdict(left_out, lambda x, labels: F.cross_entropy(x, labels), X, L) is Verdict.REFUTED
    # of labels that are -100 only the first leaves out some
    assert verdict(left_out, lambda x, labels: F.cross_entropy(x, labels, ignore_index=1), X, L) is Verdict.REFUTED


def experts(x: Tensor, gate: Tensor, w: Tensor) -> Tensor:
    """Each expert gets the tokens that chose it, however many there are: nothing is dropped."""
    values, chosen = torch.softmax(x @ gate, -1).topk(2, -1)
    out = torch.zeros_like(x)
    for e in range(3):
        rows, which = torch.where(chosen == e)
        out.index_add_(0, rows, torch.relu(x[rows] @ w[e]) * values[rows, which, None])
    return out


@pytest.mark.parametrize(("wrong", "wanted"), [(False, Verdict.PROVED), (True, Verdict.REFUTED)])
def test_experts_that_drop_nothing(wrong: bool, wanted: Verdict) -> None:
    def dense(x: Tensor, gate: Tensor, w: Tensor) -> Tensor:
        values, chosen = torch.softmax(x @ gate, -1).topk(2, -1)
        out = torch.zeros_like(x)
        for e in range(3):
            weight = (values * (chosen == e)).sum(-1, keepdim=True)
            out = out + torch.relu((x * weight if wrong and e == 2 else x) @ w[e]) * (
                weight if e < 2 or not wrong else 2
            )
        return out

    assert verdict(experts, dense, X, torch.randn(4, 3), torch.randn(3, 4, 4)) is wanted


def counted(x: Tensor, m: Tensor) -> Tensor:
    torch._check(x[m].shape[0] == 3)
    return x * 2


def of_two_masks(x: Tensor, m: Tensor) -> Tensor:
    return (x[m] + x[~m]).sum(0)


def left_of_one_row(x: Tensor, m: Tensor) -> Tensor:
    return x[m][0]


REFUSED: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "an output": lambda x, m: x[m],
    "unless": counted,
    "several masks together": of_two_masks,
    "one of the selected rows": left_of_one_row,
    "cumsum": lambda x, m: x[m].cumsum(0).sum(),
    "sort": lambda x, m: x[m].sort(0).values.sum(),
    "amax": lambda x, m: x[m].amax(0),
    "flip": lambda x, m: x[m].flip(0).sum(),
    "arange": lambda x, m: (x[m] * torch.arange(x[m].shape[0])[:, None]).sum(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_uses_are_refused_by_name(name: str) -> None:
    with pytest.raises(tt.UserError) as caught:
        tt.capture(REFUSED[name], (X, M))
    assert caught.value.code == "capture-selection"
    assert name in caught.value.found
