"""The page Ledger as a person meets it: release, look, reload nothing, set a cap, be stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import settle

pytestmark = pytest.mark.browser


def press_release(page: Page, answer: str) -> None:
    # once the page has come to rest, so that the click meets the button
    expect(page.get_by_text("you have 10,000").first).to_be_visible()
    settle(page)
    page.get_by_role("button", name="Release", exact=True).click()
    expect(page.get_by_text(answer)).to_be_visible()
    settle(page)


def turn_to(page: Page, name: str) -> None:
    """By the link on the page itself, in the sidebar or not."""
    page.get_by_role("link", name=name, exact=True).locator("visible=true").last.click()
    page.wait_for_timeout(250)
    settle(page)


def overflow(page: Page) -> int:
    return int(
        page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    )


def test_spend_look_and_cap(browser: Browser, address: str, artifacts: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 1500})
    # cold, by its address: an explanation and a way to begin
    page.goto(f"{address}/Ledger")
    settle(page, picture=False)
    expect(page.get_by_text("no account to show")).to_be_visible()
    page.goto(f"{address}/?method=Paper&n=10%2C000&epsilon=4")
    settle(page)
    press_release(page, "1 release so far")
    turn_to(page, "Ledger")
    numbers = page.locator("[data-testid='stMetricValue']")
    # together, sum of the parts, guessed right, answers
    expect(numbers).to_have_count(4)
    expect(numbers.nth(3)).to_have_text("1")
    # a rerun adds nothing
    page.keyboard.press("r")
    settle(page)
    expect(numbers.nth(3)).to_have_text("1")
    for look, width, height in (("light", 1280, 1500), ("dark", 1280, 1500), ("narrow", 400, 2300)):
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme="dark" if look == "dark" else "light")
        page.wait_for_timeout(700)
        page.screenshot(path=artifacts / f"ledger-{look}.png")
        ground = page.locator("[data-testid='stApp']").evaluate(
            "node => getComputedStyle(node).backgroundColor.match(/\\d+/g).map(Number)"
        )
        assert (sum(ground[:3]) < 3 * 128) == (look == "dark")
        assert overflow(page) <= 0
    page.set_viewport_size({"width": 1280, "height": 1500})
    # Enter in the field asks first, and twice Enter sets nothing either
    page.get_by_label("Most ε in total").fill("0.5")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Set the cap ε = 0.5, δ = 10⁻⁵ for good?")).to_be_visible()
    settle(page)
    page.keyboard.press("Enter")
    settle(page)
    expect(page.get_by_text("Cap: ε = 0.5")).to_have_count(0)
    page.screenshot(path=artifacts / "ledger-cap-asked.png")
    # by keyboard alone
    page.get_by_role("button", name="Set it for good").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Cap: ε = 0.5")).to_be_visible()
    settle(page)
    page.screenshot(path=artifacts / "ledger-cap.png")
    page.get_by_role("link", name="Explore", exact=True).click()
    settle(page)
    press_release(page, "beyond what its cap")
    expect(page.get_by_text("Nothing was drawn and nothing spent.")).to_be_visible()
    turn_to(page, "Ledger")
    expect(numbers.nth(3)).to_have_text("1")
    page.close()
