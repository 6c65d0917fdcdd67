"""Compile every kernel once, so that the first real call does not wait.

``python -m privgmm.compile_kernels`` fills the on-disk cache; the Makefile runs it at set-up.
"""

from __future__ import annotations

import numpy as np

from privgmm.data.people import ArrayPeople
from privgmm.distances.all_pairs import pairwise_dist_param
from privgmm.distances.mixture_variation import mixture_tv
from privgmm.distances.total_variation import gaussian_hockey_stick, gaussian_tv
from privgmm.learners.em.fitting import warm_em
from privgmm.learners.moments.fitting import warm_moments
from privgmm.learners.student import StudentT
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.stages.agreement.lifted_space import LiftedSpace
from privgmm.stages.refinement.noisy_moments import cut_sums
from privgmm.stages.refinement.projection import vote_sums
from privgmm.stages.refinement.soft_looks import SoftLook, Units, look_sums
from privgmm.stages.refinement.winsorised import WinsorisedMoments, winsorised_sums
from privgmm.stages.sketch import fitting, nearest
from privgmm.stages.sketch.features import SketchShape, feature_sums, fixed_point_scale
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.wide.subspace import Projection

__all__ = ["compile_all"]


def _strangers(d: int) -> MixtureBatch:
    """Make eight similar fits and two that match none, to run every branch of the pair kernels."""
    rng = np.random.default_rng(0)
    fits = []
    for i in range(10):
        shift = 0.01 if i < 8 else 30.0
        means = 6.0 * np.arange(3)[:, None] + shift * rng.standard_normal((3, d))
        roots = np.eye(d) + 0.05 * np.tril(rng.standard_normal((3, d, d)))
        fits.append(Mixture.from_roots([0.2, 0.3, 0.5], means, roots))
    return MixtureBatch.of(fits)


def _warm_sketch(mixture: Mixture) -> None:
    """Compile the kernels of method `sketch`, with rows and with persons."""
    d = mixture.n_features
    rows = mixture.sample(12, rng=0)
    frame, shape = Frame(np.zeros(d), np.eye(d)), SketchShape.default(d)
    for member in (None, np.arange(12) // 2):
        people = ArrayPeople.of(rows, member)
        feature_sums(people, frame, shape, scale=fixed_point_scale(12))
        winsorised_sums(people, mixture, WinsorisedMoments(3.0))
        vote_sums(people, [mixture, mixture], 2.0)
        look_sums(people, Units(np.zeros(d), np.ones(d)), mixture, SoftLook(0.0, 1.0))
    Projection(np.zeros(d), np.eye(d))(rows)
    fits = StudentT().fit_blocks(mixture.sample(40, rng=1).reshape(2, 20, d), rng=0)
    LiftedSpace(0.1).placed(fits, 1.0)
    fitting.warm_fitting()
    nearest.warm_nearest()


def compile_all() -> None:
    """Compile every kernel, by running it on something tiny."""
    warm_em()
    warm_moments()
    batch = _strangers(5)
    pairwise_dist_param(batch)
    space = LiftedSpace(0.1, clearance=8.0)
    space.distances(batch)
    space.representative(batch, np.ones(len(batch)), 0)
    cut_sums(ArrayPeople.of(np.zeros((4, 5))), batch[0], 3.0, (0.4, 0.6, 1.0), 2.0**30)
    _warm_sketch(batch[0])
    first, second = batch[0].marginal([0, 1]), batch[8].marginal([0, 1])
    ill = np.diag([1.0, 1e-8])
    gaussian_tv(first.means[0], ill, first.means[1], 2 * ill)
    gaussian_hockey_stick(
        first.means[0], first.covariances[0], second.means[0], second.covariances[0], 0.5
    )
    mixture_tv(first.marginal([0]), second.marginal([0]))
    mixture_tv(first, second)


if __name__ == "__main__":
    compile_all()
