"""The ranks that take part in a collective: XLA's notations of replica groups, and the meaning of their numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from math import prod

from tantamount.capture.fields import Place, shown
from tantamount.capture.hlo_text import Instruction
from tantamount.capture.hlo_values import boolean, pairs

__all__ = ["group_of", "groups_of", "pairs_of_ranks"]

Ranks = tuple[str, int]  # what a rank is, "partition" or "replica", and how many there are
Groups = tuple[tuple[int, ...], ...]

_IOTA = re.compile(r"\[([\d,]{1,200})\]<=\[([\d,]{1,200})\](?:T\(([\d,]{1,200})\))?")
_MESH = re.compile(r"mesh\[([^\]\n]*)\](?:,\s*device_ids=\(([^\s]*)\))?\s*\{([^{}]*)\}")
_AXIS = re.compile(r"'([^'\n]*)'=(\d{1,9})")


def group_of(instruction: Instruction, ranks: Ranks | None, place: Place) -> tuple[str, Groups]:
    """The name of an instruction's group and the ranks of its instances; ``()`` is all ranks. ``ranks`` is what the
    module's header says, if anything. Raises :class:`UserError` for groups that are none."""
    attributes = instruction.attributes
    text = attributes.get("replica_groups", "{}")
    if "device_ids" in attributes:
        text += f", device_ids={attributes['device_ids']}"
    where = place.at("replica_groups")
    rows = groups_of(text, where)
    name = re.sub(r"\s+", "", text) if rows else "{}"
    unified = boolean(attributes.get("use_global_device_ids", "false"), place)
    channel = "channel_id" in attributes
    if unified and not channel:
        raise place.wrong("use_global_device_ids without a channel_id", "both", code="hlo-groups")
    name, rows = _by_mode(instruction.opcode, name, rows, ranks, channel, unified, where)
    if len({len(row) for row in rows}) > 1 or len({r for row in rows for r in row}) != sum(map(len, rows)):
        raise where.wrong(shown(text), "groups of one size, every rank in one of them", code="hlo-groups")
    return name, rows


def pairs_of_ranks(instruction: Instruction, ranks: Ranks | None, place: Place) -> Groups:
    """``source_target_pairs``, as rank numbers."""
    where = place.at("source_target_pairs")
    rows = pairs(instruction.attributes.get("source_target_pairs", "{}"), where)
    _by_mode(instruction.opcode, "these pairs", rows, ranks, "channel_id" in instruction.attributes, False, where)
    return rows


def _by_mode(
    opcode: str, name: str, rows: Groups, ranks: Ranks | None, channel: bool, unified: bool, place: Place
) -> tuple[str, Groups]:
    """The ids of a module that says whether its ranks are partitions or replicas, as rank numbers.

    Without a channel the ids are replicas and every partition is for itself; with one, the exchange is across
    partitions: of all-to-all and collective-permute by partition number, of the others by replica number, all
    partitions together, or by rank (``use_global_device_ids``)."""
    if ranks is None:
        return name, rows
    what, count = ranks
    by_partition = opcode in ("all-to-all", "collective-permute")
    own = unified or (channel and by_partition if what == "partition" else not (channel and by_partition))
    if own:
        return name, rows
    if rows not in ((), ((0,),)):
        raise place.wrong(
            name, f"{{}} or {{{{0}}}}: the module has {count} {what}s, and these ids do not number them",
            code="hlo-groups",
        )  # fmt: skip
    if what == "partition" and channel:
        return "{}", ()
    return "each rank alone", tuple((rank,) for rank in range(count))


def groups_of(text: str, place: Place) -> Groups:
    """Replica groups in any of XLA's three notations; ``()`` is all ranks.

    ``{{0,1},{2,3}}``; ``[2,4]<=[4,2]T(1,0)``: the numbers from 0 on in the second shape, transposed, cut into rows of
    the first shape; ``mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}``: the lines of a mesh of such numbers along
    some of its axes."""
    if text.startswith("{"):
        rows = pairs(text, place)
        return () if rows == ((),) else rows
    if text.startswith("mesh["):
        return _mesh_groups(text, place)
    found = _IOTA.fullmatch(text)
    if found is None:
        raise place.wrong(
            shown(text), "replica groups: {{0,1},{2,3}}, [2,4]<=[8] or mesh['a'=2] {'a'}", code="hlo-groups"
        )
    dims = _sizes(found[1])
    order = _iota(found[2], found[3], place)
    if len(dims) != 2 or prod(dims) != len(order):
        raise place.wrong(shown(text), "a number of groups times their size that fits the list", code="hlo-groups")
    return tuple(tuple(order[k * dims[1] : (k + 1) * dims[1]]) for k in range(dims[0]))


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(item[:18]) for item in text.split(",") if item)


def _iota(shape_text: str, order_text: str | None, place: Place) -> list[int]:
    """The numbers of a row-major array of that shape, its dimensions permuted, row by row."""
    shape = _sizes(shape_text)
    total = prod(shape)
    place.limits.check("ranks", total, place.text, "ranks in replica groups")
    order = tuple(range(len(shape))) if order_text is None else _sizes(order_text)
    if sorted(order) != list(range(len(shape))):
        raise place.wrong(shown(order_text), f"a permutation of {len(shape)} dimensions", code="hlo-groups")
    strides = [prod(shape[k + 1 :]) for k in range(len(shape))]
    return [
        sum(digit * strides[k] for digit, k in zip(digits, order, strict=True))
        for digits in product(*(range(shape[k]) for k in order))
    ]


def _mesh_groups(text: str, place: Place) -> tuple[tuple[int, ...], ...]:
    found = _MESH.fullmatch(text)
    axes = [] if found is None else [(name, int(size)) for name, size in _AXIS.findall(found[1])]
    chosen = [] if found is None else [item.strip().strip("'") for item in found[3].split(",") if item.strip()]
    names = [name for name, _ in axes]
    if (
        found is None
        or len(axes) != len([item for item in found[1].split(",") if item])
        or len({*names}) != len(names)
        or any(name not in names for name in chosen)
        or len({*chosen}) != len(chosen)
    ):
        raise place.wrong(
            shown(text), "replica groups along whole axes of a mesh, mesh['a'=2,'b'=4] {'b'}", code="hlo-groups"
        )
    sizes = [size for _, size in axes]
    total = prod(sizes)
    place.limits.check("ranks", total, place.text, "ranks in replica groups")
    devices: Sequence[int] = range(total)
    if found[2] is not None:
        written = re.fullmatch(r"\[([\d,]{1,200})\](?:T\(([\d,]{1,200})\))?", found[2])
        if written is None:
            raise place.wrong(shown(found[2]), "device numbers such as [4,2]T(1,0)", code="hlo-groups")
        devices = _iota(written[1], written[2], place)
        if len(devices) != total:
            raise place.wrong(f"{len(devices)} devices", f"{total}, as many as the mesh has", code="hlo-groups")
    strides = [prod(sizes[k + 1 :]) for k in range(len(sizes))]
    along = [names.index(name) for name in chosen]
    outside = [k for k in range(len(sizes)) if k not in along]

    def offsets(dims: Sequence[int]) -> list[int]:
        return [
            sum(digit * strides[k] for digit, k in zip(digits, dims, strict=True))
            for digits in product(*(range(sizes[k]) for k in dims))
        ]

    return tuple(tuple(devices[base + step] for step in offsets(along)) for base in offsets(outside))
