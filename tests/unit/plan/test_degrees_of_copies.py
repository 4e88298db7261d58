"""Copies of one piece with degrees of their own: one pipeline has tp 2, the other dp 2; what they have is added up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.plans import PROGRAMS, update, verified, write_plan
from tantamount.verdict import Verdict

Edit = Callable[[dict[str, Any]], None]
SUM = 'Partial("sum")'
AXES = {"pp": 4, "dp": 1, "tp": 2}


def _own(*tensors: tuple[str, str], end: str) -> str:
    """What a pipeline has of gradients, added up over its ranks."""
    inputs = [f"d_{name}: float32{shape}" for name, shape in tensors]
    calls = [f"s_{name} = {end.replace('D', f'd_{name}')}" for name, _ in tensors]
    return "\n".join([*inputs, *calls, f"-> {', '.join(f's_{name}' for name, _ in tensors)}"])


def _both(*tensors: tuple[str, str], more: str = "", sent: bool = True) -> str:
    """The sum of what both pipelines have, its squares, and what is added to that."""
    inputs = [f"{prefix}_{name}: float32{shape}" for name, shape in tensors for prefix in ("st" if sent else "s")]
    added = [f"g_{name} = {f'add(s_{name}, t_{name})' if sent else f'mul(s_{name}, 1)'}" for name, _ in tensors]
    squares = [f"p_{name} = mul(g_{name}, g_{name})\nq_{name} = aten.sum.default(p_{name})" for name, _ in tensors]
    names = [f"q_{name}" for name, _ in tensors]
    total = f"own = add({', '.join(names)})" if len(names) > 1 else f"own = mul({names[0]}, 1)"
    given = [f"g_{name}" for name, _ in tensors]
    if more == "no":
        return "\n".join([*inputs, *added, f"-> {', '.join(given)}"])
    return "\n".join([*inputs, *added, *squares, total, more or "squares = mul(own, 1)", f"-> {', '.join(given)}, squares"])


LAYER, HALF = (("a", "[4, 8]"), ("b", "[8, 4]")), (("a", "[4, 4]"), ("b", "[4, 4]"))
FIRST = (("w", "[6, 4]"),)
MORE: Mapping[str, str] = {
    **{name: PROGRAMS[name].replace("float32[4, 4]", "float32[8, 4]").replace("data: float32[4,", "data: float32[8,")
       for name in ("first", "last")},
    "layer": PROGRAMS["layer"].replace("x: float32[4, 4]", "x: float32[8, 4]").replace("d_y: float32[4", "d_y: float32[8"),
    **{f"wide_{name}": PROGRAMS[name] for name in ("first", "last")},
    "wide_layer": PROGRAMS["layer.spec"].replace("float32[16,", "float32[4,"),
    "layer_own.spec": _own(*LAYER, end="mul(D, 1)"), "layer_own": _own(*HALF, end="mul(D, 1)"),
    "wide_layer_own": _own(*LAYER, end='all_reduce(D, "sum", "dp")'),
    "first_own.spec": _own(*FIRST, end="mul(D, 1)"), "first_own": _own(*FIRST, end="mul(D, 1)"),
    "wide_first_own": _own(*FIRST, end='all_reduce(D, "sum", "dp")'),
    "layer_sum.spec": _both(*LAYER, sent=False), "layer_sum": _both(*HALF, more='squares = all_reduce(own, "sum", "tp")'),
    "wide_layer_sum": _both(*LAYER, more="no"),
    "first_sum.spec": _both(*FIRST, sent=False), "first_sum": _both(*FIRST), "wide_first_sum": _both(*FIRST, more="no"),
    "wide_layer_update": PROGRAMS["layer_update.spec"],
    "wide_first_update": update("w", "g_w", "[6, 4]"),
}  # fmt: skip

DEVICES = [
    "0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0",
    "2F1 2SEND_F1 2RECV_B1 2B1", "3RECV_F1 3F1 3B1 3SEND_B1",
]  # fmt: skip


def _apart(table: dict[str, Any]) -> None:
    """Microbatch 0 passes two devices of tp 2, microbatch 1 two devices of dp 2."""
    parts = table["part"]
    one = {"microbatch": "Shard(0)"}
    rows, sums = {**one, "dp": "Shard(0)"}, {"microbatch": SUM, "dp": SUM}
    a, b, everywhere = {"tp": "Shard(1)"}, {"tp": "Shard(0)"}, "Replicate()"
    for name in ("first_reduce", "layer_reduce"):
        del parts[name]

    def part(name: str, **entries: Any) -> None:
        spec = {} if entries.get("kind") == "copy" else {"spec": f"{name}.spec.json.gz"}
        parts[name] = {**spec, "impl": f"{name}.json.gz", **entries}

    def copy(of: str, **entries: Any) -> None:
        part(f"wide_{of}", kind="copy", of=of, pipelines=[1], **entries)

    copy("first", layout="wide")
    copy("last", layout="wide")
    copy("layer", layout="wide", inputs={"default": rows, "a": everywhere, "b": everywhere},
         outputs={"default": rows, "d_a": sums, "d_b": sums})  # fmt: skip
    part("layer_own", kind="piece", of="layer", inputs={"d_a": a, "d_b": b}, outputs={"s_a": a, "s_b": b})
    copy("layer_own", inputs={"default": {"dp": SUM}}, outputs={"default": everywhere})
    part("first_own", kind="piece", of="first", inputs={"default": everywhere}, outputs={"default": everywhere})
    copy("first_own", inputs={"default": {"dp": SUM}})
    halves = ["0[0/2]", "1[1/2]"]
    both = ["0+1", "0+1"]
    part(
        "layer_sum", kind="piece", of="layer", outputs={"g_a": a, "g_b": b, "squares": everywhere},
        inputs={"s_a": [a, {**a, "name": "t_a", "sent": {"ranks": halves, "dim": 1}}],
                "s_b": [b, {**b, "name": "t_b", "sent": {"ranks": halves}}]},
    )  # fmt: skip
    copy(
        "layer_sum", without=["squares"], outputs={"default": everywhere},
        inputs={"s_a": [{"name": "t_a", "sent": {"ranks": both, "dim": 1}}, {}],
                "s_b": [{"name": "t_b", "sent": {"ranks": both}}, {}]},
    )  # fmt: skip
    part("first_sum", kind="piece", of="first", inputs={"s_w": [{}, {"name": "t_w"}]}, outputs={"default": everywhere})
    copy("first_sum", without=["squares"], inputs={"s_w": [{"name": "t_w"}, {}]})
    copy("layer_update", inputs={"default": everywhere}, outputs={"default": everywhere})
    copy("first_update")
    table["mesh"] = {"axes": dict(AXES), "pipeline": "pp", "layouts": {"wide": {"axes": {"dp": 2}}}}
    table["model"] = {"pieces": ["first", "layer * 2", "last"], "stages": ["first, layer 0", "layer 1, last"]}
    table["schedule"] = {
        "devices": list(DEVICES),
        "pipelines": [{"stages": [0, 1], "microbatches": [0]}, {"stages": [2, 3], "microbatches": [1]}],
    }
    table["finish"]["reduce"] = ["first_own", "layer_own", "first_sum", "layer_sum"]


def _plan(folder: Path, edit: Edit | None = None, programs: Mapping[str, tuple[str, str]] | None = None,
          more: Mapping[str, str] | None = None) -> Path:  # fmt: skip
    def apart(table: dict[str, Any]) -> None:
        _apart(table)
        if edit is not None:
            edit(table)

    return write_plan(folder, programs, apart, {**MORE, **(more or {})}, {**AXES, "dp": 2})


def test_pipelines_with_degrees_of_their_own_are_proved(tmp_path: Path) -> None:
    report = verified(_plan(tmp_path))
    assert report.verdict is Verdict.PROVED, report.text(verbose=True)
