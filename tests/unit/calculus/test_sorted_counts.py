"""Groups of sorted rows: how many groups end at or before a place is what the sorted row has there.

Ends are running sums of a histogram, however it is counted. Ends by other keys, shifted ends, and rows that are not in
order give other groups, and are refuted on values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tantamount as tt
from tantamount import Verdict

torch = pytest.importorskip("torch", reason="programs are captured")

TOKENS, EXPERTS, CHOSEN, WIDTH = 2, 3, 2, 8
ROWS = TOKENS * CHOSEN
Ends = Callable[[Any, Any], Any]  # of the experts in order, and as they were chosen


def _histogram(x: Any) -> Any:
    return torch.histc(x.float(), bins=EXPERTS, min=0, max=EXPERTS - 1)


RIGHT: dict[str, Ends] = {
    "a histogram": lambda v, k: _histogram(v).cumsum(0),
    "a histogram of what is not in order": lambda v, k: _histogram(k).cumsum(0),
    "counts": lambda v, k: torch.bincount(k, minlength=EXPERTS).cumsum(0),
    "one-hot rows": lambda v, k: torch.nn.functional.one_hot(k, EXPERTS).sum(0).cumsum(0),
    "comparisons": lambda v, k: (v[:, None] <= torch.arange(EXPERTS)).sum(0),
    "what is greater": lambda v, k: ROWS - (k[:, None] > torch.arange(EXPERTS)).sum(0),
    "a group that ends with all": lambda v, k: (v[:, None] <= torch.arange(EXPERTS - 1)).sum(0),
    "bins to the next number": lambda v, k: torch.histc(v.float(), EXPERTS, 0, EXPERTS).cumsum(0),
    "a search": lambda v, k: torch.searchsorted(v, torch.arange(EXPERTS), right=True),
    "a search for the next number": lambda v, k: torch.searchsorted(v, torch.arange(1, EXPERTS + 1)),
}
WRONG: dict[str, Ends] = {
    "exclusive sums": lambda v, k: _histogram(v).cumsum(0) - _histogram(v),
    "one too late": lambda v, k: _histogram(v).cumsum(0) + 1,
    "what is less": lambda v, k: (v[:, None] < torch.arange(EXPERTS)).sum(0),
    "all but one expert": lambda v, k: (_histogram(v) * torch.tensor([1.0, 0.0, 1.0])).cumsum(0),
    "counts of other places": lambda v, k: _histogram(k[1:]).cumsum(0),
    "a search to the left": lambda v, k: torch.searchsorted(v, torch.arange(EXPERTS)),
    "a search one too far": lambda v, k: torch.searchsorted(v, torch.arange(1, EXPERTS + 1), right=True),
    "a search in what is not in order": lambda v, k: torch.searchsorted(k, torch.arange(EXPERTS), right=True),
    "groups too few": lambda v, k: (v[:, None] <= torch.arange(EXPERTS - 2)).sum(0),
}


def groups(ends: Ends, *, descending: bool = False, ordered: bool = True) -> Any:
    """A program: the number of groups that end at or before each place."""

    def program(scores: Any) -> Any:
        chosen = scores.topk(CHOSEN)[1].reshape(-1)
        row = chosen.sort(descending=descending)[0] if ordered else chosen
        return (ends(row, chosen)[None] <= torch.arange(ROWS)[:, None]).sum(1).float()

    return tt.capture(program, (torch.randn(TOKENS, EXPERTS),))


def in_order(*, descending: bool = False, ordered: bool = True) -> Any:
    """A program: the chosen experts in order."""

    def program(scores: Any) -> Any:
        chosen = scores.topk(CHOSEN)[1].reshape(-1)
        return (chosen.sort(descending=descending)[0] if ordered else chosen).float()

    return tt.capture(program, (torch.randn(TOKENS, EXPERTS),))


def test_the_group_of_a_place_is_what_the_row_has_there() -> None:
    wanted = in_order()
    for name, ends in RIGHT.items():
        assert tt.refine(wanted, groups(ends)).verdict is Verdict.PROVED, name
    for name, ends in WRONG.items():
        assert tt.refine(wanted, groups(ends)).verdict is Verdict.REFUTED, name


def test_other_orders_have_other_groups() -> None:
    ends = RIGHT["comparisons"]
    for order in ({"descending": True}, {"ordered": False}):
        assert tt.refine(in_order(**order), groups(ends, **order)).verdict is Verdict.REFUTED


def test_experts_by_groups_are_experts_that_are_looked_up() -> None:
    """A product group by group of tokens in the order of their experts, brought back: its groups are in order, too, and
    cover every row, or the product has no value."""

    def looked_up(x: Any, w: Any, scores: Any) -> Any:
        chosen = scores.topk(CHOSEN)[1].reshape(-1)
        rows = x[:, None].expand(TOKENS, CHOSEN, WIDTH).reshape(ROWS, WIDTH)
        return torch.bmm(w[chosen], rows[..., None])[..., 0].view(TOKENS, CHOSEN, WIDTH).sum(1)

    def grouped(ends: Ends, order: Any = torch.argsort, turned: bool = False) -> Any:
        def program(x: Any, w: Any, scores: Any) -> Any:
            chosen = scores.topk(CHOSEN)[1].reshape(-1)
            places = order(chosen)
            last = ends(chosen[places], chosen).to(torch.int32)
            experts = (w.flip(0) if turned else w).transpose(-2, -1)
            out = torch._grouped_mm(x[places // CHOSEN], experts, last)
            return out[torch.argsort(places)].view(TOKENS, CHOSEN, WIDTH).sum(1)

        return program

    inputs = torch.randn(TOKENS, WIDTH).bfloat16(), torch.randn(EXPERTS, WIDTH, WIDTH).bfloat16()
    example = (*inputs, torch.randn(TOKENS, EXPERTS))
    wanted, counts, shifted = tt.capture(looked_up, example), RIGHT["counts"], WRONG["exclusive sums"]

    def verdict(*how: Any) -> Verdict:
        return tt.refine(wanted, tt.capture(grouped(*how), example)).verdict

    assert verdict(counts) is Verdict.PROVED
    assert verdict(counts, torch.argsort, True) is Verdict.REFUTED  # the weights of other experts
    assert verdict(counts, lambda k: torch.argsort(k, descending=True)) is Verdict.REFUTED
    assert verdict(shifted) is Verdict.REFUTED
    assert verdict(lambda v, k: counts(v, k).roll(1)) is Verdict.REFUTED  # the same ends, in another order


def test_rows_of_a_batch() -> None:
    """Each has groups of its own: those of another row are other groups."""

    def chosen(scores: Any) -> Any:
        return scores.topk(1)[1][..., 0]

    def grouped(ends: Callable[[Any], Any]) -> Any:
        def program(scores: Any) -> Any:
            return (ends(chosen(scores))[:, None] <= torch.arange(3)[None, :, None]).sum(-1)

        return tt.capture(program, (torch.randn(2, 3, EXPERTS),))

    def searched(k: Any) -> Any:
        return torch.searchsorted(k.sort(-1)[0], torch.arange(EXPERTS).expand(2, EXPERTS).contiguous(), right=True)

    def counted(k: Any) -> Any:
        return torch.nn.functional.one_hot(k, EXPERTS).sum(1).cumsum(-1)

    wanted = tt.capture(lambda scores: chosen(scores).sort(-1)[0], (torch.randn(2, 3, EXPERTS),))
    for ends in (searched, counted):
        assert tt.refine(wanted, grouped(ends)).verdict is Verdict.PROVED
        assert tt.refine(wanted, grouped(lambda k, ends=ends: ends(k).roll(1, 0))).verdict is Verdict.REFUTED


X, Y = torch.randn(5), torch.randn(3)
COUNTS: dict[str, Callable[[Any, Any], Any]] = {  # of elements below y: right and wrong ones in turn
    "a search": lambda x, y: torch.searchsorted(x.sort()[0], y),
    "a search to the right": lambda x, y: torch.searchsorted(x.sort()[0], y, right=True),
    "negated": lambda x, y: 5 - torch.searchsorted((-x).sort()[0], -y, right=True),
    "a search in descending order": lambda x, y: torch.searchsorted(x.sort(descending=True)[0], y),
    "in another order": lambda x, y: (x.sort(descending=True)[0][:, None] < y).sum(0),
    "all but the least": lambda x, y: (x.sort()[0][1:, None] < y).sum(0),
    "and where it is not in order": lambda x, y: (x.sort()[0].diff() < 0).sum() + (x[:, None] < y).sum(0),
    "and where two are equal": lambda x, y: (x.sort()[0].diff() <= 0).sum() + (x[:, None] < y).sum(0),
}


def test_what_is_counted_in_order() -> None:
    spec = tt.capture(lambda x, y: (x[:, None] < y).sum(0), (X, Y))
    for k, (name, program) in enumerate(COUNTS.items()):
        wanted = Verdict.REFUTED if k % 2 else Verdict.PROVED
        assert tt.refine(spec, tt.capture(program, (X, Y))).verdict is wanted, name
