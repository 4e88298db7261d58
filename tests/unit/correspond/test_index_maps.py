"""Clean expressions recovered from the numbers of elements."""

from __future__ import annotations

import numpy as np
import pytest

from tantamount.correspond.index_maps import Numbers, expression_of, numbered

SHAPES = {"a": (6, 8), "b": (6, 8), "w": (48, 16), "k": (8, 3, 4, 4)}
WHOLES = numbered(SHAPES)
a, b, w, k = (np.arange(one.start, one.stop).reshape(one.shape) for one in WHOLES)
QKV = w.reshape(2, 4, 6, 16)  # two groups of two queries, a key and a value


@pytest.mark.parametrize(
    ("sources", "wanted"),
    [
        (a, 'rank(0, "a")'),
        (a.T, 'permute(rank(0, "a"), [1, 0])'),
        (a[2:5, 1:7], 'rank(0, "a")[2:5, 1:7]'),
        (a[:, ::2], 'rank(0, "a")[0:6, 0:7:2]'),
        (a[3], 'reshape(rank(0, "a")[3:4, 0:8], [8])'),
        (np.concatenate([a, b]), 'concat(rank(0, "a"), rank(0, "b"), dim=0)'),
        (np.concatenate([a[:2], a[:2]]), 'concat(rank(0, "a")[0:2, 0:8], rank(0, "a")[0:2, 0:8], dim=0)'),
        (k.reshape(8, 48), 'reshape(rank(0, "k"), [8, 48])'),
        (k.transpose(0, 2, 3, 1).reshape(8, 48), 'reshape(permute(rank(0, "k"), [0, 2, 3, 1]), [8, 48])'),
        (
            a.reshape(6, 2, 4).transpose(0, 2, 1).reshape(6, 8),
            'reshape(permute(reshape(rank(0, "a"), [6, 2, 4]), [0, 2, 1]), [6, 8])',
        ),
        (QKV[:, :2].reshape(24, 16), 'reshape(reshape(rank(0, "w"), [2, 24, 16])[0:2, 0:12, 0:16], [24, 16])'),
        (QKV[:, 3].reshape(12, 16), 'reshape(reshape(rank(0, "w"), [2, 24, 16])[0:2, 18:24, 0:16], [12, 16])'),
        (
            np.stack([a, b], 1).reshape(12, 8),
            'reshape(concat(reshape(rank(0, "a"), [6, 1, 8]), reshape(rank(0, "b"), [6, 1, 8]), dim=1), [12, 8])',
        ),
    ],
)
def test_layouts_are_recovered(sources: Numbers, wanted: str) -> None:
    assert str(expression_of(np.ascontiguousarray(sources), WHOLES)) == wanted


def test_an_order_without_a_pattern_is_none() -> None:
    assert expression_of(np.random.default_rng(0).permutation(a.reshape(-1)).reshape(6, 8), WHOLES) is None


def test_nothing_has_no_source() -> None:
    assert expression_of(np.zeros((0, 3), dtype=np.int64), WHOLES) is None
    assert expression_of(np.zeros((2, 3), dtype=np.int64), ()) is None
