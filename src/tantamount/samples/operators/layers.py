"""Samples of norms, attention, losses, dropout and gradients."""

from __future__ import annotations

from dataclasses import replace

from tantamount.samples.operators.calls import F32, F64, Operand, Sample, call, f, i, m, positive

__all__ = ["SAMPLES"]

_NORM: list[Sample] = [
    call("native_layer_norm.default", f(2, 3, 4), (4,), f(4), f(4), 1e-5),
    call("native_layer_norm.default", f(2, 3, 4), (3, 4), None, None, 1e-3),
    call("native_layer_norm.default", f(4), (4,), f(4), None, 1e-5),
    call("layer_norm.default", f(2, 3, 4), (4,), f(4), f(4)),
    call("layer_norm.default", f(2, 4, dtype=F64), (4,), None, None, 1e-6, False),
    call("rms_norm.default", f(2, 3, 4), (4,), f(4), 1e-6),
    call("rms_norm.default", f(2, 4), (4,)),
    call("rms_norm.default", f(2, 4, dtype=F64), (4,), f(4, dtype=F64)),
    call("_fused_rms_norm.default", f(2, 3, 4), (4,), f(4), 1e-6),
    call("_fused_rms_norm.default", f(2, 3, 4), (3, 4), None, None),
    call("group_norm.default", f(2, 6, 3), 3, f(6), f(6)),
    call("group_norm.default", f(2, 6), 2),
    call("native_group_norm.default", f(2, 6, 3, 2), f(6), f(6), 2, 6, 6, 3, 1e-5),
    call("native_group_norm.default", f(2, 6, 3), None, None, 2, 6, 3, 2, 1e-3),
    call("_weight_norm_interface.default", f(3, 4), f(3, 1)),
    call("_weight_norm_interface.default", f(3, 2, 4), f(1, 1, 4), 2),
    call("_weight_norm_interface_backward.default", f(3, 4), f(3, 4), f(3, 1), positive(3, 1), 0),
]

_Q, _K, _V = f(2, 4, 5, 8), f(2, 4, 6, 8), f(2, 4, 6, 8)
_GRADIENTS = "_scaled_dot_product_flash_attention_for_cpu_backward.default"
_ONE_OPEN = m(5, 6, data=(1, 0, 0, 1, 1, 0) * 5)

_ATTENTION: list[Sample] = [
    call("scaled_dot_product_attention.default", _Q, _K, _V),
    call("scaled_dot_product_attention.default", _Q, _K, f(2, 4, 6, 3)),
    call("scaled_dot_product_attention.default", _Q, _K, _V, _ONE_OPEN),
    call("scaled_dot_product_attention.default", _Q, _K, _V, f(2, 1, 5, 6)),
    call("scaled_dot_product_attention.default", _Q, _K, _V, None, 0.0, True),
    call("scaled_dot_product_attention.default", _Q, _K, _V, scale=0.25),
    call("scaled_dot_product_attention.default", _Q, f(2, 2, 6, 8), f(2, 2, 6, 8), enable_gqa=True),
    call("scaled_dot_product_attention.default", f(5, 8), f(6, 8), f(6, 3)),
    call("_scaled_dot_product_flash_attention_for_cpu.default", _Q, _K, _V),
    call("_scaled_dot_product_flash_attention_for_cpu.default", _Q, _K, _V, 0.0, True, scale=0.5),
    call("_scaled_dot_product_flash_attention_for_cpu.default", _Q, _K, _V, attn_mask=f(5, 6)),
    call(_GRADIENTS, f(2, 4, 5, 8), _Q, _K, _V, f(2, 4, 5, 8), f(2, 4, 5), 0.0, False),
    call(_GRADIENTS, f(2, 4, 5, 8), _Q, _K, _V, f(2, 4, 5, 8), f(2, 4, 5), 0.0, True, scale=0.5),
    call(_GRADIENTS, f(2, 4, 5, 8), _Q, _K, _V, f(2, 4, 5, 8), f(2, 4, 5), 0.0, False, attn_mask=f(5, 6)),
]

_MATH = "_scaled_dot_product_attention_math.default"
_FEW = (f(2, 4, 5, 8), f(2, 2, 6, 8), f(2, 2, 6, 8))
_KEPT = m(2, 4, 5, 6)

_FEWER_HEADS: list[Sample] = [
    call("_scaled_dot_product_flash_attention_for_cpu.default", *_FEW),
    call(_GRADIENTS, f(2, 4, 5, 8), *_FEW, f(2, 4, 5, 8), f(2, 4, 5, low=2, high=4), 0.0, False),
    call(_MATH, _Q, _K, _V),
    call(_MATH, _Q, _K, f(2, 4, 6, 3), f(5, 6)),
    call(_MATH, _Q, _K, _V, None, 0.0, True, scale=0.3),
    call(_MATH, _Q, _K, _V, None, 0.25, False, _KEPT),
    call(_MATH, _Q, _K, _V, None, 0.0, False, _KEPT),
    call(_MATH, *_FEW, enable_gqa=True),
]

_SHARE = Operand((2, 3), F32, 0.1, 0.9)
_LOGITS, _TARGETS = f(6, 5), i(6, low=0, high=5)
_IGNORING = i(6, data=(0, 3, 1, 1, 4, 1))


def _nll(name: str) -> list[Sample]:
    return [
        *[call(name, _LOGITS, _TARGETS, None, reduction) for reduction in (0, 1, 2)],
        *[call(name, _LOGITS, _IGNORING, positive(5), reduction, 1) for reduction in (0, 1, 2)],
        call(name, _LOGITS, i(6, data=(0, 3, -100, 1, -100, 1)), None, 1, -100),
    ]


_LOSS: list[Sample] = [
    *_nll("nll_loss.default"),
    *_nll("nll_loss_nd.default"),
    *_nll("cross_entropy_loss.default"),
    *[
        call("nll_loss_forward.default", _LOGITS, _IGNORING, weight, reduction, ignored)
        for weight in (None, positive(5))
        for reduction in (0, 1, 2)
        for ignored in (-100, 1)
    ],
    call("nll_loss_forward.default", f(5), i(low=0, high=5), None, 1, -100),
    call("nll_loss2d_forward.default", f(2, 5, 3, 2), i(2, 3, 2, low=0, high=5), positive(5), 1, 2),
    call("nll_loss2d_forward.default", f(2, 5, 3, 2), i(2, 3, 2, low=0, high=5), None, 0, -100),
    call("nll_loss_nd.default", f(2, 5, 3), i(2, 3, low=0, high=5)),
    call("cross_entropy_loss.default", f(5), i(low=0, high=5)),
    call("cross_entropy_loss.default", f(2, 5, 3), i(2, 3, low=0, high=5), None, 1, 2),
    *[
        call("cross_entropy_loss.default", _LOGITS, _IGNORING, weight, reduction, 1, 0.1)
        for weight in (None, positive(5))
        for reduction in (0, 1, 2)
    ],
    *[
        call("cross_entropy_loss.default", _LOGITS, positive(6, 5), weight, reduction, -100, smoothing)
        for weight in (None, positive(5))
        for reduction in (0, 1, 2)
        for smoothing in (0.0, 0.1)
    ],
    *[
        call(f"{name}.default", f(2, 3), f(2, 3), reduction)
        for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
        for reduction in (0, 1, 2)
    ],
    call("huber_loss.default", f(2, 3), f(2, 3), 1, 0.5),
    *[
        call(f"{name}_backward.default", f(2, 3) if reduction == 0 else f(), f(2, 3), f(2, 3), reduction, width)
        for name in ("smooth_l1_loss", "huber_loss")
        for reduction, width in ((0, 1.0), (1, 0.5), (2, 1.0))
    ],
    *[
        call("binary_cross_entropy.default", _SHARE, _SHARE, weight, reduction)
        for weight in (None, positive(2, 3))
        for reduction in (0, 1, 2)
    ],
    *[
        call("binary_cross_entropy_backward.default", gradient, _SHARE, _SHARE, weight, reduction)
        for weight in (None, positive(2, 3))
        for gradient, reduction in ((f(2, 3), 0), (f(), 1), (f(), 2))
    ],
    call("smooth_l1_loss.default", f(2, 3), f(2, 3), 1, 0.5),
    call("mse_loss_backward.default", f(2, 3), f(2, 3), f(2, 3), 0),
    call("mse_loss_backward.default", f(), f(2, 3), f(2, 3), 1),
    call("mse_loss_backward.default", f(), f(2, 3), f(2, 3), 2),
    call("binary_cross_entropy_with_logits.default", f(2, 3), positive(2, 3)),
    call("binary_cross_entropy_with_logits.default", f(2, 3), positive(2, 3), positive(3), positive(3), 0),
]


def _any_values(sample: Sample) -> Sample:
    return replace(sample, values=False)


_RANDOM: list[Sample] = [
    _any_values(call("native_dropout.default", f(2, 3), 0.1, True)),
    _any_values(call("native_dropout.default", f(2, 3), 0.1, None)),
    call("native_dropout.default", f(2, 3), 0.1, False),
    call("native_dropout.default", f(2, 3), 1.0, True),
    call("native_dropout.default", f(2, 3), 0.0, True),
    _any_values(call("dropout.default", f(2, 3), 0.1, True)),
    call("dropout.default", f(2, 3), 0.1, False),
    call("dropout_.default", f(2, 3), 1.0, True),
    call("native_dropout_backward.default", f(2, 3), m(2, 3), 1.25),
    *[_any_values(call(f"{name}.default", (2, 3))) for name in ("rand", "randn")],
    _any_values(call("rand.default", (2,), dtype=F64)),
    *[_any_values(call(f"{name}_like.default", f(2, 3))) for name in ("rand", "randn")],
]

_KINKS = Operand((7,), F32, data=(-4, -3, -1, 0, 2, 3, 5))
_SAVED = (_Q, _K, _V, f(2, 4, 5, 8), f(2, 4, 5, low=2, high=4))  # query, key, value, result, logarithms of sums

_GRADIENT: list[Sample] = [
    call("threshold_backward.default", f(2, 3), f(2, 3), 0),
    call("sigmoid_backward.default", f(2, 3), positive(2, 3)),
    call("tanh_backward.default", f(2, 3), f(2, 3)),
    call("silu_backward.default", f(2, 3), f(2, 3)),
    call("gelu_backward.default", f(2, 3), f(2, 3)),
    call("gelu_backward.default", f(2, 3), f(2, 3), approximate="tanh"),
    call("_softmax_backward_data.default", f(2, 3), positive(2, 3), -1, F32),
    call("_log_softmax_backward_data.default", f(2, 3), f(2, 3), 0, F32),
    call(
        "native_layer_norm_backward.default",
        *(f(2, 3, 4), f(2, 3, 4), (4,), f(2, 3, 1), positive(2, 3, 1), f(4), f(4), (True, True, True)),
    ),
    call(
        "native_layer_norm_backward.default",
        *(f(2, 3, 4), f(2, 3, 4), (3, 4), f(2, 1, 1), positive(2, 1, 1), None, None, (True, False, False)),
    ),
    *[
        call("nll_loss_backward.default", grad, _LOGITS, _IGNORING, weight, reduction, 1, positive())
        for weight in (None, positive(5))
        for grad, reduction in ((f(6), 0), (f(), 1), (f(), 2))
    ],
    call("nll_loss2d_backward.default", f(), f(2, 5, 3, 2), i(2, 3, 2, low=0, high=5), None, 1, 2, positive()),
    call("embedding_dense_backward.default", f(2, 3, 4), i(2, 3, low=0, high=7), 7, -1, False),
    call("embedding_dense_backward.default", f(2, 3, 4), i(2, 3, low=0, high=7), 7, 2, False),
    call("select_backward.default", f(3), (2, 3), 0, 1),
    call("slice_backward.default", f(2, 3), (2, 6), 1, 0, 6, 2),
    call("hardtanh_backward.default", f(7), _KINKS, -3, 3),
    _any_values(call("hardsigmoid_backward.default", f(7), _KINKS)),  # PyTorch's 1/6 has seven digits, in float64 too
    call("hardswish_backward.default", f(7), _KINKS),
    call("leaky_relu_backward.default", f(7), _KINKS, 0.1, False),
    call("leaky_relu_backward.default", f(7), _KINKS, 0.1, True),
    call("leaky_relu_backward.default", f(7), _KINKS, -0.1, False),
    call("elu_backward.default", f(7), 0.5, 2, 3, False, _KINKS),
    call("elu_backward.default", f(7), 0.5, 2, 3, True, _KINKS),
    call("softplus_backward.default", f(7), _KINKS, 2, 3),
    call("log_sigmoid_backward.default", f(2, 3), f(2, 3), positive(2, 3)),
    call("_scaled_dot_product_flash_attention_for_cpu_backward.default", f(2, 4, 5, 8), *_SAVED, 0.0, False),
    call("_scaled_dot_product_flash_attention_for_cpu_backward.default", f(2, 4, 5, 8), *_SAVED, 0.0, False, scale=0.3),
    call(
        "_scaled_dot_product_flash_attention_for_cpu_backward.default",
        *(f(2, 4, 5, 8), *_SAVED, 0.0, False),
        attn_mask=f(2, 1, 5, 6),
    ),
    call(
        "_scaled_dot_product_flash_attention_for_cpu_backward.default",
        *(f(1, 2, 5, 8), *[f(1, 2, 5, 8)] * 4, f(1, 2, 5), 0.0, True),
    ),
]

SAMPLES: tuple[Sample, ...] = (*_NORM, *_ATTENTION, *_FEWER_HEADS, *_LOSS, *_RANDOM, *_GRADIENT)
