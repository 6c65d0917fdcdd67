"""Show a histogram frame: where the rows lie, found by counting."""

from __future__ import annotations

import numpy as np

from privgmm.dashboard.film.film_data import StageRun
from privgmm.dashboard.film.scene import LOCKED, FilmScene, FilmScenes, shows
from privgmm.figures.film import blocks_figure
from privgmm.figures.sketch import counts_figure
from privgmm.stages.sketch.histogram_frame import PreparedHistogramFrame

__all__ = ["histogram_frame_scenes"]


@shows("histogram frame")
def histogram_frame_scenes(_: StageRun) -> FilmScenes:
    """List its one scene; it shows a refusal as well."""
    return {"Histograms": _histograms}


def _histograms(run: StageRun) -> FilmScene:
    film, stage, places = run.film, run.stage, run.view.places
    after = "Then a few noisy sums correct place and width, and find how the columns vary together."
    return FilmScene(
        title="Count the rows in wide bins",
        words="Nothing is known of the rows, not even their units. So each column is counted by "
        "itself: first how far two rows lie apart, then, in bins that wide, where the rows are. "
        "Every count gets noise, and **a bin shows only if it is far too full to depend on one "
        "row**. The bins that show give a place and a width. "
        + (f"Here they do not.{run.ending}" if run.refused else after),
        paper="**Not in the paper.** Its blocks vote on a whole mixture. Only to find where the "
        "rows lie, histograms are enough, and take far fewer rows.",
        numbers=(
            ("Rows n", f"{film.dataset.n_rows:,}", "Public: how many people there are"),
            ("Columns d", f"{stage.n_features}", "Each is counted by itself"),
            (
                "Rows to show",
                f"{stage.location_threshold:,}",
                "What the noisy count of a bin must reach: set by the plan, from δ",
            ),
        ),
        figure=lambda: (
            counts_figure(places[:2], stage.location_threshold, names=film.names)
            if places
            else blocks_figure(
                film.dataset.rows, np.empty((0, 0), dtype=np.int64), (), names=film.names
            )
        ),
        alt="Bars: how many rows each wide bin of the first columns holds, and the threshold that "
        "the noisy count must reach for the bin to show."
        if places
        else "The rows as dots. No difference between rows was common enough to show.",
        sharing=f"{LOCKED}: the counts have no noise yet."
        if places
        else f"{LOCKED}: the picture shows rows.",
        code=(type(stage).prepare, PreparedHistogramFrame.draw),
    )
