"""Labels of an opaque operator's dimensions: what one may know of a function without knowing the function.

``"[t] (g r) [d], [t] g [d], [t] g [e], _ -> [t] (g r) [e]"`` has one group per operand, then one per result; in a group
one item per dimension:

==========  =======================================================================================================
``g``       parallel: the result at i depends on the operands at the same i only, in the same way for every i
``[t]``     bound: the function sees the whole dimension (brackets in one place bind the label everywhere)
``+k``      summed: the result is the sum over the dimension of what the function gives at each of its points
``(g r)``   one dimension that consists of several, row-major: ``index = g * size(r) + r``
``[4]``     a dimension of this size; the size of a label may also come from an integer attribute of its name
``...``     any number of parallel dimensions
``_``       (a whole group) an operand whose value is not read, such as a result that is passed in to be written
==========  =======================================================================================================

A label that no result has is bound, unless it is summed. A parallel label that an operand lacks is broadcast.
The notation is that of einops and einx (brackets mark the dimensions that a function is applied to).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from math import prod

from tantamount.ir.types import DType, Kind, Shape
from tantamount.ops.algebra import ShapeProblem, Tensor
from tantamount.ops.builder import Builder

__all__ = ["LabelProblem", "Labels", "apply_opaque", "parse_labels"]

_TOKEN = re.compile(r"\s*(\.\.\.|[A-Za-z_][A-Za-z0-9_]*|[0-9]{1,12}|[()\[\]+]|\S)")
_ELLIPSIS = "..."
_LONGEST = 10_000

Group = tuple[tuple[str, ...], ...]  # per dimension the labels that it consists of


class LabelProblem(ValueError):
    """Labels that are not of the language; the text is one clause."""


@dataclass(frozen=True, slots=True)
class Labels:
    """Parsed labels. ``operands`` and ``results`` have one group each (``None``: not read); every label is in
    ``bound``, ``summed``, or parallel."""

    text: str
    operands: tuple[Group | None, ...]
    results: tuple[Group, ...]
    bound: frozenset[str]
    summed: frozenset[str]


@lru_cache(maxsize=256)
def parse_labels(text: str) -> Labels:
    """The labels in a text. Raises :class:`LabelProblem`."""
    left, arrow, right = text.partition("->")
    if not arrow or "->" in right or len(text) > _LONGEST:
        raise LabelProblem(f"labels {text[:80]!r}, without one '->' between operands and results")
    bound: set[str] = set()
    summed: set[str] = set()
    number = count()
    operands = tuple(None if part.strip() == "_" else _group(part, bound, summed, number) for part in left.split(","))
    results = tuple(_group(part, bound, summed, number) for part in right.split(","))
    inside = {label for group in operands if group is not None for dim in group for label in dim}
    named = [{label for dim in group for label in dim} for group in results]
    everywhere, anywhere = set[str].intersection(*named), set[str].union(*named)
    bound |= {label for label in inside | anywhere if "#" in label} | (inside - anywhere - summed)
    for label in sorted(summed & (anywhere | bound)):
        raise LabelProblem(f"the summed label {label} in a result or in brackets")
    for label in sorted(summed - inside):
        raise LabelProblem(f"the summed label {label} in no operand")
    for label in sorted(anywhere - bound):
        if label not in inside:
            raise LabelProblem(f"the label {label} of a result in no operand (bound dimensions are written [{label}])")
        if label not in everywhere:
            raise LabelProblem(f"the parallel label {label} in some results only")
    if not inside:
        raise LabelProblem("no operand with labels")
    return Labels(" ".join(text.split()), operands, results, frozenset(bound), frozenset(summed))


def _group(text: str, bound: set[str], summed: set[str], number: Iterator[int]) -> Group:
    dims: list[tuple[str, ...]] = []
    seen: set[str] = set()
    composite: list[str] | None = None
    tokens: list[str] = _TOKEN.findall(text)
    k = 0
    while k < len(tokens):
        token = tokens[k]
        k += 1
        if token == "(" and composite is None:
            composite = []
            continue
        if token == ")" and composite is not None:
            dims.append(tuple(composite))
            composite = None
            continue
        label = token
        if token in ("[", "+"):
            label = tokens[k] if k < len(tokens) else ""
            k += 1
            if token == "[":
                if k >= len(tokens) or tokens[k] != "]":
                    raise LabelProblem(f"'[' without one label and ']' in {text.strip()!r}")
                k += 1
            (bound if token == "[" else summed).add(label)
        plain = label.isidentifier() or (label.isdigit() and label.isascii())
        if label in seen or not (plain or (label == token == _ELLIPSIS and composite is None)):
            what = "twice" if label in seen else "where a label is needed"
            raise LabelProblem(f"{label or 'nothing'!r} {what} in {text.strip()!r}")
        if label.isdigit():
            label = f"{label}#{next(number)}"  # every size is a dimension of its own
        seen.add(label)
        if composite is None:
            dims.append((label,))
        else:
            composite.append(label)
    if composite is not None:
        raise LabelProblem(f"'(' without ')' in {text.strip()!r}")
    return tuple(dims)


# ---------------------------------------------------------------------------------------------- application
def apply_opaque(
    b: Builder,
    name: str,
    labels: Labels,
    operands: Sequence[Tensor | None],
    attributes: tuple[str, ...],
    sizes: Mapping[str, int],
    dtypes: Sequence[DType | None],
) -> tuple[Tensor, ...]:
    """The results of the opaque function ``name``: one and the same function for equal names, labels, ``attributes``,
    kinds of elements and sizes of bound dimensions. ``sizes``: integer attributes, which settle labels of their name;
    a result without a dtype has that of the first operand. Raises :class:`ShapeProblem` for operands that do not fit.

    In the algebra it is a function of rows: parallel and summed labels in front, the bound ones flattened behind."""
    if len(operands) != len(labels.operands):
        raise ShapeProblem(f"{len(operands)} tensors for the {len(labels.operands)} operands of {labels.text!r}")
    pairs = zip(operands, labels.operands, strict=True)
    live = [(x, group) for x, group in pairs if x is not None and group is not None]
    if not live or any(x.dtype.is_complex for x, _ in live):
        raise ShapeProblem("complex operands of an opaque operator" if live else "no operand whose value is read")
    extra = _extra(live)
    groups = [_spread(group, extra) for _, group in live]
    found = _sizes([x for x, _ in live], groups, sizes)
    first = [label for dim in _spread(labels.results[0], extra) for label in dim]
    outer = [*(label for label in first if label not in labels.bound), *sorted(labels.summed)]
    lead = tuple(found[label] for label in outer)
    rows: list[Tensor] = []
    seen: list[tuple[str, Shape]] = []
    for (x, _), group in zip(live, groups, strict=True):
        own = [label for dim in group for label in dim]
        bound = [label for label in own if label in labels.bound]
        inner = tuple(found[label] for label in bound)
        order = [own.index(label) for label in (*(label for label in outer if label in own), *bound)]
        y = b.permute(b.reshape(x, tuple(found[label] for label in own)), order)
        y = b.reshape(y, (*(found[label] if label in own else 1 for label in outer), prod(inner)))
        rows.append(b.expand(y, (*lead, prod(inner))))
        seen.append((x.dtype.kind.name, inner))
    missing = tuple(k for k, x in enumerate(operands) if x is None)
    identity = (labels.text, *attributes, repr((seen, missing)))
    shapes = [_spread(group, extra) for group in labels.results]
    lengths = [prod(_size(label, found) for dim in group for label in dim if label in labels.bound) for group in shapes]
    values = b.interpretation.rows(f"opaque {name}", [x.value for x in rows], identity, lengths)
    out: list[Tensor] = []
    for value, length, group, dtype in zip(values, lengths, shapes, dtypes, strict=True):
        y = Tensor((*lead, length), DType.FLOAT64, value)
        if labels.summed:
            y = b.sum(y, range(len(lead) - len(labels.summed), len(lead)))
        own = [label for dim in group for label in dim]
        layout = [*outer[: len(outer) - len(labels.summed)], *(label for label in own if label in labels.bound)]
        y = b.reshape(y, tuple(_size(label, found) for label in layout))
        y = b.permute(y, [layout.index(label) for label in own])
        y = b.reshape(y, tuple(prod(_size(label, found) for label in dim) for dim in group))
        out.append(_of_type(b, y, dtype or live[0][0].dtype, bool(labels.summed)))
    return tuple(out)


def _of_type(b: Builder, x: Tensor, dtype: DType, summed: bool) -> Tensor:
    """The real numbers that a function of rows gives, as elements of that type: nothing else is known of them."""
    if dtype.is_float:
        return b.cast(x, dtype)
    if summed or dtype.is_complex:
        raise ShapeProblem(f"a result of type {dtype} of an opaque operator with {'a sum' if summed else 'labels'}")
    return b.less(0, x) if dtype.kind is Kind.BOOL else b.cast(b.function("floor", x), dtype)


def _extra(live: Sequence[tuple[Tensor, Group]]) -> int:
    """The number of dimensions that ``...`` stands for: the same in all operands."""
    found: set[int] = set()
    for x, group in live:
        extra = x.rank - len(group)
        if (_ELLIPSIS,) in group and extra >= -1:
            found.add(extra + 1)
        elif extra:
            raise ShapeProblem(f"{x.type} for {len(group)} labelled dimensions")
    if len(found) > 1:
        raise ShapeProblem(f"'...' for {' and for '.join(map(str, sorted(found)))} dimensions")
    return next(iter(found), 0)


def _spread(group: Group, extra: int) -> Group:
    """``...`` replaced by as many labels."""
    dots = tuple((f"{_ELLIPSIS}{k}",) for k in range(extra))
    return tuple(item for dim in group for item in (dots if dim == (_ELLIPSIS,) else (dim,)))


def _size(label: str, found: Mapping[str, int]) -> int:
    if "#" in label:
        return int(label.partition("#")[0])
    if label not in found:
        raise ShapeProblem(f"label {label}, whose size neither an operand nor an integer attribute settles")
    return found[label]


def _sizes(xs: Sequence[Tensor], groups: Sequence[Group], given: Mapping[str, int]) -> dict[str, int]:
    """The size of every label; a dimension of several labels settles one of them that no other dimension settles."""
    found = {label: _size(label, {}) for group in groups for dim in group for label in dim if "#" in label}
    found |= {name: size for name, size in given.items() if size >= 0}
    pending = [
        (size, dim, x) for x, group in zip(xs, groups, strict=True) for size, dim in zip(x.shape, group, strict=True)
    ]
    while pending:
        later: list[tuple[int, tuple[str, ...], Tensor]] = []
        for size, dim, x in pending:
            unknown = [label for label in dim if label not in found]
            if len(unknown) > 1:
                later.append((size, dim, x))
                continue
            known = prod(found[label] for label in dim if label in found)
            if unknown and known and size % known == 0:
                found[unknown[0]] = size // known
            elif unknown or known != size:
                raise ShapeProblem(f"a dimension ({' '.join(dim)}) of size {size} in {x.type}, with {_shown(found)}")
        if len(later) == len(pending):
            raise ShapeProblem(f"labels ({' '.join(later[0][1])}) of one dimension whose sizes nothing settles")
        pending = later
    return found


def _shown(found: Mapping[str, int]) -> str:
    return ", ".join(f"{label} = {size}" for label, size in found.items() if "#" not in label) or "no size settled yet"
