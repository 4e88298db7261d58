"""A model's training iteration as a plan: every part captured once, at its real sizes, on tensors without data.

Ranks are numbered over (pp, dp, ep, cp, tp), row-major. What a rank runs depends on its coordinates only where the
vocabulary is cut, where positions begin, and where experts are not sent their tokens: one program stands for all ranks
elsewhere.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import tomli_w
import torch
import torch.distributed as dist

from tantamount.capture.fields import nearest
from tantamount.capture.interpolated import POINTS, with_symbols
from tantamount.capture.programs import Program, write_document
from tantamount.capture.readers import read_graph
from tantamount.capture.torch.llama.balance import Balance, fractions_of
from tantamount.capture.torch.llama.beside import beside, layouts_beside
from tantamount.capture.torch.llama.experts import ExpertShape
from tantamount.capture.torch.llama.fit import check
from tantamount.capture.torch.llama.layouts import between_step, in_parts, moves, read_beside, read_layouts, refined
from tantamount.capture.torch.llama.model import Shape
from tantamount.capture.torch.llama.presets import EXPERTS, PRESETS
from tantamount.capture.torch.llama.ranks import Ranks
from tantamount.capture.torch.llama.spread import (
    FROZEN,
    Degrees,
    Weight,
    empty,
    layers_of,
    pieces_of,
    said,
    tensors,
    weights_of,
)
from tantamount.capture.torch.llama.stages import between, copies_of, groups_of, layouts_of, listed, stages_of
from tantamount.capture.torch.llama.steps import (
    Step,
    embedding_step,
    head_step,
    layer_step,
    norm_step,
    reduce_step,
    tied_step,
    update_step,
)
from tantamount.capture.torch.programs import capture, capture_rank
from tantamount.errors import InternalError, UserError
from tantamount.ir.mesh import Mesh
from tantamount.writing import make_folder, write_file

__all__ = ["Degrees", "NewPart", "new_plan", "others_of", "parts_of", "write_part", "write_plan"]

TIED = {"embedding": "table", "head": "output"}  # the parameters of pieces that are one
ROWS = ("rows", "batch")  # the size symbols of programs that are for any number of rows
Weights = Mapping[str, Weight]


def new_plan(model: str, sizes: Mapping[str, int], degrees: Mapping[str, Any], folder: Path) -> Path:
    """The plan of a preset, or of ``llama`` with all its sizes, written to a folder; the path of the plan. ``sizes``
    are fields of :class:`Shape`, ``degrees`` of :class:`Degrees` (``batch`` 0: the least that fits). Raises
    :class:`UserError` for what does not fit."""
    preset = PRESETS.get(model)
    texts = {key: read(degrees.get(key, ())) for key, read in (("layouts", read_layouts), ("beside", read_beside))}
    known = Degrees(**{**degrees, **texts})
    sent = known.capacity > 0 or any(own.ep > 1 for own in known.pipelines)
    known = replace(known, dispatch=known.dispatch or sent, batch=known.batch or known.least)
    if known.optimizer not in ("adamw", "sgd"):
        raise UserError(
            "plan-model", place="plan new --optimizer", found=known.optimizer, needed="adamw or sgd",
            hint="leave it out for adamw",
        )  # fmt: skip
    if model in EXPERTS:
        return write_plan(folder, model, _with_sizes(EXPERTS[model], model, sizes), known)
    wanted = [field.name for field in fields(Shape) if field.name != "theta"]
    if preset is None and model != "llama":
        names = ("llama", *PRESETS, *EXPERTS)
        raise UserError(
            "plan-model", place="plan new MODEL", found=model, needed=f"one of {', '.join(names)}",
            hint=nearest(model, names),
        )  # fmt: skip
    missing = [name for name in wanted if name not in sizes]
    if preset is None and missing:
        raise UserError(
            "plan-model", place="plan new llama", found=f"no {_options(missing)}", needed="all sizes of the model",
            hint=f"give them, or take a model that has sizes: {', '.join(PRESETS)}",
        )  # fmt: skip
    shape = Shape(**sizes) if preset is None else replace(preset, **sizes)
    return write_plan(folder, model, shape, known)


def _with_sizes(shape: ExpertShape, model: str, sizes: Mapping[str, int]) -> ExpertShape:
    known = {"layers", "hidden", "heads", "vocab", *(("ffn",) if shape.dense else ())}
    known |= {"kv_heads"} if shape.latent is None else set()
    unknown = [name for name in sizes if name not in known]
    if unknown:
        raise UserError(
            "plan-model", place=f"plan new {model}", found=_options(unknown), needed=f"of {_options(sorted(known))}",
            hint="leave out what the model does not have: latent attention has keys for every head, and only dense "
            "layers have a network of width --ffn",
        )  # fmt: skip
    return replace(shape, **sizes)


def _options(names: Sequence[str]) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)


def write_plan(folder: Path, name: str, shape: Shape | ExpertShape, degrees: Degrees) -> Path:
    """Capture the parts, and write the plan and its graphs to a folder (made if need be); the path of the plan.

    Raises :class:`UserError` for sizes that cannot be spread in this way."""
    parts = parts_of(shape, degrees)
    make_folder(folder)
    passes = [part.name for part in parts if "kind" not in part.table]
    others = others_of(shape, degrees, passes) if degrees.sized else {}
    written = {part.name: write_part(folder, part, others.get(part.name)) for part in parts}
    kinds = layers_of(shape)
    document = {
        "format": "plan/1",
        "name": name,
        "symbols": list(_symbols(degrees)),
        "mesh": {
            "axes": _beside(degrees, degrees).mesh,
            "pipeline": "pp",
            "groups": groups_of({**copies_of(degrees), **degrees.mesh}),
            **layouts_of(shape, degrees),
        },
        "data": {"microbatches": degrees.microbatches, **_symbols_of_rows(degrees)},
        "model": {
            "pieces": list(listed(shape, degrees)),
            "stages": list(stages_of(kinds, degrees.pp * degrees.chunks, between(shape, degrees))),
            **({"tied": {"word": TIED}} if degrees.tied else {}),
        },
        "schedule": {
            "name": degrees.schedule,
            **({"chunks": degrees.chunks} if degrees.chunks > 1 else {}),
            **({"pipelines": len(degrees.pipelines)} if degrees.beside else {}),
        },
        "finish": {
            "reduce": [part.name for part in parts if part.finish == "reduce"],
            "update": [part.name for part in parts if part.finish == "update"],
        },
        **_approximate(folder, degrees, written),
        "part": written,
    }
    write_file(folder / "plan.toml", tomli_w.dumps(document))
    return folder / "plan.toml"


def _approximate(folder: Path, degrees: Degrees, written: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The declared approximation: fractions of the tokens that a rank has in one microbatch, where those of the batch
    are meant."""
    if not degrees.aux_loss or degrees.aux_over != "batch":
        return {}
    programs = written["moe"]["impl"]
    files = [programs] if isinstance(programs, str) else [name for names in programs.values() for name in names]
    found = {fractions_of(read_graph(folder / name)) for name in files}
    if len(found) != 1:
        raise InternalError("ranks whose programs have different names for one mean")
    at = degrees.of("moe")
    known = (*at.over, *(("tp",) if at.sp else ()))
    sizes = {"microbatch": at.microbatches, **{axis: size for axis, size in at.mesh.items() if axis in known}}
    over = [axis for axis, size in sizes.items() if size > 1]
    own = {"kind": "local-statistic", "part": "moe", "nodes": list(found.pop()), "over": over}
    return {"approximate": {"balance": own}} if over else {}


def parts_of(shape: Shape | ExpertShape, degrees: Degrees) -> list[NewPart]:
    """The parts of a plan, to be captured. Raises :class:`UserError` for sizes that cannot be spread in this way."""
    check(shape, degrees)
    at = degrees.of("moe")
    if isinstance(shape, ExpertShape) and at.dispatch:
        group = at.seq // at.parts
        shape = replace(shape, group=group, capacity=degrees.capacity or group)
    if isinstance(shape, ExpertShape) and degrees.aux_loss:
        shape = replace(shape, balance=Balance(degrees.aux_loss, degrees.batch * degrees.seq, degrees.aux_over))
    if not degrees.beside:
        return list(_Parts(shape, degrees).all())
    each = [_Parts(shape, _beside(degrees, own)) for own in degrees.pipelines]
    parts = [list(one.all()) for one in each]
    return list(beside(parts, [one.pieces for one in each], layouts_beside(degrees)))


def _beside(degrees: Degrees, own: Degrees) -> Degrees:
    """The degrees of one pipeline on the mesh of all that are beside each other."""
    return replace(own, pp=own.pp * len(degrees.pipelines), beside=())


def _symbols_of_rows(degrees: Degrees) -> dict[str, Any]:
    if not degrees.sized:
        return {}
    last = {"last": degrees.last} if degrees.last < degrees.rows else {}
    return {"rows": ROWS[0], "batch": ROWS[1], **last}


def others_of(shape: Shape | ExpertShape, degrees: Degrees, names: Sequence[str]) -> dict[str, dict[int, NewPart]]:
    """Some parts of the plan with other numbers of rows in a microbatch, by name and that number."""
    unit = degrees.dp * degrees.ep * degrees.microbatches
    found: dict[str, dict[int, NewPart]] = {name: {} for name in names}
    for rows in sorted({k for point in POINTS for k in point}):
        for part in parts_of(shape, replace(degrees, batch=rows * unit)):
            if part.name in found:
                found[part.name][rows] = part
    return found


def _symbols(degrees: Degrees) -> tuple[str, ...]:
    """The numbers that the optimizer's step is given."""
    return ("lr", "correction1", "correction2") if degrees.optimizer == "adamw" else ("lr",)


# ---------------------------------------------------------------------------------------------- parts
@dataclass(frozen=True)
class NewPart:
    """A part to be captured. ``whole`` and ``local`` are the arguments (by name) on one device and on a rank;
    ``build(ranks)`` is the step of a rank, or of one device; ``mesh`` are the axes that it knows, ``varies`` those
    along which ranks run different programs. ``finish``: where it runs after the microbatches."""

    name: str
    build: Callable[[Ranks], Step]
    whole: Mapping[str, torch.Tensor]
    local: Mapping[str, torch.Tensor]
    mesh: Mapping[str, int]
    table: Mapping[str, Any]
    degrees: Degrees
    varies: tuple[str, ...] = ()
    finish: str = ""


def write_part(folder: Path, part: NewPart, others: Mapping[int, NewPart] | None = None) -> dict[str, Any]:
    """Capture a part and write its graphs to a folder; its table, which names them. ``others``: the same with so many
    rows in a microbatch, from which the graphs get size symbols."""
    degrees = part.degrees
    unit = degrees.dp * degrees.ep * degrees.microbatches

    def write(name: str, captured: Callable[[NewPart], Program], rows: int) -> str:
        """The graph of a program that has ``rows`` times the rows of a microbatch of a rank."""
        if others is None:
            document = captured(part).document
        else:
            found = {
                (k * rows, j * unit): captured(
                    replace(others[j], whole=others[k].whole, local=others[k].local)
                ).document
                for k, j in POINTS
            }
            hints = (degrees.batch if rows == unit else degrees.rows, degrees.batch)
            document = with_symbols(found, ROWS, hints, part.name)
        write_document(folder / name, document)
        return name

    spec = {}
    if part.table.get("kind") != "copy":  # which has that of the part in whose place it runs
        name = f"{part.name}.spec.json.gz"
        spec = {"spec": write(name, lambda one: capture(one.build(Ranks()), (), one.whole), unit)}
    axes = [axis for axis in part.mesh if axis in part.varies and part.mesh[axis] > 1]
    names: list[str] = []
    for at in product(*(range(part.mesh[axis]) for axis in axes)):
        where = "".join(f".{axis}{k}" for axis, k in zip(axes, at, strict=True))
        there = dict(zip(axes, at, strict=True))
        names.append(write(f"{part.name}{where}.json.gz", lambda one, there=there: _captured(one, there), 1))
    impl = {"+".join(axes): names} if axes else names[0]
    return {**spec, "impl": impl, **part.table}


def _captured(part: NewPart, at: Mapping[str, int]) -> Program:
    """The program of the rank at some coordinates, 0 along axes that are not named."""
    long = [axis for axis, size in part.mesh.items() if size > 1]
    spans = [some for count in range(1, len(long) + 1) for some in combinations(long, count)]
    mesh = Mesh(dict(part.mesh), {"+".join(axes): axes for axes in spans})
    degrees = part.degrees

    def build(rank: int) -> Any:
        groups = {axes: dist.new_group(list(mesh.members("+".join(axes), rank))) for axes in spans}
        coordinates = dict(zip(mesh.names, mesh.coordinates(rank), strict=True))
        ranks = Ranks(part.mesh, coordinates, groups, degrees.sp and degrees.tp > 1, degrees.context, degrees.zigzag)
        return part.build(ranks), (), {"kwargs": part.local}

    return capture_rank(build, mesh.rank(tuple(at.get(axis, 0) for axis in mesh.names)), part.mesh)


class _Parts:
    """The parts of a model's iteration."""

    def __init__(self, shape: Shape | ExpertShape, degrees: Degrees) -> None:
        self.shape, self.degrees = shape, degrees
        self.at = {name: degrees.of(name) for name in (*pieces_of(shape), "word")}
        self.pieces = {name: weights_of(shapes, self.at[name]) for name, shapes in pieces_of(shape).items()}
        self.copies = copies_of(degrees)
        tied = set(TIED.items()) if degrees.tied else set[tuple[str, str]]()
        self.own = {  # what a piece reduces and updates by itself
            piece: {name: w for name, w in weights.items() if name not in FROZEN and (piece, name) not in tied}
            for piece, weights in self.pieces.items()
        }
        trained = {w.squares for weights in self.pieces.values() for w in weights.values() if w.name not in FROZEN}
        self.squares = {"_".join(("squares", *axes)): axes for axes in sorted(trained)}
        if degrees.layouts:  # whose axes the norm does not know: ranks of a stage add up before it
            self.squares = {"squares": ()}

    def all(self) -> Iterator[NewPart]:
        """Passes, reductions, the norm, updates."""
        yield from self._passes()
        trained = [name for name, own in self.own.items() if own]
        yield from map(self._reduce, trained)
        if self.degrees.tied:
            yield self._tied_reduce()
        yield self._norm()
        yield from (self._update(name, self.own[name]) for name in trained)
        if self.degrees.tied:
            word = replace(self.pieces["embedding"]["table"], name="word")
            yield replace(
                self._update("word", {"word": word}), mesh=self._tied_mesh(),
                finish="update",
            )  # fmt: skip

    # ------------------------------------------------------------------------------------------ passes
    def _rows(self, kind: str, *, cut: bool) -> dict[str, str]:
        """The placement of rows of tokens; ``cut``: between linear layers, where sequence parallelism cuts them."""
        at = self.at[kind]
        found = {"microbatch": "Shard(0)", **{axis: "Shard(0)" for axis in ("dp", "ep") if axis in at.inner}}
        found |= {"cp": f"Shard(1{self._order()})"} if at.cp > 1 else {}
        return {**found, **({"tp": "Shard(1)"} if cut and at.sp else {})}

    def _added(self, kind: str) -> dict[str, str]:
        """The placement of what layers add to the loss."""
        at = self.at[kind]
        over = (*at.over, *(("tp",) if at.sp else ()))
        return dict.fromkeys(("microbatch", *over), 'Partial("sum")')

    def _order(self) -> str:
        """The order in which ranks of cp have chunks of the sequence, if it is not that of the sequence."""
        order = Ranks({"cp": self.degrees.cp}, zigzag=True).order
        return f", {list(order)}" if self.degrees.zigzag else ""

    def _passes(self) -> Iterator[NewPart]:
        degrees, shape = self.degrees, self.shape
        cut = {
            name: {w: found.shard for w, found in weights.items() if found.early and found.shard is not None}
            for name, weights in self.pieces.items()
        }
        none: dict[str, dict[str, int]] = {name: {} for name in cut}
        early, shards = (none, cut) if degrees.zero == 3 else (cut, none)  # what is gathered gives back a rank's part

        def both(ranks: Ranks, name: str) -> tuple[Ranks, Mapping[str, int], Mapping[str, int]]:
            return ranks, early[name], shards[name]

        balance = degrees.aux_loss > 0
        before = {"before": {"hidden": ["x", "d_x"], **({"loss": ["before", "d_before"]} if balance else {})}}
        after = {"after": {"hidden": ["y", "d_y"], **({"loss": ["extra", "d_extra"]} if balance else {})}}
        taken, back = (("before",), ("d_extra",)) if balance else ((), ())
        yield self._pass(
            "embedding", lambda ranks: embedding_step(*both(ranks, "embedding")), ("tokens", "d_y", *back), "y",
            {"data": ["tokens"], **after}, ("tp",),
        )  # fmt: skip
        for kind, (other, name) in between(shape, degrees).items():
            yield self._move(kind, other, name, before, after)
        for kind, _ in layers_of(shape):
            varies = ("cp", *(("tp",) if kind == "moe" and not self.at[kind].dispatch else ()))
            yield self._pass(
                kind,
                lambda ranks, kind=kind: layer_step(shape, *both(ranks, kind), degrees.recompute and ranks.sizes != {}),
                ("x", *taken, "d_y", *back), "y", {**before, **after}, varies,
            )  # fmt: skip
        tokens = degrees.batch * degrees.seq
        yield self._pass(
            "head", lambda ranks: head_step(tokens, *both(ranks, "head")), ("x", *taken, "labels"), "loss",
            {"data": ["labels"], "results": ["loss"], **before}, ("tp",),
        )  # fmt: skip

    def _called(self, name: str) -> str:
        """The beginning of the names of a piece's parameters: its own, or of a layer the number in the whole model."""
        first = 0
        for kind, count in layers_of(self.shape):
            if kind == name:
                return f"layers.{{i+{first}}}" if first else "layers.{i}"
            first += count
        return name

    def _pass(
        self, name: str, build: Callable[[Ranks], Step], names: Sequence[str], made: str, more: dict[str, Any],
        varies: tuple[str, ...],
    ) -> NewPart:  # fmt: skip
        degrees, weights = self.at[name], self.pieces[name]
        hidden, plain = self._rows(name, cut=True), self._rows(name, cut=False)
        numbers = {"tokens", "labels"}
        scalars = {"before", "d_extra"}
        trained = {w: found for w, found in weights.items() if w not in FROZEN}
        summed = {"microbatch": 'Partial("sum")'}
        result = {**summed, **dict.fromkeys(degrees.over, 'Partial("sum")')}
        parts = self._added(name)
        placed = {"tokens": plain, "labels": plain, "before": parts, "d_extra": "Replicate()"}
        table = {
            "parameters": {w: f"d_{w}" for w in trained},
            "names": {w: f"{self._called(name)}.{w}" for w in weights},
            **({"frozen": frozen} if (frozen := [w for w in weights if w in FROZEN]) else {}),
            "inputs": {
                **{n: placed.get(n, hidden) for n in names},
                **{w: said(found.parameter) for w, found in weights.items()},
            },
            "outputs": {
                **({"d_x": hidden} if "x" in names else {}),
                made: result if made == "loss" else hidden,
                **({"d_before": "Replicate()"} if "before" in names else {}),
                **({"extra": parts} if "d_extra" in names else {}),
                **{f"d_{w}": {**summed, **found.gradient} for w, found in trained.items()},
            },
            **more,
            **self._layout(name),
        }

        def given(rows: int, seq: int, inner: int) -> dict[str, torch.Tensor]:
            rest = {n: empty(rows, inner, self.shape.hidden) for n in names if n not in numbers}
            found = {n: empty(rows, seq, dtype=torch.int64) for n in names if n in numbers}
            scalar = {n: empty() for n in names if n in scalars}
            return {n: {**rest, **found, **scalar}[n] for n in names}

        whole = {**given(degrees.batch, degrees.seq, degrees.seq), **tensors(weights, "whole")}
        local = given(degrees.rows, degrees.seq // degrees.cp, degrees.seq // degrees.parts)
        return NewPart(
            name, build, whole, {**local, **tensors(weights, "parameter")}, degrees.inner, table, degrees, varies
        )

    def _layout(self, kind: str) -> dict[str, str]:
        return {"layout": kind} if kind in self.degrees.layouts else {}

    def _move(self, kind: str, other: str, name: str, before: dict[str, Any], after: dict[str, Any]) -> NewPart:
        """The exchange between pieces of two layouts, on their refinement."""
        degrees = self.degrees
        ends = self.at[kind], self.at[other]
        fine = refined(ends[0].inner, ends[1].inner) or {}
        forms: list[dict[str, str]] = []
        added: list[dict[str, str]] = []
        for one, at in zip((kind, other), ends, strict=True):
            spanned = in_parts(at.inner, fine)
            for said_, found in ((self._rows(one, cut=True), forms), (self._added(one), added)):
                found.append({a: placed for axis, placed in said_.items() for a in spanned.get(axis, (axis,))})
        cuts = [[(axis, int(form[axis][6:-1].split(",")[0])) for axis in fine if axis in form] for form in forms]
        sums = [tuple(axis for axis in fine if axis in form) for form in added]
        there, back = moves(cuts[0], cuts[1], sums[0], sums[1]), moves(cuts[1], cuts[0])
        balance = "loss" in before["before"]
        table = {
            "layout": name,
            "inputs": {"x": forms[0], "d_y": forms[1]},
            "outputs": {"y": forms[1], "d_x": forms[0]},
            **before,
            **after,
        }
        if balance:
            table["inputs"] |= {"before": added[0], "d_extra": "Replicate()"}
            table["outputs"] |= {"extra": added[1], "d_before": "Replicate()"}
        hidden = self.shape.hidden
        scalars = {"before": empty(), "d_extra": empty()} if balance else {}
        whole = {n: empty(degrees.batch, degrees.seq, hidden) for n in ("x", "d_y")}
        local = {
            n: empty(at.rows, at.seq // at.parts, hidden) for n, at in zip(("x", "d_y"), ends, strict=True)
        }  # fmt: skip
        varies = tuple(axis for axis in fine if axis in dict((*there.cut, *back.cut)))
        return NewPart(
            name, lambda ranks: between_step(there, back, ranks), {**whole, **scalars}, {**local, **scalars}, fine,
            table, degrees, varies,
        )  # fmt: skip

    # ------------------------------------------------------------------------------------------ afterwards
    def _sums(self, weights: Weights) -> dict[str, dict[tuple[str, ...], list[str]]]:
        """The weights of every sum of squares, by the axes over which they are added up before the norm."""
        by_axes: dict[tuple[str, ...], list[str]] = {}
        for w, found in weights.items():
            by_axes.setdefault(found.squares, []).append(w)
        if self.degrees.layouts:
            return dict.fromkeys(self.squares, by_axes)
        return {key: {(): by_axes.get(axes, [])} for key, axes in self.squares.items()}

    def _shards(self, weights: Weights) -> dict[str, int]:
        return {w: found.shard for w, found in weights.items() if found.kept and found.shard is not None}

    def _reduce(self, piece: str) -> NewPart:
        own = self.own[piece]
        summed = dict.fromkeys(self.copies, 'Partial("sum")')
        squares = {key: said({**summed, **dict.fromkeys(axes, 'Partial("sum")')}) for key, axes in self.squares.items()}
        table = {
            "kind": "piece",
            "of": piece,
            "inputs": {f"d_{w}": said({**summed, **found.gradient}) for w, found in own.items()},
            "outputs": {**{f"g_{w}": said(found.state) for w, found in own.items()}, **squares},
        }
        sums = {w: (*self.copies, *found.sums) for w, found in own.items()}
        early, shards = self.degrees.zero >= 2, self._shards(own)
        return NewPart(
            f"{piece}_reduce", lambda ranks: reduce_step(sums, self._sums(own), early, shards, ranks),
            tensors(own, "whole", "d_"), tensors(own, "gradient", "d_"), {**self.copies, **self.at[piece].inner}, table,
            self.at[piece], tuple(self.copies), "reduce",
        )  # fmt: skip

    def _tied_mesh(self) -> dict[str, int]:
        """The ranks of the stages that have a copy."""
        return {"tied": min(2, self.degrees.pp), **self.degrees.inner}

    def _tied_reduce(self) -> NewPart:
        table_ = self.pieces["embedding"]["table"]
        word = {"word": table_}
        counted = {key: {"tied": 'Partial("sum")', **dict.fromkeys(axes, 'Partial("sum")')}
                   for key, axes in self.squares.items()}  # fmt: skip
        table = {
            "kind": "tied",
            "of": "word",
            "sums": {"grad": {piece: f"d_{name}" for piece, name in TIED.items()}},
            "inputs": {"grad": {"tied": 'Partial("sum")', **table_.gradient}},
            "outputs": {"g_word": said(table_.state), **counted},
        }
        here = {key: table_.squares == axes for key, axes in self.squares.items()}
        early, shards = self.degrees.zero >= 2, self._shards(word)

        def build(ranks: Ranks) -> Step:
            return tied_step("word", table_.sums, here, early, shards, ranks)

        return NewPart(
            "word_reduce", build, {"grad": empty(*table_.sizes)}, {"grad": empty(*table_.local(table_.gradient))},
            self._tied_mesh(), table, self.degrees, ("tied",), "update",
        )  # fmt: skip

    def _norm(self) -> NewPart:
        scalars = {key: empty() for key in self.squares}
        table = {
            "kind": "once",
            "sums": {key: key for key in scalars},
            "inputs": {
                key: {"pp": 'Partial("sum")', **dict.fromkeys(axes, 'Partial("sum")')}
                for key, axes in self.squares.items()
            },
            "outputs": {"factor": "Replicate()"},
        }
        return NewPart(
            "norm", lambda ranks: norm_step(self.degrees.clip, self.squares, ranks), scalars, scalars,
            self.degrees.mesh, table, self.degrees, finish="update",
        )  # fmt: skip

    def _update(self, piece: str, weights: Weights) -> NewPart:
        degrees = self.at[piece]
        masters = self._shards(weights) if degrees.zero in (1, 2) else {}
        moments = [f"{kind}_{w}" for kind in ("m", "v") for w in weights] if degrees.optimizer == "adamw" else []
        state = [*(f"master_{w}" for w in masters), *moments]
        kept = {name: name for name in (*weights, *state)}
        kinds = dict.fromkeys(state, "state")

        def arguments(of: str) -> dict[str, torch.Tensor]:
            found = {name: empty() for name in ("factor", *_symbols(degrees))}
            plain = {w: found for w, found in weights.items() if w not in masters}
            found |= tensors(plain, of or "parameter") | tensors(weights, of or "state", "g_")
            for prefix in dict.fromkeys(name.split("_")[0] for name in state):
                found |= tensors(weights, of or "state", f"{prefix}_")
            return found

        def placed(name: str) -> Any:
            w = name.split("_")[-1]
            if w not in weights:
                return "Replicate()"
            return said(weights[w].parameter if name == w and name not in kinds else weights[w].state)

        table = {
            "kind": "tied" if piece == "word" else "piece",
            "of": piece,
            "state": state,
            "updates": {f"new_{name}": name for name in kept},
            "inputs": {name: placed(name) for name in arguments("")},
            "outputs": {f"new_{name}": placed(name) for name in kept},
        }
        return NewPart(
            f"{piece}_update", lambda ranks: update_step(tuple(weights), degrees.optimizer, masters, ranks),
            arguments("whole"), arguments(""), {**self.copies, **degrees.inner}, table, degrees, finish="update",
        )  # fmt: skip
