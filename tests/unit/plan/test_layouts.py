"""Degrees that differ: parts that know the ranks of a stage by other axes, and stages with other numbers of ranks."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.flat_plans import flat_job
from support.plan_run import run_plan
from support.plans import GROUPS, PROGRAMS, update, verified, write_plan
from tantamount.errors import UserError
from tantamount.ir.relation import Partial, Placement, Replicate, Shard
from tantamount.ir.relation_types import box_at
from tantamount.ir.types import DType, TensorType
from tantamount.plan.joints import differ, sent
from tantamount.plan.mutants import plan_mutants, write_mutant
from tantamount.plan.parts import Held, Messages
from tantamount.plan.read import read_plan
from tantamount.proof import Options, prove
from tantamount.verdict import Verdict

Edit = Callable[[dict[str, Any]], None]
SUM = 'Partial("sum")'

# The input layer has dp 4; what follows has dp 2 and tp 2, and between them every rank is sent rows of another one.
JOINED = """
    x: float32[2, 4]
    d_y: float32[4, 4]
    y = all_gather(x, 2, "tp")
    d_x = aten.slice.Tensor(d_y, 0, 0, 2)
    -> y, d_x
"""
WIDE: Mapping[str, str] = {
    "first": PROGRAMS["first"].replace("float32[4,", "float32[2,"),
    "first_reduce": PROGRAMS["first_reduce"].replace('"dp"', '"all"'),
    "joined.spec": "x: float32[16, 4]\nd_y: float32[16, 4]\ny = mul(x, 1)\nd_x = mul(d_y, 1)\n-> y, d_x",
    "joined": JOINED,
    "joined.other": JOINED.replace("0, 0, 2", "0, 2, 4"),
}


def _wide(table: dict[str, Any]) -> None:
    rows = {"microbatch": "Shard(0)", "all": "Shard(0)"}
    cut = {"microbatch": "Shard(0)", "dp": "Shard(0)", "tp": "Shard(0)"}
    plain = {"microbatch": "Shard(0)", "dp": "Shard(0)"}
    table["mesh"]["layouts"] = {"wide": {"axes": {"all": 4}}}
    table["part"]["first"] |= {
        "layout": "wide", "inputs": {"default": rows, "w": "Replicate()"},
        "outputs": {"y": rows, "d_w": {"microbatch": SUM, "all": SUM}},
    }  # fmt: skip
    table["part"]["first_reduce"]["inputs"] = {"d_w": {"all": SUM}}
    table["part"]["joined"] = {
        "spec": "joined.spec.json.gz", "impl": {"tp": ["joined.json.gz", "joined.other.json.gz"]},
        "before": {"hidden": ["x", "d_x"]}, "after": {"hidden": ["y", "d_y"]},
        "inputs": {"x": cut, "d_y": plain}, "outputs": {"y": plain, "d_x": cut},
    }  # fmt: skip
    table["model"] = {"pieces": ["first", "joined", "layer * 2", "last"],
                      "stages": ["first, joined, layer 0", "layer 1, last"]}  # fmt: skip


def _plan(folder: Path, edit: Edit | None = None, programs: Mapping[str, tuple[str, str]] | None = None) -> Path:
    def wide(table: dict[str, Any]) -> None:
        _wide(table)
        if edit is not None:
            edit(table)

    return write_plan(folder, programs, wide, WIDE, {**GROUPS, "all": 4})


def test_layers_with_other_degrees_are_proved_and_so_as_one_job(tmp_path: Path) -> None:
    path = _plan(tmp_path)
    report = verified(path)
    assert report.verdict is Verdict.PROVED, report.text()
    checked = prove(flat_job(read_plan(path)), Options(cut=False)).check(expand=False)
    assert {output.verdict for output in checked} == {Verdict.PROVED}, checked


WRONG_PROGRAMS = {
    "rows of other ranks": ("joined.other", ("0, 2, 4", "0, 0, 2")),
    "gathered along another dimension": ("joined", ("0, 0, 2", "0, 2, 4")),
    "a gradient is added up over the groups of other layers": ("first_reduce", ('"all")', '"dp")')),
}


def _with_axes(table: dict[str, Any]) -> None:
    table["mesh"]["layouts"]["wide"] = {"axes": {"all": 4, "dp": 1}}


def _in_two(table: dict[str, Any]) -> None:
    """The reduction knows the ranks of dp only: those of tp have other summands."""
    part = table["part"]["first_reduce"]
    part |= {"layout": "default", "inputs": {"d_w": {"dp": SUM}}}


def _crossed(table: dict[str, Any]) -> None:
    """The ranks are believed to have rows in another order: first along tp, then along dp."""
    table["mesh"]["layouts"]["crossed"] = {"axes": {"tp": 2, "dp": 2}}
    part = table["part"]["joined"]
    part["layout"] = "crossed"


def _last(table: dict[str, Any]) -> None:
    """The last piece is right in itself, with axes of the same names and sizes in another order."""
    table["mesh"]["layouts"]["crossed"] = {"axes": {"tp": 2, "dp": 2}}
    table["part"]["last"]["layout"] = "crossed"


@pytest.mark.parametrize("case", WRONG_PROGRAMS)
def test_wrong_programs_are_refuted(case: str, tmp_path: Path) -> None:
    name, change = WRONG_PROGRAMS[case]
    edit = _with_axes if name == "first_reduce" else None
    path = _plan(tmp_path, edit, {name: change})
    report = verified(path)
    assert report.verdict is Verdict.REFUTED, report.text()
    assert [part.part for part in report.parts if part.verdict is not Verdict.PROVED] == [name.split(".")[0]]
    assert max(run_plan(read_plan(path)).values()) > 1e-4


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (_in_two, 'Partial("sum") over all on all 4, but Partial("sum") over dp'),
        (_crossed, "joined               REFUTED"),
        (_last, "over microbatch and dp, Replicate() over tp on microbatch 2 x tp 2 x dp 2 is taken for granted"),
    ],
)
def test_joints_that_do_not_fit_are_refuted(edit: Edit, words: str, tmp_path: Path) -> None:
    report = verified(_plan(tmp_path, edit, {"first_reduce": ('"all")', '"dp")')} if edit is _in_two else None))
    assert report.verdict is Verdict.REFUTED, report.text()
    assert words in report.text()


# ---------------------------------------------------------------------------------------------- other numbers of ranks
def _counted(name: str, factor: float) -> str:
    """A reduction whose squares are a summand of all that the ranks of a stage have."""
    text = PROGRAMS[name].replace("squares = all_reduce(own,", "all_squares = all_reduce(own,")
    lines = [line for line in text.splitlines() if "all_squares" not in line]
    lines = [line.replace("squares = aten.sum.default(p)", "own = aten.sum.default(p)") for line in lines]
    end = next(k for k, line in enumerate(lines) if "->" in line)
    return "\n".join([*lines[:end], f"        squares = mul(own, {factor})", *lines[end:]])


NARROW: Mapping[str, str] = {
    "thin.spec": PROGRAMS["layer.spec"],
    "thin": PROGRAMS["layer.spec"].replace("float32[16,", "float32[4,"),
    "thin_reduce.spec": PROGRAMS["layer_reduce.spec"],
    "thin_reduce": _counted("layer_reduce", 0.5).replace("float32[4, 4]", "float32[4, 8]", 1).replace(
        "d_b: float32[4, 4]", "d_b: float32[8, 4]"
    ),
    "thin_update.spec": PROGRAMS["layer_update.spec"],
    "thin_update": PROGRAMS["layer_update.spec"],
    "layer_reduce": _counted("layer_reduce", 0.5),
    "first_reduce": _counted("first_reduce", 0.25),
    "norm": PROGRAMS["norm"].replace('"pp"', '"world"'),
}  # fmt: skip


def _narrow(table: dict[str, Any]) -> None:
    """Layers of the first stage have dp 2 and tp 2, those of the second dp 2 alone."""
    parts = table["part"]
    for name, old in (("thin", "layer"), ("thin_reduce", "layer_reduce"), ("thin_update", "layer_update")):
        parts[name] = {
            **{key: _without_tp(value) for key, value in parts[old].items()}, "spec": f"{name}.spec.json.gz",
            "impl": f"{name}.json.gz",
        }  # fmt: skip
        if "of" in parts[name]:
            parts[name]["of"] = "thin"
    parts["thin"]["layout"] = parts["last"]["layout"] = "narrow"
    everywhere = {"dp": SUM, "tp": SUM}
    parts["layer_reduce"]["outputs"]["squares"] = everywhere
    parts["first_reduce"]["outputs"] = {"g_w": "Replicate()", "squares": everywhere}
    parts["thin_reduce"]["outputs"]["squares"] = {"dp": SUM}
    parts["norm"]["inputs"] = {"total": {"world": SUM}}
    table["mesh"] |= {
        "layouts": {"narrow": {"axes": {"dp": 2}}},
        "messages": [
            {"to": "narrow", "ranks": ["0", "2"]},
            {"from": "narrow", "ranks": [0, 0, 1, 1]},
        ],
    }  # fmt: skip
    table["model"] = {"pieces": ["first", "layer", "thin", "last"], "stages": ["first, layer", "thin, last"]}
    table["finish"]["reduce"].append("thin_reduce")
    table["finish"]["update"].append("thin_update")


def _without_tp(value: Any) -> Any:
    return {k: _without_tp(v) for k, v in value.items() if k != "tp"} if isinstance(value, dict) else value


def _uneven(folder: Path, edit: Edit | None = None, programs: Mapping[str, tuple[str, str]] | None = None) -> Path:
    def narrow(table: dict[str, Any]) -> None:
        _narrow(table)
        if edit is not None:
            edit(table)

    return write_plan(folder, programs, narrow, NARROW, {**GROUPS, "world": 6})


def test_stages_with_other_numbers_of_ranks_are_proved(tmp_path: Path) -> None:
    path = _uneven(tmp_path)
    report = verified(path)
    assert report.verdict is Verdict.PROVED, report.text()
    assert max(run_plan(read_plan(path)).values()) < 1e-12
    assert "6 ranks (on devices of 4, 2)" in report.text()


def _word(reduced: str) -> Mapping[str, str]:
    gather = 'd: float32[4, 8]\nboth = all_reduce(d, "sum", "tied")\ng = {}\n-> g'
    step, thin = update("p", "g", "[4, 8]"), update("p", "g", "[8, 4]")
    passes = {name: NARROW[name] for name in ("thin.spec", "thin", "first_reduce")}
    return {
        **passes, "thin_reduce.spec": "d_b: float32[8, 4]\ng_b = mul(d_b, 1)\n-> g_b",
        "thin_reduce": 'd_b: float32[8, 4]\ng_b = all_reduce(d_b, "sum", "dp")\n-> g_b',
        "word_reduce.spec": "d: float32[4, 8]\ng = mul(d, 1)\n-> g", "word_reduce": gather.format(reduced),
        "word_update.spec": step, "word_update": step, "thin_update.spec": thin, "thin_update": thin,
    }  # fmt: skip


@pytest.mark.parametrize("over", [{"dp": SUM}, {}])
def test_what_copies_have_where_numbers_of_ranks_differ_is_added_up(over: dict[str, str], tmp_path: Path) -> None:
    """A shared parameter of two stages of two ranks each, after one of four."""

    def edit(table: dict[str, Any]) -> None:
        _narrow(table)
        parts = table["part"]
        for name in ("layer", "layer_reduce", "layer_update", "norm"):
            del parts[name]
        whole: dict[str, Any] = {"inputs": {"default": "Replicate()"}, "outputs": {"default": "Replicate()"}}
        taken: dict[str, dict[str, Any]] = {
            "word_reduce": whole | {"sums": {"d": {"thin": "d_a"}}, "inputs": {"d": {"tied": SUM, **over}}},
            "word_update": whole | {"takes": {"p": "word"}, "updates": {"new_p": "word"}},
            "thin_reduce": whole | {"inputs": {"d_b": {"dp": SUM}}},
            "thin_update": whole | {"takes": {"p": "b", "g": "g_b"}, "updates": {"new_p": "b"}},
        }
        for name, entries in taken.items():
            of = {"kind": "tied", "of": "word"} if "word" in name else {"kind": "piece", "of": "thin"}
            files = {"spec": f"{name}.spec.json.gz", "impl": f"{name}.json.gz"}
            parts[name] = {**of, **files, **entries, "layout": "narrow"}
        table["mesh"]["axes"]["pp"] = 3
        pieces, stages = ["first", "thin * 2", "last"], ["first", "thin 0", "thin 1, last"]
        table["model"] = {"pieces": pieces, "stages": stages, "tied": {"word": {"thin": "a"}}}
        table["symbols"] = ["lr", "factor"]
        table["finish"] = {
            "reduce": ["first_reduce", "thin_reduce"],
            "update": ["word_reduce", "first_update", "thin_update", "word_update"],
        }

    reduced = 'all_reduce(both, "sum", "dp")' if over else "mul(both, 1)"
    report = verified(write_plan(tmp_path, None, edit, _word(reduced), {**GROUPS, "pp": 3, "tied": 2, "world": 8}))
    assert report.verdict is (Verdict.PROVED if over else Verdict.REFUTED), report.text()


def _messages(k: int, **values: Any) -> Edit:
    def edit(table: dict[str, Any]) -> None:
        table["mesh"]["messages"][k] |= values

    return edit


UNEVEN: Mapping[str, tuple[Edit, str]] = {
    "rows of a replica": (_messages(0, ranks=["0", "1"]), "rank 1 is sent [0:4, 0:4] of the whole, and takes [4:"),
    "ranks exchanged": (_messages(0, ranks=["2", "0"]), "rank 0 is sent [4:8, 0:4]"),
    "half of it": (_messages(0, ranks=["0[0/2]", "2"]), "rank 0 is sent [0:2, 0:4]"),
    "gradients to ranks that have other rows": (_messages(1, ranks=[0, 1, 0, 1]), "rank 1 is sent [4:8, 0:4]"),
    "nobody sends": (lambda table: table["mesh"]["messages"].pop(), "nothing says what ranks of narrow send"),
    "a norm over replicas": (
        lambda table: table["part"]["norm"].update(inputs={"total": "Replicate()"}), "every stage has the sum over",
    ),
    "squares that all ranks have": (
        lambda table: table["part"]["thin_reduce"]["outputs"].update(squares="Replicate()"), "but Partial",
    ),
    "a stage of two sizes": (
        lambda table: table["model"].update(stages=["first, layer, thin", "last"]), "pieces for 2 and for 4 ranks",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNEVEN)
def test_what_does_not_come_as_it_is_taken_is_refuted(case: str, tmp_path: Path) -> None:
    edit, words = UNEVEN[case]
    programs = {"norm": ('all_reduce(total, "sum", "world")', "mul(total, 1)")} if "a norm" in case else {}
    programs |= {"thin_reduce": ("mul(own, 0.5)", "mul(own, 1.0)")} if "squares" in case else {}
    path = _uneven(tmp_path, edit, programs)
    report = verified(path)
    assert report.verdict is Verdict.REFUTED, report.text()
    assert words in report.text()
    if case not in ("half of it", "nobody sends", "a stage of two sizes"):  # these cannot be carried out
        assert max(run_plan(read_plan(path)).values()) > 1e-4


@pytest.mark.parametrize(
    ("stages", "verdict"),
    [
        (["first, layer", "", "thin, last"], Verdict.PROVED),  # its ranks get what those of the first stage send
        (["first, layer", "thin", "", "last"], Verdict.UNKNOWN),
    ],
)
def test_stages_without_pieces_change_numbers_of_ranks_once(
    stages: list[str], verdict: Verdict, tmp_path: Path
) -> None:
    """Such a stage has as many ranks as the mesh says, and nothing says what two of them would send to four."""

    def edit(table: dict[str, Any]) -> None:
        table["mesh"]["axes"]["pp"] = len(stages)
        table["model"]["stages"] = stages

    report = verified(_uneven(tmp_path, edit))
    assert report.verdict is verdict, report.text()
    assert [joint.source for joint in report.joints if joint.problem] == ["stage 2"] * (verdict is Verdict.UNKNOWN)


def test_messages_that_go_astray_are_refuted(tmp_path: Path) -> None:
    path = _uneven(tmp_path)
    found = (mutant for mutant in plan_mutants(read_plan(path), 2) if "is sent" in mutant.what)
    for k, mutant in enumerate(islice(found, 4)):
        report = verified(write_mutant(mutant, path, tmp_path / str(k)))
        assert report.verdict is Verdict.REFUTED, (mutant.what, report.text())


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (_messages(0, ranks=["0"]), "plan-messages"),
        (_messages(0, ranks=["0", "4"]), "plan-messages"),
        (_messages(0, ranks=["0", "2[2/2]"]), "plan-messages"),
        (_messages(0, ranks=["0", "two"]), "plan-messages"),
        (_messages(0, to="default"), "plan-messages"),
        (_messages(1, to="narrow"), "plan-messages"),
        (_messages(0, to="wide"), "plan-unknown-layout"),
        (lambda table: table["part"]["thin"].update(layout="wide"), "plan-unknown-layout"),
        (lambda table: table["mesh"]["layouts"].update(default={"axes": {"dp": 2}}), "plan-axis"),
        (lambda table: table["mesh"]["layouts"].update(more={"axes": {"microbatch": 2}}), "plan-axis"),
    ],
)
def test_bad_files(edit: Edit, code: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        read_plan(_uneven(tmp_path, edit))
    assert error.value.code == code, error.value


# ---------------------------------------------------------------------------------------------- against arrays
SHAPE = (16, 12)


def _held(axes: Sequence[tuple[str, int, Placement]]) -> Held:
    whole = TensorType(SHAPE, DType.FLOAT32)
    placements = {name: p if size > 1 else Replicate() for name, size, p in axes}
    sizes = {name: size for name, size, _ in axes}
    local = list(SHAPE)
    for name, placement in placements.items():
        if isinstance(placement, Shard):
            local[placement.dim] //= sizes[name]
    return Held(placements, sizes, whole, TensorType(tuple(local), DType.FLOAT32))


def _arrays(held: Held) -> list[Any]:
    """What every rank has of an array in which no two elements are alike, and the ranks whose sum that is."""
    found: list[Any] = [(np.arange(16 * 12).reshape(SHAPE), ())]
    for axis, size in held.sizes.items():
        placement = held.placements[axis]
        new: list[Any] = []
        for array, group in found:
            parts = np.split(array, size, placement.dim) if isinstance(placement, Shard) else [array] * size
            summed = isinstance(placement, Partial)
            new += [(part, group if summed else (*group, (axis, i))) for i, part in enumerate(parts)]
        found = new
    return found


def _same(first: Held, second: Held) -> bool:
    """True if all ranks have the same parts, and are summands of the same sums."""
    a, b = _arrays(first), _arrays(second)
    alike = len(a) == len(b) and all(np.array_equal(x, y) for (x, _), (y, _) in zip(a, b, strict=True))
    return alike and _classes([g for _, g in a]) == _classes([g for _, g in b])


def _classes(groups: Sequence[Any]) -> set[tuple[int, ...]]:
    return {tuple(k for k, other in enumerate(groups) if other == group) for group in groups}


def _drawn(rng: random.Random, sizes: Sequence[int], choice: Sequence[Placement]) -> Held:
    axes = [(f"a{k}", size, rng.choice(choice)) for k, size in enumerate(sizes)]
    rng.shuffle(axes)  # the same names may be in another order
    return _held(axes)


def test_relations_over_other_axes_are_the_same_if_all_ranks_have_the_same() -> None:
    rng = random.Random(3)
    choice = (Shard(0), Shard(0), Replicate(), Partial("sum"), Shard(1))
    equal = 0
    for _ in range(3000):
        first = _drawn(rng, rng.choice([(2, 2, 2), (4, 2), (2, 4), (8,), (1, 8), (2, 1, 4)]), choice)
        second = _drawn(rng, rng.choice([(2, 2, 2), (4, 2), (2, 4), (8,), (2, 2)]), choice)
        if any(size % np.prod([h.sizes[a] for a, p in h.placements.items() if p == Shard(d)], dtype=int)
               for h in (first, second) for d, size in enumerate(SHAPE)):  # fmt: skip
            continue
        assert (differ(first, second) == "") == _same(first, second), (first, second)
        equal += not differ(first, second)
    assert equal > 100


def _boxes(held: Held) -> tuple[list[Any], set[tuple[int, ...]]]:
    """What every rank has of a tensor of any shape, and the ranks whose sum that is."""
    assert held.whole is not None
    placements, sizes = tuple(held.placements.values()), tuple(held.sizes.values())
    found = [
        (box_at(held.whole.shape, placements, sizes, at),
         tuple(index for index, placement in zip(at, placements, strict=True) if not isinstance(placement, Partial)))
        for at in product(*map(range, sizes))
    ]  # fmt: skip
    return [box for box, _ in found], _classes([group for _, group in found])


def test_relations_of_uneven_parts_are_the_same_if_all_ranks_have_the_same() -> None:
    """Parts of several sizes, where the axes that do not cut them are called otherwise, were thought to differ."""
    rng = random.Random(5)
    choice = (Shard(0), Shard(0), Replicate(), Partial("sum"), Shard(1))
    meshes = [(2, 2, 2), (4, 2), (2, 4), (8,), (3, 2, 2), (3, 4), (2, 6), (6, 2), (12,)]
    equal = 0
    for _ in range(6000):
        shape, ends = rng.choice([(6, 5), (3, 8), (7, 12), (1, 9)]), list[Held]()
        for sizes in (rng.choice(meshes), rng.choice(meshes)):
            axes = {f"a{k}": size for k, size in enumerate(sizes)}
            placed = {name: rng.choice(choice) for name in axes}
            box = box_at(shape, tuple(placed.values()), sizes, (0,) * len(sizes))
            local = TensorType(tuple(stop - start for start, stop in box), DType.FLOAT32)
            ends.append(Held(placed, axes, TensorType(shape, DType.FLOAT32), local))
        first, second = ends
        assert (differ(first, second) == "") == (_boxes(first) == _boxes(second)), (first, second)
        equal += not differ(first, second) and first.sizes != second.sizes
    assert equal > 20


def test_messages_are_right_if_arrays_that_are_sent_are() -> None:
    rng = random.Random(4)
    choice = (Shard(0), Shard(0), Replicate(), Shard(1))
    right = 0
    for _ in range(6000):
        batch = ("m", 2, Shard(0))
        makers, takers = rng.choice([((2, 2), (2,)), ((2,), (2, 2)), ((4,), (2,)), ((2,), (4,)), ((2, 2), (1,))])
        made = _held([batch, *((f"a{k}", size, rng.choice(choice)) for k, size in enumerate(makers))])
        read = _held([batch, *((f"b{k}", size, rng.choice(choice)) for k, size in enumerate(takers))])
        count, dim = int(np.prod(makers)), rng.choice((0, 0, 1))
        ranks = tuple(tuple((rng.randrange(count), *rng.choice([(0, 1), (0, 1), (0, 2), (1, 2)]))
                            for _ in range(rng.choice((1, 1, 2)))) for _ in range(int(np.prod(takers))))  # fmt: skip
        if any(SHAPE[d] % np.prod([h.sizes[a] for a, p in h.placements.items() if p == Shard(d)], dtype=int)
               for h in (made, read) for d in (0, 1)):  # fmt: skip
            continue
        have, want = [x for x, _ in _arrays(made)], [x for x, _ in _arrays(read)]
        alike = True
        for m in range(2):
            for k, terms in enumerate(ranks):
                pieces = [_part(have[m * count + g], i, n, dim) for g, i, n in terms]
                whole = None if any(p is None for p in pieces) else _joined(pieces, dim)
                alike = alike and whole is not None and np.array_equal(whole, want[m * len(ranks) + k])
        problem = sent(made, read, Messages("a", "b", ranks, dim), "m")
        assert (problem == "") == alike, (made, read, ranks, dim, problem)
        right += alike
    assert right > 40


def _part(array: Any, k: int, count: int, dim: int) -> Any:
    return None if array.shape[dim] % count else np.split(array, count, dim)[k]


def _joined(parts: Sequence[Any], dim: int) -> Any:
    if len({part.shape[1 - dim] for part in parts}) > 1:
        return None
    return np.concatenate(parts, dim)
