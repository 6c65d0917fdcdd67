"""Why blocks disagree, and what to try: words for the curator.

NOT private: they are read off the fits and the rows. Nothing here enters a release.
"""

from __future__ import annotations

import collections
import dataclasses

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.blocks import rows_of_blocks
from privgmm.errors import InvalidInput
from privgmm.landscape import Landscape, Solution, landscape, largest_difference
from privgmm.learnable import learnable
from privgmm.learners import Learner
from privgmm.learners.em import EM
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.spaces.flatness import nearly_flat
from privgmm.spread import pair_distances, simulate_blocks

__all__ = ["Trial", "hint", "try_components"]

_MOST_BLOCKS = 300
_TRIAL_BLOCKS = 80
_REASONS_ASKED = 40
_AGREE = 0.9
_NOISE = 2.0
_BLURRED = 0.1
_SIMULATED = 200


@dataclasses.dataclass(frozen=True, eq=False)
class Trial:
    """How blocks agree with another number of components. NOT private.

    Parameters
    ----------
    n_components : int
        k.
    share : float
        Share of the blocks that find the most frequent solution.
    excess : float
        How much wider its fits scatter than those of well separated components would.
    """

    n_components: int
    share: float
    excess: float

    @property
    def agrees(self) -> bool:
        """Whether nearly all blocks find one solution, up to the noise of their rows."""
        return self.share >= _AGREE and self.excess <= _NOISE


def try_components(blocks: Array, n_components: int, learner: Learner | None = None) -> Trial:
    """Fit blocks (t, s, d) with k components, by EM, and see how they agree; eighty are enough."""
    base = learner if isinstance(learner, EM) else EM(n_components)
    some = blocks[:_TRIAL_BLOCKS]
    fits = dataclasses.replace(base, n_components=n_components).fit_blocks(some, rng=0)
    found = landscape(fits)
    if not found.solutions:
        return Trial(n_components, 0.0, np.inf)
    return Trial(n_components, float(found.shares[0]), _excess(found.solutions[0], blocks.shape[1]))


def hint(
    fits: MixtureBatch,
    distances: Array,
    rows: Array,
    positions: IntArray,
    *,
    learner: Learner,
    passed: bool,
) -> str | None:
    """What keeps the blocks from agreeing, and which number of components to try; or None.

    Parameters
    ----------
    fits : MixtureBatch
        t fits.
    distances : array (t, t)
        As the test saw them: infinite for a fit and itself where it could not be labelled.
    rows : array (n, d)
    positions : array (t, s)
        Which rows made up each block.
    learner : Learner
        What made the fits.
    passed : bool
        Whether the blocks agreed closely enough for a release.

    Notes
    -----
    Another number of components is suggested only after it was tried on (some of) the blocks:
    k + 1, k + 2 and then k - 1, since fewer always agree more easily.
    """
    some = _every(fits, -(-len(fits) // _MOST_BLOCKS))
    found = landscape(some)
    words = _failures(fits, rows, positions, learner)
    split = len(found.solutions) > 1
    if not found.solutions or (passed and not split):
        return " ".join(words) or None
    size = positions.shape[1]
    excess = _excess(found.solutions[0], size)
    fitted = len(some) - len(found.failed)
    if split:
        words.append(_split(found))
    elif excess <= _NOISE and len(found.solutions[0].members) >= _AGREE * fitted:
        words.append(_noise_or_blur(fits, distances, size))
        return " ".join(words)
    else:
        words.append(
            f"The blocks share no clear solution: their fits scatter {excess:.2g} times as widely "
            f"as those of well separated components would with {size} rows a block."
        )
    words += _doubts(found.solutions[0].mixture)
    blocks = rows_of_blocks(rows, positions[:_TRIAL_BLOCKS])
    words.append(_suggestion(blocks, fits.n_components, learner))
    return " ".join(words)


def _every(fits: MixtureBatch, step: int) -> MixtureBatch:
    return MixtureBatch.from_cholesky(
        fits.weights[::step], fits.means[::step], fits.cholesky[::step], fits.ok[::step]
    )


def _excess(solution: Solution, rows: int) -> float:
    """Scatter of a solution's fits over what well separated components of its weights show."""
    mixture = solution.mixture
    errors = simulate_blocks(_SIMULATED, rows, mixture.weights, mixture.n_features, rng=0)
    expected = pair_distances(errors, lifted=True)[np.triu_indices(_SIMULATED, 1)]
    return solution.scatter / float(np.median(expected))


def _failures(fits: MixtureBatch, rows: Array, positions: IntArray, learner: Learner) -> list[str]:
    failed = np.flatnonzero(~fits.ok)
    if not failed.size:
        return []
    head = f"{failed.size} of {len(fits)} blocks have no fit"
    asked = getattr(learner, "fit_blocks_with_reasons", None)
    if asked is None:
        return [f"{head}."]
    _, reasons = asked(rows_of_blocks(rows, positions[failed[:_REASONS_ASKED]]), rng=0)
    counted = collections.Counter(reason or "found on a second try" for reason in reasons)
    told = "; ".join(f"{reason} ({count})" for reason, count in counted.most_common(3))
    more = f" of the first {_REASONS_ASKED}" if failed.size > _REASONS_ASKED else ""
    return [f"{head}: {told}{more}."]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _component(mixture: Mixture, index: int) -> str:
    mean = ", ".join(f"{x:.3g}" for x in mixture.means[index][:4])
    dots = ", …" if mixture.n_features > 4 else ""
    return f"weight {mixture.weights[index]:.2g} at ({mean}{dots})"


def _split(found: Landscape) -> str:
    first, second = found.solutions[:2]
    text = (
        f"{_percent(found.shares[0])} of the blocks agree on one solution, "
        f"{_percent(found.shares[1])} on another"
    )
    if len(found.solutions) > 2:
        text += f", {_percent(found.shares[2:].sum())} on {len(found.solutions) - 2} more"
    most = largest_difference(first.mixture, second.mixture)
    return (
        f"{text}. The first two differ most in one component: "
        f"{_component(first.mixture, most.first)} in the first, "
        f"{_component(second.mixture, most.second)} in the second, "
        f"{most.shift:.2g} of its standard deviations away."
    )


def _noise_or_blur(fits: MixtureBatch, distances: Array, size: int) -> str:
    """Why a test fails although the blocks find one solution."""
    blurred = fits.ok & np.isinf(np.diagonal(distances)) & ~nearly_flat(fits)
    share = float(blurred.sum() / max(fits.ok.sum(), 1))
    if share > _BLURRED:
        return (
            f"The blocks find one solution, but in {_percent(share)} of the fits two components "
            "lie too near each other for this plan to tell their labels apart; more rows will not "
            "change that. A smaller alpha with fewer blocks, fewer components or method 'tight' "
            "may help."
        )
    return (
        f"The blocks find one solution, and {size} rows a block let their fits scatter as they do: "
        "more rows, or a larger epsilon or alpha, will help."
    )


def _doubts(mixture: Mixture) -> list[str]:
    """What Definition 6.4 says of the solution, where it says something bad."""
    try:
        measured = learnable(mixture)
    except InvalidInput as problem:
        return [f"The most frequent solution is nearly flat: {problem}."]
    if measured.smallest_variation < 0.5 or measured.gamma < 0.05:
        return [f"Of the most frequent solution, {measured.explain()}."]
    return []


def _suggestion(blocks: Array, k: int, learner: Learner) -> str:
    tried = [n for n in (k + 1, k + 2, k - 1) if n >= 1]
    for n in tried:
        trial = try_components(blocks, n, learner)
        if trial.agrees:
            keep = f" If there are {k}, finding them takes many more rows." if n < k else ""
            return (
                f"Try k = {n}: with it {_percent(trial.share)} of the blocks agree on one "
                f"solution.{keep}"
            )
    listed = ", ".join(str(n) for n in sorted(tried))
    return (
        f"No other k nearby ({listed}) makes them agree: more rows a block (fewer blocks, more "
        "data) or another learner may."
    )
