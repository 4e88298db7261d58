"""Parallel styles with symbolic sizes, forward and backward: one proof for all sizes, which holds at single ones when
they are numbers; broken twins are refuted at the right place."""

from __future__ import annotations

import pytest

import tantamount as tt
from support.amount import EVERYTHING, cases
from support.symbolic import STYLES, symbolic_example
from tantamount import Verdict

pytest.importorskip("torch", reason="captures need PyTorch")
pytest.importorskip("z3", reason="the extra smt: sizes that a capture need not exclude are found by a solver")

BLAMED = {
    "megatron_linear": "linear(self.copy.apply(x)",
    "symbolic_sizes": "target[mine].numel()",
}
LONG = ["sequence_parallel"]  # the other of two with DTensors
NAMES = cases([name for name in STYLES if name not in LONG], LONG)
# Of DTensors with two symbols one is left: traces of these are many.
FEWER = {} if EVERYTHING else {"tensor_parallel": ({name: {0: "B"} for name in ("x", "target")}, "B >= 2")}
AT = {"B": (2, 3), "S": (6, 4), "N": (2, 5)}


@pytest.mark.parametrize("name", NAMES)
def test_style_is_proved_for_all_sizes(name: str) -> None:
    dynamic, wanted = FEWER.get(name, (None, STYLES[name][2]))
    example = symbolic_example(name, dynamic)
    report = example.check()
    assert report.verdict is Verdict.PROVED, str(report)
    sizes = [a.text for a in report.assumptions if a.name.startswith("sizes")]
    assert sizes == [f"for all sizes with {wanted}"]
    specification, implementation, relations = example.pairs[0]
    job = specification.against(implementation, **{"inputs": None, "outputs": None, "assume": None, **relations})
    for k in range(2):
        values = {symbol.name: AT[symbol.name][k] for symbol in job.sizes.symbols}
        assert job.sizes.contains(values)
        there = tt.refine(job.at(values))
        assert there.verdict is Verdict.PROVED, str(there)
        assert [str(o.relation) for o in there.outputs] == [str(o.relation) for o in report.outputs]


# Captures with DTensor and symbols take PyTorch half a minute; their twins are refuted at fixed sizes, too.
@pytest.mark.parametrize("name", [name for name, (what, *_) in STYLES.items() if "DTensor" not in what])
def test_broken_twin_is_refuted_at_some_size(name: str) -> None:
    report = symbolic_example(name).check(broken=True)
    assert report.verdict is Verdict.REFUTED, str(report)
    assert BLAMED[name] in str(report)
    assert any("the sizes may be any with" in note for note in report.notes)
