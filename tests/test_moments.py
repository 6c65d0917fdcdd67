"""The method of moments: what it recovers, alone and polished, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.distances import dist_param
from privgmm.errors import InvalidInput
from privgmm.learners.em import EM
from privgmm.learners.estimation import Features
from privgmm.learners.moments import MOST_COMPONENTS, Moments, warm
from privgmm.matching import bottleneck_matching
from privgmm.mixture import Mixture
from tests.learner_contract import asymmetric_mixture, check_learner, degenerate_blocks

FAMILIES: tuple[Features, ...] = ("fourier", "hermite")


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


def labelled_fit(rows: Array, labels: Array) -> Mixture:
    """What would be fitted if the labels were known: nobody can do much better."""
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


@pytest.mark.parametrize("features", FAMILIES)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_contract_of_two_components(d: int, features: Features) -> None:
    check_learner(Moments(2, features=features), asymmetric_mixture(2, d, separation=6), n_rows=400)


@pytest.mark.parametrize("features", FAMILIES)
def test_contract_of_moments_alone(features: Features) -> None:
    truth = asymmetric_mixture(2, 2, separation=6)
    check_learner(Moments(2, features=features, polish=0), truth, n_blocks=4, n_rows=500)


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
    rows, labels = truth.sample_with_labels(40_000, rng=7)
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
        assert dict(zip(bad, reasons[1:], strict=True)) == {
            "nan": "not finite",
            "infinite": "not finite",
            "outlier": "component collapsed",
            "constant column": "rank-deficient",
            "huge": "out of range",
            "one point": "rank-deficient",
            "few points": "component collapsed",
            "line": "rank-deficient",
        }
    assert Moments(2).fit_blocks_with_reasons(good[None, :21], rng=0)[1] == ["too few rows"]


def test_moments_alone_refuse_what_is_no_mixture_of_two() -> None:
    rng = np.random.default_rng(0)
    ring = rng.uniform(0, 2 * np.pi, 20_000)
    rows = np.stack([np.cos(ring), np.sin(ring)], axis=1) + 0.01 * rng.standard_normal((20_000, 2))
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
    ],
    ids=str,
)
def test_options_are_checked(options: dict[str, int], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        Moments(**options)


def test_fit_says_what_to_do() -> None:
    with pytest.raises(InvalidInput, match="drop columns"):
        Moments(2).fit(np.ones((50, 2)), rng=0)
    with pytest.raises(InvalidInput, match="two rows a parameter"):
        Moments(2).fit(np.eye(4), rng=0)
    with pytest.raises(InvalidInput, match="blocks"):
        Moments(2).fit_blocks(np.zeros((3, 4)), rng=0)


def test_no_blocks_is_no_fits() -> None:
    assert len(Moments(2).fit_blocks(np.empty((0, 100, 2)), rng=0)) == 0
    warm()
