"""Mixtures from noisy sketches: exact derivatives, right errors, right alarms."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest

from privgmm.arrays import Array
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.stages.refinement import noisy_moments
from privgmm.stages.sketch import fitting, kernels, structures
from privgmm.stages.sketch.fitting import (
    MISFIT,
    NARROWEST,
    FrameFit,
    PathSearch,
    Sketched,
    Viewpoint,
    expected_information,
    refit,
)
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.private_sketch import PrivateSketch
from tests.stages.sketch.worst_errors import median_worst_errors

SKETCHES = 20


@dataclasses.dataclass(frozen=True, eq=False)
class Sketch:
    """A sketch with nothing around it."""

    frequencies: Array
    values: npt.NDArray[np.complex128]
    deviations: Array
    n_units: int
    fitted_from: int = 0


def fit_path(sketch: Sketched, max_components: int) -> tuple[FrameFit, ...]:
    """Fit 1, 2, .. `max_components` components."""
    return PathSearch(sketch).upto(max_components)


def fit(sketch: Sketched, n_components: int) -> FrameFit:
    """Fit `n_components` components."""
    return fit_path(sketch, n_components)[-1]


def frequencies(d: int) -> Array:
    """Make multiples of a step along directions spread over the half sphere."""
    if d == 1:
        directions, levels, step = np.ones((1, 1)), 20, 0.6
    elif d == 2:
        angle = (np.arange(14) + 0.5) * np.pi / 14
        directions, levels, step = np.stack([np.cos(angle), np.sin(angle)], axis=1), 10, 0.8
    else:
        rng = np.random.default_rng(d)
        directions, levels, step = rng.standard_normal((10 * d, d)), 24 // d + 1, 0.75
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    lengths = step * np.arange(1, levels + 1)
    return np.asarray((directions[:, None, :] * lengths[None, :, None]).reshape(-1, d))


def deviations(where: Array, size: float) -> Array:
    """Make noise that grows with the frequency, as in a sketch."""
    length = np.linalg.norm(where, axis=1)
    return np.asarray(size / np.sqrt(1 - length / (length.max() * 1.1)))


def characteristic(mixture: Mixture, where: Array) -> npt.NDArray[np.complex128]:
    """Compute the characteristic function by its definition, in NumPy."""
    square = np.einsum("mi,kij,mj->mk", where, mixture.covariances, where)
    return np.asarray(np.exp(1j * where @ mixture.means.T - square / 2) @ mixture.weights)


def sketch_of(mixture: Mixture, n: int, noise: float, seed: int) -> Sketch:
    """Draw rows from the mixture, average their waves and add noise."""
    where = frequencies(mixture.n_features)
    rng = np.random.default_rng(seed)
    values = np.zeros(len(where), dtype=np.complex128)
    for rows in np.array_split(mixture.sample(n, rng=rng), 1 + n // 2000):
        values += np.exp(1j * where @ rows.T).sum(axis=1) / n
    deviation = deviations(where, noise)
    error = rng.standard_normal(len(where)) + 1j * rng.standard_normal(len(where))
    return Sketch(where, values + deviation * error, deviation, n)


def random_mixture(k: int, d: int, seed: int) -> Mixture:
    """Draw components of unlike weights and shapes, means a grid's width apart or more."""
    rng = np.random.default_rng(seed)
    weights = np.arange(3, 3 + k) / np.arange(3, 3 + k).sum()
    means = np.zeros((k, d))
    means[:, 0] = 1.3 * (np.arange(k) - 0.45 * k)
    means[:, 1:] = rng.uniform(-0.8, 0.8, (k, d - 1))
    roots = np.tril(0.12 * rng.standard_normal((k, d, d)))
    roots[:, range(d), range(d)] = rng.uniform(0.2, 0.5, (k, d))
    return Mixture.from_roots(weights, means, roots)


def matched(found: Mixture, truth: Mixture) -> Mixture:
    """Order the components of `found` as in `truth`, by nearest means."""
    orders = itertools.permutations(range(truth.n_components))
    return found.permuted(
        min(orders, key=lambda o: float(np.sum((found.means[list(o)] - truth.means) ** 2)))
    )


def theta_of(mixture: Mixture) -> Array:
    return structures.pack(mixture.weights, mixture.means, mixture.cholesky)


def problem_of(sketch: Sketched) -> fitting._Problem:
    return fitting._Problem.of(sketch)


def problem_at(where: Array) -> fitting._Problem:
    """Make a problem for what depends on the frequencies alone."""
    m = len(where)
    return problem_of(Sketch(where, np.zeros(m, dtype=np.complex128), np.ones(m), 1))


def unit(at: int, like: Array) -> Array:
    """Set one at a flat position, zero elsewhere."""
    flat = np.zeros(like.size)
    flat[at] = 1.0
    return flat.reshape(like.shape)


def full(lower: Array) -> Array:
    """Make a symmetric matrix from its lower triangle."""
    return np.asarray(np.tril(lower) + np.tril(lower, -1).T)


# -------------------------------------------------------------------------------- kernels


@pytest.mark.parametrize(("k", "d"), [(1, 1), (3, 1), (2, 2), (3, 3), (2, 6)])
def test_values_and_slopes(k: int, d: int) -> None:
    mixture = random_mixture(k, d, seed=d)
    where = frequencies(d)[::3]
    problem = problem_at(where)
    theta = theta_of(mixture)
    exact = characteristic(mixture, where)
    np.testing.assert_allclose(
        problem.predicted(theta), np.concatenate([exact.real, exact.imag]), atol=1e-13
    )
    slopes, step = problem.slopes(theta), 1e-5
    for at in range(theta.size):
        shift = step * unit(at, theta)
        by_difference = (problem.predicted(theta + shift) - problem.predicted(theta - shift)) / (
            2 * step
        )
        np.testing.assert_allclose(slopes[:, at], by_difference, atol=1e-8)


def test_prior_slopes_and_centre() -> None:
    d, theta = 3, theta_of(random_mixture(3, 3, seed=1))
    pull, precision, spare = np.empty(theta.size), np.empty(theta.size), np.empty(theta.size)
    kernels.prior(theta, d, pull, precision)
    for at in range(theta.size):
        shift = 1e-4 * unit(at, theta)
        up, down = (kernels.prior(theta + s * shift, d, spare, spare) for s in (1, -1))
        assert -(up - down) / 2e-4 == pytest.approx(pull[at], abs=1e-8)
    centre = structures.pack(
        np.full(2, 0.5), np.zeros((2, d)), math.exp(-0.6) * np.tile(np.eye(d), (2, 1, 1))
    )
    assert kernels.prior(centre, d, np.empty(20), np.empty(20)) == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize(("k", "d"), [(2, 1), (3, 2), (2, 4)])
def test_sampling_covariance_is_exact(k: int, d: int) -> None:
    mixture = random_mixture(k, d, seed=2)
    where = frequencies(d)[::2]
    m = len(where)
    problem = problem_at(where)
    got = full(problem.sampling(theta_of(mixture)))
    # the same by the characteristic function at sums and differences of frequencies
    difference = characteristic(mixture, (where[:, None] - where[None, :]).reshape(-1, d)).reshape(
        m, m
    )
    total = characteristic(mixture, (where[:, None] + where[None, :]).reshape(-1, d)).reshape(m, m)
    mean = characteristic(mixture, where)
    cosines = (difference + total).real / 2 - np.outer(mean.real, mean.real)
    sines = (difference - total).real / 2 - np.outer(mean.imag, mean.imag)
    mixed = (difference + total).imag / 2 - np.outer(mean.imag, mean.real)
    np.testing.assert_allclose(got, np.block([[cosines, mixed.T], [mixed, sines]]), atol=1e-13)


def test_sampling_covariance_by_monte_carlo() -> None:
    mixture, n = random_mixture(3, 2, seed=3), 100_000
    where = frequencies(2)[::10]
    problem = problem_at(where)
    phase = mixture.sample(n, rng=4) @ where.T
    features = np.concatenate([np.cos(phase), np.sin(phase)], axis=1)
    centred = features - features.mean(axis=0)
    got = full(problem.sampling(theta_of(mixture)))
    squares = (centred**2).T @ centred**2 / n
    error = np.sqrt((squares - (centred.T @ centred / n) ** 2) / n)
    z = np.abs(centred.T @ centred / n - got) / error
    assert z.max() < 5  # of some 400 numbers


@pytest.mark.parametrize("power", [3, 4])
def test_a_rank_one_form_is_found(power: int) -> None:
    where = frequencies(6)
    rng = np.random.default_rng(0)
    x, size = rng.standard_normal(6), np.exp(-0.2 * np.sum(where**2, axis=1))
    target = -size * (where @ x) ** power + 0.02 * rng.standard_normal(len(where))
    ((found, sign),) = fitting._directions(where, target, size, power, 1)
    if power == 4:
        assert sign == -1
    turned = sign * found if power == 3 else found * np.sign(found @ x)
    np.testing.assert_allclose(turned, -x if power == 3 else x, atol=0.05)


# ------------------------------------------------------------------- without noise: truth


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_without_noise_the_truth_is_found(k: int, d: int) -> None:
    truth = random_mixture(k, d, seed=10 * k + d)
    where = frequencies(d)
    sketch = Sketch(where, characteristic(truth, where), deviations(where, 1e-8), 10**13)
    found = fit(sketch, k)
    mixture = matched(found.mixture, truth)
    np.testing.assert_allclose(mixture.weights, truth.weights, atol=1e-4)
    np.testing.assert_allclose(mixture.means, truth.means, atol=1e-4)
    np.testing.assert_allclose(mixture.covariances, truth.covariances, atol=1e-4)
    assert found.explains
    assert not found.floored.any()
    assert found.inflation == 1


# --------------------------------------------------------------- with noise: right errors

TRUTH = Mixture(
    [0.4, 0.6],
    [[-0.9, 0.1], [0.7, -0.2]],
    [[[0.22, 0.08], [0.08, 0.3]], [[0.3, -0.1], [-0.1, 0.2]]],
)
N_UNITS, NOISE = 50_000, 2e-3


@pytest.fixture(scope="module")
def sketches() -> list[Sketch]:
    return [sketch_of(TRUTH, N_UNITS, NOISE, seed) for seed in range(SKETCHES)]


@pytest.fixture(scope="module")
def paths(sketches: list[Sketch]) -> list[tuple[FrameFit, ...]]:
    return [fit_path(sketch, 3) for sketch in sketches]


def test_the_truth_is_about_three_deviations_apart() -> None:
    gap = TRUTH.means[1] - TRUTH.means[0]
    towards = gap / np.linalg.norm(gap)
    widths = np.sqrt(np.einsum("i,kij,j->k", towards, TRUTH.covariances, towards))
    assert 2.8 < np.linalg.norm(gap) / widths.mean() < 3.4


def test_chi_square_of_the_right_k(paths: list[tuple[FrameFit, ...]]) -> None:
    right = [path[1] for path in paths]
    wanted = right[0].degrees_of_freedom
    assert wanted == 2 * 140 - 12 + 1
    mean = np.mean([one.chi_square for one in right])
    assert abs(mean - wanted) < 4 * math.sqrt(2 * wanted / SKETCHES)
    assert all(one.explains and one.inflation == 1 for one in right)
    spread = np.std([one.misfit for one in right])
    assert 0.5 < spread < 1.7


def test_alarm_for_the_wrong_k_and_choice_of_the_right(
    paths: list[tuple[FrameFit, ...]],
) -> None:
    assert all(path[0].misfit > MISFIT and path[0].inflation > 1 for path in paths)
    assert all(path[2].explains for path in paths)
    assert [min(path, key=lambda one: one.criterion).n_components for path in paths] == [
        2
    ] * SKETCHES


def local_errors(found: FrameFit) -> Array:
    """Compute how far a fit lies from the truth in its own local coordinates (k, width)."""
    mine, truth = found.mixture, matched(TRUTH, found.mixture)
    logs = np.log(mine.weights / truth.weights)
    inverse = np.linalg.inv(mine.cholesky)
    means = np.einsum("kij,kj->ki", inverse, mine.means - truth.means)
    whitened = inverse @ truth.covariances @ inverse.swapaxes(1, 2)
    values, vectors = np.linalg.eigh(whitened)
    logarithm = -np.einsum("kij,kj,klj->kil", vectors, np.log(values), vectors)
    row, column = np.triu_indices(2)
    svec = logarithm[:, row, column] * np.where(row == column, 1, math.sqrt(2))
    return np.concatenate([logs[:, None], means, svec], axis=1)


def test_errors_agree_with_the_information(paths: list[tuple[FrameFit, ...]]) -> None:
    lengths, inside = [], []
    for _, found, _ in paths:
        information = np.linalg.inv(found.compute_local_covariance())
        error = local_errors(found).reshape(-1)
        lengths.append(float(error @ information @ error))
        deviation = np.sqrt(np.diag(np.linalg.inv(information)))
        # a common shift of all log-weights means nothing
        inside.append(np.abs(error / deviation)[[1, 2, 3, 4, 5, 7, 8, 9, 10, 11]] < 1.96)
    assert abs(np.mean(lengths) - 11) < 4 * math.sqrt(2 * 11 / SKETCHES)
    assert 0.88 < np.mean(inside) <= 1


def test_forecasts_agree_with_the_errors(
    sketches: list[Sketch], paths: list[tuple[FrameFit, ...]]
) -> None:
    first = sketches[0]
    information = expected_information(TRUTH, first.frequencies, first.deviations, N_UNITS)
    forecast = median_worst_errors(information, TRUTH.weights)
    seen = []
    for _, found, _ in paths:
        error = local_errors(found)
        weight = np.abs(found.mixture.weights - matched(TRUTH, found.mixture).weights).max()
        mean, covariance = (np.linalg.norm(error[:, s], axis=1).max() for s in np.s_[1:3, 3:])
        seen.append([weight, mean, covariance])
    ratio = np.median(seen, axis=0) / forecast
    assert np.all((ratio > 0.5) & (ratio < 1.8)), ratio
    # and the fit's own information is the one expected there
    own = np.linalg.inv(paths[0][1].compute_local_covariance())
    there = expected_information(paths[0][1].mixture, first.frequencies, first.deviations, N_UNITS)
    np.testing.assert_allclose(own, there, rtol=0.02, atol=0.005 * np.abs(there).max())


def test_more_rows_or_less_noise_forecast_less_error() -> None:
    where = frequencies(2)
    errors = [
        median_worst_errors(
            expected_information(TRUTH, where, deviations(where, noise), n), TRUTH.weights
        )
        for n, noise in [(1e4, 4e-3), (1e4, 2e-3), (1e5, 2e-3)]
    ]
    for worse, better in itertools.pairwise(errors):
        assert all(b < w for w, b in zip(worse, better, strict=True))


def test_path_is_deterministic_and_its_start_does_not_depend_on_its_end(
    sketches: list[Sketch], paths: list[tuple[FrameFit, ...]]
) -> None:
    again = fit_path(sketches[0], 2)
    for first, second in zip(paths[0], again, strict=False):
        assert first.mixture == second.mixture
        assert first.chi_square == second.chi_square
    assert fit(sketches[0], 2).mixture == again[1].mixture


def test_chi_square_of_any_mixture(
    sketches: list[Sketch], paths: list[tuple[FrameFit, ...]]
) -> None:
    for sketch, path in zip(sketches[:3], paths[:3], strict=True):
        for found in path:
            assert Viewpoint(sketch, found.mixture).chi_square == pytest.approx(
                found.chi_square, rel=1e-3
            )
        rise = Viewpoint(sketch, TRUTH).chi_square - path[1].chi_square
        assert -1 < rise < 11 + 4 * math.sqrt(22)


def test_refit_to_two_sketches_averaged(sketches: list[Sketch]) -> None:
    frame = Frame(np.zeros(2), np.eye(2))
    rng = np.random.default_rng(1)
    one = sketches[0]
    error = rng.standard_normal(one.values.size) + 1j * rng.standard_normal(one.values.size)
    exact = characteristic(TRUTH, one.frequencies)
    directions, noise = one.frequencies[::10] / 0.8, one.deviations[:10]
    first = PrivateSketch(frame, directions, 0.8, one.values, noise, N_UNITS)
    assert np.allclose(first.frequencies, one.frequencies)
    second = dataclasses.replace(first, values=exact + one.deviations * error)
    start = fit(first, 2)
    together = first.averaged_with(second)
    found = refit(together, start)
    again = matched(fit(together, 2).mixture, found.mixture)
    assert found.mixture.means == pytest.approx(again.means, abs=1e-3)
    assert np.trace(found.information) > np.trace(start.information)


# ------------------------------------------------------------------ local coordinates


def test_local_coordinates_are_those_of_refinement() -> None:
    mixture = random_mixture(2, 3, seed=5)
    slopes = structures.local_slopes(mixture.cholesky)
    width, step = 10, 1e-5
    for at in range(2 * width):
        shift = np.zeros(2 * width)
        shift[at] = step
        up, down = (
            theta_of(noisy_moments._moved(mixture, s * shift.reshape(2, width))) for s in (1, -1)
        )
        by_difference = (up - down) / (2 * step)
        if at % width == 0:  # log-weights are kept centred: a common shift means nothing
            by_difference[:, 0] += 0.5
        np.testing.assert_allclose(slopes[:, at], by_difference.reshape(-1), atol=1e-8)


# ------------------------------------------------------------------- beyond the model


def test_a_sketch_pulls_downhill(sketches: list[Sketch]) -> None:
    """Nothing pulls at the fit; elsewhere the pull is the slope of the misfit, prior included."""
    found = refit(sketches[0], fit(sketches[0], 2))
    at_fit = Viewpoint(sketches[0], found.mixture).pull(found.mixture)
    step = np.linalg.solve(at_fit.information, at_fit.downhill)
    assert step @ at_fit.downhill < 1e-2
    there = expected_information(
        TRUTH, sketches[0].frequencies, sketches[0].deviations, sketches[0].n_units
    )
    pull = Viewpoint(sketches[0], TRUTH).pull(TRUTH)
    np.testing.assert_allclose(pull.information, there, rtol=1e-9, atol=1e-9 * there.max())
    # one step from the truth ends near the fit, measured in standard errors
    step = np.asarray(np.linalg.solve(there, pull.downhill))
    moved = noisy_moments._moved(TRUTH, step.reshape(2, -1).astype(np.float64))
    assert Viewpoint(sketches[0], moved).chi_square < Viewpoint(sketches[0], TRUTH).chi_square
    assert Viewpoint(sketches[0], moved).chi_square < found.chi_square + 1


def test_inflation_brings_chi_square_to_its_degrees_of_freedom(sketches: list[Sketch]) -> None:
    problem = problem_of(sketches[1])
    theta = theta_of(Mixture([1.0], [[0.0, 0.0]], [np.eye(2)]))
    sampling = problem.sampling(theta)
    inflation = fitting._balanced(problem, theta, sampling)
    residual = problem.target - problem.predicted(theta)
    covariance = full(sampling) / N_UNITS + inflation**2 * np.diag(problem.noise)
    quadratic = residual @ np.linalg.solve(covariance, residual)
    assert quadratic == pytest.approx(problem.degrees_of_freedom(theta), rel=5e-3)


def test_inflation_is_one_where_nothing_is_wrong(sketches: list[Sketch]) -> None:
    problem = problem_of(sketches[0])
    theta = theta_of(TRUTH)
    few = dataclasses.replace(sketches[0], deviations=2 * sketches[0].deviations)
    assert fitting._balanced(problem_of(few), theta, problem.sampling(theta)) == 1


@pytest.mark.parametrize("d", [1, 2])
def test_widths_have_a_floor(d: int) -> None:
    """Rows on two points: what is fitted is not flatter than the floor, and says so."""
    where = frequencies(d)
    points = Sketch(where, np.cos(where[:, 0]) + 0j, deviations(where, 1e-5), 10**8)
    found = fit(points, 2)
    assert found.floored.all()
    widths = np.sqrt(np.linalg.eigvalsh(found.mixture.covariances))
    assert widths.min() == pytest.approx(NARROWEST)
    np.testing.assert_allclose(np.sort(found.mixture.means[:, 0]), [-1, 1], atol=1e-3)
    assert Viewpoint(points, found.mixture).chi_square == pytest.approx(found.chi_square, rel=1e-6)
    broad = fit(Sketch(where, np.cos(where[:, 0]) + 0j, np.full(len(where), 0.5), 100), 2)
    assert not broad.floored.any()


WIDE, ROUND = [[0.8, 0.2], [0.2, 0.6]], np.eye(2).tolist()


@pytest.mark.parametrize(
    "truth",
    [
        Mixture([0.85, 0.15], [[0.0, 0.0], [6.4, 4.8]], [WIDE, ROUND]),
        Mixture([0.98, 0.02], [[0, 0], [2, 1]], [WIDE, [[0.05, 0], [0, 0.05]]]),
        Mixture([0.6, 0.4], [[0, 0], [0, 0]], [[[0.2, 0.1], [0.1, 0.3]], ROUND]),
        Mixture([0.5, 0.5], [[0, 0], [0, 0]], [[[1.5, 0], [0, 0.02]], [[0.02, 0], [0, 1.5]]]),
    ],
    ids=["far", "light", "same mean", "cross"],
)
def test_clusters_that_are_hard_to_find(truth: Mixture) -> None:
    sketch = sketch_of(truth, 50_000, 5e-4, seed=6)
    path = fit_path(sketch, 2)
    assert not path[0].explains
    assert path[1].explains
    means = matched(path[1].mixture, truth).means
    assert np.abs(means - truth.means).max() < 0.15


def test_many_features() -> None:
    """Two clusters in eight dimensions, apart along no axis."""
    d = 8
    towards = np.ones(d) / math.sqrt(d)
    cov = np.eye(d) - 0.8 * np.outer(towards, towards)
    truth = Mixture([0.45, 0.55], [-towards, 0.8 * towards], [cov, cov])
    sketch = sketch_of(truth, 20_000, 1e-3, seed=7)
    path = fit_path(sketch, 2)
    assert not path[0].explains
    assert path[1].explains
    means = matched(path[1].mixture, truth).means
    gap = means[1] - means[0]
    assert gap @ towards / np.linalg.norm(gap) > 0.98


# ------------------------------------------------------------------------------- errors


def test_what_cannot_be_fitted_is_refused(paths: list[tuple[FrameFit, ...]]) -> None:
    where = frequencies(1)
    good = Sketch(where, np.exp(-(where[:, 0] ** 2)) + 0j, np.full(20, 0.01), 1000)
    with pytest.raises(InvalidInput, match="fewer free numbers"):
        fit_path(good, 14)
    with pytest.raises(InvalidInput, match="n_components"):
        fit_path(good, 0)
    with pytest.raises(InvalidInput, match="values"):
        fit_path(dataclasses.replace(good, values=np.full(20, np.nan + 0j)), 1)
    with pytest.raises(InvalidInput, match="negative"):
        fit_path(dataclasses.replace(good, deviations=np.full(20, -1.0)), 1)
    with pytest.raises(InvalidInput, match="features"):
        refit(good, paths[0][1])
    with pytest.raises(InvalidInput, match="features"):
        Viewpoint(good, TRUTH)


def test_fits_cannot_be_changed(paths: list[tuple[FrameFit, ...]]) -> None:
    for name in ("parameters", "information", "floored"):
        assert not getattr(paths[0][0], name).flags.writeable
