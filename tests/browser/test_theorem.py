"""The page Theorem 1.8 as a person meets it: drag, click, share the link; light, dark, narrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import settle

pytestmark = pytest.mark.browser


@pytest.fixture(params=["light", "dark", "narrow"])
def context(browser: Browser, request: pytest.FixtureRequest) -> Iterator[BrowserContext]:
    narrow = request.param == "narrow"
    context = browser.new_context(
        color_scheme="dark" if request.param == "dark" else "light",
        viewport={"width": 400, "height": 3000} if narrow else {"width": 1024, "height": 2300},
    )
    yield context
    context.close()


def _numbers(page: Page) -> list[str]:
    return page.locator("[data-testid='stMetricValue']").all_inner_texts()


def _settled_numbers(page: Page) -> list[str]:
    """The numbers once the last place of a drag has been answered: they and the address stay."""
    seen: tuple[str, list[str]] | None = None
    for _ in range(100):
        settle(page)
        now = page.url, _numbers(page)
        if now == seen:
            return now[1]
        seen = now
        page.wait_for_timeout(700)
    pytest.fail("the numbers keep changing")


def _drag(page: Page, handle: str, across: float, down: float) -> None:
    box = page.locator(f"[data-handle='{handle}']").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + across / 2, y + down / 2)
    page.mouse.move(x + across, y + down)
    page.mouse.up()


def test_drag_read_and_share(
    context: BrowserContext, address: str, artifacts: Path, request: pytest.FixtureRequest
) -> None:
    page = context.new_page()
    page.goto(f"{address}/Theorem_1_8?ratio=true")
    settle(page)
    start = _numbers(page)
    _drag(page, "second-centre", -50, 30)
    expect(page.locator("[data-testid='stMetricValue']").first).not_to_have_text(start[0])
    moved = _settled_numbers(page)
    expect(page.get_by_text("so the theorem applies")).to_be_visible()
    overflow = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert overflow <= 0
    expect(page.locator("svg .note")).to_have_text("drawn 1,000 times too far apart")
    clipped = page.locator("[data-testid='stMetricValue'] p, [data-testid='stMetricLabel'] p")
    assert all(
        box.evaluate("(one) => one.scrollWidth <= one.clientWidth + 1") for box in clipped.all()
    )
    page.wait_for_timeout(500)
    page.screenshot(path=artifacts / f"theorem-{request.node.callspec.id}.png")
    if request.node.callspec.id != "light":
        return
    # The link holds the pair: a person who opens it sees the same numbers.
    assert "x2=" in page.url
    other = context.new_page()
    other.goto(page.url)
    settle(other)
    assert _numbers(other) == moved != start
    # With the keyboard, then by clicking one of the dots.
    handle = other.locator("[data-handle='first-along']")
    handle.focus()
    handle.press("ArrowUp")
    expect(other.locator("[data-testid='stMetricValue']").first).not_to_have_text(moved[0])
    settle(other)
    other.locator(".scatterlayer .points path").nth(1000).click(force=True)
    expect(other.get_by_text("The pair you clicked")).to_be_visible()
    settle(other)
    other.screenshot(path=artifacts / "theorem-clicked.png", full_page=True)
