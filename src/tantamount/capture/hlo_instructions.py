"""A row for each HLO opcode: the operator of its node, and the meaning of its attributes there.

An attribute is an argument of the node (``Row.attributes``), or it is known and changes no value
(``Row.without_effect`` and ``HARMLESS``), or the instruction is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tantamount.capture.fields import Place, nearest, shown
from tantamount.capture.hlo_convolutions import convolution
from tantamount.capture.hlo_orders import extreme_of_pairs, reduce_window, sort, topk
from tantamount.capture.hlo_rows import (
    Decoder,
    Row,
    Translation,
    all_to_all,
    bitcast,
    collective,
    compare,
    custom_call,
    joined,
    pad,
    permute,
    rank_number,
    reduce,
    scatter,
    slice_,
    window,
    word,
)
from tantamount.capture.hlo_text import Instruction, Module
from tantamount.capture.hlo_values import integer, integers, string
from tantamount.errors import UserError

__all__ = ["ROWS", "check_header", "refusal"]

_HEADER = frozenset({
    "is_scheduled", "entry_computation_layout", "input_output_alias", "buffer_donor", "alias_passthrough_params",
    "allow_spmd_sharding_propagation_to_parameters", "allow_spmd_sharding_propagation_to_output",
    "frontend_attributes", "use_auto_spmd_partitioning", "num_partitions", "replica_count", "origin_recovery_table",
})  # fmt: skip

# ---------------------------------------------------------------------------------------------- the table
_SORTED = frozenset({"indices_are_sorted", "unique_indices"})  # promises about indices: not relied on
_CHANNEL = frozenset({
    "channel_id", "use_global_device_ids", "replica_groups", "device_ids", "constrain_layout", "to_apply",
})  # fmt: skip
_UNARY = """
    abs negate sign floor ceil exponential exponential-minus-one log log-plus-one logistic tanh cosine sine tan sqrt
    rsqrt cbrt erf not round-nearest-even is-finite
"""
_BINARY = """
    add subtract multiply divide maximum minimum power remainder and or xor shift-left shift-right-arithmetic
    shift-right-logical
"""


def _reduce(step: Translation, row: Row) -> Any:
    return extreme_of_pairs(step, row) if len(step.operands) == 4 else reduce(step, row)


def _named(*names: str) -> dict[str, tuple[str, Decoder]]:
    return {name: (name, integers) for name in names}


ROWS: Mapping[str, Row] = {
    **{opcode: Row({}, 1) for opcode in _UNARY.split()},
    **{opcode: Row({}, 2) for opcode in _BINARY.split()},
    "reduce-precision": Row({}, 1, without_effect=frozenset({"exponent_bits", "mantissa_bits"})),
    "convert": Row({}, 1, ("dtype",)),
    "compare": Row(
        {"direction": ("direction", word("EQ", "NE", "LT", "LE", "GT", "GE"))}, 2,
        without_effect=frozenset({"type"}), special=compare,
    ),
    "select": Row({}, 3),
    "clamp": Row({}, 3),
    "broadcast": Row(_named("dimensions"), 1, ("shape",)),
    "reshape": Row({}, 1, ("shape",), frozenset({"inferred_dimension"})),
    "bitcast": Row({}, 1, special=bitcast),
    "transpose": Row(_named("dimensions"), 1),
    "reverse": Row(_named("dimensions"), 1),
    "concatenate": Row({"dimensions": ("dimension", lambda t, p: _single(integers(t, p), p))}, special=joined),
    "slice": Row({"slice": ("slice", string)}, 1, special=slice_),
    "pad": Row({"padding": ("padding", string)}, 2, special=pad),
    "iota": Row({"iota_dimension": ("dimension", integer)}, 0, ("shape", "dtype")),
    "dot": Row(
        _named("lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims"), 2, ("dtype",)
    ),
    "convolution": Row(
        {"feature_group_count": ("features", integer), "batch_group_count": ("batches", integer)}, 2, ("dtype",),
        frozenset({"window", "dim_labels"}), convolution,
    ),
    "reduce": Row(_named("dimensions"), None, without_effect=frozenset({"to_apply"}), special=_reduce),
    "reduce-window": Row({}, None, without_effect=frozenset({"to_apply", "window"}), special=reduce_window),
    "sort": Row({}, None, without_effect=frozenset({"to_apply", "is_stable", "dimensions"}), special=sort),
    "topk": Row({}, 1, without_effect=frozenset({"k", "largest"}), special=topk),
    "gather": Row(
        _named("offset_dims", "collapsed_slice_dims", "start_index_map", "slice_sizes", "operand_batching_dims",
               "start_indices_batching_dims") | {"index_vector_dim": ("index_vector_dim", integer)},
        2, without_effect=_SORTED,
    ),
    "scatter": Row(
        _named("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims", "input_batching_dims",
               "scatter_indices_batching_dims") | {"index_vector_dim": ("index_vector_dim", integer)},
        None, without_effect=_SORTED | {"to_apply"}, special=scatter,
    ),
    "dynamic-slice": Row({"dynamic_slice_sizes": ("slice_sizes", integers)}, special=window),
    "dynamic-update-slice": Row({}, special=window),
    "all-reduce": Row({}, without_effect=_CHANNEL, special=collective),
    "all-gather": Row(
        {"dimensions": ("dimension", lambda t, p: _single(integers(t, p), p))},
        without_effect=_CHANNEL - {"to_apply"}, special=collective,
    ),
    "reduce-scatter": Row(
        {"dimensions": ("dimension", lambda t, p: _single(integers(t, p), p))},
        without_effect=_CHANNEL, special=collective,
    ),
    "all-to-all": Row(
        {"dimensions": ("dimension", lambda t, p: _single(integers(t, p), p))},
        without_effect=_CHANNEL - {"to_apply"}, special=all_to_all,
    ),
    "collective-permute": Row(
        {}, 1, without_effect=frozenset({"channel_id", "source_target_pairs"}), special=permute
    ),
    "partition-id": Row({}, 0, special=rank_number),
    "replica-id": Row({}, 0, special=rank_number),
    "custom-call": Row(
        {},
        without_effect=frozenset({
            "custom_call_target", "api_version", "output_to_operand_aliasing", "operand_layout_constraints",
            "custom_call_has_side_effect",
        }),
        special=custom_call,
    ),
}  # fmt: skip


def _single(values: tuple[int, ...], place: Place) -> int:
    if len(values) != 1:
        raise place.wrong(f"dimensions {list(values)}", "one dimension", code="hlo-attribute")
    return values[0]


# ---------------------------------------------------------------------------------------------- refusals
def refusal(instruction: Instruction, place: Place) -> UserError:
    """The error for an opcode that has no row."""
    opcode = instruction.opcode
    return place.wrong(
        f"the instruction {opcode}", "an HLO instruction that is known", code="hlo-opcode", hint=nearest(opcode, ROWS)
    )


def check_header(module: Module, place: Place) -> tuple[str, int] | None:
    """The kind of rank, ``partition`` or ``replica``, and the number of them; ``None`` if the module does not say."""
    for key, text in module.attributes.items():
        if key not in _HEADER:
            raise place.at("line 1").wrong(
                f"the attribute {key}={shown(text)}", f"one of {', '.join(sorted(_HEADER))}", code="hlo-attribute"
            )
    partitions, replicas = (
        integer(module.attributes.get(key, "1"), place.at(f"line 1: {key}"))
        for key in ("num_partitions", "replica_count")
    )
    if partitions > 1 and replicas > 1:
        raise place.at("line 1").wrong(
            f"{replicas} replicas of {partitions} partitions", "replicas or partitions, not both", code="hlo-ranks"
        )
    if partitions > 1:
        return "partition", partitions
    return ("replica", replicas) if replicas > 1 else None
