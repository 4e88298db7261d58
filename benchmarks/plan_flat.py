"""Small plans, every way of spreading that ``plan new`` has, as parts and as one job of all ranks, microbatches and
layers, with messages between stages: the relations that are proved must be the same.

    python benchmarks/plan_flat.py [NAME...]

The flat job is proved by ``refine``'s engine as one program, which knows nothing of parts. A shared parameter is one
input of it. PyTorch captures the plans.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from plan_ways import EXPERT, GROUPED, LATENT, TENSOR

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.flat_plans import flat_job
from tantamount.answers import verify_plan
from tantamount.capture.torch.llama.model import Shape
from tantamount.capture.torch.llama.plan import write_plan
from tantamount.capture.torch.llama.spread import Degrees
from tantamount.correspond.alignment import align
from tantamount.effort import Stopped, within
from tantamount.plan.read import read_plan
from tantamount.proof import Options, prove
from tantamount.verdict import Verdict

PATIENCE = 60.0  # CPU seconds for one job
SMALL = Shape(1, 8, 2, 2, 4, 6)
TWO_LAYERS = Shape(2, 8, 2, 2, 4, 6)
ONE_LAYER = replace(LATENT, layers=1, dense=0)
TWO_GROUPED = replace(GROUPED, layers=2)
ONE = {**TENSOR, "pp": 1, "tp": 2, "dp": 2, "optimizer": "sgd"}
WAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": (SMALL, ONE),
    "adamw": (SMALL, {**ONE, "optimizer": "adamw"}),
    "sp": (SMALL, {**ONE, "sp": True}),
    "zero 1": (SMALL, {**ONE, "zero": 1}),
    "zero 2": (SMALL, {**ONE, "zero": 2}),
    "zero 3": (SMALL, {**ONE, "zero": 3}),
    "recompute": (SMALL, {**ONE, "recompute": True}),
    "cp gather": (SMALL, {**ONE, "cp": 2}),
    "cp ulysses": (SMALL, {**ONE, "cp": 2, "context": "ulysses", "tp": 1}),
    "cp ring": (SMALL, {**ONE, "cp": 2, "context": "ring"}),
    "tied": (SMALL, {**ONE, "tied": True}),
    "tied, adamw, zero 1": (SMALL, {**ONE, "tied": True, "optimizer": "adamw", "zero": 1}),
    "pp": (TWO_LAYERS, {**ONE, "pp": 2}),
    "pp, adamw, zero 1, sp": (TWO_LAYERS, {**ONE, "pp": 2, "optimizer": "adamw", "zero": 1, "sp": True}),
    "pp, cp, zero 3": (TWO_LAYERS, {**ONE, "pp": 2, "cp": 2, "zero": 3}),
    "dualpipe": (TWO_LAYERS, {**ONE, "pp": 2, "microbatches": 4, "batch": 8, "schedule": "dualpipe"}),
    "dualpipe, zero 3, sp": (
        TWO_LAYERS, {**ONE, "pp": 2, "microbatches": 4, "batch": 8, "schedule": "dualpipe", "zero": 3, "sp": True},
    ),
    "experts": (LATENT, EXPERT),
    "experts, one layer": (ONE_LAYER, EXPERT),
    "aux loss": (GROUPED, {**EXPERT, "aux_loss": 0.01}),
    "aux loss, sp, cp": (GROUPED, {**EXPERT, "aux_loss": 0.01, "tp": 2, "sp": True, "cp": 2}),
    "ep": (GROUPED, {**EXPERT, "ep": 2, "dispatch": True}),
    "ep, capacity": (GROUPED, {**EXPERT, "ep": 2, "dispatch": True, "capacity": 1}),
    "ep, dp, sp, zero 1": (
        GROUPED, {**EXPERT, "ep": 2, "dp": 2, "batch": 8, "dispatch": True, "sp": True, "zero": 1},
    ),
    "ep, pp": (TWO_GROUPED, {**EXPERT, "ep": 2, "pp": 2, "tp": 1, "dispatch": True}),
    "ep, pp, dp, adamw": (
        TWO_GROUPED, {**EXPERT, "ep": 2, "pp": 2, "dp": 2, "batch": 8, "dispatch": True, "optimizer": "adamw"},
    ),
}  # fmt: skip


def main() -> int:
    wrong = 0
    for way, (shape, degrees) in WAYS.items():
        if sys.argv[1:] and way not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = write_plan(Path(folder), way, shape, Degrees(**degrees))
            begun = time.process_time()
            composed = verify_plan(path)
            middle = time.process_time()
            job = flat_job(read_plan(path))
            found: dict[str, str] = {}
            try:
                with within(PATIENCE):
                    ring = degrees.get("context") == "ring"  # whose ranks run programs of their own
                    proof = prove(job, Options(cut=True, align=align) if ring else Options(cut=False))
                    for name in job.outputs:
                        (output,) = proof.check(only=[name], infer=False)
                        found[name] = output.verdict.value
            except Stopped as stop:
                found["rest"] = str(stop)
        same = composed.verdict is Verdict.PROVED and set(found.values()) == {Verdict.PROVED.value}
        wrong += not same
        others = {name: verdict for name, verdict in found.items() if verdict != Verdict.PROVED.value}
        print(
            f"{'same' if same else 'NOT THE SAME':<12} {way:<12} {job.mesh.world_size:3} ranks, "
            f"{len(found):3} outputs, composed {composed.verdict.value} {middle - begun:.1f}, "
            f"flat {time.process_time() - middle:.1f} CPU s {dict(list(others.items())[:3]) or ''}",
            flush=True,
        )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
