"""The method of moments: what it recovers, alone and polished, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privgmm.arrays import Array, IntArray
from privgmm.distances.matching import bottleneck_matching
from privgmm.distances.parameters import dist_param
from privgmm.errors import InvalidInput
from privgmm.learners.em import EM
from privgmm.learners.moments.estimation import FeatureFamily
from privgmm.learners.moments.fitting import MOST_COMPONENTS, Moments, warm_moments
from privgmm.mixture import Mixture
from tests.learners.learner_contract import (
    DEGENERATE_REASONS,
    asymmetric_mixture,
    check_learner,
    degenerate_blocks,
)

FAMILIES: tuple[FeatureFamily, ...] = ("fourier", "hermite")


def worst_error(fit: Mixture, truth: Mixture) -> float:
    """Largest of weight, Mahalanobis mean and relative covariance error, best matching."""
    k, d = truth.n_components, truth.n_features
    table = np.empty((k, k))
    for i in range(k):
        for j in range(k):
            shift = np.linalg.solve(truth.cholesky[i], fit.means[j] - truth.means[i])
            ratio = np.linalg.solve(truth.cholesky[i], fit.cholesky[j])
            table[i, j] = max(
                abs(fit.weights[j] - truth.weights[i]),
                float(np.linalg.norm(shift)),
                float(np.linalg.norm(ratio @ ratio.T - np.eye(d))),
            )
    return float(bottleneck_matching(table)[0])


def labelled_fit(rows: Array, labels: IntArray) -> Mixture:
    """What would be fitted if the labels were known: no learner does much better."""
    d = rows.shape[1]
    parts = [rows[labels == j] for j in np.unique(labels)]
    return Mixture(
        [len(part) / len(rows) for part in parts],
        [part.mean(axis=0) for part in parts],
        [np.cov(part.T, bias=True).reshape(d, d) for part in parts],
    )


def turned(d: int, seed: int) -> Array:
    return np.asarray(np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0])


def same_mean(d: int) -> Mixture:
    q = turned(d, d)
    return Mixture(
        [0.35, 0.65],
        np.zeros((2, d)),
        [np.eye(d), (q * np.linspace(0.15, 3.0, d)) @ q.T],
    )


def unlike(d: int, *, weight: float, separation: float, seed: int = 0) -> Mixture:
    two = asymmetric_mixture(2, d, separation=separation, seed=seed)
    return Mixture([weight, 1 - weight], two.means, two.covariances)


@pytest.mark.parametrize(
    ("d", "features"), [(1, "fourier"), (2, "fourier"), (2, "hermite"), (5, "fourier")]
)
def test_contract_of_two_components(d: int, features: FeatureFamily) -> None:
    check_learner(Moments(2, features=features), asymmetric_mixture(2, d, separation=6), n_rows=400)


@pytest.mark.parametrize("features", FAMILIES)
def test_contract_of_moments_alone(features: FeatureFamily) -> None:
    truth = asymmetric_mixture(2, 2, separation=6)
    check_learner(Moments(2, features=features, polish=0), truth, n_blocks=3, n_rows=500)


CASES = {
    "same mean, d=2": same_mean(2),
    "same mean, d=5": same_mean(5),
    "weights .1 and .9, d=2": unlike(2, weight=0.1, separation=3.0, seed=1),
    "weights .1 and .9, d=5": unlike(5, weight=0.1, separation=3.0, seed=2),
    "condition 1e6, d=5": unlike(5, weight=0.35, separation=3.0, seed=3).transformed(
        turned(5, 1) @ np.diag(np.logspace(0, 3, 5)) @ turned(5, 2), np.full(5, 7.0)
    ),
    "separation 2, d=1": unlike(1, weight=0.35, separation=2.0, seed=4),
    "separation 2, d=5": unlike(5, weight=0.35, separation=2.0, seed=5),
}


@pytest.mark.parametrize("case", CASES)
def test_two_components_are_recovered(case: str) -> None:
    """Moments alone come within a small multiple of the fit to known labels."""
    truth = CASES[case]
    rows, labels = truth.sample_with_labels(30_000, rng=7)
    floor = worst_error(labelled_fit(rows, labels), truth)
    best = worst_error(EM(2, n_restarts=8).fit(rows, rng=0), truth)
    # EM is the maximum of the likelihood here: overlap makes it worse than the labels
    bar = 1.5 * max(1.6 * floor, best)
    assert worst_error(Moments(2, polish=0).fit(rows, rng=0), truth) < bar
    assert worst_error(Moments(2, features="hermite", polish=5).fit(rows, rng=0), truth) < bar


def test_scaling_and_turning_the_data_turns_the_fit() -> None:
    truth = unlike(3, weight=0.35, separation=3.0, seed=8)
    rows = truth.sample(3000, rng=0)
    matrix = turned(3, 3) @ np.diag([1e-4, 1.0, 1e5]) @ turned(3, 4)
    for learner in (Moments(2), Moments(2, polish=0), Moments(2, features="hermite")):
        plain = learner.fit(rows, rng=5)
        moved = learner.fit(rows @ matrix.T + 3.0, rng=5)
        assert dist_param(plain.transformed(matrix, np.full(3, 3.0)), moved) < 1e-4


def test_polish_reaches_the_optimum_that_em_finds() -> None:
    truth = asymmetric_mixture(2, 2, separation=3.0, seed=3)
    blocks = truth.sample(8 * 500, rng=0).reshape(8, 500, 2)
    ours, theirs = Moments(2).fit_blocks(blocks, rng=0), EM(2).fit_blocks(blocks, rng=0)
    assert ours.ok.all()
    for i in range(8):
        assert dist_param(ours[i], theirs[i]) < 0.01


@pytest.mark.parametrize(("k", "d"), [(3, 2), (4, 2), (3, 5)])
def test_three_and_four_components_reach_the_optimum_that_em_finds(k: int, d: int) -> None:
    truth = asymmetric_mixture(k, d, separation=4.0, seed=k + d)
    rows = truth.sample(3000, rng=1)
    likeliest = EM(k, n_restarts=12).fit(rows, rng=0).log_density(rows).sum()
    for features in FAMILIES:
        fit = Moments(k, features=features).fit(rows, rng=0)
        assert fit.log_density(rows).sum() > likeliest - 0.1


def test_three_components_from_moments_alone() -> None:
    truth = asymmetric_mixture(3, 2, separation=4.0, seed=5)
    rows, labels = truth.sample_with_labels(30_000, rng=2)
    floor = worst_error(labelled_fit(rows, labels), truth)
    assert worst_error(Moments(3, polish=0).fit(rows, rng=0), truth) < 4 * floor


def test_contract_of_three_components() -> None:
    check_learner(Moments(3), asymmetric_mixture(3, 2, separation=6), n_blocks=4, n_rows=400)


def pancakes(d: int, seed: int) -> Mixture:
    """Two thin sheets side by side inside a wide Gaussian."""
    thin, other = 0.3 * np.eye(d), 0.5 * np.eye(d)
    thin[0, 0], other[0, 0] = 1e-5, 2e-5
    means = np.zeros((3, d))
    means[1, 0], means[2, 0] = 0.2, 0.23
    sheets = Mixture([0.5, 0.3, 0.2], means, np.stack([np.eye(d), thin, other]))
    return sheets.transformed(turned(d, seed), np.zeros(d))


@pytest.mark.parametrize(("d", "seed"), [(2, 0), (2, 1), (5, 0), (5, 1)])
def test_thin_sheets_in_a_wide_cloud_are_told_apart(d: int, seed: int) -> None:
    truth = pancakes(d, seed)
    rows, labels = truth.sample_with_labels(10_000, rng=seed)
    floor = worst_error(labelled_fit(rows, labels), truth)
    assert worst_error(Moments(3).fit(rows, rng=0), truth) < 3 * floor


@pytest.mark.parametrize(("d", "seed"), [(2, 0), (2, 1), (5, 2), (5, 3)])
def test_crossed_needles_are_told_apart(d: int, seed: int) -> None:
    """Each component has condition 1e6 along axes of its own, which no map of the data undoes."""
    axes = [turned(d, seed), turned(d, seed + 10)]
    needles = [(q * np.geomspace(1, 1e-6, d)) @ q.T for q in axes]
    truth = Mixture([0.35, 0.65], [np.zeros(d), np.eye(d)[0]], needles)
    rows, labels = truth.sample_with_labels(10_000, rng=seed)
    floor = worst_error(labelled_fit(rows, labels), truth)
    assert worst_error(Moments(2).fit(rows, rng=0), truth) < 1.5 * floor


def test_what_is_beyond_moments_alone_is_said() -> None:
    """Four components in five dimensions from 800 rows: no precise fit, and no claim to one."""
    truth = asymmetric_mixture(4, 5, separation=3.0)
    blocks = truth.sample(2400, rng=0).reshape(3, 800, 5)
    fits, reasons = Moments(4, polish=0).fit_blocks_with_reasons(blocks, rng=0)
    assert not fits.ok.any()
    assert set(reasons) <= {
        "moments fit no mixture",
        "weight at its floor",
        "moments too imprecise",
    }


@pytest.mark.study
@pytest.mark.parametrize("features", FAMILIES)
@pytest.mark.parametrize("case", CASES)
def test_moments_with_a_hundred_thousand_rows(case: str, features: FeatureFamily) -> None:
    truth = CASES[case]
    rows, labels = truth.sample_with_labels(100_000, rng=11)
    floor = worst_error(labelled_fit(rows, labels), truth)
    best = worst_error(EM(2, n_restarts=8).fit(rows, rng=0), truth)
    alone = 2.0 if features == "fourier" else 3.0
    fit = Moments(2, features=features, polish=0).fit(rows, rng=0)
    assert worst_error(fit, truth) < alone * max(floor, best)
    fit = Moments(2, features=features, polish=5).fit(rows, rng=0)
    assert worst_error(fit, truth) < 2 * max(floor, best)


def test_one_component_is_the_sample_mean_and_covariance() -> None:
    rows = np.random.default_rng(0).standard_normal((200, 3)) @ turned(3, 0) + 5.0
    fit = Moments(1).fit(rows, rng=0)
    np.testing.assert_allclose(fit.means[0], rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(fit.covariances[0], np.cov(rows.T, bias=True), rtol=1e-9)


def test_reasons_of_degenerate_blocks() -> None:
    good = asymmetric_mixture(2, 2, separation=6.0).sample(300, rng=0)
    bad = degenerate_blocks(good)
    blocks = np.stack([good, *bad.values()])
    for learner in (Moments(2), Moments(2, polish=0)):
        fits, reasons = learner.fit_blocks_with_reasons(blocks, rng=0)
        assert fits.ok.tolist() == [True] + [False] * len(bad)
        assert reasons[0] == ""
        assert dict(zip(bad, reasons[1:], strict=True)) == DEGENERATE_REASONS
    assert Moments(2).fit_blocks_with_reasons(good[None, :21], rng=0)[1] == ["too few rows"]


def test_moments_alone_refuse_what_is_no_mixture_of_two() -> None:
    rng = np.random.default_rng(0)
    ring = rng.uniform(0, 2 * np.pi, 5_000)
    rows = np.stack([np.cos(ring), np.sin(ring)], axis=1) + 0.01 * rng.standard_normal((5_000, 2))
    _, reasons = Moments(2, polish=0).fit_blocks_with_reasons(rows[None], rng=0)
    assert reasons == ["moments fit no mixture"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"n_components": 0}, "n_components"),
        ({"n_components": True}, "n_components"),
        ({"n_components": MOST_COMPONENTS + 1}, "use EM"),
        ({"n_components": 2, "features": "wavelets"}, "features"),
        ({"n_components": 2, "polish": -1}, "polish"),
        ({"n_components": 2, "polish": 1.5}, "polish"),
        ({"n_components": 2, "tol": 0.0}, "tol"),
    ],
    ids=str,
)
def test_options_are_checked(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        Moments(**options)


def test_fit_says_what_to_do() -> None:
    with pytest.raises(InvalidInput, match="drop columns"):
        Moments(2).fit(np.ones((50, 2)), rng=0)
    with pytest.raises(InvalidInput, match="two rows per parameter"):
        Moments(2).fit(np.eye(4), rng=0)
    with pytest.raises(InvalidInput, match="blocks"):
        Moments(2).fit_blocks(np.zeros((3, 4)), rng=0)


def test_no_blocks_is_no_fits() -> None:
    assert len(Moments(2).fit_blocks(np.empty((0, 100, 2)), rng=0)) == 0
    warm_moments()
