"""Covariances of errors: limits that are known, and mixtures that are moved."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.covariance_structures import structure_names
from privgmm.mixture import Mixture
from privgmm.stages.quadrature import points_of, scores
from privgmm.stages.refinement.moment_law import moment_law
from privgmm.stages.refinement.noisy_moments import _moved, winsorised_features
from privgmm.stages.sketch.error_covariances import (
    MomentNoise,
    after_noisy_em,
    after_projection,
    after_refinement,
    computed_covariance,
    errors_in_data_units,
    rich_covariance,
)
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.fitting import Viewpoint, expected_information
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.nearest import nearest_mixture
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.stages.sketch.structures import structure_of

FRAME = Frame([3.0, -1.0], [[2.0, 0.0], [0.5, 0.7]])
MIXTURE = Mixture(
    [0.4, 0.6],
    [[-0.8, 0.0], [0.7, 0.2]],
    [[[0.2, 0.05], [0.05, 0.3]], [[0.1, -0.02], [-0.02, 0.2]]],
)
RICH = Mixture(
    [0.3, 0.3, 0.4],
    [[-1.0, 0.0], [0.2, 0.4], [1.0, -0.2]],
    [[[0.3, 0.0], [0.0, 0.2]], [[0.2, 0.1], [0.1, 0.3]], [[0.1, 0.0], [0.0, 0.4]]],
)
N = 20_000
SILENT = MomentNoise(0.0, 0.0, 0.0)


def sketch(noise: float) -> PrivateSketch:
    """Make a sketch, of which frequencies, noise and number of rows matter here."""
    shape = SketchShape(12, 8, 0.8)
    return PrivateSketch(
        FRAME,
        shape.directions(FRAME),
        shape.step,
        np.zeros(shape.size, dtype=np.complex128),
        np.full(shape.n_frequencies, noise),
        N,
    )


def fisher(mixture: Mixture) -> Array:
    rows, mass = points_of(mixture)
    seen = scores(mixture, rows)
    return np.asarray((seen.T * mass) @ seen)


def inverse(matrix: Array) -> Array:
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)


def numbers(mixture: Mixture, covariance: Array) -> Array:
    """Put all standard errors in one row."""
    errors = errors_in_data_units(FRAME, mixture, covariance)
    assert errors is not None
    return np.concatenate([errors.weights, errors.means.ravel(), errors.covariances.ravel()])


def test_refinement_that_is_all_noise_leaves_the_sketch() -> None:
    one = sketch(0.005)
    loud = after_refinement(Viewpoint(one, MIXTURE), 3.0, np.full(6, 1e3), winsorised_features)
    start = one.fitted_from
    information = expected_information(MIXTURE, one.frequencies[start:], one.deviations[start:], N)
    assert numbers(MIXTURE, loud) == pytest.approx(numbers(MIXTURE, inverse(information)), rel=2e-3)


def test_a_sketch_that_is_all_noise_leaves_the_moments() -> None:
    deviations = np.array([0.001, 0.002, 0.002, 0.004, 0.004, 0.004])
    quiet = after_refinement(Viewpoint(sketch(1e3), MIXTURE), 3.0, deviations, winsorised_features)
    law = moment_law(MIXTURE, 3.0, deviations, N, winsorised_features)
    information = law.slope.T @ np.linalg.solve(law.covariance, law.slope) + 1e-3 * np.eye(12)
    assert numbers(MIXTURE, quiet) == pytest.approx(
        numbers(MIXTURE, inverse(information)), rel=1e-2
    )


def test_what_the_rows_do_not_tell_twice_is_not_counted_twice() -> None:
    """Without noise sketch and moments hold equal information: together that of the rows.

    Informations added as if they were independent would claim to know more than that.
    """
    together = after_refinement(
        Viewpoint(sketch(1e-5), MIXTURE), 20.0, np.full(6, 1e-6), winsorised_features
    )
    least = numbers(MIXTURE, inverse(N * fisher(MIXTURE) + np.eye(12)))
    found = numbers(MIXTURE, together)
    assert (found > 0.98 * least).all()
    assert (found < 1.1 * least).all()


@pytest.mark.parametrize("covariance_type", structure_names())
def test_projections_move_as_they_are_said_to(covariance_type: str) -> None:
    """Move the richer mixture along one coordinate after another and project it again."""
    structure = structure_of(covariance_type, FRAME)
    near = nearest_mixture(RICH, 2, structure)
    for j in (1, 10):
        direction = np.zeros(18)
        direction[j] = 1.0
        stated = numbers(
            near, after_projection(near, RICH, np.outer(direction, direction), structure)
        )
        step = 1e-3
        ahead, behind = (
            FRAME.mixture_from_frame(
                nearest_mixture(_moved(RICH, s * direction.reshape(3, 6)), 2, structure, [near])
            )
            for s in (step, -step)
        )
        if np.abs(ahead.means - behind.means).max() > 0.5:
            ahead = ahead.permuted([1, 0])
        moves = [
            (getattr(ahead, name) - getattr(behind, name)).ravel() / (2 * step)
            for name in ("weights", "means", "covariances")
        ]
        assert np.abs(np.concatenate(moves)) == pytest.approx(stated, abs=0.15 * stated.max())


def test_noisy_em_without_noise_is_maximum_likelihood() -> None:
    least = numbers(MIXTURE, inverse(N * fisher(MIXTURE) + 1e-3 * np.eye(12)))
    found = after_noisy_em(MIXTURE, MIXTURE, SILENT, N, 6)
    assert numbers(MIXTURE, found) == pytest.approx(least, rel=0.03)
    slow = rich_covariance(MIXTURE, SILENT, N, 1e6)
    assert numbers(MIXTURE, slow) == pytest.approx(least, rel=0.03)


def test_noise_adds_to_noisy_em() -> None:
    """In far components alone: a mean is off by its noise over its share of the rows."""
    far = Mixture([0.3, 0.7], [[-50.0, 0.0], [50.0, 0.0]], [np.eye(2), np.eye(2)])
    noise = MomentNoise(1e-3, 2e-3, 5e-3)
    quiet, loud = (after_noisy_em(far, far, one, 1e12, 1e9) for one in (SILENT, noise))
    added = loud - quiet
    errors = errors_in_data_units(Frame(np.zeros(2), np.eye(2)), far, added)
    assert errors is not None
    assert errors.means == pytest.approx(np.outer(2e-3 / far.weights, [1, 1]), rel=0.05)
    diagonal = np.einsum("kii->ki", errors.covariances)
    assert diagonal == pytest.approx(np.outer(5e-3 / far.weights, [1, 1]), rel=0.05)
    # shares are divided by their sum: of two, one is what the other is not
    assert errors.weights == pytest.approx(1e-3 * np.full(2, np.hypot(0.3, 0.7)), rel=0.05)


def test_errors_that_cannot_be_computed_are_left_out() -> None:
    """What was paid for must not be lost for want of an error."""

    def singular() -> Array:
        return inverse(np.zeros((12, 12)))

    assert computed_covariance(singular) is None
    assert errors_in_data_units(FRAME, MIXTURE, None) is None
    assert errors_in_data_units(FRAME, MIXTURE, np.full((12, 12), np.nan)) is None


def test_steps_that_are_averaged_have_less_noise() -> None:
    deviations = np.array([0.1, 0.2, 0.2, 0.5, 0.5, 0.5])
    assert MomentNoise.averaged(deviations, 2, 4) == pytest.approx((0.05, 0.1, 0.25))


def test_few_steps_leave_noise_no_time_to_grow() -> None:
    """Components on top of each other: EM is slow, and so is what noise does to it."""
    same = Mixture([0.5, 0.5], [[0.0, 0.0], [0.1, 0.0]], [np.eye(2), np.eye(2)])
    noise = MomentNoise(1e-3, 2e-3, 5e-3)
    few, many = (numbers(same, rich_covariance(same, noise, N, steps)) for steps in (5, 500))
    assert (few < many).all()
    assert dataclasses.is_dataclass(sketch(1.0))
