"""Samples of pooling, and of norms per channel and their gradients."""

from __future__ import annotations

from tantamount.samples.operators.calls import F64, Operand, Sample, call, f, i, positive

__all__ = ["SAMPLES"]

# of input (2, 3, 7, 6): attributes of windows (kernel, stride, padding, ceil_mode)
_WINDOWS = [
    ((2, 3), (), (0,), False),
    ((3,), (2,), (1,), False),
    ((3, 2), (2, 1), (1, 0), True),
    ((2, 3), (3, 4), (1, 1), True),
    ((2,), (2,), (0,), True),
]
_COUNTS = [(3, 2), (4, 3), (4, 5), (3, 2), (4, 3)]  # of windows

_POOLING: list[Sample] = [
    call("avg_pool1d.default", f(2, 3, 7), (2,)),
    call("avg_pool1d.default", f(3, 7), (3,), (2,), (1,), True, False),
    call("avg_pool3d.default", f(2, 3, 4, 5, 6), (2, 3, 2)),
    call("avg_pool3d.default", f(3, 4, 5, 6), (2, 3, 2), (1, 2, 3), (1, 1, 0), True, False, 5),
    *[call(f"{name}.default", f(2, 3, 7, 6), (3,)) for name in ("avg_pool2d", "max_pool2d")],
    *[
        call("avg_pool2d.default", f(2, 3, 7, 6), *windows, counted, divisor)
        for windows in _WINDOWS
        for counted, divisor in ((True, None), (False, None), (True, 5))
    ],
    call("avg_pool2d.default", f(3, 7, 6, dtype=F64), (2,)),
    *[
        call("avg_pool2d_backward.default", f(2, 3, *counts), f(2, 3, 7, 6), *windows, counted, divisor)
        for windows, counts in zip(_WINDOWS, _COUNTS, strict=True)
        for counted, divisor in ((True, None), (False, None), (True, 5))
    ],
    *[
        call(f"{name}.default", f(2, 3, 7, 6), kernel, stride, padding, dilation, ceil_mode)
        for name in ("max_pool2d", "max_pool2d_with_indices")
        for kernel, stride, padding, ceil_mode in _WINDOWS
        for dilation in ((1,), (2, 1))
    ],
    call("max_pool2d_with_indices.default", f(3, 7, 6), (2,)),
    call("max_pool2d_with_indices.default", Operand((1, 1, 4, 4), data=(1, 1, 2, 0, 1, 1, 2, 2) * 2), (2,)),
    *[
        call(
            "max_pool2d_with_indices_backward.default",
            *(f(2, 3, rows, 2), f(2, 3, 7, 6), (2, 3), (2, 3), padding, dilation, False),
            i(2, 3, rows, 2, low=0, high=42),
        )
        for rows, padding, dilation in ((3, (0,), (1,)), (4, (1, 0), (2, 1)))
    ],
    call(
        "max_pool2d_with_indices_backward.default",
        *(f(3, 4, 3), f(3, 7, 6), (2, 2), (2, 2), (0,), (1,), True, i(3, 4, 3, low=0, high=42)),
    ),
    *[call(f"{name}.default", f(2, 3, 6, 4), (3, 2)) for name in ("_adaptive_avg_pool2d", "adaptive_avg_pool2d")],
    call("adaptive_avg_pool2d.default", f(3, 6, 4), (1, 1)),
    call("adaptive_avg_pool1d.default", f(2, 3, 6), (2,)),
    call("_adaptive_avg_pool2d_backward.default", f(2, 3, 3, 2), f(2, 3, 6, 4)),
    call("_adaptive_avg_pool2d_backward.default", f(3, 1, 1), f(3, 6, 4)),
]

_COLUMNS: list[Sample] = [
    call("im2col.default", f(2, 3, 7, 6), (2, 3), (1, 1), (0, 0), (1, 1)),
    call("im2col.default", f(3, 7, 6), (3, 2), (2, 1), (1, 0), (2, 3)),
    call("col2im.default", f(2, 18, 24), (7, 6), (2, 3), (1, 1), (0, 0), (1, 1)),
    call("col2im.default", f(18, 6), (7, 6), (3, 2), (2, 1), (1, 0), (2, 3)),
]

_ENLARGED: list[Sample] = [
    call("upsample_nearest2d.default", f(2, 3, 4, 5), (8, 15)),
    call("upsample_nearest2d.default", f(2, 3, 4, 5), (8, 15), 2.0, 3.0),
    call("upsample_nearest2d.vec", f(2, 3, 4, 5), (4, 10), None),
    call("upsample_nearest2d.vec", f(2, 3, 4, 5), None, (2.0, 3.0)),
]

_RUNNING = (f(3), positive(3))
_ALL = (True, True, True)

_NORMS: list[Sample] = [
    call("native_batch_norm.default", f(2, 3, 4, 5), f(3), f(3), None, None, True, 0.1, 1e-5),
    call("native_batch_norm.default", f(4, 3), None, None, None, None, True, 0.1, 0.5),
    call("native_batch_norm.default", f(2, 3, 4), f(3), f(3), *_RUNNING, False, 0.2, 1e-5),
    call("batch_norm.default", f(2, 3, 4), f(3), f(3), *_RUNNING, False, 0.2, 1e-3, True),
    call("batch_norm.default", f(2, 3, 4), f(3), f(3), None, None, True, 0.2, 1e-3, False),
    call("_native_batch_norm_legit.no_stats", f(2, 3, 4), f(3), f(3), True, 0.1, 1e-5),
    call("_native_batch_norm_legit_no_training.default", f(2, 3, 4), f(3), f(3), *_RUNNING, 0.1, 1e-5),
    call("_native_batch_norm_legit_no_training.default", f(2, 3, 4, 2), None, None, *_RUNNING, 0.1, 1e-3),
    call("_native_batch_norm_legit_functional.default", f(2, 3, 4), f(3), f(3), *_RUNNING, True, 0.1, 1e-5),
    call("_native_batch_norm_legit_functional.default", f(2, 3, 4), None, None, *_RUNNING, True, 0.3, 1e-3),
    call("_native_batch_norm_legit_functional.default", f(2, 3, 4), f(3), f(3), *_RUNNING, False, 0.1, 1e-5),
    *[
        call("native_batch_norm_backward.default", f(2, 3, 4), f(2, 3, 4), *weight, *_RUNNING, *saved, *rest, mask)
        for weight in ((None,), (f(3),))
        for saved in ((f(3), positive(3)),)
        for rest in ((True, 1e-5), (False, 1e-3))
        for mask in (_ALL, (True, False, True))
    ],
    call(
        "native_batch_norm_backward.default",
        *(f(2, 3), f(2, 3), f(3), None, None, f(3), positive(3), True, 1e-5, (False, True, True)),
    ),
    *[
        call(
            "native_group_norm_backward.default",
            *(f(2, 6, 3, 2), f(2, 6, 3, 2), f(2, 3), positive(2, 3), weight, 2, 6, 6, 3, mask),
        )
        for weight, mask in ((f(6), _ALL), (f(6), (True, False, True)), (None, (True, False, False)))
    ],
]

SAMPLES: tuple[Sample, ...] = (*_POOLING, *_COLUMNS, *_ENLARGED, *_NORMS)
