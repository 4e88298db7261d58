"""Does the normal form of a call evaluate to what the reference interpreter computes, on operands that eager had?"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from support.aten_agreement import Foreign, Watched, executed, operand
from support.aten_calls import Call
from tantamount.calculus.calculus import Calculus
from tantamount.calculus.evaluate import Evaluator
from tantamount.calculus.symbolic import Symbolic, Trace
from tantamount.errors import TantamountError
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import apply
from tantamount.ops.table import lookup

__all__ = ["LARGEST", "form_difference"]

LARGEST = 64  # elements of all operands: beyond, forms take time
_CLOSE = 1e-6


def form_difference(call: Call) -> str | None:
    """The first difference in one clause; ``""`` if there is none, ``None`` if there is no form (or too large a
    call, or values that are not determined)."""
    if sum(x.numel() for x in call.tensors) > LARGEST or torch.Tag.nondeterministic_seeded in call.overload.tags:
        return None
    if call.target.startswith("aten._safe_softmax"):  # the guard's product with 0/0 is 0 in the calculus, NaN in NumPy
        return None
    store = Calculus()
    symbolic = Symbolic(store, Trace(assume_indices=True))
    leaves: dict[tuple[str, Any], Any] = {}

    def free(item: Any) -> Any:
        if not isinstance(item, Tensor):
            return item
        name = f"x{len(leaves)}"
        leaves[name, ()] = np.asarray(item.value, dtype=np.float64)
        value = symbolic.fresh("input", name, item.type.stored.shape, item.dtype.part)
        return Tensor(item.shape, item.dtype, value)

    def freed(item: Any) -> Any:
        return tuple(map(freed, item)) if isinstance(item, tuple) else free(item)

    reference = Watched(seed=0)
    try:
        wanted = executed(call, reference)
        args = tuple(freed(operand(item)) for item in call.args)
        kwargs = {key: freed(operand(item)) for key, item in call.kwargs.items()}
        found = apply(lookup(call.target, ""), call.target, args, kwargs, Builder(symbolic, "", DType.FLOAT32), "")
    except (TantamountError, Foreign):
        return None
    if reference.undetermined or reference.flags or reference.left_range:
        return None
    evaluator = Evaluator(store, leaves)
    pairs = zip(pytree.tree_leaves(found), pytree.tree_leaves(wanted), strict=True)
    for form, value in pairs:
        if isinstance(form, Tensor) and isinstance(value, Tensor):
            text = _difference(np.asarray(evaluator.form(form.value), dtype=np.float64), np.asarray(value.value))
            if text:
                return text
    return ""


def _difference(found: Any, wanted: Any) -> str:
    wanted = wanted.astype(np.float64)
    if found.shape != wanted.shape:
        return f"shape {found.shape}, interpreted {wanted.shape}"
    defined = np.isfinite(wanted)
    with np.errstate(all="ignore"):
        wrong = defined & ~(np.abs(found - wanted) <= _CLOSE * (1 + np.abs(wanted)))
    if not wrong.any():
        return ""
    at = tuple(int(k) for k in np.argwhere(wrong)[0])
    return f"the form is {found[at]}, interpreted {wanted[at]}"
