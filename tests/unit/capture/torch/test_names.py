"""Names and relations as users of PyTorch write them: compiled modules, placements of DTensors, ranks printed."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.distributed.tensor import Partial, Replicate, Shard  # noqa: E402

import tantamount as tt  # noqa: E402
from tantamount.capture.stated import stated  # noqa: E402


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 6)

    def forward(self, x: Any) -> Any:
        return self.up(x).relu()


def inputs(model: Any) -> list[str]:
    return [node.name for node in tt.capture(model, (torch.ones(5, 4),)).graph.inputs]


def test_compiled_modules_keep_their_names() -> None:
    plain = Inner()
    assert inputs(torch.compile(plain)) == inputs(plain) == ["up.weight", "up.bias", "x"]
    nested = nn.Sequential(torch.compile(Inner()))
    assert inputs(nested) == inputs(nn.Sequential(Inner()))
    assert "_orig_mod" not in str(tt.capture(nested, (torch.ones(5, 4),)))


def columns(rank: int) -> Any:
    return nn.Linear(4, 3, bias=False), (torch.ones(5, 4),)


def test_placements_of_dtensors_are_relations() -> None:
    specification = tt.capture(nn.Linear(4, 6, bias=False), (torch.ones(5, 4),))
    ranks = tt.capture_ranks(columns, 2, mesh={"tp": 2})
    report = tt.refine(specification, ranks, inputs={"weight": Shard(0)}, outputs={"output": [Shard(1)]})
    assert report.verdict is tt.Verdict.PROVED
    assert "Relation of every specification tensor" in report.text(verbose=True)


def test_how_a_job_spells_them() -> None:
    written = stated(
        {"a": Shard(1), "b": [Replicate(), Partial()], "c": {"name": "d", "placement": Shard(0)}}, "inputs"
    )
    assert written == {
        "a": "Shard(1)", "b": ["Replicate()", 'Partial("sum")'], "c": {"name": "d", "placement": "Shard(0)"},
    }  # fmt: skip


def test_a_strided_shard_is_no_block() -> None:
    from torch.distributed.tensor.placement_types import _StridedShard

    with pytest.raises(tt.UserError, match="_StridedShard"):
        stated({"a": _StridedShard(0, split_factor=2)}, "inputs")


def test_ranks_print_every_program_once() -> None:
    text = str(tt.capture_ranks(columns, 4, mesh={"dp": 2, "tp": 2}))
    assert text.startswith("4 ranks (dp 2 x tp 2), 1 distinct program\n\nrank 0-3\n")
    assert text.count("aten.mm.default") == 1
