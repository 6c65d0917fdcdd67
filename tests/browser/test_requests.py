"""Nothing leaves the machine: whatever a page loads, it loads from the server it came from."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Requests, is_elsewhere, settle

pytestmark = pytest.mark.browser


def test_elsewhere_is_elsewhere() -> None:
    here = "http://127.0.0.1:8501"
    assert not is_elsewhere(f"{here}/static/index.js", here)
    assert not is_elsewhere("ws://127.0.0.1:8501/_stcore/stream", here)
    assert not is_elsewhere("data:image/svg+xml;base64,AAAA", here)
    assert is_elsewhere("https://fonts.gstatic.com/icon.svg", here)
    assert is_elsewhere("http://127.0.0.1:9999/", here)


def test_no_request_of_a_release_goes_anywhere_but_the_server(
    browser: Browser, address: str
) -> None:
    """What pages load before anything is done, `test_addresses` looks at."""
    context = browser.new_context(viewport={"width": 1280, "height": 1300})
    page = context.new_page()
    asked = Requests(page)
    page.goto(address)
    settle(page)
    page.get_by_role("button", name="Release", exact=True).click()
    settle(page)
    expect(page.get_by_role("button", name="Release", exact=True)).to_be_enabled()
    assert asked.elsewhere(address) == []
    context.close()
