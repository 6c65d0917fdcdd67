"""The scenes of the film: for each its words, the paper's line, numbers, picture and code.

A stage names its scenes by keys, and `SCENES` has what to show for each key. A new kind of stage
adds its own keys to this table. What differs from method to method is asked of the plan's test
and space. Only the mixture that comes out at the end is private; every scene says what in it may
be shared.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from privgmm.arrays import IntArray
from privgmm.dashboard.film.film_data import FilmData, Step
from privgmm.dashboard.shared.format import chance_in_words, number_in_words
from privgmm.distances.parameters import dist_gmm
from privgmm.errors import PrivGMMError
from privgmm.figures import film as film_figures
from privgmm.figures import sketch as sketch_figures
from privgmm.figures import votes as votes_figures
from privgmm.figures.mixtures import figure_alt_text
from privgmm.learners.learner import ReasonedLearner
from privgmm.learners.registry import LEARNERS, make_learner
from privgmm.mixture import Mixture
from privgmm.stages.agreement.algorithm_1 import settled_distances
from privgmm.stages.agreement.blocks import deal
from privgmm.stages.refinement.noisy_moments import Refinement, refine
from privgmm.stages.sketch.agreement_frame import PreparedFrame
from privgmm.stages.sketch.error_covariances import computed_covariance, errors_in_data_units
from privgmm.stages.sketch.features import feature_sums
from privgmm.stages.sketch.finish import Finish, PreparedFinish, takes_rich_route
from privgmm.stages.sketch.fitting import MISFIT, PathSearch
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.histogram_frame import HistogramFrame, PreparedHistogramFrame
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.stages.sketch.stage import PreparedSketch, Sketch
from privgmm.stages.stage import Number
from privgmm.stages.standard_errors import StandardErrors

__all__ = ["SCENES", "SceneView", "scene_view"]

LOCKED = ":material/lock: For the curator's eyes only"
_MOST_COUNTED = 3000


@dataclasses.dataclass(frozen=True)
class SceneView:
    """What the page shows of one step.

    Parameters
    ----------
    title, words : str
        What happens, for everybody.
    line : str
        The paper's own line or lines, in Markdown with LaTeX.
    ours : str
        How the method at hand departs from it; empty if it does not.
    numbers : tuple of Number
    figure : callable
        Draws the picture.
    alt : str
        The picture in words.
    sharing : str
        What in the picture may be shared.
    code : tuple of callable
        The functions that did it, in the order they ran.
    motion : str
        What the picture shows while it moves; empty if it stands still.
    """

    title: str
    words: str
    line: str
    ours: str
    numbers: tuple[Number, ...]
    figure: Callable[[], Any]
    alt: str
    sharing: str
    code: tuple[Callable[..., Any], ...]
    motion: str = ""


def scene_view(film: FilmData, number: int) -> SceneView:
    """What to show in a step, counted from 1.

    Raises `PrivGMMError` if the stage names a scene that `SCENES` does not know.
    """
    step = film.steps[number - 1]
    view = SCENES.get(step.scene.key)
    if view is None:
        raise PrivGMMError(
            f"no picture is known for the scene {step.scene.key!r} of stage {step.stage.kind!r}; "
            f"known are {', '.join(SCENES)}"
        )
    return view(film, step)


def _names(film: FilmData) -> tuple[str, ...]:
    return tuple(film.dataset.columns[:2])


def _blocks(film: FilmData, _: Step) -> SceneView:
    data, positions = film.dataset, film.outcome.curator.positions
    t, s = positions.shape
    return SceneView(
        title="Deal the rows into blocks",
        words="The rows are dealt like cards: which block a row goes to depends on its position "
        "and on chance, never on its value. So **one person sits in one block**, and can only ever "
        "change that block. Five blocks are coloured; they stay so in the next step.",
        line=r"**Line 1.** Let $s \leftarrow \lfloor m/t \rfloor$.",
        ours="The paper's $m$ rows are the $n$ rows here.",
        numbers=(
            Number("Rows n", f"{data.n_rows:,}", "Public: how many people there are"),
            Number("Blocks t", f"{t:,}", "Chosen by the plan before any data is seen"),
            Number(
                "Rows per block s",
                f"{s:,}",
                "At most n / t, rounded down; what is left over goes into no block",
            ),
        ),
        figure=lambda: film_figures.blocks_figure(
            data.rows, positions, film.followed, names=_names(film)
        ),
        alt=f"{data.n_rows:,} rows as dots. The rows of five of the {t:,} blocks are coloured: "
        "each block is spread over all of the data.",
        sharing=f"{LOCKED}: the picture shows rows.",
        code=(deal,),
        motion="Rows are dealt to five of the blocks, like cards.",
    )


def _fits(film: FilmData, _: Step) -> SceneView:
    fits = film.outcome.curator.fits
    good = int(fits.ok.sum())
    learner = LEARNERS[film.plan.agreement.learner or film.learner]
    drawn = (
        "one density curve"
        if fits.n_features == 1
        else "one ellipse per component, at one standard deviation"
    )
    return SceneView(
        title="Fit every block on its own",
        words=f"Any learner without privacy will do; here it is {learner.title}. Each block gives "
        f"{drawn}. Where they pile up, the blocks agree. **Replacing one row changes one fit**, "
        "as far as you like, and no other."
        + (
            ""
            if fits.n_components == film.plan.n_components
            else " Here each block is only asked **where the rows lie and how far they spread**, "
            "all of them together; the components come later."
        ),
        line=r"**Line 2.** For $i \in [t]$, let $Y_i \leftarrow \mathcal{A}"
        r"\big(\{X_\ell\}_{\ell=(i-1)s+1}^{is}\big)$.",
        ours="",
        numbers=(
            Number("Fits", f"{good:,} of {len(fits):,}", "A block whose fit fails has no friends"),
            Number("Components k", f"{fits.n_components}", "Gaussians in each fit"),
        ),
        figure=lambda: film_figures.fits_figure(
            fits, film.followed, film.window, names=_names(film)
        ),
        alt=f"The fits of {good} blocks, {fits.n_components} components each, as thin outlines; "
        "five are coloured as in the step before.",
        sharing=f"{LOCKED}: a fit can follow any one of its rows anywhere.",
        code=(_fitting(learner.name, fits.n_components),),
        motion="The fits pile up, block by block.",
    )


def _fitting(name: str, n_components: int) -> Callable[..., Any]:
    """What fits the blocks."""
    learner = make_learner(name, n_components)
    if isinstance(learner, ReasonedLearner):
        return type(learner).fit_blocks_with_reasons
    fitting: Callable[..., Any] = type(learner).fit_blocks
    return fitting


def _distances(film: FilmData, _: Step) -> SceneView:
    distances, tau = film.outcome.curator.distances, film.plan.tau
    t = len(distances)
    pairs = distances[np.triu_indices(t, 1)]
    near, none = float((pairs <= tau).mean()), float(np.isinf(pairs).mean())
    space = film.plan.space
    return SceneView(
        title="Compare all pairs of fits",
        words="How far is each fit from every other one? Up to τ the two blocks **agree**: blue. "
        "Blocks are sorted by how many others agree with them, and the histogram below counts the "
        "pairs.",
        line=r"**Line 3**, its inner part: $\mathrm{dist}(Y_i, Y_j) \le r/2z$, with "
        r"$\mathrm{dist}_{\mathrm{PARAM}}$ of Section 5.",
        ours=space.words.distance,
        numbers=(
            Number("τ", f"{tau:.3g}", "How near two fits must be to agree: set by the plan"),
            Number("Pairs that agree", f"{near:.0%}", "Share of all pairs of blocks within τ"),
            Number(
                "No distance",
                f"{none:.0%}",
                "Pairs with a failed fit, or with components too close to be told apart",
            ),
        ),
        figure=lambda: votes_figures.distances_figure(distances, tau),
        alt=f"Heat map of the distances between {t:,} fits, those with most friends first: "
        f"{near:.0%} of the pairs lie within {tau:.3g} of each other. Below, a histogram of the "
        "distances.",
        sharing=f"{LOCKED}: every number in it may depend on any row.",
        # what was asked of the space: who lies within the radius, or how far apart everybody is
        code=(settled_distances, getattr(type(space), "placed", type(space).distances)),
    )


def _counting(film: FilmData) -> IntArray | None:
    """Votes while they are counted; None for so many blocks that a browser would stutter."""
    distances = film.outcome.curator.distances
    if len(distances) > _MOST_COUNTED:
        return None
    return votes_figures.counted_so_far(distances <= film.plan.tau)


def _votes(film: FilmData, _: Step) -> SceneView:
    counts, test = film.outcome.curator.votes, film.plan.test
    reading = test.read_votes(counts)
    return SceneView(
        title="Count the votes",
        words=test.words.votes,
        line=r"**Lines 3 and 4.** $q_i \leftarrow \frac1t \big|\{j : \mathrm{dist}(Y_i, Y_j) \le "
        r"r/2z\}\big|$, $\;Q \leftarrow \frac1t \sum_i q_i$.",
        ours=test.words.statistic,
        numbers=reading.numbers,
        figure=lambda: votes_figures.votes_figure(counts, test, so_far=_counting(film)),
        alt=reading.words,
        sharing=f"{LOCKED}: {test.words.letter} has no noise yet.",
        code=test.counted_by,
        motion="Votes are counted, block by block.",
    )


def _test(film: FilmData, _: Step) -> SceneView:
    verdict, test = film.outcome.curator.verdict, film.plan.test
    chance = test.pass_probability(verdict.counts)
    noise = verdict.noisy_statistic - verdict.statistic
    letter = test.words.letter
    said = (
        "It passed."
        if verdict.passed
        else "It did not pass: the answer is **⊥**, and the film ends here. Nothing is said about "
        "the mixture."
    )
    return SceneView(
        title="Ask with noise: do the blocks agree?",
        words=f"Noise is added to {letter}, and the sum must reach the threshold. Only **yes or "
        "no** leaves this step, and no single row can change the odds of that answer by much. The "
        "threshold is so high that where blocks do not agree, noise alone hardly ever says yes. "
        f"{said}",
        line=r"**Lines 5 to 7.** $Z \sim \mathrm{TLap}(2/t, \varepsilon, \delta)$; $\;\widetilde Q "
        r"\leftarrow Q + Z$; if $\widetilde Q < 0.8 + \frac{2}{t\varepsilon}\ln\!\big(1 + "
        r"\frac{e^\varepsilon - 1}{2\delta}\big)$, fail and return $\bot$.",
        ours=test.noisy_law(verdict.statistic).words,
        numbers=(
            Number(f"{letter} before noise", f"{verdict.statistic:.4g}", "Not private"),
            Number("Noise drawn", f"{noise:+.4g}", "Drawn once, when the release was made"),
            Number("Threshold", f"{verdict.threshold:.4g}", "Set by the plan, from δ"),
            Number(
                "Chance to pass",
                chance_in_words(chance),
                "Over the noise, for these votes. Not private: only the answer is.",
            ),
        ),
        figure=lambda: votes_figures.threshold_figure(verdict, test),
        alt=f"The law of {letter} plus noise around {verdict.statistic:.4g}. Drawn was "
        f"{verdict.noisy_statistic:.4g}; the threshold is {verdict.threshold:.4g}. The chance to "
        f"pass was {chance_in_words(chance)}.",
        sharing=f"{LOCKED}, except for the answer: "
        f"“{'released' if verdict.passed else 'refused'}” may be shared.",
        code=(type(test).standing, type(test).examine),
        motion="Other noise first, then the noise that was drawn.",
    )


def _chosen(film: FilmData, _: Step) -> SceneView:
    curator, space = film.outcome.curator, film.plan.space
    chosen = space.describe_chosen(curator.verdict)
    return SceneView(
        title=space.words.chosen_title,
        words=chosen.sentences,
        line=r"**Line 8.** $j = \min\{i : q_i > 0.6\}$.",
        ours=space.words.chosen or film.plan.test.words.picked,
        numbers=(
            *chosen.numbers,
            Number("γ", f"{film.plan.gamma:.3g}", "How far one row can move it"),
        ),
        figure=lambda: film_figures.representative_figure(
            curator.fits,
            curator.verdict.weights,
            film.representative,
            film.window,
            picked=not space.averages,
            names=_names(film),
        ),
        alt=f"All fits as thin outlines. On top, as a thick line, {chosen.name}. "
        + figure_alt_text(nonprivate=film.representative, columns=film.dataset.columns),
        sharing=f"{LOCKED}: it is not masked yet.",
        code=(type(space).representative,),
    )


def _mask(film: FilmData, step: Step) -> SceneView:
    space, budget = film.plan.space, film.outcome.result.budget
    masked = film.outcome.curator.coarse
    if masked is None:
        raise PrivGMMError("nothing was masked: the blocks did not agree")
    moved = dist_gmm(film.representative, masked)
    levels = space.noise().values()
    return SceneView(
        title="Mask it",
        words="Noise is added in the mixture's own units: wide noise for a wide component, narrow "
        "noise for a narrow one. So **no bounds on the data are needed**. Grey outlines might have "
        "come out instead. Whoever sees one of them cannot tell whether the blue mixture was moved "
        "by one person." + _after_mask(step),
        line=r"**Line 9.** Return $\widetilde Y = \mathcal{B}(Y_j)$. Algorithm 2: mask each "
        r"component, e.g. $\Sigma^{1/2}(I + \eta G)(I + \eta G)^\top \Sigma^{1/2}$, permute, "
        "normalise.",
        ours=space.words.mask,
        numbers=(
            Number(
                "Noise",
                "η " + ", ".join(f"{eta:.{2 if len(levels) > 1 else 3}g}" for eta in levels),
                space.words.noise,
            ),
            Number("Moved", f"{moved:.3f}", "dist_GMM between before and after; 0 not, 1 wholly"),
            Number(
                "Spent",
                f"ε = {number_in_words(budget.epsilon, 3)}",
                f"By the whole release, with δ = {number_in_words(budget.delta, 3)}",
            ),
        ),
        figure=lambda: film_figures.mask_figure(
            film.representative, masked, film.other_draws, film.window, names=_names(film)
        ),
        alt="Before and after the mask, and forty other draws of the noise as faint outlines. "
        + figure_alt_text(private=masked, columns=film.dataset.columns),
        sharing=f"{LOCKED}: the picture shows what was masked. Only the orange mixture may be "
        "shared.",
        code=(type(space).mask,),
        motion="The noise shakes the mixture. Each draw leaves a grey ghost.",
    )


def _after_mask(step: Step) -> str:
    """Why the noise may be large."""
    if step.last:
        return ""
    if isinstance(step.after, Frame):
        return " The noise may be large: what follows only needs to know about where the rows lie."
    return " The noise is large on purpose: a later step takes it back."


def _refinement(film: FilmData, step: Step) -> SceneView:
    coarse, final, truth = step.before, step.after.mixture, film.dataset.truth
    if not isinstance(step.stage, Refinement):
        raise PrivGMMError(f"a stage of kind {step.stage.kind!r} has no noisy passes to show")
    numbers = [
        Number(
            "Passes",
            f"{step.stage.steps}",
            "Noisy sums of counts, first and second moments over all rows",
        )
    ]
    if truth is not None and truth.n_components == final.n_components:
        meaning = "dist_GMM to the true mixture: 0 is perfect, 1 as wrong as can be"
        numbers += [
            Number("Error before", f"{dist_gmm(coarse, truth):.3f}", meaning),
            Number("Error after", f"{dist_gmm(final, truth):.3f}", meaning),
        ]
    return SceneView(
        title="Polish with all rows",
        words="The masked mixture is public now. Measured against it, every row has a limited "
        "effect: a row far from all components counts for nothing. So noisy sums over **all** "
        "rows, not over blocks, pull the mixture back to where the rows are.",
        line="**Not in the paper.** The theorem ends with the mask; this step spends what the plan "
        "kept for it.",
        ours="",
        numbers=tuple(numbers),
        figure=lambda: film_figures.refinement_figure(
            coarse, final, film.window, true=truth, names=_names(film)
        ),
        alt="The mixture after the mask and after refinement. "
        + figure_alt_text(true=truth, private=final, columns=film.dataset.columns),
        sharing=":material/public: The grey and the orange mixture are private and may be shared"
        + ("." if truth is None else "; the true one is known because the rows are made up."),
        code=(refine,),
        motion="It snaps back to where the rows are.",
    )


_BY_SKETCH = (
    "**Not in the paper.** Its framework finds where the rows lie; the mixture is then taken from "
    "all rows at once."
)
_BY_HISTOGRAMS = (
    "**Not in the paper.** With so few rows no block fits would agree; histograms, not votes, find "
    "where the rows lie."
)
_FRAME_SHARING = f"{LOCKED}: the picture shows rows. The frame, in orange, may be shared."


def _histograms(film: FilmData, step: Step) -> SceneView:
    if not isinstance(step.stage, HistogramFrame):
        raise PrivGMMError(f"a stage of kind {step.stage.kind!r} has no histograms to show")
    stage, view = step.stage, step.seen
    threshold = stage.location_threshold
    if view.refused is None:
        said = (
            "Then a few noisy sums correct place and width, and find how the columns vary together."
        )
    else:
        said = (
            f"Here {view.refused}: the answer is **⊥**, and the film ends here. Nothing is said "
            "about the mixture."
        )
    return SceneView(
        title="Count the rows in wide bins",
        words="There are too few rows for blocks that vote. Instead each column is counted by "
        "itself: first how far two rows lie apart, then, in bins that wide, where the rows are. "
        "Every count gets noise, and **a bin shows only if it is far too full to hang on one "
        f"row**. The bins that show give a place and a width. {said}",
        line=_BY_HISTOGRAMS,
        ours="",
        numbers=(
            Number("Rows n", f"{film.dataset.n_rows:,}", "Public: how many people there are"),
            Number("Columns d", f"{film.plan.n_features}", "Each is counted by itself"),
            Number(
                "Rows to show",
                f"{threshold:,}",
                "What the noisy count of a bin must reach: set by the plan, from δ",
            ),
        ),
        figure=lambda: (
            sketch_figures.counts_figure(view.places[:2], threshold, names=_names(film))
            if view.places
            else film_figures.blocks_figure(
                film.dataset.rows, np.empty((0, 0), dtype=np.int64), (), names=_names(film)
            )
        ),
        alt="Bars: how many rows each wide bin of the first columns holds, and the threshold that "
        "the noisy count must reach for the bin to show."
        if view.places
        else "The rows as dots. No difference between rows was common enough to show.",
        sharing=f"{LOCKED}: the counts have no noise yet.",
        code=(type(stage).prepare, PreparedHistogramFrame.draw),
    )


def _frame_rows(film: FilmData, step: Step) -> SceneView:
    if not isinstance(step.before, Frame):
        raise PrivGMMError(f"no frame came before the stage of kind {step.stage.kind!r}")
    frame = step.before
    return SceneView(
        title="Measure all rows in public units",
        words="What was found is now a **frame**: a public centre and public units, drawn as an "
        "ellipse with lines. It need only be right within a factor of two. Every row, wherever it "
        "lies, is measured in it: how many units from the centre, and in which direction. So it "
        "does not matter in which units the data came.",
        line=_BY_SKETCH,
        ours="",
        numbers=(
            Number("Rows n", f"{film.dataset.n_rows:,}", "All of them, one by one: no blocks"),
            Number("Columns d", f"{film.plan.n_features}", "Numbers per row"),
        ),
        figure=lambda: sketch_figures.frame_figure(
            film.dataset.rows, frame, film.window, names=_names(film)
        ),
        alt="The rows as dots, and the frame: an ellipse around most of them, with the lines of "
        "its coordinates.",
        sharing=_FRAME_SHARING,
        code=(PreparedFrame.draw if film.plan.votes else Frame.published,),
        motion="The frame grows around the rows.",
    )


def _projections(film: FilmData, step: Step) -> SceneView:
    if not isinstance(step.stage, Sketch):
        raise PrivGMMError(f"a stage of kind {step.stage.kind!r} has no projections to show")
    data, shape = step.after, step.stage.shape
    finest = math.pi / (shape.step * shape.n_frequencies)
    return SceneView(
        title="Listen along one direction at a time",
        words="Along each direction of the frame, each row is a point on a turning wave: slow "
        "waves see the large shape, fast ones the details. The waves of all rows are added up. "
        "**One row gives every wave the same small push, however far away it lies**, so a little "
        "noise on the sums hides it. The noisy waves of one direction give back how the rows "
        "spread along it: the orange curve, against the rows themselves in grey.",
        line=_BY_SKETCH,
        ours="",
        numbers=(
            Number(
                "Directions",
                f"{shape.n_directions:,}",
                "The columns themselves, and others spread evenly between them",
            ),
            Number(
                "Waves in each",
                f"{shape.n_frequencies}",
                "From slow to fast, each twice, thrice, … as fast as the first",
            ),
            Number(
                "Finest detail",
                f"{finest:.0%}",
                "Half the shortest wave, as a share of the rows' spread: nothing finer is heard",
            ),
        ),
        figure=lambda: sketch_figures.projections_figure(
            film.dataset.rows, data, names=_names(film)
        ),
        alt="For the first columns, and for one direction between them: grey bars, how many rows "
        "lie where, and an orange curve, what the noisy waves say of it. The curve follows the "
        "bars to within its band.",
        sharing=f"{LOCKED}: the grey bars show rows. The orange curves and their bands may be "
        "shared.",
        code=(feature_sums,),
        motion="Waves are added up, from slow to fast.",
    )


def _tomogram(film: FilmData, step: Step) -> SceneView:
    if not isinstance(step.stage, Sketch):
        raise PrivGMMError(f"a stage of kind {step.stage.kind!r} has no waves to show")
    data, shape = step.after, step.stage.shape
    noise = float(np.median(data.deviations))
    heard = float((np.abs(data.values) > 3 * data.deviations).mean())
    pictured = film.plan.n_features <= 2
    below = (
        " The lower picture puts them together: a blurred view of the rows that **may be shown to "
        "anyone**."
        if pictured
        else " In more than two columns that cannot be drawn, but a mixture can be fitted to it."
    )
    return SceneView(
        title="Put all directions together",
        words="A hospital scanner looks at a body along many lines and puts a picture together. "
        "The same is done here. The upper picture shows how loud each noisy wave is, in every "
        "direction; the more a wave drowns in its noise, the less it counts." + below,
        line=_BY_SKETCH,
        ours="",
        numbers=(
            Number(
                "Waves",
                f"{data.size:,}",
                f"{shape.n_directions} directions with {shape.n_frequencies} frequencies each",
            ),
            Number(
                "Noise", f"{noise:.2g}", "On the mean of a wave over all rows, which is at most 1"
            ),
            Number("Heard", f"{heard:.0%}", "Waves that are more than three times their noise"),
        ),
        figure=lambda: sketch_figures.sketch_figure(
            data, shape.n_frequencies, film.window, names=_names(film)
        ),
        alt=f"How loud each of {data.size:,} noisy waves is: {heard:.0%} stand out from their "
        "noise, the slow ones most."
        + (" Below, the blurred density that they show together." * pictured),
        sharing=":material/public: Nothing here shows rows: the noisy waves, and all that is made "
        "from them, may be shared.",
        code=(PreparedSketch.draw,),
        motion="The picture comes together, direction by direction.",
    )


def _first_fit(step: Step) -> tuple[Mixture, StandardErrors | None]:
    """The fit to the first sketch in the units of the data, and its standard errors."""
    sketch, fit = step.before, step.seen
    covariance = computed_covariance(fit.compute_local_covariance)
    errors = errors_in_data_units(
        sketch.frame, fit.mixture, covariance, well_specified=fit.explains
    )
    return sketch.frame.mixture_from_frame(fit.mixture), errors


def _sketch_fit(film: FilmData, step: Step) -> SceneView:
    if not isinstance(step.stage, Finish):
        raise PrivGMMError(f"a stage of kind {step.stage.kind!r} has no fit to show")
    sketch, fit, k = step.before, step.seen, step.seen.n_components
    frequencies = step.stage.shape.n_frequencies
    mixture, errors = _first_fit(step)
    chosen = (
        f" How many components? Up to {step.stage.n_components} were tried, and {k} explain the "
        "waves best for their size."
        if step.stage.choose
        else ""
    )
    said = (
        "**It does**: what is left over is no larger than the noise."
        if fit.explains
        else "**It does not**, as with most real tables: something is left over that no mixture of "
        f"{k} can make."
    )
    numbers = [
        Number("Components", f"{k}", "Chosen from the waves" if chosen else "As asked for"),
        Number(
            "Misfit",
            f"{fit.misfit:.1f}",
            "How much more than noise is left over, in standard deviations; beyond "
            f"{MISFIT:g} no mixture of {k} explains the waves",
        ),
    ]
    if errors is not None:
        numbers.append(
            Number(
                "Means known to",
                f"± {_typical(errors, mixture):.2g}",
                "Standard error of a typical mean, as a share of its component's width",
            )
        )
    return SceneView(
        title="Which mixture makes these waves?",
        words=f"The waves of any mixture of {k} can be written down exactly. So one looks for the "
        "mixture whose waves fit best, as long as one likes: **no row is touched, nothing is "
        f"spent**. It does not matter whether the components overlap.{chosen} Does the mixture "
        f"explain the waves to within the noise? {said}",
        line=_BY_SKETCH,
        ours="",
        numbers=tuple(numbers),
        figure=lambda: sketch_figures.fit_figure(
            mixture,
            sketch,
            frequencies,
            film.window,
            errors=errors,
            names=_names(film),
        ),
        alt="The mixture that fits the waves, over what they show, with bands of two standard "
        "errors. " + figure_alt_text(private=mixture, columns=film.dataset.columns),
        sharing=":material/public: Nothing here shows rows: the fit may be shared.",
        code=(PrivateSketch.choice if step.stage.choose else PathSearch.upto,),
        motion="From the frame to the best fit. The way there is drawn, not recorded.",
    )


def _typical(errors: StandardErrors, mixture: Mixture) -> float:
    """The standard error of a typical mean, in widths of its component."""
    widths = np.sqrt(np.einsum("kii->ki", mixture.covariances))
    return float(np.median(errors.means / widths))


def _finish(film: FilmData, step: Step) -> SceneView:
    if not isinstance(step.stage, Finish):
        raise PrivGMMError(f"a stage of kind {step.stage.kind!r} has no second look to show")
    published, truth = step.after, film.dataset.truth
    final, errors = published.mixture, published.standard_errors
    first, before = _first_fit(step)
    numbers = []
    if errors is not None and before is not None:
        numbers += [
            Number(name, f"± {_typical(seen, mixture):.2g}", meaning)
            for name, seen, mixture, meaning in (
                ("Means, before", before, first, "Standard error of a typical mean, in widths"),
                ("Means, after", errors, final, "The same for what is released"),
            )
        ]
    if truth is not None and truth.n_components == final.n_components == first.n_components:
        meaning = "dist_GMM to the true mixture: 0 is perfect, 1 as wrong as can be. Not public"
        numbers += [
            Number("Error before", f"{dist_gmm(first, truth):.3f}", meaning),
            Number("Error after", f"{dist_gmm(final, truth):.3f}", meaning),
        ]
    if takes_rich_route(step.seen, step.stage) and published.sketch.rich is None:
        way = (
            "So few rows say little about so many components and columns. Rows vote, with noise, "
            "among starts that the waves give, and **noisy steps on all rows** go on from there."
        )
    elif takes_rich_route(step.seen, step.stage):
        way = (
            "Noisy steps on all rows make a rich mixture that lies near them, and the nearest "
            f"mixture of {final.n_components} is released. The rich one is public too."
        )
    elif published.sketch.deviations[0] < step.before.deviations[0]:
        way = (
            "The fit explains the waves, so a **second sketch** of all rows is taken and averaged "
            "with the first: as good as one sketch with the whole budget."
        )
    else:
        way = (
            "The fit explains the waves, so **one noisy step on all rows** refines it. For these "
            "components that tells more than more waves would."
        )
    return SceneView(
        title="Spend the rest of the budget",
        words=f"What is left of the budget buys one more look at all rows. {way} Which way is "
        "taken depends on public numbers only, and **either way costs the same**, fixed by the "
        "plan. The bands show two standard errors of what is released: sampling of the rows and "
        "privacy noise together.",
        line=_BY_SKETCH,
        ours="",
        numbers=tuple(numbers),
        figure=lambda: film_figures.refinement_figure(
            first,
            final,
            film.window,
            true=truth,
            errors=errors,
            names=_names(film),
            labels=("first fit", "released"),
        ),
        alt="The first fit and the released mixture, with bands of two standard errors. "
        + figure_alt_text(true=truth, private=final, columns=film.dataset.columns),
        sharing=":material/public: All that is grey or orange is private and may be shared"
        + ("." if truth is None else "; the true mixture is known because the rows are made up."),
        code=(PreparedFinish.draw,),
        motion="From the first fit to the release.",
    )


SCENES: dict[str, Callable[[FilmData, Step], SceneView]] = {
    "blocks": _blocks,
    "fits": _fits,
    "distances": _distances,
    "votes": _votes,
    "test": _test,
    "chosen": _chosen,
    "mask": _mask,
    "refinement": _refinement,
    "histograms": _histograms,
    "frame_rows": _frame_rows,
    "projections": _projections,
    "tomogram": _tomogram,
    "sketch_fit": _sketch_fit,
    "finish": _finish,
}
"""What to show for each key of a scene."""
