"""Jobs of a GPT under tensor parallelism: layer norms, causal attention by heads, an MLP with biases."""

from __future__ import annotations

from pathlib import Path

from .graphs import write_job
from .jobs import as_json, graph_of

__all__ = ["gpt_files"]

ROWS, DEPTH = 6, 4  # tokens, and channels of a head


def _layer(k: int, width: int, heads: int, reduced: bool, mask: str) -> list[str]:
    """``heads`` of the heads, and as large a part of the MLP."""
    local, parts = heads * DEPTH, ["q", "k", "v"]

    def normal(x: str, to: str, name: str) -> str:
        return f"{to} = aten.layer_norm.default({x}, [{width}], {name}g{k}, {name}b{k}, 1e-05)"

    def summed(x: str, to: str, bias: str, residual: str) -> list[str]:
        whole = [f'{to}r = all_reduce({x}, "sum", "tp")'] if reduced else []
        return [*whole, f"{to}b = add({to + 'r' if reduced else x}, {bias})", f"{to} = add({to}b, {residual})"]

    lines = [normal(f"x{k}", f"n{k}", "m")]
    for p in parts:
        lines += [
            f"{p}m{k} = mm(n{k}, w{p}{k})",
            f"{p}a{k} = add({p}m{k}, c{p}{k})",
            f"{p}v{k} = aten.view.default({p}a{k}, [{ROWS}, {heads}, {DEPTH}])",
            f"{p}h{k} = aten.permute.default({p}v{k}, [1, 0, 2])",
        ]
    lines += [
        f"kt{k} = aten.transpose.int(kh{k}, 1, 2)",
        f"s{k} = aten.bmm.default(qh{k}, kt{k})",
        f"sc{k} = mul(s{k}, 0.5)",
        f"sm{k} = masked_fill(sc{k}, {mask}, -inf)",
        f"p{k} = aten._softmax.default(sm{k}, -1, False)",
        f"o{k} = aten.bmm.default(p{k}, vh{k})",
        f"op{k} = aten.permute.default(o{k}, [1, 0, 2])",
        f"oc{k} = aten.clone.default(op{k})",
        f"ov{k} = aten.view.default(oc{k}, [{ROWS}, {local}])",
        f"om{k} = mm(ov{k}, wo{k})",
        *summed(f"om{k}", f"y{k}", f"co{k}", f"x{k}"),
        normal(f"y{k}", f"l{k}", "l"),
        f"u{k} = mm(l{k}, wu{k})",
        f"ub{k} = add(u{k}, cu{k})",
        f"ug{k} = gelu(ub{k})",
        f"d{k} = mm(ug{k}, wd{k})",
        *summed(f"d{k}", f"x{k + 1}", f"cd{k}", f"y{k}"),
    ]
    return lines


def _inputs(k: int, width: int, local: int) -> dict[str, tuple[list[int], str]]:
    """The weights of a layer, with where they are split."""
    found: dict[str, tuple[list[int], str]] = {}
    for name in ("mg", "mb", "lg", "lb", "co", "cd"):
        found[f"{name}{k}"] = [width], "Replicate()"
    for p in "qkv":
        found[f"w{p}{k}"] = [width, local], "Shard(1)"
        found[f"c{p}{k}"] = [local], "Shard(0)"
    found[f"wo{k}"] = [local, width], "Shard(0)"
    found[f"wu{k}"] = [width, 4 * local], "Shard(1)"
    found[f"cu{k}"] = [4 * local], "Shard(0)"
    found[f"wd{k}"] = [4 * local, width], "Shard(0)"
    return found


def gpt_files(folder: Path, layers: int, *, tp: int = 2, wrong: int = -1) -> Path:
    """The job file of a GPT with so many layers, two heads on every rank. ``wrong``: the layer on all ranks whose
    scores have another scale."""
    folder.mkdir(exist_ok=True)
    width = 2 * tp * DEPTH

    def program(heads: int, reduced: bool) -> str:
        lines = [f"x0: float32[{ROWS}, {width}]"]
        for k in range(layers):
            for name, (shape, _) in _inputs(k, width, heads * DEPTH).items():
                lines.append(f"{name}: float32[{', '.join(map(str, shape))}]")
        lines += [
            f"at = aten.arange.default({ROWS})",
            "row = unsqueeze(at, 1)",
            "column = unsqueeze(at, 0)",
            "later = aten.gt.Tensor(column, row)",
        ]
        for k in range(layers):
            layer = _layer(k, width, heads, reduced, "later")
            if reduced and k == wrong:
                layer = [line.replace(", 0.5)", ", 0.25)") if line.startswith("sc") else line for line in layer]
            lines += layer
        return "\n".join([*lines, f"-> x{layers}"])

    placed = [f'{n} = "{where}"' for k in range(layers) for n, (_, where) in _inputs(k, width, width).items()]
    job = "\n".join(
        [
            f'format = "job/1"\n[spec]\ngraph = "spec.json"\n[impl]\ngraph = "rank.json"\nmesh = {{ tp = {tp} }}',
            '[impl.groups]\ntp = ["tp"]\n[inputs]\nx0 = "Replicate()"',
            *placed,
            f'[outputs]\nx{layers} = "Replicate()"\n',
        ]
    )
    graphs = {
        "spec.json": as_json(graph_of(program(2 * tp, False)), None),
        "rank.json": as_json(graph_of(program(2, True)), {"tp": tp}),
    }
    return write_job(folder, job, graphs)
