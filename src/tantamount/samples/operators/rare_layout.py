"""Samples of the definitions that models rarely use: views, padding, searches, writing by mask."""

from __future__ import annotations

from tantamount.samples.operators.calls import I32, Sample, c, call, f, i, m

__all__ = ["SAMPLES"]

_SORTED = i(5, data=(-3, -1, 0, 0, 2))
_ROWS = i(2, 3, data=(-3, 0, 2, -1, 1, 1))


def _at(*shape: int, below: int) -> object:
    return i(*shape, low=0, high=below)


SAMPLES: tuple[Sample, ...] = (
    call("unfold.default", f(2, 7), 1, 3, 2),
    call("unfold.default", f(5, 2, 3), 0, 2, 1),
    call("unfold_copy.default", f(6), 0, 4, 1),
    call("as_strided.default", f(4, 6), (4, 3), (6, 2)),
    call("as_strided.default", f(4, 6), (2, 3, 2), (6, 1, 1), 3),
    call("as_strided_copy.default", c(4, 6), (3,), (7,), 1),
    *(call("rot90.default", f(2, 3, 4), k, dims) for k, dims in ((1, (0, 1)), (2, (0, 2)), (-1, (2, 1)), (4, (0, 1)))),
    call("pixel_shuffle.default", f(2, 8, 3, 5), 2),
    call("pixel_unshuffle.default", f(2, 4, 6), 2),
    call("channel_shuffle.default", f(2, 6, 3), 2),
    call("native_channel_shuffle.default", f(2, 6, 3, 1), 3),
    call("diagonal_scatter.default", f(3, 3), f(3)),
    call("diagonal_scatter.default", f(3, 5), f(3), 1),
    call("diagonal_scatter.default", f(2, 4, 3), f(2, 3), -1, 1, 2),
    call("diagonal_scatter.default", f(4, 2, 3), f(2, 3), -1, 0, 2),
    call("diag_embed.default", f(2, 3)),
    call("diag_embed.default", f(2, 3), 1, 0, 2),
    call("diag_embed.default", f(2, 3), -2, -1, 0),
    call("broadcast_to.default", f(2, 1), (3, 2, 4)),
    call("broadcast_tensors.default", (f(2, 1), f(3), f(1, 1, 1))),
    call("moveaxis.int", f(2, 3, 4), 0, -1),
    call("moveaxis.intlist", f(2, 3, 4), (0, 1), (2, 0)),
    call("swapdims.default", f(2, 3, 4), 0, -1),
    call("adjoint.default", c(2, 3, 4)),
    call("mH.default", f(3, 4)),
    call("ravel.default", f(2, 3)),
    call("view_copy.dtype", f(2, 3), f().dtype),
    call("tensor_split.sections", f(7, 2), 3),
    call("tensor_split.sections", f(2, 6), 3, 1),
    call("tensor_split.indices", f(7, 2), (2, 5)),
    call("tensor_split.indices", f(2, 6), (1,), 1),
    *(call(f"{name}.default", 3, 4, *rest) for name in ("tril_indices", "triu_indices") for rest in ((), (1,), (-1,))),
    call("tril_indices.default", 3, 4, dtype=I32),
    call("triu_indices.default", 3, 4, dtype=I32),
    call("meshgrid.default", (f(2), f(3), f(4))),
    call("meshgrid.indexing", (f(2), f(3), f(4)), indexing="ij"),
    call("meshgrid.indexing", (i(2), i(3)), indexing="xy"),
    call("hstack.default", (f(2), f(3))),
    call("hstack.default", (f(2, 3), f(2, 1))),
    call("vstack.default", (f(3), f(2, 3))),
    call("column_stack.default", (f(2), f(2, 3), f(2))),
    # padding
    call("reflection_pad1d.default", f(2, 5), (2, 3)),
    call("reflection_pad2d.default", f(1, 4, 5), (2, 0, 1, 3)),
    call("reflection_pad3d.default", f(1, 3, 4, 5), (2, 0, 1, 3, 2, 1)),
    call("replication_pad1d.default", f(2, 5), (2, 3)),
    call("replication_pad2d.default", f(1, 4, 5), (2, 0, 1, 3)),
    call("replication_pad3d.default", f(1, 3, 4, 5), (2, 0, 1, 3, 2, 1)),
    *(call("pad.default", f(2, 3, 4), (2, 1), mode) for mode in ("reflect", "replicate", "circular")),
    call("pad.default", f(2, 3, 4), (2, 1, 0, 3), "circular"),
    # searches
    call("isin.Tensor_Tensor", i(2, 3), i(4)),
    call("isin.Tensor_Tensor", i(2, 3), i(2, 2), assume_unique=False, invert=True),
    call("isin.Tensor_Scalar", i(2, 3), 1),
    call("isin.Scalar_Tensor", 1, i(4)),
    call("searchsorted.Tensor", _SORTED, i(2, 3)),
    call("searchsorted.Tensor", _SORTED, i(2, 3), right=True, out_int32=True),
    call("searchsorted.Tensor", _ROWS, i(2, 4), side="right"),
    call("searchsorted.Tensor", i(3, data=(2, -1, 0)), i(2), sorter=i(3, data=(1, 2, 0))),
    call("searchsorted.Scalar", _SORTED, 0),
    call("searchsorted.Scalar", _SORTED, 0, right=True, out_int32=True),
    call("searchsorted.Scalar", _SORTED, 0, side="right"),
    call("searchsorted.Scalar", i(3, data=(2, -1, 0)), 1, sorter=i(3, data=(1, 2, 0))),
    call("bucketize.Tensor", i(2, 3), _SORTED),
    call("bucketize.Tensor", i(2, 3), _SORTED, right=True, out_int32=True),
    call("bucketize.Scalar", 1, _SORTED),
    call("searchsorted.Tensor", i(7, data=(2, -1, 0, 3, 1, -2, 2)), i(2, 3)),
    call("searchsorted.Tensor", f(2, 5), f(2, 4), right=True),
    call("bucketize.Tensor", f(2, 3), f(6)),
    call("histc.default", f(7), 4, -1.0, 1.5),
    call("histc.default", f(2, 5), 100, -2, 2),
    # reading and writing
    call("take.default", f(2, 3), _at(4, 2, below=6)),
    call("take_along_dim.default", f(2, 3), _at(4, below=6)),
    call("take_along_dim.default", f(2, 3), _at(2, 4, below=3), 1),
    call("take_along_dim.default", f(2, 3), _at(1, 4, below=3), 1),
    call("masked_scatter.default", f(2, 3), m(2, 3), f(6)),
    call("masked_scatter.default", f(2, 3), m(3), f(3, 4)),
    *(
        call("scatter_reduce.two", f(4, 3), 0, _at(6, 2, below=4), f(6, 3), reduce, include_self=own)
        for reduce in ("sum", "mean")
        for own in (True, False)
    ),
    call("scatter_reduce_.two", f(4, 3), 0, _at(6, 2, below=4), f(6, 3), "mean", include_self=False),
    call("scatter.reduce", f(4, 3), 0, _at(6, 2, below=4), f(6, 3), reduce="add"),
    call("scatter.value_reduce", f(4, 3), 1, _at(4, 5, below=3), 2.0, reduce="add"),
)
