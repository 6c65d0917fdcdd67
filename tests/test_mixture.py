"""Mixtures as values: densities, samples, transformations, checks."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare, kstest, multivariate_normal

from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture, MixtureBatch, cholesky_of_root


def random_mixture(seed: int, k: int = 3, d: int = 2) -> Mixture:
    rng = np.random.default_rng(seed)
    roots = rng.standard_normal((k, d, d)) + 2 * np.eye(d)
    return Mixture.from_roots(rng.dirichlet(np.full(k, 4.0)), rng.normal(0, 3, (k, d)), roots)


@pytest.mark.parametrize(("k", "d"), [(1, 1), (3, 2), (4, 5)])
def test_densities_against_scipy(k: int, d: int) -> None:
    mixture = random_mixture(k, k, d)
    rows = mixture.sample(50, rng=0)
    parts = [
        w * multivariate_normal(m, s).pdf(rows)
        for w, m, s in zip(mixture.weights, mixture.means, mixture.covariances, strict=True)
    ]
    assert np.allclose(mixture.density(rows), np.sum(parts, axis=0), rtol=1e-10)
    assert np.allclose(np.exp(mixture.log_joint(rows)).T, parts, rtol=1e-10)
    # far away the density underflows, its logarithm does not
    far = np.full((1, d), 1e4)
    assert mixture.density(far)[0] == 0.0
    assert np.isfinite(mixture.log_density(far)[0])


def test_a_component_of_weight_zero_is_never_drawn_and_adds_nothing() -> None:
    mixture = Mixture([0.0, 1.0], [[50.0], [0.0]], np.ones((2, 1, 1)))
    rows, labels = mixture.sample_with_labels(500, rng=1)
    assert set(labels.tolist()) == {1}
    alone = Mixture([1.0], [[0.0]], np.ones((1, 1, 1)))
    assert np.allclose(mixture.log_density(rows), alone.log_density(rows))


def test_samples_have_the_moments_of_the_mixture() -> None:
    mixture = random_mixture(7)
    n = 40_000
    rows, labels = mixture.sample_with_labels(n, rng=3)
    assert chisquare(np.bincount(labels, minlength=3), mixture.weights * n).pvalue > 6.3e-5
    for j in range(3):
        mine = rows[labels == j]
        z = np.linalg.solve(mixture.cholesky[j], (mine - mixture.means[j]).T)
        width = 4 / math.sqrt(len(mine))
        assert np.abs(z.mean(axis=1)).max() < width
        assert np.abs(np.cov(z) - np.eye(2)).max() < 1.5 * width
    assert np.array_equal(rows, mixture.sample(n, rng=3))
    assert mixture.sample(0, rng=0).shape == (0, 2)
    with pytest.raises(InvalidInput, match="n must be"):
        mixture.sample(-1)


def test_marginals_integrate_the_other_axes_out() -> None:
    mixture = random_mixture(2, 2, 2)
    marginal = mixture.marginal([1])
    grid = np.linspace(-60, 60, 6_001)
    for y in (-1.0, 0.5, 3.0):
        line = np.column_stack([grid, np.full_like(grid, y)])
        integral = float(np.trapezoid(mixture.density(line), grid))
        assert marginal.density([[y]])[0] == pytest.approx(integral, rel=1e-8)
    swapped = mixture.marginal([1, 0])
    assert np.array_equal(swapped.means, mixture.means[:, ::-1])
    assert swapped.covariances[0, 0, 0] == mixture.covariances[0, 1, 1]
    for bad in ([], [0, 0], [2], [-1]):
        with pytest.raises(InvalidInput, match="axes"):
            mixture.marginal(bad)


def test_permuting_keeps_the_law_and_changes_the_value() -> None:
    mixture = random_mixture(4)
    other = mixture.permuted([2, 0, 1])
    rows = mixture.sample(20, rng=0)
    assert other != mixture
    assert np.allclose(other.log_density(rows), mixture.log_density(rows), rtol=1e-12)
    assert other.permuted([1, 2, 0]) == mixture
    for bad in ([0, 1], [0, 0, 1], [1, 2, 3]):
        with pytest.raises(InvalidInput, match="permutation"):
            mixture.permuted(bad)


def test_transforming_changes_densities_by_the_determinant() -> None:
    mixture = random_mixture(5)
    matrix, shift = np.array([[2.0, 1.0], [0.0, -3.0]]), np.array([10.0, 1.0])
    moved = mixture.transformed(matrix, shift)
    rows = mixture.sample(20, rng=0)
    want = mixture.log_density(rows) - math.log(6.0)
    assert np.allclose(moved.log_density(rows @ matrix.T + shift), want, rtol=1e-9)


def test_plain_numbers_and_back() -> None:
    mixture = random_mixture(6)
    again = Mixture.from_dict(json.loads(json.dumps(mixture.to_dict())))
    assert again == mixture
    assert hash(again) == hash(mixture)
    cases: list[Any] = [None, [], {"weights": [1.0]}]
    for bad in cases:
        with pytest.raises(InvalidInput):
            Mixture.from_dict(bad)


def test_a_mixture_cannot_change() -> None:
    mixture = random_mixture(0)
    for name in ("weights", "means", "covariances", "cholesky"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(mixture, name)[:] = 1.0
        with pytest.raises(AttributeError):
            setattr(mixture, name, np.ones(3))


EYE = np.eye(2)[None]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([], np.empty((0, 2)), np.empty((0, 2, 2))), "at least one component"),
        (([0.5], [[0, 0]], EYE), "sum to 1"),
        (([1.5, -0.5], np.zeros((2, 2)), np.repeat(EYE, 2, 0)), ">= 0"),
        (([1.0], [[0, 0, 0]], EYE), "covariances must have shape"),
        (([1.0], [[0, np.nan]], EYE), "means must be finite"),
        (([1.0], [[0, 0]], [[[1, 0.5], [0, 1]]]), "symmetric"),
        (([1.0], [[0, 0]], [[[1, 2], [2, 1]]]), "positive definite"),
        (([1.0], [[0, 0]], [[[1, 1], [1, 1]]]), "positive definite"),
        (([1.0], np.empty((1, 0)), np.empty((1, 0, 0))), "at least one column"),
    ],
)
def test_what_is_no_mixture_is_refused(arguments: tuple[Any, Any, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Mixture(*arguments)


def test_the_factor_of_a_root_without_squaring() -> None:
    rng = np.random.default_rng(0)
    for d in (1, 3, 6):
        roots = rng.standard_normal((5, d, d))
        factor = cholesky_of_root(roots)
        assert np.allclose(factor @ factor.swapaxes(1, 2), roots @ roots.swapaxes(1, 2))
        assert np.array_equal(factor, np.tril(factor))
        assert (np.diagonal(factor, axis1=1, axis2=2) > 0).all()
    # condition 1e12 in the root, 1e24 in the product: the small diagonal survives
    turn, _ = np.linalg.qr(rng.standard_normal((2, 2)))
    factor = cholesky_of_root((turn @ np.diag([1.0, 1e-12]))[None])[0]
    assert np.prod(np.diag(factor)) == pytest.approx(1e-12, rel=1e-3)
    with pytest.raises(InvalidInput, match="invertible"):
        Mixture.from_roots([1.0], [[0.0, 0.0]], [[[1.0, 0.0], [0.0, 0.0]]])


@pytest.mark.parametrize("known", [(0,), (2,), (3, 1), (2, 0, 1)])
def test_conditioning_is_bayes_rule(known: tuple[int, ...]) -> None:
    """Density of all columns = density of the known ones times that of the rest given them."""
    mixture = random_mixture(4, 3, 4)
    rest = [j for j in range(4) if j not in known]
    for row in mixture.sample(5, rng=1):
        given = mixture.condition({j: row[j] for j in known})
        assert given.n_features == len(rest)
        joint = mixture.log_density(row[None])[0]
        first = mixture.marginal(known).log_density(row[list(known)][None])[0]
        assert given.log_density(row[rest][None])[0] == pytest.approx(joint - first, abs=1e-9)


def test_conditioning_knows_names_and_flat_shapes() -> None:
    names = ["height", "weight", "age"]
    mixture = random_mixture(6, 2, 3)
    by_name = mixture.condition({"age": 1.0, "height": -1.0}, columns=names)
    by_number = mixture.condition({2: 1.0, np.int64(0): -1.0})
    assert by_name == by_number
    # shears of condition 1e16 in the product: nothing is squared
    steep = Mixture.from_roots([1.0], [[0.0, 0.0]], [[[1.0, 0.0], [1e8, 1.0]]])
    assert steep.condition({0: 1e-8}).means[0, 0] == pytest.approx(1.0)
    assert steep.condition({0: 1e-8}).covariances[0, 0, 0] == pytest.approx(1.0)
    # far out one component is certain; the others' shares underflow to zero
    far = Mixture([0.5, 0.5], [[0.0, 3.0], [9.0, 4.0]], [np.eye(2)] * 2).condition({0: 1e6})
    assert far.weights.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("given", "columns", "said"),
    [
        ({}, None, "at least one"),
        ({0: 1.0, 1: 1.0}, None, "leave at least one"),
        ({2: 1.0}, None, "below 2"),
        ({0: np.nan}, None, "finite"),
        ({0: "x"}, None, "numbers"),
        ({"a": 1.0}, None, "columns are x1, x2"),
        ({"c": 1.0}, ["a", "b"], "'c'"),
        ({"a": 1.0, 0: 1.0}, ["a", "b"], "different"),
        ({0: 1.0}, ["a", "a"], "columns"),
        ({0: 1e300}, None, "far out"),
        ({0.5: 1.0}, None, "whole number"),
    ],
)
def test_what_cannot_be_known_is_refused(given: Any, columns: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        random_mixture(1, 2, 2).condition(given, columns=columns)


def test_precisions_invert_covariances() -> None:
    mixture = random_mixture(3, 3, 4)
    for precision, covariance in zip(mixture.precisions, mixture.covariances, strict=True):
        assert np.allclose(precision @ covariance, np.eye(4), atol=1e-9)
    assert not np.tril(mixture.precisions_cholesky, -1).any()


def test_scikit_learn_reads_the_mixture_as_it_is() -> None:
    mixture = random_mixture(2, 3, 2)
    model = mixture.to_sklearn()
    rows = mixture.sample(200, rng=1)
    assert model.score_samples(rows) == pytest.approx(mixture.log_density(rows), abs=1e-10)
    joint = mixture.log_joint(rows)
    shares = np.exp(joint - mixture.log_density(rows)[:, None])
    assert model.predict_proba(rows) == pytest.approx(shares, abs=1e-10)
    assert (model.predict(rows) == joint.argmax(axis=1)).all()
    drawn, labels = model.sample(50)
    assert drawn.shape == (50, 2)
    assert set(labels) <= {0, 1, 2}
    assert model.bic(rows) > 0
    # a copy: what is done to it does not reach the mixture
    model.means_ += 1
    assert mixture == random_mixture(2, 3, 2)


def batch_of_three() -> MixtureBatch:
    return MixtureBatch.of([random_mixture(seed) for seed in range(3)])


def test_a_batch_gives_its_mixtures_back() -> None:
    batch = batch_of_three()
    assert len(batch) == 3
    assert (batch.n_components, batch.n_features) == (3, 2)
    for i in range(3):
        assert np.allclose(batch[i].covariances, random_mixture(i).covariances, rtol=1e-12)
        assert np.array_equal(batch[i].means, random_mixture(i).means)
    halves = [MixtureBatch.of([random_mixture(0)]), MixtureBatch.of([random_mixture(1)])]
    assert MixtureBatch.concatenate(halves) == MixtureBatch.of(
        [random_mixture(0), random_mixture(1)]
    )


def test_a_failed_fit_holds_nothing() -> None:
    batch = batch_of_three()
    ok = np.array([True, False, True])
    partial = MixtureBatch(batch.weights, batch.means, batch.covariances, ok)
    assert np.isnan(partial.means[1]).all()
    assert partial == MixtureBatch(batch.weights, batch.means, batch.covariances, ok)
    assert partial != batch
    with pytest.raises(InvalidInput, match="block 1 has no fit"):
        partial[1]
    garbage = batch.covariances.copy()
    garbage[1] = np.nan
    assert MixtureBatch(batch.weights, batch.means, garbage, ok) == partial


def test_what_is_no_batch_is_refused() -> None:
    b = batch_of_three()
    ok = np.ones(3, dtype=bool)
    flat = b.covariances.copy()
    flat[0, 0] = 0
    cases: list[tuple[Any, Any, Any, Any]] = [
        (b.weights[:2], b.means, b.covariances, ok),
        (b.weights[:, :2], b.means, b.covariances, ok),
        (b.weights, b.means, b.covariances[..., :1], ok),
        (2 * b.weights, b.means, b.covariances, ok),
        (b.weights, np.nan * b.means, b.covariances, ok),
        (b.weights, b.means, flat, ok),
    ]
    for case in cases:
        with pytest.raises(InvalidInput):
            MixtureBatch(*case)
    with pytest.raises(InvalidInput, match="lower triangular"):
        MixtureBatch.from_cholesky(b.weights, b.means, b.cholesky.swapaxes(-1, -2), ok)
    with pytest.raises(InvalidInput, match="at least one"):
        MixtureBatch.of([])


# ------------------------------------------------------------------ what users of mixtures ask for

NAMES = ["height", "weight", "age"]


def three_columns() -> Mixture:
    return random_mixture(8, 3, 3)


def test_a_marginal_by_name_is_the_one_by_number() -> None:
    mixture = three_columns()
    by_name = mixture.marginal(["age", "height"], columns=NAMES)
    assert by_name == mixture.marginal([2, 0])
    assert mixture.marginal(["age", 0], columns=NAMES) == by_name
    with pytest.raises(InvalidInput, match="axes names a column 'shoe'"):
        mixture.marginal(["shoe"], columns=NAMES)
    with pytest.raises(InvalidInput, match="columns are x1, x2, x3"):
        mixture.marginal(["age"])
    named = mixture.with_columns(NAMES)
    assert named == mixture
    assert named.marginal("age") == mixture.marginal(2)
    assert named.marginal(["age", "height"]).columns == ("age", "height")
    assert named.condition({"age": 1.0}).columns == tuple(n for n in NAMES if n != "age")
    assert named.permuted([2, 1, 0, *range(3, named.n_components)]).columns == tuple(NAMES)
    with pytest.raises(InvalidInput, match="3 different names"):
        mixture.marginal(["age"], columns=["age", "age", "x"])


def test_a_drawn_table_holds_the_drawn_rows() -> None:
    mixture = three_columns()
    table = mixture.sample_table(50, columns=NAMES, rng=3)
    assert list(table.columns) == NAMES
    np.testing.assert_array_equal(table.to_numpy(), mixture.sample(50, rng=3))


@pytest.mark.parametrize(
    ("whole", "rounded"), [(["age"], [2]), ([0, "age"], [0, 2]), (True, [0, 1, 2])]
)
def test_a_drawn_table_rounds_what_is_whole_and_nothing_else(
    whole: bool | list[str | int], rounded: list[int]
) -> None:
    mixture = three_columns()
    rows = mixture.sample(500, rng=3)
    table = mixture.sample_table(500, columns=NAMES, whole=whole, rng=3)
    for j, name in enumerate(NAMES):
        drawn = table[name].to_numpy()
        if j in rounded:
            assert drawn.dtype == np.int64
            assert (np.abs(drawn - rows[:, j]) <= 0.5).all()
        else:
            np.testing.assert_array_equal(drawn, rows[:, j])


def test_a_drawn_table_says_what_cannot_be_whole() -> None:
    far = Mixture([1.0], [[1e20]], [[[1.0]]])
    with pytest.raises(InvalidInput, match="leave it out"):
        far.sample_table(3, columns=["far"], whole=True, rng=0)
    with pytest.raises(InvalidInput, match="whole must name columns below 1"):
        far.sample_table(3, columns=["far"], whole=[1], rng=0)


def test_a_drawn_table_keeps_to_limits() -> None:
    mixture = three_columns().with_columns(NAMES)
    free = mixture.sample_table(500, rng=3)
    held = mixture.sample_table(500, limits={"age": (0.0, None), 0: (None, 1.0)}, rng=3)
    assert (held["age"] == free["age"].clip(lower=0.0)).all()
    assert (held[NAMES[0]] == free[NAMES[0]].clip(upper=1.0)).all()
    assert (free["age"] < 0).any()
    wrong: list[Any] = [{"age": 3.0}, {"age": (2.0, 1.0)}, {"age": (np.nan, 1.0)}, {"shoe": (0, 1)}]
    for limits in wrong:
        with pytest.raises(InvalidInput, match="limits"):
            mixture.sample_table(5, limits=limits, rng=0)


@pytest.mark.parametrize("k", [1, 3])
def test_outlier_scores_of_own_rows_are_uniform(k: int) -> None:
    """A score is the chance of all that is likelier, and so uniform by definition."""
    mixture = random_mixture(k, k, 2)
    scores = mixture.outlier_scores(mixture.sample(4000, rng=77))
    assert kstest(scores, "uniform").pvalue > 1e-3
    assert kstest(scores**2, "uniform").pvalue < 1e-6


def test_outlier_scores_follow_density_and_no_units() -> None:
    mixture = random_mixture(5, 3, 2)
    rows = np.concatenate([mixture.sample(200, rng=1), [[1e6, 0.0]]])
    scores = mixture.outlier_scores(rows)
    order = np.argsort(-mixture.log_density(rows))
    assert (np.diff(scores[order]) >= 0).all()
    assert scores[-1] == 1.0
    stretch, shift = np.array([[3.0, 1.0], [0.0, 100.0]]), np.array([1e3, -5.0])
    moved = mixture.transformed(stretch, shift).outlier_scores(rows @ stretch.T + shift)
    np.testing.assert_allclose(moved, scores, atol=4 * np.sqrt(0.25 / 20_000))


def test_outlier_scores_by_draws_are_near_the_exact_ones() -> None:
    """Two equal halves are one component, for which the score is known exactly."""
    one = random_mixture(2, 1, 3)
    halves = Mixture([0.5, 0.5], np.repeat(one.means, 2, 0), np.repeat(one.covariances, 2, 0))
    rows = one.sample(300, rng=4)
    np.testing.assert_allclose(
        halves.outlier_scores(rows), one.outlier_scores(rows), atol=4 * np.sqrt(0.25 / 20_000)
    )
