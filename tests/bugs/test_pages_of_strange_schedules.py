"""A schedule with passes of microbatches that do not pass the stage, which is wrong and is said to be: the page with
its time line ended with a traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.plans import verified, write_plan
from tantamount.plan.page import plan_page
from tantamount.verdict import Verdict

FIRST = "0F0 0SEND_F0 0RECV_B0 0B0 0F1 0SEND_F1 0RECV_B1 0B1 0REDUCE_GRAD 0UPDATE"
SECOND = "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1REDUCE_GRAD 1UPDATE"


def test_a_schedule_with_a_pass_too_many_has_a_page(tmp_path: Path) -> None:
    def edit(table: dict[str, Any]) -> None:
        table["schedule"] = {"devices": [f"0F7 {FIRST}", SECOND]}

    report = verified(write_plan(tmp_path, {}, edit))
    assert report.verdict is Verdict.REFUTED
    assert report.schedule == ("device 0: 0F7 is of a stage or microbatch that the plan does not have",)
    page = plan_page(report)
    assert page.count("<svg") == 1
    assert report.schedule[0] in page
