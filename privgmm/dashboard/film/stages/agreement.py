"""Show blocks that vote: Algorithm 1, line by line.

What differs from method to method is asked of the stage's test and space.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import plotly.graph_objects as go

from privgmm.audit.guessing import Silence
from privgmm.dashboard.film.film_data import StageRun
from privgmm.dashboard.film.scene import LOCKED, FilmScene, FilmScenes, shows
from privgmm.distances.parameters import dist_gmm
from privgmm.figures import film as film_figures
from privgmm.figures import votes as votes_figures
from privgmm.figures.mixtures import figure_alt_text
from privgmm.learners.learner import Learner, ReasonedLearner
from privgmm.learners.registry import LEARNERS
from privgmm.mixture import Mixture
from privgmm.privacy.noise import noise_source
from privgmm.stages.agreement.algorithm_1 import settled_distances
from privgmm.stages.agreement.blocks import deal
from privgmm.stages.agreement.stage import AgreementView
from privgmm.stages.sketch.frame import Frame
from privgmm.teaching.format import chance_in_words, number_in_words

__all__ = ["agreement_scenes", "masked_again"]

_MASKED: weakref.WeakKeyDictionary[AgreementView, tuple[Mixture, ...]] = weakref.WeakKeyDictionary()
"""What `masked_again` computed, for as long as the release is held."""

_OTHER_DRAWS = 40
"""Draws of the noise next to the one that came out: a choice of looks."""

_MOST_COUNTED = 3000
"""Blocks up to which the count of votes moves: with more bars per frame a browser stutters."""


@shows("agreement")
def agreement_scenes(run: StageRun) -> FilmScenes:
    """List the scenes by their labels; without agreement they end at the test."""
    scenes = {
        "Blocks": _blocks,
        "Fits": _fits,
        "Distances": _distances,
        "Votes": _votes,
        "Noisy test": _test,
    }
    if not run.view.verdict.passed:
        return scenes
    return {**scenes, run.stage.space.words.chosen_label: _chosen, "Mask": _mask}


def masked_again(run: StageRun) -> tuple[Mixture, ...]:
    """Mask what the blocks agreed on without noise, then with other noise. CONFIDENTIAL.

    What goes into the mask takes no randomness, so it can be computed again from the fits; that is
    done once per release. The other noise comes from fixed seeds.
    """
    space, view = run.stage.space, run.view
    if view not in _MASKED:
        verdict = view.verdict
        item = space.representative(view.fits, verdict.weights, verdict.reference)
        sources = (Silence(), *map(noise_source, range(_OTHER_DRAWS)))
        _MASKED[view] = tuple(space.mask(item, rng=source) for source in sources)
    return _MASKED[view]


def _followed(run: StageRun) -> tuple[int, ...]:
    """Pick the blocks that are coloured: evenly spread from most to fewest friends."""
    order = np.argsort(-run.view.verdict.counts, kind="stable")
    few = min(len(film_figures.BLOCK_LOOKS), order.size)
    return tuple(int(order[i]) for i in np.linspace(0, order.size - 1, few).astype(int))


def _blocks(run: StageRun) -> FilmScene:
    rows, positions = run.film.dataset.rows, run.view.positions
    t, s = positions.shape
    return FilmScene(
        title="Deal the rows into blocks",
        words="The rows are dealt like cards: which block a row goes to depends on its position "
        "and on chance, never on its value. So **one person sits in one block**, and can only ever "
        "change that block. Five blocks are coloured; they stay so in the next step.",
        paper=r"**Line 1.** Let $s \leftarrow \lfloor m/t \rfloor$.",
        ours="The paper's $m$ rows are the $n$ rows here.",
        numbers=(
            ("Rows n", f"{len(rows):,}", "Public: how many people there are"),
            ("Blocks t", f"{t:,}", "Chosen by the plan before any data is seen"),
            (
                "Rows per block s",
                f"{s:,}",
                "At most n / t, rounded down; what is left over goes into no block",
            ),
        ),
        figure=lambda: film_figures.blocks_figure(
            rows, positions, _followed(run), names=run.film.names
        ),
        alt=f"{len(rows):,} rows as dots. The rows of five of the {t:,} blocks are coloured: "
        "each block is spread over all of the data.",
        sharing=f"{LOCKED}: the picture shows rows.",
        code=(deal,),
        motion="Rows are dealt to five of the blocks, like cards.",
    )


def _fits(run: StageRun) -> FilmScene:
    fits, learner = run.view.fits, run.view.learner
    good = int(fits.ok.sum())
    outline = (
        "one density curve"
        if fits.n_features == 1
        else "one ellipse per component, at one standard deviation"
    )
    in_part = (
        ""
        if fits.n_components == run.film.plan.n_components
        else " Here each block is only asked **where the rows lie and how far they spread**, "
        "all of them together; the components come later."
    )
    return FilmScene(
        title="Fit every block on its own",
        words=f"Any learner will do, and it needs no privacy of its own; here it is "
        f"{_title_of(learner)}. Each block gives {outline}. Where they pile up, the blocks agree. "
        f"**Replacing one row changes one fit**, as far as you like, and no other.{in_part}",
        paper=r"**Line 2.** For $i \in [t]$, let $Y_i \leftarrow \mathcal{A}"
        r"\big(\{X_\ell\}_{\ell=(i-1)s+1}^{is}\big)$.",
        numbers=(
            ("Fits", f"{good:,} of {len(fits):,}", "A block whose fit fails has no friends"),
            ("Components k", f"{fits.n_components}", "Gaussians in each fit"),
        ),
        figure=lambda: film_figures.fits_figure(
            fits, _followed(run), run.film.window, names=run.film.names
        ),
        alt=f"The fits of {good} blocks, {fits.n_components} components each, as thin outlines; "
        "five are coloured as in the step before.",
        sharing=f"{LOCKED}: a fit can follow any one of its rows anywhere.",
        code=(_fitting(learner),),
        motion="The fits pile up, block by block.",
    )


def _title_of(learner: Learner) -> str:
    """Name what fitted the blocks; a learner that is not the package's own by its class."""
    titles = {kind.make: kind.title for kind in LEARNERS.values()}
    return titles.get(type(learner), type(learner).__name__)


def _fitting(learner: Learner) -> Callable[..., Any]:
    """Return the function that fitted the blocks."""
    kind = type(learner)
    if issubclass(kind, ReasonedLearner):
        return kind.fit_blocks_with_reasons
    return kind.fit_blocks


def _distances(run: StageRun) -> FilmScene:
    distances, tau, space = run.view.distances, run.stage.tau, run.stage.space
    t = len(distances)
    pairs = distances[np.triu_indices(t, 1)]
    near, none = float((pairs <= tau).mean()), float(np.isinf(pairs).mean())
    return FilmScene(
        title="Compare all pairs of fits",
        words="How far is each fit from every other one? Up to τ the two blocks **agree**: blue. "
        "Blocks are sorted by how many others agree with them, and the histogram below counts the "
        "pairs.",
        paper=r"**Line 3**, its inner part: $\mathrm{dist}(Y_i, Y_j) \le r/2z$, with "
        r"$\mathrm{dist}_{\mathrm{PARAM}}$ of Section 5.",
        ours=space.words.distance,
        numbers=(
            ("τ", f"{tau:.3g}", "How near two fits must be to agree: set by the plan"),
            ("Pairs that agree", f"{near:.0%}", "Share of all pairs of blocks within τ"),
            (
                "No distance",
                f"{none:.0%}",
                "Pairs with a failed fit, or with components too close to be distinguished",
            ),
        ),
        figure=lambda: votes_figures.distances_figure(distances, tau),
        alt=f"Heat map of the distances between {t:,} fits, those with most friends first: "
        f"{near:.0%} of the pairs lie within {tau:.3g} of each other. Below, a histogram of the "
        "distances.",
        sharing=f"{LOCKED}: every number in it may depend on any row.",
        # what was asked of the space: who lies within the radius, or how far apart all fits are
        code=(settled_distances, getattr(type(space), "placed", type(space).distances)),
    )


def _votes(run: StageRun) -> FilmScene:
    counts, test = run.view.verdict.counts, run.stage.test
    reading = test.read_votes(counts)

    def figure() -> go.Figure:
        moves = len(counts) <= _MOST_COUNTED
        agree = run.view.distances <= run.stage.tau
        so_far = votes_figures.counted_so_far(agree) if moves else None
        return votes_figures.votes_figure(counts, test, so_far=so_far)

    return FilmScene(
        title="Count the votes",
        words=test.words.votes,
        paper=r"**Lines 3 and 4.** $q_i \leftarrow \frac1t \big|\{j : \mathrm{dist}(Y_i, Y_j) \le "
        r"r/2z\}\big|$, $\;Q \leftarrow \frac1t \sum_i q_i$.",
        ours=test.words.statistic,
        numbers=reading.numbers,
        figure=figure,
        alt=reading.words,
        sharing=f"{LOCKED}: {test.words.letter} has no noise yet.",
        code=test.counted_by,
        motion="Votes are counted, block by block.",
    )


def _test(run: StageRun) -> FilmScene:
    verdict, test = run.view.verdict, run.stage.test
    chance = chance_in_words(test.pass_probability(verdict.counts))
    letter = test.words.letter
    ending = "It passed." if verdict.passed else f"It did not pass.{run.ending}"
    return FilmScene(
        title="Ask with noise: do the blocks agree?",
        words=f"Noise is added to {letter}, and the sum must reach the threshold. Only **yes or "
        "no** leaves this step, and no single row can change the odds of that answer by much. The "
        "threshold is so high that where blocks do not agree, noise alone hardly ever says yes. "
        f"{ending}",
        paper=r"**Lines 5 to 7.** $Z \sim \mathrm{TLap}(2/t, \varepsilon, \delta)$; $\;\widetilde "
        r"Q \leftarrow Q + Z$; if $\widetilde Q < 0.8 + \frac{2}{t\varepsilon}\ln\!\big(1 + "
        r"\frac{e^\varepsilon - 1}{2\delta}\big)$, fail and return $\bot$.",
        ours=test.noisy_law(verdict.statistic).words,
        numbers=(
            (f"{letter} before noise", f"{verdict.statistic:.4g}", "Confidential"),
            (
                "Noise drawn",
                f"{verdict.noisy_statistic - verdict.statistic:+.4g}",
                "Drawn once, when the release was made",
            ),
            ("Threshold", f"{verdict.threshold:.4g}", "Set by the plan, from δ"),
            (
                "Chance to pass",
                chance,
                "Over the noise, for these votes. Confidential: only the answer may be shared.",
            ),
        ),
        figure=lambda: votes_figures.threshold_figure(verdict, test),
        alt=f"The law of {letter} plus noise around {verdict.statistic:.4g}. Drawn was "
        f"{verdict.noisy_statistic:.4g}; the threshold is {verdict.threshold:.4g}. The chance to "
        f"pass was {chance}.",
        sharing=f"{LOCKED}, except for the answer: "
        f"“{'released' if verdict.passed else 'refused'}” may be shared.",
        code=(type(test).standing, type(test).examine),
        motion="Other noise first, then the noise that was drawn.",
    )


def _chosen(run: StageRun) -> FilmScene:
    stage, view = run.stage, run.view
    chosen = stage.space.describe_chosen(view.verdict)
    mixture = masked_again(run)[0]
    return FilmScene(
        title=stage.space.words.chosen_title,
        words=chosen.sentences,
        paper=r"**Line 8.** $j = \min\{i : q_i > 0.6\}$.",
        ours=stage.space.words.chosen or stage.test.words.picked,
        numbers=(*chosen.numbers, ("γ", f"{stage.gamma:.3g}", "How far one row can move it")),
        figure=lambda: film_figures.representative_figure(
            view.fits,
            view.verdict.weights,
            mixture,
            run.film.window,
            picked=not stage.space.averages,
            names=run.film.names,
        ),
        alt=f"All fits as thin outlines. On top, as a thick line, {chosen.name}. "
        + figure_alt_text(nonprivate=mixture, columns=run.film.dataset.columns),
        sharing=f"{LOCKED}: it is not masked yet.",
        code=(type(stage.space).representative,),
    )


def _mask(run: StageRun) -> FilmScene:
    space, budget, masked = run.stage.space, run.film.outcome.result.budget, run.view.coarse
    before, *others = masked_again(run)
    levels = space.noise().values()
    return FilmScene(
        title="Mask it",
        words="Noise is added in the mixture's own units: wide noise for a wide component, narrow "
        "noise for a narrow one. So **no bounds on the data are needed**. Grey outlines might have "
        "come out instead. From one of them no one can tell with confidence whether one person "
        f"moved the blue mixture.{_after_mask(run)}",
        paper=r"**Line 9.** Return $\widetilde Y = \mathcal{B}(Y_j)$. Algorithm 2: mask each "
        r"component, e.g. $\Sigma^{1/2}(I + \eta G)(I + \eta G)^\top \Sigma^{1/2}$, permute, "
        "normalise.",
        ours=space.words.mask,
        numbers=(
            (
                "Noise",
                "η " + ", ".join(f"{eta:.{2 if len(levels) > 1 else 3}g}" for eta in levels),
                space.words.noise,
            ),
            (
                "Moved",
                f"{dist_gmm(before, masked):.3f}",
                "dist_GMM between before and after: from 0, equal, to 1, as far apart as can be",
            ),
            (
                "Spent",
                f"ε = {number_in_words(budget.epsilon, 3)}",
                f"By the whole release, with δ = {number_in_words(budget.delta, 3)}",
            ),
        ),
        figure=lambda: film_figures.mask_figure(
            before, masked, others, run.film.window, names=run.film.names
        ),
        alt=f"Before and after the mask, and {_OTHER_DRAWS} other draws of the noise as faint "
        f"outlines. {figure_alt_text(private=masked, columns=run.film.dataset.columns)}",
        sharing=f"{LOCKED}: the picture shows what was masked. Only the orange mixture may be "
        "shared.",
        code=(type(space).mask,),
        motion="The noise shakes the mixture. Each draw leaves a grey outline.",
    )


def _after_mask(run: StageRun) -> str:
    """Say why the noise may be large."""
    if run.last or run.refused:
        return run.ending
    if isinstance(run.after, Frame):
        return " The noise may be large: what follows only needs to know about where the rows lie."
    return " The noise is large on purpose: a later step takes it back."
