"""Masks and ignored labels as programs write them, in one way or another, and wrong twins: at every number of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tantamount as tt
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")
from torch import Tensor  # noqa: E402
from torch.nn import functional as F  # noqa: E402

LENGTH, WINDOW = 5, 2
X, DOCUMENTS = torch.ones(LENGTH, LENGTH), torch.zeros(LENGTH, dtype=torch.int64)


def apart() -> Tensor:
    return torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)


def window() -> Tensor:
    return (apart() >= 0) & (apart() < WINDOW)


def first_key() -> Tensor:
    return (torch.arange(LENGTH)[:, None] - WINDOW + 1).clamp(min=0)


def counted(wide: int) -> Tensor:
    place = torch.ones(LENGTH, dtype=torch.int64).cumsum(0)
    return (place[:, None] >= place) & (place[:, None] < place + wide)


def lower(offset: int) -> Tensor:
    return torch.ones(LENGTH, LENGTH).tril(offset)


WINDOWS: dict[str, Callable[[int], Tensor]] = {  # how many keys a query sees
    "clamped": lambda n: apart() == apart().clamp(0, n - 1),
    "clamped twice": lambda n: apart() == apart().clamp(min=0).clamp(max=n - 1),
    "first and last key": lambda n: (
        (torch.arange(LENGTH) >= first_key() - (n - WINDOW))
        & (torch.arange(LENGTH) < torch.arange(LENGTH)[:, None] + 1)
    ),
    "a difference": lambda n: lower(0) - lower(-n) > 0,
    "exclusive or": lambda n: lower(0).bool() ^ lower(-n).bool(),
    "diagonals": lambda n: sum(torch.diag(torch.ones(LENGTH - k), -k) for k in range(n)) > 0,  # type: ignore[arg-type]
    "a product": lambda n: ((apart() >= 0).long() * (apart() < n).long()).bool(),
    "running sums": counted,
}


def attending(mask: Callable[[], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: x.masked_fill(~mask(), float("-inf")).softmax(-1)


def verdict(first: Callable[..., Any], second: Callable[..., Any], *given: Tensor) -> Verdict:
    return tt.refine(tt.capture(first, given), tt.capture(second, given)).verdict


@pytest.mark.parametrize("name", WINDOWS)
def test_sliding_windows(name: str) -> None:
    own = WINDOWS[name]
    assert bool((own(WINDOW) == window()).all())
    assert verdict(attending(window), attending(lambda: own(WINDOW)), X) is Verdict.PROVED
    if name in ("clamped", "exclusive or"):
        assert verdict(attending(window), attending(lambda: own(WINDOW + 1)), X) is Verdict.REFUTED


def of_documents(same: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    def run(x: Tensor, documents: Tensor) -> Tensor:
        return x.masked_fill(~(same(documents[:, None], documents) & (apart() >= 0)), float("-inf")).softmax(-1)

    return run


def test_documents() -> None:
    """Conditions on the same data that are equal in every case."""
    first = of_documents(lambda a, b: a == b)
    for same in (
        lambda a, b: (a - b).abs() < 1,
        lambda a, b: ~((a < b) | (a > b)),
        lambda a, b: (a ^ b) == 0,
        lambda a, b: (a - b) ** 2 < 1,
    ):
        assert verdict(first, of_documents(same), X, DOCUMENTS) is Verdict.PROVED
    assert verdict(first, of_documents(lambda a, b: (a - b).abs() < 2), X, DOCUMENTS) is Verdict.REFUTED


def test_boundaries_of_documents() -> None:
    """Documents are numbered by how many have begun."""
    begins = torch.zeros(LENGTH, dtype=torch.bool)

    def numbered(same: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
        return lambda x, begins: of_documents(same)(x, begins.long().cumsum(0))

    first = numbered(lambda a, b: a == b)
    for same in (lambda a, b: ~((a ^ b).bool()), lambda a, b: (a - 1) == (b - 1)):
        assert verdict(first, numbered(same), X, begins) is Verdict.PROVED
    assert verdict(first, numbered(lambda a, b: (a ^ b) <= 1), X, begins) is Verdict.REFUTED


@pytest.mark.parametrize(
    ("square", "bounds", "equal"),
    [
        (lambda d: d * d < 5, lambda d: (d >= -2) & (d <= 2), True),
        (lambda d: d * d <= 4, lambda d: d.abs() < 3, True),
        (lambda d: 3 * d * d >= 12, lambda d: d.abs() >= 2, True),
        (lambda d: d * d < 4, lambda d: d.abs() <= 2, False),
        (lambda d: d * d > 4, lambda d: d.abs() >= 2, False),
        (lambda d: (d ^ 3) == 0, lambda d: d == 2, False),
    ],
)
def test_squares_and_bits_against_numbers(square: Any, bounds: Any, equal: bool) -> None:
    found = verdict(lambda d: square(d).float(), lambda d: bounds(d).float(), DOCUMENTS)
    assert found is (Verdict.PROVED if equal else Verdict.REFUTED)


def clamped(divisor: Callable[[Tensor], Tensor], ignored: int) -> Callable[[Tensor, Tensor], Tensor]:
    def run(x: Tensor, labels: Tensor) -> Tensor:
        loss = x.log_softmax(-1).gather(1, labels.clamp(min=0)[:, None])[:, 0]
        return -(loss * (labels != ignored)).sum() / divisor(labels)

    return run


def test_ignored_labels_that_are_clamped() -> None:
    labels = torch.zeros(LENGTH, dtype=torch.int64)
    count = lambda labels: (labels != -100).sum()  # noqa: E731
    given = lambda x, labels: F.cross_entropy(x, labels)  # noqa: E731
    assert verdict(given, clamped(count, -100), X, labels) is Verdict.PROVED
    assert verdict(given, clamped(count, -1), X, labels) is Verdict.REFUTED


RANKS, VOCABULARY = 2, 8
HERE = VOCABULARY // RANKS  # of the vocabulary on each rank
Picked = Callable[[Tensor, Tensor, int], Tensor]


def picked(z: Tensor, index: Tensor) -> Tensor:
    return z.gather(-1, index[:, None])[:, 0]


def inside(t: Tensor, low: int) -> Tensor:
    return (t - low).clamp(0, HERE - 1)


TARGETS: dict[str, Picked] = {  # the logit of a label, or 0 where another rank has it
    "a clamped label is itself": lambda z, t, low: picked(z, inside(t, low)) * (inside(t, low) == t - low),
    "by its distance": lambda z, t, low: picked(z, inside(t, low)) * ((inside(t, low) - t + low).abs() < 1),
    "by look-up": lambda z, t, low: z[torch.arange(len(t)), inside(t, low)] * (inside(t, low) == t - low),
    "by the middle": lambda z, t, low: picked(z, inside(t, low)) * ((2 * (t - low) - HERE + 1).abs() < HERE),
    "by quotients": lambda z, t, low: picked(z, inside(t, low)) * (t // HERE == low // HERE),
    "exclusive or": lambda z, t, low: picked(z, inside(t, low)) * ((t >= low) ^ (t >= low + HERE)),
}
WRONG_TARGETS: dict[str, Picked] = {
    "one too many": lambda z, t, low: picked(z, inside(t, low)) * ((t - low).clamp(0, HERE) == t - low),
    "the quotient of the first rank": lambda z, t, low: picked(z, inside(t, low)) * (t // HERE == 0),
}


def of_ranks(target: Picked, ignored: int | None) -> Any:
    from torch import distributed as dist

    def reduced(x: Tensor, op: Any = dist.ReduceOp.SUM) -> Tensor:
        out = x.clone()
        dist.all_reduce(out, op=op)
        return out

    def build(rank: int) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
        def loss(logits: Tensor, labels: Tensor) -> Tensor:
            z = logits - reduced(logits.amax(-1), dist.ReduceOp.MAX)[:, None]
            each = reduced(z.exp().sum(-1)).log() - reduced(target(z, labels, rank * HERE))
            if ignored is None:
                return each.mean()
            kept = labels != ignored
            return (each * kept).sum() / kept.sum()

        return loss, (torch.ones(LENGTH, HERE), torch.zeros(LENGTH, dtype=torch.int64))

    return tt.capture_ranks(build, RANKS, mesh={"tp": RANKS})


def of_labels(target: Picked, ignored: int | None = None) -> Verdict:
    def whole(logits: Tensor, labels: Tensor) -> Tensor:
        if ignored is not None:
            return F.cross_entropy(logits, labels, ignore_index=ignored)
        return -logits.log_softmax(-1).gather(1, labels[:, None])[:, 0].mean()

    spec = tt.capture(whole, (torch.ones(LENGTH, VOCABULARY), torch.zeros(LENGTH, dtype=torch.int64)))
    placed: dict[str, Any] = {"inputs": {"logits": "Shard(1)"}, "outputs": {"output": "Replicate()"}}
    return tt.refine(spec, of_ranks(target, ignored), **placed).verdict


@pytest.mark.parametrize("name", TARGETS)
def test_labels_of_a_split_vocabulary(name: str) -> None:
    assert of_labels(TARGETS[name]) is Verdict.PROVED


def test_ignored_labels_of_a_split_vocabulary() -> None:
    assert of_labels(TARGETS["a clamped label is itself"], -100) is Verdict.PROVED


@pytest.mark.parametrize("name", WRONG_TARGETS)
def test_wrong_labels_of_a_split_vocabulary(name: str) -> None:
    assert of_labels(WRONG_TARGETS[name]) is Verdict.REFUTED
