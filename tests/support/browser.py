"""A real browser for tests: one Chromium for all of them, without a network.

A page that is visited has to be quiet: when its test ends, a word on the console, an error, or a request for
anything but the page itself fails it.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

VARIABLE = "NSYSWRAP_CHROMIUM"
_WIDE = {"width": 1280, "height": 900}
_OWN = ("file:", "blob:", "data:")  # what is no request to anybody


class Visit(Protocol):
    """Opens a file in the browser; ``loud``: what it says and asks for does not matter."""

    def __call__(self, path: Path, *, loud: bool = False, **options: Any) -> Page: ...


def chromium_path() -> str | None:
    """Where Chromium is: named by the variable, or on PATH."""
    return os.environ.get(VARIABLE) or shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The browser; where there is none, or nothing to drive it with, the tests are skipped."""
    driver = pytest.importorskip("playwright.sync_api", reason="needs playwright (pip install '.[test]')")
    path = chromium_path()
    if path is None:
        pytest.skip("needs Chromium (Debian: apt-get install chromium)")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with driver.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=[*sandbox, "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Visit]:
    heard: list[str] = []
    opened = []

    def go(path: Path, *, loud: bool = False, **options: Any) -> Page:
        context = chromium.new_context(**{"viewport": _WIDE, "offline": True, **options})
        opened.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)  # on a busy machine too
        if not loud:
            page.on("console", lambda message: heard.append(f"console: {message.text}"))
            page.on("pageerror", lambda error: heard.append(f"error: {error}"))
            page.on("request", lambda request: heard.append(request.url))
        page.goto(path.as_uri())
        return page

    yield go
    for context in opened:
        context.close()
    assert [word for word in heard if not word.startswith(_OWN)] == []
