"""Noisy EM: near EM where noise is small, bounded where it is large."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.data.people import ArrayPeople
from privgmm.distances.parameters import dist_param
from privgmm.learners.em import EM
from privgmm.mixture import Mixture
from privgmm.privacy.noise import noise_source
from privgmm.stages.refinement.noisy_em import NoisyEM, averaging
from privgmm.stages.refinement.winsorised import WinsorisedMoments

TRUTH = Mixture(
    [0.35, 0.65], [[-2.0, 0.0], [2.0, 0.5]], [[[0.6, 0.2], [0.2, 0.4]], [[1.0, -0.3], [-0.3, 0.8]]]
)
ROWS = TRUTH.sample(30_000, rng=1)
START = Mixture([0.5, 0.5], [[-1.5, 0.3], [1.5, 0.0]], [np.eye(2), np.eye(2)])


def run(multiplier: float, *, seed: int = 0, radius: float = 4.5, steps: int = 14) -> Mixture:
    em = NoisyEM(
        ArrayPeople.of(ROWS),
        START,
        WinsorisedMoments(radius),
        multiplier=multiplier,
        source=noise_source(np.random.default_rng(seed)),
    )
    return em.run(averaging(steps, 4))


def test_without_noise_it_ends_where_em_does() -> None:
    found = run(1e-6, steps=40)
    assert dist_param(found, EM(2).fit(ROWS, rng=0)) < 0.02


def test_more_noise_moves_it_farther_on_average() -> None:
    apart = [
        np.median([dist_param(run(m, seed=s), TRUTH) for s in range(5)]) for m in (2.0, 40.0, 200.0)
    ]
    assert apart[0] < apart[1] < apart[2]
    assert apart[0] < 0.06


@pytest.mark.parametrize("multiplier", [1e4, 1e7])
def test_no_noise_can_blow_it_up(multiplier: float) -> None:
    """Every step is bounded: after six of them nothing is beyond six bounded steps."""
    found = run(multiplier, steps=6)
    assert np.isfinite(found.means).all()
    scale = np.linalg.eigvalsh(found.covariances)
    assert scale.min() >= 0.15**6 * 0.99
    assert scale.max() <= 6.0**6 * 1.01


def test_the_last_steps_are_averaged() -> None:
    """With equal noise per step, averaging brings the answer nearer."""
    errors = {}
    for averaged in (0, 6):
        found = []
        for seed in range(8):
            em = NoisyEM(
                ArrayPeople.of(ROWS),
                START,
                WinsorisedMoments(3.5),
                multiplier=60.0,
                source=noise_source(np.random.default_rng(seed)),
            )
            found.append(dist_param(em.run(averaging(14, averaged)), TRUTH))
        errors[averaged] = float(np.median(found))
    assert errors[6] < 0.75 * errors[0]
