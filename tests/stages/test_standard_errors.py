"""Standard errors as a value: the delta method, and what is written down."""

from __future__ import annotations

import json

import numpy as np
import pytest

from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.stages.refinement.noisy_moments import _moved
from privgmm.stages.standard_errors import StandardErrors

MIXTURE = Mixture(
    [0.2, 0.3, 0.5],
    [[-1.0, 0.5], [1.0, 0.0], [0.0, 4.0]],
    [[[1.0, 0.3], [0.3, 0.5]], [[0.4, -0.1], [-0.1, 0.8]], [[2.0, 0.5], [0.5, 0.3]]],
)


def small_covariance() -> np.ndarray:
    factor = 1e-3 * np.random.default_rng(1).standard_normal((18, 18))
    return np.asarray(factor @ factor.T)


def flat(value: float, *, well_specified: bool = True) -> StandardErrors:
    """Make the errors of one component in one column, all equal."""
    line, square, cube = (np.full((1,) * size, value) for size in (1, 2, 3))
    return StandardErrors(line, square, cube, cube, well_specified)


def test_they_are_the_scatter_of_mixtures_that_are_moved() -> None:
    """By many draws of local coordinates: the definition, without derivatives."""
    covariance = small_covariance()
    errors = StandardErrors.from_local(MIXTURE.weights, MIXTURE.cholesky, covariance)
    rng = np.random.default_rng(2)
    steps = rng.multivariate_normal(np.zeros(18), covariance, 3_000).reshape(-1, 3, 6)
    moved = [_moved(MIXTURE, step) for step in steps]
    for name in ("weights", "means", "covariances"):
        scatter = np.std([getattr(one, name) for one in moved], axis=0)
        assert getattr(errors, name) == pytest.approx(scatter, rel=4 / np.sqrt(2 * 3_000))
    means = np.stack([one.means for one in moved])
    for c in range(3):
        assert errors.mean_covariances[c] == pytest.approx(
            np.cov(means[:, c].T), abs=0.1 * errors.mean_covariances[c].max()
        )
    assert np.allclose(errors.means**2, np.einsum("kii->ki", errors.mean_covariances))


def test_units_go_through() -> None:
    """Errors in other units are those of the mixture in other units, whichever root is taken."""
    covariance, matrix = small_covariance(), np.diag([1e3, 1e-3])
    here = StandardErrors.from_local(MIXTURE.weights, MIXTURE.cholesky, covariance)
    there = StandardErrors.from_local(MIXTURE.weights, matrix @ MIXTURE.cholesky, covariance)
    assert there.means == pytest.approx(here.means @ matrix)
    assert there.covariances == pytest.approx(matrix @ here.covariances @ matrix)
    assert there.weights == pytest.approx(here.weights)


def test_a_common_shift_of_log_weights_says_nothing() -> None:
    covariance = small_covariance()
    shifted = covariance.copy()
    shifted[::6, ::6] += 7.0
    plain, more = (
        StandardErrors.from_local(MIXTURE.weights, MIXTURE.cholesky, one)
        for one in (covariance, shifted)
    )
    assert more.weights == pytest.approx(plain.weights, rel=1e-6)


def test_it_is_a_value_and_is_written_with_six_digits() -> None:
    errors = StandardErrors.from_local(MIXTURE.weights, MIXTURE.cholesky, small_covariance())
    again = StandardErrors.from_dict(json.loads(json.dumps(errors.to_dict())))
    assert again.covariances == pytest.approx(errors.covariances, rel=1e-5)
    assert StandardErrors.from_dict(again.to_dict()) == again
    assert hash(StandardErrors.from_dict(again.to_dict())) == hash(again)
    assert again != errors
    assert again != 3
    assert not errors.means.flags.writeable
    assert "privacy noise" in errors.meaning
    zero = flat(0.0, well_specified=False)
    assert StandardErrors.from_dict(zero.to_dict()) == zero
    assert "how far the rows are" in zero.meaning


def test_what_are_no_errors_is_refused() -> None:
    form = flat(0.1).to_dict()
    for name in form:
        with pytest.raises(InvalidInput, match=name):
            StandardErrors.from_dict({key: one for key, one in form.items() if key != name})
    for name, wrong, said in [
        ("weights", [-0.1], "negative"),
        ("means", [[0.1, 0.1]], "covariances"),
        ("well_specified", 1, "true or false"),
    ]:
        with pytest.raises(InvalidInput, match=said):
            StandardErrors.from_dict({**form, name: wrong})
