"""A model's training iteration as a plan: every part captured once, at its real sizes, on tensors without data.

Ranks are numbered over (pp, dp, tp), row-major. What a rank runs depends on its coordinates only where the vocabulary
is cut, so that one program stands for all ranks elsewhere.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import tomli_w
import torch
import torch.distributed as dist

from tantamount.capture.programs import Program, write_document
from tantamount.capture.torch.llama.experts import ExpertShape
from tantamount.capture.torch.llama.model import Shape
from tantamount.capture.torch.llama.steps import (
    Step,
    embedding_step,
    expert_step,
    head_step,
    layer_step,
    norm_step,
    reduce_step,
    update_step,
)
from tantamount.capture.torch.programs import capture, capture_rank
from tantamount.errors import UserError
from tantamount.ir.mesh import Mesh
from tantamount.writing import make_folder, write_file

__all__ = ["PRESETS", "Degrees", "EXPERTS", "new_plan", "write_plan"]

PRESETS = {
    "llama3-8b": Shape(32, 4096, 32, 8, 14336, 128256),
    "llama3-70b": Shape(80, 8192, 64, 8, 28672, 128256),
    "llama3-405b": Shape(126, 16384, 128, 8, 53248, 128256),
}
EXPERTS = {
    "deepseek-v3-671b": ExpertShape(
        61, 7168, 128, 129280, 256, 8, 2048, latent=(1536, 512, 128, 64, 128), dense=3, ffn=18432, shared=1, groups=8,
        chosen_groups=4, scale=2.5,
    ),
    "deepseek-v3-236b": ExpertShape(
        60, 5120, 128, 102400, 160, 6, 1536, latent=(1536, 512, 128, 64, 128), dense=1, ffn=12288, shared=2, groups=8,
        chosen_groups=3, scale=16.0,
    ),
    "deepseek-v3-16b": ExpertShape(
        27, 2048, 16, 102400, 64, 6, 1408, latent=(1536, 512, 128, 64, 128), dense=1, ffn=10944, shared=2, groups=8,
        chosen_groups=4,
    ),
    "qwen3-moe-235b": ExpertShape(94, 4096, 64, 151936, 128, 8, 1536, kv_heads=4, head=128, theta=1e6),
    "qwen3-moe-30b": ExpertShape(48, 2048, 32, 151936, 128, 8, 768, kv_heads=4, head=128, theta=1e6),
}  # fmt: skip
# The dimension along which tensor parallelism cuts a parameter; what is not here, every rank has whole.
CUT = {"table": 0, "q": 0, "k": 0, "v": 0, "o": 1, "gate": 0, "up": 0, "down": 1, "output": 0}
CUT |= {"qb": 0, "kvb": 0, "egate": 0, "eup": 0, "edown": 0, "sgate": 0, "sup": 0, "sdown": 1}
FROZEN = ("bias",)  # without a gradient: what balances the experts changes it by other means

Sizes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Degrees:
    """How a model is spread, and on what it is trained: ``batch`` rows of ``seq`` tokens in one iteration."""

    dp: int
    tp: int
    pp: int
    microbatches: int
    batch: int
    seq: int
    schedule: str = "1f1b"
    chunks: int = 1
    optimizer: str = "adamw"
    clip: float = 1.0

    @property
    def rows(self) -> int:
        """Rows of one microbatch on one rank."""
        return self.batch // (self.dp * self.microbatches)

    @property
    def mesh(self) -> dict[str, int]:
        return {"pp": self.pp, "dp": self.dp, "tp": self.tp}


def new_plan(model: str, sizes: Mapping[str, int], degrees: Mapping[str, Any], folder: Path) -> Path:
    """The plan of a preset, or of ``llama`` with all its sizes, written to a folder; the path of the plan. ``sizes``
    are fields of :class:`Shape`, ``degrees`` of :class:`Degrees`. Raises :class:`UserError` for what does not fit."""
    preset = PRESETS.get(model)
    known = Degrees(**degrees)
    if known.optimizer not in ("adamw", "sgd"):
        raise UserError("plan-model", place="plan new", found=f"optimizer {known.optimizer}", needed="adamw or sgd")
    if model in EXPERTS:
        return write_plan(folder, model, _with_sizes(EXPERTS[model], model, sizes), known)
    wanted = [field.name for field in fields(Shape) if field.name != "theta"]
    if preset is None and model != "llama":
        raise UserError("plan-model", place="plan new", found=model, needed=f"llama, {', '.join((*PRESETS, *EXPERTS))}")
    missing = [name for name in wanted if name not in sizes]
    if preset is None and missing:
        raise UserError("plan-model", place="plan new llama", found=f"no {', '.join(missing)}", needed="all its sizes")
    shape = Shape(**sizes) if preset is None else replace(preset, **sizes)
    return write_plan(folder, model, shape, known)


def _with_sizes(shape: ExpertShape, model: str, sizes: Mapping[str, int]) -> ExpertShape:
    unknown = [name for name in sizes if name not in ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab")]
    if unknown or (shape.latent is not None and "kv_heads" in sizes):
        raise UserError("plan-model", place=f"plan new {model}", found=", ".join(sizes), needed="sizes that it has")
    return replace(shape, **sizes)


def write_plan(folder: Path, name: str, shape: Shape | ExpertShape, degrees: Degrees) -> Path:
    """Capture the parts, and write the plan and its graphs to a folder (made if need be); the path of the plan.

    Raises :class:`UserError` for sizes that cannot be spread in this way."""
    _check(shape, degrees)
    make_folder(folder)
    parts: dict[str, Any] = {}
    for part in _parts(shape, degrees):
        parts[part.name] = _written(folder, part)
    document = {
        "format": "plan/1",
        "name": name,
        "symbols": list(_symbols(degrees)),
        "mesh": {"axes": degrees.mesh, "pipeline": "pp"},
        "data": {"microbatches": degrees.microbatches},
        "model": {
            "pieces": ["embedding", *(f"{name} * {count}" for name, count in _layers(shape)), "head"],
            "stages": list(_stages(_layers(shape), degrees.pp * degrees.chunks)),
        },
        "schedule": {"name": degrees.schedule, **({"chunks": degrees.chunks} if degrees.chunks > 1 else {})},
        "finish": {
            "reduce": [f"{piece}_reduce" for piece in _pieces(shape)],
            "update": ["norm", *(f"{piece}_update" for piece in _pieces(shape))],
        },
        "part": parts,
    }
    write_file(folder / "plan.toml", tomli_w.dumps(document))
    return folder / "plan.toml"


def _symbols(degrees: Degrees) -> tuple[str, ...]:
    """The numbers that the optimizer's step is given."""
    return ("lr", "correction1", "correction2") if degrees.optimizer == "adamw" else ("lr",)


def _layers(shape: Shape | ExpertShape) -> tuple[tuple[str, int], ...]:
    """The kinds of layers, and how many there are of each, one after the other."""
    if isinstance(shape, Shape):
        return (("layer", shape.layers),)
    found = (("dense", shape.dense), ("moe", shape.layers - shape.dense))
    return tuple((name, count) for name, count in found if count > 0)


def _pieces(shape: Shape | ExpertShape) -> dict[str, Sizes]:
    """The shapes of the parameters of every kind of piece."""
    ends = {"table": (shape.vocab, shape.hidden)}, {"norm": (shape.hidden,), "output": (shape.vocab, shape.hidden)}
    if isinstance(shape, Shape):
        return {"embedding": ends[0], "layer": shape.layer(), "head": ends[1]}
    own = {"dense": shape.dense_layer, "moe": shape.expert_layer}
    return {"embedding": ends[0], **{name: own[name]() for name, _ in _layers(shape)}, "head": ends[1]}


def _trained(shapes: Sizes) -> Sizes:
    return {name: sizes for name, sizes in shapes.items() if name not in FROZEN}


def _check(shape: Shape | ExpertShape, degrees: Degrees) -> None:
    kv_heads = shape.kv_heads or shape.heads
    own = (
        [(shape.hidden % (2 * shape.heads), f"hidden {shape.hidden}", f"a multiple of twice {shape.heads} heads")]
        if isinstance(shape, Shape)
        else [
            (shape.experts % degrees.tp, f"{shape.experts} experts", f"a multiple of tp, {degrees.tp}"),
            (int(shape.layers <= shape.dense), f"{shape.layers} layers", f"more than {shape.dense} dense ones"),
        ]
    )
    problems = [
        *own,
        (shape.heads % kv_heads, f"{shape.heads} heads", f"a multiple of {kv_heads} heads for keys"),
        (kv_heads % degrees.tp, f"{kv_heads} heads for keys", f"a multiple of tp, {degrees.tp}"),
        (shape.ffn % degrees.tp, f"ffn {shape.ffn}", f"a multiple of tp, {degrees.tp}"),
        (shape.vocab % degrees.tp, f"vocabulary {shape.vocab}", f"a multiple of tp, {degrees.tp}"),
        (
            degrees.batch % (degrees.dp * degrees.microbatches), f"batch {degrees.batch}",
            f"a multiple of dp times microbatches, {degrees.dp * degrees.microbatches}",
        ),
        (int(shape.layers < degrees.pp * degrees.chunks), f"{shape.layers} layers", "one for every stage"),
    ]  # fmt: skip
    for wrong, found, needed in problems:
        if wrong:
            raise UserError("plan-sizes", place="plan new", found=found, needed=needed)


def _stages(kinds: Sequence[tuple[str, int]], stages: int) -> Iterator[str]:
    """Which pieces every stage owns: the first and the last have fewer layers, for they have more beside them."""
    layers = sum(count for _, count in kinds)
    counts = [layers // stages] * stages
    middle = [*range(1, stages - 1), *range(stages - 1, stages), 0]
    for k in range(layers % stages):
        counts[middle[k]] += 1
    first = 0
    for stage, count in enumerate(counts):
        owned = ["embedding"] if stage == 0 else []
        start = 0
        for name, many in kinds:
            low, high = max(first, start), min(first + count, start + many)
            if low < high:
                owned.append(f"{name} {low - start}-{high - start - 1}")
            start += many
        yield ", ".join([*owned, *(["head"] if stage == stages - 1 else [])])
        first += count


# ---------------------------------------------------------------------------------------------- parts
@dataclass(frozen=True)
class _Part:
    """A part to be captured. ``whole`` and ``local`` are the arguments (by name) on one device and on a rank;
    ``build(groups, rank)`` is the step of a rank, ``None`` for one device; ``mesh`` are the axes that it knows.
    ``cut``: its program depends on the coordinate along tp."""

    name: str
    build: Callable[[Mapping[str, Any] | None, int], Step]
    whole: Mapping[str, torch.Tensor]
    local: Mapping[str, torch.Tensor]
    mesh: Mapping[str, int]
    table: Mapping[str, Any]
    cut: bool = False


def _written(folder: Path, part: _Part) -> dict[str, Any]:
    """The part's table, whose graphs are in the folder."""
    spec = capture(part.build(None, 0), (), part.whole)
    write_document(folder / f"{part.name}.spec.json.gz", spec.document)
    ranks = part.mesh["tp"] if part.cut else 1
    names: list[str] = []
    for rank in range(ranks):
        found = _captured(part, rank)
        names.append(f"{part.name}.tp{rank}.json.gz" if ranks > 1 else f"{part.name}.json.gz")
        write_document(folder / names[-1], found.document)
    impl = {"tp": names} if ranks > 1 else names[0]
    return {"spec": f"{part.name}.spec.json.gz", "impl": impl, **part.table}


def _captured(part: _Part, rank: int) -> Program:
    mesh = Mesh(dict(part.mesh), {axis: (axis,) for axis in part.mesh})

    def build(rank: int) -> Any:
        groups = {axis: dist.new_group(list(mesh.members(axis, rank))) for axis, size in mesh.axes.items() if size > 1}
        return part.build(groups, rank % part.mesh["tp"]), (), {"kwargs": part.local}

    return capture_rank(build, rank, part.mesh)


def _tensors(shapes: Sizes, tp: int = 1, prefix: str = "") -> dict[str, torch.Tensor]:
    return {
        f"{prefix}{name}": _empty(*(n // tp if CUT.get(name) == k else n for k, n in enumerate(sizes)))
        for name, sizes in shapes.items()
    }


def _empty(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(sizes, dtype=dtype, device="meta")


def _weight(name: str, **more: str) -> dict[str, str]:
    """The placement of a parameter, its gradient or state."""
    return {**more, **({"tp": f"Shard({CUT[name]})"} if name in CUT else {})}


def _parts(shape: Shape | ExpertShape, degrees: Degrees) -> Iterator[_Part]:
    pieces = _pieces(shape)
    yield from _passes(shape, degrees, pieces)
    for piece, shapes in pieces.items():
        yield _reduce(piece, _trained(shapes), degrees)
    yield _norm(degrees)
    for piece, shapes in pieces.items():
        yield _update(piece, _trained(shapes), degrees)


def _passes(shape: Shape | ExpertShape, degrees: Degrees, pieces: Mapping[str, Sizes]) -> Iterator[_Part]:
    tp, seq, tokens = degrees.tp, degrees.seq, degrees.batch * degrees.seq
    rows = {"microbatch": "Shard(0)", "dp": "Shard(0)"}
    summed = {"microbatch": 'Partial("sum")', "dp": 'Partial("sum")'}

    def arguments(batch: int, tp: int, piece: str, *names: str) -> dict[str, torch.Tensor]:
        numbers = {"tokens", "labels"}
        own = {
            name: _empty(batch, seq, dtype=torch.int64) if name in numbers else _empty(batch, seq, shape.hidden)
            for name in names
        }
        return {**own, **_tensors(pieces[piece], tp)}

    def part(
        name: str, build: Callable[[Any, int], Step], names: Sequence[str], made: str, more: dict[str, Any]
    ) -> _Part:
        weights = pieces[name]
        table = {
            "parameters": {w: f"d_{w}" for w in _trained(weights)},
            **({"frozen": frozen} if (frozen := [w for w in weights if w in FROZEN]) else {}),
            "inputs": {**dict.fromkeys(names, rows), **{w: _weight(w) or "Replicate()" for w in weights}},
            "outputs": {
                **({"d_x": rows} if "x" in names else {}),
                made: summed if made == "loss" else rows,
                **{f"d_{w}": _weight(w, **summed) for w in _trained(weights)},
            },
            **more,
        }
        return _Part(
            name, build, arguments(degrees.batch, 1, name, *names), arguments(degrees.rows, tp, name, *names),
            {"tp": tp}, table, cut=name not in ("layer", "dense") and tp > 1,
        )  # fmt: skip

    def group(groups: Mapping[str, Any] | None) -> Any:
        return None if groups is None else groups.get("tp")

    before, after = {"before": {"hidden": ["x", "d_x"]}}, {"after": {"hidden": ["y", "d_y"]}}
    yield part(
        "embedding",
        lambda g, rank: embedding_step(group(g), rank),
        ("tokens", "d_y"),
        "y",
        {"data": ["tokens"], **after},
    )
    for kind, _ in _layers(shape):
        yield part(
            kind, lambda g, rank: _layer_step(shape, group(g), 1 if g is None else tp, rank), ("x", "d_y"), "y",
            {**before, **after},
        )  # fmt: skip
    yield part(
        "head", lambda g, rank: head_step(tokens, group(g), rank), ("x", "labels"), "loss",
        {"data": ["labels"], "results": ["loss"], **before},
    )  # fmt: skip


def _layer_step(shape: Shape | ExpertShape, group: Any, tp: int, rank: int) -> Step:
    return layer_step(shape, group, tp) if isinstance(shape, Shape) else expert_step(shape, group, tp, rank)


def _reduce(piece: str, shapes: Sizes, degrees: Degrees) -> _Part:
    cut = {name: CUT[name] for name in shapes if name in CUT}
    table = {
        "kind": "piece",
        "of": piece,
        "inputs": {f"d_{w}": _weight(w, dp='Partial("sum")') for w in shapes},
        "outputs": {
            **{f"g_{w}": _weight(w) or "Replicate()" for w in shapes},
            "cut_squares": {"tp": 'Partial("sum")'},
            "whole_squares": "Replicate()",
        },
    }
    return _Part(
        f"{piece}_reduce", lambda g, _: reduce_step(tuple(shapes), cut, None if g is None else g.get("dp")),
        _tensors(shapes, 1, "d_"), _tensors(shapes, degrees.tp, "d_"), {"dp": degrees.dp, "tp": degrees.tp}, table,
    )  # fmt: skip


def _norm(degrees: Degrees) -> _Part:
    scalars = {"cut_squares": _empty(), "whole_squares": _empty()}
    table = {
        "kind": "once",
        "sums": {name: name for name in scalars},
        "inputs": {
            "cut_squares": {"pp": 'Partial("sum")', "tp": 'Partial("sum")'},
            "whole_squares": {"pp": 'Partial("sum")'},
        },
        "outputs": {"factor": "Replicate()"},
    }

    def build(groups: Mapping[str, Any] | None, _: int) -> Step:
        found = groups or {}
        return norm_step(degrees.clip, found.get("tp"), found.get("pp"))

    return _Part("norm", build, scalars, scalars, degrees.mesh, table)


def _update(piece: str, shapes: Sizes, degrees: Degrees) -> _Part:
    adam = degrees.optimizer == "adamw"
    state = [f"{kind}_{w}" for kind in ("m", "v") for w in shapes] if adam else []
    kept = {name: name for name in (*shapes, *state)}

    def arguments(tp: int) -> dict[str, torch.Tensor]:
        found = {
            **{name: _empty() for name in ("factor", *_symbols(degrees))},
            **_tensors(shapes, tp),
            **_tensors(shapes, tp, "g_"),
        }
        return {**found, **(_tensors(shapes, tp, "m_") | _tensors(shapes, tp, "v_") if adam else {})}

    def placed(name: str) -> Any:
        return _weight(name.split("_")[-1]) or "Replicate()"

    table = {
        "kind": "piece",
        "of": piece,
        "state": state,
        "updates": {f"new_{name}": name for name in kept},
        "inputs": {name: placed(name) for name in arguments(1)},
        "outputs": {f"new_{name}": placed(name) for name in kept},
    }
    return _Part(
        f"{piece}_update", lambda *_: update_step(tuple(shapes), degrees.optimizer),
        arguments(1), arguments(degrees.tp), {"dp": degrees.dp, "tp": degrees.tp}, table,
    )  # fmt: skip
