"""Programs of the fuzzer, run by PyTorch in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tantamount.fuzz.backends import backends
from tantamount.fuzz.backends.base import Outcome
from tantamount.fuzz.cases import Form
from tantamount.fuzz.oracle import Failure, compare
from tantamount.ir.graph import Graph

__all__ = ["failure_in_pytorch", "run_in_pytorch"]


def run_in_pytorch(graph: Graph, inputs: Mapping[str, Any]) -> list[Any]:
    """The tensors that a program gives, by the source that is emitted for it."""
    import torch

    space: dict[str, Any] = {}
    exec(backends()["eager"].emit(graph), space)
    given = [
        torch.from_numpy(np.array(inputs[node.name])).to(getattr(torch, node.type.dtype.label))
        for node in graph.inputs if node.type is not None
    ]  # fmt: skip
    return list(space["program"](*given))


def failure_in_pytorch(form: Form) -> Failure | None:
    """The failure that what PyTorch computes is; ``None`` if it is what is expected."""
    found = run_in_pytorch(form.graph, form.inputs)
    dtypes = tuple(str(y.dtype).removeprefix("torch.") for y in found)
    arrays = tuple((y.float() if name == "bfloat16" else y).numpy() for y, name in zip(found, dtypes, strict=True))
    return compare(backends()["eager"], form, Outcome("ok", arrays, dtypes))
