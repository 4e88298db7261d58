"""Two ways of writing a model, which share inputs and little else, are proved layer by layer."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.graphs import write_job
from support.jobs import as_json, graph_of
from tantamount import Verdict, read_job, refine
from tantamount.correspond.alignment import align
from tantamount.effort import Effort
from tantamount.ir.job import Job
from tantamount.proof import Options
from tantamount.proof.lemmas import InPieces, prove_in_pieces
from tantamount.proof.places_by_inputs import in_shapes_of, places_by_inputs

LAYERS = 6


def rows(k: int, of: str) -> str:
    """The rows of a residual divided by their roots of mean squares."""
    return "\n".join([
        f"p{k} = aten.pow.Tensor_Scalar({of}, 2)", f"m{k} = aten.mean.dim(p{k}, [-1], True)",
        f"e{k} = add(m{k}, 0.125)", f"i{k} = aten.rsqrt.default(e{k})", f"j{k} = mul({of}, i{k})",
        f"n{k} = mul(g{k}, j{k})",
    ])  # fmt: skip


def plain(k: int) -> str:
    return "\n".join([
        rows(k, f"x{k}"), f"f{k} = view(n{k}, [4, 6])", f"u{k} = t(w{k})", f"a{k} = mm(f{k}, u{k})",
        f"b{k} = tanh(a{k})", f"v{k} = t(o{k})", f"c{k} = mm(b{k}, v{k})", f"d{k} = view(c{k}, [1, 4, 6])",
        f"x{k + 1} = add(x{k}, d{k})",
    ])  # fmt: skip


def serving(k: int) -> str:
    """The same without the batch, the sum of the residual put off to where its rows are divided."""
    return "\n".join([
        f"u{k} = t(w{k})", f"a{k} = mm(n{k}, u{k})", f"h{k} = mul(a{k}, 2)", f"s{k} = aten.sigmoid.default(h{k})",
        f"q{k} = mul(s{k}, 2)", f"b{k} = sub(q{k}, 1)", f"v{k} = t(o{k})", f"c{k} = mm(b{k}, v{k})",
        f"x{k + 1} = add(c{k}, x{k})", rows(k + 1, f"x{k + 1}"),
    ])  # fmt: skip


def job_of(folder: Path, wrong: tuple[int, str, str] = (-1, "", "")) -> Job:
    """A model and what serves it. ``wrong``: in a layer of that, a text in place of another."""
    each = [(f"g{k}", "[6]") for k in range(LAYERS + 1)] + [(f"{x}{k}", "[6, 6]") for k in range(LAYERS) for x in "wo"]
    inputs = "\n".join(f"{name}: float32{shape}" for name, shape in [("x", "[1, 4, 6]"), *each])
    body = [serving(k).replace(*(wrong[1:] if k == wrong[0] else ("", ""))) for k in range(LAYERS)]
    ours = [inputs, "x0 = mul(x, 1)", *map(plain, range(LAYERS)), rows(LAYERS, f"x{LAYERS}"), f"-> y=n{LAYERS}"]
    theirs = [inputs, "f = mul(x, 1)", "x0 = view(f, [4, 6])", rows(0, "x0"), *body,
              f"z = view(n{LAYERS}, [1, 4, 6])", "-> y=z"]  # fmt: skip
    graphs = {
        "spec.json": as_json(graph_of("\n".join(ours)), None),
        "rank.json": as_json(graph_of("\n".join(theirs)), None),
    }
    head = 'format = "job/1"\n[spec]\ngraph = "spec.json"\n[impl]\ngraph = "rank.json"\nmesh = { }\n[inputs]\n'
    related = "".join(f'{name} = "Replicate()"\n' for name, _ in [("x", ""), *each])
    return read_job(write_job(folder, f'{head}{related}[outputs]\ny = "Replicate()"\n', graphs))


def in_pieces(job: Job) -> InPieces | None:
    return prove_in_pieces(job, Options(align=align), least=0)


def test_layers_that_are_written_in_two_ways_are_one_lemma(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    places = places_by_inputs(job)
    assert len(places) >= LAYERS // 2  # pieces are of two layers, as these are short
    seen, moved, views = in_shapes_of(job, places)
    assert len(seen.specification.nodes) == len(job.specification.nodes) + len(views)
    assert views
    assert [b for _, b in moved] == [b for _, b in places]
    found = in_pieces(job)
    assert found is not None
    assert [one.verdict.value for one in found.outputs] == ["PROVED"]
    assert len(found.proofs) <= 3 < found.pieces
    known = {node.name for node in job.specification.nodes}
    assert {one.tensor for one in found.relations} <= known | {"y"}  # views are in nobody's program


@pytest.mark.parametrize(
    "wrong",
    [
        (2, "sub(q2, 1)", "sub(q2, 2)"), (3, "add(c3, x3)", "add(c3, n3)"), (1, "t(w1)", "t(w2)"), (4, "0.125", "0.25"),
        (2, "mm(n2, u2)", "mm(x2, u2)"),
    ],
)  # fmt: skip
def test_one_layer_that_is_wrong_is_not_proved(tmp_path: Path, wrong: tuple[int, str, str]) -> None:
    job = job_of(tmp_path, wrong)
    assert wrong[1] in serving(wrong[0])
    assert in_pieces(job) is None


@pytest.mark.parametrize(
    ("wrong", "place"),
    [((4, "sub(q4, 1)", "sub(q4, 2)"), "b4"), ((3, "0.125", "0.25"), "e4"), ((2, "sigmoid", "tanh"), "s2")],
)
def test_a_wrong_layer_of_a_model_that_is_written_in_two_ways_is_explained_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: tuple[int, str, str], place: str
) -> None:
    monkeypatch.setattr(prove_in_pieces, "__kwdefaults__", {**(prove_in_pieces.__kwdefaults__ or {}), "least": 50})
    found = refine(job_of(tmp_path, wrong))
    assert found.verdict is Verdict.REFUTED
    assert found.mismatch is not None
    assert found.mismatch.implementation == place
    assert not {"implementation", "specification"} & set(found.statistics.seconds)  # of the whole


def test_places_do_not_matter_for_what_is_proved(tmp_path: Path) -> None:
    """Wrong places, and shapes that no tensor of the other program has there, give no proof of a wrong layer."""
    wrong = job_of(tmp_path, (2, "sub(q2, 1)", "sub(q2, 2)"))
    (tmp_path / "right").mkdir()
    right = job_of(tmp_path / "right")
    places = places_by_inputs(right)
    for some in (places[::2], places[:1], places[-1:]):
        for job, proved in ((right, True), (wrong, False)):
            seen, moved, _ = in_shapes_of(job, some)
            found = prove_in_pieces(seen, Options(align=align), least=0, places=moved)
            assert (found is not None) is proved
    for shift in (-3, 2):
        seen, moved, _ = in_shapes_of(wrong, [(a + shift, b) for a, b in places])
        assert prove_in_pieces(seen, Options(align=align), least=0, places=moved) is None


def test_what_is_told_before_the_end_has_no_views(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    told: list[InPieces] = []
    options = Options(align=align, effort=Effort(seconds=1000), so_far=lambda make: told.append(make()))
    assert prove_in_pieces(job, options, least=0) is not None
    known = {node.name for node in job.specification.nodes}
    assert told
    assert all(one.tensor in known for found in told for one in found.relations)
