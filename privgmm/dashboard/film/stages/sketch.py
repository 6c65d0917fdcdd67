"""Show a sketch: the rows in the frame, the waves along directions, all waves together."""

from __future__ import annotations

import math

import numpy as np

from privgmm.dashboard.film.film_data import StageRun
from privgmm.dashboard.film.scene import LOCKED, PUBLIC, FilmScene, FilmScenes, shows
from privgmm.figures.sketch import frame_figure, projections_figure, sketch_figure
from privgmm.stages.agreement.stage import Agreement
from privgmm.stages.sketch.agreement_frame import PreparedFrame
from privgmm.stages.sketch.features import feature_sums
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.stage import PreparedSketch

__all__ = ["FROM_ALL_ROWS", "sketch_scenes"]

FROM_ALL_ROWS = (
    "**Not in the paper.** There the mixture comes from blocks that vote; here it comes from all "
    "rows at once."
)
"""What the paper says of a sketch and of the fit to it."""


@shows("sketch")
def sketch_scenes(_: StageRun) -> FilmScenes:
    """List the scenes by their labels; a sketch never refuses."""
    return {"Frame": _frame, "Projections": _projections, "Tomogram": _tomogram}


def _frame(run: StageRun) -> FilmScene:
    film = run.film
    return FilmScene(
        title="Measure all rows in public units",
        words="What was found is now a **frame**: a public centre and public units, drawn as an "
        "ellipse with lines. It need only be right within a factor of two. Every row, wherever it "
        "lies, is measured in it: how many units from the centre, and in which direction. So it "
        "does not matter in which units the data came.",
        paper=FROM_ALL_ROWS,
        numbers=(
            ("Rows n", f"{film.dataset.n_rows:,}", "All of them, one by one: no blocks"),
            ("Columns d", f"{run.stage.n_features}", "Numbers per row"),
        ),
        figure=lambda: frame_figure(film.dataset.rows, run.before, film.window, names=film.names),
        alt="The rows as dots, and the frame: an ellipse around most of them, with the lines of "
        "its coordinates.",
        sharing=f"{LOCKED}: the picture shows rows. The frame, in orange, may be shared.",
        code=(
            PreparedFrame.draw if isinstance(film.plan.stages[0], Agreement) else Frame.published,
        ),
        motion="The frame grows around the rows.",
    )


def _projections(run: StageRun) -> FilmScene:
    film, shape = run.film, run.stage.shape
    finest = math.pi / (shape.step * shape.n_frequencies)
    return FilmScene(
        title="Listen along one direction at a time",
        words="Along each direction of the frame, each row is a point on a turning wave: slow "
        "waves see the large shape, fast ones the details. The waves of all rows are added up. "
        "**One row gives every wave the same small push, however far away it lies**, so a little "
        "noise on the sums hides it. The noisy waves of one direction give back how the rows "
        "spread along it: the orange curve, against the rows themselves in grey.",
        paper=FROM_ALL_ROWS,
        numbers=(
            (
                "Directions",
                f"{shape.n_directions:,}",
                "The columns themselves, and others spread evenly between them",
            ),
            (
                "Waves in each",
                f"{shape.n_frequencies}",
                "From slow to fast: once, twice, three times, … as fast as the first",
            ),
            (
                "Finest detail",
                f"{finest:.0%}",
                "Half the shortest wave, as a share of the rows' spread: nothing finer is heard",
            ),
        ),
        figure=lambda: projections_figure(film.dataset.rows, run.after, names=film.names),
        alt="For the first columns, and for one direction between them: grey bars, how many rows "
        "lie where, and an orange curve, what the noisy waves say of it. The curve follows the "
        "bars to within its band.",
        sharing=f"{LOCKED}: the grey bars show rows. The orange curves and their bands may be "
        "shared.",
        code=(feature_sums,),
        motion="Waves are added up, from slow to fast.",
    )


def _tomogram(run: StageRun) -> FilmScene:
    film, sketch, shape = run.film, run.after, run.stage.shape
    noise = float(np.median(sketch.deviations))
    heard = float((np.abs(sketch.values) > 3 * sketch.deviations).mean())
    pictured = run.stage.n_features <= 2
    below = (
        "The lower picture puts them together: a blurred view of the rows that **may be shown to "
        "anyone**."
        if pictured
        else "In more than two columns that cannot be drawn, but a mixture can be fitted to it."
    )
    return FilmScene(
        title="Put all directions together",
        words="A hospital scanner looks at a body along many lines and puts a picture together. "
        "The same is done here. The upper picture shows how loud each noisy wave is, in every "
        f"direction; the more a wave drowns in its noise, the less it counts. {below}",
        paper=FROM_ALL_ROWS,
        numbers=(
            (
                "Waves",
                f"{sketch.size:,}",
                f"{shape.n_directions} directions with {shape.n_frequencies} frequencies each",
            ),
            ("Noise", f"{noise:.2g}", "On the mean of a wave over all rows, which is at most 1"),
            ("Heard", f"{heard:.0%}", "Waves that are more than three times their noise"),
        ),
        figure=lambda: sketch_figure(sketch, shape.n_frequencies, film.window, names=film.names),
        alt=f"How loud each of {sketch.size:,} noisy waves is: {heard:.0%} stand out from their "
        "noise, the slow ones most."
        + (" Below, the blurred density that they show together." * pictured),
        sharing=f"{PUBLIC} Nothing here shows rows: the noisy waves, and all that is made from "
        "them, may be shared.",
        code=(PreparedSketch.draw,),
        motion="The picture comes together, direction by direction.",
    )
