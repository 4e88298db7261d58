"""PyTorch on the CPU. Options: ``level``: eager, or a backend of ``torch.compile`` (aot_eager, inductor)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

__all__ = ["compiled", "versions"]

torch.set_num_threads(1)


def versions() -> dict[str, str]:
    """Of what results depend on."""
    return {"torch": torch.__version__, "numpy": np.__version__}


def compiled(module: Any, options: dict[str, Any], inputs: list[dict[str, str]], arrays: list[Any]) -> Any:
    """The program, compiled when it first runs: it is run once here."""
    level = options.get("level", "inductor")
    program = module.program
    if level != "eager":
        torch._dynamo.reset()
        program = torch.compile(program, backend=level, fullgraph=True, dynamic=False)
    tensors = [
        torch.from_numpy(np.array(a)).to(getattr(torch, item["dtype"])) for a, item in zip(arrays, inputs, strict=True)
    ]
    program(*tensors)

    def run(given: list[Any]) -> tuple[list[Any], list[str]]:
        results = program(*tensors)
        dtypes = [str(value.dtype).removeprefix("torch.") for value in results]
        return [(value.float() if value.dtype is torch.bfloat16 else value).numpy() for value in results], dtypes

    return run
