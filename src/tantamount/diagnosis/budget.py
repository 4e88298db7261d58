"""The effort that looking for a repair may take."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tantamount.diagnosis.value_matches import ValueMatches
from tantamount.effort import Effort
from tantamount.execution.plans import Plan

__all__ = ["Budget", "budget_of"]


@dataclass(frozen=True)
class Budget:
    """The effort that all changes together may take: nodes, by the bound that says so, and CPU seconds until a time."""

    nodes: int
    bound: str
    until: float

    def spent(self, effort: Effort, matches: ValueMatches) -> bool:
        """True if nothing is left, which counts as a hit."""
        if matches.replay.effort > self.nodes:
            effort.hit(self.bound)
            return True
        if time.process_time() > self.until:
            effort.hit("repair_seconds")
            return True
        return False


def budget_of(plan: Plan, seconds: float) -> Budget:
    """The budget for the programs of a plan, from now on; ``seconds`` more than the bound ``repair_seconds`` says."""
    bounds = plan.store.effort.bounds
    nodes = len(plan.job.specification.nodes) + sum(len(graph.nodes) for graph in plan.job.implementation)
    most = min((bounds.repair_nodes, "repair_nodes"), (bounds.repair_executions * nodes, "repair_executions"))
    return Budget(*most, time.process_time() + bounds.repair_seconds + seconds)
