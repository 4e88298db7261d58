"""Does the definition of an operator compute what eager computed in one call?

A result agrees if its type is eager's and its values are, up to the rounding of its element type. Where that fails, eager
is asked again in wider types, because definitions are read over the reals and the unbounded integers: floats in float64
(then it was rounding), integers in int64 (then eager's integers wrapped around).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from support.aten_calls import Call
from tantamount.errors import TantamountError, UserError
from tantamount.ir.graph import Device, Setting
from tantamount.ir.types import DType, Shape
from tantamount.ops.algebra import Number, Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import apply
from tantamount.ops.table import lookup, table
from tantamount.semantics.reference import Array, IntegerOverflow, Reference

__all__ = ["AGREEING", "Outcome", "judge"]

AGREEING = ("equal", "rounded", "types")
_TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-3, "bfloat16": 2e-2}
_UNDEFINED = ("undefined-comparison", "undefined-integer", "out-of-range", "double-write", "inexact")


@dataclass(frozen=True)
class Outcome:
    """``kind``: ``equal``; ``rounded`` (equal in float64); ``types`` (only types were compared: random numbers, unwritten
    memory); ``nan`` (an operand is no number); ``wraps`` (equal in unbounded integers); ``refused``; ``different``."""

    kind: str
    text: str = ""


class _Watched(Reference):
    """Notes whether values are taken from random numbers or from memory that nobody wrote."""

    undetermined = False

    def unknown(self, shape: Shape, dtype: DType, site: str) -> Array:
        self.undetermined = True
        return super().unknown(shape, dtype, site)

    def mask(self, like: Array, shape: Shape, p: Number, site: str) -> Array:
        self.undetermined = True
        return super().mask(like, shape, p, site)


class _Foreign(Exception):
    """An argument that our graphs have no counterpart of; the text is one clause."""


def judge(call: Call) -> Outcome | None:
    """What became of the call; ``None`` if the table has no definition of its operator."""
    if call.target not in table():
        return None
    try:
        reference = _Watched(seed=0)
        found = _ours(call, reference)
    except _Foreign as problem:
        return Outcome("refused", str(problem))
    except IntegerOverflow:
        return Outcome("wraps", "beyond 64 bits")
    except UserError as problem:
        return Outcome("refused", _general(problem.found))
    except TantamountError as problem:
        return Outcome("refused", _general(str(problem)))
    random = reference.undetermined or torch.Tag.nondeterministic_seeded in call.overload.tags
    problem = _difference(found, call.result, values=not random, tolerance=None)
    if problem is None:
        return Outcome("types" if random else "equal")
    if not problem.startswith("type"):
        wider = _again(call)
        if wider is not None and _difference(found, wider[1], values=True, tolerance=1e-7, types=False) is None:
            return Outcome(wider[0])
        if any(torch.isnan(x).any() for x in call.tensors if x.is_floating_point() or x.is_complex()):
            return Outcome("nan")
        flags = {flag.what for flag in reference.flags} & set(_UNDEFINED)
        if flags:
            problem += f" [{', '.join(sorted(flags))}]"
    return Outcome("different", problem)


def _ours(call: Call, reference: Reference) -> Any:
    args = tuple(_operand(item) for item in call.args)
    kwargs = {key: _operand(item) for key, item in call.kwargs.items()}
    default = DType.FLOAT64 if torch.get_default_dtype() is torch.float64 else DType.FLOAT32
    row = lookup(call.target, "call")
    return apply(row, call.target, args, kwargs, Builder(reference, "call", default), "call")


def _operand(item: Any) -> Any:
    """An argument as a definition gets it from a graph."""
    if isinstance(item, torch.Tensor):
        if item.layout is not torch.strided or item.is_quantized or type(item) not in (torch.Tensor, torch.nn.Parameter):
            raise _Foreign(f"a tensor that is {item.layout}")
        dtype = DType.named(str(item.dtype).removeprefix("torch."))
        if dtype is None:
            raise _Foreign(f"elements of type {item.dtype}")
        return Tensor(tuple(item.shape), dtype, _array(item, dtype))
    if isinstance(item, torch.dtype):
        dtype = DType.named(str(item).removeprefix("torch."))
        if dtype is None:
            raise _Foreign(f"elements of type {item}")
        return dtype
    if isinstance(item, torch.device):
        return Device(str(item))
    if isinstance(item, (torch.layout, torch.memory_format)):
        return Setting(str(item).removeprefix("torch."))
    if isinstance(item, (list, tuple)):
        return tuple(_operand(entry) for entry in item)
    if isinstance(item, float) and item != item:
        raise _Foreign("the number NaN as an argument")
    if isinstance(item, torch.Generator):
        raise _Foreign("a generator of random numbers")
    return item


def _array(x: torch.Tensor, dtype: DType) -> Array:
    x = x.detach().resolve_conj().resolve_neg()
    if dtype.is_complex:
        parts = torch.view_as_real(x).double().numpy()
        return np.array(parts)
    if dtype.is_float:
        return np.array(x.double().numpy())
    return np.array(x.numpy() if dtype is DType.BOOL else x.long().numpy())


def _difference(found: Any, wanted: Any, values: bool, tolerance: float | None, types: bool = True) -> str | None:
    """The first difference in one clause; ``None`` if there is none. Without ``types``, element types may differ."""
    if isinstance(wanted, (tuple, list)):
        if not isinstance(found, tuple) or len(found) != len(wanted):
            return f"type: {len(wanted)} results wanted"
        return next(
            (
                text
                for f, w in zip(found, wanted, strict=True)
                if (text := _difference(f, w, values, tolerance, types)) is not None
            ),
            None,
        )
    if found is None or wanted is None:
        return None
    if isinstance(wanted, (bool, int, float, complex)):
        wanted = torch.tensor(wanted)
        types = False
    if not isinstance(found, Tensor):
        return f"type: {type(found).__name__}"
    label = str(wanted.dtype).removeprefix("torch.")
    if (types and found.dtype.label != label) or found.shape != tuple(wanted.shape):
        return f"type {found.type}, eager {label}{list(wanted.shape)}"
    if tuple(np.shape(found.value)) != found.type.stored.shape:
        return f"type: an array of shape {np.shape(found.value)} for {found.type}"
    if not values or not wanted.numel():
        return None
    dtype = DType.named(label)
    if dtype is None:
        return f"type: {label}"
    if dtype.is_complex != found.dtype.is_complex:
        return "type: kinds"
    return _values_differ(np.asarray(found.value), _array(wanted, dtype), found.dtype, dtype, tolerance)


def _values_differ(ours: Array, eager: Array, dtype: DType, wanted: DType, tolerance: float | None) -> str | None:
    if dtype.is_integral:
        wrong = ours.astype(np.float64) != eager.astype(np.float64)
    else:
        close = tolerance or _TOLERANCE.get(wanted.part.label, 0.3)
        ours, eager = ours.astype(np.float64), eager.astype(np.float64)
        finite = np.isfinite(eager)
        scale = float(np.abs(eager[finite]).max()) if finite.any() else 0.0
        with np.errstate(all="ignore"):
            near = np.abs(ours - eager) <= close * np.maximum(np.abs(eager), min(scale, 1.0) + 1e-3 * scale)
        agreed = np.where(finite, near, np.isnan(ours) | (ours == eager))
        wrong = ~agreed
    if not wrong.any():
        return None
    at = tuple(int(k) for k in np.argwhere(wrong)[0])
    return f"{np.count_nonzero(wrong)} of {wrong.size} values, {ours[at]} where eager has {eager[at]}"


# ---------------------------------------------------------------------------------------------- in wider types
_WIDE = {
    torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
    torch.complex64: torch.complex128, torch.complex32: torch.complex128,
    torch.uint8: torch.int64, torch.int8: torch.int64, torch.int16: torch.int64, torch.int32: torch.int64,
    torch.uint16: torch.int64, torch.uint32: torch.int64,
}  # fmt: skip


def _again(call: Call) -> tuple[str, Any] | None:
    """What eager gives for the operands in wider types, and what it would say if that agrees; ``None`` if it cannot."""
    narrow = [x.dtype for x in call.tensors if x.dtype in _WIDE]
    narrow += [x for x in pytree.tree_leaves((call.args, dict(call.kwargs))) if isinstance(x, torch.dtype)]
    if not narrow:
        return None
    integers = any(not dtype.is_floating_point and not dtype.is_complex and dtype is not torch.bool for dtype in narrow)

    def widened(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            return item.detach().to(_WIDE.get(item.dtype, item.dtype))
        return _WIDE.get(item, item) if isinstance(item, torch.dtype) else item

    args, kwargs = pytree.tree_map(widened, (call.args, dict(call.kwargs)))
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return "wraps" if integers else "rounded", call.overload(*args, **kwargs)
    except (RuntimeError, TypeError, IndexError, ValueError):
        return None
    finally:
        torch.set_default_dtype(before)


_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?")
_TYPE = re.compile(r"\b(bool|u?int\d+|float\d+\w*|bfloat16|complex\d+)(\[[^\]]*\])?")


def _general(text: str) -> str:
    """A reason without the sizes and types of this one call."""
    return _NUMBER.sub("n", _TYPE.sub("T", text.splitlines()[0]))[:110]


def reasons(tallies: Mapping[str, Any]) -> str:
    return ", ".join(f"{reason} ({count})" for reason, count in tallies.items())
