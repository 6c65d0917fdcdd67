"""The page Audit as a person meets it: predict and guess, with noise and without; test; flip."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import settle

pytestmark = pytest.mark.browser


@pytest.fixture(params=["light", "dark", "narrow"])
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    narrow = request.param == "narrow"
    context = browser.new_context(
        color_scheme="dark" if request.param == "dark" else "light",
        viewport={"width": 400, "height": 2300} if narrow else {"width": 1024, "height": 1500},
    )
    yield context.new_page()
    context.close()


def _no_sideways_scrolling(page: Page) -> None:
    overflow = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert overflow <= 0


def test_guess_and_flip(
    page: Page, address: str, artifacts: Path, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id
    page.goto(f"{address}/Audit?noise=off&person=outlier")
    expect(page.get_by_text("Predict first.")).to_be_visible()
    expect(page.get_by_text("No noise: broken on purpose.")).to_be_visible()
    settle(page)
    # by keyboard alone: predict, guess, see
    page.keyboard.press("3")
    expect(page.get_by_text("Which one was it?")).to_be_visible()
    settle(page)
    page.keyboard.press("b")
    expect(page.get_by_text("to the last digit")).to_be_visible()
    settle(page)
    _no_sideways_scrolling(page)
    page.wait_for_timeout(500)
    page.screenshot(path=artifacts / f"audit-without-noise-{name}.png")
    page.keyboard.press("n")
    expect(page.get_by_text("Which one was it?")).to_be_visible()
    settle(page)
    page.get_by_role("radio", name="on", exact=True).click()
    expect(page.get_by_text("Predict first.")).to_be_visible()
    settle(page)
    page.get_by_role("button", name="About 5").click()
    expect(page.get_by_text("Which one was it?")).to_be_visible()
    page.get_by_role("button", name="It was A").click()
    expect(page.get_by_text("The best strategy said")).to_be_visible()
    settle(page)
    page.get_by_role("button", name="Let the best strategy play").click()
    settle(page)
    expect(page.get_by_text("of 100,000 rounds")).to_be_visible()
    expect(page.locator(".legendtext").filter(has_text="proved ceiling")).to_be_visible()
    _no_sideways_scrolling(page)
    page.mouse.move(0, 0)
    page.wait_for_timeout(500)
    page.screenshot(path=artifacts / f"audit-guess-{name}.png")
    page.goto(f"{address}/Audit?audit=Trade-off")
    expect(page.get_by_text("No test, by anybody, lies below")).to_be_visible()
    settle(page)
    _no_sideways_scrolling(page)
    page.wait_for_timeout(500)
    page.screenshot(path=artifacts / f"audit-tradeoff-{name}.png")
    if name == "dark":
        return
    page.goto(f"{address}/Audit?audit=Flip+one+row")
    expect(page.get_by_text("All other fits are the same to the last bit")).to_be_visible()
    settle(page)
    _no_sideways_scrolling(page)
    page.wait_for_timeout(500)
    page.screenshot(path=artifacts / f"audit-flip-{name}.png")
