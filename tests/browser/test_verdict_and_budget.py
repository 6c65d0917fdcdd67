"""What a visitor is told: a window for the rows, a verdict in three colours, knobs, a budget."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import settle

pytestmark = pytest.mark.browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    yield context.new_page()
    context.close()


def test_the_window_is_that_of_the_rows_however_wide_the_errors(page: Page, address: str) -> None:
    """Four components in two groups: two of them are hardly there, with errors in the hundreds."""
    page.goto(f"{address}/?kind=Well+separated&n=3%2C000&epsilon=1&k=4&layers=Error+bands")
    expect(page.locator(".legendtext").filter(has_text="Private release")).to_have_count(1)
    settle(page)
    chart = "document.querySelector('.st-key-picture .js-plotly-plot')"
    (left, right), (low, high) = page.evaluate(
        f"[{chart}._fullLayout.xaxis.range, {chart}._fullLayout.yaxis.range]"
    )
    assert -40 < left < right < 40
    assert -40 < low < high < 40
    # the first column lies across, and one aspect holds for both
    assert page.evaluate(f"{chart}._fullLayout.xaxis.title.text") == "x1"
    across, up = page.evaluate(f"[{chart}._fullLayout.xaxis._m, {chart}._fullLayout.yaxis._m]")
    assert abs(across) == pytest.approx(abs(up), rel=0.02)


@pytest.mark.parametrize(
    ("settings", "tone", "words"),
    [
        ("kind=Well+separated&epsilon=3", "yes", "Useful"),
        ("kind=Overlapping&epsilon=0.4", "fair", "Released, but"),
        ("kind=Overlapping&epsilon=0.1", "no", "Would be refused"),
    ],
)
def test_only_what_is_useful_is_green(
    page: Page, address: str, settings: str, tone: str, words: str
) -> None:
    page.goto(f"{address}/?{settings}")
    band = page.locator(".privgmm-band")
    expect(band).to_have_class(re.compile(rf"\b{tone}\b"))
    expect(band).to_contain_text(words)
    expect(band).to_contain_text("Rehearsal: nothing spent")


def test_a_knob_says_what_it_does_and_offers_what_has_blocks(page: Page, address: str) -> None:
    page.goto(address)
    settle(page)
    knobs = page.locator(".st-key-knobs")
    expect(knobs).to_contain_text("far below 1 in 3,000 rows")
    expect(knobs).to_contain_text(re.compile(r"met in \d+% of releases"))
    expect(knobs).to_contain_text("no blocks in this frame")
    expect(page.get_by_role("button", name="A frame of 300 blocks")).to_be_hidden()
    page.locator(".st-key-knob_t button").click()
    layer = page.get_by_role("button", name="Block fits", exact=True)
    expect(layer).to_have_attribute("aria-pressed", "true")
    settle(page)
    page.get_by_role("button", name="A frame of 300 blocks").click()
    expect(knobs).to_contain_text("t = 300")
    expect(knobs).to_contain_text("10 rows per block")
    expect(page.locator(".legendtext").filter(has_text="blocks")).to_have_count(1)


def test_the_budget_is_in_the_header_of_every_page_and_moves(page: Page, address: str) -> None:
    page.goto(f"{address}/?kind=Well+separated&epsilon=1")
    settle(page)
    budget = page.locator(".privgmm-budget")
    expect(budget).to_contain_text("ε used: 0")
    filled = "document.querySelector('.privgmm-budget .fill').style.width"
    assert page.evaluate(filled) == "0%"
    page.get_by_role("button", name="Release", exact=True).click()
    expect(budget).to_contain_text(re.compile(r"ε used: 1 · attacker right: 5\d%"))
    settle(page)
    assert page.evaluate(filled) == "10%"
    headings = {
        "Planner": "How many rows do I need?",
        "Ledger": "What has been spent?",
        "Look again": "Look again, for free",
    }
    for name, heading in headings.items():
        page.get_by_role("link", name=name, exact=True).first.click()
        expect(page.get_by_role("heading", name=heading)).to_be_visible()
        settle(page, picture=False)
        expect(budget).to_contain_text("ε used: 1 · attacker right: 5")


def test_own_rows_are_asked_about_and_rehearsed_on_stand_ins(
    page: Page, address: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(3)
    visits = tmp_path / "visits.csv"
    lines = [
        f"{1000 + i // 3},{height:.4f},{cost:.4f}"
        for i, (height, cost) in enumerate(
            zip(rng.normal(170, 9, 3000), np.exp(2 * rng.standard_normal(3000)), strict=True)
        )
    ]
    visits.write_text("person_id,height,cost\n" + "\n".join(lines))
    page.goto(f"{address}/?source=Upload&epsilon=3")
    settle(page, picture=False)
    page.locator("input[type=file]").set_input_files(str(visits))
    expect(page.get_by_text("Values of 'person_id' repeat")).to_be_visible()
    expect(page.get_by_text("one row in a hundred lies")).to_be_visible()
    expect(page.locator(".privgmm-band")).to_contain_text("Rehearsal on stand-ins: nothing spent")
    expect(page.get_by_text("Stand-ins for your rows, four promises")).to_be_visible()
    # the chips stay
    expect(page.locator(".st-key-chip")).to_contain_text("Old Faithful")
    settle(page)
    page.get_by_text("A column names the person", exact=True).click()
    expect(page.get_by_text("Read 3,000 rows of 1,000 persons")).to_be_visible()
    expect(page.get_by_text("Values of 'person_id' repeat")).to_have_count(0)
    expect(page.locator(".st-key-knobs")).to_contain_text("far below 1 in 1,000 persons")
    settle(page)
