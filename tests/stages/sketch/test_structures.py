"""Covariance types: which mixtures they allow, and how these move."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.covariance_structures import structure_names
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.structures import (
    NARROWEST,
    numbers_per_component,
    pack,
    structure_of,
    unpack,
)

D, K = 3, 2
ROOT = np.array([[200.0, 30.0, -10.0], [0.4, 1.0, 0.2], [-0.01, 0.02, 0.05]])
"""Columns in very different units."""
FRAME = Frame([1.0, 2.0, 3.0], ROOT)


def theta_of(seed: int) -> Array:
    rng = np.random.default_rng(seed)
    roots = np.tril(0.2 * rng.standard_normal((K, D, D)))
    roots[:, range(D), range(D)] = rng.uniform(0.3, 1.2, (K, D))
    return pack(np.array([0.3, 0.7]), rng.standard_normal((K, D)), roots)


def in_data(theta: Array) -> Mixture:
    return FRAME.mixture_from_frame(Mixture.from_roots(*unpack(theta, D)))


def allowed(covariance_type: str, mixture: Mixture) -> bool:
    """Check what scikit-learn means by the type, on the covariances in data units."""
    covariances = mixture.covariances
    sizes = np.sqrt(np.einsum("kii->ki", covariances))
    scaled = covariances / (sizes[:, :, None] * sizes[:, None, :])
    if covariance_type == "tied":
        return np.allclose(covariances[0], covariances[1], rtol=1e-9)
    if covariance_type == "full":
        return True
    uncorrelated = np.allclose(scaled, np.eye(D), atol=1e-8)
    equal = np.allclose(sizes, sizes[:, :1], rtol=1e-8)
    return uncorrelated and (equal or covariance_type == "diag")


@pytest.mark.parametrize("covariance_type", structure_names())
def test_the_nearest_is_allowed_and_stays(covariance_type: str) -> None:
    structure = structure_of(covariance_type, FRAME)
    assert structure.described.name == covariance_type
    theta = theta_of(1)
    near = structure.nearest(theta, D)
    assert allowed(covariance_type, in_data(near))
    assert near[:, : 1 + D] == pytest.approx(theta[:, : 1 + D])
    assert structure.nearest(near, D) == pytest.approx(near, abs=1e-9)
    moved = structure.moved(near, 0.1 * np.ones(structure.n_free(K, D)), D)
    assert allowed(covariance_type, in_data(moved))
    still = structure.moved(near, np.zeros(structure.n_free(K, D)), D)
    assert still == pytest.approx(near, abs=1e-9)


@pytest.mark.parametrize("covariance_type", structure_names())
def test_tangents_are_derivatives_and_as_many_as_are_free(covariance_type: str) -> None:
    structure = structure_of(covariance_type, FRAME)
    near = structure.nearest(theta_of(2), D)
    tangent = structure.tangent(near, D)
    free = structure.n_free(K, D)
    if tangent is None:
        assert free == near.size
        return
    assert tangent.shape == (near.size, free)
    assert np.linalg.matrix_rank(tangent) == free
    for j in range(free):
        step = np.zeros(free)
        step[j] = 1e-5
        ahead, behind = (structure.moved(near, s, D).ravel() for s in (step, -step))
        assert tangent[:, j] == pytest.approx((ahead - behind) / 2e-5, abs=1e-6)


def test_free_numbers_are_counted_as_by_scikit_learn() -> None:
    """Weights, means, covariances; here the common shift of the log-weights counts as well."""
    counts = {kind: structure_of(kind, FRAME).n_free(K, D) for kind in structure_names()}
    assert counts == {
        "full": K * numbers_per_component(D),
        "tied": K * (1 + D) + 6,
        "diag": K * (1 + 2 * D),
        "spherical": K * (2 + D),
    }


@pytest.mark.parametrize("covariance_type", structure_names())
def test_narrow_components_are_widened_within_their_type(covariance_type: str) -> None:
    structure = structure_of(covariance_type, FRAME)
    theta = theta_of(3)
    theta[1, 1 + D :] -= 12.0 * (np.abs(theta[1, 1 + D :]) > -1)
    near = structure.nearest(theta, D)
    wide, narrow = structure.widened(near, D)
    assert allowed(covariance_type, in_data(wide))
    again, still = structure.widened(wide, D)
    assert not still.any() or np.allclose(again, wide, atol=1e-6)
    if covariance_type == "full":
        assert narrow.tolist() == [False, True]
        widths = np.linalg.svd(unpack(wide, D).roots)[1]
        assert widths.min() == pytest.approx(NARROWEST)
        assert wide[0] == pytest.approx(near[0])
    same, none = structure.widened(structure.nearest(theta_of(4), D), D)
    assert not none.any()
    assert same == pytest.approx(structure.nearest(theta_of(4), D))


def test_exact_mixtures_have_zeros_where_they_belong() -> None:
    for kind in ("diag", "spherical"):
        structure = structure_of(kind, FRAME)
        rough = in_data(structure.nearest(theta_of(5), D))
        exact = structure.made_exact(rough)
        assert not (exact.covariances * (1 - np.eye(D))).any()
        sizes = np.einsum("kii->ki", rough.covariances)
        assert np.einsum("kii->ki", exact.covariances) == pytest.approx(sizes, rel=1e-6)
        if kind == "spherical":
            assert len(set(np.einsum("kii->ki", exact.covariances)[0].tolist())) == 1


def test_other_types_are_refused() -> None:
    for wrong in ("round", "", None, 3):
        with pytest.raises(InvalidInput, match="full, tied, diag, spherical"):
            structure_of(wrong, FRAME)  # type: ignore[arg-type]
