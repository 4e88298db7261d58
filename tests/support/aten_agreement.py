"""Does the definition of an operator compute what eager computed in one call?

A result agrees if its type is eager's and its values are, up to the rounding of its element type. Where that fails,
eager is asked again in wider types, because definitions are read over the reals and the unbounded integers: floats in
float64 (then it was rounding), integers in int64 (then eager's integers wrapped around).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
from tantamount.ops.doubts import doubts_of
from tantamount.ops.execute import apply
from tantamount.ops.table import lookup, table
from tantamount.semantics.reference import STOPS, Array, IntegerOverflow, Reference

__all__ = ["AGREEING", "EDGES", "Foreign", "Outcome", "Watched", "edge_of", "executed", "judge", "operand"]

AGREEING = ("equal", "rounded", "tied", "types")
_TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-3, "bfloat16": 2e-2}
_EAGER_ROUNDS = {"aten.hardsigmoid_backward.default": 1e-7}  # its kernels have a sixth as a float32
_UNDEFINED = {*STOPS, "undefined-comparison", "undefined-integer", "unfit", "double-write", "inexact", "doubtful"}


@dataclass(frozen=True)
class Outcome:
    """``kind``: ``equal``; ``rounded`` (equal in float64); ``tied`` (another choice among equal elements, which PyTorch
    does not promise); ``types`` (only types were compared: random numbers, unwritten memory); ``wraps`` (equal in
    unbounded integers); ``undefined`` (an operand is infinite or no number, and the definition has no number where
    eager has one, or says that what it has rests on that; or float64 over- or underflowed in it); ``refused``;
    ``different``."""

    kind: str
    text: str = ""


class Watched(Reference):
    """Notes whether values are taken from random numbers or from memory that nobody wrote."""

    undetermined = False

    def unknown(self, shape: Shape, dtype: DType, site: str) -> Array:
        self.undetermined = True
        return super().unknown(shape, dtype, site)

    def mask(self, like: Array, shape: Shape, p: Number, site: str) -> Array:
        self.undetermined = True
        return super().mask(like, shape, p, site)


class Foreign(Exception):
    """An argument that our graphs have no counterpart of; the text is one clause."""


def judge(call: Call) -> Outcome | None:
    """What became of the call; ``None`` if the table has no definition of its operator."""
    if call.target not in table():
        return None
    if call.target.startswith("aten.as_strided") and not _memory_in_order(call.args[0]):
        return Outcome("refused", "a tensor that is not contiguous in memory, from its first element on")
    try:
        reference = Watched(seed=0)
        found = executed(call, reference)
    except Foreign as problem:
        return Outcome("refused", str(problem))
    except IntegerOverflow:
        return Outcome("wraps", "beyond 64 bits")
    except UserError as problem:
        kind = f", not {problem.needed}" if problem.code == "operator-attribute" else ""
        return Outcome("refused", _general(problem.found + kind))
    except TantamountError as problem:
        return Outcome("refused", _general(str(problem)))
    random = reference.undetermined or torch.Tag.nondeterministic_seeded in call.overload.tags
    size = max((float(x.abs().nan_to_num(0, 0, 0).max()) for x in map(_floats, call.tensors) if x.numel()), default=0.0)
    compared = _Compared(values=not random, noise=max(1e-12, _EAGER_ROUNDS.get(call.target, 0.0)) * size)
    problem = compared.difference(found, call.result)
    if problem is None:
        return Outcome("types" if random else "equal")
    if problem.startswith("type"):
        return Outcome("different", problem)
    flags = {flag.what for flag in reference.flags}
    if "tie" in flags and _as_good(call, found):
        return Outcome("tied")
    wider = _again(call)
    if (
        wider is not None
        and _Compared(tolerance=1e-7, noise=1e-9 * size, types=False).difference(found, wider[1]) is None
    ):
        return Outcome(wider[0])
    if reference.left_range:  # the interpreter says that float64 did not follow the reals
        return Outcome("undefined", problem)
    special = any(not torch.isfinite(x).all() or (x == 0).any() for x in map(_floats, call.tensors))
    careful = _Compared(noise=1e-12 * size, careful=True)
    known = edge_of(call.target) is not None and (flags & _UNDEFINED or careful.difference(found, call.result) is None)
    if special and known:
        return Outcome("undefined", problem)
    return Outcome("different", problem + (f" [{', '.join(sorted(flags))}]" if flags else ""))


_COMPARED = "a NaN is less than nothing, and not less than anything: comparisons that are written as negations differ"
_CHOSEN = "among NaNs and infinities eager chooses by an order of its own"
_ZEROS = "a zero has no sign among the reals"
_ROUNDED = "float64 rounds what the definition computes on the way"
_CONVERTED = "what a type of integers does not hold becomes any of its numbers"
# Operators of which eager makes something else than the definition where operands are infinite, NaN or a signed zero,
# and why. The calculus claims nothing there (``support/edges.py`` checks that), and executions refute nothing by it.
_COMPLEX = "complex numbers are divided by parts, and 1 / inf is 0"
_PADDED = "kernels multiply infinite weights with the zeros of the padding, or do not"
_EDGES: Mapping[str, str] = {
    "ge le greater_equal less_equal threshold threshold_backward hardshrink softshrink": _COMPARED,
    "argmax argmin max min cummax cummin topk sort argsort kthvalue median mode": _CHOSEN,
    "max_pool2d_with_indices max_pool2d": _CHOSEN,
    "rsqrt reciprocal _foreach_rsqrt _foreach_reciprocal copysign atan2 arctan2 signbit": _ZEROS,
    "acosh log_sigmoid log_sigmoid_forward binary_cross_entropy_with_logits": _ROUNDED,
    "to copy _to_copy": _CONVERTED,
    "remainder": "remainders are computed from quotients, and these from them",
    "pow": "minus infinity to a power that is no whole number",
    "conv1d conv2d conv3d convolution _convolution convolution_backward conv_transpose1d conv_transpose2d": _PADDED,
    "conv_transpose3d": _PADDED,
    "div divide true_divide": f"{_COMPLEX}; rounded ones are not promised",
    "lerp": "of weights in a tensor either formula is taken",
}
EDGES: Mapping[str, str] = {name: why for names, why in _EDGES.items() for name in names.split()}


def edge_of(target: str) -> str | None:
    """Why eager and the definition of an operator may differ at infinities and NaN; ``None`` if they must not."""
    row = table().get(target)
    name = target.split(".")[1].removesuffix("_")
    return (doubts_of(row.define) if row is not None else "") or EDGES.get(name)


def _memory_in_order(x: torch.Tensor) -> bool:
    """What ``as_strided`` states as an assumption."""
    return (
        x.is_contiguous() and x.storage_offset() == 0 and x.untyped_storage().nbytes() == x.numel() * x.element_size()
    )


def _floats(x: torch.Tensor) -> torch.Tensor:
    if x.layout is not torch.strided:
        return torch.zeros(())
    x = x.detach().cpu()
    return torch.view_as_real(x.resolve_conj()).double() if x.is_complex() else x.double()


def _as_good(call: Call, found: Any) -> bool:
    """Whether the indices that eager chose are as good as those that the definition did: they lead to equal
    elements, and none comes twice where none may."""
    name = call.overload._schema.name.removeprefix("aten::")
    ours, eager = (x if isinstance(x, tuple) else (x,) for x in (found, call.result))
    chosen, theirs = torch.as_tensor(np.array(ours[-1].value)), eager[-1].cpu()
    if any(_Compared().difference(f, w) is not None for f, w in zip(ours[:-1], eager[:-1], strict=True)):
        return False
    if chosen.shape != theirs.shape:
        return False
    bound = lookup(call.target, "call").signature.bind(*call.args, **call.kwargs)
    bound.apply_defaults()
    x = call.args[0].detach().cpu()
    dim = bound.arguments.get("dim", -1)
    if name.startswith("max_pool2d"):
        x, chosen, theirs, dim = x.flatten(-2), chosen.flatten(-2), theirs.flatten(-2), -1
    elif name == "kthvalue" and not bound.arguments["keepdim"] and x.dim():
        chosen, theirs = chosen.unsqueeze(dim), theirs.unsqueeze(dim)
    if not torch.equal(x.take_along_dim(chosen, dim), x.take_along_dim(theirs, dim)):
        return False
    apart = name in ("sort", "argsort", "topk") and x.dim()
    ranked = theirs.sort(dim).values if apart else theirs
    return not apart or not (ranked.diff(dim=dim) == 0).any()


def executed(call: Call, reference: Reference) -> Any:
    """What the definition gives for the operands of a call, under the reference interpreter."""
    args = tuple(operand(item) for item in call.args)
    kwargs = {key: operand(item) for key, item in call.kwargs.items()}
    default = DType.FLOAT64 if torch.get_default_dtype() is torch.float64 else DType.FLOAT32
    row = lookup(call.target, "call")
    found = apply(row, call.target, args, kwargs, Builder(reference, "call", default), "call")
    if row.statistics and isinstance(found, tuple):  # of the first operand's type on a CPU, which a graph records
        own = next(x for x in args if isinstance(x, Tensor)).dtype
        halves = zip(found, call.result, strict=True)
        found = tuple(
            replace(f, dtype=own) if k in row.statistics and str(w.dtype).endswith(own.label) else f
            for k, (f, w) in enumerate(halves)
        )
    return found


def operand(item: Any) -> Any:
    """An argument as a definition gets it from a graph."""
    if isinstance(item, torch.Tensor):
        if (
            item.layout is not torch.strided
            or item.is_quantized
            or type(item) not in (torch.Tensor, torch.nn.Parameter)
        ):
            raise Foreign(f"a tensor that is {item.layout}")
        dtype = DType.named(str(item.dtype).removeprefix("torch."))
        if dtype is None:
            raise Foreign(f"elements of type {item.dtype}")
        return Tensor(tuple(item.shape), dtype, _array(item, dtype))
    if isinstance(item, torch.dtype):
        dtype = DType.named(str(item).removeprefix("torch."))
        if dtype is None:
            raise Foreign(f"elements of type {item}")
        return dtype
    if isinstance(item, torch.device):
        return Device(str(item))
    if isinstance(item, (torch.layout, torch.memory_format)):
        return Setting(str(item).removeprefix("torch."))
    if isinstance(item, (list, tuple)):
        return tuple(operand(entry) for entry in item)
    if isinstance(item, float) and item != item:
        raise Foreign("the number NaN as an argument")
    if isinstance(item, torch.Generator):
        raise Foreign("a generator of random numbers")
    return item


def _array(x: torch.Tensor, dtype: DType) -> Array:
    x = x.detach().cpu().resolve_conj().resolve_neg()
    if dtype.is_complex:
        parts = torch.view_as_real(x).double().numpy()
        return np.array(parts)
    if dtype.is_float:
        return np.array(x.double().numpy())
    return np.array(x.numpy() if dtype is DType.BOOL else x.long().numpy())


@dataclass(frozen=True)
class _Compared:
    """How results are compared. ``tolerance``: relative, by default that of the element type; ``noise``: what a sum of
    the operands may be off by; ``types``: element types count; ``careful``: what is no number agrees with anything."""

    values: bool = True
    tolerance: float | None = None
    noise: float = 0.0
    types: bool = True
    careful: bool = False

    def difference(self, found: Any, wanted: Any) -> str | None:
        """The first difference in one clause; ``None`` if there is none."""
        if isinstance(wanted, (tuple, list)):
            if not isinstance(found, tuple) or len(found) != len(wanted):
                return f"type: {len(wanted)} results wanted"
            found_texts = (self.difference(f, w) for f, w in zip(found, wanted, strict=True))
            return next((text for text in found_texts if text is not None), None)
        if found is None or wanted is None:
            return None
        if isinstance(wanted, (bool, int, float, complex)):
            return replace(self, types=False).difference(found, torch.tensor(wanted))
        label = str(wanted.dtype).removeprefix("torch.")
        if not isinstance(found, Tensor):
            return f"type: {type(found).__name__}"
        if (self.types and found.dtype.label != label) or found.shape != tuple(wanted.shape):
            return f"type {found.type}, eager {label}{list(wanted.shape)}"
        if tuple(np.shape(found.value)) != found.type.stored.shape:
            return f"type: an array of shape {np.shape(found.value)} for {found.type}"
        if not self.values or not wanted.numel():
            return None
        dtype = DType.named(label)
        if dtype is None or dtype.is_complex != found.dtype.is_complex:
            return f"type: {label}"
        return self._values(np.asarray(found.value), _array(wanted, dtype), found.dtype, dtype)

    def _values(self, ours: Array, eager: Array, dtype: DType, wanted: DType) -> str | None:
        if dtype.is_integral and wanted.is_integral:
            wrong = ours.astype(np.int64) != eager.astype(np.int64)
        else:
            ours, eager = ours.astype(np.float64), eager.astype(np.float64)
            wrong = ~self._near(ours, eager, self.tolerance or _TOLERANCE.get(wanted.part.label, 0.3))
        if not wrong.any():
            return None
        at = tuple(int(k) for k in np.argwhere(wrong)[0])
        return f"{np.count_nonzero(wrong)} of {wrong.size} values, {ours[at]} where eager has {eager[at]}"

    def _near(self, ours: Array, eager: Array, close: float) -> Array:
        finite = np.isfinite(eager)
        scale = float(np.abs(eager[finite]).max()) if finite.any() else 0.0
        with np.errstate(all="ignore"):
            allowed = close * np.maximum(np.abs(eager), 1e-3 * scale) + self.noise + 1e-12 * (close / 1e-9)
            near = np.abs(ours - eager) <= allowed
        undefined = np.isnan(ours)
        if self.careful:
            return near | ~finite | ~np.isfinite(ours)
        return np.where(finite, near, undefined | (ours == eager))


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
