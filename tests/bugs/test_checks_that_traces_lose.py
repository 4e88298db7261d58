"""What eager checks and a trace does not record: implementations that stop where specifications go on were PROVED.

``one_hot`` was traced as comparisons, which are false at classes out of range; assertions were dropped in captures, and
assumed in files.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tantamount as tt

torch = pytest.importorskip("torch", reason="captures need PyTorch")
import torch.nn.functional as F  # noqa: E402
from torch import Tensor  # noqa: E402

Program = Callable[[Tensor, Tensor], Tensor]
CLASSES = 5
# functions of a tensor [5, 2] and of places [3], which eager stops at places out of range
READERS: dict[str, Program] = {
    "index": lambda x, i: x[i],
    "index of two": lambda x, i: x[i, i * 0],
    "take": lambda x, i: x.take(i),
    "take_along_dim, flat": lambda x, i: torch.take_along_dim(x[:, 0], i),
    "gather": lambda x, i: x[:, 0].gather(0, i),
    "index_select": lambda x, i: x.index_select(0, i),
    "embedding": lambda x, i: F.embedding(i, x),
    "one_hot": lambda x, i: F.one_hot(i, CLASSES),
    "one_hot, by name": lambda x, i: F.one_hot(i, num_classes=CLASSES),
    "one_hot, the operator": lambda x, i: torch.ops.aten.one_hot(i, CLASSES),
    "scatter": lambda x, i: x[:, 0].scatter(0, i, 1.0),
    "scatter_add": lambda x, i: x[:, 0].scatter_add(0, i, x[:3, 1]),
    "index_add": lambda x, i: x.index_add(0, i, x[:3]),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:3] * 0),
    "index_fill": lambda x, i: x.index_fill(0, i, 1.0),
    "index_put": lambda x, i: x.index_put((i,), x[0] * 0),
    "nll_loss": lambda x, i: F.nll_loss(x.t()[:, :CLASSES].expand(2, 5)[:1].expand(3, 5), i),
    "cross_entropy": lambda x, i: F.cross_entropy(x[:, 0].expand(3, 5), i, reduction="none"),
}


@pytest.mark.parametrize("name", READERS)
def test_what_stops_at_places_out_of_range_is_not_proved_against_what_goes_on(name: str) -> None:
    reader = READERS[name]
    x, places = torch.ones(5, 2), torch.arange(3)
    with pytest.raises((RuntimeError, IndexError)):
        reader(x, places + 77)
    specification = tt.capture(lambda x, i: x.sum() * 0, (x, places))
    implementation = tt.capture(lambda x, i: x.sum() * 0 + reader(x, i).sum() * 0, (x, places))
    assert tt.refine(specification, implementation).verdict is not tt.Verdict.PROVED


def test_what_is_in_range_is_proved() -> None:
    x, places = torch.ones(5, 2), torch.arange(3)
    wanted = tt.capture(lambda x, i: (i[:, None] % CLASSES == torch.arange(CLASSES)).long(), (x, places))
    implementation = tt.capture(lambda x, i: F.one_hot(i % CLASSES, CLASSES), (x, places))
    assert tt.refine(wanted, implementation).verdict is tt.Verdict.PROVED


def checked(x: Tensor) -> Tensor:
    torch._assert_async((x * x >= 0).all())
    return x * 2


def checked_too_much(x: Tensor) -> Tensor:
    torch._assert_async((x > 0).all())
    return x * 2


@pytest.mark.parametrize(
    ("specification", "implementation", "verdict"),
    [
        (lambda x: x * 2, checked_too_much, tt.Verdict.REFUTED),
        (checked_too_much, lambda x: x * 2, tt.Verdict.PROVED),
        (checked_too_much, checked_too_much, tt.Verdict.PROVED),
        (lambda x: x * 2, lambda x: x + x, tt.Verdict.PROVED),
    ],
)
def test_assertions_of_an_implementation_have_to_hold(
    specification: Callable[[Tensor], Tensor], implementation: Callable[[Tensor], Tensor], verdict: tt.Verdict
) -> None:
    x = (torch.ones(3),)
    assert tt.refine(tt.capture(specification, x), tt.capture(implementation, x)).verdict is verdict


def test_assertions_that_hold_anyway_are_not_refuted() -> None:
    x = (torch.ones(3),)
    found = tt.refine(tt.capture(lambda x: x + x, x), tt.capture(checked, x))
    assert found.verdict is not tt.Verdict.REFUTED
