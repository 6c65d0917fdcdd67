"""The page Compare as a person meets it: a first picture, more runs, a stop; in every look."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import settle

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("look", ["light", "dark", "narrow"])
def test_compare_and_stop(browser: Browser, address: str, artifacts: Path, look: str) -> None:
    narrow = look == "narrow"
    context = browser.new_context(
        color_scheme="dark" if look == "dark" else "light",
        viewport={"width": 400, "height": 3600} if narrow else {"width": 1280, "height": 2200},
    )
    page = context.new_page()
    # The same question in each look: its runs are worked out once.
    page.goto(f"{address}/Compare?n=10,000&shift=10,000")
    settle(page)
    expect(page.get_by_text("given nothing,").first).to_be_visible()
    page.get_by_role("button", name="Stop", exact=False).last.click()
    expect(page.get_by_text("Stopped at")).to_be_visible()
    settle(page)
    expect(page.locator(".legendtext").filter(has_text="Sketch").first).to_be_visible()
    overflow = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert overflow <= 0
    page.wait_for_timeout(500)
    page.screenshot(path=artifacts / f"compare-{look}.png")
    if look == "light":
        page.get_by_role("button", name="Bounds right").click()
        expect(page.get_by_role("slider", name="Rows shifted by")).to_have_attribute(
            "aria-valuetext", "0"
        )
    context.close()
