"""Two PyTorch models with loaders: relations of weights come from running them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import tantamount as tt
from tantamount.errors import UserError

torch = pytest.importorskip("torch", reason="compares PyTorch models")
from support.small_models import TOKENS, Fused, Separate, load  # noqa: E402

SIDES = {"inputs": (TOKENS,), "loaders": (None, load)}


def test_fused_and_separate_weights_are_one_model() -> None:
    answer = tt.compare(Fused(), Separate(), **SIDES)
    assert answer.proved
    assert [one.name for one in answer.assumptions] == [
        "real-arithmetic", "rounded-literals", "index-range", "mask-literals",
    ]  # fmt: skip
    weights = {one.tensor: one.expression for one in answer.weights}
    assert weights["gate_up.weight"] == 'concat(rank(0, "w1.weight"), rank(0, "w3.weight"), dim=0)'
    assert weights["c_proj.weight"] == 'permute(rank(0, "o.weight"), [1, 0])'
    assert weights["wte.weight"] == 'rank(0, "tokens.weight")'
    assert len(weights) == 9


def test_a_loader_that_swaps_keys_and_queries_is_refuted() -> None:
    answer = tt.compare(Fused(), Separate(), inputs=(TOKENS,), loaders=(None, partial(load, order="kqv")))
    assert answer.verdict is tt.Verdict.REFUTED
    assert answer.mismatch is not None
    assert answer.mismatch.implementation.startswith("addmm")


def test_a_parameter_that_is_not_loaded_is_refuted_and_named() -> None:
    def forgets(model: Separate, checkpoint: Any) -> None:
        kept = model.w3.weight.clone()
        load(model, checkpoint)
        model.w3.weight.copy_(kept)

    answer = tt.compare(Fused(), Separate(), inputs=(TOKENS,), loaders=(None, forgets))
    assert answer.verdict is tt.Verdict.REFUTED
    assert any("w3.weight of the second program may be anything" in note for note in answer.notes)


def test_another_epsilon_is_named() -> None:
    answer = tt.compare(Fused(), Separate(eps=1e-6), **SIDES)
    assert answer.verdict is tt.Verdict.REFUTED
    assert "has 1e-06 in native_layer_norm where the first program has 1e-05" in str(answer)
    assert "specification" not in str(answer)
    assert "implementation" not in str(answer)


class Plain(torch.nn.Module):
    def __init__(self, one: float = 0.0) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(4))
        self.register_buffer("table", torch.arange(4.0), persistent=False)
        self.one = one

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (self.one + self.w) + self.table


def test_a_weight_that_is_shifted_by_its_loader() -> None:
    def shifted(model: Plain, checkpoint: Any) -> None:
        model.w.copy_(checkpoint["w"] + 1)

    x = torch.zeros(2, 4)
    assert tt.compare(Plain(1.0), Plain(), inputs=(x,), loaders=(None, shifted)).proved
    assert not tt.compare(Plain(1.0), Plain(), inputs=(x,), loaders=(None, None)).proved
    assert not tt.compare(Plain(1.0), Plain(), inputs=(x,), loaders=(None, lambda m, c: m.w.copy_(c["w"] + 2))).proved


def test_tables_that_are_not_loaded_have_their_values() -> None:
    other = Plain()
    other.table[1] = 7.0
    x = torch.zeros(2, 4)
    answer = tt.compare(Plain(), other, inputs=(x,), loaders=(None, lambda m, c: m.w.copy_(c["w"])))
    assert answer.verdict is tt.Verdict.REFUTED


def test_a_loader_that_fails_is_said_to() -> None:
    with pytest.raises(UserError, match="no_such_tensor") as caught:
        tt.compare(Plain(), Plain(), inputs=(torch.zeros(2, 4),), loaders=(None, lambda m, c: c["no_such_tensor"]))
    assert caught.value.code == "compare-loader"


def test_two_loaders_need_a_checkpoint() -> None:
    with pytest.raises(UserError) as caught:
        tt.compare(Fused(), Separate(), inputs=(TOKENS,), loaders=(load, load))
    assert caught.value.code == "compare-checkpoint"


def test_models_without_loaders_are_guessed() -> None:
    x = torch.zeros(2, 4)
    answer = tt.compare(Plain(), Plain(), inputs=(x,))
    assert (answer.verdict, answer.refused) == (tt.Verdict.UNKNOWN, ("relation-guessed",))
    assert tt.compare(Plain(), Plain(), inputs=(x,), accept=["relation-guessed"]).proved
