"""The polish: bounded moments, their sensitivity, and the mixture they determine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from privgmm.arrays import Array
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.privacy.noise import SeededNoise
from privgmm.stages.refinement import noisy_moments as refinement
from privgmm.stages.refinement.noisy_moments import Refinement, moment_sums, refine, solve_moments

PUBLIC = Mixture(
    [0.5, 0.3, 0.2],
    [[0.0, 0.0], [8.0, 1.0], [1.0, 2.0]],
    [[[1.0, 0.3], [0.3, 2.0]], [[4.0, -1.0], [-1.0, 1.0]], [[0.5, 0.0], [0.0, 0.5]]],
)
RADIUS = 2.5


def plain_sums(rows: Array, public: Mixture, radius: float) -> Array:
    """The definition, written out with NumPy."""
    d = public.n_features
    shares = np.exp(public.log_joint(rows) - public.log_density(rows)[:, None])
    sums = []
    for a in range(public.n_components):
        u = np.linalg.solve(public.cholesky[a], (rows - public.means[a]).T).T
        r = shares[:, a] * (np.linalg.norm(u, axis=1) <= radius)
        products = [
            (1.0 if i == j else math.sqrt(2)) * float(np.sum(r * u[:, i] * u[:, j]))
            for i in range(d)
            for j in range(i, d)
        ]
        sums.append([float(r.sum()), *(r @ u).tolist(), *products])
    return np.array(sums)


def scaled(rows: Array, public: Mixture, radius: float, scales: tuple[float, ...]) -> Array:
    """A row's contribution in the units in which sensitivity is measured."""
    d = public.n_features
    unit = np.repeat(
        [scales[0], scales[1] / radius, scales[2] / radius**2], [1, d, d * (d + 1) // 2]
    )
    return np.asarray(moment_sums(rows, public, radius) * unit, dtype=np.float64)


# ------------------------------------------------------------------------------ moments


@pytest.mark.parametrize(("k", "d"), [(1, 1), (3, 2), (2, 5)])
def test_sums_are_their_definition(k: int, d: int) -> None:
    rng = np.random.default_rng(d)
    roots = rng.standard_normal((k, d, d)) + 2 * np.eye(d)
    public = Mixture.from_roots(rng.dirichlet(np.ones(k)), rng.normal(0, 2, (k, d)), roots)
    rows = public.sample(500, rng=rng)
    have = moment_sums(rows, public, RADIUS)
    assert np.allclose(have, plain_sums(rows, public, RADIUS), rtol=1e-10, atol=1e-10)


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = PUBLIC.sample(1_000, rng=1)
    whole = moment_sums(rows, PUBLIC, RADIUS)
    shares = np.random.default_rng(0).random(1_000)
    part = moment_sums(rows, PUBLIC, RADIUS, shares)
    monkeypatch.setattr(refinement, "_CHUNK_ROWS", 37)
    assert np.allclose(moment_sums(rows, PUBLIC, RADIUS), whole, rtol=1e-12)
    assert np.allclose(moment_sums(rows, PUBLIC, RADIUS, shares), part, rtol=1e-12)
    assert np.allclose(moment_sums(np.asfortranarray(rows), PUBLIC, RADIUS), whole, rtol=1e-12)


@pytest.mark.parametrize("far", [1e3, 1e12, 1e160, 1e308])
def test_a_row_far_out_counts_for_nothing(far: float) -> None:
    rows = np.array([[far, -far], [0.1, 0.2]])
    near = moment_sums(rows[1:], PUBLIC, RADIUS)
    with np.errstate(over="ignore", invalid="ignore"):
        both = moment_sums(rows, PUBLIC, RADIUS)
    assert np.allclose(both, near, rtol=1e-12)


# -------------------------------------------------------------------------- sensitivity


@pytest.mark.parametrize("scales", [(0.4, 0.6, 1.0), (1.0, 1.0, 1.0), (0.5, 1.0, 1.0)])
def test_replacing_a_row_moves_the_sums_by_at_most_the_sensitivity(
    scales: tuple[float, float, float],
) -> None:
    plan = Refinement((1.0,), (RADIUS,), scales)
    rng = np.random.default_rng(3)
    rows = np.concatenate(
        [
            PUBLIC.sample(60, rng=rng),
            PUBLIC.means + 0.0,
            rng.normal(0, 30, (10, 2)),
            rng.normal(0, 1e12, (5, 2)),
            # at the very edge of each component, in all directions
            *(
                PUBLIC.means[a] + (1 - 1e-9) * RADIUS * circle(12) @ PUBLIC.cholesky[a].T
                for a in range(3)
            ),
        ]
    )
    each = np.stack([scaled(row[None], PUBLIC, RADIUS, scales).ravel() for row in rows])
    gaps = np.linalg.norm(each[:, None] - each, axis=2)
    assert gaps.max() <= plan.sensitivity
    # the bound is nearly attained: two rows at the edges of two components far apart
    assert gaps.max() >= 0.95 * plan.sensitivity


def circle(n: int) -> Array:
    angle = np.linspace(0, 2 * np.pi, n, endpoint=False)
    return np.column_stack([np.cos(angle), np.sin(angle)])


def test_an_optimiser_does_not_pass_the_bound() -> None:
    """Searching over pairs of rows and over the public mixture's separation."""
    plan = Refinement((1.0,), (RADIUS,))
    worst = 0.0
    for start in range(6):
        rng = np.random.default_rng(start)
        public = Mixture([0.5, 0.5], [[0.0, 0.0], [3.0 * start, 0.0]], [np.eye(2), np.eye(2)])

        def loss(x: Array, public: Mixture = public) -> float:
            one, two = (scaled(x[None, i : i + 2], public, RADIUS, plan.scales) for i in (0, 2))
            return -float(np.linalg.norm(one - two))

        found = minimize(loss, rng.normal(0, 2, 4), method="Nelder-Mead", options={"maxiter": 250})
        worst = max(worst, -float(found.fun))
    assert 0.8 * plan.sensitivity < worst <= plan.sensitivity


def test_the_condition_on_the_scales_is_needed() -> None:
    """Beyond c1^2 <= 2 c0 c2 two opposite rows of one component would move more."""
    c0, c1, c2 = 0.1, 3.0, 0.1
    z = np.array([1.0, -1.0])
    products = c0**2 + c1**2 * z + c2**2
    assert products[1] < 0
    with pytest.raises(InvalidInput, match="c1"):
        Refinement((1.0,), (RADIUS,), (c0, c1, c2))
    one = Mixture([1.0], [[0.0]], [[[1.0]]])
    ends = [scaled(np.array([[x]]), one, RADIUS, (c0, c1, c2)) for x in (-RADIUS, RADIUS)]
    moved = float(np.linalg.norm(ends[0] - ends[1]))
    assert moved > math.sqrt(2) * math.hypot(c0, c1, c2)


def test_noise_is_the_multiplier_times_the_sensitivity_in_scaled_units() -> None:
    plan = Refinement((3.0, 5.0), (4.0, 2.0))
    for step in (0, 1):
        radius = plan.radii[step]
        unit = np.repeat([0.4, 0.6 / radius, 1.0 / radius**2], [1, 3, 6])
        expected = plan.multipliers[step] * math.sqrt(2) * math.hypot(0.4, 0.6, 1.0)
        assert np.allclose(plan.deviations(step, 3) * unit, expected)


# ------------------------------------------------------------------------------ persons


def test_a_person_weighs_as_one_however_many_rows() -> None:
    plan = Refinement((1.0,), (RADIUS,))
    rng = np.random.default_rng(0)
    many = rng.normal(0, 3, (500, 2))
    for rows in (many, many[:7], many[:1]):
        unit = np.repeat([0.4, 0.6 / RADIUS, 1.0 / RADIUS**2], [1, 2, 3])
        shares = np.full(len(rows), 1 / len(rows))
        one = moment_sums(rows, PUBLIC, RADIUS, shares) * unit
        assert np.linalg.norm(one) <= math.hypot(*plan.scales) * (1 + 1e-12)
    # repeating all of a person's rows changes nothing
    twice = np.repeat(many, 2, axis=0)
    assert np.allclose(
        moment_sums(twice, PUBLIC, RADIUS, np.full(1_000, 1e-3)),
        moment_sums(many, PUBLIC, RADIUS, np.full(500, 2e-3)),
    )


def test_refining_with_one_row_a_person_is_refining_without_persons() -> None:
    rows = PUBLIC.sample(3_000, rng=2)
    plan = Refinement((0.5,), (4.0,))
    plain = refine(rows, PUBLIC, plan, rng=SeededNoise(np.random.default_rng(1)))
    member = np.random.default_rng(5).permutation(3_000)
    same = refine(rows, PUBLIC, plan, rng=SeededNoise(np.random.default_rng(1)), member=member)
    assert np.allclose(plain.means, same.means, rtol=1e-9)
    # a person with a thousand copies of a stray row moves the answer as little as one row does
    crowd = np.concatenate([rows, np.tile([[0.5, 0.5]], (1_000, 1))])
    owners = np.concatenate([np.arange(3_000), np.full(1_000, 3_000)])
    held = refine(crowd, PUBLIC, plan, rng=SeededNoise(np.random.default_rng(1)), member=owners)
    loose = refine(crowd, PUBLIC, plan, rng=SeededNoise(np.random.default_rng(1)))
    assert np.abs(held.weights - plain.weights).max() < 2e-3
    assert np.abs(loose.weights - plain.weights).max() > 2e-2


# ------------------------------------------------------------------------------ solving


TRUTH = Mixture(
    [0.6, 0.4],
    [[0.0, 0.0], [4.0, 1.0]],
    [[[1.0, 0.2], [0.2, 1.5]], [[2.0, -0.5], [-0.5, 1.0]]],
)


def distorted() -> Mixture:
    return Mixture(
        [0.5, 0.5],
        [[0.3, -0.3], [3.6, 1.2]],
        [[[1.4, 0.0], [0.0, 1.5]], [[1.6, 0.0], [0.0, 1.4]]],
    )


def test_exact_moments_give_the_exact_mixture_back() -> None:
    """Overlapping components, a cut at R = 3, a public mixture that is wrong everywhere."""
    n = 2_000_000
    rows = TRUTH.sample(n, rng=7)
    public = distorted()
    target = moment_sums(rows, public, 3.0) / n
    found = solve_moments(public, target, 3.0, np.full(6, 1e-9), n).mixture
    # four standard errors of a good estimate from two million rows, with room for overlap
    assert np.abs(found.weights - TRUTH.weights).max() < 4e-3
    assert np.abs(found.means - TRUTH.means).max() < 1.2e-2
    assert np.abs(found.covariances - TRUTH.covariances).max() < 2.5e-2
    # a plain M step from the same moments is biased far beyond that
    naive = target[:, 0] / target[:, 0].sum()
    assert np.abs(naive - TRUTH.weights).max() > 1.2e-2


def test_without_information_the_public_mixture_stays() -> None:
    public = distorted()
    target = np.random.default_rng(0).normal(0, 1, (2, 6))
    found = solve_moments(public, target, 3.0, np.full(6, 1e6), 100).mixture
    assert np.allclose(found.means, public.means, atol=1e-3)


def test_steps_with_little_noise_improve_a_coarse_mixture() -> None:
    rows = TRUTH.sample(40_000, rng=8)
    plan = Refinement((3.0, 3.0), (4.0, 3.5))
    found = refine(rows, distorted(), plan, rng=SeededNoise(np.random.default_rng(0)))
    before = np.abs(distorted().covariances - TRUTH.covariances).max()
    after = np.abs(found.covariances - TRUTH.covariances).max()
    assert after < 0.4 * before


@pytest.mark.parametrize(
    "bad",
    [
        ((), ()),
        ((1.0,), (1.0, 2.0)),
        ((0.0,), (1.0,)),
        ((1.0,), (math.inf,)),
        ((1.0,), (1.0,), (1.0, 0.0, 1.0)),
    ],
)
def test_bad_steps_are_refused(bad: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidInput):
        Refinement(*bad)
