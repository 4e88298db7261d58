"""Plans put together from captured parts, and written to a folder."""

# pyright: basic
from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from tantamount.capture.plan_text import in_ranges, in_runs
from tantamount.capture.programs import Program, write_document
from tantamount.capture.torch.training.ranks import Placed, Side, in_order
from tantamount.errors import UserError
from tantamount.writing import make_folder, write_file

__all__ = ["PlanFolder", "Table"]

Table = dict[str, Any]


@dataclass
class PlanFolder:
    """A plan that grows part by part. Graphs are written as they come, equal ones once, and its table in the end: until
    then the folder has no plan, neither this one nor one that was there before."""

    folder: Path
    parts: Table = field(default_factory=Table)
    order: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    assumed: list[str] = field(default_factory=list[str])
    _files: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        make_folder(self.folder)
        (self.folder / "plan.toml").unlink(missing_ok=True)

    def add(
        self, name: str, spec: Program, side: Side, inputs: Mapping[str, Any], outputs: Mapping[str, Any], table: Table
    ) -> None:
        """The part ``name``: its programs, the relations of all inputs and outputs of the specification, and what its
        tensors are to the plan. Raises :class:`UserError` for a tensor that nothing is known of."""
        cut = [f"{name}.{side.axis.replace('+', '_')}{k}" if side.axis else name for k in range(len(side.programs))]
        programs = [self._file(file, program) for file, program in zip(cut, side.programs, strict=True)]
        impl: Any = {side.axis: programs} if side.axis else programs[0]
        self.order |= side.order
        if side.captured < side.world:
            self.rests_on(
                f"of the {side.world} ranks of a stage, those that were not captured run what those run that were: "
                "coordinates 0, 1 and the last of every axis"
            )
        self.groups |= side.groups
        for kind, wanted, given in (
            ("input", [node.name for node in spec.graph.inputs], inputs),
            ("output", [output.name for output in spec.graph.outputs], outputs),
        ):
            for tensor in wanted:
                if tensor not in given:
                    raise UserError(
                        "plan-placement", place=f"{name}: {kind} {tensor}",
                        found="nothing that says what ranks hold of it",
                        needed='a line such as placements={"' + tensor + '": {"tp": "Shard(0)"}}',
                    )  # fmt: skip
        self.parts[name] = {
            "spec": self._file(f"{name}.spec", spec),
            "impl": impl,
            **{key: value for key, value in table.items() if value not in ([], {})},
            "inputs": {node.name: _table(inputs[node.name]) for node in spec.graph.inputs},
            "outputs": {output.name: _table(outputs[output.name]) for output in spec.graph.outputs},
        }

    def rests_on(self, text: str) -> None:
        """Let the plan say, once, that it rests on something that its parts do not show."""
        if text not in self.assumed:
            self.assumed.append(text)

    def _file(self, name: str, program: Program) -> str:
        text = json.dumps({**program.document, "rank": None}, sort_keys=True)
        if text not in self._files:
            self._files[text] = f"{name}.json.gz"
            write_document(self.folder / self._files[text], program.document)
        return self._files[text]

    def write(
        self,
        name: str,
        axes: Mapping[str, int],
        pipeline: str,
        microbatches: int,
        pieces: Sequence[str],
        stages: Sequence[Sequence[tuple[str, int]]],
        schedule: Table,
        finish: Table,
        symbols: Sequence[str] = (),
    ) -> Path:
        """``plan.toml``, and its path. ``pieces`` are the parts of the model in the order of the forward pass,
        ``stages`` the pieces (part, number) of every virtual stage."""
        ranked = [pipeline, *in_order([axis for axis in axes if axis != pipeline], frozenset(self.order))]
        groups = {group: list(spanned) for group, spanned in self.groups.items() if group not in axes}
        document: Table = {
            "format": "plan/1",
            "name": name,
            **({"symbols": list(symbols)} if symbols else {}),
            **({"assumed": self.assumed} if self.assumed else {}),
            "mesh": {
                "axes": {axis: axes[axis] for axis in ranked},
                "pipeline": pipeline,
                **({"groups": groups} if groups else {}),
            },
            "data": {"microbatches": microbatches},
            "model": {"pieces": in_runs(pieces), "stages": [in_ranges(stage) for stage in stages]},
            "schedule": schedule,
            **({"finish": finish} if finish else {}),
            "part": self.parts,
        }
        write_file(self.folder / "plan.toml", tomli_w.dumps(document))
        return self.folder / "plan.toml"


def _table(placed: Placed | str) -> Any:
    return placed if isinstance(placed, str) else dict(placed) if placed else "Replicate()"
