"""Cut points: what is proved with them is true, and programs that advance together lose nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.equal_layers import layered
from support.jobs import job_files
from tantamount import read_job
from tantamount.correspond.alignment import align
from tantamount.effort import Effort, Grown
from tantamount.proof import Options, Proof, prove
from tantamount.proof.cuts import SOURCE
from tantamount.proof.outputs import check_outputs
from tantamount.verdict import Verdict

WHOLE = """
    x: float32[4, 6]
    w: float32[6, 8]
    v: float32[8, 6]
    h = mm(x, w)
    g = gelu(h)
    y = mm(g, v)
    r = add(y, x)
    p = softmax(r, 1, False)
    l = aten.log.default(p)
    z = mul(l, g2)
    -> z
"""
RANK = """
    x: float32[4, 6]
    w: float32[6, 4]
    v: float32[4, 6]
    h = mm(x, w)
    g = gelu(h)
    y = mm(g, v)
    s = all_reduce(y, "sum", "tp")
    r = add(s, x)
    p = softmax(r, 1, False)
    l = aten.log.default(p)
    z = mul(l, g2)
    -> z
"""
TABLES = '[inputs]\nx = "Replicate()"\nw = "Shard(1)"\nv = "Shard(0)"\n[outputs]\nz = "Replicate()"\n'
ENDS = {"g2": "r"}


def sides(folder: Path, rank: str = RANK, *, cut: bool = True, fold: bool | None = None) -> tuple[Proof, Verdict]:
    folder.mkdir(exist_ok=True)
    texts = [text.replace("g2", ENDS["g2"]) for text in (WHOLE, rank, rank)]
    job = read_job(job_files(folder, texts[0], texts[1:], TABLES, {"tp": 2}, {"tp": ("tp",)}))
    found = prove(job, Options(fold=fold, cut=cut, align=align))
    (output,) = check_outputs(found.store, job, found.specification, found.implementation)
    return found, output.verdict


def test_mesh_axes_of_size_1_change_nothing(tmp_path: Path) -> None:
    job = read_job(job_files(tmp_path, *alone(), {"tp": 1, "dp": 1}, {"tp": ("tp",)}))
    found = prove(job, Options(cut=True, align=align))
    assert cut_tensors(found) >= {"h", "g", "y", "r", "p", "l"}
    assert [output.verdict for output in found.check()] == [Verdict.PROVED]


def alone() -> tuple[str, list[str], str]:
    """The implementation on one rank, and its relations."""
    whole, rank = (text.replace("g2", "r") for text in (WHOLE, RANK))
    rank = rank.replace("w: float32[6, 4]", "w: float32[6, 8]").replace("v: float32[4, 6]", "v: float32[8, 6]")
    return whole, [rank], '[inputs]\ndefault = "Replicate()"\n[outputs]\nz = "Replicate()"\n'


def cut_tensors(found: Proof) -> set[str]:
    return {atom.attributes[1] for atom in found.store.atoms if atom.op == "leaf" and atom.attributes[0] == SOURCE}


@pytest.mark.parametrize("fold", [None, False])
def test_both_programs_go_on_from_what_they_agree_on(tmp_path: Path, fold: bool | None) -> None:
    found, verdict = sides(tmp_path, fold=fold)
    assert verdict is Verdict.PROVED
    assert cut_tensors(found) >= {"h", "g", "y", "r", "p", "l"}
    (_, x), *others = found.implementation.local(found.store, 1, "z").pieces  # type: ignore[union-attr]
    assert not others
    assert len(x) == 1  # one product of two leaves, however long the program


def test_without_cuts_forms_are_in_the_inputs(tmp_path: Path) -> None:
    found, verdict = sides(tmp_path, cut=False)
    assert verdict is Verdict.PROVED
    assert not cut_tensors(found)


def test_what_is_known_of_a_tensor_is_known_of_its_leaf(tmp_path: Path) -> None:
    found, _ = sides(tmp_path)
    (softmax,) = (a for a in found.store.atoms if a.op == "leaf" and a.attributes == (SOURCE, "p"))
    (summed,) = (a for a in found.store.atoms if a.op == "leaf" and a.attributes == (SOURCE, "r"))
    assert softmax.facts.positive
    assert not summed.facts.positive
    assert not found.implementation.traces[0].obligations  # log(p) is defined


@pytest.mark.parametrize("fold", [None, False])
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('all_reduce(y, "sum", "tp")', 'all_reduce(y, "avg", "tp")'),
        ('all_reduce(y, "sum", "tp")', "add(y, x)"),
        ("add(s, x)", "sub(s, x)"),
        ("gelu(h)", "relu(h)"),
        ("softmax(r, 1, False)", "softmax(r, 0, False)"),
        ("aten.log.default(p)", "aten.log.default(r)"),
        ("mul(l, g2)", "mul(p, g2)"),
        ("mul(l, g2)", "mul(l, l)"),
        ("mul(l, g2)", "add(l, g2)"),
    ],
)
def test_wrong_programs_are_never_proved(tmp_path: Path, right: str, wrong: str, fold: bool | None) -> None:
    assert right in RANK
    assert sides(tmp_path, RANK.replace(right, wrong), fold=fold)[1] is not Verdict.PROVED


def test_infinities_stay_in_sight(tmp_path: Path) -> None:
    whole = """
        x: float32[4, 4]
        m: bool[4, 4]
        f = masked_fill(x, m, -inf)
        p = softmax(f, 1, False)
        -> p
    """
    job = read_job(job_files(tmp_path, whole, [whole], '[inputs]\ndefault = "Replicate()"\n', {}, {}))
    found = prove(job, Options(cut=True, align=align))
    assert "f" not in cut_tensors(found)
    assert check_outputs(found.store, job, found.specification, found.implementation)[0].verdict is Verdict.PROVED


ADAM = """
    w: float32[{n}]
    g: float32[{n}]
    m: float32[{n}]
    v: float32[{n}]
    t: float32[]
    u = add(t, 1)
    b1 = aten.pow.Scalar(0.9, u)
    c1 = aten.rsub.Scalar(b1, 1)
    b2 = aten.pow.Scalar(0.99, u)
    c2 = aten.rsub.Scalar(b2, 1)
    m0 = mul(m, 0.9)
    m1 = mul(g, 0.1)
    mn = add(m0, m1)
    v0 = mul(v, 0.99)
    gg = mul(g, g)
    v1 = mul(gg, 0.01)
    vn = add(v0, v1)
    mh = aten.div.Tensor(mn, c1)
    vh = aten.div.Tensor(vn, c2)
    sq = aten.sqrt.default(vh)
    de = add(sq, 0.125)
    up = aten.div.Tensor(mh, de)
    st = mul(up, 0.5)
    new = sub(w, st)
    -> new
"""


def test_a_step_of_adam_is_proved_with_cuts(tmp_path: Path) -> None:
    """That both corrections are 0 at the same steps is not seen of their leaves: they stay what they are."""
    relations = "".join(f'{name} = "Shard(0)"\n' for name in "wgmv")
    tables = f'[inputs]\n{relations}t = "Replicate()"\n[outputs]\nnew = "Shard(0)"\n'
    job = read_job(job_files(tmp_path, ADAM.format(n=4), [ADAM.format(n=2)] * 2, tables, {"dp": 2}, {"dp": ("dp",)}))
    found = prove(job, Options(cut=True, align=align))
    assert not cut_tensors(found) & {"c1", "c2"}
    assert [output.verdict for output in found.check()] == [Verdict.PROVED]


@pytest.mark.parametrize(("steps", "cut"), [(4_000, False), (0, True)])
def test_programs_are_cut_where_forms_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int, cut: bool
) -> None:
    """Whatever their length; the proof is the same, and known by the options that were asked for."""
    monkeypatch.setattr("tantamount.proof.proof._LONG", 1)
    monkeypatch.setattr("tantamount.proof.proof._GROWN", steps)
    monkeypatch.setattr("tantamount.proof.proof._STEPS", steps // 80)
    job = layered(tmp_path, 2)
    options = Options(align=align)
    proof = prove(job, options)
    assert (proof.cuts is not None) == cut
    assert proof.options == options
    assert [output.verdict for output in proof.check(expand=False)] == [Verdict.PROVED]
    assert prove(job, Options()).cuts is None  # nobody says where
    assert prove(job, Options(align=align, cut=False)).cuts is None


@pytest.mark.parametrize("wrong", [False, True])
def test_where_forms_seem_to_grow_it_is_asked_once_whether_programs_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: bool
) -> None:
    """Early, and at a node; what that takes is no growth. If they do not, the proof goes on as it is."""
    for name, value in {"_LONG": 1, "_GROWN": 40, "_STEPS": 4_000, "_DOUBTED": 0}.items():
        monkeypatch.setattr(f"tantamount.proof.proof.{name}", value)
    asked: list[bool] = []
    effort = Effort()

    def refuted(early: bool) -> bool:
        asked.append(early)
        for _ in range(200_000):
            effort.check()
        return wrong

    options = Options(align=align, refuted=refuted, effort=effort)
    job = layered(tmp_path, 2)
    if wrong:
        with pytest.raises(Grown):
            prove(job, options)
    else:
        assert prove(job, options).cuts is None
    assert asked == [True] * (1 + wrong)


@pytest.mark.parametrize(("diagonal", "kept"), [(0, True), (-1, False)])
def test_masks_over_positive_numbers_stay_in_sight(tmp_path: Path, diagonal: int, kept: bool) -> None:
    """What a causal mask keeps adds up to a positive number, also where the numbers under it are a fresh leaf; a mask
    that keeps nothing of the first row leaves a division by 0, of which nothing is claimed."""
    rest = f"""e = aten.exp.default(h)
        t = aten.tril.default(e, {diagonal})
        s = aten.sum.dim_IntList(t, [1], True)
        d = mul(s, s)
        z = aten.div.Tensor(t, d)
        -> z"""
    whole = "x: float32[4, 6]\nw: float32[6, 4]\nh = mm(x, w)\n" + rest
    rank = 'x: float32[4, 3]\nw: float32[3, 4]\ny = mm(x, w)\nh = all_reduce(y, "sum", "tp")\n' + rest
    tables = '[inputs]\nx = "Shard(1)"\nw = "Shard(0)"\n[outputs]\nz = "Replicate()"\n'
    for number, text in enumerate((rank, rank.replace("Tensor(t, d)", "Tensor(e, d)"))):
        (tmp_path / str(number)).mkdir()
        job = read_job(job_files(tmp_path / str(number), whole, [text] * 2, tables, {"tp": 2}, {"tp": ("tp",)}))
        found = prove(job, Options(cut=True, align=align))
        assert {"h", "e", "t", "s"} <= cut_tensors(found)
        assert (not found.specification.traces[0].obligations) is kept
        assert [output.verdict is Verdict.PROVED for output in found.check()] == [number == 0]
