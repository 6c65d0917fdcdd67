"""The multivariate t learner against a plain reference, its own theory, and wild rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_t

from privgmm.arrays import Array
from privgmm.errors import InvalidInput
from privgmm.learners.registry import LEARNERS, make_learner
from privgmm.learners.student import StudentT, scatter_scale, simulated_scale, warm_student
from privgmm.mixture import Mixture, MixtureBatch
from tests.learners.learner_contract import (
    DEGENERATE_REASONS,
    asymmetric_mixture,
    check_learner,
    degenerate_blocks,
    same_fit,
)

ROBUST_TO = ("outlier", "few points")


def reference(rows: Array, degrees: float) -> tuple[Array, Array]:
    """Textbook EM for the t law, uncompiled: location and scatter."""
    s, d = rows.shape
    mean, scatter = np.median(rows, axis=0), np.cov(rows.T).reshape(d, d)
    for _ in range(5000):
        away = rows - mean
        squares = np.einsum("ij,ij->i", away, np.linalg.solve(scatter, away.T).T)
        weights = (degrees + d) / (degrees + squares)
        new = weights @ rows / weights.sum()
        away = rows - new
        grown = (away * weights[:, None]).T @ away / s
        done = np.abs(grown - scatter).max() < 1e-14 * np.abs(grown).max()
        mean, scatter = new, grown
        if done:
            break
    return mean, scatter


def assert_same(fit: Mixture, other: Mixture, tolerance: float) -> None:
    """Equal in units of the other."""
    shift = np.linalg.solve(other.cholesky[0], fit.means[0] - other.means[0])
    ratio = np.linalg.solve(other.cholesky[0], fit.cholesky[0])
    assert np.linalg.norm(shift) < tolerance
    assert np.abs(ratio @ ratio.T - np.eye(shift.size)).max() < tolerance


@pytest.mark.parametrize("d", [1, 2, 5])
def test_contract(d: int) -> None:
    check_learner(StudentT(), asymmetric_mixture(1, d), n_rows=150, robust_to=ROBUST_TO)


def test_reasons_and_remedies() -> None:
    good = np.random.default_rng(0).standard_normal((60, 3))
    bad = degenerate_blocks(good)
    _, reasons = StudentT().fit_blocks_with_reasons(np.stack(list(bad.values())))
    expected = {name: "" if name in ROBUST_TO else DEGENERATE_REASONS[name] for name in bad}
    assert dict(zip(bad, reasons, strict=True)) == expected
    with pytest.raises(InvalidInput, match="at least n_features"):
        StudentT().fit(good[:4])


@pytest.mark.parametrize(
    ("s", "d", "degrees"),
    [
        (6, 1, 3.0),
        (6, 2, 3.0),
        (10, 2, 3.0),
        (9, 5, 3.0),
        (200, 4, 3.0),
        (50, 20, 3.0),
        (10, 2, 1.0),
        (200, 4, 10.0),
    ],
)
def test_agrees_with_the_reference(s: int, d: int, degrees: float) -> None:
    rng = np.random.default_rng([s, d])
    blocks = rng.standard_normal((3, s, d)) @ rng.standard_normal((d, d)) + rng.standard_normal(d)
    fits = StudentT(degrees=degrees).fit_blocks(blocks)
    assert fits.ok.all()
    size = scatter_scale(s, d, degrees)
    for i, block in enumerate(blocks):
        mean, scatter = reference(block, degrees)
        wanted = Mixture([1.0], mean[None], scatter[None] / size)
        assert_same(fits[i], wanted, 1e-6)


@pytest.mark.parametrize(("s", "d"), [(7, 2), (30, 4)])
def test_maximises_the_likelihood(s: int, d: int) -> None:
    rng = np.random.default_rng(5)
    rows = rng.standard_cauchy((s, d))
    fit = StudentT().fit(rows)
    scatter = fit.covariances[0] * scatter_scale(s, d)
    best = multivariate_t(fit.means[0], scatter, df=3).logpdf(rows).sum()
    for _ in range(40):
        step = 0.05 * rng.standard_normal((d, d))
        moved = (np.eye(d) + step) @ scatter @ (np.eye(d) + step).T
        shift = fit.means[0] + 0.05 * fit.cholesky[0] @ rng.standard_normal(d)
        assert multivariate_t(shift, moved, df=3).logpdf(rows).sum() < best


@pytest.mark.parametrize(
    ("matrix", "shift"),
    [
        (np.eye(2), 1e6),
        (1e-6 * np.eye(2), 0.0),
        (1e9 * np.eye(2), -3e9),
        (np.diag([1e-6, 1e9]), 0.0),
        (np.array([[1.0, 0.0], [1e5, 1.0]]), 0.0),
        (np.array([[1.0, 1e5], [0.0, 1.0]]), 0.0),
        (np.array([[0.3, -2.0], [1.1, 0.7]]), 5.0),
    ],
    ids=["shift", "small", "large", "units", "shear", "other shear", "turned"],
)
@pytest.mark.parametrize("s", [6, 10, 100])
def test_moves_with_affine_maps(matrix: Array, shift: float, s: int) -> None:
    # few digits, so that the mapped rows are exact or nearly so
    blocks = np.round(np.random.default_rng(s).standard_normal((40, s, 2)), 3)
    before = StudentT().fit_blocks(blocks)
    after = StudentT().fit_blocks(blocks @ matrix.T + shift)
    assert before.ok.all()
    assert after.ok.all()
    for i in range(len(blocks)):
        moved = before[i].transformed(matrix, np.full(2, shift))
        assert_same(after[i], moved, 1e-9 if s > 6 else 1e-8)


@pytest.mark.parametrize("s", [8, 50])
def test_one_row_moves_it_by_a_bounded_amount(s: int) -> None:
    blocks = np.repeat(np.random.default_rng(1).standard_normal((1, s, 2)), 4, axis=0)
    for block, far in zip(blocks[1:], (1e3, 1e12, 1e100), strict=True):
        block[0] = [far, -far]
    fits = StudentT().fit_blocks(blocks)
    assert fits.ok.all()
    # however far it lies, in the end only its direction counts
    for i in (2, 3):
        assert_same(fits[i], fits[1], 0.02)
    shift = np.linalg.solve(fits.cholesky[0, 0], fits.means[3, 0] - fits.means[0, 0])
    ratio = np.linalg.solve(fits.cholesky[0, 0], fits.cholesky[3, 0])
    assert np.linalg.norm(shift) < 1.0
    assert np.linalg.eigvalsh(ratio @ ratio.T).max() < (20 if s == 8 else 1.7)


def test_a_fit_depends_on_its_block_to_the_last_bit() -> None:
    rng = np.random.default_rng(2)
    blocks = rng.standard_normal((5000, 8, 2))  # enough for several threads
    fits = StudentT().fit_blocks(blocks, rng=0)
    for i in (0, 1, 2500, 4999):
        assert same_fit(fits, i, StudentT().fit_blocks(blocks[i : i + 1], rng=7), 0)
    others = rng.standard_cauchy(blocks.shape) * 1e9
    others[3] = blocks[3]
    assert same_fit(fits, 3, StudentT().fit_blocks(others), 3)


@pytest.mark.parametrize("s", [6, 8, 40])
def test_heavy_tails_have_fits(s: int) -> None:
    rng = np.random.default_rng(s)
    cauchy = rng.standard_cauchy((300, s, 2))
    delays = np.round(15 * np.exp(1.5 * rng.standard_normal((300, s, 2)))) - 10
    for blocks in (cauchy, delays):
        fits = StudentT().fit_blocks(blocks)
        assert fits.ok.mean() > 0.95
        spread = np.log(fits.covariances[fits.ok][:, 0, 0, 0])
        # plain variances of Cauchy rows scatter over many powers of ten
        assert spread.std() < (2.0 if s < 10 else 0.8)


def test_too_many_rows_on_a_line_have_no_fit() -> None:
    rows = np.random.default_rng(3).standard_normal((50, 2))
    rows[:25, 0] = 0.0  # half of them: fewer than four fifths
    assert StudentT().fit_blocks(rows[None]).ok.all()
    rows[:45, 0] = 0.0
    batch, (reason,) = StudentT().fit_blocks_with_reasons(rows[None])
    assert not batch.ok.any()
    assert reason in ("rank-deficient", "not settled")


@pytest.mark.parametrize(("s", "d"), [(6, 2), (8, 3), (25, 2), (60, 20), (700, 5)])
def test_scatter_of_gaussian_rows_is_their_covariance(s: int, d: int) -> None:
    t = max(300, 20_000 // s)
    blocks = np.random.default_rng([9, s, d]).standard_normal((t, s, d))
    fits = StudentT().fit_blocks(blocks)
    logs = 2 * np.log(np.diagonal(fits.cholesky[:, 0], axis1=1, axis2=2)).mean(axis=1)
    # the table has an error of its own, from blocks fewer than four times as many
    assert abs(logs.mean()) < 4 * 2 * logs.std() / np.sqrt(t) + 2e-3


@pytest.mark.parametrize(("s", "d"), [(4, 1), (6, 2), (18, 1), (9, 5), (33, 10)])
def test_the_table_holds_what_is_simulated(s: int, d: int) -> None:
    # at the table's own sizes: the same rows, so the same number
    assert scatter_scale(s, d) == pytest.approx(simulated_scale(s, d), rel=2e-5)


def test_sizes_grow_with_the_rows() -> None:
    for d in (1, 2, 7, 20):
        sizes = [scatter_scale(s, d) for s in (d + 4, d + 9, d + 50, d + 300, 10**4, 10**8)]
        assert sizes == sorted(sizes)
    assert scatter_scale(10**12, 1) == pytest.approx(0.629662, abs=1e-6)
    # beyond the table: simulated, and where it was expected
    assert scatter_scale(60, 21) == pytest.approx(scatter_scale(60, 20), rel=0.1)


def test_is_known_by_name_but_not_offered() -> None:
    kind = LEARNERS["student"]
    assert not kind.offered
    assert kind.most_components == 1
    assert all(other.offered for name, other in LEARNERS.items() if name != "student")
    assert make_learner("student", 1) == StudentT()
    with pytest.raises(InvalidInput, match="at most 1"):
        make_learner("student", 2)
    with pytest.raises(InvalidInput, match="must be 1"):
        StudentT(2)
    with pytest.raises(InvalidInput, match="at least 1"):
        StudentT(degrees=0.5)


def test_no_blocks_and_no_rows() -> None:
    warm_student()
    assert len(StudentT().fit_blocks(np.empty((0, 8, 2)))) == 0
    assert isinstance(StudentT().fit_blocks(np.empty((2, 0, 2))), MixtureBatch)
