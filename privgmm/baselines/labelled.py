"""The baseline `labelled`: an oracle that is given the component of each row."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from privgmm.baselines.account import NoiseAccount
from privgmm.baselines.baseline import Baseline, BaselineTask, Needs, gaussians_of
from privgmm.baselines.moment_sums import ALL_MOMENTS, LEAST_SENSITIVITY, GroupSums
from privgmm.baselines.starts import unit_gaussian
from privgmm.budget import Budget
from privgmm.errors import InvalidInput
from privgmm.methods.method import Look
from privgmm.mixture import Mixture
from privgmm.privacy.noise import NoiseSource

__all__ = ["LabelledOracle"]


class LabelledOracle(Baseline):
    """Noisy moments of every labelled class, in one pass.

    In practice no one has these labels, or there would be nothing to learn: it shows the best that
    noisy moments within the same box could reach. A row's label is as confidential as the row, and
    is replaced with it.
    """

    name: ClassVar[str] = "labelled"
    title: ClassVar[str] = "Oracle with labels"
    sentence: ClassVar[str] = (
        "is given the component of each row, and adds noise to the moments of each component"
    )
    look: ClassVar[Look] = Look("#5F8A1F", "longdashdot", 2.5)
    needs: ClassVar[Needs] = Needs(
        True, True, "a box that holds the rows, and the component of each row"
    )

    sums: ClassVar[GroupSums] = ALL_MOMENTS

    def account(self, budget: Budget) -> NoiseAccount:
        """Compute the noise of a single draw."""
        return NoiseAccount.for_budget(budget, 1, LEAST_SENSITIVITY)

    def learn(self, task: BaselineTask, account: NoiseAccount, source: NoiseSource) -> Mixture:
        """Take the moments of every class in one pass."""
        if task.labels is None:
            raise InvalidInput(
                "labels must be given: this baseline learns each component from its own rows"
            )
        k = task.n_components
        noisy = self.sums.noisy(task.points, np.eye(k)[task.labels], account, source)
        d = task.bounds.n_features
        unknown = Mixture(
            np.full(k, 1 / k), np.zeros((k, d)), np.repeat(unit_gaussian(d).covariances, k, axis=0)
        )
        return task.bounds.from_unit_ball(gaussians_of(noisy, unknown))
