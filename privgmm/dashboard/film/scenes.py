"""The scenes of the film: for each step its words, the paper's line, figures and numbers.

A scene is described here and drawn by `film`. Only the mixture that comes out at the end is
private; every scene says what in it may be shared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from privgmm.dashboard.film.film_data import Reel
from privgmm.dashboard.shared.format import chance_in_words
from privgmm.distances.parameters import dist_gmm
from privgmm.figures import film as film_figures
from privgmm.figures import votes as voting_figures
from privgmm.figures.mixtures import figure_alt_text
from privgmm.learners.registry import LEARNERS
from privgmm.stages.agreement.lifted_space import LiftedSpace
from privgmm.stages.agreement.votes import AgreementTest

__all__ = ["Number", "Scene", "scene"]

LOCKED = ":material/lock: For the curator's eyes only"


class Number(NamedTuple):
    """A figure on the page: what it is called, what it is, what it means."""

    label: str
    value: str
    meaning: str


@dataclasses.dataclass(frozen=True)
class Scene:
    """One step of the film.

    Parameters
    ----------
    title, words : str
        What happens, for everybody.
    line : str
        The paper's own line or lines, in Markdown with LaTeX.
    ours : str
        Where the method at hand departs from it; empty if it does not.
    numbers : tuple of Number
    figure : callable
        Draws the picture.
    alt : str
        The picture in words.
    sharing : str
        What in the picture may be shared.
    """

    title: str
    words: str
    line: str
    ours: str
    numbers: tuple[Number, ...]
    figure: Callable[[], Any]
    alt: str
    sharing: str


def scene(reel: Reel, step: int) -> Scene:
    """The scene of a step, counted from 1."""
    makers = (_blocks, _fits, _distances, _votes, _test, _chosen, _mask, _refinement)
    return makers[step - 1](reel)


def _names(reel: Reel) -> tuple[str, ...]:
    return tuple(reel.dataset.columns[:2])


def _blocks(reel: Reel) -> Scene:
    data, positions = reel.dataset, reel.outcome.curator.positions
    t, s = positions.shape
    return Scene(
        title="Deal the rows into blocks",
        words="The rows are dealt like cards: which block a row goes to depends on its position "
        "and on chance, never on its value. So **one person sits in one block**, and can only ever "
        "change that block. Five blocks are coloured; they stay so in the next step.",
        line=r"**Line 1.** Let $s \leftarrow \lfloor m/t \rfloor$.",
        ours="The paper's $m$ rows are the $n$ rows here.",
        numbers=(
            Number("Rows n", f"{data.n_rows:,}", "Public: how many people there are"),
            Number("Blocks t", f"{t:,}", "Chosen by the plan before any data is seen"),
            Number("Rows a block s", f"{s:,}", "n / t, rounded down; what is left over is unused"),
        ),
        figure=lambda: film_figures.blocks_figure(
            data.rows, positions, reel.followed, names=_names(reel)
        ),
        alt=f"{data.n_rows:,} rows as dots. The rows of five of the {t:,} blocks are coloured: "
        "each block is spread over all of the data.",
        sharing=f"{LOCKED}: the picture shows rows.",
    )


def _fits(reel: Reel) -> Scene:
    fits = reel.outcome.curator.fits
    good = int(fits.ok.sum())
    shape = "curve" if fits.n_features == 1 else "ghost"
    return Scene(
        title="Fit every block on its own",
        words="Any learner without privacy will do; here it is "
        f"{LEARNERS[reel.learner].title}. Each block gives one {shape}, drawn at one standard "
        "deviation. Where they pile up, the blocks agree. **Replacing one row moves one ghost**, "
        "as far as you like, and no other.",
        line=r"**Line 2.** For $i \in [t]$, let $Y_i \leftarrow \mathcal{A}"
        r"\big(\{X_\ell\}_{\ell=(i-1)s+1}^{is}\big)$.",
        ours="",
        numbers=(
            Number("Fits", f"{good:,} of {len(fits):,}", "A block whose fit fails has no friends"),
            Number("Components k", f"{fits.n_components}", "Gaussians in each fit"),
        ),
        figure=lambda: film_figures.fits_figure(
            fits, reel.followed, reel.window, names=_names(reel)
        ),
        alt=f"The fits of {good} blocks, {fits.n_components} components each, as thin outlines; "
        "five are coloured as in the step before.",
        sharing=f"{LOCKED}: a fit can follow any one of its rows anywhere.",
    )


def _distances(reel: Reel) -> Scene:
    distances, tau = reel.outcome.curator.distances, reel.plan.tau
    t = len(distances)
    pairs = distances[np.triu_indices(t, 1)]
    near, none = float((pairs <= tau).mean()), float(np.isinf(pairs).mean())
    lifted = isinstance(reel.plan.space, LiftedSpace)
    return Scene(
        title="Compare all pairs of fits",
        words="How far is each fit from each other one? Up to τ the two blocks **agree**: blue. "
        "Blocks are sorted by how many others agree with them, and the histogram below counts the "
        "pairs.",
        line=r"**Line 3**, its inner part: $\mathrm{dist}(Y_i, Y_j) \le r/2z$, with "
        r"$\mathrm{dist}_{\mathrm{PARAM}}$ of Section 5.",
        ours="Here the distance is that of lifted matrices, a true metric, and τ stands for r/2z. "
        "Pairs whose components could be confused count as far apart."
        if lifted
        else "τ stands for r/2z.",
        numbers=(
            Number("τ", f"{tau:.3g}", "How near two fits must be to agree: set by the plan"),
            Number("Pairs that agree", f"{near:.0%}", "Share of all pairs of blocks within τ"),
            Number(
                "No distance",
                f"{none:.0%}",
                "Pairs with a failed fit, or with components too close to be told apart",
            ),
        ),
        figure=lambda: voting_figures.distances_figure(distances, tau),
        alt=f"Heat map of the distances between {t:,} fits, most befriended first: {near:.0%} of "
        f"the pairs lie within {tau:.3g} of each other. Below, a histogram of the distances.",
        sharing=f"{LOCKED}: every number in it may depend on any row.",
    )


def _votes(reel: Reel) -> Scene:
    counts, test = reel.outcome.curator.votes, reel.plan.test
    statistic = reel.outcome.curator.statistic
    median = int(np.median(counts))
    numbers: tuple[Number, ...]
    if isinstance(test, AgreementTest):
        words = (
            "A block's votes are its friends, itself included. The test asks for a **core**: G "
            "blocks with M friends each, and then for room to spare. Climb from (G, M) one friend "
            "a block until the staircase of votes is met: that far is **h**. Changing one block "
            "moves every other count by one at most, and so h by one at most."
        )
        ours = (
            "The mean Q is replaced by h, a whole number that one row moves by at most 1, which "
            "needs less noise than Q."
        )
        numbers = (
            Number("h", f"{statistic:g}", "How many blocks and friends there are to spare; -1: no"),
            Number("M friends", f"{test.full}", "A block with so many friends counts fully"),
            Number("G blocks", f"{test.core}", "So many blocks must have M friends"),
            Number("m friends", f"{test.member}", "With fewer, a block does not count at all"),
        )
        alt = (
            f"Votes of {counts.size:,} blocks in falling order, median {median}; "
            f"{int((counts >= test.full).sum())} reach M = {test.full}. h is {statistic:g}."
        )
    else:
        words = (
            "A block's votes are its friends, itself included, as a share of all. Their mean is "
            "**Q**: 1 if all agree. Changing one block changes Q by less than 2/t."
        )
        ours = ""
        numbers = (
            Number("Q", f"{statistic:.3g}", "Mean share of blocks that agree with a block"),
            Number("Median votes", f"{median}", f"Of {counts.size:,} possible"),
        )
        alt = (
            f"Votes of {counts.size:,} blocks in falling order, median {median}; their mean share "
            f"Q is {statistic:.3g}."
        )
    return Scene(
        title="Count the votes",
        words=words,
        line=r"**Lines 3 and 4.** $q_i \leftarrow \frac1t \big|\{j : \mathrm{dist}(Y_i, Y_j) \le "
        r"r/2z\}\big|$, $\;Q \leftarrow \frac1t \sum_i q_i$.",
        ours=ours,
        numbers=numbers,
        figure=lambda: voting_figures.votes_figure(counts, test),
        alt=alt,
        sharing=f"{LOCKED}: h and Q have no noise yet.",
    )


def _test(reel: Reel) -> Scene:
    verdict, test = reel.outcome.curator.verdict, reel.plan.test
    chance = test.pass_probability(verdict.counts)
    noise = verdict.noisy_statistic - verdict.statistic
    exact = isinstance(test, AgreementTest)
    letter = "h" if exact else "Q"
    said = (
        "It passed."
        if verdict.passed
        else "It did not pass: the answer is **⊥**, and the film ends here. Nothing is said about "
        "the mixture."
    )
    return Scene(
        title="Ask with noise: do the blocks agree?",
        words=f"Noise is added to {letter}, and the sum must reach the threshold. Only **yes or "
        "no** leaves this step, and no single row can change the odds of that answer by much. The "
        f"threshold lies so high that where blocks do not agree, noise will not say yes. {said}",
        line=r"**Lines 5 to 7.** $Z \sim \mathrm{TLap}(2/t, \varepsilon, \delta)$; $\;\widetilde Q "
        r"\leftarrow Q + Z$; if $\widetilde Q < 0.8 + \frac{2}{t\varepsilon}\ln\!\big(1 + "
        r"\frac{e^\varepsilon - 1}{2\delta}\big)$, fail and return $\bot$.",
        ours=f"Here Z is a discrete Gaussian of scale {test.sigma:.3g}, and h must exist."
        if isinstance(test, AgreementTest)
        else "",
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
        figure=lambda: voting_figures.threshold_figure(verdict, test),
        alt=f"The law of {letter} plus noise around {verdict.statistic:.4g}. Drawn was "
        f"{verdict.noisy_statistic:.4g}; the threshold is {verdict.threshold:.4g}. The chance to "
        f"pass was {chance_in_words(chance)}.",
        sharing=f"{LOCKED}, but for the answer: "
        f"“{'released' if verdict.passed else 'refused'}” may be shared.",
    )


def _chosen(reel: Reel) -> Scene:
    curator = reel.outcome.curator
    weights = curator.verdict.weights
    picked = not isinstance(reel.plan.space, LiftedSpace)
    counted = int((weights > 0).sum())
    reference = curator.verdict.reference
    counts = (
        (
            Number("Picked", f"block {reference + 1}", "The first with enough friends"),
            Number(
                "Its friends",
                f"{curator.votes[reference]} of {weights.size}",
                "Blocks that agree with it, itself included",
            ),
        )
        if picked
        else (
            Number("Blocks that count", f"{counted} of {weights.size}", "Weight above zero"),
            Number(
                "Largest share",
                f"{float(weights.max() / weights.sum()):.2%}",
                "The most that one block weighs in what goes to the mask",
            ),
        )
    )
    words = (
        f"The first block with enough friends, block **{reference + 1}**, speaks for all. "
        "Whoever is picked after one row changes has a friend in common with it, so the "
        "two lie near each other."
        if picked
        else f"**{counted} blocks agree and are averaged**, each with a weight that climbs from 0 "
        "to 1 with its votes. One row moves one block of them, so it moves their mean by little, "
        "and little noise hides that."
    )
    return Scene(
        title="Pick one" if picked else "Average those that agree",
        words=words,
        line=r"**Line 8.** $j = \min\{i : q_i > 0.6\}$.",
        ours="At least G blocks have M friends; the first of them is picked."
        if picked and isinstance(reel.plan.test, AgreementTest)
        else ""
        if picked
        else "Instead of one fit, the mean of the whole core in the space of lifted matrices, "
        "where means exist, are unique, and move little when one block moves.",
        numbers=(*counts, Number("γ", f"{reel.plan.gamma:.3g}", "How far one row can move it")),
        figure=lambda: film_figures.representative_figure(
            curator.fits,
            weights,
            reel.representative,
            reel.window,
            picked=picked,
            names=_names(reel),
        ),
        alt="All fits as thin outlines. On top, as a thick line, "
        + ("the picked fit. " if picked else f"the mean of the {counted} that count. ")
        + figure_alt_text(nonprivate=reel.representative, columns=reel.dataset.columns),
        sharing=f"{LOCKED}: it is not masked yet.",
    )


def _mask(reel: Reel) -> Scene:
    space, final = reel.plan.space, reel.plan.refine is None
    moved = dist_gmm(reel.representative, reel.coarse)
    noise = (
        f"η {space.eta:.3g}"
        if isinstance(space, LiftedSpace)
        else f"η {space.eta_weight:.2g}, {space.eta_mean:.2g}, {space.eta_cov:.2g}"
    )
    return Scene(
        title="Mask it",
        words="Noise in the mixture's own units: a wide component gets wide noise, a narrow one "
        "narrow noise, so **no bounds on the data are needed**. The faint outlines are other "
        "draws that might have come out instead: nobody can tell from one of them whether the "
        "blue one moved by γ."
        + ("" if final else " The noise is large on purpose: the last step takes it back."),
        line=r"**Line 9.** Return $\widetilde Y = \mathcal{B}(Y_j)$. Algorithm 2: mask each "
        r"component, e.g. $\Sigma^{1/2}(I + \eta G)(I + \eta G)^\top \Sigma^{1/2}$, permute, "
        "normalise.",
        ours="Weight, mean and covariance are one lifted matrix and are masked together."
        if isinstance(space, LiftedSpace)
        else "",
        numbers=(
            Number(
                "Noise",
                noise,
                "Relative noise of the mask"
                + ("" if isinstance(space, LiftedSpace) else ": of weight, mean and covariance"),
            ),
            Number("Moved", f"{moved:.3f}", "dist_GMM between before and after; 0 not, 1 wholly"),
            Number(
                "Spent",
                f"ε = {reel.outcome.result.budget.epsilon:.3g}",
                f"By the whole release, with δ = {reel.outcome.result.budget.delta:.3g}",
            ),
        ),
        figure=lambda: film_figures.mask_figure(
            reel.representative, reel.coarse, reel.other_draws, reel.window, names=_names(reel)
        ),
        alt="Before and after the mask, and forty other draws of the noise as faint outlines. "
        + figure_alt_text(private=reel.coarse, columns=reel.dataset.columns),
        sharing=f"{LOCKED}: the picture shows what was masked. The solid orange mixture alone is "
        "private and may be shared.",
    )


def _refinement(reel: Reel) -> Scene:
    final = reel.released or reel.coarse
    truth = reel.dataset.truth
    refinement = reel.plan.refine
    numbers = [
        Number(
            "Passes",
            f"{0 if refinement is None else refinement.steps}",
            "Noisy sums of counts, first and second moments over all rows",
        )
    ]
    if truth is not None and truth.n_components == final.n_components:
        meaning = "dist_GMM to the true mixture: 0 is perfect, 1 as wrong as can be"
        numbers += [
            Number("Error before", f"{dist_gmm(reel.coarse, truth):.3f}", meaning),
            Number("Error after", f"{dist_gmm(final, truth):.3f}", meaning),
        ]
    return Scene(
        title="Polish with all rows",
        words="Seen through the masked mixture, which is public by now, unbounded rows become "
        "bounded: a row far from every component counts for nothing. So noisy sums over **all** "
        "rows, not over blocks, can pull the coarse mixture to where the data is.",
        line="**Not in the paper.** The theorem ends with the mask; this step spends what the plan "
        "kept for it.",
        ours="",
        numbers=tuple(numbers),
        figure=lambda: film_figures.refinement_figure(
            reel.coarse, final, reel.window, true=truth, names=_names(reel)
        ),
        alt="The mixture after the mask and after refinement. "
        + figure_alt_text(true=truth, private=final, columns=reel.dataset.columns),
        sharing=":material/public: Both orange mixtures are private and may be shared"
        + ("." if truth is None else "; the true one is known because the rows are made up."),
    )
