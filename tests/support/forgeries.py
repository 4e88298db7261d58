"""Forged certificates: an implementation that agrees with the honest one on easy inputs only, with all hashes right.

A row of the table is two programs on the same inputs that differ somewhere: on negative numbers, on zero, where two
numbers are equal, beyond a bound, at a constant. Each is forged for the other: a certificate is proved for one of them
against itself on two ranks, and then the ranks' graphs are the other's. Relations of tensors that the other lacks are
left out, which is allowed. So what rejects a forgery is its output.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.certificates import Kept, reseal
from support.jobs import as_json, graph_of, job_files
from tantamount import read_job
from tantamount.answers import refine
from tantamount.verdict import Verdict

__all__ = ["BOTH_WAYS", "Forged", "Pair", "assumptions_removed", "forge", "forgeries", "one_sided"]

DISCRETE = "i: int64[{n}, 6]\nj: int64[{n}, 6]\nb: bool[{n}, 30]\nc: bool[{n}, 30]\ns: int8[{n}, 6]\nu: uint8[{n}, 6]"
REAL = "x: float32[{n}, 6]\nz: float32[{n}, 6]"


@dataclass(frozen=True)
class Pair:
    """Two programs that differ. ``kind``: where; ``discrete``: in integers and booleans."""

    kind: str
    left: str
    right: str
    discrete: bool


@dataclass(frozen=True)
class Forged:
    """What was done, the class of it, and the files."""

    what: str
    kind: str
    discrete: bool
    kept: Kept


def _integers(kind: str, *rows: tuple[str, str]) -> tuple[Pair, ...]:
    return tuple(Pair(kind, left, right, True) for left, right in rows)


def _reals(kind: str, *rows: tuple[str, str]) -> tuple[Pair, ...]:
    return tuple(Pair(kind, left, right, False) for left, right in rows)


def _trunc(x: str, by: int) -> str:
    return f'y = aten.div.Tensor_mode({x}, {by}, rounding_mode="trunc")'


def _floor(x: str, by: int) -> str:
    return f'y = aten.div.Tensor_mode({x}, {by}, rounding_mode="floor")'


_SAME, _REAL = "y = mul(i, 1)", "y = mul(x, 1)"
_NEVER = "a = aten.ne.Tensor(i, i)\ny = aten.any.dim(a, 1)"

BOTH_WAYS: tuple[Pair, ...] = (
    *_integers(
        "negative numbers",
        ("y = aten.abs.default(i)", _SAME),
        ("y = aten.abs.default(s)", "y = mul(s, 1)"),
        ("y = relu(i)", _SAME),
        ("y = aten.sign.default(i)", "y = aten.clamp.default(i, 0, 1)"),
        ("y = mul(i, i)", "a = aten.abs.default(i)\ny = mul(a, i)"),
        ("y = aten.ne.Scalar(i, 0)", "y = aten.gt.Scalar(i, 0)"),
        ("y = aten.logical_not.default(i)", "y = aten.le.Scalar(i, 0)"),
        ("a = ge(i, 0)\nk = mul(i, -1)\ny = aten.where.self(a, i, k)", _SAME),
        ("a = aten.abs.default(i)\ny = aten.eq.Tensor(i, a)", "y = aten.eq.Tensor(i, i)"),
    ),
    *_integers(
        "rounding of quotients",
        ("y = aten.remainder.Scalar(i, 7)", "y = aten.fmod.Scalar(i, 7)"),
        ("y = aten.bitwise_right_shift.Tensor_Scalar(i, 1)", _trunc("i", 2)),
        (_trunc("i", 2), _floor("i", 2)),
        (_trunc("i", 7), _floor("i", 7)),
        ("y = aten.remainder.Scalar(i, 3)", "y = aten.fmod.Scalar(i, 3)"),
        ("y = aten.floor_divide.default(i, j)", 'y = aten.div.Tensor_mode(i, j, rounding_mode="trunc")'),
        ("y = aten.remainder.Tensor(i, j)", "y = aten.fmod.Tensor(i, j)"),
    ),
    *_integers(
        "bits",
        ("y = aten.bitwise_and.Scalar(i, 1)", "y = aten.fmod.Scalar(i, 2)"),
        ("y = aten.bitwise_and.Scalar(i, 255)", _SAME),
        ("y = aten.bitwise_or.Scalar(i, 64)", "y = add(i, 64)"),
        ("y = aten.bitwise_xor.Scalar(i, 256)", "y = add(i, 256)"),
        ("y = aten.__rshift__.Scalar(i, 1)", _trunc("i", 2)),
    ),
    *_integers(
        "ties and strictness",
        ("y = aten.gt.Tensor(i, j)", "y = aten.ge.Tensor(i, j)"),
        ("y = aten.lt.Tensor(i, j)", "a = aten.sub.Tensor(i, j)\ny = aten.le.Scalar(a, 0)"),
        ("y = aten.ge.Scalar(i, 500)", "y = aten.gt.Scalar(i, 500)"),
        ("a = mul(i, 2)\ny = aten.ge.Scalar(a, 98)", "a = mul(i, 2)\ny = aten.gt.Scalar(a, 98)"),
        (
            "y = aten.argmax.default(i, 1)",
            "a = aten.flip.default(i, [1])\nk = aten.argmax.default(a, 1)\nl = mul(k, -1)\ny = add(l, 5)",
        ),
    ),
    *_integers(
        "bounds that never bind",
        ("y = aten.clamp.default(i, -100, 100)", _SAME),
        ("y = aten.clamp_max.default(i, 1000000)", _SAME),
        ("y = aten.clamp_min.default(i, -3)", _SAME),
        ("y = aten.clamp.default(u, 0, 200)", "y = mul(u, 1)"),
    ),
    *_integers(
        "constants",
        ("a = aten.eq.Scalar(i, 1234)\ny = masked_fill(i, a, 0)", _SAME),
        ("a = aten.gt.Scalar(i, 1000)\ny = masked_fill(i, a, 0)",
         "a = aten.gt.Scalar(i, 1001)\ny = masked_fill(i, a, 0)"),
        ("a = aten.lt.Scalar(i, -99999)\ny = masked_fill(i, a, 1)", _SAME),
        ("y = mul(i, 4096)", "y = mul(i, 4097)"),
    ),
    *_integers(
        "reductions to booleans",
        ("y = aten.any.dim(b, 1)", "a = slice(b, 1, 0, 29)\ny = aten.any.dim(a, 1)"),
        ("y = aten.all.dim(b, 1)", "a = slice(b, 1, 1, 30)\ny = aten.all.dim(a, 1)"),
        ("a = aten.gt.Scalar(i, 0)\ny = aten.all.dim(a, 1)", _NEVER),
        ("a = aten.eq.Tensor(i, j)\ny = aten.all.dim(a, 1)", _NEVER),
        ("a = aten.eq.Scalar(i, 77)\ny = aten.any.dim(a, 1)", _NEVER),
        ("y = aten.all.dim(b, 1)", "a = aten.ne.Tensor(b, b)\ny = aten.any.dim(a, 1)"),
        ("y = aten.any.dim(b, 1)", "a = aten.eq.Tensor(b, b)\ny = aten.all.dim(a, 1)"),
        ("a = aten.eq.Tensor(b, c)\ny = aten.all.dim(a, 1)", "a = aten.ne.Tensor(b, b)\ny = aten.any.dim(a, 1)"),
    ),
    *_integers(
        "ends of narrow types",
        ("y = aten.bitwise_not.default(u)", "a = mul(u, 255)\ny = aten.clamp_max.default(a, 254)"),
        ("a = add(s, s)\ny = aten._to_copy.default(a, dtype=int64)",
         "a = aten._to_copy.default(s, dtype=int64)\ny = add(a, a)"),
        ("a = sub(u, 3)\ny = aten._to_copy.default(a, dtype=int64)",
         "a = aten._to_copy.default(u, dtype=int64)\ny = sub(a, 3)"),
        ("a = aten.sum.dim_IntList(s, [1], True, dtype=int8)\ny = add(a, 1)",
         "a = aten.sum.dim_IntList(s, [1], True)\nk = aten.clamp.default(a, -128, 127)\n"
         "l = aten._to_copy.default(k, dtype=int8)\ny = add(l, 1)"),
        ("a = aten._to_copy.default(i, dtype=int8)\nk = aten._to_copy.default(a, dtype=int64)\ny = add(k, 1)",
         "y = add(i, 1)"),
        ("a = aten._to_copy.default(i, dtype=int16)\nk = aten._to_copy.default(a, dtype=int64)\ny = add(k, 1)",
         "y = add(i, 1)"),
        ("a = aten.floor_divide.Scalar(i, 3)\ny = aten._to_copy.default(a, dtype=uint8)",
         "a = aten._to_copy.default(i, dtype=uint8)\ny = aten.floor_divide.Scalar(a, 3)"),
        ("y = aten.neg.default(s)", "a = aten.clamp_min.default(s, -127)\ny = aten.neg.default(a)"),
        ("a = aten.__rshift__.Scalar(s, 1)\ny = add(a, 1)",
         "a = aten._to_copy.default(s, dtype=uint8)\nk = aten.__rshift__.Scalar(a, 1)\n"
         "l = aten._to_copy.default(k, dtype=int8)\ny = add(l, 1)"),
        ("a = sub(u, u)\ny = aten.lt.Tensor(a, u)", "y = aten.ne.Tensor(u, u)"),
    ),
    *_reals(
        "ties and strictness",
        ("y = aten.gt.Scalar(x, 0)", "y = ge(x, 0)"),
        ("y = aten.gt.Scalar(x, 0.1)", "y = ge(x, 0.1)"),
        ("y = aten.gt.Tensor(x, z)", "y = aten.ge.Tensor(x, z)"),
        ("y = aten.eq.Tensor(x, z)", "y = aten.ne.Tensor(x, x)"),
        ("a = mul(x, 4)\ny = aten.lt.Scalar(a, 6)", "a = mul(x, 4)\ny = aten.le.Scalar(a, 6)"),
        (
            "y = aten.argmax.default(x, 1)",
            "a = aten.flip.default(x, [1])\nk = aten.argmax.default(a, 1)\nl = mul(k, -1)\ny = add(l, 5)",
        ),
    ),
    *_reals(
        "rounding",
        ("a = aten._to_copy.default(x, dtype=float8_e5m2)\ny = aten._to_copy.default(a, dtype=float32)",
         "a = aten._to_copy.default(x, dtype=float8_e4m3fn)\ny = aten._to_copy.default(a, dtype=float32)"),
        ("y = aten.floor.default(x)", "a = aten.ceil.default(x)\ny = sub(a, 1)"),
        ("y = aten.trunc.default(x)", "y = aten.floor.default(x)"),
        ("y = aten.round.default(x)", "a = add(x, 0.5)\ny = aten.floor.default(a)"),
    ),
    *_reals(
        "thresholds of formulas",
        ("y = aten.softplus.default(x)", "a = aten.exp.default(x)\ny = aten.log1p.default(a)"),
        ("y = aten.softplus.default(x)", "y = aten.softplus.default(x, 1, 24)"),
        ("y = aten.softplus.default(x, 2, 20)",
         "a = mul(x, 2)\nk = aten.exp.default(a)\nl = aten.log1p.default(k)\ny = mul(l, 0.5)"),
        ("y = aten.sigmoid.default(x)",
         "a = aten.sigmoid.default(x)\nk = aten.gt.Scalar(x, 23)\ny = masked_fill(a, k, 1)"),
        ("y = tanh(x)", "a = tanh(x)\nk = aten.lt.Scalar(x, -11)\ny = masked_fill(a, k, -1)"),
    ),
    *_reals(
        "bounds that never bind",
        ("y = aten.clamp.default(x, -50, 50)", _REAL),
        ("y = aten.clamp.default(x, -10000, 10000)", _REAL),
        ("y = aten.hardtanh.default(x, 0, 6)", "y = relu(x)"),
        ("a = aten.gt.Scalar(x, 300)\ny = masked_fill(x, a, 0)", _REAL),
        ("y = aten.clamp_min.default(x, -77.5)", _REAL),
    ),
    *_reals(
        "negative numbers",
        ("y = aten.abs.default(x)", _REAL),
        ("y = relu(x)", _REAL),
        ("a = mul(x, x)\ny = aten.sqrt.default(a)", _REAL),
        ("y = aten.sign.default(x)", "a = aten.gt.Scalar(x, 0)\nk = aten._to_copy.default(a, dtype=float32)\n"
         "l = mul(k, 2)\ny = sub(l, 1)"),
    ),
    *_reals(
        "constants",
        ("y = mul(x, 3)", "y = mul(x, 3.0000001)"),
        ("a = tanh(x)\ny = mul(a, 0.5)", "a = tanh(x)\ny = mul(a, 0.5000001)"),
        ("y = add(x, 2147024879)", "y = add(x, 4294049758)"),
        ("a = mul(x, z)\ny = add(a, 1)", "a = mul(x, z)\ny = add(a, 1.000001)"),
    ),
    *_reals(
        "reductions",
        ("a = aten.eq.Tensor(x, z)\ny = aten.all.dim(a, 1)", "a = aten.ne.Tensor(x, x)\ny = aten.any.dim(a, 1)"),
        ("y = softmax(x, 1, False)", "a = mul(x, 1.0001)\ny = softmax(a, 1, False)"),
        ("y = sum_dims(x, [1], True)", "a = slice(x, 1, 0, 5)\ny = sum_dims(a, [1], True)"),
    ),
)  # fmt: skip


def _text(inputs: str, body: str, rows: int) -> str:
    """The program with the inputs that it uses."""
    used = [line for line in inputs.format(n=rows).splitlines() if re.search(rf"\b{line[0]}\b", body)]
    return "\n".join([*used, body, "-> y"])


def forge(pair: Pair, left: bool, folder: Path, ranks: tuple[int, ...] = (0, 1)) -> Forged | None:
    """The certificate of one of the programs, with the other on these ranks; ``None`` if the honest one is not PROVED,
    or the programs do not use the same inputs."""
    honest, other = (pair.left, pair.right) if left else (pair.right, pair.left)
    inputs = DISCRETE if pair.discrete else REAL
    given, forged = (_text(inputs, body, 4) for body in (honest, other))
    names = [[line for line in text.splitlines() if ": " in line] for text in (given, forged)]
    if names[0] != names[1]:
        every = [line for line in inputs.format(n=4).splitlines() if line in names[0] or line in names[1]]
        given, forged = ("\n".join([*every, body, "-> y"]) for body in (honest, other))
    whole = given.replace("[4, ", "[8, ")
    relations = "\n".join(f'{line[0]} = "Shard(0)"' for line in given.splitlines() if ": " in line)
    tables = f'[inputs]\n{relations}\n[outputs]\ny = "Shard(0)"'
    folder.mkdir(parents=True)
    job = job_files(folder, whole, [given, given], tables, {"dp": 2}, {"dp": ("dp",)})
    report = refine(read_job(job))
    if report.verdict is not Verdict.PROVED:
        return None
    kept = Kept(folder.name, job, folder / "certificate.json")
    report.save_certificate(kept.certificate)
    for rank in ranks:
        (folder / f"rank{rank}.json").write_text(json.dumps(as_json(graph_of(forged), {"dp": 2})))
    keep = {line[0] for line in given.splitlines() if ": " in line} | {"y"}

    def change(content: dict[str, Any]) -> None:
        content["unrelated"] += [entry["tensor"] for entry in content["relations"] if entry["tensor"] not in keep]
        content["relations"] = [entry for entry in content["relations"] if entry["tensor"] in keep]

    reseal(kept, change)
    where = "" if len(ranks) == 2 else f" on rank {ranks[0]} only"
    return Forged(f"{other!r} for {honest!r}{where}", pair.kind, pair.discrete, kept)


def forgeries(folder: Path) -> Iterator[Forged]:
    """Every pair of the table, both ways; every fifth once more on one rank only."""
    for number, pair in enumerate(BOTH_WAYS):
        for left in (True, False):
            if (made := forge(pair, left, folder / f"{number}-{left:d}")) is not None:
                yield made
        if number % 5 == 0 and (made := forge(pair, True, folder / f"{number}-rank", (1,))) is not None:
            yield made


# ------------------------------------------------------------------------------------------------ assumptions
_NEEDING = {
    "domain": (
        "y = div(x, z)",
        "a = sub(x, 7)\nk = div(z, a)\ny = add(k, x)",
        "y = aten.log.default(x)",
        "a = add(x, z)\ny = aten.rsqrt.default(a)",
        "a = sub(x, 123.5)\ny = aten.sqrt.default(a)",
        "a = mul(x, z)\nk = aten.reciprocal.default(a)\ny = mul(k, x)",
        "a = sum_dims(x, [1], True)\ny = div(x, a)",
    ),
    "narrow-conversion": (
        "y = aten._to_copy.default(x, dtype=int8)",
        "a = mul(x, 0.001)\ny = aten._to_copy.default(a, dtype=uint8)",
        "a = aten.clamp_min.default(x, -128)\nk = aten.round.default(a)\ny = aten._to_copy.default(k, dtype=int8)",
    ),
    "index-range": (
        "y = embedding(w, i)",
        "a = add(i, 2)\ny = embedding(w, a)",
        "k = embedding(w, i)\nl = embedding(v, j)\ny = add(k, l)",
        "a = mul(i, 2)\ny = embedding(w, a)",
    ),
    "real-arithmetic": ("y = add(i, j)",),
    "rounded-literals": ("y = mul(x, 0.7071067811865476)",),
    "operator": ("y = aten.argsort.default(x)",),
}  # fmt: skip


def one_sided(folder: Path) -> Iterator[Kept]:
    """Proofs that need an assumption about where the specification is defined."""
    given = {"w": "w: float32[20, 5]", "v": "v: float32[30, 5]", "x": "x: float32[{n}, 6]", "z": "z: float32[{n}, 6]",
             "i": "i: int64[{n}, 3]", "j": "j: int64[{n}, 3]"}  # fmt: skip
    for name, bodies in _NEEDING.items():
        for number, body in enumerate(bodies):
            used = [key for key in given if f"({key}" in body or f" {key}" in body.replace("=", " ")]
            texts = ["\n".join([*(given[key].format(n=n) for key in used), body, "-> y"]) for n in (8, 4)]
            how = {key: "Replicate()" if key in "wv" else "Shard(0)" for key in used}
            tables = "[inputs]\n" + "\n".join(f'{key} = "{value}"' for key, value in how.items())
            path = folder / f"{name}-{number}"
            path.mkdir(parents=True)
            job = job_files(path, texts[0], [texts[1]] * 2, tables + '\n[outputs]\ny = "Shard(0)"', {"dp": 2},
                            {"dp": ("dp",)})  # fmt: skip
            report = refine(read_job(job))
            if report.verdict is Verdict.PROVED:
                kept = Kept(f"{name}-{number}", job, path / "certificate.json")
                report.save_certificate(kept.certificate)
                yield kept


def assumptions_removed(kept: Kept, folder: Path) -> Iterator[Forged]:
    """The certificate without each of its assumptions, and without each place of those with several."""
    listed = kept.content["assumptions"]
    ways: list[tuple[str, Callable[[dict[str, Any]], object]]] = []
    for k, entry in enumerate(listed):
        ways.append((f"{entry['name']} removed", lambda content, k=k: content["assumptions"].pop(k)))
        if len(entry["places"]) > 1:
            ways += [
                (f"{entry['name']} without {place}", lambda c, k=k, p=p: c["assumptions"][k]["places"].pop(p))
                for p, place in enumerate(entry["places"])
            ]
    for number, (what, change) in enumerate(ways):
        copy = Kept(kept.name, folder / str(number) / kept.job.name, folder / str(number) / kept.certificate.name)
        shutil.copytree(kept.job.parent, copy.job.parent)
        reseal(copy, change)
        yield Forged(f"{kept.name}: {what}", "assumption removed", False, copy)
