"""Every page as axe-core sees it, in both themes; focus that shows, and no motion unasked."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from privgmm.dashboard.shared.layout import PAGES
from tests.browser.conftest import settle

pytestmark = pytest.mark.browser

NAMES = [page.path.removeprefix("pages/").removesuffix(".py").replace("app", "") for page in PAGES]
_SETTINGS = {"": "?epsilon=0.2&n=1%2C000", "Compare": "?n=1%2C000"}
"""Explore with a warning and its remedies; Compare with fewer rows to wait for."""


def _serious(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {node['html'][:160]}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_has_a_serious_violation(browser: Browser, address: str, theme: str) -> None:
    context = browser.new_context(
        color_scheme="dark" if theme == "dark" else "light",
        viewport={"width": 1280, "height": 1400},
    )
    page = context.new_page()
    # what differs in the dark is colour: these three show buttons, code, warnings and figures
    for name in NAMES if theme == "light" else ("", "How_it_works", "Audit"):
        page.goto(f"{address}/{name}{_SETTINGS.get(name, '')}")
        settle(page, picture=name != "Ledger")
        assert _serious(page) == [], name
    context.close()


def test_links_show_focus_and_nothing_moves_unasked(browser: Browser, address: str) -> None:
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.goto(address)
    settle(page)
    link = page.get_by_role("link", name="Look again")
    link.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    # the page's own style arrives with its content, so both are waited for
    expect(link).to_have_css("outline-style", "solid")
    expect(link).to_have_css("outline-width", "2px")
    longest = page.evaluate(
        """() => Math.max(...[...document.querySelectorAll('*')].map(e =>
        Math.max(parseFloat(getComputedStyle(e).animationDuration) || 0,
                 parseFloat(getComputedStyle(e).transitionDuration) || 0)))"""
    )
    assert longest <= 0.001
    context.close()
