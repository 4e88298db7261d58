"""Two microbatches of which the last is smaller are two classes of one microbatch each, and at joints axes of one rank
do not count. So a number that each microbatch had a summand of was passed on as if each had all of it, and PROVED."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from support.jobs import typed_graph
from support.plans import GROUPS, PROGRAMS, document
from tantamount.answers import verify_plan
from tantamount.capture.graph_document import graph_document
from tantamount.capture.interpolated import POINTS, with_symbols
from tantamount.capture.programs import write_document
from tantamount.verdict import Verdict

SUM, ALL = 'Partial("sum")', "Replicate()"
MORE = {  # the sum of the data goes along with the rows, and is a result
    "first": ("-> y, d_w", "aux = aten.sum.default(data)\n-> y, d_w, aux"),
    "layer": ("-> y, d_a, d_b, d_x", "on = mul(aux, 1)\n-> y, d_a, d_b, d_x, on"),
    "last": ("-> loss, d_x", "total = mul(aux, 1)\n-> loss, d_x, total"),
}


def _program(name: str, rows: int, batch: int) -> str:
    of = name.split(".")[0]
    text = PROGRAMS[name].replace(*MORE[of])
    if of != "first":
        text = re.sub(r"(x: float32\[\d+, 4\])", r"\1\naux: float32[]", text, count=1)
    text = re.sub(r"(data|x|d_y): float32\[\d+,", rf"\1: float32[{rows},", text)
    return text.replace("(t, 64)", f"(t, {4 * batch})").replace("(x, 32)", f"(x, {2 * batch})")


def _plan(folder: Path, microbatches: int, last: int, over: str) -> Path:
    """Passes alone, of 2 rows a rank and ``last`` of the last microbatch; behind the first piece microbatches have
    ``over`` of the number."""
    whole = 2 * (2 * (microbatches - 1) + last)
    for name in (f"{part}{end}" for part in MORE for end in ("", ".spec")):
        hints = (whole if name.endswith("spec") else 2, whole)
        found = {point: graph_document(typed_graph(_program(name, *point), GROUPS)) for point in POINTS}
        write_document(folder / f"{name}.json.gz", with_symbols(found, ("R", "B"), hints, name))
    table: dict[str, Any] = document()
    table["data"] = {"microbatches": microbatches, "rows": "R", "batch": "B"} | ({"last": last} if last < 2 else {})
    table["part"] = {name: table["part"][name] for name in MORE}
    del table["finish"], table["symbols"]
    first, layer, end = table["part"].values()
    first["after"]["aux"] = ["aux"]
    first["outputs"]["aux"] = {"microbatch": SUM, "dp": SUM}
    layer["before"]["aux"], layer["after"]["aux"] = ["aux"], ["on"]
    layer["inputs"]["aux"] = layer["outputs"]["on"] = {"microbatch": over, "dp": SUM}
    end["before"]["aux"] = ["aux"]
    end["inputs"]["aux"] = end["outputs"]["total"] = {"microbatch": over, "dp": SUM}
    end["results"].append("total")
    path = folder / "plan.toml"
    path.write_text(tomli_w.dumps(table))
    return path


@pytest.mark.parametrize(("microbatches", "last"), [(4, 2), (3, 1), (2, 2), (2, 1)])
@pytest.mark.parametrize("over", [SUM, ALL])
def test_what_microbatches_have_is_compared_however_many_are_alike(
    over: str, microbatches: int, last: int, tmp_path: Path
) -> None:
    report = verify_plan(_plan(tmp_path, microbatches, last, over))
    assert {part.verdict for part in report.parts} == {Verdict.PROVED}, report.text()
    problems = [joint.problem for joint in report.joints if joint.problem]
    if over == SUM:
        assert (report.verdict, problems) == (Verdict.PROVED, [])
        return
    assert report.verdict is Verdict.REFUTED
    words = 'the ranks have Partial("sum") over microbatch and dp, Replicate() over tp, but Replicate() over microbatch'
    assert len(problems) == 1, report.text()
    assert problems[0].startswith(words)
