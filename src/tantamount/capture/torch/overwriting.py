"""Graphs that overwrite nothing, and custom operators that overwrite their operands, as values: what ``functionalize``
does for ATen's own."""

# pyright: basic
from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch._higher_order_ops.auto_functionalize import auto_functionalized, can_auto_functionalize

from tantamount.errors import UserError

__all__ = ["Replay", "without_writes"]

_aten = torch.ops.aten
_FRESH = {_aten.lift_fresh.default: _aten.lift_fresh_copy.default}


def without_writes(module: fx.GraphModule) -> fx.GraphModule | None:
    """The graph as functionalisation would leave it, if none of its operators writes into a tensor: then it is what was
    recorded. ``None`` if one writes, or may: what tells are the schemas, and a call without one may do anything."""
    for node in module.graph.nodes:
        if node.op not in ("placeholder", "get_attr", "output") and not _only_reads(node):
            return None
    for node in module.graph.nodes:
        node.target = _FRESH.get(node.target, node.target) if node.op == "call_function" else node.target
    return module


def _only_reads(node: fx.Node) -> bool:
    target = node.target
    if node.op != "call_function":
        return False
    if isinstance(target, torch._ops.OpOverload):
        schema = target._schema
        return (
            not _updates_statistics(target, node.args)
            and not schema.is_mutable
            and not any(
                argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments
            )
        )
    if target is operator.getitem:
        return True
    return isinstance(node.meta.get("val"), int | float | torch.SymInt | torch.SymFloat | torch.SymBool)


class Replay(fx.Interpreter):
    """Runs a graph again. A call of a custom operator that writes into operands becomes ``auto_functionalized`` of it,
    which returns their new values, and ATen's ``copy_`` of these into the operands: views of a tensor are then written
    through to it as everywhere."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The result of one node."""
        if _updates_statistics(target, args):
            if target is not _aten.native_batch_norm.default:
                raise UserError(
                    "capture", place=str(target), found="running statistics that it writes though its schema says not",
                    needed="a batch norm", hint="torch.nn.functional.batch_norm(..., training=True) updates them",
                )  # fmt: skip
            return _aten._native_batch_norm_legit.default(*args, **kwargs)
        if not isinstance(target, torch._ops.OpOverload) or not _overwrites(target):
            return super().call_function(target, args, kwargs)
        schema = target._schema
        given = dict(zip((argument.name for argument in schema.arguments), args, strict=False)) | kwargs
        written = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        for argument in schema.arguments:
            if argument.name not in given:
                given[argument.name] = argument.default_value
        results = auto_functionalized(target, **given)
        news = results[len(results) - len(written) :]
        for name, new in zip(written, news, strict=True):
            for old, value in zip(_tensors(given[name]), _tensors(new), strict=True):
                old.copy_(value)
        returned = results[: len(schema.returns)]
        return returned[0] if len(returned) == 1 else (returned or None)


def _updates_statistics(target: Any, args: Sequence[Any]) -> bool:
    """True for operators that write running statistics, of which their schemas say nothing. ``native_batch_norm`` is
    recorded in inference mode only: elsewhere PyTorch takes it for the one whose schema does."""
    if target is _aten.batch_norm_update_stats.default:
        return args[1] is not None or args[2] is not None
    if target is not _aten.native_batch_norm.default:
        return False
    mean, variance, training = args[3:6]
    return bool(training) and mean is not None and variance is not None


def _overwrites(target: torch._ops.OpOverload) -> bool:
    return target._schema.is_mutable and can_auto_functionalize(target)


def _tensors(value: Any) -> Iterable[Tensor]:
    if value is None:
        return ()
    return value if isinstance(value, list | tuple) else (value,)
