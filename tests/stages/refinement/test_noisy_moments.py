"""The polish: bounded moments, their sensitivity, and the mixture they determine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from privgmm.arrays import Array, IntArray
from privgmm.audit.wiretap import Side, audit_run
from privgmm.data import people
from privgmm.data.people import ArrayPeople, one_person
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.privacy.noise import SecureNoise, SeededNoise
from privgmm.stages.fixed_point import rounded_sensitivity
from privgmm.stages.refinement import noisy_moments as refinement
from privgmm.stages.refinement.noisy_moments import (
    Pull,
    Refinement,
    cut_sums,
    refine,
    solve_moments,
)

PUBLIC = Mixture(
    [0.5, 0.3, 0.2],
    [[0.0, 0.0], [8.0, 1.0], [1.0, 2.0]],
    [[[1.0, 0.3], [0.3, 2.0]], [[4.0, -1.0], [-1.0, 1.0]], [[0.5, 0.0], [0.0, 0.5]]],
)
RADIUS = 2.5


def plain_sums(rows: Array, public: Mixture, radius: float) -> Array:
    """Compute the moments by their definition, in NumPy."""
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


SCALES = (0.4, 0.6, 1.0)
UNIT = 2.0**30


def integers(rows: Array, public: Mixture, radius: float, member: IntArray | None = None) -> Array:
    """Return what the code sums, in units of the moments themselves."""
    all_of_them = ArrayPeople.of(rows, member)
    plan = Refinement((1.0,), (radius,), SCALES)
    sums = cut_sums(all_of_them, public, radius, SCALES, UNIT)
    return np.asarray(sums / UNIT * plan.units(0, public.n_features), dtype=np.float64)


def scaled(
    rows: Array, public: Mixture, radius: float, scales: tuple[float, float, float]
) -> Array:
    """Compute a row's contribution in the units in which sensitivity is measured."""
    sums = cut_sums(ArrayPeople.of(rows), public, radius, scales, UNIT)
    return np.asarray(sums / UNIT * math.hypot(*scales), dtype=np.float64)


# ------------------------------------------------------------------------------ moments


@pytest.mark.parametrize(("k", "d"), [(1, 1), (3, 2), (2, 5)])
def test_sums_are_their_definition(k: int, d: int) -> None:
    rng = np.random.default_rng(d)
    roots = rng.standard_normal((k, d, d)) + 2 * np.eye(d)
    public = Mixture.from_roots(rng.dirichlet(np.ones(k)), rng.normal(0, 2, (k, d)), roots)
    rows = public.sample(500, rng=rng)
    have = integers(rows, public, RADIUS)
    # every row is rounded by at most half a unit
    assert np.abs(have - plain_sums(rows, public, RADIUS)).max() < 500 / UNIT * 10 * RADIUS**2


def seeded(seed: int) -> SeededNoise:
    return SeededNoise(np.random.default_rng(seed))


def test_sums_are_the_same_integers_for_any_order_and_division(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = PUBLIC.sample(1_000, rng=1)
    member = np.random.default_rng(0).integers(300, size=1_000)
    order = np.random.default_rng(1).permutation(1_000)
    for owner in (None, member):
        whole = integers(rows, PUBLIC, RADIUS, owner)
        turned = None if owner is None else owner[order]
        assert np.array_equal(integers(rows[order], PUBLIC, RADIUS, turned), whole)
        assert np.array_equal(integers(np.asfortranarray(rows), PUBLIC, RADIUS, owner), whole)
        with monkeypatch.context() as patch:
            patch.setattr(people, "_FEWEST_PER_THREAD", 7)
            patch.setattr("os.cpu_count", lambda: 13)
            assert np.array_equal(integers(rows, PUBLIC, RADIUS, owner), whole)


@pytest.mark.parametrize("far", [1e3, 1e12, 1e160, 1e308])
def test_a_row_far_out_counts_for_nothing(far: float) -> None:
    rows = np.array([[far, -far], [0.1, 0.2]])
    near = integers(rows[1:], PUBLIC, RADIUS)
    with np.errstate(over="ignore", invalid="ignore"):
        both = integers(rows, PUBLIC, RADIUS)
    assert np.array_equal(both, near)


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
    covered = rounded_sensitivity(math.sqrt(2), UNIT, each.shape[1]) / UNIT * math.hypot(*scales)
    assert gaps.max() <= covered
    assert covered < plan.sensitivity * (1 + 1e-7)
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
        one = cut_sums(one_person(rows), PUBLIC, RADIUS, plan.scales, UNIT)
        assert np.linalg.norm(one.astype(np.float64)) <= UNIT + 2 * math.sqrt(one.size)
    # repeating all of a person's rows changes nothing
    twice = np.repeat(many, 2, axis=0)
    owner = np.zeros(1_000, dtype=np.int64)
    assert np.array_equal(
        integers(twice, PUBLIC, RADIUS, owner),
        integers(many, PUBLIC, RADIUS, owner[:500]),
    )


def test_noise_is_added_to_integers_once_and_within_the_price() -> None:
    """Every draw of both steps on neighbouring rows and persons is recorded and priced."""
    stage = Refinement((2.0, 3.0), (RADIUS, RADIUS))
    public = Mixture([1.0], [[0.0]], [[[1.0]]])
    rows = np.random.default_rng(4).standard_normal((300, 1))
    rows[0], other = -0.999 * RADIUS, rows.copy()
    other[0] = 0.999 * RADIUS
    found = audit_run(stage, Side(rows), Side(other), public, label="row")
    assert found.passed
    assert found.measured > 0.2
    member = np.arange(300, dtype=np.int64) // 3
    moved = np.concatenate([other[:1], rows[3:], np.tile(other[:1], (6, 1))])
    owners = np.concatenate([[0], member[3:], np.zeros(6, dtype=np.int64)])
    assert audit_run(stage, Side(rows, member), Side(moved, owners), public, label="person").passed


def test_the_noise_is_as_wide_as_its_parameter_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The secure sampler, through the real code: a tenth less noise would show."""
    stage = Refinement((40.0,), (RADIUS,))
    # far from all rows: sums of nothing but noise
    public = Mixture(np.full(300, 1 / 300), np.full((300, 2), 1e9), [np.eye(2)] * 300)
    heard: list[Array] = []

    def listen(public: Mixture, target: Array, *args: Any) -> refinement.MomentSolution:
        heard.append(2 * target / stage.deviations(0, 2))
        return refinement.MomentSolution(public, True, np.eye(1))

    monkeypatch.setattr(refinement, "solve_moments", listen)
    refine(ArrayPeople.of(np.zeros((2, 2))), public, stage, rng=SecureNoise())
    (drawn,) = heard
    assert drawn.size == 1_800
    assert abs(drawn.std() - 1) < 4 / math.sqrt(2 * drawn.size)


def test_wild_noise_does_not_stop_a_release() -> None:
    public = Mixture([0.5, 0.5], [[0.0, 0.0], [1e-300, 0.0]], [np.eye(2), 1e-200 * np.eye(2)])
    for target in (np.full((2, 6), 1e300), np.full((2, 6), -np.inf), np.full((2, 6), np.nan)):
        with np.errstate(all="ignore"):
            found = solve_moments(public, target, 3.0, np.full(6, 1e-12), 100)
        assert not found.converged
        assert np.isfinite(found.mixture.means).all()


def test_refining_with_one_row_a_person_is_refining_without_persons() -> None:
    rows = PUBLIC.sample(3_000, rng=2)
    plan = Refinement((0.5,), (4.0,))
    plain = refine(ArrayPeople.of(rows), PUBLIC, plan, rng=seeded(1))
    member = np.random.default_rng(5).permutation(3_000)
    same = refine(
        ArrayPeople.of(rows, member), PUBLIC, plan, rng=SeededNoise(np.random.default_rng(1))
    )
    assert np.allclose(plain.means, same.means, rtol=1e-9)
    # a person with a thousand copies of a stray row moves the answer as little as one row does
    crowd = np.concatenate([rows, np.tile([[0.5, 0.5]], (1_000, 1))])
    owners = np.concatenate([np.arange(3_000), np.full(1_000, 3_000)])
    held = refine(
        ArrayPeople.of(crowd, owners), PUBLIC, plan, rng=SeededNoise(np.random.default_rng(1))
    )
    loose = refine(ArrayPeople.of(crowd), PUBLIC, plan, rng=seeded(1))
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
    target = integers(rows, public, 3.0) / n
    found = solve_moments(public, target, 3.0, np.full(6, 1e-9), n).mixture
    # four standard errors of a good estimate from two million rows, with room for overlap
    assert np.abs(found.weights - TRUTH.weights).max() < 4e-3
    assert np.abs(found.means - TRUTH.means).max() < 1.2e-2
    assert np.abs(found.covariances - TRUTH.covariances).max() < 2.5e-2
    # a plain M step from the same moments is biased far beyond that
    naive = target[:, 0] / target[:, 0].sum()
    assert np.abs(naive - TRUTH.weights).max() > 1.2e-2


def test_what_else_is_known_is_asked_at_every_candidate() -> None:
    """Moments that say nothing, and a pull towards one mixture from wherever the candidate is."""
    truth, start = (Mixture([1.0], [[x]], [[[1.0]]]) for x in (0.0, 3.0))

    def pull(at: Mixture) -> Pull:
        spread = float(at.cholesky[0, 0, 0])
        downhill = [0.0, (truth.means[0, 0] - at.means[0, 0]) / spread, -math.log(spread)]
        return Pull(np.eye(3), np.array(downhill))

    found = solve_moments(start, np.zeros((1, 3)), 3.0, np.full(3, 1e6), 100, prior=pull)
    assert found.converged
    assert abs(found.mixture.means[0, 0]) < 1e-2


def test_without_information_the_public_mixture_stays() -> None:
    public = distorted()
    target = np.random.default_rng(0).normal(0, 1, (2, 6))
    found = solve_moments(public, target, 3.0, np.full(6, 1e6), 100).mixture
    assert np.allclose(found.means, public.means, atol=1e-3)


def test_steps_with_little_noise_improve_a_coarse_mixture() -> None:
    rows = TRUTH.sample(40_000, rng=8)
    plan = Refinement((3.0, 3.0), (4.0, 3.5))
    found = refine(
        ArrayPeople.of(rows), distorted(), plan, rng=SeededNoise(np.random.default_rng(0))
    )
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
