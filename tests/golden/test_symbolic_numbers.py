"""Numbers that are inputs: offsets, step counts, shard sizes, scales. What is proved holds for all of them, and what is
wrong for one is refuted there, or not proved."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="capture needs PyTorch")

import tantamount as tt  # noqa: E402
from tantamount.sizes.domain import Domain, Symbol, parse_size, shown_sizes, symbol_of  # noqa: E402
from tantamount.verdict import Verdict  # noqa: E402

X = torch.zeros(12, 3)
Program = Callable[[Any, Any], Any]


def _angles(x: Any, first: Any, parts: int) -> Any:
    return x * torch.cos(torch.arange(parts * first, parts * first + x.shape[0], dtype=torch.float32))[:, None]


# Two programs, the number that both get, what is proved of it, and a twin of the second that is wrong.
PAIRS: dict[str, tuple[Program, Program, float, str, Program]] = {
    "an offset": (
        lambda x, k: x[k : k + 4] * 2, lambda x, k: (2 * x)[k:][:4], 3, "0 <= K <= 8",
        lambda x, k: (2 * x)[k + 1 :][:4],
    ),
    "an offset of positions": (
        lambda x, k: _angles(x, k, 1),
        lambda x, k: torch.cos(torch.arange(x.shape[0], dtype=torch.float32) + k)[:, None] * x, 3, "K >= 0",
        lambda x, k: _angles(x, k, 2),
    ),
    "a step count": (
        lambda x, k: (0.9 * x) / (1 - 0.9 ** (k + 1)), lambda x, k: (x - 0.1 * x) / (1 - 0.9 ** (1 + k)), 3, "K >= 0",
        lambda x, k: (0.9 * x) / (1 - 0.9 ** (k + 2)),
    ),
    "a factor": (
        lambda x, k: x * k + x / (k + 1), lambda x, k: k * x + (1 / (k + 1)) * x, 3, "K >= 0",
        lambda x, k: k * x + (1 / (k + 2)) * x,
    ),
    "an index": (
        lambda x, k: (x * (torch.arange(12) == k)[:, None]).sum(0), lambda x, k: x.select(0, k), 3, "0 <= K <= 11",
        lambda x, k: x.select(0, 11 - k),
    ),
    "a threshold": (
        lambda x, k: torch.where(x < k, x, k), lambda x, k: torch.clamp(x, max=k) + 0 * k, 3, "K >= 0",
        lambda x, k: torch.where(x < k, x, 0 * x),
    ),
    "a scale": (
        lambda x, s: torch.softmax(x * s, -1), lambda x, s: torch.exp(s * x) / torch.exp(x * s).sum(-1, keepdim=True),
        0.5, "", lambda x, s: torch.softmax(x * s * s, -1),
    ),
}  # fmt: skip


def _refined(spec: Program, impl: Program, number: float) -> tt.Report:
    """The report on two programs of x and a number, called ``s`` or ``k`` by their arguments."""
    name = spec.__code__.co_varnames[1]
    spec_, impl_ = (tt.capture(program, (X, number), dynamic={name: "K"}) for program in (spec, impl))
    return tt.refine(spec_, impl_)


@pytest.mark.parametrize("name", PAIRS)
def test_a_number_is_proved_for_all_values(name: str) -> None:
    spec, impl, number, sizes, _ = PAIRS[name]
    report = _refined(spec, impl, number)
    assert report.verdict is Verdict.PROVED, str(report)
    found = [a.text for a in report.assumptions if a.name == "sizes"]
    assert found == ([f"for all sizes with {sizes}"] if sizes else []), found


@pytest.mark.parametrize("name", PAIRS)
def test_a_twin_is_refuted_with_the_number(name: str) -> None:
    spec, _, number, sizes, wrong = PAIRS[name]
    report = _refined(spec, wrong, number)
    assert report.verdict is Verdict.REFUTED, str(report)
    assert ("at K = " in str(report)) if sizes else "s = 2" in str(report) or "s " in str(report), str(report)


def test_a_shard_size_on_ranks() -> None:
    def spec(x: Any, k: Any) -> Any:
        return x[: 2 * k].sum(0)

    def build(wrong: int) -> Callable[[int], Any]:
        def rank(r: int) -> Any:
            def run(x: Any, k: Any) -> Any:
                part = x[r * k : r * k + k + wrong * r]
                total = part.sum(0)
                torch.distributed.all_reduce(total)
                return total

            return run, (X, 3)

        return rank

    whole = tt.capture(spec, (X, 3), dynamic={"k": "K"})
    right, wrong = (tt.capture_ranks(build(w), 2, dynamic={"k": "K"}) for w in (0, 1))
    report = tt.refine(whole, right)
    assert report.verdict is Verdict.PROVED, str(report)
    assert any("K <= 6" in a.text for a in report.assumptions), str(report)
    assert tt.refine(whole, wrong).verdict is Verdict.REFUTED


def test_what_numbers_cannot_be_is_refused() -> None:
    wrong = [({"k": {0: "K"}}, 3), ({"k": "K"}, -1), ({"k": "2K"}, 3), ({"k": torch.export.Dim("K", min=4)}, 3),
             ({"k": "K", "x": {0: "K"}}, 3), ({"j": "K"}, 3)]  # fmt: skip
    for dynamic, number in wrong:
        with pytest.raises(tt.UserError, match="capture-dynamic"):
            tt.capture(lambda x, k: x * k, (X, number), dynamic=dynamic)
    with pytest.raises(tt.UserError, match="capture-dynamic"):  # a program for one number
        tt.capture(lambda x, k: torch.cat([x for _ in range(k)]), (X, 3), dynamic={"k": "K"})


# ------------------------------------------------------------------------------------------------ in files
def _files(folder: Path, number: str, low: int, ranges: str) -> Path:
    """A job about ``x * K`` and ``x * number``, for K from ``low`` on, at ``ranges`` of the job."""
    for name, factor in (("spec", "K"), ("impl", number)):
        nodes = [
            {"name": "x", "op": "placeholder", "target": "x", "shape": [2, 3], "dtype": "float32"},
            {"name": "y", "op": "call_function", "target": "aten.mul.Tensor", "args": [{"node": "x"}, {"size": factor}],
             "kwargs": {}, "shape": [2, 3], "dtype": "float32"},
            {"name": "z", "op": "call_function", "target": "aten.relu.default", "args": [{"node": "y"}], "kwargs": {},
             "shape": [2, 3], "dtype": "float32"},
        ]  # fmt: skip
        document = {
            "format": "fx-nodes/1", "nodes": nodes, "outputs": [{"name": "z", "node": "z"}],
            "sizes": {"symbols": {"K": {"hint": low + 2, "min": low}}},
        }  # fmt: skip
        (folder / f"{name}.json").write_text(json.dumps(document))
    path = folder / "job.toml"
    programs = '[spec]\ngraph = "spec.json"\n[impl]\ngraphs = ["impl.json"]\nmesh = {}\n'
    path.write_text(
        f'format = "job/1"\n{programs}[inputs]\ndefault = "Replicate()"\n[outputs]\nz = "Replicate()"\n{ranges}'
    )
    return path


def test_numbers_below_one_in_files(tmp_path: Path) -> None:
    report = tt.refine(tt.read_job(_files(tmp_path, "2*K - K", -3, "")))
    assert report.verdict is Verdict.PROVED
    assert "for all sizes with K >= -3" in [a.text for a in report.assumptions]
    wrong = tt.refine(tt.read_job(_files(tmp_path, "-K", -3, "")))
    assert wrong.verdict is Verdict.REFUTED
    square = tt.refine(tt.read_job(_files(tmp_path, "K**2", 0, "")))  # right at 0 and 1
    assert square.verdict is Verdict.REFUTED, str(square)


def test_ranges_of_a_job(tmp_path: Path) -> None:
    narrow = "[symbols]\nK = { min = 0, max = 1 }\n"
    report = tt.refine(tt.read_job(_files(tmp_path, "K**2", 0, narrow)))
    assert report.verdict is Verdict.PROVED, str(report)
    assert "for all sizes with 0 <= K <= 1" in [a.text for a in report.assumptions]
    for ranges, found in (("[symbols]\nJ = { min = 1 }", "J"), ("[symbols]\nK = { min = -9, max = -8 }", "without")):
        with pytest.raises(tt.UserError, match="size") as problem:
            tt.read_job(_files(tmp_path, "K", 0, ranges))
        assert found in str(problem.value)


def test_symbols_that_may_be_zero() -> None:
    k = symbol_of("K", 2, -3, 9)
    assert k == Symbol("(K + 4)", 6, 1, 13)
    assert (k.label, k.shift, str(k)) == ("K", 4, "-3 <= K <= 9")
    domain = Domain((k, Symbol("S", 5)))
    size = parse_size("2*K + S", domain)
    assert parse_size(str(size), domain) == size
    assert size.hint == 9
    assert shown_sizes({"(K + 4)": 1, "S": 5}) == "K = -3, S = 5"
