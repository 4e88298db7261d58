"""Refusals of models that cannot be spread as asked: each names the option, and says what was found, what is needed
and what to do.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import prod
from typing import NamedTuple

from tantamount.capture.torch.llama.balance import OVER
from tantamount.capture.torch.llama.experts import ExpertShape
from tantamount.capture.torch.llama.layouts import refined
from tantamount.capture.torch.llama.model import Shape
from tantamount.capture.torch.llama.spread import CONTEXTS, LAYOUTS, Degrees, layers_of, pieces_of
from tantamount.errors import UserError

__all__ = ["check"]


class _Refusal(NamedTuple):
    """One thing that does not fit: the ``option`` that asks for it, what was ``found`` and is ``needed``, and what to
    ``do``."""

    option: str
    found: str
    needed: str
    do: str


def check(shape: Shape | ExpertShape, degrees: Degrees) -> None:
    """Raise :class:`UserError` for sizes that cannot be spread in this way."""
    _refuse("", (*_of_choices(degrees), *_of_layouts(shape, degrees), *_of_pipelines(degrees)))
    for other in degrees.pipelines[1:]:
        check(shape, other)
    for kind in (*dict(layers_of(shape)), "embedding", "head"):
        of = f"--layout {kind}, " if kind in degrees.layouts else ""
        _refuse(of, (*_of_pieces(shape, degrees.of(kind), kind), *_of_rows(degrees.of(kind))))
    _refuse("", _of_stages(shape, degrees))


def _refuse(of: str, refusals: Iterable[_Refusal]) -> None:
    for option, found, needed, do in refusals:
        raise UserError("plan-sizes", place=f"plan new {of}{option}", found=found, needed=needed, hint=do)


def _of_choices(degrees: Degrees) -> Iterator[_Refusal]:
    """Options whose values are none that there are."""
    if degrees.zero not in range(4):
        yield _Refusal("--zero", f"{degrees.zero}", "0, 1, 2 or 3", "leave it out, or take one of these")
    if degrees.context not in CONTEXTS:
        yield _Refusal("--context", degrees.context, f"one of {', '.join(CONTEXTS)}", "take one of these")
    if degrees.cp_layout not in LAYOUTS:
        yield _Refusal("--cp-layout", degrees.cp_layout, f"one of {', '.join(LAYOUTS)}", "take one of these")
    if degrees.aux_over not in OVER:
        yield _Refusal("--aux-over", degrees.aux_over, f"one of {', '.join(OVER)}", "take one of these")
    if degrees.aux_loss < 0:
        yield _Refusal("--aux-loss", f"{degrees.aux_loss:g}", "a coefficient above 0", "leave it out for no such loss")
    if degrees.sized and degrees.aux_over == "batch":
        do = "take --aux-over row, or leave --sized out"
        yield _Refusal("--aux-over", "batch, with --sized", "fractions that depend on one row alone", do)


def _of_layouts(shape: Shape | ExpertShape, degrees: Degrees) -> Iterator[_Refusal]:
    """Layouts of pieces that there are not, of other ranks than a stage has, or of no common refinement."""
    kinds = [*pieces_of(shape)]
    ranks = prod(degrees.inner.values())
    for kind in degrees.layouts:
        if kind not in kinds:
            yield _Refusal("--layout", kind, f"a kind of pieces: {', '.join(kinds)}", "name one of these")
        elif prod(degrees.of(kind).inner.values()) != ranks:
            found = f"{kind} on {_said(degrees.of(kind))}, {prod(degrees.of(kind).inner.values())} ranks"
            yield _Refusal(
                "--layout", found, f"the {ranks} ranks of a stage: {_said(degrees)}", "give all degrees that change"
            )
    for one, other in pairwise(kinds):
        if refined(degrees.of(one).inner, degrees.of(other).inner) is None:
            found = f"{one} on {_said(degrees.of(one))}, {other} on {_said(degrees.of(other))}"
            needed = "degrees of which one divides the other, axis after axis"
            yield _Refusal("--layout", found, needed, "choose powers of one number")
    apart = {"--tied": degrees.tied, "--sized": degrees.sized, "--cp-layout zigzag": degrees.zigzag}
    for option in [option for option, asked in apart.items() if asked and degrees.layouts]:
        yield _Refusal("--layout", f"--layout with {option}", "one of the two", f"leave {option} out, or --layout")


def _of_pipelines(degrees: Degrees) -> Iterator[_Refusal]:
    """Pipelines beside each other that have no equal parts of the microbatches, and what is not written for them."""
    many = 1 + len(degrees.beside)
    if many == 1:
        return
    if degrees.microbatches % many:
        found, do = f"{degrees.microbatches} microbatches for {many} pipelines", "change --microbatches"
        yield _Refusal("--beside", found, f"a multiple of {many}", do)
    for other in degrees.pipelines[1:]:
        if degrees.dispatch and other.parts != degrees.parts:
            found = f"{_said(other)}, where a row is cut into {other.parts} parts"
            needed = f"{degrees.parts} parts, as in the first pipeline: the tokens of a part have room together"
            yield _Refusal("--beside", found, needed, "give both the same --cp, and with --sp the same --tp")
    asked = {
        "--layout": degrees.layouts, "--tied": degrees.tied, "--sized": degrees.sized,
        "--schedule dualpipe": degrees.schedule == "dualpipe",
        "--aux-over batch": degrees.aux_loss > 0 and degrees.aux_over == "batch",
    }  # fmt: skip
    for option in [option for option, value in asked.items() if value]:
        yield _Refusal("--beside", f"--beside with {option}", "one of the two", f"leave {option} out, or --beside")


def _said(degrees: Degrees) -> str:
    return " x ".join(f"{axis} {size}" for axis, size in degrees.inner.items())


def _of_pieces(shape: Shape | ExpertShape, degrees: Degrees, kind: str) -> Iterator[_Refusal]:
    """Sizes of the pieces of a kind that cannot be cut, or that there are not."""
    heads, kv_heads, tp = shape.heads, shape.kv_heads or shape.heads, degrees.tp
    if kind in ("embedding", "head"):
        if shape.vocab % tp:
            do = f"choose a --tp that divides {shape.vocab}, or change --vocab"
            yield _Refusal("--tp", f"--tp {tp} for {shape.vocab} rows of the vocabulary", f"a multiple of {tp}", do)
        return
    if isinstance(shape, Shape):
        asked = (
            ("--ep", degrees.ep > 1, degrees.ep), ("--capacity", degrees.dispatch, degrees.capacity),
            ("--aux-loss", degrees.aux_loss, degrees.aux_loss),
        )  # fmt: skip
        for option in (f"{option} {value}" for option, wanted, value in asked if wanted):
            do = "leave it out, or take one of the models deepseek-v3-* and qwen3-moe-*"
            yield _Refusal(option.split()[0], f"{option} of a model without experts", "a model with experts", do)
        if shape.hidden % (2 * heads):
            found, needed = f"hidden size {shape.hidden} for {heads} heads", f"a multiple of {2 * heads}"
            yield _Refusal("--hidden", found, needed, "change --hidden or --heads")
    elif shape.layers <= shape.dense:
        found, needed = f"{shape.layers} layers", f"more than the {shape.dense} that have no experts"
        yield _Refusal("--layers", found, needed, "ask for more --layers")
    elif kind == "moe" and not degrees.dispatch and shape.experts % tp:
        do = "choose a --tp that divides their number, or --ep, to whose ranks tokens are sent"
        yield _Refusal("--tp", f"--tp {tp} for {shape.experts} experts", "experts that can be cut into equal parts", do)
    if heads % kv_heads:
        found, needed = f"{heads} heads for {kv_heads} heads of keys", f"a multiple of {kv_heads}"
        yield _Refusal("--heads", found, needed, "change --heads or --kv-heads")
    for option, size, what in (
        ("--kv-heads", kv_heads, "heads of keys"), ("--ffn", shape.ffn, "channels of the feed-forward network"),
    ):  # fmt: skip
        if size % tp:
            do = f"choose a --tp that divides {size}, or change {option}"
            yield _Refusal("--tp", f"--tp {tp} for {size} {what}", f"a multiple of {tp}", do)
    if degrees.zigzag and degrees.dispatch:
        found = "--cp-layout zigzag with tokens that are sent to experts"
        do = "take --cp-layout contiguous, or leave --ep and --capacity out"
        yield _Refusal("--cp-layout", found, "tokens of one part of the sequence, which have room together", do)
    if degrees.context == "ulysses" and kv_heads // tp % degrees.cp:
        found = f"--cp {degrees.cp} for {kv_heads // tp} heads of keys on a rank of tp"
        do = "choose a smaller --cp or --tp, or --context gather or ring"
        yield _Refusal("--context ulysses", found, f"a multiple of {degrees.cp}", do)


def _of_rows(degrees: Degrees) -> Iterator[_Refusal]:
    """Batches and sequences that ranks and microbatches have no equal parts of."""
    batch, many = degrees.batch, degrees.microbatches
    ranks = degrees.dp * degrees.ep
    over = f"dp {degrees.dp}" + (f" x ep {degrees.ep}" if degrees.ep > 1 else "")
    if not degrees.sized and batch % (ranks * many):
        needed = f"a multiple of {ranks * many}: {over} x {many} microbatches, of equal numbers of rows"
        do = f"choose --batch {_above(batch, ranks * many)}"
        if many > 1:
            do += f"; with --sized the last microbatch may have fewer rows, and a multiple of {ranks} will do"
        yield _Refusal("--batch", f"--batch {batch}", needed, do)
    if degrees.sized and batch % ranks:
        needed = f"a multiple of {ranks}: {over}, whose ranks have equal numbers of rows"
        do = f"choose --batch {_above(batch, ranks)}, or another --dp; only the last microbatch may have fewer rows"
        yield _Refusal("--batch", f"--batch {batch}, with --sized", needed, do)
    if degrees.sized and degrees.last <= 0:
        found = f"--batch {batch}: {degrees.rows} rows for each of {ranks} ranks in {many - 1} microbatches leave none"
        do = f"choose --batch {_above(batch, ranks * many)}, or fewer --microbatches"
        yield _Refusal("--batch", found, "at least one row for a rank in the last microbatch", do)
    if degrees.seq % degrees.parts:
        tp = degrees.parts // degrees.cp
        cuts = " and ".join([f"--cp {degrees.cp}"] * (degrees.cp > 1) + [f"--sp with --tp {tp}"] * (tp > 1))
        do = f"choose --seq {_above(degrees.seq, degrees.parts)}"
        yield _Refusal("--seq", f"--seq {degrees.seq}, cut by {cuts}", f"a multiple of {degrees.parts}", do)
    if degrees.zigzag and degrees.seq % (2 * degrees.cp):
        found, needed = f"--seq {degrees.seq}, in chunks of --cp {degrees.cp}", f"a multiple of {2 * degrees.cp}"
        yield _Refusal("--seq", found, needed, f"choose --seq {_above(degrees.seq, 2 * degrees.cp)}")


def _of_stages(shape: Shape | ExpertShape, degrees: Degrees) -> Iterator[_Refusal]:
    """Stages that would have no layer."""
    stages = degrees.pp * degrees.chunks
    if shape.layers < stages:
        asked = f"--pp {degrees.pp}" + (f" with --chunks {degrees.chunks}" if degrees.chunks > 1 else "")
        found = f"{asked} for {shape.layers} layers"
        do = f"choose a --pp of at most {max(1, shape.layers // degrees.chunks)}, fewer --chunks, or more --layers"
        yield _Refusal("--pp", found, f"a layer for each of {stages} stages", do)


def _above(size: int, unit: int) -> int:
    """The first multiple of ``unit`` that is not below ``size``."""
    return -(-size // unit) * unit
