"""PyTorch. Options: ``level``: eager, or a backend of ``torch.compile`` (aot_eager, inductor); ``device``: cpu or cuda;
``settings``: of PyTorch, as ``name=value``; ``disabled``: settings of Inductor as ``name=value``, which switch
something off; ``show``: tell the kernels made."""

from __future__ import annotations

import ast
import operator
import os
import re
import sys
from contextlib import ExitStack
from typing import Any
from unittest import mock

import numpy as np
import torch

__all__ = ["compiled", "versions"]

torch.set_num_threads(1)


def versions(device: str = "cpu") -> dict[str, str]:
    """Of what results depend on. Raises :class:`RuntimeError` where there is no such device."""
    found = {"torch": torch.__version__, "numpy": np.__version__}
    if device == "cpu":
        return found
    if not torch.cuda.is_available():
        raise RuntimeError(f"PyTorch {torch.__version__} finds no CUDA device")
    return {**found, "cuda": str(torch.version.cuda), "device": torch.cuda.get_device_name()}


def compiled(module: Any, options: dict[str, Any], inputs: list[dict[str, str]], arrays: list[Any]) -> Any:
    """The program, compiled when it first runs: it is run once here."""
    level, device = options.get("level", "inductor"), options.get("device", "cpu")
    for name, value in settings(options.get("settings", ())).items():
        place, _, last = name.rpartition(".")
        setattr(operator.attrgetter(place)(torch), last, value)
    for name, value in list(vars(module).items()):
        if isinstance(value, torch.Tensor):
            setattr(module, name, value.to(device))
    program = module.program
    if level != "eager":
        torch._dynamo.reset()
        program = torch.compile(program, backend=level, fullgraph=True, dynamic=False)
    tensors = [
        torch.from_numpy(np.array(a)).to(device, getattr(torch, item["dtype"]))
        for a, item in zip(arrays, inputs, strict=True)
    ]
    written: list[str] = []
    with ExitStack() as stack:
        if level == "inductor":
            import torch._inductor.config as config
            from torch._inductor.graph import GraphLowering

            stack.enter_context(config.patch({"fx_graph_cache": False, **settings(options.get("disabled", ()))}))
            if options.get("show", False):
                stack.enter_context(mock.patch.object(GraphLowering, "save_output_code", written.append))
        called(program, tensors, device)

    def run(given: list[Any]) -> tuple[list[Any], list[str]]:
        results = called(program, tensors, device)
        dtypes = [str(value.dtype).removeprefix("torch.") for value in results]
        return [(value.float() if value.dtype is torch.bfloat16 else value).cpu().numpy() for value in results], dtypes

    run.kernels = [kernel for code in written for kernel in described(code)]
    return run


def called(program: Any, tensors: list[Any], device: str) -> Any:
    """The results, when the device has computed them. After an error that leaves it unusable (an address that is none)
    the process ends, because all later programs would fail, too."""
    if device == "cpu":
        return program(*tensors)
    try:
        results = program(*tensors)
        torch.cuda.synchronize()
    except Exception as problem:
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            sys.stderr.write(f"{type(problem).__name__}: {problem}\n")
            os.abort()
        raise
    return results


def settings(words: Any) -> dict[str, Any]:
    """Settings written as ``name=value``."""
    return {name: ast.literal_eval(value) for name, _, value in (word.partition("=") for word in words)}


def described(code: str) -> list[str]:
    """The kernels of a module that Inductor wrote, without the numbers in them and in their names, and the operators
    that it calls."""
    kernels = re.findall(r"r?'''(.*?)'''", code, re.DOTALL)
    calls = re.findall(r"(?:extern_kernels|aten|torch\.ops)\.[\w.]+", code)
    return [re.sub(r"[ \t]+", " ", re.sub(r"\d+", "#", text)) for text in (*kernels, *calls)]
