"""The page Explore as a person meets it: in light and dark, wide and narrow."""

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
        viewport={"width": 400, "height": 3600} if narrow else {"width": 1400, "height": 1700},
    )
    yield context.new_page()
    context.close()


def test_generate_release_and_read_the_verdict(
    page: Page, address: str, artifacts: Path, request: pytest.FixtureRequest
) -> None:
    page.goto(f"{address}/?method=Lifted&epsilon=8&seeded=true")
    settle(page)
    expect(page.get_by_text("Press Release to learn it privately")).to_be_visible()
    page.get_by_role("button", name="Release", exact=True).click()
    settle(page)
    expect(page.get_by_text("The private mixture may be shared.")).to_be_visible(timeout=120_000)
    legend = page.locator(".legendtext")
    for label in ("True mixture", "Non-private fit", "Private release"):
        expect(legend.filter(has_text=label)).to_have_count(1, timeout=30_000)
    expect(page.get_by_text("Not to be shared")).to_be_visible()
    # No sideways scrolling, also on a phone.
    overflow = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert overflow <= 0
    page.wait_for_timeout(500)
    page.screenshot(path=artifacts / f"explore-{request.node.callspec.id}.png")


def test_refusal_names_the_rows_it_would_take(
    page: Page, address: str, artifacts: Path, request: pytest.FixtureRequest
) -> None:
    page.goto(f"{address}/?method=Paper&n=10%2C000")
    settle(page)
    page.get_by_role("button", name="Release", exact=True).click()
    settle(page)
    expect(page.get_by_text("that is the guarantee at work")).to_be_visible(timeout=120_000)
    legend = page.locator(".legendtext")
    expect(legend.filter(has_text="Non-private fit")).to_have_count(1, timeout=30_000)
    expect(legend.filter(has_text="Private release")).to_have_count(0)
    page.wait_for_timeout(500)
    page.screenshot(path=artifacts / f"refusal-{request.node.callspec.id}.png")
