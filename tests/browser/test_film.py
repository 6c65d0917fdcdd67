"""The page How it works as a person meets it: step, play, light and dark, wide and narrow."""

from __future__ import annotations

import re
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
        viewport={"width": 400, "height": 2300} if narrow else {"width": 1280, "height": 1400},
    )
    yield context.new_page()
    context.close()


def test_step_through_the_film_and_play_it(
    page: Page, address: str, artifacts: Path, request: pytest.FixtureRequest
) -> None:
    first = request.node.callspec.id == "light"
    page.goto(f"{address}/How_it_works?step={2 if first else 4}")
    settle(page)
    if first:
        expect(page.get_by_text("2 · Fit every block on its own")).to_be_visible()
        for title in ("3 · Compare all pairs", "4 · Count the votes"):
            page.get_by_role("button", name="Next").click()
            settle(page)
            expect(page.get_by_text(title)).to_be_visible()
        expect(page).to_have_url(re.compile("step=4"))
    expect(page.get_by_text("privgmm.stages.agreement.votes.h_index")).to_be_visible()
    overflow = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert overflow <= 0
    page.wait_for_timeout(500)
    page.screenshot(path=artifacts / f"film-{request.node.callspec.id}.png")
    if first:
        page.get_by_role("button", name="Play", exact=True).click()
        expect(page.get_by_text("5 · Ask with noise")).to_be_visible()
        page.get_by_role("button", name="Pause", exact=True).click()
        expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
