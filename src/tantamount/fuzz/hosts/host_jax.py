"""XLA through JAX. Options: ``level``: 0 to 3, XLA's backend optimisation level; ``device``: cpu or gpu; ``settings``:
of JAX, as ``name=value``; ``disabled``: anything switches all passes over HLO off; ``show``: tell the instructions of
the optimised program."""

from __future__ import annotations

import ast
import os
import re
import sys
from typing import Any

import jax
import jaxlib
import numpy as np

__all__ = ["compiled", "versions"]

jax.config.update("jax_enable_x64", True)


def versions(device: str = "cpu") -> dict[str, str]:
    """Of what results depend on. Raises :class:`RuntimeError` where there is no such device."""
    found = {"jax": jax.__version__, "jaxlib": jaxlib.__version__, "numpy": np.__version__}
    return found if device == "cpu" else {**found, "device": jax.devices(device)[0].device_kind}


def compiled(module: Any, options: dict[str, Any], inputs: list[dict[str, str]], arrays: list[Any]) -> Any:
    """The program, compiled."""
    device = options.get("device", "cpu")
    for word in options.get("settings", ()):
        name, _, value = word.partition("=")
        jax.config.update(name, ast.literal_eval(value))
    given = [jax.numpy.asarray(a, dtype=item["dtype"]) for a, item in zip(arrays, inputs, strict=True)]
    flags = {"xla_backend_optimization_level": int(options.get("level", 3))}
    if options.get("disabled"):  # single passes cannot be named in a program's options, only all of them
        flags["xla_disable_all_hlo_passes"] = True
    ready = jax.jit(module.program).lower(*given).compile(compiler_options=flags)

    def run(_: list[Any]) -> tuple[list[Any], list[str]]:
        results = called(ready, given, device)
        dtypes = [str(value.dtype) for value in results]
        return [
            np.asarray(value.astype("float32") if d == "bfloat16" else value)
            for value, d in zip(results, dtypes, strict=True)
        ], dtypes

    run.kernels = described(ready.as_text()) if options.get("show", False) else []
    return run


def called(program: Any, given: list[Any], device: str) -> Any:
    """The results, when the device has computed them. After an error that leaves it unusable (an address that is none)
    the process ends, because all later programs would fail, too."""
    try:
        return jax.block_until_ready(program(*given))
    except Exception as problem:
        if device != "cpu":
            try:
                jax.block_until_ready(jax.numpy.zeros(()) + 1)
            except Exception:
                sys.stderr.write(f"{type(problem).__name__}: {problem}\n")
                os.abort()
        raise


def described(text: str) -> list[str]:
    """The computations of a program in XLA's language, without names and sizes."""
    text = re.sub(r", (metadata|backend_config|sharding)={[^}]*}+", "", text)
    text = re.sub(r"%[\w.-]+", "%", re.sub(r"\d+", "#", text))
    return [part.strip() for part in text.split("\n\n")[1:] if part.strip()]
