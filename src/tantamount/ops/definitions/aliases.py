"""Other names that PyTorch has for operators, and views in place: the same definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tantamount.ops.definitions import elementwise, logic, movement
from tantamount.ops.table import operator

__all__ = ["ALIASES"]

# By category: a definition, the name that it goes by, another name, and the overloads of that.
ALIASES: dict[str, tuple[tuple[Callable[..., Any], str, str, str], ...]] = {
    "elementwise": (
        (elementwise.mul, "mul", "multiply", "Tensor Scalar"),
        (elementwise.sub, "sub", "subtract", "Tensor Scalar"),
        (elementwise.div, "div", "divide", "Tensor Scalar"),
        (elementwise.div, "div", "true_divide", "Scalar"),
        (elementwise.div_mode, "div", "divide", "Tensor_mode Scalar_mode"),
        (elementwise.absolute, "abs", "absolute", "default"),
        (elementwise.neg, "neg", "negative", "default"),
        (elementwise.clamp, "clamp", "clip", "default Tensor"),
        (elementwise.atan, "atan", "arctan", "default"),
        (elementwise.trunc, "trunc", "fix", "default"),
    ),
    "logic": (
        (logic.gt, "gt", "greater", "Tensor Scalar"),
        (logic.lt, "lt", "less", "Tensor Scalar"),
        (logic.ge, "ge", "greater_equal", "Tensor Scalar"),
        (logic.le, "le", "less_equal", "Tensor Scalar"),
        (logic.ne, "ne", "not_equal", "Tensor Scalar"),
    ),
    "movement": (
        (movement.unsqueeze, "unsqueeze", "unsqueeze_", "default"),
        (movement.squeeze, "squeeze", "squeeze_", "default"),
        (movement.squeeze_dim, "squeeze", "squeeze_", "dim"),
        (movement.squeeze_dims, "squeeze", "squeeze_", "dims"),
        (movement.t, "t", "t_", "default"),
        (movement.transpose, "transpose.int", "transpose_", "default"),
    ),
}

for _category, _rows in ALIASES.items():
    for _define, _, _other, _overloads in _rows:
        operator(*(f"aten.{_other}.{overload}" for overload in _overloads.split()), category=_category)(_define)
