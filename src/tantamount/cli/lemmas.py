"""``tantamount rules``: the evidence for rules that users give."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tantamount.cli import terminal

__all__ = ["known_rules"]


def known_rules(files: Sequence[Path], effort: str) -> int:
    """Print what is known of the rules in some files; the exit code. Raises :class:`UserError`."""
    from tantamount.capture.rule_files import load_rules
    from tantamount.effort import effort_of
    from tantamount.limits import limits_from_environment
    from tantamount.rewriting.evidence import Standing, evidence_of

    limits = limits_from_environment()
    worst = 0
    for file in files:
        for rule in load_rules(file):
            found = evidence_of(rule, limits, effort_of(effort, None, None))
            terminal.out(f"{found.standing.value:8}  {found}\n")
            for assumption in found.assumptions:
                terminal.out(f"          {assumption.name}: {assumption.text}\n")
            if found.standing in (Standing.REFUTED, Standing.REJECTED):
                worst = 1
            elif found.standing is not Standing.PROVED and worst != 1:
                worst = 3
    return worst
