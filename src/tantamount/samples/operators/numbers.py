"""Samples of operators whose results have a size that data decide, or are numbers; types follow from values only."""

from __future__ import annotations

from dataclasses import replace

from tantamount.samples.operators.calls import F32, I64, Sample, call, f, i, m

__all__ = ["SAMPLES"]

_MASK = m(4, data=(1, 0, 1, 1))
_COUNTS = i(3, data=(2, 0, 3))

SAMPLES: tuple[Sample, ...] = (
    call("nonzero.default", i(3, 4, low=-1, high=2)),
    call("nonzero.default", m(2, 3)),
    call("nonzero.default", f()),
    call("argwhere.default", m(2, 3)),
    call("nonzero_numpy.default", m(2, 3)),
    call("where.default", m(2, 3)),
    call("masked_select.default", f(2, 3), m(2, 3)),
    call("masked_select.default", f(2, 3), m(3)),
    call("index.Tensor", f(4, 3), (_MASK,)),
    call("index.Tensor", f(2, 4, 3), (None, _MASK)),
    call("index.Tensor", f(4, 3), (_MASK, i(3, data=(0, 2, 1)))),
    call("index.Tensor", f(2, 3, 2), (m(2, 3),)),
    call("index_put.default", f(4, 3), (_MASK,), f(3, 3)),
    call("index_put.default", f(4, 3), (_MASK, i(3, data=(0, 2, 1))), f(3), True),
    call("index_put_.default", f(4, 3), (m(4, 3, data=(1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0)),), f(3)),
    call("bincount.default", i(7, low=0, high=5)),
    call("bincount.default", i(7, low=0, high=5), None, 9),
    call("bincount.default", i(7, low=0, high=5), f(7)),
    call("repeat_interleave.Tensor", _COUNTS),
    call("repeat_interleave.self_Tensor", f(3, 2), _COUNTS, 0),
    call("repeat_interleave.self_Tensor", f(3), _COUNTS),
    call("repeat_interleave.self_Tensor", f(2, 3), i(1, data=(2,)), 1),
    call("unique_consecutive.default", i(9, low=0, high=2)),
    call("unique_consecutive.default", i(3, 3, low=0, high=2), True, True),
    call("_unique2.default", i(3, 3, low=-2, high=3)),
    call("_unique2.default", i(3, 3, low=-2, high=3), True, True, True),
    # the size is an attribute
    call("nonzero_static.default", m(3, 4), size=5),
    call("nonzero_static.default", f(3), size=5, fill_value=7),
    call("repeat_interleave.Tensor", _COUNTS, output_size=5),
    call("repeat_interleave.self_Tensor", f(3, 2), _COUNTS, 0, output_size=5),
    # numbers
    call("item.default", f()),
    call("item.default", i(1, 1)),
    call("_local_scalar_dense.default", m()),
    call("sym_size.int", f(2, 3), -1),
    call("sym_numel.default", f(2, 3)),
    # assertions have no value
    call("_assert_scalar.default", True, "holds"),
    call("_assert_async.default", m(data=(1,))),
    call("_assert_async.msg", m(data=(1,)), "holds"),
    call("sym_constrain_range.default", 3, min=2, max=4),
    call("sym_constrain_range_for_size.default", 3, min=2, max=4),
    replace(call("_make_dep_token.default"), values=False),
    replace(call("_make_dep_token.default", dtype=I64), values=False),
    call("_functional_assert_scalar.default", True, "holds", f()),
    call("_functional_assert_async.msg", m(data=(1,)), "holds", f()),
    call("_functional_sym_constrain_range.default", 3, None, 4, f()),
    call("_functional_sym_constrain_range_for_size.default", 3, None, 4, f()),
    call("_assert_tensor_metadata.default", f(2, 3), (2, 3), (3, 1), F32),
)
