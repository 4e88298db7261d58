"""Programs with symbolic sizes: what is proved for all sizes holds at every small one when PyTorch runs it, and what is
wrong at some size is never proved."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="capture needs PyTorch")

import tantamount as tt  # noqa: E402
from support.symbolic_mutants import mutants  # noqa: E402
from tantamount.capture.programs import Ranks  # noqa: E402
from tantamount.ir.mesh import Mesh  # noqa: E402
from tantamount.sizes.domain import Domain, Symbol  # noqa: E402
from tantamount.verdict import Verdict  # noqa: E402

X = torch.zeros(2, 6, 4)
DYNAMIC = {"x": {0: "B", 1: "S"}}
Program = Callable[[torch.Tensor], torch.Tensor]


def _half(x: torch.Tensor) -> int:
    return x.shape[1] // 2


def _softmax(x: torch.Tensor) -> torch.Tensor:
    shifted = torch.exp(x - x.amax(1, keepdim=True))
    return shifted / shifted.sum(1, keepdim=True)


def _causal(diagonal: int) -> Program:
    def attention(x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(diagonal)
        return torch.softmax((x @ x.transpose(1, 2)).masked_fill(mask, float("-inf")), -1) @ x

    return attention


def _kernel(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True, scale=1.0)


def _positions(parts: int, wrong: bool = False) -> Program:
    def positions(x: torch.Tensor) -> torch.Tensor:
        n = x.shape[1] // parts
        ranges = [torch.arange(n) + (0 if wrong else k * n) for k in range(parts)]
        return x * torch.cat(ranges)[:, None]

    return positions


RIGHT: dict[str, tuple[Program, Program, str]] = {
    "a mean": (lambda x: x.mean(), lambda x: x.sum() / (x.shape[0] * x.shape[1] * 4), "B >= 2, S >= 2"),
    "a mean of means": (lambda x: x.mean((0, 1)), lambda x: x.mean(0).mean(0), "B >= 2, S >= 2"),
    "two halves": (
        lambda x: x.sum(1), lambda x: x[:, : _half(x)].sum(1) + x[:, _half(x) :].sum(1), "B >= 2, S >= 4, S % 2 == 0",
    ),
    "means of halves": (
        lambda x: x.mean(1), lambda x: (x[:, : _half(x)].mean(1) + x[:, _half(x) :].mean(1)) / 2,
        "B >= 2, S >= 4, S % 2 == 0",
    ),
    "a prefix": (lambda x: x.sum(1), lambda x: x[:, :3].sum(1) + x[:, 3:].sum(1), "B >= 2, S >= 5"),
    "flattened": (
        lambda x: x.reshape(-1, 4).reshape(x.shape[0], -1), lambda x: x.reshape(x.shape[0], x.shape[1] * 4),
        "B >= 2, S >= 2",
    ),
    "a contraction": (
        lambda x: torch.einsum("bsd,btd->st", x, x),
        lambda x: x.transpose(0, 1).reshape(x.shape[1], -1) @ x.permute(0, 2, 1).reshape(-1, x.shape[1]),
        "B >= 2, S >= 2",
    ),
    "softmax": (lambda x: torch.softmax(x, 1), _softmax, "B >= 2, S >= 2"),
    "causal attention": (_causal(1), _kernel, "B >= 2, S >= 2"),
    "a variance": (
        lambda x: x.var(1), lambda x: ((x - x.mean(1, keepdim=True)) ** 2).sum(1) / (x.shape[1] - 1), "B >= 2, S >= 2",
    ),
    "positions": (_positions(1), _positions(2), "B >= 2, S >= 4, S % 2 == 0"),
    "a reversal": (lambda x: x.sum(1), lambda x: x.flip(1).sum(1), "B >= 2, S >= 2"),
    "a rotation": (lambda x: torch.roll(x, 1, 1).sum(1), lambda x: x.sum(1), "B >= 2, S >= 2"),
    "the end of a running sum": (lambda x: x.cumsum(1)[:, -1], lambda x: x.sum(1), "B >= 2, S >= 2"),
    "two branches": (
        lambda x: x.sum((0, 1)), lambda x: x.sum((0, 1)) * (1 if x.shape[1] >= 4 else 2), "B >= 2, S >= 4",
    ),
}  # fmt: skip

# what is wrong at some size, often right at others
WRONG: dict[str, tuple[Program, Program]] = {
    "another count": (lambda x: x.mean(), lambda x: x.sum() / (x.shape[0] * x.shape[1] * 2)),
    "the sum of a batch instead of a sequence": (
        lambda x: x.sum((0, 1)) * x.shape[0], lambda x: x.sum((0, 1)) * x.shape[1],
    ),
    "right where S = 5": (lambda x: x.sum(1), lambda x: x[:, :5].sum(1) * x.shape[1] / 5),
    "right where S = 4": (lambda x: x[:, x.shape[1] - 2 : x.shape[1] - 1], lambda x: x[:, 2:3]),
    "right where S = 2": (lambda x: x[:, -1], lambda x: x[:, 1:].sum(1) / (x.shape[1] - 1)),
    "undefined where S = 2": (lambda x: x, lambda x: x * (x.shape[1] - 2) / (x.shape[1] - 2)),
    "right where S = 3": (lambda x: x, lambda x: x * (x.shape[1] - 2)),
    "right where B = S": (
        lambda x: x.sum((0, 1)) * x.shape[0], lambda x: x.sum((0, 1)) * (2 * x.shape[0] - x.shape[1]),
    ),
    "another order of elements": (lambda x: x.reshape(-1, 4), lambda x: x.transpose(0, 1).reshape(-1, 4)),
    "one element less": (lambda x: x.sum(1), lambda x: x[:, : x.shape[1] - 1].sum(1)),
    "an element twice": (lambda x: x.sum(1), lambda x: x[:, : x.shape[1] - 1].sum(1) + x[:, -2:].sum(1)),
    "a wider mask": (_causal(2), _kernel),
    "positions that start again": (_positions(1), _positions(2, wrong=True)),
    "another correction": (
        lambda x: x.var(1), lambda x: ((x - x.mean(1, keepdim=True)) ** 2).sum(1) / x.shape[1],
    ),
    "a rotation that is not undone": (lambda x: torch.roll(x, 2, 1), lambda x: torch.roll(x, x.shape[1] - 4, 1)),
    "a running sum too short": (lambda x: x.cumsum(1)[:, -1], lambda x: x.cumsum(1)[:, -2]),
    "means of unequal parts": (lambda x: x.mean(1), lambda x: (x[:, :2].mean(1) + x[:, 2:].mean(1)) / 2),
    "the greatest of a part": (lambda x: x.amax(1), lambda x: x[:, : x.shape[1] - 1].amax(1)),
}  # fmt: skip


def _refined(specification: Program, implementation: Program) -> tuple[tt.Report, Domain]:
    first, second = (tt.capture(program, (X,), dynamic=DYNAMIC) for program in (specification, implementation))
    domain = first.graph.sizes.joined(second.graph.sizes)
    return tt.refine(first, second), domain


def _agree(specification: Program, implementation: Program, b: int, s: int) -> bool:
    x = torch.randn(b, s, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(b * 10 + s))
    return torch.allclose(specification(x).double(), implementation(x).double(), rtol=1e-9, atol=1e-9)


def _sizes(domain: Domain) -> list[tuple[int, int]]:
    points = itertools.product(range(2, 8), repeat=2)
    return [(b, s) for b, s in points if domain.contains({"B": b, "S": s})]


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_proved_for_all_sizes(name: str) -> None:
    specification, implementation, sizes = RIGHT[name]
    report, domain = _refined(specification, implementation)
    assert report.proved, report
    assert [a.text for a in report.assumptions if a.name.startswith("sizes")] == [f"for all sizes with {sizes}"]
    assert str(domain) == sizes
    assert all(_agree(specification, implementation, b, s) for b, s in _sizes(domain))


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_at_some_size_is_not_proved(name: str) -> None:
    specification, implementation = WRONG[name]
    report, domain = _refined(specification, implementation)
    different = [at for at in _sizes(domain) if not _agree(specification, implementation, *at)]
    assert different, "the test is about programs that differ"
    assert report.verdict is Verdict.REFUTED, report
    assert report.counterexample is not None or "holds" in str(report)
    assert "the sizes may be any with" in " ".join(report.notes)


MUTATED = ["two halves", "means of halves", "a prefix", "flattened", "a contraction", "positions", "a rotation"]


@pytest.mark.parametrize("name", MUTATED)
def test_mutants_are_proved_only_if_they_are_right_at_every_size(name: str) -> None:
    specification, implementation, _ = RIGHT[name]
    first, second = (tt.capture(program, (X,), dynamic=DYNAMIC) for program in (specification, implementation))
    found = list(mutants_of(first, second, seed=1, count=8))
    assert len(found) == 8
    assert [what for what, verdict, others in found if verdict is Verdict.PROVED and others] == []


def mutants_of(
    first: Any, second: Any, seed: int, count: int
) -> Iterator[tuple[str, Verdict, list[tuple[dict[str, int], Verdict | str]]]]:
    """What was changed, the verdict for all sizes, and the single sizes at which it is another one (asked only of those
    that are proved)."""
    for what, ranks in mutants(Ranks((second,), Mesh()), seed, count):
        try:
            job = first.against(ranks)
            verdict = tt.refine(job).verdict
        except tt.UserError:
            yield what, Verdict.VACUOUS, []  # the mutant is no program
            continue
        others: list[tuple[dict[str, int], Verdict | str]] = []
        if verdict is Verdict.PROVED:
            for b, s in _sizes(job.sizes)[::3]:
                try:
                    there = tt.refine(job.at({"B": b, "S": s})).verdict
                except tt.UserError as problem:
                    there = str(problem)
                if there is not Verdict.PROVED:
                    others.append(({"B": b, "S": s}, there))
        yield what, verdict, others


def test_a_size_that_a_program_fixes_is_refused() -> None:
    with pytest.raises(tt.UserError, match="capture-dynamic"):
        tt.capture(lambda x: x[:, x.shape[1] - 2], (X,), dynamic=DYNAMIC)  # select wants a number


def test_names_of_arguments_are_checked() -> None:
    for dynamic in ({"y": {0: "B"}}, {"x": {3: "B"}}, {"x": {0: "not a name"}}, {"x": {0: "B", 1: "B"}}):
        with pytest.raises(tt.UserError, match="capture-dynamic"):
            tt.capture(lambda x: x + 1, (X,), dynamic=dynamic)


def test_ranges_are_those_of_a_dim() -> None:
    program = tt.capture(lambda x: x + 1, (X,), dynamic={"x": {1: torch.export.Dim("S", min=4, max=512)}})
    (symbol,) = program.graph.sizes.symbols
    assert symbol == Symbol("S", symbol.hint, 4, 512)


def test_a_job_with_size_symbols_is_saved_and_read(tmp_path: Path) -> None:
    programs = [tt.capture(RIGHT["two halves"][k], (X,), dynamic=DYNAMIC) for k in (0, 1)]
    path = tt.save_job(tmp_path, *programs)
    report = tt.refine(tt.read_job(path))
    assert report.proved
    assert "for all sizes with B >= 2, S >= 4, S % 2 == 0" in str(report)


def test_programs_captured_at_different_examples_do_not_fit() -> None:
    first = tt.capture(lambda x: x + 1, (X,), dynamic=DYNAMIC)
    second = tt.capture(lambda x: x + 1, (torch.zeros(2, 10, 4),), dynamic=DYNAMIC)
    with pytest.raises(tt.UserError, match="job-sizes"):
        tt.refine(first, second)


def test_an_exported_program_keeps_its_sizes() -> None:
    exported = torch.export.export(torch.nn.Linear(4, 4), (X,), strict=False)
    with pytest.raises(tt.UserError, match="capture-dynamic"):
        tt.capture(exported, dynamic=DYNAMIC)


@pytest.mark.parametrize("name", ["report.json", "report.html", "report.txt"])
def test_reports_are_saved(tmp_path: Path, name: str) -> None:
    specification, implementation, _ = RIGHT["a mean"]
    report, _ = _refined(specification, implementation)
    report.save(tmp_path / name)
    text = (tmp_path / name).read_text()
    assert "for all sizes with B" in text
