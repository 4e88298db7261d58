"""Plans whose programs are written for any number of rows: any number of microbatches, and a smaller last one."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from support.jobs import typed_graph
from support.plans import GROUPS, PROGRAMS, document
from tantamount.answers import refine, verify_plan
from tantamount.capture.graph_document import graph_document
from tantamount.capture.interpolated import POINTS, with_symbols
from tantamount.capture.job import job_of
from tantamount.capture.late import late
from tantamount.capture.programs import write_document
from tantamount.errors import UserError
from tantamount.plan.read import read_plan
from tantamount.plan.result import PlanReport
from tantamount.verdict import Verdict

PASSES = ("first", "layer", "last")
Change = dict[str, tuple[str, str]]


def _written(text: str, rows: int, batch: int) -> str:
    """A program at some sizes: losses are means over the batch, 4 numbers a row."""
    text = re.sub(r"(data|x|d_y): float32\[\d+,", rf"\1: float32[{rows},", text)
    numbers = {"64": 4 * batch, "32": 2 * batch, "BATCH": batch, "ROWS": rows}
    return re.sub(r"\b(64|32|BATCH|ROWS)\b", lambda found: str(numbers[found[0]]), text)


def _plan(
    folder: Path, change: Change | None = None, microbatches: int = 4, last: int = 2,
    edit: Callable[[dict[str, Any]], None] | None = None,
) -> Path:  # fmt: skip
    """The small plan with size symbols: a rank has 2 rows of a microbatch, and ``last`` of the last one."""
    whole = 2 * (2 * (microbatches - 1) + last)
    folder.mkdir(exist_ok=True)
    changes = dict(change or {})
    for name, text in PROGRAMS.items():
        old, new = changes.pop(name, ("", ""))
        assert old in text
        text = text.replace(old, new) if old else text
        of = name.split(".")[0]
        if of in PASSES:
            hints = (whole if name.endswith("spec") else 2, whole)
            found = {point: graph_document(typed_graph(_written(text, *point), GROUPS)) for point in POINTS}
            write_document(folder / f"{name}.json.gz", with_symbols(found, ("R", "B"), hints, name))
        else:
            write_document(folder / f"{name}.json.gz", graph_document(typed_graph(text, GROUPS)))
    assert not changes
    table = document()
    table["data"] = {"microbatches": microbatches, "rows": "R", "batch": "B"} | ({"last": last} if last < 2 else {})
    if edit is not None:
        edit(table)
    path = folder / "plan.toml"
    path.write_text(tomli_w.dumps(table))
    return path


def _said(report: PlanReport) -> str:
    texts = (*report.holds, *report.notes)
    return " ".join(text for text in texts if "number of microbatches" in text or "numbers of microbatches" in text)


def test_any_number_of_microbatches(tmp_path: Path) -> None:
    report = verify_plan(_plan(tmp_path))
    assert report.verdict is Verdict.PROVED, report.text()
    assert _said(report).startswith("for every number of microbatches >= 1, here 4, of 2 rows of a rank")


@pytest.mark.parametrize("microbatches", [2, 5])
def test_the_sentence_holds_for_explicit_numbers(microbatches: int, tmp_path: Path) -> None:
    assert verify_plan(_plan(tmp_path, microbatches=microbatches)).verdict is Verdict.PROVED


LOSS, GRADIENT = "loss = aten.div.Tensor(t, 64)", "d_x = aten.div.Tensor(x, 32)"
FIXED: dict[str, Change] = {  # right for 4 microbatches of 2 rows, and for no other number
    "the scale": {"last": (GRADIENT, "d_x = mul(x, 0.03125)")},
    "a quarter": {"last": (LOSS, "m = aten.div.Tensor(t, 64)\nn = mul(m, BATCH)\nloss = aten.div.Tensor(n, 16)")},
}


@pytest.mark.parametrize("case", FIXED)
def test_what_is_right_for_4_and_wrong_for_5(case: str, tmp_path: Path) -> None:
    four = verify_plan(_plan(tmp_path / "4", FIXED[case]))
    assert four.verdict is Verdict.PROVED, four.text()
    assert _said(four).startswith("not shown for other numbers of microbatches: [part.last]: "), _said(four)
    assert "is REFUTED at microbatches = 2" in _said(four)
    five = verify_plan(_plan(tmp_path / "5", FIXED[case], microbatches=5))
    assert five.verdict is Verdict.REFUTED
    assert [part.part for part in five.parts if part.verdict is Verdict.REFUTED] == ["last"]


def test_a_smaller_last_microbatch_is_a_class_of_its_own(tmp_path: Path) -> None:
    report = verify_plan(_plan(tmp_path, last=1))
    assert report.verdict is Verdict.PROVED, report.text()
    names = [part.part for part in report.parts]
    assert names[:3] == ["first", "first, last microbatch", "first, rows apart"]
    assert _said(report).startswith("for every number of microbatches >= 2, here 4, of 2 rows of a rank, the last of")
    assert {part.ranks for part in report.parts if part.part.startswith("layer")} == {4, 1}
    jobs = [one.job for one in read_plan(tmp_path / "plan.toml").parts["layer"].classes()]
    assert [job.specification.computed for job in jobs] == [{"x", "a", "b", "d_y"}] * 3
    two = verify_plan(_plan(tmp_path / "2", microbatches=2, last=1))
    assert two.verdict is Verdict.PROVED, two.text()


MEANS = {"of the loss": ("loss", LOSS, "t", 0.125), "of the gradient": ("d_x", GRADIENT, "x", 0.25)}


@pytest.mark.parametrize(("case", "microbatches"), [("of the loss", 4), ("of the gradient", 2)])
def test_a_mean_of_means_is_wrong_where_the_last_is_smaller(case: str, microbatches: int, tmp_path: Path) -> None:
    output, old, summed, share = MEANS[case]
    new = f"m = aten.div.Tensor({summed}, ROWS)\n{output} = mul(m, {share / microbatches})"
    scaled = {"last": (old, new)}
    even = verify_plan(_plan(tmp_path / "even", scaled, microbatches))
    assert even.verdict is Verdict.PROVED, even.text()
    report = verify_plan(_plan(tmp_path / "uneven", scaled, microbatches, last=1))
    assert report.verdict is Verdict.REFUTED, report.text()
    wrong = {part.part: part for part in report.parts if part.verdict is Verdict.REFUTED}
    assert set(wrong) <= {"last", "last, last microbatch"}
    assert all(o.name == output for part in wrong.values() for o in part.outputs if o.verdict is Verdict.REFUTED)


def test_it_is_what_one_job_of_all_microbatches_is() -> None:
    """Three microbatches of 2, 2 and 1 rows on 2 ranks: the rows in the order that placements say, written out."""
    spec = """
        x: float32[10, 4]
        q = mul(x, x)
        t = aten.sum.default(q)
        loss = aten.div.Tensor(t, 40)
        d_x = aten.div.Tensor(x, 20)
        -> loss, d_x
    """
    parts = "".join(
        f"""
        x{k} = aten.slice.Tensor(x, 0, {low}, {high})
        q{k} = mul(x{k}, x{k})
        t{k} = aten.sum.default(q{k})
        loss{k} = aten.div.Tensor(t{k}, SCALE{k})
        d{k} = aten.div.Tensor(x{k}, 20)
        """
        for k, (low, high) in enumerate(((0, 2), (2, 4), (4, 5)))
    )
    rank = f"x: float32[5, 4]{parts}s = add(loss0, loss1)\nloss = add(s, loss2)\nd_x = cat([d0, d1, d2])\n-> loss, d_x"
    blocks = ", ".join(f"rank({r})[{low}:{high}]" for low, high in ((0, 2), (2, 4), (4, 5)) for r in (0, 1))
    document_: dict[str, Any] = {
        "format": "job/1", "spec": {"graph": "spec"}, "impl": {"graph": "rank", "mesh": {"dp": 2}},
        "inputs": {"x": f"concat({blocks}, dim=0)"},
        "outputs": {"loss": ['Partial("sum")'], "d_x": f"concat({blocks}, dim=0)"},
    }  # fmt: skip

    def verdict(scales: tuple[int, int, int]) -> Verdict:
        text = rank
        for k, scale in enumerate(scales):
            text = text.replace(f"SCALE{k}", str(scale))
        return refine(job_of(document_, {"spec": typed_graph(spec), "rank": typed_graph(text)})).verdict

    assert verdict((40, 40, 40)) is Verdict.PROVED
    assert verdict((48, 48, 24)) is Verdict.REFUTED  # a mean of means


def _data(**values: Any) -> Callable[[dict[str, Any]], None]:
    def edit(table: dict[str, Any]) -> None:
        table["data"].update(values)
        for name in [name for name, value in values.items() if value is None]:
            del table["data"][name]

    return edit


BAD: dict[str, dict[str, Any]] = {
    "more rows than the others": {"edit": _data(last=3)},
    "rows that make no such batch": {"edit": _data(microbatches=3)},
    "one microbatch": {"edit": _data(microbatches=1, last=1)},
    "another symbol": {"edit": _data(rows="Q")},
    "one symbol": {"edit": _data(rows="B")},
    "no symbols": {"edit": _data(rows=None, batch=None)},
}


@pytest.mark.parametrize("case", BAD)
def test_rows_that_do_not_fit_are_an_error(case: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="plan-rows"):
        read_plan(_plan(tmp_path, **BAD[case]))


def test_a_program_for_one_number_of_rows_has_no_smaller_last_one(tmp_path: Path) -> None:
    path = _plan(tmp_path, last=1)
    for name in ("layer", "layer.spec"):
        rows = 14 if name.endswith("spec") else 2
        write_document(
            tmp_path / f"{name}.json.gz", graph_document(typed_graph(_written(PROGRAMS[name], rows, 14), GROUPS))
        )
    with pytest.raises(UserError, match="size symbols: microbatches differ"):
        read_plan(path)


def test_programs_that_are_for_some_sizes_only(tmp_path: Path) -> None:
    """Then nothing is said of other numbers of microbatches."""
    path = _plan(tmp_path)
    file = tmp_path / "last.json.gz"
    document_ = json.loads(gzip.decompress(file.read_bytes()))
    document_["sizes"]["conditions"] = ["B % 16 == 0"]
    write_document(file, document_)
    report = verify_plan(path)
    assert report.verdict is Verdict.PROVED
    assert "[part.last]: its programs are for some numbers of rows only" in _said(report)
    document_["sizes"]["conditions"] = ["B % 3 == 0"]
    write_document(file, document_)
    with pytest.raises(UserError):
        read_plan(path)


def _with_statistics(spec: str = "0.9", rank: str = "0.9", summed: str = 'all_reduce(own, "sum", "dp")') -> Change:
    """A mean of all rows that goes through the first part, as running statistics are kept."""
    head = "running: float32[6]\n{0}\nold = mul(running, {1})\nnew = mul(m, 0.1)\nkept = add(old, new)\n-> kept,"
    ours = "t = aten.sum.dim_IntList(data, [0])\nm = aten.div.Tensor(t, ROWS)"
    theirs = f"own = aten.sum.dim_IntList(data, [0])\nt = {summed}\nm0 = aten.div.Tensor(t, ROWS)\nm = div(m0, 2)"
    return {"first.spec": ("->", head.format(ours, spec)), "first": ("->", head.format(theirs, rank))}


def _carried(more: Callable[[dict[str, Any]], None] | None = None, **data: Any) -> Callable[[dict[str, Any]], None]:
    def edit(table: dict[str, Any]) -> None:
        first = table["part"]["first"]
        first["carried"] = {"running": "kept"}
        first["inputs"]["running"] = first["outputs"]["kept"] = "Replicate()"
        table["data"].update(data)
        if more is not None:
            more(table)

    return edit


@pytest.mark.parametrize("last", [2, 1])
def test_state_that_passes_from_microbatch_to_microbatch(last: int, tmp_path: Path) -> None:
    """It is a recurrence: what one device does with the rows of one microbatch after the other."""
    report = verify_plan(_plan(tmp_path, _with_statistics(), last=last, edit=_carried()))
    assert report.verdict is Verdict.PROVED, report.text()
    assert "running of first passes from one microbatch to the next, in their order" in report.notes
    steps = [part.part for part in report.parts if "carried" in part.part]
    assert steps == ["first, carried", "first, carried by the last microbatch"][: 3 - last]
    assert _said(report).startswith("for every number of microbatches")


def _also(old: str, new: str) -> Change:
    """The same with another line in both programs, which comes after the state is given."""
    found: Change = {}
    for name, (place, more) in _with_statistics().items():
        text = PROGRAMS[name].replace(place, more.replace("running: float32[6]\n", ""))
        assert old in text
        found[name] = PROGRAMS[name], "running: float32[6]\n" + text.replace(old, new)
    return found


USED = ("y = mm(data, w)", "q = aten.sum.default(running)\ny0 = mm(data, w)\ny = mul(y0, q)")
LATE = (
    "kept = add(old, new)",
    'd = aten.sum.default(d_y)\ne = all_reduce(d, "sum", "dp")\nz = mul(e, 0)\no = add(old, z)\nkept = add(o, new)',
)


def test_what_is_received_depends_on_what_is_sent() -> None:
    graph = typed_graph(
        """
        state: float32[2]
        x: float32[2]
        buffer = aten.zeros_like.default(x)
        sent = _c10d_functional.isend.default(state, 0, 0, "dp")
        got = _c10d_functional.irecv.default(buffer, 0, 0, "dp")
        y = _c10d_functional.wait_tensor.default(got)
        z = mul(x, 2)
        -> y, z
        """,
        {"dp": 2},
    )
    assert "state" not in graph.ancestors("y")
    (waiting,) = late([graph], {"state"})
    assert "y" in waiting
    assert "z" not in waiting


def _backwards(table: dict[str, Any]) -> None:
    table["schedule"] = {
        "devices": [
            "0F1 0SEND_F1 0F0 0SEND_F0 0RECV_B1 0B1 0RECV_B0 0B0",
            "1RECV_F1 1F1 1RECV_F0 1F0 1B1 1SEND_B1 1B0 1SEND_B0",
        ]
    }


def _alone(table: dict[str, Any]) -> None:
    """No parts that run after the microbatches."""
    table |= {"finish": {}, "symbols": []}
    table["part"] = {name: part for name, part in table["part"].items() if not part.get("kind")}


def _in_two_pipelines(table: dict[str, Any]) -> None:
    _alone(table)
    table["model"]["stages"] = ["first, layer 0-2, last"] * 2
    pipelines = [{"stages": [0], "microbatches": [0]}, {"stages": [1], "microbatches": [1]}]
    table["schedule"] = {"devices": ["0F0 0B0", "1F1 1B1"], "owners": [0, 1], "pipelines": pipelines}


def _side_by_side(table: dict[str, Any]) -> None:
    _alone(table)
    table["mesh"]["axes"]["pp"] = 1
    table["model"]["stages"] = ["first, layer 0-2, last"]
    table["schedule"] = {"devices": ["{0F0 0F1} 0B0 0B1"]}


@pytest.mark.parametrize(
    ("change", "edit", "verdict", "words"),
    [
        (_with_statistics(), _in_two_pipelines, Verdict.UNKNOWN, "has 2 copies, each with microbatches of its own"),
        (_with_statistics(), _side_by_side, Verdict.REFUTED, "0F1 is beside microbatch 0, and first carries state on"),
        (_with_statistics(rank="0.99"), None, Verdict.REFUTED, "first, carried"),
        (_with_statistics(summed="mul(own, 1)"), None, Verdict.REFUTED, "first, carried"),
        (_also(*USED), None, Verdict.UNKNOWN, "y of first depends on running, which is carried from one"),
        (_also(*LATE), None, Verdict.UNKNOWN, "kept of first depends on d_y, which comes back"),
        (_with_statistics(), _backwards, Verdict.REFUTED, "0F0 comes after microbatch 1, and first carries state on"),
    ],
)  # fmt: skip
def test_state_that_is_not_the_recurrence(
    change: Change, edit: Any, verdict: Verdict, words: str, tmp_path: Path
) -> None:
    report = verify_plan(_plan(tmp_path, change, microbatches=2, edit=_carried(edit)))
    assert report.verdict is verdict, report.text()
    wrong = [part.part for part in report.parts if part.verdict is Verdict.REFUTED]
    assert words in " ".join((*wrong, *report.schedule, *(joint.problem for joint in report.joints)))


def test_state_has_the_shape_that_the_next_microbatch_takes(tmp_path: Path) -> None:
    def edit(table: dict[str, Any]) -> None:
        _side_by_side(table)
        table["schedule"] = {"devices": ["0F0 0B0 0F1 0B1"]}
        placed = {"microbatch": "Shard(0)", "dp": "Shard(0)"}
        table["part"]["first"] |= {"carried": {"running": "kept"}}
        table["part"]["first"]["inputs"]["running"] = table["part"]["first"]["outputs"]["kept"] = placed

    head = ("->", "running: float32[ROWS, 6]\nkept = add(running, data)\n-> kept,")
    plan = _plan(tmp_path, {"first.spec": head, "first": head}, microbatches=2, last=1, edit=edit)
    report = verify_plan(plan)
    assert report.verdict is Verdict.REFUTED
    assert any("next microbatch" in joint.target and joint.problem for joint in report.joints)
