"""Jobs of equal layers under tensor and data parallelism, for tests and for the benchmark of growth."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tantamount import read_job
from tantamount.ir.job import Job

from .graphs import write_job
from .jobs import as_json, graph_of

__all__ = ["Change", "layered", "layered_files"]

Change = Callable[[int, str], str]  # what becomes of the text of a layer on a rank


def unchanged(_: int, text: str) -> str:
    return text


def _layer(k: int, reduced: bool) -> str:
    """A scaled row, through two matrices that are cut along what lies between them, and added to the residual."""
    lines = [
        f"s{k} = mul(x{k}, g{k})",
        f"m{k} = aten.mean.dim(s{k}, [1], True)",
        f"d{k} = sub(s{k}, m{k})",
        f"e{k} = mul(d{k}, d{k})",
        f"f{k} = aten.mean.dim(e{k}, [1], True)",
        f"i{k} = add(f{k}, 0.125)",
        f"j{k} = aten.rsqrt.default(i{k})",
        f"n{k} = mul(d{k}, j{k})",
        f"h{k} = mm(n{k}, w{k})",
        f"a{k} = gelu(h{k})",
        f"t{k} = tanh(a{k})",
        f"p{k} = mul(t{k}, 3)",
        f"q{k} = add(p{k}, a{k})",
        f"o{k} = mm(q{k}, v{k})",
        *([f'r{k} = all_reduce(o{k}, "sum", "tp")'] if reduced else []),
        f"y{k} = mul({'r' if reduced else 'o'}{k}, 0.5)",
        f"z{k} = aten.sin.default(y{k})",
        f"x{k + 1} = add(z{k}, x{k})",
    ]
    return "\n".join(lines)


def layered_files(
    folder: Path,
    layers: int,
    *,
    tp: int = 2,
    dp: int = 1,
    width: int = 4,
    rank: Change = unchanged,
    whole: Change = unchanged,
    end: str = "l = tanh(last)",
    spec_end: str = "",
) -> Path:
    """The job file of a model of so many layers. ``rank`` and ``whole`` change the text of layers; ``end`` is what
    comes after them (``last`` is the residual), on both sides unless ``spec_end`` says otherwise."""
    folder.mkdir(exist_ok=True)
    hidden = 2 * tp

    def program(local: int, rows: int, reduced: bool, change: Change, tail: str) -> str:
        inputs = [f"x0: float32[{rows}, {width}]"]
        for k in range(layers):
            inputs += [
                f"g{k}: float32[{width}]",
                f"w{k}: float32[{width}, {local}]",
                f"v{k}: float32[{local}, {width}]",
            ]
        body = [change(k, _layer(k, reduced)) for k in range(layers)]
        return "\n".join([*inputs, *body, tail.replace("last", f"x{layers}"), "-> l"])

    spec = program(hidden, 2 * dp, False, whole, spec_end or end)
    impl = program(hidden // tp, 2, True, rank, end)
    placed = {"g": "Replicate()", "w": "Shard(1)", "v": "Shard(0)"}
    lines = ["[inputs]", 'x0 = ["Shard(0)", "Replicate()"]']
    lines += [f'{name}{k} = ["Replicate()", "{where}"]' for k in range(layers) for name, where in placed.items()]
    head = (
        f'format = "job/1"\n[spec]\ngraph = "spec.json"\n[impl]\ngraph = "rank.json"\nmesh = {{ dp = {dp}, tp = {tp} }}'
    )
    outputs = '[outputs]\nl = ["Shard(0)", "Replicate()"]'
    job = "\n".join([head, '[impl.groups]\ntp = ["tp"]', *lines, outputs, ""])
    graphs = {"spec.json": as_json(graph_of(spec), None), "rank.json": as_json(graph_of(impl), {"tp": tp})}
    return write_job(folder, job, graphs)


def layered(folder: Path, layers: int = 4, **how: object) -> Job:
    """The same job, read."""
    return read_job(layered_files(folder, layers, **how))  # type: ignore[arg-type]
