"""The page Look again as a person meets it: a receipt, no data, and a slider."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from privgmm.methods.planner import best_plan
from privgmm.mixture import Mixture
from privgmm.records.receipt import make_receipt, sketch_of, write_receipt
from privgmm.releases import release
from tests.browser.conftest import settle

pytestmark = pytest.mark.browser

TRUTH = Mixture(
    [0.4, 0.6], [[-4.0, 0.0], [4.0, 0.0]], [[[1.0, 0.5], [0.5, 2.0]], [[1.0, 0.0], [0.0, 1.0]]]
)


def in_view(page: Page, selector: str, height: int) -> None:
    """Its upper half, at least, is on the first screen."""
    box = page.locator(selector).first.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] / 2 < height, selector


def test_look_again_from_a_receipt_alone(
    browser: Browser, address: str, tmp_path: Path, artifacts: Path
) -> None:
    plan = best_plan(8_000, method="sketch", epsilon=1.0, delta=1e-6, n_components=2, n_features=2)
    result = release(TRUTH.sample(8_000, rng=1), plan).result
    receipt = make_receipt(result, columns=["age", "income"])
    sketch = sketch_of(receipt)
    assert sketch is not None
    file = write_receipt(receipt, tmp_path / "receipt.json")

    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{address}/Look_again?look_from=Receipt")
    settle(page, picture=False)
    page.locator("input[type=file]").set_input_files(file)
    expect(page.get_by_text("2 components explain the rows")).to_be_visible()
    expect(page.get_by_text("8,000 rows, 2 columns. Paid once: ε = 1, δ = 10⁻⁶.")).to_be_visible()
    settle(page)
    for look, width, height in (
        ("wide", 1440, 900),
        ("medium", 1024, 768),
        ("dark", 1440, 900),
        ("narrow", 400, 2300),
    ):
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme="dark" if look == "dark" else "light")
        page.wait_for_timeout(700)
        page.screenshot(path=artifacts / f"look-again-{look}.png")
        overflow = page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert overflow <= 0
        for selector in ("[data-testid='stAlert']", "[data-testid='stSlider']", ".main-svg"):
            in_view(page, selector, height)
    page.set_viewport_size({"width": 1440, "height": 1300})
    page.emulate_media(color_scheme="light")

    # by the keyboard, to one component: too few, and it says so
    page.get_by_role("slider", name="Components k").press("ArrowLeft")
    expect(
        page.get_by_text("One component is not enough: try 2, it costs nothing.")
    ).to_be_visible()
    expect(page).to_have_url(re.compile("look_k=1"))
    page.get_by_role("button", name="Try 2 components").click()
    expect(page.get_by_text("2 components explain the rows")).to_be_visible()
    page.get_by_role("slider", name="Components k").press("ArrowRight")
    expect(page.get_by_text("3 components explain the rows")).to_be_visible()
    settle(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Mixture (JSON)").click()
    taken = json.loads(Path(download.value.path()).read_text())
    assert taken["mixture"] == sketch.fit(3).mixture.to_dict()
    for view, sign in (
        ("How many?", "The criterion takes 2 components"),
        ("Two columns", "Noise and sampling misplace"),
        ("One column", "the band is two standard errors"),
        ("Known values", "over all rows"),
        ("Synthetic rows", "belong to no one"),
    ):
        page.get_by_role("radio", name=view, exact=True).click()
        # not in the sidebar: its glossary explains the same words
        expect(page.get_by_test_id("stMain").get_by_text(sign).first).to_be_visible()
        settle(page)
        expect(page.locator(".main-svg .trace, .main-svg .hm").first).to_be_attached()
    # there are no rows here that could be shown
    expect(page.get_by_text("Compare with the real rows")).to_have_count(0)
    page.close()
