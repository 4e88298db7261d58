"""Functional collectives. A definition gets the tensors of all members of the group stacked in a new first dimension,
and returns the members' results stacked the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.table import Group, Integers, Peer, Peers, Strings, Tensors, operator

_COLLECTIVE = "collective"


@operator(
    "_c10d_functional.wait_tensor.default", "_c10d_functional._wrap_tensor_autograd.default", category=_COLLECTIVE
)
def wait_tensor(b: Builder, tensor: Tensor) -> Tensor:
    """tensor"""
    return tensor


def _reduced(b: Builder, x: Tensor, reduce_op: str) -> Tensor:
    """The reduction over the first dimension, which disappears."""
    name = reduce_op.lower()
    if x.dtype is DType.BOOL:
        raise ShapeProblem(f"{reduce_op} of booleans over ranks")
    if name in ("sum", "avg"):
        total = b.cast(b.sum(x, (0,)), x.dtype)
        if name == "sum":
            return total
        if not x.dtype.is_float:
            raise ShapeProblem(f"an average of {x.dtype} over ranks")
        return b.mul(total, Fraction(1, x.shape[0]))
    if name == "max":
        return b.amax(x, (0,))
    if name == "min":
        return b.amin(x, (0,))
    raise ShapeProblem(f"reduction {reduce_op!r}; sum, avg, max and min are known")


def _for_all(b: Builder, x: Tensor, members: int) -> Tensor:
    return b.expand(b.unsqueeze(x, 0), (members, *x.shape))


def _check_size(x: Tensor, group_size: int) -> int:
    if group_size != x.shape[0]:
        raise ShapeProblem(f"group_size {group_size} for a group of {x.shape[0]} ranks")
    if x.rank < 2:
        raise ShapeProblem("a tensor without dimensions, which cannot be gathered or scattered")
    return group_size


@operator("_c10d_functional.all_reduce.default", "_c10d_functional.all_reduce_.default", category=_COLLECTIVE)
def all_reduce(b: Builder, input: Tensor, reduce_op: str, group_name: Group) -> Tensor:
    """y_r = sum (avg, max, min) over the members s of input_s"""
    return _for_all(b, _reduced(b, input, reduce_op), input.shape[0])


@operator(
    "_c10d_functional.all_gather_into_tensor.default",
    "_c10d_functional_autograd.all_gather_into_tensor.default",
    category=_COLLECTIVE,
)
def all_gather_into_tensor(b: Builder, input: Tensor, group_size: int, group_name: Group) -> Tensor:
    """y_r = the members' tensors one after the other along dimension 0"""
    members = _check_size(input, group_size)
    return _for_all(b, b.reshape(input, (members * input.shape[1], *input.shape[2:])), members)


@operator(
    "_c10d_functional.reduce_scatter_tensor.default",
    "_c10d_functional_autograd.reduce_scatter_tensor.default",
    category=_COLLECTIVE,
)
def reduce_scatter_tensor(b: Builder, input: Tensor, reduce_op: str, group_size: int, group_name: Group) -> Tensor:
    """y_r = part r along dimension 0 of the sum (avg, max, min) over the members"""
    members = _check_size(input, group_size)
    if input.shape[1] % members:
        raise ShapeProblem(f"dimension 0 of size {input.shape[1]} scattered to {members} ranks")
    return b.reshape(_reduced(b, input, reduce_op), (members, input.shape[1] // members, *input.shape[2:]))


def _all_to_all_apart(b: Builder, members: Sequence[Mapping[str, Any]]) -> list[Tensor]:
    """Member r sends ``input_split_sizes[s]`` rows to member s, who expects ``output_split_sizes[r]``."""
    count = len(members)
    tensors: list[Tensor] = [arguments["input"] for arguments in members]
    if len({(x.shape[1:], x.dtype) for x in tensors}) > 1 or not all(x.rank for x in tensors):
        raise ShapeProblem(f"an exchange between {' and '.join(str(x.type) for x in tensors)}")
    sent = [_sizes(a["input_split_sizes"], x.shape[0], count) for a, x in zip(members, tensors, strict=True)]
    results: list[Tensor] = []
    for r, arguments in enumerate(members):
        received = [row[r] for row in sent]
        wanted = arguments["output_split_sizes"] or _sizes((), sum(received), count)
        if list(wanted) != received:
            raise ShapeProblem(f"member {r} expects parts of sizes {list(wanted)} and is sent {received}")
        starts = [sum(row[:r]) for row in sent]
        parts = [b.slice(x, 0, start, start + n) for x, start, n in zip(tensors, starts, received, strict=True) if n]
        results.append(b.concat(parts, 0) if parts else b.slice(tensors[r], 0, 0, 0))
    return results


def _sizes(given: Sequence[int], total: int, members: int) -> Sequence[int]:
    """Split sizes, one per member; equal ones if none are given."""
    if given:
        if len(given) != members or min(given) < 0 or sum(given) != total:
            raise ShapeProblem(f"split sizes {list(given)} of {total} elements for {members} ranks")
        return given
    if total % members:
        raise ShapeProblem(f"dimension 0 of size {total} exchanged between {members} ranks")
    return (total // members,) * members


@operator("_c10d_functional.all_to_all_single.default", category=_COLLECTIVE, apart=_all_to_all_apart)
def all_to_all_single(
    b: Builder, input: Tensor, output_split_sizes: Integers, input_split_sizes: Integers, group_name: Group
) -> Tensor:
    """y_r = part r along dimension 0 of every member's tensor, one after the other"""
    if input.rank < 2:
        raise ShapeProblem("a tensor without dimensions, which cannot be exchanged")
    members, size = input.shape[:2]
    rest = input.shape[2:]
    sent = _sizes(input_split_sizes, size, members)
    if output_split_sizes and len(output_split_sizes) != members:
        raise ShapeProblem(f"split sizes {list(output_split_sizes)} for {members} ranks")
    received = output_split_sizes or (size // members,) * members
    if len({*sent, *received}) > 1:  # what arrives depends on the other members' sizes: their own business (above)
        return b.unknown((members, sum(received), *rest), input.dtype)
    parts = b.reshape(input, (members, members, size // members, *rest))
    return b.reshape(b.transpose(parts, 0, 1), (members, size, *rest))


@operator("_c10d_functional.broadcast.default", "_c10d_functional.broadcast_.default", category=_COLLECTIVE)
def broadcast(b: Builder, input: Tensor, src: int, group_name: Group) -> Tensor:
    """y_r = input_src, where src is a position in the group"""
    members = input.shape[0]
    if not 0 <= src < members:
        raise ShapeProblem(f"source {src} in a group of {members} ranks")
    return _for_all(b, b.select(input, 0, src), members)


@operator("_c10d_functional.all_reduce_coalesced.default", category=_COLLECTIVE)
def all_reduce_coalesced(b: Builder, inputs: Tensors, reduce_op: str, group_name: Group) -> Tensors:
    """all_reduce of each tensor"""
    return tuple(_for_all(b, _reduced(b, x, reduce_op), x.shape[0]) for x in inputs if x is not None)


@operator("_c10d_functional.all_gather_into_tensor_coalesced.default", category=_COLLECTIVE)
def all_gather_into_tensor_coalesced(b: Builder, inputs: Tensors, group_size: int, group_name: Group) -> Tensors:
    """all_gather_into_tensor of each tensor"""
    return tuple(all_gather_into_tensor(b, x, group_size, group_name) for x in inputs if x is not None)


@operator("_c10d_functional.reduce_scatter_tensor_coalesced.default", category=_COLLECTIVE)
def reduce_scatter_tensor_coalesced(
    b: Builder, inputs: Tensors, reduce_op: str, group_size: int, group_name: Group
) -> Tensors:
    """reduce_scatter_tensor of each tensor"""
    return tuple(reduce_scatter_tensor(b, x, reduce_op, group_size, group_name) for x in inputs if x is not None)


# ---------------------------------------------------------------------------------------------- messages
# What arrives is known to the lock-step execution of all ranks alone; here it is anything of the buffer's type.
@operator("_c10d_functional.isend.default", category=_COLLECTIVE)
def isend(b: Builder, tensor: Tensor, dst: Peer, tag: int, group_name: Group) -> Tensor:
    """nothing: tensor goes to the member at position dst, whose k-th irecv from this one is this one's k-th isend"""
    return b.full((0,), 0, tensor.dtype)


@operator("_c10d_functional.irecv.default", category=_COLLECTIVE)
def irecv(b: Builder, tensor: Tensor, src: Peer, tag: int, group_name: Group) -> Tensor:
    """what the member at position src sends, in the shape of the buffer tensor"""
    return b.unknown(tensor.shape, tensor.dtype)


@operator("_c10d_functional.batch_p2p_ops.default", category=_COLLECTIVE)
def batch_p2p_ops(
    b: Builder, op_list: Strings, peer_list: Peers, tag_list: Integers, tensors: Tensors, group_name: Group
) -> Tensors:
    """several isend and irecv that are posted together"""
    if not len(op_list) == len(peer_list) == len(tag_list) == len(tensors):
        raise ShapeProblem(
            f"{len(op_list)} operations, {len(peer_list)} peers, {len(tag_list)} tags, {len(tensors)} tensors"
        )
    results: list[Tensor] = []
    for kind, tensor in zip(op_list, tensors, strict=True):
        if tensor is None or kind not in ("isend", "irecv"):
            raise ShapeProblem(f"the operation {kind!r} in a batch; isend and irecv are known")
        results.append(b.full((0,), 0, tensor.dtype) if kind == "isend" else b.unknown(tensor.shape, tensor.dtype))
    return tuple(results)
