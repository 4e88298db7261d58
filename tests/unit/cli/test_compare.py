"""``tantamount compare`` from the shell: files, guesses, exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tantamount.cli.main import app

FIRST = """tantamount graph 1
%x: float32[2, 3] = input
%w: float32[3, 3] = input
%v: float32[3, 3] = input
%h: float32[2, 3] = aten.mm.default(%x, %w)
%y: float32[2, 3] = aten.mm.default(%h, %v)
output y = %y
"""
SECOND = FIRST.replace("%w", "%a").replace("%v", "%b")


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "a.graph").write_text(FIRST)
    (tmp_path / "b.graph").write_text(SECOND)
    return str(tmp_path / "a.graph"), str(tmp_path / "b.graph")


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["compare", *arguments])
    return done.exit_code, done.output


def test_a_guess_is_no_verdict_until_it_is_accepted(files: tuple[str, str]) -> None:
    code, told = run(*files)
    assert code == 3
    assert told.startswith("UNKNOWN")
    assert "nobody accepted relation-guessed" in told
    assert "PROVED if the guessed relations of inputs hold" in told
    code, told = run(*files, "--accept", "relation-guessed")
    assert (code, told[:6]) == (0, "PROVED")
    assert "w (the same position among those of its type)" in told


def test_relations_that_are_given_are_no_guess(files: tuple[str, str]) -> None:
    given = ["--input", 'w=rank(0, "a")', "--input", 'v=rank(0, "b")', "--input", 'x=rank(0, "x")']
    code, told = run(*files, *given)
    assert (code, "relation-guessed" in told) == (0, False)
    swapped = ["--input", 'w=rank(0, "b")', "--input", 'v=rank(0, "a")', "--input", 'x=rank(0, "x")']
    code, told = run(*files, *swapped)
    assert code == 1
    assert "the second program has" in told
    assert "specification" not in told
    assert "implementation" not in told


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["{a}"], "command-line"),
        (["{a}", "{b}", "--accept", "mask-literals"], "command-line"),
        (["{a}", "{b}", "--input", "w=rank(0, "], "relation-syntax"),
        (["{a}", "nowhere.graph"], "file-unreadable"),
    ],
)
def test_what_is_wrong_is_said(files: tuple[str, str], arguments: list[str], code: str) -> None:
    found = CliRunner().invoke(app, ["compare", *(text.format(a=files[0], b=files[1]) for text in arguments)])
    assert found.exit_code == 2
    assert f"error[{code}]" in found.output


def test_a_job_is_taken_as_it_is(files: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(
        'format = "job/1"\nspec = { graph = "a.graph" }\nimpl = { graphs = ["b.graph"], mesh = {} }\n'
        '[inputs]\nx = "Replicate()"\n'
        'w = { name = "a", placement = "Replicate()" }\nv = { name = "b", placement = "Replicate()" }\n'
    )
    code, told = run(str(tmp_path / "job.toml"))
    assert (code, told[:6]) == (0, "PROVED")
    assert run(str(tmp_path / "job.toml"), "--input", "x=rank(0)")[0] == 2


def test_a_job_of_several_ranks_is_no_comparison(files: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(
        'format = "job/1"\nspec = { graph = "a.graph" }\nimpl = { graph = "a.graph", mesh = { dp = 2 } }\n'
        '[inputs]\ndefault = "Replicate()"\n'
    )
    code, told = run(str(tmp_path / "job.toml"))
    assert code == 2
    assert "error[compare-ranks]" in told


MODELS = """
import torch
from support.small_models import TOKENS, Fused, Separate, load

def fused():
    return Fused(), (TOKENS,)

def separate():
    return Separate(), {"tokens": TOKENS}, {"load": load}

def wrong():
    return Separate()

def broken():
    model, tokens = Separate(), TOKENS
    return model, (tokens.float() @ torch.zeros(3, 3),)
"""


def test_functions_that_build_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="builds PyTorch models")
    (tmp_path / "pair_of_models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    code, told = run("pair_of_models:fused", "pair_of_models:separate")
    assert (code, told[:6]) == (0, "PROVED")
    assert "parameters of the first program that are made of those of the second: 9" in told
    for name in ("pair_of_models:wrong", "pair_of_models:nothing", "no_such_module:build"):
        found = CliRunner().invoke(app, ["compare", "pair_of_models:fused", name])
        assert found.exit_code == 2
        assert "error[compare-recipe]" in found.output
    found = CliRunner().invoke(app, ["compare", "pair_of_models:fused", "pair_of_models:broken"])
    assert found.exit_code == 2
    assert "pair_of_models:broken (" in found.output
    assert "pair_of_models.py:16 `return model, (tokens.float() @ torch.zeros(3, 3),)`" in found.output


def test_a_wrong_file_of_relations_is_named(files: tuple[str, str], tmp_path: Path) -> None:
    """In words of two programs: neither is a specification."""
    path = tmp_path / "relations.toml"
    assert run(*files, "--save-relations", str(path))[0] == 3
    saved = path.read_text()
    for old, new, place, said in (
        ('"w" =', '"ww" =', "[inputs]", "'ww', which is no input of the first program"),
        ('"a"', '"aa"', "[inputs]: w", "the name of an input of the second program"),
        ('"y" =', '"yy" =', "[outputs]", "'yy', which is no output of the first program"),
        ("[inputs]", "[input]", "relations.toml", "'input'"),
    ):
        path.write_text(saved.replace(old, new))
        found = CliRunner().invoke(app, ["compare", *files, "--relations", str(path)])
        assert found.exit_code == 2
        first = found.output.splitlines()[0]
        assert str(path) in first
        assert first.endswith(place)
        assert said in found.output


def test_a_recipe_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="recipes build PyTorch models")
    for package in ("transformers", "timm"):
        monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    for name in ("hf:llama,num_hidden_layers=1", "timm:vit_tiny"):
        found = CliRunner().invoke(app, ["compare", name, name])
        assert found.exit_code == 2
        assert "error[compare-recipe]" in found.output
        assert f"needed: the packages that {name[:2]}" in found.output
    found = CliRunner().invoke(app, ["compare", "hf:llama,layers", "hf:llama"])
    assert "key=value, such as num_hidden_layers=2" in found.output


def test_a_model_beside_a_file_that_cannot_be_built(files: tuple[str, str]) -> None:
    found = CliRunner().invoke(app, ["compare", files[0], "some_module:build"])
    assert found.exit_code == 2
    assert "error[compare-recipe]" in found.output


def test_outputs_that_one_program_lacks(files: tuple[str, str], tmp_path: Path) -> None:
    """More of one program are named; of both they may be the same under two names, which nobody has said."""
    given = ["--input", "x=Replicate()", "--input", 'w=rank(0, "a")', "--input", 'v=rank(0, "b")']
    (tmp_path / "a.graph").write_text(FIRST + "output hidden = %h\n")
    code, told = run(*files, *given)
    assert (code, told.splitlines()[0].endswith("(1 not compared)")) == (0, True)
    assert "1 output compared; not compared: hidden" in told
    (tmp_path / "b.graph").write_text(SECOND.replace("%w", "%a") + "output state = %h\n")
    code, told = run(*files, *given)
    assert (code, "nobody accepted outputs-unpaired" in told) == (3, True)
    assert "hidden of the first program and state of the second program" in told
    assert run(*files, *given, "--accept", "outputs-unpaired")[0] == 0
    named = ["--output", "y=Replicate()", "--output", 'hidden={ name = "state", placement = "Replicate()" }']
    code, told = run(*files, *given, *named)
    assert (code, "2 outputs, all checked" in told) == (0, True)
    assert "error[command-line] --output" in run(*files, *given, "--output", "y={ name = }")[1]
    code, told = run(*files, *given, *named[:2])  # somebody has chosen
    assert (code, "not compared: hidden, state" in told) == (0, True)
    (tmp_path / "b.graph").write_text(SECOND.replace("%b)", "%a)") + "output state = %h\n")
    assert run(*files, *given)[0] == 1


def test_a_sweep_names_every_combination() -> None:
    pytest.importorskip("torch", reason="recipes build PyTorch models")
    from tantamount.cli.comparing import Request, swept

    found = dict(swept(Request("hf:llama,x=1", "litgpt:L"), ["b.y=2,[3,4]", "z=5"]))
    assert {label: (one.first, one.second) for label, one in found.items()} == {
        "b.y=2, z=5": ("hf:llama,x=1,z=5", "litgpt:L,y=2,z=5"),
        "b.y=[3,4], z=5": ("hf:llama,x=1,z=5", "litgpt:L,y=[3,4],z=5"),
    }
    found = dict(swept(Request("module:build", "hf:llama"), ["b.y=2"]))
    assert [(one.first, one.second) for one in found.values()] == [("module:build", "hf:llama,y=2")]


@pytest.mark.parametrize(
    "words",
    [["--workers", "2"], ["--ray", "local"], ["--sweep", "x=1", "--save-relations", "r.toml"]],
)
def test_what_is_of_sweeps_alone_or_of_no_sweep_is_said(words: list[str], files: tuple[str, str]) -> None:
    code, told = run(*files, *words)
    assert code == 2
    assert f"error[command-line] {words[-2]}" in told


@pytest.mark.parametrize(
    "words", [["a.graph", "b.graph"], ["hf:llama", "hf:llama", "key"], ["hf:llama"], ["module:build", "hf:llama"]]
)
def test_a_sweep_is_over_models_by_name(words: list[str]) -> None:
    pytest.importorskip("torch", reason="recipes build PyTorch models")
    names, sweep = words[:2], words[2] if len(words) > 2 else "attn=eager,sdpa"
    found = CliRunner().invoke(app, ["compare", *names, "--sweep", sweep])
    assert found.exit_code == 2
    assert "error[command-line] --sweep" in found.output


def test_a_sweep_runs_in_processes_of_its_own(files: tuple[str, str], tmp_path: Path) -> None:
    from tantamount.cli.comparing import Request
    from tantamount.cli.results import Results
    from tantamount.cli.sweeping import Sweep, compare_all, page_by_label, run_sweep

    first, second = files
    wrong = tmp_path / "wrong.graph"
    wrong.write_text(SECOND.replace("mm.default(%h, %b)", "mm.default(%x, %b)"))
    given = ["x=Replicate()", 'w=rank(0, "a")', 'v=rank(0, "b")']
    requests = [
        ("right=1, [2]", Request(first, second, given)),
        ("wrong=1", Request(first, str(wrong), given)),
        ("missing=1", Request(first, str(tmp_path / "none.graph"), given)),
        ("slow=1", Request(first, second, given)),
    ]
    sweep = Sweep({"timeout": 60.0}, pages=page_by_label(tmp_path / "pages", [label for label, _ in requests[:1]]))
    outcomes = list(compare_all(requests, sweep, workers=2))
    assert [one.job for one in outcomes] == [label for label, _ in requests]
    assert [one.exit_code for one in outcomes] == [0, 1, 2, 0]
    assert (tmp_path / "pages" / "right-1-2.html").read_text().startswith("<!doctype html>")
    (again,) = compare_all(requests[:1], Sweep({"timeout": 1e-9}), workers=1)
    assert again.exit_code == 3
    written = tmp_path / "results.json"
    assert run_sweep(requests, sweep, 2, None, Results({"--json": written}, github=False)) == 2
    assert [one.get("job") for one in json.loads(written.read_text())["jobs"]] == [label for label, _ in requests]
