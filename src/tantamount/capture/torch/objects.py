"""Python objects that ranks give each other (``all_gather_object`` and its like), by value.

Ranks are simulated one after the other, so a rank that needs what another has not said yet is given up, and simulated
anew when the others have been. What a rank says must be the same every time.
"""

# pyright: basic
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist

from tantamount.errors import UserError

__all__ = ["Exchange", "Lone", "NotSaid", "in_turn", "one_call", "passed"]

_T = TypeVar("_T")


class NotSaid(BaseException):
    """A rank waits for an object that another rank has not given yet. No ``Exception``: programs do not handle it."""

    def __init__(self, place: str, rank: int) -> None:
        super().__init__(place, rank)
        self.place, self.rank = place, rank


class _Said(NamedTuple):
    """The object that one rank gave to a collective: which it called, after how many collectives of tensors of the same
    ranks, and the object, written down (``None`` if it only takes)."""

    name: str
    after: int
    content: Any


class Exchange:
    """The objects that the ranks of one capture have given each other so far."""

    def __init__(self) -> None:
        self._said: dict[tuple[tuple[int, ...], int], dict[int, _Said]] = {}
        self.calls: Counter[tuple[int, ...]] = Counter()  # of the rank that runs, by the members of a group
        self.tensors: Counter[tuple[int, ...]] = Counter()

    @property
    def progress(self) -> int:
        """How much has been said: it grows whenever a rank says something new."""
        return sum(len(ranks) for ranks in self._said.values())

    @contextmanager
    def one_rank(self) -> Generator[None]:
        """While this lasts one rank runs, from its beginning, and its collectives of objects exchange them."""
        from torch.distributed import distributed_c10d

        self.calls.clear()
        self.tensors.clear()
        own = {name: getattr(self, name) for name in _COLLECTIVES}
        places = [(module, name, own[name]) for module in (dist, distributed_c10d) for name in own]
        places += [(distributed_c10d, name, _unseen) for name in ("_object_to_tensor", "_tensor_to_object")]
        before = [(module, name, getattr(module, name)) for module, name, _ in places]
        token = _CURRENT.set(self)
        try:
            for module, name, function in places:
                setattr(module, name, function)
            yield
        finally:
            for module, name, function in before:
                setattr(module, name, function)
            _CURRENT.reset(token)

    # ------------------------------------------------------------------------------ in place of torch.distributed's
    def all_gather_object(self, object_list: list[Any], obj: Any, group: Any = None) -> None:
        members = _members(group)
        if members:
            object_list[: len(members)] = self._exchanged("all_gather_object", members, obj)

    def gather_object(
        self,
        obj: Any,
        object_gather_list: list[Any] | None = None,
        dst: int | None = None,
        group: Any = None,
        group_dst: int | None = None,
    ) -> None:
        members = _members(group)
        if not members:
            return
        here = dist.get_rank() == _root(members, dst, group_dst)
        if here != (object_gather_list is not None):
            raise ValueError("Argument object_gather_list must be a list on the destination and None elsewhere")
        found = self._exchanged("gather_object", members, obj)
        if object_gather_list is not None:
            object_gather_list[: len(members)] = found

    def broadcast_object_list(
        self,
        object_list: list[Any],
        src: int | None = None,
        group: Any = None,
        device: Any = None,
        group_src: int | None = None,
    ) -> None:
        members = _members(group)
        if not members:
            return
        root = _root(members, src, group_src)
        given = list(object_list) if dist.get_rank() == root else _NOTHING
        found = self._exchanged("broadcast_object_list", members, given)[members.index(root)]
        if len(found) != len(object_list):
            raise ValueError(f"broadcast_object_list: a list of {len(object_list)} where rank {root} has {len(found)}")
        object_list[:] = found

    def scatter_object_list(
        self,
        scatter_object_output_list: list[Any],
        scatter_object_input_list: list[Any] | None = None,
        src: int | None = None,
        group: Any = None,
        group_src: int | None = None,
    ) -> None:
        members = _members(group)
        if not members:
            return
        root = _root(members, src, group_src)
        given = list(scatter_object_input_list or []) if dist.get_rank() == root else _NOTHING
        found = self._exchanged("scatter_object_list", members, given)[members.index(root)]
        if len(found) != len(members):
            raise ValueError(f"scatter_object_list: {len(found)} objects for {len(members)} ranks")
        scatter_object_output_list[0] = found[members.index(dist.get_rank())]

    def _exchanged(self, name: str, members: tuple[int, ...], given: Any) -> list[Any]:
        """The objects that the members of a group give to this collective, in their order (``_NOTHING`` of those that
        only take).

        Raises :class:`NotSaid` if one of them has not run that far, and :class:`UserError` if they take part in other
        collectives in its place, or say something else than before."""
        rank = dist.get_rank()
        number = self.calls[members]
        self.calls[members] += 1
        ranks = self._said.setdefault((members, number), {})
        mine = _Said(name, self.tensors[members], None if given is _NOTHING else _written(name, given))
        if ranks.setdefault(rank, mine) != mine:
            raise _refused(name, f"rank {rank} gives another object when it runs once more", "the same at every run")
        for member in members:
            if member not in ranks:
                raise self.missing(name, member)
            if ranks[member][:2] != mine[:2]:
                other = ranks[member]
                raise _refused(
                    name, f"{name} after {mine.after} other collectives on rank {rank}, "
                    f"{other.name} after {other.after} on rank {member}", "the same collectives in the same order",
                )  # fmt: skip
        contents = [ranks[member].content for member in members]
        return [_NOTHING if content is None else _read(content) for content in contents]

    def missing(self, name: str, member: int) -> BaseException:
        """Raised where a rank needs an object that another has not given."""
        return NotSaid(name, member)


class Lone(Exchange):
    """The exchange of a rank that is captured without the others."""

    def missing(self, name: str, member: int) -> BaseException:
        return _refused(
            name, f"an object of rank {member}, which is not captured", "capture_ranks, which runs all ranks"
        )


_CURRENT: ContextVar[Exchange | None] = ContextVar("exchange", default=None)


@contextmanager
def one_call() -> Generator[None]:
    """While this lasts the program of a rank is called once; a call that follows stands where this one stood."""
    exchange = _CURRENT.get()
    if exchange is None:
        yield
        return
    before = exchange.calls.copy(), exchange.tensors.copy()
    try:
        yield
    finally:
        exchange.calls, exchange.tensors = before


def passed(group: Any) -> None:
    """Note that the running rank takes part in a collective of tensors of a group (or of the group of a name)."""
    exchange = _CURRENT.get()
    if exchange is not None:
        if isinstance(group, str):
            from torch.distributed import distributed_c10d

            name: Any = group  # PyTorch's types have a type of their own for it
            group = distributed_c10d._resolve_process_group(name)  # pyright: ignore[reportPrivateImportUsage]
        exchange.tensors[tuple(dist.get_process_group_ranks(group))] += 1


def _unseen(*_: Any, **__: Any) -> Any:
    raise _refused(
        "a collective of Python objects", "one whose ranks cannot be simulated in turn",
        ", ".join(f"dist.{name}" for name in _COLLECTIVES), "call it by that name: dist.NAME(...)",
    )  # fmt: skip


_COLLECTIVES = ("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list")
_NOTHING: Any = object()


def in_turn(ranks: Sequence[int], run: Callable[[int], _T], exchange: Exchange) -> list[_T]:
    """The results of ``run`` for all ranks. A rank that waits for another's objects runs again after it.

    Raises :class:`UserError` if ranks wait for each other for ever."""
    found: dict[int, _T] = {}
    while len(found) < len(ranks):
        before, waiting = exchange.progress, None
        for rank in ranks:
            if rank not in found:
                try:
                    found[rank] = run(rank)
                except NotSaid as missing:
                    waiting = rank, missing
        if waiting is not None and exchange.progress == before:
            rank, missing = waiting
            raise _refused(
                missing.place, f"rank {rank} waits for rank {missing.rank}, which does not take part",
                "a collective that all ranks of its group take part in",
            )  # fmt: skip
    return [found[rank] for rank in ranks]


def _members(group: Any) -> tuple[int, ...]:
    """The ranks of a process group (of all, without one); none if the rank that runs is not among them."""
    if group is dist.GroupMember.NON_GROUP_MEMBER:
        return ()
    members = tuple(dist.get_process_group_ranks(group if group is not None else dist.group.WORLD))
    return members if dist.get_rank() in members else ()


def _root(members: tuple[int, ...], whole: int | None, within: int | None) -> int:
    """A global rank, given as one or as a rank within the group; 0 without either."""
    if whole is not None and within is not None:
        raise ValueError("Can't specify both group_rank and global_rank")
    root = members[within] if within is not None else whole or 0
    if root not in members:
        raise ValueError(f"Global rank {root} is not part of group {list(members)}")
    return root


_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
_CONTAINERS = (list, tuple, set, frozenset, torch.Size)


def _written(place: str, value: Any) -> Any:
    """A value as something that cannot be changed and compares by types and contents."""
    kind = type(value)
    if kind in _PLAIN:
        return kind, repr(value) if kind in (float, complex) else value
    if kind in _CONTAINERS:
        items = sorted(value, key=repr) if kind in (set, frozenset) else value
        return kind, tuple(_written(place, item) for item in items)
    if kind is dict:
        return kind, tuple((_written(place, key), _written(place, item)) for key, item in value.items())
    raise _refused(
        place, f"an object of type {kind.__name__}", "numbers, strings, bytes, types of elements, and lists, tuples, "
        "sets and dicts of them", "tensors are exchanged by collectives of tensors; other objects as dicts",
    )  # fmt: skip


def _read(written: Any) -> Any:
    """A new value from what :func:`_written` returned."""
    kind, content = written
    if kind in (float, complex):
        return kind(content)
    if kind in _PLAIN:
        return content
    if kind is dict:
        return {_read(key): _read(item) for key, item in content}
    return kind(_read(item) for item in content)


def _refused(place: str, found: str, needed: str, hint: str = "") -> UserError:
    return UserError("capture-collective", place=place, found=found, needed=needed, hint=hint)
