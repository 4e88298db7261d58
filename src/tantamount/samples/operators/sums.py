"""Samples of contractions, reductions and indexing."""

from __future__ import annotations

from tantamount.samples.operators.calls import F32, F64, I32, Operand, Sample, call, f, i, m

__all__ = ["SAMPLES"]

_CONTRACTION: list[Sample] = [
    call("mm.default", f(2, 3), f(3, 4)),
    call("mm.default", i(2, 3), i(3, 4)),
    call("bmm.default", f(2, 3, 4), f(2, 4, 5)),
    call("mv.default", f(2, 3), f(3)),
    call("dot.default", f(3), f(3)),
    call("outer.default", f(2), f(3)),
    call("outer.default", f(2), i(3)),
    call("ger.default", f(2), f(3)),
    call("addmm.default", f(4), f(2, 3), f(3, 4)),
    call("addmm.default", f(2, 4), f(2, 3), f(3, 4), beta=0.5, alpha=2),
    call("addmm.default", f(2, 4), f(2, 3), f(3, 4), beta=0),
    call("addmv.default", f(2), f(2, 3), f(3), alpha=0.5),
    call("baddbmm.default", f(2, 3, 5), f(2, 3, 4), f(2, 4, 5), beta=0.0, alpha=0.25),
    call("baddbmm.default", f(3, 1), f(2, 3, 4), f(2, 4, 5)),
    call("addbmm.default", f(3, 5), f(2, 3, 4), f(2, 4, 5), beta=2),
    call("matmul.default", f(3), f(3)),
    call("matmul.default", f(2, 3), f(3)),
    call("matmul.default", f(3), f(3, 4)),
    call("matmul.default", f(2, 3), f(3, 4)),
    call("matmul.default", f(5, 2, 3), f(3)),
    call("matmul.default", f(3), f(5, 3, 4)),
    call("matmul.default", f(5, 2, 3), f(3, 4)),
    call("matmul.default", f(5, 1, 2, 3), f(6, 3, 4)),
    call("matmul.default", f(1, 2, 3), f(1, 3, 4)),
    call("matmul.default", f(2, 3), f(1, 5, 3, 4)),
    call("linear.default", f(2, 3), f(4, 3)),
    call("linear.default", f(5, 2, 3), f(4, 3), f(4)),
    call("linear.default", f(3), f(4, 3), f(4)),
    call("linear.default", f(2, 3), f(3)),
    call("einsum.default", "ij,jk->ik", (f(2, 3), f(3, 4))),
    call("einsum.default", "bij, bkj", (f(2, 3, 4), f(2, 5, 4))),
    call("einsum.default", "ii->i", (f(3, 3),)),
    call("einsum.default", "ij->", (f(2, 3),)),
    call("einsum.default", "...ij,...jk->...ik", (f(5, 2, 3), f(3, 4))),
    call("einsum.default", "b...i,i->...b", (f(2, 3, 4, 5), f(5))),
    call("einsum.default", "...i,...i", (f(2, 3), f(2, 3))),
    call("einsum.default", "ij,ij->ij", (f(2, 1), f(1, 3))),
    call("einsum.default", "i,j,k->kji", (f(2), f(3), f(4))),
]


def _over_dims(name: str, x: Operand) -> list[Sample]:
    return [
        call(name, x, (0,)),
        call(name, x, (-1,), True),
        call(name, x, (0, 2)),
        call(name, x, ()),
    ]


_REDUCTION: list[Sample] = [
    *[call("sum.default", x) for x in (f(2, 3), i(3, dtype=I32), m(4), f())],
    call("sum.default", i(2, 3), dtype=F32),
    call("sum.default", f(2, 3), dtype=F64),
    call("sum.default", i(3), dtype=I32),
    *_over_dims("sum.dim_IntList", f(2, 3, 4)),
    call("sum.dim_IntList", f(2, 3), None),
    call("sum.dim_IntList", m(2, 3), (1,)),
    call("sum.dim_IntList", i(2, 3), (1,), True, dtype=F64),
    call("sum.dim_IntList", f(), (-1,)),
    call("mean.default", f(2, 3)),
    call("mean.default", i(2, 3), dtype=F32),
    *_over_dims("mean.dim", f(2, 3, 4)),
    call("mean.dim", f(2, 3), None, True),
    call("prod.default", f(2, 3)),
    call("prod.default", i(3)),
    call("prod.default", m(3)),
    call("prod.dim_int", f(2, 3), 1),
    call("prod.dim_int", i(2, 3), -2, True),
    call("prod.dim_int", f(2, 3), 0, dtype=F64),
    call("var.default", f(2, 3)),
    call("var.default", f(2, 3), False),
    call("var.dim", f(2, 3), (1,)),
    call("var.dim", f(2, 3), (0,), False, True),
    *[
        sample
        for name in ("var.correction", "std.correction", "var_mean.correction")
        for sample in (
            call(name, f(3, 4)),
            call(name, f(3, 4), (-1,), correction=0, keepdim=True),
            call(name, f(3, 4, dtype=F64), (0,)),
            call(name, f(2, 3, 4), (0, 2), correction=2),
            call(name, f(3, 4), correction=0.5),
        )
    ],
    call("std.dim", f(2, 3), (1,)),
    call("linalg_vector_norm.default", f(2, 3)),
    call("linalg_vector_norm.default", f(2, 3), 2.0, (1,), True),
    call("linalg_vector_norm.default", f(2, 3), 1, (0,)),
    call("linalg_vector_norm.default", f(2, 3), float("inf")),
    call("linalg_vector_norm.default", f(2, 3), 2, dtype=F64),
    *_over_dims("amax.default", f(2, 3, 4)),
    *_over_dims("amin.default", f(2, 3, 4)),
    call("amax.default", f(3)),
    call("amax.default", m(2, 3), (0,)),
    call("amin.default", i(2, 3), (1,), True),
    call("amin.default", m(2, 3), (0,)),
    *[call(f"{name}.default", x) for name in ("max", "min") for x in (f(2, 3), i(4), m(3), f())],
    *[call(f"{name}.default", x) for name in ("any", "all") for x in (f(2, 3), i(4), m(3))],
    *[call(f"{name}.dim", x, 1, keep) for name in ("any", "all") for x in (f(2, 3), m(2, 3)) for keep in (False, True)],
    call("logsumexp.default", f(2, 3), (1,)),
    call("logsumexp.default", f(2, 3, 4), (0, -1), True),
    call("logsumexp.default", i(2, 3), (1,)),
    *[
        sample
        for name in ("argmax", "argmin")
        for sample in (
            call(f"{name}.default", f(2, 5)),
            call(f"{name}.default", f(2, 5), 1),
            call(f"{name}.default", f(2, 5), -2, True),
            call(f"{name}.default", f(2, 5), None, True),
            call(f"{name}.default", f(), 0),
        )
    ],
    *[
        sample
        for name in ("max", "min")
        for sample in (call(f"{name}.dim", f(2, 5), 1), call(f"{name}.dim", f(2, 5), -2, True))
    ],
    call("max.dim", i(3, data=(3, 1, 2)), 0),
    call("sort.default", f(2, 5)),
    call("sort.default", f(2, 5), 0, True),
    call("sort.stable", i(2, 5), stable=True),
    call("sort.stable", f(2, 5), stable=False, dim=0, descending=True),
    call("argsort.default", f(2, 5)),
    call("argsort.default", f(2, 5), 0, True),
    call("topk.default", f(2, 5), 2),
    call("topk.default", f(5, 2), 3, 0, False),
    call("cumsum.default", f(2, 3), 1),
    call("cumsum.default", i(2, 3, dtype=I32), -2),
    call("cumsum.default", m(4), 0),
    call("cumsum.default", i(3), 0, dtype=F32),
    call("cumsum.default", f(), 0),
    call("count_nonzero.default", m(2, 3)),
    call("count_nonzero.default", i(2, 3), 1),
]

_ORDERED = i(3, data=(2, 0, 3))

_INDEXING: list[Sample] = [
    *[
        sample
        for name in ("index.Tensor", "_unsafe_index.Tensor")
        for sample in (
            call(name, f(4, 5), (i(3, low=0, high=4),)),
            call(name, f(4, 5), (i(2, 3, low=0, high=4),)),
            call(name, f(4, 5), (i(3, low=0, high=4), i(3, low=0, high=5))),
            call(name, f(4, 5), (None, i(3, low=0, high=5))),
            call(name, f(2, 4, 5), (i(2, 1, low=0, high=2), None, i(3, low=0, high=5))),
            call(name, f(2, 4, 5, 3), (None, i(2, 1, low=0, high=4), i(3, low=0, high=5))),
            call(name, f(4, 5), (i(low=0, high=4),)),
            call(name, i(4, 5), (None, i(2, dtype=I32, low=0, high=5))),
        )
    ],
    *[
        sample
        for name in ("index_put.default", "index_put_.default", "_unsafe_index_put.default")
        for sample in (
            call(name, f(4, 5), (_ORDERED,), f(3, 5)),
            call(name, f(4, 5), (_ORDERED,), f()),
            call(name, f(4, 5), (i(3, low=0, high=4),), f(3, 1), True),
            call(name, f(4, 5), (None, _ORDERED), f(4, 3)),
            call(name, f(4, 6, 5), (_ORDERED, None, _ORDERED), f(3, 6)),
            call(name, f(2, 4, 5), (None, _ORDERED, _ORDERED), f(2, 3)),
            call(name, i(4), (_ORDERED,), i(3)),
        )
    ],
    call("index_put.default", f(4, 5), (m(4, 5),), f()),
    call("index_put.default", f(4, 5), (m(4),), f(5)),
    call("index_put.default", f(4, 5), (m(4),), f(1, 5)),
    call("index_put.default", f(4, 5), (m(4, 5),), f(1)),
    call("index_put.default", f(4, 5), (None, m(5)), f()),
    call("index_put.default", f(4, 5), (None, m(5)), f(4, 1)),
    call("index_put.default", f(4, 5), (m(4),), f(), True),
    call("index_put_.default", i(4, 5), (m(4, 5),), i()),
    call("embedding.default", f(7, 3), i(2, 4, low=0, high=7)),
    call("embedding.default", f(7, 3), i(low=0, high=7), 0, False, False),
    call("embedding.default", f(7, 3), i(2, dtype=I32, low=0, high=7)),
    call("index_select.default", f(4, 5), 0, i(3, low=0, high=4)),
    call("index_select.default", f(2, 4, 5), -1, i(3, low=0, high=5)),
    call("index_select.default", f(4, 5), 1, i(low=0, high=5)),
    *[
        sample
        for name in ("index_add", "index_add_")
        for sample in (
            call(f"{name}.default", f(4, 5), 0, i(3, low=0, high=4), f(3, 5)),
            call(f"{name}.default", f(4, 5), 1, i(3, low=0, high=5), f(4, 3), alpha=0.5),
        )
    ],
    call("index_copy.default", f(4, 5), 0, _ORDERED, f(3, 5)),
    call("index_copy_.default", f(2, 5), 1, _ORDERED, f(2, 3)),
    *[
        sample
        for name in ("index_fill", "index_fill_")
        for sample in (
            call(f"{name}.int_Scalar", f(4, 5), 1, i(3, low=0, high=5), 0.5),
            call(f"{name}.int_Tensor", f(4, 5), 0, i(3, low=0, high=4), f()),
        )
    ],
    call("gather.default", f(4, 5), 1, i(4, 3, low=0, high=5)),
    call("gather.default", f(4, 5), 0, i(2, 3, low=0, high=4)),
    call("gather.default", f(2, 3, 4), -1, i(2, 3, 1, low=0, high=4), sparse_grad=False),
    call("scatter.src", f(4, 5), 0, i(1, 5, low=0, high=4), f(1, 5)),
    call("scatter.src", f(2, 5), 1, i(2, 3, data=(2, 0, 4, 1, 3, 0)), f(2, 4)),
    call("scatter.value", f(2, 5), 1, i(2, 1, low=0, high=5), 1.0),
    call("scatter.value", i(2, 5), 1, i(2, 1, low=0, high=5), 1),
    call("scatter_.src", f(4, 5), 0, i(1, 5, low=0, high=4), f(1, 5)),
    call("scatter_add.default", f(2, 5), 1, i(2, 4, low=0, high=5), f(2, 4)),
    call("scatter_add_.default", f(4, 5), 0, i(3, 5, low=0, high=4), f(3, 5)),
    call("scatter_reduce.two", f(2, 5), 1, i(2, 4, low=0, high=5), f(2, 4), "sum"),
    call("one_hot.default", i(2, 3, low=0, high=4), 4),
]

SAMPLES: tuple[Sample, ...] = (*_CONTRACTION, *_REDUCTION, *_INDEXING)
