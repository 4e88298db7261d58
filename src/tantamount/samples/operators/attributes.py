"""Samples in which every attribute differs from its default at least once, where the family's own samples do not."""

from __future__ import annotations

from tantamount.ops.table import table
from tantamount.samples.operators.calls import F32, F64, I64, Sample, call, f, i, positive

__all__ = ["SAMPLES", "unvaried"]

SAMPLES: tuple[Sample, ...] = (
    call("sub_.Tensor", f(2, 3), f(3), alpha=3),
    call("rsub.Tensor", f(2, 3), f(3), alpha=3),
    call("rsub.Scalar", f(2, 3), 2.0, 3),
    call("addcmul_.default", f(2, 3), f(3), f(2, 1), value=0.5),
    call("addcdiv_.default", f(2, 3), f(3), positive(2, 1), value=0.5),
    call("split.sizes", f(2, 5), (2, 3), 1),
    call("pad.default", f(2, 3), (1, 2), "constant", 4.0),
    call("new_full.default", f(2), (2, 3), 5, dtype=I64),
    call("eye.default", 3, dtype=I64),
    call("addmv.default", f(2), f(2, 3), f(3), beta=0.5, alpha=3),
    call("addmv.default", f(2), f(2, 3), f(3), beta=0),
    call("addbmm.default", f(3, 5), f(2, 3, 4), f(2, 4, 5), beta=2, alpha=0.5),
    call("mean.dim", i(2, 3), (1,), dtype=F64),
    call("mean.dim", f(2, 3), (1,), True, dtype=F64),
    call("prod.default", i(3), dtype=F32),
    call("std.dim", f(2, 3), (1,), False, True),
    call("std.dim", f(2, 3), (0,), False),
    call("group_norm.default", f(2, 4, 3), 2, f(4), f(4), 0.5),
    call("scaled_dot_product_attention.default", f(1, 2, 3, 4), f(1, 2, 5, 4), f(1, 2, 5, 4), None, 0.0, True),
    call(
        "_scaled_dot_product_flash_attention_for_cpu.default",
        *(f(1, 2, 3, 4), f(1, 2, 5, 4), f(1, 2, 5, 4), 0.0, True),
    ),
    Sample("aten.new_empty.default", (f(2), (2, 3)), {"dtype": I64}, values=False),
    Sample("aten.empty_strided.default", ((2, 3), (3, 1)), {"dtype": I64}, values=False),
    Sample("aten.new_empty_strided.default", (f(2), (2, 3), (3, 1)), {"dtype": I64}, values=False),
    Sample("aten.rand_like.default", (f(2),), {"dtype": F64}, values=False),
)


def unvaried(samples: tuple[Sample, ...]) -> set[tuple[str, str]]:
    """The attributes (operator, parameter) that no sample gives another value than the default."""
    rows = table()
    varied: set[tuple[str, str]] = set()
    for sample in samples:
        row = rows[sample.target]
        for name, value in row.signature.bind(*sample.args, **sample.kwargs).arguments.items():
            parameter = row.parameters[name]
            if parameter.required or repr(value) != repr(parameter.default):
                varied.add((row.name, name))
    every = {(row.name, name) for row in rows.values() for name, p in row.parameters.items() if p.kind != "Layout"}
    return every - varied
