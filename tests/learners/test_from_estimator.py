"""Estimators of scikit-learn, and their likes, as learners: block by block, failures contained."""

from __future__ import annotations

import pickle
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from privgmm.arrays import Array
from privgmm.distances.parameters import dist_gmm
from privgmm.errors import InvalidInput
from privgmm.estimator import PrivateGaussianMixture
from privgmm.learners.em import EM
from privgmm.learners.from_estimator import FromEstimator, full_covariances
from privgmm.methods.planner import calibrate
from privgmm.mixture import Mixture
from privgmm.releases import Release, release
from privgmm.stages.agreement.stage import AgreementView
from tests.learners.learner_contract import asymmetric_mixture, check_learner, same_fit

TRUTH = Mixture(
    [0.6, 0.4], [[0.0, 0.0], [30.0, 10.0]], [[[1.0, 0.4], [0.4, 2.0]], [[3.0, 0.0], [0.0, 0.5]]]
)
KINDS = ("full", "tied", "diag", "spherical")


# ------------------------------------------------------------------------- the contract


@pytest.mark.parametrize(("k", "d"), [(2, 2), (3, 1)])
def test_a_gaussian_mixture_keeps_the_contract(k: int, d: int) -> None:
    truth = asymmetric_mixture(k, d, separation=7)
    learner = FromEstimator(GaussianMixture(k, tol=1e-6))
    fits = check_learner(learner, truth)
    assert max(dist_gmm(fits[i], truth) for i in range(len(fits))) < 0.3


def test_a_bayesian_mixture_keeps_the_contract() -> None:
    estimator = BayesianGaussianMixture(n_components=2, max_iter=500)
    check_learner(FromEstimator(estimator), asymmetric_mixture(2, 2, separation=7), n_blocks=4)


def test_it_finds_what_em_finds() -> None:
    blocks = TRUTH.sample(4 * 800, rng=1).reshape(4, 800, 2)
    theirs = FromEstimator(GaussianMixture(2, tol=1e-8, reg_covar=0.0)).fit_blocks(blocks, rng=2)
    ours = EM(2).fit_blocks(blocks, rng=2)
    assert max(dist_gmm(theirs[i], ours[i]) for i in range(4)) < 1e-4


def test_processes_change_nothing() -> None:
    blocks = TRUTH.sample(5 * 300, rng=3).reshape(5, 300, 2)
    blocks[2, 0] = np.nan
    estimator = GaussianMixture(2, init_params="random_from_data")
    alone, reasons = FromEstimator(estimator).fit_blocks_with_reasons(blocks, rng=4)
    together, same = FromEstimator(estimator, n_jobs=2).fit_blocks_with_reasons(blocks, rng=4)
    assert alone == together
    assert reasons == same
    assert [bool(reason) for reason in reasons] == [False, False, True, False, False]


def test_threads_around_it_change_nothing() -> None:
    """Warnings are a setting of the process: a neighbour's must not become a block's own."""
    blocks = TRUTH.sample(8 * 200, rng=5).reshape(8, 200, 2)
    learner = FromEstimator(WarnsOnLargeFirst())
    blocks[::2, 0, 0] = 1e3
    expected = learner.fit_blocks(blocks, rng=6)
    assert expected.ok.tolist() == [False, True] * 4
    with ThreadPoolExecutor(4) as pool:
        parts = list(
            pool.map(
                lambda i: learner.fit_blocks(blocks[i : i + 1], rng=np.zeros(1, np.uint64)),
                range(8),
            )
        )
    assert [bool(part.ok[0]) for part in parts] == expected.ok.tolist()


# ------------------------------------------------------------- shapes of the covariances


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("k", "d"), [(1, 1), (2, 2), (3, 3), (2, 1), (1, 2), (2, 3)])
def test_every_layout_gives_the_density_of_the_estimator(kind: str, k: int, d: int) -> None:
    rng = np.random.default_rng(10 * k + d)
    rows = rng.normal(size=(300, d)) * (1 + np.arange(d)) + 8 * rng.integers(k, size=(300, 1))
    estimator = GaussianMixture(k, covariance_type=kind, random_state=0)
    mixture = FromEstimator(estimator).fit(rows, rng=0)
    # the same block seed, the same fit
    seed = np.random.default_rng(0).integers(0, 2**64, size=1, dtype=np.uint64)
    state = int(np.random.SeedSequence(int(seed[0])).generate_state(1)[0])
    fitted = clone(estimator).set_params(random_state=state).fit(rows)
    assert np.allclose(mixture.log_density(rows), fitted.score_samples(rows), rtol=1e-9, atol=1e-9)


def test_shapes_alone_decide_where_they_can() -> None:
    full = np.stack([np.eye(3), 2 * np.eye(3)])
    assert np.array_equal(full_covariances(full, 2, 3), full)
    assert np.array_equal(full_covariances(np.diag([1.0, 2, 3]), 2, 3)[1], np.diag([1.0, 2, 3]))
    assert np.array_equal(
        full_covariances([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], 2, 3)[1], np.diag([4.0, 5, 6])
    )
    assert np.array_equal(full_covariances([1.0, 4.0], 2, 3)[1], 4 * np.eye(3))
    # with k = d = 1 tied and diag mean the same
    assert full_covariances([[2.0]], 1, 1).tolist() == [[[2.0]]]


def test_an_ambiguous_shape_is_refused_and_a_kind_settles_it() -> None:
    square = np.array([[2.0, 0.5], [0.5, 1.0]])
    with pytest.raises(InvalidInput, match="tied or diag"):
        full_covariances(square, 2, 2)
    assert np.array_equal(full_covariances(square, 2, 2, "tied"), [square, square])
    assert np.array_equal(
        full_covariances(square, 2, 2, "diag"), [np.diag(square[0]), np.diag(square[1])]
    )


@pytest.mark.parametrize(
    ("covariances", "kind", "message"),
    [
        (np.ones((2, 2)), "full", "shape"),
        (np.ones(2), "diag", "shape"),
        (np.ones((2, 3)), None, "one of the shapes"),
        (np.ones(3), None, "one of the shapes"),
        (np.ones(2), "round", "covariance_type"),
        (np.full(2, np.nan), "spherical", "finite"),
    ],
)
def test_wrong_shapes_are_named(covariances: Array, kind: str | None, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        full_covariances(covariances, 2, 2, kind)


# --------------------------------------------------------------- estimators of all kinds


class Plain:
    """Not of scikit-learn: it has a random state, but no get_params."""

    def __init__(self, n_components: int = 2, random_state: int | None = None) -> None:
        self.n_components = n_components
        self.random_state = random_state
        self.calls = 0

    def fit(self, X: Array) -> Plain:
        self.calls += 1
        rng = np.random.default_rng(self.random_state)
        k = self.n_components
        self.weights_ = np.full(k, 1 / k)
        self.means_ = X.mean(axis=0) + 0.1 * self.calls * rng.normal(size=(k, X.shape[1]))
        self.covariances_ = np.repeat(np.cov(X.T)[None], k, axis=0)
        return self


class Broken(Plain):
    """Goes wrong in a way of choice."""

    def __init__(self, how: str) -> None:
        super().__init__(2)
        self.how = how

    def fit(self, X: Array) -> Broken:
        super().fit(X)
        match self.how:
            case "raise":
                raise ZeroDivisionError("by the\nthird row")
            case "warn":
                warnings.warn("not there yet", ConvergenceWarning, stacklevel=2)
            case "nan":
                self.means_[1, 0] = np.nan
            case "flat":
                self.covariances_[0] = 1.0
            case "lopsided":
                self.covariances_[0, 0, 1] += 1.0
            case "weights":
                self.weights_ = np.array([0.5, 0.6])
            case "count":
                self.weights_ = np.array([0.2, 0.3, 0.5])
            case "missing":
                del self.covariances_
            case "ambiguous":
                self.covariances_ = np.eye(2)
            case "interrupt":
                raise KeyboardInterrupt
            case "future":
                warnings.warn("renamed soon", FutureWarning, stacklevel=2)
        return self


class WarnsOnLargeFirst(Plain):
    """Warns where its first value is large."""

    def fit(self, X: Array) -> WarnsOnLargeFirst:
        super().fit(X)
        threading.Event().wait(0.002)
        if X[0, 0] > 100:
            warnings.warn("large", UserWarning, stacklevel=2)
        threading.Event().wait(0.002)
        return self


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("raise", "ZeroDivisionError: by the third row"),
        ("warn", "ConvergenceWarning: not there yet"),
        ("nan", "means_ must be finite"),
        ("flat", "positive definite"),
        ("lopsided", "symmetric"),
        ("weights", "sum to 1"),
        ("count", "weights_ must have shape (2)"),
        ("missing", "no covariances_ after fit"),
        ("ambiguous", "tied or diag"),
    ],
)
def test_what_goes_wrong_stays_with_its_block(how: str, reason: str) -> None:
    blocks = TRUTH.sample(3 * 50, rng=7).reshape(3, 50, 2)
    learner = FromEstimator(Broken(how))
    fits, reasons = learner.fit_blocks_with_reasons(blocks, rng=8)
    assert not fits.ok.any()
    assert all(reason in given for given in reasons), reasons
    with pytest.raises(InvalidInput, match=r"allow no fit of . components .*settings of Broken"):
        learner.fit(blocks[0])


def test_warnings_about_the_code_are_not_about_the_fit() -> None:
    assert FromEstimator(Broken("future")).fit(TRUTH.sample(50, rng=9)).n_components == 2


def test_an_interrupt_passes() -> None:
    with pytest.raises(KeyboardInterrupt):
        FromEstimator(Broken("interrupt")).fit_blocks(np.zeros((1, 9, 2)))


def test_plain_objects_are_copied_and_seeded_block_by_block() -> None:
    plain = Plain(2)
    learner = FromEstimator(plain)
    blocks = np.repeat(TRUTH.sample(60, rng=10)[None], 3, axis=0)
    seeds = np.array([1, 2, 1], dtype=np.uint64)
    fits = learner.fit_blocks(blocks, rng=seeds)
    assert plain.calls == 0
    # a copy that had gone from block to block would have counted its calls
    assert same_fit(fits, 0, fits, 2)
    assert not same_fit(fits, 0, fits, 1)


class Nested(BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """A mixture read off another estimator's clusters: its randomness is all in that part."""

    def __init__(self, clusters: Any = None, n_components: int = 3) -> None:
        self.clusters = clusters
        self.n_components = n_components

    def fit(self, X: Array, y: Any = None) -> Nested:
        part = clone(self.clusters).fit(X)
        counts = np.bincount(part.labels_, minlength=self.n_components)
        self.weights_ = counts / counts.sum()
        self.means_ = part.cluster_centers_
        self.covariances_ = np.full(self.n_components, X.var())
        return self


def test_nested_random_states_are_set_too() -> None:
    rows = np.random.default_rng(11).uniform(size=(400, 2))
    inner = KMeans(3, n_init=1, init="random", max_iter=1000, random_state=None)
    learner = FromEstimator(Nested(inner))
    blocks = np.repeat(rows[None], 4, axis=0)
    seeds = np.array([5, 6, 5, 6], dtype=np.uint64)
    fits, reasons = learner.fit_blocks_with_reasons(blocks, rng=seeds)
    assert reasons == [""] * 4
    assert same_fit(fits, 0, fits, 2)
    assert same_fit(fits, 1, fits, 3)
    assert not same_fit(fits, 0, fits, 1)


def test_a_fitted_estimator_gives_its_size_and_forgets_its_fit() -> None:
    plain = Plain(3)
    plain.fit(TRUTH.sample(50, rng=12))
    del plain.n_components
    assert FromEstimator(plain).n_components == 3
    fitted = GaussianMixture(2, random_state=0).fit(TRUTH.sample(80, rng=12))
    learner = FromEstimator(fitted)
    assert learner.n_components == 2
    assert not hasattr(learner.estimator, "means_")
    fitted.set_params(n_components=5)
    assert learner.estimator.n_components == 2


def test_a_component_that_only_regularisation_holds_up_fails_the_block() -> None:
    rows = TRUTH.sample(200, rng=13)
    rows[:60] = rows[0]
    model = GaussianMixture(3, random_state=0).fit(rows)
    assert np.isfinite(model.covariances_).all()
    _, (reason,) = FromEstimator(GaussianMixture(3)).fit_blocks_with_reasons(rows[None], rng=0)
    assert reason == "component collapsed"


@pytest.mark.parametrize("kind", ["tied", "diag", "spherical"])
def test_fewer_rows_than_directions_are_enough_for_layouts_with_fewer_numbers(kind: str) -> None:
    rng = np.random.default_rng(14)
    rows = rng.normal(size=(24, 6)) + 30 * (np.arange(24) >= 20)[:, None]
    assert FromEstimator(GaussianMixture(2, covariance_type=kind)).fit(rows, rng=0)
    full = FromEstimator(GaussianMixture(2))
    assert full.fit_blocks_with_reasons(rows[None], rng=0)[1] == ["component collapsed"]
    assert full.fit_blocks_with_reasons(rows[None, -13:], rng=0)[1] == ["too few rows"]


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (GaussianMixture(2, warm_start=True), "warm_start"),
        (GaussianMixture, "object with fit"),
        (object(), "object with fit"),
        (KMeans(2), "how many components"),
        (GaussianMixture(2.5), "how many components"),
        (GaussianMixture(True), "how many components"),
        (GaussianMixture(2, covariance_type="round"), "covariance_type"),
        (make_pipeline(StandardScaler(), GaussianMixture(2)), "units"),
        (GridSearchCV(GaussianMixture(), {"n_components": [1, 2]}), "how many components"),
        (Nested(GaussianMixture(2, warm_start=True)), "clusters__warm_start"),
    ],
)
def test_what_cannot_be_run_by_block_is_refused(estimator: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        FromEstimator(estimator)


def test_a_pipeline_of_one_step_is_that_step() -> None:
    pipeline = Pipeline([("scale", "passthrough"), ("mix", GaussianMixture(2))])
    assert isinstance(FromEstimator(pipeline).estimator, GaussianMixture)


@pytest.mark.parametrize("jobs", [0, 1.5, True, "all"])
def test_bad_jobs_are_refused(jobs: Any) -> None:
    with pytest.raises(InvalidInput, match="n_jobs"):
        FromEstimator(GaussianMixture(2), n_jobs=jobs)


@pytest.mark.parametrize("blocks", [np.zeros((2, 3)), [[["x"]]], np.zeros((2, 3, 0))])
def test_bad_blocks_are_refused(blocks: Any) -> None:
    with pytest.raises(InvalidInput, match="blocks"):
        FromEstimator(GaussianMixture(2)).fit_blocks(blocks)


# ------------------------------------------------------------------------------ releases


def test_a_release_with_it_equals_a_release_with_em() -> None:
    """Both find the maximum of the likelihood, so the same noise gives the same mixture."""
    rows = TRUTH.sample(13_000, rng=20)
    plan = calibrate(
        "lifted", epsilon=4.0, delta=1e-6, alpha=1.0, n_components=2, n_features=2, n_blocks=100
    )
    learner = FromEstimator(GaussianMixture(2, tol=1e-7, reg_covar=0.0, max_iter=500))
    theirs = release(rows, plan, learner=learner, rng=1)
    ours = release(rows, plan, rng=1)
    assert isinstance(theirs.result, Release)
    assert isinstance(ours.result, Release)
    assert (
        theirs.curator.view(AgreementView).verdict.statistic
        == ours.curator.view(AgreementView).verdict.statistic
    )
    assert dist_gmm(theirs.result.mixture, TRUTH) < 0.2


def test_fits_elsewhere_are_the_same_fits() -> None:
    """Copies travel: over pickles to other processes, and threads around them change nothing."""
    learner = FromEstimator(GaussianMixture(2, tol=1e-5))
    rows = TRUTH.sample(3_000, rng=22)
    plan = calibrate(
        "lifted", epsilon=4.0, delta=1e-6, alpha=1.0, n_components=2, n_features=2, n_blocks=30
    )
    here = release(rows, plan, learner=learner, rng=4)
    with ThreadPoolExecutor(3) as pool:
        there = release(rows, plan, learner=learner, rng=4, executor=pool)
    copied = release(rows, plan, learner=pickle.loads(pickle.dumps(learner)), rng=4)
    assert here.curator.fits == there.curator.fits == copied.curator.fits


def test_the_estimator_takes_it() -> None:
    rows = TRUTH.sample(6_000, rng=21)
    model = PrivateGaussianMixture(
        2,
        epsilon=8.0,
        learner=FromEstimator(GaussianMixture(2)),
        random_state=3,
    )
    model = clone(model).fit(rows)
    assert model.released_
    assert dist_gmm(model.mixture_, TRUTH) < 0.2
