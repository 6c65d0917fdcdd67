"""The page Planner as a person meets it: by its address, by a link, in light, dark and narrow."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from privgmm.methods.registry import BUILT_IN
from tests.browser.conftest import settle

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("look", ["light", "dark", "narrow"])
def test_ask_and_share(browser: Browser, address: str, artifacts: Path, look: str) -> None:
    narrow = look == "narrow"
    context = browser.new_context(
        color_scheme="dark" if look == "dark" else "light",
        viewport={"width": 400, "height": 2700} if narrow else {"width": 1280, "height": 1500},
    )
    page = context.new_page()
    # A cold link to the same question in each look; the answers are worked out once.
    page.goto(f"{address}/Planner?budget=2")
    settle(page)
    metrics = page.locator("[data-testid='stMetricValue']")
    expect(metrics).to_have_count(len(BUILT_IN))
    expect(page.get_by_role("slider", name="Privacy budget")).to_have_attribute(
        "aria-valuetext", "2"
    )
    # the answers come one by one, beside the page
    expect(metrics.nth(-2)).to_contain_text("million")
    expect(metrics.nth(-1)).to_contain_text("× 10")
    for number in range(len(BUILT_IN)):
        expect(metrics.nth(number)).not_to_contain_text("…")
    expect(page.get_by_text("Computing")).to_have_count(0)
    expect(page.locator(".main-svg .legendtext").filter(has_text="Lifted")).to_have_count(2)
    overflow = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert overflow <= 0
    page.wait_for_timeout(500)
    page.screenshot(path=artifacts / f"planner-{look}.png")
    if look == "light":
        # A slider moved to where nobody was: the page answers at once, then the numbers come.
        before = metrics.nth(1).inner_text()
        page.get_by_role("slider", name="Failure chance").press("ArrowLeft")
        expect(metrics.nth(1)).not_to_have_text(before)
        expect(metrics.nth(1)).not_to_contain_text("…")
        # Solving for something else is part of the link.
        page.get_by_role("radio", name="ε").or_(
            page.get_by_role("button", name="ε", exact=True)
        ).first.click()
        expect(page.get_by_role("slider", name="Rows at hand")).to_be_visible()
        expect(page).to_have_url(re.compile("solve="))
    context.close()
