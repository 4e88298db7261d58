"""A headless Chromium for the tests of pages, and the folder that their screenshots go to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

__all__ = ["ARTEFACTS", "SIZE", "Opened", "browser", "opened"]

ARTEFACTS = Path(
    os.environ.get("TANTAMOUNT_ARTEFACTS") or Path(__file__).resolve().parents[2] / "build" / "screenshots"
)
SIZE = {"width": 1400, "height": 900}
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium as Debian and others install it, or the one of Playwright; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (extra: dev)")
    with playwright.sync_playwright() as driver:
        named = os.environ.get("TANTAMOUNT_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
        executable = named or driver.chromium.executable_path
        if not Path(executable).exists():
            pytest.skip("no Chromium: install one, or name it in TANTAMOUNT_CHROMIUM")
        # the sandbox of Chromium does not work for root, as which tests run in containers; the pages are our own
        chromium = driver.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        try:
            yield chromium
        finally:
            chromium.close()


class Opened:
    """A page in the browser. ``problems`` has what the console said and what was asked of the network."""

    def __init__(self, chromium: Any, path: Path, scheme: str = "light") -> None:
        self.problems: list[str] = []
        self.path = path
        self.page = chromium.new_page(viewport=SIZE, color_scheme=scheme)
        self.page.on("console", lambda message: self.problems.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: self.problems.append(f"dialog: {dialog.message}"))
        self.page.on("request", lambda request: self._request(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready]", timeout=60_000)

    def _request(self, url: str) -> None:
        if url != self.path.as_uri():
            self.problems.append(f"request: {url}")

    @property
    def ready(self) -> int:
        """Milliseconds from the beginning of loading until everything is drawn."""
        return int(self.page.evaluate("document.documentElement.dataset.ready"))

    def boxes(self, selector: str) -> list[dict[str, float]]:
        """Where elements are on the screen: ``x``, ``y``, ``width``, ``height``."""
        return [element.bounding_box() for element in self.page.query_selector_all(selector)]

    def settle(self) -> None:
        """Wait until what was done is drawn."""
        self.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def screenshot(self, name: str) -> Path:
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        path = ARTEFACTS / f"{name}.png"
        self.page.screenshot(path=path)
        return path


@contextmanager
def opened(chromium: Any, path: Path, scheme: str = "light") -> Iterator[Opened]:
    """A page that has been loaded; afterwards there must have been no problem with it."""
    window = Opened(chromium, path, scheme)
    try:
        yield window
        assert window.problems == []
    finally:
        window.page.close()
