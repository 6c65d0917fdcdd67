"""Show a finish: the fit to the noisy waves, and what the rest of the budget buys."""

from __future__ import annotations

import numpy as np

from privgmm.dashboard.film.film_data import StageRun
from privgmm.dashboard.film.scene import (
    PUBLIC,
    FilmNumber,
    FilmScene,
    FilmScenes,
    error_numbers,
    shows,
)
from privgmm.dashboard.film.stages.sketch import FROM_ALL_ROWS
from privgmm.figures.film import refinement_figure
from privgmm.figures.mixtures import figure_alt_text
from privgmm.figures.sketch import fit_figure
from privgmm.mixture import Mixture
from privgmm.stages.sketch.error_covariances import computed_covariance, errors_in_data_units
from privgmm.stages.sketch.finish import PreparedFinish, takes_rich_route
from privgmm.stages.sketch.fitting import MISFIT, PathSearch
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.stages.standard_errors import StandardErrors

__all__ = ["finish_scenes"]


@shows("finish")
def finish_scenes(run: StageRun) -> FilmScenes:
    """List the scenes by their labels; none of a fit that means nothing, as in a refusal."""
    return {} if run.refused else {"Fit": _fit, "Refine": _refine}


def _first_fit(run: StageRun) -> tuple[Mixture, StandardErrors | None]:
    """Return the fit to the first sketch in the units of the data, and its standard errors."""
    frame, fit = run.before.frame, run.view.fit
    covariance = computed_covariance(fit.compute_local_covariance)
    errors = errors_in_data_units(frame, fit.mixture, covariance, well_specified=fit.explains)
    return frame.mixture_from_frame(fit.mixture), errors


def _typical(errors: StandardErrors, mixture: Mixture) -> str:
    """Word the standard error of a typical mean, in widths of its component."""
    widths = np.sqrt(np.einsum("kii->ki", mixture.covariances))
    return f"± {np.median(errors.means / widths):.2g}"


def _fit(run: StageRun) -> FilmScene:
    film, stage, sketch, fit = run.film, run.stage, run.before, run.view.fit
    k = fit.n_components
    mixture, errors = _first_fit(run)
    chosen = (
        f" How many components? Up to {stage.n_components} were tried, and {k} explain the "
        "waves best for their size."
        if stage.choose
        else ""
    )
    verdict = (
        "**It does**: what is left over is no larger than the noise."
        if fit.explains
        else "**It does not**, as with most real tables: something is left over that no mixture of "
        f"{k} can make."
    )
    numbers = [
        ("Components", f"{k}", "Chosen from the waves" if stage.choose else "As asked for"),
        (
            "Misfit",
            f"{fit.misfit:.1f}",
            "How much more than noise is left over, in standard deviations; beyond "
            f"{MISFIT:g} no mixture of {k} explains the waves",
        ),
    ]
    if errors is not None:
        numbers.append(
            (
                "Means known to",
                _typical(errors, mixture),
                "Standard error of a typical mean, as a share of its component's width",
            )
        )
    return FilmScene(
        title="Which mixture makes these waves?",
        words=f"The waves of any mixture of {k} can be written down exactly. So the mixture whose "
        "waves fit best is found by computing alone, however long that takes: **no row is touched, "
        f"nothing is spent**. It does not matter whether the components overlap.{chosen} Does the "
        f"mixture explain the waves to within the noise? {verdict}",
        paper=FROM_ALL_ROWS,
        numbers=tuple(numbers),
        figure=lambda: fit_figure(
            mixture,
            sketch,
            stage.shape.n_frequencies,
            film.window,
            errors=errors,
            names=film.names,
        ),
        alt="The mixture that fits the waves, over what they show, with bands of two standard "
        "errors. " + figure_alt_text(private=mixture, columns=film.dataset.columns),
        sharing=f"{PUBLIC} Nothing here shows rows: the fit may be shared.",
        code=(PrivateSketch.choice if stage.choose else PathSearch.upto,),
        motion="From the frame to the best fit. The way there is drawn, not recorded.",
    )


def _refine(run: StageRun) -> FilmScene:
    film, published, truth = run.film, run.after, run.film.dataset.truth
    final, errors = published.mixture, published.standard_errors
    first, first_errors = _first_fit(run)
    numbers: tuple[FilmNumber, ...] = ()
    if errors is not None and first_errors is not None:
        numbers = (
            (
                "Means, before",
                _typical(first_errors, first),
                "Standard error of a typical mean, in widths",
            ),
            ("Means, after", _typical(errors, final), "The same for what is released"),
        )
    return FilmScene(
        title="Spend the rest of the budget",
        words=f"What is left of the budget buys one more look at all rows. {_way(run)} Which way "
        "is taken depends on public numbers only, and **either way costs the same**, fixed by the "
        "plan. The bands show two standard errors of what is released: sampling of the rows and "
        "privacy noise together.",
        paper=FROM_ALL_ROWS,
        numbers=(*numbers, *error_numbers(first, final, truth)),
        figure=lambda: refinement_figure(
            first,
            final,
            film.window,
            true=truth,
            errors=errors,
            names=film.names,
            labels=("first fit", "released"),
        ),
        alt="The first fit and the released mixture, with bands of two standard errors. "
        + figure_alt_text(true=truth, private=final, columns=film.dataset.columns),
        sharing=f"{PUBLIC} All that is grey or orange is differentially private and may be shared"
        + ("." if truth is None else "; the true mixture is known because the rows are generated."),
        code=(PreparedFinish.draw,),
        motion="From the first fit to the release.",
    )


def _way(run: StageRun) -> str:
    """Say which way the finish took."""
    published, first, fit = run.after, run.before, run.view.fit
    if takes_rich_route(fit, run.stage):
        if published.sketch.rich is None:
            return (
                "A few rows say little about this many components and columns. Rows vote, with "
                "noise, among starts that the waves give, and **noisy steps on all rows** go on "
                "from there."
            )
        return (
            "Noisy steps on all rows make a rich mixture that lies near them, and the nearest "
            f"mixture of {published.mixture.n_components} is released. The rich one is public too."
        )
    if published.sketch.deviations[0] < first.deviations[0]:
        return (
            "The fit explains the waves, so a **second sketch** of all rows is taken and averaged "
            "with the first: as good as one sketch with the whole budget."
        )
    return (
        "The fit explains the waves, so **one noisy step on all rows** refines it. For these "
        "components that helps more than further waves would."
    )
