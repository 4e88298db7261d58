"""What ``plan show`` prints, and what reports say of the time that a schedule takes."""

from __future__ import annotations

from pathlib import Path

from support.plans import verified, write_plan
from tantamount.plan.read import read_plan
from tantamount.plan.show import described

COSTS = "9 forward passes long, 33.3% of the time of all devices is waiting; "
KEPT = "activations of at most 2, 1 passes are kept, by device"


def test_a_time_line_of_every_device(tmp_path: Path) -> None:
    text = described(read_plan(write_plan(tmp_path)))
    assert f"  {COSTS}{KEPT}\n" in text
    assert "    device 0  01..aa.bb\n    device 1  .0aa1bb\n" in text


def test_what_is_wrong_with_a_schedule(tmp_path: Path) -> None:
    devices = ["0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0"]
    path = write_plan(tmp_path, edit=lambda table: table.update(schedule={"devices": devices}))
    text = described(read_plan(path))
    assert "  device 0: 0F1 is missing\n" in text
    assert "forward passes" not in text


def test_reports_have_the_costs_of_the_schedule(tmp_path: Path) -> None:
    report = verified(write_plan(tmp_path))
    assert f"  schedule   right\n    {COSTS}{KEPT}\n" in report.text()
    known = report.document()["schedule"]
    assert known == {"name": "1f1b", "problems": [], "passes": 9.0, "waiting": 0.3333, "kept": [2, 1]}
