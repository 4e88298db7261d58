"""The sign of a zero that was computed was taken for that of one that is given, wherever something stood for what was
computed: a tensor that was cut out of both programs, the input of a rule, a variable of z3. ``-relu(w)`` is -0.0 where
w is below 0: ``signbit`` tells it from 0, ``< 0`` does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from support.jobs import job_files
from tantamount import read_job
from tantamount.capture.rule_files import read_rules
from tantamount.correspond.alignment import align
from tantamount.effort import Effort
from tantamount.errors import Unsupported
from tantamount.ir.graph import Graph
from tantamount.ir.job import Job, UserRule
from tantamount.limits import Limits
from tantamount.proof import Options
from tantamount.proof.lemmas import prove_in_pieces
from tantamount.proof.places import places_of
from tantamount.refinement.job import refine_job
from tantamount.rewriting.evidence import Standing, evidence_of
from tantamount.rewriting.settle import with_rules
from tantamount.smt.engine import compare
from tantamount.verdict import Verdict

GIVEN = "x: float32[3]\nw: float32[3]\n"
ZERO = GIVEN + "z = relu(w)\nn = aten.neg.default(z)\n"
BELOW = ZERO + "b = lt(n, 0)\ny = aten.where.self(b, w, x)\n-> y"
SIGNED = ZERO + "b = aten.signbit.default(n)\ny = aten.where.self(b, w, x)\n-> y"
SIZE = GIVEN + "y = aten.abs.default(x)\n-> y"
COPIED = GIVEN + "y = aten.copysign.Scalar(x, -0.0)\n-> y"


def job(folder: Path, first: str, second: str) -> Job:
    return read_job(job_files(folder, first, [second], '[inputs]\ndefault = "Replicate()"\n', {}, {}))


def untyped(graph: Graph) -> Graph:
    """As a file without recorded types has it."""
    return replace(graph, nodes=tuple(n if n.op == "input" else replace(n, type=None) for n in graph.nodes))


def rule(folder: Path, left: str, right: str) -> UserRule:
    file = folder / "rules.toml"
    file.write_text(
        f'format = "rules/1"\n[rules.one]\ninputs = {{ x = "float32[N]" }}\nleft = "{left}"\nright = "{right}"\n'
    )
    return read_rules(file)[0]


def test_eager_tells_them_apart() -> None:
    w = torch.tensor([-1.0])
    n = -torch.relu(w)
    assert torch.signbit(n).item() != (n < 0).item()
    assert torch.copysign(w.abs(), torch.tensor(-0.0)).item() == -1


@pytest.mark.parametrize("sides", [(BELOW, SIGNED), (SIGNED, BELOW)], ids=["below", "signed"])
def test_of_what_was_cut_out_of_both_programs(sides: tuple[str, str], tmp_path: Path) -> None:
    assert refine_job(job(tmp_path, *sides), cut_from=1).verdict is Verdict.UNKNOWN


def test_of_what_one_piece_hands_on_to_the_next(tmp_path: Path) -> None:
    """Layers that are proved one by one: each is given a zero of another sign by the two programs."""

    def program(last: str) -> str:
        layer = "c{k} = aten.copysign.Tensor(y, t{k})\nd{k} = add(c{k}, t{k})\na{k} = mm(d{k}, w{k})\n"
        layer += "b{k} = tanh(a{k})\np{k} = mul(b{k}, d{k})\ns{k} = aten.sin.default(p{k})\ne{k} = mm(s{k}, w{k})\n"
        layer += "f{k} = mul(e{k}, p{k})\ng{k} = add(f{k}, b{k})\nh{k} = mul(g{k}, e{k})\ni{k} = add(h{k}, b{k})\n"
        layer += "j{k} = mm(i{k}, w{k})\nl{k} = add(j{k}, b{k})\nm{k} = tanh(l{k})\nn{k} = add(m{k}, d{k})\n"
        layer += "q{k} = mul(n{k}, b{k})\n" + last
        weights = "".join(f"w{k}: float32[3, 3]\n" for k in range(6))
        layers = "".join(layer.format(k=k, n=k + 1) for k in range(6))
        return f"x: float32[3, 3]\ny: float32[3, 3]\n{weights}t0 = aten.sin.default(x)\n{layers}-> out=t6"

    ours = program("r{k} = relu(q{k})\nt{n} = aten.neg.default(r{k})\n")
    theirs = program("r{k} = aten.neg.default(q{k})\nt{n} = aten.clamp.default(r{k}, None, 0)\n")
    relations = '[inputs]\ndefault = "Replicate()"\n[outputs]\nout = "Replicate()"\n'
    wrong = read_job(job_files(tmp_path, ours, [theirs], relations, {}, {}))
    assert len(places_of(wrong)) > 4
    assert prove_in_pieces(wrong, Options(align=align), least=0) is None


def test_of_what_a_rule_is_applied_to(tmp_path: Path) -> None:
    given = job(tmp_path, BELOW, SIGNED)
    given = replace(
        given,
        specification=untyped(given.specification),
        implementation=tuple(untyped(graph) for graph in given.implementation),
    )
    one = rule(tmp_path, "x < 0", "aten.signbit.default(x)")
    effort = Effort()
    found = with_rules(refine_job(given), given, [one], refine_job, limits=Limits(), effort=effort, accept_tested=False)
    assert found.verdict is Verdict.UNKNOWN


def test_of_numbers_in_terms_of_z3(tmp_path: Path) -> None:
    pytest.importorskip("z3")
    one = rule(tmp_path, "aten.copysign.Scalar(x, -0.0)", "aten.abs.default(x)")
    assert evidence_of(one, Limits(), Effort()).standing is not Standing.PROVED
    for k, (first, second) in enumerate([(SIZE, COPIED), (BELOW, SIGNED)]):
        folder = tmp_path / str(k)
        folder.mkdir()
        with pytest.raises(Unsupported, match="the sign of a number"):
            compare(job(folder, first, second), Effort())
