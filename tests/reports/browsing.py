"""Pages in a real browser: what they draw, log and ask the network for.

Tests of a file follow each other in one tab, so that Chromium compiles plotly once: a new tab costs
two seconds of CPU more. Each test has a new document there, of its own width and colour scheme.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, Request, sync_playwright

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Page:
    return browser.new_page()


class Opened:
    """A file in a tab, with what it logged and what it asked the network for."""

    def __init__(
        self,
        tab: Page,
        file: Path,
        width: int = 1400,
        scheme: Literal["light", "dark"] = "light",
    ) -> None:
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.page = tab
        tab.emulate_media(media="null", color_scheme=scheme)
        tab.set_viewport_size({"width": width, "height": 900})
        tab.on("console", self._console)
        tab.on("pageerror", self._error)
        tab.on("request", self._request)
        tab.goto(file.as_uri())

    def _console(self, message: ConsoleMessage) -> None:
        self.messages.append(message.text)

    def _error(self, error: Error) -> None:
        self.messages.append(str(error))

    def _request(self, request: Request) -> None:
        self.requests.append(request.url)

    def close(self) -> None:
        self.page.remove_listener("console", self._console)
        self.page.remove_listener("pageerror", self._error)
        self.page.remove_listener("request", self._request)
        self.page.goto("about:blank")  # so that what it was still to draw is not drawn

    def charts(self) -> int:
        return self.page.locator(".chart .main-svg").count()


Opens = Callable[..., Opened]
"""Called with what `Opened` takes after the tab."""


@pytest.fixture
def opens(tab: Page) -> Iterator[Opens]:
    """Opens a file in place of the one that is open; the test's last one is closed after it."""
    last: list[Opened] = []

    def open_(file: Path, width: int = 1400, scheme: Literal["light", "dark"] = "light") -> Opened:
        if last:
            last.pop().close()
        last.append(Opened(tab, file, width, scheme))
        return last[0]

    yield open_
    if last:
        last.pop().close()


def ready(page: Page) -> None:
    """All charts drawn now, without waiting until they are come by or nothing else is to do."""
    page.evaluate("drawAll(scheme.matches)")


def settle(page: Page) -> None:
    """All that the file and its charts started has been done: what was to run has run.

    The last image asked for isn't there. Those asked for before, by a text that was taken for HTML,
    have failed and called their handlers when its own is called.
    """
    page.evaluate(
        """async () => {
          if (typeof drawAll === "function") drawAll(false);
          await new Promise((done) => {
            const last = new Image();
            last.onload = last.onerror = done;
            last.src = "no-such-image";
          });
          await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        }"""
    )
