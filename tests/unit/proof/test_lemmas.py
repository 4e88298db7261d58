"""Equal layers once: what is proved by one lemma is what is proved as a whole, and what differs is not taken for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.equal_layers import Change, layered, layered_files
from support.jobs import graph_of, job_files
from tantamount import read_job, refine
from tantamount.correspond.alignment import align
from tantamount.ir.job import Job
from tantamount.ir.runs import runs, written
from tantamount.proof import Options, prove
from tantamount.proof.lemmas import InPieces, prove_in_pieces
from tantamount.proof.places import places_of
from tantamount.verdict import Verdict


def in_pieces(job: Job) -> InPieces | None:
    return prove_in_pieces(job, Options(align=align), least=0)


def test_equal_layers_are_proved_once(tmp_path: Path) -> None:
    job = layered(tmp_path, 6, dp=2)
    found = in_pieces(job)
    assert found is not None
    assert [output.verdict for output in found.outputs] == [Verdict.PROVED]
    assert found.pieces >= 6
    assert len(found.proofs) == 3  # the layer, the first one (whose input is given, not computed), what comes after
    whole = prove(job, Options(align=align, cut=True))
    relations = {relation.tensor: relation for relation in found.relations}
    for name, relation in whole.relations().items():
        assert relations[name] == relation
    assert {a.name for a in found.assumptions} == {a.name for a in whole.assumptions()}


def test_a_layer_that_differs_and_is_right_is_proved_itself(tmp_path: Path) -> None:
    def other(k: int, text: str) -> str:
        return text.replace(f"add(z{k}, x{k})", f"add(x{k}, z{k})") if k == 2 else text

    same, found = in_pieces(layered(tmp_path / "same", 5)), in_pieces(layered(tmp_path / "other", 5, rank=other))
    assert same is not None
    assert found is not None
    assert len(found.proofs) == len(same.proofs) + 1


def test_reports_of_long_jobs_come_from_pieces(tmp_path: Path) -> None:
    """18 layers are long enough: the report has what one of a whole proof has."""
    file = layered_files(tmp_path, 18)
    report = refine(read_job(file))
    assert report.proved
    assert report.in_pieces
    assert len(report.relations) >= 18 * 17
    assert report.statistics.folded
    picture = report.picture()
    assert picture is not None
    assert len(picture.links) >= 18 * 17


WRONG = {
    # (b) attributes, on one layer only
    "another number": ("mul(t2, 3)", "mul(t2, 3.0001)"),
    "another dimension": ("aten.mean.dim(s2, [1], True)", "aten.mean.dim(s2, [0], True)"),
    "another operator": ("tanh(a2)", "gelu(a2)"),
    "another reduction": ('all_reduce(o2, "sum", "tp")', 'all_reduce(o2, "avg", "tp")'),
    "no reduction": ('all_reduce(o2, "sum", "tp")', "add(o2, 0)"),
    # (c) which of the inputs is read where
    "the matrix of another layer": ("mm(n2, w2)", "mm(n2, w1)"),
    "the scale of another layer": ("mul(x2, g2)", "mul(x2, g1)"),
    "the residual of another layer": ("add(z2, x2)", "add(z2, x1)"),
    "one operand twice": ("mul(d2, j2)", "mul(d2, d2)"),
}


@pytest.mark.parametrize("what", WRONG)
def test_one_layer_that_is_wrong_is_not_taken_for_another(tmp_path: Path, what: str) -> None:
    """Cut where the right program is."""
    right, wrong = WRONG[what]

    def change(k: int, text: str) -> str:
        assert k != 2 or right in text
        return text.replace(right, wrong) if k == 2 else text

    places = places_of(layered(tmp_path, 4))
    assert len(places) == 5
    job = layered(tmp_path / "wrong", 4, rank=change)
    assert prove_in_pieces(job, Options(align=align), least=0, places=places) is None
    assert in_pieces(job) is None


def test_a_layer_that_both_programs_have_otherwise_is_a_lemma_of_its_own(tmp_path: Path) -> None:
    def other(k: int, text: str) -> str:
        return text.replace(f"add(f{k}, 0.125)", f"add(f{k}, 0.5)") if k == 1 else text

    job = layered(tmp_path / "same", 4, dp=2)
    places = places_of(job)
    found = [
        prove_in_pieces(each, Options(align=align), least=0, places=places)
        for each in (job, layered(tmp_path / "other", 4, dp=2, rank=other, whole=other))
    ]
    assert [one and len(one.proofs) for one in found] == [3, 4]


@pytest.mark.parametrize(("operator", "proved"), [("mul(x{k}, 1)", True), ("relu(x{k})", False)])
def test_what_a_boundary_stands_for_is_not_used_in_a_lemma(tmp_path: Path, operator: str, proved: bool) -> None:
    """(a) The first residual is positive by how it was computed, the others are not: with ``relu`` of it the first
    layer is right, and only that."""

    def layer(by: str) -> Change:
        def change(k: int, text: str) -> str:
            text = text.replace(f"s{k} = mul(x{k}", f"c{k} = {by.format(k=k)}\ns{k} = mul(c{k}")
            text = text.replace(f"add(z{k}, x{k})", f"add(z{k}, c{k})")
            return text if k else "k0 = aten.exp.default(x0)\n" + text.replace("x0", "k0")

        return change

    same = layer("mul(x{k}, 1)")
    places = places_of(layered(tmp_path, 4, rank=same, whole=same))
    assert len(places) == 5
    job = layered(tmp_path / "other", 4, rank=layer(operator), whole=same)
    assert (prove_in_pieces(job, Options(align=align), least=0, places=places) is not None) == proved


@pytest.mark.parametrize(("value", "proved"), [("1.5", True), ("1.25", False)])
def test_constants_of_layers_count_by_value(tmp_path: Path, value: str, proved: bool) -> None:
    """(b) A recorded constant in every layer; in one layer of the implementation it has another value, or not."""

    def constant(number: str, at: int) -> object:
        def change(k: int, text: str) -> str:
            held = number if k == at else "1.5"
            lines = f"c{k} = constant float32[1] [{held}]\nb{k} = lift(c{k})\np{k} = mul(t{k}, b{k})"
            return text.replace(f"p{k} = mul(t{k}, 3)", lines)

        return change

    places = places_of(layered(tmp_path, 4, rank=constant("1.5", 2), whole=constant("1.5", 2)))
    job = layered(tmp_path / "other", 4, rank=constant(value, 2), whole=constant("1.5", 2))
    assert (prove_in_pieces(job, Options(align=align), least=0, places=places) is not None) == proved


def test_what_is_drawn_at_random_is_not_proved_in_pieces(tmp_path: Path) -> None:
    """(d) Masks of dropouts are paired by their order in the whole program."""

    def drop(k: int, text: str) -> str:
        return text.replace(f"z{k} = aten.sin.default(y{k})", f"z{k}, keep{k} = native_dropout(y{k}, 0.1, True)")

    assert in_pieces(layered(tmp_path, 4, rank=drop, whole=drop)) is None


def test_ranks_of_other_programs_are_not_proved_in_pieces(tmp_path: Path) -> None:
    """(e) All ranks run one program, or there are no pieces."""
    job = layered(tmp_path, 4)
    apart = prove_in_pieces(job, Options(align=align, fold=False), least=0)
    assert apart is None


@pytest.mark.parametrize(("shift", "proved"), [(0, True), (1, False)])
def test_indices_are_in_range_in_every_layer(tmp_path: Path, shift: int, proved: bool) -> None:
    """(f) Rows chosen by a table of numbers; in one layer of the implementation the next ones."""

    def rows(by: int) -> object:
        def change(k: int, text: str) -> str:
            moved = by if k == 2 else 0
            lines = (
                f"c{k} = constant int64[2] [{0 + moved}, {1 + moved}]\nb{k} = lift(c{k})\nz{k} = index(y{k}, [b{k}])"
            )
            return text.replace(f"z{k} = aten.sin.default(y{k})", lines)

        return change

    places = places_of(layered(tmp_path, 4, rank=rows(0), whole=rows(0)))
    job = layered(tmp_path / "other", 4, rank=rows(shift), whole=rows(0))
    assert (prove_in_pieces(job, Options(align=align), least=0, places=places) is not None) == proved


@pytest.mark.parametrize(
    ("tail", "proved"), [("add(last, n2)", True), ("add(last, d2)", False), ("add(last, n1)", False)]
)
def test_what_later_pieces_read_is_handed_on(tmp_path: Path, tail: str, proved: bool) -> None:
    """(g) A tensor inside a layer that is used after all of them."""
    job = layered(tmp_path, 4, end=f"l = {tail}", spec_end="l = add(last, n2)")
    assert (in_pieces(job) is not None) == proved


@pytest.mark.parametrize("value", ["-inf", "inf"])
def test_what_may_be_infinite_is_not_handed_on(tmp_path: Path, value: str) -> None:
    """Inputs of a piece are real numbers: ``0 * t`` would be 0, also where a mask makes t infinite. (No number that an
    execution draws is above 1000, so that the tensors are candidates.)"""
    head = f"""x: float32[4]
        y: float32[4]
        b = aten.gt.Scalar(y, 1000)
        t = masked_fill(x, b, {value})
        """
    whole = head + "u = aten.exp.default(t)\n-> u"
    rank = head + "v = aten.exp.default(t)\nz = mul(t, 0.0)\nu = add(v, z)\n-> u"
    tables = '[inputs]\nx = "Replicate()"\ny = "Replicate()"\n[outputs]\nu = "Replicate()"\n'
    job = read_job(job_files(tmp_path, whole, [rank, rank], tables, {"tp": 2}, {"tp": ("tp",)}))
    assert prove_in_pieces(job, Options(align=align), least=0, places=[(4, 4)]) is None


@pytest.mark.parametrize("layer", [0, 2])
def test_relations_of_inputs_are_part_of_a_lemma(tmp_path: Path, layer: int) -> None:
    """The ranks hold the columns of one layer's first matrix in another order, and the rows of the second in the usual
    one."""
    file = layered_files(tmp_path, 4)
    text = file.read_text()
    usual = f'w{layer} = ["Replicate()", "Shard(1)"]'
    assert usual in text
    file.write_text(text.replace(usual, f'w{layer} = "concat(rank(1), rank(0), dim=1)"'))
    job = read_job(file)
    assert places_of(job)
    assert in_pieces(job) is None


def test_keys_keep_numbers_apart() -> None:
    """(h) What Python calls equal is not: 1, 1.0 and True, 0.0 and -0.0."""
    values = [1, 1.0, True, 0.0, -0.0, 0, False, "1", None, (1,), (1.0,)]
    assert len({written(value) for value in values}) == len(values)


def test_runs_are_cut_where_least_is_handed_on(tmp_path: Path) -> None:
    graph = layered(tmp_path, 5).specification
    (run,) = runs(graph)
    assert (run.count, run.period) == (5, 17)
    assert [graph.nodes[at].name for at in run.cuts[:-1]] == [f"s{k}" for k in range(5)]


def test_two_layers_are_a_run(tmp_path: Path) -> None:
    (run,) = runs(layered(tmp_path, 2).specification)
    assert (run.count, run.period) == (2, 17)


def test_short_programs_have_no_runs() -> None:
    assert runs(graph_of("x: float32[4]\ny = tanh(x)\nz = tanh(y)\n-> z")) == []


def test_jobs_without_layers_have_no_pieces(tmp_path: Path) -> None:
    whole = "x: float32[4]\ny = tanh(x)\n-> y"
    job = read_job(
        job_files(tmp_path, whole, [whole], '[inputs]\nx = "Replicate()"\n[outputs]\ny = "Replicate()"\n', {}, {})
    )
    assert in_pieces(job) is None


@pytest.mark.parametrize(
    ("square", "proved"), [("mul(y, y)", True), ("mul(y, x)", False), ("aten.sin.default(y)", False)]
)
def test_signs_are_handed_on(tmp_path: Path, square: str, proved: bool) -> None:
    """(b) The root of what a piece hands on, which is handed on itself: no assumption is needed where it is a sum of
    squares, and a piece that hands something on may rest on none."""
    whole = f"""x: float32[4, 8]
        y: float32[4, 8]
        q = {square}
        s = sum_dims(q, [1], True)
        r = aten.sqrt.default(s)
        u = mul(r, 2.0)
        z = mul(u, x)
        -> z"""
    rank = whole.replace("[4, 8]", "[4, 4]").replace("s = sum_dims", "p = sum_dims")
    rank = rank.replace("r = ", 's = all_reduce(p, "sum", "tp")\n        r = ')
    tables = '[inputs]\ndefault = "Shard(1)"\n[outputs]\nz = "Shard(1)"\n'
    job = read_job(job_files(tmp_path, whole, [rank, rank], tables, {"tp": 2}, {"tp": ("tp",)}))
    found = prove_in_pieces(job, Options(align=align), least=0, places=[(4, 5), (6, 7)])
    assert (found is not None) == proved
    across = prove_in_pieces(job, Options(align=align), least=0, places=[(3, 4), (6, 7)])  # summands are handed on
    assert across is None or proved


@pytest.mark.parametrize(("dropped", "proved"), [("", True), ("b", True), ("e", False), ("be", False)])
def test_signs_are_part_of_a_lemma(tmp_path: Path, dropped: str, proved: bool) -> None:
    """(b) Two pieces that are one but for the sign of what they read: an absolute value is left out where that is
    right, where it is wrong, and in both."""
    whole = """x: float32[4]
        y: float32[4]
        a = mul(x, x)
        b = aten.abs.default(a)
        c = aten.sin.default(b)
        d = mul(x, y)
        e = aten.abs.default(d)
        f = aten.sin.default(e)
        g = add(c, f)
        -> g"""
    rank = whole
    for name, operand in (("b", "a"), ("e", "d")):
        if name in dropped:
            rank = rank.replace(f"{name} = aten.abs.default({operand})", f"{name} = mul({operand}, 1.0)")
    tables = '[inputs]\ndefault = "Replicate()"\n[outputs]\ng = "Replicate()"\n'
    job = read_job(job_files(tmp_path, whole, [rank, rank], tables, {"r": 2}, {}))
    found = prove_in_pieces(job, Options(align=align), least=0, places=[(3, 3), (5, 5), (6, 6), (8, 8)])
    assert (found is not None) == proved
