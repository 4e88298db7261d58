"""That integers do not overflow was printed of both widths, whatever the programs compute in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tantamount as tt

torch = pytest.importorskip("torch", reason="captures need PyTorch")
from torch import Tensor  # noqa: E402

FLOATS, LONGS, INTS = torch.ones(3), torch.arange(3), torch.arange(3, dtype=torch.int32)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...], set[str]]] = {
    "no integers": (lambda x: x + x, (FLOATS,), set()),
    "numbers that are only moved": (lambda x, i: (x * 2, i.view(3, 1)), (FLOATS, LONGS), set()),
    "narrow integers": (lambda x: x + x, (torch.ones(3, dtype=torch.int8),), set()),
    "one width": (lambda i: i + i, (LONGS,), {"int64"}),
    "the other": (lambda i: i + i, (INTS,), {"int32"}),
    "a promotion": (lambda i: i.sum(), (INTS,), {"int64"}),
    "a conversion": (lambda i: i.to(torch.int32).float(), (LONGS,), {"int32"}),
    "a conversion of floats": (lambda x: x.long(), (FLOATS,), {"int64"}),
    "both": (lambda i, j: (i * i, j * j), (LONGS, INTS), {"int32", "int64"}),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("engine", ["calculus", "smt"])
def test_the_widths_that_occur_are_named(name: str, engine: str) -> None:
    program, inputs, wanted = PROGRAMS[name]
    captured = tt.capture(program, inputs)
    found = tt.refine(captured, captured, engine=engine)
    said = [one.text for one in found.assumptions if one.name == "real-arithmetic"]
    assert said[0].startswith("numbers are real")
    assert set(said[1:]) == {f"{width} does not overflow" for width in wanted}


def test_types_that_a_file_leaves_out_are_inferred(tmp_path: Path) -> None:
    nodes = [
        {"name": "i", "op": "placeholder", "target": "i", "args": [], "kwargs": {}, "shape": [3], "dtype": "int64"},
        {"name": "j", "op": "call_function", "target": "aten.add.Tensor", "args": [{"node": "i"}, {"node": "i"}],
         "kwargs": {}},
        {"name": "output", "op": "output", "target": "output", "args": [[{"node": "j"}]], "kwargs": {}},
    ]  # fmt: skip
    (tmp_path / "g.json").write_text(json.dumps({"format": "fx-nodes/1", "nodes": nodes}))
    (tmp_path / "job.toml").write_text(
        'format = "job/1"\n[spec]\ngraph = "g.json"\n[impl]\ngraph = "g.json"\nmesh = {}\n[inputs]\ni = "Replicate()"\n'
        '[outputs]\ndefault = "Replicate()"\n'
    )
    found = tt.refine(tt.read_job(tmp_path / "job.toml"))
    said = [one.text for one in found.assumptions if one.name == "real-arithmetic"]
    assert said[1:] == ["int64 does not overflow"]


def test_what_a_type_does_not_hold_refutes_nothing() -> None:
    """In eager the factor is 1: that 32 bits do not overflow is assumed, so that there is nothing to compare."""

    def large(x: Tensor) -> Tensor:
        return x * torch.full((), 2**40 + 1).to(torch.int32)

    first, second = tt.capture(large, (FLOATS,)), tt.capture(lambda x: x * 1, (FLOATS,))
    assert tt.refine(first, second).verdict is tt.Verdict.UNKNOWN
