"""Rules that a comparison lacks: found where both programs part, written so that they can be given back."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import tantamount as tt
from support.jobs import job_files
from tantamount.answers import Answer
from tantamount.capture.rule_files import read_rules
from tantamount.cli.main import app
from tantamount.effort import Effort
from tantamount.limits import Limits
from tantamount.rewriting.evidence import Standing, evidence_of

INPUTS = "x: float32[5, 6]\nw: float32[6, 6]\n"
LAYER = "h{0} = mm({1}, w)\n{3}z{0} = softmax(a{0}, -1, False)\n{2} = add(z{0}, {1})\n"
ASINH = "a{0} = aten.asinh.default(h{0})\n"
LOGARITHM = """s{0} = mul(h{0}, h{0})
t{0} = add(s{0}, 1)
r{0} = aten.sqrt.default(t{0})
u{0} = add(r{0}, h{0})
a{0} = aten.log.default(u{0})
"""


def model(piece: str) -> str:
    layers = (LAYER.format(0, "x", "y0", piece.format(0)), LAYER.format(1, "y0", "y1", piece.format(1)))
    return f"{INPUTS}{''.join(layers)}-> y=y1"


def job(folder: Path, first: str, second: str, inputs: str = "x w") -> Path:
    relations = "\n".join(f'{name} = "Replicate()"' for name in inputs.split())
    return job_files(folder, first, (second,), f'[inputs]\n{relations}\n[outputs]\ny = "Replicate()"', {}, {})


def compared(path: Path, **options: object) -> Answer:
    return tt.compare(tt.read_job(path), **options)  # type: ignore[arg-type]


def test_an_open_piece_is_a_rule_that_can_be_given_back(tmp_path: Path) -> None:
    path = job(tmp_path, model(ASINH), model(LOGARITHM))
    file = tmp_path / "found.toml"
    found = CliRunner().invoke(app, ["compare", str(path), "--save-rules", str(file)])
    assert found.exit_code == 3
    assert "nothing else is missing" in found.output
    (rule,) = read_rules(file)  # one for both layers, for all sizes
    assert len(rule.sides.sizes.symbols) == 2
    assert len(rule.sides.specification.nodes) == 6
    refused = CliRunner().invoke(app, ["compare", str(path), "--rules", str(file)])
    assert (refused.exit_code, "PROVED up to tested rules" in refused.output) == (3, True)
    accepted = CliRunner().invoke(app, ["compare", str(path), "--rules", str(file), "--accept-tested"])
    assert (accepted.exit_code, "tested-rules" in accepted.output) == (0, True)


def test_tested_candidates_are_not_accepted_unless_they_are_given(tmp_path: Path) -> None:
    path = job(tmp_path, model(ASINH), model(LOGARITHM))
    assert compared(path, accept_tested=True).verdict is tt.Verdict.UNKNOWN


POSITIVE = """g = aten.log.default(h0)
q = mul(h0, h0)
i = aten.reciprocal.default(q)
j = add(i, 1)
k = aten.sqrt.default(j)
l = add(k, 1)
n = aten.log.default(l)
a0 = add(g, n)
"""


def test_what_holds_of_positive_numbers_alone_has_that_as_its_condition(tmp_path: Path) -> None:
    head, tail = f"{INPUTS}m = mm(x, w)\nh0 = aten.exp.default(m)\n", "y = mul(a0, 2)\n-> y"
    path = job(tmp_path, head + ASINH.format(0) + tail, head + POSITIVE + tail)
    file = tmp_path / "found.toml"
    tt.compare(tt.read_job(path), save_rules=file)
    (rule,) = read_rules(file)
    assert rule.holds is not None
    assert compared(path, rules=[file], accept_tested=True).proved
    file.write_text(file.read_text().replace('holds = "(x0 > 0)"\n', ""))
    (rule,) = read_rules(file)
    assert evidence_of(rule, Limits(), Effort()).standing is Standing.REFUTED


def test_a_candidate_that_z3_proves_is_used_at_once(tmp_path: Path) -> None:
    pytest.importorskip("z3")
    head, tail = (
        "x: float32[5, 6]\ny: float32[5, 6]\n",
        "a = aten.where.self(c, y, x)\nz = softmax(a, -1, False)\n-> y=z",
    )
    first = f"{head}q = mul(x, x)\nc = aten.gt.Scalar(q, 4)\n{tail}"
    second = f"{head}p = aten.gt.Scalar(x, 2)\nn = aten.lt.Scalar(x, -2)\nc = aten.logical_or.default(p, n)\n{tail}"
    found = compared(job(tmp_path, first, second, "x y"))
    assert found.proved
    assert any("proved by z3 for all sizes" in note for note in found.notes)
    wrong = second.replace("x, -2)", "x, -2.001)")
    assert compared(job(tmp_path, first, wrong, "x y")).verdict is not tt.Verdict.PROVED


def test_a_piece_that_is_no_program_at_other_sizes_is_a_rule_for_its_own(tmp_path: Path) -> None:
    """With symbols for sizes, the three first places of two rows are two: that ended the comparison with an error."""
    table = "keys: int64[5]\nc: float32[5, 2]\nk: float32[3, 2]\no = aten.sort.stable(keys, stable=True)\n"
    table += "p = getitem(o, 1)\nt = slice(p, 0, 0, 3)\n"
    ours = table + "a = index(c, [t])\nb = add(k, a)\ny0 = sub(b, a)\n-> y=y0"
    theirs = table + "w = aten.index_put.default(c, [t], k)\ny0 = index(w, [t])\n-> y=y0"
    found = compared(job(tmp_path, ours, theirs, "keys c k"))
    assert found.verdict is tt.Verdict.UNKNOWN
    assert 'x0 = "int64[5]"' in " ".join(found.notes)
