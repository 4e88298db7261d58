"""ONNX operators that sum, multiply, normalise and convolve."""

from __future__ import annotations

from collections.abc import Sequence

from tantamount.capture.onnx.given import ROWS, Given, Known, Result, Row, cast_to, row

__all__ = ["ROWS"]


def _reduced(target: str, before: str = "", *more: object) -> Row:
    """A reduction by an operator with axes and ``keepdim`` behind ``more``; ``before``: what is applied to x first."""

    def function(step: Given) -> Result:
        step.most(2)
        x = step.x(0)
        keep, empty = bool(step.integer("keepdims", 1)), step.integer("noop_with_empty_axes", 0)
        given = step.integers("axes")
        if step.optional(1) is not None:
            given = step.numbers(1)
        if not given and empty:
            if before or more:  # which is applied all the same
                raise step.place.wrong("no axes", "axes", code="onnx-operands")
            return [x]
        axes = [step.axis(a, x.rank) for a in given] if given else list(range(x.rank))
        if before == "square":
            x = step.emit("aten.mul.Tensor", x, x)
        elif before:
            x = step.emit(before, x)
        found = step.emit(target, x, *more, axes, keep)
        return [cast_to(step, found, step.x(0).dtype)]

    return function


ROWS.update(
    {
        "ReduceSum": _reduced("aten.sum.dim_IntList"),
        "ReduceMean": _reduced("aten.mean.dim"),
        "ReduceMax": _reduced("aten.amax.default"),
        "ReduceMin": _reduced("aten.amin.default"),
        "ReduceL1": _reduced("aten.sum.dim_IntList", "aten.abs.default"),
        "ReduceSumSquare": _reduced("aten.sum.dim_IntList", "square"),
        "ReduceLogSumExp": _reduced("aten.logsumexp.default"),
        "ReduceL2": _reduced("aten.linalg_vector_norm.default", "", 2),
    }
)


@row("CumSum")
def _cumsum(step: Given) -> Result:
    step.most(2)
    x = step.x(0)
    axis = step.axis(step.numbers(1)[0], x.rank)
    exclusive, reverse = step.integer("exclusive", 0), step.integer("reverse", 0)
    given = step.emit("aten.flip.default", x, [axis]) if reverse else x
    found = cast_to(step, step.emit("aten.cumsum.default", given, axis), x.dtype)
    if exclusive:
        found = step.emit("aten.sub.Tensor", found, given)
    return [step.emit("aten.flip.default", found, [axis]) if reverse else found]


@row("MatMul")
def _matmul(step: Given) -> Result:
    step.most(2)
    return [step.emit("aten.matmul.default", *step.alike())]


@row("Gemm")
def _gemm(step: Given) -> Result:
    step.most(3)
    a, b = step.x(0), step.x(1)
    alpha, beta = step.real("alpha", 1.0), step.real("beta", 1.0)
    a = step.emit("aten.t.default", a) if step.integer("transA", 0) else a
    b = step.emit("aten.t.default", b) if step.integer("transB", 0) else b
    found = step.emit("aten.mm.default", a, b)
    found = found if alpha == 1 else step.emit("aten.mul.Tensor", found, alpha)
    c = step.optional(2)
    if c is None:
        return [found]
    c = c if beta == 1 else step.emit("aten.mul.Tensor", c, beta)
    return [step.emit("aten.add.Tensor", found, c)]


@row("Einsum")
def _einsum(step: Given) -> Result:
    return [step.emit("aten.einsum.default", step.text("equation", ""), step.alike())]


# ------------------------------------------------------------------------------------------------ networks
@row("Softmax")
def _softmax(step: Given) -> Result:
    return [step.emit("aten._softmax.default", step.x(0), step.integer("axis", -1), False)]


@row("LogSoftmax")
def _log_softmax(step: Given) -> Result:
    return [step.emit("aten._log_softmax.default", step.x(0), step.integer("axis", -1), False)]


@row("LayerNormalization")
def _layer_norm(step: Given) -> Result:
    step.most(3)
    step.only("stash_type", 1)
    x, scale, bias = step.x(0), step.x(1), step.optional(2)
    axis = step.axis(step.integer("axis", -1), x.rank)
    row_, epsilon = list(x.shape[axis:]), step.real("epsilon", 1e-5)
    return [step.emit("aten.layer_norm.default", x, row_, *_spread(step, row_, scale, bias), epsilon)]


@row("RMSNormalization")
def _rms_norm(step: Given) -> Result:
    step.most(2)
    step.only("stash_type", 1)
    x, scale = step.x(0), step.x(1)
    axis = step.axis(step.integer("axis", -1), x.rank)
    row_, epsilon = list(x.shape[axis:]), step.real("epsilon", 1e-5)
    return [step.emit("aten.rms_norm.default", x, row_, *_spread(step, row_, scale), epsilon)]


def _spread(step: Given, shape: list[int], *given: Known | None) -> list[Known | None]:
    """Scales and shifts of a norm, of its shape."""
    return [
        one if one is None or list(one.shape) == shape else step.emit("aten.expand.default", one, shape)
        for one in given
    ]  # fmt: skip


@row("BatchNormalization")
def _batch_norm(step: Given) -> Result:
    step.most(5)
    step.only("training_mode", 0)
    step.attribute("momentum")
    epsilon = step.real("epsilon", 1e-5)
    return [step.emit("aten.batch_norm.default", *(step.x(k) for k in range(5)), False, 0.1, epsilon, False)]


@row("InstanceNormalization")
def _instance_norm(step: Given) -> Result:
    step.most(3)
    x = step.x(0)
    epsilon = step.real("epsilon", 1e-5)
    return [step.emit("aten.group_norm.default", x, x.shape[1], step.x(1), step.x(2), epsilon, False)]


@row("GroupNormalization")
def _group_norm(step: Given) -> Result:
    step.most(3)
    step.only("stash_type", 1)
    x, groups = step.x(0), step.integer("num_groups", 0)
    if step.opset < 21 or x.shape[1] != step.x(1).shape[0]:
        raise step.place.wrong(
            f"a scale for every group (opset {step.opset})",
            "a scale for every channel (opset 21)",
            code="onnx-operands",
        )
    epsilon = step.real("epsilon", 1e-5)
    return [step.emit("aten.group_norm.default", x, groups, step.x(1), step.x(2), epsilon, False)]


def _pads(step: Given, spatial: int) -> list[int]:
    """The widths of the padding at the start and at the end of every dimension."""
    step.only("auto_pad", "NOTSET", "VALID")
    pads = step.integers("pads") or [0] * 2 * spatial
    if any(pads) and step.attribute("auto_pad") == "VALID":
        raise step.place.wrong(f"pads {pads} and auto_pad VALID", "one of the two", code="onnx-attribute")
    return pads


def _padded(step: Given, x: Known, pads: Sequence[int], value: float) -> tuple[Known, list[int]]:
    """The operand and the same padding on both sides; what is not symmetric is padded first."""
    half = len(pads) // 2
    if list(pads[:half]) == list(pads[half:]):
        return x, list(pads[:half])
    widths = [w for k in reversed(range(half)) for w in (pads[k], pads[k + half])]
    return step.emit("aten.constant_pad_nd.default", x, widths, value), [0] * half


@row("Conv")
def _conv(step: Given) -> Result:
    step.most(3)
    x, w, bias = step.x(0), step.x(1), step.optional(2)
    spatial = x.rank - 2
    kernel = step.integers("kernel_shape")
    if kernel is not None and kernel != list(w.shape[2:]):
        raise step.place.wrong(
            f"kernel_shape {kernel}", f"that of the weight, {list(w.shape[2:])}", code="onnx-attribute"
        )
    strides, dilations = step.integers("strides") or [1] * spatial, step.integers("dilations") or [1] * spatial
    pads, group = _pads(step, spatial), step.integer("group", 1)
    x, padding = _padded(step, x, pads, 0)
    rest = (strides, padding, dilations, False, [0] * spatial, group)
    return [step.emit("aten.convolution.default", x, w, bias, *rest)]


def _pooled(name: str) -> Row:
    def function(step: Given) -> Result:
        x = step.x(0)
        spatial = x.rank - 2
        step.only("ceil_mode", 0)
        step.only("storage_order", 0)
        size = step.integers("kernel_shape") or []
        strides, pads = step.integers("strides") or [1] * spatial, _pads(step, spatial)
        dilations = step.integers("dilations") or [1] * spatial
        if spatial != 2 or pads[:2] != pads[2:] or len(size) != 2 or (name == "avg" and dilations != [1, 1]):
            raise step.place.wrong(f"{spatial} dimensions, pads {pads}", "two, padded alike", code="onnx-attribute")
        if name == "max":
            return [step.emit("aten.max_pool2d.default", x, size, strides, pads[:2], dilations)]
        counted = bool(step.integer("count_include_pad", 0))
        return [step.emit("aten.avg_pool2d.default", x, size, strides, pads[:2], False, counted)]

    return function


ROWS["MaxPool"], ROWS["AveragePool"] = _pooled("max"), _pooled("avg")


def _global(target: str) -> Row:
    def function(step: Given) -> Result:
        step.most(1)
        x = step.x(0)
        if x.rank < 3:  # without axes, ATen's take all
            raise step.place.wrong(f"an operand {x.type}", "rows, channels and more", code="onnx-operands")
        return [step.emit(target, x, list(range(2, x.rank)), True)]

    return function


ROWS["GlobalAveragePool"], ROWS["GlobalMaxPool"] = _global("aten.mean.dim"), _global("aten.amax.default")
