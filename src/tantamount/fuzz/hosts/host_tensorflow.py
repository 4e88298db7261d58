"""TensorFlow on the CPU. Options: ``level``: eager, graph (tf.function) or xla (compiled); ``disabled``:
optimisers of graphs that are switched off; ``show``: tell the instructions of the program that XLA optimised."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import tensorflow as tf

__all__ = ["compiled", "versions"]

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)

_off: set[str] = set()  # what an earlier program switched off, which this process would keep


def versions() -> dict[str, str]:
    """Of what results depend on."""
    return {"tensorflow": tf.__version__, "numpy": np.__version__}


def compiled(module: Any, options: dict[str, Any], inputs: list[dict[str, str]], arrays: list[Any]) -> Any:
    """The program, traced and compiled when it first runs: it is run once here."""
    level, disabled = options.get("level", "xla"), options.get("disabled", ())
    tf.config.optimizer.set_experimental_options({name: name not in disabled for name in (*_off, *disabled)})
    _off.update(disabled)
    program = module.program if level == "eager" else tf.function(module.program, jit_compile=level == "xla")
    given = [tf.cast(tf.constant(a), item["dtype"]) for a, item in zip(arrays, inputs, strict=True)]
    program(*given)

    def run(_: list[Any]) -> tuple[list[Any], list[str]]:
        results = [tf.convert_to_tensor(value) for value in program(*given)]
        dtypes = [value.dtype.name for value in results]
        return [
            (tf.cast(value, tf.float32) if dtype == "bfloat16" else value).numpy()
            for value, dtype in zip(results, dtypes, strict=True)
        ], dtypes

    if options.get("show", False) and level == "xla":
        run.kernels = described(program.experimental_get_compiler_ir(*given)(stage="optimized_hlo"))
    return run


def described(text: str) -> list[str]:
    """The computations of a program in XLA's language, without names and sizes."""
    text = re.sub(r", (metadata|backend_config|sharding)={[^}]*}+", "", text)
    text = re.sub(r"%[\w.-]+", "%", re.sub(r"\d+", "#", text))
    return [part.strip() for part in text.split("\n\n")[1:] if part.strip()]
