"""Every page by its own address, in a session that has seen no other; and lessons on them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from privgmm.dashboard.shared.layout import PAGES
from tests.browser.conftest import Requests, settle

pytestmark = pytest.mark.browser


ADDRESSES: dict[str, tuple[str, bool]] = {
    "": ("Learn clusters from people's data, reveal nobody", True),
    "Look_again": ("Look again, for free", True),
    "How_it_works": ("How it works", True),
    "Theorem_1_8": ("How far apart are two Gaussians?", True),
    "Planner": ("How many rows do I need?", True),
    "Compare": ("Who learns it best?", True),
    "Audit": ("Do I believe it?", True),
    "Ledger": ("What has been spent?", False),
}
"""By address: the heading, and whether there is a chart before anything was done."""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A browser that has never been here: no cookies, no session."""
    context = browser.new_context(viewport={"width": 1280, "height": 1300})
    yield context.new_page()
    context.close()


def test_no_page_is_left_out() -> None:
    files = {entry.path.removeprefix("pages/").removesuffix(".py") for entry in PAGES}
    assert ADDRESSES.keys() == {"" if name == "app" else name for name in files}


@pytest.mark.parametrize("path", ADDRESSES)
def test_a_cold_address_shows_the_page(page: Page, address: str, path: str) -> None:
    """Without an error in the page, and without a request to anybody but the server."""
    heading, picture = ADDRESSES[path]
    shouted: list[str] = []
    asked = Requests(page)
    page.on("pageerror", lambda problem: shouted.append(str(problem)))
    page.goto(f"{address}/{path}")
    expect(page.get_by_role("heading", name=heading, level=1)).to_be_visible()
    # answers worked out beside the page may bring the chart a little later
    if picture:
        expect(page.locator(".main-svg").first).to_be_visible()
        expect(page.locator(".main-svg .trace").first).to_be_attached()
    settle(page, picture=picture)
    expect(page.get_by_test_id("stException")).to_have_count(0)
    assert shouted == []
    assert asked.elsewhere(address) == []


@pytest.mark.parametrize(
    ("link", "hidden", "visible"),
    [
        ("Planner?budget=2", "Privacy budget ε", "ε = 2"),
        ("Audit?audit_epsilon=2", "Privacy budget ε", "ε = 2"),
        ("Theorem_1_8?zoom=100×", "Microscope", "100 times larger"),
    ],
)
def test_a_lesson_on_any_page(
    page: Page, address: str, link: str, hidden: str, visible: str
) -> None:
    page.goto(f"{address}/{link}&lesson=Guess%20first&question=What%20will%20come%20out%3F")
    expect(page.get_by_text("What will come out?")).to_be_visible()
    expect(page.locator(".main-svg").first).to_be_visible()
    settle(page)
    control = page.get_by_role("slider", name=hidden)
    expect(control).to_be_hidden()
    expect(page.get_by_text(visible).first).to_be_visible()
    page.get_by_role("button", name="Leave the lesson").click()
    # while it is rendered again, the slider before and the one after are both there
    settle(page)
    expect(control).to_be_visible()
    expect(page.get_by_text("What will come out?")).to_have_count(0)
    settle(page)
    expect(page.get_by_role("button", name="Link to this")).to_be_visible()
