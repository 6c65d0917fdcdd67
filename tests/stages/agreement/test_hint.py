"""Hints for the curator: what they say of data whose answer is known, and that they are right."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from privgmm.arrays import Array
from privgmm.learners.em import EM
from privgmm.learners.from_estimator import FromEstimator
from privgmm.learners.learner import BlockRandomness, Learner
from privgmm.methods.planner import calibrate
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.releases import Outcome, release
from privgmm.stages.agreement.blocks import deal
from privgmm.stages.agreement.hint import hint
from privgmm.stages.agreement.lifted_space import LiftedSpace
from privgmm.stages.agreement.stage import Agreement

I2 = np.eye(2)
TRIANGLE = Mixture([1 / 3] * 3, [[0, 0], [8, 0], [4, 7]], [I2] * 3)
SQUARE = Mixture([0.25] * 4, [[0, 0], [8, 0], [0, 8], [8, 8]], [I2] * 4)
PAIR = Mixture([0.4, 0.6], [[0, 0], [8, 0]], [I2, I2])
CLOSE = Mixture([0.4, 0.6], [[0, 0], [2, 0]], [I2, I2])
SINGLE = Mixture([1.0], [[3, 4]], [I2])


@functools.cache
def outcome(truth: Mixture, k: int, n: int = 36_000) -> Outcome:
    plan = calibrate(
        "lifted", epsilon=8.0, delta=1e-6, alpha=1.0, n_components=k, n_features=2, n_blocks=60
    )
    return release(truth.sample(n, rng=1), plan, rng=3)


def hint_for(truth: Mixture, k: int, n: int = 36_000) -> str:
    text = outcome(truth, k, n).curator.hint()
    assert text is not None
    return text


def suggested(text: str) -> int:
    found = re.search(r"Try k = (\d+)", text)
    assert found is not None, text
    return int(found[1])


@pytest.mark.parametrize(("truth", "k"), [(TRIANGLE, 3), (PAIR, 2), (SINGLE, 1)])
def test_nothing_to_say_where_blocks_agree(truth: Mixture, k: int) -> None:
    assert outcome(truth, k).released
    assert outcome(truth, k).curator.hint() is None


@pytest.mark.parametrize(
    ("truth", "k", "right"),
    [
        (TRIANGLE, 2, 3),
        (TRIANGLE, 4, 3),
        (SQUARE, 3, 4),
        (SQUARE, 2, 4),
        (PAIR, 3, 2),
        (SINGLE, 2, 1),
    ],
)
def test_the_suggested_number_is_the_right_one_and_releases(
    truth: Mixture, k: int, right: int
) -> None:
    assert not outcome(truth, k).released
    assert suggested(hint_for(truth, k)) == right == truth.n_components
    assert outcome(truth, right).released


def test_two_optima_are_named_with_their_shares_and_what_differs() -> None:
    """Three corners and two components: either corner can be left by itself."""
    text = hint_for(TRIANGLE, 2)
    sentence = text.split(". ")[0]
    shares = [int(share) for share in re.findall(r"(\d+) %", sentence)]
    assert len(shares) == 3
    assert shares[0] >= shares[1]
    assert 90 <= sum(shares) <= 101
    assert "differ most in one component" in text
    assert re.search(r"weight 0\.\d+ at \(-?[\d.]+, -?[\d.e-]+\) in the first", text)
    assert suggested(text) == 3


def test_too_many_components_have_no_clear_solution() -> None:
    text = hint_for(SINGLE, 2, 48_000)
    assert "no clear solution" in text
    assert "If there are 2, finding them takes many more rows" in text


def test_noise_alone_asks_for_rows_and_not_for_another_number() -> None:
    few = outcome(PAIR, 2, 3_000)
    assert not few.released
    text = hint_for(PAIR, 2, 3_000)
    assert "more rows" in text
    assert "50 rows a block" in text
    assert "Try k" not in text


def test_labels_that_blur_are_distinguished_from_noise() -> None:
    """Found by all blocks alike, yet nearer than a plan of this radius can label."""
    near = Mixture([0.5, 0.5], [[0.0, 0.0], [3.2, 0.0]], [I2, I2])
    plan = calibrate(
        "lifted", epsilon=4.0, delta=1e-6, alpha=3.0, n_components=2, n_features=2, n_blocks=60
    )
    blurred = release(near.sample(60 * 2500, rng=1), plan, rng=3)
    assert not blurred.released
    text = blurred.curator.hint()
    assert text is not None
    assert "distinguish their labels" in text
    assert "more rows will not" in text
    # a smaller radius separates them, as the hint says
    finer = calibrate(
        "lifted", epsilon=4.0, delta=1e-6, alpha=0.5, n_components=2, n_features=2, n_blocks=60
    )
    assert not np.isinf(
        np.diagonal(finer.stage(Agreement).space.distances(blurred.curator.fits))
    ).any()


def test_where_nothing_nearby_helps_it_says_so() -> None:
    text = hint_for(CLOSE, 4, 18_000)
    assert "No other k nearby (3, 5, 6)" in text


# ------------------------------------------------------------------- fits that failed


def given(truth: Mixture, learner: Learner, *, spoil: int = 0, passed: bool = True) -> str | None:
    """Return the hint for blocks of which some were spoilt."""
    rows = truth.sample(20 * 300, rng=5)
    positions = deal(len(rows), 20, seed=6)
    rows[positions[:spoil].ravel()] = 1.0
    fits = learner.fit_blocks(rows[positions], rng=7)
    distances = LiftedSpace(0.1).distances(fits)
    return hint(fits, distances, rows.__getitem__, positions, learner=learner, passed=passed)


def test_failures_are_counted_with_their_reasons() -> None:
    remedy = "Drop columns that are constant or combinations of others."
    assert given(PAIR, EM(2), spoil=3) == (
        f"3 of 20 blocks have no fit: rank-deficient (3). {remedy}"
    )
    text = given(PAIR, FromEstimator(GaussianMixture(2)), spoil=2)
    assert text is not None
    assert text.startswith("2 of 20 blocks have no fit: ConvergenceWarning")


def test_all_failed() -> None:
    assert given(PAIR, EM(2), spoil=20, passed=False) == (
        "20 of 20 blocks have no fit: rank-deficient (20). Drop columns that are constant or "
        "combinations of others."
    )


class Silent:
    """A learner that gives no reasons, and fails on the first block it is shown."""

    n_components = 2

    def fit_blocks(self, blocks: Array, *, rng: BlockRandomness = None) -> MixtureBatch:
        fits = EM(2).fit_blocks(blocks, rng=rng)
        ok = fits.ok & (np.arange(len(fits)) > 0)
        return MixtureBatch.from_cholesky(fits.weights, fits.means, fits.cholesky, ok)


def test_a_learner_without_reasons_is_not_asked_for_them() -> None:
    assert given(PAIR, Silent()) == "1 of 20 blocks have no fit."


class Fickle(Silent):
    """A learner that fails at first and not when asked why."""

    def fit_blocks_with_reasons(
        self, blocks: Array, *, rng: BlockRandomness = None
    ) -> tuple[MixtureBatch, list[str]]:
        return EM(2).fit_blocks_with_reasons(blocks, rng=rng)


def test_a_fit_found_on_a_second_try_is_said_to_be() -> None:
    assert given(PAIR, Fickle()) == "1 of 20 blocks have no fit: found on a second try (1)."


def test_a_hint_does_not_touch_the_view_and_repeats() -> None:
    view = outcome(TRIANGLE, 2).curator
    before = (view.fits.means.copy(), view.distances.copy())
    assert view.hint() == view.hint()
    assert np.array_equal(view.fits.means, before[0])
    assert np.array_equal(view.distances, before[1])
