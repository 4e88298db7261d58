"""Samples of in-place variants (``definitions.overwrites``) and of aliases (``definitions.aliases``): those of the
definitions that they come from, as far as the first operand can hold the result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from tantamount.errors import UserError
from tantamount.ops.algebra import Tensor, TypesOnly
from tantamount.ops.builder import Builder
from tantamount.ops.definitions.aliases import ALIASES
from tantamount.ops.definitions.overwrites import VARIANTS
from tantamount.ops.execute import apply
from tantamount.ops.table import lookup
from tantamount.samples.operators.calls import Operand, Sample

__all__ = ["derived"]

_OTHER_OVERLOAD = {
    "aten.floor_divide_.Tensor": "aten.floor_divide.default",
    "aten.pow_.Tensor": "aten.pow.Tensor_Tensor",
    "aten.true_divide_.Tensor": "aten.div.Tensor",
}


def _typed(item: Any) -> Any:
    if isinstance(item, Operand):
        return Tensor(item.shape, item.dtype, None)
    return tuple(map(_typed, cast("tuple[Any, ...]", item))) if isinstance(item, tuple) else item


def _fits(sample: Sample) -> bool:
    args = tuple(_typed(item) for item in sample.args)
    kwargs = {key: _typed(item) for key, item in sample.kwargs.items()}
    try:
        apply(lookup(sample.target, ""), sample.target, args, kwargs, Builder(TypesOnly()), "")
    except UserError:
        return False
    return True


def derived(samples: tuple[Sample, ...]) -> Iterator[Sample]:
    """The samples of the in-place variants and aliases, from those of all definitions."""
    for rows in ALIASES.values():
        for _, base, other, overloads in rows:
            for overload in overloads.split():
                target = f"aten.{base}" if "." in base else f"aten.{base}.{overload}"
                yield from (
                    replace(sample, target=f"aten.{other}.{overload}") for sample in samples if sample.target == target
                )
    names = [f"aten.{name}" for rows in VARIANTS.values() for _, text in rows for name in text.split()]
    for name in (*names, "aten.conj_physical_.default"):
        base = _OTHER_OVERLOAD.get(name, name.replace("_.", ".", 1))
        for sample in samples:
            variant = replace(sample, target=name)
            if sample.target == base and isinstance(sample.args[0], Operand) and _fits(variant):
                yield variant
