"""Nothing leaves the machine: whatever a page loads, it loads from the server it came from."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from tests.browser.conftest import settle
from tests.browser.test_addresses import ADDRESSES

pytestmark = pytest.mark.browser

_LOCAL = {"data", "blob", "about"}
"""Schemes of what is in the page already."""


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 1300})
    yield context
    context.close()


def is_elsewhere(url: str, address: str) -> bool:
    """Whether a request for this leaves the server."""
    there, here = urlsplit(url), urlsplit(address)
    return there.scheme not in _LOCAL and there.netloc != here.netloc


def test_elsewhere_is_elsewhere() -> None:
    here = "http://127.0.0.1:8501"
    assert not is_elsewhere(f"{here}/static/index.js", here)
    assert not is_elsewhere("ws://127.0.0.1:8501/_stcore/stream", here)
    assert not is_elsewhere("data:image/svg+xml;base64,AAAA", here)
    assert is_elsewhere("https://fonts.gstatic.com/icon.svg", here)
    assert is_elsewhere("http://127.0.0.1:9999/", here)


def test_no_request_goes_anywhere_but_the_server(context: BrowserContext, address: str) -> None:
    """All pages, and a release on the first; icons of the tab included."""
    asked: list[str] = []
    page = context.new_page()
    context.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    for path, (heading, picture) in ADDRESSES.items():
        page.goto(f"{address}/{path}")
        expect(page.get_by_role("heading", name=heading, level=1)).to_be_visible()
        settle(page, picture=picture)
        # what Chromium itself fetches for the tab is no request of the page's
        icon = page.evaluate("document.querySelector('link[rel~=icon]').href")
        assert not is_elsewhere(icon, address), icon
    page.goto(address)
    settle(page)
    page.get_by_role("button", name="Release", exact=True).click()
    settle(page)
    expect(page.get_by_role("button", name="Release", exact=True)).to_be_enabled()
    assert len(asked) > len(ADDRESSES)
    assert [url for url in asked if is_elsewhere(url, address)] == []
