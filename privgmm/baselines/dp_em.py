"""The baseline `dp_em`: EM whose sums carry noise, for rows in a known ball."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from privgmm.arrays import Array
from privgmm.baselines.account import NoiseAccount
from privgmm.baselines.baseline import Baseline, BaselineTask, Needs, gaussians_of
from privgmm.baselines.moment_sums import ALL_MOMENTS, LEAST_SENSITIVITY, GroupSums
from privgmm.baselines.starts import everything, spread_starts, unit_gaussian
from privgmm.budget import Budget
from privgmm.methods.method import Look
from privgmm.mixture import Mixture
from privgmm.privacy.noise import NoiseSource

__all__ = ["DPEM", "posteriors"]


def posteriors(points: Array, public: Mixture) -> Array:
    """Compute shares (m, k): posterior probabilities of the components of a public mixture."""
    logs = public.log_joint(points)
    logs -= logs.max(axis=1, keepdims=True)
    shares = np.exp(logs)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


class DPEM(Baseline):
    """Noisy EM: in every pass, noisy sums of posterior shares, means and second moments.

    After Park, Foulds, Chaudhuri and Welling, *DP-EM: Differentially Private Expectation
    Maximization* (2017), with the noise on sums and a joint account of all passes.

    Notes
    -----
    The first pass learns the mean and covariance of all rows; starts are spread over that ellipse,
    and the other passes are EM.
    """

    name: ClassVar[str] = "dp_em"
    title: ClassVar[str] = "DP-EM"
    sentence: ClassVar[str] = "runs EM on rows in a known ball and adds noise to the sums of a pass"
    look: ClassVar[Look] = Look("#2A9D8F", "dash", 2.5)
    needs: ClassVar[Needs] = Needs(True, False, "a ball that holds the rows")

    passes: ClassVar[int] = 8
    """Passes of EM, after one for the moments of all rows; few, because each one costs."""
    sums: ClassVar[GroupSums] = ALL_MOMENTS

    def account(self, budget: Budget) -> NoiseAccount:
        """Compute the noise of one draw per pass."""
        return NoiseAccount.for_budget(budget, self.passes + 1, LEAST_SENSITIVITY)

    def learn(self, task: BaselineTask, account: NoiseAccount, source: NoiseSource) -> Mixture:
        """Run all passes, in the unit ball."""
        points, k = task.points, task.n_components
        first = self.sums.noisy(points, everything(points), account, source)
        mixture = spread_starts(
            gaussians_of(first, unit_gaussian(task.bounds.n_features)), k, source
        )
        for _ in range(self.passes):
            noisy = self.sums.noisy(points, posteriors(points, mixture), account, source)
            mixture = gaussians_of(noisy, mixture)
        return task.bounds.from_unit_ball(mixture)
