"""Samples of arithmetic, logic and activations."""

from __future__ import annotations

from tantamount.samples.operators.calls import F64, I32, Sample, call, f, i, m, positive

__all__ = ["SAMPLES"]


def _unary(names: str, *, integers: bool = True, scale: float = 1.0) -> list[Sample]:
    """Functions of one operand that are defined on all numbers."""
    out: list[Sample] = []
    for name in names.split():
        out += [call(f"{name}.default", f(2, 3, low=-2 * scale, high=2 * scale)), call(f"{name}.default", f(dtype=F64))]
        if integers:
            out.append(call(f"{name}.default", i(4)))
    return out


def _of_positive(names: str) -> list[Sample]:
    out: list[Sample] = []
    for name in names.split():
        out += [call(f"{name}.default", positive(2, 3)), call(f"{name}.default", i(3, low=1, high=9))]
    return out


def _binary(tensor: str, scalar: str, *, booleans: bool = True) -> list[Sample]:
    """Broadcasting and promotion of two operands under a tensor and a scalar overload."""
    out = [
        call(tensor, f(2, 3), f(3)),
        call(tensor, f(2, 1), f(1, 3, dtype=F64)),
        call(tensor, i(2, 3), f(2, 3)),
        call(tensor, i(3, dtype=I32), i(3)),
        call(tensor, f(2, 3), f(dtype=F64)),
        call(tensor, i(3), f()),
        call(tensor, f(3), i()),
        call(scalar, f(2, 3), 2),
        call(scalar, f(2, 3, dtype=F64), 0.5),
        call(scalar, i(4), 3),
        call(scalar, i(4), 1.5),
    ]
    return [*out, call(tensor, m(2, 3), m(3)), call(tensor, m(3), i(3)), call(scalar, m(4), 2)] if booleans else out


def _divided(tensor: str, scalar: str, **kwargs: str | None) -> list[Sample]:
    """Quotients: divisors that are not zero."""
    return [
        Sample(f"aten.{target}", args, kwargs)
        for target, args in [
            (tensor, (f(2, 3), positive(3))),
            (tensor, (i(2, 3), i(3, low=1, high=4))),
            (tensor, (i(6), i(6, low=-3, high=0, dtype=I32))),
            (tensor, (i(3), positive(3, dtype=F64))),
            (tensor, (f(3), i(low=2, high=3))),
            (scalar, (f(2, 3), 3)),
            (scalar, (i(5), 2)),
            (scalar, (i(5), -2)),
            (scalar, (i(5), 1.5)),
        ]
    ]


_ARITHMETIC: list[Sample] = [
    *_binary("add.Tensor", "add.Scalar"),
    *_binary("mul.Tensor", "mul.Scalar"),
    *_binary("sub.Tensor", "sub.Scalar", booleans=False),
    *_binary("rsub.Tensor", "rsub.Scalar", booleans=False),
    call("add.Tensor", f(2, 3), f(3), alpha=0.5),
    call("add.Tensor", i(3), i(3), alpha=2),
    call("sub.Tensor", f(2, 3), i(3), alpha=3),
    call("sub.Tensor", i(3), f(3), alpha=0.25),
    call("add.Tensor", f(2, 3), 1),
    call("mul.Tensor", f(2, 3), 0.5),
    call("add_.Tensor", f(2, 3), f(3, dtype=F64)),
    call("add_.Tensor", f(2, 3), i(2, 3), alpha=2),
    call("add_.Scalar", i(3), 2),
    call("sub_.Tensor", f(2, 3), f(3)),
    call("sub_.Scalar", f(2, 3), 1),
    call("mul_.Tensor", f(2, 3), f()),
    call("mul_.Scalar", f(3), 2.0),
    call("div_.Tensor", f(2, 3), positive(3)),
    call("div_.Scalar", f(2, 3), 3),
    *_divided("div.Tensor", "div.Scalar"),
    *_divided("div.Tensor_mode", "div.Scalar_mode", rounding_mode="floor"),
    *_divided("div.Tensor_mode", "div.Scalar_mode", rounding_mode="trunc"),
    *_divided("div.Tensor_mode", "div.Scalar_mode", rounding_mode=None),
    *_divided("floor_divide.default", "floor_divide.Scalar"),
    *_divided("remainder.Tensor", "remainder.Scalar"),
    *_divided("fmod.Tensor", "fmod.Scalar"),
    call("true_divide.Tensor", i(3), i(3, low=1, high=4)),
    call("neg_.default", f(3)),
    *_unary("neg abs sign sgn floor ceil trunc round square"),
    *_unary("frac", integers=False),
    *_of_positive("reciprocal rsqrt sqrt log log2 log10 log1p"),
    *_unary("exp exp2 expm1 sinh cosh sin cos atan erf erfc tan"),
    call("square.default", m(3)),
    call("exp.default", m(3)),
    call("sqrt_.default", positive(3)),
    call("exp_.default", f(3)),
    call("rsqrt_.default", positive(3)),
    call("reciprocal_.default", positive(3)),
    call("lerp_.Scalar", f(3), f(3), 0.25),
    call("lerp_.Tensor", f(2, 3), f(3), f(2, 1)),
    call("log_.default", positive(3)),
    call("lerp.Scalar", f(3), f(3), 0.25),
    call("lerp.Tensor", f(2, 3), f(3), f(2, 1)),
    call("addcmul.default", f(2, 3), f(3), f(2, 1), value=0.5),
    call("addcmul.default", i(3), i(3), i(3)),
    call("addcmul_.default", f(2, 3), f(3), f(2, 1)),
    call("addcdiv.default", f(2, 3), f(3), positive(2, 1), value=-0.1),
    call("addcdiv_.default", f(2, 3), f(3), positive(2, 1)),
]

_POWERS: list[Sample] = [
    call("pow.Tensor_Scalar", f(2, 3), 2),
    call("pow.Tensor_Scalar", f(2, 3), 3.0),
    call("pow.Tensor_Scalar", positive(2, 3), 0.5),
    call("pow.Tensor_Scalar", positive(3), -1.5),
    call("pow.Tensor_Scalar", f(3), 0),
    call("pow.Tensor_Scalar", f(3), 1),
    call("pow.Tensor_Scalar", i(3), 2),
    call("pow.Tensor_Scalar", i(3, low=1), 0.5),
    call("pow.Tensor_Scalar", m(3), 2),
    call("pow_.Scalar", f(3), 2),
    call("pow.Scalar", 100.0, f(2, 3)),
    call("pow.Scalar", 10000, f(2)),
    call("pow.Scalar", 2, i(4, low=0, high=6)),
    call("pow.Scalar", 2.5, i(4)),
    call("pow.Scalar", 1, f(3)),
    call("pow.Tensor_Tensor", positive(2, 3), f(3)),
    call("pow.Tensor_Tensor", i(3), i(3, low=0, high=4)),
    call("pow.Tensor_Tensor", positive(3), i(3)),
]

_ORDER: list[Sample] = [
    sample
    for name, other in (("maximum.default", "max.other"), ("minimum.default", "min.other"))
    for sample in (
        call(name, f(2, 3), f(3)),
        call(name, i(3), f(3)),
        call(name, i(3), i(3, dtype=I32)),
        call(name, m(4), m(4)),
        call(other, f(2, 3), f(2, 1)),
        call(other, f(3), i()),
    )
] + [
    call("clamp.default", f(2, 3), -1, 1),
    call("clamp.default", f(3), None, 0.5),
    call("clamp.default", i(5), 0, 2),
    call("clamp.default", i(5), 0, 2.5),
    call("clamp.default", i(5), 1),
    call("clamp.Tensor", f(2, 3), f(3, low=-2, high=-1), f(3, low=0, high=1)),
    call("clamp.Tensor", f(2, 3), None, f()),
    call("clamp_.default", f(3), -1.0, 1.0),
    call("clamp_min.default", f(3), 0),
    call("clamp_min.Tensor", f(2, 3), f(3)),
    call("clamp_min_.default", f(3), 0.5),
    call("clamp_max.default", i(3), 1),
    call("clamp_max.Tensor", f(3), f(3)),
    call("clamp_max_.default", f(3), 0.5),
]


def _comparison(name: str) -> list[Sample]:
    return _binary(f"{name}.Tensor", f"{name}.Scalar")


_LOGIC: list[Sample] = [
    *[sample for name in ("eq", "ne", "lt", "gt", "le", "ge") for sample in _comparison(name)],
    call("logical_not.default", m(2, 3)),
    call("logical_not.default", i(3)),
    call("logical_not.default", f(3)),
    *[
        sample
        for name in ("logical_and", "logical_or", "logical_xor")
        for sample in (call(f"{name}.default", m(2, 3), m(3)), call(f"{name}.default", i(3), f(3)))
    ],
    *[
        sample
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__or__")
        for sample in (
            call(f"{name}.Tensor", m(2, 3), m(3)),
            call(f"{name}.Tensor", i(4), i(4, dtype=I32)),
            call(f"{name}.Tensor", m(3), i(3)),
            call(f"{name}.Scalar", i(4), 3),
            call(f"{name}.Scalar", m(4), True),
        )
    ],
    *[
        sample
        for name in ("bitwise_and_", "bitwise_or_")
        for sample in (call(f"{name}.Tensor", m(2, 3), m(3)), call(f"{name}.Scalar", i(4), 1))
    ],
    call("bitwise_not.default", m(3)),
    call("bitwise_not.default", i(4)),
    call("where.self", m(2, 3), f(3), f(2, 1)),
    call("where.self", m(2, 3), i(3), f()),
    call("where.self", m(2), f(), f(dtype=F64)),
    call("where.ScalarSelf", m(3), 1.0, i(3)),
    call("where.ScalarSelf", m(3), 0, f(3)),
    call("where.ScalarOther", m(2, 3), f(3), float("-inf")),
    call("where.ScalarOther", m(3), i(3), 2),
    call("where.Scalar", m(3), 1.0, 0.0),
    call("where.Scalar", m(3), 1, 0),
    call("masked_fill.Scalar", f(2, 3), m(3), float("-inf")),
    call("masked_fill.Scalar", f(3), m(2, 3), -10000.0),
    call("masked_fill.Scalar", i(3), m(3), 7),
    call("masked_fill.Scalar", m(3), m(3), True),
    call("masked_fill.Tensor", f(2, 3), m(2, 1), f()),
    call("masked_fill.Tensor", f(3), m(3), i()),
    call("masked_fill_.Scalar", f(2, 3), m(2, 3), 0),
    call("masked_fill_.Tensor", f(2, 3), m(3), f()),
]

_ACTIVATION: list[Sample] = [
    *_unary("relu"),
    *_unary("relu6 hardsigmoid hardswish log_sigmoid silu mish", integers=False, scale=2),
    *_unary("sigmoid tanh"),
    *[call(f"{name}_.default", f(3)) for name in ("relu", "sigmoid", "tanh", "silu")],
    call("leaky_relu.default", f(2, 3)),
    call("leaky_relu.default", f(2, 3), 0.2),
    call("elu.default", f(2, 3)),
    call("elu.default", f(3), 1.5, 2.0, 0.5),
    call("hardtanh.default", f(2, 3)),
    call("hardtanh.default", f(3), -0.5, 1.5),
    call("gelu.default", f(2, 3)),
    call("gelu.default", f(3, dtype=F64), approximate="tanh"),
    call("gelu.default", f(3), approximate="none"),
    call("softplus.default", f(2, 3)),
    call("softplus.default", f(3), 2.0, 1.0),
    call("glu.default", f(2, 6)),
    call("glu.default", f(4, 3), 0),
    *[
        sample
        for name in ("softmax.int", "log_softmax.int", "_safe_softmax.default")
        for sample in (
            call(name, f(2, 3), -1),
            call(name, f(2, 3, 4), 1),
            call(name, f(2, 3), 0, F64),
            call(name, f(), 0),
        )
    ],
    call("softmax.int", i(2, 3), -1, F64),
    *[
        sample
        for name in ("_softmax.default", "_log_softmax.default")
        for sample in (call(name, f(2, 3), -1, False), call(name, f(4, 2, dtype=F64), 0, False))
    ],
]

SAMPLES: tuple[Sample, ...] = (*_ARITHMETIC, *_POWERS, *_ORDER, *_LOGIC, *_ACTIVATION)
