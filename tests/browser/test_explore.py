"""The page Explore as a person meets it: in light and dark, wide and narrow."""

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
        viewport={"width": 400, "height": 3600} if narrow else {"width": 1400, "height": 2000},
    )
    yield context.new_page()
    context.close()


@pytest.fixture
def wide(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1400, "height": 1500})
    yield context.new_page()
    context.close()


def release(page: Page) -> None:
    page.get_by_role("button", name="Release", exact=True).click()


def no_sideways_scrolling(page: Page) -> bool:
    overflow = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return bool(overflow <= 0)


def test_generate_release_and_read_the_verdict(
    page: Page, address: str, artifacts: Path, request: pytest.FixtureRequest
) -> None:
    page.goto(f"{address}/?epsilon=8&seeded=true&n=30%2C000")
    settle(page)
    expect(page.get_by_text("Rehearsal: nothing spent")).to_be_visible()
    expect(page.get_by_text("you have 30,000")).to_be_visible()
    release(page)
    expect(page.get_by_text("The released mixture may be shared.")).to_be_visible()
    legend = page.locator(".legendtext")
    for label in ("True mixture", "Non-private fit", "Private release"):
        expect(legend.filter(has_text=label)).to_have_count(1)
    expect(page.get_by_text("not to be shared")).to_be_visible()
    settle(page)
    assert no_sideways_scrolling(page)
    page.wait_for_timeout(500)
    page.screenshot(path=artifacts / f"explore-{request.node.callspec.id}.png")


def test_refusal_names_the_rows_it_would_take(wide: Page, address: str, artifacts: Path) -> None:
    wide.goto(f"{address}/?method=Paper&n=10%2C000")
    settle(wide)
    release(wide)
    expect(wide.get_by_text("that is the guarantee at work")).to_be_visible()
    legend = wide.locator(".legendtext")
    expect(legend.filter(has_text="Non-private fit")).to_have_count(1)
    expect(legend.filter(has_text="Private release")).to_have_count(0)
    wide.screenshot(path=artifacts / "refusal.png")


def test_a_fix_is_one_click_and_the_address_follows(wide: Page, address: str) -> None:
    wide.goto(
        f"{address}/?epsilon=3&n=5%2C000&method=Lifted&kind=Choose+the+separation…&separation=12"
    )
    settle(wide)
    button = wide.get_by_role("button", name=re.compile("Raise ε to"))
    expect(button).to_be_visible()
    raised = button.inner_text().split()[-1]
    button.click()
    expect(wide.get_by_text("Chance of a release: over 99%")).to_be_visible()
    expect(wide).to_have_url(re.compile(rf"epsilon={re.escape(raised)}(&|$)"))


def test_cancel_spends_nothing(wide: Page, address: str) -> None:
    """Eight components in ten columns: slow enough to think better of it."""
    wide.goto(f"{address}/?true_k=8&k=8&d=10&method=Paper&n=1%2C000%2C000&kind=Overlapping")
    settle(wide)
    release(wide)
    cancel = wide.get_by_role("button", name="Cancel")
    expect(cancel).to_be_visible()
    cancel.click()
    expect(wide.get_by_text("Cancelled. Nothing was drawn and nothing spent.")).to_be_visible()
    settle(wide)
    expect(wide.get_by_text("Nothing has been spent on these rows")).to_be_visible()
    expect(wide.get_by_role("button", name="Release", exact=True)).to_be_enabled()


def upload(page: Page, path: Path) -> None:
    page.locator("input[type=file]").set_input_files(str(path))


def test_uploads_good_bad_and_too_large(wide: Page, address: str, tmp_path: Path) -> None:
    wide.goto(f"{address}/?source=Upload")
    settle(wide, picture=False)
    bad = tmp_path / "people.csv"
    bad.write_text(
        "a,b,c\n" + "\n".join(f"{i},{i % 7},{'oops' if i == 3 else i}" for i in range(99))
    )
    upload(wide, bad)
    # it is named, and not taken unasked; a person who takes it sees where it cannot be read
    expect(wide.get_by_text("'c' mixes numbers and words")).to_be_visible()
    settle(wide)
    wide.get_by_role("combobox", name="Columns to use").click()
    wide.get_by_role("option", name="c", exact=True).click()
    wide.keyboard.press("Escape")
    expect(wide.get_by_text("data row 4 (line 5) holds 'oops'")).to_be_visible()
    settle(wide, picture=False)
    ragged = tmp_path / "ragged.csv"
    ragged.write_text("a,b\n1,2\n3\n")
    wide.get_by_role("button", name="Remove people.csv").or_(
        wide.get_by_test_id("stFileUploaderDeleteBtn").get_by_role("button")
    ).first.click()
    settle(wide, picture=False)
    upload(wide, ragged)
    expect(wide.get_by_text("has 1 cells where 2 are expected")).to_be_visible()
    settle(wide, picture=False)
    huge = tmp_path / "huge.csv"
    with huge.open("wb") as file:
        file.truncate(201 * 2**20)
    wide.goto(f"{address}/?source=Upload")
    settle(wide, picture=False)
    upload(wide, huge)
    expect(wide.get_by_text(re.compile(r"200(\.0)?MB or smaller"))).to_be_visible()
    settle(wide, picture=False)


def test_two_browsers_do_not_see_each_other(browser: Browser, address: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("heights,weights\n" + "\n".join(f"{i},{i * i % 11}" for i in range(5000)))
    first, second = browser.new_context(), browser.new_context()
    mine, theirs = first.new_page(), second.new_page()
    mine.goto(f"{address}/?source=Upload&method=Paper&epsilon=1")
    settle(mine, picture=False)
    upload(mine, secret)
    expect(mine.get_by_text("Read 5,000 rows")).to_be_visible()
    settle(mine)
    release(mine)
    expect(
        mine.get_by_text("Nothing was drawn").or_(mine.get_by_text("guarantee at work"))
    ).to_be_visible()
    theirs.goto(f"{address}/?source=Upload&method=Paper&epsilon=1")
    settle(theirs, picture=False)
    expect(theirs.get_by_text("Choose data to begin")).to_be_visible()
    for words in ("heights", "secret.csv", "guarantee at work", "release so far"):
        expect(theirs.get_by_text(words)).to_have_count(0)
    first.close()
    second.close()


def test_a_lesson_hides_the_controls_and_pins_its_question(
    wide: Page, address: str, artifacts: Path
) -> None:
    wide.goto(
        f"{address}/?epsilon=8&seeded=true&n=30%2C000&noise_seed=5&data_seed=4"
        "&lesson=Guess%20first&question=How%20far%20will%20they%20move%3F"
    )
    settle(wide)
    expect(wide.get_by_text("How far will they move?")).to_be_visible()
    expect(wide.get_by_text("noise seed 5")).to_be_visible()
    expect(wide.get_by_role("slider", name="Privacy budget ε")).to_be_hidden()
    release(wide)
    expect(wide.get_by_text("The released mixture may be shared.")).to_be_visible()
    settle(wide)
    wide.screenshot(path=artifacts / "lesson.png")
    wide.get_by_role("button", name="Leave the lesson").click()
    settle(wide)
    expect(wide.get_by_role("slider", name="Privacy budget ε")).to_be_visible()
    expect(wide.get_by_text("How far will they move?")).to_have_count(0)
    # the release stays, and so does the state in the address
    expect(wide.get_by_text("The released mixture may be shared.")).to_be_visible()
    expect(wide).to_have_url(re.compile("data_seed=4"))
    expect(wide).not_to_have_url(re.compile("lesson"))


def test_a_cloud_gathers_and_the_run_can_be_taken_home(wide: Page, address: str) -> None:
    wide.goto(f"{address}/?epsilon=8&seeded=true&n=30%2C000")
    settle(wide)
    release(wide)
    expect(wide.get_by_text("The released mixture may be shared.")).to_be_visible()
    settle(wide)
    wide.get_by_role("radio", name="10", exact=True).click()
    settle(wide)
    wide.get_by_role("button", name="Show possible releases").click()
    cloud = wide.locator(".legendtext").filter(has_text="possible releases")
    expect(cloud).to_have_count(1)
    settle(wide)
    with wide.expect_download() as caught:
        wide.get_by_role("button", name="Script").click()
    assert "rng=0" in Path(caught.value.path()).read_text(encoding="utf-8")
