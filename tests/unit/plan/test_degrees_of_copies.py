"""Copies of one piece with degrees of their own: one pipeline has tp 2, the other dp 2; what they have is added up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.flat_copies import flat_copies
from support.plan_run import run_plan
from support.plans import PROGRAMS, update, verified, write_plan
from tantamount.errors import UserError
from tantamount.plan.read import read_plan
from tantamount.plan.show import described
from tantamount.proof import Options, prove
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
    return "\n".join(
        [*inputs, *added, *squares, total, more or "squares = mul(own, 1)", f"-> {', '.join(given)}, squares"]
    )


LAYER, HALF = (("a", "[4, 8]"), ("b", "[8, 4]")), (("a", "[4, 4]"), ("b", "[4, 4]"))
FIRST = (("w", "[6, 4]"),)
MORE: Mapping[str, str] = {
    **{name: PROGRAMS[name].replace("float32[4, 4]", "float32[8, 4]").replace("data: float32[4,", "data: float32[8,")
       for name in ("first", "last")},
    "layer": PROGRAMS["layer"].replace("x: float32[4", "x: float32[8").replace("d_y: float32[4", "d_y: float32[8"),
    **{f"wide_{name}": PROGRAMS[name] for name in ("first", "last")},
    "wide_layer": PROGRAMS["layer.spec"].replace("float32[16,", "float32[4,"),
    "layer_own.spec": _own(*LAYER, end="mul(D, 1)"), "layer_own": _own(*HALF, end="mul(D, 1)"),
    "wide_layer_own": _own(*LAYER, end='all_reduce(D, "sum", "dp")'),
    "first_own.spec": _own(*FIRST, end="mul(D, 1)"), "first_own": _own(*FIRST, end="mul(D, 1)"),
    "wide_first_own": _own(*FIRST, end='all_reduce(D, "sum", "dp")'),
    "layer_sum.spec": _both(*LAYER, sent=False),
    "layer_sum": _both(*HALF, more='squares = all_reduce(own, "sum", "tp")'),
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

    folder.mkdir(exist_ok=True)
    return write_plan(folder, programs, apart, {**MORE, **(more or {})}, {**AXES, "dp": 2, "world": 6})


def _single(table: dict[str, Any]) -> None:
    """Each pipeline is one device."""
    table["mesh"]["axes"]["pp"] = 2
    table["model"]["stages"] = ["first, layer 0-1, last"]
    table["schedule"] = {
        "devices": ["0F0 0B0", "1F1 1B1"],
        "pipelines": [{"stages": [0], "microbatches": [0]}, {"stages": [1], "microbatches": [1]}],
    }


def test_pipelines_with_degrees_of_their_own_are_proved_and_so_as_one_job(tmp_path: Path) -> None:
    path = _plan(tmp_path / "stages")
    report = verified(path)
    assert report.verdict is Verdict.PROVED, report.text(verbose=True)
    assert any(part.part == "layer_own, summands" for part in report.parts)
    assert max(run_plan(read_plan(path)).values()) < 1e-12
    assert "wide_layer           pass   in pipeline 1 for layer " in described(read_plan(path))
    path = _plan(tmp_path / "single", _single)
    assert verified(path).verdict is Verdict.PROVED
    checked = prove(flat_copies(read_plan(path)), Options(cut=False)).check(expand=False)
    assert [output.verdict for output in checked] == [Verdict.PROVED] * 10, checked


@pytest.mark.parametrize("of", ["a", "s_a"])
def test_what_is_made_of_whole_tensors_is_whole_beside_summands(of: str, tmp_path: Path) -> None:
    """A part that is given gradients of its own pipeline gives a copy of a parameter as well, which is updated: that
    was REFUTED, for it is no summand. One of a gradient is, and is not for an update."""

    def edit(table: dict[str, Any]) -> None:
        parts, a = table["part"], {"tp": "Shard(1)"}
        parts["layer_own"]["inputs"]["a"] = parts["layer_own"]["outputs"]["ra"] = a
        parts["wide_layer_own"]["inputs"]["a"] = "Replicate()"
        parts["layer_update"]["takes"] = {"a": "ra"}

    shapes = {"layer_own.spec": "[4, 8]", "layer_own": "[4, 4]", "wide_layer_own": "[4, 8]"}
    more = {
        name: f"a: float32{shape}\n" + MORE[name].replace("-> ", f"ra = mul({of}, 1)\n-> ra, ")
        for name, shape in shapes.items()
    }
    path = _plan(tmp_path / "plan", edit, None, more)
    report = verified(path)
    assert report.verdict is (Verdict.PROVED if of == "a" else Verdict.REFUTED), report.text()
    if of == "a":
        assert max(run_plan(read_plan(path)).values()) < 1e-12
        claims = {
            part.part: [output.name for output in part.outputs] for part in report.parts if "summands" in part.part
        }
        assert claims == {"layer_own, summands": ["s_a", "s_b"], "first_own, summands": ["s_w"]}
    else:
        assert any("layer_update takes ra of its own pipeline alone" in joint.problem for joint in report.joints)


def _split_elsewhere(table: dict[str, Any]) -> None:
    """The second pipeline has one stage, so that no two stages have the same pieces."""
    table["mesh"]["axes"]["pp"] = 3
    table["model"]["stages"].append("first, layer 0-1, last")
    table["schedule"] = {
        "devices": [*DEVICES[:2], "2F1 2B1"],
        "pipelines": [{"stages": [0, 1], "microbatches": [0]}, {"stages": [2], "microbatches": [1]}],
    }


def test_pipelines_with_a_name_and_pipelines_that_split_the_model_in_different_places(tmp_path: Path) -> None:
    named = {"name": "1f1b", "pipelines": 2}
    report = verified(_plan(tmp_path / "named", lambda table: table.update(schedule=named)))
    assert report.verdict is Verdict.PROVED, report.text()

    def later(table: dict[str, Any]) -> None:
        _split_elsewhere(table)
        order = table["finish"]
        order["update"] = [*order["reduce"][2:], *order["update"]]
        order["reduce"] = order["reduce"][:2]

    path = _plan(tmp_path / "later", later)
    report = verified(path)
    assert report.verdict is Verdict.PROVED, report.text()
    assert max(run_plan(read_plan(path)).values()) < 1e-12
    report = verified(_plan(tmp_path / "early", _split_elsewhere))
    assert report.verdict is Verdict.REFUTED
    assert "layer_sum adds up what copies of a piece have, whose stages differ in other pieces" in report.text()


def _both_ends(ends: tuple[str, str] = ("", "")) -> Edit:
    """Both pipelines are on two devices, each of which has the first stage of one and the last of the other."""
    devices = [
        "0F0 {0SEND_F0 3RECV_F1} 3F1 3B1 {3SEND_B1 0RECV_B0} 0B0",
        "2F1 {2SEND_F1 1RECV_F0} 1F0 1B0 {1SEND_B0 2RECV_B1} 2B1",
    ]

    def edit(table: dict[str, Any]) -> None:
        table["mesh"]["axes"]["pp"] = 2
        table["schedule"] = {
            "devices": [f"{events} {end}" for events, end in zip(devices, ends, strict=True)], "owners": [0, 1, 1, 0],
            "pipelines": [{"stages": [0, 1], "microbatches": [0]}, {"stages": [2, 3], "microbatches": [1]}],
        }  # fmt: skip

    return edit


def test_pipelines_on_the_same_devices_meet_in_one_order(tmp_path: Path) -> None:
    path = _plan(tmp_path / "right", _both_ends())
    report = verified(path)
    assert report.verdict is Verdict.PROVED, report.text()
    assert max(run_plan(read_plan(path)).values()) < 1e-12
    crosswise = [f"{a}REDUCE_GRAD {b}REDUCE_GRAD {a}UPDATE {b}UPDATE" for a, b in ((0, 3), (1, 2))]
    report = verified(_plan(tmp_path / "wrong", _both_ends((crosswise[0], crosswise[1]))))
    assert report.verdict is Verdict.REFUTED
    assert "0REDUCE_GRAD on device 0 and 1REDUCE_GRAD on device 1 meet, and are of other stages" in report.text()


def test_what_is_wrong_is_wrong_as_one_job(tmp_path: Path) -> None:
    path = _plan(tmp_path, _single, {"wide_layer_sum": ("add(s_a, t_a)", "add(s_a, s_a)")})
    checked = prove(flat_copies(read_plan(path)), Options(cut=False)).check(expand=False)
    assert {output.verdict for output in checked if ".a, 1" in output.name} == {Verdict.REFUTED}, checked


# ---------------------------------------------------------------------------------------------- wrong twins
PROGRAM: Mapping[str, tuple[str, str, str]] = {  # program, what is replaced by what
    "a pipeline's gradients are left out": ("layer_sum", "add(s_a, t_a)", "mul(s_a, 1)"),
    "a pipeline's gradients are counted twice": ("wide_layer_sum", "add(s_b, t_b)", "add(t_b, t_b)"),
    "a pipeline does not add up over its own ranks": ("wide_layer_own", 'all_reduce(d_a, "sum", "dp")', "mul(d_a, 1)"),
    "a pipeline is updated in another way": ("wide_layer_update", "new_b = sub(b, cb)", "new_b = add(b, cb)"),
    "a pipeline keeps what it had": ("wide_layer_update", "new_a = sub(a, ca)", "new_a = mul(a, 1)"),
    "a pipeline counts half of the squares": ("first_sum", "mul(own, 1)", "mul(own, 0.5)"),
}  # fmt: skip


@pytest.mark.parametrize("case", PROGRAM)
def test_wrong_programs_are_refuted(case: str, tmp_path: Path) -> None:
    name, old, new = PROGRAM[case]
    path = _plan(tmp_path, None, {name: (old, new)})
    report = verified(path)
    assert report.verdict is Verdict.REFUTED, report.text()
    assert [part.part for part in report.parts if part.verdict is not Verdict.PROVED] == [name]
    assert max(run_plan(read_plan(path)).values()) > 1e-4


def _sent(name: str, tensor: str, ranks: list[str]) -> Edit:
    def edit(table: dict[str, Any]) -> None:
        entries = table["part"][name]["inputs"][tensor]
        next(entry for entry in entries if "sent" in entry)["sent"]["ranks"] = ranks

    return edit


def _counted(table: dict[str, Any]) -> None:
    """Both pipelines have the squares of all gradients."""
    table["part"]["wide_first_sum"] |= {"impl": "counted.json.gz", "without": []}


def _events(device: int, old: str, new: str) -> Edit:
    def edit(table: dict[str, Any]) -> None:
        ends = ((0, "0"), (1, "1"), (2, "2"), (3, "3"))
        devices = [f"{table['schedule']['devices'][d]} {s}REDUCE_GRAD {s}UPDATE" for d, s in ends]
        assert old in devices[device]
        devices[device] = devices[device].replace(old, new)
        table["schedule"]["devices"] = devices

    return edit


def _part(name: str, **values: Any) -> Edit:
    return lambda table: table["part"][name].update(values)


def _without_update(table: dict[str, Any]) -> None:
    """Pipeline 1 has no update of its own: it would run the program of the other one."""
    del table["part"]["wide_layer_update"]


def _columns(table: dict[str, Any]) -> None:
    """In pipeline 1, a microbatch of the last piece is columns."""
    cut = {"microbatch": "Shard(1)", "dp": "Shard(0)"}
    loss = table["part"]["last"]["outputs"]["loss"]
    table["part"]["wide_last"] |= {"impl": "columns.json.gz", "inputs": {"x": cut},
                                   "outputs": {"d_x": cut, "loss": loss}}  # fmt: skip


def _mean(table: dict[str, Any]) -> None:
    """In pipeline 1, the loss is twice as much, and said to be a mean over microbatches."""
    given = table["part"]["last"]["outputs"]
    loss = {**given["loss"], "microbatch": 'Partial("avg")'}
    table["part"]["wide_last"] |= {"impl": "mean.json.gz", "outputs": {**given, "loss": loss}}


def _summand_updated(table: dict[str, Any]) -> None:
    for name in ("layer_update", "wide_layer_update"):
        part = table["part"][name]
        part |= {} if "kind" in part and part["kind"] == "copy" else {"takes": {"g_a": "s_a"}}


def _earlier(table: dict[str, Any]) -> None:
    table["finish"]["reduce"] = ["first_own", "first_sum", "layer_sum", "layer_own"]


def _one_gives(table: dict[str, Any]) -> None:
    """Only pipeline 0 has a part that adds up: the other one goes on with its summand."""
    table["part"]["wide_first_sum"] |= {"impl": "alone.json.gz", "inputs": {"s_w": "Replicate()"}}


EDITS: Mapping[str, tuple[Edit, str]] = {
    "halves of other ranks": (
        _sent("layer_sum", "s_a", ["0[1/2]", "1[0/2]"]), "rank 0 is sent [0:4, 4:8] of the whole, and takes [0:4, 0:4]"
    ),
    "halves that are exchanged": (_sent("wide_layer_sum", "s_b", ["0+1", "1+0"]), "rank 1 is sent parts that do not"),
    "one half": (_sent("wide_layer_sum", "s_b", ["0+1", "0"]), "rank 1 is sent [0:4, 0:4]"),
    "ranks that there are not": (_sent("layer_sum", "s_a", ["0[0/2]", "2[1/2]"]), "pipeline 1 has 2 ranks"),
    "nobody says who sends": (
        lambda table: table["part"]["layer_sum"]["inputs"]["s_a"][1].pop("sent"), "is taken for granted"
    ),
    "both pipelines count their squares": (_counted, "2 pipelines have squares, 0 of them a summand"),
    "no pipeline counts its squares": (
        lambda table: table["finish"]["reduce"].remove("layer_sum"), "pieces of layer have no squares"
    ),
    "the update of another pipeline": (_without_update, "is taken for granted"),
    "a pipeline is not updated by the schedule": (_events(3, " 3UPDATE", ""), "3UPDATE is missing"),
    "a reduction before the last backward pass": (
        _events(2, "2B1 2REDUCE_GRAD", "2REDUCE_GRAD 2B1"), "2B1 comes after the reduction of stage 2"
    ),
    "rows that are columns": (_columns, "what a microbatch has of it is Shard(1) over microbatch here, and Sh"),
    "a loss that is a sum, and a mean": (_mean, 'what a microbatch has of it is Partial("avg") over microbatch here'),
    "an update by a summand": (_summand_updated, "takes s_a of its own pipeline alone"),
    "a summand that is not there yet": (_earlier, "takes s_a, which nothing before it gives in pipeline 0"),
    "a parameter for a summand": (_part("layer_sum", takes={"s_a": "a"}), "a is the same in all pipelines, and"),
    "one pipeline adds up, the other does not": (_one_gives, "takes s_w of its own pipeline alone"),
    "a microbatch passes both pipelines": (
        lambda table: table["schedule"]["pipelines"][1].update(microbatches=[0, 1]), "microbatch 0 passes 2 pipelines"
    ),
    "a copy for all pipelines": (_part("wide_last", pipelines=[0, 1]), "last is a part that never runs"),
}  # fmt: skip
COLUMNS = "\n".join(line.replace("float32[4, 4]", "float32[8, 2]") for line in PROGRAMS["last"].splitlines())
TWINS: Mapping[str, str] = {
    "counted": _both(*FIRST), "columns": COLUMNS, "mean": PROGRAMS["last"].replace("64", "32"),
    "alone": "s_w: float32[6, 4]\ng_w = mul(s_w, 1)\n-> g_w",
}  # fmt: skip


@pytest.mark.parametrize("case", EDITS)
def test_wrong_plans_are_refuted(case: str, tmp_path: Path) -> None:
    edit, words = EDITS[case]
    path = _plan(tmp_path, edit, more=TWINS)
    report = verified(path)
    assert report.verdict is Verdict.REFUTED, report.text(verbose=True)
    assert words in report.text(), report.text()
    if case in ("halves of other ranks", "halves that are exchanged", "both pipelines count their squares"):
        assert max(run_plan(read_plan(path)).values()) > 1e-4


def test_what_is_made_of_summands_must_be_a_summand(tmp_path: Path) -> None:
    """Each pipeline adds 1 to what it has, as the specification does: the sum has 2."""
    change = "s_a = mul(d_a, 1)", "s_a = add(d_a, 1)"
    programs = {"layer_own.spec": change, "layer_own": change}
    more = {"wide_layer_own": MORE["wide_layer_own"].replace(
        's_a = all_reduce(d_a, "sum", "dp")', 'all_a = all_reduce(d_a, "sum", "dp")\ns_a = add(all_a, 1)')}  # fmt: skip
    path = _plan(tmp_path, None, programs, more)
    report = verified(path)
    assert report.verdict is Verdict.REFUTED
    assert [part.part for part in report.parts if part.verdict is not Verdict.PROVED] == ["layer_own, summands"]
    assert max(run_plan(read_plan(path)).values()) > 1e-4


def test_what_is_assumed_of_constants_is_assumed_of_summands(tmp_path: Path) -> None:
    change = "s_a = mul(d_a, 1)", "c = constant float32[]\ns_a = mul(d_a, c)"
    wide = MORE["wide_layer_own"].replace(
        's_a = all_reduce(d_a, "sum", "dp")',
        'c = constant float32[]\ne = mul(d_a, c)\ns_a = all_reduce(e, "sum", "dp")',
    )
    path = _plan(tmp_path, lambda table: table.update(assume={"constants": 2}),
                 {"layer_own.spec": change, "layer_own": change}, {"wide_layer_own": wide})  # fmt: skip
    assert verified(path).verdict is Verdict.PROVED


# ---------------------------------------------------------------------------------------------- other numbers of ranks
WHOLE: Mapping[str, str] = {
    **{f"wide_{name}": MORE[name] for name in ("first", "last")},
    "wide_layer": PROGRAMS["layer.spec"].replace("float32[16,", "float32[8,"),
    "wide_layer_own": _own(*LAYER, end="mul(D, 1)"), "wide_first_own": _own(*FIRST, end="mul(D, 1)"),
    "layer_sum": _both(*HALF), "first_sum": _both(*FIRST, more="squares = mul(own, 0.5)"),
    "norm": PROGRAMS["norm"].replace('"pp"', '"world"'),
}  # fmt: skip


def _uneven(table: dict[str, Any]) -> None:
    """The ranks of the second pipeline's devices are one each."""
    parts = table["part"]
    table["mesh"]["layouts"] = {"wide": {"axes": {"dp": 1}}}
    parts["norm"]["inputs"] = {"total": {"world": SUM}}
    for name in ("layer_sum", "first_sum"):
        given = parts[name]["outputs"]
        parts[name]["outputs"] = {**given, "squares": {"tp": SUM}}
    parts["wide_first_sum"]["outputs"] = {"default": "Replicate()"}
    for name, tensor, ranks, back in (
        ("layer_sum", "s_a", ["0[0/2]", "0[1/2]"], ["0+1"]), ("layer_sum", "s_b", ["0[0/2]", "0[1/2]"], ["0+1"]),
        ("first_sum", "s_w", ["0", "0"], ["0"]),
    ):  # fmt: skip
        for of, said in ((name, ranks), (f"wide_{name}", back)):
            entry = next(one for one in parts[of]["inputs"][tensor] if "name" in one)
            entry["sent"] = {**entry.get("sent", {}), "ranks": said}


def test_pipelines_of_other_numbers_of_ranks_are_proved(tmp_path: Path) -> None:
    path = _plan(tmp_path / "right", _uneven, more=WHOLE)
    report = verified(path)
    assert report.verdict is Verdict.PROVED, report.text(verbose=True)
    assert "6 ranks (on devices of 2, 2, 1, 1)" in report.text()
    assert max(run_plan(read_plan(path)).values()) < 1e-12

    def counted(table: dict[str, Any]) -> None:
        _uneven(table)
        table["part"]["first_sum"]["outputs"]["squares"] = "Replicate()"

    report = verified(_plan(tmp_path / "wrong", counted, {"first_sum": ("mul(own, 0.5)", "mul(own, 1)")}, WHOLE))
    assert report.verdict is Verdict.REFUTED
    assert 'Partial("sum") over tp is taken for granted' in report.text()


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (_part("wide_layer", pipelines=[2]), "plan-field"),
        (_part("wide_layer", pipelines=[]), "plan-field"),
        (_part("wide_layer", of="norm"), "plan-unknown-part"),
        (_part("wide_layer", of="wide_first"), "plan-unknown-part"),
        (_part("wide_layer", spec="layer.spec.json.gz"), "plan-unknown-key"),
        (_part("wide_layer", without=["d_a"]), "plan-field"),
        (_part("wide_first_sum", without=["other"]), "plan-unknown-tensor"),
        (_part("wide_first_update", without=["new_w"]), "plan-field"),
        (lambda table: table["part"].update(again=dict(table["part"]["wide_layer"])), "plan-field"),
        (lambda table: table["part"]["first_sum"]["inputs"]["s_w"].pop(), "plan-field"),
        (lambda table: table["part"]["first_sum"]["inputs"]["s_w"][1].pop("name"), "plan-missing-key"),
        (lambda table: table["part"]["first_sum"]["inputs"]["s_w"][0].update(sent={"ranks": [0, 1]}), "plan-field"),
        (_part("first_own", inputs={"d_w": [{}, {"name": "t"}]}), "job-unknown-input"),
        (_sent("layer_sum", "s_a", ["0"]), "plan-messages"),
        (_part("first", inputs={"default": [{}, {}]}), "plan-field"),
        (lambda table: table["model"].update(pieces=["first", "wide_layer * 2", "last"]), "plan-unknown-part"),
        (lambda table: table["finish"]["update"].append("wide_first_update"), "plan-unknown-part"),
        (lambda table: table["model"].update(tied={"word": {"first": "w"}}), "plan-copies"),
        (lambda table: table.update(assume={"dropout": "same mask"}), "plan-copies"),
        (lambda table: table["schedule"].pop("pipelines"), "plan-field"),
        (lambda table: table.update(schedule={"name": "1f1b", "pipelines": 3}), "plan-schedule"),
        (lambda table: table.update(schedule={"name": "dualpipe", "pipelines": 2}), "plan-schedule"),
        (lambda table: table.update(schedule={"name": "1f1b", "pipelines": "2"}), "plan-schedule"),
        (lambda table: table.update(schedule={"name": "1f1b", "pipelines": 0}), "plan-field"),
    ],
)
def test_bad_files(edit: Edit, code: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        read_plan(_plan(tmp_path, edit))
    assert error.value.code == code, error.value
