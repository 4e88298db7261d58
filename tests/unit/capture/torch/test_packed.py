"""Packed sequences of given lengths are slices and concatenations; recurrent layers run on them cell by cell."""

from __future__ import annotations

from typing import Any

import pytest

import tantamount as tt
from tantamount.errors import UserError
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence  # noqa: E402

LENGTHS, X = [2, 3, 1], torch.ones(3, 4, 2)


class Packed(nn.Module):
    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer(2, 2, batch_first=True, bidirectional=layer is nn.GRU)

    def forward(self, x: Tensor) -> Any:
        packed = pack_padded_sequence(x, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False)
        found, _ = self.layer(packed)
        return pad_packed_sequence(found, batch_first=True, total_length=4)[0]


class Alone(Packed):
    """Every sequence by itself; ``longer``: one of them with an element too many."""

    def __init__(self, layer: Any, longer: int = 0) -> None:
        super().__init__(layer)
        self.longer = longer

    def forward(self, x: Tensor) -> Tensor:
        rows: list[Tensor] = []
        for k, length in enumerate(LENGTHS):
            row, _ = self.layer(x[k : k + 1, : length + (self.longer if k == 2 else 0)])
            rows.append(torch.cat([row, row.new_zeros(1, 4 - row.shape[1], row.shape[2])], 1))
        return torch.cat(rows)


@pytest.mark.parametrize("layer", [nn.GRU, nn.LSTM, nn.RNN])
def test_packed_sequences_are_each_by_itself(layer: Any) -> None:
    packed, given = Packed(layer), torch.randn(3, 4, 2)
    alone = Alone(layer)
    alone.load_state_dict(packed.state_dict())
    assert torch.allclose(packed(given), alone(given), atol=1e-6)
    spec = tt.capture(packed, (X,))
    assert tt.refine(spec, tt.capture(alone, (X,))).verdict is Verdict.PROVED
    if layer is nn.RNN:
        assert tt.refine(spec, tt.capture(Alone(layer, 1), (X,))).verdict is Verdict.REFUTED


def written(x: Tensor) -> Tensor:
    lengths = torch.tensor([3, 2, 1])
    lengths[2] += x.sum().long()
    return pack_padded_sequence(x, lengths, batch_first=True).data


def test_lengths_that_data_decide_are_refused() -> None:
    with pytest.raises(UserError):
        tt.capture(lambda x, n: pack_padded_sequence(x, n, batch_first=True).data, (X, torch.tensor([3, 2, 1])))
    with pytest.raises(UserError):
        tt.capture(written, (X,))
