"""Where the values of two programs part, before any change is tried."""

from __future__ import annotations

from collections.abc import Sequence

from tantamount.diagnosis.start import Start, start_on
from tantamount.execution.plans import Scale, plan_execution
from tantamount.ir.job import Job
from tantamount.limits import Limits
from tantamount.proof import Options, prove


def start_of(job: Job, outputs: Sequence[str]) -> Start:
    """The values on one random input, on which one of the outputs differs."""
    sides = prove(job, Options())
    plan = plan_execution(sides.store, job, sides.inputs, sides.specification, sides.implementation, Limits())
    found = start_on(plan, outputs, [(11, Scale())])
    assert found is not None
    return found
