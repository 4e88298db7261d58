"""Causal attention on a ring of ranks: keys and values travel, sums of exponentials are added up on the way."""

from __future__ import annotations

from pathlib import Path

from .jobs import job_files

__all__ = ["ring_attention_files"]

BLOCK, WIDTH = 2, 4  # rows of a rank, channels


def _scores(name: str, keys: str, masked: str | None) -> list[str]:
    """Exponentials of the products of queries and keys; ``masked``: those that are not taken are 0."""
    lines = [f"{name}_t = t({keys})", f"{name}_s = mm(q, {name}_t)"]
    held = f"{name}_s"
    if masked is not None:
        lines.append(f"{name}_m = masked_fill({held}, {masked}, -inf)")
        held = f"{name}_m"
    return [*lines, f"{name} = aten.exp.default({held})"]


def _above(rows: int) -> list[str]:
    """The mask of what comes later."""
    return [
        f"at = aten.arange.default({rows})",
        "row = unsqueeze(at, 1)",
        "column = unsqueeze(at, 0)",
        "later = aten.gt.Tensor(column, row)",
    ]


def _specification(ranks: int) -> str:
    rows = BLOCK * ranks
    head = [f"{name}: float32[{rows}, {WIDTH}]" for name in "qkv"]
    lines = [*_above(rows), *_scores("p", "k", "later"), "total = sum_dims(p, [1], True)", "o = mm(p, v)"]
    return "\n".join([*head, *lines, "y = div(o, total)", "-> y"])


def _rank(rank: int, ranks: int) -> str:
    lines = [f"{name}: float32[{BLOCK}, {WIDTH}]" for name in "qkv"]
    lines += _above(BLOCK)
    keys, values, total, out = "k", "v", "", ""
    for step in range(ranks):
        block = (rank - step) % ranks
        if block <= rank:
            lines += _scores(f"p{step}", keys, "later" if block == rank else None)
            lines += [f"d{step} = sum_dims(p{step}, [1], True)", f"o{step} = mm(p{step}, {values})"]
            if total:
                lines += [f"dd{step} = add({total}, d{step})", f"oo{step} = add({out}, o{step})"]
            total, out = (f"dd{step}", f"oo{step}") if total else (f"d{step}", f"o{step}")
        if step < ranks - 1:
            for name, held in (("k", keys), ("v", values)):
                nxt, before = (rank + 1) % ranks, (rank - 1) % ranks
                send = f'{name}_sent{step} = _c10d_functional.isend.default({held}, {nxt}, 0, "cp")'
                receive = f'{name}_got{step} = _c10d_functional.irecv.default({name}_buffer{step}, {before}, 0, "cp")'
                lines += [f"{name}_buffer{step} = zeros([{BLOCK}, {WIDTH}])", send, receive]
                lines.append(f"{name}{step} = _c10d_functional.wait_tensor.default({name}_got{step})")
            keys, values = f"k{step}", f"v{step}"
    return "\n".join([*lines, f"y = div({out}, {total})", "-> y"])


def ring_attention_files(folder: Path, ranks: int) -> Path:
    """The job file of causal attention over that many ranks."""
    folder.mkdir(exist_ok=True)
    tables = "\n".join(["[inputs]", 'default = "Shard(0)"', "[outputs]", 'y = "Shard(0)"'])
    programs = [_rank(rank, ranks) for rank in range(ranks)]
    return job_files(folder, _specification(ranks), programs, tables, {"cp": ranks}, {"cp": ("cp",)})
