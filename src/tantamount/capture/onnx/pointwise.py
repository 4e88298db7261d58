"""ONNX operators that work element by element."""

from __future__ import annotations

from tantamount.capture.onnx.given import ROWS, Given, Result, Row, cast_to, row
from tantamount.capture.onnx.model import dtype_of

__all__ = ["ROWS"]


_UNARY = {
    "Neg": "neg", "Abs": "abs", "Sqrt": "sqrt", "Exp": "exp", "Log": "log", "Erf": "erf", "Tanh": "tanh",
    "Sigmoid": "sigmoid", "Relu": "relu", "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos",
    "Atan": "atan", "Sinh": "sinh", "Cosh": "cosh", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh",
    "Floor": "floor", "Ceil": "ceil", "Round": "round", "Sign": "sign", "Reciprocal": "reciprocal",
    "Not": "logical_not", "BitwiseNot": "bitwise_not", "IsNaN": "isnan",
}  # fmt: skip
_BINARY = {
    "Add": "add.Tensor", "Sub": "sub.Tensor", "Mul": "mul.Tensor", "Equal": "eq.Tensor", "Less": "lt.Tensor",
    "LessOrEqual": "le.Tensor", "Greater": "gt.Tensor", "GreaterOrEqual": "ge.Tensor", "And": "logical_and.default",
    "Or": "logical_or.default", "Xor": "logical_xor.default", "BitwiseAnd": "bitwise_and.Tensor",
    "BitwiseOr": "bitwise_or.Tensor", "BitwiseXor": "bitwise_xor.Tensor",
}  # fmt: skip


def _simple(target: str, count: int) -> Row:
    def function(step: Given) -> Result:
        step.most(count)
        operands = step.alike()
        if len(operands) != count:
            raise step.place.wrong(f"{len(operands)} operands", str(count), code="onnx-operands")
        return [step.emit(target, *operands)]

    return function


ROWS.update({name: _simple(f"aten.{target}.default", 1) for name, target in _UNARY.items()})
ROWS.update({name: _simple(f"aten.{target}", 2) for name, target in _BINARY.items()})


@row("Div")
def _div(step: Given) -> Result:
    step.most(2)
    x, y = step.alike()
    if x.dtype.is_float:
        return [step.emit("aten.div.Tensor", x, y)]
    return [step.emit("aten.div.Tensor_mode", x, y, rounding_mode="trunc")]


@row("Pow")
def _pow(step: Given) -> Result:
    step.most(2)
    x, exponent = step.x(0), step.number(1)
    if exponent is not None and x.dtype.is_float and step.x(1).rank <= x.rank:
        whole = float(exponent).is_integer()
        return [step.emit("aten.pow.Tensor_Scalar", x, int(exponent) if whole else float(exponent))]
    return [step.emit("aten.pow.Tensor_Tensor", *step.alike())]


@row("Mod")
def _mod(step: Given) -> Result:
    step.most(2)
    target = "aten.fmod.Tensor" if step.integer("fmod", 0) else "aten.remainder.Tensor"
    return [step.emit(target, *step.alike())]


def _folded(target: str, mean: bool = False) -> Row:
    def function(step: Given) -> Result:
        found, *others = step.alike()
        for other in others:
            found = step.emit(target, found, other)
        return [step.emit("aten.div.Tensor", found, len(others) + 1)] if mean else [found]

    return function


ROWS["Sum"], ROWS["Mean"] = _folded("aten.add.Tensor"), _folded("aten.add.Tensor", mean=True)
ROWS["Min"], ROWS["Max"] = _folded("aten.minimum.default"), _folded("aten.maximum.default")


@row("Clip")
def _clip(step: Given) -> Result:
    step.most(3)
    x, low, high = step.x(0), step.optional(1), step.optional(2)
    found = x
    if low is not None:
        found = step.emit("aten.maximum.default", found, low)
    return [found if high is None else step.emit("aten.minimum.default", found, high)]


@row("Softplus")
def _softplus(step: Given) -> Result:
    return [step.emit("aten.log1p.default", step.emit("aten.exp.default", step.x(0)))]


@row("Softsign")
def _softsign(step: Given) -> Result:
    below = step.emit("aten.add.Tensor", step.emit("aten.abs.default", step.x(0)), 1)
    return [step.emit("aten.div.Tensor", step.x(0), below)]


@row("LeakyRelu")
def _leaky(step: Given) -> Result:
    return [step.emit("aten.leaky_relu.default", step.x(0), step.real("alpha", 0.01))]


@row("Elu")
def _elu(step: Given) -> Result:
    return [step.emit("aten.elu.default", step.x(0), step.real("alpha", 1.0))]


@row("PRelu")
def _prelu(step: Given) -> Result:
    x, slope = step.alike()
    return [step.emit("aten.where.self", step.emit("aten.lt.Scalar", x, 0), step.emit("aten.mul.Tensor", x, slope), x)]


@row("HardSigmoid")
def _hard_sigmoid(step: Given) -> Result:
    scaled = step.emit("aten.mul.Tensor", step.x(0), step.real("alpha", 0.2))
    return [step.emit("aten.clamp.default", step.emit("aten.add.Tensor", scaled, step.real("beta", 0.5)), 0, 1)]


@row("HardSwish")
def _hard_swish(step: Given) -> Result:
    return [step.emit("aten.hardswish.default", step.x(0))]


@row("Gelu")
def _gelu(step: Given) -> Result:
    return [step.emit("aten.gelu.default", step.x(0), approximate=step.text("approximate", "none"))]


@row("IsInf")
def _isinf(step: Given) -> Result:
    step.only("detect_positive", 1)
    step.only("detect_negative", 1)
    return [step.emit("aten.isinf.default", step.x(0))]


@row("Where")
def _where(step: Given) -> Result:
    step.most(3)
    if step.x(1).dtype is not step.x(2).dtype:
        raise step.place.wrong(f"{step.x(1).type} and {step.x(2).type}", "one element type", code="onnx-operands")
    return [step.emit("aten.where.self", step.x(0), step.x(1), step.x(2))]


@row("Identity")
def _identity(step: Given) -> Result:
    step.most(1)
    return [step.x(0)]


@row("Dropout")
def _dropout(step: Given) -> Result:
    step.most(3)
    step.attribute("seed")
    if step.optional(2) is not None and step.number(2) is not False:
        raise step.place.wrong("dropout in training", "training_mode = false", code="onnx-operands")
    return [step.x(0)]


@row("Cast")
def _cast(step: Given) -> Result:
    step.only("saturate", 1)
    return [cast_to(step, step.x(0), dtype_of(step.integer("to", 0), step.place))]


@row("CastLike")
def _cast_like(step: Given) -> Result:
    step.only("saturate", 1)
    return [cast_to(step, step.x(0), step.x(1).dtype)]
