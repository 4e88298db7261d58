"""The examples of parallel styles with sizes of their batches as symbols."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import tantamount as tt

__all__ = ["STYLES", "Symbolic", "symbolic_example"]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_ROWS = {"x": {0: "N"}, "target": {0: "N"}}
_BATCH = {name: {0: "B", 1: "S"} for name in ("x", "target")}
_TOKENS = {name: {0: "B", 1: "S"} for name in ("tokens", "target")}

# example -> what it is, which sizes are symbols (None: the example says so itself), and for which it is proved
STYLES: dict[str, tuple[str, dict[str, dict[int, str]] | None, str]] = {
    "megatron_linear": ("Megatron column and row parallel by hand", _ROWS, "N >= 2"),
    "symbolic_sizes": ("Megatron sequence parallel by hand", None, "B >= 2, S >= 4, S % 2 == 0"),
    "tensor_parallel": ("DTensor Colwise and Rowwise", _BATCH, "B >= 2, S >= 2"),
    "sequence_parallel": ("DTensor SequenceParallel", _TOKENS, "B >= 2, S >= 4, S % 2 == 0"),
}


@dataclass
class Symbolic:
    """An example that was loaded so that its captures have size symbols, and the pairs that it refined."""

    module: Any
    pairs: list[tuple[Any, Any, dict[str, Any]]] = field(default_factory=list)

    def check(self, *, broken: bool = False) -> tt.Report:
        return self.module.check(broken=broken)


def symbolic_example(name: str, dynamic: dict[str, dict[int, str]] | None = None) -> Symbolic:
    """The example of that name; ``dynamic`` says which sizes are symbols, if other ones than :data:`STYLES` has."""
    found = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    example = Symbolic(module)
    chosen = STYLES[name][1] if dynamic is None else dynamic
    given: dict[str, Any] = {} if chosen is None else {"dynamic": chosen}

    def refine(specification: Any, implementation: Any, **relations: Any) -> tt.Report:
        example.pairs.append((specification, implementation, relations))
        return tt.refine(specification, implementation, **relations)

    capture, capture_ranks = partial(tt.capture, **given), partial(tt.capture_ranks, **given)
    module.tt = SimpleNamespace(capture=capture, capture_ranks=capture_ranks, refine=refine)
    return example
