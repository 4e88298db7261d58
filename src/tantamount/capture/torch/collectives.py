"""In-place and asynchronous collectives of ``torch.distributed`` as functional ones.

``dist.all_reduce(x)`` reaches a tracer as ``c10d.allreduce_`` on process-group objects. Here it becomes
``x.copy_(wait_tensor(_c10d_functional.all_reduce(x, "sum", name)))``, which the second pass makes a value.
"""

# pyright: basic
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tantamount.capture.torch.objects import passed
from tantamount.capture.torch.placements import local_part
from tantamount.errors import UserError

__all__ = ["Functional", "drop_lone_collectives", "with_factors"]

_Handler = Callable[..., Any]
_HANDLERS: dict[str, _Handler] = {}


def _handles(*names: str) -> Callable[[_Handler], _Handler]:
    def register(handler: _Handler) -> _Handler:
        for name in names:
            _HANDLERS[name] = handler
        return handler

    return register


class Functional(TorchDispatchMode):
    """Rewrites ``c10d.*`` (and FSDP's copies) into ``_c10d_functional.*``.

    What is written takes effect at once, so a program that reads it before it has waited, or overwrites what is still
    being sent, would be captured as if it had no race: it is refused."""

    def __init__(self) -> None:
        super().__init__()
        self._unfinished: list[_Unfinished] = []
        self._undefined: list[Tensor] = []

    def check_left(self, tensors: Sequence[tuple[str, Tensor]]) -> None:
        """Raise :class:`UserError` if one of these named tensors, which a call leaves behind, has no certain value: an
        operation that nobody has waited for writes it, or PyTorch leaves it undefined."""
        for name, tensor in tensors:
            memories = _memories(local_part(tensor)[0])
            for one in self._unfinished:
                if not one.done and memories & one.written:
                    raise _race(name, one.name, "left behind")
            self._check_defined(name, memories)

    def _check_defined(self, place: str, memories: set[int]) -> None:
        if any(memories & _memories(tensor) for tensor in self._undefined):
            raise UserError(
                "capture-collective", place=place,
                found="what dist.reduce leaves on a rank that is not its destination, which PyTorch does not say",
                needed="a tensor that is not used on other ranks after dist.reduce",
                hint="dist.all_reduce; dist.reduce(x.clone(), dst); or p.grad = None where nothing uses it",
            )  # fmt: skip

    def _check_races(self, func: Any, args: Any, kwargs: Any) -> None:
        self._unfinished = [one for one in self._unfinished if not one.done]
        if (
            not (self._unfinished or self._undefined)
            or func.is_view
            or func._schema.name.partition("::")[2] in _READ_NOTHING
            or _describes(func)  # which autograd asks for where no exception may be raised
        ):
            return
        overwritten: set[int] = set()
        for parameter, value in zip(func._schema.arguments, args, strict=False):
            if parameter.alias_info is not None and parameter.alias_info.is_write:
                overwritten |= _memories(value)
        touched = _memories((args, kwargs))
        for one in self._unfinished:
            if touched & one.written or overwritten & one.read:
                raise _race(str(func), one.name, "read" if touched & one.written else "overwritten")
        if func._schema.name in _OVERWRITE:
            self._undefined = [
                x for x in self._undefined if not _memories(args[0]) & _memories(x) or args[0].numel() < x.numel()
            ]
        self._check_defined(str(func), touched)

    def _check_collective(self, name: str, args: Sequence[Any]) -> None:
        """The tensors of a collective are not those that an unfinished one writes, nor undefined."""
        self._unfinished = [one for one in self._unfinished if not one.done]
        memories = _memories(args)
        for one in self._unfinished:
            if memories & one.written:
                raise _race(name, one.name, "used")
        self._check_defined(name, memories)

    def _started(self, name: str, args: Sequence[Any]) -> None:
        """Operations that the handler has just begun."""
        written, read = _memories(args[:1]), _memories(args[1:])
        if name == "c10d.send":
            written, read = read, written
        self._unfinished += [_Unfinished(name, written, read - written, done, args) for done in _begun]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = f"{func.namespace}.{func._schema.name.partition('::')[2]}" if hasattr(func, "namespace") else ""
        handler = _HANDLERS.get(name)
        if handler is not None:
            _begun.clear()
            self._check_collective(name, args)
            for group in args:
                if isinstance(group, torch.ScriptObject) and "ProcessGroup" in str(group):
                    passed(dist.ProcessGroup.unbox(group))
            result = handler(*args, **(kwargs or {}))
            self._started(name, args)
            if name == "c10d.reduce_" and not _is_root(args[1], args[3]):
                self._undefined += args[0]
            return result
        if name.startswith("c10d."):
            raise UserError(
                "capture-collective", place=name, found="a collective without a functional form",
                needed=", ".join(sorted(known for known in _HANDLERS if known.startswith("c10d."))),
            )  # fmt: skip
        if name.startswith("_c10d_functional.") and args and isinstance(args[-1], str):
            passed(args[-1])
        if name == "_c10d_functional.wait_tensor":
            for one in self._unfinished:
                if _memories(args) & one.written:
                    one.done.append(True)
        else:
            self._check_races(func, args, kwargs)
        result = func(*args, **(kwargs or {}))
        if name.startswith("_c10d_functional.") and name != "_c10d_functional.wait_tensor":
            for tensor in pytree.tree_leaves(result):  # each is waited for by itself
                written = _memories(tensor)
                read = _memories((args, kwargs)) - written
                self._unfinished.append(_Unfinished(name, written, read, [], (args, result)))
        return result


def _race(place: str, name: str, what: str) -> UserError:
    return UserError(
        "capture-race", place=place, found=f"a tensor of {name} that is {what} before the program has waited for it",
        needed="wait() of the operation that was started first",
    )  # fmt: skip


class _Unfinished(NamedTuple):
    """An operation that the program has not waited for, and the memory that it writes and reads. ``done`` is empty
    until it has."""

    name: str
    written: set[int]
    read: set[int]
    done: list[bool]
    kept: Sequence[Any]  # so that no other tensor gets their memory


_begun: list[list[bool]] = []  # by the handler that runs
_READ_NOTHING = {
    "empty_like", "zeros_like", "ones_like", "full_like", "new_empty", "new_zeros", "new_full", "record_stream",
    "sym_size", "sym_stride", "sym_numel", "sym_storage_offset", "is_same_size",
}  # fmt: skip


def _describes(func: Any) -> bool:
    """True if an operator says what a tensor is (its device, its layout), and not what is in it: it returns no tensor,
    and changes none."""
    schema = func._schema
    return bool(schema.returns) and not schema.is_mutable and "Tensor" not in str([one.type for one in schema.returns])


_OVERWRITE = ("aten::copy_", "aten::zero_", "aten::fill_")


def _memories(values: Any) -> set[int]:
    return {x.untyped_storage()._cdata for x in pytree.tree_leaves(values) if isinstance(x, Tensor)}


def _group(boxed: Any) -> str:
    return dist.ProcessGroup.unbox(boxed).group_name


def _size(boxed: Any) -> int:
    return dist.ProcessGroup.unbox(boxed).size()


def _is_root(boxed: Any, root: int) -> bool:
    return dist.ProcessGroup.unbox(boxed).rank() == root


_REDUCTIONS = {"SUM": "sum", "AVG": "avg", "MAX": "max", "MIN": "min"}


def _label(op: Any) -> str:
    kind = op.op() if callable(getattr(op, "op", None)) else op
    return dist.ReduceOp.RedOpType(kind).name if isinstance(kind, int) else str(kind).rpartition(".")[2].upper()


def _reduction(op: Any) -> str:
    label = _label(op)
    if label not in _REDUCTIONS:
        raise UserError(
            "capture-collective", place="c10d", found=f"reduction {label}", needed=", ".join(_REDUCTIONS),
            hint="PREMUL_SUM takes a number here, and floating-point tensors, and must be given to a function that is "
            "called as an attribute of torch.distributed: dist.NAME(...)" if label == "PREMUL_SUM" else "",
        )  # fmt: skip
    return _REDUCTIONS[label]


_FACTOR: ContextVar[float | None] = ContextVar("factor", default=None)


def with_factors(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of ``torch.distributed`` that reduces, such that the factor of its ``PREMUL_SUM`` is known while it
    runs: the dispatcher gets an operation that does not say it."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def reduce(*args: Any, **kwargs: Any) -> Any:
        op = signature.bind_partial(*args, **kwargs).arguments.get("op")
        factor = getattr(op, "factor", None) if isinstance(op, dist.ReduceOp) else None
        token = _FACTOR.set(factor if type(factor) is float else None)
        try:
            return function(*args, **kwargs)
        finally:
            _FACTOR.reset(token)

    return reduce


def _summand(tensor: Tensor, op: Any) -> tuple[Tensor, str]:
    """A rank's operand of a reduction, and the name of the reduction. ``PREMUL_SUM`` is the sum of what every rank has
    multiplied by its own factor before (NCCL's ``ncclRedOpCreatePreMulSum``)."""
    factor = _FACTOR.get()
    if factor is not None and tensor.is_floating_point() and _label(op) == "PREMUL_SUM":
        return tensor * factor, "sum"
    return tensor, _reduction(op)


_c10d = torch.ops._c10d_functional


def _work() -> Any:
    """An operation whose effect is there, for callers that wait."""
    return _pending(lambda: None)


def _wait(tensor: Tensor) -> Tensor:
    return _c10d.wait_tensor.default(tensor)


def _write(target: Tensor, value: Tensor) -> None:
    target.copy_(value if value.shape == target.shape else value.reshape(target.shape))


@_handles("c10d.allreduce_")
def _all_reduce(tensors: Sequence[Tensor], group: Any, op: Any, *_: Any, **__: Any) -> Any:
    for tensor in tensors:
        _write(tensor, _wait(_c10d.all_reduce.default(*_summand(tensor, op), _group(group))))
    return list(tensors), _work()


@_handles("c10d.allreduce_coalesced_")
def _all_reduce_coalesced(tensors: Sequence[Tensor], group: Any, op: Any, *_: Any, **__: Any) -> Any:
    return _all_reduce(tensors, group, op)[1]


@_handles("c10d.reduce_")
def _reduce(tensors: Sequence[Tensor], group: Any, op: Any, root: int, *_: Any, **__: Any) -> Any:
    for tensor in tensors:
        value = _wait(_c10d.all_reduce.default(*_summand(tensor, op), _group(group)))
        if _is_root(group, root):
            _write(tensor, value)
    return _work()


@_handles("c10d.broadcast_")
def _broadcast(tensors: Sequence[Tensor], group: Any, root: int, *_: Any, **__: Any) -> Any:
    for tensor in tensors:
        _write(tensor, _wait(_c10d.broadcast.default(tensor, root, _group(group))))
    return list(tensors), _work()


def _gathered(tensor: Tensor, group: Any) -> Tensor:
    flat = tensor.reshape(1) if tensor.dim() == 0 else tensor
    return _wait(_c10d.all_gather_into_tensor.default(flat, _size(group), _group(group)))


@_handles("c10d._allgather_base_")
def _all_gather_base(output: Tensor, source: Tensor, group: Any, *_: Any, **__: Any) -> Any:
    _write(output, _gathered(source, group))
    return output, _work()


@_handles("c10d.allgather_into_tensor_coalesced_")
def _all_gather_coalesced(outputs: Sequence[Tensor], sources: Sequence[Tensor], group: Any, *_: Any, **__: Any) -> Any:
    for output, source in zip(outputs, sources, strict=True):
        _write(output, _gathered(source, group))
    return _work()


def _gather_into(parts: Sequence[Tensor], source: Tensor, group: Any) -> None:
    if any(part.numel() != source.numel() for part in parts):
        raise UserError(
            "capture-collective", place="all_gather", found=f"parts of {[list(part.shape) for part in parts]}",
            needed=f"parts of one size, {list(source.shape)}", hint="pad them, or use all_to_all_single with sizes",
        )  # fmt: skip
    for part, value in zip(parts, _gathered(source, group).chunk(len(parts)), strict=True):
        _write(part, value)


@_handles("c10d.allgather_")
def _all_gather(outputs: Sequence[Sequence[Tensor]], sources: Sequence[Tensor], group: Any, *_: Any, **__: Any) -> Any:
    for parts, source in zip(outputs, sources, strict=True):
        _gather_into(parts, source, group)
    return [list(parts) for parts in outputs], _work()


@_handles("c10d.allgather_coalesced_")
def _all_gather_lists(outputs: Sequence[Sequence[Tensor]], sources: Sequence[Tensor], group: Any, *_: Any) -> Any:
    for index, source in enumerate(sources):
        _gather_into([parts[index] for parts in outputs], source, group)
    return _work()


def _scattered(source: Tensor, group: Any, op: Any) -> Tensor:
    return _wait(_c10d.reduce_scatter_tensor.default(*_summand(source, op), _size(group), _group(group)))


@_handles("c10d._reduce_scatter_base_")
def _reduce_scatter_base(output: Tensor, source: Tensor, group: Any, op: Any, *_: Any, **__: Any) -> Any:
    _write(output, _scattered(source, group, op))
    return output, _work()


@_handles("c10d.reduce_scatter_tensor_coalesced_")
def _reduce_scatter_coalesced(
    outputs: Sequence[Tensor], sources: Sequence[Tensor], group: Any, op: Any, *_: Any, **__: Any
) -> Any:
    for output, source in zip(outputs, sources, strict=True):
        _write(output, _scattered(source, group, op))
    return _work()


@_handles("c10d.reduce_scatter_")
def _reduce_scatter(
    outputs: Sequence[Tensor], sources: Sequence[Sequence[Tensor]], group: Any, op: Any, *_: Any, **__: Any
) -> Any:
    for output, parts in zip(outputs, sources, strict=True):
        _write(output, _scattered(torch.cat([part.reshape(-1) for part in parts]), group, op))
    return list(outputs), _work()


@_handles("c10d.alltoall_base_")
def _all_to_all_base(
    output: Tensor, source: Tensor, group: Any, to: Sequence[int], given: Sequence[int], *_: Any, **__: Any
) -> Any:
    size = _size(group)
    to = list(to) or [output.shape[0] // size] * size
    given = list(given) or [source.shape[0] // size] * size
    _write(output, _wait(_c10d.all_to_all_single.default(source, to, given, _group(group))))
    return _work()


@_handles("c10d.alltoall_")
def _all_to_all(outputs: Sequence[Tensor], sources: Sequence[Tensor], group: Any, *_: Any, **__: Any) -> Any:
    sent = torch.cat([source.reshape(-1) for source in sources])
    to, given = [output.numel() for output in outputs], [source.numel() for source in sources]
    received = _wait(_c10d.all_to_all_single.default(sent, to, given, _group(group)))
    for output, value in zip(outputs, received.split(to), strict=True):
        _write(output, value)
    return list(outputs), _work()


def drop_lone_collectives(graph: fx.Graph, groups: Collection[str]) -> None:
    """Collectives over one rank are the identity: over these groups they are replaced by what they are given."""
    for node in list(graph.nodes):
        if node.target is _c10d.wait_tensor.default:
            lone = not str(getattr(node.args[0], "target", "")).startswith("_c10d_functional.")
        else:
            lone = node.target in _GIVE_BACK and isinstance(node.args[-1], str) and node.args[-1] in groups
        if lone:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


_GIVE_BACK = (
    _c10d.all_reduce.default, _c10d.all_gather_into_tensor.default, _c10d.reduce_scatter_tensor.default,
    _c10d.all_to_all_single.default, _c10d.broadcast.default,
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- messages
def _pending(finish: Callable[[], None]) -> Any:
    """An operation that ``finish`` ends when the program waits for it, and not before."""
    from torch._C._distributed_c10d import PythonCallbackWork

    done: list[bool] = []
    _begun.append(done)

    def wait(_: Any) -> bool:
        if not done:
            done.append(True)
            finish()
        return True

    return PythonCallbackWork(wait).boxed()


@_handles("c10d.send")
def _send(tensors: Sequence[Tensor], group: Any, to: int, tag: int) -> Any:
    sent = [_c10d.isend.default(tensor, to, tag, _group(group)) for tensor in tensors]

    def finish() -> None:
        for tensor in sent:
            _wait(tensor)

    return _pending(finish)


@_handles("c10d.recv_")
def _receive(tensors: Sequence[Tensor], group: Any, source: int, tag: int) -> Any:
    received = [_c10d.irecv.default(tensor, source, tag, _group(group)) for tensor in tensors]

    def finish() -> None:
        for tensor, value in zip(tensors, received, strict=True):
            _write(tensor, _wait(value))

    return _pending(finish)


_SCATTER_TAG, _GATHER_TAG = -1, -2  # tags that programs do not use


@_handles("c10d.scatter_")
def _scatter(outputs: Sequence[Tensor], sources: Sequence[Sequence[Tensor]], group: Any, root: int, *_: Any) -> Any:
    rank, name = dist.ProcessGroup.unbox(group).rank(), _group(group)
    if rank != root:
        _write(outputs[0], _wait(_c10d.irecv.default(outputs[0], root, _SCATTER_TAG, name)))
        return list(outputs), _work()
    for member, part in enumerate(sources[0]):
        if member != rank:
            _c10d.isend.default(part, member, _SCATTER_TAG, name)
    _write(outputs[0], sources[0][rank])
    return list(outputs), _work()


@_handles("c10d.gather_")
def _gather(outputs: Sequence[Sequence[Tensor]], sources: Sequence[Tensor], group: Any, root: int, *_: Any) -> Any:
    rank, name = dist.ProcessGroup.unbox(group).rank(), _group(group)
    if rank != root:
        _c10d.isend.default(sources[0], root, _GATHER_TAG, name)
        return _work()
    for member, part in enumerate(outputs[0]):
        if member != rank:
            _write(part, _wait(_c10d.irecv.default(part, member, _GATHER_TAG, name)))
    _write(outputs[0][rank], sources[0])
    return _work()


@_handles("c10d.barrier")
def _barrier(*_: Any, **__: Any) -> Any:
    return _work()


@_handles("c10d.monitored_barrier_", "c10d.check_for_nan")
def _nothing(*_: Any, **__: Any) -> None:
    return None


# ---------------------------------------------------------------------------------------------- FSDP2's copies
@_handles("fsdp.all_gather_copy_in")
def _copy_in(inputs: Sequence[Tensor], output: Tensor, sizes: Sequence[int], numel: int, rank: int) -> Any:
    mine = torch.cat([tensor.reshape(-1) for tensor in inputs])
    output.narrow(0, numel * rank, numel).copy_(mine)
    return output.narrow(0, numel * rank, numel), output


@_handles("fsdp.split_with_sizes_copy")
def _split_copy(gathered: Tensor, sizes: Sequence[int], dim: int = 0, *, out: Sequence[Tensor]) -> None:
    for target, value in zip(out, gathered.split_with_sizes(list(sizes), dim), strict=True):
        target.copy_(value)


@_handles("fsdp.chunk_cat")
def _chunk_cat(tensors: Sequence[Tensor], dim: int, num_chunks: int, *, out: Tensor) -> None:
    rows: list[Tensor] = []
    for tensor in tensors:
        missing = -tensor.shape[dim] % num_chunks
        if dim or missing:
            raise UserError(
                "capture-collective", place="fsdp.chunk_cat", found=f"{tuple(tensor.shape)} in {num_chunks} chunks",
                needed="parameters whose first dimension the data-parallel size divides",
            )  # fmt: skip
        rows.append(tensor.reshape(num_chunks, -1))
    out.copy_(torch.cat(rows, 1))


@_handles("fsdp.copy_")
def _copy(tensor: Tensor, data: Tensor) -> None:
    tensor.copy_(data)
