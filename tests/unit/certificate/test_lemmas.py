"""Instances of lemmas in certificates: what is none is rejected, before anything is executed where names say so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.certificates import checked, checked_for
from support.equal_layers import layered_files
from tantamount import read_job, refine
from tantamount.errors import UserError

Content = dict[str, Any]


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A job of equal layers and its certificate."""
    folder = tmp_path_factory.mktemp("layers")
    job = layered_files(folder, 16, tp=2)
    certificate = folder / "proved.json"
    refine(read_job(job)).save_certificate(certificate)
    return job, certificate


def test_instances_are_replayed(proved: tuple[Path, Path]) -> None:
    found = checked(proved, lambda _: None)
    assert found.accepted
    assert any("instances of" in note and "lemmas" in note for note in found.notes)
    lemmas = json.loads(proved[1].read_text())["lemmas"]
    assert len(lemmas) > 12
    assert len({one["lemma"] for one in lemmas}) <= 3


def another_lemma(content: Content) -> None:
    content["lemmas"][-1]["lemma"] = 0


def another_order(content: Content) -> None:
    nodes = content["lemmas"][5]["specification"]["nodes"]
    nodes[0], nodes[1] = nodes[1], nodes[0]


def no_such_instance(content: Content) -> None:
    del content["lemmas"][4]


def not_the_last_one(content: Content) -> None:
    del content["lemmas"][-1]


def too_early(content: Content) -> None:
    content["lemmas"][4], content["lemmas"][5] = content["lemmas"][5], content["lemmas"][4]


def nothing_given(content: Content) -> None:
    content["lemmas"][4]["gives"] = []


def given_otherwise(content: Content) -> None:
    content["lemmas"][4]["gives"][0]["relation"]["placement"] = ["Shard(0)", "Replicate()"]


def of_another(content: Content) -> None:
    content["lemmas"][4]["gives"][0]["tensor"] = content["lemmas"][3]["gives"][0]["tensor"]


def twice(content: Content) -> None:
    nodes = content["lemmas"][4]["implementation"]["nodes"]
    nodes[1] = nodes[0]


def unknown(content: Content) -> None:
    content["lemmas"][4]["implementation"]["nodes"][0] = "nobody"


def of_the_next_layer(content: Content) -> None:
    lemmas = content["lemmas"]
    lemmas[4]["specification"]["nodes"][-1] = lemmas[5]["specification"]["nodes"][-1]


def with_other_weights(content: Content) -> None:
    """A piece that says to read the weights of another layer."""
    lemmas = content["lemmas"]
    for side in ("specification", "implementation"):
        lemmas[4][side]["inputs"] = lemmas[5][side]["inputs"]


def equal_to_another(content: Content) -> None:
    """(one instance says more than its lemma)"""
    nodes = content["lemmas"][4]["specification"]["nodes"]
    content["lemmas"][4]["specification"]["equal"] = {nodes[1]: nodes[0]}


@pytest.mark.parametrize(
    "change",
    [another_lemma, another_order, no_such_instance, not_the_last_one, too_early, nothing_given, given_otherwise,
     of_another, twice, unknown, of_the_next_layer, with_other_weights, equal_to_another],
)  # fmt: skip
def test_what_is_no_instance_is_rejected(proved: tuple[Path, Path], change: Callable[[Content], None]) -> None:
    found = checked(proved, change)
    assert found.exit_code == 1
    assert any("instance" in problem for problem in found.problems), found.problems


def test_what_all_instances_say_wrongly_is_rejected(proved: tuple[Path, Path]) -> None:
    """Every instance says that another tensor of the implementation is handed on, and no two of them differ."""

    def change(content: Content) -> None:
        lemmas = content["lemmas"]
        for one in lemmas:
            nodes = one["specification"]["nodes"]
            if len(nodes) > 3 and one["lemma"] == lemmas[4]["lemma"]:
                one["specification"]["equal"] = {nodes[1]: one["gives"][0]["tensor"]}

    found = checked(proved, change)
    assert found.exit_code == 1
    assert any("lemmas" in problem for problem in found.problems), found.problems


def test_a_layer_that_differs_is_no_instance(tmp_path: Path) -> None:
    """The certificate of one job, with the hashes of another one, in which one layer is another function."""
    right = layered_files(tmp_path / "right", 16, tp=2)
    certificate = tmp_path / "right" / "proved.json"
    refine(read_job(right)).save_certificate(certificate)

    def other(k: int, text: str) -> str:
        return text.replace("mul(t4, 3)", "mul(t4, 3.0000000001)") if k == 4 else text

    wrong = layered_files(tmp_path / "wrong", 16, tp=2, rank=other)
    found = checked_for(wrong, certificate)
    assert found.exit_code == 1
    assert any("is no instance of lemma" in problem for problem in found.problems), found.problems


@pytest.mark.parametrize("value", [[{"name": "trust me"}], [3], {"lemma": 0}, [{"lemma": 7}]])
def test_what_is_no_list_of_instances_is_an_error(proved: tuple[Path, Path], value: object) -> None:
    def change(content: Content) -> None:
        content["lemmas"] = value

    with pytest.raises(UserError) as caught:
        checked(proved, change)
    assert caught.value.code in ("certificate-field", "certificate-unknown-key", "certificate-missing-key")
