"""The page in a browser: what a reader sees first, what clicks do, and how long a large graph takes to open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from support.browser import SIZE, Opened, browser, opened
from support.pictures import chain, large, picture_report
from support.reports import proved, refuted, unknown, vacuous
from tantamount.answers import Answer, refine
from tantamount.capture.job import read_job
from tantamount.report.saving import save
from tantamount.verdict import Mismatch, Report

from .test_page import HOSTILE, hostile

EXAMPLES = Path(__file__).parents[4] / "examples"


@lru_cache
def checked(job: str) -> Answer:
    return refine(read_job(EXAMPLES / f"{job}.toml"))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(checked("mlp_tp2/wrong"), tmp_path_factory.mktemp("wrong"))


def saved(report: Report, folder: Path) -> Path:
    path = folder / "report.html"
    save(report, path, report.picture if isinstance(report, Answer) else lambda: None)
    return path


def in_view(window: Opened, selector: str, count: int) -> list[dict[str, float]]:
    """Where the elements are, all of them wholly inside the panes."""
    frame = window.boxes("#graphs")[0]
    boxes = window.boxes(selector)
    assert len(boxes) == count
    for box in boxes:
        assert frame["x"] <= box["x"]
        assert box["x"] + box["width"] <= frame["x"] + frame["width"]
        assert frame["y"] - 12 <= box["y"]
        assert box["y"] + box["height"] <= frame["y"] + frame["height"] + 12
    return boxes


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("job", ["mlp_tp2/job", "mlp_tp2/wrong", "gpt_tp2/job"])
def test_the_mismatch_is_what_the_eye_meets_first(chromium: Any, tmp_path: Path, job: str, scheme: str) -> None:
    report = checked(job)
    with opened(chromium, saved(report, tmp_path), scheme) as window:
        window.screenshot(f"{job.replace('/', '-')}-{scheme}")
        assert window.page.inner_text(".verdict") == report.verdict.value
        headline = window.boxes("h1")[0]
        assert headline["y"] < 100
        if report.mismatch is not None:
            left, right = in_view(window, ".node.culprit > .body", 2)
            assert left["x"] + left["width"] < SIZE["width"] * 0.4 < right["x"]
            assert abs(left["y"] + left["height"] / 2 - right["y"] - right["height"] / 2) < 3  # side by side
            assert len(window.boxes(".link.culprit")) == 1
            assert len(window.boxes(".formula")) == 2
        else:
            assert not window.boxes(".culprit")
            assert window.boxes(".link.all")


@pytest.mark.parametrize("report", [proved(), refuted(), unknown(), vacuous()])
def test_a_report_without_a_picture(chromium: Any, tmp_path: Path, report: Report) -> None:
    with opened(chromium, saved(report, tmp_path)) as window:
        assert window.page.inner_text(".verdict") == report.verdict.value


def test_a_click_on_a_tensor_tells_what_is_known_of_it(chromium: Any, wrong: Path) -> None:
    with opened(chromium, wrong) as window:
        assert not window.page.is_visible("#tensor")
        window.page.locator("#pane-specification .node.matched", has_text="addmm [4, 8]").locator(".op").click()
        words = window.page.inner_text("#tensor")
        for part in (
            "found in the implementation",
            "float32[4, 8]",
            "model.py:13",
            "hidden = torch.relu(torch.addmm(b1, x, w1))",
            "addmm[i, j] = b1[j] + sum[a<6](x[i, a] w1[a, j])",
            "addmm = Shard(1) of",
            "addmm[i, j] = b1[4tp+j] + sum[a<6](x[i, a] w1[a, 4tp+j])",
        ):
            assert part in words
        assert len(window.boxes(".link.chosen")) == 1
        window.page.locator("#tensor .to", has_text="addmm").first.click()  # its counterpart
        assert "a tensor of the specification" in window.page.inner_text("#tensor")
        window.page.keyboard.press("Escape")
        assert not window.page.is_visible("#tensor")


def test_search(chromium: Any, wrong: Path) -> None:
    with opened(chromium, wrong) as window:
        window.page.keyboard.press("/")
        window.page.keyboard.type("all_reduce")
        assert window.page.locator("#results button").count() >= 1
        window.page.keyboard.press("Enter")
        assert window.page.inner_text("#tensor-name") == "all_reduce"
        window.page.fill("#search", "model.py:13")
        assert window.page.locator("#results button").count() == 2
        window.page.fill("#search", "no such thing")
        assert "no tensor" in window.page.inner_text("#results")


def test_modules_open_and_close(chromium: Any, tmp_path: Path) -> None:
    graph = chain(300, True)
    with opened(chromium, saved(picture_report(graph, {(0, 1): graph}), tmp_path)) as window:
        page = window.page
        page.click("#close-all")
        window.settle()
        assert page.locator("#pane-specification .module").count() == 1
        page.locator("#pane-specification .module").click()
        window.settle()
        first = page.locator("#pane-specification .module.closed", has_text="layers.0")
        before = first.bounding_box()
        first.click()
        window.settle()
        opened_ = page.locator("#pane-specification .module.opened", has_text="layers.0").last.bounding_box()
        assert page.locator("#pane-specification .module.closed", has_text="attention").count() == 1
        assert abs(opened_["y"] - before["y"]) < 3  # what was clicked stays where it was
        page.locator("#pane-specification .module.opened .title").last.click()
        window.settle()
        after = first.bounding_box()
        assert [after[key] for key in ("y", "width", "height")] == [before[key] for key in ("y", "width", "height")]


def test_titles_of_open_modules_stay_in_view(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, saved(large(60, True), tmp_path)) as window:
        page = window.page
        page.click("#open-all")
        window.settle()
        pane = window.boxes("#pane-specification")[0]
        page.mouse.move(pane["x"] + 20, pane["y"] + 200)
        page.mouse.wheel(0, 40)
        window.settle()
        shown = [
            box
            for box in window.boxes("#pane-specification .module.held > .title")
            if box["y"] > pane["y"] - 2 and box["y"] < pane["y"] + 60
        ]
        assert shown  # modules that begin above the pane are named at its top
        for text in window.boxes("#pane-specification .module.held text.op"):
            assert text["x"] >= pane["x"]


def test_ranks_with_different_programs_can_be_chosen(chromium: Any, tmp_path: Path) -> None:
    graphs = {(0, 1): chain(8, False), (2,): chain(12, False)}
    mismatch = Mismatch("node_10", "aten.add.Tensor", "", "node_10", "aten.add.Tensor", rank=2)
    report = picture_report(chain(12, False), graphs, mismatch)
    with opened(chromium, saved(report, tmp_path)) as window:
        choice = window.page.locator("#program")
        assert choice.locator("option").all_inner_texts() == ["implementation: ranks 0, 1", "implementation: rank 2"]
        assert choice.input_value() == "2"  # where the mismatch is
        in_view(window, ".node.culprit > .body", 2)
        choice.select_option("1")
        window.settle()
        in_view(window, ".node.culprit > .body", 1)


def test_names_and_code_are_text_in_the_browser_too(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, saved(hostile(), tmp_path)) as window:
        page = window.page
        page.locator("#pane-specification .node.culprit .op").click()
        shown = page.locator("#tensor pre").first.text_content()
        assert HOSTILE in shown
        page.fill("#search", "onerror")
        assert page.locator("#results button").count() > 1
        assert page.evaluate("typeof pwned") == "undefined"
        assert page.locator("img").count() == 0


@pytest.mark.parametrize("modules", [True, False])
def test_two_thousand_nodes_open_in_three_seconds(chromium: Any, tmp_path: Path, modules: bool) -> None:
    with opened(chromium, saved(large(2000, modules), tmp_path)) as window:
        window.screenshot(f"2000-nodes-{'modules' if modules else 'flat'}")
        in_view(window, ".node.culprit > .body", 2)
        assert window.ready < 3000
        window.page.fill("#search", "node_1999")
        window.page.keyboard.press("Enter")
        window.settle()
        assert window.page.inner_text("#tensor-name") == "node_1999"


def test_all_modules_of_a_large_graph_can_be_opened(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, saved(large(1000, True), tmp_path)) as window:
        window.page.click("#open-all")
        window.settle()
        in_view(window, ".node.culprit > .body", 2)
        window.page.click("#fit")
        window.settle()
        assert window.page.locator("#pane-specification .node").count() > 800
        window.page.click("#home")
        window.settle()
        assert window.page.locator("#pane-specification .node").count() < 200  # only what is in view
        in_view(window, ".node.culprit > .body", 2)


def test_a_small_window_shows_everything_one_below_the_other(chromium: Any, tmp_path: Path) -> None:
    report = replace(large(30, True), notes=("the last line",))
    with opened(chromium, saved(report, tmp_path)) as window:
        window.page.set_viewport_size({"width": 700, "height": 800})
        window.settle()
        window.page.get_by_text("the last line").scroll_into_view_if_needed()
        assert window.page.get_by_text("the last line").is_visible()
        assert window.page.evaluate("document.documentElement.scrollWidth") <= 700
