"""The baseline `dp_kmeans`: noisy k-means, and a Gaussian for every cluster, in a known box."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from privgmm.arrays import Array
from privgmm.baselines.account import NoiseAccount
from privgmm.baselines.baseline import Baseline, BaselineTask, Needs, gaussians_of
from privgmm.baselines.moment_sums import ALL_MOMENTS, LEAST_SENSITIVITY, GroupSums
from privgmm.baselines.starts import everything, spread_points, unit_gaussian
from privgmm.budget import Budget
from privgmm.methods.method import Look
from privgmm.mixture import Mixture
from privgmm.privacy.noise import NoiseSource

__all__ = ["DPKMeans", "nearest_centre"]


def nearest_centre(points: Array, centres: Array) -> Array:
    """Compute shares (m, k): one for the nearest centre, zero for the others."""
    distances = (centres * centres).sum(axis=1) - 2 * points @ centres.T
    return np.asarray(np.eye(len(centres))[np.argmin(distances, axis=1)])


class DPKMeans(Baseline):
    """Noisy Lloyd passes, then noisy moments of every cluster.

    After Blum, Dwork, McSherry and Nissim (2005) and Su, Cao, Li, Bertino and Jin, *Differentially
    Private k-Means Clustering* (2016): a fixed, small number of passes, each with noisy counts and
    sums. One pass at the end takes second moments as well.

    Notes
    -----
    Clusters are cut at the middle between their centres, so covariances are too small where
    components overlap: that is k-means, not noise.
    """

    name: ClassVar[str] = "dp_kmeans"
    title: ClassVar[str] = "DP k-means"
    sentence: ClassVar[str] = (
        "runs k-means on rows in a known box with noise on its sums, then fits a Gaussian to each "
        "cluster"
    )
    look: ClassVar[Look] = Look("#A66A2C", "dot", 2.5)
    needs: ClassVar[Needs] = Needs(True, False, "a box that holds the rows")

    passes: ClassVar[int] = 5
    """Lloyd passes between the first, for the moments of all rows, and the last; each one costs."""
    centre_sums: ClassVar[GroupSums] = GroupSums((0.7, 0.7))
    sums: ClassVar[GroupSums] = ALL_MOMENTS

    def account(self, budget: Budget) -> NoiseAccount:
        """Compute the noise of one draw per pass, the first and the last included."""
        return NoiseAccount.for_budget(budget, self.passes + 2, LEAST_SENSITIVITY)

    def learn(self, task: BaselineTask, account: NoiseAccount, source: NoiseSource) -> Mixture:
        """Run all passes, in the unit ball."""
        points, k, d = task.points, task.n_components, task.bounds.n_features
        first = self.sums.noisy(points, everything(points), account, source)
        pooled = gaussians_of(first, unit_gaussian(d))
        centres = spread_points(pooled, k, source)
        for _ in range(self.passes):
            shares = nearest_centre(points, centres)
            noisy = self.centre_sums.noisy(points, shares, account, source)
            known = noisy.counts > 2 * noisy.deviations[0]
            moved = noisy.firsts / np.where(known, noisy.counts, 1.0)[:, None]
            moved /= np.maximum(1.0, np.linalg.norm(moved, axis=1, keepdims=True))
            centres = np.where(known[:, None], moved, centres)
        last = self.sums.noisy(points, nearest_centre(points, centres), account, source)
        unknown = Mixture.from_roots(
            np.full(k, 1 / k), centres, np.repeat(pooled.cholesky, k, axis=0)
        )
        return task.bounds.from_unit_ball(gaussians_of(last, unknown))
