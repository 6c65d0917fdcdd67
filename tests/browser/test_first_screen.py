"""The first screen: three mixtures without a click, and sliders that move them without a spend."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Browser, Page, WebSocketRoute, expect

from tests.browser.conftest import Requests, settle

pytestmark = pytest.mark.browser

MIXTURES = ("True mixture", "Non-private fit", "Private release")


def _in_sight(page: Page, width: int, height: int) -> None:
    """Verdict, the four knobs and Release lie inside the window, unscrolled."""
    for part in (
        page.locator(".privgmm-band"),
        page.get_by_role("slider", name="Privacy budget ε"),
        page.get_by_role("button", name="δ = 10⁻⁶"),
        page.get_by_role("button", name="α = 0.2"),
        page.locator(".st-key-knob_t button"),
        page.get_by_role("button", name="Release", exact=True),
    ):
        box = part.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["y"] >= 0
        assert box["x"] + box["width"] <= width
        assert box["y"] + box["height"] <= height


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1024, 768)])
def test_three_mixtures_are_there_and_what_matters_is_in_sight(
    browser: Browser, address: str, width: int, height: int
) -> None:
    context = browser.new_context(viewport={"width": width, "height": height})
    page = context.new_page()
    requests = Requests(page)
    page.goto(address)
    for label in MIXTURES:
        expect(page.locator(".legendtext").filter(has_text=label)).to_have_count(1)
    settle(page)
    expect(page.get_by_text("Rehearsal: nothing spent")).to_be_visible()
    _in_sight(page, width, height)
    assert requests.elsewhere(address) == []
    context.close()


def _private_ellipse(page: Page) -> str:
    """The widest solid line of the picture: its path."""
    return str(
        page.evaluate(
            """() => [...document.querySelector('.js-plotly-plot').data]
            .filter(t => t.name === 'Private release' && t.mode === 'lines')
            .map(t => Array.from(t.x._inputArray || t.x).slice(0, 40).join(','))[0]"""
        )
    )


def test_epsilon_moves_the_private_ellipse_and_nothing_is_spent(
    browser: Browser, address: str
) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    page.goto(f"{address}/?kind=Well+separated&epsilon=1&data_seed=3")
    expect(page.locator(".legendtext").filter(has_text="Private release")).to_have_count(1)
    settle(page)
    before = _private_ellipse(page)
    verdict = page.locator(".privgmm-band").inner_text()
    slider = page.get_by_role("slider", name="Privacy budget ε")
    slider.focus()
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile("epsilon=0.5"))
    expect(page.locator(".privgmm-band")).not_to_have_text(verdict)
    expect(page.locator(".privgmm-band")).to_contain_text("Rehearsal: nothing spent")
    settle(page)
    deadline = time.monotonic() + 60
    while _private_ellipse(page) == before and time.monotonic() < deadline:
        page.wait_for_timeout(100)
    assert _private_ellipse(page) != before
    expect(page.get_by_text("Nothing has been spent").first).to_be_visible()
    context.close()


def test_the_picture_follows_the_point_on_the_curve(browser: Browser, address: str) -> None:
    """On a phone curve and picture share the screen, and the browser itself moves the ellipses."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = context.new_page()
    page.goto(f"{address}/?kind=Well+separated&epsilon=1")
    settle(page)
    handle = page.get_by_role("slider", name="ε on the curve")
    # the next stop is in the browser
    expect(page.locator('svg[aria-label*="ε = 0.8: error"]')).to_have_count(1)
    settle(page)
    page.evaluate("document.querySelector('.st-key-picture').scrollIntoView({block: 'start'})")
    page.wait_for_timeout(300)
    for part in (handle, page.locator(".st-key-picture .main-svg").first):
        box = part.bounding_box()
        assert box is not None
        # scrolled to the edge, which may lie between two pixels
        assert box["y"] >= -1
        assert box["y"] + box["height"] <= 844
    verdict = page.locator(".privgmm-band").inner_text()
    handle.focus()
    moved = page.evaluate(_MOVE_AND_LOOK)
    assert moved == {"words": "ε = 0.8", "drawn": True}
    # the page follows: its slider, its address and its verdict
    expect(page).to_have_url(re.compile("epsilon=0.8"))
    expect(page.locator(".privgmm-band")).not_to_have_text(verdict)
    expect(page.locator(".privgmm-over")).to_have_count(0)
    assert page.get_by_role("slider", name="Privacy budget ε").get_attribute("aria-valuetext") == (
        "0.8"
    )
    context.close()


def _losing_the_first_move(page: Page) -> list[bytes | str]:
    """Drop the first message with a move of the curve; return what was dropped."""
    lost: list[bytes | str] = []

    def forward(route: WebSocketRoute) -> None:
        server = route.connect_to_server()

        def sent(message: bytes | str) -> None:
            text = message if isinstance(message, bytes) else message.encode()
            if b'"sequence"' in text and not lost:
                lost.append(message)
            else:
                server.send(message)

        route.on_message(sent)

    page.route_web_socket(re.compile("stream$"), forward)
    return lost


def test_a_move_that_got_lost_is_told_again(browser: Browser, address: str) -> None:
    """Streamlit may drop what a widget says while the page reruns."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    lost = _losing_the_first_move(page)
    page.goto(f"{address}/?kind=Well+separated&epsilon=1")
    settle(page)
    page.get_by_role("slider", name="ε on the curve").focus()
    page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile("epsilon=0.8"))
    assert lost
    context.close()


def test_the_slider_counts_more_than_an_earlier_move_that_got_lost(
    browser: Browser, address: str
) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    lost = _losing_the_first_move(page)
    page.goto(f"{address}/?kind=Well+separated&epsilon=1")
    settle(page)
    handle = page.get_by_role("slider", name="ε on the curve")
    handle.focus()
    page.keyboard.press("ArrowLeft")
    expect(handle).to_have_attribute("aria-valuenow", "0.8")
    while not lost:
        page.wait_for_timeout(50)
    page.get_by_role("slider", name="Privacy budget ε").focus()
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile("epsilon=1.2"))
    settle(page)
    expect(handle).to_have_attribute("aria-valuenow", "1.2")
    # nothing takes it back once every move is acknowledged
    page.wait_for_timeout(4000)
    settle(page)
    assert "epsilon=1.2" in page.url
    expect(handle).to_have_attribute("aria-valuenow", "1.2")
    context.close()


def test_an_earlier_answer_of_the_page_leaves_the_handle_where_the_hand_is(
    browser: Browser, address: str
) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    page.goto(f"{address}/?kind=Well+separated&epsilon=1")
    settle(page)
    handle = page.get_by_role("slider", name="ε on the curve")
    expect(handle).to_have_attribute("aria-valuenow", "1")
    page.evaluate(_MOVE_AND_ANSWER_LATE)
    expect(page).to_have_url(re.compile("epsilon=0.8"))
    settle(page)
    expect(handle).to_have_attribute("aria-valuenow", "0.8")
    context.close()


_FIND = """
  const find = (root) => root.querySelector('[aria-label="ε on the curve"]')
    || [...root.querySelectorAll('*')].map(e => e.shadowRoot && find(e.shadowRoot)).find(Boolean);
  const handle = find(document);
"""
"""Finds the handle of the curve, also inside shadow trees."""

_MOVE_AND_ANSWER_LATE = f"""() => {{{_FIND}
  handle.dispatchEvent(new KeyboardEvent('keydown', {{key: 'ArrowLeft', bubbles: true}}));
  // the page's answer to an earlier move arrives before this one is told
  document.querySelector('.st-key-epsilon [aria-valuetext]').setAttribute('aria-valuetext', '3');
}}"""

_MOVE_AND_LOOK = f"""() => {{{_FIND}
  handle.dispatchEvent(new KeyboardEvent('keydown', {{key: 'ArrowLeft', bubbles: true}}));
  // at once, in the same turn: nothing has been asked of the server
  const over = document.querySelector('.privgmm-over .release');
  return {{words: handle.getAttribute('aria-valuetext').split(':')[0],
    drawn: Boolean(over && over.getAttribute('d').startsWith('M'))}};
}}"""


def test_the_class_is_walked_by_keyboard(browser: Browser, address: str) -> None:
    from privgmm.dashboard.shared.lessons import CLASS, class_link

    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    page.goto(f"{address}/{class_link(1)}")
    for number, step in enumerate(CLASS, 1):
        pinned = page.locator(".privgmm-lesson")
        expect(pinned).to_contain_text(f"{step.number} · {step.title}")
        settle(page, picture=False)
        # one question, and nothing that answers it
        expect(page.locator(".js-plotly-plot, iframe")).to_have_count(0)
        page.keyboard.press(str(len(step.predictions)))
        expect(page.get_by_role("button", name="Reveal")).to_be_enabled()
        settle(page, picture=False)
        page.keyboard.press("Enter")
        expect(page.get_by_text(f"You said: {step.predictions[-1]}.")).to_be_visible()
        settle(page, picture=False)
        if number < len(CLASS):
            page.keyboard.press("Shift+ArrowRight")
    context.close()


def test_large_type_has_no_bar_beside_it_and_can_be_left(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(f"{address}/?projector=true")
    settle(page)
    size = "parseFloat(getComputedStyle(document.querySelector('label p')).fontSize)"
    root = "parseFloat(getComputedStyle(document.documentElement).fontSize)"
    assert page.evaluate(root) == 20
    large = page.evaluate(size)
    expect(page.get_by_test_id("stSidebar")).to_be_hidden()
    page.get_by_role("button", name="Leave large type").click()
    settle(page)
    expect(page.get_by_test_id("stSidebar")).to_be_visible()
    assert page.evaluate(size) < large
    context.close()
