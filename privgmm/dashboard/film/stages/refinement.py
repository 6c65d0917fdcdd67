"""Show a refinement: noisy passes over all rows sharpen a masked mixture."""

from __future__ import annotations

from privgmm.dashboard.film.film_data import StageRun
from privgmm.dashboard.film.scene import PUBLIC, FilmScene, FilmScenes, error_numbers, shows
from privgmm.figures.film import refinement_figure
from privgmm.figures.mixtures import figure_alt_text
from privgmm.stages.refinement.noisy_moments import refine

__all__ = ["refinement_scenes"]


@shows("refinement")
def refinement_scenes(_: StageRun) -> FilmScenes:
    """List its one scene; a refinement never refuses."""
    return {"Refinement": _refinement}


def _refinement(run: StageRun) -> FilmScene:
    film, coarse, final, truth = (
        run.film,
        run.before,
        run.after.mixture,
        run.film.dataset.truth,
    )
    return FilmScene(
        title="Polish with all rows",
        words="The masked mixture is public now. Measured against it, every row has a limited "
        "effect: a row far from all components counts for nothing. So noisy sums over **all** "
        "rows, not over blocks, pull the mixture back to where the rows are.",
        paper="**Not in the paper.** The theorem ends with the mask; this step spends what the "
        "plan kept for it.",
        numbers=(
            (
                "Passes",
                f"{run.stage.steps}",
                "Noisy sums of counts, first and second moments over all rows",
            ),
            *error_numbers(coarse, final, truth),
        ),
        figure=lambda: refinement_figure(coarse, final, film.window, true=truth, names=film.names),
        alt="The mixture after the mask and after refinement. "
        + figure_alt_text(true=truth, private=final, columns=film.dataset.columns),
        sharing=f"{PUBLIC} The grey and the orange mixture are differentially private and may be "
        "shared"
        + ("." if truth is None else "; the true one is known because the rows are generated."),
        code=(refine,),
        motion="It snaps back to where the rows are.",
    )
