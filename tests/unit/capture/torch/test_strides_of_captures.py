"""A captured ``as_strided`` reads what eager reads, however its operand lies in memory, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="captures run PyTorch")

from tantamount.capture.fx_json import parse_graph  # noqa: E402
from tantamount.capture.torch.fx_document import fx_document  # noqa: E402
from tantamount.capture.torch.tracing import trace  # noqa: E402
from tantamount.errors import UserError  # noqa: E402
from tantamount.limits import Limits  # noqa: E402
from tantamount.semantics.interpret import interpret  # noqa: E402

# Programs of x: float64[4, 6].
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda x: torch.as_strided(x, (4, 3), (6, 2)),
    "overlapping": lambda x: torch.as_strided(x, (5, 4), (4, 2), 1),
    "diagonal": lambda x: torch.as_strided(x, (4,), (7,)),
    "transposed": lambda x: torch.as_strided(x.t(), (6, 2), (1, 6)),
    "transposed, overlapping": lambda x: torch.as_strided(x.t(), (3, 3), (2, 3), 2),
    "permuted copy": lambda x: torch.as_strided(x.t().clone(), (3, 3), (2, 3), 2),
    "elementwise of a transposed one": lambda x: torch.as_strided(torch.relu(x.t()), (3, 3), (2, 3)),
    "a part": lambda x: torch.as_strided(x[1:, 2:], (2, 3), (6, 2)),
    "a part, from an offset": lambda x: torch.as_strided(x[1:, 2:], (2, 3), (6, 2), 3),
    "repeated": lambda x: torch.as_strided(x[:1].expand(4, 6), (3,), (2,)),
    "a copied slice": lambda x: torch.as_strided(x[1:].contiguous(), (3, 3), (4, 1), 2),
    "as a copy": lambda x: torch.as_strided_copy(x.t(), (6, 2), (1, 6)),
}  # fmt: skip


def _executed(program: Callable[[Any], Any], x: Any) -> Any:
    traced = trace(program, [x], {}, {}, [])
    document = fx_document(traced.module, [leaf.name for leaf in traced.inputs], [leaf.name for leaf in traced.outputs])
    import json

    graph = parse_graph(json.dumps(document), "g.json", Limits())
    values = interpret(graph, {traced.inputs[0].name: x.detach().numpy()})
    return values.array(graph.outputs[0].node)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("made", ["in order", "transposed"])
def test_what_is_read_is_what_eager_reads(program: Callable[[Any], Any], made: str) -> None:
    x = torch.arange(24, dtype=torch.float64).reshape(4, 6)
    x = x if made == "in order" else x.t().contiguous().t()
    np.testing.assert_array_equal(_executed(program, x), program(x).numpy())


def test_memory_that_no_tensor_fills_is_refused() -> None:
    x = torch.arange(48, dtype=torch.float64)[::2]
    with pytest.raises(UserError) as problem:
        _executed(lambda x: torch.as_strided(x, (3,), (1,)), x)
    assert problem.value.code == "capture"
    assert "memory that no tensor of the graph fills" in problem.value.found
