"""Two PyTorch models with loaders: relations of weights come from running them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
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
        "real-arithmetic", "rounded-literals", "index-range", "loaders", "mask-literals",
    ]  # fmt: skip
    weights = {one.tensor: one.expression for one in answer.weights}
    assert weights["gate_up.weight"] == 'concat(rank(0, "w1.weight"), rank(0, "w3.weight"), dim=0)'
    assert weights["c_proj.weight"] == 'permute(rank(0, "o.weight"), [1, 0])'
    assert weights["wte.weight"] == 'rank(0, "tokens.weight")'
    assert len(weights) == 9


def test_strict_does_not_trust_loaders() -> None:
    x = torch.zeros(2, 4)
    answer = tt.compare(Plain(), Plain(), inputs=(x,), loaders=(None, None), strict=True)
    assert (answer.verdict, answer.refused) == (tt.Verdict.UNKNOWN, ("loaders",))


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
    answer = tt.compare(Plain(1.0), Plain(), inputs=(x,), loaders=(None, shifted))
    assert answer.proved
    assert [str(one) for one in answer.weights] == ['w = rank(0, "w") + -1']
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


def test_models_of_other_sizes_are_said_to_be(tmp_path: Path) -> None:
    """By the name and the shapes of a tensor, whoever finds out: the state dict, a loader, or nobody."""
    small, large = torch.nn.Linear(4, 4), torch.nn.Linear(4, 8)
    x = (torch.zeros(2, 4),)
    with pytest.raises(UserError) as caught:
        tt.compare(small, large, inputs=x, loaders=(None, None))
    assert (caught.value.code, caught.value.place.endswith(": weight")) == ("compare-loader", True)
    assert caught.value.found == (
        "shape [8, 4] in the model, [4, 4] in the checkpoint; 1 more tensors have other shapes, too"
    )
    with pytest.raises(UserError) as caught:
        tt.compare(small, large, inputs=x, loaders=(None, lambda model, state: model.load_state_dict(state)))
    assert "size mismatch for weight: copying a param with shape torch.Size([4, 4])" in caught.value.found
    notes = tt.compare(torch.nn.Sequential(small), torch.nn.Sequential(large, torch.nn.Linear(8, 4)), inputs=x).notes
    assert notes[0] == (
        "nothing relates inputs of other shapes: 0.weight is [4, 4] in the first program and [8, 4] in the second "
        "(and 1 more of other shapes)"
    )


def test_two_loaders_need_a_checkpoint() -> None:
    with pytest.raises(UserError) as caught:
        tt.compare(Fused(), Separate(), inputs=(TOKENS,), loaders=(load, load))
    assert caught.value.code == "compare-checkpoint"


class Renamed(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.v = self.w
        del self.w

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (self.one + self.v) + self.table


def test_models_without_loaders_load_the_same_state_dict_or_are_guessed() -> None:
    x = torch.zeros(2, 4)
    assert tt.compare(Plain(), Plain(), inputs=(x,)).proved
    answer = tt.compare(Plain(), Renamed(), inputs=(x,))
    assert (answer.verdict, answer.refused) == (tt.Verdict.UNKNOWN, ("relation-guessed",))
    assert tt.compare(Plain(), Renamed(), inputs=(x,), accept=["relation-guessed"]).proved


class Grouped(torch.nn.Module):
    """InternLM2's: for every group of heads the rows of two queries, of a key and of a value, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.wqkv = torch.nn.Parameter(torch.randn(2 * 4 * 3, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = (x @ self.wqkv.T).view(-1, 2, 4, 3)
        return torch.cat(
            [rows[:, :, :2].reshape(-1, 12), rows[:, :, 2].reshape(-1, 6), rows[:, :, 3].reshape(-1, 6)], 1
        )


class Stacked(torch.nn.Module):
    """All queries, then all keys, then all values."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(6, 24, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.qkv(x)


def restored(model: Stacked, checkpoint: Any) -> None:
    rows = checkpoint["wqkv"].view(2, 4, 3, 6)
    parts = [rows[:, :2].reshape(12, 6), rows[:, 2].reshape(6, 6), rows[:, 3].reshape(6, 6)]
    model.qkv.weight.copy_(torch.cat(parts))


def test_rows_in_groups_are_restored_by_a_loader_or_not() -> None:
    x = {"inputs": (torch.zeros(5, 6),)}
    right = tt.compare(Grouped(), Stacked(), loaders=(None, restored), **x)
    assert right.proved
    (weight,) = right.weights
    assert weight.expression.startswith("reshape(concat(")
    wrong = tt.compare(Grouped(), Stacked(), loaders=(None, lambda m, c: m.qkv.weight.copy_(c["wqkv"])), **x)
    assert wrong.verdict is tt.Verdict.REFUTED


class Tied(torch.nn.Module):
    """One tensor under two names, of which a checkpoint has the first."""

    def __init__(self) -> None:
        super().__init__()
        self.wte = torch.nn.Embedding(7, 4)
        self.head = torch.nn.Linear(4, 7, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.wte(ids))


class Untied(Tied):
    def __init__(self) -> None:
        super().__init__()
        self.head.weight = torch.nn.Parameter(torch.randn(7, 4))


def test_tied_weights_are_two_copies_in_a_model_that_does_not_tie_them() -> None:
    def both(model: Untied, checkpoint: Any) -> None:
        model.wte.weight.copy_(checkpoint["wte.weight"])
        model.head.weight.copy_(checkpoint["wte.weight"])

    def one(model: Untied, checkpoint: Any) -> None:
        model.wte.weight.copy_(checkpoint["wte.weight"])

    ids = {"inputs": (torch.zeros(1, 3, dtype=torch.long),)}
    assert tt.compare(Tied(), Untied(), loaders=(None, both), **ids).proved
    forgotten = tt.compare(Tied(), Untied(), loaders=(None, one), **ids)
    assert forgotten.verdict is tt.Verdict.REFUTED
    assert "head.weight of the second program may be anything" in str(forgotten)


class Normed(torch.nn.Module):
    """A linear layer and a batch norm, as it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(x))


def folded(model: torch.nn.Linear, checkpoint: Any, eps: float = 1e-5) -> None:
    scale = checkpoint["norm.weight"] * torch.rsqrt(checkpoint["norm.running_var"] + eps)
    model.weight.copy_(checkpoint["linear.weight"] * scale[:, None])
    model.bias.copy_((checkpoint["linear.bias"] - checkpoint["norm.running_mean"]) * scale + checkpoint["norm.bias"])


def test_a_loader_that_computes_is_captured() -> None:
    x = {"inputs": (torch.zeros(2, 3),)}
    answer = tt.compare(Normed().eval(), torch.nn.Linear(3, 4), loaders=(None, folded), **x)
    assert answer.proved
    assert any("weight of the second program is what its captured loader computes" in note for note in answer.notes)
    wrong = tt.compare(Normed().eval(), torch.nn.Linear(3, 4), loaders=(None, partial(folded, eps=1e-3)), **x)
    assert wrong.verdict is tt.Verdict.REFUTED


def test_rows_that_are_not_loaded_stay_what_they_were() -> None:
    def padded(model: Plain, checkpoint: Any) -> None:
        model.w[:3] = checkpoint["w"][:3]

    class First(Plain):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x)[:, : self.kept]

    x = {"inputs": (torch.zeros(2, 4),), "loaders": (None, padded)}
    for kept, proved in ((3, True), (4, False)):
        models = First(), First()
        for model in models:
            model.kept = kept
        answer = tt.compare(*models, **x)
        assert answer.proved is proved
    assert answer.verdict is tt.Verdict.REFUTED


def test_what_is_equal_over_the_reals_and_far_apart_is_said() -> None:
    class Rounds(Plain):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).bfloat16().float()

    x = {"inputs": (torch.zeros(2, 4),), "loaders": (None, None)}
    rounded = tt.compare(Plain(), Rounds(), **x)
    assert rounded.proved
    assert any(note.startswith("far apart in their own dtypes") for note in rounded.notes)
    assert not any("far apart" in note for note in tt.compare(Plain(), Plain(), **x).notes)


class Padded(torch.nn.Module):
    """A table of six rows. ``seen``: how many of them are used."""

    def __init__(self, seen: int) -> None:
        super().__init__()
        self.seen, self.rows = seen, torch.nn.Parameter(torch.randn(6, 3))

    def forward(self, x: Any) -> Any:
        return (x @ self.rows.t())[:, : self.seen]


@pytest.mark.parametrize(("seen", "verdict"), [(4, tt.Verdict.PROVED), (5, tt.Verdict.REFUTED)])
def test_what_nothing_is_loaded_into_is_another_in_each_model(seen: int, verdict: tt.Verdict, tmp_path: Path) -> None:
    """Parameters of one name, filled in part: what the rest holds was taken to be the same."""

    def fill(model: Any, tensors: dict[str, Any]) -> None:
        model.rows[:4] = tensors["rows"]

    path, sides, x = tmp_path / "relations.toml", (Padded(seen), Padded(seen)), torch.randn(2, 3)
    how = {"loaders": (fill, fill), "checkpoint": {"rows": (4, 3)}, "save_relations": path}
    assert tt.compare(*sides, inputs=(x,), **how).verdict is verdict
    assert tt.compare(*sides, inputs=(x,), relations=path).verdict is verdict
